"""PyOpenCL's arrays at size: `python -m tests.cpu.array_report --mib 100 --workers 4`.

Runs array expressions, reductions, scans, sorts and the other algorithms of PyOpenCL over arrays of so many
MiB, natively in one process and on the virtual device in another, compares the results, and reports how many
launches were split and why the others were not. Integers have to be the same; numbers that are added in
another order, because the devices have different numbers of compute units, have to be close. The exit status
is 0 where all results agree and at least nine tenths of the work-items, launches of one work-group aside,
were in launches that were split.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

WANTED = 0.9
Job = Callable[["Desk"], Any]
JOBS: dict[str, Job] = {}


def job(run: Job) -> Job:
    JOBS[run.__name__] = run
    return run


class Desk:
    """A queue, `count` elements of four bytes, and the arrays that all jobs begin with."""

    def __init__(self, count: int) -> None:
        import pyopencl as cl  # which one it is, the process decides
        import pyopencl.array as cl_array

        self.cl, self.array = cl, cl_array
        self.context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
        self.queue = cl.CommandQueue(self.context)
        self.count = count
        rng = np.random.default_rng(3)
        self.ints = cl_array.to_device(self.queue, rng.integers(-1000, 1000, count, dtype=np.int32))
        self.floats = cl_array.to_device(self.queue, rng.random(count, dtype=np.float32))
        self.others = cl_array.to_device(self.queue, rng.random(count, dtype=np.float32))

    def ascending(self, dtype: Any = np.int32, count: int | None = None) -> Any:
        return self.array.arange(self.queue, count or self.count, dtype=dtype)


@job
def expressions(desk: Desk) -> Any:
    a, b = desk.floats, desk.others
    return [2 * a + b * a - 3, (a - b) / (b + 1), a.astype(np.float64) ** 2, abs(-a)]


@job
def comparisons(desk: Desk) -> Any:
    a, b = desk.floats, desk.others
    chosen = desk.array.if_positive(a > b, a, b)
    return [chosen, desk.array.minimum(a, b), (a <= b).astype(np.int8)]


@job
def functions(desk: Desk) -> Any:
    from pyopencl import clmath

    return [clmath.sin(desk.floats), clmath.exp(desk.floats), clmath.fmod(desk.floats, desk.others + 1)]


@job
def slices(desk: Desk) -> Any:
    a = desk.ints
    return [a[1:] - a[:-1], a[5 : desk.count // 2] + 1, a.reverse() + a]


@job
def in_place(desk: Desk) -> Any:
    a = desk.ints.copy()
    a += 3
    a *= 2
    a[100 : desk.count // 3] = 7
    a[: desk.count // 2].fill(1)
    return a


@job
def taking(desk: Desk) -> Any:
    order = desk.array.to_device(
        desk.queue, np.random.default_rng(4).permutation(desk.count).astype(np.int32)
    )
    taken = desk.array.take(desk.ints, order)
    placed = desk.array.zeros_like(desk.ints)
    placed[order] = desk.ints
    return [taken, placed, desk.ints[order]]


@job
def joining(desk: Desk) -> Any:
    a = desk.ints
    both = desk.array.concatenate((a, a + 1))
    rows = a[: desk.count // 64 * 64].reshape(-1, 64)
    return [both, rows.T.copy(), desk.array.stack((a, a))]


@job
def complex_numbers(desk: Desk) -> Any:
    z = desk.floats + 1j * desk.others
    return [z.conj() * z, z.real, abs(z)]


@job
def fused(desk: Desk) -> Any:
    from pyopencl.elementwise import ElementwiseKernel

    kernel = ElementwiseKernel(
        desk.context, "float a, float *x, float *y, float *z", "z[i] = a * x[i] + y[i] * (i % 3)", "fused"
    )
    z = desk.array.empty_like(desk.floats)
    kernel(np.float32(5), desk.floats, desk.others, z)
    return z


@job
def ranged(desk: Desk) -> Any:
    from pyopencl.elementwise import ElementwiseKernel

    kernel = ElementwiseKernel(desk.context, "int *x, int *y", "y[i] = x[i] + i", "ranged")
    y = desk.array.zeros_like(desk.ints)
    kernel(desk.ints, y, range=slice(17, desk.count - 5, 3))
    kernel(desk.ints, y, slice=slice(100, 5000))
    return y


@job
def histogram(desk: Desk) -> Any:
    from pyopencl.elementwise import ElementwiseKernel

    kernel = ElementwiseKernel(
        desk.context, "int *x, int *bins", "atomic_inc(&bins[x[i] & 255])", "histogram"
    )
    bins = desk.array.zeros(desk.queue, 256, np.int32)
    kernel(desk.ints, bins, range=slice(desk.count))
    return bins


@job
def random_numbers(desk: Desk) -> Any:
    from pyopencl.clrandom import PhiloxGenerator, ThreefryGenerator

    drawn = PhiloxGenerator(desk.context, seed=5).uniform(desk.queue, desk.count, np.float32)
    normal = ThreefryGenerator(desk.context, seed=5).normal(desk.queue, desk.count, np.float32)
    # how the numbers lie depends on the device's compute units: compare what does not
    moments = [float(x) for x in (drawn.get().mean(), normal.get().mean(), normal.get().std())]
    return np.round(np.array(moments), 2)


@job
def sums(desk: Desk) -> Any:
    sum_, ints = desk.array.sum, desk.ints
    return [
        sum_(ints),
        sum_(ints.astype(np.int64)),
        sum_(desk.floats, dtype=np.float64),
        desk.array.dot(ints, ints),
    ]


@job
def extremes(desk: Desk) -> Any:
    a = desk.ints
    return [
        desk.array.max(a),
        desk.array.min(a),
        desk.array.max(desk.floats),
        (a > -2000).all(),
        (a > 999).any(),
    ]


@job
def parts(desk: Desk) -> Any:
    some = (desk.ascending(count=desk.count // 2) * 2).astype(np.int32)
    return [desk.array.subset_min(some, desk.ints), desk.array.subset_dot(some, desk.ints, desk.ints)]


@job
def custom_reduction(desk: Desk) -> Any:
    from pyopencl.reduction import ReductionKernel

    kernel = ReductionKernel(
        desk.context, np.int64, neutral="0", reduce_expr="a + b", map_expr="(long) x[i] * (i % 5)",
        arguments="__global const int *x",
    )  # fmt: skip
    return kernel(desk.ints)


@job
def inclusive_scan(desk: Desk) -> Any:
    from pyopencl.scan import InclusiveScanKernel

    a = desk.ints.copy()
    InclusiveScanKernel(desk.context, np.int32, "a + b", neutral="0")(a)
    return a


@job
def exclusive_scan(desk: Desk) -> Any:
    from pyopencl.scan import ExclusiveScanKernel

    a = desk.ints.copy()
    ExclusiveScanKernel(desk.context, np.int32, "a > b ? a : b", neutral="INT_MIN")(a)
    return a


@job
def running_sum(desk: Desk) -> Any:
    from pyopencl.scan import GenericScanKernel

    kernel = GenericScanKernel(
        desk.context, np.int64, arguments="__global int *x, __global long *out", input_expr="x[i]",
        scan_expr="a + b", neutral="0", output_statement="out[i] = item;",
    )  # fmt: skip
    out = desk.array.empty(desk.queue, desk.count, np.int64)
    kernel(desk.ints, out)
    return out


@job
def segmented_scan(desk: Desk) -> Any:
    from pyopencl.scan import GenericScanKernel

    kernel = GenericScanKernel(
        desk.context, np.int32, arguments="__global const int *x, __global int *out", input_expr="x[i]",
        scan_expr="across_seg_boundary ? b : (a + b)", neutral="0", is_segment_start_expr="i % 1000 == 0",
        output_statement="out[i] = item;",
    )  # fmt: skip
    out = desk.array.empty_like(desk.ints)
    kernel(desk.ints, out)
    return out


@job
def selections(desk: Desk) -> Any:
    from pyopencl import algorithm

    positive, count, _ = algorithm.copy_if(desk.ints, "ary[i] > 0")
    small, large, count2, _ = algorithm.partition(desk.ints, "ary[i] > 500")
    ordered = desk.array.to_device(desk.queue, (np.arange(desk.count) // 3).astype(np.int32))
    single, count3, _ = algorithm.unique(ordered)
    numbers = [int(x.get()) for x in (count, count2, count3)]
    return [positive[: numbers[0]], small[: numbers[1]], large[: desk.count - numbers[1]],
            single[: numbers[2]], np.array(numbers)]  # fmt: skip


@job
def radix_sort(desk: Desk) -> Any:
    from pyopencl.algorithm import RadixSort

    sort = RadixSort(desk.context, "int *x", key_expr="x[i]", sort_arg_names=["x"])
    shifted = desk.ints + 1000
    (result,), _ = sort(shifted, key_bits=12)
    return result


@job
def bitonic_sort(desk: Desk) -> Any:
    from pyopencl.bitonic_sort import BitonicSort

    size = 1 << (desk.count.bit_length() - 1)
    keys = desk.ints[:size].copy()
    keys, _ = BitonicSort(desk.context)(keys)
    return keys


@job
def lists(desk: Desk) -> Any:
    from pyopencl.algorithm import ListOfListsBuilder

    builder = ListOfListsBuilder(
        desk.context, [("found", np.int32)],
        "void generate(LIST_ARG_DECL USER_ARG_DECL index_type i)"
        "{ if (x[i] > 0) { APPEND_found(i); } if (x[i] > 500) { APPEND_found(x[i]); } }",
        arg_decls=[_vector_arg(np.int32, "x")],
    )  # fmt: skip
    result, _ = builder(desk.queue, desk.count, desk.ints)
    return [result["found"].starts, result["found"].lists]


def _vector_arg(dtype: Any, name: str) -> Any:
    from pyopencl.tools import VectorArg

    return VectorArg(dtype, name)


@job
def key_values(desk: Desk) -> Any:
    from pyopencl.algorithm import KeyValueSorter

    keys = (desk.ints & 255).astype(np.int32)
    starts, ordered, _ = KeyValueSorter(desk.context)(desk.queue, keys, desk.ints, 256, np.int32)
    return [starts, desk.array.sum(ordered)]


# running -----------------------------------------------------------------------------------------------


def results(desk: Desk, name: str) -> list[np.ndarray]:
    found = JOBS[name](desk)
    each = found if isinstance(found, list) else [found]
    return [np.asarray(item.get() if hasattr(item, "get") else item) for item in each]


def differs(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    """What is different, in words; empty where nothing is."""
    for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"result {index} is {ours.dtype}{ours.shape}, natively {theirs.dtype}{theirs.shape}"
        exact = ours.dtype.kind in "iub"
        if not (np.array_equal(ours, theirs) if exact else np.allclose(ours, theirs, rtol=1e-5, atol=1e-6)):
            return f"result {index} differs"
    return ""


@dataclass
class Launches:
    """Launches of one job: how many, of how many work-items, and why some were not split."""

    count: int = 0
    items: int = 0
    split: int = 0
    split_items: int = 0
    single: int = 0  #: of one work-group
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Launches) -> None:
        for name in ("count", "items", "split", "split_items", "single"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons.update(other.reasons)

    def __str__(self) -> str:
        share = self.split_items / self.items if self.items else 1.0
        return (
            f"{self.split} of {self.count} launches split ({share:.1%} of {self.items} work-items), "
            f"{self.single} of one work-group"
        )


class Watch:
    """Counts launches as the session plans them."""

    def __init__(self) -> None:
        from vdev.start.current import get_session

        self.now = Launches()
        get_session().observers.append(self._observe)

    def _observe(self, command: Any, plan: Any) -> None:
        ndrange = getattr(command, "ndrange", None)
        if ndrange is None:
            return
        groups = int(
            np.prod(
                [
                    -(-total // local)
                    for total, local in zip(ndrange.global_size, ndrange.local_size, strict=True)
                ]
            )
        )
        if groups == 1:
            self.now.single += 1
            return
        items = int(np.prod(ndrange.global_size))
        self.now.count += 1
        self.now.items += items
        if len(plan.partition) > 1:
            self.now.split += 1
            self.now.split_items += items
        else:
            why = "; ".join(plan.reasons) or "no reason given"
            self.now.reasons[f"{command.kernel.name} over {ndrange.global_size}: {why}"] += 1

    def take(self) -> Launches:
        taken, self.now = self.now, Launches()
        return taken


def save(folder: Path, count: int, names: Sequence[str]) -> None:
    """The native process: leave every job's results in `folder`."""
    desk = Desk(count)
    for name in names:
        np.savez(folder / f"{name}.npz", *results(desk, name))


