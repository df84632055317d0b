"""Which images a GPU's units for textures may read, and with which samplers.

Such a unit reads an image of two dimensions at floating-point coordinates as one sampler says, which has to be known before the launch:
the kernel's own argument, or a constant. A kernel's text compares it with the sampler that it reads with, so what is found here may be
wrong: then pixels are read as if nothing had been found.

Decides which sampler an image is expected to be read with. An image that is read with several has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from clang.cindex import Cursor, CursorKind

from ..frontend import clang
from ..frontend.edits import Function, Functions, Use
from ..frontend.kernels import ArgKind, SampledImage
from ..frontend.source import ParsedProgram

__all__ = ["READ", "sampled_images"]

#: the function whose samples a texture may give
READ = "read_imagef"
_NAME = re.compile(r"[A-Za-z_]\w*")
_CAST = re.compile(r"\(\s*(?:const\s+)?sampler_t\s*\)")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uU]?")
#: a sampler: the number of an argument, or a constant's bits; None: one that is not known
_Sampler = tuple[int | None, int] | None


def sampled_images(
    program: ParsedProgram, functions: Functions, constants: Mapping[str, str]
) -> dict[str, tuple[SampledImage, ...]]:
    """By kernel, all images that it may read in such a way, if there is a sampler for any. `constants`: OpenCL C's, by name."""
    return _Search(program, functions, constants).found()


class _Search:
    """One program being looked through."""

    def __init__(self, program: ParsedProgram, functions: Functions, constants: Mapping[str, str]) -> None:
        self._program, self._functions, self._constants = program, functions, constants
        self._calls = [call for call in map(self._call, functions.uses(READ)) if call is not None]

    def found(self) -> dict[str, tuple[SampledImage, ...]]:
        found = {}
        for kernel in self._functions.defined:
            if kernel.kernel:
                images = tuple(self._of_kernel(kernel))
                if any(image.is_known for image in images):
                    found[kernel.name] = images
        return found

    def _of_kernel(self, kernel: Function) -> Iterator[SampledImage]:
        parameters = list(kernel.cursor.get_arguments())
        images = [
            at for at, arg in enumerate(self._program.kernels[kernel.name].args) if arg.kind is ArgKind.IMAGE
        ]
        reached = self._reached_from(kernel)
        scope = [
            *self._program.declarations,
            *chain.from_iterable(clang.walk(each.cursor) for each in reached),
        ]
        constants = [cursor for cursor in scope if cursor.kind == CursorKind.VAR_DECL and _is_sampler(cursor)]
        keys = {each.key for each in reached} - {kernel.key}
        elsewhere = any(holder.key in keys for holder, _ in self._calls)
        others = {self._only(parameters, constants)} if elsewhere else set()
        for at, parameter in enumerate(parameters):
            if _is_read_only_2d(parameter):
                samplers = {
                    self._sampler(second, parameters, constants)
                    for holder, (first, second, _) in self._calls
                    if holder is kernel
                    and self._program.text_of(first).strip("() \t\n") == parameter.spelling
                }
                known = samplers | others
                sampler = next(iter(known)) if len(known) == 1 else None
                yield SampledImage(at, len(parameters) + images.index(at), *(sampler or (None, 0)))

    def _reached_from(self, kernel: Function) -> list[Function]:
        """A kernel and the functions that it calls, as far as names show."""
        reached, holders = {kernel.key}, self._functions.mentions(self._functions.names)
        before = 0
        while before != (before := len(reached)):
            reached |= {each.key for each in self._functions.defined if holders[each.name] & reached}
        return [each for each in self._functions.defined if each.key in reached]

    def _call(self, use: Use) -> tuple[Function, Sequence[Cursor]] | None:
        """The function that holds a read at floating-point coordinates, and the read's arguments; None for other uses."""
        holder = self._functions.enclosing(use.offset)
        if use.declares or use.target is not None or holder is None:
            return None
        types = [kind.get_canonical().spelling for kind in use.cursor.referenced.type.argument_types()]
        if len(types) != 3 or types[1] != "sampler_t" or not types[2].startswith("float"):
            return None
        for cursor in clang.walk(holder.cursor):
            if cursor.kind == CursorKind.CALL_EXPR and cursor.extent.start.offset == use.offset:
                return holder, list(cursor.get_arguments())
        return None

    def _sampler(
        self, expression: Cursor, parameters: Sequence[Cursor], constants: Sequence[Cursor]
    ) -> _Sampler:
        text = self._program.text_of(expression).strip()
        for at, parameter in enumerate(parameters):
            if parameter.spelling == text:
                return at, 0
        for cursor in constants:
            if cursor.spelling == text:
                return self._value_of(cursor)
        return self._bits(text)

    def _value_of(self, variable: Cursor) -> _Sampler:
        return self._bits(self._program.text_of(variable).partition("=")[2])

    def _bits(self, text: str) -> _Sampler:
        """Of a constant expression: constants and numbers, one of each property."""
        bits = 0
        for part in re.split(r"[|+]", _CAST.sub("", text)):
            word = part.strip(" \t\n()")
            number = _NUMBER.fullmatch(self._constants.get(word, word))
            if number is None:
                return None
            bits |= int(number.group(1), 0)
        return None, bits

    def _only(self, parameters: Sequence[Cursor], constants: Sequence[Cursor]) -> _Sampler:
        """The one sampler that functions which a kernel calls can read with; None where there are several, or none."""
        found: set[_Sampler] = {(at, 0) for at, parameter in enumerate(parameters) if _is_sampler(parameter)}
        found |= {self._value_of(cursor) for cursor in constants}
        return found.pop() if len(found) == 1 else None


def _is_sampler(variable: Cursor) -> bool:
    return bool(variable.type.get_canonical().spelling.split()[-1] == "sampler_t")


def _is_read_only_2d(parameter: Cursor) -> bool:
    words = parameter.type.get_canonical().spelling.split()
    return "image2d_t" in words and not {"write_only", "read_write", "__write_only", "__read_write"} & {
        *words
    }
