"""Run a program with a fault planted in the translation: `python -m tests.cpu.planted FAULT script.py …`.

The only switch for such faults; the package has none. Ends with a line that says how many launches were checked.
"""

from __future__ import annotations

import atexit
import dataclasses
import runpy
import sys
from collections.abc import Callable
from typing import Any

from vdev.translators import access
from vdev.translators.ndrange import Chunk, NDRange
from vdev.translators.region import Region

from vdev import boot, programs
from vdev.session import get_session


def shifted_by_one_group() -> None:
    """Every chunk but the first gets the global ids of one work-group too early."""
    first = Chunk.first

    def wrong(self: Chunk, ndrange: NDRange) -> tuple[int, ...]:
        return first(Chunk(tuple(max(group - 1, 0) for group in self.start), self.stop), ndrange)

    Chunk.first = wrong  # type: ignore[method-assign]


def without_a_write() -> None:
    """Analysis leaves out the last 64 bytes of every write."""
    _change_ranges("write", lambda region: region.clip(region.start, region.stop - 64))


def without_a_read() -> None:
    """Analysis leaves out the last 64 bytes of every read."""
    _change_ranges("read", lambda region: region.clip(region.start, region.stop - 64))


def a_write_too_much() -> None:
    """Analysis is sure of 64 bytes more than are written."""
    _change_ranges("write", lambda region: region | region.shift(64))


def _change_ranges(mode: str, change: Callable[[Region], Region]) -> None:
    evaluate = access.KernelSummary.evaluate

    def wrong(self: Any, *arguments: Any) -> tuple[access.AccessRange, ...]:
        return tuple(
            dataclasses.replace(found, region=change(found.region)) if found.mode == mode else found
            for found in evaluate(self, *arguments)
        )

    access.KernelSummary.evaluate = wrong  # type: ignore[method-assign]


def another_text() -> None:
    """The translated kernel adds 2 where the user's adds 1."""
    translate = programs.translate_subgrid

    def wrong(program: Any) -> Any:
        found = translate(program)
        return dataclasses.replace(found, source=found.source.replace("+ 1;", "+ 2;"))

    programs.translate_subgrid = wrong


def none() -> None:
    """No fault."""


FAULTS = {
    function.__name__: function
    for function in (
        none,
        shifted_by_one_group,
        without_a_write,
        without_a_read,
        a_write_too_much,
        another_text,
    )
}


def say_what_was_checked() -> None:
    checker = get_session().checker
    print("launches checked:", "none" if checker is None else checker.nchecked)


def main() -> None:
    FAULTS[sys.argv[1]]()
    boot.start()
    atexit.register(say_what_was_checked)
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
