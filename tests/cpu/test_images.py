"""Images: what is native on one device is the same on the virtual one, calls and pixels; what the virtual device alone
decides, how launches are split and which bytes move.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from vdev.translators.dialects.image_lowering import lower_images, pack_descriptor
from vdev.translators.frontend.source import Target, parse_program

from tests.cpu import image_calls, image_programs, side_by_side
from vdev.backends.opencl.images import NativeImages
from vdev.facade import stand_in
from vdev.facade.errors import native
from vdev.facade.handles import state_of
from vdev.facade.platform_device import Platform
from vdev.process.switches import WorkerSpec
from vdev.session.session import Session
from vdev.start.workers import open_workers

cl: Any = ModuleType("pyopencl._cl")
stand_in.populate(cl)

#: what a linear filter and sRGB may differ by: the weights' and the curve's last bits, of numbers around 4
TOLERANCE = 2e-6


@functools.cache
def results(module: str, workers: int | None) -> dict[str, Any]:
    environ = {"PYOPENCL_NO_CACHE": "1"}
    if workers is not None:
        environ |= {"VDEV": "1", "VDEV_WORKERS": f"cpu:{workers}", "VDEV_MIN_ITEMS": "0"}
    found = side_by_side.run(module, environ)
    assert (found["platform"] == "vdev") == (workers is not None)
    return found


@functools.cache
def natively(module: str) -> dict[str, Any]:
    found = results(module, None)
    if "Intel" not in found["platform"]:
        pytest.skip("drivers differ in formats and codes; the virtual device answers as Intel's does")
    return found


def test_the_table_is_large() -> None:
    assert len(image_calls.CALLS) >= 150


#: natively it depends on what lies behind the properties
CHANCE = "sampler: half"


@pytest.mark.parametrize("name", [name for name in image_calls.CALLS if name != CHANCE])
def test_calls_as_native(name: str) -> None:
    assert results("tests.cpu.image_calls", 2)[name] == natively("tests.cpu.image_calls")[name]


def test_a_property_without_a_value_is_refused() -> None:
    assert results("tests.cpu.image_calls", 2)[CHANCE][:2] == ["LogicError", -30]


@pytest.mark.parametrize(
    ("module", "workers"), [("image_programs", 1), ("image_programs", 3), ("image_programs_of_gpus", 1)]
)
@pytest.mark.parametrize("name", image_programs.CALLS)
def test_pixels_as_native(name: str, module: str, workers: int) -> None:
    outcome, expected = natively("tests.cpu.image_programs")[name]
    assert outcome == "ok", expected
    outcome, found = results(f"tests.cpu.{module}", workers)[name]
    assert outcome == "ok", found
    assert found["exact"] == expected["exact"]
    assert found["exact"]
    assert found["close"].keys() == expected["close"].keys()
    for how, numbers in expected["close"].items():
        np.testing.assert_allclose(found["close"][how], numbers, rtol=0, atol=TOLERANCE, err_msg=how)


# splitting

SOURCE = """
const sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
float4 at(read_only image2d_t im, int2 p) { return read_imagef(im, nearest, p); }
kernel void blur(read_only image2d_t a, write_only image2d_t b, int r) {
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  if (p.x >= get_image_width(b) || p.y >= get_image_height(b)) return;
  float4 sum = 0;
  for (int j = -r; j <= r; j++) for (int i = -r; i <= r; i++) sum += at(a, p + (int2)(i, j));
  write_imagef(b, p, sum / (float)((2 * r + 1) * (2 * r + 1)));
}
kernel void resize(read_only image2d_t a, sampler_t s, global float4 *out) {
  int x = get_global_id(0), y = get_global_id(1), w = get_global_size(0), h = get_global_size(1);
  out[y * w + x] = read_imagef(a, s, (float2)((x + 0.5f) / w, (y + 0.5f) / h));
}
kernel void scatter(global const int *to, write_only image2d_t b) {
  int i = get_global_id(0);
  write_imageui(b, (int2)(to[i] % 64, to[i] / 64), (uint4)(i & 255, i >> 8, 7, 9));
}
kernel void invert(read_write image2d_t a) {
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(a, p, 1.0f - read_imagef(a, p));
}
kernel void shear(read_only image3d_t a, write_only image3d_t b) {
  int4 p = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
  write_imagei(b, p, read_imagei(a, nearest, p) + read_imagei(a, nearest, p + (int4)(0, 0, 1, 0)));
}
kernel void sums(read_only image1d_buffer_t a, global float *out) {
  int i = get_global_id(0);
  out[i] = read_imagef(a, i).x + read_imagef(a, min(i + 1, get_image_width(a) - 1)).x;
}
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    made = Session(open_workers([WorkerSpec("cpu", (), 3)]))
    yield made
    made.close()


