"""Programs: source, options, build state, log and binaries (specification 5.8).

A program object follows the states of the specification; compiling is the session's affair, and linking
`linking`'s.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from weakref import WeakSet

from vdev.facade.context import Context
from vdev.facade.errors import as_int, check_type, fail, fail_cast, fail_type, make_error, native, status
from vdev.facade.handles import Handle, state_of
from vdev.facade.hostbuf import as_bytes
from vdev.facade.platform_device import Device

if TYPE_CHECKING:
    from vdev.errors import BuildError
    from vdev.facade.linking import CompiledObject
    from vdev.session.programs import SessionProgram

_NONE, _ERROR, _SUCCESS = -1, -2, 0
_TYPE_NONE, _TYPE_OBJECT, _TYPE_LIBRARY, _TYPE_EXECUTABLE = 0, 1, 2, 4
_UNKNOWN_SOURCE = ""
#: the first word of SPIR-V in either byte order (SPIR-V specification 2.3)
_SPIRV_MAGIC = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")
_OUTDATED = ("-cl-strict-aliasing",)
_LINKING = ("-create-library", "-enable-link-options")


# Programs are built with the same options again and again, which are read by the character.
@functools.lru_cache(maxsize=64)
def option_words(options: bytes) -> tuple[str, ...]:
    """A build's options as words, quoted if necessary, without hints of OpenCL 1.0 that later compilers refuse."""
    # loaded together with the other users of the translators
    from vdev.translators.frontend.options import (
        quote_option,
        split_options,
    )

    words = split_options(options.decode())
    return tuple([quote_option(word) for word in words if word not in _OUTDATED])


def _check_options(context: Context, words: Sequence[str], routine: str, code: int) -> None:
    """Fail with `code` where an engine refuses options."""
    refusal = _refusal_of_options(context, words)
    if refusal is not None:
        fail(routine, code, refusal.log)


def _refusal_of_options(context: Context, words: Sequence[str]) -> BuildError | None:
    """Options that are not the specification's are the engines' to judge, by a program that has nothing else; None: they take them."""
    from vdev.errors import BuildError
    from vdev.translators.frontend.options import unusual_options  # loaded together with the others

    unusual = unusual_options(words)
    try:
        if unusual:
            state_of(context).session.build("", unusual)
    except BuildError as error:
        return error if error.status == status.INVALID_BUILD_OPTIONS else None
    return None


def check_devices(devices: Iterable[Device] | None) -> None:
    """Check a list of devices to build for: there is only one device."""
    if devices is None:
        return
    for device in devices:
        if not isinstance(device, Device):
            fail_cast()


