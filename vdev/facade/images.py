"""Images, samplers and pipes, which the device does not have.

Decides only how they are refused: as on a device that reports no image support (INVALID_OPERATION). The
classes exist because PyOpenCL patches them and programs name them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from vdev.facade.context import Context
from vdev.facade.errors import as_int, check_type, fail, fail_type, native, status
from vdev.facade.event import parse_wait_list
from vdev.facade.handles import Handle
from vdev.facade.memory import MemoryObject, MemoryObjectHolder
from vdev.facade.queue import CommandQueue


class ImageDescriptor:
    """A cl_image_desc. Shape, pitches and buffer can only be written, as natively."""

    def __init__(self) -> None:
        self.image_type = 0
        self.array_size = 0
        self.num_mip_levels = 0
        self.num_samples = 0
        self._shape: tuple[int, ...] = ()
        self._pitches: tuple[int, ...] = ()
        self._buffer: MemoryObject | None = None

    @property
    def shape(self) -> None:
        return None

    @shape.setter
    def shape(self, arg: tuple[int, ...], /) -> None:
        sizes = tuple(as_int("shape", size) for size in arg)
        if len(sizes) > 3:
            fail("transfer", status.INVALID_VALUE, "shapehas too many components")
        self._shape = (*sizes, *(1,) * (3 - len(sizes)))
        self.array_size = self._shape[2]

    @property
    def pitches(self) -> None:
        return None

    @pitches.setter
    def pitches(self, arg: tuple[int, ...], /) -> None:
        sizes = () if arg is None else tuple(as_int("pitches", size) for size in arg)
        if len(sizes) > 2:
            fail("transfer", status.INVALID_VALUE, "pitcheshas too many components")
        self._pitches = (*sizes, *(0,) * (2 - len(sizes)))

    @property
    def buffer(self) -> None:
        return None

    @buffer.setter
    def buffer(self, buffer: MemoryObject | None) -> None:
        if buffer is not None:
            check_type("buffer", buffer, MemoryObject)
        self._buffer = buffer


class Image(MemoryObject):
    """An image. PyOpenCL puts an `__init__` of its own here, which ends in `_custom_init`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    @staticmethod
    def _custom_init(h: Image, context: Context, flags: int, format: Any, *args: Any, **kwargs: Any) -> None:
        """clCreateImage on a device without images."""
        check_type("_custom_init", h, Image)
        check_type("_custom_init", context, Context)
        as_int("_custom_init", flags)
        check_type("_custom_init", format, native.ImageFormat)
        fail("clCreateImage", status.INVALID_OPERATION)

    def get_image_info(self, arg: int, /) -> Any:
        fail("clGetImageInfo", status.INVALID_MEM_OBJECT)


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


class Sampler(Handle):
    """A sampler."""

    _retain = "clRetainSampler"
    _invalid = status.INVALID_SAMPLER

    def __init__(self, arg0: Context, arg1: Any, arg2: int | None = None, arg3: int | None = None, /) -> None:
        check_type("__init__", arg0, Context)
        if arg2 is not None and arg3 is not None:
            check_type("__init__", arg1, bool)
            as_int("__init__", arg2)
            as_int("__init__", arg3)
        elif arg2 is not None or not hasattr(arg1, "__getitem__"):
            fail_type("__init__", arg0, arg1, arg2)
        fail("Sampler", status.INVALID_OPERATION)

    def get_info(self, arg: int, /) -> Any:
        fail("clGetSamplerInfo", status.INVALID_SAMPLER)


def get_supported_image_formats(arg0: Context, arg1: int, arg2: int, /) -> list[Any]:
    """None (clGetSupportedImageFormats)."""
    check_type("get_supported_image_formats", arg0, Context)
    as_int("get_supported_image_formats", arg1)
    as_int("get_supported_image_formats", arg2)
    return []


def _refuse(function: str, routine: str, queue: CommandQueue, wait_for: Any, image: Any) -> NoReturn:
    """Nobody can have an image: what was passed is none."""
    check_type(function, queue, CommandQueue)
    check_type(function, image, MemoryObjectHolder)
    parse_wait_list(wait_for, queue._context, routine)
    fail(routine, status.INVALID_MEM_OBJECT)


def _enqueue_read_image(
    queue: CommandQueue,
    mem: Image,
    origin: Any,
    region: Any,
    hostbuf: Any,
    row_pitch: int = 0,
    slice_pitch: int = 0,
    wait_for: Any = None,
    is_blocking: bool = True,
) -> Any:
    check_type("_enqueue_read_image", mem, Image)
    _refuse("_enqueue_read_image", "clEnqueueReadImage", queue, wait_for, mem)


def _enqueue_write_image(
    queue: CommandQueue,
    mem: Image,
    origin: Any,
    region: Any,
    hostbuf: Any,
    row_pitch: int = 0,
    slice_pitch: int = 0,
    wait_for: Any = None,
    is_blocking: bool = True,
) -> Any:
    check_type("_enqueue_write_image", mem, Image)
    _refuse("_enqueue_write_image", "clEnqueueWriteImage", queue, wait_for, mem)


def _enqueue_copy_image(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    src_origin: Any,
    dest_origin: Any,
    region: Any,
    wait_for: Any = None,
) -> Any:
    _refuse("_enqueue_copy_image", "clEnqueueCopyImage", queue, wait_for, src)


def _enqueue_copy_image_to_buffer(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    origin: Any,
    region: Any,
    offset: int,
    wait_for: Any = None,
) -> Any:
    _refuse("_enqueue_copy_image_to_buffer", "clEnqueueCopyImageToBuffer", queue, wait_for, src)


def _enqueue_copy_buffer_to_image(
    queue: CommandQueue,
    src: MemoryObjectHolder,
    dest: MemoryObjectHolder,
    offset: int,
    origin: Any,
    region: Any,
    wait_for: Any = None,
) -> Any:
    _refuse("_enqueue_copy_buffer_to_image", "clEnqueueCopyBufferToImage", queue, wait_for, dest)


def enqueue_fill_image(
    queue: CommandQueue,
    mem: MemoryObjectHolder,
    color: Any,
    origin: Any,
    region: Any,
    wait_for: Any = None,
) -> Any:
    _refuse("enqueue_fill_image", "clEnqueueFillImage", queue, wait_for, mem)


def enqueue_map_image(
    queue: CommandQueue,
    img: MemoryObjectHolder,
    flags: int,
    origin: Any,
    region: Any,
    shape: Any,
    dtype: Any,
    order: str = "C",
    strides: Any = None,
    wait_for: Any = None,
    is_blocking: bool = True,
) -> Any:
    _refuse("enqueue_map_image", "clEnqueueMapImage", queue, wait_for, img)
