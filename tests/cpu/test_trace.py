"""VDEV_TRACE on a CPU engine: traces can be read, and their sums are the report's, for every kind of command,
for very many, in several threads and queues, and however the program ends. Perfetto's own trace processor reads
them as well; `test_explain` has it read the traces of all samples.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cpu.test_samples import ARGUMENTS, SAMPLES
from tests.cpu.test_statistics import EVERYTHING
from tests.trace_processor import missing, open_trace
from tests.trace_reader import Trace, check_import, check_peaks, check_sums, read_with_perfetto

needs_processor = pytest.mark.skipif(bool(missing()), reason=missing())


def run(
    *command: str, cwd: Path, workers: str = "cpu:3", status: int = 0, **environ: str
) -> tuple[Trace, dict[str, Any]]:
    """A program's trace and, made by the same run, its report."""
    settings = {
        "VDEV": "1",
        "VDEV_WORKERS": workers,
        "VDEV_MIN_ITEMS": "0",
        "VDEV_TRACE": "trace.json",
        "VDEV_EXPLAIN": "report.json",
        "PYOPENCL_NO_CACHE": "1",
    }
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | settings | environ,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == status, done.stderr
    trace = Trace(cwd / "trace.json")
    report = cwd / "report.json"
    figures = json.loads(report.read_text()) if report.exists() else trace.figures
    return trace, figures


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("everything")
    (folder / "everything.py").write_text(EVERYTHING)
    trace, figures = run("everything.py", cwd=folder)
    read_with_perfetto(folder / "trace.json", figures)
    return trace, figures


def test_every_command_is_on_its_tracks(everything: tuple[Trace, dict[str, Any]]) -> None:
    trace, figures = everything
    check_sums(trace, figures)
    commands = [event["name"] for event in trace.track("MainThread") if event["cat"] == "command"]
    on_queue = [event["name"] for event in trace.track("queue 1 (in order)")]
    # A fold is submitted, and planned, while the command that wants it is: before it there, and after its begin here.
    assert [name for name in on_queue if name != "fold"] == [name for name in commands if name != "fold"]
    assert on_queue[on_queue.index("fold") + 1] == commands[commands.index("fold") - 1]
    counts = {row["name"]: row["launches"] for row in figures["kernels"]}
    counts |= {row["kind"]: row["count"] for row in figures["commands"]}
    assert {name: commands.count(name) for name in counts} == counts
    kinds = {event["cat"] for event in trace.slices}
    assert kinds == {"planning", "command", "queue", "kernel", "transfer", "device", "merge", "host"}


def test_flows_lead_from_a_command_to_all_it_caused(everything: tuple[Trace, dict[str, Any]]) -> None:
    trace, _ = everything
    (first, *_) = [
        event for event in trace.slices if event["cat"] == "command" and event["name"] == "scatter"
    ]
    caused = [
        event for event in trace.slices if event.get("bind_id") == first["bind_id"] and event is not first
    ]
    assert {event["cat"] for event in caused} == {"kernel", "merge", "queue", "transfer"}
    assert sum(event["cat"] == "kernel" for event in caused) == 3
    assert {event["pid"] for event in caused} == {2, 3}


def test_counters_of_memory_and_links(everything: tuple[Trace, dict[str, Any]]) -> None:
    trace, figures = everything
    check_peaks(trace, figures)
    rates = [event for event in trace.counters if event["name"].startswith("rate ")]
    assert {event["name"] for event in rates} >= {"rate host to worker 0", "rate worker 2 to host"}
    transfers = [event for event in trace.slices if event["cat"] == "transfer" and event["took"]]
    assert len(rates) == 2 * len(transfers)


@needs_processor
@pytest.mark.parametrize("name", ["saxpy", "heat_equation", "nbody"])
def test_perfetto_reads_a_sample(name: str, tmp_path: Path) -> None:
    """Every slice, flow and value is there, and sums up to the report; and this says which processor it was."""
    program = str(SAMPLES / f"{name}.py")
    picture = ["--output", "-"] if name == "heat_equation" else []
    trace, figures = run(program, *ARGUMENTS[name].split(), *picture, cwd=tmp_path, workers="cpu:4")
    check_sums(trace, figures)
    check_peaks(trace, figures)
    read_with_perfetto(tmp_path / "trace.json", figures)
    with open_trace(tmp_path / "trace.json") as processor:
        assert processor.http.status().human_readable_version.startswith("Perfetto v")


