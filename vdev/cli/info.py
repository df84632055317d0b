"""`vdev-info`: what the virtual device is made of here, which switches are in force, and what is wrong, if
anything.

Decides whether a kernel could run, by running one on every worker. It changes nothing on the machine, and
no problem that it finds keeps it from looking for the next.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import platform
import shlex
import site
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vdev
from vdev import boot
from vdev.cli import explained_run
from vdev.cli.pipes import ends_with_its_reader
from vdev.errors import CudaMissing, NoWorkers
from vdev.process import switches
from vdev.translators.values import dataclass

if TYPE_CHECKING:
    from vdev.session.session import Session

#: What vdev cannot run without: the distribution, and what is imported from it.
REQUIRED = {
    "pyopencl": "pyopencl",
    "numpy": "numpy",
    "sympy": "sympy",
    "libclang": "clang.cindex",
}
HOOK_NAME = "vdev.pth"
_NITEMS = 4096
_SOURCE = "__kernel void squares(__global uint *out) { uint i = get_global_id(0); out[i] = i * i + 1; }"
# CL_DEVICE_ constants (OpenCL 3.0, table "Device queries")
_NAME, _COMPUTE_UNITS, _MAX_ALLOC, _MEMORY = 0x102B, 0x1002, 0x1010, 0x101F


@dataclass(frozen=True)
class Problem:
    """Something wrong: what, and what to do about it (empty if the text says so). `fatal`: nothing runs."""

    text: str
    remedy: str = ""
    fatal: bool = True


@dataclass
class Report:
    """Everything that `vdev-info` says; `as_json` is what `--json` prints. Sizes in bytes."""

    version: str = vdev.__version__
    python: str = platform.python_version()
    hook: str | None = None
    packages: dict[str, str | None] = field(default_factory=dict)
    switches: list[dict[str, Any]] = field(default_factory=list)
    engines: list[dict[str, str]] = field(default_factory=list)
    native_devices: list[dict[str, str]] = field(default_factory=list)
    gpus: list[dict[str, str]] = field(default_factory=list)
    cuda_missing: str | None = None  #: why CUDA offers no GPU
    lists_missing: str | None = None  #: why calls of GPUs' drivers are not made in lists
    device: dict[str, Any] | None = None
    workers: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """A kernel ran on every worker."""
        ran = bool(self.workers) and all(worker["kernel_ran"] for worker in self.workers)
        return ran and not any(problem.fatal for problem in self.problems)

    def as_json(self) -> dict[str, Any]:
        return {"usable": self.usable, **dataclasses.asdict(self)}


def gather() -> Report:
    """Look at everything. Puts the stand-in in PyOpenCL's place in this process."""
    boot.start()
    report = Report()
    _look_at_switches(report)
    _look_at_packages(report)
    _look_at_hook(report)
    if any(problem.fatal for problem in report.problems):
        return report
    for look in (_look_at_engines, _look_at_cuda, _look_at_workers, _look_at_device):
        try:
            look(report)
        except NoWorkers as error:
            named = os.environ.get(switches.WORKERS.name)
            remedy = f"set {switches.WORKERS.name} to what can be used, or unset it" if named else ""
            report.problems.append(Problem(str(error), remedy))
            break
        except Exception as error:
            # whatever it is, the user wants to read it here, together with everything else
            report.problems.append(Problem(f"{type(error).__name__}: {error}"))
            break
    return report


def _look_at_switches(report: Report) -> None:
    for switch in switches.SWITCHES:
        row = {
            "name": switch.name,
            "text": switch.text(),
            "set": bool(os.environ.get(switch.name)),
            "default": switch.default,
            "meaning": switch.meaning,
        }
        report.switches.append(row)
        try:
            switch.value()
        except switches.SwitchError as error:
            report.problems.append(Problem(str(error), f"set {switch.name} to a valid value or unset it"))
    report.problems += [Problem(text, remedy, fatal=False) for text, remedy in switches.slips()]


def _look_at_packages(report: Report) -> None:
    for name, module in REQUIRED.items():
        try:
            report.packages[name] = metadata.version(name)
            if name != "pyopencl":  # while its native module uses the workers
                importlib.import_module(module)
        except (metadata.PackageNotFoundError, ImportError) as error:
            report.packages.setdefault(name, None)
            reason = "" if isinstance(error, metadata.PackageNotFoundError) else f" ({error})"
            report.problems.append(Problem(f"{name} is missing{reason}", f"pip install {name}"))
    if "clang.cindex" in sys.modules:
        _look_at_libclang(report)


def _look_at_libclang(report: Report) -> None:
    from clang import cindex

    try:
        cindex.Index.create()
    except cindex.LibclangError as error:
        remedy = "pip install --force-reinstall libclang"
        report.problems.append(Problem(f"libclang does not load: {error}", remedy))


def _look_at_hook(report: Report) -> None:
    folders = [sysconfig.get_path("purelib"), *site.getsitepackages(), site.getusersitepackages()]
    found = [path for folder in folders if (path := Path(folder, HOOK_NAME)).is_file()]
    report.hook = str(found[0]) if found else None
    if not found:
        text = "the start-up hook is not installed: VDEV=1 does nothing in this environment"
        report.problems.append(Problem(text, "install vdev with pip, or use `python -m vdev`", fatal=False))


