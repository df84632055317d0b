"""Runs programs natively and on sessions with several workers, all in one process, and compares.

Decides what counts as the same: every byte of every buffer after the last step and of every read between; but padding
of structures may also be what it was set to. A program is parsed and analysed once for all sessions: neither depends on
how many workers there are.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.ranges.rectangles import Layout

from tests.pure.forced_cuts import CutsInTurn
from vdev.backends.base import LocalBytes
from vdev.check.checking import CheckFailure, LaunchChecker
from vdev.planner import nearby
from vdev.planner.instructions import Plan
from vdev.process.switches import parse_workers
from vdev.session import commands, filling
from vdev.session.commands import BufferArg, CopyBuffer
from vdev.session.filling import _Pattern
from vdev.session.session import Session, SessionProgram
from vdev.start.engines import register_engines
from vdev.start.workers import open_workers

from .host import ALIGNMENT
from .program import (
    KINDS,
    PADDING,
    Batch,
    Bound,
    Buffer,
    Copy,
    Fill,
    Given,
    ImageForm,
    Launch,
    LocalSize,
    Memory,
    Program,
    Read,
    SamplerBits,
    Write,
    WriteRows,
)

Result = list[Memory]
#: launches that are alike, before one of them is traced: programs have few launches
_PLANNED_FIRST = 1
#: launches of one kernel that are traced before that has served anybody: each costs what some twenty plans do
_TRACED = 2
#: holders that are looked at one by one: sessions have few workers
_FEW_HOLDERS = 1
#: of the arguments that are sub-buffers, how many are shorter than what the kernel reaches
_CUT_SHORT = 0.15


@dataclass(frozen=True)
class Difference:
    """Where a program's results differ, or why there are none. `buffer`: of the program; -1 for a read in between."""

    workers: str
    what: str
    buffer: int = -1
    where: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.workers}: {self.what}"


# native -------------------------------------------------------------------------------------------


