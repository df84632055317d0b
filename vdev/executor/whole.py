"""Launches of a whole NDRange on buffers that the worker holds whole: one step serves all launches of a kernel.

Index space and offsets in buffers come with the command, so the step and its plan stay the same, whatever changes
from launch to launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from vdev.backends import compiled
from vdev.backends.base import HostPlace, KernelArgument, LaunchShape, Repeated, RepeatedWhole
from vdev.errors import MEM_OBJECT_ALLOCATION_FAILURE, BackendError
from vdev.executor.launch_step import LaunchRecipe, LaunchStep
from vdev.executor.roles import StepJob, StepWorker

if TYPE_CHECKING:
    from vdev.executor.holdings import Holdings
    from vdev.translators.ranges.ndrange import NDRange

#: where a command's pointer arguments point: (argument, slot, bytes into the buffer)
Places = tuple[tuple[int, int, int], ...]
_MOST_SHAPES = 512
#: of the ways in which a kernel's pointers share buffers, those that are known
_MOST_FORMS = 16
#: a launch's arguments, memory and values; its shape, None for the one of the last launch of its form; and its index space
Changes: TypeAlias = "tuple[list[KernelArgument], LaunchShape | None, NDRange | None]"
#: a launch as it is handed over (`vdev.executor.stretch.Entry`): plan, holdings by slot, arguments, index space, places, what it waits for
WholeLaunch: TypeAlias = "tuple[Any, Sequence[Holdings], Sequence[Any], NDRange | None, Places, Any]"


def at_beginnings(places: Places) -> Places:
    """Where pointers to the beginnings of the same buffers point."""
    for _, _, offset in places:
        if offset:
            return tuple([(at, slot, 0) for at, slot, _ in places])
    return places


class Form:
    """Launches of a kernel whose pointers point into buffers, and share these, in the same way: each is one call of the back end
    (`Backend.again_whole`, or `again`, which is told which values and which memory are others than in the last one).

    Programs that make their buffers anew for each step launch with other buffers each time, and otherwise as before.
    """

    __slots__ = (
        "_by_shape", "_kinds", "_last", "_ndrange", "_number", "_places", "_pointers", "_start", "_start_whole", "_step",
        "_takes_offsets", "is_whole",
    )  # fmt: skip

    def __init__(
        self,
        step: WholeLaunchStep,
        worker: StepWorker,
        job: StepJob,
        start: Repeated | None,
        start_whole: RepeatedWhole | None,
    ) -> None:
        """`job`: the last launch, which one of `start` and `start_whole` makes again."""
        assert job.ndrange is not None, "launches have one"
        self._step = step
        self._number = worker.number
        self._ndrange: NDRange | None = job.ndrange
        self._places = at_beginnings(job.places)
        self._start, self._start_whole = start, start_whole
        backend = worker.backend
        self._takes_offsets = backend.repeats_elsewhere(step.kernel)
        #: whether the kernel is told where its pointers point
        self._by_shape = step.is_told and backend.repeats_by_shape
        self.is_whole = start_whole is not None
        #: (argument, slot) of each pointer
        self._pointers = [(at, slot) for at, slot, _ in job.places]
        #: the last launch's arguments, as the back end takes them
        self._last: list[KernelArgument] = list(job.args)
        for at, slot in self._pointers:
            replica = job.holdings[slot].replicas[worker.number]
            assert replica is not None, "it has just been used"
            self._last[at] = replica.allocation
        self._kinds = [*map(type, self._last)]  #: what each of them is

    def changes(self, worker: StepWorker, entry: WholeLaunch) -> Changes | None:
        """In what a launch differs from the last one; None if it is to be made like any other."""
        _, holdings, args, ndrange, places, _ = entry
        now: list[Any] = [*args]
        number = self._number
        for at, slot in self._pointers:  # which takes less time than iterators over a few take to be made
            held = holdings[slot]
            replica = held.replicas[number]
            if replica is None or replica.start or replica.stop < held.nbytes:
                return None
            now[at] = replica.allocation
        if [*map(type, now)] != self._kinds:
            return None
        if places is not self._places:
            return self._shifted(worker, now, ndrange, places)
        return (now, None, ndrange) if ndrange is self._ndrange else self._over(worker, now, ndrange)

    def _over(self, worker: StepWorker, now: list[Any], ndrange: NDRange | None) -> Changes | None:
        """The same of a launch with these arguments, where its pointers point as the last one's did."""
        shape = None
        if ndrange is not self._ndrange:
            shape = None if ndrange is None else self._step.over(worker, ndrange, self._places)
            if shape is None:
                return None
        return now, shape, ndrange

    def _shifted(
        self, worker: StepWorker, now: list[Any], ndrange: NDRange | None, places: Places
    ) -> Changes | None:
        """The same of a launch with these arguments, pointers to the beginnings of buffers, where they point into them."""
        is_shifted = False
        for at, _, offset in places:
            if offset:
                is_shifted = True
                if not self._by_shape:
                    now[at] = now[at], offset
        if not is_shifted:
            self._places = places  # those of the next launches
            return self._over(worker, now, ndrange)
        if not self._takes_offsets:
            return None
        if self._by_shape:
            shape = None if ndrange is None else self._step.over(worker, ndrange, places)
            return None if shape is None else (now, shape, None)  # the next one's is another
        return self._over(worker, now, ndrange)

    def start(self, changes: Changes) -> int:
        """Launch; what is pending then (`Backend.pending`). BackendError if it is refused: then nothing was started."""
        now, shape, ndrange = changes
        try:
            if self._start_whole is not None:
                pending = self._start_whole(now, shape)
            else:
                assert self._start is not None, "one of them is there"
                changed = [(at, arg) for at, arg in enumerate(now) if arg != self._last[at]]
                pending = self._start(changed, shape)
        except BaseException:
            self._step.forget(self._places)  # nobody knows what the kernel's arguments are now
            raise
        self._last, self._ndrange = now, ndrange
        return pending


