"""Kernels: arguments and what a program may ask about them (specification 5.9).

Arguments are converted when they are set and captured when the kernel is enqueued. The functions that
PyOpenCL generates per signature call the methods whose names begin with `_set_arg`; they are the hot path of
a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from vdev.backends import compiled
from vdev.facade.arguments import PACKERS, Converter, Kept, converter_of, packer_of, refuse, refuser
from vdev.facade.errors import as_int, check_type, fail, make_error, native, status
from vdev.facade.handles import Handle, state_of
from vdev.facade.hostbuf import value_bytes
from vdev.facade.images import ImageMemory
from vdev.facade.memory import Buffer, Memory
from vdev.facade.platform_device import Device
from vdev.facade.pools import PooledBuffer
from vdev.facade.program import ProgramState, _Program
from vdev.facade.repeat import Repeat, repeat_of
from vdev.facade.rotation import Rotation
from vdev.facade.spare_kernels import Revived
from vdev.facade.svm import SVMPointer
from vdev.facade.svm_memory import SVMArgument
from vdev.process.forking import in_driver
from vdev.session.commands import Argument, LocalArg

if TYPE_CHECKING:
    from vdev.facade.context import Context
    from vdev.facade.index_spaces import Grouping
    from vdev.session.commands import Repeater
    from vdev.session.immediate_forms import Formed
    from vdev.session.programs import SessionKernel
    from vdev.translators.frontend.source import ArgInfo
    from vdev.translators.ranges.ndrange import NDRange

_ADDRESS = {
    "global": native.kernel_arg_address_qualifier.GLOBAL,
    "constant": native.kernel_arg_address_qualifier.CONSTANT,
    "local": native.kernel_arg_address_qualifier.LOCAL,
}
_ACCESS = {
    "read_only": native.kernel_arg_access_qualifier.READ_ONLY,
    "write_only": native.kernel_arg_access_qualifier.WRITE_ONLY,
    "read_write": native.kernel_arg_access_qualifier.READ_WRITE,
}


class _Unset:
    """Stands for an argument that has not been set."""

    def __repr__(self) -> str:
        return "unset"


UNSET = _Unset()

#: kept arguments of which a launch captures the memory
_OBJECTS = frozenset((Memory, SVMArgument))


#: classes of plain memory objects
_HOLDERS = frozenset((Buffer, PooledBuffer))

#: numbers as they were given to be set, with their types; what picks their arguments, and what it found then
Packed: TypeAlias = tuple[tuple[Any, ...], list[type], Callable[[Any], Any], Any]

#: What setting an argument changes: nothing, the value of a value, or anything else.
_NONE, _OTHER_VALUE, _OTHER = range(3)


def _changed(before: object, now: object) -> int:
    if now is before:
        return _NONE
    if type(now) is bytes and type(before) is bytes and len(now) == len(before):
        return _OTHER_VALUE if now != before else _NONE
    if type(now) is SVMArgument:
        return _NONE if now.is_same(before) else _OTHER
    return _NONE if type(now) is LocalArg and now == before else _OTHER


class Signature:
    """What all objects of one kernel of a program share: all but the values of their arguments."""

    __slots__ = (
        "allows_partial_groups", "converters", "generated", "groupings", "has_local", "kernel", "locals", "nbytes", "ndranges", "pointers",
        "regroups",
    )  # fmt: skip

    def __init__(self, made_of: ProgramState, kernel: SessionKernel) -> None:
        infos = kernel.declared.args
        self.kernel = kernel
        self.converters: list[Converter] = [_converter(kernel, info, made_of.context) for info in infos]
        #: arguments that can be buffers
        self.pointers = frozenset(
            index for index, info in enumerate(infos) if info.kind in ("global", "constant")
        )
        #: by argument: bytes of a value
        self.nbytes: list[int | None] = [info.nbytes if info.kind == "value" else None for info in infos]
        self.has_local = any(info.kind == "local" for info in infos)
        #: arguments that can be local memory
        self.locals = tuple(index for index, info in enumerate(infos) if info.kind in ("local", "unknown"))
        self.allows_partial_groups = _allows_partial_groups(made_of)
        #: index spaces of earlier launches that were found valid, by the sizes that the program gave
        self.ndranges: dict[Any, NDRange | None] = {}
        #: what makes more of them, by the local size that the program gave
        self.groupings: dict[Any, Grouping] = {}
        #: whether workers may group the work-items of launches without a local size as they like
        self.regroups = kernel.regroups
        #: the functions that PyOpenCL generated for its signature
        self.generated: tuple[Callable[..., Any], Callable[..., Any]] = _generated(kernel, made_of.context)


def _signature_of(made_of: ProgramState, kernel: SessionKernel) -> Signature:
    found: Signature | None = made_of.signatures.get(kernel.name)
    if found is None or found.kernel is not kernel:  # it may have been built again
        found = made_of.signatures[kernel.name] = Signature(made_of, kernel)
    return found


class KernelState:
    """A kernel and the values of its arguments: what a launch captures, and what is remembered of the last launch."""

    __slots__ = (
        "args", "context", "converters", "converting", "formed", "has_local", "images", "is_new", "is_ready", "kernel", "known_to_fit",
        "launched", "nbytes", "ndranges", "packed", "pause", "paused", "pointers", "program", "repeat", "repetition", "rotation",
        "signature",
    )  # fmt: skip

    def __init__(self, program: _Program, kernel: SessionKernel) -> None:
        self.program = program
        made_of = state_of(program)
        self.context = made_of.context
        self.kernel = kernel
        signature = self.signature = _signature_of(made_of, kernel)
        self.converters, self.pointers, self.nbytes = (
            signature.converters,
            signature.pointers,
            signature.nbytes,
        )
        self.has_local, self.ndranges = signature.has_local, signature.ndranges
        count = len(self.converters)
        self.args: list[Kept | _Unset] = [UNSET] * count
        #: by argument: the function that converted its value, which also converts others of the type
        self.converting: list[Callable[[Any], Kept]] = [refuse] * count
        self.images = kernel.images  #: arguments whose descriptors a launch passes as well
        self.is_ready = not count  #: whether every argument has been set
        self.is_new = True  #: whether it has not been called yet
        self.known_to_fit = -1  #: bytes of local arguments that are known to fit
        #: numbers that have been set twice in a row
        self.packed: Packed | None = None
        #: takes the next call if it is like the last one; None once an argument has been set in another way
        self.repeat: Repeat | Revived | None = None
        #: repeats the last launch; None once an argument has changed
        self.repetition: Repeater | None = None
        #: what repeats launches with other arguments than the last ones; None before the second
        self.rotation: Rotation | None = None
        #: makes launches with whatever arguments on one worker
        self.formed: Formed | None = None
        #: the number of the last launch that was handed over without a submission
        self.launched = -1
        #: launches that are not repeated before one is prepared for that, and how many of them have passed
        self.pause = self.paused = 0

    def was_set(self, change: int) -> None:
        """Arguments have been set to what they were, or to something else (`_changed`). As `forget` as to when it is called."""
        self.repeat = None
        repetition = self.repetition
        if repetition is not None and change > (_OTHER_VALUE if repetition.takes_values else _NONE):
            self.repetition = None

    def forget(self) -> None:
        """An argument has been set: the next call and the next launch may differ from the last ones.

        Called after that, and not before: another thread may launch the kernel meanwhile, and keep what makes that launch
        again.
        """
        self.repeat = self.repetition = None

    def renew(self) -> None:
        """Become the state of a new kernel, with no argument set; what is kept of the old ones keeps no memory alive."""
        args, self.args = self.args, [UNSET] * len(self.args)
        self.is_ready = not args
        if self.repeat is not None:
            self.repeat = Revived(args, self.repeat, self.repetition)
        self.repetition = None

    def capture(self, routine: str) -> tuple[Argument, ...]:
        """The arguments as they are now; INVALID_KERNEL_ARGS if one has never been set, or has been released since."""
        if not self.is_ready:
            if UNSET in self.args:
                fail(routine, status.INVALID_KERNEL_ARGS)
            self.is_ready = True
        try:
            if self.images:
                return self._capture_images()
            return tuple([arg.argument if type(arg) in _OBJECTS else arg for arg in self.args])  # type: ignore[misc, union-attr]
        except AttributeError:  # a memory object without its argument: its last reference is gone
            fail(routine, status.INVALID_KERNEL_ARGS)

    def _capture_images(self) -> tuple[Argument, ...]:
        args = [arg.argument if isinstance(arg, Memory | SVMArgument) else arg for arg in self.args]
        images = (self.args[index] for index in self.images)
        return (*args, *(image.descriptor() for image in images if isinstance(image, ImageMemory)))  # type: ignore[arg-type]

    def local_nbytes(self) -> int:
        """Bytes of `__local` arguments that have been set."""
        nbytes = 0
        for index in self.signature.locals:
            arg = self.args[index]
            if type(arg) is LocalArg:
                nbytes += arg.nbytes
        return nbytes


class Kernel(Handle):
    """A kernel object with its own argument values."""

    #: `launch_captured`, which is in a module above
    _vdev_launch: ClassVar[Callable[..., Any]]

    _retain = "clRetainKernel"
    _invalid = status.INVALID_KERNEL

    def __init__(self, arg0: Any, arg1: str, /) -> None:
        check_type("__init__", arg1, str)
        program = arg0 if isinstance(arg0, _Program) else arg0._get_prg()
        state = state_of(program)
        built = state.executable("clCreateKernel")
        if arg1 not in built.kernels:
            fail("clCreateKernel", status.INVALID_KERNEL_NAME)
        source = state.source if arg0 is program else getattr(arg0, "_source", None)
        self._set_up(program, built.kernels[arg1], source)

    def _set_up(self, program: _Program, kernel: SessionKernel, source: Any = None) -> None:
        self._handle = 0
        self._kernel_source = source
        made_of = state_of(program)
        spare = made_of.spares.pop(kernel.name, None)
        if spare is None or spare.kernel is not kernel:  # built anew since
            spare = KernelState(program, kernel)
        else:
            spare.program = program
        self._vdev_state = spare
        self._enqueue, self._set_all = spare.signature.generated
        made_of.kernels.add(self)

    def __del__(self) -> None:
        state = self.__dict__.get("_vdev_state")  # there is none if the constructor failed
        if (
            state is not None
            and not self._handle
            and state.is_ready  # it has been launched
            and self._enqueue is state.signature.generated[0]
        ):
            program = state.program
            del state.program  # which would keep itself alive
            state.renew()
            program._vdev_state.spares[state.kernel.name] = state

    @property
    def _source(self) -> Any:
        return self._kernel_source

    def clone(self) -> Kernel:
        """A separate kernel with the same arguments."""
        copy: Kernel = object.__new__(Kernel)
        copy._set_up(self._vdev_state.program, self._vdev_state.kernel)
        copy._vdev_state.args = list(self._vdev_state.args)
        copy._vdev_state.is_ready = self._vdev_state.is_ready
        return copy

    # {{{ calling

    def __call__(self, *args: Any, wait_for: Any = None, **kwargs: Any) -> Any:
        state = self._vdev_state
        if not kwargs:
            repeat = state.repeat
            if repeat is not None:
                captured = repeat.takes(state, args)
                if captured is not None:
                    if repeat.has_arrays:
                        wait_for = repeat.behind(args, wait_for)
                    return self._vdev_launch(args[0], self, captured, args[1], args[2], wait_for)
            event = self._enqueue(self, *args, wait_for=wait_for)
            if state.is_new:  # many kernels are looked up for each call
                state.is_new = False
            else:
                state.repeat = repeat_of(state, args)
            return event
        return self._enqueue(self, *args, wait_for=wait_for, **kwargs)

    def set_args(self, *args: Any, **kwargs: Any) -> None:
        self._set_all(self, *args, **kwargs)

    def _set_enqueue_and_set_args(self, enqueue: Callable[..., Any], set_args: Callable[..., Any], /) -> None:
        self._enqueue, self._set_all = enqueue, set_args
        self._vdev_state.forget()

    # }}}

    # {{{ setting arguments

    def set_arg(self, arg_index: int, arg: Any) -> None:
        """Set one argument; the value is converted now."""
        index, state = as_int("set_arg", arg_index, 0, 2**32 - 1), self._vdev_state
        if index >= len(state.args):
            fail(_set_routine(arg), status.INVALID_ARG_INDEX)
        before, change = state.args[index], _OTHER
        try:
            state.args[index] = state.converters[index](arg)
            state.converting[index] = state.converters[index]
            change = _changed(before, state.args[index])
        finally:
            state.was_set(change)

    def _set_arg_multi(self, indices_and_args: tuple[Any, ...], /) -> None:
        """(index, value, index, value, …)"""
        state = self._vdev_state
        args, converters, converting = state.args, state.converters, state.converting
        pointers, context = state.pointers, state.context
        index, value, change = 9998, None, _NONE
        try:
            pairs = iter(indices_and_args)
            for index, value in zip(pairs, pairs, strict=False):
                converter = converting[index] = converters[index]
                before = args[index]
                if type(value) in _HOLDERS and index in pointers:
                    memory = value._vdev_state  # what the converter would return
                    if type(memory) is Memory and memory.references > 0 and memory.context is context:
                        if memory is not before:
                            args[index], change = memory, _OTHER
                        continue
                args[index] = converter(value)
                change = max(change, _changed(before, args[index]))
        except Exception as error:
            change = _OTHER
            raise self._explained(error, index, value) from None
        finally:
            state.was_set(change)

    def _set_arg_buf_multi(self, indices_and_args: tuple[Any, ...], /) -> None:
        """(index, bytes of the value, …)"""
        state = self._vdev_state
        args, sizes = state.args, state.nbytes
        index, value, change = 9998, None, _NONE
        try:
            pairs = iter(indices_and_args)
            for index, value in zip(pairs, pairs, strict=False):
                before = args[index]
                if type(value) is bytes and len(value) == sizes[index]:
                    args[index] = value
                else:
                    self._set_arg_buf(index, value)
                state.converting[index] = refuse
                change = max(change, _changed(before, args[index]))
        except Exception as error:
            change = _OTHER
            raise self._explained(error, index, value) from None
        finally:
            state.was_set(change)

    def _set_arg_buf_pack_multi(self, indices_chars_and_args: tuple[Any, ...], /) -> None:
        """(index, struct format character, number, …)"""
        state = self._vdev_state
        index, value, change = 9998, None, _NONE
        try:
            known = state.packed
            if (
                known is not None
                and indices_chars_and_args == known[0]
                and [*map(type, indices_chars_and_args)] == known[1]
                and known[2](state.args) == known[3]
            ):
                return  # nothing but what is set already
            args, sizes, converting, packers = state.args, state.nbytes, state.converting, PACKERS
            triples = iter(indices_chars_and_args)
            for index, kind, value in zip(triples, triples, triples, strict=False):
                packer = packers.get(kind) or packer_of(kind)
                packed = packer(value)
                before = args[index]
                if packed != before:
                    if len(packed) != sizes[index]:
                        self._set_arg_buf(index, packed)
                    args[index] = packed
                    if change != _OTHER:
                        change = max(change, _changed(before, packed))
                converting[index] = packer
            if change == _NONE:
                state.packed = _packed(indices_chars_and_args, args)
        except Exception as error:
            change = _OTHER
            raise self._explained(error, index, value) from None
        finally:
            state.was_set(change)

    def _set_arg_null(self, arg_index: int, /) -> None:
        self.set_arg(arg_index, None)

    def _set_arg_buf(self, arg_index: int, py_buffer: Any, /) -> None:
        """An argument from memory with the buffer protocol."""
        try:
            data = value_bytes(py_buffer)
        except (TypeError, ValueError, BufferError):
            fail("Kernel.set_arg", status.INVALID_VALUE, "invalid kernel argument")
        self.set_arg(arg_index, data)

    def _set_arg_svm(self, arg_index: int, wrp: Any, /) -> None:
        check_type("_set_arg_svm", wrp, SVMPointer)
        self.set_arg(arg_index, wrp)

    def _explained(self, error: Exception, index: int, value: Any) -> Exception:
        """The error of a call with several arguments, with the argument's number in it."""
        where = f"when processing arg#{index + 1} (1-based): "
        if isinstance(error, IndexError):
            error = make_error(_set_routine(value), status.INVALID_ARG_INDEX)
        if not isinstance(error, native.Error):
            return RuntimeError(where + str(error))
        record = error.args[0]
        text = where + record.what()
        from pyopencl.array import Array  # needs this module

        if isinstance(value, Array):
            text += " (perhaps you meant to pass 'array.data' instead of the array itself?)"
        return make_error(record.routine(), record.code(), text)

    # }}}

    # {{{ queries

    def get_info(self, arg: int, /) -> Any:
        arg = as_int("get_info", arg)
        info = native.kernel_info
        if arg == info.FUNCTION_NAME:
            return self._vdev_state.kernel.name
        if arg == info.NUM_ARGS:
            return len(self._vdev_state.args)
        if arg == info.REFERENCE_COUNT:
            return 1
        if arg == info.CONTEXT:
            return self._vdev_state.context
        if arg == info.PROGRAM:
            return self._vdev_state.program
        if arg == info.ATTRIBUTES:
            return self._vdev_state.kernel.declared.attributes
        fail("Kernel.get_info", status.INVALID_VALUE)

    def get_work_group_info(self, arg0: int, arg1: Device, /) -> Any:
        arg0 = as_int("get_work_group_info", arg0)
        check_type("get_work_group_info", arg1, Device)
        info, resources = native.kernel_work_group_info, self._vdev_state.kernel.resources
        if arg0 == info.WORK_GROUP_SIZE:
            return resources.work_group_size
        if arg0 == info.COMPILE_WORK_GROUP_SIZE:
            return list(resources.compile_work_group_size)
        if arg0 == info.LOCAL_MEM_SIZE:
            return resources.local_memory_nbytes + self._vdev_state.local_nbytes()
        if arg0 == info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
            return resources.preferred_multiple
        if arg0 == info.PRIVATE_MEM_SIZE:
            return resources.private_memory_nbytes
        if arg0 == info.GLOBAL_WORK_SIZE:  # only for custom devices and built-in kernels
            fail("clGetKernelWorkGroupInfo", status.INVALID_VALUE)
        fail("Kernel.get_work_group_info", status.INVALID_VALUE)

    def get_arg_info(self, index: int, param_name: int, /) -> Any:
        position = as_int("get_arg_info", index, 0, 2**32 - 1)
        param_name = as_int("get_arg_info", param_name)
        info = native.kernel_arg_info
        known = (
            info.ADDRESS_QUALIFIER,
            info.ACCESS_QUALIFIER,
            info.TYPE_NAME,
            info.TYPE_QUALIFIER,
            info.NAME,
        )
        if param_name not in known:
            fail("Kernel.get_arg_info", status.INVALID_VALUE)
        if position >= len(self._vdev_state.args):
            fail("clGetKernelArgInfo", status.INVALID_ARG_INDEX)
        arg = self._vdev_state.kernel.declared.args[position]
        if arg.kind == "unknown":
            fail("clGetKernelArgInfo", status.KERNEL_ARG_INFO_NOT_AVAILABLE)
        if param_name == info.ADDRESS_QUALIFIER:
            return _ADDRESS.get(arg.address_qualifier, native.kernel_arg_address_qualifier.PRIVATE)
        if param_name == info.ACCESS_QUALIFIER:
            return _ACCESS.get(arg.access_qualifier, native.kernel_arg_access_qualifier.NONE)
        if param_name == info.TYPE_NAME:
            return arg.type_name
        if param_name == info.TYPE_QUALIFIER:
            return _type_qualifiers(arg.type_qualifiers)
        return arg.name

    def get_sub_group_info(self, device: Device, param: int, input_value: Any = None) -> Any:
        """The device has no sub-groups (clGetKernelSubGroupInfo, INVALID_OPERATION)."""
        check_type("get_sub_group_info", device, Device)
        info = native.kernel_sub_group_info
        known = [value for name, value in vars(info).items() if name.isupper()]
        if as_int("get_sub_group_info", param) not in known:
            fail("Kernel.get_sub_group_info", status.INVALID_VALUE)
        fail("clGetKernelSubGroupInfo", status.INVALID_OPERATION)

    # }}}


