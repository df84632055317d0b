"""Images that a GPU's units for textures read: which kernels have a version for them, what it reads, and where the other one runs.

The second part runs on machines without a GPU (`fake_cuda`), whose driver makes textures and tells which functions were launched.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from vdev.translators.dialects.cuda.translation import CudaProgram, translate_cuda
from vdev.translators.dialects.image_arguments import pack_descriptor, with_texture
from vdev.translators.dialects.image_lowering import lower_images
from vdev.translators.frontend.kernels import SampledImage
from vdev.translators.frontend.source import Target, parse_program

from vdev.backends.cuda.launch import CudaAllocation
from vdev.backends.cuda.programs import _plain_program, _read_program
from vdev.backends.cuda.textures import Textures

from . import fake_cuda
from .cuda_host import COMPILER
from .cuda_host import MISSING as NO_COMPILER
from .nvrtc import MISSING, compile_cuda, library

GPU = Target(is_cpu=False)
HEAD = "kernel void f(read_only image2d_t a, sampler_t s, global float4 *o, read_only image2d_t b) {"
ONE = "o[0] = read_imagef(a, s, (float2)(0.5f));"
NONE = SampledImage(0, 4, None, 0), SampledImage(3, 5, None, 0)
FIRST = SampledImage(0, 4, 1, 0), NONE[1]
#: OpenCL C's bits: CLAMP and linear; normalised, REPEAT and nearest
CLAMPED, REPEATED = 0x24, 0x17
CONSTANT = "const sampler_t t = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_NEAREST;"
HELPER = "float4 g(read_only image2d_t i, sampler_t s) { return read_imagef(i, s, (float2)(0.5f)); }"


def translated(source: str, *options: str, target: Target = GPU) -> CudaProgram:
    return translate_cuda(lower_images(parse_program(source, options, target=target)).for_textures)


def sampled(source: str, *options: str) -> tuple[SampledImage, ...]:
    return lower_images(parse_program(source, options, target=GPU)).for_textures.sampled.get("f", ())


def constant(bits: int) -> tuple[SampledImage, ...]:
    return SampledImage(0, 4, None, bits), NONE[1]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (HEAD + ONE + "}", FIRST),
        (HEAD + ONE + "o[1] = read_imagef(a, s, (int2)(0)) + read_imagef(b, (int2)(1)); }", FIRST),
        (HEAD + ONE + "o[1] = read_imagef( (b) , s, (float2)(0.5f)); }", (FIRST[0], SampledImage(3, 5, 1, 0))),
        (CONSTANT + HEAD + "o[0] = read_imagef(a, t, (float2)(0.5f)); }", constant(REPEATED)),
        (HEAD + CONSTANT + "o[0] = read_imagef(a, t, (float2)(0.5f)); }", constant(REPEATED)),
        (HEAD + "const sampler_t t = 0x20 | 4; o[0] = read_imagef(a, t, (float2)(0.5f)); }", constant(CLAMPED)),
        (HEAD + "o[0] = read_imagef(a, 0x24, (float2)(0.5f)); }", constant(CLAMPED)),
        (HELPER + HEAD + "o[0] = g(a, s); }", (FIRST[0], SampledImage(3, 5, 1, 0))),
        ("#define R(i) read_imagef(i, s, (float2)(0.5f))\n" + HEAD + "o[0] = R(a); }", FIRST),
    ],
)  # fmt: skip
def test_the_sampler_of_an_image_is_found(source: str, found: tuple[SampledImage, ...]) -> None:
    assert sampled(source) == found
    textured = translated(source).kernels["f"].textured
    assert textured is not None
    assert textured.images == tuple(image for image in found if image.is_known)


@pytest.mark.parametrize(
    "source",
    [
        CONSTANT + HEAD + ONE + "o[1] = read_imagef(a, t, (float2)(0.5f)); }",
        CONSTANT + HELPER + HEAD + "o[0] = g(a, s) + g(a, t); }",
        HEAD + "const sampler_t t = s; o[0] = read_imagef(a, t, (float2)(0.5f)); }",
        HEAD + "o[0] = read_imagef(a, s, (int2)(0)); }",
        HEAD + "o[0] = convert_float4(read_imagei(a, s, (float2)(0))); }",
        HEAD.replace("read_only image2d_t a", "read_only image3d_t a") + "o[0] = read_imagef(a, s, (float4)(0)); }",
        HEAD.replace("read_only image2d_t a", "read_only image2d_array_t a") + "o[0] = read_imagef(a, s, (float4)(0)); }",
        "kernel void f(global float4 *o) { o[0] = 1; }",
    ],
)  # fmt: skip
def test_others_have_no_second_version(source: str) -> None:
    """Several samplers, one that is not known, or nothing that a texture would give."""
    assert not any(image.is_known for image in sampled(source))
    assert translated(source).kernels["f"].textured is None


def test_workers_of_which_one_is_a_cpu_read_alike() -> None:
    program = lower_images(parse_program(HEAD + ONE + "}", (), target=Target(is_cpu=True)))
    assert program.for_textures is program.program


def test_it_is_kept_with_the_translation() -> None:
    program = translated(CONSTANT + HEAD + "o[0] = read_imagef(a, t, (float2)(0.5f)); }")
    assert program.kernels["f"].textured is not None
    assert _read_program(json.loads(json.dumps(_plain_program(program)))) == program


@pytest.mark.skipif(library() is None, reason=MISSING)
@pytest.mark.parametrize("loop", ["", "for (int i = 0; i < 9; i++) o[i] = c[i];"])
def test_only_the_second_version_reads_textures(loop: str) -> None:
    source = HEAD.replace("global", "global const float4 *c, global", 1) + loop + ONE + "}"
    program = translated(source)
    compiled, text = compile_cuda(program.source, program.options)
    assert compiled, text
    entries = {part.split("(")[0]: part for part in re.split(r"\.entry ", text)[1:]}
    assert sorted(entries) == [
        f"vdev_cuda_kernel0{end}" for end in (["", "_apart"] if loop else [""]) + ["_textured"]
    ]
    for name, entry in entries.items():
        body = entry.partition("\n}")[0]
        assert ("tex.2d.v4.f32.f32" in body) == name.endswith("_textured"), name
        assert ("call.uni" in body) != name.endswith("_textured"), name  # all else is known to be left out
        assert ("ld.global.nc" in body) == (bool(loop) and name != "vdev_cuda_kernel0"), name


class _Driver:
    """Counts textures."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.gone: list[int] = []
        self.result = 0

    def attribute(self, attribute: int, number: int) -> int:
        return {14: 512, 51: 32, 70: 1000, 71: 1000, 72: 8192}[attribute]

    def new_texture(self, *args: Any, **how: Any) -> tuple[int, int]:
        self.asked.append((*args, how))
        return self.result, len(self.asked)

    def destroy_texture(self, texture: int) -> int:
        self.gone.append(texture)
        return 0

    def error(self, result: int, text: str) -> Exception:
        return RuntimeError(text)


