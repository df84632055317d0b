"""Random kernels on n workers against one: what the property test and the long run share.

A kernel of the analysis tests (`tests.pure.kernels`) says what a work-item touches. Made comparable, it
also shows every value that it reads, in a place of the work-item's own, and has neither races nor accesses
outside its buffers: `Race` and `Outside` sort out those that have, by running every work-item on the contents
at hand.
"""

from __future__ import annotations

import itertools
import random
import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from tests.pure.kernels import STRUCT, Buffer, E, GeneratedKernel, Generator, to
from tests.pure.oracle import ARITHMETIC, Undefined, WorkItem
from vdev.planner.instructions import Plan
from vdev.process.switches import parse_workers
from vdev.session.commands import BufferArg, Launch, Read, Write
from vdev.session.session import Session, SessionKernel, SessionProgram, VirtualBuffer
from vdev.start.workers import open_workers

#: Partial work-groups need OpenCL C 2.0 or later. Without optimisation because Intel's engine (2026.2)
#: miscounts a pointer's steps in nested loops, `for (…) { for (…) *p++ = 1; p += 1; }`, without vdev as with
#: it, and writes what happens to be in a register.
OPTIONS = ("-cl-std=CL3.0", "-cl-opt-disable")
WORKERS = (2, 3, 4, 8)
#: accesses of one launch above which brute force gives up
_MOST_TOUCHES = 30_000
#: bytes that a sub-buffer's offset must be a multiple of, on every engine that CI knows
_ALIGNMENT = 128

Memory = npt.NDArray[np.uint8]


class Race(Undefined):
    """The result depends on which work-item comes first."""


class Outside(Undefined):
    """A work-item touches what is outside its buffer."""


class Different(AssertionError):
    """Several workers and one disagree."""


# kernels ------------------------------------------------------------------------------------------


class ShowingGenerator(Generator):
    """Kernels whose every read shows: in `out`, at the work-item's place.

    Half of them are signed: what a work-item writes tells which it was.
    """

    def __init__(self, rng: random.Random, dims: int) -> None:
        super().__init__(rng, dims)
        if self.chance(0.5):
            self.forms.add("signed")

    def line(self, c: str | None, py: str | None) -> None:
        if c is not None and py is not None and "item.write(" in py and "signed" in self.forms:
            c = re.sub(r"(?<= = )1;|(?<=\))\(1(\.0f)?\)(?=[;,])", _signed, c)
        super().line(c, py)
        if c is None or py is None or not py.startswith("item.read("):
            return
        found = re.match(r"(struct item|\w+) (\w+) = ", c)
        assert found is not None, c
        self.c.append("  " * self.depth + f"SEE({_digest(found[1], found[2])});")

    def _atomic(self, buffer: Buffer, index: E) -> None:
        """As in the base class, with the operation told apart even where its result is asked for."""
        self.forms.add("atomic")
        function, number = self.rng.choice(
            [("add", 1), ("sub", 2), ("min", 3), ("max", 5), ("or", 4), ("xor", 3), ("and", -2), ("xchg", 1)]
        )
        text = f"atomic_{function}(&{buffer.name}[{index.c}], {number})"
        if self.chance(0.2):
            text = f"int {self.fresh('old')} = {text}"
        op = {"sub": "add"}.get(function, function)
        self.line(f"{text};", f"item.atomic({buffer.index}, ({index.py}) * {buffer.nbytes}, 4, {op!r})")

    def local_memory(self) -> None:
        """Each work-item its own element: a neighbour's would need a barrier, which divergent code may not
        have.
        """
        self.forms.add("local memory")
        name, value = self.fresh("l"), self.expr(1)
        self.line(f"tile[get_local_linear_id()] = {value.c};", f"{name} = {to(value, 'int').py}")
        self.line(f"int {name} = tile[get_local_linear_id()];", None)
        self.ints.append((name, "int"))

    def async_copy(self) -> None:
        """Needs all work-items of a group at one place, which nothing here promises."""
        self.access()


