"""Shadow runs: a launch, or part of one, on copies of its buffers, separate from what the program sees.

Decides nothing: which kernel runs, on which worker, over which part of the index space and on which contents is the
caller's choice. A shadow run changes no buffer of the program and no state of the directory, is seen by no observer,
and waits for its end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np

from vdev.backends.base import Backend, BackendProgram, Bytes
from vdev.errors import BackendError, BuildFailure
from vdev.executor.completion import Completion
from vdev.executor.executor import Executor
from vdev.executor.launch_step import LaunchRecipe
from vdev.executor.red_zones import first_mark
from vdev.planner import instructions, transfers
from vdev.planner.builder import PlanBuilder
from vdev.planner.directory import HOST, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Touch
from vdev.planner.links import LinkCosts
from vdev.planner.pending import plan_fold
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import Launch
from vdev.session.programs import SessionProgram
from vdev.session.requests import recipe_of
from vdev.translators.ranges.ndrange import Chunk
from vdev.translators.ranges.rectangles import Layout
from vdev.translators.ranges.region import Region

logger = logging.getLogger("vdev.check")


class ShadowFailure(Exception):
    """A shadow run could not be completed (memory, a compiler, a device); this says nothing about the program."""


class Shadows:
    """Shadow runs on the workers of one executor. Used under the session's lock."""

    def __init__(self, executor: Executor, links: LinkCosts) -> None:
        self._executor = executor
        self._links = links

    def content(self, buffer: VirtualBuffer) -> Bytes:
        """What `buffer` holds once everything planned so far has run; 0 where nothing has been written. Raises
        ShadowFailure if its content was lost to a failure.
        """
        content = np.zeros(buffer.nbytes, np.uint8)
        if buffer.state.pending:
            folding = plan_fold(buffer.state, self._links)
            self._executor.submit_unasked("check", folding, [buffer.holdings], Completion())
            (buffer.state,) = folding.states
        plan = transfers.plan_read(buffer.state, Region.span(0, buffer.nbytes), self._links, contiguous=True)
        buffer.state = plan.states[0]
        completion = Completion()
        self._executor.submit_unasked(
            "check",
            plan,
            [buffer.holdings],
            completion,
            host=content,
            layout=Layout.contiguous(0, buffer.nbytes),
            host_writes=True,
        )
        _await(completion)
        return content

    def mark_beside(self, buffer: VirtualBuffer, worker: int) -> int | None:
        """The byte of `buffer`, beside `worker`'s replica, at which something has been written; None if nothing has."""
        replicas = buffer.holdings.replicas

        def look(backend: Backend) -> Callable[[], int | None]:
            replica = replicas[worker]
            return (lambda: None) if replica is None else first_mark(backend, replica)

        if replicas[worker] is None:
            return None
        return self._executor.call(worker, look)()

    def original(self, program: SessionProgram) -> BackendProgram | None:
        """The program as the user wrote it, built on all workers; None if their compiler refuses it."""
        native = BackendProgram(program.source, program.options)
        try:
            self._executor.build(native)
        except (BuildFailure, BackendError) as error:
            logger.warning(
                "checked against the translated program, because the program itself does not build: %s", error
            )
            return None
        return native

    def recipe(self, launch: Launch, chunk: Chunk, original: BackendProgram | None = None) -> LaunchRecipe:
        """The translated kernel of `launch` that runs `chunk`, or the one in `original`, which can only run whole."""
        kernel = launch.kernel
        if original is not None:
            return LaunchRecipe(original, kernel.name, launch.ndrange, None)
        found = recipe_of(launch, ((0, chunk),), self._executor)
        assert found is not None, "a chunk that was launched"
        return found

    def run(
        self,
        launch: Launch,
        recipe: LaunchRecipe,
        pointers: Sequence[PointerArg],
        worker: int,
        chunk: Chunk,
        contents: Sequence[Bytes],
    ) -> list[Bytes]:
        """What the buffers, by slot, hold after `chunk` of `launch` has run on `worker` and found `contents`
        in them. Raises ShadowFailure.
        """
        memories = [content.copy() for content in contents]
        wholes = [Region.span(0, len(memory)) for memory in memories]
        builder = PlanBuilder([buffer_state(whole.nbytes, ((HOST, whole),)) for whole in wholes], self._links)
        for slot, whole in enumerate(wholes):
            builder.reserve(slot, worker, 0, whole.nbytes)
            builder.make_valid(slot, worker, whole)
        bases = tuple((pointer.arg, pointer.slot, -pointer.offset) for pointer in pointers)
        touches = [Touch(slot, worker, whole, True) for slot, whole in enumerate(wholes)]
        builder.launch(instructions.Launch(worker, chunk, bases), touches)
        for slot, whole in enumerate(wholes):
            builder.drafts[slot].own(worker, whole)
            builder.copy(slot, worker, HOST, whole)
        holdings = [self._executor.holdings(len(memory), _Home(memory)) for memory in memories]
        completion = Completion()
        self._executor.submit_unasked(
            "check",
            builder.finish(((worker, chunk),)),
            holdings,
            completion,
            recipe=recipe,
            args=launch.args,
            homes=range(len(memories)),
        )
        _await(completion)
        return memories


class _Home:
    """A shadow's host memory, in the form that holdings use."""

    def __init__(self, memory: Bytes) -> None:
        self._memory = memory

    def __call__(self) -> Bytes:
        return self._memory


def _await(completion: Completion) -> None:
    if completion.wait() < 0:
        raise ShadowFailure(completion.reason or f"status {completion.status}")