SEGMENT = 1 << 20
LINEAR, NEAREST = (0x24).to_bytes(4, "little"), (0x14).to_bytes(4, "little")


def _described(
    width: int = 64, height: int = 8, row: int = 1024, order: int = 0x10B5, data_type: int = 0x10DE
) -> bytes:
    return pack_descriptor((width, height, 1), row, row * height, order, data_type, 4, 16)


def _memory(address: int = SEGMENT, nbytes: int = 8192) -> CudaAllocation:
    return CudaAllocation(SimpleNamespace(ptr=address), nbytes)


class _Pool:
    """Segments of one size; of their memory, some is free."""

    def __init__(self) -> None:
        self.free: set[int] = set()

    def segment_of(self, address: int) -> int | None:
        return None if address < SEGMENT else address // SEGMENT * SEGMENT

    def free_now(self) -> Any:
        return self.free.__contains__


def _textures_in(driver: Any, pool: Any) -> Textures:
    def wait() -> None:
        driver.gone.append(0)

    return Textures(driver, 0, pool, lambda call: call(), wait)


def _textures(driver: Any) -> Textures:
    return _textures_in(driver, _Pool())


@pytest.mark.parametrize(
    ("memory", "descriptor", "sampler", "expected"),
    [
        (_memory(), _described(), LINEAR, True),
        ((_memory(), 0), _described(), LINEAR, True),
        ((_memory(SEGMENT - 512, 8704), 512), _described(), LINEAR, True),
        ((_memory(nbytes=8191), 0), _described(), LINEAR, False),  # it ends before the image
        ((_memory(), 512), _described(), LINEAR, False),
        ((_memory(SEGMENT + 512), -512), _described(), LINEAR, False),  # it begins within it
        (_memory(SEGMENT + 256), _described(), LINEAR, False),
        (_memory(), _described(63, row=1008), LINEAR, False),
        (_memory(nbytes=1 << 20), _described(1001, row=16032), LINEAR, False),
        (_memory(nbytes=1 << 20), _described(height=1001), LINEAR, False),
        (_memory(), _described(), NEAREST, False),  # pixels that are as quickly loaded
        (_memory(), _described(data_type=0x10D2, row=256), NEAREST, True),
        (_memory(), _described(order=0x10C1), LINEAR, False),  # sRGBA
        (_memory(), _described(data_type=0x10D7), LINEAR, False),  # integers
        (_memory(), _described(), (0x26).to_bytes(4, "little"), False),  # repeats, and not normalised
        (_memory(), _described(), (0x27).to_bytes(4, "little"), True),
        (_memory(), _described(), (0x28).to_bytes(4, "little"), False),  # mirrored
        (_memory(), _described(), (0x29).to_bytes(4, "little"), True),
        (_memory(), _described(), (0x19).to_bytes(4, "little"), True),  # and to the nearest: other pixels than in software
        (_memory(), _described(), (0x20).to_bytes(4, "little"), True),
        (_memory(), _described(), (0x64).to_bytes(4, "little"), False),  # no sampler
        (_memory(512), _described(), LINEAR, False),  # not the pool's
        (None, _described(), LINEAR, False),
    ],
)  # fmt: skip
def test_which_images_have_a_texture(
    memory: Any, descriptor: bytes, sampler: bytes, *, expected: bool
) -> None:
    textures = _textures(_Driver())
    args: list[Any] = [memory, sampler, b"", None, descriptor]
    for _ in range(2):
        given = textures.given([FIRST[0]], args)
        assert (given is not None) == expected
        if given is not None:
            assert given == [*args[:4], with_texture(descriptor, 1)]