class Native:
    """The native device: PyOpenCL as it is."""

    def __init__(self, kind: str = "CPU") -> None:
        register_engines()
        import pyopencl as cl

        warnings.simplefilter("ignore")
        self.cl = cl
        wanted = getattr(cl.device_type, kind)
        devices = [d for p in cl.get_platforms() for d in p.get_devices() if d.type & wanted]
        if not devices:
            raise SystemExit(f"no native {kind}")
        intel = [d for d in devices if "intel" in d.platform.name.lower()]
        self.device = (intel or devices)[0]
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context)
        #: NVIDIA's driver (580) ends the process at every fourth program or so when sub-buffers are freed
        self._kept: list[Any] | None = [] if kind == "GPU" else None

    def build(self, source: str, options: Sequence[str]) -> Any:
        """The program; RuntimeError with the log where there is none."""
        try:
            program = self.cl._cl._Program(self.context, source)
            program._build(options=" ".join(options).encode(), devices=None)
        except self.cl.Error:
            log = program.get_build_info(self.device, self.cl.program_build_info.LOG)
            raise RuntimeError(log) from None
        return program

    def run(self, built: Any, program: Program) -> Result:
        cl, queue = self.cl, self.queue
        forms = [b.image for b in program.buffers]
        buffers = [self._memory(b) for b in program.buffers]
        kernels = [cl._cl.Kernel(built, kernel.name) for kernel in program.kernels]
        found: Result = []
        parts: dict[Bound, Any] = {}
        kept: list[Any] = []  # a kernel does not keep its arguments
        for step in program.steps:
            if isinstance(step, Launch):
                kernel = kernels[step.kernel]
                for number, arg in enumerate(step.args):
                    if isinstance(arg, bytes):
                        kernel._set_arg_buf(number, arg)
                    elif isinstance(arg, LocalSize):
                        kernel.set_arg(number, cl.LocalMemory(arg.nbytes))
                    elif isinstance(arg, SamplerBits):
                        kept.append(self._sampler(arg))
                        kernel.set_arg(number, kept[-1])
                    else:
                        if arg not in parts:
                            parts[arg] = self._part(buffers[arg.buffer], arg)
                        kernel.set_arg(number, parts[arg])
                cl.enqueue_nd_range_kernel(queue, kernel, step.size, step.local, step.offset)
            elif isinstance(step, Write):
                self._write(buffers[step.buffer], forms[step.buffer], step)
            elif isinstance(step, WriteRows):
                data = np.frombuffer(step.data, np.uint8)
                for row in range(step.rows):
                    part = data[row * step.width : (row + 1) * step.width]
                    cl.enqueue_copy(
                        queue, buffers[step.buffer], part, dst_offset=step.offset + row * step.pitch
                    )
            elif isinstance(step, Read):
                found.append(self._read(buffers[step.buffer], forms[step.buffer], step.offset, step.nbytes))
            elif isinstance(step, Fill):
                cl.enqueue_fill_buffer(queue, buffers[step.buffer], step.pattern, step.offset, step.nbytes)
            else:
                cl.enqueue_copy(
                    queue, buffers[step.target], buffers[step.source], byte_count=step.nbytes,
                    src_offset=step.source_offset, dst_offset=step.target_offset,
                )  # fmt: skip
        for buffer, given in zip(buffers, program.buffers, strict=True):
            found.append(self._read(buffer, given.image, 0, given.content.size))
        if self._kept is not None:
            self._kept.extend(parts.values())
        return found

    def _memory(self, buffer: Buffer) -> Any:
        cl, form = self.cl, buffer.image
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        if form is None:
            return cl.Buffer(self.context, flags, hostbuf=buffer.content)
        described = cl.ImageDescriptor()
        described.image_type = getattr(cl.mem_object_type, KINDS[form.kind].name)
        described.shape, described.array_size = form.shape, form.shape[2]
        pixels = cl.ImageFormat(form.order, form.data_type)
        return cl.Image(self.context, flags, pixels, hostbuf=buffer.content, desc=described)

    def _write(self, memory: Any, form: ImageForm | None, step: Write) -> None:
        data = np.frombuffer(step.data, np.uint8)
        if form is None:
            self.cl.enqueue_copy(self.queue, memory, data, dst_offset=step.offset)
        else:  # PyOpenCL's `enqueue_copy` knows no arrays of one dimension
            self.cl._cl._enqueue_write_image(self.queue, memory, (0, 0, 0), form.region, data)

    def _read(self, memory: Any, form: ImageForm | None, offset: int, nbytes: int) -> Memory:
        host = np.empty(nbytes, np.uint8)
        if form is None:
            self.cl.enqueue_copy(self.queue, host, memory, src_offset=offset)
        else:
            self.cl._cl._enqueue_read_image(self.queue, memory, (0, 0, 0), form.region, host)
        return host

    def _sampler(self, bits: SamplerBits) -> Any:
        return self.cl.Sampler(self.context, bits.normalized, bits.addressing, self.cl.filter_mode.NEAREST)

    @staticmethod
    def _part(buffer: Any, bound: Bound) -> Any:
        if not hasattr(buffer, "get_sub_region"):  # an image
            return buffer
        if bound.offset == 0 and bound.nbytes == buffer.size:
            return buffer
        return buffer.get_sub_region(bound.offset, bound.nbytes)


# virtual ------------------------------------------------------------------------------------------


