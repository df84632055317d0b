"""A program that copies boxes between buffers, of a few shapes and each from another place to another one, and fills some, with what may
come in between: a process of its own, started by `test_copied_boxes`. It prints how many copies and fills were made at once, like one
before (`CopiesAtOnce`), how many were made by one call of the back end (`CopyForm`, `FillForm`), and how many there were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.executor.anywhere import CopyForm, FillForm
from vdev.session.immediate_copies import CopiesAtOnce

SOURCE = "kernel void add(global uchar *a, uchar k) { a[get_global_id(0)] += k; }"
NBYTES, BUFFERS, STEPS = 6000, 13, 110
FLAGS, CODES = cl.mem_flags, cl.status_code
#: region, pitches of the source and of the target
SHAPES: list[tuple[tuple[int, ...], Any, Any]] = [
    ((16, 8, 1), (64, 0), (64, 0)),
    ((16, 8), (48,), (80, 640)),
    ((7, 5, 3), (9, 50), (10, 64)),
    ((24, 4, 2), None, (32, 256)),
    ((40, 6, 2), (40, 240), None),
    ((100,), None, None),
]
Host = np.ndarray[Any, np.dtype[np.uint8]]

at_once, by_form = [0], [0]


def _counted(method: Any, counts: list[int]) -> Any:
    def counted(*given: Any) -> Any:
        found = method(*given)
        counts[0] += found is not None
        return found

    return counted


for _kind, _name, _counts in (
    (CopiesAtOnce, "copy", at_once),
    (CopiesAtOnce, "fill", at_once),
    (CopyForm, "start", by_form),
    (FillForm, "start", by_form),
):
    setattr(_kind, _name, _counted(getattr(_kind, _name), _counts))


def box_of(host: Host, origin: tuple[int, int, int], region: tuple[int, ...], pitches: Any) -> Host:
    """The bytes of a box, in place."""
    row, rows, slices = (*region, 1, 1, 1)[:3]
    pitch, plane = (*(pitches or ()), 0, 0)[:2]
    pitch = pitch or row
    plane = plane or rows * pitch
    start = origin[0] + origin[1] * pitch + origin[2] * plane
    assert start + (slices - 1) * plane + (rows - 1) * pitch + row <= len(host), "within the buffer"
    shape, strides = (slices, rows, row), (plane, pitch, 1)
    return np.lib.stride_tricks.as_strided(host[start:], shape, strides)


class Program:
    """Buffers with what should be in them, and what is done to these."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.context = cl.create_some_context(interactive=False)
        properties = cl.command_queue_properties
        self.queue = cl.CommandQueue(self.context)
        self.loose = cl.CommandQueue(self.context, properties=properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        self.profiled = cl.CommandQueue(self.context, properties=properties.PROFILING_ENABLE)
        self.add = cl.Kernel(cl.Program(self.context, SOURCE).build(), "add")
        self.add.set_arg_types([None, np.uint8])
        self.hosts: list[Host] = [self._random_host() for _ in range(BUFFERS)]
        self.wanted = list(self.hosts)
        self.buffers = [self._on_device(each) for each in self.hosts]
        # a part of the first one, too
        self.buffers.append(self.buffers[0][512:5632])
        self.wanted.append(self.wanted[0][512:5632])
        self.copies = 0

    def _random_host(self) -> Host:
        return self.random.integers(0, 256, NBYTES, np.uint8)

    def _on_device(self, host: Host) -> cl.Buffer:
        buffer = cl.Buffer(self.context, FLAGS.READ_WRITE, NBYTES)
        cl.enqueue_copy(self.queue, buffer, host)
        self.add(self.queue, (NBYTES,), None, buffer, np.uint8(1))
        host += 1
        return buffer

    def pair(self) -> tuple[int, int]:
        """Two buffers that share nothing."""
        one, other = self.random.choice(len(self.buffers), 2, replace=False)
        return (1, 2) if {one, other} == {0, BUFFERS} else (one, other)

    def copy(self, queue: cl.CommandQueue, pair: tuple[int, int] | None = None, **more: Any) -> cl.Event:
        """Copy a box from one of them to another one."""
        one, other = pair or self.pair()
        if pair is None and self.random.random() < 0.2:
            return self.fill(queue, other, **more)
        if self.random.random() < 0.3:
            nbytes, start, to = (int(self.random.integers(1, most)) for most in (2000, 3000, 3000))
            nbytes = nbytes if self.random.random() < 0.3 else 1024
            self.wanted[other][to : to + nbytes] = self.wanted[one][start : start + nbytes]
            given: dict[str, Any] = {"byte_count": nbytes, "src_offset": start, "dst_offset": to}
        else:
            region, pitches, to_pitches = SHAPES[int(self.random.integers(len(SHAPES)))]
            step = int(self.random.choice([1, 2, 4, 8, 16]))
            x, y, z, u, v, w = (int(each) for each in self.random.integers(0, 4, 6))
            origins = (step * x, y, z), (step * u, v, w)
            box = box_of(self.wanted[one], origins[0], region, pitches)
            box_of(self.wanted[other], origins[1], region, to_pitches)[...] = box
            given = {"src_origin": origins[0], "dst_origin": origins[1], "region": region}
            given |= {"src_pitches": pitches, "dst_pitches": to_pitches}
        self.copies += 1
        return cl.enqueue_copy(queue, self.buffers[other], self.buffers[one], **given, **more)

    def fill(self, queue: cl.CommandQueue, one: int, **more: Any) -> cl.Event:
        """Fill one of them, or a part of it."""
        kind = self.random.choice([np.uint8, np.uint16, np.uint32, np.uint64, np.complex128])
        value = kind(self.random.choice([0, 77, 513]))
        nbytes = 16 * int(self.random.choice([4, 4, len(self.wanted[one]) // 16]))
        start = 16 * int(self.random.integers(0, 1 + (len(self.wanted[one]) - nbytes) // 16))
        self.wanted[one][start : start + nbytes].view(kind)[:] = value
        self.copies += 1
        return cl.enqueue_fill_buffer(queue, self.buffers[one], value, start, nbytes, **more)

    def launch(self) -> None:
        one = int(self.random.integers(BUFFERS))
        self.add(self.queue, (NBYTES,), None, self.buffers[one], np.uint8(one))
        self.wanted[one] += np.uint8(one)

    def behind_a_user_event(self) -> None:
        """What comes behind a command that waits for the program waits as well."""
        event, one = cl.UserEvent(self.context), int(self.random.integers(BUFFERS))
        self.copy(self.queue, (one, (one + 1) % BUFFERS))
        self.wanted[one][:] = 7
        cl.enqueue_fill_buffer(self.queue, self.buffers[one], np.uint8(7), 0, NBYTES, wait_for=[event])
        later = [self.copy(self.queue, (one, (one + 1) % BUFFERS)) for _ in range(3)]
        assert later[-1].command_execution_status != cl.command_execution_status.COMPLETE, "nothing had begun"
        event.set_status(cl.command_execution_status.COMPLETE)

    def behind_a_barrier(self) -> None:
        """In an out-of-order queue, too."""
        self.queue.finish()
        event = cl.UserEvent(self.context)
        cl.enqueue_barrier(self.loose, wait_for=[event])
        later = self.copy(self.loose)
        assert later.command_execution_status != cl.command_execution_status.COMPLETE
        event.set_status(cl.command_execution_status.COMPLETE)
        self.loose.finish()

    def behind_each_other(self) -> None:
        event = self.copy(self.queue)
        for _ in range(3):
            event = self.copy(self.queue, wait_for=[event])
        waiting = cl.UserEvent(self.context)
        last = self.copy(self.queue, wait_for=[event, waiting])
        assert last.command_execution_status != cl.command_execution_status.COMPLETE, "nothing had begun"
        waiting.set_status(cl.command_execution_status.COMPLETE)

    def with_times(self) -> None:
        """The next one begins when the one before has ended."""
        self.queue.finish()
        events = [self.copy(self.profiled) for _ in range(4)]
        events[-1].wait()
        ends = [event.profile.end for event in events]
        assert all(event.profile.start <= event.profile.end for event in events)
        assert all(event.profile.start >= end for event, end in zip(events[1:], ends, strict=False))

    def new_one(self) -> None:
        """Instead of one of them, of which the worker has nothing yet."""
        one = int(self.random.integers(1, BUFFERS))
        self.wanted[one] = self._random_host()
        self.buffers[one] = cl.Buffer(
            self.context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=self.wanted[one]
        )

    def to_and_from_the_host(self, queue: cl.CommandQueue | None = None) -> None:
        """Boxes of an array that is wider than these."""
        queue = queue or self.queue
        reads: list[tuple[cl.Event, Host, Host]] = []
        for _ in range(4):
            region, pitches, host_pitches = SHAPES[int(self.random.integers(len(SHAPES) - 1))]
            x, y, z, u, v, w = (int(each) for each in self.random.integers(0, 4, 6))
            one, host = int(self.random.integers(len(self.buffers))), self._random_host()
            given: dict[str, Any] = {"buffer_origin": (x, y, z), "host_origin": (u, v, w), "region": region}
            given |= {"buffer_pitches": pitches, "host_pitches": host_pitches}
            given["is_blocking"] = bool(self.random.integers(2))
            box = box_of(self.wanted[one], (x, y, z), region, pitches)
            in_host = box_of(host, (u, v, w), region, host_pitches)
            if self.random.random() < 0.4:
                box[...] = in_host
                event = cl.enqueue_copy(queue, self.buffers[one], host, **given)
                if (
                    given["is_blocking"]
                    or event.command_execution_status == cl.command_execution_status.COMPLETE
                ):
                    host[:] = 0
                else:
                    reads.append((event, host, host.copy()))
                continue
            expected = host.copy()
            box_of(expected, (u, v, w), region, host_pitches)[...] = box
            reads.append((cl.enqueue_copy(queue, host, self.buffers[one], **given), host, expected))
        for event, host, expected in reads:
            event.wait()
            assert (host == expected).all(), np.flatnonzero(host != expected)[:8]

    def with_times_of_the_host(self) -> None:
        self.queue.finish()
        self.to_and_from_the_host(self.profiled)
        self.profiled.finish()

    def refused_of_the_host(self) -> None:
        """Where the box ends beyond the buffer, or the array."""
        host, part = np.full(1024, 5, np.uint8), self.buffers[-1]
        given: dict[str, Any] = {"buffer_pitches": (64, 0), "host_pitches": (64, 0)}
        for origin, host_origin, region in (
            ((0, 73, 0), (0, 0, 0), (16, 8, 1)),
            ((0, 0, 0), (0, 9, 0), (16, 8, 1)),
            ((0, 0, 0), (0, 0, 0), (65, 8, 1)),
        ):
            given |= {"buffer_origin": origin, "host_origin": host_origin, "region": region}
            assert self.code(host, part, given) == CODES.INVALID_VALUE
            assert self.code(part, host, given) == CODES.INVALID_VALUE
        assert (host == 5).all()

    def in_another_thread(self) -> None:
        thread = Thread(target=lambda: [self.copy(self.queue) for _ in range(5)])
        thread.start()
        thread.join()

    def refused(self) -> None:
        """What is not possible is refused each time, and nothing is copied."""
        part, whole = self.buffers[-1], self.buffers[0]
        region, pitches = (16, 8, 1), (64, 0)
        for source, target, origin, more, code in (
            (self.buffers[1], part, (0, 73, 0), {}, CODES.INVALID_VALUE),  # the part ends before the buffer
            (part, self.buffers[1], (0, 80, 0), {}, None),
            (whole, part, (0, 0, 0), {"origin": (520, 0, 0)}, CODES.MEM_COPY_OVERLAP),
            (whole, whole, (0, 0, 0), {"origin": (8, 1, 0)}, CODES.MEM_COPY_OVERLAP),
            (self.buffers[1], self.buffers[2], (1 << 40, 0, 0), {}, CODES.INVALID_VALUE),
            (self.buffers[1], self.buffers[2], (0, 0), {}, None),
        ):
            given = {"src_origin": more.get("origin", (0, 0, 0)), "dst_origin": origin, "region": region}
            given |= {"src_pitches": pitches, "dst_pitches": pitches}
            found = self.code(target, source, given)
            assert found == code, (found, code)
            if code is None:
                one, other = ([*self.buffers].index(each) for each in (source, target))
                place = (*origin, 0)[:3]
                box_of(self.wanted[other], place, region, pitches)[...] = box_of(
                    self.wanted[one], given["src_origin"], region, pitches
                )
        for start, nbytes in ((5104, 32), (2, 16), (0, 6), (1 << 40, 16)):
            try:
                cl.enqueue_fill_buffer(self.queue, part, np.uint32(1), start, nbytes)
            except cl.Error as error:
                code = int(error.code)
            else:
                code = 0
            assert code == CODES.INVALID_VALUE, (start, nbytes)
        gone = cl.Buffer(self.context, FLAGS.READ_WRITE, NBYTES)
        gone.release()
        for given in (
            {"byte_count": 1024},
            {"src_origin": (0, 0, 0), "dst_origin": (0, 0, 0), "region": (4, 4, 1)},
        ):
            assert self.code(gone, whole, given) in (CODES.INVALID_MEM_OBJECT, CODES.INVALID_VALUE)

    def code(self, target: Any, source: Any, given: dict[str, Any]) -> int | None:
        """With which a copy is refused; None if it is not."""
        try:
            cl.enqueue_copy(self.queue, target, source, **given)
        except cl.Error as error:
            return int(error.code)
        return None

    def look(self, one: int | None = None) -> None:
        one = int(self.random.integers(len(self.buffers))) if one is None else one
        found = np.empty(len(self.wanted[one]), np.uint8)
        cl.enqueue_copy(self.queue, found, self.buffers[one])
        wrong = np.flatnonzero(found != self.wanted[one])
        assert not len(wrong), (one, wrong[:8])

    def run(self) -> None:
        kinds: list[Callable[[], None]] = [
            self.behind_a_user_event, self.behind_a_barrier, self.behind_each_other, self.with_times, self.new_one,
            self.in_another_thread, self.refused, self.look, self.to_and_from_the_host, self.with_times_of_the_host,
            self.refused_of_the_host,
        ]  # fmt: skip
        for _ in range(STEPS):
            for number in range(8):
                self.copy(self.queue)
                if number % 4 == 0:
                    self.launch()
            kinds[int(self.random.integers(len(kinds)))]()
        for one in range(len(self.buffers)):
            self.look(one)


def main() -> None:
    program = Program(int(sys.argv[1]))
    program.run()
    print(at_once[0], by_form[0], program.copies)


if __name__ == "__main__":
    main()