@pytest.fixture(scope="module")
def context(session: Session) -> Any:
    return cl.Context(Platform(session).get_devices())


@pytest.fixture
def queue(context: Any) -> Any:
    return cl.CommandQueue(context)


@pytest.fixture(scope="module")
def program(context: Any) -> Any:
    made = cl._Program(context, SOURCE)
    made._build(b"-cl-std=CL3.0", None)
    return made


RGBA_FLOAT = native.ImageFormat(native.channel_order.RGBA, native.channel_type.FLOAT)
R_FLOAT = native.ImageFormat(native.channel_order.R, native.channel_type.FLOAT)
RGBA_UINT8 = native.ImageFormat(native.channel_order.RGBA, native.channel_type.UNSIGNED_INT8)
R_INT16 = native.ImageFormat(native.channel_order.R, native.channel_type.SIGNED_INT16)
FLAGS = native.mem_flags


def image(
    context: Any, kind: int, form: Any, shape: tuple[int, ...], data: Any = None, buffer: Any = None
) -> Any:
    desc = cl.ImageDescriptor()
    desc.image_type, desc.shape, desc.buffer = kind, shape, buffer
    flags = FLAGS.READ_WRITE | (FLAGS.COPY_HOST_PTR if data is not None else 0)
    made = cl.Image.__new__(cl.Image)
    cl.Image._custom_init(made, context, flags, form, desc, data)
    return made


def content(queue: Any, source: Any, region: tuple[int, ...], shape: tuple[int, ...], dtype: Any) -> Any:
    found = np.zeros(shape, dtype)
    cl._enqueue_read_image(queue, source, (0, 0, 0), region, found)
    return found


def launch(
    queue: Any, program: Any, name: str, size: tuple[int, ...], local: tuple[int, ...], *args: Any
) -> Any:
    """The plan of the launch."""
    kernel = cl.Kernel(program, name)
    for index, arg in enumerate(args):
        kernel.set_arg(index, arg)
    cl.enqueue_nd_range_kernel(queue, kernel, size, local)
    cached = list(state_of(kernel).kernel.plans._plans.values())[-1]
    return cached.plan


PLANE, VOLUME = native.mem_object_type.IMAGE2D, native.mem_object_type.IMAGE3D
LINE_OF_BUFFER = native.mem_object_type.IMAGE1D_BUFFER


