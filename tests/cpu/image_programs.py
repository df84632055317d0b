"""Programs with images, for `tests.cpu.side_by_side`: random pixels through every format, kind, sampler and way.

A result is {"exact": digests, "close": numbers}: what the specification determines to the last bit, and what it allows
a tolerance (linear filters, sRGB).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

WIDE = 16  #: pixels of a row that engines make images of
W, H, D = 13, 9, 5  #: sizes that no work-group divides
N = 96  #: positions that are read, in groups of eight
#: one in so many formats is tried with a kind, another with the next: all of them take minutes
SHARE = int(os.environ.get("IMAGE_FORMATS_SHARE", "9"))
DEPTH, SRGB = 0x10BD, (0x10C1, 0x10C2)

#: images: (dimensions, layers, components of a coordinate, OpenCL's type)
KINDS = {
    "image1d_t": (1, False, "c.x", "IMAGE1D"),
    "image1d_buffer_t": (1, False, "c.x", "IMAGE1D_BUFFER"),
    "image1d_array_t": (1, True, "c.xy", "IMAGE1D_ARRAY"),
    "image2d_t": (2, False, "c.xy", "IMAGE2D"),
    "image2d_array_t": (2, True, "c", "IMAGE2D_ARRAY"),
    "image3d_t": (3, False, "c", "IMAGE3D"),
    "image2d_depth_t": (2, False, "c.xy", "IMAGE2D"),
    "image2d_array_depth_t": (2, True, "c", "IMAGE2D_ARRAY"),
}
VECTORS = {"f": "float4", "i": "int4", "ui": "uint4"}
DTYPES = {"f": np.float32, "i": np.int32, "ui": np.uint32}
#: channel types: bytes, and which functions read them
CHANNELS = {
    0x10D0: (1, "f"), 0x10D1: (2, "f"), 0x10D2: (1, "f"), 0x10D3: (2, "f"), 0x10D7: (1, "i"), 0x10D8: (2, "i"),
    0x10D9: (4, "i"), 0x10DA: (1, "ui"), 0x10DB: (2, "ui"), 0x10DC: (4, "ui"), 0x10DD: (2, "f"), 0x10DE: (4, "f"),
}  # fmt: skip
COUNTS = {0x10B0: 1, 0x10B1: 1, 0x10B2: 2, 0x10B3: 2, 0x10B8: 1, 0x10B9: 1, DEPTH: 1}

CALLS: dict[str, Callable[[Any], Any]] = {}


def make_world() -> SimpleNamespace:
    import pyopencl as cl  # which one it is, the process decides

    w = SimpleNamespace(cl=cl, raw=cl._cl, mf=cl.mem_flags)
    platforms = sorted(cl.get_platforms(), key=lambda platform: "intel" not in platform.name.lower())
    w.device = platforms[0].get_devices()[0]
    w.ctx = cl.Context([w.device])
    w.queue = cl.CommandQueue(w.ctx)
    return w


def digest(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha1(array.tobytes()).hexdigest()[:16]


def extent(kind: str) -> tuple[int, int, int]:
    """Width, height and depth or layers."""
    dims, layered, _, _ = KINDS[kind]
    return W, H if dims > 1 else 1, D if dims > 2 or layered else 1


def box(kind: str) -> tuple[int, int, int]:
    """The whole image as an origin and a region count."""
    width, height, depth = extent(kind)
    return (width, depth, 1) if kind == "image1d_array_t" else (width, height, depth)


def formats(w: Any, kind: str, flags: int) -> list[Any]:
    found = w.cl.get_supported_image_formats(w.ctx, flags, getattr(w.cl.mem_object_type, KINDS[kind][3]))
    wanted = sorted(
        (f for f in found if (f.channel_order == DEPTH) == ("depth" in kind)),
        key=lambda f: (f.channel_order, f.channel_data_type),
    )
    if "depth" in kind or SHARE == 1:
        return wanted
    return wanted[list(KINDS).index(kind) % SHARE :: SHARE]


def pixels(w: Any, kind: str, form: Any) -> np.ndarray[Any, Any]:
    count = int(np.prod(extent(kind))) * COUNTS.get(form.channel_order, 4)
    if form.channel_data_type == 0x10DD:
        return np.asarray(w.rng.standard_normal(count).astype(np.float16).view(np.uint8))
    if form.channel_data_type == 0x10DE:
        return np.asarray(w.rng.standard_normal(count).astype(np.float32).view(np.uint8))
    return np.asarray(w.rng.integers(0, 256, count * CHANNELS[form.channel_data_type][0]).astype(np.uint8))


def image(w: Any, kind: str, form: Any, flags: int, data: np.ndarray[Any, Any]) -> Any:
    desc = w.cl.ImageDescriptor()
    desc.image_type = getattr(w.cl.mem_object_type, KINDS[kind][3])
    desc.shape = extent(kind)
    desc.array_size = extent(kind)[2]
    if kind == "image1d_buffer_t":
        buffer = w.cl.Buffer(w.ctx, flags | w.mf.COPY_HOST_PTR, hostbuf=data)
        desc.buffer = buffer  # which keeps nothing alive
        return w.cl.Image(w.ctx, flags, form, desc=desc)
    return w.cl.Image(w.ctx, flags | w.mf.COPY_HOST_PTR, form, hostbuf=data, desc=desc)


def content(w: Any, kind: str, made: Any, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found = np.zeros_like(data)
    w.raw._enqueue_read_image(w.queue, made, (0, 0, 0), box(kind), found)
    return found


def run(w: Any, program: Any, name: str, size: Any, *args: Any) -> None:
    kernel = w.cl.Kernel(program, name)
    kernel.set_args(*args)
    local = (8,) if isinstance(size, int) else None
    w.cl.enqueue_nd_range_kernel(w.queue, kernel, (size,) if isinstance(size, int) else size, local)


def suffixes(kind: str) -> list[str]:
    return ["f"] if "depth" in kind else list(VECTORS)


# reading


def reading_source(kind: str) -> str:
    at = KINDS[kind][2]
    source = ""
    for suffix in suffixes(kind):
        vector = VECTORS[suffix]
        head = f"kernel void {{}}_{suffix}(read_only {kind} im, {{}}global const {{}}4 *cs, global {vector} *out) {{{{ "
        read = f"size_t g = get_global_id(0); {{}}4 c = cs[g]; out[g] = {{}}read_image{suffix}(im, {{}}{at}){{}}; }}}}\n"
        scalar = ("(float4)(", ", 0, 0, 0)") if "depth" in kind else ("", "")
        for name, sampler, coordinate in (("s", 1, "float"), ("t", 1, "int"), ("n", 0, "int")):
            if sampler and kind == "image1d_buffer_t":
                continue
            source += head.format(name, "sampler_t s, " * sampler, coordinate)
            source += read.format(coordinate, scalar[0], "s, " * sampler, scalar[1])
    return source.replace("{{", "{").replace("}}", "}")


def positions(w: Any, kind: str, *, normalized: bool, whole: bool, inside: bool) -> np.ndarray[Any, Any]:
    dims, layered, _, _ = KINDS[kind]
    sizes = np.array([*box(kind), 1])
    if whole:
        low, high = (0, sizes) if inside else (-4, sizes + 4)
        return np.asarray(w.rng.integers(low, high, (N, 4)).astype(np.int32))
    unit = w.rng.random((N, 4)) if not inside else w.rng.random((N, 4)) * 0.8 + 0.1
    found = unit if inside else unit * 5 - 2
    scaled = found if normalized else found * sizes
    if layered:
        scaled[:, dims] = (unit * (D - 1) if inside else unit * 9 - 2)[:, dims]
    scaled = scaled.astype(np.float32)
    scaled[: N // 4] = np.round(scaled[: N // 4] * 8) / 8  # between two pixels, and in the middle of one
    return np.asarray(scaled)


def samplers(w: Any) -> list[tuple[bool, int, int]]:
    modes, filters = w.cl.addressing_mode, w.cl.filter_mode
    plain = (modes.NONE, modes.CLAMP_TO_EDGE, modes.CLAMP)
    return [
        (normalized, mode, filtering)
        for normalized in (False, True)
        for mode in (*plain, *((modes.REPEAT, modes.MIRRORED_REPEAT) if normalized else ()))
        for filtering in (filters.NEAREST, filters.LINEAR)
    ]


def reads(w: Any, kind: str) -> dict[str, dict[str, Any]]:
    w.rng = np.random.default_rng(5)
    program = w.cl.Program(w.ctx, reading_source(kind)).build(["-cl-std=CL3.0"])
    result: dict[str, dict[str, Any]] = {"exact": {}, "close": {}}

    def read(name: str, suffix: str, made: Any, cs: Any, *sampler: Any) -> np.ndarray[Any, Any]:
        out = np.zeros((N, 4), DTYPES[suffix])
        target = w.cl.Buffer(w.ctx, w.mf.READ_WRITE, out.nbytes)
        source = w.cl.Buffer(w.ctx, w.mf.READ_ONLY | w.mf.COPY_HOST_PTR, hostbuf=cs)
        run(w, program, f"{name}_{suffix}", N, made, *sampler, source, target)
        w.cl.enqueue_copy(w.queue, out, target)
        return out

    for form in formats(w, kind, w.mf.READ_ONLY):
        key = f"{form.channel_order:x} {form.channel_data_type:x}"
        suffix = CHANNELS[form.channel_data_type][1]
        rounded = "close" if form.channel_order in SRGB else "exact"
        made = image(w, kind, form, w.mf.READ_ONLY, pixels(w, kind, form))
        note = partial(_note, result)
        cs = positions(w, kind, normalized=False, whole=True, inside=True)
        note(rounded, f"{key} without", read("n", suffix, made, cs))
        for normalized, mode, filtering in samplers(w) if kind != "image1d_buffer_t" else ():
            linear = filtering == w.cl.filter_mode.LINEAR
            if linear and suffix != "f":
                continue
            sampler = w.cl.Sampler(w.ctx, normalized, mode, filtering)
            inside = mode == w.cl.addressing_mode.NONE
            cs = positions(w, kind, normalized=normalized, whole=False, inside=inside)
            how = f"{key} {normalized} {mode:x} {filtering:x}"
            note("close" if linear else rounded, how, read("s", suffix, made, cs, sampler))
            if not normalized and not linear:
                cs = positions(w, kind, normalized=False, whole=True, inside=inside)
                note(rounded, f"{how} int", read("t", suffix, made, cs, sampler))
    return result


def _note(result: dict[str, dict[str, Any]], group: str, key: str, values: np.ndarray[Any, Any]) -> None:
    result[group][key] = digest(values + 0) if group == "exact" else values.ravel().tolist()


# writing


def writing_source(kind: str, access: str) -> str:
    """At every pixel, by ids; and at the pixels that a list names."""
    at = KINDS[kind][2]
    source = ""
    position = "int4 c = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);"
    place = (
        "(get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0)"
    )
    for suffix in suffixes(kind):
        vector = VECTORS[suffix]
        value = "v[i].x" if "depth" in kind else "v[i]"
        source += f"""
