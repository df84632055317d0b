"""Images, samplers and pipes (specification 5.3, 5.7, 5.4.1).

An image's content lies in a buffer of the session, row by row; kernels get it as plain memory with a descriptor
(`vdev.translators.dialects.image_lowering`). Decides whether an image can be created and how its pixels lie in the
buffer. The device has no pipes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from vdev.facade.context import Context
from vdev.facade.errors import as_int, cast_int, check_type, fail, fail_type, native, status
from vdev.facade.handles import Handle, state_of
from vdev.facade.hostbuf import Bytes, as_bytes
from vdev.facade.image_formats import MAX_ROW_NBYTES, channel_count, formats, is_format, pixel_nbytes
from vdev.facade.memory import (
    ALLOC_HOST_PTR,
    COPY_HOST_PTR,
    READ_ONLY,
    READ_WRITE,
    USE_HOST_PTR,
    WRITE_ONLY,
    Memory,
    MemoryObject,
    check_flags,
    live_memory,
    wrap_memory,
)
from vdev.facade.svm_host import bring_home
from vdev.facade.svm_memory import shared_place
from vdev.translators.dialects.image_arguments import pack_descriptor, pack_sampler
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vdev.session.session import VirtualBuffer

_kinds = native.mem_object_type
#: by type of image: how many numbers name a pixel, layers included
AXES = {
    _kinds.IMAGE1D: 1,
    _kinds.IMAGE1D_BUFFER: 1,
    _kinds.IMAGE1D_ARRAY: 2,
    _kinds.IMAGE2D: 2,
    _kinds.IMAGE2D_ARRAY: 3,
    _kinds.IMAGE3D: 3,
}
_ARRAYS = (_kinds.IMAGE1D_ARRAY, _kinds.IMAGE2D_ARRAY)
_FROM_BUFFER = (_kinds.IMAGE1D_BUFFER, _kinds.IMAGE2D)


class Written:
    """The fields of a descriptor that can be written but not read."""

    __slots__ = ("buffer", "pitches", "shape")

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = (0, 0, 0)
        self.pitches: tuple[int, ...] = (0, 0)
        self.buffer: MemoryObject | None = None


class ImageDescriptor:
    """A cl_image_desc. Shape, pitches and buffer can only be written, as natively."""

    def __init__(self) -> None:
        self.image_type = 0
        self.array_size = 0
        self.num_mip_levels = 0
        self.num_samples = 0
        self._vdev_state = Written()

    @property
    def shape(self) -> None:
        return None

    @shape.setter
    def shape(self, arg: tuple[int, ...], /) -> None:
        sizes = tuple(cast_int(size) for size in arg)
        if len(sizes) > 3:
            fail("transfer", status.INVALID_VALUE, "shapehas too many components")
        self._vdev_state.shape = (*sizes, *(1,) * (3 - len(sizes)))
        self.array_size = self._vdev_state.shape[2]

    @property
    def pitches(self) -> None:
        return None

    @pitches.setter
    def pitches(self, arg: tuple[int, ...], /) -> None:
        sizes = () if arg is None else tuple(cast_int(size) for size in arg)
        if len(sizes) > 2:
            fail("transfer", status.INVALID_VALUE, "pitcheshas too many components")
        self._vdev_state.pitches = (*sizes, *(0,) * (2 - len(sizes)))

    @property
    def buffer(self) -> None:
        return None

    @buffer.setter
    def buffer(self, buffer: MemoryObject | None) -> None:
        if buffer is not None:
            check_type("buffer", buffer, MemoryObject)
        self._vdev_state.buffer = buffer


class ImageMemory(Memory):
    """An image's memory object. `shape` is width, height and depth in pixels, 1 for each that the image lacks; layers
    count as depth. Pitches are in bytes.
    """

    __slots__ = (
        "data_type", "element_nbytes", "geometry", "order", "pack", "row_pitch", "shape", "slice_pitch", "type",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        flags: int,
        memory: tuple[VirtualBuffer, int, int],
        layout: Layout,
        parent: Memory | None = None,
        hostbuf: Any = None,
    ) -> None:
        """`memory`: the session's buffer, the offset of the first pixel, and the number of bytes."""
        self.type = layout.type
        self.order, self.data_type = layout.order, layout.data_type
        self.element_nbytes = layout.element_nbytes
        self.shape = layout.shape
        self.row_pitch, self.slice_pitch = layout.row_pitch, layout.slice_pitch
        super().__init__(context, flags, *memory, parent=parent, hostbuf=hostbuf)
        #: all that tells where its pixels are in the buffer
        self.geometry = (
            self.type, self.shape, self.element_nbytes, self.row_pitch, self.slice_pitch, self.offset,
        )  # fmt: skip

    @property
    def extent(self) -> tuple[int, int, int]:
        """The number of pixels along each axis of an origin and a region; layers come after the last dimension."""
        width, height, depth = self.shape
        return (width, depth, 1) if self.type == _kinds.IMAGE1D_ARRAY else (width, height, depth)

    @property
    def pitches(self) -> tuple[int, int]:
        """Bytes from one (slice, row) to the next, along those axes."""
        if self.type == _kinds.IMAGE1D_ARRAY:
            return self.slice_pitch, self.slice_pitch
        return self.slice_pitch, self.row_pitch

    def descriptor(self) -> bytes:
        """What kernels get besides the memory."""
        count = channel_count(self.order)
        return pack_descriptor(
            self.shape,
            self.row_pitch,
            self.slice_pitch,
            self.order,
            self.data_type,
            count,
            self.element_nbytes,
        )


