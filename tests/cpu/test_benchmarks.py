"""The benchmarks with small sizes on CPU workers: what they measure is there, results are compared, and a
measurement that fails or hangs stops no other; what the lattice-Boltzmann sample moves, to the byte.

Decides nothing about speed: on workers that share processors, times tell nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
BENCHMARKS = SAMPLES / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import catalogue  # noqa: E402
import columns  # noqa: E402
import never_slower  # noqa: E402
import report  # noqa: E402
import side_by_side  # noqa: E402
from measure import difference, digest_of  # noqa: E402

#: One step's traffic, by an observer of the plans: the flow's first step and a later one.
TRAFFIC = """
import json, sys
import common, lattice_boltzmann
from vdev.session.commands import Launch
from vdev.start.current import get_session

moved = []
def observe(command, plan):
    if isinstance(command, Launch):
        moved.append((len(plan.partition), plan.moved_nbytes))
get_session().observers.append(observe)
_, queue = common.open_queue()
box = lattice_boltzmann.Box(queue, int(sys.argv[1]))
arrays = box.make()
box.advance(arrays, 3)
queue.finish()
print(json.dumps(moved))
"""
#: The command with the catalogue's samples replaced by one that is, one that is not there, and one that hangs. Nobody waits
#: for that one, and for the others as long as they take on a busy machine.
PATCHED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import catalogue
good = next(e for e in catalogue.ENTRIES if e.sample == "transpose")
small = "--size 100"
catalogue.ENTRIES = (
    catalogue.Entry("not_there", "other", "", ""),
    catalogue.Entry("hanging", "other", "", ""),
    catalogue.Entry("transpose", "amge", small, small, 0.0),
)
catalogue.NAMES = ("not_there", "hanging", "transpose")
catalogue.EXTRAS = {}
import run_all
go = run_all.Measured.go
run_all.Measured.go = lambda one, timeout: go(one, 0.1 if one.task.entry.sample == "hanging" else timeout)
sys.exit(run_all.main())
"""


def run(*command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.parametrize("count", [2, 3, 4])
def test_lattice_boltzmann_moves_its_halo(count: int, tmp_path: Path) -> None:
    """In a periodic box of slabs there are as many cuts as workers; five speeds cross each one either way."""
    n = 24
    environment = {"VDEV": "1", "VDEV_WORKERS": f"cpu:{count}", "PYTHONPATH": _path(SAMPLES)}
    done = run("-c", TRAFFIC, str(n), folder=tmp_path, **environment)

    assert done.returncode == 0, done.stderr
    halo = count * 2 * 5 * n * n * 4
    assert json.loads(done.stdout.splitlines()[-1]) == [[count, 0], *[[count, halo]] * 3]


def _path(folder: Path) -> str:
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_all_in_one_command(tmp_path: Path) -> None:
    command = [
        str(BENCHMARKS / "run_all.py"),
        "--kind",
        "cpu",
        "--workers",
        "1,2",
        "--results",
        str(tmp_path),
    ]
    names = "bitonic_sort,black_scholes,tiny_kernel"
    done = run(*command, "--only", names, "--seconds", "0.02", folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "benchmarks.json").read_text())
    measured = {(m["sample"], m["workers"]): m for m in found["measurements"]}
    assert measured.keys() == {
        (s, w) for s in ("bitonic_sort", "black_scholes") for w in ("native", "1", "2")
    }
    for (sample, workers), record in measured.items():
        assert record["checks"] == "passed"
        assert len(record["cold"]) >= 1
        assert min(record["cold"]) > 0
        assert set(record["steps"]) == {"upload", "kernels", "download"}
        parts = catalogue.SORTS if sample == "bitonic_sort" else ()
        assert set(record["resident"]) == {"all", *parts}
        if workers != "native":
            assert record["device"].startswith(f"vdev: {workers} x ")
            assert record["difference"] <= 1e-5
    assert set(found["extras"]["tiny_kernel"]["columns"]) == {"native", "1", "2"}
    table = (tmp_path / "benchmarks.md").read_text()
    assert "| sort_merge_shared |" in table
    assert "tiny kernel, 2 over native" in table
    assert (tmp_path / "benchmarks.png").read_bytes().startswith(b"\x89PNG")


