"""Copies between a GPU and plain host memory, in the order of the worker's stream.

Decides how they are made: short ones are left to the driver, longer ones go through pinned blocks (`staging`), and
boxes with gaps go through a packed form in the GPU's memory, or row by row if there is no memory for that. Small ones are packed by the
calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ctypes import addressof, c_char

import numpy as np

from vdev.backends.base import Box, Bytes, copy_box
from vdev.backends.cuda.boxes import is_packed, packed_pitches, parts
from vdev.backends.cuda.gpu import Gpu
from vdev.backends.cuda.pool import Block
from vdev.backends.cuda.staging import DIRECT_NBYTES, Staging, pieces_of
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError

#: Device memory for the packed form of rectangles on their way from or to the host, at most.
_PACKED_NBYTES = 256 << 20
#: Below that, if there is no memory left for it, rows are copied one by one.
_LEAST_PACKED_NBYTES = 64 << 10
#: The driver takes uploads of so many bytes immediately, whatever the memory (CUDA's "API synchronization behavior").
AT_ONCE_NBYTES = 64 << 10
#: Waking another thread takes as long as the driver needs to copy the better part of a megabyte. What is copied by several threads is
#: left to the worker's thread, since the thread that asks for it may hold locks.
OWN_THREAD_NBYTES = DIRECT_NBYTES

_TO_DEVICE = 1  #: cudaMemcpyKind


class HostCopies:
    """A worker's copies from and to the host."""

    def __init__(
        self,
        gpu: Gpu,
        staging: Staging,
        streams: tuple[int, int],
        context: int,
        malloc: Callable[[int, str], Block],
        copy_box: Callable[[int, int, Box], None],
    ) -> None:
        """`streams`: the worker's own, and one for copies beside it. `copy_box` copies between addresses in the order
        of the first.
        """
        self._gpu = gpu
        self._staging = staging
        self._stream, self._copying = streams
        self._context = context
        self._malloc = malloc
        self._copy_box = copy_box

    def write(self, target: int, source: Bytes, box: Box, nbytes: int) -> None:
        """From the host's memory to that at `target`; the host's may change once this returns. `nbytes`: bytes of the
        box.
        """
        address = target + box.target_start
        if box.is_contiguous and self._goes_directly(
            start := host_address(source) + box.source_start, nbytes
        ):
            self._write_directly(address, start, nbytes)
        elif nbytes <= AT_ONCE_NBYTES:
            self._write_small_box(target, source, box, nbytes)
        elif is_packed(box.shape, box.target_pitches):
            self._upload(source, box, address)
        else:
            for part, packed in self._packed(box):
                if packed is None:
                    for start, place, row in part.rows():
                        self._upload(source, Box.contiguous(start, 0, row), target + place)
                    continue
                self._upload(source, part, packed.ptr)
                to = packed_pitches(part.shape)
                self._copy_box(
                    packed.ptr, target, Box(part.shape, 0, to, part.target_start, part.target_pitches)
                )

    def _write_small_box(self, target: int, source: Bytes, box: Box, nbytes: int) -> None:
        """The same of a box of so few bytes that the driver takes them at once: this thread packs them, and nobody is waited for."""
        shape, pitches = box.shape, packed_pitches(box.shape)
        packed = np.empty(nbytes, np.uint8)
        copy_box(source, packed, Box(shape, box.source_start, box.source_pitches, 0, pitches))
        start = host_address(packed)
        if is_packed(shape, box.target_pitches):
            self._write_directly(target + box.target_start, start, nbytes)
            return
        from_packed = Box(shape, 0, pitches, box.target_start, box.target_pitches)
        try:
            block = self._malloc(nbytes, f"{nbytes} bytes for a rectangular copy")
        except BackendError as error:
            if error.status != MEM_OBJECT_ALLOCATION_FAILURE:
                raise
            for at, place, row in from_packed.rows():
                self._write_directly(target + place, start + at, row)
            return
        self._write_directly(block.ptr, start, nbytes)
        self._copy_box(block.ptr, target, from_packed)

    def _goes_directly(self, start: int, nbytes: int) -> bool:
        """Whether so many consecutive bytes of the host's, from an address on, are left to the driver."""
        return nbytes < DIRECT_NBYTES or self._staging.homes.cover(start, nbytes)

    def _write_directly(self, target: int, source: int, nbytes: int) -> None:
        driver, stream, homes = self._gpu.driver, self._stream, self._staging.homes
        if nbytes <= AT_ONCE_NBYTES:
            self._gpu.check(driver.copy(target, source, nbytes, stream), "upload")
        else:  # it waits; other threads can run meanwhile
            self._gpu.copy_waiting(target, source, nbytes, _TO_DEVICE, stream)
        # Of pinned memory the driver copies once the stream has come so far. Looked at afterwards, since another thread may pin it.
        if homes.starts and homes.touch(source, nbytes):
            self._gpu.check(driver.stream_synchronize(stream), "upload")

    def read(self, source: int, target: Bytes, box: Box, nbytes: int) -> bool:
        """From the memory at `source` to the host's, which has it when this returns.

        True if the stream is known to have done everything that came before. `nbytes`: bytes of the box.
        """
        address = source + box.source_start
        if box.is_contiguous and self._goes_directly(
            start := host_address(target) + box.target_start, nbytes
        ):
            driver, stream = self._gpu.driver, self._stream
            # Pageable memory has the bytes by then; memory that the program has pinned may not.
            result = driver.read_memory(start, address, nbytes, stream) or driver.stream_synchronize(stream)
            if result:
                self._gpu.check(result, "read")
            return True
        if is_packed(box.shape, box.source_pitches):
            self._download(target, box, address)
        else:
            for part, packed in self._packed(box):
                if packed is None:
                    for start, place, row in part.rows():
                        self._download(target, Box.contiguous(0, place, row), source + start)
                    continue
                pitches = packed_pitches(part.shape)
                self._copy_box(
                    source, packed.ptr, Box(part.shape, part.source_start, part.source_pitches, 0, pitches)
                )
                self._download(
                    target, Box(part.shape, 0, pitches, part.target_start, part.target_pitches), packed.ptr
                )
        return False

    def _upload(self, source: Bytes, box: Box, address: int) -> None:
        """The bytes of the host's box to packed memory at `address`, behind the stream's work and before what
        follows.
        """
        self._gpu.order(self._copying, self._stream)
        pieces = pieces_of(box, self._staging.limit(box.nbytes))
        self._staging.upload(source, pieces, address, self._context, self._copying)
        self._gpu.order(self._stream, self._copying)

    def _packed(self, box: Box) -> Iterator[tuple[Box, Block | None]]:
        """`box` in parts, each with memory for its packed form, or with None if there is no memory and it goes row by
        row.
        """
        waiting = parts(box, _PACKED_NBYTES)[::-1]
        while waiting:
            part = waiting.pop()
            try:
                yield part, self._malloc(part.nbytes, f"{part.nbytes} bytes for a rectangular copy")
            except BackendError as error:
                if error.status != MEM_OBJECT_ALLOCATION_FAILURE:
                    raise
                halves = parts(part, part.nbytes // 2) if part.nbytes > _LEAST_PACKED_NBYTES else [part]
                if len(halves) == 1:
                    yield part, None
                else:
                    waiting += halves[::-1]

    def _download(self, target: Bytes, box: Box, address: int) -> None:
        self._gpu.order(self._copying, self._stream)
        pieces = pieces_of(box.turned(), self._staging.limit(box.nbytes))
        self._staging.download(target, pieces, address, self._context, self._copying)


def host_address(array: Bytes) -> int:
    """Where an array's bytes are; faster if the array is writable."""
    try:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    except TypeError:
        return int(array.ctypes.data)