class Machine:
    """A session with its workers, which lasts. `check`: as under VDEV_CHECK=1."""

    def __init__(self, workers: str, counts: Counter[str], check: bool = False) -> None:
        self.workers, self.counts = workers, counts
        nearby.FEW = _FEW_HOLDERS
        filling.MOST_PLANNED, filling.MOST_AT_FIRST = _PLANNED_FIRST, _TRACED
        filling._Pattern = partial(_Pattern, most_planned=_PLANNED_FIRST)  # type: ignore[assignment,misc]
        self.session = Session(
            open_workers(parse_workers(workers)), min_items=0, check=LaunchChecker if check else None
        )
        self.session.observers.append(self._observe)

    def _observe(self, command: object, plan: Plan) -> None:
        if isinstance(command, commands.Launch):
            self.counts["launches"] += 1
            self.counts["launches cut"] += len(plan.partition) > 1
            self.counts["launches cut into blocks in turn"] += any(
                chunk.cycle is not None for _, chunk in plan.partition
            )
            self.counts["launches with a twin"] += any("twin" in reason for reason in plan.reasons)
            self.counts["launches with merged atomics"] += any("atomic" in reason for reason in plan.reasons)

    def run(self, built: SessionProgram, program: Program) -> Result:
        """Raises RuntimeError where a command fails."""
        session = self.session
        queue = session.create_queue(in_order=True)
        buffers = [session.create_buffer(b.content.size, b.content.copy()) for b in program.buffers]
        pending: list[tuple[Any, Memory | None]] = []

        def read(buffer: Any, offset: int, nbytes: int) -> None:
            host = np.full(nbytes, 0xEE, np.uint8)
            pending.append(
                (
                    session.submit(
                        commands.Read(buffer, Layout.contiguous(offset, nbytes), host), queue=queue
                    ),
                    host,
                )
            )

        for step in program.steps:
            if isinstance(step, Launch):
                kernel = built.kernels[program.kernels[step.kernel].name]
                given = (self._argument(cut_short(arg, program), buffers) for arg in step.args)
                args = (*given, *descriptors(program, step))
                space = NDRange(step.size, step.local, step.offset)
                pending.append((session.submit(commands.Launch(kernel, args, space), queue=queue), None))
            elif isinstance(step, Write):
                layout = Layout.contiguous(step.offset, len(step.data))
                data = np.frombuffer(step.data, np.uint8)
                pending.append(
                    (session.submit(commands.Write(buffers[step.buffer], layout, data), queue=queue), None)
                )
            elif isinstance(step, WriteRows):
                shape, row = (1, step.rows, step.width), step.pitch
                layout = Layout(
                    shape, step.offset, (row * step.rows, row), 0, (step.width * step.rows, step.width)
                )
                data = np.frombuffer(step.data, np.uint8)
                pending.append(
                    (session.submit(commands.Write(buffers[step.buffer], layout, data), queue=queue), None)
                )
            elif isinstance(step, Read):
                read(buffers[step.buffer], step.offset, step.nbytes)
            elif isinstance(step, Fill):
                fill = commands.Fill(buffers[step.buffer], step.offset, step.nbytes, step.pattern)
                pending.append((session.submit(fill, queue=queue), None))
            else:
                n = step.nbytes
                command = CopyBuffer(
                    buffers[step.source],
                    buffers[step.target],
                    (1, 1, n),
                    step.source_offset,
                    (n, n),
                    step.target_offset,
                    (n, n),
                )
                pending.append((session.submit(command, queue=queue), None))
        for buffer, given in zip(buffers, program.buffers, strict=True):
            read(buffer, 0, given.content.size)
        found: Result = []
        for completion, host in pending:
            status = completion.wait()
            if status != 0:
                raise RuntimeError(f"status {status}: {completion.reason}")
            if host is not None:
                found.append(host)
        return found

    @staticmethod
    def _argument(arg: Given, buffers: Sequence[Any]) -> Any:
        if isinstance(arg, bytes):
            return arg
        if isinstance(arg, SamplerBits):
            return arg.packed()
        if isinstance(arg, LocalSize):
            return LocalBytes(arg.nbytes)
        return BufferArg(buffers[arg.buffer], arg.offset, arg.nbytes)


