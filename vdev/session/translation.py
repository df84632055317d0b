"""Runs a source through the translators: from OpenCL C to what workers build and what launches need to know.

Decides what becomes of a source that the translators cannot take, but a worker's own compiler may: it is built as it is,
and its kernels run whole on one worker, with the reason kept. It compiles nothing except questions to compilers. What is
kept between processes is `program_cache`'s affair: the front end is loaded only when a source has to be read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from vdev.translators.dialects.subgrid_kernel import SubgridKernel
from vdev.translators.frontend.kernels import CompileError, KernelInfo, Untranslatable
from vdev.translators.frontend.options import may_include
from vdev.translators.interpreter.summaries import Reason
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.translators.dialects.image_lowering import LoweredProgram
    from vdev.translators.frontend.source import Ask, ParsedProgram

logger = logging.getLogger("vdev.session.translation")

__all__ = ["Reading", "Translation", "lowered", "read", "translate"]


@dataclass(frozen=True)
class Translation:
    """What the translators made from a source."""

    source: str  #: what workers build, with `options`
    options: tuple[str, ...]
    log: str = ""  #: clang's messages
    refusal: str | None = None  #: clang's messages if its parser does not take the source
    reasons: tuple[Reason, ...] = ()  #: why kernels must run whole
    #: kernels as the user wrote them; None if they are not known
    declared: Mapping[str, KernelInfo] | None = None
    kernels: Mapping[str, KernelInfo] = field(default_factory=dict)  #: the same without images
    images: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  #: see `LoweredProgram`
    #: kernels that can run on part of an NDRange
    subgrid: Mapping[str, SubgridKernel] = field(default_factory=dict)
    #: by kernel, for workers' engines: (pixels, descriptor), the argument numbers of the images that they may give it
    #: as their own, behind all other arguments, each with whether it may be used
    native_images: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    blind: frozenset[str] = frozenset()  #: kernels that cannot tell how work-items are grouped
    answers: tuple[tuple[str, str | None], ...] = ()  #: of the workers' compilers (`Target.answers`)
    sought: frozenset[str] | None = frozenset()  #: see `ParsedProgram`

    @property
    def as_written(self) -> bool:
        """Whether the source is the user's. Its kernels then run whole, too."""
        return bool(self.reasons) and not self.subgrid


@dataclass(frozen=True, eq=False)
class Reading:
    """How a source has to be read: what it is, for which workers, and who answers for their compilers."""

    source: str
    options: tuple[str, ...]
    target: Mapping[str, Any]  #: `Target`'s fields
    ask: Ask | None
    native_images: bool = False  #: whether all engines make images from buffers


def read(reading: Reading, answers: tuple[tuple[str, str | None], ...] = ()) -> ParsedProgram:
    """The source parsed. Raises what `parse_program` raises. `answers`: what compilers have said before."""
    from vdev.translators.frontend.source import Target, parse_program  # loads libclang

    target = Target(**reading.target, answers=answers)
    return parse_program(reading.source, reading.options, target=target, ask=reading.ask)


def lowered(parsed: ParsedProgram) -> LoweredProgram:
    """The same without images. Raises Untranslatable."""
    from vdev.translators.dialects.image_lowering import lower_images  # loads libclang

    return lower_images(parsed)


def translate(reading: Reading) -> tuple[Translation, ParsedProgram | None, LoweredProgram | None]:
    """What workers build, and what was read on the way, if it could be."""
    from vdev.translators.dialects.subgrid import translate_subgrid  # loads libclang
    from vdev.translators.frontend.grouping import blind_to_groups

    untouched = Translation(reading.source, reading.options)
    parsed: ParsedProgram | None = None
    program: LoweredProgram | None = None
    try:
        parsed = read(reading)
        untouched = replace(
            untouched,
            log=parsed.log,
            declared=parsed.kernels,
            blind=blind_to_groups(parsed),
            answers=parsed.target.answers,
            sought=parsed.sought,
        )
        program = lowered(parsed)
        # A program without images runs as it is written if its launches have to be whole; images are more than that.
        subgrid = translate_subgrid(program.program, shared_variables=bool(program.images))
    except CompileError as error:
        why = Reason("the worker's compiler accepts this program, but clang's parser does not")
        # Nobody says which files it looked for before it gave up.
        sought: frozenset[str] | None = None if may_include(reading.source) else frozenset()
        return replace(untouched, refusal=error.log, reasons=(why,), sought=sought), None, None
    except Untranslatable as error:
        return replace(untouched, reasons=(Reason(error.reason, error.line),)), parsed, program
    engines = _for_engines(parsed) if reading.native_images else None
    source, native_images = (subgrid.source, {}) if engines is None else engines
    done = replace(
        untouched,
        source=source,
        native_images=native_images,
        options=program.program.engine_options,
        kernels=program.program.kernels,
        images=program.images,
        subgrid=subgrid.kernels,
        reasons=() if subgrid.changed is None else (Reason(*subgrid.changed),),
    )
    return done, parsed, program


def _for_engines(parsed: ParsedProgram) -> tuple[str, dict[str, tuple[tuple[int, int], ...]]] | None:
    """The text for engines that make images from buffers, and `Translation.native_images`; None: the same as for
    others.
    """
    from vdev.translators.dialects.image_lowering import with_native_images  # loads libclang
    from vdev.translators.dialects.subgrid import translate_subgrid

    try:
        program = with_native_images(parsed)
        if program is None:
            return None
        source = translate_subgrid(program.program, shared_variables=True).source
    except Untranslatable as error:
        logger.info("images are read without the engine's own image functions: %s", error)
        return None
    found = {}
    for name, indices in program.native_images.items():
        images = program.images[name]
        first = len(parsed.kernels[name].args)  # descriptors follow the user's arguments
        found[name] = tuple((index, first + images.index(index)) for index in indices)
    return source, found
