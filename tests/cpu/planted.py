"""Run a program with a fault planted in the translation: `python -m tests.cpu.planted FAULT script.py …`.

The only switch for such faults; the package has none. Ends with a line that says how many launches were checked.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from vdev.translators.dialects import subgrid
from vdev.translators.interpreter import access, launch_ranges, memory
from vdev.translators.ranges.grain import of_unit
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev import boot
from vdev.executor import merge_steps
from vdev.planner import candidates, footprints, launches, merges
from vdev.session import shadow_runs
from vdev.start.current import get_session


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
    ranges_of = launch_ranges.LaunchRanges.of

    def wrong(self: Any, chunk: Chunk) -> tuple[access.AccessRange, ...]:
        return tuple(
            dataclasses.replace(found, region=change(found.region)) if found.mode == mode else found
            for found in ranges_of(self, chunk)
        )

    launch_ranges.LaunchRanges.of = wrong  # type: ignore[method-assign]


def an_element_short() -> None:
    """Analysis leaves out the last element of every write."""
    _change_ranges("write", lambda region: region.clip(region.start, region.stop - 4))


def a_read_element_short() -> None:
    """Analysis leaves out the first element of every read."""
    _change_ranges("read", lambda region: region.clip(region.start + 4, region.stop))


def a_row_too_far() -> None:
    """Analysis has every write one row of 256 bytes further on."""
    _change_ranges("write", lambda region: region.shift(256))


def hardly_a_write() -> None:
    """Analysis sees the first element of every write only: replicas are far too small."""
    _change_ranges("write", lambda region: region.clip(region.start, region.start + 4))


def never_read() -> None:
    """Analysis sees no reads."""
    _change_ranges("read", lambda region: Region.empty())


def _change_fields(which: str, **fields: Any) -> None:
    ranges_of = launch_ranges.LaunchRanges.of

    def wrong(self: Any, chunk: Chunk) -> tuple[access.AccessRange, ...]:
        return tuple(
            dataclasses.replace(found, **fields) if found.mode == which else found
            for found in ranges_of(self, chunk)
        )

    launch_ranges.LaunchRanges.of = wrong  # type: ignore[method-assign]


def sure_of_all() -> None:
    """Analysis takes every write for certain."""
    _change_fields("write", exact=True)


def another_operation() -> None:
    """Analysis takes every atomic for a maximum."""
    _change_fields("atomic", op="max")


def atomics_are_writes() -> None:
    """Analysis takes every atomic for a store."""
    _change_fields("atomic", mode="write")


def coarse_units() -> None:
    """Analysis takes every store for one of 16 bytes."""
    access._grain = lambda record: of_unit(16)


def dropped_access() -> None:
    """Analysis forgets the last write in a kernel's text."""
    of_launch = access.KernelSummary.of_launch

    def wrong(self: Any, *arguments: Any) -> launch_ranges.LaunchRanges:
        last = [item for item in self.accesses if item.mode == "write"][-1]
        kept = tuple(item for item in self.accesses if item is not last)
        return of_launch(dataclasses.replace(self, accesses=kept), *arguments)

    access.KernelSummary.of_launch = wrong  # type: ignore[method-assign]


def unused_results() -> None:
    """Analysis takes the results of atomics for unused: each chunk has a counter of its own, and hands out its places again."""
    _change_fields("atomic", op="add", dtype="int32")


def _change_records(change: Callable[[np.ndarray, np.ndarray], None]) -> None:
    """After the launch as planned, `change` is made to what a buffer holds that was full of ones (records of three words, and the
    numbers of those that are set)."""
    content = shadow_runs.Shadows.content
    full = set[int]()

    def wrong(self: Any, buffer: Any) -> Any:
        found = content(self, buffer)
        words = found.view(np.int32)
        if (words == -1).all():
            full.add(id(buffer))
        elif id(buffer) in full:
            records = words.reshape(-1, 3)
            change(records, np.flatnonzero(records[:, 2] != -1))
        return found

    shadow_runs.Shadows.content = wrong  # type: ignore[method-assign]


def another_order() -> None:
    """Chance hands out places the other way round."""

    def turn(records: np.ndarray, places: np.ndarray) -> None:
        records[places] = records[places[::-1]]

    _change_records(turn)


def two_exchanged() -> None:
    """Chance gives two work-items each other's places."""

    def exchange(records: np.ndarray, places: np.ndarray) -> None:
        records[places[[3, 5]]] = records[places[[5, 3]]]

    _change_records(exchange)


