"""A program and its kernels, called with arrays: without context, queue or buffers.

Decides what a call does: its arguments are checked, and its accesses too unless that is switched off; then the kernel
itself, as written, runs on the chosen workers, and the results are returned.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vdev.backends.base import Backend
from vdev.errors import BuildError
from vdev.harness import arguments, origins
from vdev.harness.accepted import Accepted, load
from vdev.harness.arguments import ArgumentError, Empty, Given, Ready
from vdev.harness.calls import Call, Way, dtype_text, written
from vdev.harness.checked_launch import Checked, CheckedSource, Memory, NotCheckable
from vdev.harness.coverage.counting import current
from vdev.harness.engine_names import NATIVE, workers_on
from vdev.harness.failures import FindingsError
from vdev.harness.findings import KINDS, Finding, Place, hidden_kinds
from vdev.harness.formats import NO_FILE, describe
from vdev.harness.memories import array_of, is_output, launched, memory_of
from vdev.harness.orders import KIND as ORDER_KIND
from vdev.harness.orders import compare_orders
from vdev.harness.outputs import Array, Outputs
from vdev.harness.reading import Writer
from vdev.harness.running import Order, launch_of, open_session, run_in_order, run_natively, run_on_workers
from vdev.harness.splitting import against_splitting
from vdev.planner.partitioner import choose_local_size
from vdev.session.programs import SessionProgram
from vdev.session.session import Session, SessionKernel
from vdev.translators.frontend.dimensions import dimensions
from vdev.translators.frontend.layout import element_types, value_types
from vdev.translators.frontend.source import ArgInfo, read_source
from vdev.translators.ranges.ndrange import NDRange
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


Size = int | Sequence[int]


class Program:
    """OpenCL C, built for the workers asked for.

    `source` is the text or, if it is a Path or ends with `.cl`, the file. `options` are build options, one string or
    several. `workers`, `engine`, `order`, `local_size`, `check`, `report` and `ignore` are those of `Way`; `accepted` is a
    file of accepted findings (`vdev.harness.accepted`). Raises NoEngine if no device matches the engine's name,
    `vdev.errors.BuildError` with clang's messages, and OSError if the file does not exist.
    """

    def __init__(
        self,
        source: str | Path,
        options: str | Sequence[str] = (),
        *,
        workers: str = "cpu:1",
        order: str | None = None,
        local_size: Size | None = None,
        check: bool = True,
        report: Sequence[str] = (),
        ignore: Sequence[str] = (),
        engine: str | None = None,
        accepted: str | Path | Accepted | None = None,
    ) -> None:
        __tracebackhide__ = True
        self.file, self.source = _read(source)
        self.options = tuple(options.split() if isinstance(options, str) else options)
        if self.file:
            self.options = (*self.options, f"-I{Path(self.file).resolve().parent}")
        group = None if local_size is None else _sizes(local_size)
        self.way = Way(workers, order, group, check, frozenset(report), frozenset(ignore), engine)
        self.hidden = hidden_kinds(report, ignore)  #: kinds of findings that do not fail a call
        self.accepted = load(Path(accepted)) if isinstance(accepted, str | Path) else accepted
        self._prepared = False
        self._session = open_session(self._workers)
        self._program = self._built()
        if (counting := current()) is not None:
            counting.built(self._program, self.file)

    def __repr__(self) -> str:
        return f"<Program {self.file or 'of a text'}: {', '.join(self.kernels)}>"

    def _built(self) -> SessionProgram:
        __tracebackhide__ = True
        try:
            return self._session.build(self.source, self.options)
        except BuildError as error:
            error.__context__ = error.__cause__ = None  # how the drivers were asked means nothing to the user
            raise error.with_traceback(None) from None

    @property
    def _workers(self) -> str:
        if self.way.engine is not None:
            return workers_on(self.way.engine, self.way.workers)
        return "cpu:1" if self.way.workers == NATIVE else self.way.workers

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the program's kernels."""
        return tuple(self._program.kernels)

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name. Raises KeyError, which names the existing ones."""
        if name not in self._program.kernels:
            raise KeyError(f"there is no kernel {name}; the program has: {', '.join(self.kernels)}")
        return Kernel(self, self._program.kernels[name], self._session)

    def __getattr__(self, name: str) -> Kernel:
        __tracebackhide__ = True
        if name.startswith("_") or name not in self._program.kernels:
            there_are = "" if name.startswith("_") else f"; it has: {', '.join(self.kernels)}"
            raise AttributeError(f"program has no kernel {name!r}{there_are}")
        return self.kernel(name)

    def prepare(self) -> None:
        """Do now what first calls do: translate, build, analyse. hypothesis has a deadline for each call."""
        if self._prepared:
            return
        self._prepared = True
        for kernel in self._program.kernels.values():
            _ = kernel.one_worker
        if self.way.check:
            with contextlib.suppress(NotCheckable):  # calls report it in their notes
                checked = self.checked
                open_session("cpu:1").executor.call(0, checked.prepare)

    @functools.cached_property
    def checked(self) -> CheckedSource:
        """The program that checks itself. Raises NotCheckable."""
        return self._checked(tracked=False)

    @functools.cached_property
    def tracked(self) -> CheckedSource:
        """The program that checks itself and says which work-item wrote a place last. Raises NotCheckable."""
        return self._checked(tracked=True)

    def _checked(self, *, tracked: bool) -> CheckedSource:
        if self._program.lowered is None:
            raise NotCheckable("clang's parser rejects the program, or its macros could not be expanded")
        kinds = frozenset(KINDS) - self.hidden
        lowered = self._program.lowered.program
        return CheckedSource(lowered, self.file, self.source, kinds=kinds, tracked=tracked)


class Kernel:
    """One kernel of a program, to be called with arrays, numbers, `local(...)`, `empty(...)`, `image(...)`, `sampler(...)` and
    None.
    """

    def __init__(self, program: Program, kernel: SessionKernel, session: Session) -> None:
        self.program = program
        self.name = kernel.name
        self._kernel = kernel
        self._session = session

    def __repr__(self) -> str:
        return f"<Kernel {self.name} of {self.program!r}>"

    def __call__(
        self, *args: Any, global_size: Size, local_size: Size | None = None, offset: Size | None = None
    ) -> Outputs:
        """Run the kernel once. The arrays given stay as they are.

        Raises ArgumentError if an argument does not fit, and FindingsError if an access is wrong.
        """
        __tracebackhide__ = True
        ready = self._prepared(args)
        free = local_size is None and self.program.way.local_size is None
        return self._run(ready, self._ndrange(global_size, local_size, offset), None, cuts=free)

    def run(self, call: Call) -> Outputs:
        """Like `call.run()`, without its script."""
        __tracebackhide__ = True
        ready = self._prepared(list(call.args.values()))
        return self._run(ready, self._ndrange(call.global_size, call.local_size, call.offset), call)

    def calls(self, arguments: Mapping[str, Any] | None = None, **fixed: Any) -> SearchStrategy[Call]:
        """Random calls for hypothesis, which has to be installed: see `vdev.harness.strategies.calls`.

        `kernel.calls(out=empty, n=st.integers(1, 100), x=lambda draft: draft.n, global_size=128)`
        """
        from vdev.harness import strategies  # needs hypothesis

        return strategies.calls(self, arguments, **fixed)

    def _run(
        self, ready: Sequence[Ready], ndrange: NDRange, call: Call | None, *, cuts: bool = False
    ) -> Outputs:
        """Run the kernel. `cuts`: the work-groups may have another size as well."""
        __tracebackhide__ = True
        findings, notes = self._check(ready, ndrange)
        self._count(ready, ndrange)
        if ORDER_KIND not in self.program.hidden:
            self._compare(ready, ndrange, cuts=cuts)
        memories = [memory_of(arg) for arg in ready]
        run = self._runner()
        run(launched(ready, memories), ndrange)
        outputs = {}
        for index, (info, arg, memory) in enumerate(zip(self.infos, ready, memories, strict=True)):
            if memory is not None and is_output(info):
                outputs[info.name] = array_of(arg, memory)
                origins.remember(memory.content, Made(self, ready, ndrange, call, index))
        return Outputs(outputs, findings, notes, functools.partial(self._why_one_worker, ready, ndrange))

    def _prepared(self, args: Sequence[Any]) -> list[Ready]:
        __tracebackhide__ = True
        ready = arguments.prepare(self.name, self.infos, self.types, args)
        images = [index for index, info in enumerate(self.infos) if info.kind == "image"]
        if tuple(images) != self._kernel.images:
            reasons = "; ".join(map(str, self._kernel.one_worker))
            raise ArgumentError(
                f"kernel {self.name}: images need a program that can be translated: {reasons}"
            )
        return ready

    @property
    def infos(self) -> tuple[ArgInfo, ...]:
        """The parameters, as the user wrote them."""
        return self._kernel.declared.args

    @property
    def required_size(self) -> tuple[int, ...] | None:
        """The work-group size that the kernel requires, in the dimensions that have more than one work-item."""
        required = self._kernel.declared.reqd_work_group_size
        if required is None:
            return None
        return required[: max((k + 1 for k in range(3) if required[k] > 1), default=1)]

    @property
    def dimensions(self) -> int:
        """The dimensions of the index space, as far as the kernel's text shows."""
        parsed = self._kernel.program.parsed
        return 1 if parsed is None else dimensions(parsed, self.name)

    @property
    def most_items(self) -> int:
        """The most work-items that a work-group of this kernel may have."""
        return self._kernel.resources.work_group_size

    @functools.cached_property
    def types(self) -> dict[int, np.dtype[Any]]:
        """By argument number: what a pointer points to, or what a value is, if clang's parser knows."""
        parsed = self._kernel.program.parsed
        return (
            {} if parsed is None else {**element_types(parsed, self.name), **value_types(parsed, self.name)}
        )

    def _runner(self) -> Any:
        way = self.program.way
        if way.order is not None:
            return functools.partial(run_in_order, self._session, self._kernel, Order.parse(way.order))
        if way.workers == NATIVE:
            return functools.partial(run_natively, self._session, self._kernel)
        return functools.partial(run_on_workers, self._session, self._kernel)

    def _check(self, ready: Sequence[Ready], ndrange: NDRange) -> tuple[list[Finding], list[tuple[int, str]]]:
        __tracebackhide__ = True
        way = self.program.way
        if not way.check:
            return [], [(self._kernel.info.line, "accesses are not checked")]
        try:
            checked = self._checked(ready, ndrange)
        except NotCheckable as reason:
            return [], [(self._kernel.info.line, f"accesses are not checked: {reason}")]
        wrong = [finding for finding in checked.findings if finding.kind not in self.program.hidden]
        if self.program.accepted is not None:
            wrong = self.program.accepted.left(wrong)
        if wrong:
            raise FindingsError(wrong)
        return checked.findings, [*self.program.checked.skipped, *checked.notes]

    def _compare(self, ready: Sequence[Ready], ndrange: NDRange, *, cuts: bool) -> None:
        """Raises FindingsError if the result depends on the order of work-groups."""
        args = launched(ready, [memory_of(arg) for arg in ready])
        line = self._kernel.info.line
        text = self.program.source.splitlines()
        excerpt = text[line - 1] if 0 < line <= len(text) else ""
        place = Place(self.program.file, line, 1, self.name, "", excerpt)
        required = any(self._kernel.resources.compile_work_group_size)
        found = compare_orders(self._session, self._kernel, args, ndrange, place, cuts=cuts and not required)
        if found:
            raise FindingsError(found)

    def _checked(self, ready: Sequence[Ready], ndrange: NDRange) -> Checked:
        source = self.program.checked
        args = launched(ready, [memory_of(arg) for arg in ready])

        def launch(backend: Backend) -> Checked:
            return source.launch(backend, self.name, args, ndrange)

        return open_session("cpu:1").executor.call(0, launch)

    def _count(self, ready: Sequence[Ready], ndrange: NDRange) -> None:
        """Add what the launch covers, if coverage is wanted; after the checks, whose findings end the call."""
        if (counting := current()) is not None:
            args = launched(ready, [memory_of(arg) for arg in ready])
            executor = open_session("cpu:1").executor
            counting.launch(self._kernel.program, self.name, args, ndrange, lambda run: executor.call(0, run))

    def _why_one_worker(self, ready: Sequence[Ready], ndrange: NDRange) -> tuple[str, ...]:
        args = launched(ready, [memory_of(arg) for arg in ready])
        launch, buffers = launch_of(self._session, self._kernel, args, ndrange)
        return against_splitting(launch, buffers)

    def last_writers(
        self, ready: Sequence[Ready], ndrange: NDRange, places: Sequence[tuple[int, int, int]]
    ) -> tuple[list[Writer | None], list[Memory | None]]:
        """Run once more to see which work-items write each place (argument, first byte, bytes) last, and what the
        memories hold then. Raises NotCheckable.
        """
        source = self.program.tracked
        memories = [memory_of(arg) for arg in ready]
        args = launched(ready, memories)

        def launch(backend: Backend) -> Checked:
            return source.launch(backend, self.name, args, ndrange, places)

        return open_session("cpu:1").executor.call(0, launch).writers, memories

    def _ndrange(self, global_size: Size, local_size: Size | None, offset: Size | None) -> NDRange:
        __tracebackhide__ = True
        sizes = _sizes(global_size)
        first = (0,) * len(sizes) if offset is None else _sizes(offset)
        resources = self._kernel.resources
        required = resources.compile_work_group_size[: len(sizes)]
        chosen = self.program.way.local_size
        if local_size is None and chosen is not None and not all(required):
            group = chosen
        elif local_size is None:
            group = choose_local_size(
                sizes,
                max_group_size=resources.work_group_size,
                required=required,
                multiple=resources.preferred_multiple,
            )
        else:
            group = _sizes(local_size)
        self._check_sizes(sizes, group, first, resources.work_group_size)
        if all(required) and group != required:
            raise ArgumentError(
                f"kernel {self.name} requires work-groups of {required}; got local_size {group}"
            )
        return NDRange(sizes, group, first)

    def _check_sizes(
        self, sizes: tuple[int, ...], group: tuple[int, ...], first: tuple[int, ...], most: int
    ) -> None:
        """What clEnqueueNDRangeKernel would refuse (OpenCL 3.0, 5.8)."""
        __tracebackhide__ = True
        if not 1 <= len(sizes) <= 3 or len({len(sizes), len(group), len(first)}) > 1:
            raise ArgumentError(
                f"kernel {self.name}: global_size {sizes}, local_size {group} and offset {first} need the same number "
                "of dimensions, from 1 to 3"
            )
        if min((*sizes, *group)) < 1 or min(first) < 0:
            raise ArgumentError(
                f"kernel {self.name}: global_size {sizes}, local_size {group}, offset {first}: too small"
            )
        if any(size % local for size, local in zip(sizes, group, strict=True)):
            raise ArgumentError(f"kernel {self.name}: local_size {group} does not divide global_size {sizes}")
        if prod(group) > most:
            raise ArgumentError(f"kernel {self.name}: a work-group of {group} is more than {most} work-items")


