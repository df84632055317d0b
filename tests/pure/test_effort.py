"""Analysis ends by a count of steps: the same number in every run, whatever has been analysed before, and with the line
that it had come to.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from vdev.translators.frontend.source import ParsedProgram, parse_program
from vdev.translators.interpreter import access
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.plain import plain_summary, summary_of_plain
from vdev.translators.interpreter.summaries import KernelSummary
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk
from vdev.translators.ranges.region import Region
from vdev.translators.symbolic import effort
from vdev.translators.symbolic import expression as ex
from vdev.translators.symbolic.evaluation import Scope

from vdev.backends.base import BuildResult, KernelResources, WorkerInfo
from vdev.session.programs import SessionKernel, SessionProgram

HELPERS = """
uint mixed(uint x, uint y) { for (uint k = 0; k < (y & 7); ++k) x = x * 3 + (x > y ? y : k); return x; }
"""
BODY = """
    uint i = get_global_id(0), x = a[i], sum = i;
    uint rows[8];
    for (uint k = 0; k < 8; ++k) rows[k] = x + k;
    switch (x & 3) { case 0: x += 5; break; case 1: x = mixed(x, i); break; default: x ^= n; }
    while (sum < n) { sum += mixed(x, sum) + rows[sum & 7]; if (sum == 7) break; }
    if (i < n) a[i] = sum; else b[n - 1 - i] = mixed(sum, x);
