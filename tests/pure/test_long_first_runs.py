"""`never_slower.py --seconds`: first runs that take long natively, with as many rounds everywhere, each in a process of its own."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from . import first_runs
from .cuda_host import COMPILER, MISSING

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "samples" / "benchmarks"))

import columns
import never_slower


def options(**given: Any) -> argparse.Namespace:
    """The benchmark's options."""
    usual = {"only": ["histogram", "lu"], "workers": "1,2", "seconds": 2.0, "rounds": 0, "budget": math.inf}
    return argparse.Namespace(**usual | given)


class Clock:
    """Time that passes only in the steps of a job, by the seconds of each; counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
        self.now, self.steps = 0.0, dict.fromkeys(seconds, 0)
        self._seconds = seconds
        monkeypatch.setattr(never_slower, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def job(self) -> never_slower.common.Job:
        def pass_(step: str) -> Any:
            self.steps[step] += 1
            self.now += self._seconds[step]
            return np.zeros(8)

        return never_slower.common.Job(
            SimpleNamespace(finish=lambda: None),
            lambda: pass_("upload"),
            lambda _: pass_("launch"),
            lambda _: pass_("download"),
        )


@pytest.mark.parametrize(("rounds", "wanted"), [(0, 4), (1, 1), (7, 7)])
def test_one_run_has_rounds_enough(rounds: int, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, upload=3.0, launch=0.6, download=1.0)
    run = never_slower.LongRun(options(rounds=rounds))
    with pytest.raises(never_slower.Measured):
        run(clock.job())
    assert clock.steps == {"upload": 1, "launch": wanted, "download": 1}
    assert run.found["rounds"] == wanted
    assert run.found["first"] == pytest.approx(4 + 0.6 * wanted)
    assert run.found["kernels"] == pytest.approx(0.6)
    assert "digest" in run.found


class Processes:
    """In the place of processes: what each was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, native: dict[str, Any]) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.folders: list[str] = []
        self._native = native
        monkeypatch.setattr(never_slower, "_process", self)

    def __call__(
        self,
        given: argparse.Namespace,
        kind: str,
        workers: int | None,
        names: list[str],
        ends: float,
        variables: dict[str, str],
    ) -> dict[str, Any]:
        (name,) = names
        self.asked.append((name, workers, given.rounds))
        self.folders.append(variables["VDEV_CACHE_DIR"])
        assert Path(self.folders[-1]).is_dir()
        assert not list(Path(self.folders[-1]).iterdir())
        return {name: self._native[name] if workers is None else {"rounds": given.rounds}}


def test_rows_have_as_many_rounds_as_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another turn as well, which has the same ones natively, and with nothing kept by another process."""
    processes = Processes(monkeypatch, {"histogram": {"rounds": 3}, "lu": {"rounds": 20}})
    rounds: dict[str, int] = {}
    found = [never_slower.measure_first_runs(options(), "cpu", rounds) for _ in range(2)]
    first = [("histogram", None, 0), ("histogram", 1, 3), ("histogram", 2, 3)]
    first += [("lu", None, 0), ("lu", 1, 20), ("lu", 2, 20)]
    again = [(name, workers, {"histogram": 3, "lu": 20}[name]) for name, workers, _ in first]
    assert processes.asked == first + again
    assert len(set(processes.folders)) == len(processes.folders)
    assert list(found[0]) == ["native", "1", "2"]
    assert all(list(column["rows"]) == ["histogram", "lu"] for column in found[0].values())


@pytest.mark.parametrize("budget", [math.inf, -1.0])
def test_what_fails_natively_is_measured_nowhere(budget: float, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, {"histogram": {"failed": "no"}, "lu": {"rounds": 2}})
    found = never_slower.measure_first_runs(options(budget=budget), "cpu", {})
    late = budget < 0
    assert [name for name, _, _ in processes.asked] == ([] if late else ["histogram", "lu", "lu", "lu"])
    assert all("failed" in column["rows"]["histogram"] for column in found.values())
    assert all(("failed" in column["rows"]["lu"]) == late for column in found.values())


def test_a_long_first_run_may_lose_a_tenth() -> None:
    row = next(row for row in never_slower.ROWS if row.name == "page_rank")
    own = {"whole": 2.2, "kernels": 2.2, "rounds": 5}
    bars = never_slower._bars(row, "4", own, {"whole": 2.0, "kernels": 2.0})
    assert [columns.verdict(bar) for bar in bars] == [
        "page_rank, 4: first run, 5 rounds: 0.909, at least 0.9 wanted: met"
    ]


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_a_program_that_divides_by_results_is_measured_where_kernels_do_nothing(tmp_path: Path) -> None:
    """`first_runs --idle`: all that it reads is 0."""
    found = first_runs.measured("conjugate_gradient", "small", 1, tmp_path, idle=True)
    assert found["counts"]["building"] > 0
    assert found["passed"] > 0
