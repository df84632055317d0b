"""Programs and kernels of the virtual device: one source, translated once, built once per device.

Decides what runs when a tool fails on a source: a program that the translators cannot take (`translation`), but a
worker's own compiler can, is built as it is and its kernels run whole on one worker, with the reason kept. What an
earlier process kept of a program (`program_cache`) replaces its translation and the analysis of its kernels; the text is parsed only
when something needs it. It never decides how a launch is cut.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import ref

from vdev.backends.base import BackendProgram, BuildResult, KernelResources, Merging, NativeArg, WorkerInfo
from vdev.errors import BuildError, BuildFailure
from vdev.process.beside import beside
from vdev.process.processor_time import busy_ns
from vdev.session.capabilities import (
    common_extensions,
    language_features,
    makes_images_of_buffers,
    unreported,
)
from vdev.session.program_cache import CachedProgram, cached_program
from vdev.session.translation import Reading, Translation, lowered, read, translate
from vdev.translators.dialects.subgrid_kernel import SubgridKernel
from vdev.translators.frontend.kernels import ArgInfo, ArgKind, KernelInfo, Untranslatable
from vdev.translators.frontend.options import split_options
from vdev.translators.interpreter.summaries import KernelSummary, Reason
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.translators.dialects.image_lowering import LoweredProgram
    from vdev.translators.frontend.source import Ask, ParsedProgram, Target

logger = logging.getLogger("vdev.session.programs")

_serials = itertools.count(1)

#: The programs whose texts were parsed last, whether they have let go of them or not, and how many may hold what the parser made:
#: it takes some megabytes each, and the same can be made again.
_parsed_last: deque[ref[SessionProgram]] = deque()
_MOST_PARSED = 32

#: Kinds of arguments that may be given a buffer.
_POINTERS = ("global", "constant", "unknown")

#: Nanoseconds of a processor after which no further kernel is analysed before it is launched.
_AHEAD_NS = 100_000_000

#: Options that the preprocessor has already applied; the translated text must not see them again.
_PREPROCESSOR_OPTIONS = ("-D", "-I", "-U")


class SessionKernel:
    """One kernel of a built program, shared by all its launches."""

    def __init__(
        self,
        program: SessionProgram,
        info: KernelInfo,
        subgrid: SubgridKernel | None,
        declared: KernelInfo | None = None,
        images: tuple[int, ...] = (),
        *,
        blind: bool = False,
    ) -> None:
        self.program = program
        self.info = info  #: as launches see it: images are pointers to global memory
        self.declared = info if declared is None else declared  #: as the user wrote it
        self.images = images  #: image arguments; their descriptors follow the user's arguments in this order
        self.blind = blind  #: whether it cannot tell how work-items are grouped
        #: whether workers may group work-items as they like: it cannot tell the difference, or it runs whole
        self.regroups = blind or subgrid is None
        self.name = info.name
        self.subgrid = subgrid  #: None: the user's own kernel, which can only run whole
        #: whether it runs whole, and on the same worker as all others of the program: it may keep something in its own memory from
        #: launch to launch
        self.stays = subgrid is None or bool(program.reasons)
        self.serial = next(_serials)
        #: the plans of launches so far; made and read only by the session (`launch_plans.LaunchCache`)
        self.plans: Any = None
        #: argument numbers of pointers to buffers
        self.pointers = tuple(i for i, arg in enumerate(info.args) if arg.kind in _POINTERS)

    def __repr__(self) -> str:
        return f"<SessionKernel {self.name} of program {self.program.serial}>"

    @cached_property
    def summary(self) -> KernelSummary | None:
        """What the kernel touches; None if only the worker's compiler understands the program."""
        return None if self.subgrid is None else self.program.summary(self.name)

    @cached_property
    def scalars(self) -> frozenset[int]:
        """Value arguments whose numbers change which bytes are touched."""
        return frozenset() if self.summary is None else self.summary.scalars

    @cached_property
    def one_worker(self) -> tuple[Reason, ...]:
        """Why every launch must run as one chunk; empty if it need not."""
        if self.summary is None:
            return self.program.reasons or (Reason("its analysis failed (see the log)", self.info.line),)
        return self.program.reasons + self.summary.one_worker

    @cached_property
    def addresses(self) -> Reason | None:
        """Where the kernel uses addresses of buffers as numbers, as far as is known; None: nowhere."""
        if self.summary is None:
            return Reason("a kernel that was not analysed may follow any address", self.info.line)
        return self.summary.addresses

    @cached_property
    def resources(self) -> KernelResources:
        """Work-group limits that hold on every worker.

        The size that the kernel requires is what its source says, where that was read: not every worker's compiler tells it.
        """
        found = [result.kernels[self.name] for result in self.program.results]
        required = self.declared.reqd_work_group_size
        return KernelResources(
            work_group_size=min(r.work_group_size for r in found),
            compile_work_group_size=required or found[0].compile_work_group_size,
            local_memory_nbytes=max(r.local_memory_nbytes for r in found),
            private_memory_nbytes=max(r.private_memory_nbytes for r in found),
            preferred_multiple=max(r.preferred_multiple for r in found),
        )


