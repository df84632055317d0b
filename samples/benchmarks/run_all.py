"""Runs the samples natively on one device and on the virtual one with 1, 2, 4 ... workers, compares results
and times, and says which bars are met.

    python samples/benchmarks/run_all.py [--workers 1,2,4] [--preset gpu|small] [--only NAME,...]
        [--native FOLDER] [--results FOLDER] [--budget SECONDS] [--resume]

Every measurement is a process of its own (`measure.py`), and so is each benchmark of one thing (`upload`,
`tiny_kernel`, `repeated_launch`, `device_memory`). While one is measured the next makes its inputs on the host, unless `--one-at-a-time`.
What is found is written to FOLDER/benchmarks.json as it comes, with a table (.md) and a plot (.png). `--budget`
starts no measurement after so many seconds; `--resume` takes up where the last run ended.

Decides the order and the environments; `measure.py` decides how a job is timed, `report.py` what follows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import catalogue
import machine
import measure
import numpy as np
import report

HERE = Path(__file__).resolve().parent
_READY, _MEASURED, _ENDED = "@ready", "@measured", "@ended"


@dataclass
class Task:
    """A measurement to make: of which sample, on how many workers (None: natively)."""

    entry: catalogue.Entry
    workers: int | None
    arguments: list[str]
    command: list[str]
    environment: dict[str, str]
    result: Path
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def column(self) -> str:
        return machine.NATIVE if self.workers is None else str(self.workers)


class Measured:
    """A process that measures; it waits for `go` before it opens a device."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._said: list[str] = []
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            task.command,
            env=task.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.rstrip("\n") in (_READY, _MEASURED):
                self._events.put(line.rstrip("\n"))
            else:
                self._said.append(line)
        self._events.put(_ENDED)

    def go(self, timeout: float) -> None:
        """Have it measure, and return when it is done with devices, has ended, or the time is over."""
        stop = time.monotonic() + timeout
        if self._await(_READY, stop):
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it ended meanwhile; what it said tells why
                self._process.stdin.write("go\n")
                self._process.stdin.flush()
            self._await(_MEASURED, stop)

    def _await(self, event: str, stop: float) -> bool:
        try:
            return self._events.get(timeout=max(0.0, stop - time.monotonic())) == event
        except queue.Empty:
            self.kill(f"no {event.removeprefix('@')} in time")
            return False

    def kill(self, reason: str) -> None:
        self._said.append(f"{reason}: killed\n")
        self._process.send_signal(signal.SIGKILL)

    def finish(self, timeout: float) -> None:
        """Wait for its checks, and put what it found into the task's record."""
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill("checks not done in time")
            status = self._process.wait()
        self._reader.join(10)
        record = self.task.record
        record |= {"sample": self.task.entry.sample, "workers": self.task.column, "status": status}
        record["arguments"] = shlex.join(self.task.arguments)
        record["wall"] = round(time.monotonic() - self._began, 2)
        if self.task.result.exists():
            record |= json.loads(self.task.result.read_text())
        if status != 0:
            record["said"] = "".join(self._said)[-2000:]
            if record.get("checks") == "passed":  # it came to grief after all was measured and written
                record |= {"status": 0, "exit": status}


class Results:
    """What was found so far, on disk at any time."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.path = folder, folder / "benchmarks.json"
        self.content: dict[str, Any] = {
            "command": machine.command_line(sys.argv),
            "machine": machine.description(),
            "preset": options.preset,
            "kind": machine.kind_of(options),
            "measurements": [],
            "extras": {},
        }
        if options.resume and self.path.exists():
            before = json.loads(self.path.read_text())
            if (
                before["machine"]["gpus"] != self.content["machine"]["gpus"]
                or before["preset"] != options.preset
            ):
                sys.exit(f"{self.path} is of another machine or preset: nothing to resume")
            self.content["measurements"] = [m for m in before["measurements"] if m["status"] == 0]
            self.content["extras"] = {n: e for n, e in before["extras"].items() if "failed" not in e}

    def has(self, sample: str, column: str) -> bool:
        return any((m["sample"], m["workers"]) == (sample, column) for m in self.content["measurements"])

    def add(self, record: dict[str, Any]) -> None:
        """A measurement's record, in the place of an earlier one of the same."""
        key = record["sample"], record["workers"]
        others = [m for m in self.content["measurements"] if (m["sample"], m["workers"]) != key]
        self.content["measurements"] = [*others, record]
        self.flush()

    def flush(self) -> None:
        temporary = self.path.with_suffix(".new")
        temporary.write_text(json.dumps(self.content, indent=1) + "\n")
        temporary.replace(self.path)

    def report(self) -> None:
        self.flush()
        self.content["bars"] = report.bars(self.content)
        self.flush()
        (self.folder / "benchmarks.md").write_text(report.markdown(self.content))
        report.plot(self.content, self.folder / "benchmarks.png")


def tasks(options: argparse.Namespace, results: Results, folder: Path) -> Iterator[Task]:
    """The measurements still to make, each sample's side by side."""
    kind = machine.kind_of(options)
    for entry in chosen(options):
        columns: list[int | None] = [
            count for count in machine.counts_of(options) if not results.has(entry.sample, str(count))
        ]
        if columns or not results.has(entry.sample, machine.NATIVE):
            columns.insert(0, None)  # natively again in any case: there are results to compare with
        for workers in columns:
            name = f"{entry.sample}-{machine.NATIVE if workers is None else workers}"
            command = [sys.executable, str(HERE / "measure.py"), str(folder / f"{name}.json"), entry.sample]
            command += ["--gated", "--seconds", str(options.seconds)]
            if options.copies_when_made:
                command.append("--copies-when-made")
            arguments = entry.arguments(options.preset)
            command += arguments
            if workers is not None:
                command = [*options.under, *command]
            environment = machine.environment(kind, workers, options.native)
            yield Task(entry, workers, arguments, command, environment, folder / f"{name}.json")


