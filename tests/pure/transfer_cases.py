"""Cases of transfers that are made again and again, through PyOpenCL on the driver for machines without a GPU: what the programs that
tests start (`reads_again`, `writes_again`, `mappings_again`, `reads_later`) have in common.

Such a program is given how many items a buffer has, and how many of them are read. It prints by case what was wrong.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void add(global uint *a, uint by) { a[get_global_id(0)] += by; }
kernel void take(global uint *a, global const uint *b) { a[get_global_id(0)] = b[get_global_id(0)]; }
"""
GROUP = 64
#: items of a buffer, and of a read: where launches are split, those of one worker
SIZES = [int(given) for given in sys.argv[1:]] or [256, 256]
N, READ = SIZES
IS_SPLIT = READ < N
READ_WRITE, COPY = cl.mem_flags.READ_WRITE, cl.mem_flags.COPY_HOST_PTR
COMPLETE = cl.command_execution_status.COMPLETE


def counted(
    owner: type, name: str, counts: Callable[[Any], bool] = lambda found: found is not None
) -> list[int]:
    """One number: how often a method has given what `counts`, from now on."""
    number, method = [0], getattr(owner, name)

    def call(self: Any, *given: Any) -> Any:
        found = method(self, *given)
        number[0] += counts(found)
        return found

    setattr(owner, name, call)
    return number


class Buffers:
    """A context, a queue, and a buffer whose content (`array`) is known."""

    def __init__(self, properties: int = 0) -> None:
        self.context = cl.create_some_context(interactive=False)
        self.queue = cl.CommandQueue(self.context, properties=properties)
        built = cl.Program(self.context, SOURCE).build()
        self.add, self.take = cl.Kernel(built, "add"), cl.Kernel(built, "take")
        self.add.set_arg_types([None, np.uint32])
        self.take.set_arg_types([None, None])
        self.array = np.arange(N, dtype=np.uint32)
        self.buffer, self.host = self.new(self.array), np.zeros(READ, np.uint32)

    def new(self, array: np.ndarray, flags: int = READ_WRITE) -> cl.Buffer:
        return cl.Buffer(self.context, flags | COPY, hostbuf=array)

    def launch(self, queue: cl.CommandQueue | None = None, by: int = 1, **more: Any) -> cl.Event:
        event = self.add(queue or self.queue, (N,), (GROUP,), self.buffer, np.uint32(by), **more)
        self.array = self.array + np.uint32(by)
        return event

    def expected(self, nbytes: int = 4 * READ, offset: int = 0) -> bytes:
        """What the buffer holds from a byte on."""
        return self.array.tobytes()[offset : offset + nbytes]

    def check(self, host: np.ndarray | None = None, offset: int = 0) -> None:
        """`host` has what the buffer holds from a byte on."""
        host = self.host if host is None else host
        expected = self.expected(host.nbytes, offset)
        assert host.tobytes("A") == expected, (
            f"{host.ravel()[:4]} instead of {np.frombuffer(expected, host.dtype)[:4]}"
        )


def until_again(again: list[int], make: Callable[[int], object], split: int | None = None) -> None:
    """Until two of what is made one after the other were made again, as a number of `counted` says; where launches are split, at
    most `split` times."""
    in_a_row = 0
    for number in range(200):
        before = again[0]
        make(number)
        in_a_row = in_a_row + 1 if again[0] > before else 0
        if in_a_row == 2 or (IS_SPLIT and number + 1 == split):
            return
        time.sleep(0.0002)  # the workers' threads are through
    raise AssertionError("nothing was made again")


Kind = TypeVar("Kind", bound=Buffers)
CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def said(call: Callable[[], object]) -> str:
    """The error of a call, or that there was none."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def same_error(of: Kind, change: Callable[[Kind, cl.Buffer], object]) -> None:
    """What is wrong is said of a buffer that is used again as it is of one that was never used."""
    other = of.new(of.array)
    expected, found = said(lambda: change(of, other)), said(lambda: change(of, of.buffer))
    assert found == expected != "nothing", (found, expected)


@contextmanager
def opened_later(gate: cl.UserEvent, status: int = 0, seconds: float = 0.05) -> Iterator[None]:
    """Around what waits for `gate`: another thread sets it."""
    timer = threading.Timer(seconds, gate.set_status, [status])
    timer.start()
    try:
        yield
    finally:
        timer.join()


def check_that_reads_are_counted(reads: Kind, read: Callable[[], object]) -> None:
    """Each read is counted, and its bytes are."""
    from vdev.start.current import current_session

    with current_session().observing() as ledger:
        tally = ledger.command("read")
        count, moved = tally.count, tally.moved.worker_to_host
    for _ in range(20):
        reads.launch()
        read()
        reads.check()
    assert tally.count == count + 20
    assert tally.moved.worker_to_host == moved + 20 * reads.host.nbytes


def run_at_once(run: Callable[[int], None], threads: int = 4) -> None:
    """Each thread with its number."""
    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def main() -> None:
    """Every case; prints what was wrong, by case."""
    found = {}
    for name, function in CASES.items():
        try:
            function()
            found[name] = ""
        except Exception:
            found[name] = traceback.format_exc(limit=-2)
    print(json.dumps(found))
