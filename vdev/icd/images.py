"""Images of C programs (specification 5.3)."""

from __future__ import annotations

import struct
from typing import Any

from vdev.facade import image_transfers
from vdev.facade.calls import MAP_IMAGE
from vdev.facade.context import Context
from vdev.facade.errors import fail, native, status
from vdev.facade.event import Event
from vdev.facade.image_formats import DEPTH
from vdev.facade.images import (
    Image,
    ImageDescriptor,
    ImageMemory,
    Layout,
    get_supported_image_formats,
    has_slices,
)
from vdev.facade.memory import COPY_HOST_PTR, USE_HOST_PTR, Memory
from vdev.facade.queue import CommandQueue
from vdev.icd import host
from vdev.icd.buffers import (
    Waits,
    check_map_flags,
    check_no_properties,
    content,
    done,
    map_memory,
    remember_properties,
)
from vdev.icd.views import unwrap, view

_kinds = native.mem_object_type
#: cl_image_desc: type, six sizes, two counts, a memory object
_DESCRIPTOR = struct.Struct("=I4x6QIIQ")
_HOST = USE_HOST_PTR | COPY_HOST_PTR

Triple = tuple[int, ...]


def clCreateImage(context: Context, flags: int, about: int, description: int, address: int) -> Memory:
    routine = "clCreateImage"
    if not about:
        fail(routine, status.INVALID_IMAGE_FORMAT_DESCRIPTOR)
    if not description:
        fail(routine, status.INVALID_IMAGE_DESCRIPTOR)
    kind, width, height, depth, layers, row, plane, levels, samples, source = _DESCRIPTOR.unpack(
        host.block(description, _DESCRIPTOR.size)
    )
    desc = _descriptor(kind, (width, height, depth), layers, (row, plane))
    desc.num_mip_levels, desc.num_samples = levels, samples
    if source:
        desc.buffer = view(
            host.items(host.MEM, description + 64, 1, status.INVALID_IMAGE_DESCRIPTOR, routine)[0]
        )
    return _create(context, flags, about, desc, address)


def _descriptor(kind: int, shape: Triple, layers: int, pitches: tuple[int, int]) -> ImageDescriptor:
    desc = ImageDescriptor()
    desc.image_type = kind
    desc.shape = shape
    desc.pitches = pitches
    desc.array_size = layers
    return desc


def _create(context: Context, flags: int, about: int, desc: ImageDescriptor, address: int) -> Memory:
    if (address != 0) != bool(flags & _HOST):
        fail("clCreateImage", status.INVALID_HOST_PTR)
    order, data_type = host.uint(about), host.uint(about + 4)
    memory = None
    if address:
        try:
            nbytes = Layout(context, order, data_type, desc).least_nbytes
        except (native.Error, KeyError):
            nbytes = 1  # the call below refuses it, and reports why
        memory = host.memory(address, nbytes)
    image = object.__new__(Image)
    Image._custom_init(image, context, flags, native.ImageFormat(order, data_type), desc, memory)
    return unwrap(image)


def clCreateImageWithProperties(context: Context, properties: int, *rest: int) -> Memory:
    check_no_properties("clCreateImageWithProperties", properties)
    return remember_properties(clCreateImage(context, *rest), properties)


def clCreateImage2D(
    context: Context, flags: int, about: int, width: int, height: int, row: int, address: int
) -> Memory:
    _check_old(about, width, height)
    desc = _descriptor(_kinds.IMAGE2D, (width, height, 1), 0, (row, 0))
    return _create(context, flags, about, desc, address)


def clCreateImage3D(context: Context, flags: int, about: int, *rest: int) -> Memory:
    width, height, depth, row, plane, address = rest
    _check_old(about, width, height, depth)
    desc = _descriptor(_kinds.IMAGE3D, (width, height, depth), 0, (row, plane))
    return _create(context, flags, about, desc, address)


def _check_old(about: int, *sizes: int) -> None:
    if not about:
        fail("clCreateImage", status.INVALID_IMAGE_FORMAT_DESCRIPTOR)
    if 0 in sizes:
        fail("clCreateImage", status.INVALID_IMAGE_SIZE)


def clCreatePipe(context: Context, flags: int, packet: int, packets: int, properties: int) -> Memory:
    fail("clCreatePipe", status.INVALID_OPERATION)


def clGetSupportedImageFormats(
    context: Context, flags: int, kind: int, room: int, formats: int, found: int
) -> None:
    if formats and not room:
        fail("clGetSupportedImageFormats", status.INVALID_VALUE)
    all_formats = get_supported_image_formats(context, flags or native.mem_flags.READ_WRITE, kind)
    pairs = [(item.channel_order, item.channel_data_type) for item in all_formats]
    if formats:
        host.put_bytes(formats, b"".join(struct.pack("=II", *pair) for pair in pairs[:room]))
    host.put_uint(found, len(pairs))


