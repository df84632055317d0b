"""The engine's own images over pixels in a worker's memory, for kernels that sample them.

Decides for which launches there is one: if the engine creates images from buffers (cl_khr_image2d_from_buffer) with
these sizes, this pitch and this format at this address, and the memory holds the whole image. Otherwise the kernel
gets an image of one pixel and is told not to use it. Nothing is copied: the image shows what is in the memory.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import Any

from vdev.backends.base import Allocation, KernelArgument, LaunchShape
from vdev.translators.dialects.image_arguments import unpack_descriptor

logger = logging.getLogger("vdev.opencl.images")

_YES, _NO = struct.pack("<I", 1), struct.pack("<I", 0)


class NativeImages:
    """The images of one kernel on one worker."""

    def __init__(self, cl: Any, context: Any, pairs: tuple[tuple[int, int], ...]) -> None:
        """`pairs`: as in `BackendProgram.native_images`."""
        self._cl = cl
        self._context = context
        self._pairs = pairs
        self.count = 2 * len(pairs)  #: of native arguments
        self._none: Any = None
        #: by position: what the image was made from, and the image
        self._made: list[tuple[tuple[object, ...], Any] | None] = [None] * len(pairs)

    def set(self, native: Any, args: Sequence[KernelArgument], shape: LaunchShape) -> None:
        """Set the arguments behind `args`. Raises the native module's errors."""
        for position, (pixels, descriptor) in enumerate(self._pairs):
            image = self._image(position, args[pixels], args[descriptor], _start(shape, pixels))
            at = len(args) + 2 * position
            native.set_arg(at, self._nothing() if image is None else image)
            native._set_arg_buf(at + 1, _NO if image is None else _YES)

    def _image(self, position: int, pixels: KernelArgument, descriptor: KernelArgument, start: int) -> Any:
        """The image, or None; made once for the same memory."""
        memory: object = pixels
        if type(pixels) is tuple:
            memory, ahead = pixels
            start += ahead
        if not isinstance(memory, Allocation) or not isinstance(descriptor, bytes):
            return None
        made = self._made[position]
        if made is not None and made[0][0] is memory.native and made[0][1:] == (start, descriptor):
            return made[1]
        image = self._make(memory, descriptor, start)
        self._made[position] = (memory.native, start, descriptor), image
        return image

    def _make(self, memory: Allocation, descriptor: bytes, start: int) -> Any:
        cl = self._cl
        width, height, row_pitch, order, data_type, element_nbytes = unpack_descriptor(descriptor)
        nbytes = row_pitch * (height - 1) + width * element_nbytes
        if start < 0 or start + nbytes > memory.nbytes:
            return None
        whole, ahead = (memory, 0) if memory.whole is None else (memory.whole, memory.ahead)
        buffer: Any = whole.native
        try:
            if ahead + start or whole.nbytes != nbytes:
                buffer = buffer.get_sub_region(
                    ahead + start, min(row_pitch * height, memory.nbytes - start), 0
                )
            made = cl.ImageDescriptor()
            made.image_type, made.buffer = cl.mem_object_type.IMAGE2D, buffer
            made.shape, made.pitches = (width, height), (row_pitch, 0)
            return self._new(cl.ImageFormat(order, data_type), made)
        except cl.Error as error:
            logger.debug("the engine cannot create an image of %d x %d pixels: %s", width, height, error)
            return None

    def _nothing(self) -> Any:
        """An image that will not be used."""
        if self._none is None:
            cl = self._cl
            made = cl.ImageDescriptor()
            made.image_type, made.shape, made.pitches = cl.mem_object_type.IMAGE2D, (1, 1), (0, 0)
            form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
            self._none = self._new(form, made)
        return self._none

    def _new(self, form: Any, descriptor: Any) -> Any:
        """Without PyOpenCL's own constructor, which is in the way if the process has imported that module."""
        image = self._cl.Image.__new__(self._cl.Image)
        self._cl.Image._custom_init(
            image, self._context, self._cl.mem_flags.READ_ONLY, form, descriptor, None
        )
        return image


def _start(shape: LaunchShape, index: int) -> int:
    """The byte of an argument's memory at which the program's pointer points."""
    return -next((shift for argument, shift in shape.bases if argument == index), 0)
