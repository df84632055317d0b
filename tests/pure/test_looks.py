"""Whatever a program waits with is a look, which tells those who choose ways how long a period takes: once for all that it waits for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from vdev.observe.tallies import KernelTally
from vdev.planner.periods import Turn
from vdev.session.accounts import Account
from vdev.session.looks import _PASSING, Looks

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

if TYPE_CHECKING:
    from vdev.session.kernel_timing import KernelTiming
    from vdev.session.way_times import WayTimes

needs_gpus = pytest.mark.skipif(COMPILER is None, reason=MISSING)

PROGRAM = """
import json, numpy as np, pyopencl as cl
from vdev.session.moves import Moves
looks, look = [], Moves.look

def noted(self, nbytes):
    looks.append(nbytes)
    look(self, nbytes)

Moves.look = noted
context = cl.create_some_context(interactive=False)
queue, other = cl.CommandQueue(context), cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, "kernel void more(global int *a) { a[get_global_id(0)] += 1; }").build(), "more")
given = np.zeros(1 << 16, np.int32)
buffers = [cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=given) for _ in range(2)]
found = np.empty(16, np.int32)

def launch(queue=queue, buffer=buffers[0]):
    return kernel(queue, given.shape, (64,), buffer)

def mapped(how=cl.map_flags.READ):
    array, event = cl.enqueue_map_buffer(queue, buffers[0], how, 0, (16,), np.int32)
    array.base.release(queue)

waits = {
    "an event": lambda: launch().wait(),
    "an event and its queue": lambda: (launch().wait(), queue.finish()),
    "two events of two queues": lambda: cl.wait_for_events([launch(), launch(other, buffers[1])]),
    "two events, one by one": lambda: [event.wait() for event in [launch(), launch(other, buffers[1])]],
    "a queue": lambda: (launch(), queue.finish()),
    "a queue, twice": lambda: (launch(), queue.finish(), queue.finish()),
    "a marker": lambda: (launch(), cl.enqueue_marker(queue).wait()),
    "a read": lambda: (launch(), cl.enqueue_copy(queue, found, buffers[0])),
    "a read that is waited for": lambda: (launch(), cl.enqueue_copy(queue, found, buffers[0], is_blocking=False).wait()),
    "a read and a queue": lambda: (launch(), cl.enqueue_copy(queue, found, buffers[0]), queue.finish()),
    "a mapping": lambda: (launch(), mapped()),
    "a mapping of what is given up": lambda: (launch(), mapped(cl.map_flags.WRITE_INVALIDATE_REGION)),
    "nothing": launch,
}
said = {}
for name, step in waits.items():
    counts = []
    for _ in range(12):
        queue.finish(), other.finish()
        looks.clear()
        step()
        counts.append(len(looks))
    said[name] = counts
ended = cl.UserEvent(context)
ended.set_status(0)
looks.clear()
ended.wait()
said["what has ended"] = [len(looks)]
print(json.dumps(said))
"""


@needs_gpus
@pytest.mark.parametrize("planning", ["auto", "always"])
def test_what_a_program_waits_with_is_one_look(planning: str, tmp_path: Path) -> None:
    # Late: nothing has ended before the program waits, for which no look would be needed.
    environment = fake_cuda.environment(tmp_path, "cuda:0,1", late=0) | {
        "VDEV_PLANNING": planning,
        "PYOPENCL_NO_CACHE": "1",
    }
    said = json.loads(fake_cuda.run(PROGRAM, environment))
    nothing = {"nothing", "what has ended"}
    assert {name: counts for name, counts in said.items() if set(counts) != {int(name not in nothing)}} == {}


def _kept() -> tuple[Looks, Account]:
    """Looks at launches of an account that one worker keeps without plans, after the first of them."""
    looks, account = Looks(cast("WayTimes", None)), Account()
    account.keep_on(0, thrifty=True)
    looks.weighed(account)
    looks.look(1000, 64)
    return looks, account


def test_looks_of_a_program_on_one_worker_are_mostly_counted() -> None:
    """As often as they are looked at, they count the same, and so does the time that passes."""
    looks, account = _kept()
    asked, each = 0, 2000
    for number in range(1000):
        if looks.passes:
            looks.passes -= 1
        else:
            asked += 1
            assert looks.look(3000 + each * number, 64) is Turn.GO_ON
        if number % 100 == 7:  # a launch is weighed, which takes account of all of them
            looks.weighed(account)
            assert account.periods.looks == number + 1
    assert asked == 1 + 999 // (_PASSING + 1)
    while looks.passes:
        looks.passes -= 1
    looks.look(10_000_000, 64)
    assert account.periods._began == pytest.approx((10_000_000 - 1000) * 1e-9)


@pytest.mark.parametrize("tried", [False, True])
def test_looks_are_not_only_counted_where_something_follows_from_them(tried: bool) -> None:
    looks, account = _kept()
    timing = cast("KernelTiming", None)
    account.tried = ((KernelTally("kernel", "program", 1), timing),) if tried else ()
    looks.look(3000, 64)
    assert looks.passes == (0 if tried else _PASSING)
    looks.weighed(Account())
    assert looks.passes == 0, "others' launches are another account's"
    looks.look(5000, 64)
    assert looks.passes == 0, "those are split"


def test_what_passed_while_looks_were_counted_is_no_period_of_several_workers() -> None:
    looks, account = _kept()
    looks.look(3000, 64)
    looks.passes -= 5
    account.keep_on(None, thrifty=False)
    account.periods.changed()
    before = account.periods._settling
    assert looks.look(10_000_000, 64) is Turn.GO_ON
    assert (looks.passes, account.periods._settling) == (0, before), "several periods, in two ways"
    looks.look(10_002_000, 64)
    assert account.periods._settling < before
