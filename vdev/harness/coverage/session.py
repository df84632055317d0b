"""Coverage in a session of pytest, with or without xdist.

Decides when data are written and merged: each process leaves its own when it has run its tests; the one that the user
started merges them, reports, and fails the run below the threshold.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from vdev.boot import StandInFinder
from vdev.harness.coverage.counting import start
from vdev.harness.coverage.data import FOLDER, save
from vdev.harness.coverage.figures import Threshold
from vdev.harness.coverage.reports import Outcome, Run, Wish
from vdev.harness.coverage.whole_program import count_programs

#: What a worker of xdist is told: the folder in which the user started pytest.
_ROOT = "opencl_cov_root"


class CoverageSession:
    """pytest's hooks. Raises pytest.UsageError for options without a meaning."""

    def __init__(self, config: pytest.Config) -> None:
        option = config.option
        kinds = option.opencl_cov_report or config.getini("opencl_cov_report") or ["text"]
        bar = option.opencl_cov_fail_under or config.getini("opencl_cov_fail_under")
        try:
            wishes = [Wish.parse(kind) for kind in kinds]
            threshold = Threshold.parse(bar) if bar else Threshold()
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        given = getattr(config, "workerinput", None)  # in a worker of xdist's
        self._is_worker = given is not None
        root = Path(given[_ROOT]) if given is not None else config.invocation_params.dir
        self._run = Run(root, Path(FOLDER), wishes, threshold, option.opencl_cov_append)
        self._outcome: Outcome | None = None
        if not self._is_worker:
            self._run.begin()
        self._counting = start(root)
        if StandInFinder in sys.meta_path:
            count_programs(self._counting)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """xdist starts a worker."""
        node.workerinput[_ROOT] = str(self._run.root)

    @pytest.hookimpl(trylast=True)  # when xdist has seen its workers end
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        save(self._counting.data, self._run.root / self._run.folder)
        if self._is_worker:
            return
        self._outcome = self._run.end()
        if self._outcome.failures and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._outcome is None or not self._outcome.text:
            return
        terminalreporter.section("coverage of kernels")
        for line in self._outcome.text.splitlines():
            terminalreporter.write_line(line, red=line in self._outcome.failures)
