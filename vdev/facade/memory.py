"""Memory objects: buffers, sub-buffers and what a program may ask about them.

A `Memory` takes the place of the driver's object: several wrappers may share it, and the last
release frees the session's buffer. Checks are those of clCreateBuffer and clCreateSubBuffer
(specification 5.2). Where the bytes are is decided below.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vdev.facade.context import Context
from vdev.facade.errors import as_int, cast_ints, check_type, fail, native, status
from vdev.facade.handles import Numbered, Single, item_of, state_of, take_back
from vdev.facade.hostbuf import Bytes, array_interface, as_bytes, contiguous_strides, export_array
from vdev.facade.svm_host import bring_home
from vdev.facade.svm_memory import find, shared_place
from vdev.session.capabilities import shares_host_memory
from vdev.session.commands import BufferArg

if TYPE_CHECKING:
    from vdev.executor.direct_reads import RepeatedRead
    from vdev.session.immediate_moves import LaterRead, RecalledWrite, RepeatedWrite
    from vdev.session.session import Session, VirtualBuffer
    from vdev.session.spare_buffers import SpareBuffers

_mem = native.mem_flags
READ_WRITE, WRITE_ONLY, READ_ONLY = _mem.READ_WRITE, _mem.WRITE_ONLY, _mem.READ_ONLY
USE_HOST_PTR, ALLOC_HOST_PTR, COPY_HOST_PTR = _mem.USE_HOST_PTR, _mem.ALLOC_HOST_PTR, _mem.COPY_HOST_PTR
HOST_WRITE_ONLY, HOST_READ_ONLY, HOST_NO_ACCESS = (
    _mem.HOST_WRITE_ONLY,
    _mem.HOST_READ_ONLY,
    _mem.HOST_NO_ACCESS,
)
_ACCESS = READ_WRITE | WRITE_ONLY | READ_ONLY
_HOST_ACCESS = HOST_WRITE_ONLY | HOST_READ_ONLY | HOST_NO_ACCESS
_HOST_POINTER = USE_HOST_PTR | ALLOC_HOST_PTR | COPY_HOST_PTR
_KNOWN_FLAGS = _ACCESS | _HOST_ACCESS | _HOST_POINTER | _mem.KERNEL_READ_AND_WRITE

_NONE = (0, None)  #: where no transfer is made again
_MOST = 2**64 - 1  #: the largest number that the native module takes for flags and sizes

BUFFER_TYPE = native.mem_object_type.BUFFER
_TYPE = native.mem_info.TYPE

#: of most memory objects; never changed
_NO_MAPPINGS: dict[Any, Any] = {}

#: reentrant: a collection while it is held may drop another memory object
_lock = threading.RLock()


class Memory(Numbered):
    """A buffer or a part of one. `argument` is what a launch captures; `references` counts wrappers and sub-buffers."""

    __slots__ = (
        "__weakref__",
        "_handle",
        "argument",
        "at_end",
        "buffer",
        "context",
        "flags",
        "hostbuf",
        "last_later",
        "last_read",
        "last_write",
        "map_count",
        "mappings",
        "nbytes",
        "offset",
        "parent",
        "references",
        "spares",
    )

    #: CL_MEM_TYPE, and the class of wrappers; images have others
    type: int = BUFFER_TYPE
    wrapper: ClassVar[Any]

    def __init__(
        self,
        context: Context,
        flags: int,
        buffer: VirtualBuffer,
        offset: int,
        nbytes: int,
        parent: Memory | None = None,
        hostbuf: Any = None,
        argument: BufferArg | None = None,
        spares: SpareBuffers | None = None,
    ) -> None:
        """`argument`: by which launches know the buffer already. `spares`: where it is kept for another memory object after the last
        release.
        """
        self.context = context
        self.flags = flags
        self.buffer = buffer
        self.offset = offset
        self.nbytes = nbytes
        self.parent = parent
        self.hostbuf = hostbuf  #: the program's object, for USE_HOST_PTR
        self.map_count = 0
        self.references = 1
        #: the offset of the last blocking read into a plain array, which was in bounds and allowed, and what makes it again
        self.last_read: tuple[int, RepeatedRead | None] = _NONE
        self.last_write: tuple[int, RepeatedWrite | RecalledWrite | None] = _NONE  #: the same of a write
        self.last_later: tuple[int, LaterRead | None] = _NONE  #: … of a read that is not blocking
        #: what mappings that the program has asked for were found to be (`vdev.facade.maps`)
        self.mappings: dict[Any, Any] = _NO_MAPPINGS
        self._handle: Any = 0
        self.at_end: tuple[Callable[[], object], ...] = ()  #: called after the last release, the last first
        self.argument = BufferArg(buffer, offset, nbytes) if argument is None else argument
        self.spares = spares
        if parent is not None:
            parent.retain()

    def retain(self) -> None:
        with _lock:
            self.references += 1

    def release(self) -> None:
        """Drop one reference.

        With the last one go the session's buffer and the argument: commands under way hold the buffer themselves,
        kernels do not.
        """
        _lock.acquire()  # `with` takes twice as long, and nothing is raised in between (`vdev.process.interrupts`)
        try:
            left = self.references = self.references - 1
        finally:
            _lock.release()
        if left:
            return
        argument, spares = self.argument, self.spares
        del self.argument, self.buffer
        self.last_later = _NONE
        self.last_read = self.last_write = _NONE  # they keep the buffer's memory
        self.mappings = _NO_MAPPINGS
        if self.at_end:
            for call in reversed(self.at_end):
                call()
        if spares is not None:  # nothing refers to the buffer, mappings and parts among them
            spares.keep(argument)
        if self.parent is not None:
            self.parent.release()


def memory_of_number(number: int) -> Memory:
    """The memory object with that handle."""
    memory: Memory | None = item_of(number, Memory)
    if memory is None or memory.references <= 0:
        fail("clRetainMemObject", status.INVALID_MEM_OBJECT)
    return memory


class MemoryObjectHolder(Single):
    """Objects whose state is a memory object: buffers and pooled buffers."""

    _vdev_state: Memory

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # `__new__` would take part in making each buffer
        raise TypeError(f"pyopencl._cl.{type(self).__name__}: no constructor defined!")

    def get_info(self, arg: int, /) -> Any:
        if arg is _TYPE and (memory := self._vdev_state) is not None and memory.references > 0:
            return memory.type  # PyOpenCL asks for it in each transfer
        query = _QUERIES.get(as_int("get_info", arg))
        if query is None:
            if arg == native.mem_info.HOST_PTR:
                fail(
                    "MemoryObject.get_info",
                    status.INVALID_VALUE,
                    "Use MemoryObject.get_host_array to get host pointer.",
                )
            fail("MemoryObjectHolder.get_info", status.INVALID_VALUE)
        return query(live_memory(self, "clGetMemObjectInfo"))

    def get_host_array(self, shape: Any, dtype: Any, order: str = "C") -> Any:
        """The program's memory behind a USE_HOST_PTR buffer, as an array of that shape."""
        memory = live_memory(self, "clGetMemObjectInfo")
        kind = np.dtype(dtype)
        routine = "MemoryObject.get_host_array"
        if not memory.flags & USE_HOST_PTR:
            fail(routine, status.INVALID_VALUE, "Only MemoryObject with USE_HOST_PTR is supported.")
        dims = parse_shape(shape)
        strides = contiguous_strides(dims, kind.itemsize, parse_order(order))
        if int(np.prod(dims, dtype=object)) * kind.itemsize > memory.nbytes:
            fail(routine, status.INVALID_VALUE, "Resulting array is larger than memory object.")
        host = memory.buffer.home()[memory.offset : memory.offset + memory.nbytes]
        return export_array(self, array_interface(host, dims, kind, strides))

    @property
    def int_ptr(self) -> int:
        return self._vdev_state._vdev_handle()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryObjectHolder) and self._vdev_state is other._vdev_state

    def __hash__(self) -> int:
        return hash(self._vdev_state)


