"""Advice: which lines of a program's kernels cost most, and what could be changed there.

Decides what is worth saying, from figures alone: bytes that move because analysis could not tell what an
access touches, launches that could not use all workers, bytes that change hands again at every launch. What
has to move once, or must move because of the cut (a halo), does not count.
"""

from __future__ import annotations

from collections.abc import Iterator

from vdev.observe.exchanges import OTHERS
from vdev.observe.figures import Moved, Times
from vdev.observe.statistics import (
    ArgumentStatistics,
    KernelStatistics,
    PartitionStatistics,
    Reason,
    Statistics,
)
from vdev.planner.instructions import HOST
from vdev.translators.values import dataclass

#: the cost of a byte if no transfer was timed, in nanoseconds: that of a link of ten gigabytes a second
_ASSUMED_NS = 0.1
#: launches from which on an argument that moves every time is mentioned
_FEW_LAUNCHES = 3
#: no advice on less than this: bytes, and a part of the time that all workers worked
_LEAST_NBYTES, _LEAST_PART = 1 << 12, 0.01


@dataclass(frozen=True)
class Advice:
    """One thing that a program could do better.

    `cost_ns` is an estimate, all launches together, of the time on workers that the change could save;
    `cost_nbytes` what would not have to move. The cost of a launch on too few workers is unknown (None)
    where kernels were not timed.
    """

    kernel: str
    program: int
    line: int | None
    text: str  #: of the source: the access, or the line
    problem: str
    change: str
    cost_ns: int | None
    cost_nbytes: int

    def __str__(self) -> str:
        where = f"kernel {self.kernel}" if self.line is None else f"line {self.line} of kernel {self.kernel}"
        place = f"`{self.text}`, {where}" if self.text else where
        return f"{place}: {self.problem}. {self.change}"


def advise(figures: Statistics) -> tuple[Advice, ...]:
    """Advice on a run, the most expensive first; if nothing was timed, launches on too few workers come first."""
    found = [item for kernel in figures.kernels for item in _on_kernel(kernel, _ns_per_byte(figures))]
    least = _LEAST_PART * _worked_ns(figures)
    found = [item for item in found if item.cost_ns is None or item.cost_ns >= least]
    found.sort(key=lambda item: float("inf") if item.cost_ns is None else item.cost_ns, reverse=True)
    return tuple(found)


@dataclass(frozen=True)
class Expense:
    """What one thing cost in addition to the kernels' own work, whether or not a program could avoid it."""

    text: str
    cost_ns: int  #: calculated from bytes if transfers were not timed
    nbytes: int  #: bytes that moved because of it

    def __str__(self) -> str:
        return self.text


def most_expensive(figures: Statistics) -> Expense | None:
    """The largest expense of a run: bytes of one argument, merging, planning, or commands other than launches. None
    if nothing is worth mentioning.
    """
    found = max(_expenses(figures), key=lambda item: (item.cost_ns, item.nbytes), default=None)
    return None if found is None or not (found.cost_ns or found.nbytes) else found


#: what helps if bytes go from one kernel's workers to another's
AVOIDS_EXCHANGE = (
    "If both traverse the buffer along the same dimension, each worker finds what it needs where it was made."
)


def costliest_exchange(figures: Statistics) -> tuple[str, str, int] | None:
    """(writer, user, bytes) of the two commands between which most bytes went from worker to worker. None if there
    were none, or nothing was recorded.
    """
    sums: dict[tuple[str, str], int] = {}
    for row in figures.exchanges or ():
        if HOST not in (row.source, row.target) and OTHERS not in (row.writer, row.user):
            sums[row.writer, row.user] = sums.get((row.writer, row.user), 0) + row.nbytes
    if not sums:
        return None
    writer, user = max(sums, key=lambda key: (sums[key], key))
    return writer, user, sums[writer, user]


def _expenses(figures: Statistics) -> Iterator[Expense]:
    ns_per_byte = _ns_per_byte(figures)
    for kernel in figures.kernels:
        for argument in kernel.arguments:
            moved = argument.moved.nbytes
            place = f"`{argument.name}` of kernel {kernel.name}"
            text = f"{_moved_each(kernel, argument)}, {_main_route(argument.moved)} ({place})"
            yield Expense(text, round(moved * ns_per_byte), moved)
        yield Expense(f"merging what workers wrote (kernel {kernel.name})", kernel.times.merge_ns, 0)
        plans = "1 plan" if kernel.plans == 1 else f"{kernel.plans} plans"
        yield Expense(f"making {plans} (kernel {kernel.name})", kernel.planning_ns, 0)
    for row in figures.commands:
        text = f"{row.count} x {row.kind}: {size(row.moved.nbytes)} moved, {_main_route(row.moved)}"
        yield Expense(text, round(row.moved.nbytes * ns_per_byte) + row.times.host_ns, row.moved.nbytes)
        yield Expense(f"making the plans of {row.count} x {row.kind}", row.planning_ns, 0)


