"""Copies between plain host memory and GPUs, through pinned memory and several threads.

A GPU's link empties plain (pageable) memory only at the speed of one thread that copies it. Here several threads
copy, each between the program's array and two pinned blocks of its own, while the link moves the other block. Decides
how a long copy is cut into pieces and which threads copy them; knows only addresses and streams.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from vdev.backends.base import Box, Bytes, Counters, copy_box
from vdev.backends.cuda.driver import Driver
from vdev.backends.cuda.pinned_homes import PinnedHomes
from vdev.process.ending import at_end, not_at_end
from vdev.process.forking import in_driver
from vdev.translators.values import dataclass

logger = logging.getLogger("vdev.cuda")

#: Bytes of a pinned block: long enough to hide what a piece costs in Python, short enough to fill a pipeline.
BLOCK_NBYTES = 8 << 20
#: The least bytes of a piece: with shorter ones the threads' turns with the interpreter take longer than the copies.
PIECE_NBYTES = 2 << 20
#: Copies of fewer bytes are left to the driver's own staging, which is slower than the link, but not than what it costs
#: to begin and end with blocks.
DIRECT_NBYTES = 12 << 20
#: For each so many bytes, another thread takes part. Threads take turns with the interpreter at every piece, and each
#: turn takes tens of microseconds: of many threads for few pieces, most of the time is turns.
THREAD_NBYTES = 16 << 20
#: Of copies that would get fewer, four threads take part, each for so many bytes; the GPUs share the four. One thread alone is no
#: faster than the driver.
FIRST_THREADS, FIRST_THREAD_NBYTES = 4, 4 << 20
#: The least pieces of a thread, so that the link and the thread work at the same time.
_LEAST_PIECES = 4
#: Seconds before anything is pinned ahead: a short program is over by then, and each of its calls would wait for a block.
_BEFORE_PINNING = 0.1
#: Seconds that the end of the process waits for what is being pinned: the driver must not be at work then.
_LAST_BLOCK = 1.0
#: The most threads; a dozen or so saturate one link of PCIe 5.
MOST_THREADS = 32


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a transfer: `box` in the host array, from or to byte `start` of packed device memory."""

    box: Box
    start: int


