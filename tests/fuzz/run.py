"""A run: batches dealt to processes, and what came of them.

Decides what a process that died means: where the native compiler or a native run ended it, halves of the batch are tried, and
a single program is passed over; anywhere else it is a failure like a difference. Processes are replaced after some batches: compilers
keep what they built.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .parts import Part

ROOT = Path(__file__).parents[2]
#: batches that one process takes
_BATCHES = 24
#: a process that says nothing for so long hangs
_SILENCE_S = 300.0
#: what Intel's compiler says before it ends the process
_COMPILER_CRASH = "https://software.intel.com/en-us/support/priority-support"
_NATIVE = ("native build", "native run", "shrink", "generate")


@dataclass
class Options:
    seed: int
    workers: tuple[str, ...]
    native: str = "CPU"
    jobs: int = 2
    cores: int = 0  #: processors that each process keeps to; 0: all
    size: int = 24  #: programs of a batch
    first: int = 0  #: the batch that a run begins with
    keep: str = ""
    shrink: float = 30.0
    defect: str = ""
    skip: str = ""  #: forms left out, with commas
    cache: str = ""  #: a folder for what the native device gives, of runs that repeat the same programs
    left_out: str = ""  #: programs that are not run, as "batch:name", with commas
    check: bool = False  #: as under VDEV_CHECK=1; what it stops is a failure
    cuts: bool = False  #: launches are cut in every way in turn
    excused: bool = False  #: the same, but only what it lets pass is one
    failures: int = 1 << 30  #: after which a run ends


@dataclass
class Outcome:
    programs: int = 0
    launches: int = 0
    batches: int = 0
    seconds: float = 0.0
    forms: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)  #: programs, by the native compiler
    crashed: list[str] = field(default_factory=list)  #: programs that ended it
    undetermined: list[str] = field(default_factory=list)
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)  #: why a run is worth nothing

    def table(self) -> dict[str, Any]:
        return {
            name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()
        }


class Run:
    """`programs` and `seconds`: after which it ends, whichever comes first; `tell` is given what happens, as it does."""

    def __init__(self, options: Options, programs: int, seconds: float, tell: Callable[[str], None]) -> None:
        self.options, self.programs, self.seconds, self.tell = options, programs, seconds, tell
        self.outcome = Outcome()
        self._lock = threading.Lock()
        self._next = options.first
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def run(self) -> Outcome:
        jobs = range(self.options.jobs)
        threads = [threading.Thread(target=self._work, args=(job,), daemon=True) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.outcome.seconds = self.elapsed
        return self.outcome

    def _take(self) -> list[Part]:
        """The next batches for a process."""
        with self._lock:
            size = self.options.size
            left = self.options.first + -(-self.programs // size) - self._next
            if left <= 0 or self._enough():
                return []
            count = max(1, min(_BATCHES, -(-left // self.options.jobs)))
            found = [Part(number, 0, size) for number in range(self._next, self._next + count)]
            self._next += count
            return found

    def _work(self, job: int) -> None:
        while parts := self._take():
            while parts:
                parts = self._process(parts, job)

    def _cores(self, job: int) -> str:
        """The processors of a job, with commas."""
        there = sorted(os.sched_getaffinity(0))
        first = job * self.options.cores
        return ",".join(str(there[(first + at) % len(there)]) for at in range(self.options.cores))

    def _process(self, parts: list[Part], job: int) -> list[Part]:
        """Run a process on `parts`; what is left for another."""
        o = self.options
        command = [
            sys.executable, "-m", "tests.fuzz.child", "--seed", str(o.seed), "--size", str(o.size), "--workers",
            "+".join(o.workers), "--native", o.native, "--keep", o.keep, "--shrink", str(o.shrink),
            "--defect", o.defect, "--skip", o.skip, "--cache", o.cache, "--cores", self._cores(job),
            "--except", o.left_out, *["--check"] * o.check, *["--excused"] * o.excused, *["--cuts"] * o.cuts,
            *map(str, parts),
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VDEV")}
        environment["PYOPENCL_NO_CACHE"] = "1"
        environment["PYTHONFAULTHANDLER"] = "1"
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        last: dict[str, Any] = {"phase": "start", "part": str(parts[0])}
        tail: list[str] = []
        drain = threading.Thread(target=lambda: tail.extend(child.stderr or ()), daemon=True)
        drain.start()
        with self._watched(child) as alive:
            for line in child.stdout or ():
                alive()
                if not line.startswith("FUZZ "):
                    tail.append(line)
                    continue
                said = json.loads(line[5:])
                if "phase" in said:
                    last = said
                if said.get("ended"):
                    last = said
                if "split" in said:
                    at = parts.index(Part.parse(said["split"]))
                    parts = parts[:at] + [Part.parse(text) for text in said["into"]] + parts[at + 1 :]
                self._note(said)
                if self._enough():
                    child.terminate()
                    child.wait()
                    return []
        status = child.wait()
        drain.join(5)
        if self._enough():
            return []
        if last.get("ended") and status == 0:
            return []
        text = "".join(tail)[-3000:]
        if last.get("ended"):
            self._died(last, status, text)
            return []
        part = Part.parse(last["part"])
        native = last["phase"] in _NATIVE or _COMPILER_CRASH in text
        halves = part.halves() if native and last["phase"] != "shrink" else []
        if not halves:
            self._died(last, status, text)
        return halves + parts[parts.index(part) + 1 :]

    def _enough(self) -> bool:
        o = self.outcome
        return self.elapsed > self.seconds or len(o.failures) >= self.options.failures or bool(o.errors)

    @contextlib.contextmanager
    def _watched(self, child: subprocess.Popen[str]) -> Iterator[Callable[[], None]]:
        """Ends `child` where it says nothing for too long."""
        latest = [time.monotonic()]
        over = threading.Event()

        def alive() -> None:
            latest[0] = time.monotonic()

        def watch() -> None:
            while not over.wait(1.0):
                if time.monotonic() - latest[0] > _SILENCE_S or self.elapsed > self.seconds:
                    child.kill()

        threading.Thread(target=watch, daemon=True).start()
        yield alive
        over.set()

    def _died(self, last: dict[str, Any], status: int, text: str) -> None:
        number, _, programs = last.get("part", "").partition(":")
        program = last.get("program") or f"p{programs.partition('-')[0]}"
        what = f"batch {number} {program}: status {status} in {last.get('phase', 'end')}"
        with self._lock:
            if last.get("phase") in _NATIVE or _COMPILER_CRASH in text:
                self.outcome.crashed.append(f"{what}\n{text[-1500:]}")
                return
            self.outcome.failures[what] = {"what": what, "text": text}
        self.tell(f"FAILED {what}\n{text}")

    def _note(self, said: dict[str, Any]) -> None:
        o = self.outcome
        with self._lock:
            if "done" in said:
                o.batches += 1
                o.programs += said["programs"]
                o.launches += said["launches"]
                o.forms.update(said["forms"])
                o.counts.update(said["counts"])
                o.times.update(said["times"])
                o.reasons.update(said["reasons"])
                if o.batches % 20 == 0:
                    rate = o.programs / self.elapsed
                    self.tell(
                        f"{o.programs} programs, {len(o.failures)} failed, {self.elapsed:.0f} s ({rate:.1f}/s)"
                    )
            elif "error" in said:
                o.errors.append(said["error"])
            elif "refused" in said:
                o.refused.append(f"batch {said['refused']} {said['program']}: {said['log']}")
            elif "undetermined" in said:
                o.undetermined.append(f"batch {said['undetermined']} {said['program']}: {said['what']}")
            elif "failed" in said:
                key = f"batch {said['failed']} {said['program']}"
                new = key not in o.failures
                o.failures[key] = {**said, "programs": o.failures.get(key, {}).get("programs", o.programs)}
                if new or said.get("shrunk"):
                    self.tell(f"FAILED {key}: {said['what']} {said['script']}")
