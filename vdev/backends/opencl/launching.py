"""Programs and launches on one native device (`vdev.backends.opencl.backend`).

Decides which arguments are set before a launch, and how it is made again.

Launches are enqueued one by one, also where the driver has `cl_khr_command_buffer`. A command of a program's
is one launch for each worker, and a copy or two where workers exchange bytes. Intel's driver takes 1.3 times as
long to be given one launch as a command buffer, and all threads work for it 1.4 times as long; PoCL's takes
longer in any case. Of rows of four and more Intel's is given a quarter faster, and the device takes as long as
before (`samples/benchmarks/command_buffers.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from ctypes import c_char
from functools import partial
from itertools import compress, count
from operator import ne
from typing import Any

from vdev.backends.base import (
    Allocation,
    Backend,
    BackendProgram,
    BuildResult,
    DriverLaunch,
    DriverMemory,
    HostPlace,
    KernelArgument,
    LaunchShape,
    LocalBytes,
    Repeated,
    RepeatedWhole,
)
from vdev.backends.opencl.device import SharedDevice
from vdev.backends.opencl.errors import failure_of
from vdev.backends.opencl.images import NativeImages
from vdev.backends.opencl.native import native_kernel

_UNSET = object()
#: arguments of launches that others make: the rest has objects that must live as long
_OWN = frozenset({Allocation, bytes, LocalBytes, type(None)})


class Kernel:
    """A native kernel object and what its arguments are set to."""

    __slots__ = ("hidden", "images", "last", "native", "owner", "views")

    def __init__(self, native: Any, images: NativeImages | None) -> None:
        self.native = native
        self.images = images  #: passed behind its arguments
        self.last: list[object] = []
        self.hidden: bytes | None = None
        self.views: dict[int, Any] = {}  # sub-buffers that arguments are set to
        self.owner: object = None  #: the call of `OpenCLBackend.again` whose arguments they are


class OpenCLLaunches(Backend):
    """The part of a worker's back end that builds and launches."""

    device: SharedDevice
    last: Any  #: event of the last command of the queue
    _cl: Any
    _queue: Any
    _offset_ns: int
    _in_any_order: bool  #: whether launches need not go through `SharedDevice.enqueue`, in order
    _events: list[Any]  #: since a marker
    _kernels: weakref.WeakKeyDictionary[BackendProgram, dict[str, Kernel]]

    def build(self, program: BackendProgram) -> BuildResult:
        result = self.device.build(program).result
        assert result is not None
        return result

    def kept(self, program: BackendProgram) -> BuildResult | None:
        return self.device.kept(program)

    def kernel(self, program: BackendProgram, name: str) -> Kernel:
        kernels = self._kernels.setdefault(program, {})
        kernel = kernels.get(name)
        if kernel is None:
            native = self.device.build(program).native
            try:
                pairs = program.native_images.get(name)
                images = NativeImages(self._cl, self.device.context, pairs) if pairs else None
                kernel = kernels[name] = Kernel(native_kernel(self._cl, native, name), images)
            except self._cl.Error as error:
                raise failure_of(error, f"kernel {name}") from error
        return kernel

    def launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> None:
        assert type(kernel) is Kernel
        native = kernel.native
        try:
            self._prepare(kernel, args, shape)
            if self._in_any_order:
                extent = shape.global_size, self.device.local_size(shape), shape.first, None, False, False
                event = self._cl.enqueue_nd_range_kernel(self._queue, native, *extent)
            else:
                event = self.device.enqueue(self._queue, native, shape)
        except self._cl.Error as error:
            raise failure_of(error, "launch") from error
        self._events.append(event)
        self.last = event
        self.counters.launches += 1

    def again(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> Repeated | None:
        assert type(kernel) is Kernel
        native, set_value, set_to = kernel.native, kernel.native._set_arg_buf, kernel.last
        counters, error, mine = self.counters, self._cl.Error, object()
        start = self._start(native, shape)

        def launch(
            changed: Sequence[tuple[int, KernelArgument]] = (), other: LaunchShape | None = None, /
        ) -> int:
            nonlocal shape, start
            try:
                if other is not None:
                    shape, start = other, self._start(native, other)
                    if kernel.owner is mine:
                        self._set_shape(kernel, args, other)
                for index, value in changed:
                    if type(value) is bytes:
                        set_to[index] = _UNSET
                        set_value(index, value)
                        set_to[index] = args[index] = value
                        continue
                    args[index] = value
                    if kernel.images is None:
                        self._set_argument(kernel, index, value)
                    else:  # their images may be others, too
                        kernel.owner = None
                if kernel.owner is not mine:
                    self._prepare(kernel, args, shape)
                    kernel.owner = mine
                event = start()
            except error as refusal:
                raise failure_of(refusal, "launch") from refusal
            self._events.append(event)  # a marker begins another list
            self.last = event
            counters.launches += 1
            return len(self._events)

        return launch

    def again_whole(
        self, kernel: object, args: Sequence[KernelArgument], shape: LaunchShape
    ) -> RepeatedWhole | None:
        assert type(kernel) is Kernel
        if kernel.images is not None or not all(type(arg) in _OWN for arg in args):
            return None
        counters, refusal, start = self.counters, self._cl.Error, self._start(kernel.native, shape)

        def launch(now: Sequence[KernelArgument], other: LaunchShape | None, /) -> int:
            nonlocal start, shape
            try:
                if other is not None:
                    shape, start = other, self._start(kernel.native, other)
                kernel.owner = None
                if now != kernel.last:
                    self._set_arguments(kernel, now)
                if shape.hidden is not kernel.hidden:
                    self._set_shape(kernel, now, shape)
                event = start()
            except refusal as error:
                raise failure_of(error, "launch") from error
            self._events.append(event)
            self.last = event
            counters.launches += 1
            return len(self._events)

        return launch

    def repeats_elsewhere(self, kernel: object) -> bool:
        assert type(kernel) is Kernel
        return kernel.images is None

    def repeats_over(self, kernel: object, shape: LaunchShape) -> bool:
        return True

    def _start(self, native: Any, shape: LaunchShape) -> Callable[[], Any]:
        """What starts a kernel over a shape with the arguments that it has then; its event."""
        if self.device.orders_launches:
            return partial(self.device.enqueue, self._queue, native, shape)
        extent = shape.global_size, self.device.local_size(shape), shape.first, None, False, False
        return partial(self._cl.enqueue_nd_range_kernel, self._queue, native, *extent)

    def _prepare(self, kernel: Kernel, args: list[KernelArgument], shape: LaunchShape) -> None:
        """Set a kernel's arguments."""
        kernel.owner = None
        self._set_arguments(kernel, args)
        self._set_shape(kernel, args, shape)

    def _set_shape(self, kernel: Kernel, args: Sequence[KernelArgument], shape: LaunchShape) -> None:
        """Set what a kernel is given behind its arguments."""
        images, hidden, count = kernel.images, shape.hidden, len(args)
        if images is not None:
            images.set(kernel.native, args, shape)
            count += images.count
        if hidden is not None and hidden is not kernel.hidden:
            kernel.native._set_arg_buf(count, hidden)
            kernel.hidden = hidden

    def own_kernel(self, program: BackendProgram, name: str) -> object | None:
        if self.device.orders_launches or program.native_images.get(name):
            return None
        try:
            native = native_kernel(self._cl, self.device.build(program).native, name)
            return Kernel(native, None)
        except self._cl.Error:
            return None

    def driver_launch(
        self, kernel: object, args: list[KernelArgument], shape: LaunchShape
    ) -> DriverLaunch | None:
        assert type(kernel) is Kernel
        if not all(type(arg) in _OWN for arg in args):
            return None
        kernel.last = []  # its user may have set others
        try:
            self._set_arguments(kernel, args)
            if shape.hidden is not None:
                kernel.native._set_arg_buf(len(args), shape.hidden)
        except self._cl.Error:
            return None
        memory: list[Any] = [arg.native if type(arg) is Allocation else None for arg in args]
        return DriverLaunch(
            self._queue.int_ptr,
            kernel.native.int_ptr,
            tuple([0 if native is None else native.int_ptr for native in memory]),
            shape.first,
            shape.global_size,
            self.device.local_size(shape),
            shape.hidden,
            self._offset_ns,
        )

    def driver_memory(self, allocation: Allocation) -> DriverMemory | None:
        if self.device.orders_launches or type(allocation) is not Allocation:
            return None
        native: Any = allocation.native
        return DriverMemory(self._queue.int_ptr, native.int_ptr, self._offset_ns)

    def launched(self, handles: Sequence[int], launches: int) -> None:
        from_handle = self._cl.Event.from_int_ptr
        self._events += [from_handle(handle, False) for handle in handles]
        self.last = self._events[-1]
        self.counters.launches += launches

    def _set_arguments(self, kernel: Kernel, args: Sequence[KernelArgument]) -> None:
        last, native = kernel.last, kernel.native
        if len(last) != len(args):
            kernel.last = last = [_UNSET] * len(args)
        for index in compress(count(), map(ne, args, last)):
            arg = args[index]
            if type(arg) is bytes:
                last[index] = _UNSET  # if setting fails, nothing is known about it
                native._set_arg_buf(index, arg)
                last[index] = arg
            elif type(arg) is Allocation:
                last[index] = _UNSET
                native.set_arg(index, arg.native)
                last[index] = arg
            else:
                self._set_argument(kernel, index, arg)

    def _set_argument(self, kernel: Kernel, index: int, arg: KernelArgument) -> None:
        kernel.last[index] = _UNSET
        native = kernel.native
        if type(arg) is Allocation:
            native.set_arg(index, arg.native)
        elif type(arg) is tuple:
            # The view must outlive the setting of the argument: a kernel object does not retain it.
            memory, (part, start) = arg[0].whole or arg[0], arg
            view: Any = part.native
            if start:  # of the whole: sub-buffers cannot have sub-buffers (specification 5.2.4)
                view = memory.native
                view = view.get_sub_region(part.ahead + start, max(part.nbytes - start, 1), 0)
            kernel.views[index] = view
            native.set_arg(index, view)
        elif type(arg) is LocalBytes:
            native.set_arg(index, self._cl.LocalMemory(arg.nbytes))
        elif type(arg) is HostPlace:
            # the native module takes addresses from objects with a buffer
            native._set_arg_svm(index, self._cl.SVM((c_char * 1).from_address(arg.address)))
        else:
            native._set_arg_null(index)
        kernel.last[index] = arg