def _main_route(moved: Moved) -> str:
    routes = (
        (moved.host_to_worker, "from the host to workers"),
        (moved.worker_to_worker, "between workers"),
        (moved.worker_to_host, "from workers to the host"),
    )
    nbytes, name = max(routes)
    return name if nbytes == moved.nbytes else f"most of it {name}"


def _worked_ns(figures: Statistics) -> int:
    times = Times()
    for part in (*(row.times for row in figures.kernels), *(row.times for row in figures.commands)):
        times.include(part)
    return times.kernel_ns + times.transfer_ns + times.device_ns + times.merge_ns + times.host_ns


def _ns_per_byte(figures: Statistics) -> float:
    took = sum(row.times.transfer_ns for row in figures.kernels)
    took += sum(row.times.transfer_ns for row in figures.commands)
    return took / figures.moved.nbytes if took and figures.moved.nbytes else _ASSUMED_NS


def _on_kernel(kernel: KernelStatistics, ns_per_byte: float) -> Iterator[Advice]:
    for argument in kernel.arguments:
        said = _on_argument(kernel, argument)
        if said is not None:
            problem, change, nbytes = said
            if nbytes >= _LEAST_NBYTES:
                cost = round(nbytes * ns_per_byte)
                if argument.merged_nbytes:
                    cost += kernel.times.merge_ns * argument.merged_nbytes // kernel.merged_nbytes
                line, text = argument.line, argument.text or argument.name
                yield Advice(kernel.name, kernel.program, line, text, problem, change, cost, nbytes)
    for partition in kernel.partitions:
        if partition.workers < partition.available and partition.reasons:
            yield from _on_partition(kernel, partition)


# arguments --------------------------------------------------------------------------------------


def _on_argument(kernel: KernelStatistics, argument: ArgumentStatistics) -> tuple[str, str, int] | None:
    """What is wrong, what to do about it, and the bytes that it costs."""
    if argument.fine:
        return (
            "fine-grain shared virtual memory, which the host may use at any time, so "
            f"{size(argument.moved.nbytes // max(kernel.launches, 1))} move to and from the workers at each launch",
            "Allocate it coarse-grain (csvm_empty), and map it where the host uses it.",
            argument.moved.nbytes,
        )
    if argument.merged_nbytes and argument.access == "atomic":
        return (
            f"changed by atomics of all workers, so at each launch {_per_launch(kernel, argument)} are fetched "
            "from every worker and combined",
            "Let each work-group add up in __local memory and write its sums to a place of its own, "
            "to be combined by a second kernel; or make the array smaller.",
            argument.moved.nbytes,
        )
    if argument.merged_nbytes:
        return (
            f"{_how(argument, 'written')}, so results of several workers are compared: {_per_launch(kernel, argument)} "
            f"of its {size(argument.nbytes)} at each launch, and {size(argument.moved.nbytes)} moved in all",
            _CHANGE_WRITE if _is_indexed(argument) else _change_of_reason(argument, "written"),
            argument.moved.nbytes,
        )
    extra = argument.moved.nbytes - argument.nbytes
    if not argument.exact and kernel.split and extra > 0:
        return (
            f"{_how(argument, 'read')}, so workers get all of it that they may need: {_moved_each(kernel, argument)}",
            _CHANGE_READ if _is_indexed(argument) else _change_of_reason(argument, "read"),
            extra,
        )
    if argument.exact and _bounces(kernel, argument):
        return (*_on_bouncing(kernel, argument), extra)
    return None


_CHANGE_WRITE = (
    "Turn the scatter into a gather, with each work-item writing the element at its own index and reading through "
    "the inverse index; or let each work-group write to a part of its own."
)
_CHANGE_READ = (
    "If the index follows a rule, compute it from get_global_id() and arguments; otherwise write the array "
    "as rarely as possible, because it is copied again only after it has changed."
)


def _is_indexed(argument: ArgumentStatistics) -> bool:
    return "loaded from memory" in (argument.reason or "")


def _how(argument: ArgumentStatistics, done: str) -> str:
    if _is_indexed(argument):
        return f"{done} through an index"
    return f"{done} where analysis cannot follow ({argument.reason or 'no reason known'})"