# transfers --------------------------------------------------------------------------------------


def _triples(routine: str, *addresses: int) -> tuple[Triple, ...]:
    if not all(addresses):
        fail(routine, status.INVALID_VALUE)
    return tuple(host.sizes(address, 3) for address in addresses)


def _image(routine: str, memory: Memory) -> ImageMemory:
    if not isinstance(memory, ImageMemory):
        fail(routine, status.INVALID_MEM_OBJECT)
    return memory


def _host_nbytes(memory: ImageMemory, region: Triple, row: int, plane: int) -> int:
    """Bytes of host memory that a box of pixels covers; its pitches are checked later."""
    nbytes = region[0] * memory.element_nbytes
    row = row or nbytes
    if memory.type == _kinds.IMAGE1D_ARRAY:
        row = plane = plane or row
    plane = plane if plane and has_slices(memory) else row * region[1]
    return 0 if 0 in region else (region[2] - 1) * plane + (region[1] - 1) * row + nbytes


def _move(
    function: Any, routine: str, queue: CommandQueue, mem: Memory, blocking: int, rest: tuple[Any, ...]
) -> Event:
    memory = _image(routine, mem)
    origin, region = _triples(routine, *rest[:2])
    row, plane, address, waits = rest[2:]
    if any(start + count > size for start, count, size in zip(origin, region, memory.extent, strict=True)):
        fail(routine, status.INVALID_VALUE)
    pixels = content(routine, address, _host_nbytes(memory, region, row, plane))
    event = function(queue, view(memory), origin, region, pixels, row, plane, waits, bool(blocking))
    return done(event, queue, blocking)


def clEnqueueReadImage(queue: CommandQueue, mem: Memory, blocking: int, *rest: Any) -> Event:
    function = image_transfers._enqueue_read_image
    return _move(function, "clEnqueueReadImage", queue, mem, blocking, rest)


def clEnqueueWriteImage(queue: CommandQueue, mem: Memory, blocking: int, *rest: Any) -> Event:
    function = image_transfers._enqueue_write_image
    return _move(function, "clEnqueueWriteImage", queue, mem, blocking, rest)


def clEnqueueCopyImage(
    queue: CommandQueue, source: Memory, target: Memory, start: int, other: int, box: int, waits: Waits
) -> Event:
    routine = "clEnqueueCopyImage"
    _image(routine, source), _image(routine, target)
    origin, place, region = _triples(routine, start, other, box)
    return image_transfers._enqueue_copy_image(
        queue, view(source), view(target), origin, place, region, waits
    )


def clEnqueueCopyImageToBuffer(
    queue: CommandQueue, image: Memory, buffer: Memory, start: int, box: int, offset: int, waits: Waits
) -> Event:
    origin, region = _triples("clEnqueueCopyImageToBuffer", start, box)
    return image_transfers._enqueue_copy_image_to_buffer(
        queue, view(image), view(buffer), origin, region, offset, waits
    )


def clEnqueueCopyBufferToImage(
    queue: CommandQueue, buffer: Memory, image: Memory, offset: int, start: int, box: int, waits: Waits
) -> Event:
    origin, region = _triples("clEnqueueCopyBufferToImage", start, box)
    return image_transfers._enqueue_copy_buffer_to_image(
        queue, view(buffer), view(image), offset, origin, region, waits
    )


def clEnqueueFillImage(
    queue: CommandQueue, mem: Memory, color: int, start: int, box: int, waits: Waits
) -> Event:
    routine = "clEnqueueFillImage"
    memory = _image(routine, mem)
    origin, region = _triples(routine, start, box)
    if not color:
        fail(routine, status.INVALID_VALUE)
    components = host.block(color, 4 if memory.order == DEPTH else 16)
    return image_transfers.enqueue_fill_image(queue, view(memory), components, origin, region, waits)


def clEnqueueMapImage(
    queue: CommandQueue, mem: Memory, blocking: int, flags: int, start: int, box: int, row: int, plane: int,
    waits: Waits,
) -> tuple[int, Event]:  # fmt: skip
    call = MAP_IMAGE
    memory = _image(call.routine, mem)
    origin, region = _triples(call.routine, start, box)
    if not row or (has_slices(memory) and not plane):
        call.fail(status.INVALID_VALUE)
    call.memories(queue, view(memory))
    after = call.after(queue, waits)
    if 0 in region or any(
        first + count > size for first, count, size in zip(origin, region, memory.extent, strict=True)
    ):
        call.fail(status.INVALID_VALUE)
    check_map_flags(call, memory, flags)
    command = image_transfers.mapping(memory, flags, origin, region)
    address, event = map_memory(call, queue, memory, command, after, blocking)
    host.put_size(row, memory.pitches[1])
    host.put_size(plane, memory.slice_pitch if has_slices(memory) else 0)
    return address, event