"""
SOURCE = HELPERS + "".join(
    f"kernel void {name}(global uint *a, global uint *b, uint n) {{{BODY}}}\n" for name in ("one", "two")
)
LONG = """kernel void long_one(global uint *a, uint n) {
    uint i = get_global_id(0), x = a[i];
""" + "".join(f"    x = x * {2 * number + 1} + (x >> 3);\n" for number in range(200)) + "    a[i] = x;\n}\n"  # fmt: skip


@contextmanager
def limit(steps: int) -> Iterator[None]:
    kept, access.MOST_STEPS = access.MOST_STEPS, steps
    try:
        yield
    finally:
        access.MOST_STEPS = kept


def gave_up(program: ParsedProgram, name: str, steps: int) -> bool:
    with limit(steps):
        return bool(analyse_kernel(program, name).one_worker)


def steps_of(program: ParsedProgram, name: str) -> int:
    """The least limit within which a kernel is analysed."""
    enough, little = 1 << 20, 0
    assert not gave_up(program, name, enough)
    while enough - little > 1:
        middle = (enough + little) // 2
        enough, little = (enough, middle) if gave_up(program, name, middle) else (middle, little)
    return enough


def test_a_kernel_takes_the_same_steps_whatever_was_analysed_before() -> None:
    program = parse_program(SOURCE)
    first = steps_of(program, "one")
    kept = analyse_kernel(program, "two")  # its nodes live on
    assert steps_of(program, "one") == first == steps_of(parse_program(SOURCE), "one")
    assert steps_of(program, "two") == first
    assert kept.accesses


def test_a_kernel_takes_the_same_steps_in_every_process() -> None:
    script = (
        "from tests.pure.test_effort import SOURCE, parse_program, steps_of\n"
        "print(steps_of(parse_program(SOURCE), 'one'))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_giving_up_says_how_much_was_spent_and_where() -> None:
    program = parse_program(LONG)
    with limit(20_000):
        summary = analyse_kernel(program, "long_one")
    (reason,) = summary.one_worker
    assert reason.text == "not analysed: more than 20,000 steps"
    assert reason.line is not None
    assert 3 <= reason.line < 203
    assert {(each.arg, each.mode, each.offset) for each in summary.accesses} == {
        (0, "read", None),
        (0, "write", None),
    }
    assert not analyse_kernel(program, "long_one").one_worker


def test_walking_can_exceed_the_limit_if_reading_does_not() -> None:
    loops = "for (uint p = 0; p < x; ++p) " * 3
    source = f"""kernel void nested(global uint *a, uint n) {{
    uint i = get_global_id(0), x = a[i];
    {loops} {{ x += p; a[i] = x; }}
}}"""
    program = parse_program(source)
    assert not gave_up(program, "nested", 1 << 20)
    with effort.limited(1 << 30):
        access.SyntaxReader(program).function("nested")
        reading = int(effort.spent())
    with limit(reading + 200):
        (reason,) = analyse_kernel(program, "nested").one_worker
    assert reason.line in (2, 3)


def test_outcomes_are_kept_as_they_are() -> None:
    program = parse_program(LONG)
    with limit(20_000):
        summary = analyse_kernel(program, "long_one")
    again = summary_of_plain(json.loads(json.dumps(plain_summary(summary))))
    assert isinstance(again, KernelSummary)
    assert again.one_worker == summary.one_worker
    assert again.addresses == summary.addresses


def built(source: str, name: str) -> SessionKernel:
    """A kernel as a session has it, of a program that no worker has compiled."""
    worker = WorkerInfo(
        "reference", "r", ("r",), 1, 1 << 30, 1 << 30, 256, (256,) * 3, 1 << 16, 128, version="OpenCL 3.0 r"
    )
    program = SessionProgram(source, (), [worker])
    resources = KernelResources(256, (0, 0, 0), 0, 0, 1)
    program.build(lambda _: [BuildResult("", {name: resources}, b"")])
    return program.kernels[name]


def test_giving_up_on_a_kernel_is_remembered_between_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDEV_CACHE", "1")
    monkeypatch.setenv("VDEV_CACHE_DIR", str(tmp_path / "cache"))

    def never(*args: object) -> KernelSummary:
        raise AssertionError("it is analysed again")

    with limit(20_000):
        first = built(LONG, "long_one").one_worker
    assert "20,000 steps" in str(first[0])
    monkeypatch.setattr(access, "analyse_kernel", never)
    assert built(LONG, "long_one").one_worker == first


def test_steps_are_counted_for_one_thread_alone() -> None:
    def other() -> None:
        for number in range(1000, 2000):
            ex.const(number)
        found.append(effort.spent())

    found: list[float] = []
    with effort.limited(100):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert effort.spent() == 0
        ex.const(1 << 40)
        assert effort.spent() > 0
        with pytest.raises(effort.TooMuch):
            effort.spend(100)
    assert found[0] != found[0]  # not a number
    effort.spend(1 << 60)


# expressions that are too long ----------------------------------------------------------------------

SEARCH = """
kernel void search(global uchar *inside, global uchar *behind, uint n, uint m, uint p) {
    uint x = n + m, y = p + get_global_id(0), k = 0;
    for (;;) {
        if ((uchar)(x + y) >= 200) { inside[k] = 1; break; }
        x += 2;
        y -= 1;
        ++k;
    }
    behind[k] = 2;
}
"""


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5, 64])
def test_a_condition_that_is_too_long_is_not_assumed_constant_over_iterations(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ex, "MOST_PARTS", parts)
    summary = analyse_kernel(parse_program(SEARCH), "search")
    ndrange = NDRange((1,), (1,), (0,))
    ranges = summary.evaluate(ndrange, whole_chunk(ndrange), {2: 0, 3: 0, 4: 0}, {0: 1024, 1: 1024})
    written = {found.arg: found.region for found in ranges if found.mode == "write"}
    assert all(written[arg].contains(Region.span(200, 201)) for arg in (0, 1))


def test_an_expression_that_keeps_growing_ends_within_its_bounds() -> None:
    lines = "".join(f"x = (x & {number}) + (x >> 1) + n * {number} + a[{number}];" for number in range(400))
    source = f"kernel void grow(global uchar *a, uint n) {{ uchar x = a[0]; {lines} a[512 + x] = 1; }}"
    summary = analyse_kernel(parse_program(source), "grow")
    ndrange = NDRange((64,), (64,), (0,))
    ranges = summary.evaluate(ndrange, whole_chunk(ndrange), {1: 3}, {0: 4096})
    (write,) = (found for found in ranges if found.mode == "write")
    assert write.region == Region.span(512, 768)
    assert not write.exact


def test_a_switch_of_many_cases_is_analysed() -> None:
    cases = "".join(f"case {number}: x = x * 3 + {number}; y ^= x; break;\n" for number in range(3000))
    source = f"""kernel void many(global uint *a, uint n) {{
    uint i = get_global_id(0), x = a[i], y = 0;
    switch (x) {{ {cases} }}
    if (i < n) a[i] = x + y;
}}"""
    summary = analyse_kernel(parse_program(source), "many")
    assert not summary.one_worker
    ndrange = NDRange((64,), (16,), (0,))
    ranges = summary.evaluate(ndrange, whole_chunk(ndrange), {1: 60}, {0: 4096})
    assert [(found.mode, found.exact, found.region.nbytes) for found in ranges] == [
        ("read", True, 256),
        ("write", True, 240),
    ]


@pytest.mark.parametrize("parts", [2, 64])
def test_a_loop_that_waits_on_a_long_condition_is_recognised(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ex, "MOST_PARTS", parts)
    source = """kernel void wait(global uint *flags, uint n) {
    uint i = get_global_id(0);
    flags[i] = 1;
    while (flags[0] + flags[1] + flags[2] + flags[3] < n) ;
}"""
    (reason,) = analyse_kernel(parse_program(source), "wait").one_worker
    assert reason.text == "a loop that waits for `flags` to change"


#: conditions on data, one behind the other: each has several cases where it is not true, or reads a value of its own
CHAINS = {
    "between": "if (v > {low} && v < {high}) b[i] = {number};",
    "read again": "if (a[i] == {low}) b[i] = {number};",
    "in parts": "if (a[i] * {high} > {low}) {{ b[i] = {number}; c[i] = a[i]; }}",
}


def cases_of_a_chain(monkeypatch: pytest.MonkeyPatch, form: str, count: int) -> int:
    """How many cases, and variables in them, are copied for the ranges of a chunk behind so many conditions, which are those that
    are wanted.
    """
    conditions = " else ".join(
        form.format(number=number, low=3 * number, high=3 * number + 2) for number in range(count)
    )
    source = (
        "kernel void chain(global const int *a, global int *b, global int *c) {"
        f"int i = get_global_id(0), v = a[i]; {conditions} }}"
    )
    summary = analyse_kernel(parse_program(source), "chain")
    ndrange, sizes = NDRange((256,), (16,), (0,)), dict.fromkeys(range(3), 1024)
    copied, copy = 0, Scope.copy

    def counted(scope: Scope, *position: Any) -> Scope:
        nonlocal copied
        copied += 1 + len(scope.domain.lo)
        return copy(scope, *position)

    with monkeypatch.context() as patch:
        patch.setattr(Scope, "copy", counted)
        ranges = summary.of_launch(ndrange, {}, sizes).of(Chunk((4,), (8,)))
    for item in ranges:
        assert item.region == Region.span(256, 512)
        assert item.exact == (item.arg == 0)
    written = next(item for item in ranges if (item.arg, item.mode) == (1, "write"))
    assert "condition" in str(written.reason)
    return copied


@pytest.mark.parametrize("form", CHAINS.values(), ids=CHAINS)
def test_conditions_one_behind_the_other_take_no_more_than_as_many_times_as_long(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    few, many = (cases_of_a_chain(monkeypatch, form, count) for count in (150, 600))
    assert many < 5 * few
    assert many < 200 * 600  # variables of cases: some tens of milliseconds
