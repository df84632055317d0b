"""What the kernels of recurring programs take on an H200, for `timed_steps`, at sizes that this machine runs in seconds.

Rows are those of `samples/benchmarks/never_slower.py`, and those of `planning.py` of which more is wanted than not to be slower. Sizes are
smaller than there: work-groups take the longer, so that a launch takes as long, and each byte stands for several. Times of launches are
what `samples/benchmarks/results` has of them; where it has only those of a step, they are its parts as bytes and operations go, and so
are those of launches of few groups, which take as long on any part of a GPU (`LEAST`).
"""

from __future__ import annotations

import contextlib
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[2] / "samples" / "benchmarks"
#: natively and on one H200: whole programs and their kernels
MEASURED = (
    ("h200_1_4_never_slower_all.json", "rows"),
    ("h200_1_2_never_slower_turns.json", "rows"),
    ("h200_1_2_never_slower_beside.json", "rows"),
    ("h200_1_4_planning_all.json", "programs"),
    ("h200_1_2_planning_kept.json", "programs"),
)
#: levels of the large graph of `breadth_first_search`
LEVELS = 30


@dataclass(frozen=True)
class Program:
    """A sample with its arguments, or one of `planning_programs` with its size and steps.

    `times`: nanoseconds of a work-group of each kernel, and of any launch of it, as `FAKE_CUDA_TIMES` has them. `nbytes`: that each byte
    stands for. `steps`: of one round of launches. `sample`: where it has another name than the program; "": it is one of
    `planning_programs`. `wide`: times of a work-group on one GPU of kernels that are launched with as many groups as the device has
    room for, so that each has the less to do the more GPUs there are.
    """

    arguments: str
    steps: int
    times: str
    nbytes: float = 1
    sample: str | None = None
    wide: str = ""

    def takes(self, count: int) -> str:
        """`FAKE_CUDA_TIMES` on so many GPUs."""
        named = (each.split("=") for each in self.wide.split())
        return " ".join([self.times, *(f"{name}={float(number) / count}" for name, number in named)])


PROGRAMS = {
    "conjugate_gradient": Program(
        "--size 512 --iterations 100",
        100,
        "multiply=70 reduce_kernel_stage1=40",
        16,
        wide="axpb=94 axpbyz=117",
    ),
    "page_rank": Program("--size 1048576 --steps 40", 40, "share=3.6 dangle=58 gather=80", 4),
    "page_rank_large": Program("--size 1048576 --steps 20", 20, "share=12 dangle=200 gather=440", 16, "page_rank"),
    "breadth_first_search": Program("--size 131072", LEVELS, "advance=450", 64),
    "k_means": Program("--size 1048576 --steps 20", 20, "assign=340", 64),
    "k_means_64": Program("--size 1048576 --clusters 64 --steps 20", 20, "assign=684", 64, "k_means"),
    "histogram": Program("--size 2097152 --runs 20", 20, "count=2770", 64),
    "option_arrays": Program("--size 1048576 --steps 200", 200, "", 64, wide="price=4920"),
    "fill_and_sum": Program("--size 4194304 --rounds 40", 40, "fill=78 sum=211", 128),
    "mandelbrot": Program("--size 1024 --most 2000 --pictures 10", 10, "escape=1410", 64),
    "triangular": Program("--size 4096 --runs 100", 100, "multiply=206", 100),
    "particle_binning": Program(
        "--size 262144 --steps 10", 10, "move=60 count=480 lay_out=0/12000 place=680", 64
    ),
    "scan_sort_compact": Program(
        "--size 262144", 1, "scan_lev1=5800 scan_lev2=0/8000 scan_final_update=6500 get_size_and_offsets=0/3000!", 32
    ),
    "stencil_3d": Program("--size 256 --steps 60", 60, "advance=2930", 16),
    "kernel_chain": Program("--size 1048576 --rounds 5", 1000, "turn=0.6 mix=0.7"),
    "out_of_order": Program("--size 1048576 --steps 100", 200, "wave=6 add=4", 4),
    "small_steps": Program("1048576 1500", 1500, "drive=0.2 smooth=0.3 back=0.2", sample=""),
    "multigrid": Program(
        "8192 20", 20, "sweep=0.69 residual=0.75 restriction=0.8 prolongation=0.6", sample=""
    ),
    "particles": Program("2048 40", 40, "push=0.82 deposit=0.78 settle=0.73", sample=""),
    "wavefront": Program("16384 3000", 3000, "diagonal=0/3000", sample=""),
    "wavelet": Program("2048 40", 40, "along_rows=4.9 along_columns=4.9", 16, sample=""),
    "receivers": Program("2048 200", 200, "wave=14", 16, sample=""),
    "lu": Program("8192 0", 256, "lu_tile=0/68000 lu_row=0/38000 lu_column=0/100000 lu_update=3.6", sample=""),
    "fields_3d": Program(
        "512 40",
        40,
        " ".join(f"{name}=0.62" for name in ("ex", "ey", "ez", "hx", "hy", "hz")) + " energy=590",
        sample="",
    ),
    "table": Program(
        "6144 384", 384, "table_tile=0/20000 table_row=0/25000 table_column=0/25000 table_rest=2", sample=""
    ),
}  # fmt: skip


def bars() -> dict[str, float]:
    """How many times as fast as natively each program has to be on four, its kernels alone."""
    import never_slower
    import planning

    found = {row.name: dict(row.bars).get(4, never_slower.WANTED) for row in never_slower.ROWS}
    return found | planning.ON_FOUR


def over_one() -> dict[str, float]:
    """The native time of each program's kernels over that on one worker, as measured: the middle one of several measurements."""
    ratios: dict[str, list[float]] = {}
    for file, what in MEASURED:
        columns = json.loads((BENCHMARKS / "results" / file).read_text())["columns"]
        for name, own in columns["1"][what].items():
            ratios.setdefault(name, []).append(_kernels(columns["native"][what][name]) / _kernels(own))
    return {name: statistics.median(found) for name, found in ratios.items()}


def _kernels(own: dict[str, Any]) -> float:
    return float(own["kernels"] if "kernels" in own else min(own["cold"], own["again"]))


@contextlib.contextmanager
def as_on_gpus(name: str) -> Iterator[None]:
    """Have the host read numbers that make it go on, where kernels compute nothing."""
    import numpy as np
    import pyopencl as cl
    import pyopencl.array as cl_array

    get, copy = cl_array.Array.get, cl.enqueue_copy
    reads = [0]

    def number(array: Any, *args: Any, **more: Any) -> Any:
        found = get(array, *args, **more)
        return np.ones_like(found) if found.shape == () else found

    def some_found(queue: Any, to: Any, source: Any, **more: Any) -> Any:
        event = copy(queue, to, source, **more)
        if isinstance(to, np.ndarray) and to.size == 1:
            reads[0] += 1
            to[0] = reads[0] % LEVELS > 0
        return event

    if name == "conjugate_gradient":
        cl_array.Array.get = number
    elif name == "breadth_first_search":
        cl.enqueue_copy = some_found
    try:
        yield
    finally:
        cl_array.Array.get, cl.enqueue_copy = get, copy
