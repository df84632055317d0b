"""VDEV_CHECK=1: every split launch also runs on one worker, and the results must be the same.

Decides whether a launch did what one device would have done. Around each split launch, in the order of planning:

1. what its buffers hold is copied;
2. the launch runs as planned;
3. the user's own kernel, not translated, runs whole on one worker on the copies. Every byte of the buffers must be the
   same afterwards, in those that the launch must not write as well;
4. each chunk runs alone, on the copies and on copies in which everything outside its declared reads was exchanged for
   other elements of the buffer. It must write what it wrote in 2, nothing outside its declared writes, and all that it
   is declared to write for sure. Where two chunks change a byte to different values and, run one after the other in
   one memory, leave another one in another order, the program has a race.

Every launch, split or not, leaves the red zones around replicas (`executor.red_zones`) as they are.

A difference is excused only by further runs, never by what analysis says, but for one: where a chunk carries out atomics
whose results may be used, as places to store at, what it changes is compared as a set of records, of the type that the
argument points to; their order is a matter of chance. A record too few or too many is a difference. Floats may differ
within a tolerance, with a note in the log, if the workers are different devices, or if the compiler rounds the translated
kernel differently from the user's own; the latter holds if the translated kernel, whole on one worker, gives exactly the
bits in question. Results may differ if on one worker, too, they vary from run to run, with the order of the chunks, or
with the content of uninitialised memory. (Uninitialised private memory that a kernel copies may happen to repeat, and then
counts as a difference.) Padding in structures must not change if it does not change on one worker. What cannot be checked
(no memory for the copies) is noted in the log.

It changes no plan: what is checked is what would have run. It waits for each launch it checks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from weakref import WeakKeyDictionary

import numpy as np

from vdev.backends.base import BackendProgram, Bytes
from vdev.check.case import Case, Part, Values
from vdev.check.differences import (
    Mask,
    close_elements,
    exchanged,
    filled,
    mask_of,
    show_element,
    whole_scalars,
)
from vdev.check.records import Records
from vdev.errors import BackendError
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.planner.footprints import PointerArg, gather
from vdev.planner.instructions import Plan
from vdev.planner.links import LinkCosts
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.programs import SessionKernel, SessionProgram
from vdev.session.requests import EvaluationFault, evaluator, pointer_args
from vdev.session.shadow_runs import ShadowFailure, Shadows
from vdev.translators.frontend.layout import element_types
from vdev.translators.ranges.ndrange import Chunk, whole_chunk
from vdev.translators.ranges.region import Region

logger = logging.getLogger("vdev.check")

#: how often a launch that differs is run again before its result counts as certain
_REPEATS = 3
#: parts of a chunk, at most, that run one after the other to see what their order changes
_PIECES = 8

Group = tuple[int, ...]


class CheckFailure(Exception):
    """A split launch did something else than one device would have done. The text says all of it.

    `kind`: 'difference' (the results differ), 'race' (two work-groups changed a byte to different values), 'read' (a
    chunk depends on bytes outside its declared reads), 'write' (it changed bytes outside its declared writes), 'exact'
    (it left bytes as they were that it declares to write for sure) or 'beside' (it wrote to memory beside its worker's
    replica). `offset` is in bytes from the argument's
    pointer. `writers`: (worker, work-group, value) of those chunks that wrote there.
    """

    def __init__(
        self, text: str, kind: str, kernel: str, argument: str, offset: int, writers: Writers
    ) -> None:
        super().__init__(text)
        self.kind = kind
        self.kernel = kernel
        self.argument = argument
        self.offset = offset
        self.writers = writers


Writers = tuple[tuple[int, Group, str], ...]


class LaunchChecker:
    """Checks the launches of one session. Used under the session's lock.

    The first failure is kept: every later launch raises it again, so that nobody computes on with wrong data.
    """

    def __init__(self, executor: Executor, links: LinkCosts) -> None:
        self._executor = executor
        self._shadows = Shadows(executor, links)
        self._originals: WeakKeyDictionary[SessionProgram, BackendProgram | None] = WeakKeyDictionary()
        self._noted: set[tuple[int, str]] = set()
        self._element_types: dict[int, Mapping[int, np.dtype[np.generic]]] = {}  #: by the number of a kernel
        self._mixed = len({(info.platform, info.name, info.driver) for info in executor.workers}) > 1
        self.failure: CheckFailure | None = None
        self.nchecked = 0  #: launches compared so far

    def built(self, program: SessionProgram) -> None:
        """Nothing to do: a program that is not launched is not checked."""

    def begin(self, launch: Launch, buffers: list[VirtualBuffer], plan: Plan) -> Case | None:
        """Before the submission of a launch: its case, or None if it is not split or cannot be checked."""
        if len(plan.partition) < 2:
            return None
        pointers = pointer_args(launch, buffers)
        evaluate = evaluator(launch.kernel, launch, pointers)
        try:
            parts = [
                Part(worker, chunk, gather(pointers, evaluate(chunk))) for worker, chunk in plan.partition
            ]
            before = [self._shadows.content(buffer) for buffer in buffers]
        except (ShadowFailure, EvaluationFault, MemoryError) as error:
            self._note(launch, f"not checked: {error}", logging.WARNING)
            return None
        unknown = [Region.span(0, buffer.nbytes) - buffer.state.initialised for buffer in buffers]
        case = Case(launch, list(buffers), pointers, parts, before, unknown, self._types(launch.kernel))
        case.data = [case.without_padding(slot) for slot in range(len(before))]
        case.fine = {slot for slot, buffer in enumerate(buffers) if buffer.state.fine}
        return case

    def _types(self, kernel: SessionKernel) -> Mapping[int, np.dtype[np.generic]]:
        found = self._element_types.get(kernel.serial)
        if found is None:
            parsed = kernel.program.parsed
            found = {} if parsed is None else element_types(parsed, kernel.name)
            self._element_types[kernel.serial] = found
        return found

    def end(
        self, launch: Launch, buffers: Sequence[VirtualBuffer], case: Case | None, completion: Completion
    ) -> None:
        """After the submission. Raises CheckFailure, in the thread that enqueued."""
        if completion.wait() < 0:
            return  # the program learns of it through the event
        try:
            self._look_beside(launch, buffers)
            if case is not None:
                self._check(case)
                self.nchecked += 1
        except (ShadowFailure, BackendError, MemoryError) as error:
            self._note(launch, f"not checked: {error}", logging.WARNING)
        except CheckFailure as failure:
            self.failure = failure
            raise

    def _check(self, case: Case) -> None:
        case.after = [self._shadows.content(buffer) for buffer in case.buffers]
        expected = self._whole(case, case.before)
        suspects, clashes = self._run_parts(case)
        self._find_race(case, expected, clashes)
        self._compare(case, expected)
        self._compare_padding(case, expected)
        for part in suspects:
            self._look_closer(case, part, expected)

    def _look_beside(self, launch: Launch, buffers: Sequence[VirtualBuffer]) -> None:
        """Raise a change in the red zones of a replica."""
        for slot, buffer in enumerate(buffers):
            for worker in range(len(self._executor.workers)):
                at = self._shadows.mark_beside(buffer, worker)
                if at is not None:
                    raise self._beside(launch, buffers, slot, at, worker)

    # runs -------------------------------------------------------------------------------------------

    def _whole(self, case: Case, contents: Sequence[Bytes], *, translated: bool = False) -> list[Bytes]:
        """What one worker makes of `contents` with the whole launch, using the user's own kernel if possible."""
        launch, worker = case.launch, case.parts[0].worker
        everything = whole_chunk(launch.ndrange)
        # Images are buffers here, which the user's own kernel does not take.
        own = not translated and not launch.kernel.images
        original = self._original(launch.kernel.program) if own else None
        if original is not None:
            try:
                recipe = self._shadows.recipe(launch, everything, original)
                return self._shadows.run(launch, recipe, case.pointers, worker, everything, contents)
            except ShadowFailure as failure:
                self._note(launch, f"checked against the translated kernel: {failure}", logging.WARNING)
        recipe = self._shadows.recipe(launch, everything)
        return self._shadows.run(launch, recipe, case.pointers, worker, everything, contents)

    def _original(self, program: SessionProgram) -> BackendProgram | None:
        if program not in self._originals:
            self._originals[program] = self._shadows.original(program)
        return self._originals[program]

    def _run_parts(self, case: Case) -> tuple[list[Part], list[Mask]]:
        """Run each chunk alone. The chunks that seem to read or write what they do not declare, and by slot the bytes
        that two of them change to different values.
        """
        suspects = []
        values, exchanged_values = Values(case), Values(case)
        for part in case.parts:
            found = self._found(case, part)
            left = self._run_part(case, part, part.chunk, found)
            exchanged_values.add(found, left)
            if any(mask.any() for _, _, mask in self._oddities(case, part, found, left)):
                suspects.append(part)
            case.alone.append(self._run_part(case, part, part.chunk, case.before))
            values.add(case.before, case.alone[-1])
        clashes = [one | other for one, other in zip(values.clashes, exchanged_values.clashes, strict=True)]
        return suspects, clashes

    def _find_race(self, case: Case, expected: Sequence[Bytes], clashes: Sequence[Mask]) -> None:
        """Raise a race: two chunks change a byte to different values, and their order decides which one stays.

        Atomics that commute leave the same value in any order. Declared accesses do not matter here.
        """
        if not any(mask.any() for mask in clashes):
            return
        forward, backward = self._in_order(case), self._in_order(case, reverse=True)
        for slot, mask in enumerate(clashes):
            raced = mask & (forward[slot] != backward[slot])
            if raced.any():
                raise self._failure(case, "race", slot, int(np.argmax(raced)), expected[slot])

    def _in_order(self, case: Case, *, reverse: bool = False) -> list[Bytes]:
        """The result when all chunks run one after the other on one worker in one memory: nothing is merged, nothing
        moves.
        """
        chunks = [part.chunk for part in case.parts]
        return self._one_after_the_other(case, chunks[::-1] if reverse else chunks)

    def _in_pieces(self, case: Case) -> list[Bytes]:
        """The result when parts of those chunks whose atomics' results may be used run one after the other, the last one first."""
        chunks = [
            piece
            for part in case.parts
            for piece in (_pieces(part.chunk, _PIECES) if part.asks else [part.chunk])
        ]
        return self._one_after_the_other(case, chunks[::-1])

    def _one_after_the_other(self, case: Case, chunks: Sequence[Chunk]) -> list[Bytes]:
        contents, worker = case.before, case.parts[0].worker
        for chunk in chunks:
            recipe = self._shadows.recipe(case.launch, chunk)
            contents = self._shadows.run(case.launch, recipe, case.pointers, worker, chunk, contents)
        return contents

    @staticmethod
    def _found(case: Case, part: Part) -> list[Bytes]:
        """A memory that is right only where the chunk declares that it reads."""
        return [
            exchanged(content, part.footprints[slot].uses, case.dtype_of(slot))
            for slot, content in enumerate(case.before)
        ]

    def _run_part(self, case: Case, part: Part, chunk: Chunk, contents: Sequence[Bytes]) -> list[Bytes]:
        recipe = self._shadows.recipe(case.launch, chunk)
        return self._shadows.run(case.launch, recipe, case.pointers, part.worker, chunk, contents)

    @staticmethod
    def _oddities(
        case: Case, part: Part, found: Sequence[Bytes], left: Sequence[Bytes]
    ) -> Iterator[tuple[str, int, Mask]]:
        """(kind of failure, slot, bytes) of a chunk that found and left these contents when it ran alone."""
        for slot, content in enumerate(left):
            footprint, data = part.footprints[slot], case.data[slot]
            untouched, astray = content == found[slot], data & (content != case.after[slot])
            yield "write", slot, data & ~untouched & ~mask_of(footprint.changes, len(content))
            yield "exact", slot, astray & untouched & mask_of(footprint.exact - footprint.uses, len(content))
            others = [other.footprints[slot].changes for other in case.parts if other is not part]
            own = footprint.writes - Region.union(others) - case.atomics(slot)
            yield "read", slot, astray & mask_of(own, len(content))

    def _look_closer(self, case: Case, part: Part, expected: Sequence[Bytes]) -> None:
        """Raise what a chunk does without declaring it, if it does so each time and nothing else explains it."""
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
        """The bytes of `strange` that are as in the launch when nothing is exchanged, whatever the unwritten bytes
        hold.
        """
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
        for slot in case.fine:  # the host may be writing to what the launch does not write
            wrong[slot] &= expected[slot] != case.before[slot]
        if not any(mask.any() for mask in wrong):
            return
        self._excuse_unwritten(case, expected, wrong)
        self._excuse_order(case, expected, wrong)
        for slot, mask in enumerate(wrong):
            if mask.any():
                self._excuse_rounding(case, slot, expected, mask)
        if any(mask.any() for mask in wrong):
            self._excuse_chance(case, expected, wrong)
        for slot, mask in enumerate(wrong):
            if mask.any():
                raise self._failure(case, "difference", slot, int(np.argmax(mask)), expected[slot])

    def _excuse_unwritten(self, case: Case, expected: Sequence[Bytes], wrong: Sequence[Mask]) -> None:
        """Take out of `wrong` what depends on bytes that nobody has written: one worker also gives a different result
        when those bytes differ.
        """
        if not any(case.unknown):
            return
        before = sum(int(mask.sum()) for mask in wrong)
        other = self._whole(case, self._otherwise(case, case.before))
        for slot, mask in enumerate(wrong):
            mask &= ~whole_scalars(expected[slot] != other[slot], case.dtype_of(slot))
        if sum(int(mask.sum()) for mask in wrong) < before:
            self._note(case.launch, "some results depend on uninitialised memory", logging.INFO)

    def _excuse_order(self, case: Case, expected: Sequence[Bytes], wrong: Sequence[Mask]) -> None:
        """Take out of `wrong` what chunks change whose atomics hand out places, if it is a matter of their order: the same records
        in other places. Raise other records, unless those vary on one worker as well.

        A record that is lost or stored twice is found even where every byte varies with the order.
        """
        ways: list[list[Sequence[Bytes]]] = []
        for pointer, records in case.by_chance(wrong):
            slot = pointer.slot
            after, right, handed_out = case.after[slot], expected[slot], case.handed_out(slot)
            if not records.same(after, right):
                if slot in case.fine or handed_out.overlaps(case.unknown[slot]):
                    continue  # `wrong` may have lost some of the records already
                ways = ways or [self._all_ways(case) for _ in range(1 + _REPEATS)]
                if not self._is_chance(case, pointer, records, right, ways):
                    raise self._failure(case, "difference", slot, records.surplus(after, right), right)
            wrong[slot][:] &= ~(records.mask() & mask_of(handed_out, len(after)))
            self._note(case.launch, "the order of its atomics decides what goes where", logging.INFO)

    def _is_chance(
        self,
        case: Case,
        pointer: PointerArg,
        records: Records,
        right: Bytes,
        ways: Sequence[Sequence[Sequence[Bytes]]],
    ) -> bool:
        """Whether other records than on one worker are no fault: `ways` to run there leave other ones each time (a list that
        overflows), or they are the same but for rounding, which changes there too (a sum in another order), or is exactly
        the translated kernel's.
        """
        slot = pointer.slot
        own = [way[0][slot] for way in ways]
        translated = [found[slot] for way in ways for found in way[1:]]
        after = case.after[slot]
        changed = case.records(pointer, mask_of(case.handed_out(slot), len(after)))
        if not (changed.all_close(own) and changed.all_close(translated)):
            return True
        steady = changed.all_same(own) and changed.all_same(translated)
        exact = self._mixed or not steady or changed.same(after, translated[0])
        return exact and records.close(after, right)

    def _compare_padding(self, case: Case, expected: Sequence[Bytes]) -> None:
        """Raise a byte of padding that changed, although it never changed when the kernel ran on one worker."""
        for slot, before in enumerate(case.before):
            strange = ~case.data[slot] & (case.after[slot] != before) & (expected[slot] == before)
            strange &= ~mask_of(case.unknown[slot], len(before))
            for left in case.alone:
                strange &= left[slot] == before
            if strange.any():
                raise self._failure(case, "difference", slot, int(np.argmax(strange)), expected[slot])

    def _excuse_chance(self, case: Case, expected: Sequence[Bytes], wrong: Sequence[Mask]) -> None:
        """Take out of `wrong` what also varies when the same kernel finds the same memory on one worker: from run to
        run (private memory that it never wrote), or with the order of its chunks (it reads what other work-groups
        write).

        Nothing that the analysis says is used.
        """
        before = sum(int(mask.sum()) for mask in wrong)
        first = self._all_ways(case)
        for _ in range(_REPEATS):
            again = self._all_ways(case)
            pairs = [
                *zip(first, again, strict=True),  # each way compared with itself
                *combinations(again[2:], 2),  # the orders
                (expected, again[0]),
            ]
            for slot, mask in enumerate(wrong):
                for one, two in pairs:
                    mask &= ~whole_scalars(one[slot] != two[slot], case.dtype_of(slot))
            if not any(mask.any() for mask in wrong):
                break
        if sum(int(mask.sum()) for mask in wrong) < before:
            self._note(
                case.launch, "some results vary from run to run, on one worker as well", logging.WARNING
            )

    def _all_ways(self, case: Case) -> list[Sequence[Bytes]]:
        """The results of the user's kernel run whole, of the translated one run whole, and of its chunks in either
        order; and of parts of chunks, the last one first, where it is the order of atomics that counts.

        Between two calls other kernels and other chunks run, and leave other values in private memory.
        """
        return [
            self._whole(case, case.before),
            self._whole(case, case.before, translated=True),
            self._in_order(case),
            self._in_order(case, reverse=True),
            *([self._in_pieces(case)] if any(part.asks for part in case.parts) else []),
        ]

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
                part = slice(pointer.offset, pointer.offset + pointer.nbytes_own)
                near[part] |= close_elements(after[part], right[part], dtype)
        near &= wrong
        if not near.any():
            return
        if self._mixed:
            why = "the workers are different devices"
        else:
            near &= self._whole(case, case.before, translated=True)[slot] == after
            why = "the compiler rounds the translated kernel differently from the user's own"
        if near.any():
            self._note(case.launch, f"floats differ by rounding: {why}", logging.INFO)
            wrong &= ~near

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
            "read": f"{split}, but {single} if bytes not declared as read have other values: "
            "the kernel reads more than analysis says",
            "write": "changed, but not declared as written: the kernel writes more than analysis says",
            "exact": f"declared as always written by a chunk, which left {single} there unchanged: "
            "the kernel writes less than analysis says",
        }[kind]
        text = f"{where}: {text}. {said[0].upper()}{said[1:]}. NDRange {ndrange.global_size} in groups of {ndrange.local_size}"
        return CheckFailure(text, kind, case.launch.kernel.name, name, offset, writers)

    def _beside(
        self, launch: Launch, buffers: Sequence[VirtualBuffer], slot: int, byte: int, worker: int
    ) -> CheckFailure:
        """The error of a mark in a red zone of `worker`, at the place where byte `byte` of a buffer would be."""
        pointers = [p for p in pointer_args(launch, list(buffers)) if p.slot == slot]
        changed = [p for p in pointers if _lines(launch, p.arg)] or pointers
        pointer = min(changed, key=lambda p: max(p.offset - byte, byte - p.offset - p.nbytes_own))
        name = launch.kernel.info.args[pointer.arg].name or f"argument {pointer.arg}"
        lines = _lines(launch, pointer.arg)
        said = f", line {', '.join(map(str, lines))}" if lines else ""
        text = (
            f"kernel `{launch.kernel.name}`, argument `{name}`{said}, byte {byte - pointer.offset}: written outside the bytes that "
            f"worker {worker} was given: the kernel writes more than analysis says, or beyond the buffer. "
            f"NDRange {launch.ndrange.global_size} in groups of {launch.ndrange.local_size}"
        )
        return CheckFailure(text, "beside", launch.kernel.name, name, byte - pointer.offset, ())

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
        """A work-group of a chunk that writes at `place`.

        Found by halving; it leaves what the chunk left there, if the order in which work-groups run allows such a
        group to be found.
        """
        chunk = part.chunk
        while chunk.ngroups > 1:
            halves = chunk.halves()
            results = [self._run_part(case, part, half, found)[slot][place] for half in halves]
            changed = [bool((result != found[slot][place]).any()) for result in results]
            same = [bool((result == left).all()) for result in results]
            later = same[1] or (changed[1] and not same[0])
            chunk, left = (halves[1], results[1]) if later else (halves[0], results[0])
        return chunk.start

    def _note(self, launch: Launch, text: str, level: int) -> None:
        """Write a note to the log, once for each kernel."""
        key = (launch.kernel.serial, text)
        if key not in self._noted:
            self._noted.add(key)
            logger.log(level, "kernel %s: %s", launch.kernel.name, text)


def _lines(launch: Launch, arg: int) -> list[int]:
    """The source lines in which a kernel changes what an argument points to."""
    summary = launch.kernel.summary
    accesses = () if summary is None else summary.accesses
    return sorted({item.line for item in accesses if item.arg == arg and item.mode != "read" and item.line})


def _pieces(chunk: Chunk, most: int) -> list[Chunk]:
    """A chunk in up to `most` parts of about the same size, in order."""
    if most < 2 or chunk.ngroups < 2:
        return [chunk]
    return [piece for half in chunk.halves() for piece in _pieces(half, most // 2)]


def _alone(group: Group) -> Chunk:
    return Chunk(group, tuple(index + 1 for index in group))
