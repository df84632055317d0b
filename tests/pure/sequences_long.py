"""Random sequences of commands with every way of running launches forced in turn: `python -m tests.pure.sequences_long [sequences]
[first seed]`.

Launches are cut in every way in turn, whatever that costs; buffers are kept on one worker and let go again, in the middle
of sequences; reductions stay pending or are merged at once. After each command every holder of every buffer has to have
the bytes that one device would.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from time import perf_counter

from vdev.planner.directory import kept_on

from .test_planner import Program

#: one sequence in so many has large buffers
_LARGE = 10
#: of the steps of a sequence, those before which buffers are kept on a worker, or let go
_KEPT = 0.15
#: of the buffers, those to which that happens at a time
_TOGETHER = 0.7


def sequence(seed: int) -> Counter[str]:
    """One sequence; how often launches were cut in each way."""
    workers = 2 + seed % 5
    program = Program(seed, workers, most=2000 if seed % _LARGE else 36000)
    program.options = replace(program.options, cuts=program.cuts)
    for _ in range(2 + seed % 7):
        if program.rng.random() < _KEPT:
            worker = int(program.rng.integers(workers + 1))
            for buffer in program.buffers:
                if not buffer.state.fine and program.rng.random() < _TOGETHER:
                    buffer.state = kept_on(buffer.state, worker if worker < workers else None)
            program.cuts.taken["kept"] += 1
        program.step()
    for buffer in program.buffers:
        buffer.verify()
    return program.cuts.taken


def main(sequences: int = 100_000, first: int = 0) -> int:
    """Returns the number of sequences that failed."""
    taken: Counter[str] = Counter()
    failed, start = 0, perf_counter()
    for seed in range(first, first + sequences):
        try:
            taken += sequence(seed)
        except Exception as error:
            failed += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        if (seed + 1 - first) % 1000 == 0:
            print(
                f"{seed + 1 - first} sequences, {failed} failed, {perf_counter() - start:.0f} s", flush=True
            )
    print(f"{sequences} sequences, {failed} failed; ways taken: {dict(taken)}")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
