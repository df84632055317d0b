"""Images and samplers given to kernels by one call: arrays become images, results come back, and pixels outside are found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdev.harness import ArgumentError, Call, FindingsError, Program, empty, image, sampler
from vdev.harness.pixels import AXES
from vdev.harness.program import Kernel

SOURCE = """
#define HERE (int2)(get_global_id(0), get_global_id(1))
kernel void shift(read_only image2d_t in, write_only image2d_t out, sampler_t s, int by) {
  write_imagef(out, HERE, read_imagef(in, s, HERE + (int2)(by, 0)));
}
kernel void deep(read_only image3d_t in, write_only image2d_array_t out, int by) {
  int4 at = (int4)(HERE, get_global_id(2), 0);
  write_imageui(out, at, read_imageui(in, at + (int4)(0, 0, by, 0)) + 1);
}
kernel void rows(read_only image1d_t line, read_only image1d_array_t lines, write_only image1d_t out, int by) {
  int x = get_global_id(0);
  write_imagei(out, x, read_imagei(line, x) + read_imagei(lines, (int2)(x, by)));
}
kernel void words(read_only image1d_buffer_t in, global int *out, int by) {
  int i = get_global_id(0);
  out[i] = read_imagei(in, i + by).x;
}
kernel void depths(read_only image2d_depth_t in, read_only image2d_array_depth_t more, global float *out, sampler_t s) {
  out[get_global_id(1) * 16 + get_global_id(0)] = read_imagef(in, s, HERE) + read_imagef(more, s, (int4)(HERE, 1, 0));
}
kernel void both(read_write image2d_t in) { write_imagef(in, HERE, 2 * read_imagef(in, HERE)); }
kernel void meet(write_only image2d_t out) { write_imagef(out, HERE / 2, (float4)(HERE.x)); }
kernel void bright(read_only image2d_t in, global float4 *out, sampler_t s) {
  int i = get_global_id(1) * 16 + get_global_id(0);
  out[i] = read_imagef(in, s, (convert_float2(HERE) + 0.5f) / (float2)(16, 8));
}
"""
STANDARD = "-cl-std=CL3.0"
RANDOM = np.random.default_rng(3)
PIXELS = RANDOM.random((8, 16, 4), dtype=np.float32)
EMPTY = empty((8, 16, 4), np.float32)
EDGE, NONE = sampler("clamp_to_edge"), sampler("none")


def alone(name: str, **more: Any) -> Kernel:
    """A kernel in a program of its own, which is built sooner than that of all; its lines keep their numbers."""
    parts = re.split(r"^(?=kernel )", SOURCE, flags=re.MULTILINE)
    others = (
        part if part.startswith(f"kernel void {name}(") else "\n" * part.count("\n") for part in parts[1:]
    )
    return Program(parts[0] + "".join(others), STANDARD, **more).kernel(name)


@pytest.fixture(scope="module", params=["cpu:1", "cpu:3", "native", "backward"])
def program(request: pytest.FixtureRequest) -> Program:
    if request.param == "backward":
        return Program(SOURCE, STANDARD, order="backward")
    return Program(SOURCE, STANDARD, workers=request.param)


def test_two_dimensions(program: Program) -> None:
    (out,) = program.shift(PIXELS, EMPTY, EDGE, 1, global_size=(16, 8))

    np.testing.assert_array_equal(out, PIXELS[:, [*range(1, 16), 15]])


def test_three_dimensions_and_layers(program: Program) -> None:
    cube = RANDOM.integers(0, 1000, (4, 8, 16, 2), dtype=np.uint16)
    (out,) = program.deep(cube, empty(cube.shape, np.uint16), 0, global_size=(16, 8, 4))

    np.testing.assert_array_equal(out, cube + 1)


def test_one_dimension_layers_and_buffers(program: Program) -> None:
    line = RANDOM.integers(-1000, 1000, 64, dtype=np.int16)
    lines = RANDOM.integers(-1000, 1000, (3, 64), dtype=np.int32)
    (sums,) = program.rows(line, lines, empty(64, np.int32), 2, global_size=64)
    (words,) = program.words(line, empty(64, np.int32), 0, global_size=64)

    np.testing.assert_array_equal(sums, line + lines[2])
    np.testing.assert_array_equal(words, line)


def test_depth(program: Program) -> None:
    near, far = PIXELS[..., 0].copy(), RANDOM.random((2, 8, 16), dtype=np.float32)
    (out,) = program.depths(near, far, empty(128, np.float32), EDGE, global_size=(16, 8))

    np.testing.assert_array_equal(out.reshape(8, 16), near + far[1])


def test_an_image_that_is_read_and_written_comes_back(program: Program) -> None:
    (out,) = program.both(PIXELS, global_size=(16, 8))

    np.testing.assert_array_equal(out, 2 * PIXELS)


def test_formats(program: Program) -> None:
    colours = RANDOM.integers(0, 256, (8, 16, 4), dtype=np.uint8)
    for order, places in (("RGBA", [0, 1, 2, 3]), ("BGRA", [2, 1, 0, 3]), ("ARGB", [1, 2, 3, 0])):
        given_ = image(colours, order=order, normalized=True)
        (out,) = program.shift(given_, EMPTY, EDGE, 0, global_size=(16, 8))

        np.testing.assert_allclose(out, (colours / 255)[..., places], atol=1e-6)


def test_samplers(program: Program) -> None:
    shares = sampler("repeat", normalized=True)
    (near,) = program.bright(PIXELS, empty((128, 4), np.float32), shares, global_size=(16, 8))
    (mean,) = program.shift(PIXELS, EMPTY, sampler("clamp"), 1, global_size=(16, 8))

    np.testing.assert_array_equal(near.reshape(8, 16, 4), PIXELS)
    np.testing.assert_array_equal(mean[:, 15], np.zeros((8, 4), np.float32))


MISTAKES: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "2d": ("out-of-bounds", "line 4", lambda: alone("shift")(PIXELS, EMPTY, NONE, 1, global_size=(16, 8))),
    "written outside": (
        "out-of-bounds", "line 4",
        lambda: alone("shift")(PIXELS, empty((8, 15, 4), np.float32), EDGE, 1, global_size=(16, 8)),
    ),
    "3d": (
        "out-of-bounds", "line 8",
        lambda: alone("deep")(np.ones((4, 8, 16, 2), np.uint16), empty((4, 8, 16, 2), np.uint16), 1, global_size=(16, 8, 4)),
    ),
    "layers": (
        "out-of-bounds", "line 8",
        lambda: alone("deep")(np.ones((4, 8, 16, 2), np.uint16), empty((3, 8, 16, 2), np.uint16), 0, global_size=(16, 8, 4)),
    ),
    "buffer": (
        "out-of-bounds", "line 16",
        lambda: alone("words")(np.ones(64, np.int32), empty(64, np.int32), -1, global_size=64),
    ),
    "race": ("race-between", "line 22", lambda: alone("meet")(EMPTY, global_size=(16, 8), local_size=(1, 1))),
    "unwritten": ("unwritten-value", "line 4", lambda: alone("shift")(EMPTY, EMPTY, EDGE, 1, global_size=(16, 8))),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_found(name: str) -> None:
    kind, line, call = MISTAKES[name]
    with pytest.raises(FindingsError, match=f"{kind}.*{line}"):
        call()


REFUSED: dict[str, tuple[str, Callable[[], Any]]] = {
    "no array": ("an array of .height, width. or", lambda: alone("shift")(3, EMPTY, EDGE, 0, global_size=1)),
    "a shape": ("a shape of .height, width.", lambda: alone("shift")(np.ones(4, "f4"), EMPTY, EDGE, 0, global_size=1)),
    "channels": ("one, two or four", lambda: alone("shift")(np.ones((2, 2, 3), "f4"), EMPTY, EDGE, 0, global_size=1)),
    "channels of an order": (
        "4 channels for BGRA",
        lambda: alone("shift")(image(np.ones((2, 2), "u1"), order="BGRA"), EMPTY, EDGE, 0, global_size=1),
    ),
    "a type": ("that RGBA has", lambda: alone("shift")(np.ones((2, 2, 4)), EMPTY, EDGE, 0, global_size=1)),
    "a normalized type": (
        "normalized numbers of a type that R has",
        lambda: alone("shift")(image(np.ones((2, 2), "f4"), normalized=True), EMPTY, EDGE, 0, global_size=1),
    ),
    "gaps": ("C order", lambda: alone("shift")(PIXELS[:, ::2], EMPTY, EDGE, 0, global_size=1)),
    "written sRGB": (
        "kernels can write",
        lambda: alone("shift")(PIXELS, image(np.ones((2, 2, 4), "u1"), order="sRGBA", normalized=True), EDGE, 0, global_size=1),
    ),
    "no sampler": ("a sampler", lambda: alone("shift")(PIXELS, EMPTY, 16, 0, global_size=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    text, call = REFUSED[name]
    with pytest.raises(ArgumentError, match=text):
        call()


def test_words_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="unknown order of channels 'GRAY'"):
        image(PIXELS, order="GRAY")
    with pytest.raises(ValueError, match="unknown addressing mode"):
        sampler("wrap")
    with pytest.raises(ValueError, match="needs normalized"):
        sampler("repeat")


def test_the_order_of_groups_is_compared_with_images_too() -> None:
    outputs = alone("shift", report=["order-dependent"])(PIXELS, EMPTY, EDGE, 0, global_size=(16, 8))

    assert outputs.findings == ()


def test_random_images() -> None:
    kernel = alone("shift")
    seen: set[tuple[int, ...]] = set()

    @settings(max_examples=30, deadline=None)
    @given(kernel.calls(out=empty, by=0))
    def same(call: Call) -> None:
        (out,) = call.run()
        seen.add(out.shape)
        np.testing.assert_array_equal(out, call["in"])

    same()
    assert len(seen) > 5


@pytest.mark.parametrize("kernel", ["deep", "rows", "words", "depths", "both"])
def test_every_type_of_images_is_drawn(kernel: str) -> None:
    names = {"deep": "uint32", "rows": "int32", "words": "int32"}
    fixed: dict[str, Any] = {"depths": {"more": (2, 8, 16), "out": 128}, "both": {}}.get(kernel, {"by": 0})
    sizes = {"global_size": (16, 8)} if kernel == "depths" else {}
    drawn = alone(kernel).calls(fixed, **sizes)

    @settings(max_examples=10, deadline=None)
    @given(drawn)
    def runs(call: Call) -> None:
        call.run()
        images = [value for value in call.args.values() if isinstance(value, np.ndarray) and value.ndim > 1]
        assert all(value.dtype.name == names.get(kernel, "float32") for value in images)

    runs()


def test_a_failing_call_becomes_a_script_that_fails_alike() -> None:
    kernel = alone("shift")
    drawn = kernel.calls(
        {"in": image(PIXELS), "out": EMPTY, "by": st.integers(1, 5), "s": NONE}, global_size=(16, 8)
    )

    @settings(max_examples=5, deadline=None, database=None)
    @given(drawn)
    def fails(call: Call) -> None:
        call.run()

    with pytest.raises(FindingsError) as raised:
        fails()
    assert "image(" in raised.value.script
    assert "sampler('none')" in raised.value.script
    with pytest.raises(FindingsError, match="out-of-bounds in kernel shift, line 4"):
        exec(compile(raised.value.script, "script", "exec"), {})


def test_the_table_of_types_is_whole() -> None:
    assert set(AXES) == {
        "image1d_t", "image1d_buffer_t", "image1d_array_t", "image2d_t", "image2d_array_t", "image2d_depth_t",
        "image2d_array_depth_t", "image3d_t",
    }  # fmt: skip
