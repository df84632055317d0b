"""VDEV_CHECK=1: every split launch also runs on one worker, and the results must be the same.

Decides whether a launch did what one device would have done. Around each split launch, in the order of planning:

1. what its buffers hold is copied;
2. the launch runs as planned;
3. the user's own kernel, not translated, runs whole on one worker on the copies. Every byte of the buffers must be the
   same afterwards, in those that the launch must not write as well;
4. each chunk runs alone on copies in which everything outside its declared reads was exchanged for other elements of
   the buffer. It must write what it wrote in 2, nothing outside its declared writes, all that it is declared to write
   for sure, and no two chunks may change a byte to different values (a race in the program).

Bits may differ, within a tolerance and with a note in the log, where atomics add floats (their order is open), where
the workers are different devices, and where the compiler rounds the translated kernel otherwise than the user's own,
which shows when the translated kernel, whole on one worker, gives the very bits in question. Padding in structures,
and bytes that follow from memory nobody has written, are not compared, nor is what is seen to differ from run to run
on one worker. (Private memory that a kernel copies and never wrote may repeat by luck and then count as a difference.)
What cannot be checked (no memory for the copies) is noted in the log.

It changes no plan: what is checked is what would have run. It waits for each launch it checks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from vdev.backends.base import BackendProgram, Bytes
from vdev.buffers import VirtualBuffer
from vdev.commands import Launch
from vdev.differences import (
    Mask,
    Place,
    close_elements,
    data_mask,
    element_type,
    exchanged,
    filled,
    mask_of,
    place_of,
    show_element,
    whole_scalars,
)
from vdev.executor import Completion, Executor
from vdev.launching import EvaluationFault, evaluator, pointer_args
from vdev.planner.footprints import Footprint, PointerArg, gather
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.programs import SessionKernel, SessionProgram
from vdev.shadows import ShadowFailure, Shadows
from vdev.translators.layout import element_types
from vdev.translators.ndrange import Chunk, whole_chunk
from vdev.translators.region import Region

logger = logging.getLogger("vdev.check")

#: how often a launch that differs is run again before what it gives counts as certain
_REPEATS = 3

Group = tuple[int, ...]


class CheckFailure(Exception):
    """A split launch did something else than one device would have done. The text says all of it.

    `kind`: 'difference' (the results differ), 'race' (two work-groups changed a byte to different values), 'read' (a
    chunk depends on bytes outside its declared reads), 'write' (it changed bytes outside its declared writes) or
    'exact' (it left bytes as they were that it declares to write for sure). `offset` is in bytes from the argument's
    pointer. `writers`: (worker, work-group, value) of those chunks that wrote there.
    """

    def __init__(self, text: str, kind: str, kernel: str, argument: str, offset: int, writers: Writers) -> None:
        super().__init__(text)
        self.kind = kind
        self.kernel = kernel
        self.argument = argument
        self.offset = offset
        self.writers = writers


Writers = tuple[tuple[int, Group, str], ...]


@dataclass(eq=False)
class Case:
    """One launch that is being checked; lists are by slot, `parts` by chunk."""

    launch: Launch
    buffers: list[VirtualBuffer]
    pointers: tuple[PointerArg, ...]
    parts: list[Part]
    before: list[Bytes]
    unknown: list[Region]  #: bytes that nobody has written
    types: Mapping[int, np.dtype[np.generic]]  #: elements that arguments point to
    data: list[Mask] = field(default_factory=list)  #: all bytes but padding
    after: list[Bytes] = field(default_factory=list)
    fine: set[int] = field(default_factory=set)  #: those that are fine-grain

    def changes(self, slot: int) -> Region:
        """All that any chunk may write, as declared."""
        return Region.union(part.footprints[slot].changes for part in self.parts)

    def atomics(self, slot: int) -> Region:
        return Region.union(
            region for part in self.parts for region in part.footprints[slot].atomics.values()
        )

    def argument_at(self, slot: int, byte: int) -> PointerArg:
        """The argument to name for a byte of a buffer: one that is written there, if there is one."""
        here = [
            pointer
            for pointer in self.pointers
            if pointer.slot == slot and pointer.offset <= byte < pointer.offset + pointer.nbytes
        ] or [pointer for pointer in self.pointers if pointer.slot == slot]
        infos = self.launch.kernel.info.args
        return next((pointer for pointer in here if not infos[pointer.arg].pointee_const), here[0])

    def dtype(self, pointer: PointerArg) -> np.dtype[np.generic]:
        info, known = self.launch.kernel.info.args[pointer.arg], self.types.get(pointer.arg)
        return element_type(info.type_name, info.nbytes) if known is None else known

    def place(self, slot: int, byte: int) -> tuple[PointerArg, Place, slice]:
        """The scalar at a byte of a buffer: the argument to name, its place there, and its bytes in the buffer."""
        pointer = self.argument_at(slot, byte)
        scalar = place_of(byte - pointer.offset, self.dtype(pointer))
        return pointer, scalar, slice(pointer.offset + scalar.start, pointer.offset + scalar.stop)

    def without_padding(self, slot: int) -> Mask:
        """False at bytes that are padding to every argument that has them."""
        nbytes = len(self.before[slot])
        data, covered = np.zeros(nbytes, bool), np.zeros(nbytes, bool)
        for pointer in self.pointers:
            if pointer.slot == slot:
                part = slice(pointer.offset, pointer.offset + pointer.nbytes)
                data[part] |= data_mask(pointer.nbytes, self.dtype(pointer))
                covered[part] = True
        return data | ~covered

    def dtype_at(self, slot: int, byte: int) -> np.dtype[np.generic]:
        return self.dtype(self.argument_at(slot, byte))

    def dtype_of(self, slot: int) -> np.dtype[np.generic]:
        """The element type of a buffer: of the argument that is written, if there is one."""
        return self.dtype_at(slot, min(p.offset for p in self.pointers if p.slot == slot))


@dataclass(frozen=True, eq=False)
class Part:
    """One chunk: where it ran, and what it declares by slot."""

    worker: int
    chunk: Chunk
    footprints: dict[int, Footprint]


class _Values:
    """What chunks that ran alone have written, and the first place where two of them disagree."""

    def __init__(self, case: Case) -> None:
        self.clash: tuple[int, int] | None = None  #: (slot, byte)
        self._plain = [
            data & ~mask_of(case.atomics(slot), len(data)) for slot, data in enumerate(case.data)
        ]
        self._written = [np.zeros(len(before), bool) for before in case.before]
        self._values = [before.copy() for before in case.before]

    def add(self, found: Sequence[Bytes], left: Sequence[Bytes], wrote: Sequence[Bytes]) -> None:
        """One more chunk: by what it found and left it shows where it writes; `wrote` is what it writes there."""
        for slot, value in enumerate(self._values):
            changed = (left[slot] != found[slot]) & self._plain[slot]
            differing = changed & self._written[slot] & (wrote[slot] != value)
            if self.clash is None and differing.any():
                self.clash = slot, int(np.argmax(differing))
            self._written[slot] |= changed
            np.copyto(value, wrote[slot], where=changed)


class LaunchChecker:
    """Checks the launches of one session. Used under the session's lock.

    The first failure is kept: every later launch raises it again, so that nobody computes on with wrong data.
    """

    def __init__(self, executor: Executor, links: LinkCosts) -> None:
        self._executor = executor
        self._shadows = Shadows(executor, links)
        self._originals: WeakKeyDictionary[SessionProgram, BackendProgram | None] = WeakKeyDictionary()
        self._noted: set[tuple[int, str]] = set()
        self._element_types: dict[int, Mapping[int, np.dtype[np.generic]]] = {}  #: by a kernel's number
        self._mixed = len({(info.platform, info.name, info.driver) for info in executor.workers}) > 1
        self.failure: CheckFailure | None = None
        self.nchecked = 0  #: launches compared so far

    def begin(self, launch: Launch, buffers: list[VirtualBuffer], plan: Plan) -> Case | None:
        """Before the submission of a launch: its case, or None where it is not split or cannot be checked."""
        if len(plan.partition) < 2:
            return None
        pointers = pointer_args(launch, buffers)
        sizes = {pointer.arg: pointer.nbytes for pointer in pointers}
        evaluate = evaluator(launch.kernel, launch, sizes)
        try:
            parts = [Part(worker, chunk, gather(pointers, evaluate(chunk))) for worker, chunk in plan.partition]
            before = [self._shadows.content(buffer) for buffer in buffers]
        except (ShadowFailure, EvaluationFault, MemoryError) as error:
            self._note(launch, f"not checked: {error}", logging.WARNING)
            return None
        unknown = [Region.span(0, buffer.nbytes) - buffer.state.initialised for buffer in buffers]
        case = Case(launch, list(buffers), pointers, parts, before, unknown, self._types(launch.kernel))
        case.data = [case.without_padding(slot) for slot in range(len(before))]
        for slot, buffer in enumerate(buffers):
            if buffer.state.fine:  # what the launch does not write the host may be writing
                case.data[slot] &= mask_of(case.changes(slot), buffer.nbytes)
                case.fine.add(slot)
        return case

    def _types(self, kernel: SessionKernel) -> Mapping[int, np.dtype[np.generic]]:
        found = self._element_types.get(kernel.serial)
        if found is None:
            parsed = kernel.program.parsed
            found = {} if parsed is None else element_types(parsed, kernel.name)
            self._element_types[kernel.serial] = found
        return found

    def end(self, case: Case, completion: Completion) -> None:
        """After the submission. Raises CheckFailure, in the thread that enqueued."""
        if completion.wait() < 0:
            return  # the program hears of it through the event
        try:
            case.after = [self._shadows.content(buffer) for buffer in case.buffers]
            expected = self._whole(case, case.before)
            race, suspects = self._run_parts(case)
            if race is not None:
                raise self._failure(case, "race", *race, expected[race[0]])
            self._compare(case, expected)
            for part in suspects:
                self._look_closer(case, part, expected)
        except (ShadowFailure, MemoryError) as error:
            self._note(case.launch, f"not checked: {error}", logging.WARNING)
            return
        except CheckFailure as failure:
            self.failure = failure
            raise
        self.nchecked += 1

    # runs -------------------------------------------------------------------------------------------

    def _whole(self, case: Case, contents: Sequence[Bytes], *, translated: bool = False) -> list[Bytes]:
        """What one worker makes of `contents` with the whole launch, in the user's own kernel if it can be had."""
        launch, worker = case.launch, case.parts[0].worker
        everything = whole_chunk(launch.ndrange)
        # Images are buffers here, which the user's own kernel does not take.
        own = not translated and not launch.kernel.images
        original = self._original(launch.kernel.program) if own else None
        if original is not None:
            try:
                recipe = self._shadows.recipe(launch, original)
                return self._shadows.run(launch, recipe, case.pointers, worker, everything, contents)
            except ShadowFailure as failure:
                self._note(launch, f"checked against the translated kernel: {failure}", logging.WARNING)
        recipe = self._shadows.recipe(launch)
        return self._shadows.run(launch, recipe, case.pointers, worker, everything, contents)

    def _original(self, program: SessionProgram) -> BackendProgram | None:
        if program not in self._originals:
            self._originals[program] = self._shadows.original(program)
        return self._originals[program]

    def _run_parts(self, case: Case) -> tuple[tuple[int, int] | None, list[Part]]:
        """Run each chunk alone. Where two of them change a byte to different values, as (slot, byte), and the chunks
        that seem to read or write what they do not declare."""
        suspects = []
        values = _Values(case)
        for part in case.parts:
            found = self._found(case, part)
            left = self._run_part(case, part, part.chunk, found)
            values.add(found, left, left)
            if any(mask.any() for _, _, mask in self._oddities(case, part, found, left)):
                suspects.append(part)
        if values.clash is None:
            return None, suspects
        # The values may differ only because something was exchanged under a chunk that reads more than it says.
        values = _Values(case)
        for part in case.parts:
            found = self._found(case, part)
            left = self._run_part(case, part, part.chunk, found)
            values.add(found, left, self._run_part(case, part, part.chunk, case.before))
        return values.clash, suspects

    @staticmethod
    def _found(case: Case, part: Part) -> list[Bytes]:
        """A memory that is right only where the chunk says that it reads."""
        return [
            exchanged(content, part.footprints[slot].uses, case.dtype_of(slot))
            for slot, content in enumerate(case.before)
        ]

    def _run_part(self, case: Case, part: Part, chunk: Chunk, contents: Sequence[Bytes]) -> list[Bytes]:
        recipe = self._shadows.recipe(case.launch)
        return self._shadows.run(case.launch, recipe, case.pointers, part.worker, chunk, contents)

    @staticmethod
    def _oddities(
        case: Case, part: Part, found: Sequence[Bytes], left: Sequence[Bytes]
    ) -> Iterator[tuple[str, int, Mask]]:
        """(kind of failure, slot, bytes) of a chunk that found and left this when it ran alone."""
        for slot, content in enumerate(left):
            footprint, data = part.footprints[slot], case.data[slot]
            untouched, astray = content == found[slot], data & (content != case.after[slot])
            yield "write", slot, data & ~untouched & ~mask_of(footprint.changes, len(content))
            yield "exact", slot, astray & untouched & mask_of(footprint.exact - footprint.uses, len(content))
            others = [other.footprints[slot].changes for other in case.parts if other is not part]
            own = footprint.writes - Region.union(others) - case.atomics(slot)
            yield "read", slot, astray & mask_of(own, len(content))

    def _look_closer(self, case: Case, part: Part, expected: Sequence[Bytes]) -> None:
        """Raise what a chunk does that it does not declare, if it does so each time and nothing else explains it."""
        found = self._found(case, part)
        left = self._run_part(case, part, part.chunk, found)
        steady = [after == right for after, right in zip(case.after, expected, strict=True)]
        for _ in range(_REPEATS):
            again = self._run_part(case, part, part.chunk, found)
            for slot, mask in enumerate(steady):
                mask &= ~whole_scalars(again[slot] != left[slot], case.dtype_of(slot))
        for kind, slot, odd in self._oddities(case, part, found, left):
            mask = odd & steady[slot]
            if kind == "read" and mask.any():
                mask = self._to_blame_on_reads(case, part, slot, mask)
            if mask.any():
                raise self._failure(case, kind, slot, int(np.argmax(mask)), left[slot], part)

    def _to_blame_on_reads(self, case: Case, part: Part, slot: int, strange: Mask) -> Mask:
        """The bytes of `strange` that are as in the launch when nothing is exchanged, whatever is in bytes that
        nobody has written."""
        for contents in (case.before, self._otherwise(case, case.before)):
            alone = self._run_part(case, part, part.chunk, contents)[slot]
            strange = strange & (alone == case.after[slot])
            if not any(case.unknown):
                break
        return strange

    # verdicts ---------------------------------------------------------------------------------------

    def _compare(self, case: Case, expected: Sequence[Bytes]) -> None:
        wrong = [
            data & (after != right)
            for data, after, right in zip(case.data, case.after, expected, strict=True)
        ]
        for slot in case.fine:
            wrong[slot] &= expected[slot] != case.before[slot]
        if not any(mask.any() for mask in wrong):
            return
        self._excuse_unwritten(case, expected, wrong)
        for slot, mask in enumerate(wrong):
            if mask.any():
                self._excuse_rounding(case, slot, expected, mask)
        if any(mask.any() for mask in wrong):
            self._excuse_chance(case, expected, wrong)
        for slot, mask in enumerate(wrong):
            if mask.any():
                raise self._failure(case, "difference", slot, int(np.argmax(mask)), expected[slot])

    def _excuse_unwritten(self, case: Case, expected: Sequence[Bytes], wrong: Sequence[Mask]) -> None:
        """Take out of `wrong` what depends on bytes that nobody has written: one worker gives something else, too,
        when it finds something else there."""
        if not any(case.unknown):
            return
        before = sum(int(mask.sum()) for mask in wrong)
        other = self._whole(case, self._otherwise(case, case.before))
        for mask, one, two in zip(wrong, expected, other, strict=True):
            mask &= one == two
        if sum(int(mask.sum()) for mask in wrong) < before:
            self._note(case.launch, "some results follow from memory that nobody has written", logging.INFO)

    def _excuse_chance(self, case: Case, expected: Sequence[Bytes], wrong: Sequence[Mask]) -> None:
        """Take out of `wrong` what is another thing each time the same kernel finds the same memory: private memory
        that it never wrote, or an order of work-groups that it does not wait for. A fault gives two values, the right
        one and the wrong one, and the same ones each time; chance gives more, or others."""
        before = sum(int(mask.sum()) for mask in wrong)
        first = self._all_ways(case)
        for _ in range(_REPEATS):
            ways = self._all_ways(case)
            for slot, mask in enumerate(wrong):
                dtype = case.dtype_of(slot)
                for (one, _), (two, wrote) in zip(first, ways, strict=True):
                    third = whole_scalars(two[slot] != case.after[slot], dtype)
                    third &= whole_scalars(two[slot] != expected[slot], dtype) & wrote[slot]
                    mask &= ~third & ~whole_scalars(one[slot] != two[slot], dtype)
            if not any(mask.any() for mask in wrong):
                break
        if sum(int(mask.sum()) for mask in wrong) < before:
            self._note(case.launch, "some results are left to chance, also on one worker", logging.WARNING)

    def _all_ways(self, case: Case) -> list[tuple[list[Bytes], list[Mask]]]:
        """What the user's kernel gives whole, the translated one whole, and each chunk, and where they may write.
        Between two calls other kernels and other chunks run, and leave other things in private memory."""
        everywhere = [np.ones(len(before), bool) for before in case.before]
        ways = [
            (self._whole(case, case.before, translated=translated), everywhere) for translated in (False, True)
        ]
        for part in case.parts:
            wrote = [
                mask_of(part.footprints[slot].changes, len(before)) for slot, before in enumerate(case.before)
            ]
            ways.append((self._run_part(case, part, part.chunk, case.before), wrote))
        return ways

    @staticmethod
    def _otherwise(case: Case, contents: Sequence[Bytes]) -> list[Bytes]:
        """`contents` with other values in bytes that nobody has written."""
        return [
            filled(content, case.unknown[slot], case.dtype_of(slot)) for slot, content in enumerate(contents)
        ]

    def _excuse_rounding(self, case: Case, slot: int, expected: Sequence[Bytes], wrong: Mask) -> None:
        """Take out of `wrong` the floats that differ by rounding for a reason that is known."""
        after, right = case.after[slot], expected[slot]
        near = np.zeros(len(wrong), bool)
        for pointer in case.pointers:
            dtype = case.dtype(pointer)
            if pointer.slot == slot:
                part = slice(pointer.offset, pointer.offset + pointer.nbytes)
                near[part] |= close_elements(after[part], right[part], dtype)
        near &= wrong
        if not near.any():
            return
        summed = mask_of(self._float_sums(case, slot), len(wrong)) & near
        if self._mixed:
            why = "the workers are different devices"
        elif summed.any():
            near, why = summed, "atomics add floats in any order"
        else:
            near &= self._whole(case, case.before, translated=True)[slot] == after
            why = "the compiler rounds the translated kernel otherwise than the user's own"
        if near.any():
            self._note(case.launch, f"floats differ by rounding: {why}", logging.INFO)
            wrong &= ~near

    @staticmethod
    def _float_sums(case: Case, slot: int) -> Region:
        return Region.union(
            region
            for part in case.parts
            for (op, dtype), region in part.footprints[slot].atomics.items()
            if op == "add" and dtype is not None and np.dtype(dtype).kind == "f"
        )

    # words ------------------------------------------------------------------------------------------

    def _name(self, case: Case, pointer: PointerArg) -> str:
        return case.launch.kernel.info.args[pointer.arg].name or f"argument {pointer.arg}"

    def _failure(
        self, case: Case, kind: str, slot: int, byte: int, other: Bytes, culprit: Part | None = None
    ) -> CheckFailure:
        """The error of `kind` at `byte` of a buffer; `other` is the content to hold against the launch's."""
        pointer, scalar, place = case.place(slot, byte)
        name, offset, dtype = self._name(case, pointer), byte - pointer.offset, scalar.dtype
        where = f"kernel `{case.launch.kernel.name}`, argument `{name}`, byte {offset} ({scalar.name})"
        split, single = (show_element(content[place], dtype) for content in (case.after[slot], other))
        writers = self._writers(case, case.parts if culprit is None else [culprit], slot, place, dtype)
        by = [f"work-group {group} on worker {worker} wrote {value}" for worker, group, value in writers]
        said = "; ".join(by) or "no work-group wrote it"
        count, ndrange = len(case.parts), case.launch.ndrange
        text = {
            "difference": f"{split} with {count} workers, {single} on one",
            "race": f"a race: work-groups change it to different values ({split} with {count} workers, {single} on one)",
            "read": f"{split}, but {single} where other bytes than those declared as read are exchanged: "
            "the kernel reads more than analysis says",
            "write": "changed, but not declared as written: the kernel writes more than analysis says",
            "exact": f"declared as surely written by a chunk, which leaves {single} there as it was: "
            "the kernel writes less than analysis says",
        }[kind]
        text = f"{where}: {text}. {said[0].upper()}{said[1:]}. NDRange {ndrange.global_size} in groups of {ndrange.local_size}"
        return CheckFailure(text, kind, case.launch.kernel.name, name, offset, writers)

    def _writers(
        self, case: Case, parts: Sequence[Part], slot: int, place: slice, dtype: np.dtype[np.generic]
    ) -> Writers:
        """Which work-groups wrote an element, at most one of each chunk."""
        writers = []
        for part in parts:
            found = self._found(case, part)
            left = self._run_part(case, part, part.chunk, found)[slot][place]
            if (left != found[slot][place]).any():
                group = self._group(case, part, slot, place, found, left)
                wrote = self._run_part(case, part, _alone(group), case.before)[slot][place]
                writers.append((part.worker, group, show_element(wrote, dtype)))
        return tuple(writers)

    def _group(
        self, case: Case, part: Part, slot: int, place: slice, found: Sequence[Bytes], left: Bytes
    ) -> Group:
        """A work-group of a chunk that writes at `place`: by halving, one that leaves what the chunk left
        there if the order in which work-groups run lets it be found."""
        chunk = part.chunk
        while chunk.ngroups > 1:
            halves = _halves(chunk)
            results = [self._run_part(case, part, half, found)[slot][place] for half in halves]
            changed = [bool((result != found[slot][place]).any()) for result in results]
            same = [bool((result == left).all()) for result in results]
            later = same[1] or (changed[1] and not same[0])
            chunk, left = (halves[1], results[1]) if later else (halves[0], results[0])
        return chunk.start

    def _note(self, launch: Launch, text: str, level: int) -> None:
        """Into the log, once for each kernel."""
        key = (launch.kernel.serial, text)
        if key not in self._noted:
            self._noted.add(key)
            logger.log(level, "kernel %s: %s", launch.kernel.name, text)


def _alone(group: Group) -> Chunk:
    return Chunk(group, tuple(index + 1 for index in group))


def _halves(chunk: Chunk) -> tuple[Chunk, Chunk]:
    """A chunk of several work-groups cut along its longest dimension."""
    lengths = [stop - start for start, stop in zip(chunk.start, chunk.stop, strict=True)]
    axis = lengths.index(max(lengths))
    middle = chunk.start[axis] + lengths[axis] // 2
    return (
        Chunk(chunk.start, (*chunk.stop[:axis], middle, *chunk.stop[axis + 1 :])),
        Chunk((*chunk.start[:axis], middle, *chunk.start[axis + 1 :]), chunk.stop),
    )