@pytest.fixture(scope="module")
def three_launches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    run("-c", FLOOD.replace("PROFILED", "False").replace("LAUNCHES", "3"), cwd=folder)
    return folder / "trace.json"


def overlap(events: list[dict[str, Any]]) -> None:
    """Two slices of one track that do not nest."""
    first = next(event for event in events if event.get("cat") == "queue" and event["dur"] > 1)
    del first["bind_id"], first["flow_in"], first["flow_out"]
    events.append(first | {"ts": first["ts"] + first["dur"] / 2})


def arrive_first(events: list[dict[str, Any]]) -> None:
    """A flow that arrives and never began."""
    next(event for event in events if event.get("flow_in"))["bind_id"] = "0xfffffff"


def take_longer(events: list[dict[str, Any]]) -> None:
    """A slice that is not as long as written."""
    next(event for event in events if event.get("cat") == "kernel")["dur"] += 0.001


def lose_a_value(events: list[dict[str, Any]]) -> None:
    events.remove(next(event for event in events if event["ph"] == "C"))


@needs_processor
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (overlap, "slice_drop_overlapping_complete_event"),
        (arrive_first, "without_start"),
        (take_longer, "slices"),
        (lose_a_value, "values"),
    ],
)
def test_perfetto_is_asked_what_can_go_wrong(
    damage: Callable[[list[Any]], None], said: str, three_launches: Path, tmp_path: Path
) -> None:
    """None of what it compares is empty, and no complaint goes unread."""
    trace, content = Trace(three_launches), json.loads(three_launches.read_text())
    damage(content["traceEvents"])
    (tmp_path / "damaged.json").write_text(json.dumps(content))
    with open_trace(three_launches) as processor:
        check_import(processor, trace)
    with open_trace(tmp_path / "damaged.json") as processor, pytest.raises(AssertionError, match=said):
        check_import(processor, trace)


FLOOD = """
import numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE if PROFILED else 0)
kernel = cl.Kernel(cl.Program(context, '''
__kernel void axpy(__global float *y, __global const float *x, float a)
{
    size_t i = get_global_id(0);
    y[i] += a * x[i];
}
''').build(), "axpy")
kernel.set_arg_types([None, None, np.float32])
zeros = np.zeros(2048, np.float32)
y, x = (cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=zeros) for _ in range(2))
events = [kernel(queue, (2048,), (64,), y, x, 2.0) for _ in range(LAUNCHES)]
queue.finish()
"""


@pytest.mark.parametrize("profiled", [False, True])
def test_many_short_launches(profiled: bool, tmp_path: Path) -> None:
    """More than are kept in memory at once; their time is shared, and the sums are still the report's."""
    launches = 300 if profiled else 20_000
    program = FLOOD.replace("PROFILED", str(profiled)).replace("LAUNCHES", str(launches))
    trace, figures = run("-c", program, cwd=tmp_path, workers="cpu:2", VDEV_EXPLAIN="0")
    check_sums(trace, figures)
    kernels = [event for event in trace.slices if event["cat"] == "kernel"]
    assert len(kernels) == 2 * launches
    shared = sum("args" in event for event in kernels)
    if profiled:
        assert shared == 0
    else:
        assert shared  # how many depends on how busy the machine is: long operations are timed one by one
    read_with_perfetto(tmp_path / "trace.json", figures)


OUT_OF_ORDER = """
import threading, numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
queues = [cl.CommandQueue(context, properties=properties), cl.CommandQueue(context)]
source = "__kernel void twice(__global float *y) { y[get_global_id(0)] *= 2; }"
program = cl.Program(context, source).build()
def work(queue):
    kernel = cl.Kernel(program, "twice")
    for _ in range(5):
        array = np.ones(1 << 18, np.float32)
        buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=array)
        done = kernel(queue, array.shape, (64,), buffer)
        cl.enqueue_copy(queue, array, buffer, wait_for=[done])
        assert (array == 2).all()
gate = cl.UserEvent(context)
held = cl.enqueue_marker(queues[1], wait_for=[gate])
threads = [threading.Thread(target=work, args=(queues[0],), name=f"thread-{k}") for k in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
gate.set_status(cl.command_execution_status.COMPLETE)
work(queues[1])
for queue in queues:
    queue.finish()
"""


