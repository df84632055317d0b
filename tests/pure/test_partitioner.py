"""Partitions, and local sizes that the program leaves open."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.tracing import Trace

from vdev.planner.partitioner import (
    Partition,
    all_partitions,
    check_partition,
    choose_local_size,
    cut_grids,
    make_partition,
    partitions,
    widest_partitions,
)

group_counts = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize(
    ("dims", "chunks", "count"), [(1, 4, 1), (2, 4, 3), (3, 4, 6), (2, 6, 4), (3, 8, 10), (2, 7, 2)]
)
def test_the_table_has_every_grid(dims: int, chunks: int, count: int) -> None:
    """PPoPP'11 figure 5: one way in one dimension, six for four devices in three."""
    grids = cut_grids(dims, chunks)
    assert len(grids) == len(set(grids)) == count
    assert all(prod(grid) == chunks for grid in grids)


@given(group_counts, st.integers(1, 9))
def test_partitions_are_whole(groups: tuple[int, ...], chunks: int) -> None:
    for partition in partitions(groups, chunks):
        assert len(partition.chunks) == chunks
        check_partition(partition, groups)


@given(group_counts, st.integers(1, 9))
def test_a_grid_is_made_once_and_for_traced_numbers_is_the_same(groups: tuple[int, ...], chunks: int) -> None:
    for partition in partitions(groups, chunks):
        found = make_partition(groups, partition.cuts)
        assert found == partition
        assert make_partition(groups, partition.cuts) is found
        trace = Trace()
        traced = make_partition(tuple(map(trace.parameter, groups)), partition.cuts)
        assert trace.bounds() == ([], [])
        assert [(*map(int, chunk.start), *map(int, chunk.stop)) for chunk in traced.chunks] == [
            chunk.start + chunk.stop for chunk in partition.chunks
        ]


@given(group_counts, st.integers(1, 9))
def test_as_many_chunks_as_the_groups_allow(groups: tuple[int, ...], workers: int) -> None:
    widest = widest_partitions(groups, workers)
    count = len(widest[0].chunks)
    assert all(len(partition.chunks) == count for partition in widest)
    assert not any(partitions(groups, more) for more in range(count + 1, workers + 1))
    assert count == workers or max(groups) < workers
    assert all_partitions(groups, workers)[: len(widest)] == widest
    assert len(all_partitions(groups, workers)[-1].chunks) == 1


def test_the_slowest_dimension_is_cut_first() -> None:
    assert partitions((64, 64), 4)[0].cuts == (1, 4)
    assert partitions((64, 64, 64), 2)[0].cuts == (1, 1, 2)


def test_an_uneven_grid_is_no_candidate() -> None:
    """7 groups in 6 parts leave one with twice the others' work."""
    assert [partition.cuts for partition in partitions((7, 600), 6)] == [(1, 6), (2, 3)]


def test_the_check_finds_what_is_wrong() -> None:
    def chunk(start: int, stop: int) -> Chunk:
        return Chunk((start,), (stop,))

    check_partition(Partition((2,), (chunk(0, 2), chunk(2, 4))), (4,))
    for wrong in (
        (chunk(0, 2), chunk(1, 3)),  # twice, and not the last
        (chunk(0, 1), chunk(1, 4)),  # unbalanced
        (chunk(0, 2), chunk(2, 3)),  # not covered
        (chunk(0, 2), chunk(3, 5)),  # outside
        (chunk(0, 4), chunk(4, 4)),  # empty
    ):
        with pytest.raises(AssertionError):
            check_partition(Partition((2,), wrong), (4,))


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=3),
    st.sampled_from([1, 7, 64, 1024, 8192]),
    st.sampled_from([1, 8, 32]),
    st.integers(1, 8),
)
def test_local_sizes_divide(sizes: list[int], largest: int, multiple: int, min_groups: int) -> None:
    local = choose_local_size(sizes, max_group_size=largest, multiple=multiple, min_groups=min_groups)
    assert len(local) == len(sizes)
    assert all(size % part == 0 for size, part in zip(sizes, local, strict=True))
    assert prod(local) <= (
        min(largest, 256) if len(sizes) == 1 or sum(part > 1 for part in local) > 1 else largest
    )
    assert prod(sizes) // prod(local) >= min(min_groups, prod(sizes))


def test_local_sizes_of_ordinary_launches() -> None:
    def choose(*sizes: int, **limits: Any) -> tuple[int, ...]:
        return choose_local_size(sizes, max_group_size=8192, **limits)

    assert choose(1 << 20, multiple=64) == (256,)
    assert choose(1000, multiple=64, min_groups=4) == (250,)
    assert choose(640, multiple=64, min_groups=4) == (128,)  # 160 divides too, but is no multiple
    assert choose(64, min_groups=4) == (16,)
    assert choose(1024, 1024) == (16, 16)
    assert choose(1024, 1024, multiple=32) == (32, 8)
    assert choose(1024, 1) == (256, 1)
    assert choose(1, 1024) == (1, 256)
    assert choose(8, 4096) == (8, 32)
    assert choose(4096, 8) == (32, 8)
    assert choose(1000, 1000) == (25, 10)
    assert choose(1021, 1021) == (1021, 1)
    assert choose(3, 1021) == (1, 1021)
    assert choose(1021, 1021, max_item_sizes=(64, 64)) == (1, 1)
    assert choose(64, 64, 64) == (16, 4, 4)
    assert choose(64, 64, 64, multiple=32) == (32, 4, 2)
    assert choose(10, 10, 10, min_groups=2) == (10, 10, 2)
    assert choose(1000003) == (1,)  # a prime
    assert choose(251) == (251,)  # a prime, but small
    assert choose(251, min_groups=2) == (1,)
    assert choose(0) == (1,)


def test_limits_of_a_device_and_a_kernel() -> None:
    assert choose_local_size((64, 64), max_group_size=4096, max_item_sizes=(16, 4)) == (16, 4)
    assert choose_local_size((64, 64), max_group_size=4096, required=(8, 8)) == (8, 8)
    assert choose_local_size((64,), max_group_size=4096, required=(0, 0, 0)) == (64,)


def test_a_hint_is_taken_where_it_fits() -> None:
    def choose(*sizes: int, hint: tuple[int, int, int], largest: int = 4096) -> tuple[int, ...]:
        return choose_local_size(sizes, max_group_size=largest, hint=hint)

    assert choose(64, 64, hint=(8, 4, 1)) == (8, 4)
    assert choose(64, hint=(8, 1, 1)) == (8,)
    assert choose(64, hint=(8, 2, 1)) == (64,)
    assert choose(60, 64, hint=(8, 4, 1)) == (15, 16)
    assert choose(64, 64, hint=(8, 4, 1), largest=16) == (16, 1)
    assert choose(64, 64, hint=(0, 0, 0)) == (16, 16)
