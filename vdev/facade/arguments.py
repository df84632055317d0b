"""Kernel arguments: from what a program passes to what a launch captures.

One converter per argument of a kernel, chosen by the argument's kind when the kernel is made. Checks and
codes are those of clSetKernelArg (specification 5.9.2).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.facade.context import Context
from vdev.facade.errors import fail, native, status
from vdev.facade.handles import state_of
from vdev.facade.hostbuf import value_bytes
from vdev.facade.images import ImageMemory, Sampler
from vdev.facade.memory import BUFFER_TYPE, READ_ONLY, WRITE_ONLY, Memory, MemoryObjectHolder
from vdev.facade.queue import CommandQueue
from vdev.facade.svm import SVMPointer, kernel_argument
from vdev.facade.svm_memory import SVMArgument
from vdev.session.commands import LocalArg

if TYPE_CHECKING:
    from vdev.translators.frontend.source import ArgInfo

#: what a kernel keeps until it is launched; a launch captures the `argument` of a memory object
Kept = Memory | SVMArgument | bytes | LocalArg | None
Converter = Callable[[Any], Kept]

_ROUTINE = "clSetKernelArg"
_SVM_ROUTINE = "clSetKernelArgSVMPointer"
_POINTER_NBYTES = 8
_LocalMemory = native.LocalMemory
#: objects that are given by the address of a driver's object natively
_Object = MemoryObjectHolder | CommandQueue | Sampler


def converter_of(info: ArgInfo, context: Context) -> Converter:
    """The function that converts values for that argument."""
    if info.kind in ("global", "constant"):
        return _pointer_converter(context)
    if info.kind == "local":
        return _convert_local
    if info.kind == "unknown":
        return _unknown_converter(context)
    if info.kind == "value":
        return _value_converter(info.nbytes)
    if info.kind == "image":
        return _image_converter(info, context)
    if info.kind == "sampler":
        return _sampler_converter(context)
    return _refuse_opaque


def refuser(reason: str) -> Converter:
    """The converter for images and samplers of a kernel that could not be translated: it refuses everything, and says
    why.
    """

    def convert(value: Any) -> Kept:
        fail(_ROUTINE, status.INVALID_OPERATION, f"images need a program that can be translated: {reason}")

    return convert


def _data_of(value: Any) -> bytes:
    """The bytes of any object with a buffer that is not one of PyOpenCL's own."""
    if isinstance(value, SVMPointer):
        fail(_SVM_ROUTINE, status.INVALID_ARG_VALUE)
    try:
        return value_bytes(value)
    except (TypeError, ValueError, BufferError):
        fail("Kernel.set_arg", status.INVALID_VALUE, "invalid kernel argument")


def _pointer_converter(context: Context) -> Converter:
    def convert(value: Any) -> Kept:
        if isinstance(value, MemoryObjectHolder):
            memory: Memory | None = state_of(value)
            if memory is None or memory.references <= 0 or memory.context is not context:
                fail(_ROUTINE, status.INVALID_MEM_OBJECT)
            if memory.type != BUFFER_TYPE:
                fail(_ROUTINE, status.INVALID_MEM_OBJECT)
            return memory
        if value is None:
            return None
        if isinstance(value, SVMPointer):
            return kernel_argument(value)
        _check_null(value)
        return None

    return convert


def _check_null(value: Any) -> None:
    """Check that what is not a memory object stands for a null pointer, as its bytes would natively."""
    if isinstance(value, CommandQueue | Sampler):
        fail(_ROUTINE, status.INVALID_MEM_OBJECT)
    is_local = isinstance(value, _LocalMemory)
    data = b"" if is_local else _data_of(value)
    if (value.size if is_local else len(data)) != _POINTER_NBYTES:
        fail(_ROUTINE, status.INVALID_ARG_SIZE)
    if any(data):
        # natively a cl_mem; a number is none
        fail(_ROUTINE, status.INVALID_MEM_OBJECT)


_kinds = native.mem_object_type
_IMAGE_TYPES: dict[str, int] = {
    "image1d_t": _kinds.IMAGE1D,
    "image1d_buffer_t": _kinds.IMAGE1D_BUFFER,
    "image1d_array_t": _kinds.IMAGE1D_ARRAY,
    "image2d_t": _kinds.IMAGE2D,
    "image2d_array_t": _kinds.IMAGE2D_ARRAY,
    "image2d_depth_t": _kinds.IMAGE2D,
    "image2d_array_depth_t": _kinds.IMAGE2D_ARRAY,
    "image3d_t": _kinds.IMAGE3D,
}