def compare(folder: Path, count: int, names: Sequence[str]) -> bool:
    """The virtual process: run, compare, report; whether all is well."""
    desk, watch = Desk(count), Watch()
    total, different = Launches(), []
    for name in names:
        started = time.monotonic()
        found = results(desk, name)
        launches = watch.take()
        with np.load(folder / f"{name}.npz") as saved:
            difference = differs(found, [saved[key] for key in saved.files])
        (folder / f"{name}.npz").unlink()
        print(
            f"{name}: {difference or 'as natively'}; {launches} ({time.monotonic() - started:.1f} s)",
            flush=True,
        )
        for reason, times in launches.reasons.most_common():
            print(f"    {times} x {reason}")
        total.add(launches)
        if difference:
            different.append(name)
    print(f"{len(names) - len(different)} of {len(names)} as natively; in all {total}")
    return not different and total.split_items >= WANTED * total.items


def run_both(mib: float, workers: int, min_items: int, names: Sequence[str]) -> int:
    from vdev.start import engines

    engines.register_engines()
    count = int(mib * (1 << 20)) // 4
    environ = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", "-m", "tests.cpu.array_report", "--in", folder]
        command += ["--count", str(count), *names]
        subprocess.run(command, env=environ, check=True)
        virtual = environ | {"VDEV": "1", "VDEV_WORKERS": f"cpu:{workers}", "VDEV_MIN_ITEMS": str(min_items)}
        return subprocess.run(command, env=virtual, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cpu.array_report", description=__doc__)
    parser.add_argument("--mib", type=float, default=100, help="size of each array (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=4, help="CPU workers (default: %(default)s)")
    parser.add_argument("--min-items", type=int, default=1024, help="VDEV_MIN_ITEMS (default: %(default)s)")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("jobs", nargs="*", metavar="job", help=f"some of: {', '.join(JOBS)}")
    options = parser.parse_args()
    names = options.jobs or list(JOBS)
    if options.folder is None:
        return run_both(options.mib, options.workers, options.min_items, names)
    if os.environ.get("VDEV") == "1":
        return 0 if compare(options.folder, options.count, names) else 1
    save(options.folder, options.count, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
