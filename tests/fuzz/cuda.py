"""Random programs as CUDA: `python -m tests.fuzz.cuda --batches 300`, translated and compiled with NVRTC; nothing is run.

Needs NVRTC, and neither a GPU nor a native device. Whatever is refused is a fault of the translation: the generator's programs are
OpenCL C that clang takes. The status is 1 if any was.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from vdev.translators.dialects.cuda.translation import Untranslatable, translate_cuda
from vdev.translators.frontend.source import Target, parse_program

from tests.pure.nvrtc import MISSING, compile_cuda, library

from .writer import Features, random_batch

#: What a GPU's device has beyond what the parser takes for granted.
EXTENSIONS = ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
TARGET = Target(extensions=(*Target().extensions, *EXTENSIONS))


def refused(seed: int, number: int, size: int, features: Features) -> str | None:
    """Why a batch is not translated, or what NVRTC says of its translation; None where all is well."""
    batch = random_batch(seed, number, size, features)
    parsed = parse_program(batch.source(), batch.options, target=TARGET)
    if not parsed.exact:
        return "; ".join(parsed.doubts)
    try:
        program = translate_cuda(parsed)
    except Untranslatable as error:
        return str(error)
    done, said = compile_cuda(program.source, program.options)
    if not done:
        return "\n".join(line for line in said.split("\n") if "error" in line) or said[:2000]
    missing = [name for name, kernel in program.kernels.items() if f".entry {kernel.entry}(" not in said]
    return f"no entry for {', '.join(missing)}" if missing else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--size", type=int, default=24, help="programs of a batch (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one, which is printed")
    args = parser.parse_args()
    if library() is None:
        print(MISSING)
        return 1
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    started, failed = time.monotonic(), 0
    for number in range(args.batches):
        said = refused(seed, number, args.size, Features(partial_groups=False))
        if said is not None:
            failed += 1
            print(f"batch {number}: {said}", flush=True)
    print(f"{args.batches * args.size} programs, {failed} batches refused, {time.monotonic() - started:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