def _look_at_engines(report: Report) -> None:
    from vdev.backends.opencl.devices import native_devices
    from vdev.start import engines

    report.engines = [dataclasses.asdict(engine) for engine in engines.register_engines()]
    named = os.environ.get(engines.VARIABLE)
    if named and not report.engines:
        text = f"{engines.VARIABLE}={named!r} names no existing driver"
        report.problems.append(Problem(text, f"unset {engines.VARIABLE}", fatal=False))
    report.native_devices = [
        {"spec": f"opencl:{number}.{index}", "name": device.name, "platform": device.platform}
        for number, group in enumerate(native_devices())
        for index, device in enumerate(group)
    ]


def _look_at_cuda(report: Report) -> None:
    from vdev.backends import call_lists
    from vdev.backends.cuda import driver as cuda_driver

    try:
        report.gpus = [
            {"spec": f"cuda:{number}", "name": name} for number, name in enumerate(cuda_driver.device_names())
        ]
    except CudaMissing as missing:
        report.cuda_missing = str(missing)
        return
    try:
        call_lists.walker()
    except call_lists.NoWalker as missing:
        report.lists_missing = str(missing)


def _look_at_workers(report: Report) -> None:
    from vdev.start.current import get_session

    session = get_session()
    for number, info in enumerate(session.workers):
        row = {
            "number": number,
            "backend": info.backend,
            "name": info.name,
            "platform": info.platform,
            "driver": info.driver,
            "compute_units": info.compute_units,
            "memory_nbytes": info.memory_nbytes,
            "max_alloc_nbytes": info.max_alloc_nbytes,
            "kernel_ran": False,
        }
        report.workers.append(row)
        failure = _run_kernel(session, number)
        row["kernel_ran"] = failure is None
        if failure is not None:
            report.problems.append(Problem(f"worker {number}: {failure}"))
    report.links = [
        {"workers": [one, other], "route": _route(session, one, other)}
        for other in range(len(session.workers))
        for one in range(other)
    ]


def _run_kernel(session: Session, number: int) -> str | None:
    """What went wrong with a small kernel on worker `number` and no other; None if it wrote what it should."""
    import numpy as np

    from vdev.session.commands import BufferArg, Launch, Read
    from vdev.translators.ranges.ndrange import NDRange
    from vdev.translators.ranges.rectangles import Layout

    everyone, choosing = session.launch_options, session.choosing
    # The planner must not choose another worker, whatever planning has cost so far.
    session.launch_options, session.choosing = dataclasses.replace(everyone, workers=(number,)), None
    launched = session.executor.counters()[number].launches
    result = np.zeros(_NITEMS, np.uint32)
    try:
        program = session.build(_SOURCE)
        buffer = session.create_buffer(result.nbytes)
        queue = session.create_queue(in_order=True)
        args = (BufferArg(buffer, 0, result.nbytes),)
        session.submit(
            Launch(program.kernels["squares"], args, NDRange((_NITEMS,), (64,), (0,))), queue=queue
        )
        layout = Layout.contiguous(0, result.nbytes)
        status = session.submit(Read(buffer, layout, result.view(np.uint8)), queue=queue).wait()
    except Exception as error:
        # a driver may fail in any way; this is the place that reports how
        return f"{type(error).__name__}: {error}"
    finally:
        session.launch_options, session.choosing = everyone, choosing
    index = np.arange(_NITEMS, dtype=np.uint32)
    if status != 0:
        return f"a small kernel failed with status {status}"
    if not np.array_equal(result, index * index + 1):
        return "a small kernel gave a wrong result"
    if session.executor.counters()[number].launches == launched:
        return "a small kernel ran on another worker"
    return None


def _route(session: Session, one: int, other: int) -> str:
    if session.workers[one].device_key == session.workers[other].device_key:
        return "within one device"
    if {session.workers[one].backend, session.workers[other].backend} == {"cuda"}:
        return "from GPU to GPU"
    return "through host memory"


def _look_at_device(report: Report) -> None:
    from vdev.facade.platform_device import get_platform

    device = get_platform().get_devices()[0]
    report.device = {
        "name": device.get_info(_NAME),
        "compute_units": device.get_info(_COMPUTE_UNITS),
        "memory_nbytes": device.get_info(_MEMORY),
        "max_alloc_nbytes": device.get_info(_MAX_ALLOC),
    }


# text -------------------------------------------------------------------------------------------


def as_text(report: Report) -> str:
    """The report for people."""
    sections: Sequence[Callable[[Report], list[str]]] = (
        _text_of_device,
        _text_of_engines,
        _text_of_switches,
        _text_of_packages,
        _text_of_problems,
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := section(report)))