@dataclass(frozen=True)
class Made:
    """The call that left an argument's memory (`origins.Origin`)."""

    kernel: Kernel
    ready: Sequence[Ready]
    ndrange: NDRange
    call: Call | None
    index: int

    def writers(self, content: Array, places: Sequence[tuple[int, int]]) -> list[str]:
        wanted = [(self.index, first, nbytes) for first, nbytes in places]
        try:
            found, memories = self.kernel.last_writers(self.ready, self.ndrange, wanted)
        except NotCheckable:
            return [""] * len(places)
        again = memories[self.index]
        assert again is not None
        texts = []
        for (first, nbytes), writer in zip(places, found, strict=True):
            here = slice(first, first + nbytes)
            # The array has been changed since, or its content depends on the run: who wrote it this time says
            # nothing.
            same = content[here].tobytes() == again.content[here].tobytes()
            texts.append(_written_by(writer) if same else "")
        return texts

    def script(self, result: Array, expected: Array, function: str, settings: Mapping[str, float]) -> str:
        if self.call is None:
            return ""
        given = "".join(f", {name}={value!r}" for name, value in settings.items())
        return self.call.script(f"{function}({self._named(result)}, {written(expected)}{given})")

    def _named(self, result: Array) -> str:
        """A part of the output, as the script names it."""
        arg, name = self.ready[self.index], f"outputs[{self.kernel.infos[self.index].name!r}]"
        assert isinstance(arg, Given | Empty)
        like = arg.whole if isinstance(arg, Given) else arg
        if result.flags.c_contiguous and (result.shape, result.dtype) == (like.shape, like.dtype):
            return name
        found = origins.find(result)
        first = 0 if found is None else origins.byte_of(result, (0,) * result.ndim, found[0])
        return f"np.ndarray({result.shape}, {dtype_text(result.dtype)}, {name}, {first}, {result.strides})"


def _written_by(writer: Writer | None) -> str:
    if writer is None:
        return "no work-item wrote it"
    times = f", the last of {writer.count} writes" if writer.count > 1 else ""
    line = f"{writer.place.file or NO_FILE}:{writer.place.line}"
    return f"written by {describe(writer.who)} at {line}{times}: {writer.place.excerpt.strip()}"


def _sizes(size: Size) -> tuple[int, ...]:
    """The sizes as a tuple. Raises ArgumentError for anything but whole numbers."""
    try:
        many = size if isinstance(size, Sequence | np.ndarray) else (size,)
        return tuple(operator.index(each) for each in many)
    except TypeError:
        raise ArgumentError(
            f"the size of an index space is one to three whole numbers; got {size!r}"
        ) from None


def _read(source: str | Path) -> tuple[str, str]:
    """(file, or an empty text; the program's text)"""
    if isinstance(source, Path) or (source.endswith(".cl") and "\n" not in source):
        return str(source), read_source(Path(source))
    return "", source
