"""Random kernels for planner tests: what every work-group really touches, and access ranges that admit to
more.

A kernel here has no race that one device would show: bytes that a group writes are neither read nor written
by any other group, save for constants that several groups write alike, and for atomics. What it declares to
the planner is a superset of what it does, with the slack that analysis leaves: hulls, whole arguments,
may-writes for sure writes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import HOST, Launch, Touch

from .simulator import OPERATIONS

#: reads and writes of bytes relative to an argument; the simulator's views and the model's both are such
ReadBytes = Callable[[int, np.ndarray], np.ndarray]
WriteBytes = Callable[[int, np.ndarray, np.ndarray], None]


@dataclass
class GroupWork:
    """What one work-group does: it reads, mixes what it read into what it writes, and performs atomics."""

    reads: list[tuple[int, np.ndarray]] = field(default_factory=list)
    writes: list[tuple[int, np.ndarray]] = field(default_factory=list)
    #: bytes it might have written as well, and did not
    skipped: list[tuple[int, np.ndarray]] = field(default_factory=list)
    constants: list[tuple[int, np.ndarray, int]] = field(default_factory=list)
    #: argument, operation, NumPy type, first byte of the element, operand
    atomics: list[tuple[int, str, str, int, int]] = field(default_factory=list)

    def run(self, read: ReadBytes, write: WriteBytes, group: int) -> None:
        total = sum(int(read(arg, where).astype(np.int64).sum()) for arg, where in self.reads)
        for arg, where in self.writes:
            write(arg, where, ((total + group + 7 * np.arange(len(where))) & 255).astype(np.uint8))
        for arg, where, value in self.constants:
            write(arg, where, np.full(len(where), value, np.uint8))
        for arg, op, dtype, start, operand in self.atomics:
            where = start + np.arange(np.dtype(dtype).itemsize)
            old = read(arg, where).view(dtype)
            write(arg, where, OPERATIONS[op](old, np.array([operand], dtype)).view(np.uint8))


@dataclass
class RandomKernel:
    """A launch.

    Arguments, index space (one work-item to a group), work by group, and the slack of its declarations.
    """

    args: tuple[PointerArg, ...]
    ndrange: NDRange
    work: dict[tuple[int, ...], GroupWork]
    #: by argument: how reads and writes are declared
    read_slack: dict[int, str]
    write_slack: dict[int, str]
    #: whether atomics are declared as mergeable
    mergeable: bool
    slots: list[int]

    def groups(self, chunk: Chunk) -> list[tuple[int, ...]]:
        """In the order of a single device: the first dimension fastest."""
        ids = [[chunk.group(axis, at) for at in range(count)] for axis, count in enumerate(chunk.counts)]
        return [cell[::-1] for cell in product(*reversed(ids))]

    def number(self, group: tuple[int, ...]) -> int:
        return sum(at * 31**dimension for dimension, at in enumerate(group))

    def run(self, chunk: Chunk, read: ReadBytes, write: WriteBytes) -> None:
        for group in self.groups(chunk):
            self.work[group].run(read, write, self.number(group))

    def evaluate(self, chunk: Chunk) -> tuple[AccessRange, ...]:
        """The declared ranges: what analysis would give."""
        work = [self.work[group] for group in self.groups(chunk)]
        found: list[AccessRange] = []
        for pointer in self.args:
            arg, size = pointer.arg, pointer.nbytes
            reads = as_region(where for item in work for a, where in item.reads if a == arg)
            if reads:
                found.append(AccessRange(arg, "read", slacken(reads, self.read_slack[arg], size), False))
            sure = [where for item in work for a, where in item.writes if a == arg]
            sure += [where for item in work for a, where, _ in item.constants if a == arg]
            spared = [where for item in work for a, where in item.skipped if a == arg]
            if sure or spared:
                how = self.write_slack[arg]
                exact = how == "exact" or (how == "mixed" and self.number(chunk.start) % 2 == 0)
                written = as_region(sure if exact else sure + spared)
                wide = slacken(written, "exact" if exact else {"mixed": "hull"}.get(how, how), size)
                found.append(AccessRange(arg, "write", wide, exact, reason="index", line=7))
            found.extend(self.declare_atomics(work, pointer))
        return tuple(found)

    def declare_atomics(self, work: list[GroupWork], pointer: PointerArg) -> list[AccessRange]:
        kinds = sorted(
            {(op, dtype) for item in work for a, op, dtype, _, _ in item.atomics if a == pointer.arg}
        )
        found = []
        for op, dtype in kinds:
            size = np.dtype(dtype).itemsize
            region = as_region(
                start + np.arange(size)
                for item in work
                for a, o, d, start, _ in item.atomics
                if (a, o, d) == (pointer.arg, op, dtype)
            )
            wide = slacken(region, self.read_slack[pointer.arg], pointer.nbytes)
            found.append(
                AccessRange(
                    pointer.arg, "atomic", wide, False, op if self.mergeable else None, dtype, "bins", 9
                )
            )
        return found

    def launch_touches(self, item: Launch) -> list[Touch]:
        """What a chunk really touches, by slot."""
        offsets = {pointer.arg: (pointer.slot, pointer.offset) for pointer in self.args}
        at_home = {slot for _, slot, _ in item.homes}
        touches = []
        for group in self.groups(item.chunk):
            work = self.work[group]
            changed = [(a, w) for a, w in work.writes] + [(a, w) for a, w, _ in work.constants]
            changed += [(a, start + np.arange(np.dtype(d).itemsize)) for a, _, d, start, _ in work.atomics]
            for accesses, writes in ((work.reads, False), (changed, True)):
                for arg, where in accesses:
                    slot, offset = offsets[arg]
                    holder = HOST if slot in at_home else item.worker
                    touches.append(Touch(slot, holder, as_region([where + offset]), writes))
        return touches


def as_region(parts: object) -> Region:
    arrays = list(parts)  # type: ignore[call-overload]
    if not arrays:
        return Region.empty()
    every = np.concatenate(arrays).astype(np.int64)
    return Region.from_runs(np.stack((every, every + 1), axis=1))


def slacken(region: Region, how: str, size: int) -> Region:
    if how == "whole":
        return Region.span(0, size)
    return region.hull() if how == "hull" else region


def random_kernel(rng: np.random.Generator, sizes: list[int]) -> RandomKernel:
    """A kernel on some of the buffers whose sizes are given; `slots` says which."""
    slots = sorted(
        rng.choice(len(sizes), int(rng.integers(1, min(3, len(sizes)) + 1)), replace=False).tolist()
    )
    args = tuple(_random_arg(rng, number, slots, sizes) for number in range(int(rng.integers(1, 5))))
    dims = int(rng.integers(1, 4))
    groups = tuple(int(rng.integers(1, 9 if dims == 1 else 5)) for _ in range(dims))
    ndrange = NDRange(groups, (1,) * dims, (0,) * dims)
    cells = [cell[::-1] for cell in product(*(range(n) for n in reversed(groups)))]
    work = {cell: GroupWork() for cell in cells}
    writer = {slot: np.full(sizes[slots[slot]], -1) for slot in range(len(slots))}
    draft = _Draft(rng, cells, work, writer)
    for pointer in args:
        kinds = ["atomic"] if rng.random() < 0.2 else ["read", "read", "write", "write", "constant", "atomic"]
        for _ in range(int(rng.integers(0, 3))):
            draft.add(str(rng.choice(kinds)), pointer)
    draft.drop_racing_reads(args)
    reading = {p.arg: str(rng.choice(["exact", "hull", "whole"])) for p in args}
    writing = {p.arg: str(rng.choice(["exact", "hull", "whole", "sparse", "mixed"])) for p in args}
    return RandomKernel(args, ndrange, work, reading, writing, bool(rng.random() < 0.8), slots)


def _random_arg(rng: np.random.Generator, number: int, slots: list[int], sizes: list[int]) -> PointerArg:
    slot = int(rng.integers(len(slots)))
    size = sizes[slots[slot]]
    if rng.random() < 0.5 or size < 8:
        return PointerArg(number, slot, 0, size)
    offset = int(rng.integers(0, size // 4)) * 4
    return PointerArg(number, slot, offset, int(rng.integers(1, size - offset + 1)))


@dataclass
class _Draft:
    """A kernel's work being made up. `writer` holds by slot which group writes each byte; -2: several, -3.

    Atomics.
    """

    rng: np.random.Generator
    cells: list[tuple[int, ...]]
    work: dict[tuple[int, ...], GroupWork]
    writer: dict[int, np.ndarray]

    def add(self, kind: str, pointer: PointerArg) -> None:
        """One more access of every group."""
        owned = self.writer[pointer.slot]
        if kind == "constant":
            where = np.arange(min(4, pointer.nbytes))
            if (owned[pointer.offset + where] != -1).any():
                return
            owned[pointer.offset + where] = -2
            value = int(self.rng.integers(256))
            for cell in self.cells:
                self.work[cell].constants.append((pointer.arg, where, value))
            return
        if kind == "atomic":
            self.add_atomics(pointer, owned)
            return
        for number, (cell, where) in enumerate(
            zip(self.cells, _deal(self.rng, pointer.nbytes, len(self.cells)), strict=True)
        ):
            if kind == "read":
                near = int(self.rng.integers(0, 3))
                halo = np.unique(
                    np.clip(np.concatenate((where - near, where, where + near)), 0, pointer.nbytes - 1)
                )
                self.work[cell].reads.append((pointer.arg, halo))
            else:
                free = where[owned[pointer.offset + where] == -1]
                owned[pointer.offset + free] = number
                done = self.rng.random(len(free)) < self.rng.choice([0.5, 1.0])
                self.work[cell].writes.append((pointer.arg, free[done]))
                self.work[cell].skipped.append((pointer.arg, free[~done]))

    def add_atomics(self, pointer: PointerArg, owned: np.ndarray) -> None:
        dtype, op = (
            str(self.rng.choice(["uint32", "int32", "uint64"])),
            str(self.rng.choice(sorted(OPERATIONS))),
        )
        size = np.dtype(dtype).itemsize
        first = -pointer.offset % size
        starts = np.arange(first, pointer.nbytes - size + 1, size)
        starts = starts[
            [bool((owned[pointer.offset + s : pointer.offset + s + size] == -1).all()) for s in starts]
        ]
        if not len(starts):
            return
        for start in starts:
            owned[pointer.offset + start : pointer.offset + start + size] = -3
        mine = bool(self.rng.random() < 0.3)  # each group its own elements
        for number, cell in enumerate(self.cells):
            own = starts[number :: len(self.cells)] if mine else starts
            for start in self.rng.choice(own, min(len(own), 3)) if len(own) else ():
                self.work[cell].atomics.append(
                    (pointer.arg, op, dtype, int(start), int(self.rng.integers(0, 1 << 20)))
                )

    def drop_racing_reads(self, args: tuple[PointerArg, ...]) -> None:
        """No group reads what another writes. Reads of bytes that atomics change stay.

        The planner has to cope with them.
        """
        by_arg = {pointer.arg: pointer for pointer in args}
        for number, cell in enumerate(self.cells):
            kept = []
            for arg, where in self.work[cell].reads:
                owner = self.writer[by_arg[arg].slot][by_arg[arg].offset + where]
                kept.append((arg, where[(owner == -1) | (owner == number) | (owner == -3)]))
            self.work[cell].reads = kept


def _deal(rng: np.random.Generator, nbytes: int, ngroups: int) -> list[np.ndarray]:
    """Deal an argument's bytes to the groups: blocks, strided, or at random."""
    how = str(rng.choice(["block", "cyclic", "scatter"]))
    every = np.arange(nbytes)
    if how == "block":
        return [every[nbytes * k // ngroups : nbytes * (k + 1) // ngroups] for k in range(ngroups)]
    if how == "cyclic":
        width = int(rng.integers(1, 9))
        return [every[(every // width) % ngroups == k] for k in range(ngroups)]
    owner = rng.integers(0, ngroups + 1, nbytes)
    return [every[owner == k] for k in range(ngroups)]