class MemoryObject(MemoryObjectHolder):
    """A reference to a memory object, given back when released or dropped."""

    _valid = False

    def _vdev_own(self, memory: Memory) -> None:
        """Refer to a memory object, with a reference that has been the caller's."""
        self._vdev_state = memory
        self._valid = True

    def release(self) -> None:
        if not self._valid:
            fail("MemoryObject.free", status.INVALID_VALUE, "trying to double-unref mem object")
        self._valid = False
        self._vdev_state.release()

    def _vdev_give_up(self) -> Memory:
        """The memory object; from now on the reference is the caller's."""
        self._valid = False
        return self._vdev_state

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # at the interpreter's end a thread that will not run again may hold the lock
        if self._valid and not is_ending():
            self._valid = False
            self._vdev_state.release()

    @property
    def hostbuf(self) -> Any:
        return self._vdev_state.hostbuf

    @staticmethod
    def from_int_ptr(int_ptr_value: int, retain: bool = True) -> Any:
        memory = memory_of_number(as_int("from_int_ptr", int_ptr_value))
        memory.retain()
        if not retain and not take_back(int_ptr_value):
            memory.release()
        return wrap_memory(memory)


class Buffer(MemoryObject):
    """A buffer or sub-buffer (clCreateBuffer, clCreateSubBuffer)."""

    def __init__(self, context: Context, flags: int, size: int = 0, hostbuf: Any = None) -> None:
        if (
            hostbuf is None
            and type(flags) is type(size) is int
            and flags in _plain
            and type(context) is Context
        ):
            state = context._vdev_state
            if 0 < size <= state.limits["MAX_MEM_ALLOC_SIZE"]:  # as most are made, with fewer calls
                self._vdev_state = _create_plain(context, flags, size, state.session)
                self._valid = True
                return
        host: Bytes | None = None
        nbytes = size
        if not (
            type(context) is Context
            and type(flags) is type(nbytes) is int
            and 0 <= flags <= _MOST
            and 0 <= nbytes <= _MOST
        ):
            check_type("__init__", context, Context)
            flags = as_int("__init__", flags)
            nbytes = as_int("__init__", size)
        if hostbuf is not None:
            if not flags & (USE_HOST_PTR | COPY_HOST_PTR):
                warnings.warn(
                    "'hostbuf' was passed, but no memory flags to make use of it.", UserWarning, stacklevel=2
                )
            host = as_bytes(
                hostbuf, writable=bool(flags & USE_HOST_PTR and flags & (READ_WRITE | WRITE_ONLY))
            )
            if nbytes > host.size:
                fail("Buffer", status.INVALID_VALUE, "specified size is greater than host buffer size")
            nbytes = nbytes or host.size
        check_buffer(context, flags, nbytes, host is not None)
        self._vdev_state = create_memory(context, flags, nbytes, host, hostbuf)
        self._valid = True

    def get_sub_region(self, origin: int, size: int, flags: int = 0) -> Buffer:
        check_type("get_sub_region", self, Buffer)
        origin = as_int("get_sub_region", origin)
        size = as_int("get_sub_region", size)
        flags = as_int("get_sub_region", flags)
        memory = live_memory(self, "clCreateSubBuffer")
        flags = _check_sub_buffer(memory, origin, size, flags)
        part = Memory(memory.context, flags, memory.buffer, memory.offset + origin, size, parent=memory)
        sub_buffer: Buffer = wrap_memory(part)
        return sub_buffer

    def __getitem__(self, arg: slice, /) -> Buffer:
        routine = "Buffer.__getitem__"
        if not isinstance(arg, slice):
            fail(routine, status.INVALID_VALUE, "Buffer slice must be a slice object")
        memory = live_memory(self, "clGetMemObjectInfo")
        start, stop, step = arg.indices(memory.nbytes)
        if step != 1:
            fail(routine, status.INVALID_VALUE, "Buffer slice must have stride 1")
        if stop <= start:
            fail(routine, status.INVALID_VALUE, "Buffer slice have end > start")
        return self.get_sub_region(start, stop - start, memory.flags & ~COPY_HOST_PTR)