def chosen(options: argparse.Namespace) -> list[catalogue.Entry]:
    return [entry for entry in catalogue.ENTRIES if options.only is None or entry.sample in options.only]


class Campaign:
    """All measurements of a run, one after the other on the devices, with inputs and checks beside them."""

    def __init__(self, options: argparse.Namespace, results: Results) -> None:
        self._options, self._results = options, results
        self._stop = time.monotonic() + options.budget
        self._checking: list[Measured] = []

    def run(self, todo: Iterator[Task]) -> None:
        ahead: Measured | None = None
        while time.monotonic() < self._stop:
            if ahead is None:
                ahead = self._start(todo)
            if ahead is None:
                break
            now, ahead = ahead, None if self._options.one_at_a_time else self._start(todo)
            now.go(self._options.timeout)
            self._checking.append(now)
            self._collect(keep=0 if self._options.one_at_a_time else 2)
        if ahead is not None:
            ahead.kill("the budget is used up")
            ahead.finish(10)
        self._collect(keep=0)

    def _start(self, todo: Iterator[Task]) -> Measured | None:
        task = next(todo, None)
        return None if task is None else Measured(task)

    def _collect(self, keep: int) -> None:
        """Take up the results of those whose checks are done, and of all but `keep` in any case."""
        while len(self._checking) > keep:
            measured = self._checking.pop(0)
            measured.finish(self._options.timeout)
            record = measured.task.record
            compare(record, measured.task)
            self._results.add(record)
            print(report.line(record), flush=True)


def compare(record: dict[str, Any], task: Task) -> None:
    """Note how far the results are from the native ones, and fail the measurement where that is too far."""
    digest = task.result.with_suffix(".npz")
    kept = digest.with_name(f"{task.entry.sample}-{machine.NATIVE}.npz")
    if task.workers is None or record["status"] != 0:
        return
    if not kept.exists():
        record |= {"status": 1, "said": "there are no native results to compare with"}
        return
    with np.load(digest) as found, np.load(kept) as expected:
        error = measure.difference(dict(found), dict(expected))
    record["difference"] = error if np.isfinite(error) else "of another shape, or not finite"
    if not error <= task.entry.tolerance:
        record |= {"status": 1, "said": f"results differ from native ones by {error}"}


def run_extras(options: argparse.Namespace, results: Results, folder: Path, stop: float) -> None:
    """The benchmarks of one thing each."""
    for name, presets in catalogue.EXTRAS.items():
        if (options.only is not None and name not in options.only) or name in results.content["extras"]:
            continue
        if name == "device_memory" and max(machine.counts_of(options)) < 2:
            continue  # more than one GPU's memory takes two
        if time.monotonic() > stop:
            break
        path = folder / f"{name}.json"
        command = [sys.executable, str(HERE / f"{name}.py"), "--workers", options.workers]
        command += ["--kind", machine.kind_of(options), "--json", str(path), *presets[options.preset].split()]
        if options.native is not None:
            command += ["--native", options.native]
        said = ""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=5 * options.timeout, check=False
            )
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            said = f"not done in {late.timeout} s"
        found = json.loads(path.read_text()) if path.exists() else {"failed": machine.last_line(said)}
        results.content["extras"][name] = found
        results.flush()
        print(f"{name}:\n{said.rstrip()}", flush=True)


def named(text: str) -> list[str]:
    """The samples and benchmarks of one thing that a list of names and groups means."""
    return [name for item in text.split(",") for name in catalogue.GROUPS.get(item, (item,))]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    machine.add_options(parser)
    parser.add_argument(
        "--preset", choices=catalogue.PRESETS, help="sizes (default: gpu for cuda, else small)"
    )
    parser.add_argument(
        "--only", type=named, help="names by commas; kim, amge, other and extras mean several"
    )
    parser.add_argument(
        "--results", type=Path, default=HERE / "results", help="folder (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, help="for each kind of time of a measurement (0.5; small: 0.1)"
    )
    parser.add_argument("--timeout", type=float, default=45, help="of a measurement (default: %(default)s s)")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no measurement starts")
    parser.add_argument("--resume", action="store_true", help="keep what the results' file has")
    parser.add_argument("--one-at-a-time", action="store_true", help="nothing beside a measurement")
    parser.add_argument(
        "--copies-when-made", action="store_true", help="COPY_HOST_PTR in place of writes that are enqueued"
    )
    parser.add_argument(
        "--under",
        type=shlex.split,
        default=[],
        metavar="COMMAND",
        help="run the virtual device's measurements under a tool: 'compute-sanitizer --error-exitcode 9'",
    )
    parser.add_argument(
        "--extras-first", action="store_true", help="benchmarks of one thing before the samples"
    )
    options = parser.parse_args()
    options.preset = options.preset or ("gpu" if machine.kind_of(options) == "cuda" else "small")
    options.seconds = options.seconds or (0.5 if options.preset == "gpu" else 0.1)
    unknown = set(options.only or ()) - set(catalogue.NAMES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(catalogue.NAMES)}")
    return options


def main() -> int:
    options = parsed()
    began = time.monotonic()
    results = Results(options.results, options)
    print(machine.one_line(results.content["machine"]), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.extras_first:
            run_extras(options, results, folder, began + options.budget)
        Campaign(options, results).run(tasks(options, results, folder))
        run_extras(options, results, folder, began + options.budget)
    results.content["seconds"] = round(time.monotonic() - began, 1)
    results.report()
    print((options.results / "benchmarks.md").read_text())
    failed = [m for m in results.content["measurements"] if m["status"] != 0 or "exit" in m]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