class Layout:
    """How an image lies in memory, from its descriptor; checks what clCreateImage checks (5.3.1)."""

    def __init__(self, context: Context, order: int, data_type: int, desc: ImageDescriptor) -> None:
        self.type = desc.image_type
        if self.type not in AXES:
            _refuse(status.INVALID_IMAGE_DESCRIPTOR)
        self.order, self.data_type = order, data_type
        width, height, depth = state_of(desc).shape
        layers = desc.array_size if self.type in _ARRAYS else 1
        dims = AXES[self.type] - (self.type in _ARRAYS)
        self.shape = (width, height if dims > 1 else 1, depth if dims > 2 else layers)
        if 0 in self.shape or desc.num_mip_levels or desc.num_samples:
            _refuse(status.INVALID_IMAGE_DESCRIPTOR)
        self._check_size(state_of(context).limits)
        self.element_nbytes = pixel_nbytes(order, data_type)
        self._place(desc)

    def _check_size(self, values: Mapping[str, Any]) -> None:
        width, height, depth = self.shape
        if self.type == _kinds.IMAGE1D_BUFFER:
            limits = (values["IMAGE_MAX_BUFFER_SIZE"], 1, 1)
        elif self.type == _kinds.IMAGE3D:
            limits = tuple(values[f"IMAGE3D_MAX_{axis}"] for axis in ("WIDTH", "HEIGHT", "DEPTH"))
        else:
            limits = (
                values["IMAGE2D_MAX_WIDTH"], values["IMAGE2D_MAX_HEIGHT"], values["IMAGE_MAX_ARRAY_SIZE"],
            )  # fmt: skip
        if width > limits[0] or height > limits[1] or depth > limits[2]:
            _refuse(status.INVALID_IMAGE_SIZE)

    def _place(self, desc: ImageDescriptor) -> None:
        """Pitches and the size in bytes."""
        width, height, depth = self.shape
        element = self.element_nbytes
        row, plane = state_of(desc).pitches
        if row and (row < width * element or row % element):
            _refuse(status.INVALID_IMAGE_DESCRIPTOR)
        self.row_pitch = row or width * element
        least = self.row_pitch * height
        self.slice_pitch = least
        if plane and (self.type == _kinds.IMAGE3D or self.type in _ARRAYS):
            if plane < least or plane % self.row_pitch:
                _refuse(status.INVALID_IMAGE_DESCRIPTOR)
            self.slice_pitch = plane
        #: up to the end of the last slice, and of the last pixel
        self.nbytes = self.slice_pitch * depth
        self.least_nbytes = (depth - 1) * self.slice_pitch + (height - 1) * self.row_pitch + width * element
        if self.row_pitch > MAX_ROW_NBYTES:
            _refuse(status.INVALID_IMAGE_SIZE)


