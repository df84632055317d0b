"""The fast form of a check: it takes no mistake for none, and most correct launches end with it."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from tests.harness.pairs import PAIRS, Pair
from vdev.harness import Program, screening
from vdev.harness.arguments import prepare
from vdev.harness.program import Kernel, _argument, _memory
from vdev.harness.running import open_session
from vdev.harness.screening import Screen
from vdev.translators.frontend.layout import element_types
from vdev.translators.frontend.source import parse_program

#: What stands at the beginning of a line and declares a name.
_NAMES = re.compile(r"^(?:typedef .*\} (\w+);|[a-z][\w \*]*?\b(\w+)(?:\(|\[| =))", re.MULTILINE)
_SMALL = re.compile(r"char|short|half|uchar")


@cache
def together(small: bool) -> tuple[str, dict[str, str]]:
    """All pairs in one program, so that it is built once: (text, kernels' names by pair and side)."""
    texts, kernels = [], {}
    for number, pair in enumerate(PAIRS):
        for side, source in (("faulty", pair.faulty), ("twin", pair.twin)):
            if pair.options or bool(_SMALL.search(source)) != small:
                continue
            suffix = f"_{number}_{side}"
            names = {match[1] or match[2] for match in _NAMES.finditer(source)}
            texts.append("".join(f"#define {name} {name}{suffix}\n" for name in sorted(names)))
            texts.append(f"{source}\n" + "".join(f"#undef {name}\n" for name in sorted(names)))
            kernels[pair.name + side] = f"k{suffix}"
    return "".join(texts), kernels


@cache
def program(small: bool) -> tuple[Program, Screen]:
    text, _ = together(small)
    return Program(text), Screen(parse_program(text))


def passes(pair: Pair, side: str) -> bool | None:
    """Whether a launch of the pair passes the screen; None where its kernel has no fast form."""
    small = bool(_SMALL.search(getattr(pair, side)))
    _, kernels = together(small)
    if pair.name + side not in kernels:
        return None
    whole, screen = program(small)
    kernel: Kernel = whole.kernel(kernels[pair.name + side])
    infos, parsed = kernel._kernel.declared.args, kernel._kernel.program.parsed
    assert parsed is not None and screen.program is not None
    if kernel.name not in screen.program.kernels:
        return None
    ready = prepare(kernel.name, infos, element_types(parsed, kernel.name), pair.args)
    args = [_argument(arg, _memory(arg)) for arg in ready]
    grid = kernel._ndrange(pair.global_size, pair.local_size, None)
    found: bool = open_session("cpu:1").executor.call(
        0, lambda backend: screen.passes(backend, kernel.name, args, grid)
    )
    return found


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screening, "LEAST_ITEMS", 0)


def test_no_mistake_passes() -> None:
    found = {pair.name: passes(pair, "faulty") for pair in PAIRS}

    assert [name for name, passed in found.items() if passed] == []
    assert sum(passed is not None for passed in found.values()) > 0.8 * len(PAIRS)


def test_correct_launches_pass() -> None:
    found = {pair.name: passes(pair, "twin") for pair in PAIRS}

    missed = sorted(name for name, passed in found.items() if passed is False)
    assert missed == []
