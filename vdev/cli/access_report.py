"""`vdev-info --access kernel.cl`: what the analysis finds in each kernel of a file, before anything runs.

Decides how that is shown: as text, as JSON, and as a picture (SVG) of which bytes each worker of a given launch reads
and writes. The accesses come from the analysis, and the cut from the planner, with all data in host memory. It needs no
device: the program is compiled for the translators' own target.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vdev.cli.access_facts import KernelReport, LaunchReport, Setting, WorkerPart
from vdev.cli.access_picture import Row, draw
from vdev.cli.access_text import as_json, as_text, times
from vdev.planner.directory import HOST, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.launch_request import LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.partitioner import choose_local_size
from vdev.translators.dialects.image_lowering import lower_images
from vdev.translators.dialects.subgrid import Untranslatable, translate_subgrid
from vdev.translators.frontend.source import (
    ArgInfo,
    CompileError,
    KernelInfo,
    ParsedProgram,
    parse_program,
    read_source,
)
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.summaries import AccessRange, KernelSummary
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk
from vdev.translators.ranges.region import Region

_ANY_SIZE = 1 << 40  #: bytes: farther than any launch reaches, except "anywhere"
#: bytes: an access that reaches that far has an index that may be any int
_ANYWHERE = 1 << 31
_POINTERS = ("global", "constant")
_MOST_RUNS = 1 << 16  #: the most bytes of a work-group's range in which the length of a row is looked for
_GROUP_SIZE = 256  #: if the command line gives none


class AccessError(Exception):
    """A question that cannot be answered; the text says what is missing."""


def report_file(
    path: Path, options: Sequence[str] = (), setting: Setting | None = None, kernel: str | None = None
) -> list[KernelReport]:
    """The kernels of an OpenCL C file, or the one named. Raises CompileError, AccessError and OSError."""
    program = parse_program(read_source(path), [*options, f"-I{path.resolve().parent}"])
    names = [name for name in program.kernels if kernel in (None, name)]
    if not names:
        raise AccessError(
            f"no kernel {kernel or ''} in {path.name}; it has {', '.join(program.kernels) or 'none'}"
        )
    if setting is not None:
        known = {arg.name for name in names for arg in program.kernels[name].args} | {""}
        for name in (*setting.values, *setting.sizes, *setting.pitches):
            if name not in known:
                raise AccessError(f"there is no argument {name}; there are {', '.join(sorted(known - {''}))}")
    return [_report_kernel(program, name, setting) for name in names]


def _report_kernel(program: ParsedProgram, name: str, setting: Setting | None) -> KernelReport:
    info = program.kernels[name]
    try:
        lowered = lower_images(program)
        translate_subgrid(lowered.program)
        summary = analyse_kernel(lowered.model, name)
    except Untranslatable as error:
        return KernelReport(
            info, KernelSummary(name), problem=f"one worker: {error.reason} (line {error.line})"
        )
    if setting is None:
        return KernelReport(info, summary)
    try:
        return KernelReport(info, summary, launch=_report_launch(info, summary, setting))
    except AccessError as error:
        return KernelReport(info, summary, problem=str(error))


# a launch ---------------------------------------------------------------------------------------


def _report_launch(info: KernelInfo, summary: KernelSummary, setting: Setting) -> LaunchReport:
    ndrange = _ndrange(info, setting)
    values = _values(info, summary, setting)
    sizes, assumed = _sizes(info, summary, setting, ndrange, values)
    pointers = tuple(PointerArg(arg, slot, 0, nbytes) for slot, (arg, nbytes) in enumerate(sizes.items()))
    states = [buffer_state(nbytes, ((HOST, Region.span(0, nbytes)),)) for nbytes in sizes.values()]

    def evaluate(chunk: Chunk) -> Sequence[AccessRange]:
        return summary.of_launch(ndrange, values, sizes).of(chunk)

    request = LaunchRequest(pointers, ndrange, evaluate, summary.one_worker)
    links = LinkCosts.uniform(setting.workers, peer=0.5, per_run=256.0)
    plan = plan_launch(states, request, LaunchOptions(tuple(range(setting.workers)), links))
    parts = tuple(WorkerPart(worker, chunk, tuple(evaluate(chunk))) for worker, chunk in plan.partition)
    pitches = {
        arg: pitch for arg in sizes if (pitch := _pitch(info.args[arg].name, arg, ndrange, evaluate, setting))
    }
    return LaunchReport(ndrange, parts, plan.reasons, plan.moved_nbytes, sizes, assumed, pitches)


def _ndrange(info: KernelInfo, setting: Setting) -> NDRange:
    size = setting.global_size
    local = setting.local_size or choose_local_size(
        size,
        max_group_size=_GROUP_SIZE,
        required=info.reqd_work_group_size and info.reqd_work_group_size[: len(size)],
        min_groups=setting.workers,
    )
    offset = setting.offset or (0,) * len(size)
    if not 1 <= len(size) <= 3 or not len(size) == len(local) == len(offset):
        raise AccessError(
            "--global, --local and --offset take one to three numbers, the same number for each"
        )
    if min(size) < 1 or min(local) < 1:
        raise AccessError("--global and --local take numbers from 1")
    return NDRange(size, local, offset)


def _values(info: KernelInfo, summary: KernelSummary, setting: Setting) -> dict[int, int | float | bytes]:
    """The numbers of the arguments that matter. Raises AccessError if one is missing."""
    if any(index >= len(info.args) for index in summary.scalars):
        raise AccessError(
            "which bytes it accesses depends on the sizes of its images, which cannot be given here"
        )
    names = {index: info.args[index].name for index in sorted(summary.scalars)}
    missing = [name for name in names.values() if name not in setting.values]
    if missing:
        raise AccessError(
            f"which bytes it accesses depends on {', '.join(missing)}: give {' '.join(f'--set {m}=…' for m in missing)}"
        )
    return {index: _value(info.args[index], setting.values[name]) for index, name in names.items()}


def _value(arg: ArgInfo, text: str) -> int | float | bytes:
    """A number in the argument's type; for vectors and structures hexadecimal bytes."""
    try:
        if arg.scalar is None:
            content = bytes.fromhex(text.removeprefix("0x"))
            if len(content) != arg.nbytes:
                raise ValueError
            return content
        number: int | float = float(text) if arg.scalar in "efd" else int(text, 0)
        struct.pack("=" + arg.scalar, number)
        return number
    except (ValueError, struct.error):
        form = (
            f"{arg.nbytes} bytes in hexadecimal"
            if arg.scalar is None
            else f"a number of type {arg.type_name}"
        )
        raise AccessError(f"--set {arg.name}={text}: not {form}") from None


