"""The report and its advice from figures that are made up."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel

from vdev.observe import explain
from vdev.observe.advice import Advice, advise, most_expensive
from vdev.observe.figures import Moved, Times
from vdev.observe.snapshots import NOTHING
from vdev.observe.statistics import (
    ArgumentStatistics,
    CommandStatistics,
    KernelStatistics,
    PartitionStatistics,
    Reason,
    Statistics,
    WorkerStatistics,
)
from vdev.observe.tallies import access_text, line_of, source_line
from vdev.planner.footprints import format_reason
from vdev.planner.launch_search import FEWER
from vdev.session.launch_plans import KEPT, THRIFTY

MB = 10**6
WORKER = WorkerStatistics(0, "opencl", "a device", 0, 0, 0, 0, 0, 0, 0, 7 * MB)
SPLIT = PartitionStatistics(10, 2, 2, (4096,), (64,), ((0, (0,), (32,)), (1, (32,), (64,))), ())
INDEXED = "an index that depends on a value loaded from memory"
ARGUMENT = ArgumentStatistics(
    0, "out", "float*", "read", True, None, 14, "out[i]", 400 * MB, None, Moved(), 0
)
KERNEL = KernelStatistics(
    "work", 1, 3, 10, 10, (SPLIT,), (ARGUMENT,), Moved(), 0, 1, 5 * MB, Times(kernel_ns=1000 * MB)
)


def figures(*kernels: KernelStatistics, timed: bool = True) -> Statistics:
    moved = Moved()
    for kernel in kernels:
        moved.include(kernel.moved)
    workers = (WORKER, replace(WORKER, number=1))
    return Statistics(workers, kernels, (), moved, moved, Moved(), timed)


def with_argument(**changes: object) -> KernelStatistics:
    argument = replace(ARGUMENT, **changes)  # type: ignore[arg-type]
    times = Times(kernel_ns=1000 * MB, transfer_ns=argument.moved.nbytes // 10)
    merged = argument.merged_nbytes
    return replace(KERNEL, arguments=(argument,), moved=argument.moved, merged_nbytes=merged, times=times)


SCATTER = with_argument(
    access="write",
    exact=False,
    inexact_mode="write",
    reason=INDEXED,
    text="out[idx[i]]",
    moved=Moved(worker_to_host=8000 * MB, host_to_worker=4000 * MB),
    merged_nbytes=4000 * MB,
)


def only(*kernels: KernelStatistics, timed: bool = True) -> Advice:
    (advice,) = advise(figures(*kernels, timed=timed))
    return advice


def test_a_write_through_an_index():
    advice = only(SCATTER)
    assert str(advice).startswith(
        "`out[idx[i]]`, line 14 of kernel work: written through an index, so results of several workers are compared: "
        "400 MB of its 400 MB at each launch, and 12 GB moved in all. "
    )
    assert "gather" in advice.change
    assert (advice.cost_nbytes, advice.cost_ns) == (12_000 * MB, 1200 * MB)


@pytest.mark.parametrize(
    ("changes", "problem", "change", "nbytes"),
    [
        (
            {
                "access": "write",
                "exact": False,
                "reason": "a condition on a loaded value",
                "merged_nbytes": MB,
            },
            "written where analysis cannot follow (a condition on a loaded value)",
            "Write in every case",
            1000 * MB,
        ),
        (
            {"access": "write", "exact": False, "reason": "goto", "merged_nbytes": MB},
            "written where analysis cannot follow (goto)",
            "Compute the index at which it is written",
            1000 * MB,
        ),
        (
            {"access": "atomic", "exact": False, "reason": INDEXED, "merged_nbytes": 10 * MB},
            "at each launch 1 MB are fetched",
            "__local memory",
            1000 * MB,
        ),
        (
            {"exact": False, "reason": INDEXED},
            "1 GB moved for its 400 MB, 100 MB a launch",
            "get_global_id()",
            600 * MB,
        ),
        ({"moved": Moved(host_to_worker=4000 * MB)}, "400 MB of its 400 MB move", "write it once", 3600 * MB),
        ({"moved": Moved(worker_to_worker=3000 * MB)}, "between workers", "same dimension", 2600 * MB),
        ({"fine": True}, "so 100 MB move to and from the workers", "coarse-grain", 1000 * MB),
    ],
    ids=["condition", "other", "atomics", "read", "from the host", "between workers", "fine-grain"],
)
def test_what_is_said_of_an_argument(changes, problem, change, nbytes):
    advice = only(with_argument(**({"moved": Moved(host_to_worker=1000 * MB)} | changes)))
    assert problem in advice.problem
    assert change in advice.change
    assert (advice.line, advice.text, advice.cost_nbytes) == (14, "out[i]", nbytes)


@pytest.mark.parametrize(
    "changes",
    [
        {"moved": Moved(host_to_worker=400 * MB)},  # it has to come once
        {"moved": Moved(worker_to_worker=1500 * MB)},  # a halo at each of ten launches
        {"exact": False, "reason": INDEXED, "moved": Moved(host_to_worker=400 * MB)},
        {"moved": Moved(host_to_worker=1500), "nbytes": 100},  # next to nothing
    ],
)
def test_what_is_not_worth_a_word(changes):
    assert advise(figures(with_argument(**changes))) == ()


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("one work-group", "smaller work-group size"),
        ("small, but cut: its data lies on several workers", "more work-items"),
        ("fewer than 1024 work-items", "VDEV_MIN_ITEMS"),
        ("1 of 2 workers for 1 work-groups", "smaller work-groups"),
        ("`goto` (line 9)", "without goto"),
        (
            "argument `flag`: atomics that cannot be merged touch the same bytes, line 9",
            "do not use what they return",
        ),
        ("something else (line 9)", "Change that line"),
        ("something else", "the whole kernel"),
        (THRIFTY, "VDEV_PLANNING=always"),
        (KEPT, "VDEV_GATHER=0"),
        (FEWER, "VDEV_PLANNING=always"),
        ("1 of 2 workers by the kernel's estimated time", "more in each launch"),
    ],
)
def test_launches_that_were_not_split(reason, change):
    line = 9 if "line 9" in reason else None
    partition = replace(SPLIT, workers=1, reasons=(Reason(reason, line, "the line" if line else ""),))
    kernel = replace(KERNEL, split=0, partitions=(partition,))
    advice = only(kernel)
    assert advice.line == (line or KERNEL.line)
    assert advice.problem == f"10 launches ran on one worker of 2: {reason}"
    assert change in advice.change
    assert advice.cost_ns == 500 * MB
    untimed = only(replace(kernel, times=Times()), timed=False)
    assert untimed.cost_ns is None


def test_the_most_expensive_comes_first():
    alone = replace(SPLIT, workers=1, reasons=(Reason("one work-group", None),))
    small = with_argument(moved=Moved(host_to_worker=4000 * MB))
    slow = replace(KERNEL, name="slow", split=0, partitions=(alone,), times=Times(kernel_ns=10**10))
    found = advise(figures(small, SCATTER, slow))
    assert [item.kernel for item in found] == ["slow", "work", "work"]
    costs = [item.cost_ns for item in found if item.cost_ns is not None]
    assert costs == sorted(costs, reverse=True)
    # not timed, what uses too few workers is the first to look at
    untimed = [replace(kernel, times=Times()) for kernel in (SCATTER, slow)]
    assert [item.kernel for item in advise(figures(*untimed, timed=False))] == ["slow", "work"]


def test_the_most_expensive_thing_is_always_named():
    """Also where there is no advice on it: a halo that moves at each of many launches."""
    halo = with_argument(moved=Moved(worker_to_worker=876_000 * MB, host_to_worker=400 * MB), nbytes=10**13)
    found = figures(halo)
    assert advise(found) == ()
    assert str(most_expensive(found)) == (
        "876 GB moved for its 10 TB, 87.6 GB a launch, most of it between workers (`out` of kernel work)"
    )
    text = " ".join(explain.as_text(found).split())
    assert "largest expense apart from the kernels' own work: 876 GB moved" in text
    assert explain.as_dict(found)["most_expensive"]["nbytes"] == 876_400 * MB


@pytest.mark.parametrize(
    ("kernel", "named"),
    [
        (replace(KERNEL, planning_ns=9 * 10**9, plans=3), "making 3 plans (kernel work)"),
        (replace(KERNEL, planning_ns=9 * 10**9, plans=1), "making 1 plan (kernel work)"),
        (
            replace(KERNEL, times=Times(kernel_ns=1, merge_ns=10**9)),
            "merging what workers wrote (kernel work)",
        ),
    ],
)
def test_other_expenses(kernel, named):
    assert str(most_expensive(figures(kernel))) == named


def test_commands_are_an_expense():
    row = CommandStatistics("write", 3, Moved(host_to_worker=900 * MB), 0, 0, Times(transfer_ns=10**8))
    found = replace(figures(KERNEL), commands=(row,), moved=row.moved)
    assert str(most_expensive(found)) == "3 x write: 900 MB moved, from the host to workers"


def test_nothing_that_cost_anything():
    free = replace(KERNEL, planning_ns=0)
    assert most_expensive(figures(free)) is None
    assert "most expensive beside" not in explain.as_text(figures(free))


def test_the_report_says_it_all():
    lines = explain.as_text(figures(SCATTER)).splitlines()
    text = " ".join(" ".join(lines).split())
    for part in (
        "10 launches on 2 workers (a device)",
        "kernel work (program 1, line 3): 10 launches, all split",
        "10 x on 2 workers: 4096 work-items in groups of 64",
        "worker 0: 0..31, worker 1: 32..63",
        "write, not exact 400 MB",
        f"`out[idx[i]]`, line 14: {INDEXED}",
        "merged 4 GB",
        "kernel 1 s, transfer 1.2 s, planning 5 ms (1 plan)",
        "the back ends counted the same bytes",
        "advice, most expensive first",
        "[about 1.2 s, 12 GB]",
    ):
        assert part in text, text
    assert all(len(line) <= 120 for line in lines), lines


def test_a_report_without_times_or_with_failures():
    text = explain.as_text(figures(KERNEL, timed=False))
    assert "time: planning 5 ms" in text
    assert "no advice" in text
    failed = replace(figures(SCATTER), counted=Moved(), undone=SCATTER.moved)
    text = explain.as_text(failed)
    assert "the back ends counted nothing" in text
    assert "because commands failed: 12 GB" in text
    assert explain.as_text(NOTHING) == "vdev: the virtual device was not used"


def test_the_report_as_json():
    found = json.loads(json.dumps(explain.as_dict(figures(SCATTER))))
    assert found["kernels"][0]["arguments"][0]["text"] == "out[idx[i]]"
    (advice,) = found["advice"]
    assert advice["line"] == 14
    assert advice["message"].startswith("`out[idx[i]]`, line 14")


def test_lines_of_an_included_file_are_quoted_from_it(tmp_path: Path) -> None:
    header = tmp_path / "scatter.h"
    header.write_text(
        "// a header\n\nvoid put(global int *out, global int *at, int i)\n{\n  out[at[i]] = i;\n}\n"
    )
    source = """#include "scatter.h"
        kernel void f(global int *out, global int *at) { put(out, at, get_global_id(0)); }
        kernel void g(global int *out, global int *at) {
            out[at[get_global_id(0)]] = 1;
            out[at[1]] = 2; }"""
    program = parse_program(source, [f"-I{tmp_path}"])
    lines = {
        name: next(found.line for found in analyse_kernel(program, name).accesses if found.mode == "write")
        for name in ("f", "g")
    }
    assert [f"line {lines[name]}" for name in ("f", "g")] == [f"line 5 of {header}", "line 4"]
    assert pickle.loads(pickle.dumps(lines["f"])).file == str(header)
    reason = format_reason("argument `out`", "an index", lines["f"])
    assert source_line(source, line_of(reason)) == access_text(source, lines["f"], "out") + " = i;"
    assert source_line(source, line_of(reason)) == "out[at[i]] = i;"
    assert program.kernels["g"].line == 3


def test_lines_of_what_is_no_file_are_not_quoted() -> None:
    program = parse_program('#line 3 "none.cl"\nkernel void f(global int *out) { out[out[0]] = 1; }')
    line = analyse_kernel(program, "f").accesses[0].line
    assert (str(line), source_line(program.source, line)) == ("3 of none.cl", "")