def test_a_texture_is_made_once_and_goes_with_its_memory() -> None:
    driver = _Driver()
    textures = _textures(driver)
    image = SampledImage(0, 1, None, 0x24)

    def given(segment: int, descriptor: bytes) -> object:
        return textures.given([image], [_memory(segment * SEGMENT), descriptor])

    for _ in range(3):
        assert [given(segment, _described(width)) is None for segment in (1, 2) for width in (64, 63)] == [
            False
        ] * 4
    assert len(driver.asked) == 4
    textures.forget(SEGMENT)
    assert driver.gone == [1, 2]
    textures.forget(SEGMENT)
    textures.forget(3 * SEGMENT)
    assert given(1, _described()) is not None
    assert len(driver.asked) == 5
    assert driver.gone == [1, 2]


def test_a_driver_may_refuse_one() -> None:
    driver = _Driver()
    driver.result = 2
    textures = _textures(driver)
    for _ in range(3):
        assert textures.given([SampledImage(0, 1, None, 0x24)], [_memory(), _described()]) is None
    assert len(driver.asked) == 1
    textures.forget(SEGMENT)
    assert not driver.gone


def test_there_are_so_many_at_most() -> None:
    driver, pool = _Driver(), _Pool()
    textures = _textures_in(driver, pool)
    image = SampledImage(0, 1, None, 0x24)

    def given(at: int) -> bool:
        return textures.given([image], [_memory(SEGMENT + 512 * at), _described()]) is not None

    assert [given(at) for at in range(5000)] == [True] * 4096 + [False] * 904
    assert driver.gone == [0]  # it has waited once, in vain
    pool.free = {SEGMENT + 512 * at for at in (7, 3000)}
    for _ in range(1000):
        assert given(8)
    assert not any(given(5000) for _ in range(1024 - 904))
    assert given(5000)
    assert driver.gone == [0, 0, 8, 3001]  # what is under way may use them until then
    assert given(7)
    assert len(driver.asked) == 4096 + 2


