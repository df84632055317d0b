"""Random programs as CUDA without a GPU: `python -m tests.fuzz.cuda --batches 300`, translated and compiled with NVRTC.

Whatever is refused is a fault of the translation: the generator's programs are OpenCL C that clang takes. With `--values` the
host's C++ compiler compiles and runs them (`tests.pure.cuda_host`), and their results are compared with the native CPU's. The status
is 1 if anything was refused or differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from vdev.translators.dialects.cuda.translation import CudaProgram, Untranslatable, translate_cuda
from vdev.translators.dialects.image_lowering import lower_images
from vdev.translators.frontend.source import ParsedProgram, Target, parse_program

from tests.pure.cuda_host import HostProgram
from tests.pure.nvrtc import MISSING, compile_cuda, library

from .machines import Native, compare, descriptors
from .program import Fill, Given, Launch, LocalSize, Memory, Program, Read, SamplerBits, Write, WriteRows
from .writer import Features, random_batch

#: What a GPU's device has beyond what the parser takes for granted.
EXTENSIONS = ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
#: GCC lets no label stand behind an initialiser.
FOR_GCC = Features(partial_groups=False, skip=frozenset({"declared in a switch"}))
TARGET = Target(extensions=(*Target().extensions, *EXTENSIONS))


def refused(seed: int, number: int, size: int, features: Features) -> str | None:
    """Why a batch is not translated, or what NVRTC says of its translation; None where all is well."""
    batch = random_batch(seed, number, size, features)
    parsed = parse_program(batch.source(), batch.options, target=TARGET)
    if not parsed.exact:
        return "; ".join(parsed.doubts)
    try:
        program = translate_cuda(without_images(parsed, textures=True))
    except Untranslatable as error:
        return str(error)
    done, said = compile_cuda(program.source, program.options)
    if not done:
        return "\n".join(line for line in said.split("\n") if "error" in line) or said[:2000]
    missing = [name for name, kernel in program.kernels.items() if f".entry {kernel.entry}(" not in said]
    return f"no entry for {', '.join(missing)}" if missing else None


def without_images(parsed: ParsedProgram, *, textures: bool) -> ParsedProgram:
    """The program with plain memory in the place of images. `textures`: a GPU's units may read it."""
    lowered = lower_images(parsed)
    return lowered.for_textures if textures else lowered.program


def differing(seed: int, number: int, size: int, features: Features, native: Native) -> list[str]:
    """The programs of a batch whose results differ from the native device's.

    The C++ runs in a process of its own: what a wrong translation writes where it may not is not this process's memory, and a
    program that ends that process is one that differs.
    """
    batch = random_batch(seed, number, size, features)
    built = native.build(batch.source(), batch.options)
    parsed = parse_program(batch.source(), batch.options, target=TARGET)
    translated = translate_cuda(without_images(parsed, textures=False))
    found = []
    with tempfile.TemporaryDirectory() as folder, _own_process(translated, folder) as pool:
        for program in batch.programs:
            expected, running = native.run(built, program), pool.submit(_results_there, program)
            try:
                given = running.result()
            except BrokenProcessPool:
                return [*found, f"{program.name}: ended the process that ran its C++"]
            hide_padding(program, expected)
            hide_padding(program, given)
            difference = compare("C++", program, expected, given)
            if difference is not None:
                found.append(f"{program.name}: {difference.what}")
    return found


def _own_process(translated: CudaProgram, folder: str) -> ProcessPoolExecutor:
    """One process, begun anew rather than forked: the native engine has threads in this one."""
    return ProcessPoolExecutor(1, get_context("spawn"), _compile_there, (translated, folder))


_there: list[HostProgram] = []


def _compile_there(translated: CudaProgram, folder: str) -> None:
    _there.append(HostProgram(translated, Path(folder)))


def _results_there(program: Program) -> list[Memory]:
    return results(_there[0], program)


def hide_padding(program: Program, found: list[Memory]) -> None:
    """Set padding of structures to zero: without optimisation the native compiler copies it along with the members."""
    reads = [step for step in program.steps if isinstance(step, Read)]
    for step, memory in zip(reads, found, strict=False):
        padding = program.buffers[step.buffer].padding
        if padding is not None:
            memory[padding[step.offset : step.offset + step.nbytes] == 1] = 0
    for buffer, memory in zip(program.buffers, found[len(reads) :], strict=True):
        if buffer.padding is not None:
            memory[buffer.padding == 1] = 0


def results(host: HostProgram, program: Program) -> list[Memory]:
    """As Native.run: what was read between, and all buffers."""
    buffers = [aligned(buffer.content) for buffer in program.buffers]
    found = []
    for step in program.steps:
        if isinstance(step, Launch):
            args = [_argument(arg, buffers) for arg in (*step.args, *descriptors(program, step))]
            host.run(program.kernels[step.kernel].name, args, step.size, step.local, step.offset)
        elif isinstance(step, Write):
            buffers[step.buffer][step.offset : step.offset + len(step.data)] = np.frombuffer(
                step.data, np.uint8
            )
        elif isinstance(step, WriteRows):
            data = np.frombuffer(step.data, np.uint8).reshape(step.rows, step.width)
            for row, part in enumerate(data):
                start = step.offset + row * step.pitch
                buffers[step.buffer][start : start + step.width] = part
        elif isinstance(step, Read):
            found.append(buffers[step.buffer][step.offset : step.offset + step.nbytes].copy())
        elif isinstance(step, Fill):
            pattern = np.frombuffer(step.pattern, np.uint8)
            part = buffers[step.buffer][step.offset : step.offset + step.nbytes]
            part[:] = np.tile(pattern, step.nbytes // len(pattern))
        else:
            source = buffers[step.source][step.source_offset : step.source_offset + step.nbytes].copy()
            buffers[step.target][step.target_offset : step.target_offset + step.nbytes] = source
    return found + buffers


def _argument(arg: Given, buffers: list[Memory]) -> int | np.void | Memory:
    if isinstance(arg, LocalSize):
        return arg.nbytes
    if isinstance(arg, SamplerBits):
        return np.void(arg.packed())
    return (
        np.void(arg) if isinstance(arg, bytes) else buffers[arg.buffer][arg.offset : arg.offset + arg.nbytes]
    )


def aligned(content: Memory) -> Memory:
    """A copy that begins where the largest type of OpenCL C may."""
    memory = np.empty(content.size + 128, np.uint8)
    start = -memory.ctypes.data % 128
    memory[start : start + content.size] = content
    return memory[start : start + content.size]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--size", type=int, default=24, help="programs of a batch (default: %(default)s)")
    parser.add_argument("--values", action="store_true", help="run them as the host's C++, too")
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one, which is printed")
    args = parser.parse_args()
    if library() is None:
        print(MISSING)
        return 1
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    features = FOR_GCC if args.values else Features(partial_groups=False)
    native = Native("CPU") if args.values else None
    started, failed = time.monotonic(), 0
    for number in range(args.batches):
        said = refused(seed, number, args.size, features)
        wrong = [] if said is None else [said]
        if native is not None and said is None:
            wrong = differing(seed, number, args.size, features, native)
        failed += bool(wrong)
        for text in wrong:
            print(f"batch {number}: {text}", flush=True)
    print(f"{args.batches * args.size} programs, {failed} batches failed, {time.monotonic() - started:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