class ProgramState:
    """A program in one of the states of the specification: what it is made from, and the result of its build."""

    kernel_class: ClassVar[Any]  #: `Kernel`, which is in a module above

    def __init__(self, context: Context) -> None:
        self.context = context
        self.source = _UNKNOWN_SOURCE
        self.kind = native.program_kind.UNKNOWN
        self.built: SessionProgram | None = None  #: the executable
        self.compiled: CompiledObject | None = None  #: the results of compile and of link -create-library
        self.loaded: tuple[str | bytes, tuple[str, ...]] | None = (
            None  #: source and options taken from a binary
        )
        self.binary = b""  #: that binary
        self.il: bytes | None = None  #: the program, if it is in an intermediate language
        self.values: dict[int, bytes] = {}  #: of its specialization constants, where they were given
        self.status, self.binary_type = _NONE, _TYPE_NONE
        self.options, self.log = "", ""
        self.kernels: WeakSet[Handle] = WeakSet()  #: those that have been made and still exist
        #: by name: what the objects of a kernel share (`vdev.facade.kernel.Signature`)
        self.signatures: dict[str, Any] = {}
        #: by name: what the last kernel of that name that has been dropped knew (`vdev.facade.spare_kernels`)
        self.spares: dict[str, Any] = {}

    def specialised(self, il: bytes) -> bytes:
        """The program in an intermediate language, with the values of its constants that were given."""
        if not self.values:
            return il
        from vdev.session.specialization import Specializable  # few programs have any

        return Specializable(il).with_values(self.values)

    def load(self, binary: bytes) -> None:
        """Take the program out of a binary."""
        from vdev.facade.linking import load_object
        from vdev.session.programs import load_binary

        self.status, self.binary_type = _SUCCESS, _TYPE_EXECUTABLE
        try:
            found = load_object(binary)
            if found is None:
                self.loaded = load_binary(binary)
            else:
                self.compiled, self.binary_type = found
        except ValueError:
            fail("clCreateProgramWithBinary", status.INVALID_BINARY)
        self.kind = native.program_kind.BINARY
        self.binary = binary

    def set_built(self, built: SessionProgram) -> None:
        """The build succeeded."""
        self.built, self.compiled = built, None
        self.log = built.log
        self.status, self.binary_type = _SUCCESS, _TYPE_EXECUTABLE

    def set_compiled(self, compiled: CompiledObject, binary_type: int) -> None:
        """The compilation, or the link of a library, succeeded."""
        self.built, self.compiled = None, compiled
        self.status, self.binary_type = _SUCCESS, binary_type

    def set_failed(self, log: str) -> None:
        """The build, the compilation or the link failed, with this log."""
        self.built, self.compiled = None, None
        self.log = log
        self.status, self.binary_type = _ERROR, _TYPE_NONE

    def fail_build(self, routine: str, code: int, log: str) -> NoReturn:
        """The build failed, with this log."""
        self.set_failed(log)
        fail(routine, code)

    def executable(self, routine: str, code: int = status.INVALID_PROGRAM_EXECUTABLE) -> SessionProgram:
        """The executable; the error `code` if nothing has been built."""
        if self.built is None:
            fail(routine, code)
        return self.built

    def kernel_names(self) -> list[str]:
        """The kernels of the executable."""
        return list(self.executable("clGetProgramInfo").kernels)

    def binaries(self) -> list[bytes]:
        """One for the only device; empty if there is none."""
        if self.compiled is not None:
            from vdev.facade.linking import pack_object  # few programs need it

            return [pack_object(self.compiled, self.binary_type)]
        return [self.binary if self.built is None else self.built.binary]