def _refuse(code: int) -> NoReturn:
    fail("clCreateImage", code)


class Image(MemoryObject):
    """An image. PyOpenCL replaces `__init__` with its own, which ends in `_custom_init`."""

    _vdev_state: ImageMemory
    _valid: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    @staticmethod
    def _custom_init(h: Image, context: Context, flags: int, format: Any, *args: Any, **kwargs: Any) -> None:
        """clCreateImage: (descriptor, hostbuf). The native overload for devices older than OpenCL 1.2 is not needed."""
        check_type("_custom_init", h, Image)
        check_type("_custom_init", context, Context)
        bits = as_int("_custom_init", flags)
        check_type("_custom_init", format, native.ImageFormat)
        desc, hostbuf = _described(*args, **kwargs)
        if h._valid:
            raise TypeError("Image is already initialized!")
        h._vdev_own(_create(context, bits, format, desc, hostbuf))

    @property
    def image(self) -> Image:
        """The group of attributes that images had in older versions of PyOpenCL, whose tests still use it."""
        return self

    def get_image_info(self, arg: int, /) -> Any:
        query = _QUERIES.get(as_int("get_image_info", arg))
        if query is None:
            fail("Image.get_image_info", status.INVALID_VALUE)
        return query(live_memory(self, "clGetImageInfo"))


def _described(desc: ImageDescriptor, hostbuf: Any = None) -> tuple[ImageDescriptor, Any]:
    check_type("_custom_init", desc, ImageDescriptor)
    return desc, hostbuf


def _create(context: Context, flags: int, format: Any, desc: ImageDescriptor, hostbuf: Any) -> ImageMemory:
    host: Bytes | None = None
    if hostbuf is not None:
        host = as_bytes(hostbuf, writable=bool(flags & USE_HOST_PTR and flags & (READ_WRITE | WRITE_ONLY)))
    check_flags("clCreateImage", flags)
    if flags & native.mem_flags.KERNEL_READ_AND_WRITE:  # it only asks about formats
        _refuse(status.INVALID_VALUE)
    order, data_type = format.channel_order, format.channel_data_type
    if not is_format(order, data_type):
        _refuse(status.INVALID_IMAGE_FORMAT_DESCRIPTOR)
    only_read = flags & (READ_ONLY | WRITE_ONLY | READ_WRITE) == READ_ONLY
    if desc.image_type not in AXES:
        _refuse(status.INVALID_IMAGE_DESCRIPTOR)
    if (order, data_type) not in formats(desc.image_type, only_read=only_read):
        _refuse(status.IMAGE_FORMAT_NOT_SUPPORTED)
    layout = Layout(context, order, data_type, desc)
    source = state_of(desc).buffer
    if source is not None:
        return _from_buffer(context, flags, layout, source)
    if layout.type == _kinds.IMAGE1D_BUFFER:
        _refuse(status.INVALID_IMAGE_DESCRIPTOR)
    takes = bool(flags & (USE_HOST_PTR | COPY_HOST_PTR))
    if takes and host is None:
        _refuse(status.INVALID_HOST_PTR)
    if any(state_of(desc).pitches) and not takes:
        _refuse(status.INVALID_IMAGE_DESCRIPTOR)
    return _own(context, flags, layout, host if takes else None, hostbuf)


def _own(context: Context, flags: int, layout: Layout, host: Bytes | None, hostbuf: Any) -> ImageMemory:
    """An image with its own memory, or the program's."""
    if layout.nbytes > state_of(context).limits["MAX_MEM_ALLOC_SIZE"]:
        _refuse(status.INVALID_IMAGE_SIZE)
    flags = flags or READ_WRITE
    session = state_of(context).session
    if host is None:
        buffer = session.create_buffer(layout.nbytes)
        return ImageMemory(context, flags, (buffer, 0, layout.nbytes), layout)
    if host.size < layout.least_nbytes:
        fail("Image", status.INVALID_VALUE, "buffer too small")
    host = host[: layout.nbytes]  # nothing needs to follow the last row's last pixel
    if flags & COPY_HOST_PTR:
        bring_home(session, host)
        buffer = session.create_filled(host.size, host)
        return ImageMemory(context, flags, (buffer, 0, host.size), layout)
    place = shared_place(host) or (session.create_over(host), 0)
    return ImageMemory(context, flags, (*place, host.size), layout, hostbuf=hostbuf)


