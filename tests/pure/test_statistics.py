"""Tallies and figures without a device: what is read out of plans and sources."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from vdev.translators.ranges.region import Region

import vdev
from vdev.observe import snapshots
from vdev.observe.figures import Moved, Times
from vdev.observe.tallies import Ledger, access_text, add_route, line_of
from vdev.planner import transfers
from vdev.planner.directory import HOST, buffer_state
from vdev.planner.links import LinkCosts

SOURCE = """
__kernel void k(__global float *out, __global int *idx) {
    out[idx[get_global_id(0)]] = 1;
    float *p = out;  // xout[3] = out [ 4 ];
    p[2] = 0;
    out[idx[
        0]] = 2;
}
"""


def test_commands_may_fail_while_figures_are_taken():
    undone: dict[tuple[int, int], int] = {}

    class Nbytes(int):
        def __radd__(self, other: int) -> int:  # where another thread may come between
            undone[HOST, len(undone)] = 7
            return int(self) + other

    undone.update({(HOST, 0): Nbytes(5), (0, HOST): 3})
    session = SimpleNamespace(executor=SimpleNamespace(undone_nbytes=undone))
    assert snapshots._undone(session) == Moved(5, 0, 3)
    assert len(undone) == 3


@pytest.mark.parametrize(
    ("line", "name", "text"),
    [
        (3, "out", "out[idx[get_global_id(0)]]"),
        (3, "idx", "idx[get_global_id(0)]"),
        (4, "out", "out [ 4 ]"),
        (5, "out", "p[2] = 0;"),
        (6, "out", "out[idx["),
        (None, "out", ""),
        (0, "out", ""),
        (99, "out", ""),
    ],
)
def test_the_text_of_an_access_in_the_source(line, name, text):
    assert access_text(SOURCE, line, name) == text


def test_an_intermediate_language_has_no_text():
    assert access_text(b"\x03\x02#\x07", 1, "out") == ""


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("argument `out`: 8 bytes that several chunks may write are compared with a twin (why), line 4", 4),
        ("`goto` (line 14)", 14),
        ("one work-group", None),
        ("line 3 is not meant here", None),
    ],
)
def test_the_line_of_a_reason(reason, line):
    assert line_of(reason) == line


def test_routes():
    moved = Moved()
    for route in ((HOST, 0, 1), (2, HOST, 20), (0, 2, 300), (HOST, 1, 4000)):
        add_route(moved, *route)
    assert moved == Moved(host_to_worker=4001, worker_to_worker=300, worker_to_host=20)
    assert moved.nbytes == 4321
    moved.include(moved)
    assert moved.nbytes == 2 * 4321


def test_times_add_up():
    times = Times(1, 2, 3, 4, 5)
    times.include(Times(10, 20, 30, 40, 50))
    assert times == Times(11, 22, 33, 44, 55)


def test_commands_are_counted_by_kind_and_route():
    ledger = Ledger()
    links = LinkCosts.uniform(2)
    state = buffer_state(4096, ((0, Region.span(0, 1000)), (HOST, Region.span(1000, 4096))), ((0, 0, 4096),))
    for _ in range(2):
        ledger.count("read", transfers.plan_read(state, Region.span(0, 4096), links, contiguous=True))
    shared = buffer_state(
        4096, ((0, Region.span(0, 1000)), (1, Region.span(1000, 4096))), ((0, 0, 4096), (1, 0, 4096))
    )
    ledger.count("write", transfers.plan_write(shared, Region.span(0, 8), links))
    read, write = ledger.commands["read"], ledger.commands["write"]
    assert (read.count, read.moved, read.within_host_nbytes) == (2, Moved(worker_to_host=2000), 2 * 3096)
    assert (write.count, write.moved.nbytes, write.within_host_nbytes) == (1, 0, 8)
    # of a small buffer that one worker alone uses, it goes there
    ledger.count("write", transfers.plan_write(state, Region.span(0, 8), links))
    assert (write.count, write.moved, write.within_host_nbytes) == (2, Moved(host_to_worker=8), 8)


def test_without_a_session_there_is_nothing():
    code = "import vdev, sys; print(vdev.stats().as_dict()['kernels'], 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.split() == ["()", "False"]


def test_figures_are_plain():
    assert json.loads(json.dumps(snapshots.NOTHING.as_dict()))["moved"]["host_to_worker"] == 0
    with pytest.raises(KeyError):
        snapshots.NOTHING.kernel("k")
    assert "stats" in vars(vdev)