def a_record_lost() -> None:
    """A record has not been stored, and others stand elsewhere."""

    def lose(records: np.ndarray, places: np.ndarray) -> None:
        records[places[7]] = -1
        records[places] = records[places[::-1]]

    _change_records(lose)


def a_record_twice() -> None:
    """A record has been stored in another's place as well."""

    def store(records: np.ndarray, places: np.ndarray) -> None:
        records[places[7]] = records[places[9]]

    _change_records(store)


def halves_of_records() -> None:
    """A record has a member of another."""

    def mix(records: np.ndarray, places: np.ndarray) -> None:
        records[places[[3, 5]], 0] = records[places[[5, 3]], 0]

    _change_records(mix)


def another_survivor() -> None:
    """Chance has another work-item get the last place: the one before the first that did."""

    def survive(records: np.ndarray, places: np.ndarray) -> None:
        records[places[-1], 2] -= 1
        records[places[-1], :2] = 0

    _change_records(survive)


def _change_sum(factor: float) -> None:
    """After the launch as planned, one of 64 sums that began as sevens is another one."""
    content = shadow_runs.Shadows.content
    begun = set[int]()

    def wrong(self: Any, buffer: Any) -> Any:
        found = content(self, buffer)
        if buffer.nbytes == 256 and id(buffer) in begun:
            found.view(np.float32)[5] *= np.float32(factor)
        elif buffer.nbytes == 256:
            begun.add(id(buffer))
        return found

    shadow_runs.Shadows.content = wrong  # type: ignore[method-assign]


def a_sum_rounded() -> None:
    """Chance adds up in another order."""
    _change_sum(1.0 + 2e-6)


def a_term_lost() -> None:
    """A sum lacks a term, and a byte that differs is one that rounding changes as well."""
    _change_sum(0.99)


def no_padding() -> None:
    """Analysis takes structures for written whole."""
    memory.has_gaps = lambda ctype: False


def nothing_kept() -> None:
    """Planning does not bring what may be written."""
    kept = footprints.resolve

    def wrong(*arguments: Any, **options: Any) -> Any:
        found = kept(*arguments, **options)
        return dataclasses.replace(found, needs=tuple(f.reads for f in arguments[0]))

    candidates.resolve = wrong


def all_is_changed() -> None:
    """Merging takes everything for changed."""
    merge_steps.copy_changed_rows = lambda into, new, old, block, grain: into.__setitem__(slice(None), new)


def the_last_is_lost() -> None:
    """Merging passes over the last version."""
    merge = merges.Merging._fetched

    def wrong(self: Any, item: Any) -> Any:
        return merge(self, item)[:-1]

    merges.Merging._fetched = wrong  # type: ignore[method-assign]


def owners_swapped() -> None:
    """Planning has what the first two chunks wrote the other way round."""
    settle = launches._settle_owners

    def wrong(builder: Any, slot: int, chosen: Any) -> None:
        found = chosen.resolutions[slot]
        if len(found.owns) > 1 and found.owns[0] and found.owns[1]:
            first, second, *rest = found.owns
            chosen.resolutions[slot] = dataclasses.replace(found, owns=(second, first, *rest))
            for worker, (_, _) in enumerate(zip(chosen.workers, found.owns, strict=True)):
                builder.reserve(slot, chosen.workers[worker], 0, builder.drafts[slot].nbytes)
        settle(builder, slot, chosen)

    launches._settle_owners = wrong


def another_text() -> None:
    """The translated kernel adds 2 where the user's adds 1."""
    translate = subgrid.translate_subgrid

    def wrong(program: Any, **how: Any) -> Any:
        found = translate(program, **how)
        return dataclasses.replace(found, source=found.source.replace("+ 1;", "+ 2;"))

    subgrid.translate_subgrid = wrong


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
        an_element_short,
        a_read_element_short,
        a_row_too_far,
        hardly_a_write,
        never_read,
        sure_of_all,
        another_operation,
        atomics_are_writes,
        coarse_units,
        dropped_access,
        no_padding,
        nothing_kept,
        all_is_changed,
        the_last_is_lost,
        owners_swapped,
        unused_results,
        another_order,
        two_exchanged,
        a_record_lost,
        a_record_twice,
        halves_of_records,
        another_survivor,
        a_sum_rounded,
        a_term_lost,
    )
}


def say_what_was_checked() -> None:
    checker = get_session().checker
    print("launches checked:", "none" if checker is None else checker.nchecked)


def main() -> None:
    os.environ["VDEV_CACHE"] = "0"  # a fault is not to be kept, nor what was made without it to be taken
    FAULTS[sys.argv[1]]()
    boot.start()
    atexit.register(say_what_was_checked)
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