def _from_buffer(context: Context, flags: int, layout: Layout, source: MemoryObject) -> ImageMemory:
    """An image that shares a buffer's memory (IMAGE1D_BUFFER, cl_khr_image2d_from_buffer)."""
    parent = live_memory(source, "clCreateImage")
    if isinstance(parent, ImageMemory):
        _refuse(status.INVALID_IMAGE_FORMAT_DESCRIPTOR)
    if layout.type not in _FROM_BUFFER or layout.least_nbytes > parent.nbytes:
        _refuse(status.INVALID_IMAGE_DESCRIPTOR)
    if (
        layout.type == _kinds.IMAGE2D
        and layout.row_pitch % 64
        and layout.row_pitch // layout.element_nbytes % 32
    ):
        _refuse(status.INVALID_IMAGE_DESCRIPTOR)  # CL_DEVICE_IMAGE_PITCH_ALIGNMENT of CPUs and of GPUs
    if flags & (USE_HOST_PTR | ALLOC_HOST_PTR | COPY_HOST_PTR):
        _refuse(status.INVALID_VALUE)
    every = READ_ONLY | WRITE_ONLY | READ_WRITE
    access, parents = flags & every, parent.flags & every
    if parents in (READ_ONLY, WRITE_ONLY) and access not in (0, parents):
        _refuse(status.INVALID_VALUE)
    if not access:
        flags |= parents
    nbytes = min(layout.nbytes, parent.nbytes)
    return ImageMemory(context, flags, (parent.buffer, parent.offset, nbytes), layout, parent)


def _format_of(memory: ImageMemory) -> Any:
    return native.ImageFormat(memory.order, memory.data_type)


def _buffer_of(memory: ImageMemory) -> Any:
    if memory.parent is None:
        return None
    memory.parent.retain()
    return wrap_memory(memory.parent)


def _height(memory: ImageMemory) -> int:
    return memory.shape[1] if AXES[memory.type] > 1 and memory.type != _kinds.IMAGE1D_ARRAY else 0


ImageMemory.wrapper = Image

_info = native.image_info
_QUERIES: dict[int, Any] = {
    _info.FORMAT: _format_of,
    _info.ELEMENT_SIZE: lambda memory: memory.element_nbytes,
    _info.ROW_PITCH: lambda memory: memory.row_pitch,
    _info.SLICE_PITCH: lambda memory: memory.slice_pitch if has_slices(memory) else 0,
    _info.WIDTH: lambda memory: memory.shape[0],
    _info.HEIGHT: _height,
    _info.DEPTH: lambda memory: memory.shape[2] if memory.type == _kinds.IMAGE3D else 0,
    _info.ARRAY_SIZE: lambda memory: memory.shape[2] if memory.type in _ARRAYS else 0,
    _info.BUFFER: _buffer_of,
    _info.NUM_MIP_LEVELS: lambda memory: 0,
    _info.NUM_SAMPLES: lambda memory: 0,
}


def has_slices(memory: ImageMemory) -> bool:
    """Whether the image has slices, so that a slice pitch means something."""
    return memory.type == _kinds.IMAGE3D or memory.type in _ARRAYS


class Pipe(MemoryObject):
    """A pipe."""

    def __init__(
        self, context: Context, flags: int, packet_size: int, max_packets: int, properties: Any = ()
    ) -> None:
        check_type("__init__", context, Context)
        for number in (flags, packet_size, max_packets):
            as_int("__init__", number)
        if len(properties) != 0:
            fail("Pipe", status.INVALID_VALUE, "non-empty properties argument to Pipe not allowed")
        fail("Pipe", status.INVALID_OPERATION)

    def get_pipe_info(self, arg: int, /) -> Any:
        fail("clGetPipeInfo", status.INVALID_MEM_OBJECT)


