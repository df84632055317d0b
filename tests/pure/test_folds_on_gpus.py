"""Sums left on several GPUs are folded by one kernel that reads the other GPUs' parts in place: the CUDA back end as it is, on a
driver without GPUs that runs whatever no event orders in the worst order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vdev.translators.ranges.grain import BYTES, Grain, of_store, of_unit
from vdev.translators.ranges.region import Region

from vdev.backends.cuda import kernels
from vdev.backends.cuda.driver import Driver, LaunchConfig
from vdev.backends.cuda.own_kernels import OwnKernels, merging_kernel
from vdev.backends.merging import combine

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: counts into the same bins again and again, and looks at them in the three ways that fold: by a read, by a kernel that is cut as
#: well, and by a copy on one GPU, beside which the others already begin anew
PROGRAM = """
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void count(global uint *bins, global const uint *values, uint n)
{ for (uint i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&bins[values[i] % 256]); }
kernel void look(global uint *seen, global const uint *bins) { seen[get_global_id(0)] += bins[get_global_id(0)] & 1; }
''').build()
count, look = cl.Kernel(program, "count"), cl.Kernel(program, "look")
count.set_arg_types([None, None, np.uint32])
values = np.random.default_rng(0).integers(0, 2**31, 4096).astype(np.uint32)
def written(array):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
def content(buffer):
    host = np.empty(256, np.uint32)
    cl.enqueue_copy(queue, host, buffer)
    return host
bins, seen, given = written(np.zeros(256, np.uint32)), written(np.zeros(256, np.uint32)), written(values)
kept = [written(np.zeros(256, np.uint32)) for _ in range(4)]
total, odd = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
lengths = iter(range(4096, 0, -256))  # each time others, or a part that is read too late would be the right one
def step():
    n = next(lengths)
    count(queue, (512,), (16,), bins, given, np.uint32(n))
    total[:] += np.bincount(values[:n] % 256, minlength=256).astype(np.uint32)
for number in range(3):
    step()
    assert (content(bins) == total).all(), f"read {number}"
for number in range(3):
    step()
    look(queue, (256,), (16,), seen, bins)
    odd += total & 1
assert (content(seen) == odd).all(), "looked at"
wanted = []
for buffer in kept:
    step()
    cl.enqueue_copy(queue, buffer, bins)
    wanted.append(total.copy())
for number, (buffer, expected) in enumerate(zip(kept, wanted)):
    assert (content(buffer) == expected).all(), f"copy {number}"
print("right")
"""

#: the fold does not wait for what its peers wrote
NOT_AFTER_ITS_PEERS = """
from vdev.planner import builder, instructions
append = builder.PlanBuilder._append
def hasty(self, item, touches, after=()):
    append(self, item, touches[-1:] if isinstance(item, instructions.Fold) else touches, after)
builder.PlanBuilder._append = hasty
"""
#: its peers do not wait for the fold
NOT_BEFORE_ITS_PEERS = """
from vdev.executor import hazards, holdings
holdings.Holdings.did_read = lambda self, holder, reader, step: None
init = hazards.HazardsOfPlan.__init__
def forgetful(self, *args):
    init(self, *args)
    self._reads = []
hazards.HazardsOfPlan.__init__ = forgetful
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where our own kernels are compiled already: a program that waits for a compiler finds that everything else has been done."""
    found = tmp_path_factory.mktemp("cuda")
    for source in kernels.SOURCE_OF.values():
        fake_cuda.library_of(source, (), found)
    return found


def _environment(folder: Path, late: int) -> dict[str, str]:
    always = {"VDEV_PLANNING": "always", "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1"}
    return fake_cuda.environment(folder, late=late) | always


@pytest.mark.parametrize("late", [0, 1])
def test_folds_wait_for_their_peers_and_peers_for_them(folder: Path, late: int) -> None:
    env = _environment(folder, late) | {"FAKE_CUDA_CALLS": str(folder / "calls")}
    assert "right" in fake_cuda.run(PROGRAM, env)


def test_parts_that_cannot_be_read_in_place_are_copied(folder: Path) -> None:
    assert "right" in fake_cuda.run(PROGRAM, _environment(folder, 1) | {"FAKE_CUDA_PEERS": "0"})


@pytest.mark.parametrize(("late", "planted"), [(1, NOT_AFTER_ITS_PEERS), (0, NOT_BEFORE_ITS_PEERS)])
def test_a_missing_wait_is_found(folder: Path, late: int, planted: str) -> None:
    with pytest.raises(AssertionError, match=r"read \d|copy \d|looked at"):
        fake_cuda.run(planted + PROGRAM, _environment(folder, late))


# the kernels ----------------------------------------------------------------------------------------


class _Launcher:
    """Runs the kernels' rendition for the host at once."""

    def __init__(self, folder: Path) -> None:
        self._libraries = {
            source: ctypes.CDLL(str(fake_cuda.library_of(source, (), folder)))
            for source in kernels.SOURCE_OF.values()
        }
        self.count = 0

    starting = Driver.starting

    def _launch(self, *args: ctypes.c_void_p) -> int:
        at, function, _, extra = [arg.value or 0 for arg in args]
        config = LaunchConfig.from_address(at)
        places = (ctypes.c_void_p * 5).from_address(extra)
        name = kernels.NAMES[function]
        run = self._libraries[kernels.SOURCE_OF[name]][f"run_{name}"]
        run(ctypes.c_void_p(places[1]), config.groups, config.work_items)
        self.count += 1
        return 0


def _check(result: int, name: str) -> None:
    assert result == 0, name


def _some(rng: np.random.Generator, dtype: str, nbytes: int) -> np.ndarray:
    if dtype.startswith("f"):
        found = rng.standard_normal(nbytes // int(dtype[1])).astype(dtype)
        found[rng.integers(0, found.size, 3)] = np.nan
        return found.view(np.uint8)
    return rng.integers(0, 256, nbytes, dtype=np.uint8)


def _expected(
    target: np.ndarray, parts: Sequence[tuple[np.ndarray, Region]], op: str, dtype: str
) -> np.ndarray:
    found = target.copy()
    for memory, region in parts:
        for start, stop in region.runs.tolist():
            combine(found[start:stop], memory[start:stop], op, dtype)
    return found


def test_kernels_fold_as_numpy_does(folder: Path) -> None:
    """Rows, single runs, parts of unequal extent, and more parts than one launch takes."""
    launcher: Any = _Launcher(folder)
    rng = np.random.default_rng(3)
    own = OwnKernels(0, 1, lambda: kernels.NAMES.index, launcher.starting, _check)
    rows = Region.union(Region.span(64 * row, 64 * row + 32) for row in range(8))
    # elements of 4 and 8 bytes in rows of 3, as where a kernel writes each third byte
    thirds = Region.boxes(0, 1, [(3, 330)])
    cut = Region.spans([(8, 16), (40, 56), (104, 112), (264, 296), (304, 312)])
    cut = (cut - thirds) | (cut & thirds)
    assert any(block.nbytes % 4 for block in cut.blocks())
    shapes = [  # and the launches that each takes
        ([Region.span(0, 1024)] * 3, 1),
        ([rows, Region.span(0, 512)], 2),
        ([Region.span(8, 96), Region.span(64, 200), Region.span(512, 520)], 4),
        ([Region.span(0, 256)] * (kernels.MOST_PARTS + 2), 2),
        ([cut, cut], 5),
    ]
    folds = [name.split("_")[1:] for name in kernels.NAMES if name.startswith("fold_")]
    for op, element in folds:
        for regions, launches in shapes:
            target = _some(rng, element, 1024)
            parts = [(_some(rng, element, 1024), region) for region in regions]
            expected = _expected(target, parts, op, element)
            launcher.count = 0
            places = [(memory.ctypes.data, region) for memory, region in parts]
            for fold in own.folds(target.ctypes.data, places, op, element):
                fold.call()
            np.testing.assert_array_equal(target, expected, err_msg=f"{op} {element} {regions}")
            assert launcher.count == launches
    assert len(folds) == 30


@pytest.mark.parametrize(
    ("op", "dtype", "grain", "name"),
    [
        ("add", "float32", BYTES, "fold_add_f4"),
        ("max", "uint64", BYTES, "fold_max_u8"),
        ("diff", "", of_unit(4), "merge_diff_u4"),
        ("diff", "", of_unit(16), "merge_diff_u16"),
        ("diff", "", of_unit(32), "merge_units"),
        ("diff", "", of_store(12, 0, 8), "merge_units"),
    ],
)
def test_what_is_prepared_is_what_merges(op: str, dtype: str, grain: Grain, name: str) -> None:
    started: list[str] = []

    def find(asked: str) -> int:
        started.append(asked)
        return len(started)

    own = OwnKernels(0, 1, lambda: find, lambda *_: lambda: 0, _check)
    own.merge((1 << 12, 1 << 13, 1 << 14), Region.span(0, 96), op, dtype, grain)
    assert started == [merging_kernel(op, dtype or None, grain)] == [name]


def test_there_is_nothing_to_prepare_for_other_operations() -> None:
    assert merging_kernel("add", "float16", BYTES) is None
    assert merging_kernel("xor", "float32", BYTES) is None


def test_merges_of_words_are_compiled_before_anybody_asks_for_them() -> None:
    assert merging_kernel("diff", None, of_store(4, 0, 4)) in kernels.USUAL