def pieces_of(box: Box, limit: int = BLOCK_NBYTES) -> list[Piece]:
    """Cut the source side of `box` into parts of at most `limit` bytes, packed one after the other.

    The boxes of the pieces begin at the host's byte and go to byte 0 of a block. `limit` is at most that of a block.
    """
    slices, rows, nbytes = box.shape
    if box.is_contiguous or (slices == 1 and box.source_pitches[1] == nbytes):
        total = box.nbytes
        return [
            Piece(Box.contiguous(box.source_start + at, 0, min(limit, total - at)), at)
            for at in range(0, total, limit)
        ]
    found: list[Piece] = []
    start = 0
    if rows * nbytes <= limit // 2:  # several slices in one: each piece costs a turn with the interpreter
        most, packed = limit // (rows * nbytes), (rows * nbytes, nbytes)
        for number in range(0, slices, most):
            count = min(most, slices - number)
            first = box.source_start + number * box.source_pitches[0]
            found.append(
                Piece(
                    Box((count, rows, nbytes), first, box.source_pitches, 0, packed), number * rows * nbytes
                )
            )
        return found
    for number in range(slices):
        first = box.source_start + number * box.source_pitches[0]
        if nbytes > limit:
            for row in range(rows):
                for at in range(0, nbytes, limit):
                    part = min(limit, nbytes - at)
                    found.append(
                        Piece(Box.contiguous(first + row * box.source_pitches[1] + at, 0, part), start)
                    )
                    start += part
            continue
        group = max(1, limit // nbytes)
        for row in range(0, rows, group):
            count = min(group, rows - row)
            pitches = (count * box.source_pitches[1], box.source_pitches[1])
            packed = (count * nbytes, nbytes)
            found.append(
                Piece(Box((1, count, nbytes), first + row * box.source_pitches[1], pitches, 0, packed), start)
            )
            start += count * nbytes
    return found


class _Block:
    """Pinned memory of one thread, and the event behind its last copy."""

    __slots__ = ("__weakref__", "address", "array", "event", "memory")

    def __init__(self, cupy: Any) -> None:
        self.memory: Any = cupy.cuda.PinnedMemory(BLOCK_NBYTES, cupy.cuda.runtime.hostAllocPortable)
        self.address: int = self.memory.ptr
        bytes_there = (ctypes.c_uint8 * BLOCK_NBYTES).from_address(self.address)
        self.array: Bytes = np.frombuffer(memoryview(bytes_there), np.uint8)
        self.event: dict[int, int] = {}  # by context, which events belong to


class Staging:
    """The process's copying threads and their pinned blocks. Any thread may use it; several transfers share them."""

    def __init__(self, cupy: Any, driver: Driver, shares: int, context: int = 0) -> None:
        """`shares`: how many transfers usually run at the same time (GPUs), so that none takes all threads. `context`: of a GPU
        that is open.
        """
        self._cupy = cupy
        self._driver = driver
        self.threads = max(2, min(MOST_THREADS, (os.cpu_count() or 2) * 3 // 4))
        self._most = max(2, self.threads // max(shares, 1))
        self._first = FIRST_THREADS // max(shares, 1)
        self._local = threading.local()
        self._pinned: weakref.WeakSet[_Block] = weakref.WeakSet()
        self._pool = ThreadPoolExecutor(self.threads, "vdev-copy")
        self.users = 0  #: GPUs that are open
        self.homes = PinnedHomes(cupy)
        #: what is pinned ahead; a thread that has none takes two
        self._ahead: deque[_Block] = deque()
        self._watched: list[Counters] = []  #: what each GPU has been given
        self._closing = threading.Event()
        self._pinning = threading.Thread(
            target=self._pin_ahead, args=(context,), name="vdev-pin", daemon=True
        )
        self._pinning.start()
        at_end(self._stop_pinning)

    def watch(self, counters: Counters) -> None:
        """Pin nothing ahead once these have changed."""
        self._watched.append(counters)

    def takers(self, nbytes: int) -> int:
        """How many threads take part in a transfer of that many bytes, including the calling one."""
        first = min(nbytes // FIRST_THREAD_NBYTES, self._first)
        return min(max(nbytes // THREAD_NBYTES, first, 1), self._most)

    def limit(self, nbytes: int) -> int:
        """The longest piece of a transfer of that many bytes."""
        share = -(-nbytes // (self.takers(nbytes) * _LEAST_PIECES))
        return min(max(-(-share // 4096) * 4096, PIECE_NBYTES), BLOCK_NBYTES)

    def _pin_ahead(self, context: int) -> None:
        """Pinning takes milliseconds a block, in which the driver does little else: one after the other, so that what the program
        calls meanwhile waits for one of them at most; and only until it gives a GPU something to do, since each launch would wait so long.
        Transfers pin for themselves what is missing then.
        """
        self._closing.wait(_BEFORE_PINNING)
        self._driver.set_context(context)
        for _ in range(2 * (self.threads + 1)):  # the calling thread takes part in a transfer, too
            if self._closing.is_set() or self._given():
                return
            try:
                self._ahead.append(in_driver(self._pin))
            except self._cupy.cuda.runtime.CUDARuntimeError as error:
                logger.info("pinning ahead ends: %s", error)  # whoever needs some is told
                return

    def _pin(self) -> _Block:
        block = _Block(self._cupy)
        self._pinned.add(block)
        return block

    def _given(self) -> int:
        """Launches and bytes so far."""
        return sum(
            each.launches + each.from_host + each.to_host + each.from_peer + each.local + each.filled
            for each in self._watched
        )

    def _stop_pinning(self) -> None:
        self._closing.set()
        self._pinning.join(_LAST_BLOCK)

    def _blocks(self) -> list[_Block]:
        """The calling thread's blocks."""
        blocks: list[_Block] | None = getattr(self._local, "blocks", None)
        if blocks is None:
            blocks = []
            while len(blocks) < 2:
                try:
                    blocks.append(self._ahead.popleft())
                except IndexError:
                    blocks.append(self._pin())
            self._local.blocks = blocks
        return blocks

    def _event(self, block: _Block, context: int) -> int:
        event = block.event.get(context)
        if event is None:
            event = block.event[context] = self._driver.new_event()
        return event

    def upload(self, source: Bytes, pieces: Sequence[Piece], target: int, context: int, stream: int) -> None:
        """Copy pieces of `source` to device address `target`; returns when all are on `stream`."""
        driver = self._driver
        waiting = deque(pieces)

        def run() -> None:
            driver.check(driver.set_context(context), "context")
            for block, piece in self._in_turn(waiting):
                _copy_in(source, block, piece.box)
                nbytes = piece.box.nbytes
                driver.check(driver.copy(target + piece.start, block.address, nbytes, stream), "upload")
                driver.check(driver.event_record(self._event(block, context), stream), "upload")

        self._share_out(run, sum(piece.box.nbytes for piece in pieces))

    def download(
        self, target: Bytes, pieces: Sequence[Piece], source: int, context: int, stream: int
    ) -> None:
        """Copy from device address `source`, behind what is on `stream`; returns when `target` has all of it. The
        pieces are those of the box from `target`.
        """
        driver = self._driver
        waiting = deque(pieces)

        def run() -> None:
            driver.check(driver.set_context(context), "context")
            before: tuple[_Block, Piece] | None = None
            for block, piece in self._in_turn(waiting):
                nbytes = piece.box.nbytes
                driver.check(driver.copy(block.address, source + piece.start, nbytes, stream), "download")
                driver.check(driver.event_record(self._event(block, context), stream), "download")
                if before is not None:
                    self._copy_out(target, *before)
                before = (block, piece)
            if before is not None:
                self._copy_out(target, *before)

        self._share_out(run, sum(piece.box.nbytes for piece in pieces))

    def _in_turn(self, waiting: deque[Piece]) -> Iterator[tuple[_Block, Piece]]:
        """Pieces that no thread has taken yet, each with that of the calling thread's blocks whose last copy is
        older.
        """
        blocks = self._blocks()
        at = 0
        while True:
            try:
                piece = waiting.popleft()
            except IndexError:
                return
            block = blocks[at]
            at = 1 - at
            self._settle(block)
            yield block, piece

    def _share_out(self, run: Callable[[], None], nbytes: int) -> None:
        """Run on the calling thread and on others. Those that have not begun when the calling one has finished are
        not needed.
        """
        futures = [self._pool.submit(run) for _ in range(self.takers(nbytes) - 1)]
        try:
            run()
        finally:
            running = [future for future in futures if not future.cancel()]
        for future in running:
            future.result()

    def _settle(self, block: _Block) -> None:
        """Wait until the block's last copy is done."""
        driver = self._driver
        for event in block.event.values():
            if driver.event_query(event):
                driver.check(driver.event_synchronize(event), "staging")

    def _copy_out(self, target: Bytes, block: _Block, piece: Piece) -> None:
        self._settle(block)
        box = piece.box
        if box.is_contiguous:
            ctypes.memmove(target.ctypes.data + box.source_start, block.address, box.nbytes)
        else:
            copy_box(block.array, target, box.turned())

    def keep(self) -> None:
        """Keep all pinned memory to the end of the process: the GPU is lost, and CuPy's finalisers would complain
        about each block that the driver does not take back.
        """
        for block in list(self._pinned):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(block.memory))

    def close(self) -> None:
        """End the threads once they have done what they were given, and give back the pinned memory. No transfer is under way."""
        self._stop_pinning()
        not_at_end(self._stop_pinning)
        self._pool.shutdown(wait=False)
        for block in list(self._pinned):
            block.memory = None
        self.homes.close()


def _copy_in(source: Bytes, block: _Block, box: Box) -> None:
    if box.is_contiguous:
        ctypes.memmove(block.address, source.ctypes.data + box.source_start, box.nbytes)
    else:
        copy_box(source, block.array, box)


_staging: Staging | None = None
_opening = threading.Lock()


def staging(cupy: Any, driver: Driver, context: int) -> Staging:
    """The process's one Staging, for one more GPU. `context`: of a GPU that is open."""
    global _staging
    with _opening:
        if _staging is None:
            _staging = Staging(cupy, driver, cupy.cuda.runtime.getDeviceCount(), context)
        _staging.users += 1
        return _staging


def give_back(used: Staging) -> None:
    """One of its GPUs is closed. The last one takes the pinned memory with it."""
    global _staging
    with _opening:
        used.users -= 1
        if used.users:
            return
        if _staging is used:
            _staging = None
    used.close()