def _change_of_reason(argument: ArgumentStatistics, done: str) -> str:
    if "condition" in (argument.reason or ""):
        if done == "written":
            return (
                "Write in every case (the old value if nothing changes, with `?:`), so that each work-item always "
                "writes its own element."
            )
        return "Take the condition out of the index, so that each work-item reads the same elements in every case."
    return f"Compute the index at which it is {done} from get_global_id() and arguments alone."


def _bounces(kernel: KernelStatistics, argument: ArgumentStatistics) -> bool:
    """Whether most of the argument moves at nearly every launch."""
    often = kernel.launches >= _FEW_LAUNCHES
    return often and 2 * argument.moved.nbytes > argument.nbytes * kernel.launches


def _on_bouncing(kernel: KernelStatistics, argument: ArgumentStatistics) -> tuple[str, str]:
    moved = argument.moved
    each = size(moved.nbytes // kernel.launches)
    problem = f"{each} of its {size(argument.nbytes)} move at each launch"
    if moved.host_to_worker >= moved.worker_to_worker:
        return (
            f"{problem}, most of it from the host",
            "Leave the data on the device between launches: write it once, or let a kernel change it.",
        )
    return (
        f"{problem}, most of it between workers",
        "Let this kernel and the one that writes the buffer traverse it along the same dimension, so that each "
        "worker finds what it needs where it was made.",
    )


def _moved_each(kernel: KernelStatistics, argument: ArgumentStatistics) -> str:
    """What was counted for an argument that has `argument.nbytes`, in total and for each launch."""
    moved = argument.moved.nbytes
    if kernel.launches == 1:
        return f"{size(moved)} moved for its {size(argument.nbytes)}"
    return f"{size(moved)} moved for its {size(argument.nbytes)}, {size(moved // kernel.launches)} a launch"


def _per_launch(kernel: KernelStatistics, argument: ArgumentStatistics) -> str:
    return size(argument.merged_nbytes // max(kernel.launches, 1))


# launches on too few workers --------------------------------------------------------------------


def _on_partition(kernel: KernelStatistics, partition: PartitionStatistics) -> Iterator[Advice]:
    cost: int | None = None
    if kernel.times.kernel_ns:
        took = kernel.times.kernel_ns * partition.launches // kernel.launches
        cost = took - took * partition.workers // partition.available
    reason = partition.reasons[0]
    launches = "1 launch" if partition.launches == 1 else f"{partition.launches} launches"
    where = "one worker" if partition.workers == 1 else f"{partition.workers} workers"
    yield Advice(
        kernel.name,
        kernel.program,
        reason.line or kernel.line,
        reason.source,
        f"{launches} ran on {where} of {partition.available}: {reason.text}",
        _change_of_partition(partition, reason),
        cost,
        0,
    )


#: words in a reason, and what helps; the first match counts
_REMEDIES = (
    ("kept on one worker", "Have launches that follow each other use the same part of a buffer for the same work-items. "
     "VDEV_GATHER=0 splits them anyway."),
    ("VDEV_PLANNING", "Do more in each launch, and have launches that follow each other use the same part of a buffer for the same "
     "work-items. VDEV_PLANNING=always splits them anyway."),
    ("estimated time", "Do more in each launch: this one would take no less time on more workers."),
    ("fewer than", "Launch more work-items at once, or set VDEV_MIN_ITEMS lower."),
    ("small, but cut", "Launch more work-items at once, or set VDEV_MIN_ITEMS lower."),
    ("one work-group", "Choose a smaller work-group size: a launch is cut between work-groups."),
    ("work-groups", "Choose smaller work-groups, so that there are enough for all workers."),
    ("goto", "Write the loop without goto."),
    ("asm", "Put the inline assembly into a kernel of its own, or write it in OpenCL C."),
    ("volatile", "Do not let work-groups communicate through volatile memory: end the kernel and launch another one."),
    ("atomic", "Use only atomics that add, take the minimum or maximum, or combine bits, do not use what they return, and "
     "do not access the same memory in other ways: such atomics are merged."),
    ("intermediate language", "Build the program from OpenCL C, which is analysed."),
)  # fmt: skip


def _change_of_partition(partition: PartitionStatistics, reason: Reason) -> str:
    for word, change in _REMEDIES:
        if word in reason.text:
            return change
    if reason.line is None:
        return "What the reason names concerns the whole kernel: put it into a kernel of its own, so that others can be split."
    return "Change that line, or put what it does into a kernel of its own, so that the rest can be split."


def size(nbytes: int) -> str:
    """Bytes for people.

    >>> size(400_000_000), size(65_536), size(12)
    ('400 MB', '65.5 kB', '12 bytes')
    """
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}" if nbytes < 1000 * scale else f"{nbytes // scale} {unit}"
    return f"{nbytes} bytes"
