"""Compiling with any C compiler: `libvdev_opencl.so`, the driver that OpenCL's loaders find; `libvdev_calls.so`, which makes
drivers' calls in a row; `libvdev_ranges.so`, which works with sets of bytes; and `libvdev_launches.so`, which has what launches
pass through.

Decides how calls cross from C to Python, by generating the C for each row of `vdev/icd/functions.py`, and which
compiler is used. It imports nothing of vdev, because it runs where a wheel is built and vdev's requirements are not
installed. What only compiling needs is imported when something is compiled, because every start of a program under
`vdev-run` loads this module.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

NAME = "libvdev_opencl.so"
CALLS_NAME = "libvdev_calls.so"
RANGES_NAME = "libvdev_ranges.so"
LAUNCHES_NAME = "libvdev_launches.so"
#: where the package has them
PLACES = {NAME: "icd", CALLS_NAME: "backends", RANGES_NAME: "translators/ranges", LAUNCHES_NAME: "backends"}
_FOLDER = Path(__file__).parents[1] / "icd"
_SOURCE = _FOLDER / "native" / "library.c"
_TABLE = _FOLDER / "functions.py"
_CALLS_SOURCE = _FOLDER.parent / "backends" / "native" / "calls.c"
#: the oldest system that ziglang is told to compile for (PEP 600: manylinux_2_17)
_OLD = "linux-gnu.2.17"
#: entries after those that are known, for loaders that know more
_SPARE = 32

_TYPES = {"uint": "uint32_t", "int": "int32_t", "size": "size_t", "bits": "uint64_t"}
_BOXES = {
    "uint": "PyLong_FromUnsignedLongLong(a{0})",
    "int": "PyLong_FromLongLong(a{0})",
    "size": "PyLong_FromUnsignedLongLong(a{0})",
    "bits": "PyLong_FromUnsignedLongLong(a{0})",
    "pointer": "PyLong_FromUnsignedLongLong((uintptr_t)a{0})",
    "waits": "waits(a{0}, a{0}_list)",
}
#: by result: the parameters after those that the table names, the function's type, and the expression for its result
_RESULTS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "status": ((), "int32_t", "as_status(result, code)"),
    "command": (("void *event",), "int32_t", "as_command(result, code, event, made)"),
    "info": (
        ("size_t size", "void *value", "void *size_ret"),
        "int32_t",
        "as_info(result, code, size, value, size_ret)",
    ),
    "map": (("void *event", "void *errcode"), "void *", "as_map(result, &code, event, made)"),
    "outcome": (("void *errcode",), "void *", "as_outcome(result, &code)"),
    "address": ((), "void *", "as_address(result)"),
    "nothing": ((), "void", ""),
}
_WITH_ERRCODE = ("map", "outcome")
_WITH_EVENT = ("command", "map")
_WAITING = ("clFlush", "clFinish", "clWaitForEvents")
#: calls that make or register what no launch has anything to do with yet
_BEGINNING = (
    "clCreateCommandQueue", "clCreateCommandQueueWithProperties", "clCreateSubBuffer", "clCreateKernel", "clCreateUserEvent",
    "clSetEventCallback", "clSetMemObjectDestructorCallback", "clSetContextDestructorCallback",
)  # fmt: skip
#: calls that refuse a kernel with arguments that are not set, or gone; that refuse a program which kernels are attached to
_LAUNCHING = ("clEnqueueTask", "clGetKernelSuggestedLocalWorkSizeKHR")
_BUILDING = ("clBuildProgram", "clCompileProgram", "clLinkProgram")
#: by function: what makes the call without Python, where that is possible (`native/commands.c`)
_WITHOUT_PYTHON: Mapping[str, str] = {
    "clEnqueueReadBuffer": "read_without_python(a0, a1, a2, a3, a4, (void *)a5, a6, a6_list, event)",
    "clEnqueueWriteBuffer": "write_without_python(a0, a1, a2, a3, a4, a5, a6, a6_list, event)",
    "clEnqueueCopyBuffer": "copy_without_python(a0, a1, a2, a3, a4, a5, a6, a6_list, event)",
    "clEnqueueFillBuffer": "fill_without_python(a0, a1, a2, a3, a4, a5, a6, a6_list, event)",
    "clEnqueueMarkerWithWaitList": "mark_without_python(a0, 0x11FE, a1, a1_list, event)",
    "clEnqueueBarrierWithWaitList": "mark_without_python(a0, 0x1205, a1, a1_list, event)",
    "clEnqueueMarker": "event != NULL && mark_without_python(a0, 0x11FE, 0, NULL, event)",
    "clEnqueueBarrier": "mark_without_python(a0, 0x1205, 0, NULL, NULL)",
    "clWaitForEvents": "wait_without_python(a0, a1)",
    "clFlush": "flush_without_python(a0)",
    "clFinish": "finish_without_python(a0)",
}
#: by function: what makes its object without Python, where that is possible (`native/memory.c`)
_MADE_WITHOUT_PYTHON: Mapping[str, str] = {
    "clCreateBuffer": "create_without_python(a0, a1, a2, a3)",
    "clCreateKernel": "create_kernel_without_python(a0, a1)",
}
#: by function: what is noted once Python has made the call
_NOTED: Mapping[str, str] = {
    "clCreateBuffer": "note_buffer(value_of, a0, a1, a2)",
    "clCreateKernel": "note_kernel(value_of, a0, a1)",
    "clCloneKernel": "note_clone(value_of, a0)",
    "clSetKernelArgSVMPointer": "note_pointer(value_of, (struct object *)a0, a1)",
    "clEnqueueReadBuffer": "moved((void *)a0, (void *)a1)",
    "clEnqueueWriteBuffer": "moved((void *)a0, (void *)a1)",
    "clEnqueueFillBuffer": "moved((void *)a0, (void *)a1)",
}
#: what answers a query without Python
_ANSWERED: Mapping[str, str] = {
    "clGetEventInfo": "ask_without_python",
    "clGetEventProfilingInfo": "time_without_python",
}
#: by function whose answers never change, so that they are kept: those of its queries whose answers do
_KEPT: Mapping[str, tuple[int, ...]] = {
    "clGetDeviceInfo": (),
    "clGetContextInfo": (),
    "clGetCommandQueueInfo": (),
    "clGetMemObjectInfo": (0x1104,),  # CL_MEM_MAP_COUNT
    "clGetImageInfo": (),
    "clGetSamplerInfo": (),
    "clGetKernelInfo": (),
    "clGetKernelWorkGroupInfo": (0x11B2,),  # CL_KERNEL_LOCAL_MEM_SIZE: with what arguments were set to
}


class NoCompiler(RuntimeError):
    """No C compiler, or one that could not compile the library; the text says which, and what to do."""


def table() -> dict[str, Any]:
    """The names of `vdev/icd/functions.py`."""
    import runpy

    return runpy.run_path(str(_TABLE))


def source_key() -> str:
    """Changes with everything that the library is made from."""
    digest = hashlib.sha256()
    for path in (*sorted(_SOURCE.parent.glob("*.c")), _TABLE, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def calls_key() -> str:
    """The same for the library that makes calls in a row."""
    return _key(_CALLS_SOURCE)


def _key(*sources: Path) -> str:
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def folder(place: str) -> Path:
    """Where a place of the package is. In the source tree the translators lie beside it."""
    package = _FOLDER.parent
    inside = package / place
    return inside if inside.is_dir() else package.parent / place


def stubs() -> str:
    """The generated part of the library: kinds of objects, a function for each row of the tables, the dispatch table, and the
    extensions' functions by name.
    """
    names = table()
    kinds: Mapping[str, tuple[int, int]] = names["KINDS"]
    functions, extensions = names["FUNCTIONS"], names["EXTENSION_FUNCTIONS"]
    lines = [f"static PyObject *functions[{len(functions) + len(extensions)}];"]
    for function in (*functions, *extensions):
        lines += _stub(function, kinds)
    entries = [f"    (void *)c_{function.name}," for function in functions]
    by_name = " ".join(f'{{"{function.name}", (void *)c_{function.name}}},' for function in extensions)
    lines += [f"#define EXTENSION_FUNCTIONS {by_name}"]
    lines += ["static int32_t refused(void) { return INVALID_OPERATION; }"]
    lines += [
        "static const void *const dispatch_table[] = {",
        *entries,
        *["    (void *)refused,"] * _SPARE,
        "};",
    ]
    return "\n".join(lines) + "\n"


def heads() -> str:
    """The enumerations that the library's own part uses."""
    names = table()
    kinds = [f"    KIND_{kind.upper()}," for kind in names["KINDS"]]
    functions = (*names["FUNCTIONS"], *names["EXTENSION_FUNCTIONS"])
    places = [f"    INDEX_{function.name}," for function in functions]
    return "\n".join(["enum {", *kinds, "};", "enum {", *places, "};"]) + "\n"


