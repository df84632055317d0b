"""Programs and kernels of C programs (specification 5.8, 5.9, 5.10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vdev.facade.arguments import Kept
from vdev.facade.context import Context
from vdev.facade.errors import fail, native, status
from vdev.facade.event import Event
from vdev.facade.handles import state_of
from vdev.facade.images import ImageMemory
from vdev.facade.kernel import Kernel, KernelState
from vdev.facade.launch import enqueue_nd_range_kernel, suggested_local_size
from vdev.facade.memory import Memory
from vdev.facade.program import _create_program_with_il, _Program
from vdev.facade.queue import CommandQueue
from vdev.icd import host, ready
from vdev.icd.buffers import Waits
from vdev.icd.objects import the_device
from vdev.icd.views import view
from vdev.session.commands import LocalArg

_BUILD_FAILURES = (
    status.BUILD_PROGRAM_FAILURE,
    status.COMPILE_PROGRAM_FAILURE,
    status.LINK_PROGRAM_FAILURE,
)
_EXEC_SVM, _EXEC_FINE = 0x11B6, 0x11B7  # CL_KERNEL_EXEC_INFO_SVM_PTRS, …_SVM_FINE_GRAIN_SYSTEM
_MOST_LOCAL = 2**62
_GONE: Memory = object.__new__(
    Memory
)  #: stands for memory that is no longer there: it has nothing that a launch could capture


def clCreateProgramWithSource(context: Context, count: int, strings: int, lengths: int) -> _Program:
    routine = "clCreateProgramWithSource"
    if not count or not strings:
        fail(routine, status.INVALID_VALUE)
    addresses = host.sizes(strings, count)
    if not all(addresses):
        fail(routine, status.INVALID_VALUE)
    nbytes: Sequence[int] = host.sizes(lengths, count) if lengths else (0,) * count
    source = b"".join(
        host.block(address, length) if length else host.text(address)
        for address, length in zip(addresses, nbytes, strict=True)
    ).rstrip(b"\0")
    try:
        text = source.decode()
    except UnicodeDecodeError:  # in comments of old files: any byte is a character of that encoding
        text = source.decode("latin-1")
    program = _Program(context, text)
    host.given[program] = source + b"\0"
    return program


def clCreateProgramWithBinary(
    context: Context, count: int, devices: int, lengths: int, binaries: int, statuses: int
) -> _Program:
    routine = "clCreateProgramWithBinary"
    if not count or not devices or not lengths or not binaries:
        fail(routine, status.INVALID_VALUE)
    host.check_devices(routine, count, devices)
    length, address = host.sizes(lengths, 1)[0], host.sizes(binaries, 1)[0]
    if not length or not address:
        host.put_int(statuses, status.INVALID_VALUE)
        fail(routine, status.INVALID_VALUE)
    try:
        program = _Program(context, [the_device()], [host.block(address, length)])
    except native.Error as error:
        host.put_int(statuses, host.code_of(error) or status.INVALID_BINARY)
        raise
    host.put_int(statuses, 0)
    return program


def clCreateProgramWithBuiltInKernels(context: Context, count: int, devices: int, names: int) -> _Program:
    fail("clCreateProgramWithBuiltInKernels", status.INVALID_VALUE)


def clCreateProgramWithIL(context: Context, address: int, length: int) -> _Program:
    if not address or not length:
        fail("clCreateProgramWithIL", status.INVALID_VALUE)
    return _create_program_with_il(context, host.block(address, length))


def clBuildProgram(
    program: _Program, count: int, devices: int, options: int, notify: int, user_data: int
) -> None:
    routine = "clBuildProgram"
    host.check_devices(routine, count, devices)
    host.check_callback(routine, notify, user_data)
    try:
        program._build(host.text(options))
    except native.Error as error:
        if host.code_of(error) not in _BUILD_FAILURES or not notify:
            raise
    _notify(program, notify, user_data)


def _notify(program: _Program, function: int, user_data: int) -> None:
    """Report that the build has ended, successfully or not: with a callback, that is how the program learns of it."""
    if function:
        host.call_back(function, host.address_of(program, host.PROGRAM), user_data)


def clCompileProgram(
    program: _Program, count: int, devices: int, options: int, header_count: int, headers: int, names: int,
    notify: int, user_data: int,
) -> None:  # fmt: skip
    routine = "clCompileProgram"
    host.check_devices(routine, count, devices)
    host.check_callback(routine, notify, user_data)
    if (header_count == 0) != (headers == 0) or (headers == 0) != (names == 0):
        fail(routine, status.INVALID_VALUE)
    found = host.items(host.PROGRAM, headers, header_count, status.INVALID_PROGRAM, routine)
    texts = [host.text(address).decode() for address in host.sizes(names, header_count)] if names else []
    try:
        program.compile(host.text(options), None, list(zip(texts, found, strict=True)))
    except native.Error as error:
        if host.code_of(error) not in _BUILD_FAILURES or not notify:
            raise
    _notify(program, notify, user_data)


def clLinkProgram(
    context: Context, count: int, devices: int, options: int, part_count: int, parts: int, notify: int,
    user_data: int,
) -> tuple[_Program, int]:  # fmt: skip
    """The program, which has the linker's messages if the link has failed, and the status code."""
    routine = "clLinkProgram"
    host.check_devices(routine, count, devices)
    host.check_callback(routine, notify, user_data)
    if not part_count or not parts:
        fail(routine, status.INVALID_VALUE)
    found = host.items(host.PROGRAM, parts, part_count, status.INVALID_PROGRAM, routine)
    linked = _Program._vdev_linked(context, found, host.text(options))
    _notify(linked, notify, user_data)
    has_failed = state_of(linked).status < 0
    return linked, status.LINK_PROGRAM_FAILURE if has_failed and not notify else status.SUCCESS


