"""Markers and barriers that a worker is given immediately, by the thread that submits them.

Such a command does nothing: it takes a place in the order of the worker that all it waits for was handed to before. Decides when there
is such a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

from vdev.executor.completion import DONE
from vdev.executor.job import is_complete
from vdev.executor.prepare import MARKER
from vdev.executor.stretch import Clocked, Part, Stretch
from vdev.session.immediate_copies import CopiesAtOnce
from vdev.session.immediate_moves import may_follow, stands_at, timed_in
from vdev.session.telling import began, tell_empty

if TYPE_CHECKING:
    from vdev.executor.completion import Completion
    from vdev.executor.line import Line
    from vdev.session.commands import Marker, Migrate
    from vdev.session.ordering import QueueOrder


class MarkersAtOnce(CopiesAtOnce):
    """The immediate markers of one session."""

    def _submit_marker(
        self, command: Marker, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        is_barrier = command.barrier and not queue.in_order
        if is_barrier and after:  # what comes behind one that may fail has to know of it
            return None
        with self._session.lock:
            recorder = self._session.recorder
            started = 0 if recorder is None else perf_counter_ns()
            marked = self.mark(after, queue)
            if recorder is not None and marked is not None:
                tell_empty(self._session, marked, started, queue, "marker")
            if marked is not None and is_barrier:
                queue.barrier = marked
        self.throttle_behind(marked)
        return marked

    def _submit_migrate(
        self, command: Migrate, after: Sequence[Completion], queue: QueueOrder
    ) -> Completion | None:
        """Memory is where it is needed already, unless it is wanted at home: the command only has its place in the order."""
        session = self._session
        if command.to_host or queue.profiled or session.observers or not (queue.in_order or after):
            return None
        with session.lock:
            started = began(session.recorder)
            marked = self.mark(after, queue)
            if marked is not None:
                session.ledger.command("migrate").count += 1
                if session.recorder is not None:
                    tell_empty(session, marked, started, queue, "migrate")
        self.throttle_behind(marked)
        return marked

    def throttle_behind(self, ended: Completion | None) -> None:
        """A command may have been handed over that ends so: `Line.throttle` where that is due. Outside all locks."""
        if type(ended) is Part:
            line = self._executor.lines[ended.stretch.worker]
            if line is not None and line.worker.marked != line.looked_at:
                line.throttle()

    def mark(self, after: Sequence[Completion], queue: QueueOrder) -> Completion | None:
        """Hand over a marker behind all of `after`, or all of its queue where there is nothing. None if it has to be submitted. Under
        the session's lock.
        """
        session, executor, last = self._session, self._executor, queue.last
        if session.deferrals.held or executor.failures.any:
            return None
        if queue.profiled and not self._tells_times:
            return None
        if queue.in_order:
            if not after and (last is None or last.settled or (not queue.profiled and is_complete(last))):
                return Clocked.nothing(last) if queue.profiled else DONE
            line = self._line_behind(last, after, queue)
        elif after:
            line = self._line_behind(last, after, queue)
        else:
            earlier = queue.unsettled()
            if not earlier:
                return Clocked.nothing(last) if queue.profiled else DONE
            # What was submitted may fail, and the marker with it.
            if not all(type(each.progress) is Stretch for each in earlier):
                return None
            line = self._line_behind(last, earlier, queue)
        if line is None:
            return None
        part = line.hand_over(
            (MARKER, (), (), None, (), after),
            executor.standing,
            timed=timed_in(queue) if queue.profiled else None,
        )
        if part is not None and last is not part.stretch.completion:
            queue.remember(part.stretch.completion)
        return part

    def _line_behind(
        self, last: Completion | None, earlier: Sequence[Completion], queue: QueueOrder
    ) -> Line | None:
        """The way to the worker that was given all that comes before a marker: `earlier`, and in an in-order queue what came `last`. None
        where there is no such worker, or where some of it is known to have failed.
        """
        at, progress = self._at, None if last is None else last.progress
        if type(progress) is Stretch:
            at = progress.worker
        line = self._executor.lines[at]
        if line is None or not may_follow(earlier, queue, at, alone=self.is_alone):
            return None
        is_free = self.is_alone or not queue.in_order or last is None or stands_at(last, at)
        return line if is_free else None