kernel void all_{suffix}({access} {kind} im, global const {vector} *v)
{{ {position} size_t i = {place}; write_image{suffix}(im, {at}, {value}); }}
kernel void some_{suffix}({access} {kind} im, global const {vector} *v, global const int4 *cs)
{{ size_t i = get_global_id(0); int4 c = cs[i]; write_image{suffix}(im, {at}, {value}); }}
"""
        if access == "read_write":
            one = {"f": "1.0f", "i": "1", "ui": "1u"}[suffix]
            source += f"""
kernel void change_{suffix}({access} {kind} im)
{{ {position} write_image{suffix}(im, {at}, {one} - read_image{suffix}(im, {at})); }}
"""
    return source


def values(w: Any, form: Any, count: int) -> np.ndarray[Any, Any]:
    """Numbers around what the format can hold."""
    suffix = CHANNELS[form.channel_data_type][1]
    if suffix == "f":
        scale = 1.2 if form.channel_data_type < 0x10D7 else 900
        return np.asarray((w.rng.standard_normal((count, 4)) * scale).astype(np.float32))
    wide = w.rng.integers(-(2**31), 2**31, (count, 4)) >> w.rng.integers(0, 31, (count, 4))
    return np.asarray(wide.astype(np.int32).view(DTYPES[suffix]))


def writes(w: Any, kind: str, access: str) -> dict[str, dict[str, Any]]:
    w.rng = np.random.default_rng(6)
    program = w.cl.Program(w.ctx, writing_source(kind, access)).build(["-cl-std=CL3.0"])
    result: dict[str, dict[str, Any]] = {"exact": {}, "close": {}}
    npixels = int(np.prod(box(kind)))
    for form in formats(w, kind, w.mf.WRITE_ONLY):
        key = f"{form.channel_order:x} {form.channel_data_type:x}"
        suffix = CHANNELS[form.channel_data_type][1]
        data = pixels(w, kind, form)
        made = image(w, kind, form, w.mf.READ_WRITE, data)
        hosts = [values(w, form, npixels), values(w, form, N)]
        vs = [w.cl.Buffer(w.ctx, w.mf.READ_ONLY | w.mf.COPY_HOST_PTR, hostbuf=host) for host in hosts]
        chosen = w.rng.permutation(npixels)[: min(N, npixels // 8 * 8)].astype(np.int32)
        width, height, _ = box(kind)
        cs = np.stack([chosen % width, chosen // width % height, chosen // width // height, chosen * 0], 1)
        places = w.cl.Buffer(w.ctx, w.mf.READ_ONLY | w.mf.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(cs))
        run(w, program, f"some_{suffix}", len(chosen), made, vs[1], places)
        result["exact"][f"{key} some"] = digest(content(w, kind, made, data))
        if access == "read_write":
            run(w, program, f"change_{suffix}", box(kind), made)
            result["exact"][f"{key} change"] = digest(content(w, kind, made, data))
        run(w, program, f"all_{suffix}", box(kind), made, vs[0])
        result["exact"][f"{key} all"] = digest(content(w, kind, made, data))
    return result


# transfers


def transfers(w: Any, kind: str) -> dict[str, dict[str, Any]]:
    """Boxes read, written, copied, filled and mapped."""
    result: dict[str, dict[str, Any]] = {"exact": {}, "close": {}}
    w.rng = np.random.default_rng(7)
    raw, whole = w.raw, box(kind)
    origin = tuple(min(2, size - 1) for size in whole)
    region = tuple(max(1, size - 3) for size in whole)
    for form in formats(w, kind, w.mf.WRITE_ONLY):
        key = f"{form.channel_order:x} {form.channel_data_type:x}"
        data, more = pixels(w, kind, form), pixels(w, kind, form)
        made, other = (image(w, kind, form, w.mf.READ_WRITE, d) for d in (data, more))
        element = len(data) // int(np.prod(whole))
        row = (region[0] + 2) * element
        plane = row if kind == "image1d_array_t" else row * (region[1] + 1)
        pitches = (
            (row, plane) if len(KINDS[kind][2]) == 1 or KINDS[kind][1] or KINDS[kind][0] == 3 else (row, 0)
        )
        host = w.rng.integers(0, 100, plane * (region[2] + 1) * max(region[1], 1) + row).astype(np.uint8)
        raw._enqueue_write_image(w.queue, made, origin, region, host, *pitches)
        result["exact"][f"{key} write"] = digest(content(w, kind, made, data))
        back = np.zeros_like(host)
        raw._enqueue_read_image(w.queue, made, origin, region, back, *pitches)
        result["exact"][f"{key} read"] = digest(back)
        raw._enqueue_copy_image(w.queue, made, other, origin, (0, 0, 0), region)
        result["exact"][f"{key} copy"] = digest(content(w, kind, other, data))
        buffer = w.cl.Buffer(
            w.ctx, w.mf.READ_WRITE | w.mf.COPY_HOST_PTR, hostbuf=np.zeros(len(data) + 64, np.uint8)
        )
        raw._enqueue_copy_image_to_buffer(w.queue, other, buffer, origin, region, 16)
        raw._enqueue_copy_buffer_to_image(w.queue, buffer, made, 16, (0, 0, 0), region)
        result["exact"][f"{key} buffer"] = digest(content(w, kind, made, data))
        suffix = CHANNELS[form.channel_data_type][1]
        color = values(w, form, 1)[0] if suffix != "f" else np.array([0.25, -0.5, 2.0, 0.75], np.float32)
        if suffix == "ui":
            color &= 0x7FFFFFFF  # Intel's engine saturates larger ones as if negative
        if form.channel_order != DEPTH:
            w.cl.enqueue_fill_image(w.queue, made, color, origin, region)
            w.cl.enqueue_fill_image(w.queue, other, color, (0, 0, 0), whole)
            result["exact"][f"{key} fill"] = digest(content(w, kind, made, data))
            result["exact"][f"{key} full"] = digest(content(w, kind, other, data))
        shape = (region[0] * element,)
        flags = w.cl.map_flags.READ | w.cl.map_flags.WRITE
        array, *_ = w.cl.enqueue_map_image(w.queue, made, flags, origin, region, shape, np.uint8)
        array[:] = array[::-1].copy()
        array.base.release(w.queue)
        result["exact"][f"{key} map"] = digest(content(w, kind, made, data))
    return result


def reads_by_the_engine(w: Any) -> dict[str, dict[str, Any]]:
    """Rows that engines make images of: what a linear filter gives is then the engine's to the last bit."""
    global W
    before, W = W, WIDE
    try:
        found = reads(w, "image2d_t")
    finally:
        W = before
    numbers = {key: digest(np.asarray(values)) for key, values in found["close"].items() if not is_srgb(key)}
    others = {key: values for key, values in found["close"].items() if is_srgb(key)}
    return {"exact": {**found["exact"], **numbers}, "close": others}