class _Program(Handle):
    """A program object. `pyopencl.Program` wraps it."""

    _retain = "clRetainProgram"
    _invalid = status.INVALID_PROGRAM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        context, *rest = _parse_arguments(args, kwargs)
        self._handle = 0
        self._vdev_state = ProgramState(context)
        if len(rest) == 1:
            self._vdev_state.source = rest[0] if isinstance(rest[0], str) else rest[0].decode()
            self._vdev_state.kind = native.program_kind.SOURCE
        elif rest:
            self._load(*rest)

    def _load(self, devices: Sequence[Device], binaries: Sequence[Any]) -> None:
        if len(devices) != len(binaries):
            fail("create_program_with_binary", status.INVALID_VALUE, "device and binary counts don't match")
        check_devices(devices)
        contents = [as_bytes(binary).tobytes() for binary in binaries]
        if not contents or not all(contents):
            fail("clCreateProgramWithBinary", status.INVALID_VALUE)
        self._vdev_state.load(contents[0])

    @staticmethod
    def create_with_built_in_kernels(
        context: Context, devices: Sequence[Device], kernel_names: str
    ) -> _Program:
        """The device has no built-in kernels."""
        check_type("create_with_built_in_kernels", context, Context)
        check_devices(devices)
        fail("clCreateProgramWithBuiltInKernels", status.INVALID_VALUE)

    def kind(self) -> Any:
        return self._vdev_state.kind

    # {{{ build

    def _build(self, options: bytes = b"", devices: Sequence[Device] | None = None) -> None:
        """clBuildProgram. RuntimeError with BUILD_PROGRAM_FAILURE, and clang's messages in the log, if the source is
        wrong.
        """
        from vdev.errors import BuildError

        routine = "clBuildProgram"
        check_type("_build", options, bytes)
        check_devices(devices)
        state = self._vdev_state
        if state.kernels:
            fail(routine, status.INVALID_OPERATION)
        source: str | bytes = state.source
        words = option_words(options)
        if state.il is not None:
            source = state.specialised(state.il)
        elif state.loaded is not None:
            source, words = state.loaded[0], tuple(state.loaded[1])
        elif state.kind != native.program_kind.SOURCE:
            fail(routine, status.INVALID_OPERATION)
        state.options = options.decode()
        try:
            built = state_of(state.context).session.build(source, words)
        except BuildError as error:
            # Of a source that is wrong, compilers may say no more than that: wrong options come first.
            judged = _refusal_of_options(state.context, words) or error
            state.fail_build(routine, judged.status, judged.log)
        state.set_built(built)

    def compile(
        self,
        options: bytes = b"",
        devices: Sequence[Device] | None = None,
        headers: Iterable[tuple[str, _Program]] = (),
    ) -> None:
        """clCompileProgram: check the source and keep it, preprocessed, for a link."""
        from vdev.facade.linking import LinkFailure, compile_object  # few programs need it

        routine = "clCompileProgram"
        check_type("compile", options, bytes)
        check_devices(devices)
        texts: dict[str, str] = {}
        for entry in headers:
            if len(entry) != 2:
                fail("Program.compile", status.INVALID_VALUE, "expected (name, header) tuple in headers list")
            if not isinstance(entry[0], str) or not isinstance(entry[1], _Program):
                fail_cast()
            texts[entry[0]] = entry[1]._vdev_state.source
        state = self._vdev_state
        if state.kernels or state.kind != native.program_kind.SOURCE:
            fail(routine, status.INVALID_OPERATION)
        words = option_words(options)
        _check_options(state.context, words, routine, status.INVALID_COMPILER_OPTIONS)
        state.options = options.decode()
        try:
            compiled = compile_object(state.source, words, texts, state_of(state.context).session.workers)
        except LinkFailure as failure:
            state.fail_build(routine, status.COMPILE_PROGRAM_FAILURE, failure.log)
        state.log = compiled.log
        state.set_compiled(compiled, _TYPE_OBJECT)

    @staticmethod
    def link(
        context: Context,
        programs: Iterable[_Program],
        options: bytes = b"",
        devices: Sequence[Device] | None = None,
    ) -> _Program:
        """clLinkProgram: an executable, or a library with `-create-library`, of compiled programs."""
        linked = _Program._vdev_linked(context, programs, options, devices)
        state = linked._vdev_state
        if state.status != _SUCCESS:
            raise make_error("clLinkProgram", status.LINK_PROGRAM_FAILURE, state.log)
        return linked

    @staticmethod
    def _vdev_linked(
        context: Context,
        programs: Iterable[_Program],
        options: bytes = b"",
        devices: Sequence[Device] | None = None,
    ) -> _Program:
        """The same; a program with the linker's messages as its log if the link fails."""
        from vdev.errors import BuildError
        from vdev.facade.linking import link_objects  # few programs need it

        routine = "clLinkProgram"
        check_type("link", context, Context)
        check_type("link", options, bytes)
        check_devices(devices)
        parts = list(programs)
        if not all(isinstance(part, _Program) for part in parts):
            fail_cast()
        if not parts:
            fail(routine, status.INVALID_VALUE)
        if any(part._vdev_state.context is not context for part in parts):
            fail(routine, status.INVALID_PROGRAM)
        objects = [part._vdev_state.compiled for part in parts]
        if any(item is None for item in objects):
            fail(routine, status.INVALID_OPERATION)
        words = option_words(options)
        compiling = [word for word in words if word not in _LINKING]
        _check_options(context, compiling, routine, status.INVALID_LINKER_OPTIONS)
        linked = _unknown_program(context)
        state = linked._vdev_state
        state.options = options.decode()
        joined = link_objects([item for item in objects if item is not None])
        if "-create-library" in words:
            state.set_compiled(joined, _TYPE_LIBRARY)
            return linked
        try:
            state.set_built(state_of(context).session.build(joined.source, [*joined.options, *compiling]))
        except BuildError as error:
            state.set_failed(error.log)
        return linked

    def set_specialization_constant(self, spec_id: int, buffer: Any) -> None:
        """Of a program in an intermediate language, for builds from now on; the value as its bytes."""
        from vdev.session.specialization import Specializable  # few programs have any

        routine, state = "clSetProgramSpecializationConstant", self._vdev_state
        number = as_int("set_specialization_constant", spec_id, 0, 2**32 - 1)
        value = as_bytes(buffer).tobytes()
        if state.il is None:
            fail(routine, status.INVALID_PROGRAM)
        constant = Specializable(state.il).constants.get(number)
        if constant is None:
            fail(routine, status.INVALID_SPEC_ID)
        if len(value) != constant.nbytes:
            fail(routine, status.INVALID_VALUE)
        state.values[number] = value

    # }}}

    # {{{ queries

    def get_info(self, arg: int, /) -> Any:
        arg = as_int("get_info", arg)
        query = _QUERIES.get(arg)
        if query is None:
            fail("Program.get_info", status.INVALID_VALUE)
        return query(self._vdev_state)

    def get_build_info(self, arg0: Device, arg1: int, /) -> Any:
        check_type("get_build_info", arg0, Device)
        arg1 = as_int("get_build_info", arg1)
        info = native.program_build_info
        if arg1 == info.STATUS:
            return self._vdev_state.status
        if arg1 == info.OPTIONS:
            return self._vdev_state.options
        if arg1 == info.LOG:
            return self._vdev_state.log
        if arg1 == info.BINARY_TYPE:
            return self._vdev_state.binary_type
        if arg1 == info.GLOBAL_VARIABLE_TOTAL_SIZE:
            self._vdev_state.executable("clGetProgramBuildInfo", status.INVALID_PROGRAM)
            return 0
        fail("Program.get_build_info", status.INVALID_VALUE)

    def all_kernels(self) -> list[Any]:
        built = self._vdev_state.executable("clCreateKernelsInProgram")
        return [ProgramState.kernel_class(self, name) for name in built.kernels]

    # }}}