def live_memory(holder: MemoryObjectHolder, routine: str) -> Memory:
    """The memory behind `holder`; INVALID_MEM_OBJECT after the last release."""
    memory: Memory | None = state_of(holder)  # None: a block that was given back to its pool
    if memory is None or memory.references <= 0:
        fail(routine, status.INVALID_MEM_OBJECT)
    return memory


def wrap_memory(memory: Memory) -> Any:
    """A wrapper that owns one reference to `memory`."""
    holder = object.__new__(memory.wrapper)
    holder._vdev_own(memory)
    return holder


Memory.wrapper = Buffer


def _count(flags: int, group: int) -> int:
    return bin(flags & group).count("1")


#: combinations of flags that programs have used and that are valid; and those of buffers that begin without a content, not 0
_fitting: set[int] = set()
_plain: set[int] = set()


def check_flags(routine: str, flags: int) -> None:
    """INVALID_VALUE for flags that do not go together (table "List of supported memory flag values")."""
    if flags in _fitting:
        return
    if flags & ~_KNOWN_FLAGS or _count(flags, _ACCESS) > 1 or _count(flags, _HOST_ACCESS) > 1:
        fail(routine, status.INVALID_VALUE)
    if flags & USE_HOST_PTR and flags & (ALLOC_HOST_PTR | COPY_HOST_PTR):
        fail(routine, status.INVALID_VALUE)
    _fitting.add(flags)