def is_srgb(key: str) -> bool:
    return int(key.split()[0], 16) in SRGB


def sampled_within_a_buffer(w: Any) -> dict[str, dict[str, Any]]:
    """An image that begins inside of a buffer, sampled between writes to the buffer; and one that is written by a kernel."""
    w.rng = np.random.default_rng(8)
    source = """
    kernel void turn(read_only image2d_t im, sampler_t s, global float4 *out) {
        int x = get_global_id(0), y = get_global_id(1);
        out[y * get_global_size(0) + x] = read_imagef(im, s, (float2)(0.8f * x - 0.6f * y, 0.6f * x + 0.8f * y));
    }
    kernel void draw(write_only image2d_t im, float shift) {
        int2 c = (int2)(get_global_id(0), get_global_id(1));
        write_imagef(im, c, (float4)(c.x + shift, c.y, c.x * c.y, 1.0f) / 64.0f);
    }
    kernel void all(global float4 *a, int n) {
        float sum = 0;
        for (int i = 0; i < n; ++i) sum += a[i].x;
        a[get_global_id(0)].w = sum;
    }"""
    program = w.cl.Program(w.ctx, source).build()
    height, offset = 24, 4096
    form = w.cl.ImageFormat(w.cl.channel_order.RGBA, w.cl.channel_type.FLOAT)
    buffer = w.cl.Buffer(w.ctx, w.mf.READ_WRITE, 2 * offset + WIDE * height * 16)
    part = buffer.get_sub_region(offset, WIDE * height * 16)
    desc = w.cl.ImageDescriptor()
    desc.image_type, desc.shape = w.cl.mem_object_type.IMAGE2D, (WIDE, height)
    desc.pitches, desc.buffer = (WIDE * 16, 0), part
    inside = w.cl.Image(w.ctx, w.mf.READ_WRITE, form, desc=desc)
    alone = w.cl.create_image(w.ctx, w.mf.READ_WRITE, form, shape=(WIDE, height))
    modes, filters = w.cl.addressing_mode, w.cl.filter_mode
    sampler = w.cl.Sampler(w.ctx, False, modes.CLAMP, filters.LINEAR)
    out = w.cl.Buffer(w.ctx, w.mf.READ_WRITE, WIDE * height * 16)
    result: dict[str, dict[str, Any]] = {"exact": {}, "close": {}}
    host = np.zeros((height, WIDE, 4), np.float32)
    for number in range(4):
        if number == 2:  # from then on workers have what lies before the image, too
            w.cl.enqueue_fill_buffer(w.queue, buffer, np.float32(1), 0, buffer.size)
            items = buffer.size // 16
            run(w, program, "all", (8,), buffer, np.int32(items))
        content = w.rng.random((height, WIDE, 4)).astype(np.float32)
        w.cl.enqueue_copy(w.queue, part, content)
        run(w, program, "draw", (WIDE, height), alone, np.float32(number))
        for name, made in (("inside", inside), ("alone", alone)):
            run(w, program, "turn", (WIDE, height), made, sampler, out)
            w.cl.enqueue_copy(w.queue, host, out)
            result["exact"][f"{name} {number}"] = digest(host + 0)
    return result


