"""Small kernels covering what OpenCL C has, as data: each line of the translator's list, with inputs, launch and tolerance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from . import conversions, execution, integers, language, mathematics, packed
from .case import Case, Local, differences

__all__ = ["Case", "Local", "all_cases", "batches", "differences"]


@lru_cache(maxsize=1)
def all_cases() -> tuple[Case, ...]:
    """Every case; names are unique."""
    found = tuple(
        case
        for module in (mathematics, integers, conversions, execution, language, packed)
        for case in module.cases()
    )
    names = [case.name for case in found]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise ValueError(f"cases of one name: {sorted(twice)}")
    return found


def batches(cases: Sequence[Case], most: int = 100) -> Iterator[tuple[str, tuple[str, ...], list[Case]]]:
    """Programs of at most `most` kernels: (text, build options, the cases whose kernels are in it)."""
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[Case]] = {}
    for case in cases:
        if case.alone:
            yield case.source, case.options, [case]
        else:
            together.setdefault((case.options, case.needs), []).append(case)
    for (options, _), group in together.items():
        for start in range(0, len(group), most):
            part = group[start : start + most]
            yield "\n".join(dict.fromkeys(case.source for case in part)), options, part