def check_buffer(context: Context, flags: int, nbytes: int, has_host: bool) -> None:
    """What clCreateBuffer refuses (specification 5.2.1)."""
    routine = "create_buffer"
    if flags not in _fitting:
        check_flags(routine, flags)
    if flags & _mem.KERNEL_READ_AND_WRITE:  # it only asks about images' formats
        fail(routine, status.INVALID_VALUE)
    if has_host != bool(flags & (USE_HOST_PTR | COPY_HOST_PTR)):
        fail(routine, status.INVALID_HOST_PTR)
    if nbytes == 0 or nbytes > state_of(context).limits["MAX_MEM_ALLOC_SIZE"]:
        fail(routine, status.INVALID_BUFFER_SIZE)
    if flags and not has_host:
        _plain.add(flags)


def _create_plain(context: Context, flags: int, nbytes: int, session: Session) -> Memory:
    """A new memory object, with flags other than 0, without content."""
    spares = session.spares
    argument = spares.take(nbytes)
    if argument is None:
        memory = Memory(context, flags, session.create_buffer(nbytes), 0, nbytes, spares=spares)
        spares.enter(memory.argument)
        return memory
    return Memory(context, flags, argument.buffer, 0, nbytes, argument=argument, spares=spares)


def create_memory(
    context: Context, flags: int, nbytes: int, host: Bytes | None = None, hostbuf: Any = None
) -> Memory:
    """A new memory object, filled from `host` if the flags say so."""
    flags = flags or READ_WRITE  # reported so; without an access flag, other flags stay as they are
    session = state_of(context).session
    if host is None:
        return _create_plain(context, flags, nbytes, session)
    host = host[:nbytes]
    if flags & USE_HOST_PTR:
        # the program's memory is the buffer's home: the program sees both as one
        place = shared_place(host) or (session.create_over(host, fine=_in_place(context, host)), 0)
        return Memory(context, flags, *place, nbytes, hostbuf=hostbuf)
    bring_home(session, host)
    if session.refills_at_once(nbytes):
        memory = _create_plain(context, flags, nbytes, session)
        if session.fill_at_once(memory.buffer, host):
            return memory
        memory.release()
    return Memory(context, flags, session.create_filled(nbytes, host), 0, nbytes)