class TestSplitting:
    def test_neighbours_move_halves_alone(self, context: Any, queue: Any, program: Any) -> None:
        rng = np.random.default_rng(1)
        pixels = rng.random((96, 128, 4), np.float32)
        a = image(context, PLANE, RGBA_FLOAT, (128, 96), pixels)
        b = image(context, PLANE, RGBA_FLOAT, (128, 96))
        plan = launch(queue, program, "blur", (128, 96), (16, 8), a, b, np.int32(2))
        assert len(plan.partition) == 3
        assert not plan.reasons
        padded = np.pad(pixels, ((2, 2), (2, 2), (0, 0)), mode="edge")
        expected = sum(padded[j : j + 96, i : i + 128] for j in range(5) for i in range(5)) / 25
        found = content(queue, b, (128, 96, 1), (96, 128, 4), np.float32)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        # 96 rows once, and two rows above and below each of the two cuts
        assert sum(nbytes for *_, nbytes in plan.moved) == (96 + 2 * 4) * 128 * 16

    def test_sampled_anywhere(self, context: Any, queue: Any, program: Any) -> None:
        pixels = np.random.default_rng(2).random((64, 64, 4), np.float32)
        a = image(context, PLANE, RGBA_FLOAT, (64, 64), pixels)
        out = cl.Buffer(context, FLAGS.READ_WRITE, 64 * 64 * 16)
        sampler = cl.Sampler(context, True, native.addressing_mode.CLAMP_TO_EDGE, native.filter_mode.LINEAR)
        plan = launch(queue, program, "resize", (64, 64), (8, 8), a, sampler, out)
        assert len(plan.partition) == 3
        assert not plan.reasons
        found = np.zeros_like(pixels)
        cl._enqueue_read_buffer(queue, out, found)
        np.testing.assert_allclose(found, pixels, atol=1e-5)

    def test_the_engine_samples(
        self, context: Any, queue: Any, program: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rows of 64 pixels it can make an image of, rows of 13 it cannot."""
        made: list[bool] = []
        make = NativeImages._make

        def noted(*arguments: Any) -> Any:
            image = make(*arguments)
            made.append(image is not None)
            return image

        monkeypatch.setattr(NativeImages, "_make", noted)
        sampler = cl.Sampler(context, True, native.addressing_mode.CLAMP_TO_EDGE, native.filter_mode.LINEAR)
        for width, whether in ((64, True), (13, False)):
            pixels = np.random.default_rng(2).random((64, width, 4), np.float32)
            a = image(context, PLANE, RGBA_FLOAT, (width, 64), pixels)
            out = cl.Buffer(context, FLAGS.READ_WRITE, 64 * width * 16)
            for _ in range(2):  # made once
                launch(queue, program, "resize", (width, 64), (width, 8), a, sampler, out)
            found = np.zeros_like(pixels)
            cl._enqueue_read_buffer(queue, out, found)
            np.testing.assert_allclose(found, pixels, atol=1e-5)
            assert made == [whether] * 3
            made.clear()

    def test_scattered_writes_are_merged(self, context: Any, queue: Any, program: Any) -> None:
        places = np.random.default_rng(3).permutation(64 * 64).astype(np.int32)
        to = cl.Buffer(context, FLAGS.READ_ONLY | FLAGS.COPY_HOST_PTR, hostbuf=places)
        b = image(context, PLANE, RGBA_UINT8, (64, 64))
        plan = launch(queue, program, "scatter", (4096,), (64,), to, b)
        assert len(plan.partition) == 3
        assert "compared with a twin" in plan.reasons[0]
        assert "`b`" in plan.reasons[0]
        assert "line 17" in plan.reasons[0]
        i = np.arange(64 * 64)
        expected = np.zeros((64 * 64, 4), np.uint8)
        expected[places] = np.stack([i & 255, i >> 8, i * 0 + 7, i * 0 + 9], 1)
        assert np.array_equal(content(queue, b, (64, 64, 1), (64 * 64, 4), np.uint8), expected)

    def test_in_place(self, context: Any, queue: Any, program: Any) -> None:
        pixels = np.random.default_rng(4).random((64, 32, 4), np.float32)
        a = image(context, PLANE, RGBA_FLOAT, (32, 64), pixels)
        for _ in range(3):
            plan = launch(queue, program, "invert", (32, 64), (8, 8), a)
            assert len(plan.partition) == 3
            assert not plan.reasons
        assert not plan.moved  # everybody has what it works on
        expected = 1 - (1 - (1 - pixels))
        assert np.array_equal(content(queue, a, (32, 64, 1), (64, 32, 4), np.float32), expected)

    def test_volumes(self, context: Any, queue: Any, program: Any) -> None:
        pixels = np.random.default_rng(5).integers(-999, 999, (12, 24, 32)).astype(np.int16)
        a = image(context, VOLUME, R_INT16, (32, 24, 12), pixels)
        b = image(context, VOLUME, R_INT16, (32, 24, 12))
        plan = launch(queue, program, "shear", (32, 24, 12), (8, 8, 2), a, b)
        assert len(plan.partition) == 3
        expected = pixels + np.concatenate([pixels[1:], pixels[-1:]])
        assert np.array_equal(content(queue, b, (32, 24, 12), (12, 24, 32), np.int16), expected)
        assert sum(nbytes for *_, nbytes in plan.moved) == (12 + 2) * 24 * 32 * 2

    def test_a_buffer_seen_as_an_image(self, context: Any, queue: Any, program: Any) -> None:
        numbers = np.random.default_rng(6).random(300, np.float32)
        memory = cl.Buffer(context, FLAGS.READ_WRITE | FLAGS.COPY_HOST_PTR, hostbuf=numbers)
        a = image(context, LINE_OF_BUFFER, R_FLOAT, (300, 1, 1), buffer=memory)
        out = cl.Buffer(context, FLAGS.READ_WRITE, numbers.nbytes)
        for step in range(2):
            plan = launch(queue, program, "sums", (300,), (50,), a, out)
            assert len(plan.partition) == 3
            found = np.zeros_like(numbers)
            cl._enqueue_read_buffer(queue, out, found)
            assert np.array_equal(found, numbers + np.concatenate([numbers[1:], numbers[-1:]])), step
            numbers[7] = 5  # through the buffer: the image is the same memory
            cl._enqueue_write_buffer(queue, memory, numbers)


#: how a pixel of one channel is read without a call: channel order, type, what is stored, what is read
ONE_CHANNEL = [
    *((order, 0x10DE, np.float32(0.75), want) for order, want in (
        (0x10B0, (0.75, 0, 0, 1)), (0x10B1, (0, 0, 0, 0.75)), (0x10B8, (0.75,) * 4), (0x10B9, (0.75, 0.75, 0.75, 1)),
    )),
    *((order, 0x10D2, np.uint8(255), want) for order, want in (
        (0x10B0, (1, 0, 0, 1)), (0x10B1, (0, 0, 0, 1)), (0x10B8, (1, 1, 1, 1)), (0x10B9, (1, 1, 1, 1)),
    )),
    *((order, data_type, dtype(number), want) for data_type, dtype, number in (
        (0x10D7, np.int8, -3), (0x10D8, np.int16, -3), (0x10D9, np.int32, -3),
        (0x10DA, np.uint8, 200), (0x10DB, np.uint16, 60000), (0x10DC, np.uint32, 2**31),
    ) for order, want in ((0x10B0, (number, 0, 0, 1)), (0x10B1, (0, 0, 0, number)))),
]  # fmt: skip


def test_pixels_of_one_channel_are_read_without_a_call(context: Any, queue: Any) -> None:
    """A call for each pixel takes thirty times as long on CPUs: where one is left, the poisoned function shows it."""
    source = "".join(
        f"kernel void at_{suffix}(read_only image2d_t a, global {vector} *o) {{ o[0] = read_image{suffix}(a, (int2)(0)); }}\n"
        for suffix, vector in image_programs.VECTORS.items()
    )
    target = Target(features=("__opencl_c_images",))
    text = lower_images(parse_program(source, ["-cl-std=CL3.0"], target=target)).program.source
    poisoned, count = re.subn(r"(\w+_decode_(?:f|i)\([^)]*\) \{)", r"\1 if (format) return -77;", text)
    assert count == 2
    built = cl._Program(context, poisoned)
    built._build(b"-cl-std=CL3.0", None)
    for order, data_type, stored, want in ONE_CHANNEL:
        suffix = image_programs.CHANNELS[data_type][1]
        kernel = cl.Kernel(built, f"at_{suffix}")
        pixels = cl.Buffer(context, FLAGS.READ_ONLY | FLAGS.COPY_HOST_PTR, 0, np.array([stored]))
        out = cl.Buffer(context, FLAGS.READ_WRITE, 16)
        nbytes = stored.dtype.itemsize
        descriptor = pack_descriptor((1, 1, 1), nbytes, nbytes, order, data_type, 1, nbytes)
        for index, arg in enumerate((pixels, out, np.frombuffer(descriptor, np.uint8))):
            kernel.set_arg(index, arg)
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        found = np.zeros(4, image_programs.DTYPES[suffix])
        cl._enqueue_read_buffer(queue, out, found)
        assert found.tolist() == list(want), (hex(order), hex(data_type))


def test_a_program_that_is_not_translated_takes_no_images(context: Any, queue: Any) -> None:
    source = """
    kernel void k(read_only image2d_t a, sampler_t s, global float4 *out)
    { int (^calls)(void) = ^{ return 1; }; out[0] = calls() * read_imagef(a, s, (int2)(0, 0)); }
    """
    built = cl._Program(context, source)
    built._build(b"-cl-std=CL3.0", None)
    kernel = cl.Kernel(built, "k")
    with pytest.raises(native.LogicError, match="a block is used") as caught:
        kernel.set_arg(0, image(context, PLANE, RGBA_FLOAT, (4, 4)))
    assert caught.value.args[0].code() == native.status_code.INVALID_OPERATION


def test_memory_that_the_program_keeps(context: Any, queue: Any, program: Any) -> None:
    """USE_HOST_PTR with gaps between the rows: a mapping shows the program's own memory."""
    host = np.zeros((16, 20, 4), np.float32)
    host[:, :16] = np.random.default_rng(7).random((16, 16, 4))
    before = host.copy()
    desc = cl.ImageDescriptor()
    desc.image_type, desc.shape, desc.pitches = PLANE, (16, 16, 1), (20 * 16,)
    made = cl.Image.__new__(cl.Image)
    cl.Image._custom_init(made, context, FLAGS.READ_WRITE | FLAGS.USE_HOST_PTR, RGBA_FLOAT, desc, host)
    launch(queue, program, "invert", (16, 16), (4, 4), made)
    flags = native.map_flags.READ
    array, _, row, plane = cl.enqueue_map_image(queue, made, flags, (0, 0), (16, 16), (16, 16, 4), np.float32)
    assert (row, plane) == (20 * 16, 0)
    assert array.ctypes.data == host.ctypes.data
    array.base.release(queue)
    queue.finish()
    assert np.array_equal(host[:, :16], 1 - before[:, :16])
    assert np.array_equal(host[:, 16:], before[:, 16:])


def test_columns_that_are_overwritten_keep_their_neighbours(context: Any, queue: Any, program: Any) -> None:
    """A mapping that discards what was there discards its own pixels, not what lies between its rows."""
    pixels = np.random.default_rng(8).random((48, 32, 4), np.float32)
    made = image(context, PLANE, RGBA_FLOAT, (32, 48), pixels)
    launch(queue, program, "invert", (32, 48), (8, 8), made)
    flags, shape, strides = native.map_flags.WRITE_INVALIDATE_REGION, (48, 2, 4), (32 * 16, 16, 4)
    array, *_ = cl.enqueue_map_image(queue, made, flags, (5, 0), (2, 48), shape, np.float32, strides=strides)
    array[:] = 7
    array.base.release(queue)
    expected = 1 - pixels
    expected[:, 5:7] = 7
    assert np.array_equal(content(queue, made, (32, 48, 1), (48, 32, 4), np.float32), expected)


def test_boxes_of_an_image_between_workers(context: Any, queue: Any, program: Any) -> None:
    """Copies and fills of parts of an image whose rows three workers hold."""
    pixels = np.random.default_rng(9).random((48, 32, 4), np.float32)
    a = image(context, PLANE, RGBA_FLOAT, (32, 48), pixels)
    b = image(context, PLANE, RGBA_FLOAT, (32, 48), np.zeros_like(pixels))
    launch(queue, program, "invert", (32, 48), (8, 8), a)
    cl._enqueue_copy_image(queue, a, b, (3, 4, 0), (1, 2, 0), (20, 40, 1))
    color = np.array([1, 2, 3, 4], np.float32)
    cl.enqueue_fill_image(queue, b, color, (10, 10, 0), (5, 30, 1))
    cl._enqueue_copy_image(queue, b, b, (0, 0, 0), (25, 20, 0), (7, 28, 1))
    expected = np.zeros_like(pixels)
    expected[2:42, 1:21] = (1 - pixels)[4:44, 3:23]
    expected[10:40, 10:15] = color
    expected[20:48, 25:32] = expected[0:28, 0:7]
    assert np.array_equal(content(queue, b, (32, 48, 1), (48, 32, 4), np.float32), expected)