def cut_short(arg: Given, program: Program) -> Given:
    """Now and then less of a buffer than the kernel reaches, as in programs that give it a sub-buffer where a structure begins. Not
    natively: the specification leaves open what a kernel finds beside its sub-buffer (5.2.1), and NVIDIA's driver then gives now one
    result and now another.
    """
    if not isinstance(arg, Bound) or program.buffers[arg.buffer].image is not None:
        return arg
    chance = random.Random(repr(arg))
    if chance.random() > _CUT_SHORT or arg.nbytes <= ALIGNMENT:
        return arg
    return replace(arg, nbytes=chance.randrange(ALIGNMENT, arg.nbytes, ALIGNMENT))


def descriptors(program: Program, launch: Launch) -> list[bytes]:
    """Of the images among its arguments."""
    forms = [program.buffers[arg.buffer].image for arg in launch.args if isinstance(arg, Bound)]
    return [form.descriptor() for form in forms if form is not None]


class Machines:
    """All sessions of a run. `check`: as under VDEV_CHECK=1. `excused`: what the check stops is as it should be, and what it lets
    pass counts alone. `cuts`: launches are cut in every way in turn.
    """

    def __init__(
        self, workers: Sequence[str], check: bool = False, excused: bool = False, cuts: bool = False
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.excused = excused
        self.all = [Machine(text, self.counts, check) for text in workers]
        for machine in self.all if cuts else ():
            session = machine.session
            session.launch_options = replace(session.launch_options, cuts=CutsInTurn())

    def close(self) -> None:
        for machine in self.all:
            machine.session.close()

    def build(self, source: str, options: Sequence[str]) -> list[SessionProgram]:
        """The program for each session: parsed, translated and analysed once."""
        first, *others = self.all
        built = [first.session.build(source, tuple(options))]
        for kernel in built[0].kernels.values():
            _ = kernel.one_worker, kernel.scalars, kernel.addresses  # analysis, remembered
        return built + [self._shared(built[0], machine.session) for machine in others]

    @staticmethod
    def _shared(built: SessionProgram, session: Session) -> SessionProgram:
        program = copy.copy(built)
        program.results = session._build_on_workers(program.native)
        program.kernels = {}
        for name, kernel in built.kernels.items():
            own = program.kernels[name] = copy.copy(kernel)
            own.program, own.plans = program, None
        return program

    def check(self, built: Sequence[SessionProgram], program: Program, expected: Result) -> Difference | None:
        """The first difference that one of the sessions shows."""
        for machine, each in zip(self.all, built, strict=True):
            try:
                found = machine.run(each, program)
            except CheckFailure as failure:
                assert machine.session.checker is not None
                machine.session.checker.failure = None
                if self.excused:
                    self.counts["programs that the check stopped"] += 1
                    continue
                return Difference(machine.workers, f"{type(failure).__name__}: {failure}")
            except Exception as error:
                return Difference(machine.workers, f"{type(error).__name__}: {error}")
            self.counts["plans filled in"] += sum(
                cache.forms.filled
                for kernel in program.kernels
                if (cache := each.kernels[kernel.name].plans) is not None
            )
            difference = compare(machine.workers, program, expected, found)
            if difference is not None:
                return difference
        return None


def compare(workers: str, program: Program, expected: Result, found: Result) -> Difference | None:
    nreads = len(expected) - len(program.buffers)
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        different = one != other
        if number >= nreads:
            buffer: Buffer = program.buffers[number - nreads]
            if buffer.padding is not None:
                different &= ~((buffer.padding == 1) & (other == PADDING))
        where = np.flatnonzero(different)
        if where.size:
            what = f"buffer {number - nreads}" if number >= nreads else f"read {number}"
            first = where[:8]
            values = f"natively {one[first].tolist()}, here {other[first].tolist()}"
            text = f"{what}: {where.size} of {one.size} bytes, at {first.tolist()}: {values}"
            return Difference(
                workers, text, number - nreads if number >= nreads else -1, tuple(first.tolist())
            )
    return None


__all__ = ["Batch", "Copy", "Difference", "Machines", "Native"]