def _in_place(context: Context, host: Bytes) -> bool:
    """Whether kernels work in the memory that the program gives for a buffer: where that is the workers' own and they can use any of it.
    Natively they do so, too, and programs look into that memory without mapping it.
    """
    state = state_of(context)
    aligned = host.ctypes.data % (state.limits["MEM_BASE_ADDR_ALIGN"] // 8) == 0
    return aligned and all(map(shares_host_memory, state.session.workers))


def _check_sub_buffer(memory: Memory, origin: int, nbytes: int, flags: int) -> int:
    """The flags of a sub-buffer, inherited where not given (specification 5.2.1, clCreateSubBuffer)."""
    routine = "clCreateSubBuffer"
    if memory.parent is not None:
        fail(routine, status.INVALID_MEM_OBJECT)
    if flags & ~_KNOWN_FLAGS or _count(flags, _ACCESS) > 1 or _count(flags, _HOST_ACCESS) > 1:
        fail(routine, status.INVALID_VALUE)
    if flags & _HOST_POINTER:
        fail(routine, status.INVALID_VALUE if flags & ALLOC_HOST_PTR else status.INVALID_HOST_PTR)
    access, parent_access = flags & _ACCESS, memory.flags & _ACCESS
    if parent_access in (WRITE_ONLY, READ_ONLY) and access not in (0, parent_access):
        fail(routine, status.INVALID_VALUE)
    host_access, parent_host = flags & _HOST_ACCESS, memory.flags & _HOST_ACCESS
    if parent_host and host_access not in (0, parent_host, HOST_NO_ACCESS):
        fail(routine, status.INVALID_VALUE)
    if nbytes == 0:
        fail(routine, status.INVALID_BUFFER_SIZE)
    if origin + nbytes > memory.nbytes:
        fail(routine, status.INVALID_VALUE)
    if origin % state_of(memory.context).limits["ORIGIN_NBYTES"]:
        fail(routine, status.MISALIGNED_SUB_BUFFER_OFFSET)
    inherited: int = (access or parent_access) | (host_access or parent_host) | memory.flags & _HOST_POINTER
    return inherited


def parse_shape(shape: Any) -> tuple[int, ...]:
    """A shape as one int or a sequence of them."""
    try:
        return (shape.__index__(),)
    except AttributeError:
        return cast_ints(shape)


def parse_order(order: Any) -> str:
    """ "C" or "F" (numpy's converter, then what the native module accepts)."""
    if isinstance(order, str) and order in ("C", "c", "F", "f"):
        return order.upper()
    raise RuntimeError("unrecognized order specifier")


def _parent_of(memory: Memory) -> Buffer | None:
    if memory.parent is None:
        return None
    memory.parent.retain()
    parent: Buffer = wrap_memory(memory.parent)
    return parent


def _uses_svm(memory: Memory) -> int:
    """Whether the program gave shared virtual memory for the buffer to use."""
    if memory.parent is not None or not memory.flags & USE_HOST_PTR:
        return 0
    return int(find(memory.buffer.home().ctypes.data) is not None)


_QUERIES: dict[int, Any] = {
    native.mem_info.TYPE: attrgetter("type"),
    native.mem_info.FLAGS: lambda memory: memory.flags,
    native.mem_info.SIZE: lambda memory: memory.nbytes,
    native.mem_info.MAP_COUNT: lambda memory: memory.map_count,
    native.mem_info.REFERENCE_COUNT: lambda memory: memory.references,
    native.mem_info.CONTEXT: lambda memory: memory.context,
    native.mem_info.ASSOCIATED_MEMOBJECT: _parent_of,
    native.mem_info.OFFSET: lambda memory: (
        0 if memory.parent is None else memory.offset - memory.parent.offset
    ),
    native.mem_info.USES_SVM_POINTER: _uses_svm,
    native.mem_info.PROPERTIES: lambda memory: [],
}