def _stub(function: Any, kinds: Mapping[str, tuple[int, int]]) -> list[str]:
    if function.result == "by_hand":
        return []
    if function.result == "count":
        return _counting(function, kinds)
    more, kind_of_result, _ = _result(function.result, kinds)
    parameters = [*_parameters(function), *more]
    head = f"static {kind_of_result} c_{function.name}({', '.join(parameters) or 'void'}) {{"
    if function.refused:
        return [head, *_refusal(function, kinds), "}"]
    return [head, *_checks(function, kinds), *_call(function, kinds), "}"]


def _result(result: str, kinds: Mapping[str, tuple[int, int]]) -> tuple[tuple[str, ...], str, str]:
    if result in kinds:
        return ("void *errcode",), "void *", f"as_object(result, KIND_{result.upper()}, &code)"
    return _RESULTS[result]


def _parameters(function: Any) -> Iterator[str]:
    for number, word in enumerate(function.takes):
        if word == "waits":
            yield f"uint32_t a{number}"
            yield f"const void *a{number}_list"
        else:
            yield f"{_TYPES.get(word, 'const void *')} a{number}"


def _fail(function: Any, kinds: Mapping[str, tuple[int, int]], code: str) -> str:
    """What a function does instead of its work when it fails."""
    result = function.result
    if result in kinds or result in _WITH_ERRCODE:
        return f"{{ if (errcode != NULL) *(int32_t *)errcode = {code}; return NULL; }}"
    return {"address": "return NULL;", "nothing": "return;"}.get(result, f"return {code};")


