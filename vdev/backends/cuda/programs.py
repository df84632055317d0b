"""Programs of a CUDA worker: OpenCL C to CUDA C++ to a cubin, translated and compiled once and kept on disk.

Decides under which key translations and cubins are kept and when they are made. The translator, which is loaded only
if something has to be translated, knows what a program means; the back end starts kernels.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vdev.backends.base import BackendProgram
from vdev.errors import OUT_OF_RESOURCES, BackendError, BuildFailure
from vdev.process.late_libraries import Ending, LateLibrary
from vdev.process.private_files import Store
from vdev.translators.dialects.cuda.program import (
    LARGEST_GROUP,
    VERSION,
    Apart,
    CudaKernel,
    CudaProgram,
    Textured,
    UnknownOption,
)
from vdev.translators.dialects.subgrid_kernel import SubgridKernel
from vdev.translators.frontend.kernels import SampledImage, Untranslatable
from vdev.translators.values import dataclass

logger = logging.getLogger("vdev.cuda")

#: Bytes of cubins kept; the ones unused for longest go first.
CACHE_NBYTES = 512 << 20
#: The same for CUDA C++.
TRANSLATIONS_NBYTES = 64 << 20
#: how NVRTC's option begins that sets the number of registers
_MAX_REGISTERS = "--maxrregcount"

#: CL_INVALID_BUILD_OPTIONS
_INVALID_BUILD_OPTIONS = -43

#: A multiprocessor allots registers to a work-item in groups of eight.
_REGISTER_UNIT = 8

#: Since this version NVRTC can leave out what it declares of textures, of CUDA's runtime and of launches by kernels, of which our text has
#: nothing: one in ten of its milliseconds.
_MINIMAL_SINCE = (12, 4)

_library = LateLibrary("NVRTC")

#: (source, NVRTC's options with the architecture) -> (cubin, the compiler's messages); raises BuildFailure
Compiler = Callable[[str, Sequence[str]], "tuple[bytes, str]"]


class Cubins:
    """Compiled programs on disk, named by a hash of everything that they come from, and translated ones. Any thread
    may use it.
    """

    def __init__(self, folder: Path, compiler: Compiler, version: str) -> None:
        """`version`: the compiler's."""
        self._store = Store(folder / "cubins", ".cubin")
        self._translations = Store(folder / "cubins", ".json")
        self._compiler = compiler
        self._version = version

    def translation(self, key: str) -> CudaProgram | None:
        """The translation that `keep_translation` kept of the program with this key."""
        kept = self._translations.get(f"{VERSION} {key}") if key else None
        try:
            return None if kept is None else _read_program(json.loads(kept))
        except (ValueError, KeyError, TypeError) as error:
            logger.info("a cached translation is not valid: %r", error)
            return None

    def keep_translation(self, key: str, program: CudaProgram) -> None:
        if key:
            content = json.dumps(_plain_program(program)).encode()
            self._translations.put(f"{VERSION} {key}", content, TRANSLATIONS_NBYTES)

    def get(self, source: str, options: Sequence[str]) -> tuple[bytes, str]:
        """The cubin and the compiler's messages. BuildFailure with the messages if the source is refused."""
        kept = self.kept(source, options)
        if kept is not None:
            return kept, ""
        started = time.perf_counter()
        cubin, log = self._compiler(source, options)
        logger.debug("compiled %d bytes of CUDA C++ in %.3f s", len(source), time.perf_counter() - started)
        self._store.put(self._key(source, options), cubin, CACHE_NBYTES)
        return cubin, log

    def kept(self, source: str, options: Sequence[str]) -> bytes | None:
        """The same if it was compiled before."""
        return self._store.get(self._key(source, options))

    def _key(self, source: str, options: Sequence[str]) -> str:
        return "\0".join([self._version, str(VERSION), *options, source])


def nvrtc_compiler(cupy: Any) -> Compiler:
    """NVRTC as CuPy brings it."""
    nvrtc = cupy.cuda.nvrtc

    def compile_source(source: str, options: Sequence[str]) -> tuple[bytes, str]:
        program = nvrtc.createProgram(source, "program.cu", (), ())
        _library.loaded()
        try:
            try:
                nvrtc.compileProgram(
                    program, (*options, "--disable-warnings", *leaving_out(nvrtc.getVersion()))
                )
            except nvrtc.NVRTCError:
                raise BuildFailure(nvrtc.getProgramLog(program)) from None
            return nvrtc.getCUBIN(program), nvrtc.getProgramLog(program)
        finally:
            nvrtc.destroyProgram(program)

    def compile_before_the_end(source: str, options: Sequence[str]) -> tuple[bytes, str]:
        try:
            with _library.inside():
                return compile_source(source, options)
        except Ending as error:
            raise BackendError(OUT_OF_RESOURCES, str(error)) from error

    return compile_before_the_end