@dataclass(frozen=True, eq=False)
class Renumbered:
    """A program whose kernels run chunks with cycles."""

    native: BackendProgram
    kernels: Mapping[str, SubgridKernel]


class SessionProgram:
    """A built program. `source` is OpenCL C, or an intermediate language if it is bytes. `reasons` is not empty if
    its kernels must run whole on one worker.
    """

    def __init__(self, source: str | bytes, options: Sequence[str], workers: Sequence[WorkerInfo]) -> None:
        self.source = source
        self.options = tuple(options)
        self.serial = next(_serials)
        self.log = ""
        self.reasons: tuple[Reason, ...] = ()
        self.results: list[BuildResult] = []
        self.kernels: dict[str, SessionKernel] = {}
        self.native: BackendProgram
        self._workers = workers
        self._reading: Reading | None = None  #: None: the source is not OpenCL C
        self._translation: Translation | None = None
        self._kept: CachedProgram | None = None
        self._parsed: ParsedProgram | None = None
        self._lowered: LoweredProgram | None = None
        self._analysed: set[str] = set()  #: kernels whose text nobody will have to analyse again
        self._renumbered: Renumbered | None = None
        self._renumbers = True  #: False once it has been asked for
        self._for_cycles: Renumbered | None = None  #: once it has been translated
        self._refused = False  #: whether workers' compilers do not take the translation
        self._analysing = Lock()
        self._summaries: dict[str, KernelSummary | None] = {}

    @property
    def binary(self) -> bytes:
        """The program in a form that `load_binary` takes back: everything needed to build it again."""
        content: dict[str, object] = {"options": self.options}
        if isinstance(self.source, bytes):
            return pack_binary(BINARY_TAG, content | {"il": base64.b64encode(self.source).decode()})
        return pack_binary(BINARY_TAG, content | {"source": self.source})

    @property
    def kept(self) -> CachedProgram | None:
        """What is kept of it between processes; None: nothing is."""
        return self._kept

    @property
    def parsed(self) -> ParsedProgram | None:
        """The source parsed by clang's parser, at the first request; None if the parser does not take it."""
        translation, parsed = self._translation, self._parsed
        if parsed is None and self._reading is not None and translation is not None:
            if translation.declared is None:
                return None
            parsed = self._parsed = read(self._reading, translation.answers)
            self._hold_few()
        return parsed

    @property
    def lowered(self) -> LoweredProgram | None:
        """The same without images; None if there is no such program."""
        program = self._lowered  # another thread may let go of it
        if program is None and (parsed := self.parsed) is not None:
            try:
                program = self._lowered = lowered(parsed)
            except Untranslatable:
                return None
        return program

    def _hold_few(self) -> None:
        """Have what was parsed of programs before the last ones let go, now that this one was parsed."""
        _parsed_last.append(ref(self))
        while len(_parsed_last) > _MOST_PARSED:
            if (program := _parsed_last.popleft()()) is not None:
                program._let_go_of_text()

    def _let_go_of_text(self) -> None:
        """Free what was made of the text, which is parsed again when somebody asks. It stays if files were looked for: they may be
        others by then.
        """
        parsed = self._parsed
        if parsed is not None and parsed.sought is not None and not parsed.sought:
            self._parsed = self._lowered = None

    def build(
        self,
        build_on_workers: Callable[[BackendProgram], list[BuildResult]],
        begins: Callable[[], object] = lambda: None,
    ) -> None:
        """Parse, translate and compile. BuildError with clang's messages if the source is wrong. `begins` is called where there is no
        translation from before: this thread is busy for a while then, and compilers are not.
        """
        translation: Translation | None = None
        if isinstance(self.source, bytes):
            self.reasons = (Reason("the program is in an intermediate language, which is not analysed"),)
            self.native = BackendProgram(self.source, self.options)
            self._compile(self.native, build_on_workers, None)
        else:
            translation = self._build_source(self.source, build_on_workers, begins)
        declared = translation.declared if translation is not None else None
        if declared is None:
            declared = opaque_kernels(self.results[0])
        subgrid = {} if translation is None or self._refused else translation.subgrid
        infos = translation.kernels if translation is not None and subgrid else declared
        images = translation.images if translation is not None and subgrid else {}
        # A compiler may hide a kernel: PoCL 3.1 does so if a built-in function has its name.
        blind = frozenset() if translation is None else translation.blind
        self.kernels = {
            name: SessionKernel(
                self,
                infos[name],
                subgrid.get(name),
                declared[name],
                images.get(name, ()),
                blind=name in blind,
            )
            for name in declared
            if all(name in result.kernels for result in self.results)
        }

    def _build_source(
        self,
        source: str,
        build_on_workers: Callable[[BackendProgram], list[BuildResult]],
        begins: Callable[[], object],
    ) -> Translation:
        """Build OpenCL C."""
        target, native_images, compilers = _common(self._workers)
        self._reading = Reading(source, self.options, target, self._asker(build_on_workers), native_images)
        self._kept = cached_program(self._reading, compilers)
        translation = self._translation = self._translate(begins)
        self.log = translation.log
        self.reasons = translation.reasons
        self.native = self._compile(
            self._program_for_workers(translation), build_on_workers, translation.refusal
        )
        return translation

    def _translate(self, begins: Callable[[], object]) -> Translation:
        found = None if self._kept is None else self._kept.translation()
        if found is None:
            begins()
            assert self._reading is not None
            found, self._parsed, self._lowered = translate(self._reading)
            self._hold_few()
            if self._kept is not None:
                self._kept.keep_translation(found)
        return found

    def _program_for_workers(self, translation: Translation) -> BackendProgram:
        """`parsed` is for back ends that translate it themselves: the program without images, if there is one."""

        def parse() -> ParsedProgram | None:
            if translation.as_written:
                return self.parsed
            program = self.lowered
            return None if program is None else program.for_textures

        key = "" if self._kept is None else self._kept.content
        return BackendProgram(
            self._as_written(self.source) if translation.as_written else translation.source,
            translation.options,
            parse=parse,
            key=key,
            native_images=translation.native_images,
        )

    def _as_written(self, source: str | bytes) -> str | bytes:
        """The program's own text for workers' compilers. There, too, conditions hear of no extension and no feature that the device
        does not have.
        """
        if isinstance(source, bytes):
            return source
        given = " ".join(self.options)  # the program may define such a name itself
        names = [name for name in unreported(self._workers) if name not in given]
        head = "".join(f"#undef {name}\n" for name in names)
        return f"{head}#line 1\n" + source.removeprefix("\ufeff") if names else source

    def renumbered(
        self, build_on_workers: Callable[[BackendProgram], Sequence[BuildResult]]
    ) -> Renumbered | None:
        """The same for launches with cycles in their chunks, translated and built at the first request; None if that
        is not possible.
        """
        if self._renumbers:
            self._renumbers, self._renumbered = False, self._renumber(build_on_workers)
        return self._renumbered

    @property
    def is_renumbered(self) -> bool:
        """Whether `renumbered` was asked for: it takes no compiler any more."""
        return not self._renumbers

    @property
    def runs_in_turn(self) -> bool:
        """Whether `renumbered` has found a program, which is built."""
        return self._renumbered is not None

    def compile_renumbered(self, compile_ahead: Callable[[BackendProgram], None]) -> None:
        """Have compiled what `renumbered` will build, which takes no compiler then: on any thread, while the program's launches go on. A
        refusal is for `renumbered` to tell.
        """
        try:
            found = self._translated_for_cycles()
            if found is not None:
                compile_ahead(found.native)
        except (Untranslatable, BuildFailure) as refusal:
            logger.debug("nothing was compiled ahead: %s", refusal)

    def _renumber(
        self, build_on_workers: Callable[[BackendProgram], Sequence[BuildResult]]
    ) -> Renumbered | None:
        try:
            found = self._translated_for_cycles()
            if found is not None:
                build_on_workers(found.native)
        except (Untranslatable, BuildFailure) as refusal:
            logger.warning("a program cannot be translated for renumbered work-groups: %s", refusal)
            return None
        return found

    def _translated_for_cycles(self) -> Renumbered | None:
        """The program for chunks with cycles, not built; None where there is none. Raises Untranslatable."""
        if self._for_cycles is None:
            translation, program = self._translation, self.lowered
            if translation is None or program is None or self.reasons or translation.native_images:
                return None
            from vdev.translators.dialects.subgrid import translate_subgrid  # loads libclang

            subgrid = translate_subgrid(program.program, renumbers=True)
            native = replace(self._program_for_workers(translation), source=subgrid.source, renumbers=True)
            self._for_cycles = Renumbered(native, subgrid.kernels)
        return self._for_cycles

    def begin_analysis(self, prepare_merges: Callable[[Iterable[Merging]], object]) -> None:
        """Analyse kernels beside the program, if launches will need that: as long as compilers are at work or the program makes its data
        this takes no time, and the first launch would wait for all of it. `prepare_merges` is told what they may merge.
        """
        translation = self._translation
        if translation is None or self.reasons or len(self._workers) < 2:
            return
        names = [
            name for name in translation.subgrid if self._kept is None or not self._kept.has_summary(name)
        ]
        if names:
            beside.begin(partial(self._analyse, names, prepare_merges))

    def _analyse(self, kernels: Sequence[str], prepare_merges: Callable[[Iterable[Merging]], object]) -> None:
        """Analyse some kernels, as far as that does not take long: a program may have hundreds that it never launches."""
        import vdev.translators.interpreter.access  # noqa: F401 (which takes longer than most kernels)

        began = busy_ns()
        for name in kernels:
            if busy_ns() - began < _AHEAD_NS and (summary := self.summary(name)) is not None:
                prepare_merges(summary.may_merge)

    def summary(self, kernel: str) -> KernelSummary | None:
        """What a kernel touches, if it was kept or can be analysed now. Any thread may ask."""
        with self._analysing:
            if kernel not in self._summaries:
                self._summaries[kernel] = self._found_summary(kernel)
            return self._summaries[kernel]

    def _found_summary(self, kernel: str) -> KernelSummary | None:
        kept = None if self._kept is None else self._kept.summary(kernel)
        if kept is not None:
            return kept
        from vdev.translators.interpreter.access import analyse_kernel  # loads libclang

        started = time.perf_counter()
        try:
            program = self.lowered
            if program is None:
                return None
            summary = analyse_kernel(program.model, kernel)
        except Exception:
            # A fault of ours must not become the program's: the kernel still runs, whole.
            logger.exception("the analysis of kernel %s failed", kernel)
            return None
        seconds = time.perf_counter() - started
        logger.debug("analysis of kernel %s: %.3f ms", kernel, seconds * 1e3)
        if self._kept is not None:
            self._kept.keep_summary(summary)
        self._analysed.add(kernel)
        if self._analysed >= self.kernels.keys():
            self._let_go_of_text()
        return summary

    def _asker(self, build_on_workers: Callable[[BackendProgram], list[BuildResult]]) -> Ask | None:
        """Asks the workers' compilers what they have defined. None if none of them takes OpenCL C."""
        if any(worker.backend != "opencl" for worker in self._workers):
            return None
        options = tuple(word for word in self.options if word.startswith("-cl-"))
        where = (*((worker.name, worker.version, worker.driver) for worker in self._workers), *options)

        def ask(asked: frozenset[str]) -> Mapping[str, str | None]:
            from vdev.translators.frontend.compiler_macros import questions_of  # loads libclang

            known = _answers.setdefault(where, {})
            new = questions_of(asked - known.keys())
            if new:
                known |= _answered(new, options, build_on_workers)
            return {question: known[question] for question in asked if question in known}

        return ask

    def _compile(
        self,
        native: BackendProgram,
        build_on_workers: Callable[[BackendProgram], list[BuildResult]],
        refusal: str | None,
    ) -> BackendProgram:
        try:
            self.results = build_on_workers(native)
        except BuildFailure as failure:
            if refusal is not None:
                raise BuildError(refusal) from failure
            as_written = self._as_written(self.source)
            original = BackendProgram(as_written, self.options, parse=lambda: self.parsed)
            if native.source == as_written:
                raise BuildError(failure.log, failure.status) from failure
            try:
                self.results = build_on_workers(original)
            except BuildFailure as second:
                raise BuildError(second.log, second.status) from second
            # The user's text compiles and ours does not: the translator is at fault, and the program still runs.
            logger.warning(
                "a translated program does not compile; its kernels run on one worker\n%s", failure.log
            )
            self.reasons = (Reason("the translated program does not compile"),)
            self._refused = True
            return original
        self.log += "".join(dict.fromkeys(result.log for result in self.results if result.log.strip()))
        return native


