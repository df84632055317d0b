"""What the collector of garbage does while kernels are analysed and launches planned, in a process of its own: `python -m
tests.pure.collections_counted NAME`.

How often garbage is looked for is the whole process's, and so is who is inside such a function: another thread that analyses has a part
in it. Decides only what is looked at; `test_collecting` runs each.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from vdev.translators.collecting import MEANWHILE, seldom_collected
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel

from tests.pure.test_choosing import Program
from vdev.process.beside import beside
from vdev.session import launches

SOURCE = "kernel void add(global uint *a, const uint b) { a[get_global_id(0)] += b; }"
#: the collections that begin on this thread; Python has them begin whenever anything was made
found: list[str] = []
_thread = threading.get_ident()


def note(phase: str, info: dict[str, Any]) -> None:
    if phase == "start" and threading.get_ident() == _thread:
        found.append(phase)


def garbage() -> int:
    """Makes some, and what the collector counts."""
    for _ in range(50):
        parts: list[Any] = []
        parts.append(parts)
    return len([[] for _ in range(1000)])


def nothing_is_collected_meanwhile(collects: bool, fails: bool) -> None:
    during: list[int] = []

    @seldom_collected
    def work() -> int:
        before = len(found)
        count = garbage()
        during.append(len(found) - before)
        if fails:
            raise KeyError(count)
        return count

    (gc.enable if collects else gc.disable)()
    gc.set_threshold(1)
    found.clear()  # whatever came before
    for _ in range(3):
        try:
            assert work() == 1000
        except KeyError:
            assert fails
    assert during == [0, 0, 0]
    assert gc.isenabled() == collects
    garbage()
    assert bool(found) == collects


def nothing() -> None:
    for collects in (True, False):
        for fails in (True, False):
            nothing_is_collected_meanwhile(collects, fails)


def program() -> None:
    """It says how often, or that nothing is collected at all; and large amounts are collected in any case."""

    @seldom_collected
    def work(change: Callable[[], object] | None) -> int:
        if change is not None:
            change()
        return len([[] for _ in range(2 * MEANWHILE)])

    gc.set_threshold(1)
    found.clear()
    work(None)
    assert 1 <= len(found) <= 4
    gc.set_threshold(700)
    work(lambda: gc.set_threshold(500))
    assert gc.get_threshold()[0] == 500
    work(gc.disable)
    assert not gc.isenabled()
    gc.enable()
    gc.set_threshold(0)
    found.clear()
    work(None)
    assert gc.get_threshold()[0] == 0
    assert not found


def analysis() -> None:
    parsed, before = parse_program(SOURCE), gc.get_threshold()
    gc.disable()
    analyse_kernel(parsed, "add")
    assert not gc.isenabled()
    assert gc.get_threshold() == before


def plans() -> None:
    made, during = launches.make_plan, []

    def watched(*args: Any) -> Any:
        before = len(found)
        plan = made(*args)
        during.append(len(found) - before)
        return plan

    launches.make_plan = watched
    program = Program(SOURCE, {"add": 1e-9}, workers=2)
    beside.wait()  # the kernel has been analysed
    gc.set_threshold(1)
    for items in (1024, 2048, 4096):
        program.launch("add", (items,), (64,), program.buffer(4 * items), np.uint32(1))
    assert gc.isenabled()
    program.session.close()
    assert len(during) >= 3
    assert not any(during)
    assert found


def child() -> None:
    """A thread is inside when another forks: the child has no such thread, and the program's numbers."""
    begun, may_end = threading.Event(), threading.Event()

    @seldom_collected
    def work() -> None:
        begun.set()
        may_end.wait()

    before = gc.get_threshold()
    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    child = os.fork()
    if not child:
        found, again = gc.get_threshold(), seldom_collected(gc.get_threshold)()
        os._exit(0 if found == gc.get_threshold() == before and again[0] == MEANWHILE else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    meanwhile = gc.get_threshold()
    may_end.set()
    thread.join()
    assert status == 0
    assert meanwhile[0] == MEANWHILE, "it is the child's affair"
    assert gc.get_threshold() == before


if __name__ == "__main__":
    gc.callbacks.append(note)
    each = [nothing, program, analysis, plans, child]
    {function.__name__: function for function in each}[sys.argv[1]]()
