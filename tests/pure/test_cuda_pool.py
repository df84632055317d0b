"""Memory of a GPU, kept for reuse: no two blocks share a byte, and nothing goes back to the driver but in quiet."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from vdev.backends.cuda.pool import FRAME_NBYTES, LARGE_NBYTES, PAGE_NBYTES, SEGMENT_NBYTES, UNIT, Block, Pool
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError

MIB = 1 << 20


class Driver:
    """A device of so many bytes."""

    def __init__(self, nbytes: int) -> None:
        self.left = nbytes
        self.taken: dict[int, int] = {}
        self.next = 1 << 40

    def take(self, nbytes: int) -> int:
        if nbytes > self.left:
            raise BackendError(MEM_OBJECT_ALLOCATION_FAILURE, "none left")
        self.left -= nbytes
        address, self.next = self.next, self.next + nbytes  # neighbours: what is joined by mistake shows
        self.taken[address] = nbytes
        return address

    def give(self, address: int) -> None:
        self.left += self.taken.pop(address)


def _inside(span: tuple[int, int], taken: dict[int, int]) -> bool:
    return any(start <= span[0] and span[1] <= start + nbytes for start, nbytes in taken.items())


def _lies_well(start: int, stop: int) -> bool:
    """Whether a block begins with a frame of the second-level cache, or crosses none."""
    return start % FRAME_NBYTES == 0 or start // FRAME_NBYTES == (stop - 1) // FRAME_NBYTES


@pytest.mark.parametrize("seed", range(4))
def test_blocks_share_no_byte_and_lie_in_memory_that_is_taken(seed: int) -> None:
    rng = random.Random(seed)
    driver = Driver(128 * MIB)
    pool = Pool(driver.take, driver.give)
    held: list[tuple[Block, int]] = []
    refused = 0
    for _ in range(1500):
        if held and rng.random() < 0.48:
            held.pop(rng.randrange(len(held)))
            continue
        nbytes = rng.choice((0, 1, 500, 5000, 16_384, 70_000, MIB, 7 * MIB, 8 * MIB, 9 * MIB + 1, 33 * MIB))
        before = set(driver.taken)
        again = pool.again(nbytes) if rng.random() < 0.5 else None
        assert before == set(driver.taken)
        try:
            held.append((again or pool.malloc(nbytes), nbytes))
        except BackendError:
            refused += 1
            assert before == set(driver.taken), "to ask for memory gives none back"
            pool.trim()
        spans = sorted((block.ptr, block.ptr + block.nbytes) for block, _ in held)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
        assert all(block.nbytes >= wanted and block.ptr % UNIT == 0 for block, wanted in held)
        assert all(_inside(span, driver.taken) for span in spans)
        assert all(_lies_well(*span) for span in spans)
    assert refused, "there was enough for everything"
    held.clear()
    pool.trim()
    assert not driver.taken
    assert pool.taken_nbytes == 0


def test_memory_of_that_size_alone_is_had_again() -> None:
    driver = Driver(128 * MIB)
    pool = Pool(driver.take, driver.give)
    assert pool.again(1500) is None
    block = pool.malloc(1500)
    first = block.ptr
    assert pool.again(1500) is None  # it is in use
    del block
    assert pool.again(UNIT) is pool.again(5 * UNIT) is None
    again = pool.again(2 * UNIT)
    assert again is not None
    assert (again.ptr, again.nbytes) == (first, 2 * UNIT)
    assert pool.again(1500) is None


def test_small_blocks_share_no_part_of_a_frame() -> None:
    driver = Driver(100 * MIB)
    pool = Pool(driver.take, driver.give)
    blocks = [pool.malloc(nbytes) for nbytes in (256, 64, 512, 4, 513, 1025)]
    parts = [at >> 10 for block in blocks for at in range(block.ptr, block.ptr + block.nbytes, 1 << 10)]
    assert len(set(parts)) == len(parts) == 7


def test_a_block_is_used_again_at_once_and_the_driver_hears_nothing() -> None:
    driver = Driver(100 * MIB)
    pool = Pool(driver.take, driver.give)
    for nbytes in (4096, LARGE_NBYTES):
        first = pool.malloc(nbytes).ptr
        assert [pool.malloc(nbytes).ptr for _ in range(3)] == [first] * 3
    assert sorted(driver.taken.values()) == [LARGE_NBYTES, SEGMENT_NBYTES]


def test_what_lies_before_a_block_is_used_too() -> None:
    driver = Driver(100 * MIB)
    pool = Pool(driver.take, driver.give)
    small, frame, other = (pool.malloc(nbytes) for nbytes in (UNIT, FRAME_NBYTES, UNIT))
    assert (frame.ptr, other.ptr) == (small.ptr + FRAME_NBYTES, small.ptr + UNIT)


def test_a_driver_whose_blocks_lie_anywhere_is_served() -> None:
    driver = Driver(3 * MIB)
    driver.next += UNIT
    pool = Pool(driver.take, driver.give)
    block = pool.malloc(PAGE_NBYTES)
    assert {block.ptr: block.nbytes} == driver.taken


def test_a_large_block_serves_what_is_nearly_as_large() -> None:
    driver = Driver(1000 * MIB)
    pool = Pool(driver.take, driver.give)
    first = pool.malloc(200 * MIB).ptr
    assert pool.malloc(198 * MIB).ptr == first
    assert pool.malloc(100 * MIB).ptr != first


def test_if_little_is_left_no_more_is_taken_than_needed() -> None:
    driver = Driver(3 * MIB)
    pool = Pool(driver.take, driver.give)
    block = pool.malloc(MIB)
    assert list(driver.taken.values()) == [PAGE_NBYTES]
    assert block.nbytes == MIB


def test_a_limit_counts_what_is_kept_as_well() -> None:
    driver = Driver(1000 * MIB)
    pool = Pool(driver.take, driver.give, most=40 * MIB)
    pool.malloc(30 * MIB)
    with pytest.raises(BackendError) as caught:
        pool.malloc(20 * MIB)
    assert caught.value.status == MEM_OBJECT_ALLOCATION_FAILURE
    pool.trim()
    assert pool.malloc(20 * MIB).nbytes == 20 * MIB