def _image_converter(info: ArgInfo, context: Context) -> Converter:
    # None: a name that the program has defined itself, which allows any
    kind = _IMAGE_TYPES.get(info.type_name)
    # drivers let a kernel read and write any image
    refused = {"read_only": WRITE_ONLY, "write_only": READ_ONLY}.get(info.access_qualifier)

    def convert(value: Any) -> Kept:
        memory = state_of(value) if isinstance(value, MemoryObjectHolder) else None
        if not isinstance(memory, ImageMemory) or memory.references <= 0 or memory.context is not context:
            _check_handle(value)
            fail(_ROUTINE, status.INVALID_MEM_OBJECT)
        if kind is not None and memory.type != kind:
            fail(_ROUTINE, status.INVALID_MEM_OBJECT)
        if refused is not None and memory.flags & refused:
            fail(_ROUTINE, status.INVALID_ARG_VALUE)
        return memory

    return convert


def _sampler_converter(context: Context) -> Converter:
    def convert(value: Any) -> Kept:
        if not isinstance(value, Sampler):
            _check_handle(value)
            fail(_ROUTINE, status.INVALID_SAMPLER)
        sampler = state_of(value)
        if sampler.context is not context:
            fail(_ROUTINE, status.INVALID_SAMPLER)
        return sampler.argument

    return convert


def _check_handle(value: Any) -> None:
    """INVALID_ARG_SIZE if `value` is neither an object of OpenCL's nor as large as the handle of one."""
    if value is None or isinstance(value, _Object):
        return
    nbytes = value.size if isinstance(value, _LocalMemory) else len(_data_of(value))
    if nbytes != _POINTER_NBYTES:
        fail(_ROUTINE, status.INVALID_ARG_SIZE)


def _unknown_converter(context: Context) -> Converter:
    """For kernels without a record of their arguments: the value that the program sets tells what the argument is."""
    pointer = _pointer_converter(context)

    def convert(value: Any) -> Kept:
        if isinstance(value, _LocalMemory):
            return LocalArg(value.size)
        if value is None or isinstance(value, MemoryObjectHolder | SVMPointer | CommandQueue | Sampler):
            return pointer(value)
        return _data_of(value)

    return convert


def _value_converter(nbytes: int) -> Converter:
    def convert(value: Any) -> Kept:
        if isinstance(value, np.generic):
            data: bytes = value.tobytes()
        elif type(value) is bytes:
            data = value
        elif isinstance(value, _Object) or value is None:
            # natively the object's pointer, or a null one
            if nbytes != _POINTER_NBYTES:
                fail(_ROUTINE, status.INVALID_ARG_SIZE)
            return (0 if value is None else value.int_ptr).to_bytes(_POINTER_NBYTES, "little")
        elif isinstance(value, SVMPointer):  # its address, which passes for a number of that size
            if nbytes != _POINTER_NBYTES:
                fail(_SVM_ROUTINE, status.INVALID_ARG_SIZE)
            return value.svm_ptr.to_bytes(_POINTER_NBYTES, "little")
        elif isinstance(value, _LocalMemory):
            fail(_ROUTINE, status.INVALID_ARG_VALUE)
        else:
            data = _data_of(value)
        if nbytes and len(data) != nbytes:  # 0: only the worker's compiler knows
            fail(_ROUTINE, status.INVALID_ARG_SIZE)
        return data

    return convert


def _convert_local(value: Any) -> Kept:
    if isinstance(value, _LocalMemory):
        return LocalArg(value.size)
    if value is not None and not isinstance(value, _Object):
        _data_of(value)
    fail(_ROUTINE, status.INVALID_ARG_VALUE)


def _refuse_opaque(value: Any) -> Kept:
    """Pipes, queues and the like, which the device does not have."""
    if value is not None and not isinstance(value, _Object | _LocalMemory):
        _data_of(value)
    fail(_ROUTINE, status.INVALID_ARG_VALUE)


def _pack_byte(value: Any) -> bytes:
    return bytes(((value.__index__() & 0xFF),))


def _pack_float(value: Any) -> bytes:
    try:
        return _FLOAT(value)
    except OverflowError:  # C's conversion from double gives an infinity
        infinite: bytes = np.float32(value).tobytes()
        return infinite


_FLOAT = struct.Struct("=f").pack
#: by struct character: the function that turns a number into the bytes of its C type (`packer_of`)
PACKERS: dict[bytes, Callable[[Any], bytes]] = {
    b"c": _pack_byte,
    b"b": _pack_byte,
    b"B": _pack_byte,
    b"f": _pack_float,
    b"d": struct.Struct("=d").pack,
    **{kind.encode(): struct.Struct("@" + kind).pack for kind in "hHiIlL"},
}


def packer_of(kind: bytes) -> Callable[[Any], bytes]:
    """The function that turns a number into the bytes of the C type of that struct character. It raises struct.error
    or TypeError if the number does not fit.
    """
    packer = PACKERS.get(kind)
    if packer is None:
        fail("Kernel.set_arg_buf_pack", status.INVALID_VALUE, "invalid type char")
    return packer


def refuse(value: Any) -> Kept:
    """Converts nothing: the value was given as bytes, and its type is not known here."""
    raise TypeError("the argument was not converted")