def sizes(w: Any) -> dict[str, dict[str, Any]]:
    """What sizeof says of images and samplers."""
    operands = [f"({kind})" for kind in KINDS] + ["(read_only image2d_t)", " a", "((a))", "(sampler_t)", " s"]
    stores = " ".join(f"o[{number}] = sizeof{operand};" for number, operand in enumerate(operands))
    source = f"kernel void f(read_only image2d_t a, sampler_t s, global int *o) {{ {stores} }}"
    form = w.cl.ImageFormat(w.cl.channel_order.RGBA, w.cl.channel_type.FLOAT)
    image = w.cl.create_image(w.ctx, w.mf.READ_ONLY, form, shape=(W, H))
    sampler = w.cl.Sampler(w.ctx, False, w.cl.addressing_mode.CLAMP, w.cl.filter_mode.NEAREST)
    host = np.zeros(len(operands), np.int32)
    out = w.cl.Buffer(w.ctx, w.mf.WRITE_ONLY, host.nbytes)
    run(w, w.cl.Program(w.ctx, source).build(), "f", (1,), image, sampler, out)
    w.cl.enqueue_copy(w.queue, host, out)
    return {"exact": {"sizes": host.tolist()}, "close": {}}


def calls_alike(w: Any) -> dict[str, dict[str, Any]]:
    """One kernel called again and again: with the same image and sampler, another one of each, other buffers and numbers, an image and a
    sampler that are gone, and what no kernel takes.
    """
    cl, form = w.cl, w.cl.ImageFormat(w.cl.channel_order.RGBA, w.cl.channel_type.FLOAT)
    source = """kernel void f(read_only image2d_t a, sampler_t s, global float *o, float x) {
      int i = get_global_id(0); o[i] += read_imagef(a, s, (int2)(i - 1, i)).x + x; }"""
    f = cl.Kernel(cl.Program(w.ctx, source).build(), "f")
    rng = np.random.default_rng(3)

    def picture(width: int) -> Any:
        made = cl.create_image(w.ctx, w.mf.READ_ONLY, form, shape=(width, H))
        cl.enqueue_copy(
            w.queue, made, rng.random((H, width, 4), np.float32), origin=(0, 0), region=(width, H)
        )
        return made

    def sampler(mode: int) -> Any:
        return cl.Sampler(w.ctx, False, mode, cl.filter_mode.NEAREST)

    images, result = [picture(W), picture(W + 3), picture(W)], {"exact": {}, "close": {}}
    samplers = [sampler(cl.addressing_mode.CLAMP), sampler(cl.addressing_mode.CLAMP_TO_EDGE)]
    outs = [
        cl.Buffer(w.ctx, w.mf.READ_WRITE | w.mf.COPY_HOST_PTR, hostbuf=np.ones(8, np.float32))
        for _ in range(2)
    ]
    drawn = [[int(rng.integers(count)) for count in (3, 2, 2, 4)] for _ in range(60)]
    for image, how, out, number in drawn:
        for _ in range(1 + number):
            f(w.queue, (8,), (4,), images[image], samplers[how], outs[out], np.float32(number))
    for number, out in enumerate(outs):
        host = np.empty(8, np.float32)
        cl.enqueue_copy(w.queue, host, out)
        result["exact"][f"out {number}"] = digest(host)

    def code(*args: Any) -> str:
        try:
            f(w.queue, (8,), (4,), *args).wait()
        except (cl.Error, TypeError, AttributeError) as error:
            return type(error).__name__ + str(getattr(error, "code", ""))
        return "none"

    other = cl.create_image(w.ctx, w.mf.WRITE_ONLY, form, shape=(W, H))
    deep = cl.create_image(w.ctx, w.mf.READ_ONLY, form, shape=(W, H, D))
    images[0].release()
    given = samplers[0], outs[0], np.float32(0)
    result["exact"]["codes"] = [
        code(images[1], *given), code(images[1], *given), code(images[0], *given), code(images[1], *given),
        code(outs[1], *given), code(images[1], samplers[1], outs[0], None), code(images[1], *given), code(images[2], *given),
        code(images[1], outs[0], outs[0], np.float32(0)), code(images[1], *given), code(deep, *given),
        code(images[2], *given), code(other, *given), code(images[1], *given),
    ]  # fmt: skip
    return result


CALLS["calls alike"] = calls_alike
CALLS["sizes"] = sizes
CALLS["image2d_t read by the engine"] = reads_by_the_engine
CALLS["image2d_t sampled within a buffer"] = sampled_within_a_buffer
for _kind in KINDS:
    CALLS[f"{_kind} read"] = partial(reads, kind=_kind)
    CALLS[f"{_kind} write_only"] = partial(writes, kind=_kind, access="write_only")
    CALLS[f"{_kind} read_write"] = partial(writes, kind=_kind, access="read_write")
    CALLS[f"{_kind} transfers"] = partial(transfers, kind=_kind)
