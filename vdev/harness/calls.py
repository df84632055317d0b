"""A kernel's call as a value: its arguments, and a script that repeats it.

Decides how arguments are written as Python; a script needs nothing but vdev and NumPy.
"""

from __future__ import annotations

import base64
import re
import textwrap
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vdev.backends.base import LocalBytes
from vdev.harness.arguments import Empty
from vdev.harness.failures import FindingsError
from vdev.harness.outputs import Outputs
from vdev.harness.pixels import Image, Sampler
from vdev.translators.values import dataclass

Array = npt.NDArray[Any]
#: bytes of an array that is written element by element; larger ones are packed
_MOST_WRITTEN = 4096
_OURS = ("Program", "assert_allclose", "assert_equal", "empty", "image", "local", "sampler")
_HEAD = "Shows a failing call of kernel {} again: run it with Python."


#: The last random call of the process.
ran: deque[Call] = deque(maxlen=1)


@dataclass(frozen=True)
class Way:
    """How kernels run.

    `workers`: as in VDEV_WORKERS, or 'native'. `order`: of work-groups ('forward', 'backward', 'shuffled:7'), None
    for the engine's own. `check`: whether accesses are checked. `report`, `ignore`: kinds of findings that fail a
    call in addition to the default ones, and kinds that do not. `engine`: a part of a device's name.
    """

    workers: str = "cpu:1"
    order: str | None = None
    local_size: tuple[int, ...] | None = None  #: of launches that name none
    check: bool = True
    report: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    engine: str | None = None


class CalledProgram(Protocol):
    """What a call needs to know about its kernel's program."""

    source: str
    options: tuple[str, ...]
    way: Way

    def prepare(self) -> None: ...


class CalledKernel(Protocol):
    """What a call needs to know about its kernel."""

    name: str

    @property
    def program(self) -> CalledProgram: ...

    def run(self, call: Call) -> Outputs: ...


@dataclass(frozen=True, eq=False)
class Call:
    """A kernel and everything that it is called with. `args`: by the parameters' names, in order; `call["n"]` is one
    of them.
    """

    kernel: CalledKernel
    args: Mapping[str, Any]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def run(self) -> Outputs:
        """Do what calling the kernel does. Errors show a script that repeats the call."""
        __tracebackhide__ = True
        ran.append(self)
        try:
            return self.kernel.run(self)
        except FindingsError as error:
            raise FindingsError(error.findings, self.script()) from None

    def script(self, then: str = "") -> str:
        """Python code that makes the call again with nothing but vdev and NumPy. `then`: a line for its end, about
        `outputs`.
        """
        program = self.kernel.program
        options = [repr(list(program.options))] if program.options else []
        given = ", ".join(["SOURCE", *options, *(f"{name}={value!r}" for name, value in self._settings())])
        arguments = [(written(value), name) for name, value in self.args.items()]
        code = "\n".join(
            [
                f"kernel = Program({given}).kernel({self.kernel.name!r})",
                "outputs = kernel(",
                *(f"    {text},  # {name}" for text, name in arguments),
                *(f"    {name}={value!r}," for name, value in self._sizes()),
                ")",
                *([then] if then else []),
            ]
        )
        head = f'"""{_HEAD.format(self.kernel.name)}"""'
        return "\n".join([head, "", *_imports(code), "", f"SOURCE = {_text(program.source)}", code, ""])

    def _sizes(self) -> list[tuple[str, tuple[int, ...]]]:
        sizes = [("global_size", self.global_size), ("local_size", self.local_size), ("offset", self.offset)]
        return [(name, size) for name, size in sizes if size is not None]

    def _settings(self) -> list[tuple[str, Any]]:
        """The program's settings, besides its text and options, that are not the default."""
        way = self.kernel.program.way
        found: list[tuple[str, Any]] = [("workers", way.workers)] if way.workers != "cpu:1" else []
        found += [("order", way.order)] if way.order is not None else []
        found += [("local_size", way.local_size)] if way.local_size is not None else []
        found += [("check", False)] if not way.check else []
        found += [("engine", way.engine)] if way.engine is not None else []
        found += [("report", sorted(way.report))] if way.report else []
        found += [("ignore", sorted(way.ignore))] if way.ignore else []
        return found

    def __repr__(self) -> str:
        given = [f"{name}={_short(value)}" for name, value in self.args.items()]
        sizes = [f"{name}={value}" for name, value in self._sizes()]
        return f"{self.kernel.name}({', '.join([*given, *sizes])})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What hypothesis shows."""
        printer.text(repr(self))


