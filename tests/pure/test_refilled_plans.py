"""Launches on several GPUs whose plans differ in their numbers: one that was compiled takes each one's numbers
(`vdev.executor.refilled_plan`). Here, on machines without a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from vdev.translators.ranges.region import Region

from vdev.backends import call_lists
from vdev.backends.call_lists import Boxes, DriverCall
from vdev.backends.cuda import kernels
from vdev.backends.cuda.boxes import PlacedBox, placed
from vdev.backends.cuda.driver import LaunchConfig, _Kept
from vdev.backends.cuda.own_kernels import WORDS_OF_BOX, OwnKernels
from vdev.executor.boxes import boxes_of_region

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

#: one works its way over a matrix, by rows and columns that move on; the next one goes over all of it with these, one reads other ranges
#: each time, and the last one has another part of a buffer
PROGRAM = """
import ctypes
import numpy as np, pyopencl as cl
from vdev.executor.completion import Completion
from vdev.executor.refilled_plan import RefilledPlan
from vdev.start.current import get_session
refilled, together, by_blocks = [0], [0], [0]
comes_between = False
def from_peers():
    return sum(each.from_peer for each in get_session().executor.counters())
def noted(submit, plan_of):
    def note(self, *given):
        before, prepared = from_peers(), plan_of(given)
        copied = [step for _, batch in prepared.batches for step in batch.steps if step.coherent]
        done = submit(self, *given)
        if done is not None:
            refilled[0] += 1
            is_apart = type(done) is Completion or getattr(done, "completion", done).error  # it has met a failure
            assert comes_between or is_apart or from_peers() - before == sum(step.region.nbytes for step in copied)
        return done
    return note
RefilledPlan.submit_like = noted(RefilledPlan.submit_like, lambda given: given[0])
def counted_together(self, *given):
    done = hand_over(self, *given)
    together[0] += done is not None
    return done
hand_over, RefilledPlan.hand_over_like = RefilledPlan.hand_over_like, counted_together
RefilledPlan.hand_over_like = noted(counted_together, lambda given: given[1][0])
from vdev.backends.call_lists import Boxes
fill = Boxes.fill
def counted(self):
    done = fill(self)
    by_blocks[0] += done
    return done
