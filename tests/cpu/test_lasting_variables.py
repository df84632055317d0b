"""Programs whose kernels change variables that outlast a launch: all launches see what those before have left in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.pure.forced_cuts import CutsInTurn
from vdev.facade import stand_in
from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.facade.platform_device import Platform
from vdev.planner.partitioner import make_partition
from vdev.process.switches import WorkerSpec
from vdev.session.session import Session
from vdev.start.workers import open_workers

cl: Any = ModuleType("pyopencl._cl")
stand_in.populate(cl)

N = 4096
FLAGS = native.mem_flags
#: `put` stores a number behind the last work-item, `get` finds it in all of them
PROGRAMS = {
    "at program scope": "global int kept[2] = {3, 4}; global int *place(void) { return &kept[1]; }",
    "static": "global int *place(void) { static global int kept = 4; return &kept; }",
}
KERNELS = """
kernel void put(global int *a, int v)
{ int i = get_global_id(0); a[i] = v; if (i == get_global_size(0) - 1) *place() = v; }
kernel void get(global int *a) { a[get_global_id(0)] = *place(); }
kernel void more(global int *a) { a[get_global_id(0)] += *place(); }
kernel void seen(read_only image2d_t im, global int *a)
{ int i = get_global_id(0); a[i] = *place() + read_imagei(im, (int2)(i % 8, i / 8 % 8)).x; }
kernel void shown(write_only image2d_t im) { write_imagei(im, (int2)(get_global_id(0), get_global_id(1)), *place()); }
"""


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session(open_workers([WorkerSpec("cpu", (), 3)]), min_items=0, gather=False, plan_always=True)
    made.launch_options = replace(made.launch_options, cuts=CutsInTurn())
    yield made
    made.close()


def opened(session: Session, source: str) -> tuple[Any, Any, Any]:
    context = cl.Context(Platform(session).get_devices())
    program = cl._Program(context, source)
    program._build(b"-cl-std=CL3.0", None)
    return context, cl.CommandQueue(context), program


def launch(queue: Any, program: Any, name: str, *args: Any, size: tuple[int, ...] = (N,)) -> None:
    kernel = cl.Kernel(program, name)
    for index, arg in enumerate(args):
        kernel.set_arg(index, arg)
    cl.enqueue_nd_range_kernel(queue, kernel, size, (64,) if len(size) == 1 else (4, 4))


def content(queue: Any, buffer: Any) -> np.ndarray[Any, Any]:
    found = np.zeros(N, np.int32)
    cl._enqueue_read_buffer(queue, buffer, found)
    return found


@pytest.mark.parametrize("place", PROGRAMS)
def test_a_launch_sees_what_the_one_before_left(session: Session, place: str) -> None:
    context, queue, program = opened(session, PROGRAMS[place] + KERNELS.partition("kernel void seen")[0])
    buffer = cl.Buffer(context, FLAGS.READ_WRITE, N * 4)
    launch(queue, program, "get", buffer)
    assert set(content(queue, buffer)) == {4}
    for number in (7, 8, 9, 10):
        launch(queue, program, "put", buffer, np.int32(number))
        launch(queue, program, "get", buffer)
        assert set(content(queue, buffer)) == {number}


@pytest.mark.parametrize("place", PROGRAMS)
def test_beside_images(session: Session, place: str) -> None:
    context, queue, program = opened(session, PROGRAMS[place] + KERNELS)
    buffer = cl.Buffer(context, FLAGS.READ_WRITE, N * 4)
    pixels = np.arange(64, dtype=np.int32)
    form = native.ImageFormat(native.channel_order.R, native.channel_type.SIGNED_INT32)
    desc = cl.ImageDescriptor()
    desc.image_type, desc.shape, desc.pitches = native.mem_object_type.IMAGE2D, (8, 8, 1), (0,)
    image = cl.Image.__new__(cl.Image)
    cl.Image._custom_init(image, context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, form, desc, pixels)
    for number in (7, 8, 9):
        launch(queue, program, "put", buffer, np.int32(number))
        launch(queue, program, "seen", image, buffer)
        assert (content(queue, buffer) == number + np.resize(pixels, N)).all()
        launch(queue, program, "shown", image, size=(8, 8))
        pixels = np.full(64, number, np.int32)
        read = np.zeros(64, np.int32)
        cl._enqueue_read_image(queue, image, (0, 0, 0), (8, 8, 1), read)
        assert (read == number).all()


def test_all_launches_are_on_the_same_worker(session: Session) -> None:
    """Also where the data is elsewhere."""
    context, queue, program = opened(session, PROGRAMS["static"] + KERNELS)
    behind = (
        "kernel void behind(global int *a) { long i = get_global_id(0) - 2l * 4096; if (i >= 0) a[i] = 1; }"
    )
    other = cl._Program(context, behind)
    other._build(b"", None)
    buffer = cl.Buffer(context, FLAGS.READ_WRITE, N * 4)
    session.launch_options = replace(
        session.launch_options, cuts=lambda groups, workers: (make_partition(groups, (3,)),)
    )
    launch(queue, other, "behind", buffer, size=(3 * N,))
    assert state_of(buffer).buffer.state.resident == 2
    launch(queue, program, "more", buffer)
    assert state_of(buffer).buffer.state.resident == 0
    assert set(content(queue, buffer)) == {5}


def test_where_its_buffers_are_kept_on_another_worker(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All launches of such a program are on one worker, even if launches take no plans where their buffers are kept."""
    context, queue, program = opened(session, PROGRAMS["static"] + KERNELS.partition("kernel void seen")[0])
    buffer = cl.Buffer(context, FLAGS.READ_WRITE, N * 4)
    launch(queue, program, "put", buffer, np.int32(5))
    asked: list[int] = []

    def keeper(buffers: Any, tally: Any, nitems: int) -> int:
        asked.append(nitems)
        return 1

    monkeypatch.setattr(session.launches.direct, "_keeper", keeper)
    monkeypatch.setattr(session.launches, "_finder", lambda: session.launches._direct_or_planned)
    launch(queue, program, "get", buffer)
    assert set(content(queue, buffer)) == {5}
    assert asked
    # Workers of one driver have one memory for such variables, but others do not.
    assert state_of(buffer).buffer.state.resident == 0
