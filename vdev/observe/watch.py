"""What VDEV_EXPLAIN and VDEV_TRACE ask for: a recorder from the session's beginning, output at its end.

Decides when the report is made: at the interpreter's exit, whatever its cause, after the executor has
closed, so that all that was done is known. A program that ends without an exit (through a signal's default
action or `os._exit`) leaves no report, and only that part of a trace that was complete by then.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from vdev.observe.exchanges import Exchanges
from vdev.observe.history import History
from vdev.observe.recorder import Recorder
from vdev.observe.timeline import Timeline
from vdev.observe.trace import TraceWriter
from vdev.process import ending, switches
from vdev.process.forking import is_child

if TYPE_CHECKING:
    from vdev.observe.observed import ObservedSession
    from vdev.observe.statistics import Statistics

logger = logging.getLogger("vdev.observe")


class Watch:
    """Watches one session for what the switches ask for."""

    def __init__(self, report: str | None, writer: TraceWriter | None) -> None:
        """`report`: '-' for the error stream, or a file's path; None: no report.

        Made before the session's executor, so that its turn at exit comes after the executor's.
        """
        self.report = report
        self.writer = writer
        self._pid = os.getpid()
        self._session: ObservedSession | None = None
        self._broken = False
        self._history = None if report is None else History()
        sinks = (writer, self._history)
        self._timeline = Timeline([sink for sink in sinks if sink is not None])
        ending.at_end(self.finish)

    def begin(self, session: ObservedSession) -> None:
        """Record what `session` does from now on."""
        self._session = session
        if self.writer is not None:
            self.writer.name_workers([info.name for info in session.workers])
        records = session.executor.record(exact=self.report is not None)
        session.recorder = recorder = Recorder(records, self._take)
        if self._history is not None:
            recorder.history, recorder.exchanges = self._history, Exchanges()
        if self.writer is not None:
            self.writer.name_queues(recorder.queues)

    def _take(self, recorder: Recorder, until: int) -> None:
        if self._broken or self._session is None:
            return
        try:
            # Workers that are given nothing more never reach a later command.
            self._timeline.take(recorder, until=until or self._session.executor.ended_up_to())
        except Exception:
            # Whatever is wrong here must not become the program's problem.
            logger.exception("an internal error: the trace and the report's times end here")
            self._broken = True

    def finish(self) -> None:
        """Write the output; once, and not in children that this process forked."""
        session = self._session
        if session is None or session.recorder is None or os.getpid() != self._pid:
            return
        session.executor.close()
        self._take(session.recorder, session.executor.last_number)
        self._session = None
        from vdev.observe import snapshots  # only needed now

        figures = snapshots.snapshot(session)
        if self.writer is not None and not self._broken:
            self.writer.close(figures.as_dict())
        if self.report is not None:
            self._write_report(self.report, figures)

    def _write_report(self, target: str, figures: Statistics) -> None:
        if target == "-":
            if sys.stderr is not None:
                sys.stderr.write(_in_form("", figures) + "\n")
            return
        path = Path(target)
        try:
            path.write_text(_in_form(path.suffix, figures) + "\n", encoding="utf-8", errors="replace")
        except OSError as error:
            logger.error("the report could not be written: %s", error)


def _in_form(suffix: str, figures: Statistics) -> str:
    """The report in the form that the file's name asks for: JSON, a page, or text."""
    from vdev.observe import explain, page  # only needed now

    if suffix == ".json":
        return json.dumps(explain.as_dict(figures), indent=2)
    return page.as_page(figures) if suffix == ".html" else explain.as_text(figures)


def _own(path: Path) -> Path:
    """A forked child's own file beside its parent's, unless its name already differs by process."""
    number = str(os.getpid())
    return path if number in path.name else path.with_name(f"{path.stem}.{number}{path.suffix}")


def from_switches() -> Watch | None:
    """A watch if the switches ask for one. Raises SwitchError, also if the trace cannot be written."""
    report, trace = switches.explain(), switches.trace()
    if report is None and trace is None:
        return None
    if is_child():
        report = report if report is None or report == "-" else str(_own(Path(report)))
        trace = None if trace is None else _own(trace)
    writer = None
    if trace is not None:
        try:
            writer = TraceWriter(trace, time.perf_counter_ns())
        except OSError as error:
            raise switches.TRACE.wrong(str(error.strerror)) from None
    return Watch(report, writer)