def _sizes(
    info: KernelInfo,
    summary: KernelSummary,
    setting: Setting,
    ndrange: NDRange,
    values: Mapping[int, int | float | bytes],
) -> tuple[dict[int, int], frozenset[int]]:
    """Bytes of each pointer argument.

    If none are given: up to the last byte that the launch touches; if that may be anywhere, an element for each
    work-item.
    """
    pointers = [index for index, arg in enumerate(info.args) if arg.kind in _POINTERS]
    ranges = summary.evaluate(ndrange, whole_chunk(ndrange), values, dict.fromkeys(pointers, _ANY_SIZE))
    sizes, assumed = {}, set()
    for index in pointers:
        given = setting.sizes.get(info.args[index].name)
        if given is None:
            assumed.add(index)
            stops = [found.region.stop for found in ranges if found.arg == index and found.region]
            bounded = [stop for stop in stops if stop < _ANYWHERE]
            item = max(info.args[index].nbytes, 1)
            given = (
                max(bounded)
                if bounded and len(bounded) == len(stops)
                else max([ndrange.nitems * item, *bounded])
            )
        sizes[index] = given
    return sizes, frozenset(assumed)


def _pitch(name: str, arg: int, ndrange: NDRange, evaluate: Any, setting: Setting) -> int | None:
    """Bytes from one row to the next: as given, or as a work-group in the middle of a launch in several dimensions
    shows.
    """
    given = setting.pitches.get(name, setting.pitches.get(""))
    if given is not None or ndrange.work_dim < 2:
        return given
    middle = tuple(groups // 2 for groups in ndrange.num_groups)
    for found in evaluate(Chunk(middle, tuple(first + 1 for first in middle))):
        if found.arg == arg and 1 < len(found.region) <= _MOST_RUNS:
            starts = found.region.runs[:, 0]
            ((step, count),) = Counter((starts[1:] - starts[:-1]).tolist()).most_common(1)
            if 2 * count >= len(starts) - 1:
                return int(step)
    return None


def picture(report: KernelReport) -> str:
    """The launch of a kernel as SVG. Raises AccessError if there is no launch."""
    launch = report.launch
    if launch is None:
        raise AccessError(report.problem or "a picture needs a launch: give --global")
    rows = []
    for index, nbytes in launch.sizes.items():
        touched: list[dict[str, Region]] = []
        for part in launch.parts:
            modes: dict[str, Region] = {}
            for found in part.ranges:
                if found.arg == index:
                    modes[found.mode] = modes.get(found.mode, Region.empty()) | found.region
            touched.append(modes)
        rows.append(Row(report.info.args[index].name, nbytes, touched, launch.pitches.get(index)))
    ndrange, count = launch.ndrange, len(launch.parts)
    workers = f"{count} workers" if count > 1 else "one worker"
    title = f"{report.info.name}: {times(ndrange.global_size)} work-items in groups of {times(ndrange.local_size)}, {workers}"
    return draw(title, rows)


# the command ------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """`vdev-info --access …`; 0 if every question was answered, else 1."""
    given = _parser().parse_args(arguments)
    if given.picture is not None and given.picture.suffix.lower() != ".svg":
        print("pictures are SVG files: give a name that ends in .svg", file=sys.stderr)
        return 1
    options = [
        *given.options.split(),
        *(f"-D{macro}" for macro in given.D),
        *(f"-I{folder}" for folder in given.I),
    ]
    setting = None
    if given.global_size is not None:
        setting = Setting(
            given.global_size, given.local, given.offset, given.workers, dict(given.set), dict(given.size), dict(given.pitch)
        )  # fmt: skip
    try:
        reports = report_file(given.file, options, setting, given.kernel)
        print(json.dumps(as_json(reports), indent=2) if given.json else as_text(reports))
        if given.picture is not None:
            _write_pictures(given.picture, reports)
    except CompileError as error:
        print(error.log, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except AccessError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if setting is None or all(report.launch is not None for report in reports) else 1


def _write_pictures(path: Path, reports: Sequence[KernelReport]) -> None:
    """One file; for several kernels one each, with the kernel's name before the ending."""
    for report in reports:
        own = path if len(reports) == 1 else path.with_name(f"{path.stem}-{report.info.name}{path.suffix}")
        own.write_text(picture(report))
        print(f"drawn: {own}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vdev-info --access",
        description="Show what the analysis finds in each kernel of an OpenCL C file and, with --global, which bytes each "
        "worker of a launch would read and write. Needs no device.",
    )
    _add_source(parser)
    _add_launch(parser)
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="draw the launch")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    return parser


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="OpenCL C source")
    parser.add_argument(
        "-D", action="append", default=[], metavar="NAME=VALUE", help="define a macro, as for the compiler"
    )
    parser.add_argument(
        "-I", action="append", default=[], metavar="FOLDER", help="look for included files here"
    )
    parser.add_argument("--options", default="", help="more build options, in one string")
    parser.add_argument("--kernel", help="only this kernel")


def _add_launch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--global", dest="global_size", type=_numbers, metavar="X,Y,Z", help="work-items of a launch"
    )
    parser.add_argument("--local", type=_numbers, metavar="X,Y,Z", help="work-items in a group")
    parser.add_argument("--offset", type=_numbers, metavar="X,Y,Z", help="global work offset")
    parser.add_argument(
        "--workers", type=_count, default=2, metavar="N", help="number of workers (default: 2)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        type=_pair,
        metavar="ARGUMENT=VALUE",
        help="value of an argument",
    )
    parser.add_argument(
        "--size", action="append", default=[], type=_sized, metavar="ARGUMENT=BYTES",
        help="size of a buffer (default: as much as the launch accesses)",
    )  # fmt: skip
    parser.add_argument(
        "--pitch", action="append", default=[], type=_pitched, metavar="[ARGUMENT=]BYTES",
        help="draw a buffer (without a name: every buffer) as a matrix with rows of this many bytes",
    )  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(text)
    return name, value


def _sized(text: str) -> tuple[str, int]:
    name, value = _pair(text)
    return name, _count(value)


def _pitched(text: str) -> tuple[str, int]:
    return _sized(text) if "=" in text else ("", _count(text))
