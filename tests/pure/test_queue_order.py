"""Order in out-of-order queues: what markers and barriers wait for (specification 5.12)."""

from __future__ import annotations

import numpy as np
import pytest
from vdev.translators.ranges.rectangles import Layout

from vdev.backends.reference import ReferenceBackend
from vdev.session.commands import Fill, Marker, Read
from vdev.session.session import Session


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


@pytest.mark.parametrize("error", [MemoryError, RecursionError, KeyboardInterrupt])
@pytest.mark.parametrize("held_back", [False, True])
def test_a_command_that_cannot_be_planned_leaves_its_queue_usable(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], held_back: bool
) -> None:
    """Whatever the exception: the command has failed, and what waits for the queue does not wait for it."""
    session = Session([ReferenceBackend])
    try:
        queue, buffer = session.create_queue(in_order=True), session.create_buffer(64)
        session.submit(Fill(buffer, 0, 64, b"\x05"), queue=queue)

        def fail(*arguments: object) -> None:
            raise error

        go = session.user_completion()
        with monkeypatch.context() as patch:
            patch.setitem(session._planners, Fill, fail)
            if held_back:
                session.submit(Fill(buffer, 0, 64, b"\x06"), (go,), queue=queue)
                marker = session.submit(Marker(), queue=queue)
                with pytest.raises(error):
                    go.set_status(0)
                assert marker.wait() == 0
            else:
                with pytest.raises(error):
                    session.submit(Fill(buffer, 0, 64, b"\x06"), queue=queue)
        session.finish(queue)
        assert session.submit(Fill(buffer, 0, 32, b"\x07"), queue=queue).wait() == 0
        read = np.zeros(64, np.uint8)
        session.submit(Read(buffer, Layout.contiguous(0, 64), read), queue=queue).wait()
        np.testing.assert_array_equal(read, [7] * 32 + [5] * 32)
    finally:
        session.close()
