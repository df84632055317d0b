"""Programs: source, options, build state, log and binaries (specification 5.8).

A program object follows the states of the specification; compiling is the session's affair, and linking
`linking`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

from vdev.facade.context import Context
from vdev.facade.errors import as_int, check_type, fail, fail_cast, fail_type, make_error, native, status
from vdev.facade.handles import Handle
from vdev.facade.hostbuf import as_bytes
from vdev.facade.linking import CompiledObject, LinkFailure, compile_object, link_objects
from vdev.facade.platform_device import Device

if TYPE_CHECKING:
    from vdev.facade.kernel import Kernel
    from vdev.session.programs import SessionProgram

_NONE, _ERROR, _SUCCESS = -1, -2, 0
_TYPE_NONE, _TYPE_OBJECT, _TYPE_LIBRARY, _TYPE_EXECUTABLE = 0, 1, 2, 4
_UNKNOWN_SOURCE = ""
#: the first word of SPIR-V in either byte order (SPIR-V specification 2.3)
_SPIRV_MAGIC = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")
_OUTDATED = ("-cl-strict-aliasing",)


def option_words(options: bytes) -> list[str]:
    """A build's options as words, quoted where that is needed, less hints of OpenCL 1.0 that later compilers refuse."""
    from vdev.translators.frontend.options import (
        quote_option,
        split_options,
    )  # with the other users of translators

    return [quote_option(word) for word in split_options(options.decode()) if word not in _OUTDATED]


def check_devices(devices: Iterable[Device] | None) -> None:
    """A list of devices to build for: there is only one."""
    if devices is None:
        return
    for device in devices:
        if not isinstance(device, Device):
            fail_cast()


