"""A launch that is being checked: its buffers before and after, its chunks, and the elements of the buffers.

Decides which argument and element a byte is reported as, never whether it is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from vdev.backends.base import Bytes
from vdev.check.differences import Mask, Place, data_mask, element_type, mask_of, place_of
from vdev.check.records import Records, records_at
from vdev.planner.footprints import Footprint, PointerArg
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region
from vdev.translators.values import dataclass


@dataclass(eq=False)
class Case:
    """One launch that is being checked; lists are by slot, `parts` by chunk."""

    launch: Launch
    buffers: list[VirtualBuffer]
    pointers: tuple[PointerArg, ...]
    parts: list[Part]
    before: list[Bytes]
    unknown: list[Region]  #: bytes that nobody has written
    types: Mapping[int, np.dtype[np.generic]]  #: elements that arguments point to
    data: list[Mask] = field(default_factory=list)  #: all bytes except padding
    after: list[Bytes] = field(default_factory=list)
    #: by chunk and slot: what the chunk leaves of `before` when it runs alone
    alone: list[list[Bytes]] = field(default_factory=list)
    fine: set[int] = field(default_factory=set)  #: slots whose buffers are fine-grain

    def atomics(self, slot: int) -> Region:
        return Region.union(
            region for part in self.parts for region in part.footprints[slot].atomics.values()
        )

    def handed_out(self, slot: int) -> Region:
        """What chunks may change that carry out atomics whose results may be used, where they can get it: as a place to store
        at, or as what to store.
        """
        return Region.union(part.footprints[slot].changes for part in self.parts if part.asks)

    def by_chance(self, wrong: Sequence[Mask]) -> Iterator[tuple[PointerArg, Records]]:
        """By argument: records in `wrong` that another order of atomics may have put there. `wrong` may lose bytes
        meanwhile.
        """
        if not any(part.asks for part in self.parts):
            return
        for pointer in self.pointers:
            there = wrong[pointer.slot] & mask_of(self.handed_out(pointer.slot), len(wrong[pointer.slot]))
            records = self.records(pointer, there)
            if records.chosen.any():
                yield pointer, records

    def records(self, pointer: PointerArg, mask: Mask) -> Records:
        """The elements of an argument, vectors and structures as a whole, of which `mask` has a byte."""
        dtype, nbytes = self.dtype(pointer), self.launch.kernel.info.args[pointer.arg].nbytes
        size = dtype.itemsize if nbytes % dtype.itemsize else nbytes
        data = self.data[pointer.slot]
        return records_at(mask, pointer.offset, pointer.nbytes_own, size, data, dtype)

    def argument_at(self, slot: int, byte: int) -> PointerArg:
        """The argument to name for a byte of a buffer: one that is written there, if there is one."""
        here = [
            pointer
            for pointer in self.pointers
            if pointer.slot == slot and pointer.offset <= byte < pointer.offset + pointer.nbytes_own
        ] or [pointer for pointer in self.pointers if pointer.slot == slot]
        infos = self.launch.kernel.info.args
        return next((pointer for pointer in here if not infos[pointer.arg].pointee_const), here[0])

    def dtype(self, pointer: PointerArg) -> np.dtype[np.generic]:
        info, known = self.launch.kernel.info.args[pointer.arg], self.types.get(pointer.arg)
        return element_type(info.type_name, info.nbytes) if known is None else known

    def place(self, slot: int, byte: int) -> tuple[PointerArg, Place, slice]:
        """The scalar at a byte of a buffer: the argument to name, its place there, and its bytes in the buffer."""
        pointer = self.argument_at(slot, byte)
        scalar = place_of(byte - pointer.offset, self.dtype(pointer))
        return pointer, scalar, slice(pointer.offset + scalar.start, pointer.offset + scalar.stop)

    def without_padding(self, slot: int) -> Mask:
        """False at bytes that are padding for every argument that covers them."""
        nbytes = len(self.before[slot])
        data, covered = np.zeros(nbytes, bool), np.zeros(nbytes, bool)
        for pointer in self.pointers:
            if pointer.slot == slot:
                part = slice(pointer.offset, pointer.offset + pointer.nbytes_own)
                data[part] |= data_mask(pointer.nbytes_own, self.dtype(pointer))
                covered[part] = True
        return data | ~covered

    def dtype_at(self, slot: int, byte: int) -> np.dtype[np.generic]:
        return self.dtype(self.argument_at(slot, byte))

    def dtype_of(self, slot: int) -> np.dtype[np.generic]:
        """The element type of a buffer: that of an argument that is written, if there is one."""
        return self.dtype_at(slot, min(p.offset for p in self.pointers if p.slot == slot))


@dataclass(frozen=True, eq=False)
class Part:
    """One chunk: where it ran, and its declared accesses by slot."""

    worker: int
    chunk: Chunk
    footprints: dict[int, Footprint]

    @property
    def asks(self) -> bool:
        """Whether it carries out atomics whose results may be used, or whose order may matter otherwise."""
        kinds = {kind for footprint in self.footprints.values() for kind in footprint.atomics}
        return any(op is None for op, _ in kinds)


class Values:
    """What chunks that ran alone have written, and by slot the bytes on which two of them disagree."""

    def __init__(self, case: Case) -> None:
        self.clashes = [np.zeros(len(before), bool) for before in case.before]
        self._data = case.data
        self._written = [np.zeros(len(before), bool) for before in case.before]
        self._values = [before.copy() for before in case.before]

    def add(self, found: Sequence[Bytes], left: Sequence[Bytes]) -> None:
        """Add one more chunk: from what it found and left, where it writes, and what."""
        for slot, value in enumerate(self._values):
            changed = (left[slot] != found[slot]) & self._data[slot]
            self.clashes[slot] |= changed & self._written[slot] & (left[slot] != value)
            self._written[slot] |= changed
            np.copyto(value, left[slot], where=changed)