class _NoForm:
    """Stands for a form, where nothing makes such launches again, or none is known yet."""


_NO_FORM, _NEW = _NoForm(), _NoForm()


class WholeLaunchStep(LaunchStep):
    """A launch with the NDRange and the places of its command."""

    __slots__ = ("_again_over", "_forms", "_last", "_shapes", "_shifts", "at_home", "is_told")

    def __init__(self, recipe: LaunchRecipe, at_home: frozenset[int]) -> None:
        """`at_home`: slots that are used where the host has them."""
        self.recipe = recipe
        self.kernel: object = None
        self.at_home = at_home
        self.is_told = recipe.hidden is not None  #: the kernel is told of places
        #: the last launch's NDRange, places and shape: mostly those of the next
        self._last: tuple[NDRange | None, Places, LaunchShape] | None = None
        #: the shapes of earlier launches, by the numbers of their NDRanges and by their places
        self._shapes: dict[Any, LaunchShape] = {}
        #: of launches that are made again, by the identity of their index space: that, their places, and their shape
        self._again_over: dict[int, tuple[NDRange, Places, LaunchShape]] = {}
        #: by the places of launches: what makes more of them; None where there has been one
        self._forms: dict[Places, Form | _NoForm | None] = {}
        #: the last shape's places, and what the back end is told of them
        self._shifts: tuple[Places, tuple[tuple[int, int], ...]] | None = None

    def run(self, worker: StepWorker, job: StepJob) -> None:
        backend = worker.backend
        kernel = self.kernel
        if kernel is None:
            kernel = self.kernel = backend.kernel(self.recipe.program, self.recipe.name)
        last = self._last
        if last is None or last[0] is not job.ndrange or last[1] is not job.places:
            last = self._last = (job.ndrange, job.places, self._shape_of(job))
        args = self._arguments(worker, job)
        backend.launch(kernel, args, last[2])
        places = at_beginnings(job.places)
        known = self._forms.get(places, _NEW)
        if known is None:
            self._forms[places] = self._form_of(worker, job, args) or _NO_FORM
        elif known is _NEW:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[places] = None

    def form(self, places: Places) -> Form | None:
        """What makes more launches at these places, if there have been two."""
        found = self._forms.get(places) or self._forms.get(at_beginnings(places))
        return found if type(found) is Form else None

    def forget(self, places: Places) -> None:
        """Launches at these places are made like any other, at first."""
        self._forms.pop(places, None)

    def _form_of(self, worker: StepWorker, job: StepJob, args: list[KernelArgument]) -> Form | None:
        """What makes more launches like the last one, which had these arguments; None where nothing does."""
        pointers = {at for at, _, _ in job.places}
        if self.at_home:
            return None
        if not all(
            type(arg) is bytes or arg is None for at, arg in enumerate(job.args) if at not in pointers
        ):
            return None
        places = at_beginnings(job.places)
        if places is not job.places:
            if not worker.backend.repeats_elsewhere(self.kernel):
                return None
            args = self._arguments(worker, job, places)
        assert job.ndrange is not None, "launches have one"
        shape, start = self._shape(job.ndrange, places), None
        start_whole = worker.backend.again_whole(self.kernel, args, shape)
        if start_whole is None:
            start = worker.backend.again(self.kernel, args, shape)
            if start is None:
                return None
        return Form(self, worker, job, start, start_whole)

    def again(self, worker: StepWorker, job: StepJob) -> Repeated | None:
        return worker.backend.again(self.kernel, self._arguments(worker, job), self._shape_of(job))

    def over(self, worker: StepWorker, ndrange: NDRange, places: Places) -> LaunchShape | None:
        at = id(ndrange)
        known = self._again_over.get(at)
        if known is not None and known[0] is ndrange and known[1] is places:
            return known[2]
        # Not looked up by its numbers: to make it takes as long, if the kernel is not told where its pointers point.
        shape = self._shape(ndrange, places) if self.is_told else self._made(ndrange, places)
        if not worker.backend.repeats_over(self.kernel, shape):
            return None
        if len(self._again_over) >= _MOST_SHAPES:
            self._again_over.clear()
        self._again_over[at] = ndrange, places, shape
        return shape

    def _shape_of(self, job: StepJob) -> LaunchShape:
        """The native launch."""
        ndrange = job.ndrange
        assert ndrange is not None, "launches have one"
        return self._shape(ndrange, job.places)

    def _shape(self, ndrange: NDRange, places: Places) -> LaunchShape:
        # The numbers rather than the NDRange: its hash would be computed in Python, and only for this.
        told = places if self.is_told else None
        key = ndrange.global_size, ndrange.local_size, ndrange.offset, ndrange.regroups, told
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = self._made(ndrange, places)
        return shape

    def _made(self, ndrange: NDRange, places: Places) -> LaunchShape:
        known, hidden = self._shifts, self.recipe.hidden
        if known is None or known[0] is not places:
            at_home = self.at_home
            shifts = tuple([(arg, -offset) for arg, slot, offset in places if slot not in at_home])
            known = self._shifts = (places, shifts)
        packed = None if hidden is None else hidden(ndrange, None, known[1])
        return LaunchShape(
            ndrange, None, ndrange.global_size, ndrange.local_size, ndrange.offset, known[1], packed
        )

    def _arguments(
        self, worker: StepWorker, job: StepJob, places: Places | None = None
    ) -> list[KernelArgument]:
        """As the back end takes them. `places`: where pointers point, if not where the command's do."""
        args: list[KernelArgument] = list(job.args)
        holdings, number, shifted, at_home = job.holdings, worker.number, self.is_told, self.at_home
        for arg, slot, offset in job.places if places is None else places:
            if at_home and slot in at_home:
                args[arg] = HostPlace(holdings[slot].home().ctypes.data + offset)
                continue
            replica = holdings[slot].replicas[number]
            if replica is None or replica.start or replica.stop < holdings[slot].nbytes:
                raise BackendError(
                    MEM_OBJECT_ALLOCATION_FAILURE, f"worker {number} has no memory for the buffer"
                )
            args[arg] = replica.allocation if shifted or not offset else (replica.allocation, offset)
        return args


compiled.code.replace_methods(Form, ("changes",))  # in `backends/native/launches/forms.c`