class _Program(Handle):
    """A program object. `pyopencl.Program` wraps it."""

    _retain = "clRetainProgram"
    _invalid = status.INVALID_PROGRAM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        context, *rest = _parse_arguments(args, kwargs)
        self._handle = 0
        self._context: Context = context
        self._source = _UNKNOWN_SOURCE
        self._kind = native.program_kind.UNKNOWN
        self._built: SessionProgram | None = None  #: the executable
        self._object: CompiledObject | None = None  #: what compile and link -create-library make
        self._loaded: tuple[str | bytes, tuple[str, ...]] | None = None  #: source and options out of a binary
        self._il: bytes | None = None  #: the program where it is in an intermediate language
        self._status, self._binary_type = _NONE, _TYPE_NONE
        self._options, self._log = "", ""
        self._kernels: WeakSet[Kernel] = WeakSet()
        if len(rest) == 1:
            self._source = rest[0] if isinstance(rest[0], str) else rest[0].decode()
            self._kind = native.program_kind.SOURCE
        elif rest:
            self._load(*rest)

    def _load(self, devices: Sequence[Device], binaries: Sequence[Any]) -> None:
        from vdev.session.programs import load_binary  # loads sympy and libclang

        if len(devices) != len(binaries):
            fail("create_program_with_binary", status.INVALID_VALUE, "device and binary counts don't match")
        check_devices(devices)
        contents = [as_bytes(binary).tobytes() for binary in binaries]
        if not contents or not all(contents):
            fail("clCreateProgramWithBinary", status.INVALID_VALUE)
        try:
            self._loaded = load_binary(contents[0])
        except ValueError:
            fail("clCreateProgramWithBinary", status.INVALID_BINARY)
        self._kind = native.program_kind.BINARY
        self._status, self._binary_type = _SUCCESS, _TYPE_EXECUTABLE
        self._contents = contents[0]

    @staticmethod
    def create_with_built_in_kernels(
        context: Context, devices: Sequence[Device], kernel_names: str
    ) -> _Program:
        """The device has no built-in kernels."""
        check_type("create_with_built_in_kernels", context, Context)
        check_devices(devices)
        fail("clCreateProgramWithBuiltInKernels", status.INVALID_VALUE)

    def kind(self) -> Any:
        return self._kind

    # {{{ build

    def _build(self, options: bytes = b"", devices: Sequence[Device] | None = None) -> None:
        """clBuildProgram. RuntimeError with BUILD_PROGRAM_FAILURE and clang's messages in the log where the
        source is wrong.
        """
        from vdev.session.programs import BuildError  # loads sympy and libclang

        routine = "clBuildProgram"
        check_type("_build", options, bytes)
        check_devices(devices)
        if self._kernels:
            fail(routine, status.INVALID_OPERATION)
        source: str | bytes = self._source
        words = option_words(options)
        if self._il is not None:
            source = self._il
        elif self._loaded is not None:
            source, words = self._loaded[0], list(self._loaded[1])
        elif self._kind != native.program_kind.SOURCE:
            fail(routine, status.INVALID_OPERATION)
        self._options = options.decode()
        try:
            built = self._context._session.build(source, words)
        except BuildError as error:
            self._fail_build(routine, error.status, error.log)
        self._set_built(built)

    def _set_built(self, built: SessionProgram) -> None:
        self._built = built
        self._log = built.log
        self._status, self._binary_type = _SUCCESS, _TYPE_EXECUTABLE

    def _fail_build(self, routine: str, code: int, log: str) -> NoReturn:
        self._built, self._object = None, None
        self._log = log
        self._status, self._binary_type = _ERROR, _TYPE_NONE
        fail(routine, code)

    def compile(
        self,
        options: bytes = b"",
        devices: Sequence[Device] | None = None,
        headers: Iterable[tuple[str, _Program]] = (),
    ) -> None:
        """clCompileProgram: check the source and keep it, preprocessed, for a link."""
        routine = "clCompileProgram"
        check_type("compile", options, bytes)
        check_devices(devices)
        texts: dict[str, str] = {}
        for entry in headers:
            if len(entry) != 2:
                fail("Program.compile", status.INVALID_VALUE, "expected (name, header) tuple in headers list")
            if not isinstance(entry[0], str) or not isinstance(entry[1], _Program):
                fail_cast()
            texts[entry[0]] = entry[1]._source
        if self._kernels or self._kind != native.program_kind.SOURCE:
            fail(routine, status.INVALID_OPERATION)
        words = option_words(options)
        self._options = options.decode()
        try:
            compiled = compile_object(self._source, words, texts, self._context._session.workers)
        except LinkFailure as failure:
            self._fail_build(routine, status.COMPILE_PROGRAM_FAILURE, failure.log)
        self._object, self._log = compiled, compiled.log
        self._status, self._binary_type = _SUCCESS, _TYPE_OBJECT

    @staticmethod
    def link(
        context: Context,
        programs: Iterable[_Program],
        options: bytes = b"",
        devices: Sequence[Device] | None = None,
    ) -> _Program:
        """clLinkProgram: an executable, or a library with `-create-library`, of compiled programs."""
        from vdev.session.programs import BuildError  # loads sympy and libclang

        routine = "clLinkProgram"
        check_type("link", context, Context)
        check_type("link", options, bytes)
        check_devices(devices)
        parts = list(programs)
        if not all(isinstance(part, _Program) for part in parts):
            fail_cast()
        if not parts:
            fail(routine, status.INVALID_VALUE)
        objects = [part._object for part in parts]
        if any(item is None for item in objects):
            fail(routine, status.INVALID_OPERATION)
        words = option_words(options)
        linked: _Program = object.__new__(_Program)
        _Program.__init__(linked, context, _UNKNOWN_SOURCE)
        linked._kind = native.program_kind.UNKNOWN
        linked._options = options.decode()
        joined = link_objects([item for item in objects if item is not None])
        if "-create-library" in words:
            linked._object = joined
            linked._status, linked._binary_type = _SUCCESS, _TYPE_LIBRARY
            return linked
        words = [word for word in words if word != "-enable-link-options"]
        try:
            linked._set_built(context._session.build(joined.source, [*joined.options, *words]))
        except BuildError as error:
            raise make_error(routine, status.LINK_PROGRAM_FAILURE, error.log) from None
        return linked

    def set_specialization_constant(self, spec_id: int, buffer: Any) -> None:
        """Only programs of an intermediate language have them, and the device takes none."""
        as_int("set_specialization_constant", spec_id, 0, 2**32 - 1)
        as_bytes(buffer)
        fail("clSetProgramSpecializationConstant", status.INVALID_PROGRAM)

    # }}}

    # {{{ queries

    def get_info(self, arg: int, /) -> Any:
        arg = as_int("get_info", arg)
        query = _QUERIES.get(arg)
        if query is None:
            fail("Program.get_info", status.INVALID_VALUE)
        return query(self)

    def get_build_info(self, arg0: Device, arg1: int, /) -> Any:
        check_type("get_build_info", arg0, Device)
        arg1 = as_int("get_build_info", arg1)
        info = native.program_build_info
        if arg1 == info.STATUS:
            return self._status
        if arg1 == info.OPTIONS:
            return self._options
        if arg1 == info.LOG:
            return self._log
        if arg1 == info.BINARY_TYPE:
            return self._binary_type
        if arg1 == info.GLOBAL_VARIABLE_TOTAL_SIZE:
            self._executable("clGetProgramBuildInfo", status.INVALID_PROGRAM)
            return 0
        fail("Program.get_build_info", status.INVALID_VALUE)

    def _executable(self, routine: str, code: int = status.INVALID_PROGRAM_EXECUTABLE) -> SessionProgram:
        if self._built is None:
            fail(routine, code)
        return self._built

    def _kernel_names(self) -> list[str]:
        return list(self._executable("clGetProgramInfo").kernels)

    def _binaries(self) -> list[bytes]:
        if self._built is not None:
            return [self._built.binary]
        return [self._contents] if self._loaded is not None else [b""]

    def all_kernels(self) -> list[Kernel]:
        from vdev.facade.kernel import make_kernel  # kernels import programs

        built = self._executable("clCreateKernelsInProgram")
        return [make_kernel(self, kernel) for kernel in built.kernels.values()]

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
    _info.CONTEXT: lambda program: program._context,
    _info.NUM_DEVICES: lambda program: 1,
    _info.DEVICES: lambda program: [program._context._device],
    _info.SOURCE: lambda program: program._source,
    _info.BINARY_SIZES: lambda program: [len(binary) for binary in program._binaries()],
    _info.BINARIES: lambda program: program._binaries(),
    _info.NUM_KERNELS: lambda program: len(program._kernel_names()),
    _info.KERNEL_NAMES: lambda program: ";".join(program._kernel_names()),
    _info.IL: lambda program: program._il or "",
    _info.SCOPE_GLOBAL_CTORS_PRESENT: lambda program: 0,
    _info.SCOPE_GLOBAL_DTORS_PRESENT: lambda program: 0,
}


def _create_program_with_il(arg0: Context, arg1: bytes, /) -> _Program:
    """A program in an intermediate language that every worker takes (clCreateProgramWithIL)."""
    check_type("_create_program_with_il", arg0, Context)
    check_type("_create_program_with_il", arg1, bytes)
    if not arg0._device._values["IL_VERSION"]:
        fail("clCreateProgramWithIL", status.INVALID_OPERATION)
    if arg1[:4] not in _SPIRV_MAGIC:
        fail("clCreateProgramWithIL", status.INVALID_VALUE)
    program: _Program = object.__new__(_Program)
    _Program.__init__(program, arg0, _UNKNOWN_SOURCE)
    program._kind = native.program_kind.IL
    program._il = arg1
    return program
