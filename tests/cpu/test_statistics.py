"""`vdev.stats()` on a CPU engine: its rows add up to what the back ends counted, and say how launches ran.

The program has every kind of command; `test_explain` looks at the samples.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
#: prints the figures of the program whose arguments follow
SHOW = """
import json, runpy, sys, vdev
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("\\n" + json.dumps(vdev.stats().as_dict()))
"""


def figures(
    program: str, *arguments: str, workers: str = "cpu:3", cwd: Path = ROOT, **environ: str
) -> dict[str, Any]:
    """What `vdev.stats()` gives at the end of a program."""
    settings = {
        "VDEV": "1",
        "VDEV_WORKERS": workers,
        "VDEV_MIN_ITEMS": "0",
        "VDEV_PLANNING": "always",
        "PYOPENCL_NO_CACHE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SHOW, program, *arguments],
        env=os.environ | settings | environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def total(rows: list[dict[str, Any]]) -> dict[str, int]:
    routes = ("host_to_worker", "worker_to_worker", "worker_to_host")
    return {route: sum(row["moved"][route] for row in rows) for route in routes}


def check_bytes(found: dict[str, Any]) -> None:
    """Planned bytes by row, argument and route, against those that back ends counted."""
    assert found["moved"] == total([*found["kernels"], *found["commands"]])
    assert found["moved"] == found["counted"]
    assert set(found["undone"].values()) == {0}
    workers = found["workers"]
    assert found["counted"]["host_to_worker"] == sum(worker["from_host_nbytes"] for worker in workers)
    chunks = 0
    for kernel in found["kernels"]:
        assert kernel["moved"] == total(kernel["arguments"])
        assert kernel["launches"] == sum(item["launches"] for item in kernel["partitions"])
        chunks += sum(item["launches"] * item["workers"] for item in kernel["partitions"])
    assert chunks == sum(worker["launches"] for worker in workers)


EVERYTHING = """
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
__kernel void scatter(__global float *out, __global const int *idx, __global const float *v, int n) {
    int i = get_global_id(0);
    if (i >= n) return;
    out[idx[i]] = v[i];
}
__kernel void count(__global int *bins, __global const int *idx) {
    atomic_inc(&bins[idx[get_global_id(0)] & 255]);
}
__kernel void swap(__global float *a, __global float *b) {
    size_t i = get_global_id(0);
    a[i] = b[i] + 1;
}
__kernel void turn(__global volatile int *flag) {
    if (atomic_add(flag, 1) == 3) flag[1] = 7;
}
''').build()
scatter, count, swap, turn = (cl.Kernel(program, name) for name in ("scatter", "count", "swap", "turn"))
n, flags = 1 << 14, cl.mem_flags
idx = np.random.default_rng(1).permutation(n).astype(np.int32)
v = np.arange(n, dtype=np.float32)
idx_buf, v_buf = (cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=a) for a in (idx, v))
out, other = (cl.Buffer(context, flags.READ_WRITE, v.nbytes) for _ in range(2))
bins = cl.Buffer(context, flags.COPY_HOST_PTR, hostbuf=np.zeros(256, np.int32))
cl.enqueue_fill_buffer(queue, out, b"\\0", 0, v.nbytes)
for _ in range(3):
    scatter(queue, (n,), (64,), out, idx_buf, v_buf, np.int32(n))
for _ in range(2):
    count(queue, (n,), (64,), bins, idx_buf)
swap(queue, (n,), (64,), other, out)
swap(queue, (n,), (64,), out, out)
turn(queue, (n,), (64,), bins)
cl.enqueue_copy(queue, v_buf, other)
cl.enqueue_copy(queue, other, v)
mapped, _ = cl.enqueue_map_buffer(queue, out, cl.map_flags.READ | cl.map_flags.WRITE, 0, (n,), np.float32)
mapped[:] += 1
mapped.base.release(queue)
cl.enqueue_migrate_mem_objects(queue, [bins], cl.mem_migration_flags.HOST)
result = np.empty_like(v)
cl.enqueue_copy(queue, result, out)
expected = np.empty_like(v)
expected[idx] = v
assert np.array_equal(result, expected + 2)
"""


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    program = tmp_path_factory.mktemp("everything") / "everything.py"
    program.write_text(EVERYTHING)
    return figures(str(program))


def test_a_program_with_every_kind_of_command(everything: dict[str, Any]) -> None:
    check_bytes(everything)
    counts = {row["kind"]: row["count"] for row in everything["commands"]}
    assert counts == {
        "fill": 1,
        "copybuffer": 1,
        "write": 1,
        "map": 1,
        "unmap": 1,
        "migrate": 1,
        "read": 1,
        "fold": 1,
    }


def kernel(found: dict[str, Any], name: str) -> dict[str, Any]:
    row: dict[str, Any] = next(row for row in found["kernels"] if row["name"] == name)
    return row


def test_a_write_through_an_index(everything: dict[str, Any]) -> None:
    row = kernel(everything, "scatter")
    nbytes = 4 << 14
    assert (row["launches"], row["split"], row["line"]) == (3, 3, 2)
    (partition,) = row["partitions"]
    assert (partition["workers"], partition["available"]) == (3, 3)
    assert partition["chunks"] == [[0, [0], [85]], [1, [85], [170]], [2, [170], [256]]]
    assert partition["reasons"][0]["line"] == 5
    out, idx, v = row["arguments"]
    assert (out["access"], out["exact"], out["line"], out["text"]) == ("write", False, 5, "out[idx[i]]")
    assert "loaded from memory" in out["reason"]
    assert out["merged_nbytes"] == row["merged_nbytes"] == 3 * nbytes
    assert out["moved"]["worker_to_host"] == 3 * 3 * nbytes
    for argument in (idx, v):
        assert (argument["access"], argument["exact"], argument["nbytes"]) == ("read", True, nbytes)
        assert argument["moved"] == {"host_to_worker": nbytes, "worker_to_worker": 0, "worker_to_host": 0}


def test_atomics_are_merged(everything: dict[str, Any]) -> None:
    bins, idx = kernel(everything, "count")["arguments"]
    assert (bins["access"], bins["line"], bins["merged_nbytes"]) == ("atomic", 8, 0)
    assert bins["moved"] == {"host_to_worker": 0, "worker_to_worker": 0, "worker_to_host": 0}
    fold = next(row for row in everything["commands"] if row["kind"] == "fold")  # once for both launches
    assert fold["moved"] == {"host_to_worker": 0, "worker_to_worker": 0, "worker_to_host": 3 * 1024}
    assert idx["moved"] == {"host_to_worker": 0, "worker_to_worker": 0, "worker_to_host": 0}


def test_one_buffer_as_two_arguments_counts_once(everything: dict[str, Any]) -> None:
    a, b = kernel(everything, "swap")["arguments"]
    assert (a["access"], b["access"], b["shares_with"]) == ("write", "read", "a")


def test_a_launch_that_is_not_split_says_why(everything: dict[str, Any]) -> None:
    row = kernel(everything, "turn")
    assert (row["launches"], row["split"]) == (1, 0)
    (reason,) = row["partitions"][0]["reasons"]
    assert reason["line"] == 15
    assert row["partitions"][0]["workers"] == 1
