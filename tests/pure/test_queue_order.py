"""Order in out-of-order queues: what markers and barriers wait for (specification 5.12)."""

from __future__ import annotations

import numpy as np

from vdev.backends.reference import ReferenceBackend
from vdev.commands import Fill, Marker
from vdev.session import Session


def test_a_marker_behind_an_open_barrier_waits_for_all_before_it() -> None:
    """Not for the barrier alone: a command that waits for its own event is before the marker as well."""
    session = Session([ReferenceBackend])
    try:
        queue = session.create_queue(in_order=False)
        first, second = session.user_completion(), session.user_completion()
        barrier = session.submit(Marker(barrier=True), (first,), queue=queue)
        filled = session.submit(Fill(session.create_buffer(64), 0, 64, b"\x07"), (second,), queue=queue)
        marker = session.submit(Marker(), queue=queue)
        first.set_status(0)
        assert barrier.wait() == 0
        assert (filled.status, marker.status) == (3, 3)
        second.set_status(0)
        assert marker.wait() == 0
        assert filled.status == 0
    finally:
        session.close()


def test_commands_behind_a_barrier_wait_for_it() -> None:
    session = Session([ReferenceBackend])
    try:
        queue = session.create_queue(in_order=False)
        go = session.user_completion()
        session.submit(Marker(barrier=True), (go,), queue=queue)
        buffer = session.create_buffer(64)
        filled = session.submit(Fill(buffer, 0, 64, b"\x07"), queue=queue)
        assert filled.status == 3
        go.set_status(0)
        assert filled.wait() == 0
        np.testing.assert_array_equal(buffer.home(), 7)
    finally:
        session.close()