PROGRAM = """
import ctypes
import numpy as np, pyopencl as cl
driver = ctypes.PyDLL("libcuda.so.1")
driver.fake_textures.restype = ctypes.c_long
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
order, kind, mode, between = cl.channel_order, cl.channel_type, cl.addressing_mode, cl.filter_mode
flags = cl.mem_flags
source = '''
kernel void f(read_only image2d_t a, sampler_t s, global const float2 *at, global float4 *o)
{ int i = get_global_id(0); o[i] = read_imagef(a, s, at[i]); }
kernel void own(read_only image2d_t a, global const float2 *at, global float4 *o)
{ const sampler_t s = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR;
  int i = get_global_id(0); o[i] = read_imagef(a, s, at[i]); }
float4 between(read_only image2d_t a, sampler_t s, float2 at) { return read_imagef(a, s, at); }
kernel void helped(read_only image2d_t a, sampler_t s, global const float2 *at, global float4 *o)
{ int i = get_global_id(0); o[i] = between(a, s, at[i]); }
kernel void scoped(read_only image2d_t a, global const float2 *at, global float4 *o)
{ int i = get_global_id(0);
  { const sampler_t s = CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR; o[i] = read_imagef(a, s, at[i]); }
  { const sampler_t s = CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST; o[i] += 2 * read_imagef(a, s, at[i]); } }
'''
program = cl.Program(context, source).build()
f, own, helped, scoped = (cl.Kernel(program, name) for name in ("f", "own", "helped", "scoped"))
rng = np.random.default_rng(1)
N = 1024
def launches(number=0):
    queue.finish()
    names = [b"vdev_cuda_kernel%d" % number + end for end in (b"", b"_textured")]
    return np.array([driver.fake_launches(name) for name in names])
def buffer(array):
    return cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array)
def picture(array, channels=order.RGBA, type_=kind.FLOAT):
    height, width = array.shape[:2]
    form = cl.ImageFormat(channels, type_)
    return cl.create_image(context, flags.READ_ONLY | flags.COPY_HOST_PTR, form, shape=(width, height), hostbuf=array)
NORMALIZED = (mode.REPEAT, mode.MIRRORED_REPEAT)
def axis(x, n, how, linear):  # the pixels' numbers, n where they are the border's, and the second one's share
    x = x * n if how in NORMALIZED else x
    x = x - 0.5 if linear else x
    first = np.floor(x).astype(int)
    found = []
    for i in (first, first + 1):
        if how == mode.REPEAT:
            i = i % n
        elif how == mode.MIRRORED_REPEAT:
            i = np.where(i % (2 * n) < n, i % (2 * n), 2 * n - 1 - i % (2 * n))
        elif how == mode.CLAMP_TO_EDGE:
            i = np.clip(i, 0, n - 1)
        else:
            i = np.where((i < 0) | (i >= n), n, i)
        found.append(i)
    return *found, (x - np.floor(x)) if linear else 0 * x
def expected(pixels, border, at, how, linear):
    height, width = pixels.shape[:2]
    with_border = np.broadcast_to(np.asarray(border, float), (height + 1, width + 1, 4)).copy()
    with_border[:height, :width] = pixels
    i, j, a = axis(at[:, 0].astype(float), width, how, linear)
    k, l, b = axis(at[:, 1].astype(float), height, how, linear)
    a, b = a[:, None], b[:, None]
    return ((1 - a) * (1 - b) * with_border[k, i] + a * (1 - b) * with_border[k, j]
            + (1 - a) * b * with_border[l, i] + a * b * with_border[l, j])
def places(width, height, how, steps=256):
    at = rng.integers(-2 * steps, (max(width, height) + 2) * steps, (N, 2)) / steps + 1 / (2 * steps) * (steps < 256)
    return (at / (width, height) if how in NORMALIZED else at).astype(np.float32)
out = buffer(np.zeros((N, 4), np.float32))
def read(target=None):
    found = np.empty((N, 4), np.float32)
    cl.enqueue_copy(queue, found, out if target is None else target)
    return found
"""