def _signed(one: re.Match[str]) -> str:
    """In the place of the 1 that the kernel would write."""
    return "1 + (int)place;" if one[0].endswith(";") else "(1 + (int)place)"


def _digest(type_name: str, name: str) -> str:
    """A number made of a value of a type."""
    if type_name == "struct item":
        fields = (".a", ".b[0]", ".b[1]", ".b[2]", ".c", ".d")
        return " * 3 + ".join(f"(ulong)({name}{field})" for field in fields).replace(
            f"{name}.b", f"(int){name}.b"
        )
    base, count = re.fullmatch(r"([a-z]+)(\d?)", type_name).groups()  # type: ignore[union-attr]
    parts = [f"{name}.s{i}" for i in range(int(count))] if count else [name]
    if base == "float":
        parts = [f"as_uint({part})" for part in parts]
    return " * 3 + ".join(f"(ulong)({part})" for part in parts)


@dataclass
class Case:
    """A kernel of a batch and how it is launched. `args`: by buffer argument, (buffer, offset, nbytes)."""

    number: int
    kernel: GeneratedKernel
    ndrange: NDRange
    sizes: list[int]  #: of the buffers
    args: list[tuple[int, int, int]]
    workers: int
    seed: int

    @property
    def name(self) -> str:
        return f"k{self.number}"

    def source(self) -> str:
        """The kernel as a part of the batch's program."""
        text = self.kernel.c.replace(STRUCT, "")
        text = re.sub(r"\bf(\d+)\(", rf"f\1_{self.number}(", text)
        head = re.search(r"__kernel void k\((.*?)\) \{\n", text)
        assert head is not None
        place = "get_global_id(0) - get_global_offset(0)"
        for d in range(1, self.ndrange.work_dim):
            place = f"({place}) + get_global_size({d - 1}) * (get_global_id({d}) - get_global_offset({d}))"
            if d == 2:
                place = place.replace("get_global_size(1)", "get_global_size(0) * get_global_size(1)")
        new = (
            f"__kernel void {self.name}({head[1]}, __global ulong *out) {{\n  const size_t place = {place};\n"
        )
        return text[: head.start()] + new + text[head.end() :]

    def contents(self) -> list[Memory]:
        """What the buffers hold first: as each argument's elements, numbers small enough to be indices."""
        rng = np.random.default_rng(self.seed)
        memory = [rng.integers(0, 9, size, np.uint8) for size in self.sizes]
        for buffer, (slot, offset, nbytes) in zip(self.kernel.buffers, self.args, strict=True):
            kind = np.dtype("f4" if buffer.type.startswith("float") else f"i{buffer.scalar_nbytes}")
            count = nbytes // kind.itemsize
            numbers = rng.integers(-4 if kind.itemsize > 1 else 0, 17, count).astype(kind)
            memory[slot][offset : offset + count * kind.itemsize] = numbers.view(np.uint8)
        return memory

    def describe(self) -> str:
        memory = f"sizes {self.sizes} args {self.args}"
        launch = f"{self.ndrange}\nscalars {self.kernel.scalars} {memory} workers {self.workers}"
        return f"{self.source()}\n{launch}"


HEADER = STRUCT + "#define SEE(value) out[place] = out[place] * 31 + (value)\n"
#: between two launches of a kernel: touches every eighth byte, cut in another way; small numbers stay small
MIX = """
__kernel void mix(__global uchar *bytes, ulong count) {
  ulong i = get_global_id(0);
  if (i < count) bytes[8 * i] ^= 1;
}
"""


def random_space(rng: random.Random) -> NDRange:
    """At most 64 work-items in a group; some with an offset, some with partial last work-groups."""
    dims = rng.choice([1, 1, 1, 2, 2, 3])
    local = tuple(rng.randrange(1, {1: 9, 2: 5, 3: 4}[dims]) for _ in range(dims))
    groups = tuple(rng.randrange(1, {1: 14, 2: 6, 3: 4}[dims]) for _ in range(dims))
    partial = rng.random() < 0.15
    size = tuple(n * g - (rng.randrange(n) if partial else 0) for n, g in zip(local, groups, strict=True))
    offset = tuple(rng.randrange(1, 9) if rng.random() < 0.2 else 0 for _ in range(dims))
    return NDRange(size, local, offset)