#: Answers of workers' compilers, by their identity and the options that may matter.
_answers: dict[tuple[object, ...], dict[str, str | None]] = {}


def _answered(
    questions: Sequence[str],
    options: Sequence[str],
    build_on_workers: Callable[[BackendProgram], list[BuildResult]],
) -> Mapping[str, str | None]:
    """The answers that all workers' compilers give. Raises Untranslatable if they differ."""
    from vdev.translators.frontend.compiler_macros import answers_from, question_program  # as above

    try:
        results = build_on_workers(BackendProgram(question_program(questions), tuple(options)))
    except BuildFailure:
        # A value that is not an integer, for example.
        try:
            results = build_on_workers(
                BackendProgram(question_program(questions, values=False), tuple(options))
            )
        except BuildFailure as failure:
            logger.info(
                "the workers' compilers could not be asked for the macros that they define: %s", failure.log
            )
            return {}
    first, *others = (answers_from(questions, result.kernels) for result in results)
    for question in questions:
        if any(other.get(question) != first.get(question) for other in others):
            raise Untranslatable(f"the workers' compilers give different answers to {question}")
    return first


BINARY_TAG = b"vdev program 3\n"


def pack_binary(tag: bytes, content: dict[str, object]) -> bytes:
    """A binary that `unpack_binary` takes back. `tag` tells its kind."""
    text = json.dumps(content).encode()
    return tag + hashlib.sha256(tag + text).digest() + text