#: every format with every sampler; the last row says which of them have no texture
FORMATS = """
FORMATS = {
    "RGBA float": (order.RGBA, kind.FLOAT, np.float32, 4, lambda c: c),
    "RGBA unorm8": (order.RGBA, kind.UNORM_INT8, np.uint8, 4, lambda c: c / 255),
    "BGRA unorm8": (order.BGRA, kind.UNORM_INT8, np.uint8, 4, lambda c: c[..., [2, 1, 0, 3]] / 255),
    "RGBA half": (order.RGBA, kind.HALF_FLOAT, np.float16, 4, lambda c: c),
    "RGBA unorm16": (order.RGBA, kind.UNORM_INT16, np.uint16, 4, lambda c: c / 65535),
    "RGBA snorm8": (order.RGBA, kind.SNORM_INT8, np.int8, 4, lambda c: np.maximum(c / 127, -1)),
    "RGBA snorm16": (order.RGBA, kind.SNORM_INT16, np.int16, 4, lambda c: np.maximum(c / 32767, -1)),
    "RG float": (order.RG, kind.FLOAT, np.float32, 2, lambda c: np.concatenate([c, 0 * c[..., :1], 0 * c[..., :1] + 1], 2)),
    "RG unorm16": (order.RG, kind.UNORM_INT16, np.uint16, 2,
        lambda c: np.concatenate([c / 65535, 0 * c[..., :1], 0 * c[..., :1] + 1], 2)),
    "R half": (order.R, kind.HALF_FLOAT, np.float16, 1, lambda c: np.concatenate([c, 0 * c, 0 * c, 0 * c + 1], 2)),
    "R unorm8": (order.R, kind.UNORM_INT8, np.uint8, 1, lambda c: np.concatenate([c / 255, 0 * c, 0 * c, 0 * c + 1], 2)),
    "A unorm8": (order.A, kind.UNORM_INT8, np.uint8, 1, lambda c: np.concatenate([0 * c, 0 * c, 0 * c, c / 255], 2)),
    "INTENSITY float": (order.INTENSITY, kind.FLOAT, np.float32, 1, lambda c: np.concatenate([c, c, c, c], 2)),
    "LUMINANCE float": (order.LUMINANCE, kind.FLOAT, np.float32, 1, lambda c: np.concatenate([c, c, c, 0 * c + 1], 2)),
}
OPAQUE = (order.R, order.RG, order.LUMINANCE)
for name, (channels, type_, dtype, count, decoded) in FORMATS.items():
    for width, height in ((64, 32), (32, 1)):
        least, most = (0, 1) if np.dtype(dtype).kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        stored = (rng.random((height, width, count)) * (float(most) - least) + least).astype(dtype)
        image = picture(stored, channels, type_)
        for how in (mode.CLAMP, mode.CLAMP_TO_EDGE, mode.REPEAT, mode.MIRRORED_REPEAT):
            for way in (between.LINEAR, between.NEAREST):
                sampler = cl.Sampler(context, how in NORMALIZED, how, way)
                for _ in range(2):
                    at = places(width, height, how)
                    before = launches()
                    f(queue, (N,), (64,), image, sampler, buffer(at), out)
                    pixels, border = decoded(stored.astype(float)), (0, 0, 0, float(channels in OPAQUE))
                    wanted = expected(pixels, border, at, how, way == between.LINEAR)
                    found = read()
                    assert np.abs(found - wanted).max() < 2e-6, (name, width, how, way, np.abs(found - wanted).max())
                    new = (launches() - before).tolist()
                    plain = name == "RGBA float" and way == between.NEAREST and how != mode.MIRRORED_REPEAT
                    assert new == ([1, 0] if plain else [0, 1]), (name, width, how, way, new)
assert driver.fake_textures() > 0
# shares of eight bits, where software has those of a float
stored = rng.random((32, 64, 4)).astype(np.float32)
sampler = cl.Sampler(context, False, mode.CLAMP_TO_EDGE, between.LINEAR)
at = (rng.integers(1024, 31 * 1024, (N, 2)) / 1024).astype(np.float32)
f(queue, (N,), (64,), picture(stored), sampler, buffer(at), out)
rounded = np.floor((at - 0.5) * 256 + 0.5) / 256 + 0.5
assert np.abs(read() - expected(stored, 0, rounded, mode.CLAMP_TO_EDGE, True)).max() < 2e-6
assert np.abs(read() - expected(stored, 0, at, mode.CLAMP_TO_EDGE, True)).max() > 1e-5
print("right")
"""