def leaving_out(version: tuple[int, int]) -> tuple[str, ...]:
    """Options of NVRTC of this version that change no program, which is compiled sooner with them.

    >>> leaving_out((12, 3)), leaving_out((12, 4)), leaving_out((13, 0))
    ((), ('--minimal',), ('--minimal',))
    """
    return ("--minimal",) if tuple(version) >= _MINIMAL_SINCE else ()


@dataclass(frozen=True)
class Multiprocessor:
    """Registers of 32 bits, and work-items that may be resident at once."""

    registers: int
    work_items: int


def fewer_groups(work_group_size: int, registers: int, multiprocessor: Multiprocessor) -> int | None:
    """Work-groups that should be resident in place of those that `registers` of a work-item allow; None: leave it.

    For kernels without local memory. Left alone, the compiler holds values back, loads among them, to come out with
    registers for some more work-groups. That pays where a multiprocessor is full of work-items: there are always
    others to go on with. Where it holds no more than half of what it could, they are few to hide loads that wait for
    one another, and many for its first-level cache, which is all that such a kernel has. Three quarters of them, each
    with its loads under way together, took the correlator of the samples 0.95 s on an H200, and 1.70 s before
    (Volkov, "Better Performance at Lower Occupancy", 2010). With more registers for all kernels those lose that
    fill a multiprocessor: a stencil a third, products of matrices a fifth.

    >>> fewer_groups(64, 63, Multiprocessor(65536, 2048)), fewer_groups(64, 56, Multiprocessor(65536, 2048))
    (12, None)
    """
    each = -(-registers // _REGISTER_UNIT) * _REGISTER_UNIT
    groups = multiprocessor.registers // (each * work_group_size) if each else 0
    if not groups or 2 * multiprocessor.registers // each > multiprocessor.work_items:
        return None
    fewer = -(-3 * groups // 4)
    return fewer if fewer < groups else None


class Translated:
    """A program in CUDA C++, and its cubins by architecture. Shared by all workers that build it."""

    def __init__(self, program: CudaProgram, cubins: Cubins) -> None:
        self.kernels: Mapping[str, CudaKernel] = program.kernels
        self._program = program
        self._cubins = cubins
        self._lock = threading.Lock()
        self._compiled: dict[tuple[str, bool, tuple[str, ...]], tuple[bytes, str] | BuildFailure] = {}
        #: whether the program's own options set the number of registers of its kernels
        self.registers_given = any(option.startswith(_MAX_REGISTERS) for option in program.options)

    def cubin(
        self, architecture: str, *, full_groups: bool = False, further: tuple[str, ...] = ()
    ) -> tuple[bytes, str]:
        """The cubin for an architecture such as "sm_90", and the compiler's messages.

        `full_groups`: compiled for work-groups of up to 1024, whatever the program's own options say of registers; a kernel
        that would like more than 64 of them is slower. `further`: options for NVRTC besides the program's.
        """
        key = (architecture, full_groups, further)
        with self._lock:  # one worker compiles, the others wait for it
            found = self._compiled.get(key)
            if found is None:
                options = self._options(architecture, full_groups)
                found = self._compiled[key] = self._compile([*options, *further])
        if isinstance(found, BuildFailure):  # one for each worker: an exception that is raised changes
            raise BuildFailure(found.log, found.status)
        return found

    def is_kept(self, architecture: str) -> bool:
        """Whether the cubin for an architecture takes no compiler, and nobody is at it."""
        key = (architecture, False, ())
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if key not in self._compiled:
                found = self._cubins.kept(
                    self._program.source, self._options(architecture, full_groups=False)
                )
                if found is not None:
                    self._compiled[key] = found, ""
            return isinstance(self._compiled.get(key), tuple)
        finally:
            self._lock.release()

    def _options(self, architecture: str, full_groups: bool) -> list[str]:
        options = [f"--gpu-architecture={architecture}", *self._program.options]
        if self.registers_given and full_groups:
            options = [option for option in options if not option.startswith(_MAX_REGISTERS)]
        # NVRTC takes no notice of the option for kernels with a bound.
        if self.registers_given or full_groups:
            threads = LARGEST_GROUP if full_groups else None
            own = [kernel for kernel in self.kernels.values() if kernel.max_work_group_size is None]
            options += [kernel.bounded(threads) for kernel in own]
        return options

    def _compile(self, options: list[str]) -> tuple[bytes, str] | BuildFailure:
        try:
            return self._cubins.get(self._program.source, options)
        except BuildFailure as failure:
            return failure


_translated: weakref.WeakKeyDictionary[BackendProgram, Translated | BuildFailure] = (
    weakref.WeakKeyDictionary()
)
_locks: weakref.WeakKeyDictionary[BackendProgram, threading.Lock] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def translated(program: BackendProgram, cubins: Cubins) -> Translated:
    """The program in CUDA C++, translated by whichever worker comes first. BuildFailure names what cannot be
    translated, and the user's line.
    """
    with _lock_of(program):
        found = _translated.get(program)
        if found is None:
            found = _translated[program] = _translate(program, cubins)
    if isinstance(found, BuildFailure):
        raise BuildFailure(found.log, found.status)
    return found


def kept(program: BackendProgram, cubins: Cubins) -> Translated | None:
    """The same if it was translated before, by this process or an earlier one, and nobody is at it; None otherwise."""
    own = _lock_of(program)
    if not own.acquire(blocking=False):
        return None
    try:
        found = _translated.get(program)
        if found is None and not isinstance(program.source, bytes):
            plain = cubins.translation(_key_of(program))
            if plain is not None:
                found = _translated[program] = Translated(plain, cubins)
    finally:
        own.release()
    return None if isinstance(found, BuildFailure) else found


def _lock_of(program: BackendProgram) -> threading.Lock:
    with _lock:
        return _locks.setdefault(program, threading.Lock())


def _key_of(program: BackendProgram) -> str:
    """Under which its translation is kept: both translations of a program have its key."""
    return f"{program.key} renumbered" if program.key and program.renumbers else program.key


def _translate(program: BackendProgram, cubins: Cubins) -> Translated | BuildFailure:
    if isinstance(program.source, bytes):
        return BuildFailure("CUDA workers take OpenCL C, no intermediate language")
    key = _key_of(program)
    found_before = cubins.translation(key)
    if found_before is not None:
        return Translated(found_before, cubins)
    parsed = program.parsed_program()
    if parsed is None:
        return BuildFailure(
            "clang's parser rejects this program, and CUDA workers need the parser to translate it"
        )
    from vdev.translators.dialects.cuda.translation import translate_cuda  # loads libclang

    try:
        found = translate_cuda(parsed, renumbers=program.renumbers)
        cubins.keep_translation(key, found)
        return Translated(found, cubins)
    except UnknownOption as refusal:
        return BuildFailure(refusal.reason, _INVALID_BUILD_OPTIONS)
    except Untranslatable as refusal:
        line = f"line {refusal.line}: " if refusal.line else ""
        return BuildFailure(f"{line}not available on CUDA workers: {refusal.reason}")


def _plain_program(program: CudaProgram) -> dict[str, Any]:
    """In the form that JSON gives."""
    kernels = [
        [
            kernel.name,
            kernel.entry,
            kernel.hidden_index,
            kernel.pointer_args,
            kernel.local_args,
            kernel.max_work_group_size,
            [
                kernel.subgrid.name,
                kernel.subgrid.hidden_index,
                kernel.subgrid.pointer_args,
                kernel.subgrid.renumbers,
            ],
            kernel.local_nbytes,
            kernel.apart and [kernel.apart.entry, kernel.apart.read, kernel.apart.written],
            kernel.textured
            and [
                kernel.textured.entry,
                [(each.pixels, each.descriptor, each.sampler, each.bits) for each in kernel.textured.images],
            ],
        ]
        for kernel in program.kernels.values()
    ]
    return {"source": program.source, "options": program.options, "kernels": kernels}


def _read_program(plain: Mapping[str, Any]) -> CudaProgram:
    kernels = {}
    for name, entry, hidden, pointers, local, most, of_subgrid, nbytes, of_apart, of_textured in plain[
        "kernels"
    ]:
        inner, inner_hidden, inner_pointers, renumbers = of_subgrid
        subgrid = SubgridKernel(inner, inner_hidden, tuple(inner_pointers), renumbers)
        apart = of_apart and Apart(of_apart[0], tuple(of_apart[1]), tuple(of_apart[2]))
        textured = of_textured and Textured(
            of_textured[0], tuple(SampledImage(*each) for each in of_textured[1])
        )
        kernels[name] = CudaKernel(
            name, entry, hidden, tuple(pointers), tuple(local), most, subgrid, nbytes, apart, textured
        )
    return CudaProgram(plain["source"], tuple(plain["options"]), kernels)
