"""One GPU's memory, kept for reuse: what a worker gives back serves its later work, and returns to the driver only
when nothing is under way.

Decides which free block serves a request, where in free memory it lies, and when a block returns to the driver.

Where a block lies matters to atomics: a GPU spreads memory over the slices of its second-level cache in frames of
`FRAME_NBYTES`, each evenly, as it seems, while parts of neighbouring frames may meet in the same slices: on an H200, atomics on 16 KB
take as long wherever these begin with a frame, natively too, and often much longer where they do not. So no block crosses
frames without need. Within a frame each `UNIT` seems to be a slice's: atomics on two small buffers that share one took a quarter longer
(`samples/k_means.py`, 80 sums of 67 million points). So no two blocks share one.

A block that is given back is immediately free for later work of the same worker: its stream orders earlier uses
before later ones (and has waited for peers that read the block). The driver knows no such order: giving it memory
that a kernel or a peer's copy still uses ends in an illegal address. So only `trim` returns memory to it, which is
called when nothing is under way on any worker; if memory is short, that is waited for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import itemgetter

from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError

#: blocks are whole multiples of this many bytes, and of CL_DEVICE_MEM_BASE_ADDR_ALIGN
UNIT = 1 << 10
#: blocks of this many bytes or more begin at a multiple of it; smaller ones do not cross one
FRAME_NBYTES = 16 << 10
#: from this many bytes on, a block is an allocation of the driver's of its own, of whole pages: these leave no holes
LARGE_NBYTES = 8 << 20
#: bytes of the driver's allocations that small blocks are cut from, and of the driver's pages
SEGMENT_NBYTES, PAGE_NBYTES = 32 << 20, 2 << 20
#: a free large block serves a request that leaves at most this part of it unused
_UNUSED_PART = 32


class Block:
    """Memory at device address `ptr`; free for later work of its worker when it is dropped."""

    __slots__ = ("_returned", "nbytes", "ptr")

    def __init__(self, ptr: int, nbytes: int, returned: deque[tuple[int, int]]) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self._returned = returned

    def __del__(self) -> None:
        # On any thread, at any moment: without a lock, and without calling the driver.
        self._returned.append((self.ptr, self.nbytes))


class Pool:
    """The memory of one worker, used by one thread at a time; `Block`s may be dropped on any thread."""

    def __init__(self, take: Callable[[int], int], give: Callable[[int], None], most: int = 0) -> None:
        """`take` gives the address of that many bytes from the driver, BackendError if there are none; `give` takes
        one back. `most`: bytes that may be taken from the driver at a time, 0 for any number.
        """
        self._take = take
        self._give = give
        self.most = most
        self.taken_nbytes = 0  #: from the driver
        self._returned: deque[tuple[int, int]] = deque()
        #: blocks given back, by size: addresses. Small ones were cut from segments, large ones are segments.
        self._small: dict[int, list[int]] = {}
        self._large: dict[int, list[int]] = {}
        #: what is left of segments, by size: addresses, which are multiples of `UNIT` only
        self._rests: dict[int, list[int]] = {}
        #: the driver's allocations: bytes by address
        self._segments: dict[int, int] = {}

    def malloc(self, nbytes: int) -> Block:
        """At least that many bytes. BackendError (MEM_OBJECT_ALLOCATION_FAILURE) if there are none; `trim` may help."""
        large = nbytes >= LARGE_NBYTES
        size = _rounded(nbytes, PAGE_NBYTES if large else UNIT)
        self._collect()
        addresses = (self._large if large else self._small).get(size)
        if addresses:
            return Block(addresses.pop(), size, self._returned)
        if not large:
            return Block(self._cut(size), size, self._returned)
        for found in sorted(self._large):
            if self._large[found] and 0 <= found - size <= found // _UNUSED_PART:
                return Block(self._large[found].pop(), found, self._returned)
        return Block(self._segment(size), size, self._returned)

    def again(self, nbytes: int) -> Block | None:
        """A block of just that size that was given back; None where there is none. Does not ask the driver."""
        size = -(-nbytes // UNIT) * UNIT
        if self._returned:
            self._collect()
        addresses = self._small.get(size)
        return Block(addresses.pop(), size, self._returned) if addresses else None

    def trim(self) -> None:
        """Give free memory to the driver. Only while nothing is under way on any worker."""
        self._collect()
        self._join()
        for free in (self._rests, self._large):
            for size, addresses in free.items():
                gone = [address for address in addresses if self._segments.get(address) == size]
                free[size] = [address for address in addresses if self._segments.get(address) != size]
                for address in gone:
                    del self._segments[address]
                    self.taken_nbytes -= size
                    self._give(address)

    def give_back(self) -> None:
        """Give the driver all memory, in use or not: nothing uses it any more, on any worker."""
        while self._segments:
            address, size = self._segments.popitem()
            self.taken_nbytes -= size
            self._give(address)
        for free in (self._small, self._large, self._rests):
            free.clear()

    def segment_of(self, address: int) -> int | None:
        """Where the driver's allocation begins in which an address lies; None if it is none of the pool's."""
        return next((at for at, size in self._segments.items() if at <= address < at + size), None)

    def free_now(self) -> Callable[[int], bool]:
        """Tells whether memory at an address is nobody's now."""
        self._collect()
        lists = (self._small, self._large, self._rests)
        found = sorted((at, size) for free in lists for size, addresses in free.items() for at in addresses)

        def is_free(address: int) -> bool:
            before = bisect_right(found, address, key=itemgetter(0)) - 1
            return before >= 0 and address < sum(found[before])

        return is_free

    def _collect(self) -> None:
        """Enter what has been given back meanwhile."""
        returned = self._returned
        while returned:
            address, size = returned.popleft()
            (self._large if size >= LARGE_NBYTES else self._small).setdefault(size, []).append(address)

    def _cut(self, size: int) -> int:
        """A small block, from the smallest free memory that it fits into. If there is none, neighbours are joined first, and then
        new memory is taken.
        """
        found = self._smallest(size)
        if found is None:
            self._join()
            found = self._smallest(size)
        address, there = found or self._new_segment(size)
        start = address + min(_gap(address, size), there - size)  # a driver's own blocks might lie anywhere
        self._leave(address, start - address)
        self._leave(start + size, address + there - start - size)
        return start

    def _leave(self, address: int, nbytes: int) -> None:
        if nbytes:
            self._rests.setdefault(nbytes, []).append(address)

    def _smallest(self, size: int) -> tuple[int, int] | None:
        """Address and size of the smallest free memory that a block fits into, taken out; None if there is none. What is left is
        looked at before larger blocks, which other work would ask for again. (These lie well for smaller ones too.)
        """
        for free in (self._rests, self._small):
            for there in sorted(free):
                if there < size:
                    continue
                addresses = free[there]
                for i in range(len(addresses) - 1, -1, -1):
                    address = addresses[i]
                    if _gap(address, size) + size <= there:
                        del addresses[i]
                        # Each cut leaves another size: those that are gone would be looked at for ever.
                        if not addresses:
                            del free[there]
                        return address, there
        return None

    def _new_segment(self, size: int) -> tuple[int, int]:
        """Memory to cut small blocks from; if little is left, no more than necessary."""
        try:
            return self._segment(SEGMENT_NBYTES), SEGMENT_NBYTES
        except BackendError as error:
            if error.status != MEM_OBJECT_ALLOCATION_FAILURE:
                raise
        pages = _rounded(size, PAGE_NBYTES)
        return self._segment(pages), pages

    def _segment(self, size: int) -> int:
        if self.most and self.taken_nbytes + size > self.most:
            raise BackendError(
                MEM_OBJECT_ALLOCATION_FAILURE, f"{size} bytes would exceed the limit of the memory pool"
            )
        address = self._take(size)
        self._segments[address] = size
        self.taken_nbytes += size
        return address

    def _join(self) -> None:
        """Join free small neighbours within a segment into one piece."""
        free = (self._small, self._rests)
        blocks = sorted((address, size) for kept in free for size in kept for address in kept[size])
        joined: list[tuple[int, int]] = []
        for address, size in blocks:
            if joined and sum(joined[-1]) == address and address not in self._segments:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((address, size))
        self._small, self._rests = {}, {}
        for address, size in joined:
            self._leave(address, size)


def _gap(address: int, nbytes: int) -> int:
    """From there to where such a block may begin."""
    return -address % min(1 << (nbytes - 1).bit_length(), FRAME_NBYTES)


def _rounded(nbytes: int, unit: int) -> int:
    return -(-max(nbytes, 1) // unit) * unit
