"""Images: the pixels that a call reads or writes, checked where the user's program makes the call.

Decides what a call of the functions that images are lowered to (`image_lowering`) touches: one pixel for integer
coordinates and for coordinates that a sampler rounds to the nearest pixel; for other coordinates nothing is checked.
Coordinates outside an image are a mistake if neither the sampler nor the specification says what is read there
(OpenCL C 6.15.15): with CLK_ADDRESS_NONE, without a sampler, and for all writes. The lowered functions themselves
stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clang.cindex import Cursor, CursorKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.edits import Function, Functions
from ...frontend.preprocessor import GENERATED_FILE
from .roots import UNKNOWN
from .uses import READS, WRITES

_CALL = re.compile(
    r"\w*?_(read|write)_image(?:f|i|ui|h)_([123])d(_array)?(?:_depth)?(?:_buffer)?_(?:ro|wo|rw)(?:_(s)?(f)?)?"
)
PRECISE = (
    "#define P_PIXEL_AT(c, p, off, size, site, root, mode) ((void)P_g(c, p, off, size, site, root, mode))\n"
)
FAST = (
    "#define P_PIXEL_AT(c, p, off, size, site, root, mode) ((void)P_try_g(c, p, off, size, root, mode, 1))\n"
)
#: The shadow of images is no finer: several smaller pixels share a granule, and only their coordinates are checked.
GRANULE = 4


@dataclass(frozen=True)
class Pixels:
    """A call that reads or writes a pixel of an image."""

    writes: bool
    dims: int
    layered: bool
    sampled: bool
    floating: bool

    @property
    def mode(self) -> int:
        return WRITES if self.writes else READS

    @property
    def place(self) -> int:
        """The argument with the coordinates."""
        return 2 if self.sampled else 1

    def coordinates(self, p: str, image: str, sampler: str) -> str:
        """Four whole numbers from `{p}at`, which holds the argument's value. If a sampler reads, layers are rounded
        to the nearest.
        """
        names = ["x"] if self.dims == 1 and not self.layered else [f"{p}at.{name}" for name in "xyz"]
        names = [f"{p}at"] if names == ["x"] else names
        sizes = ("width", "height", "depth")
        found = []
        for number, size in enumerate(sizes):
            text = "0" if number >= self.dims else names[number]
            if self.floating and number < self.dims:
                text = f"{p}whole({text}, ({image}).d.{size}, {sampler})"
            found.append(text)
        if self.layered:
            layer = f"(int){names[self.dims]}"
            found[2] = layer if self.writes else f"clamp({layer}, 0, ({image}).d.depth - 1)"
        return f"(int4)({', '.join(found)}, 0)"


def classify(name: str) -> Pixels | None:
    """What a call of a function with this name touches; None if it does not access pixels."""
    match = _CALL.fullmatch(name)
    if match is None:
        return None
    return Pixels(
        match[1] == "write", int(match[2]), match[3] is not None, match[4] is not None, match[5] is not None
    )


def leave(functions: Functions) -> bool:
    """Leave out the functions that images are lowered to, which are not part of the user's text; whether there are
    any.
    """
    own = [f for f in functions.defined if not _is_generated(f)]
    found = len(own) < len(functions.defined)
    generated = frozenset(f.name for f in functions.defined if _is_generated(f))
    functions.defined[:] = own
    functions.names -= generated
    return found


def _is_generated(function: Function) -> bool:
    return clang.presumed(function.cursor.location).file == GENERATED_FILE


def root_of(image: Cursor, function: Cursor, known: dict[int, str]) -> str:
    """The root of an image that is an argument of the kernel: the pointer's name ends with the image's."""
    while image.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR):
        parts = list(image.get_children())
        if len(parts) != 1:
            return UNKNOWN
        image = parts[0]
    name = str(image.spelling) if image.kind is CursorKind.DECL_REF_EXPR else ""
    pointers: Sequence[Cursor] = [
        parameter
        for parameter in function.get_arguments()
        if name and re.fullmatch(rf"\w*?_p_{re.escape(name)}", parameter.spelling)
    ]
    return known.get(int(pointers[0].hash), UNKNOWN) if len(pointers) == 1 else UNKNOWN