#: launches of each kind many times, and of all in turn
KINDS = """
LINEAR = cl.Sampler(context, False, mode.CLAMP_TO_EDGE, between.LINEAR)
OTHER = cl.Sampler(context, False, mode.CLAMP, between.LINEAR)
NEAREST = cl.Sampler(context, False, mode.CLAMP_TO_EDGE, between.NEAREST)
HOWS = {LINEAR: (mode.CLAMP_TO_EDGE, True), OTHER: (mode.CLAMP, True), NEAREST: (mode.CLAMP_TO_EDGE, False)}
class Picture:
    def __init__(self, width=64, height=32):
        self.array = rng.random((height, width, 4)).astype(np.float32)
        self.image = picture(self.array)
class OfBuffer(Picture):
    def __init__(self, shift=0):
        super().__init__()
        self.whole = np.zeros(self.array.nbytes + 4096, np.uint8)
        self.whole[shift : shift + self.array.nbytes] = self.array.reshape(-1).view(np.uint8)
        self.buffer = buffer(self.whole)
        part = self.buffer if not shift else self.buffer.get_sub_region(shift, self.array.nbytes)
        described = cl.ImageDescriptor()
        described.image_type, described.shape, described.buffer = cl.mem_object_type.IMAGE2D, (64, 32), part
        described.pitches = (1024, 0)
        self.image = object.__new__(cl.Image)
        form = cl.ImageFormat(order.RGBA, kind.FLOAT)
        cl.Image._custom_init(self.image, context, flags.READ_ONLY, form, described, None)
TEXTURES = True  # whether there are any
one, two, odd, small, of, written = Picture(), Picture(), Picture(63), Picture(32), OfBuffer(), OfBuffer()
at = places(64, 32, mode.CLAMP)
where, there = buffer(at), buffer(np.roll(at, 1, 0))
def look(what, sampler=LINEAR, kernel=f, target=None):
    target = out if target is None else target
    kernel(queue, (N,), (64,), what.image, *([] if kernel is own else [sampler]), where, target)
    if WAITS:
        queue.finish()
    how, linear = HOWS[sampler]
    wanted = expected(what.array, (0, 0, 0, 0), at, how, linear)
    if target is not out:
        return
    error = np.abs(read() - wanted).max()
    assert error < 2e-6, error
def itself(what):
    # what it stores lies in the memory that it reads
    look(what, target=what.buffer)
def anew():
    fresh = Picture()
    look(fresh)
def refilled(by):
    one.array = rng.random(one.array.shape).astype(np.float32)
    cl.enqueue_copy(queue, one.image, one.array, origin=(0, 0), region=(64, 32))
    look(one)
kinds = {  # and whether it is read as a texture
    "one": (lambda by: look(one), True, 0),
    "another": (lambda by: look(two), True, 0),
    "in turn": (lambda by: look((one, two)[by % 2]), True, 0),
    "another sampler": (lambda by: look(one, OTHER), True, 0),
    "samplers in turn": (lambda by: look(one, (OTHER, LINEAR)[by % 2]), True, 0),
    "to the nearest": (lambda by: look(one, NEAREST), False, 0),
    "rows that lie anywhere": (lambda by: look(odd), False, 0),
    "smaller": (lambda by: look(small), True, 0),
    "a buffer's": (lambda by: look(of), True, 0),
    "made anew": (lambda by: anew(), True, 0),
    "written anew": (refilled, True, 0),
    "a constant sampler": (lambda by: look((one, two)[by % 2], kernel=own), True, 1),
    "in a function": (lambda by: look((two, one)[by % 2], kernel=helped), True, 2),
    "in place": (lambda by: itself(written), False, 0),
}
def round_of(kind, count):
    call, textured, number = kinds[kind]
    before = launches(number)
    for by in range(count):
        call(by)
    new = launches(number) - before
    assert new.sum() >= count, (kind, new)
    assert not new[int(not textured)], (kind, new)
for kind in kinds:
    round_of(kind, 12)
for _ in range(40):
    round_of(list(kinds)[rng.integers(len(kinds))], int(rng.integers(1, 6)))
# of two samplers with one name, one was expected
before = launches(3)
scoped(queue, (N,), (64,), one.image, where, out)
both = expected(one.array, 0, at, mode.CLAMP_TO_EDGE, True) + 2 * expected(one.array, 0, at, mode.CLAMP_TO_EDGE, False)
assert np.abs(read() - both).max() < 4e-6
assert (launches(3) - before)[int(TEXTURES)]
# image, sampler and what else there is, each by itself
f.set_args(one.image, LINEAR, where, out)
for index, value in ((0, two), (1, NEAREST), (0, odd), (1, LINEAR), (0, one), (1, OTHER), (0, odd), (0, two)):
    before = launches()
    for _ in range(5):
        f.set_arg(index, value if index else value.image)
        cl.enqueue_nd_range_kernel(queue, f, (N,), (64,))
        if WAITS:
            queue.finish()
    picture_now = value if not index else picture_now if "picture_now" in globals() else one
    sampler_now = value if index else sampler_now if "sampler_now" in globals() else LINEAR
    how, linear = HOWS[sampler_now]
    new, textured = launches() - before, TEXTURES and linear and picture_now is not odd
    assert WORKERS > 1 or new.tolist() == [0 if textured else 5, 5 if textured else 0], (index, value, new)
    assert np.abs(read() - expected(picture_now.array, 0, at, how, linear)).max() < 2e-6, (index, value)
print("right")
"""