_properties = native.sampler_properties
_addressing, _filtering = native.addressing_mode, native.filter_mode
_MODES = (
    _addressing.NONE, _addressing.CLAMP_TO_EDGE, _addressing.CLAMP, _addressing.REPEAT,
    _addressing.MIRRORED_REPEAT,
)  # fmt: skip
#: properties of a sampler: the values allowed, and the default (clCreateSamplerWithProperties)
_SAMPLER: dict[int, tuple[tuple[int, ...], int]] = {
    _properties.NORMALIZED_COORDS: ((0, 1), 1),
    _properties.ADDRESSING_MODE: (_MODES, _addressing.CLAMP),
    _properties.FILTER_MODE: ((_filtering.NEAREST, _filtering.LINEAR), _filtering.NEAREST),
}


@dataclass(frozen=True, slots=True)
class SamplerState:
    """A sampler's context, its properties as the program gave them, those in effect, and what a kernel gets."""

    context: Context
    given: Sequence[int]
    values: Mapping[int, int]
    argument: bytes


class Sampler(Handle):
    """A sampler."""

    _retain = "clRetainSampler"
    _invalid = status.INVALID_SAMPLER

    def __init__(self, arg0: Context, arg1: Any, arg2: int | None = None, arg3: int | None = None, /) -> None:
        check_type("__init__", arg0, Context)
        if arg2 is not None and arg3 is not None:
            check_type("__init__", arg1, bool)
            modes = (int(arg1), as_int("__init__", arg2), as_int("__init__", arg3))
            given = [number for pair in zip(_SAMPLER, modes, strict=True) for number in pair]
        elif arg2 is not None or not hasattr(arg1, "__getitem__"):
            fail_type("__init__", arg0, arg1, arg2)
        else:
            given = [cast_int(number, -(2**63), 2**63 - 1) for number in arg1]
        self._handle = 0
        self._vdev_state = _sampler_state(arg0, given)

    def get_info(self, arg: int, /) -> Any:
        arg = as_int("get_info", arg)
        info = native.sampler_info
        if arg == info.REFERENCE_COUNT:
            return 1
        if arg == info.CONTEXT:
            return self._vdev_state.context
        if arg == info.PROPERTIES:
            return list(self._vdev_state.given)
        if arg in self._vdev_state.values:  # the numbers are those of the properties
            return self._vdev_state.values[arg]
        extension = (
            getattr(info, name, None) for name in ("MIP_FILTER_MODE_KHR", "LOD_MIN_KHR", "LOD_MAX_KHR")
        )
        fail("clGetSamplerInfo" if arg in extension else "Sampler.get_info", status.INVALID_VALUE)


def _sampler_state(context: Context, properties: list[int]) -> SamplerState:
    """From a list of properties and their values in turn, which may end with a zero."""
    given: dict[int, int] = {}
    numbers = iter(properties)
    for name in numbers:
        if name == 0:
            break
        value = next(numbers, -1)
        if name not in _SAMPLER or name in given or value not in _SAMPLER[name][0]:
            fail("Sampler", status.INVALID_VALUE)
        given[name] = value
    values = {name: given.get(name, default) for name, (_, default) in _SAMPLER.items()}
    argument = pack_sampler(
        normalized=bool(values[_properties.NORMALIZED_COORDS]),
        addressing=values[_properties.ADDRESSING_MODE],
        linear=values[_properties.FILTER_MODE] == _filtering.LINEAR,
    )
    return SamplerState(
        context, [*(number for pair in given.items() for number in pair), 0], values, argument
    )


def get_supported_image_formats(arg0: Context, arg1: int, arg2: int, /) -> list[Any]:
    """clGetSupportedImageFormats: (context, flags, type of memory object)."""
    function, routine = "get_supported_image_formats", "clGetSupportedImageFormats"
    check_type(function, arg0, Context)
    flags, kind = as_int(function, arg1), as_int(function, arg2)
    if kind in (_kinds.BUFFER, _kinds.PIPE) or flags == 0:
        fail(routine, status.INVALID_VALUE)
    check_flags(routine, flags)
    return [native.ImageFormat(*pair) for pair in formats(kind, only_read=bool(flags & READ_ONLY))]