def unpack_binary(tag: bytes, binary: bytes) -> Any:
    """What was packed with that tag. ValueError (CL_INVALID_BINARY) if a byte is another one or missing."""
    text = binary[len(tag) + hashlib.sha256().digest_size :]
    if binary != tag + hashlib.sha256(tag + text).digest() + text:
        raise ValueError(
            "a damaged binary, or none of this virtual device: build the program from its source"
        )
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("a binary whose content is nested too deeply") from error


def load_binary(binary: bytes) -> tuple[str | bytes, tuple[str, ...]]:
    """Source (bytes: an intermediate language) and options of a program from its binary. ValueError if it is not one
    of ours (CL_INVALID_BINARY).
    """
    content = unpack_binary(BINARY_TAG, binary)
    try:
        source = base64.b64decode(content["il"]) if "il" in content else content["source"]
        options = tuple(content["options"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"a binary that is no program: {error!r}") from error
    if not isinstance(source, str | bytes) or not all(isinstance(word, str) for word in options):
        raise ValueError("a binary that is no program")
    return source, options


def without_preprocessor_options(options: Iterable[str]) -> list[str]:
    """`options` less -D, -I and -U, with the values that follow them apart.

    >>> without_preprocessor_options(["-D", "N=3", "-cl-mad-enable", "-I/x", "-DM"])
    ['-cl-mad-enable']
    """
    kept: list[str] = []
    skip = False
    for option in options:
        if skip:
            skip = False
        elif option in _PREPROCESSOR_OPTIONS:
            skip = True
        elif not "".join(split_options(option)).startswith(_PREPROCESSOR_OPTIONS):
            kept.append(option)
    return kept


def common_target(workers: Sequence[WorkerInfo]) -> Target:
    """What a program may count on: the part that all workers have in common."""
    from vdev.translators.frontend.source import Target  # loads libclang

    return Target(**_common(workers)[0])


_Common: TypeAlias = tuple[dict[str, Any], bool, Sequence[object]]
#: the last workers that programs were built for, and what these have in common: nearly always the same
_latest: tuple[Sequence[WorkerInfo], _Common] | None = None


def _common(workers: Sequence[WorkerInfo]) -> _Common:
    """Of workers: the fields of their programs' `Target`, whether engines make images of buffers, and who compiles."""
    global _latest
    known = _latest
    if known is not None and known[0] is workers:
        return known[1]
    compilers = {(each.backend, each.name, each.version, each.driver) for each in workers}
    found = _target(workers), makes_images_of_buffers(workers), sorted(compilers)
    if isinstance(workers, tuple):  # a list may change
        _latest = workers, found
    return found


def _target(workers: Sequence[WorkerInfo]) -> dict[str, Any]:
    return {
        "extensions": common_extensions(workers),
        "opencl_version": min(300, *(version_number(worker.version) for worker in workers)),
        "c_version": 120,
        "features": language_features(workers),
        "image_support": True,
        "address_bits": min(worker.address_bits for worker in workers),
        "is_cpu": any(worker.is_cpu for worker in workers),
    }


def version_number(version: str) -> int:
    """CL_DEVICE_VERSION as the number the preprocessor uses.

    >>> version_number("OpenCL 3.0 PoCL")
    300
    """
    major, minor = version.split()[1].split(".")[:2]
    return int(major) * 100 + int(minor) * 10


def opaque_kernels(result: BuildResult) -> dict[str, KernelInfo]:
    """Kernels that only the worker's compiler understands, from what it says of their arguments (clGetKernelArgInfo)."""
    found = {}
    for name, resources in result.kernels.items():
        sizes = resources.compile_work_group_size
        found[name] = KernelInfo(
            name=name,
            args=tuple(_opaque_argument(arg) for arg in resources.args),
            line=0,
            reqd_work_group_size=sizes if any(sizes) else None,
            work_group_size_hint=None,
            vec_type_hint=None,
            attributes="",
        )
    return found


#: CL_KERNEL_ARG_ADDRESS_ and CL_KERNEL_ARG_ACCESS_ numbers, and the bits of CL_KERNEL_ARG_TYPE_
_ADDRESSES = {0x119B: "global", 0x119C: "local", 0x119D: "constant", 0x119E: "private"}
_ACCESSES = {0x11A0: "read_only", 0x11A1: "write_only", 0x11A2: "read_write", 0x11A3: "none"}
_QUALIFIERS = {1: "const", 2: "restrict", 4: "volatile", 8: "pipe"}


def _opaque_argument(arg: NativeArg) -> ArgInfo:
    address = _ADDRESSES.get(arg.address_qualifier, "private")
    if not arg.address_qualifier:  # no record: the argument is whatever the program sets it to
        kind = ArgKind.UNKNOWN
    elif arg.type_name.startswith("image"):
        kind = ArgKind.IMAGE
    elif arg.type_name == "sampler_t":
        kind = ArgKind.SAMPLER
    else:
        kind = ArgKind.VALUE if address == "private" else ArgKind(address)
    qualifiers = tuple(word for bit, word in _QUALIFIERS.items() if arg.type_qualifiers & bit)
    return ArgInfo(
        name=arg.name,
        type_name=arg.type_name,
        kind=kind,
        address_qualifier=address,
        access_qualifier=_ACCESSES.get(arg.access_qualifier, "none"),
        type_qualifiers=qualifiers,
        nbytes=0,  # unknown: the worker's own check decides
        scalar=None,
        pointee_const="const" in qualifiers,
    )
