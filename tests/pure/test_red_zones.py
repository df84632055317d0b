"""Red zones around replicas: sizes, marks, and that they go with the replica."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdev.backends.reference import Faults, ReferenceBackend
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.holdings import Replica
from vdev.executor.red_zones import MOST_NBYTES, PAGE, PATTERN, allocate_guarded, first_mark, zones_of

START, STOP, NBYTES = 8192, 8192 + 3000, 40000


@pytest.fixture
def backend() -> Iterator[ReferenceBackend]:
    backend = ReferenceBackend()
    yield backend
    backend.close()


def guarded(backend: ReferenceBackend) -> Replica:
    allocation = allocate_guarded(backend, backend.allocate, START, STOP, NBYTES)
    backend.record().wait()
    return Replica(allocation, START, STOP)


def mark(backend: ReferenceBackend, replica: Replica) -> int | None:
    look = first_mark(backend, replica)
    backend.record().wait()
    return look()


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_zones_stand_for_the_rest_of_the_buffer_and_more(ahead: int, inside: int, behind: int) -> None:
    zones = zones_of(ahead, ahead + inside, ahead + inside + behind)
    for zone, beside in zip(zones, (ahead, behind), strict=True):
        assert zone % PAGE == 0
        assert min(beside, MOST_NBYTES) < zone < min(beside, MOST_NBYTES) + 2 * PAGE + 1


@pytest.mark.parametrize("at", [-PAGE, 0, START - 1, STOP + 100, NBYTES - 1, NBYTES + 50])
def test_a_store_beside_a_replica_leaves_a_mark(backend: ReferenceBackend, at: int) -> None:
    replica = guarded(backend)
    assert mark(backend, replica) is None
    whole = replica.allocation.whole
    assert whole is not None
    whole.native[at - START + replica.allocation.ahead] = 77  # type: ignore[index]
    assert mark(backend, replica) == at


@pytest.mark.parametrize("inside", [1, 2, 3, 5, 4096])
def test_zones_behind_replicas_of_any_size_are_as_they_were_made(
    backend: ReferenceBackend, inside: int
) -> None:
    allocation = allocate_guarded(backend, backend.allocate, START, START + inside, NBYTES)
    assert mark(backend, Replica(allocation, START, START + inside)) is None


def test_what_is_inside_is_nobodys_business(backend: ReferenceBackend) -> None:
    replica = guarded(backend)
    backend.fill(replica.allocation, 0, 3000, b"\1")
    backend.record().wait()
    assert replica.allocation.nbytes == 3000
    assert mark(backend, replica) is None
    backend.free(replica.allocation)
    assert backend.counters.allocated_nbytes == 0


def test_bytes_beside_a_replica_read_as_small_numbers(backend: ReferenceBackend) -> None:
    replica = guarded(backend)
    whole = replica.allocation.whole
    assert whole is not None
    words = whole.native[: replica.allocation.ahead].view(np.uint32)  # type: ignore[index]
    assert (words == np.frombuffer(PATTERN, np.uint32)).all()


def test_zones_that_do_not_fit_are_left_out() -> None:
    backend = ReferenceBackend(faults=Faults(capacity=5000))
    replica = guarded(backend)
    assert replica.allocation.whole is None
    assert mark(backend, replica) is None
    with pytest.raises(BackendError) as refused:
        allocate_guarded(backend, backend.allocate, START, STOP, NBYTES)
    assert refused.value.status == MEM_OBJECT_ALLOCATION_FAILURE
    backend.close()
