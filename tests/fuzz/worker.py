"""The work of one process of a run: makes batches, runs them natively and on all sessions, says what comes of them.

Decides which results are kept: what programs give natively, and what the native compiler made, may be taken from a
folder, for runs that repeat the same programs under planted defects.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import time
from collections import Counter
from pathlib import Path
from typing import Any

from vdev.backends.base import BackendProgram
from vdev.backends.opencl.device import SharedDevice

from .machines import Difference, Machines, Native, compare
from .parts import Part
from .program import Batch, Memory, Program
from .script import script
from .shrink import Shrinker
from .writer import Features, random_batch


def say(**what: Any) -> None:
    print("FUZZ " + json.dumps(what), flush=True)


class Reference:
    """What a batch's programs give natively, built when it is needed; from the cache where it is there."""

    def __init__(self, child: Child, batch: Batch, part: Part) -> None:
        self.child, self.batch, self.part = child, batch, part
        content = hashlib.sha256(
            pickle.dumps((batch.source(), [(p.buffers, p.steps) for p in batch.programs]))
        ).hexdigest()[:32]
        name = f"native_{content}.pickle"
        self.path = Path(child.args.cache, name) if child.args.cache else None
        self.known: dict[str, list[Memory]] = {}
        self.built: Any = None

    def prepare(self) -> None:
        """Raises RuntimeError with the compiler's log."""
        if self.path is not None and self.path.exists():
            self.known = pickle.loads(self.path.read_bytes())
            return
        self._build()
        if self.path is not None:
            self.child.phase("native run", self.part)
            self.known = {p.name: self.child.native.run(self.built, p) for p in self.batch.programs}
            self.path.write_bytes(pickle.dumps(self.known))

    def _build(self) -> None:
        self.child.phase("native build", self.part)
        self.built = self.child.native.build(self.batch.source(), self.batch.options)

    def run(self, program: Program, again: bool = False) -> list[Memory]:
        if program.name in self.known and not again:
            return self.known[program.name]
        if self.built is None:
            self._build()
        return self.child.native.run(self.built, program)


def remember_binaries(folder: Path) -> None:
    """Have native devices take from `folder` what they have built from the same text before."""
    create, build = SharedDevice._native_program, SharedDevice._compile

    def path_of(source: str | bytes) -> Path:
        text = source if isinstance(source, bytes) else source.encode()
        return folder / f"{hashlib.sha256(text).hexdigest()[:32]}.bin"

    def created(self: SharedDevice, source: str | bytes) -> Any:
        path = path_of(source)
        if path.exists():
            return self.cl._Program(self.context, [self.native], [path.read_bytes()])
        return create(self, source)

    def compiled(self: SharedDevice, program: BackendProgram, built: Any) -> None:
        build(self, program, built)
        if built.result is not None and built.result.binary and not path_of(program.source).exists():
            path_of(program.source).write_bytes(built.result.binary)

    SharedDevice._native_program = created  # type: ignore[method-assign]
    SharedDevice._compile = compiled  # type: ignore[method-assign]


class Child:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.native = Native(args.native)
        self.machines = Machines(args.workers.split("+"), args.check or args.excused, args.excused, args.cuts)
        self.features = Features(
            partial_groups=args.native == "CPU" and "cuda" not in args.workers,
            plain=args.native == "GPU",
            skip=frozenset(filter(None, args.skip.split(","))),
        )
        self.times: Counter[str] = Counter()
        if args.cache:
            remember_binaries(Path(args.cache))

    def phase(self, name: str, part: Part, program: str = "") -> None:
        now = time.perf_counter()
        before = getattr(self, "_phase", None)
        if before is not None:
            self.times[before[0]] += now - before[1]  # type: ignore[assignment]
        self._phase = (name, now)
        say(phase=name, part=str(part), program=program)

    def part(self, part: Part) -> list[Part]:
        """Run programs of a batch. Returns what is to be run instead, where the native compiler takes them not."""
        self.phase("generate", part)
        number = part.number
        batch = random_batch(self.args.seed, number, self.args.size, self.features)
        batch.programs = batch.programs[part.first : part.stop]
        reference = Reference(self, batch, part)
        try:
            reference.prepare()
        except RuntimeError as error:
            halves = part.halves()
            errors = [line for line in str(error).split("\n") if "error" in line]
            if halves:
                say(split=str(part), into=[str(half) for half in halves])
            else:
                say(refused=number, program=batch.programs[0].name, log="\n".join(errors)[:1000])
            return halves
        self.run(part, batch, reference)
        return []

    def run(self, part: Part, batch: Batch, reference: Reference) -> None:
        number, source = part.number, batch.source()
        self.phase("build", part)
        try:
            built = self.machines.build(source, batch.options)
        except Exception as error:
            what = Difference("build", f"{type(error).__name__}: {error}")
            self.failed(batch, batch.programs[0], what, part)
            return
        forms: Counter[str] = Counter(
            {"source on one worker": len(batch.programs) if built[0].reasons else 0}
        )
        self.machines.counts.clear()
        failures: list[tuple[Program, Difference]] = []
        count = 0
        left_out = self.args.left_out.split(",")
        for program in batch.programs:
            if f"{number}:{program.name}" in left_out:
                continue
            self.phase("native run", part, program.name)
            expected = reference.run(program)
            self.phase("run", part, program.name)
            found = self.machines.check(built, program, expected)
            forms.update(program.forms)
            count += 1
            if found is None:
                continue
            self.phase("native run", part, program.name)
            again = compare("native", program, expected, reference.run(program, again=True))
            if again is not None:
                say(undetermined=number, program=program.name, what=str(again))
                continue
            failures.append((program, found))
            if self.args.defect:
                break
        reasons = [str(reason) for reason in built[0].reasons]
        self.phase("done", part)
        say(done=number, programs=count, launches=sum(p.nlaunches for p in batch.programs), forms=dict(forms),
            counts=dict(self.machines.counts), reasons=reasons, times=dict(self.times))  # fmt: skip
        self.times.clear()
        for program, found in failures:
            self.failed(batch, program, found, part)

    def failed(self, batch: Batch, program: Program, found: Difference, part: Part) -> None:
        """Say so at once; then make it smaller, which may end the process in the native compiler."""
        known = {"failed": batch.number, "program": program.name, "what": str(found)}
        say(**known, script="")
        if not self.args.keep:
            return
        path = Path(self.args.keep) / f"{self.args.seed}_{batch.number}_{program.name}.py"
        path.write_text(script(batch.source(), batch.options, program, found))
        say(**known, script=str(path))
        if self.args.shrink <= 0:
            return
        self.phase("shrink", part, program.name)
        source, smaller, difference = Shrinker(self.native, self.machines, batch, self.args.shrink).shrink(
            program
        )
        if difference is not None:
            path.write_text(script(source, batch.options, smaller, difference))
        say(**{**known, "what": str(difference or found)}, script=str(path), shrunk=difference is not None)