def _text_of_device(report: Report) -> list[str]:
    if report.device is None and not report.workers:
        return ["virtual device: none"]
    lines = []
    if report.device is not None:
        device = report.device
        lines.append(f"virtual device: {device['name']}")
        lines.append(
            f"  {device['compute_units']} compute units, {_size(device['memory_nbytes'])}, "
            f"largest allocation {_size(device['max_alloc_nbytes'])}"
        )
    lines.append("workers:")
    for worker in report.workers:
        lines.append(
            f"  {worker['number']}  {worker['backend']}  {worker['name']} ({worker['platform']}), "
            f"{worker['compute_units']} compute units, {_size(worker['memory_nbytes'])}, "
            f"kernel {'ran' if worker['kernel_ran'] else 'FAILED'}"
        )
    routes: dict[str, list[str]] = {}
    for link in report.links:
        routes.setdefault(link["route"], []).append("-".join(map(str, link["workers"])))
    if routes:
        lines.append("links:")
        lines += [f"  {route}: {_shortened(pairs)}" for route, pairs in routes.items()]
    return lines


def _shortened(pairs: list[str], most: int = 8) -> str:
    return " ".join(pairs[:most]) + (f" and {len(pairs) - most} more" if len(pairs) > most else "")


def _text_of_engines(report: Report) -> list[str]:
    lines = [f"  {engine['library']} ({engine['origin']})" for engine in report.engines]
    devices = [
        f"  {device['spec']}  {device['name']} ({device['platform']})" for device in report.native_devices
    ]
    gpus = [f"  {gpu['spec']}  {gpu['name']}" for gpu in report.gpus]
    return (
        (["OpenCL drivers:", *lines] if lines else [])
        + (["native OpenCL devices:", *devices] if devices else [])
        + (["GPUs through CUDA:", *gpus] if gpus else [])
        + ([f"GPUs through CUDA: none ({report.cuda_missing})"] if report.cuda_missing else [])
        + ([f"GPUs' calls are made one by one ({report.lists_missing})"] if report.lists_missing else [])
    )


def _text_of_switches(report: Report) -> list[str]:
    lines = ["switches (* set in the environment):"]
    for row in report.switches:
        lines.append(f"  {'*' if row['set'] else ' '} {row['name']}={row['text']}   default {row['default']}")
        lines += textwrap.wrap(row["meaning"], 100, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return lines


def _text_of_packages(report: Report) -> list[str]:
    packages = ", ".join(f"{name} {version or 'MISSING'}" for name, version in report.packages.items())
    hook = f"start-up hook: {report.hook or 'not installed'}"
    return [f"vdev {report.version}, Python {report.python}, {packages}", hook]


def _text_of_problems(report: Report) -> list[str]:
    if not report.problems:
        return ["no problem found: programs can run"]
    lines = [f"problems ({'programs can run' if report.usable else 'programs cannot run'}):"]
    for problem in report.problems:
        lines.append(f"  - {problem.text}" + (f"\n    -> {problem.remedy}" if problem.remedy else ""))
    return lines


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**30:.1f} GiB" if nbytes >= 2**30 else f"{nbytes / 2**20:.0f} MiB"


def _print_icd() -> int:
    """Print the environment in which OpenCL loaders find vdev; 1 if the driver cannot be had."""
    from vdev.icd import library  # needs no device, unlike the report

    try:
        environ = library.environment()
    except library.NoLibrary as error:
        print(f"vdev-info: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in environ.items()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vdev-info",
        description="Show what vdev's virtual device is made of and, if it is not usable, what is wrong.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--access", nargs=argparse.REMAINDER, metavar="kernel.cl …",
        help="show what the analysis finds in the kernels of a file (see `vdev-info --access --help`)",
    )  # fmt: skip
    parser.add_argument(
        "--explain", nargs=argparse.REMAINDER, metavar="script.py …",
        help="run a program and report what was split, what moved and where the time went "
        "(see `vdev-info --explain --help`)",
    )  # fmt: skip
    parser.add_argument(
        "--html",
        metavar="FILE",
        help="with --explain, which must come last: write the report to FILE, as a page for a browser",
    )
    parser.add_argument(
        "--icd", action="store_true",
        help="print, as lines for a shell, the variables by which OpenCL programs in other languages find vdev (`vdev-run` "
        "sets them for one program)",
    )  # fmt: skip
    parser.add_argument(
        "--links", action="store_true",
        help="measure how long submitting launches and copying between workers take, and store that for the time model",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"vdev {vdev.__version__}")
    return parser


@ends_with_its_reader
def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 if a kernel ran on every worker, else 1."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.access is not None:
        from vdev.cli import access_report  # needs the packages whose absence the report below would show

        return access_report.main(options.access)
    if options.explain is not None:
        return explained_run.main(options.explain, as_json=options.json, page=options.html)
    if options.html is not None:
        parser.error("--html needs --explain and a program")
    if options.icd:
        return _print_icd()
    if options.links:
        from vdev.cli import links

        return links.main(as_json=options.json)
    report = gather()
    print(json.dumps(report.as_json(), indent=2) if options.json else as_text(report))
    return 0 if report.usable else 1


if __name__ == "__main__":
    sys.exit(main())
