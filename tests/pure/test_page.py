"""The page from statistics that are made up: well-formed, its figures those of the statistics, its size bounded."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.region import Region

from tests.pure.test_explain import KERNEL, MB, SCATTER, figures
from vdev.observe import explain, page
from vdev.observe.exchanges import (
    CELLS,
    BufferHeld,
    Exchange,
    Exchanges,
    Held,
    LaunchHeld,
    Steady,
    holders_of,
)
from vdev.observe.figures import Moved, Times
from vdev.observe.history import History
from vdev.observe.history_data import BINS, PLANNING
from vdev.observe.recorder import Shape, StepShape
from vdev.observe.snapshots import NOTHING, Snapshot
from vdev.observe.statistics import Statistics, WayStatistics
from vdev.observe.timeline import Run
from vdev.planner.directory import HOST, buffer_state
from vdev.planner.instructions import Launch, Plan, Touch, Upload

VOID = {"meta", "br"}
EVIL = '<script>alert("1")</script>&\'\x00\x1b'


class Page(HTMLParser):
    """A page taken apart. Raises AssertionError where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.values: list[str] = []
        #: by name, tables of rows of cells
        self.tables: dict[str, list[list[list[str]]]] = {}
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.values += [value or "" for _, value in attrs]
        if tag == "table":
            self.rows = []
            self.tables.setdefault(dict(attrs)["data-name"], []).append(self.rows)
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        elif tag == "span" and "td" in self.open and "title" in dict(attrs):
            self.rows[-1][-1] += f"[{dict(attrs)['title']}]"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.values += [value or "" for _, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            assert "url(" not in data
            assert "@import" not in data
            return
        self.text += data
        if self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def row(self, table: str, beginning: str) -> list[str]:
        (found,) = [row for rows in self.tables[table] for row in rows if row[0].startswith(beginning)]
        return found


def read(figures: Statistics) -> Page:
    found = Page(page.as_page(figures))
    assert not {"script", "link", "img", "iframe", "object"} & found.tags
    assert not [value for value in found.values if "://" in value or "javascript:" in value]
    return found


def nbytes(cell: str) -> int:
    match = re.match(r"\[(\d+) (?:bytes|ns)\]", cell)
    return int(match[1]) if match else 0


FORECAST = WayStatistics(2, 10, 4, 0.003, 0.002, 4, 1, "a reason")
HALF = Held(0, 50, (1.0,) * (CELLS // 2) + (0.0,) * (CELLS // 2))


def test_nothing_was_done():
    assert "was not used" in read(NOTHING).text


def test_figures_that_were_not_recorded_are_shown_as_unknown():
    found = read(figures(KERNEL, timed=False))
    assert "Times were not taken" in found.text
    assert found.text.count("Not known") == 3
    assert found.row("kernels", "work")[4:7] == ["not timed"] * 3
    assert found.row("kernels", "work")[8:11] == ["not known"] * 3


def test_figures_are_those_of_the_statistics():
    kernel = replace(SCATTER, ways=(FORECAST,), times=Times(1001, 2002, 0, 3003, 0), planning_ns=4004)
    found = read(figures(kernel))
    row = found.row("kernels", "work")
    assert row[1:4] == ["10", "10", "2"]
    assert [nbytes(cell) for cell in row[4:8]] == [1001, 2002, 3003, 12_000 * MB]
    assert [nbytes(cell) for cell in row[8:10]] == [3 * MB, 2 * MB]
    assert row[10] == "+50%"
    assert nbytes(row[11]) == 4004
    assert found.row("ways", "a reason")[1:3] + found.row("ways", "a reason")[6:] == [
        "2",
        "10",
        "4",
        "1 of 4",
    ]
    assert "out[idx[i]]" in found.text
    assert "gather" in found.text


def test_traffic_as_matrices():
    rows = (
        Exchange("a", "b", 0, 1, 300),
        Exchange("a", "b", 1, 0, 30),
        Exchange("write", "a", HOST, 0, 7),
    )
    found = read(replace(figures(KERNEL), exchanges=rows))
    assert [nbytes(cell) for cell in found.row("between holders", "worker 0")[1:]] == [0, 300]
    assert found.tables["between holders"][0][0] == ["from", "worker 0", "worker 1"]
    assert [nbytes(cell) for cell in found.row("between holders", "host")[1:]] == [7, 0]
    assert found.tables["between commands"][0][0] == ["last written by", "a", "b"]
    assert [nbytes(cell) for cell in found.row("between commands", "a")[1:]] == [0, 330]
    assert "went from what a wrote to b: 330 bytes." in found.text
    text = explain.as_text(replace(figures(KERNEL), exchanges=rows))
    assert "most bytes between workers: 330 bytes that a wrote and b needed. If both" in text
    assert "most bytes between" not in explain.as_text(replace(figures(KERNEL), exchanges=rows[2:]))


def test_who_holds_what():
    held = BufferHeld(3, "grid", 100, (HALF,), (HALF, Held(1, 100, (1.0,) * CELLS)), 0, 8)
    found = read(replace(figures(KERNEL), steady=Steady(True, (LaunchHeld("work", (held,)),))))
    rows = found.tables["holders"][-1][1:]
    assert [row[:2] for row in rows] == [
        ["grid, buffer 3, 100 bytes", "worker 0"],
        ["", "worker 1"],
        ["", "parts, to be combined"],
    ]
    assert [(nbytes(row[3]), nbytes(row[5])) for row in rows] == [(50, 50), (0, 100), (0, 8)]
    assert "One repeating sequence of" in found.text


def test_text_of_programs_is_escaped():
    kernel = replace(SCATTER, name=EVIL, ways=(replace(FORECAST, reason=EVIL),))
    kernel = replace(kernel, arguments=(replace(kernel.arguments[0], text=EVIL, name=EVIL),))
    exchange = Exchange(EVIL, EVIL, 0, 1, 5)
    held = LaunchHeld(EVIL, (BufferHeld(1, EVIL, 100, (HALF,), (), 0, 0),))
    found = read(replace(figures(kernel), exchanges=(exchange,), steady=Steady(False, (held,))))
    assert found.text.count('<script>alert("1")</script>&\'\ufffd\ufffd') > 6


def history(count: int, workers: int, name: str = "k") -> History:
    found, plan = History(), tuple(Launch(worker, Chunk((0,), (1,)), ()) for worker in range(workers))
    shape = Shape(name, Times(), Plan(plan, ((),) * workers, ((),) * workers, ()))
    run = Run([(number, number * 3000, number * 3000 + 5, 1, 1, shape) for number in range(count)])
    starts = np.arange(count) * 3000 + 100
    for worker in range(workers):
        run.workers.append((worker, starts, starts + 700 + worker, np.zeros(count, np.bool_)))
    found.planned(0, 100, 1, "plan")
    found.performed_run(run)
    return found


def test_the_time_line_keeps_every_nanosecond():
    past = history(10_000, 8).past()
    assert {(row.worker, row.kind): sum(row.nanoseconds) for row in past.busy} == {
        (PLANNING, "planning"): 100
    } | {(worker, "kernel"): 10_000 * (700 + worker) for worker in range(8)}
    assert past.width * BINS >= 10_000 * 3000 > past.width * BINS // 2
    assert (past.commands, past.first[0].number, past.last[-1].number) == (10_000, 0, 9_999)
    piece = past.last[-1].pieces[7]
    assert (piece.start, piece.end) == (9_999 * 3000 + 100, 9_999 * 3000 + 807)


def test_many_steps_of_a_command_are_counted():
    found, shape = History(), Shape("k", Times(), None)
    step = StepShape(0, "transfer", "<here>", 8, HOST, 0)
    found.performed((1, 0, 1, 1, 1, shape), [(step, at, at + 1, True) for at in range(50)])
    (told,) = found.past().first
    assert (len(told.pieces), told.left_out) == (40, 10)


def test_a_large_run_makes_a_page_of_bounded_size():
    name = "a_kernel_with_quite_a_long_name_" * 20
    kernels = tuple(
        replace(SCATTER, name=f"{number}{name}", launches=50, ways=(FORECAST,)) for number in range(200)
    )
    names = [kernel.name for kernel in kernels]
    exchanges = tuple(
        Exchange(names[one], names[-one - 1], one % 8, (one + 1) % 8, 1000 + one) for one in range(200)
    )
    buffers = tuple(BufferHeld(n, name, 100, (HALF,) * 8, (HALF,) * 8, 0, 0) for n in range(30))
    steady = Steady(True, tuple(LaunchHeld(name, buffers) for name in names[:24]))
    whole = replace(
        figures(*kernels), exchanges=exchanges, steady=steady, past=history(10_000, 8, name).past()
    )
    found = read(whole)
    assert len(page.as_page(whole)) < 1_500_000
    assert sum(int(row[1]) for row in found.tables["kernels"][0][1:]) == 10_000
    assert "140 further kernels, left out" in found.text
    assert sum(nbytes(cell) for row in found.tables["between commands"][0][1:] for cell in row[1:]) == sum(
        row.nbytes for row in exchanges
    )
    for left in (
        "9880 further commands between",
        "12 further launches of the sequence",
        "22 further buffers",
    ):
        assert left in found.text
    assert "188 further commands, whose bytes" in found.text


# what is recorded ---------------------------------------------------------------------------------


class Memory:
    """Stands for a buffer's holdings."""

    noted = None


def shape(name: str, plan: Plan) -> Shape:
    return Shape(name, Times(), plan)


def write_of(slot: int = 0) -> Plan:
    region = Region.span(0, 100)
    item = Upload(HOST, slot, region)
    return Plan((item,), ((),), ((Touch(slot, HOST, region, True),),), ())


def bring(worker: int) -> Plan:
    return Plan((Upload(worker, 0, Region.span(0, 100)),), ((),), ((),), ())


def test_bytes_belong_to_who_wrote_them():
    exchanges, one, other = Exchanges(), Memory(), Memory()
    exchanges.note(shape("k", bring(1)), [other])
    exchanges.note(shape("write", write_of()), [one])
    exchanges.note(shape("evict", write_of()), [one], writes=False)
    exchanges.note(shape("k", bring(1)), [one])
    assert exchanges.table() == (
        Exchange("(no command)", "k", HOST, 1, 100),
        Exchange("write", "k", HOST, 1, 100),
    )


@pytest.mark.parametrize(("order", "periodic", "shown"), [("xababy", True, "ab"), ("abc", False, "abc")])
def test_one_period_is_shown(order, periodic, shown):
    exchanges, memory = Exchanges(), Memory()
    before = buffer_state(100, ((HOST, Region.span(0, 100)),), ())
    after = buffer_state(100, ((HOST, Region.span(0, 50)), (1, Region.span(25, 100))), ((1, 0, 100),))
    for kernel in order:
        exchanges.launched(shape(kernel, write_of()), [memory], ("a",), (before,), (after,))
    steady = exchanges.steady()
    assert steady.periodic == periodic
    assert "".join(launch.kernel for launch in steady.launches) == shown
    (held,) = steady.launches[0].buffers
    assert (held.buffer, held.name, held.nbytes) == (1, "a", 100)
    assert [(each.holder, each.nbytes) for each in held.before] == [(HOST, 100)]
    assert [(each.holder, each.nbytes) for each in held.after] == [(HOST, 50), (1, 75)]


def test_a_launch_that_follows_itself_is_shown_once():
    exchanges, one, other = Exchanges(), Memory(), Memory()
    state = (buffer_state(100, ((1, Region.span(0, 100)),), ((1, 0, 100),)),)
    for memory in (one, one, other, other, one):
        exchanges.stayed(shape("k", write_of()), [memory], ("a",), state)
        exchanges.launched(shape("k", write_of()), [memory], ("a",), state, state)
    assert [[buffer.buffer for buffer in held.buffers] for held in exchanges.steady().launches] == [
        [1],
        [2],
        [1],
    ]
    exchanges.note(shape("read", bring(1)), [other])
    assert exchanges.table() == (Exchange("k", "read", HOST, 1, 100),)


def test_shares_say_where_the_bytes_are():
    nbytes = CELLS * 4
    state = buffer_state(nbytes, ((0, Region.span(2, nbytes // 2)),), ((0, 0, nbytes),))
    (held,) = holders_of(state)
    assert held.shares == (0.5, *(1.0,) * (CELLS // 2 - 1), *(0.0,) * (CELLS // 2))
    assert sum(held.shares) * 4 == held.nbytes


def test_other_forms_are_as_before():
    assert "past" not in figures(KERNEL).as_dict()
    found = figures(KERNEL)
    shown = Snapshot(*(getattr(found, field.name) for field in dataclasses.fields(found)))
    assert shown._repr_html_().startswith('<div class="vdev">')
    assert Moved().nbytes == 0