ProgramState.kernel_class = Kernel

#: numbers that are equal only if their bytes are, nought aside
_NUMBERS = (int, float, np.integer, np.floating)


def _packed(given: tuple[Any, ...], args: Sequence[Any]) -> Packed | None:
    """What tells that `given`, which has been set, is set again (`Kernel._set_arg_buf_pack_multi`); None where that takes a closer look."""
    if not given or not all(
        isinstance(value, _NUMBERS) and (value or type(value) is int) for value in given[2::3]
    ):
        return None
    pick = itemgetter(*given[::3], *given[::3])  # a tuple, even of one
    return given, [*map(type, given)], pick, pick(args)


def _converter(kernel: SessionKernel, info: ArgInfo, context: Context) -> Converter:
    if info.kind in ("image", "sampler") and kernel.subgrid is None:
        return refuser("; ".join(map(str, kernel.one_worker)))
    return converter_of(info, context)


def _generated(kernel: SessionKernel, context: Context) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What PyOpenCL generates for the kernel's signature: what launches it with arguments, and what sets these."""
    from pyopencl.invoker import generate_enqueue_and_set_args  # needs this module

    count = len(kernel.declared.args)
    # PyOpenCL looks into a data base of invokers, whose lock a child forked meanwhile would find held.
    functions: tuple[Callable[..., Any], Callable[..., Any]] = in_driver(
        partial(
            generate_enqueue_and_set_args,
            kernel.name,
            count,
            count,
            None,
            warn_about_arg_count_bug=None,
            work_around_arg_count_bug=None,
            devs=[state_of(context).device],
        )
    )
    return functions


def _allows_partial_groups(program: ProgramState) -> bool:
    """Whether the program was built for work-groups that do not divide the index space (OpenCL C 2.0, -cl-
    std).
    """
    options = () if program.built is None else program.built.options
    modern = any(option.startswith(("-cl-std=CL2", "-cl-std=CL3")) for option in options)
    supported = bool(state_of(program.context).limits["NON_UNIFORM_WORK_GROUP_SUPPORT"])
    return modern and supported and "-cl-uniform-work-group-size" not in options


def _set_routine(value: Any) -> str:
    return "clSetKernelArgSVMPointer" if isinstance(value, SVMPointer) else "clSetKernelArg"


def _type_qualifiers(names: Sequence[str]) -> int:
    """CL_KERNEL_ARG_TYPE_* bits of qualifier names."""
    kinds = native.kernel_arg_type_qualifier
    return sum({getattr(kinds, name.upper()) for name in names})


compiled.code.replace_methods(KernelState, ())  # which compiled methods read and write
