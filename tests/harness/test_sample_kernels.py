"""Every kernel of the samples, called by one call each with what its sample gives it: nothing to find, and the sample's own result.

A sample runs natively while what it launches is noted; then the kernels are called from arrays through the fixture.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from tests.cpu.test_samples import ARGUMENTS, PICTURES, SAMPLES
from tests.harness.sample_runs import OTHERS
from vdev.harness import Program, assert_equal, image, local
from vdev.harness.memories import is_output
from vdev.harness.pixels import ORDERS
from vdev.harness.running import open_session

#: Samples whose kernels are all PyOpenCL's own, which it launches in ways of its own.
OF_PYOPENCL = {"option_arrays", "saxpy", *OTHERS}
NAMES = sorted(set(ARGUMENTS) - OF_PYOPENCL)
#: Kernels whose work-items hand out places by atomics: in which order differs from run to run, and what is where with it.
ANY_ORDER = {"place"}
#: A search by levels marks vertices without atomics, and every mark of a launch is the same.
RACES_MEANT = ("breadth_first_search",)


@dataclass(frozen=True)
class Launch:
    """What a sample gave a kernel, and what the kernel left in those arguments, by number."""

    source: str
    options: list[str]
    kernel: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None
    args: list[Any]
    left: dict[int, np.ndarray]


class Notes:
    """The first launch of each kernel that stands in a sample's text `own`, taken down as it is made."""

    def __init__(self, own: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._own = own
        self.launches: dict[tuple[str, str], Launch] = {}
        self._options: dict[
            int, tuple[Any, list[str]]
        ] = {}  # with the program, so that no other has its number
        self._texts: dict[int, tuple[Any, str, list[str]]] = {}
        self._build, self._make, self._call = cl.Program.build, cl.Kernel, cl.Kernel.__call__
        build, call = self._note_build, self._note_call
        monkeypatch.setattr(cl.Program, "build", lambda self, *given, **more: build(self, *given, **more))
        monkeypatch.setattr(cl.Kernel, "__call__", lambda self, *given, **more: call(self, *given, **more))
        monkeypatch.setattr(cl, "Kernel", self._note_kernel)

    def _note_build(self, program: Any, options: Any = (), **more: Any) -> Any:
        words = options.split() if isinstance(options, str) else list(options or ())
        self._options[id(program)] = program, words
        return self._build(program, options, **more)

    def _note_kernel(self, program: Any, name: str) -> Any:
        kernel = self._make(program, name)
        self._texts[id(kernel)] = kernel, program._source, self._options[id(program)][1]
        return kernel

    def _note_call(
        self, kernel: Any, queue: Any, global_size: Any, local_size: Any, *args: Any, **more: Any
    ) -> Any:
        _, text, options = self._texts[id(kernel)]
        key = text, kernel.function_name
        if key in self.launches or f" {kernel.function_name}(" not in self._own:
            return self._call(kernel, queue, global_size, local_size, *args, **more)
        queue.finish()
        for event in more.get("wait_for") or ():
            event.wait()
        before = [_content(queue, arg) for arg in args]
        event = self._call(kernel, queue, global_size, local_size, *args, **more)
        queue.finish()
        left = {n: _content(queue, arg) for n, arg in enumerate(args) if isinstance(arg, cl.MemoryObject)}
        self.launches[key] = Launch(
            text, options, kernel.function_name, global_size, local_size, before, left
        )
        return event


def _content(queue: Any, arg: Any) -> Any:
    """An argument as a call takes it; buffers as bytes."""
    if isinstance(arg, cl.LocalMemory):
        return local(arg.size)
    if isinstance(arg, cl.Image):
        return _pixels(queue, arg)
    if not isinstance(arg, cl.Buffer):
        return arg
    found = np.empty(arg.size, np.uint8)
    cl.enqueue_copy(queue, found, arg)
    return found


def _pixels(queue: Any, arg: Any) -> np.ndarray:
    form = arg.format
    names = {number: name for name, (number, _) in ORDERS.items()}
    channels = ORDERS[names[form.channel_order]][1]
    types = {
        cl.channel_type.UNORM_INT8: np.uint8,
        cl.channel_type.UNSIGNED_INT8: np.uint8,
        cl.channel_type.FLOAT: np.float32,
    }
    found = np.empty((arg.height, arg.width, channels), types[form.channel_data_type])
    cl.enqueue_copy(queue, found, arg, origin=(0, 0), region=(arg.width, arg.height))
    return found


def given(kernel: Any, launch: Launch, number: int, content: Any) -> Any:
    """Bytes as an array of what the kernel's parameter points to."""
    info = kernel.infos[number]
    if not isinstance(content, np.ndarray) or content.ndim != 1 or content.dtype != np.uint8:
        is_normalized = (
            info.kind == "image" and content.dtype == np.uint8 and "read_imageui" not in launch.source
        )
        return image(content, normalized=True) if is_normalized else content
    element = kernel.types.get(number)
    if element is None or element.names == (".x", ".y", ".z"):
        return content if element is None else content.view(element.fields[".x"][0])
    return content.view(element)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in RACES_MEANT])
def test_its_kernels(
    name: str, opencl_program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check_kernels(name, opencl_program, monkeypatch, tmp_path)


@pytest.mark.opencl(ignore=("race-between-groups",))
@pytest.mark.parametrize("name", RACES_MEANT)
def test_its_kernels_but_for_races(
    name: str, opencl_program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    check_kernels(name, opencl_program, monkeypatch, tmp_path)


def check_kernels(
    name: str, opencl_program: Callable[..., Program], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Run a sample natively, and each kernel's first launch once more by the fixture."""
    open_session("cpu:1")  # the loader of drivers looks for them once, and this says where an engine is
    path, picture = SAMPLES / f"{name}.py", ["--output", str(tmp_path / "picture.png")]
    arguments = [*ARGUMENTS[name].split(), *(picture if name in PICTURES else [])]
    with monkeypatch.context() as patch:
        notes = Notes(path.read_text(), patch)
        patch.setattr(sys, "argv", [str(path), *arguments])
        patch.syspath_prepend(str(SAMPLES))
        runpy.run_path(str(path), run_name="__main__")

    assert notes.launches
    for launch in notes.launches.values():
        kernel = opencl_program(launch.source, launch.options).kernel(launch.kernel)
        args = [given(kernel, launch, number, arg) for number, arg in enumerate(launch.args)]
        outputs = kernel(*args, global_size=launch.global_size, local_size=launch.local_size)
        assert outputs.notes == ()
        written = {info.name for info in kernel.infos if is_output(info)}
        assert written
        for number, left in launch.left.items():
            parameter = kernel.infos[number].name
            if parameter not in written:
                continue
            computed = outputs[parameter].reshape(-1)
            expected = left.reshape(-1).view(computed.dtype)
            if launch.kernel in ANY_ORDER:
                computed, expected = np.sort(computed), np.sort(expected)
            assert_equal(computed, expected)


def test_all_samples_are_covered_except_pyopencls_own_kernels() -> None:
    own = [
        path
        for path in SAMPLES.glob("*.py")
        if "kernel void" in path.read_text() or "__kernel" in path.read_text()
    ]
    assert {path.stem for path in own} <= set(NAMES)