#: memory that goes back to the driver while others take its place
SHORT = """
LINEAR = cl.Sampler(context, False, mode.CLAMP_TO_EDGE, between.LINEAR)
kept = []
for turn in range(60):
    width, height = int(rng.integers(16, 33)) * 32, int(rng.integers(600, 1000))
    array = np.empty((height, width, 4), np.float32)
    array[:] = turn + 1
    array[0, 0] = -turn
    image = picture(array)
    at = places(width, height, mode.CLAMP)
    for _ in range(3):
        f(queue, (N,), (64,), image, LINEAR, buffer(at), out)
    assert np.abs(read() - expected(array, 0, at, mode.CLAMP_TO_EDGE, True)).max() < 1e-4, turn
    kept = (kept + [image])[-int(rng.integers(1, 3)):]
    del image
assert launches()[1] >= 180 and not launches()[0], launches()
assert 0 < driver.fake_textures() < 60, driver.fake_textures()
print("right")
"""


#: each step's result is the next one's image, in memory of its own
STEPS = """
SIZE, how = 64 * 32, mode.CLAMP_TO_EDGE
LINEAR = cl.Sampler(context, False, how, between.LINEAR)
at = (np.indices((32, 64)).reshape(2, SIZE).T[:, ::-1] + rng.integers(0, 256, (SIZE, 2)) / 256).astype(np.float32)
where = buffer(at)
described = cl.ImageDescriptor()
described.image_type, described.shape, described.pitches = cl.mem_object_type.IMAGE2D, (64, 32), (1024, 0)
class Value:
    def __init__(self):
        self.array = rng.random((SIZE, 4)).astype(np.float32)
        self.buffer = buffer(self.array)
    def step(self, kernel=f):
        described.buffer, image = self.buffer, object.__new__(cl.Image)
        cl.Image._custom_init(image, context, flags.READ_ONLY, cl.ImageFormat(order.RGBA, kind.FLOAT), described, None)
        out = cl.Buffer(context, flags.READ_WRITE, 16 * SIZE)
        kernel(queue, (SIZE,), (64,), image, *([LINEAR] if kernel is f else []), where, out)
        self.array = expected(self.array.reshape(32, 64, 4), 0, at, how, True)
        self.buffer = out
    def check(self):
        found = np.empty((SIZE, 4), np.float32)
        cl.enqueue_copy(queue, found, self.buffer)
        assert np.abs(found - self.array).max() < 1e-4, np.abs(found - self.array).max()
        self.array = rng.random((SIZE, 4)).astype(np.float32)
        cl.enqueue_copy(queue, self.buffer, self.array)
value, other = Value(), Value()
for number in range(60):
    value.step()
    if WAITS or number < 12:
        queue.finish()
    if number % 3 == 2:
        value.check()
    other.step(own)
    if number % 7 == 6:
        other.check()
value.check(), other.check()
assert launches()[1] >= 60 and not launches()[0] and launches(1)[1] >= 60 and not launches(1)[0]
print("right")
"""