Boxes.fill = counted
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
kernel void reduced(global uint *a, int n, int k)
{
    int x = get_global_id(0) + k + 1, y = get_global_id(1) + k + 1;
    if (x < n && y < n) a[y * n + x] -= a[y * n + k] * a[k * n + x];
}
kernel void crossed(global uint *a, int n, int k)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x != k && y != k) a[y * n + x] = 3 * a[y * n + x] + a[y * n + k] + a[k * n + x];
}
kernel void moved(global uint *to, global const uint *from, int n, int by)
{
    int i = get_global_id(0);
    to[i] = i >= by ? from[i] + 5 * from[i - by] : from[i];
}
kernel void raised(global uint *a, int by)
{
    int i = get_global_id(0);
    a[i] = a[i] * 3 + i * by;
}
''').build()
reduced, crossed, moved, raised = (cl.Kernel(program, name) for name in ("reduced", "crossed", "moved", "raised"))
flags, random = cl.mem_flags, np.random.default_rng(3)
class Matrix:
    def __init__(self, n):
        self.n, self.array = n, random.integers(0, 2**32, (n, n), np.uint32)
        self.buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=self.array)
    def reduce(self, k):
        n, a = self.n, self.array
        rest = -(-(n - 1 - k) // 8) * 8
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
        return reduced(queue, (rest, rest), (8, 8), self.buffer, np.int32(n), np.int32(k))
    def cross(self, k):
        n, a = self.n, self.array
        row, column = a[k].copy(), a[:, k].copy()
        found = 3 * a + column[:, None] + row[None, :]
        found[k], found[:, k] = row, column
        self.array = found
        return crossed(queue, (n, n), (8, 8), self.buffer, np.int32(n), np.int32(k))
    @property
    def is_right(self):
        found = np.empty_like(self.array)
        cl.enqueue_copy(queue, found, self.buffer)
        return (found == self.array).all()
class Line:
    def __init__(self, n):
        self.n, self.array = n, random.integers(0, 2**32, n, np.uint32)
        self.buffers = [
            cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=self.array) for _ in range(2)
        ]
    def step(self, by, queue=queue):
        before, after = self.buffers
        self.buffers.reverse()
        a = self.array
        self.array = np.concatenate([a[:by], a[by:] + np.uint32(5) * a[: self.n - by]])
        return moved(queue, (self.n,), (64,), after, before, np.int32(self.n), np.int32(by))
    @property
    def is_right(self):
        found = np.empty_like(self.array)
        cl.enqueue_copy(queue, found, self.buffers[0])
        return (found == self.array).all()
class Window:
    def __init__(self, n):
        self.n, self.array = n, random.integers(0, 2**32, n, np.uint32)
        self.buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=self.array)
    def step(self, k):
        n, first = self.n // 2, 128 * k % (self.n // 2)
        part = self.array[first : first + n]
        part[:] = part * np.uint32(3) + np.arange(n, dtype=np.uint32) * np.uint32(5)
        return raised(queue, (n,), (64,), self.buffer.get_sub_region(4 * first, 4 * n), np.int32(5))
    @property
    def is_right(self):
        found = np.empty_like(self.array)
        cl.enqueue_copy(queue, found, self.buffer)
        return (found == self.array).all()
"""
#: what makes commands be submitted one by one, as where others come between
SUBMITTED = """
from vdev.session import launches
launches.recall_refilled = lambda *given: None
"""

STEPS = """
for turn in range(2):
    matrix, wide, line, window = Matrix(128), Matrix(96), Line(6144), Window(1 << 14)
    before = refilled[0]
    for k in range(90):
        matrix.reduce(k)
        line.step(1 + 7 * k)
        window.step(k)
        if k % 3:
            wide.cross((5 * k) % 96)
        if k % 6 == 5:
            queue.finish()  # the workers' threads are not behind
        if k % 30 == 29:
            assert matrix.is_right and wide.is_right and line.is_right and window.is_right, (turn, k)
    assert matrix.is_right and wide.is_right and line.is_right and window.is_right, turn
    if not turn:  # later every plan is known
        assert refilled[0] >= before + 60, (before, refilled)
assert by_blocks[0] > 60, by_blocks
"""
#: and they are handed over together
TOGETHER = "\nassert together[0] > 60, together\n"


def _run(
    folder: Path, script: str, workers: int = 3, planted: str = "", planning: str = "always", **orders: int
) -> str:
    """What a script prints behind the program."""
    always = {"VDEV_PLANNING": planning, "VDEV_GATHER": "0", "VDEV_MIN_ITEMS": "1", "FAKE_CUDA_DEVICES": "4"}
    env = fake_cuda.environment(folder, f"cuda:0-{workers - 1}", **orders) | always
    if planted:
        env[fake_cuda.PLANTED] = planted
    found = fake_cuda.run(PROGRAM + script + '\nprint("right")', env)
    assert "right" in found
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda")


needs_compiler = pytest.mark.skipif(COMPILER is None, reason=MISSING)


@needs_compiler
@pytest.mark.parametrize(
    ("workers", "orders"),
    [(2, {"late": 0}), (3, {"late": 1}), (4, {"late": 3}), (4, {"seed": 3})],
    ids=["late-0", "late-1", "late-3", "seed-3"],
)
def test_each_plan_has_its_own_numbers(folder: Path, orders: dict[str, int], workers: int) -> None:
    _run(folder, STEPS + TOGETHER, workers, **orders)


@needs_compiler
@pytest.mark.parametrize("orders", [{"late": 1}, {"seed": 5}], ids=["late-1", "seed-5"])
def test_each_plan_that_is_submitted_has_its_own_numbers(folder: Path, orders: dict[str, int]) -> None:
    _run(folder, SUBMITTED + STEPS, **orders)


@needs_compiler
@pytest.mark.parametrize(
    "planted",
    [
        "a refilled plan launches the chunks of the one before",
        "a refilled plan launches with the values of the one before",
        "a refilled plan launches on the part of a buffer of the one before",
        "a refilled plan copies the blocks of the one before",
        "a refilled plan copies between the replicas of its first command",
        "a refilled plan counts the bytes of its first command",
    ],
)
def test_a_refilled_plan_with_a_defect_is_found(planted: str, folder: Path) -> None:
    with pytest.raises(AssertionError):
        _run(folder, STEPS, planted=planted, late=1)


@needs_compiler
@pytest.mark.parametrize(
    "planted",
    [
        "a refilled plan waits for what its first command's buffers say",
        "a refilled plan notes what it changes in no record",
    ],
)
def test_a_submitted_plan_with_a_defect_is_found(planted: str, folder: Path) -> None:
    with pytest.raises(AssertionError):
        _run(folder, SUBMITTED + STEPS, planted=planted, late=1)


#: two commands of one number would have the program wait for ever
NUMBERED = """
from vdev.executor.together import Together
enter = Together._enter
def once(self, plan, entry, stretch, bases):
    assert self._executor.last_number not in self._executor.unsettled, "there is such a command"
    return enter(self, plan, entry, stretch, bases)
Together._enter = once
"""
#: a finaliser submits a launch of the same kernel while one is handed over
NESTED = """
from vdev.executor.refilled_plan import RefilledPlan
comes_between = True
takes, other, left, nested = RefilledPlan.takes, Line(6144), [], [0]
def interrupted(self, holdings):
    if left:
        nested[0] += 1
        other.step(left.pop(), aside)
    return takes(self, holdings)
RefilledPlan.takes = interrupted
aside, line = cl.CommandQueue(context), Line(6144)
for number in range(20):
    line.step(4 + 7 * number), other.step(1 + 7 * number, aside)
    queue.finish(), aside.finish()
for number in range(20, 60):
    left.append(1 + 7 * number)
    line.step(4 + 7 * number)
    while left:
        other.step(left.pop(), aside)
    queue.finish(), aside.finish()
assert line.is_right and other.is_right
assert nested[0] > 5, nested
"""


@needs_compiler
@pytest.mark.parametrize("ahead", ["", SUBMITTED], ids=["together", "submitted"])
def test_a_command_that_comes_meanwhile_has_no_share_in_it(folder: Path, ahead: str) -> None:
    _run(folder, ahead + NESTED)


@needs_compiler
@pytest.mark.parametrize(
    ("ahead", "planted"),
    [
        (NUMBERED, "a command has the number of one that comes meanwhile"),
        (SUBMITTED, "a refilled plan is another command's while it is handed over"),
    ],
    ids=["together", "submitted"],
)
def test_a_share_in_it_is_found(folder: Path, ahead: str, planted: str) -> None:
    with pytest.raises(AssertionError):
        _run(folder, ahead + NESTED, planted=planted)


#: each launch is weighed, which changes nothing; in the end none can be handed over together
WEIGHED = """
from vdev.executor.together import Together
from vdev.session import launches
from vdev.session.choosing import Choosing
planned, weighed, make = [0], [0], launches.make_plan
def counted(*given):
    planned[0] += 1
    return make(*given)
def weigh(self, *given):
    weighed[0] += 1
    return False
launches.make_plan, Choosing.weigh, Choosing.counts = counted, weigh, lambda self, *given, **named: True
line = Line(6144)
for number in range(90):
    line.step(1 + 7 * number)
assert line.is_right
before = weighed[0], together[0], planned[0]
for number in range(90, 150):
    line.step(1 + 7 * number)
    if number % 10 == 9:
        queue.finish()
assert line.is_right
assert weighed[0] >= before[0] + 60, (before, weighed)
assert together[0] >= before[1] + 20, (before, together)
assert planned[0] <= before[2] + 60, (before, planned)
Together.hand_over, before = lambda *given: None, (refilled[0], planned[0])
for number in range(150, 180):
    line.step(1 + 7 * number)
    if number % 10 == 9:
        queue.finish()
assert line.is_right
assert planned[0] <= before[1] + 30, (before, planned)
"""


@needs_compiler
@pytest.mark.parametrize(
    "planted", ["", "a plan that was made ahead is made again"], ids=["right", "planted"]
)
def test_weighed_launches_are_planned_once(folder: Path, planted: str) -> None:
    if not planted:
        _run(folder, WEIGHED, planning="auto")
        return
    with pytest.raises(AssertionError):
        _run(folder, WEIGHED, planted=planted, planning="auto")


#: the driver refuses a call of one of its functions; what became of that
REFUSED = """
refuse = ctypes.PyDLL("libcuda.so.1").fake_refuse
matrix, wide, k = Matrix(160), Matrix(128), 0
for k in range(24):
    matrix.reduce(k), wide.cross(k)
queue.finish()
assert matrix.is_right and wide.is_right
before = refilled[0]
refuse(b"{function}", ctypes.c_long({number}))
events = [each for k in range(24, 28) for each in (matrix.reduce(k), wide.cross(k))]
refuse(b"", ctypes.c_long(0))
assert refilled[0] > before
failed = []
for events_of, matrix in ((events[::2], matrix), (events[1::2], wide)):
    statuses = []
    for event in events_of:
        try:
            event.wait()
        except cl.Error:
            pass
        statuses.append(event.command_execution_status)
    first = next((at for at, status in enumerate(statuses) if status < 0), 4)
    assert all(status == 0 for status in statuses[:first]) and all(status < 0 for status in statuses[first:]), statuses
    failed.append(first)
    if first == 4:
        assert matrix.is_right
matrix = Matrix(160)
for k in range(40):
    matrix.reduce(k)
assert matrix.is_right
print(*failed)
"""


@needs_compiler
@pytest.mark.parametrize("function", ["cuLaunchKernelEx", "cuEventRecord", "cuStreamWaitEvent"])
@pytest.mark.parametrize("number", [1, 6])
def test_a_refused_call_fails_its_command_at_most(folder: Path, function: str, number: int) -> None:
    """A launch or a copy from another worker, a fence or a wait."""
    found = _run(folder, REFUSED.format(function=function, number=number), late=1)
    if function == "cuLaunchKernelEx":
        assert min(map(int, found.split()[:-1])) < 4, "nothing has failed"


# boxes, as the library has a launch copy them ------------------------------------------------------------


def _starting(
    sizes: Sequence[int], shared: int, stream: int, handles: tuple[ctypes.c_void_p, ...]
) -> DriverCall:
    config = LaunchConfig(tuple(sizes[:3]), tuple(sizes[3:]), shared, stream, None, 0)
    place = _Kept(ctypes.addressof(config))
    place.kept = config
    return partial(ctypes.pythonapi["Py_IsInitialized"], place, *handles)


def _own_kernels() -> OwnKernels:
    """Those of a GPU whose functions are the places of their names."""
    names = list(kernels.NAMES)
    return OwnKernels(7, 2, lambda: lambda name: 1 + names.index(name), _starting, lambda *_: None)


def _copied(words: Sequence[int], unit: int, boxes: int) -> list[tuple[int, int]]:
    """By byte, as the kernels do it: where it comes from and where it goes. `words`: of a launch."""
    found = []
    if boxes > 1:
        total, *words = words
        assert total == sum(words[WORDS_OF_BOX * number + 4] for number in range(boxes))
    for number in range(boxes):
        box = words[WORDS_OF_BOX * number : WORDS_OF_BOX * (number + 1)]
        source, target, width, rows, total, *pitches = box
        for at in range(total):
            line, x = divmod(at, width)
            z, y = divmod(line, rows)
            ahead = [z * each + y * row + x for row, each in (pitches[:2], pitches[2:])]
            found += [
                (source + ahead[0] * unit + byte, target + ahead[1] * unit + byte) for byte in range(unit)
            ]
    return found


def _regions(random: np.random.Generator) -> list[Region]:
    """Those of a few copies: rows, columns, boxes and runs, which may have bytes in common."""
    found = []
    for _ in range(random.integers(1, 4)):
        unit, pitch = int(2 ** random.integers(0, 5)), 64 * int(random.integers(1, 3))
        start = unit * int(random.integers(0, 200 // unit + 1))
        dims = [(pitch, int(random.integers(1, 4)))]
        if random.integers(0, 3) == 0:
            dims.insert(0, (4 * pitch, int(random.integers(1, 3))))
        found.append(Region.boxes(start, unit * int(random.integers(1, 64 // unit + 1)), dims))
    return found


def _blocks_and_boxes(
    regions: Sequence[Region], starts: Sequence[tuple[int, int, int]]
) -> tuple[list[int], list[tuple[int, int, int]], list[PlacedBox]]:
    """Numbers of all blocks of regions, each copied from the memory of its number to the last one, and the boxes that these are.
    `starts`: of each memory, its address and which bytes it has."""
    numbers, of, boxes = [], [], []
    for number, region in enumerate(regions):
        here, there = starts[number], starts[-1]
        for block in region.blocks():
            of.append((len(of), number, len(regions)))
            numbers += block.numbers
        boxes += [placed(here[0], there[0], box) for box in boxes_of_region(region, here[1], there[1])]
    return numbers, of, boxes


def test_the_library_copies_what_the_back_end_would() -> None:
    call_lists.walker()
    random, made, refused, outside = np.random.default_rng(11), 0, 0, 0
    for _ in range(1500):
        regions = _regions(random)
        last = max(region.stop for region in regions) - int(random.integers(0, 40) == 0)
        starts = [
            (16 * int(random.integers(1 << 20, 1 << 21)) * 64, int(random.integers(0, 2)) * -16, last)
            for _ in range(len(regions) + 1)
        ]
        numbers, of, boxes = _blocks_and_boxes(regions, starts)
        own, again = _own_kernels(), ctypes.c_uint64()
        if len(boxes) > kernels.MOST_BOXES:
            continue
        copy = own.copying([boxes[0]._replace(source=0, target=0)] * len(boxes))
        launch = own.copying_launch(copy, ctypes.addressof(again), 1 << 20)
        blocks = (ctypes.c_int64 * len(numbers))(*numbers)
        memories = (ctypes.c_int64 * (3 * len(starts)))(*[each for start in starts for each in start])
        before = bytes(copy._held[0])
        is_outside = last < max(region.stop for region in regions)
        overlap = any(one.may_overlap(other) for at, one in enumerate(boxes) for other in boxes[:at])
        if not Boxes(launch, blocks, memories, of).fill():
            assert bytes(copy._held[0]) == before
            assert not again.value
            assert overlap or is_outside or _is_seldom(regions)
            outside, refused = outside + is_outside, refused + overlap
            continue
        made += 1
        assert not overlap
        assert not is_outside
        name, parameters, work = own._copy_of(boxes)
        unit = int(name.rpartition("_u")[2])
        found, expected = (
            list(memoryview(each).cast("B").cast("Q")) for each in (copy._held[0], bytearray(parameters))
        )
        assert _copied(found, unit, len(boxes)) == _copied(expected, unit, len(boxes))
        place, started = copy.call.args[:2]
        assert started.value == again.value == own._function(name)
        assert place.kept.groups[0] == own._groups(work)
    assert min(made, refused, outside) > 20, (made, refused, outside)


def _is_seldom(regions: Sequence[Region]) -> bool:
    """Whether there are slices, or rows that are not as far apart as others: the library takes those for one on another sooner."""
    blocks = [block for region in regions for block in region.blocks()]
    return (
        any(block.slices > 1 for block in blocks)
        or len({block.stride for block in blocks if block.count > 1}) > 1
    )


def test_more_bytes_than_the_back_end_fetches_are_not_copied() -> None:
    call_lists.walker()
    own, again = _own_kernels(), ctypes.c_uint64()
    region, starts = Region.span(0, 4096), [(1 << 20, 0, 4096), (1 << 21, 0, 4096)]
    numbers, of, boxes = _blocks_and_boxes([region], starts)
    copy = own.copying(boxes)
    blocks = (ctypes.c_int64 * len(numbers))(*numbers)
    memories = (ctypes.c_int64 * 6)(*[each for start in starts for each in start])
    for most, expected in ((4096, False), (4097, True)):
        launch = own.copying_launch(copy, ctypes.addressof(again), most)
        assert Boxes(launch, blocks, memories, of).fill() == expected
