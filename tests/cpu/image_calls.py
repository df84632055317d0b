"""Calls for images and samplers, for `tests.cpu.side_by_side`: bad ones, some that look bad and are not, and queries."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

SOURCE = """
kernel void k(read_only image2d_t a, sampler_t s, global float4 *o)
{ o[get_global_id(0)] = read_imagef(a, s, (int2)(get_global_id(0), 0)); }
kernel void w(write_only image2d_t a) { write_imagef(a, (int2)(0, 0), (float4)(1)); }
kernel void v(read_only image3d_t a, global float4 *o) { o[0] = read_imagef(a, (int4)(0)); }
kernel void x(read_write image2d_t a) { write_imagef(a, (int2)(0, 0), read_imagef(a, (int2)(1, 1))); }
"""
Call = Callable[[Any], Any]
CALLS: dict[str, Call] = {}


def calls(group: str, **table: Call) -> None:
    CALLS.update({f"{group}: {name}": call for name, call in table.items()})


def make_world() -> SimpleNamespace:
    """One of everything that the calls need."""
    import pyopencl as cl  # which one it is, the process decides

    w = SimpleNamespace(cl=cl, raw=cl._cl, mf=cl.mem_flags, t=cl.mem_object_type, ii=cl.image_info)
    platforms = sorted(cl.get_platforms(), key=lambda platform: "intel" not in platform.name.lower())
    w.device = platforms[0].get_devices()[0]
    w.ctx, w.ctx2 = cl.Context([w.device]), cl.Context([w.device])
    w.queue, w.queue2 = cl.CommandQueue(w.ctx), cl.CommandQueue(w.ctx2)
    order, kind = cl.channel_order, cl.channel_type
    w.rgba8 = cl.ImageFormat(order.RGBA, kind.UNORM_INT8)
    w.rgbaf = cl.ImageFormat(order.RGBA, kind.FLOAT)
    w.r8 = cl.ImageFormat(order.R, kind.UNSIGNED_INT8)
    w.host, w.large = np.zeros(16 * 8 * 4, np.uint8), np.zeros(1 << 14, np.uint8)
    w.buf, w.small = (cl.Buffer(w.ctx, w.mf.READ_WRITE, nbytes) for nbytes in (4096, 64))
    w.buf_ro = cl.Buffer(w.ctx, w.mf.READ_ONLY, 4096)
    w.im1, w.im2, w.im3 = image(w, "IMAGE1D"), image(w), image(w, "IMAGE3D", (8, 4, 4))
    w.ia, w.i1a = image(w, "IMAGE2D_ARRAY", (8, 4, 3)), image(w, "IMAGE1D_ARRAY", (8, 1, 1), array=3)
    w.imf, w.imr = image(w, form=w.rgbaf), image(w, form=w.r8)
    w.ro, w.wo = image(w, flags=w.mf.READ_ONLY), image(w, flags=w.mf.WRITE_ONLY)
    w.hro, w.hwo = image(w, flags=w.mf.HOST_READ_ONLY), image(w, flags=w.mf.HOST_WRITE_ONLY)
    w.hna = image(w, flags=w.mf.HOST_NO_ACCESS)
    w.other = image(w, ctx=w.ctx2)
    w.program = cl.Program(w.ctx, SOURCE).build(["-cl-std=CL3.0"])
    w.k, w.w, w.v, w.x = (cl.Kernel(w.program, name) for name in "kwvx")
    w.samp, w.samp2 = (
        cl.Sampler(c, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST) for c in (w.ctx, w.ctx2)
    )
    w.foreign_event = cl.UserEvent(w.ctx2)
    regions = {"im1": (16, 1, 1), "im2": (16, 8, 1), "im3": (8, 4, 4), "ia": (8, 4, 3), "i1a": (8, 3, 1)}
    for name, region in regions.items():
        w.raw._enqueue_write_image(w.queue, getattr(w, name), (0, 0, 0), region, w.large)
    return w


def image(
    w: Any,
    kind: str | int = "IMAGE2D",
    shape: tuple[int, ...] = (16, 8, 1),
    *,
    array: int | None = None,
    pitches: tuple[int, ...] | None = None,
    buffer: Any = None,
    mips: int = 0,
    samples: int = 0,
    form: Any = None,
    flags: int | None = None,
    host: Any = None,
    ctx: Any = None,
) -> Any:
    desc = w.cl.ImageDescriptor()
    desc.image_type = getattr(w.t, kind) if isinstance(kind, str) else kind
    desc.shape = shape
    desc.num_mip_levels, desc.num_samples = mips, samples
    if array is not None:
        desc.array_size = array
    if pitches is not None:
        desc.pitches = pitches
    if buffer is not None:
        desc.buffer = buffer
    flags = w.mf.READ_WRITE if flags is None else flags
    return w.cl.Image(ctx or w.ctx, flags, form or w.rgba8, hostbuf=host, desc=desc)


def made(w: Any, *args: Any, **given: Any) -> list[Any]:
    """What a new image says of itself."""
    found = image(w, *args, **given)
    return [*facts(w, found), found.size, found.type, found.flags, found.get_info(w.cl.mem_info.OFFSET)]


def facts(w: Any, which: Any) -> list[Any]:
    names = (
        "ELEMENT_SIZE", "ROW_PITCH", "SLICE_PITCH", "WIDTH", "HEIGHT", "DEPTH", "ARRAY_SIZE", "NUM_MIP_LEVELS",
        "NUM_SAMPLES",
    )  # fmt: skip
    form = which.get_image_info(w.ii.FORMAT)
    values = [which.get_image_info(getattr(w.ii, name)) for name in names]
    return [*values, form.channel_order, form.channel_data_type]


def read(
    w: Any, which: Any, origin: Any = (0, 0, 0), region: Any = (16, 8, 1), host: Any = None, **given: Any
) -> Any:
    queue = given.pop("queue", w.queue)
    return w.raw._enqueue_read_image(queue, which, origin, region, w.host if host is None else host, **given)


def write(w: Any, which: Any, origin: Any = (0, 0, 0), region: Any = (16, 8, 1)) -> Any:
    return w.raw._enqueue_write_image(w.queue, which, origin, region, w.host)


def copy(w: Any, source: Any, target: Any, to: Any = (0, 0, 0), region: Any = (4, 4, 1), **given: Any) -> Any:
    return w.raw._enqueue_copy_image(w.queue, source, target, given.get("start", (0, 0, 0)), to, region)


def to_buffer(
    w: Any, source: Any, target: Any, origin: Any = (0, 0, 0), region: Any = (4, 4, 1), at: int = 0
) -> Any:
    return w.raw._enqueue_copy_image_to_buffer(w.queue, source, target, origin, region, at)


def from_buffer(w: Any, source: Any, target: Any, at: int = 0, origin: Any = (0, 0, 0), **given: Any) -> Any:
    queue = given.get("queue", w.queue)
    return w.raw._enqueue_copy_buffer_to_image(queue, source, target, at, origin, (4, 4, 1))


def fill(w: Any, which: Any, origin: Any = (0, 0, 0), region: Any = (4, 4, 1)) -> Any:
    return w.cl.enqueue_fill_image(w.queue, which, np.ones(4, np.float32), origin, region)


def mapped(w: Any, which: Any, flags: str = "READ", origin: Any = (0, 0), region: Any = (4, 4)) -> list[Any]:
    """The first row, the pitches."""
    bits = getattr(w.cl.map_flags, flags)
    array, event, row, plane = w.cl.enqueue_map_image(w.queue, which, bits, origin, region, (4, 4), np.uint8)
    event.wait()
    first = array[0].tolist()
    array.base.release(w.queue)
    return [first, row, plane]


def sampler(w: Any, *args: Any) -> list[Any]:
    found = w.cl.Sampler(w.ctx, *args)
    info = w.cl.sampler_info
    queries = (
        info.NORMALIZED_COORDS,
        info.ADDRESSING_MODE,
        info.FILTER_MODE,
        info.PROPERTIES,
        info.REFERENCE_COUNT,
    )
    return [found.get_info(query) for query in queries]


def formats(w: Any, flags: int, kind: int) -> list[Any]:
    found = w.cl.get_supported_image_formats(w.ctx, flags, kind)
    return sorted([form.channel_order, form.channel_data_type] for form in found)


def unset(w: Any) -> None:
    kernel = w.cl.Kernel(w.program, "k")
    kernel.set_arg(0, w.im2)
    w.cl.enqueue_nd_range_kernel(w.queue, kernel, (1,), None)


def released(w: Any) -> None:
    kernel, gone = w.cl.Kernel(w.program, "k"), image(w)
    kernel.set_args(gone, w.samp, w.buf)
    gone.release()
    w.cl.enqueue_nd_range_kernel(w.queue, kernel, (1,), None)


def arg_infos(w: Any) -> list[Any]:
    info = w.cl.kernel_arg_info
    queries = (info.ADDRESS_QUALIFIER, info.ACCESS_QUALIFIER, info.TYPE_NAME, info.TYPE_QUALIFIER, info.NAME)
    kernels = (w.k, w.w, w.v, w.x)
    return [
        kernel.get_arg_info(i, query)
        for kernel in kernels
        for i in range(kernel.num_args)
        for query in queries
    ]


calls(
    "create",
    plain=made,
    other_sizes=lambda w: made(w, shape=(13, 9, 1), form=w.r8),
    volume=lambda w: made(w, "IMAGE3D", (13, 9, 3), form=w.r8),
    line=lambda w: made(w, "IMAGE1D"),
    layers=lambda w: made(w, "IMAGE2D_ARRAY", (8, 4, 3)),
    lines=lambda w: made(w, "IMAGE1D_ARRAY", (8, 1, 1), array=3),
    thin_volume=lambda w: made(w, "IMAGE3D", (16, 8, 1)),
    format_rgb=lambda w: image(
        w, form=w.cl.ImageFormat(w.cl.channel_order.RGB, w.cl.channel_type.UNORM_INT8)
    ),
    format_bgra=lambda w: image(w, form=w.cl.ImageFormat(w.cl.channel_order.BGRA, w.cl.channel_type.FLOAT)),
    format_none=lambda w: image(w, form=w.cl.ImageFormat(1, 2)),
    format_int=lambda w: image(w, form=3),
    no_width=lambda w: image(w, shape=(0, 8, 1)),
    no_height=lambda w: image(w, shape=(16, 0, 1)),
    no_depth=lambda w: image(w, "IMAGE3D", (16, 8, 0)),
    no_layers=lambda w: image(w, "IMAGE2D_ARRAY", (4, 4, 1), array=0),
    no_lines=lambda w: image(w, "IMAGE1D_ARRAY", (4, 1, 1), array=0),
    wide=lambda w: image(w, shape=(w.device.image2d_max_width + 1, 8, 1)),
    high=lambda w: image(w, shape=(8, w.device.image2d_max_height + 1, 1)),
    wide_line=lambda w: image(w, "IMAGE1D", (w.device.image2d_max_width + 1, 1, 1)),
    wide_volume=lambda w: image(w, "IMAGE3D", (w.device.image3d_max_width + 1, 4, 4)),
    many_layers=lambda w: image(w, "IMAGE2D_ARRAY", (4, 4, 1), array=w.device.image_max_array_size + 1),
    type_buffer=lambda w: image(w, "BUFFER"),
    type_none=lambda w: image(w, 0),
    type_unknown=lambda w: image(w, 12345),
    two_accesses=lambda w: image(w, flags=w.mf.READ_ONLY | w.mf.WRITE_ONLY),
    two_host_accesses=lambda w: image(w, flags=w.mf.HOST_READ_ONLY | w.mf.HOST_WRITE_ONLY),
    unknown_flag=lambda w: image(w, flags=1 << 40),
    use_and_copy=lambda w: image(w, flags=w.mf.USE_HOST_PTR | w.mf.COPY_HOST_PTR, host=w.host),
    use_and_alloc=lambda w: image(w, flags=w.mf.USE_HOST_PTR | w.mf.ALLOC_HOST_PTR, host=w.host),
    copy_of_nothing=lambda w: image(w, flags=w.mf.COPY_HOST_PTR),
    use_of_nothing=lambda w: image(w, flags=w.mf.USE_HOST_PTR),
    host_unused=lambda w: made(w, host=w.host),
    no_flags=lambda w: made(w, flags=0),
    alloc=lambda w: made(w, flags=w.mf.ALLOC_HOST_PTR),
    copied=lambda w: made(w, flags=w.mf.COPY_HOST_PTR, host=w.large),
    used=lambda w: made(w, flags=w.mf.USE_HOST_PTR, host=w.large),
    host_access=lambda w: made(w, flags=w.mf.HOST_READ_ONLY),
    flag_of_formats=lambda w: image(w, flags=w.mf.KERNEL_READ_AND_WRITE),
    pitch_without_host=lambda w: image(w, pitches=(64,)),
    pitch_small=lambda w: image(w, pitches=(60,), flags=w.mf.COPY_HOST_PTR, host=w.large),
    pitch_odd=lambda w: image(w, pitches=(66,), flags=w.mf.COPY_HOST_PTR, host=w.large),
    pitch_copied=lambda w: made(w, pitches=(128,), flags=w.mf.READ_WRITE | w.mf.COPY_HOST_PTR, host=w.large),
    pitch_used=lambda w: made(w, pitches=(128,), flags=w.mf.READ_WRITE | w.mf.USE_HOST_PTR, host=w.large),
    slice_small=lambda w: image(
        w, "IMAGE3D", (16, 8, 2), pitches=(64, 100), flags=w.mf.COPY_HOST_PTR, host=w.large
    ),
    slice_odd=lambda w: image(
        w, "IMAGE3D", (16, 8, 2), pitches=(64, 515), flags=w.mf.COPY_HOST_PTR, host=w.large
    ),
    slice_only=lambda w: made(
        w, "IMAGE3D", (16, 8, 2), pitches=(0, 512), flags=w.mf.READ_WRITE | w.mf.COPY_HOST_PTR, host=w.large
    ),
    slice_of_plane=lambda w: made(
        w, pitches=(64, 512), flags=w.mf.READ_WRITE | w.mf.COPY_HOST_PTR, host=w.large
    ),
    mip_levels=lambda w: image(w, mips=2),
    samples=lambda w: image(w, samples=2),
    shape_of_four=lambda w: w.cl.create_image(w.ctx, w.mf.READ_WRITE, w.rgba8, shape=(4, 4, 4, 4)),
    no_context=lambda w: w.cl.Image(3, 1, w.rgba8, shape=(1, 1)),
    descriptor_of_four=lambda w: image(w, shape=(1, 2, 3, 4)),
    descriptor_float=lambda w: image(w, shape=(1.5, 2)),
)
calls(
    "from buffer",
    plane=lambda w: made(w, pitches=(256,), buffer=w.buf),
    plane_tight=lambda w: made(w, buffer=w.buf),
    plane_small=lambda w: image(w, buffer=w.small),
    plane_pitch=lambda w: image(w, pitches=(68,), buffer=w.buf),
    line=lambda w: made(w, "IMAGE1D_BUFFER", (16, 1, 1), buffer=w.buf),
    line_small=lambda w: image(w, "IMAGE1D_BUFFER", (17, 1, 1), buffer=w.small),
    line_empty=lambda w: image(w, "IMAGE1D_BUFFER", (0, 1, 1), buffer=w.buf),
    no_buffer=lambda w: image(w, "IMAGE1D_BUFFER", (16, 1, 1)),
    volume=lambda w: image(w, "IMAGE3D", (4, 4, 4), buffer=w.buf),
    other_line=lambda w: image(w, "IMAGE1D", (16, 1, 1), buffer=w.buf),
    with_host=lambda w: image(
        w, "IMAGE1D_BUFFER", (16, 1, 1), buffer=w.buf, flags=w.mf.COPY_HOST_PTR, host=w.host
    ),
    image=lambda w: image(w, buffer=w.im2),
    access=lambda w: image(w, "IMAGE1D_BUFFER", (16, 1, 1), buffer=w.buf_ro, flags=w.mf.WRITE_ONLY),
    same_access=lambda w: made(w, "IMAGE1D_BUFFER", (16, 1, 1), buffer=w.buf_ro, flags=w.mf.READ_ONLY),
    associated=lambda w: (lambda i: [i.buffer == w.buf, i.associated_memobject == w.buf])(
        image(w, buffer=w.buf)
    ),
)
calls(
    "read",
    all=lambda w: read(w, w.im2).wait(),
    array_in_origin=lambda w: read(w, w.im2, (np.array(0), 0, 0)).wait(),
    array_as_pitch=lambda w: read(w, w.im2, host=w.large, row_pitch=np.array(64)).wait(),
    outside=lambda w: read(w, w.im2, (1, 0, 0)),
    empty=lambda w: read(w, w.im2, region=(0, 8, 1)).wait(),
    slice_of_plane=lambda w: read(w, w.im2, (0, 0, 1)),
    slices_of_plane=lambda w: read(w, w.im2, region=(4, 4, 2)),
    two_numbers=lambda w: read(w, w.im2, (0, 0), (16, 8)).wait(),
    four_numbers=lambda w: read(w, w.im2, (0, 0, 0, 0), (16, 8)),
    no_origin=lambda w: read(w, w.im2, None),
    float_origin=lambda w: read(w, w.im2, (0.0, 0), (1, 1)),
    no_host=lambda w: w.raw._enqueue_read_image(w.queue, w.im2, (0, 0), (1, 1), None),
    frozen=lambda w: read(w, w.im2, (0, 0), (1, 1), b"abcd"),
    foreign_event=lambda w: read(w, w.im2, wait_for=[w.foreign_event]),
    foreign_queue=lambda w: read(w, w.im2, queue=w.queue2),
    host_writes=lambda w: read(w, w.hwo),
    host_none=lambda w: read(w, w.hna),
    host_reads=lambda w: write(w, w.hro),
    only_written=lambda w: read(w, w.wo).wait(),
    buffer=lambda w: read(w, w.buf),
    line=lambda w: read(w, w.im1, (0, 0), (16,)).wait(),
    line_rows=lambda w: read(w, w.im1, (0, 0), (16, 2)),
    line_row=lambda w: read(w, w.im1, (0, 1), (16, 1)),
    layer=lambda w: read(w, w.ia, (0, 0, 3), (1, 1, 1)),
    lines=lambda w: read(w, w.i1a, (0, 2, 0), (8, 2, 1)),
    lines_deep=lambda w: read(w, w.i1a, (0, 2, 0), (8, 1, 2)),
    write_outside=lambda w: write(w, w.im2, (0, 4, 0)),
    through_copy=lambda w: w.cl.enqueue_copy(w.queue, w.host, w.im2, origin=(0, 0), region=(16, 8)).wait(),
)
calls(
    "as buffer",
    read=lambda w: w.raw._enqueue_read_buffer(w.queue, w.im2, w.host),
    write=lambda w: w.raw._enqueue_write_buffer(w.queue, w.im2, w.host),
    copy=lambda w: w.raw._enqueue_copy_buffer(w.queue, w.im2, w.buf),
    sub_region=lambda w: w.cl.Buffer.get_sub_region(w.im2, 0, 4),
    host_array=lambda w: w.im2.get_host_array((16,), np.uint8),
    migrate=lambda w: w.cl.enqueue_migrate_mem_objects(w.queue, [w.im2]).wait(),
)
calls(
    "copy",
    plain=lambda w: copy(w, w.im2, w.ro).wait(),
    other_format=lambda w: copy(w, w.im2, w.imf),
    overlapping=lambda w: copy(w, w.im2, w.im2, (2, 2, 0)),
    beside=lambda w: copy(w, w.im2, w.im2, (4, 4, 0)).wait(),
    outside=lambda w: copy(w, w.im2, w.ro, (14, 0, 0)),
    buffer=lambda w: copy(w, w.im2, w.buf),
    foreign=lambda w: copy(w, w.im2, w.other),
    slice=lambda w: copy(w, w.im3, w.im2, start=(0, 0, 1)).wait(),
    slices=lambda w: copy(w, w.im2, w.im3, (0, 0, 3), (4, 4, 2)),
    empty=lambda w: copy(w, w.im2, w.ro, region=(0, 4, 1)).wait(),
    to_buffer=lambda w: to_buffer(w, w.im2, w.buf).wait(),
    to_small=lambda w: to_buffer(w, w.im2, w.small, region=(4, 5, 1)),
    to_end=lambda w: to_buffer(w, w.im2, w.small, at=1),
    to_buffer_outside=lambda w: to_buffer(w, w.im2, w.buf, (0, 6, 0)),
    to_buffer_empty=lambda w: to_buffer(w, w.im2, w.buf, region=(4, 0, 1)).wait(),
    to_image=lambda w: to_buffer(w, w.buf, w.im2),
    from_buffer=lambda w: from_buffer(w, w.buf, w.ro).wait(),
    from_end=lambda w: from_buffer(w, w.small, w.ro, 4),
    from_buffer_outside=lambda w: from_buffer(w, w.buf, w.ro, 0, (14, 0, 0)),
    from_foreign=lambda w: from_buffer(w, w.buf, w.ro, queue=w.queue2),
)
calls(
    "fill",
    plain=lambda w: fill(w, w.ro).wait(),
    outside=lambda w: fill(w, w.ro, (13, 0, 0)),
    empty=lambda w: fill(w, w.ro, region=(4, 0, 1)).wait(),
    buffer=lambda w: fill(w, w.buf),
    no_color=lambda w: w.cl.enqueue_fill_image(w.queue, w.ro, None, (0, 0, 0), (4, 4, 1)),
)
calls(
    "map",
    plain=lambda w: mapped(w, w.im2, origin=(2, 1)),
    outside=lambda w: mapped(w, w.im2, origin=(13, 0)),
    host_writes=lambda w: mapped(w, w.hwo),
    host_reads=lambda w: mapped(w, w.hro, "WRITE"),
    buffer=lambda w: mapped(w, w.buf),
    volume=lambda w: mapped(w, w.im3, origin=(1, 1, 1), region=(4, 2, 2)),
    lines=lambda w: mapped(w, w.i1a, region=(4, 2)),
    line=lambda w: mapped(w, w.im1, region=(4, 1)),
    layers=lambda w: mapped(w, w.ia, origin=(1, 1, 1), region=(4, 2, 2)),
)
calls(
    "sampler",
    plain=lambda w: sampler(w, True, w.cl.addressing_mode.REPEAT, w.cl.filter_mode.LINEAR),
    unnormalized_repeat=lambda w: sampler(w, False, w.cl.addressing_mode.REPEAT, w.cl.filter_mode.NEAREST),
    defaults=lambda w: sampler(w, ()),
    property=lambda w: sampler(w, (w.cl.sampler_properties.NORMALIZED_COORDS, 0)),
    ended=lambda w: sampler(w, (w.cl.sampler_properties.NORMALIZED_COORDS, 1, 0)),
    half=lambda w: sampler(w, (w.cl.sampler_properties.NORMALIZED_COORDS,)),
    twice=lambda w: sampler(w, (w.cl.sampler_properties.NORMALIZED_COORDS, 1) * 2),
    unknown=lambda w: sampler(w, (77, 1)),
    filter_1=lambda w: sampler(w, (w.cl.sampler_properties.FILTER_MODE, 1)),
    bad_addressing=lambda w: sampler(w, False, 99, w.cl.filter_mode.NEAREST),
    bad_filter=lambda w: sampler(w, False, w.cl.addressing_mode.CLAMP, 99),
    ints=lambda w: sampler(w, 1, 2, 3),
    bad_info=lambda w: w.samp.get_info(77),
    mip_info=lambda w: w.samp.get_info(0x1155),
    context=lambda w: w.samp.context == w.ctx,
)
calls(
    "argument",
    infos=arg_infos,
    image=lambda w: w.k.set_arg(0, w.im2),
    buffer=lambda w: w.k.set_arg(0, w.buf),
    none=lambda w: w.k.set_arg(0, None),
    foreign=lambda w: w.k.set_arg(0, w.other),
    only_written=lambda w: w.k.set_arg(0, w.wo),
    only_read=lambda w: w.w.set_arg(0, w.ro),
    both_of_read=lambda w: w.x.set_arg(0, w.ro),
    both_of_written=lambda w: w.x.set_arg(0, w.wo),
    both=lambda w: w.x.set_arg(0, w.im2),
    volume=lambda w: w.k.set_arg(0, w.im3),
    plane=lambda w: w.v.set_arg(0, w.im2),
    integers=lambda w: w.k.set_arg(0, w.imr),
    sampler=lambda w: w.k.set_arg(0, w.samp),
    int32=lambda w: w.k.set_arg(0, np.int32(3)),
    int64=lambda w: w.k.set_arg(0, np.int64(0)),
    local=lambda w: w.k.set_arg(0, w.cl.LocalMemory(8)),
    image_as_pointer=lambda w: w.k.set_arg(2, w.im2),
    sampler_as_pointer=lambda w: w.k.set_arg(2, w.samp),
    image_as_sampler=lambda w: w.k.set_arg(1, w.im2),
    no_sampler=lambda w: w.k.set_arg(1, None),
    foreign_sampler=lambda w: w.k.set_arg(1, w.samp2),
    sampler_int32=lambda w: w.k.set_arg(1, np.int32(3)),
    sampler_int64=lambda w: w.k.set_arg(1, np.int64(3)),
    sampler_local=lambda w: w.k.set_arg(1, w.cl.LocalMemory(8)),
    unset=unset,
    released=released,
    called=lambda w: w.k(w.queue, (1,), None, w.im2, w.samp, w.buf).wait(),
    called_with_buffer=lambda w: w.k(w.queue, (1,), None, w.buf, w.samp, w.buf),
)
calls(
    "query",
    bad_info=lambda w: w.im2.get_image_info(77),
    shapes=lambda w: [w.im2.shape, w.im3.shape],
    facts=lambda w: [facts(w, which) for which in (w.im1, w.im2, w.im3, w.ia, w.i1a)],
    memory=lambda w: [
        [i.size, i.type, i.flags, i.offset, i.hostbuf, i.map_count] for i in (w.im1, w.im2, w.im3)
    ],
    wrapped=lambda w: [type(c.from_int_ptr(w.im2.int_ptr)).__name__ for c in (w.cl.MemoryObject, w.cl.Image)],
    released_twice=lambda w: (lambda i: (i.release(), i.release()))(image(w)),
    formats_read=lambda w: formats(w, w.mf.READ_ONLY, w.t.IMAGE2D),
    formats_written=lambda w: formats(w, w.mf.WRITE_ONLY, w.t.IMAGE2D),
    formats_both=lambda w: formats(w, w.mf.KERNEL_READ_AND_WRITE, w.t.IMAGE3D),
    formats_line=lambda w: formats(w, w.mf.READ_WRITE, w.t.IMAGE1D),
    formats_lines=lambda w: formats(w, w.mf.READ_ONLY, w.t.IMAGE1D_ARRAY),
    formats_buffer_line=lambda w: formats(w, w.mf.READ_ONLY, w.t.IMAGE1D_BUFFER),
    formats_layers=lambda w: formats(w, w.mf.READ_ONLY, w.t.IMAGE2D_ARRAY),
    formats_buffer=lambda w: formats(w, w.mf.READ_ONLY, w.t.BUFFER),
    formats_no_flags=lambda w: formats(w, 0, w.t.IMAGE2D),
    formats_bad_flags=lambda w: formats(w, 1 << 40, w.t.IMAGE2D),
    formats_two_flags=lambda w: formats(w, w.mf.READ_ONLY | w.mf.WRITE_ONLY, w.t.IMAGE2D),
)