def random_case(rng: random.Random, number: int) -> Case:
    """A kernel whose first launch brute force has found well defined."""
    while True:
        ndrange = random_space(rng)
        kernel = ShowingGenerator(rng, ndrange.work_dim).write()
        case = Case(
            number, kernel, ndrange, *_random_memory(rng, kernel), rng.choice(WORKERS), rng.randrange(1 << 30)
        )
        try:
            run_items(case, case.contents())
        except Undefined:
            continue
        return case


def _random_memory(
    rng: random.Random, kernel: GeneratedKernel
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Buffers and which part of which one each argument is: some sub-buffers, a few that overlap."""
    sizes: list[int] = []
    args: list[tuple[int, int, int]] = []
    for buffer in kernel.buffers:
        nbytes = rng.choice([200, 600, 2000]) * max(buffer.scalar_nbytes, 4) + rng.randrange(3)
        offset = rng.randrange(1, 5) * _ALIGNMENT if rng.random() < 0.3 else 0
        if args and rng.random() < 0.1:
            other = rng.randrange(len(sizes))
            offset = min(offset, sizes[other] // _ALIGNMENT // 2 * _ALIGNMENT)
            args.append((other, offset, min(nbytes, sizes[other] - offset)))
        else:
            args.append((len(sizes), offset, nbytes))
            sizes.append(offset + nbytes + rng.choice([0, 0, 7, 300]))
    return sizes, args


# brute force --------------------------------------------------------------------------------------

_NOBODY, _SEVERAL = -1, -2


class Memories:
    """Contents before a launch, and who has done what with each byte since."""

    def __init__(self, case: Case, contents: Sequence[Memory]) -> None:
        self.args = case.args
        self.contents = contents
        #: work-items that write as the same type write the same
        self.equal_writes = not case.kernel.forms & {"pointer cast", "signed"}
        self.readers = [np.full(size, _NOBODY, np.int32) for size in case.sizes]
        self.writers = [np.full(size, _NOBODY, np.int32) for size in case.sizes]
        self.atomics = [np.full(size, _NOBODY, np.int32) for size in case.sizes]
        #: what a byte was written as: several work-items may only write the same
        self.tags = [np.zeros(size, np.int32) for size in case.sizes]
        self.ops = [np.zeros(size, np.int32) for size in case.sizes]
        self.touches = 0

    def place(self, arg: int, offset: int, nbytes: int) -> tuple[int, slice]:
        """The bytes of an access. Outside where they are not all the argument's."""
        self.touches += 1
        if self.touches > _MOST_TOUCHES:
            raise Undefined
        slot, start, size = self.args[arg]
        offset = (offset + (1 << 63)) % (1 << 64) - (1 << 63)
        if offset < 0 or offset + nbytes > size:
            raise Outside
        return slot, slice(start + offset, start + offset + nbytes)

    def check(self) -> None:
        """Race where it mattered who came first."""
        for readers, writers, atomics in zip(self.readers, self.writers, self.atomics, strict=True):
            if (
                (readers != _NOBODY) & (writers != _NOBODY) & ((readers != writers) | (readers == _SEVERAL))
            ).any():
                raise Race
            plain = np.where(readers == _NOBODY, writers, readers)
            both = (plain != _NOBODY) & (atomics != _NOBODY)
            if (both & ((plain != atomics) | (plain == _SEVERAL))).any():
                raise Race


def _mark(who: npt.NDArray[np.int32], where: slice, item: int) -> None:
    part = who[where]
    who[where] = np.where((part == _NOBODY) | (part == item), item, _SEVERAL)


class CheckedItem(WorkItem):
    """One work-item that may touch memory."""

    def __init__(
        self, memories: Memories, number: int, ndrange: NDRange, group: tuple[int, ...], lid: tuple[int, ...]
    ) -> None:
        super().__init__(ndrange, group, lid)
        self.memories, self.number = memories, number

    def read(self, arg: int, offset: int, nbytes: int) -> None:
        slot, where = self.memories.place(arg, offset, nbytes)
        _mark(self.memories.readers[slot], where, self.number)

    def write(self, arg: int, offset: int, nbytes: int) -> None:
        memories = self.memories
        slot, where = memories.place(arg, offset, nbytes)
        tags = np.arange(1, nbytes + 1, dtype=np.int32) + 100 * nbytes + 10_000 * arg
        foreign = (memories.writers[slot][where] != _NOBODY) & (memories.writers[slot][where] != self.number)
        same = memories.equal_writes and nbytes != 24
        if (foreign & ((memories.tags[slot][where] != tags) | (not same))).any():
            raise Race
        memories.tags[slot][where] = tags
        _mark(memories.writers[slot], where, self.number)

    def update(self, arg: int, offset: int, nbytes: int) -> None:
        self.read(arg, offset, nbytes)
        self.write(arg, offset, nbytes)

    def atomic(self, arg: int, offset: int, nbytes: int, op: str | None) -> None:
        if op is None:  # a volatile write
            self.write(arg, offset, nbytes)
            return
        memories = self.memories
        slot, where = memories.place(arg, offset, nbytes)
        code = 1 + ("add", "min", "max", "or", "xor", "and", "xchg").index(op)
        foreign = (memories.atomics[slot][where] != _NOBODY) & (memories.atomics[slot][where] != self.number)
        if (foreign & (memories.ops[slot][where] != code)).any():
            raise Race
        mine = memories.atomics[slot][where] == self.number
        # one that does two operations, among others that do one of them, is as unordered
        memories.ops[slot][where] = np.where(mine & (memories.ops[slot][where] != code), 99, code)
        _mark(memories.atomics[slot], where, self.number)

    def load(self, arg: int, offset: int, nbytes: int, name: str) -> int:
        memories = self.memories
        slot, where = memories.place(arg, offset, nbytes)
        if (memories.writers[slot][where] != _NOBODY).any() or (
            memories.atomics[slot][where] != _NOBODY
        ).any():
            raise Race  # perhaps its own value: brute force knows only those before the launch
        _mark(memories.readers[slot], where, self.number)
        number = int.from_bytes(memories.contents[slot][where].tobytes(), "little")
        return int(ARITHMETIC[f"w_{name}"](number))


def run_items(case: Case, contents: Sequence[Memory]) -> None:
    """Run every work-item on `contents`. Undefined, Race or Outside where the kernel has no one result."""
    memories = Memories(case, contents)
    ndrange, arguments = case.ndrange, list(case.kernel.scalars.values())
    numbers = itertools.count()
    for group in itertools.product(*map(range, ndrange.num_groups)):
        for lid in itertools.product(*map(range, ndrange.local_size)):
            item = CheckedItem(memories, next(numbers), ndrange, group, lid)
            if all(i < n for i, n in zip(lid, item.lsize, strict=True)):
                case.kernel.run(item, *arguments)
    memories.check()


# runs ---------------------------------------------------------------------------------------------


class Run:
    """The buffers of a case in one session, and what is done with them."""

    def __init__(self, session: Session, program: SessionProgram, case: Case) -> None:
        self.session, self.program, self.case = session, program, case
        self.queue = session.create_queue(in_order=True)
        contents = case.contents()
        contents.append(np.zeros(8 * case.ndrange.nitems, np.uint8))
        self.buffers: list[VirtualBuffer] = []
        for content in contents:
            buffer = session.create_buffer(len(content))
            layout = Layout.contiguous(0, len(content))
            session.submit(Write(buffer, layout, content), queue=self.queue)
            self.buffers.append(buffer)

    def launch(self) -> None:
        case = self.case
        kernel: SessionKernel = self.program.kernels[case.name]
        args: list[Any] = [
            BufferArg(self.buffers[slot], offset, nbytes) for slot, offset, nbytes in case.args
        ]
        for index, number in case.kernel.scalars.items():
            args.append(struct.pack(f"={kernel.info.args[index].scalar}", number))
        out = self.buffers[-1]
        args.append(BufferArg(out, 0, out.nbytes))
        self.session.submit(Launch(kernel, tuple(args), case.ndrange), queue=self.queue)

    def mix(self, slot: int) -> None:
        buffer = self.buffers[slot]
        count = buffer.nbytes // 8
        args = (BufferArg(buffer, 0, buffer.nbytes), struct.pack("=Q", count))
        space = NDRange((-(-count // 16) * 16,), (16,), (0,))
        self.session.submit(Launch(self.program.kernels["mix"], args, space), queue=self.queue)

    def read(self) -> list[Memory]:
        """All buffers as they are now; raises where a command failed."""
        found = []
        for buffer in self.buffers:
            host = np.full(buffer.nbytes, 0xEE, np.uint8)
            completion = self.session.submit(
                Read(buffer, Layout.contiguous(0, buffer.nbytes), host), queue=self.queue
            )
            status = completion.wait()
            if status != 0:
                raise Different(f"status {status}: {completion.reason}\n{self.case.describe()}")
            found.append(host)
        return found


class Machines:
    """A session for every number of workers, open until the tests are over."""

    def __init__(self, workers: Sequence[int] = (1, *WORKERS)) -> None:
        self.sessions = {
            count: Session(open_workers(parse_workers(f"cpu:{count}")), min_items=0) for count in workers
        }
        self.counts: Counter[str] = Counter()
        for count, session in self.sessions.items():
            session.observers.append(lambda command, plan, count=count: self._observe(count, command, plan))

    def _observe(self, count: int, command: object, plan: Plan) -> None:
        if count > 1 and isinstance(command, Launch) and command.kernel.name != "mix":
            self.counts["launches"] += 1
            self.counts["launches cut"] += len(plan.partition) > 1
            self.counts["launches with a twin"] += any("twin" in reason for reason in plan.reasons)
            self.counts["launches with merged atomics"] += any("atomic" in reason for reason in plan.reasons)

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()

    def check(self, cases: Sequence[Case]) -> None:
        """Build the cases' kernels as one program and compare. Raises Different where results are not the
        same bytes.
        """
        source = "".join([HEADER, *(case.source() for case in cases), MIX])
        counts = {1, *(case.workers for case in cases)}
        programs = {count: self.sessions[count].build(source, OPTIONS) for count in sorted(counts)}
        for case in cases:
            self._compare(case, programs)
            self.counts["kernels"] += 1
            self.counts.update(case.kernel.forms)

    def _compare(self, case: Case, programs: dict[int, SessionProgram]) -> None:
        """Twice the kernel, most times with another between; the second time the data lies where the first
        left it.
        """
        rng = random.Random(case.seed)
        alone = Run(self.sessions[1], programs[1], case)
        several = Run(self.sessions[case.workers], programs[case.workers], case)
        both = (alone, several)
        for run in both:
            run.launch()
        if rng.random() < 0.7:
            slot = rng.randrange(len(case.sizes))
            for run in both:
                run.mix(slot)
        expected = alone.read()
        if rng.random() < 0.3:
            self._same(case, expected, several.read(), "once")
        try:
            run_items(case, expected[:-1])
        except Undefined:  # on what is there by now it has no one result
            self._same(case, expected, several.read(), "once")
            return
        for run in both:
            run.launch()
        self.counts["kernels launched twice"] += 1
        self._same(case, alone.read(), several.read(), "twice")

    @staticmethod
    def _same(case: Case, expected: Sequence[Memory], found: Sequence[Memory], when: str) -> None:
        for slot, (one, other) in enumerate(zip(expected, found, strict=True)):
            where = np.flatnonzero(one != other)
            if len(where):
                values = f"{one[where[:16]]} on one worker, {other[where[:16]]} on {case.workers}"
                raise Different(
                    f"launched {when}: buffer {slot} at {where[:16]}: {values}\n{case.describe()}"
                )