def _refusal(function: Any, kinds: Mapping[str, tuple[int, int]]) -> list[str]:
    unused = [f"    (void)a{number};" for number in range(len(function.takes))]
    return [*unused, "    " + _fail(function, kinds, "INVALID_OPERATION")]


def _counting(function: Any, kinds: Mapping[str, tuple[int, int]]) -> list[str]:
    kind = function.takes[0]
    verb = "retain" if function.name.startswith("clRetain") else "release"
    work = "SUCCESS" if kind == "device" else f"{verb}(object)"  # a root device is not counted
    return [
        f"static int32_t c_{function.name}(void *object) {{",
        f"    return is(object, KIND_{kind.upper()}) ? {work} : {kinds[kind][0]};",
        "}",
    ]


def _checks(function: Any, kinds: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for number, word in enumerate(function.takes):
        kind = word.removesuffix("?")
        if kind in kinds:
            null = f"a{number} != NULL && " if word.endswith("?") else ""
            wrong = _fail(function, kinds, str(kinds[kind][0]))
            yield f"    if ({null}!is(a{number}, KIND_{kind.upper()})) {wrong}"
        elif word == "waits":
            wrong = _fail(function, kinds, "INVALID_EVENT_WAIT_LIST")
            yield f"    if (!are_events(a{number}, a{number}_list)) {wrong}"
    if function.result == "info":
        yield from _known_answers(function, kinds)
    if function.name in _WITHOUT_PYTHON:
        yield f"    if ({_WITHOUT_PYTHON[function.name]}) return SUCCESS;"
    if function.name in _MADE_WITHOUT_PYTHON:
        yield f"    void *object = {_MADE_WITHOUT_PYTHON[function.name]};"
        yield "    if (object != NULL && errcode != NULL) *(int32_t *)errcode = SUCCESS;"
        yield "    if (object != NULL) return object;"
    if function.name in _ANSWERED:
        yield "    int32_t answer;"
        yield f"    if ({_ANSWERED[function.name]}(a0, a1, size, value, size_ret, &answer)) return answer;"


def _known_answers(function: Any, kinds: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Queries that are answered without Python: how many references there are, and earlier answers that never change."""
    kind = function.takes[0]
    if function.name == _name_of_info(kind):
        yield f"    if (a1 == {kinds[kind][1]:#x}) return count_references(a0, size, value, size_ret);"
    if function.name in _KEPT:
        yield f"    const struct answer *known = find_answer((struct object *)a0, {_query(function)});"
        yield "    if (known != NULL) return answer_with(known->bytes, known->nbytes, size, value, size_ret);"


def _query(function: Any) -> str:
    """What tells a query from all others of the same object: the last argument is its name."""
    return f"QUERY({function.name}, a{len(function.takes) - 1})"


def _keeping(function: Any) -> Iterator[str]:
    """Keep an answer that never changes."""
    if function.name in _KEPT:
        changing = "".join(f"a{len(function.takes) - 1} != {name:#x} && " for name in _KEPT[function.name])
        yield f"    if ({changing}result != NULL) keep_answer((struct object *)a0, {_query(function)}, result);"


def _keeps(function: Any) -> bool:
    """Whether launches that were ready before are so afterwards: it only asks or waits, or begins something new."""
    asks = function.name.startswith("clGet")
    return asks or function.name in _WAITING or function.name in _BEGINNING


def _name_of_info(kind: str) -> str:
    names = {"queue": "CommandQueue", "mem": "MemObject"}
    return f"clGet{names.get(kind, kind.capitalize())}Info"


def _call(function: Any, kinds: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    _, kind_of_result, value = _result(function.result, kinds)
    boxes = [_BOXES.get(word, "given(a{0})").format(number) for number, word in enumerate(function.takes)]
    yield "    int32_t code; int state;"
    yield f"    if (!enter(&state)) {_fail(function, kinds, 'refuse_entry()')}"
    if function.name in _LAUNCHING:
        kernel = function.takes.index("kernel")
        yield f"    if (has_gone(a{kernel})) {{ kept = 1; leave(state); return INVALID_KERNEL_ARGS; }}"
    if function.name in _BUILDING:
        yield "    let_go_of_kernels();"
    if function.result in _WITH_EVENT:
        refused = _fail(function, kinds, "OUT_OF_HOST_MEMORY")
        yield f"    struct object *made; if (!reserve(event, &made)) {{ kept = 1; leave(state); {refused} }}"
    yield f"    PyObject *arguments[] = {{{', '.join(boxes)}}};"
    if function.name == "clSetKernelArgSVMPointer":
        yield "    forget_values((struct object *)a0);"
    yield f"    PyObject *result = call(functions[INDEX_{function.name}], arguments, {len(boxes)}, &code);"
    yield from _keeping(function)
    leave = ["    kept = 1;"] if _keeps(function) else []
    leave += ["    leave(state);"]
    if function.result == "nothing":
        yield "    if (result != NULL) Py_DecRef(result);"
        yield from leave
        return
    yield f"    {kind_of_result} value_of = {value};"
    if function.name in _NOTED:
        yield f"    {_NOTED[function.name]};"
    yield from leave
    if function.result in kinds or function.result in _WITH_ERRCODE:
        yield "    if (errcode != NULL) *(int32_t *)errcode = code;"
    yield "    return value_of;"


def compilers() -> Iterator[list[str]]:
    """Commands of C compilers, the preferred first: $CC, ziglang's where it is installed (its libraries run on old systems,
    too), and the machine's.
    """
    import importlib.util
    import shlex
    import shutil

    named = os.environ.get("CC")
    if named:
        yield shlex.split(named)
        return
    if importlib.util.find_spec("ziglang") is not None:
        yield [sys.executable, "-m", "ziglang", "cc", "-target", f"{os.uname().machine}-{_OLD}"]
    for name in ("cc", "gcc", "clang", "tcc"):
        found = shutil.which(name)
        if found:
            yield [found]


def compile_library(target: Path, version: str) -> list[str]:
    """Compile the driver as `target`; the compiler's command. Raises NoCompiler."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="vdev-") as folder:
        Path(folder, "heads.inc").write_text(heads())
        Path(folder, "stubs.inc").write_text(stubs())
        words = [f'-DVDEV_VERSION="{version}"', f'-DVDEV_SOURCES="{source_key()}"']
        words += ["-include", str(Path(folder, "heads.inc")), f"-I{folder}"]
        return _compiled(_SOURCE, target, words, ["-pthread", "-ldl"])


def compile_calls(target: Path) -> list[str]:
    """Compile the library that makes calls in a row as `target`; the compiler's command. Raises NoCompiler."""
    return _compiled(_CALLS_SOURCE, target, [f'-DVDEV_SOURCES="{calls_key()}"'], ["-ldl"])


def compile_ranges(target: Path) -> list[str]:
    """Compile the library that works with sets of bytes as `target`; the compiler's command. Raises NoCompiler."""
    return _compiled_methods(target, folder(PLACES[RANGES_NAME]) / "native", "bands.c")


def compile_launches(target: Path) -> list[str]:
    """Compile the library of what launches pass through as `target`; the compiler's command. Raises NoCompiler."""
    return _compiled_methods(target, folder(PLACES[LAUNCHES_NAME]) / "native" / "launches", "launches.c")


def _compiled_methods(target: Path, sources: Path, main: str) -> list[str]:
    """The same of a library of functions and methods of Python's (`translators/native_code.py`), whose file `main` has all others in it."""
    common = folder("translators/native")
    key = _key(*sorted(sources.iterdir()), *sorted(common.iterdir()))
    return _compiled(sources / main, target, [f'-DVDEV_SOURCES="{key}"', f"-I{common}"], ["-ldl"])


def _compiled(source: Path, target: Path, words: Sequence[str], linking: Sequence[str]) -> list[str]:
    """The command of the compiler that has made a library of a source."""
    reasons = []
    for command in compilers():
        reason = _compile(command, source, target, words, linking)
        if reason is None:
            return command
        reasons.append(f"{' '.join(command)}: {reason}")
    if not reasons:
        raise NoCompiler("there is no C compiler: install gcc or clang, or `pip install ziglang`, or set CC")
    raise NoCompiler("no C compiler could compile the library: " + "; ".join(reasons))


def _compile(
    command: Sequence[str], source: Path, target: Path, words: Sequence[str], linking: Sequence[str]
) -> str | None:
    """What went wrong; None if nothing did."""
    import subprocess

    flags = ["-std=gnu11", "-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
    linked = ["-Wl,-Bsymbolic", "-Wl,-z,nodelete", *linking]
    # programs may load the target meanwhile: it is never half a library
    made = target.with_name(f"{target.name}-{os.getpid()}")
    full = [*command, *flags, *words, str(source), "-o", str(made), *linked]
    try:
        # whatever characters the compiler's messages have, and the locale knows
        done = subprocess.run(full, capture_output=True, text=True, errors="replace")
        if done.returncode == 0:
            made.replace(target)
    except OSError as error:
        return str(error)
    finally:
        made.unlink(missing_ok=True)
    return None if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def version_of_tree() -> str:
    """vdev's version, without importing it."""
    import runpy

    return str(runpy.run_path(str(_FOLDER.parent / "__init__.py"))["__version__"])


def platform_tag(command: Sequence[str]) -> str:
    """The platform for which a compiler's libraries are, as wheels name it."""
    if any(word.endswith(_OLD) for word in command):
        return f"manylinux_2_17_{os.uname().machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
