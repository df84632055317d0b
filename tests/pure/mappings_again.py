"""What may come between a mapping and the next one like it: cases that `test_reads_again` runs in a process of its own
(`transfer_cases`).

Each maps a buffer until that is made again as it was, changes one thing, and does it once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl

from vdev.executor.job import is_complete
from vdev.executor.stretch import Part
from vdev.session.immediate_maps import MapsAtOnce

from .reads_again import Reads
from .transfer_cases import (
    GROUP,
    IS_SPLIT,
    READ_WRITE,
    N,
    case,
    counted,
    opened_later,
    same_error,
    until_again,
)

FLAGS = cl.map_flags
READS, WRITES, BOTH = FLAGS.READ, FLAGS.WRITE_INVALIDATE_REGION, FLAGS.READ | FLAGS.WRITE

mapped_again = counted(MapsAtOnce, "map_again")  #: mappings that were made again
mapped_back = counted(
    MapsAtOnce, "_write_back"
)  #: those for writing that were ended at once, with what the host has written


class Mappings(Reads):
    """The same, of a buffer that is mapped again and again."""

    def map(
        self, how: int = BOTH, span: tuple[int, int] = (0, N), queue: Any = None, buffer: Any = None
    ) -> Any:
        """The array of a mapping, which has what the buffer holds, unless the program gives that up."""
        (start, stop), queue = span, queue or self.queue
        array, event = cl.enqueue_map_buffer(
            queue, buffer or self.buffer, how, 4 * start, (stop - start,), np.uint32
        )
        assert event.command_type == cl.command_type.MAP_BUFFER
        if how & READS:
            assert (array == self.array[start:stop]).all(), (array, self.array[start:stop])
        return array

    def end(self, array: np.ndarray, start: int = 0, given: int | None = None) -> cl.Event:
        """End it, after the program has written to all of it if anything is given."""
        if given is not None:
            array[:] = given
            self.array = self.array.copy()
            self.array[start : start + array.size] = given
        return array.base.release(self.queue)

    def until_mapped_again(self, how: int = BOTH) -> None:
        """Launch and map until two mappings one after the other were made again: never, of what several workers have a part of."""

        def make(number: int) -> None:
            self.launch()
            self.end(self.map(how), given=number if how != READS else None)

        until_again(mapped_again, make, split=6)


@case
def mappings_again() -> None:
    """Of the same bytes and of others, for reading, for writing and for both, one after the other and several at once."""
    maps = Mappings()
    part = maps.buffer.get_sub_region(512, 256)
    for how in (BOTH, READS, WRITES) * 2:
        maps.until_mapped_again(how)
        before = mapped_again[0]
        for number in range(12):
            maps.launch()
            maps.end(maps.map(how), given=None if how == READS else number)
        assert IS_SPLIT or mapped_again[0] >= before + 10
        maps.launch()
        maps.end(maps.map(how, (8, 24)), 8, None if how == READS else 5)
        maps.launch()
        maps.read()
        maps.check()
        for other in (BOTH, READS, WRITES):
            maps.launch()
            maps.end(maps.map(other), given=None if other == READS else other)
            maps.launch()
            maps.end(maps.map(other, (8, 24)), 8, None if other == READS else other + 1)
            maps.launch()
            first, second = maps.map(READS), maps.map(READS)
            maps.end(first), maps.end(second)
        maps.launch()
        array, _ = cl.enqueue_map_buffer(maps.queue, part, BOTH, 0, (8, 8), np.float32, "F")
        assert array.T.tobytes() == maps.array[128:192].tobytes()
        array.base.release(maps.queue)
        array = maps.map(READS)
        maps.launch()  # what is mapped for reading may be read meanwhile
        maps.end(array)
        maps.read()
        maps.check()


@case
def mappings_of_shared_memory() -> None:
    """They are made and ended like those of buffers; where two overlap, what the host has written counts."""
    reads = Reads()
    shared = cl.svm_empty(reads.context, cl.svm_mem_flags.READ_WRITE, N, np.uint32)
    pointer, expected, ended = cl.SVM(shared), np.zeros(N, np.uint32), 0
    with pointer.map_rw(reads.queue) as mapped:
        mapped[:] = 0
    for number in range(20):
        reads.add(reads.queue, (N,), (GROUP,), pointer, np.uint32(1))
        before = mapped_back[0]
        with pointer.map_rw(reads.queue) as mapped:
            expected += np.uint32(1)
            assert (mapped == expected).all()
            mapped[number] = expected[number] = 100
        ended += mapped_back[0] - before
    assert IS_SPLIT or ended > 10, ended
    before = mapped_back[0]
    with pointer.map_rw(reads.queue) as first:
        with pointer.map_rw(reads.queue) as second:
            second[0] = expected[0] = 5
        first[1] = expected[1] = 6
    assert mapped_back[0] == before
    reads.add(reads.queue, (N,), (GROUP,), pointer, np.uint32(1))
    with pointer.map_ro(reads.queue) as mapped:
        assert (mapped == expected + np.uint32(1)).all()


@case
def mappings_of_the_programs_memory() -> None:
    """The mapping is that memory, and what the program writes there while it is mapped counts."""
    maps = Mappings()
    mine = np.arange(N, dtype=np.uint32)
    maps.array = mine.copy()
    maps.buffer = cl.Buffer(maps.context, READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=mine)
    maps.until_mapped_again()
    for number in range(20):
        maps.launch()
        array = maps.map()
        assert array.ctypes.data == mine.ctypes.data
        mine[number] = 7
        maps.array = maps.array.copy()
        maps.array[number] = 7
        maps.end(array)
    maps.read()
    maps.check()


@case
def mappings_behind_their_queue() -> None:
    """Whatever is mapped: all before it has ended, and the end of the mapping comes before what follows."""
    for how in (BOTH, READS, WRITES):
        maps = Mappings()
        maps.until_mapped_again(how)
        for number in range(20):
            launched = maps.launch()
            array = maps.map(how)
            ended = launched._vdev_state
            assert is_complete(ended.stretch.completion if type(ended) is Part else ended)
            event = maps.end(array, given=None if how == READS else number)
            maps.launch()
            event.wait()
        other, gate = cl.CommandQueue(maps.context), cl.UserEvent(maps.context)
        launched = maps.launch(other, wait_for=[gate])
        cl.enqueue_barrier(maps.queue, wait_for=[launched])
        with opened_later(gate):
            maps.end(maps.map(how), given=None if how == READS else 9)
        maps.read()
        maps.check()


@case
def mappings_behind_what_changes_the_buffer() -> None:
    maps = Mappings()
    source = maps.new(np.full(N, 3, np.uint32))
    changes: tuple[Callable[[], object], ...] = (
        lambda: cl.enqueue_copy(maps.queue, maps.buffer, source),
        lambda: maps.take(maps.queue, (N,), (GROUP,), maps.buffer, source),
        lambda: cl.enqueue_copy(maps.queue, maps.buffer, np.full(N, 3, np.uint32)),
        lambda: cl.enqueue_fill_buffer(maps.queue, maps.buffer, np.uint32(3), 0, 4 * N),
        lambda: cl.enqueue_migrate_mem_objects(maps.queue, [maps.buffer], cl.mem_migration_flags.HOST),
    )
    for how in (BOTH, WRITES):
        for change in changes:
            maps.until_mapped_again(how)
            if change is changes[-1]:
                maps.launch()
            else:
                maps.array = np.full(N, 3, np.uint32)
            change()
            maps.end(maps.map(how), given=4)
            maps.launch()
            maps.read()
            maps.check()


@case
def what_is_wrong_with_mappings() -> None:
    maps, context = Mappings(), cl.create_some_context(interactive=False)
    maps.until_mapped_again()
    elsewhere = cl.CommandQueue(context)

    def ask(buffer: Any, queue: Any = maps.queue, how: Any = BOTH, offset: Any = 0, shape: Any = (N,)) -> Any:
        return cl.enqueue_map_buffer(queue, buffer, how, offset, shape, np.uint32)[0]

    changes: tuple[Callable[[Mappings, cl.Buffer], object], ...] = (
        lambda _, buffer: ask(buffer, how=float(BOTH)),
        lambda _, buffer: ask(buffer, offset=0.0),
        lambda _, buffer: ask(buffer, elsewhere),
        lambda _, buffer: ask(buffer, None),
        lambda _, buffer: ask(buffer, offset=4),
        lambda _, buffer: ask(buffer, shape=(N + 1,)),
        lambda _, buffer: ask(buffer, shape="many"),
        lambda _, buffer: [buffer.release(), ask(buffer)],
    )
    for change in changes:
        same_error(maps, change)


@case
def figures_of_mappings() -> None:
    """Each is counted, and its bytes are. What is written while a worker is busy may stay at home until a launch takes it: its bytes are
    the launch's then.
    """
    import vdev
    from vdev.start.current import current_session

    def counted() -> list[int]:
        moved = vdev.stats().moved
        with current_session().observing() as ledger:
            tallies = [ledger.command(kind) for kind in ("map", "unmap", "read", "write")]
            back = tallies[0].moved.worker_to_host
            return [*(each.count for each in tallies), back, moved.worker_to_host, moved.host_to_worker]

    maps = Mappings()
    maps.until_mapped_again()
    maps.launch()
    before = counted()
    for number in range(20):
        maps.launch()
        maps.end(maps.map(), given=number)
    maps.launch()
    more = np.subtract(counted(), before).tolist()
    assert IS_SPLIT or more == [20, 20, 0, 0, *[20 * 4 * N] * 3], more