def clSetProgramSpecializationConstant(program: _Program, number: int, size: int, value: int) -> None:
    program.set_specialization_constant(number, host.block(value, size) if value else b"")


def clSetProgramReleaseCallback(program: _Program, function: int, user_data: int) -> None:
    """Deprecated in OpenCL 2.2, and only for programs with destructors, which the device has not."""
    fail("clSetProgramReleaseCallback", status.INVALID_OPERATION if function else status.INVALID_VALUE)


# kernels ----------------------------------------------------------------------------------------


class _Kernel(Kernel):
    """A kernel that C code holds. What PyOpenCL's layer needs for a kernel is made if somebody calls it from there."""

    #: the native kernel of launches without Python (`vdev.icd.ready`)
    _vdev_own: object | None = None

    def _set_up(self, program: _Program, kernel: Any, source: Any = None) -> None:
        self._handle = 0
        self._kernel_source = source
        self._vdev_state = KernelState(program, kernel)
        state_of(program).kernels.add(self)

    def __getattr__(self, name: str) -> Any:
        if name not in ("_enqueue", "_set_all"):
            raise AttributeError(name)
        state, handle = self._vdev_state, self._handle  # which are kept
        Kernel._set_up(self, state.program, state.kernel, self._kernel_source)
        self._vdev_state, self._handle = state, handle
        return self.__dict__[name]

    @classmethod
    def like(cls, kernel: Kernel) -> Kernel:
        """A kernel with the arguments that this one has now."""
        state = state_of(kernel)
        copy: Kernel = object.__new__(cls)
        copy._set_up(state.program, state.kernel, getattr(kernel, "_source", None))
        state_of(copy).args[:] = state.args
        state_of(copy).is_ready = state.is_ready
        return copy


def clCreateKernel(program: _Program, name: int) -> Kernel:
    if not name:
        fail("clCreateKernel", status.INVALID_VALUE)
    return _Kernel(program, host.text(name).decode("utf-8", "replace"))


def clCreateKernelsInProgram(program: _Program, room: int, kernels: int, found: int) -> None:
    routine = "clCreateKernelsInProgram"
    names = list(state_of(program).executable(routine).kernels)
    if kernels and room < len(names):
        fail(routine, status.INVALID_VALUE)
    if kernels:
        for number, name in enumerate(names):
            host.put_size(kernels + 8 * number, host.give_out(_Kernel(program, name), host.KERNEL))
    host.put_uint(found, len(names))


def clCloneKernel(kernel: Kernel) -> Kernel:
    return _Kernel.like(kernel)


_LETTERS = {
    "global": b"g", "constant": b"g", "local": b"l", "value": b"v", "image": b"i", "sampler": b"s",
    "unknown": b"u",
}  # fmt: skip


def kernel_kinds(kernel: Kernel) -> bytes:
    """A letter for each argument: _g_lobal memory, _l_ocal memory, a _v_alue, an _i_mage, a _s_ampler, _u_nknown,
    _o_ther.
    """
    return b"".join(_LETTERS.get(info.kind, b"o") for info in state_of(kernel).kernel.declared.args)


def set_argument(kernel: Kernel, index: int, size: int, data: bytes | None, has_value: int) -> None:
    """clSetKernelArg. `data`: a copy of the value's bytes; None for local memory, and if there is no value. `has_value`: 2 for a memory
    object that the program had when it set it, and has no longer.
    """
    state = state_of(kernel)
    kind = state.kernel.declared.args[index].kind
    kept = _GONE if has_value == 2 else _SETTERS.get(kind, _set_value)(state, index, size, data, has_value)
    state.args[index] = kept
    state.forget()


def _object(kind: int, data: bytes | None) -> Any:
    """The object whose handle these bytes are; None if they are not a handle."""
    return host.item_at(int.from_bytes(data or b"", "little"), kind)