def _parse_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The overloads: (context, src) and (context, devices, binaries)."""
    for names in (("context", "src"), ("context", "devices", "binaries")):
        if len(args) + len(kwargs) == len(names) and set(kwargs) == set(names[len(args) :]):
            values = [*args, *(kwargs[name] for name in names[len(args) :])]
            if not isinstance(values[0], Context):
                break
            if len(values) == 2 and isinstance(values[1], str | bytes):
                return values
            if len(values) == 3 and all(hasattr(value, "__getitem__") for value in values[1:]):
                return values
    fail_type("__init__", *args, *kwargs.values())


_info = native.program_info
_QUERIES: dict[int, Any] = {
    _info.REFERENCE_COUNT: lambda program: 1,
    _info.CONTEXT: lambda program: program.context,
    _info.NUM_DEVICES: lambda program: 1,
    _info.DEVICES: lambda program: [state_of(program.context).device],
    _info.SOURCE: lambda program: program.source,
    _info.BINARY_SIZES: lambda program: [len(binary) for binary in program.binaries()],
    _info.BINARIES: lambda program: program.binaries(),
    _info.NUM_KERNELS: lambda program: len(program.kernel_names()),
    _info.KERNEL_NAMES: lambda program: ";".join(program.kernel_names()),
    _info.IL: lambda program: program.il or "",
    _info.SCOPE_GLOBAL_CTORS_PRESENT: lambda program: 0,
    _info.SCOPE_GLOBAL_DTORS_PRESENT: lambda program: 0,
}


def _create_program_with_il(arg0: Context, arg1: bytes, /) -> _Program:
    """A program in an intermediate language that every worker takes (clCreateProgramWithIL)."""
    check_type("_create_program_with_il", arg0, Context)
    check_type("_create_program_with_il", arg1, bytes)
    if not state_of(arg0).limits["IL_VERSION"]:
        fail("clCreateProgramWithIL", status.INVALID_OPERATION)
    if arg1[:4] not in _SPIRV_MAGIC:
        fail("clCreateProgramWithIL", status.INVALID_VALUE)
    program = _unknown_program(arg0)
    state = state_of(program)
    state.kind = native.program_kind.IL
    state.il = arg1
    return program


def _unknown_program(context: Context) -> _Program:
    """A program that is not made of source."""
    program: _Program = object.__new__(_Program)
    _Program.__init__(program, context, _UNKNOWN_SOURCE)
    state_of(program).kind = native.program_kind.UNKNOWN
    return program