#: room for a few textures, and images of many sizes
ROOM = """
from vdev.backends.cuda import textures
textures._MOST, textures._ASKED = 8, 4
LINEAR = cl.Sampler(context, False, mode.CLAMP_TO_EDGE, between.LINEAR)
held, at = [], buffer(places(64, 32, mode.CLAMP))
for turn in range(80):
    array = np.full((turn % 40 + 2, 32, 4), turn, np.float32)
    results = [buffer(np.zeros((N, 4), np.float32)) for _ in range(3)]
    image = picture(array)
    for result in results:
        f(queue, (N,), (64,), image, LINEAR, at, result)
    held.append((turn, image if turn % 20 == 7 else None, results))
    if turn % 9 == 8:
        for number, _, results in held:
            for result in results:
                assert (read(result) == number).all(), number
        held = [(number, kept, []) for number, kept, _ in held if kept is not None]
assert 0 < driver.fake_textures() <= 8, driver.fake_textures()
assert launches()[1] >= 80, launches()
print("right")
"""


def _run(folder: Path, script: str, workers: int = 1, *, waits: bool = False, **more: str) -> None:
    env = fake_cuda.environment(folder, f"cuda:0-{workers - 1}" if workers > 1 else "cuda:0")
    env |= {
        "VDEV_PLANNING": "always",
        "VDEV_GATHER": "0",
        "VDEV_MIN_ITEMS": "1",
        "FAKE_CUDA_DEVICES": "3",
        **more,
    }
    assert "right" in fake_cuda.run(
        (PROGRAM + script).replace("WAITS", str(waits)).replace("WORKERS", str(workers)), env
    )


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_textures_give_what_the_specification_says(tmp_path: Path) -> None:
    _run(tmp_path, FORMATS)


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
@pytest.mark.parametrize(("workers", "waits"), [(1, False), (1, True), (2, False), (3, True)])
def test_textures_serve_where_all_images_have_one(tmp_path: Path, workers: int, waits: bool) -> None:
    _run(tmp_path, KINDS, workers, waits=waits)


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
@pytest.mark.parametrize(("workers", "waits"), [(1, False), (2, False), (3, True)])
def test_textures_are_of_the_memory_of_each_launch(tmp_path: Path, workers: int, waits: bool) -> None:
    _run(tmp_path, STEPS, workers, waits=waits)


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
@pytest.mark.parametrize("workers", [1, 2])
def test_textures_go_before_their_memory_does(tmp_path: Path, workers: int) -> None:
    _run(tmp_path, SHORT, workers, FAKE_CUDA_MEMORY=str(80 << 20), VDEV_MEMORY=str(64 << 20))


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_textures_of_free_memory_make_room_when_nobody_reads_them(tmp_path: Path) -> None:
    _run(tmp_path, ROOM, FAKE_CUDA_LATE="0")


@pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
def test_a_gpu_that_makes_no_textures_reads_in_software(tmp_path: Path) -> None:
    script = KINDS.replace("), True, ", "), False, ").replace("refilled, True", "refilled, False")
    script = script.replace("TEXTURES = True", "TEXTURES = False")
    _run(tmp_path, script, FAKE_CUDA_REFUSED="cuTexObjectCreate")