def _set_pointer(state: KernelState, index: int, size: int, data: bytes | None, has_value: int) -> Kept:
    if size != 8:
        fail("clSetKernelArg", status.INVALID_ARG_SIZE)
    if data is None or not any(data):
        return state.converters[index](None)
    memory = _object(host.MEM, data)
    if memory is None:
        fail("clSetKernelArg", status.INVALID_MEM_OBJECT)
    return state.converters[index](view(memory))


def _set_image(state: KernelState, index: int, size: int, data: bytes | None, has_value: int) -> Kept:
    if size != 8:
        fail("clSetKernelArg", status.INVALID_ARG_SIZE)
    memory = _object(host.MEM, data)
    if not isinstance(memory, ImageMemory):
        fail("clSetKernelArg", status.INVALID_MEM_OBJECT if has_value else status.INVALID_ARG_VALUE)
    return state.converters[index](view(memory))


def _set_sampler(state: KernelState, index: int, size: int, data: bytes | None, has_value: int) -> Kept:
    if size != 8:
        fail("clSetKernelArg", status.INVALID_ARG_SIZE)
    sampler = _object(host.SAMPLER, data)
    if sampler is None:
        fail("clSetKernelArg", status.INVALID_SAMPLER)
    return state.converters[index](sampler)


def _set_local(state: KernelState, index: int, size: int, data: bytes | None, has_value: int) -> Kept:
    if has_value:
        fail("clSetKernelArg", status.INVALID_ARG_VALUE)
    if not 0 < size < _MOST_LOCAL:
        fail("clSetKernelArg", status.INVALID_ARG_SIZE)
    return LocalArg(size)


def _set_unknown(state: KernelState, index: int, size: int, data: bytes | None, has_value: int) -> Kept:
    """For a kernel without a record of its arguments: the value that is set tells what the argument is."""
    if not has_value:
        return LocalArg(size) if size else state.converters[index](None)
    memory = _object(host.MEM, data) if size == 8 else None
    return state.converters[index](data if memory is None else view(memory))


def _set_value(state: KernelState, index: int, size: int, data: bytes | None, has_value: int) -> Kept:
    if data is None:
        fail("clSetKernelArg", status.INVALID_ARG_SIZE if has_value else status.INVALID_ARG_VALUE)
    return state.converters[index](data)


_SETTERS = {
    "global": _set_pointer,
    "constant": _set_pointer,
    "image": _set_image,
    "sampler": _set_sampler,
    "local": _set_local,
    "unknown": _set_unknown,
}


def launch(
    queue: CommandQueue,
    kernel: Kernel,
    size: tuple[int, ...],
    local: Any,
    offset: Any,
    waits: Waits,
    wants_event: int,
) -> Event | None:
    """clEnqueueNDRangeKernel; None if nobody wants its event."""
    event = ready.looked_at(enqueue_nd_range_kernel(queue, kernel, size, local, offset, waits))
    return event if wants_event else None


def clGetKernelSuggestedLocalWorkSizeKHR(
    queue: CommandQueue, kernel: Kernel, dimensions: int, offset: int, size: int, suggested: int
) -> None:
    """cl_khr_suggested_local_work_size: the errors are those of a launch."""
    routine, state = "clGetKernelSuggestedLocalWorkSizeKHR", state_of(kernel)
    if state.context is not state_of(queue).context:
        fail(routine, status.INVALID_CONTEXT)
    if not 1 <= dimensions <= 3:
        fail(routine, status.INVALID_WORK_DIMENSION)
    sizes = host.sizes(size, dimensions) if size else (0,)
    if 0 in sizes:
        fail(routine, status.INVALID_GLOBAL_WORK_SIZE)
    if not suggested:
        fail(routine, status.INVALID_VALUE)
    state.capture(routine)  # which finds arguments that have not been set
    start = host.sizes(offset, dimensions) if offset else None
    for place, number in enumerate(suggested_local_size(state, sizes, start)):
        host.put_size(suggested + 8 * place, number)


def clEnqueueTask(queue: CommandQueue, kernel: Kernel, waits: Waits) -> Event:
    return enqueue_nd_range_kernel(queue, kernel, (1,), (1,), None, waits)


def clEnqueueNativeKernel(queue: CommandQueue, *rest: Any) -> Event:
    """The device runs no functions of the host (CL_DEVICE_EXECUTION_CAPABILITIES)."""
    fail("clEnqueueNativeKernel", status.INVALID_OPERATION)


def clSetKernelExecInfo(kernel: Kernel, name: int, size: int, value: int) -> None:
    """Accepted without effect: a launch reaches all shared virtual memory anyway."""
    routine = "clSetKernelExecInfo"
    if name not in (_EXEC_SVM, _EXEC_FINE) or (size == 0) != (value == 0):
        fail(routine, status.INVALID_VALUE)
    if name == _EXEC_SVM:  # also for an empty list: what was set before no longer counts
        if size % 8:
            fail(routine, status.INVALID_VALUE)
        return
    if not size:
        fail(routine, status.INVALID_VALUE)
    if host.uint(value):
        fail(routine, status.INVALID_OPERATION)
