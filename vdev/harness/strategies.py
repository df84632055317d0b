"""Random calls of a kernel, for hypothesis: arguments that fit its signature, and what the user fixes.

Decides what is drawn for arguments that the user does not fix: sizes first, then any values of the types of numbers, and
arrays with an element for each work-item. Needs hypothesis, which only users of this module have to install.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vdev.backends.base import LocalBytes
from vdev.harness.arguments import Empty, empty
from vdev.harness.calls import Call, CalledKernel
from vdev.harness.pixels import AXES, is_depth, sampler
from vdev.translators.frontend.source import ArgInfo

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as arrays
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "random calls need hypothesis: pip install 'vdev[hypothesis]' (or hypothesis itself)"
    ) from error

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

Dtype = np.dtype[Any]

#: The most work-items in a dimension, by the number of dimensions.
_MOST_ITEMS = {1: 64, 2: 16, 3: 8}
_VECTOR = re.compile(r"[a-z]+?(2|3|4|8|16)")
_SIZES = ("global_size", "local_size", "offset")
#: Samplers find pixels at whole coordinates, and outside the image there is always a value.
_SAMPLERS = (sampler("clamp_to_edge"), sampler("clamp"))


class _Free:
    """Stands for what nobody has fixed."""


class Kernel(CalledKernel, Protocol):
    """What drawing a call needs to know about its kernel."""

    @property
    def infos(self) -> tuple[ArgInfo, ...]: ...

    @property
    def types(self) -> Mapping[int, Dtype]: ...

    @property
    def required_size(self) -> tuple[int, ...] | None: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def most_items(self) -> int: ...


class Draft:
    """A call while it is drawn: what is fixed by a function reads the sizes and the other arguments from it, by name
    (`draft.n`, `draft.global_size`; `draft["offset"]` for an argument that is called like a size). Asking for one draws it.
    """

    def __init__(
        self,
        draw: DrawFn,
        kernel: Kernel,
        sizes: Mapping[str, Any],
        arguments: Mapping[str, Any],
        taste: _Taste,
    ) -> None:
        self._draw = draw
        self._kernel = kernel
        self._fixed_sizes = sizes
        self._fixed = arguments
        self._taste = taste
        self._known: dict[tuple[bool, str], Any] = {}
        self._open: list[tuple[bool, str]] = []
        self._infos = {info.name: (index, info) for index, info in enumerate(kernel.infos)}

    def __getitem__(self, name: str) -> Any:
        return self._once(False, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._once(name in _SIZES, name)

    @property
    def items(self) -> int:
        """The work-items of the launch, and those that an offset leaves out before them."""
        offset = self.offset or (0,) * len(self.global_size)
        return prod(size + first for size, first in zip(self.global_size, offset, strict=True))

    def call(self) -> Call:
        """The whole call."""
        sizes = {name: self._once(True, name) for name in _SIZES}
        return Call(self._kernel, {name: self[name] for name in self._infos}, **sizes)

    def _once(self, is_size: bool, name: str) -> Any:
        key = is_size, name
        if key in self._known:
            return self._known[key]
        if key in self._open:
            circle = [each for _, each in self._open[self._open.index(key) :]]
            raise ValueError(f"{' needs '.join([*circle, name])}: fix one of them")
        self._open.append(key)
        self._known[key] = self._size(name) if is_size else self._argument(name)
        self._open.pop()
        return self._known[key]

    def _resolved(self, value: Any) -> Any:
        """Functions called, and strategies drawn from."""
        if callable(value) and value is not _Free:
            value = value(self)
        return self._draw(value) if isinstance(value, st.SearchStrategy) else value

    def _size(self, name: str) -> tuple[int, ...] | None:
        value = self._resolved(self._fixed_sizes[name])
        if value is not _Free:
            return None if value is None else (value,) if isinstance(value, int) else tuple(value)
        if name == "offset":
            return None
        return self._global_size() if name == "global_size" else self._local_size()

    def _group(self) -> Sequence[int] | None:
        """The size of work-groups, unless it follows from the number of work-items."""
        required = self._kernel.required_size
        if required is not None:
            return required
        fixed = self._fixed_sizes["local_size"]
        known = (True, "local_size") in self._known or (fixed is not _Free and not callable(fixed))
        local: Sequence[int] | None = self.local_size if known else self._kernel.program.way.local_size
        return local

    def _global_size(self) -> tuple[int, ...]:
        group = self._group()
        if group is None:
            count = self._kernel.dimensions
            most = _MOST_ITEMS[count]
            return tuple(self._draw(st.integers(1, most)) for _ in range(count))
        most = _MOST_ITEMS[len(group)]
        return tuple(size * self._draw(st.integers(1, max(2, most // size))) for size in group)

    def _local_size(self) -> tuple[int, ...] | None:
        if self._kernel.required_size is not None or self._kernel.program.way.local_size is not None:
            return None  # the call's own choice
        room, found = self._kernel.most_items, []
        for size in self.global_size:
            divisors = [number for number in range(1, min(size, room) + 1) if size % number == 0]
            found.append(self._draw(st.sampled_from(divisors)))
            room //= found[-1]
        return tuple(found)

    def _argument(self, name: str) -> Any:
        if name not in self._infos:
            raise KeyError(
                f"kernel {self._kernel.name} has no argument {name}; it has {', '.join(self._infos)}"
            )
        index, info = self._infos[name]
        value = self._fixed.get(name, _Free)
        if value is not empty:
            value = self._resolved(value)
        element = self._kernel.types.get(index)
        match info.kind:
            case "global" | "constant":
                return self._buffer(info, element, value)
            case "local":
                return self._local(info, value)
            case "image":
                return self._image(info, value)
            case "sampler" if value is _Free:
                return self._draw(st.sampled_from(_SAMPLERS))
            case "value" if value is _Free:
                return self._draw(self._taste.value(info, element))
            case _:
                return value

    def _buffer(self, info: ArgInfo, element: Dtype | None, value: Any) -> Any:
        dtype, shape = _element(info, element)
        if value is _Free or value is empty:
            length: tuple[int, ...] = (self.items,)
        elif isinstance(value, int | np.integer):
            length = (int(value),)
        elif isinstance(value, tuple) and all(isinstance(size, int | np.integer) for size in value):
            length = tuple(int(size) for size in value)
        else:
            return value
        if value is empty:
            return Empty((*length, *shape), dtype)
        if value is _Free and info.name in self._taste.null and self._draw(st.booleans()):
            return None
        return self._draw(self._taste.array(dtype, (*length, *shape), info.name))

    def _image(self, info: ArgInfo, value: Any) -> Any:
        name = next(word for word in info.type_name.split() if word in AXES)
        if value is _Free or value is empty:
            shape = self._pixels(name)
        elif isinstance(value, tuple) and all(isinstance(size, int | np.integer) for size in value):
            shape = tuple(int(size) for size in value)
        else:
            return value
        dtype = np.dtype(np.float32 if is_depth(name) else _pixel_type(self._kernel, info.name))
        if value is empty:
            return Empty(shape, dtype)
        return self._draw(self._taste.array(dtype, shape, info.name))

    def _pixels(self, name: str) -> tuple[int, ...]:
        """A pixel of four channels for each work-item; a few along axes that the index space lacks."""
        dims, layered = AXES[name]
        sizes = list(self.global_size)
        while len(sizes) < dims + layered:
            sizes.append(self._draw(st.integers(1, 4)))
        return (*reversed(sizes[: dims + layered]), *(() if is_depth(name) else (4,)))

    def _local(self, info: ArgInfo, value: Any) -> LocalBytes:
        if value is _Free:
            group = self.local_size or self._group() or self.global_size
            return LocalBytes(prod(group) * info.nbytes)
        return LocalBytes(value * info.nbytes) if isinstance(value, int | np.integer) else value


class _Taste:
    """Which values are drawn."""

    def __init__(
        self,
        allow_nan: bool,
        allow_infinity: bool,
        allow_subnormal: bool,
        null: Sequence[str],
        elements: Mapping[str, SearchStrategy[Any]],
    ) -> None:
        self.elements = elements
        self.floats = {
            "allow_nan": allow_nan,
            "allow_infinity": allow_infinity,
            "allow_subnormal": allow_subnormal,
        }
        self.null = frozenset(null)

    def array(self, dtype: Dtype, shape: tuple[int, ...], name: str = "") -> SearchStrategy[Any]:
        elements = self.elements.get(name)
        found: SearchStrategy[Any] = arrays.arrays(
            dtype, shape, elements=self._elements(dtype) if elements is None else elements
        )
        return found

    def value(self, info: ArgInfo, element: Dtype | None) -> SearchStrategy[Any]:
        if info.scalar is not None:
            return self._elements(np.dtype(info.scalar)).map(lambda number: number.item())
        dtype, shape = _element(info, element)
        if not shape:
            return self.array(dtype, (1,)).map(lambda one: one[0])
        count = min(shape[0], int(_count(info.type_name)))
        return st.tuples(*[self._elements(dtype).map(lambda number: number.item())] * count)

    def _elements(self, dtype: Dtype) -> SearchStrategy[Any]:
        found: SearchStrategy[Any] = arrays.from_dtype(dtype, **self.floats)  # type: ignore[arg-type]
        return found


def calls(
    kernel: Kernel,
    arguments: Mapping[str, Any] | None = None,
    *,
    global_size: Any = _Free,
    local_size: Any = _Free,
    offset: Any = _Free,
    allow_nan: bool = False,
    allow_infinity: bool = False,
    allow_subnormal: bool = False,
    null: Sequence[str] = (),
    elements: Mapping[str, SearchStrategy[Any]] | None = None,
    **fixed: Any,
) -> SearchStrategy[Call]:
    """Calls of a kernel. `fixed` names arguments that are not left to chance; `arguments` does so for those whose names mean
    something else here.

    Each of them, and each size, is a value as a call takes it, a strategy, or a function of the `Draft` that gives one of
    these. For a pointer, a number or a tuple is the shape of an array with random content, and `empty` itself is one without
    content; vectors add a dimension of their own. For local memory a number counts elements. `elements`: by pointer, what
    its array's elements are drawn from. `null`: pointers that may be null. Images are arrays of float32, or of int32 or uint32
    where the text reads or writes them so, with a pixel for each work-item; a tuple is their array's shape. Samplers clamp.
    Raises TypeError for names that the kernel does not have.
    """
    given = {**fixed, **(arguments or {})}
    _check_names(kernel, [*given, *null, *(elements or ())])
    taste = _Taste(allow_nan, allow_infinity, allow_subnormal, null, elements or {})
    fixed_sizes = {"global_size": global_size, "local_size": local_size, "offset": offset}

    kernel.program.prepare()

    @st.composite
    def calls(draw: DrawFn) -> Call:
        return Draft(draw, kernel, fixed_sizes, given, taste).call()

    found: SearchStrategy[Call] = calls()
    return found


def _check_names(kernel: Kernel, given: Sequence[str]) -> None:
    names = [info.name for info in kernel.infos]
    unknown = [name for name in given if name not in names]
    if unknown:
        sizes = ", ".join(_SIZES)
        raise TypeError(
            f"kernel {kernel.name} has no argument {unknown[0]}; it has {', '.join(names)}; sizes are {sizes}"
        )


def _element(info: ArgInfo, element: Dtype | None) -> tuple[Dtype, tuple[int, ...]]:
    """(type, shape) of what a pointer points to, or of a value."""
    if element is None:
        return np.dtype(np.uint8), (info.nbytes,) if info.nbytes > 1 else ()
    plain = (
        np.dtype(element.fields[".x"][0])
        if element.fields and element.names == (".x", ".y", ".z")
        else element
    )
    if plain.names is None and info.nbytes > plain.itemsize:
        return plain, (info.nbytes // plain.itemsize,)
    return plain, ()


def _count(type_name: str) -> str:
    found = _VECTOR.fullmatch(type_name)
    return found[1] if found is not None else "16"


def _pixel_type(kernel: Kernel, name: str) -> str:
    """What an image is read or written as, as far as the kernel's own text says."""
    text = kernel.program.source
    begin = re.search(rf"\b{re.escape(kernel.name)}\s*\(", text)
    own = re.split(r"\b_*kernel\b", text[begin.end() :])[0] if begin is not None else text
    found = re.search(rf"\b(?:read|write)_image(f|i|ui|h)\s*\(\s*{re.escape(name)}\b", own)
    return {"i": "i4", "ui": "u4"}.get(found[1] if found is not None else "", "f4")