def written(value: Any) -> str:
    """An argument as a Python expression, exact to the bit."""
    match value:
        case Empty():
            return f"empty({value.shape}, {dtype_text(value.dtype)})"
        case LocalBytes():
            return f"local({value.nbytes})"
        case Image():
            order = "" if value.order is None else f", order={value.order!r}"
            return f"image({written(value.content)}{order}{', normalized=True' * value.normalized})"
        case Sampler():
            how = ", linear=True" * value.linear + ", normalized=True" * value.normalized
            return f"sampler({value.addressing!r}{how})"
        case np.ndarray():
            return _array(value)
        case np.void():
            return f"{_packed(np.asarray(value).reshape(1))}[0]"
        case np.generic():
            return f"{_array(np.asarray(value).reshape(1))}[0]"
        case _:
            return repr(value)


def _imports(code: str) -> list[str]:
    """The imports that the code needs."""
    names = [name for name in _OURS if f"{name}(" in code]
    return [
        *(["import base64", "import zlib", ""] if "zlib." in code else []),
        "import numpy as np",
        *(["from numpy import inf, nan"] if re.search(r"\b(inf|nan)\b", code) else []),
        "",
        f"from vdev.harness import {', '.join(names)}",
    ]


def _text(source: str) -> str:
    """A program's text, line by line if quotes allow that."""
    plain = all(char.isprintable() or char in "\n\t" for char in source)
    return f"r'''{source}'''" if plain and "'''" not in source and source[-1:] not in "'\\" else repr(source)


def _array(array: Array) -> str:
    literal = _literal(array) if array.nbytes <= _MOST_WRITTEN else "array("
    if "array(" in literal:  # too long, or a structure with arrays in it
        return _packed(array)
    text = f"np.array({literal}, {dtype_text(array.dtype)})"
    return text if _is_same(text, array) else _packed(array)


def _literal(array: Array) -> str:
    """Nested lists; floats have as many digits as their type needs."""
    if array.ndim:
        return f"[{', '.join(_literal(part) for part in array)}]"
    return str(array[()]) if array.dtype.kind == "f" else repr(array.tolist())


def _is_same(text: str, array: Array) -> bool:
    """Whether the text gives the same bits: padding and the bits of a NaN are not written."""
    made = eval(text, {"np": np, "inf": np.inf, "nan": np.nan})
    return bool(made.shape == array.shape and made.tobytes() == array.tobytes())


def _packed(array: Array) -> str:
    content = base64.b85encode(zlib.compress(array.tobytes(), 9)).decode()
    return (
        f"np.frombuffer(zlib.decompress(base64.b85decode({content!r})), {dtype_text(array.dtype)})"
        f".reshape({array.shape})"
    )


def dtype_text(dtype: np.dtype[Any]) -> str:
    """A type as a Python expression."""
    if dtype.names is None and dtype.isbuiltin == 1 and dtype != np.bool_:
        return f"np.{dtype.name}"
    return f"np.dtype({_described(dtype)!r})"


def _described(dtype: np.dtype[Any]) -> Any:
    """A type as the argument of np.dtype that makes it."""
    if dtype.subdtype is not None:
        return _described(dtype.subdtype[0]), dtype.subdtype[1]
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    members = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_described(member[0]) for member in members],
        "offsets": [member[1] for member in members],
        "itemsize": dtype.itemsize,
    }


def _short(value: Any) -> str:
    match value:
        case Empty():
            return f"empty({value.shape}, {value.dtype})"
        case Image():
            return f"image({_short(value.content)})"
        case Sampler():
            return written(value)
        case np.ndarray() if value.size > 16 or value.dtype.names is not None:
            return f"<{'structures' if value.dtype.names else value.dtype} {value.shape}>"
        case np.ndarray():
            return f"{value.dtype}{value.tolist()}"
        case np.void():
            return str(value)
        case LocalBytes():
            return f"local({value.nbytes})"
        case _:
            return textwrap.shorten(repr(value), 80)