def test_failing_and_hanging_measurements_stop_no_other(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text("import time\ntime.sleep(1000)\n")
    options = ["--kind", "cpu", "--workers", "1", "--results", str(tmp_path), "--seconds", "0.02"]
    environment = {"PYTHONPATH": _path(tmp_path)}
    failing = "--only", "not_there,hanging", "--timeout", "250"
    done = run("-c", PATCHED, str(BENCHMARKS), *options, *failing, folder=tmp_path, **environment)
    first = json.loads((tmp_path / "benchmarks.json").read_text())["measurements"]
    options += ["--resume", "--only", "transpose"]
    resumed = run("-c", PATCHED, str(BENCHMARKS), *options, folder=tmp_path, **environment)
    second = json.loads((tmp_path / "benchmarks.json").read_text())["measurements"]

    assert (done.returncode, resumed.returncode) == (1, 0), done.stdout + done.stderr + resumed.stderr
    said = {m["sample"]: m["said"] for m in first}
    assert "not_there" in said["not_there"]
    assert "killed" in said["hanging"]
    assert {m["workers"]: m["status"] for m in second if m["sample"] == "transpose"} == {"native": 0, "1": 0}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("upload", ["--nbytes", "1048576"]),
        ("repeated_launch", ["--launches", "50", "--items", "65536"]),
        ("repeated_launch", ["--launches", "50", "--items", "65536", "--exchange"]),
        ("device_memory", ["--nbytes", "1048576"]),
        ("planning", ["--preset", "small", "--only", "small_steps,sub_buffers,ring", "--limit", "5"]),
        ("never_slower", ["--runs", "1", "--check", "--only", "histogram,kernel_chain,small_steps"]),
    ],
)
def test_benchmark_of_one_thing(name: str, arguments: list[str], tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    common = ["--kind", "cpu", "--workers", "1,2", "--json", str(path)]
    done = run(str(BENCHMARKS / f"{name}.py"), *common, *arguments, folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(path.read_text())
    assert set(found["columns"]) == ({"2"} if name == "device_memory" else {"native", "1", "2"})
    assert found["bars"]
    if name == "repeated_launch":
        assert found["columns"]["2"]["split"] == 2
    if name == "never_slower":
        for column in found["columns"].values():
            assert all(row["correct"] and row["kernels"] > 0 for row in column["rows"].values())
            assert column["rows"]["histogram"]["checks"] == 1
    if name == "planning":
        for column in found["columns"].values():
            assert [program["steps"] > 0 for program in column["programs"].values()] == [True] * 3
        ones = found["columns"]["1"]["programs"].values()
        assert all(program["plans_cold"] <= 40 for program in ones)  # whatever changes from launch to launch


def test_long_first_runs_have_as_many_rounds_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    rows = ["--only", "kernel_chain,small_steps", "--seconds", "0.05"]
    common = ["--kind", "cpu", "--workers", "2", "--json", str(path)]
    done = run(str(BENCHMARKS / "never_slower.py"), *common, *rows, folder=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(path.read_text())
    for name in ("kernel_chain", "small_steps"):
        native, own = (found["columns"][column]["rows"][name] for column in ("native", "2"))
        assert native["rounds"] == own["rounds"] > 0
        assert native["first"] >= 0.05
        assert native["correct"]
        assert own["correct"]
        assert own["launches"] > 0
    assert len(found["bars"]) == 2


def test_benchmark_of_one_thing_says_which_column_failed(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    options = ["--kind", "cuda", "--native", str(tmp_path), "--workers", "1", "--json", str(path)]
    done = run(str(BENCHMARKS / "tiny_kernel.py"), *options, folder=tmp_path)

    assert done.returncode == 1
    found = json.loads(path.read_text())
    failed = found["columns"]["native"]["failed"]
    assert failed in done.stdout
    assert "Traceback" in done.stderr
    assert "\n" not in failed, "the error, without the traceback's folders"
    assert [bar["found"] for bar in found["bars"]] == [None]


#: The benchmark with a row that is, one that fails, one that hangs, one that ends the process, and one more. Its patience ends
#: with the row that hangs, at once, and with no other.
ROWS_PATCHED = """
import queue, sys, types
sys.path.insert(0, BENCHMARKS)
import never_slower
class Lines(queue.Queue):
    hangs = False
    def get(self, timeout):
        if self.hangs:
            raise queue.Empty
        line = super().get()
        self.hangs = line is not None and line.startswith(never_slower.NEXT + "hanging")
        return line
never_slower.queues = types.SimpleNamespace(Queue=Lines, Empty=queue.Empty)
never_slower.ROWS = tuple(never_slower.Row(name, "--size 500", "--size 500") for name in
                          ("triangular", "not_there", "hanging", "ending", "mandelbrot"))
sys.argv[0] = __file__
sys.exit(never_slower.main())
"""


def test_rows_that_fail_stop_no_other(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text("import time\ndef main():\n    time.sleep(1000)\n")
    (tmp_path / "ending.py").write_text("import os\ndef main():\n    os._exit(7)\n")
    (tmp_path / "rows.py").write_text(ROWS_PATCHED.replace("BENCHMARKS", repr(str(BENCHMARKS))))
    path = tmp_path / "found.json"
    options = ["--kind", "cpu", "--workers", "2", "--limit", "8", "--runs", "1", "--json", str(path)]
    environment = {"PYTHONPATH": _path(tmp_path)}
    done = run(str(tmp_path / "rows.py"), *options, folder=tmp_path, **environment)

    assert done.returncode == 1, done.stdout + done.stderr
    content = json.loads(path.read_text())
    for column in ("native", "2"):
        rows = content["columns"][column]["rows"]
        assert min(rows["triangular"]["whole"], rows["triangular"]["kernels"]) > 0
        assert rows["mandelbrot"]["correct"] is True
        assert "not_there" in rows["not_there"]["failed"]
        assert rows["hanging"]["failed"] == "not done in 8 s"
        assert "ended with status 7" in rows["ending"]["failed"]
    assert content["columns"]["2"]["rows"]["triangular"]["launches"] > 0


def test_every_sample_that_is_a_job_is_measured() -> None:
    jobs = {path.stem for path in SAMPLES.glob("*.py") if "common.Job(" in path.read_text(encoding="utf-8")}
    whole = {row.sample or row.name for row in never_slower.ROWS if not row.planned}
    assert {entry.sample for entry in catalogue.ENTRIES} | whole == jobs
    groups = [entry.group for entry in catalogue.ENTRIES]
    assert groups.count(catalogue.KIM) == 11
    kernels = [
        part for entry in catalogue.ENTRIES if entry.group == catalogue.AMGE for part in entry.parts or ("",)
    ]
    assert len(kernels) == 13


class Parsed(Exception):
    """The arguments were understood."""


@pytest.mark.parametrize("entry", catalogue.ENTRIES, ids=lambda entry: entry.sample)
def test_samples_take_the_catalogues_arguments(
    entry: catalogue.Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_only(self: argparse.ArgumentParser, *arguments: Any) -> None:
        parse(self, *arguments)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_only)
    main = importlib.import_module(entry.sample).main
    for preset in catalogue.PRESETS:
        monkeypatch.setattr(sys, "argv", [entry.sample, *entry.arguments(preset)])
        with pytest.raises(Parsed):
            main()


def test_digests_tell_results_apart() -> None:
    numbers = np.random.default_rng(1).random(300_000).astype(np.float32)
    expected = digest_of((numbers, [np.arange(5)]))
    assert difference(digest_of((numbers.copy(), [np.arange(5)])), expected) == 0
    assert difference(digest_of((numbers, [np.arange(4)])), expected) == math.inf
    assert difference(digest_of(numbers), expected) == math.inf
    wrong = numbers.copy()
    wrong[1000:2000] += 0.5  # what a worker's chunk or a halo would be
    assert difference(digest_of((wrong, [np.arange(5)])), expected) > 0.1
    wrong[1000:2000] = np.nan
    assert difference(digest_of((wrong, [np.arange(5)])), expected) == math.inf


def _content() -> dict[str, Any]:
    """Results in which four workers take a third of native times for kernels, and twice them for the rest."""

    def record(sample: str, workers: str, seconds: float) -> dict[str, Any]:
        steps = {"upload": 1.0, "kernels": 8.0, "download": 1.0}
        resident = {
            part: {"launches": 1, "seconds": [seconds, 9.0]} for part in ("all", "fft1D", *catalogue.SORTS)
        }
        return {
            "sample": sample,
            "workers": workers,
            "arguments": "--size 100 --steps 3",
            "status": 0,
            "cold": [seconds],
            "steps": steps,
            "resident": resident,
        }

    samples = [entry.sample for entry in catalogue.ENTRIES]
    measurements = [record(s, w, t) for s in samples for w, t in (("native", 6.0), ("1", 6.0), ("4", 2.0))]
    measurements.append(record("fft", "2", 1.0) | {"status": 1})
    return {"measurements": measurements, "extras": {}}


def test_bars_are_judged() -> None:
    bars = {bar["bar"]: bar for bar in report.bars(_content())}
    met = {name.split(",")[0] + ", " + name.rsplit(": ", 1)[-1]: bar["met"] for name, bar in bars.items()}
    eleven = "Kim et al.'s eleven from NumPy arrays"
    assert met["kernels on one worker, geometric mean"] is False  # 1 against 1.03
    assert met[f"{eleven}, geometric mean"] is False
    assert met[f"{eleven}, Amdahl's ideal"] is True  # 3 against 2.5
    assert bars["AMGE's kernels on resident data, 4 over native: geometric mean"]["of"] == "13 of 13 measured"
    assert bars["AMGE's kernels on resident data, 2 over native: geometric mean"]["met"] is None
    flow = bars["lattice-Boltzmann, cell updates a second, 4 over native"]
    assert flow["found"] == 3.0
    assert flow["of"] == "billions: native: 0.0005, 1: 0.0005, 4: 0.0015"


def test_ideal_is_amdahls() -> None:
    native = {"steps": {"upload": 0.5, "kernels": 3.0, "download": 0.5}}
    assert report.ideal(native, 4) == pytest.approx(1 / (0.25 + 0.75 / 4))
    assert report.geometric_mean([2, 8]) == pytest.approx(4)


def test_crash_after_the_measurement_is_told_and_loses_nothing(tmp_path: Path) -> None:
    """As of a driver that fails when it is unloaded."""
    crashing = tmp_path / "crashing"
    crashing.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\nsubprocess.run(sys.argv[1:])\nsys.exit(9)\n"
    )
    crashing.chmod(0o755)
    command = [str(BENCHMARKS / "run_all.py"), "--kind", "cpu", "--workers", "1", "--results", str(tmp_path)]
    options = ["--only", "transpose", "--seconds", "0.02", "--under", str(crashing)]
    done = run(*command, *options, folder=tmp_path)

    assert done.returncode == 1
    found = {m["workers"]: m for m in json.loads((tmp_path / "benchmarks.json").read_text())["measurements"]}
    assert "exit" not in found["native"]
    assert found["1"]["status"] == 0
    assert found["1"]["exit"] == 9
    assert "then ended with status 9" in (tmp_path / "benchmarks.md").read_text()


def test_the_best_of_several_processes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([{"us": 5.0}, {"us": 9.0}, {"us": 4.0}, {"failed": "at once"}, {"us": 6.0}, {"us": 1.0}])
    monkeypatch.setattr(columns, "_column", lambda *_: next(found))
    options = columns.parser("").parse_args(["--workers", "1", "--kind", "cpu"])
    measured = columns.measured(options, dict, turns=3, least="us")
    assert measured == {"native": {"us": 4.0}, "1": {"failed": "at once"}}


#: A version's `run_all.py` that finds what a table says: by column, seconds or what was said of a failure.
RUN_ALL = """
import json, sys
from pathlib import Path
options = dict(zip(sys.argv[1:], sys.argv[2:]))
table = TABLE[options["--only"]]
if not isinstance(table, dict):
    sys.exit(table)
records = [
    {"sample": options["--only"], "workers": column, "cold": [9.0], "status": 1, "said": told}
    if isinstance(told, str) else
    {"sample": options["--only"], "workers": column, "cold": [told], "status": 0}
    for column, told in table.items()
]
Path(options["--results"], "benchmarks.json").write_text(json.dumps({"measurements": records}))
"""


def test_what_one_version_cannot_run_stops_no_other_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two, four = dict.fromkeys(("native", "1", "2"), 2.0), dict.fromkeys(("native", "1", "2"), 4.0)
    found: dict[str, dict[str, Any]] = {
        "now": {"fft": two, "histogram": two | {"2": "trace\nresults differ"}, "sgemm": two},
        "before": {"fft": "trace\nNo module named 'mako'", "histogram": four, "sgemm": four},
    }
    for version, table in found.items():
        folder = tmp_path / version / "samples" / "benchmarks"
        folder.mkdir(parents=True)
        (folder / "run_all.py").write_text(RUN_ALL.replace("TABLE", repr(table)))
    monkeypatch.setattr(side_by_side, "HERE", tmp_path / "now" / "samples" / "benchmarks")
    options = ["--before", str(tmp_path / "before"), "--python", sys.executable, "--kind", "cpu"]
    monkeypatch.setattr(sys, "argv", ["", *options, "--only", "fft,histogram,sgemm"])

    assert side_by_side.main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert "| histogram | whole job | 0.50 | 0.50 |  |" in lines
    assert "| sgemm | whole job | 0.50 | 0.50 | 0.50 |" in lines
    assert lines[-3:] == [
        "Not measured: 2",
        "- fft, before: No module named 'mako'",
        "- histogram, now, 2: results differ",
    ]

    monkeypatch.setattr(sys, "argv", ["", *options, "--only", "sgemm"])
    assert side_by_side.main() == 0
    assert "Not measured" not in capsys.readouterr().out


def test_what_is_longer_in_every_round_stays_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other samples with longer times get another chance, and those without are left alone."""
    disturbed = iter([3.0, 1.0])
    measured: list[tuple[str, bool]] = []

    def times(python: str, benchmarks: Path, sample: str, options: Any) -> Any:
        now = python == sys.executable
        measured.append((sample, now))
        of_one = {
            "fft": 1.0,
            "sgemm": 1.2 if now else 1.0,
            "nbody": next(disturbed) if now and sample == "nbody" else 1.0,
        }
        return {(sample, "all", "native"): 1.0, (sample, "all", "1"): of_one[sample]}, {}

    monkeypatch.setattr(side_by_side, "measured", times)
    options = ["--before", ".", "--python", "other", "--rounds", "1", "--again", "3", "--workers", "1"]
    monkeypatch.setattr(sys, "argv", ["", *options, "--only", "fft,sgemm,nbody"])
    assert side_by_side.main() == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "More than 3 % longer: 1 of 3",
        "- sgemm (all) on 1: 1.20",
    ]
    both = [True, False]
    assert measured == [
        (sample, now)
        for sample in ("fft", "sgemm", "nbody", "sgemm", "nbody", "sgemm", "sgemm")
        for now in both
    ]