def test_threads_queues_and_user_events(tmp_path: Path) -> None:
    trace, figures = run("-c", OUT_OF_ORDER, cwd=tmp_path)
    check_sums(trace, figures)
    read_with_perfetto(tmp_path / "trace.json", figures)
    threads = {trace.names[event["pid"], event["tid"]] for event in trace.slices if event["cat"] == "command"}
    assert len(threads) == 3
    queues = [name for name in trace.names.values() if name.startswith("queue ")]
    assert any("out of order" in name for name in queues)
    assert any("(in order)" in name for name in queues)
    assert sum(event["cat"] == "queue" and event["name"] == "marker" for event in trace.slices) == 1


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("import sys; sys.exit(3)", 3),
        ("1 / 0", 1),
        ("import threading; threading.Timer(0.2, queue.finish).start()", 0),
    ],
    ids=["exit", "error", "thread"],
)
def test_however_the_program_ends(end: str, status: int, tmp_path: Path) -> None:
    program = FLOOD.replace("PROFILED", "False").replace("LAUNCHES", "3") + end
    trace, figures = run("-c", program, cwd=tmp_path, status=status)
    check_sums(trace, figures)
    assert len([event for event in trace.slices if event["cat"] == "kernel"]) == 9


def test_a_failed_command_is_not_counted_as_done(tmp_path: Path) -> None:
    """A launch that waits for a command that failed moves nothing; its rows and the back ends' agree."""
    program = FLOOD.replace("PROFILED", "False").replace("LAUNCHES", "2")
    program += """
failed = cl.UserEvent(context)
kernel(queue, (2048,), (64,), y, x, 2.0, wait_for=[failed])
failed.set_status(-5)
other = cl.CommandQueue(context)
kernel(other, (2048,), (64,), y, x, 2.0)
other.finish()
"""
    trace, figures = run("-c", program, cwd=tmp_path)
    check_sums(trace, figures)
    assert figures["kernels"][0]["launches"] == 3
    assert figures["moved"] == figures["counted"]


def test_processes_may_have_files_of_their_own(tmp_path: Path) -> None:
    program = FLOOD.replace("PROFILED", "False").replace("LAUNCHES", "2")
    program += "import os; os.mkdir(str(os.getpid()))"
    settings = {"VDEV": "1", "VDEV_WORKERS": "cpu:2", "VDEV_TRACE": "%p.json"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, cwd=tmp_path, check=False
    )
    assert done.returncode == 0
    (number,) = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert Trace(tmp_path / f"{number}.json").took("kernel") > 0


@pytest.mark.parametrize("path", ["missing/trace.json", "."])
def test_a_file_that_cannot_be(path: str, tmp_path: Path) -> None:
    settings = {"VDEV": "1", "VDEV_WORKERS": "cpu:2", "VDEV_TRACE": path}
    code = "import pyopencl as cl; cl.get_platforms()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | settings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert f"VDEV_TRACE={path!r} is not valid" in done.stderr
    assert not any(tmp_path.iterdir())


def test_figures_in_the_middle_of_a_run(tmp_path: Path) -> None:
    """They have the times of everything that has ended by then, and nothing is counted twice."""
    program = FLOOD.replace("PROFILED", "False").replace("LAUNCHES", "100")
    program += """
import json, vdev
first = vdev.stats()
assert first.timed and first.launches == 100
assert first.kernel("axpy").times == vdev.stats().kernel("axpy").times
kernel(queue, (2048,), (64,), y, x, 2.0)
queue.finish()
second = vdev.stats()
assert second.launches == 101
assert 0 < first.kernel("axpy").times.kernel_ns < second.kernel("axpy").times.kernel_ns
json.dump(second.as_dict(), open("second.json", "w"))
"""
    trace, figures = run("-c", program, cwd=tmp_path, workers="cpu:2", VDEV_EXPLAIN="0")
    check_sums(trace, figures)
    assert json.loads((tmp_path / "second.json").read_text())["kernels"] == figures["kernels"]


def test_a_full_disk_ends_the_trace_and_not_the_program(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    program = FLOOD.replace("PROFILED", "False").replace("LAUNCHES", "20_000") + "print('done')"
    settings = {"VDEV": "1", "VDEV_WORKERS": "cpu:2", "VDEV_TRACE": str(full)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | settings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "an internal error: the trace and the report's times end here" in done.stderr
