"""The forms of a program that checks itself: made when they are needed, or taken from what an earlier process kept.

Decides when the source is read: only if a form is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from vdev.session.program_cache import CachedProgram
from vdev.translators.dialects.checked import (
    ON_REQUEST,
    CheckedProgram,
    checked_of_plain,
    plain_checked,
    translate_checked,
    translate_fast,
    waits,
)
from vdev.translators.frontend.kernels import Untranslatable
from vdev.translators.frontend.source import ParsedProgram

__all__ = ["Forms"]


class Forms:
    """The forms of one program.

    `parse` parses it, and may raise Untranslatable. `kinds`: the kinds of findings that are looked for; `tracked`:
    see `translate_checked`. `kept`: where forms are kept.
    """

    def __init__(
        self,
        parse: Callable[[], ParsedProgram],
        kinds: frozenset[str] = frozenset(),
        *,
        tracked: bool = False,
        kept: CachedProgram | None = None,
    ) -> None:
        self._parse, self._kept = parse, kept
        self._kinds = kinds & ON_REQUEST
        self._tracked = tracked

    @property
    def precise(self) -> CheckedProgram:
        """The form that reports what it finds. Raises Untranslatable."""
        return _raised(self._precise)

    @property
    def fast(self) -> CheckedProgram | None:
        """The form that only says whether there may be findings; None if it does not look for all the kinds wanted.
        Raises Untranslatable.
        """
        return None if self._kinds else _raised(self._fast)

    @property
    def skipped(self) -> tuple[tuple[int, str], ...]:
        """What is not checked and why, by line, from whichever form exists. Raises Untranslatable."""
        made = (vars(self).get("_precise"), vars(self).get("_fast"))
        found = next((form for form in made if isinstance(form, CheckedProgram)), None)
        return (self.precise if found is None else found).skipped

    @cached_property
    def waits(self) -> bool:
        """Whether work-items of a group may have to wait for each other. Raises Untranslatable."""
        found = None if self._kept is None else self._kept.made("checked waits", _waits)
        if found is None:
            found = waits(self._parse())
            if self._kept is not None:
                self._kept.keep_made("checked waits", {"waits": found})
        return found

    @cached_property
    def _precise(self) -> CheckedProgram | Untranslatable:
        name = f"checked {sorted(self._kinds)} {self._tracked}"
        return self._made(name, lambda: translate_checked(self._parse(), self._kinds, tracked=self._tracked))

    @cached_property
    def _fast(self) -> CheckedProgram | Untranslatable:
        return self._made("checked fast", lambda: translate_fast(self._parse()))

    def _made(self, name: str, make: Callable[[], CheckedProgram]) -> CheckedProgram | Untranslatable:
        found = None if self._kept is None else self._kept.made(name, checked_of_plain)
        if found is not None:
            return found
        try:
            found = make()
        except Untranslatable as error:
            return error
        if self._kept is not None:
            self._kept.keep_made(name, plain_checked(found))
        return found


def _waits(plain: Mapping[str, Any]) -> bool:
    return bool(plain["waits"])


def _raised(found: CheckedProgram | Untranslatable) -> CheckedProgram:
    if isinstance(found, Untranslatable):
        raise Untranslatable(found.reason, found.line)
    return found
