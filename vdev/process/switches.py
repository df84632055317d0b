"""The switches: every environment variable that vdev reads, in one table.

Decides what a switch is called, which values it may have and what it means if it is unset. The code, `vdev-info`
and the guide use this table and no other. Values are read from the environment at each call; nothing here
remembers or acts on them.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from vdev.process import folders

T = TypeVar("T")

MAX_WORKERS = 256  #: workers on one device; more is taken for a typing error
LEAST_MEMORY = 64 << 10  #: bytes of a worker's memory: with less, hardly any command has room
LOG_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class SwitchError(ValueError):
    """A switch with a value it cannot have; the text names the switch, the value and the valid ones."""


@dataclass(frozen=True)
class WorkerSpec:
    """Workers that the user asks for on one device.

    `kind` is 'cpu' (the first CPU device found), 'opencl' (the native OpenCL device with `device` =
    (platform, device)), 'cuda' (the GPU with `device` = (number,), every GPU where it is empty) or 'auto'
    (what is best on this machine). `count` workers share the device and its memory.
    """

    kind: str
    device: tuple[int, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        if self.kind == "cpu":
            return f"cpu:{self.count}"
        device = ".".join(map(str, self.device))
        return self.kind + (f":{device}" if device else "") + (f"*{self.count}" if self.count > 1 else "")


@dataclass(frozen=True)
class Switch(Generic[T]):
    """One row of the table. `parse` turns the text into the value; ValueError if it cannot."""

    name: str
    default: str  #: as the user would write it
    meaning: str
    valid: str  #: completes "valid: …" in an error
    parse: Callable[[str], T]

    def text(self, environ: Mapping[str, str] | None = None) -> str:
        """What the environment says, or the default; an empty value counts as unset."""
        return (os.environ if environ is None else environ).get(self.name) or self.default

    def value(self, environ: Mapping[str, str] | None = None) -> T:
        """The value in force. Raises SwitchError."""
        try:
            return self.parse(self.text(environ))
        except ValueError as error:
            raise self.wrong(str(error), environ) from None

    def wrong(self, reason: str = "", environ: Mapping[str, str] | None = None) -> SwitchError:
        """The error for what the environment says."""
        why = f": {reason}" if reason else ""
        return SwitchError(f"{self.name}={self.text(environ)!r} is not valid{why} (valid: {self.valid})")


def _parse_on(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError
    return text == "1"


def _parse_count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ValueError
    return int(text)


def _parse_least(text: str) -> int | None:
    return None if text == "auto" else _parse_count(text)


def _parse_whether(text: str) -> bool | None:
    return None if text == "auto" else _parse_on(text)


def _parse_planning(text: str) -> bool:
    if text not in ("auto", "always"):
        raise ValueError
    return text == "always"


def _parse_level(text: str) -> int | None:
    if text == "off":
        return None
    if text not in LOG_LEVELS:
        raise ValueError
    return LOG_LEVELS[text]


def _parse_output(text: str) -> Path | None:
    if text == "0":
        return None
    path = Path(text.replace("%p", str(os.getpid()))).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError("it is a folder" if path.is_dir() else f"{path.parent} is not a folder")
    return path.absolute()


def _parse_report(text: str) -> str | None:
    if text == "1":
        return "-"
    path = _parse_output(text)
    return None if path is None else str(path)


@dataclass(frozen=True)
class MemoryLimit:
    """What a worker may use of its memory: a number of bytes, or a share of what it has."""

    nbytes: int = 0
    share: float = 1.0

    def of(self, nbytes: int) -> int:
        """The limit in bytes of a worker that has `nbytes`.

        >>> MemoryLimit(64).of(1000), MemoryLimit(share=0.5).of(1000)
        (64, 500)
        """
        return min(nbytes, self.nbytes or int(nbytes * self.share))


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_memory(text: str) -> MemoryLimit | None:
    """The limit that `text` says, None for none. A number below 1, or one with `%`, is a share.

    >>> parse_memory("1.5G").nbytes, parse_memory("64M").nbytes, parse_memory("50%").share, parse_memory("0.5").share
    (1610612736, 67108864, 0.5, 0.5)
    """
    if text == "all":
        return None
    match = re.fullmatch(r"(\d{1,18}|\d{0,18}\.\d{1,18})(%|[KMGT]?)(?:i?B)?", text, re.ASCII | re.IGNORECASE)
    if match is None:
        raise ValueError
    number, unit = float(match[1]), match[2].upper()
    if unit == "%" or (not unit and number <= 1 and "." in match[1]):
        share = number / 100 if unit == "%" else number
        if not 0 < share <= 1:
            raise ValueError("a share is above 0 and at most 100%")
        return MemoryLimit(share=share)
    nbytes = int(number * _UNITS[unit])
    if nbytes < LEAST_MEMORY:
        raise ValueError(f"a worker needs {LEAST_MEMORY} bytes")
    return MemoryLimit(nbytes)


def _parse_check_memory(text: str) -> int | None:
    if text == "auto":
        return None
    limit = parse_memory(text)
    if limit is None or not limit.nbytes:
        raise ValueError
    return limit.nbytes


def parse_workers(text: str) -> tuple[WorkerSpec, ...]:
    """The workers that `text` names, one entry for a device, in the order of first mention.

    >>> [str(spec) for spec in parse_workers("opencl:0.0,0.1*2,cuda:0-1,cpu:4")]
    ['opencl:0.0', 'opencl:0.1*2', 'cuda:0', 'cuda:1', 'cpu:4']
    """
    specs: dict[tuple[str, tuple[int, ...]], int] = {}
    kind = ""
    for item in text.split(","):
        head, colon, rest = item.strip().partition(":")
        if not head[:1].isdigit():
            kind = head
        elif colon or kind not in ("opencl", "cuda"):
            raise ValueError(f"{item.strip()!r} does not name a kind of worker")
        else:
            colon, rest = ":", head
        for spec in _PARSERS.get(kind, _parse_unknown)(rest if colon else None):
            key = (spec.kind, spec.device)
            specs[key] = specs.get(key, 0) + spec.count
    if len(specs) > 1 and ("auto", ()) in specs:
        raise ValueError("'auto' cannot be combined with others")
    if len(specs) > 1 and ("cuda", ()) in specs and any(kind == "cuda" and device for kind, device in specs):
        raise ValueError("'cuda' already means every GPU")
    return tuple(WorkerSpec(kind, device, _checked(count)) for (kind, device), count in specs.items())


def _parse_cpu(rest: str | None) -> list[WorkerSpec]:
    return [WorkerSpec("cpu", (), 1 if rest is None else _checked(_matched(r"(\d{1,9})", rest)[0]))]


def _parse_opencl(rest: str | None) -> list[WorkerSpec]:
    platform, device, count = _matched(r"(\d{1,9})\.(\d{1,9})(?:\*(\d{1,9}))?", rest or "")
    return [WorkerSpec("opencl", (platform, device), _checked(count))]


def _parse_cuda(rest: str | None) -> list[WorkerSpec]:
    if rest is None:
        return [WorkerSpec("cuda")]
    if "-" in rest:
        first, last = _matched(r"(\d{1,4})-(\d{1,4})", rest)
        if last < first:
            raise ValueError(f"the range {rest!r} runs backwards")
        return [WorkerSpec("cuda", (number,)) for number in range(first, last + 1)]
    number, count = _matched(r"(\d{1,4})(?:\*(\d{1,9}))?", rest)
    return [WorkerSpec("cuda", (number,), _checked(count))]


def _parse_auto(rest: str | None) -> list[WorkerSpec]:
    if rest is not None:
        raise ValueError("'auto' takes no number")
    return [WorkerSpec("auto")]


def _parse_unknown(rest: str | None) -> list[WorkerSpec]:
    raise ValueError("it names an unknown kind of worker")


_PARSERS = {"auto": _parse_auto, "cpu": _parse_cpu, "opencl": _parse_opencl, "cuda": _parse_cuda}


def _matched(pattern: str, text: str) -> tuple[int, ...]:
    """The numbers of a match; a group that did not take part counts as 1."""
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} does not have the right form")
    return tuple(1 if group is None else int(group) for group in match.groups())


def _checked(count: int) -> int:
    if not 1 <= count <= MAX_WORKERS:
        raise ValueError(f"1 to {MAX_WORKERS} workers can share a device")
    return count


VDEV = Switch(
    "VDEV", "0", "1: the virtual device takes the place of PyOpenCL's own devices.", "0, 1", _parse_on
)
WORKERS = Switch(
    "VDEV_WORKERS",
    "auto",
    "The workers behind the virtual device. `cpu:4`: four on the CPU device (Intel's before others); "
    "`cuda`: one on every NVIDIA GPU; `cuda:0,2` or `cuda:0-3`: on these; "
    "`opencl:0.1`: one on device 1 of OpenCL platform 0; `opencl:0.0*3`: three that share a device. "
    "Several kinds are separated by commas: `cuda:0,cpu:2`. `auto`: `cuda` if it works, else one on every OpenCL GPU, "
    "else `cpu:2`.",
    "auto, cpu:N, opencl:P.D, opencl:P.D*N, cuda, cuda:N, cuda:N-M, or several of them separated by commas",
    parse_workers,
)
MEMORY = Switch(
    "VDEV_MEMORY",
    "all",
    "How much of its device's memory each worker may use, in bytes (`512M`, `20G`) or as a share (`50%`, `0.5`), so "
    "that other programs can use the rest. Buffers that do not fit wait in host memory. `all`: no limit.",
    "all, a number of bytes from 64K (suffix K, M, G or T), or a share such as 50% or 0.5",
    parse_memory,
)
MIN_ITEMS = Switch(
    "VDEV_MIN_ITEMS",
    "auto",
    "A launch of fewer work-items than this runs on one worker, unless much data would have to be brought there. `auto`: "
    "1024; on GPUs, as many as one GPU runs at once: a work-group on each compute unit, or 128 work-items.",
    "auto, a whole number from 0",
    _parse_least,
)
GATHER = Switch(
    "VDEV_GATHER",
    "auto",
    "Whether vdev gathers buffers on one worker and runs their launches there. `auto`: on GPUs, once the exchanges "
    "of split launches have taken longer than gathering the buffers and using one worker would have; it splits them again "
    "when that is faster. 0: never. 1: after the first large exchange.",
    "auto, 0, 1",
    _parse_whether,
)
PLANNING = Switch(
    "VDEV_PLANNING",
    "auto",
    "Whether to split launches that cost the host much time. `auto`: if planning the launches on some buffers, handing them "
    "over to several workers and exchanging data take longer than splitting saves, vdev gathers the buffers on one worker, where "
    "launches need no plans, and only rarely tries to split again; and it gathers buffers whose transfers, each of other bytes, take the "
    "host long. On GPUs, a program begins on one while all its launches are too short to gain. `always`: every launch is planned, however "
    "long that takes.",
    "auto, always",
    _parse_planning,
)
INTERIORS = Switch(
    "VDEV_INTERIORS",
    "0",
    "Whether a worker begins with those work-groups of its part of a launch that need none of the bytes which other workers still have "
    "to send. 0: never: it begins when all bytes are there. `auto`: on GPUs, where measured times say that this gains more than a "
    "twentieth. 1: wherever it can be done. Stencils on two H200s gained nothing from it.",
    "auto, 0, 1",
    _parse_whether,
)
CHECK = Switch(
    "VDEV_CHECK",
    "0",
    "1: runs every split launch on one worker as well and compares the results; the first difference stops the program. Slow.",
    "0, 1",
    _parse_on,
)
CHECK_MEMORY = Switch(
    "VDEV_CHECK_MEMORY",
    "auto",
    "How much memory a launch checked by `vdev-check` or the test harness may take for copies of its buffers and for shadow "
    "memory, in bytes (`512M`, `20G`). A launch that needs more is not checked, and the summary says so. `auto`: four times "
    "its buffers plus 200 MB, at most half of the machine's memory.",
    "auto, a number of bytes from 64K (suffix K, M, G or T)",
    _parse_check_memory,
)
EXPLAIN = Switch(
    "VDEV_EXPLAIN",
    "0",
    "1: prints a report at exit, on standard error: what was split and what was not, what moved, where the time went, "
    "and advice. A path: writes the report to that file, as JSON if its name ends with `.json`, as a page "
    "for a browser if it ends with `.html`; `%p` stands for the process id.",
    "0, 1, the path of a file",
    _parse_report,
)
TRACE = Switch(
    "VDEV_TRACE",
    "0",
    "A path: writes a trace of the run to that file, for Perfetto and chrome://tracing; `%p` stands for the process id.",
    "0, the path of a file",
    _parse_output,
)
LOG = Switch(
    "VDEV_LOG",
    "off",
    "The lowest level of messages that vdev logs to standard error.",
    ", ".join(("off", *LOG_LEVELS)),
    _parse_level,
)
CACHE_DIR = Switch(
    folders.CACHE_SWITCH,
    folders.CACHE_DEFAULT,
    "The folder for what vdev caches between runs. It may be deleted at any time.",
    "the path of a folder",
    folders.parse_folder,
)
CACHE = Switch(
    "VDEV_CACHE",
    "1",
    "0: translations, and programs compiled for CPU workers, are neither cached for later runs nor taken from the cache.",
    "0, 1",
    _parse_on,
)

SWITCHES: tuple[Switch[object], ...] = (  # type: ignore[assignment]
    VDEV,
    WORKERS,
    MEMORY,
    MIN_ITEMS,
    GATHER,
    PLANNING,
    INTERIORS,
    CHECK,
    CHECK_MEMORY,
    EXPLAIN,
    TRACE,
    LOG,
    CACHE_DIR,
    CACHE,
)


def enabled() -> bool:
    """Whether the environment asks for the virtual device."""
    return VDEV.value()


def workers() -> tuple[WorkerSpec, ...]:
    """The workers asked for; ('auto',) if the user says nothing."""
    return WORKERS.value()


def memory() -> MemoryLimit | None:
    """What each worker may use of its memory; None for all of it."""
    return MEMORY.value()


def min_items() -> int | None:
    """Launches of fewer work-items stay on one worker; None if that is left to the planner."""
    return MIN_ITEMS.value()


def gather() -> bool | None:
    """Whether buffers are gathered on one worker; None if measured times decide."""
    return GATHER.value()


def plan_always() -> bool:
    """Whether launches are planned whatever that costs."""
    return PLANNING.value()


def interiors() -> bool | None:
    """Whether chunks begin before all of their bytes have come; None if measured times decide."""
    return INTERIORS.value()


def check() -> bool:
    """Whether split launches are compared with one worker."""
    return CHECK.value()


def check_memory() -> int | None:
    """Bytes that a checked launch may take; None if that follows from its buffers."""
    return CHECK_MEMORY.value()


def explain() -> str | None:
    """Where the report goes at exit: '-' for standard error, or a file's path; None for no report."""
    return EXPLAIN.value()


def trace() -> Path | None:
    """The file for the trace; None for no trace."""
    return TRACE.value()


def log_level() -> int | None:
    """A level of the `logging` module, or None for no log."""
    return LOG.value()


def cache() -> bool:
    """Whether translations and binaries are kept between runs."""
    return CACHE.value()


def unknown(environ: Mapping[str, str] | None = None) -> list[str]:
    """Names in the environment that look like switches but are not."""
    known = {switch.name for switch in SWITCHES}
    return sorted(
        name
        for name in (os.environ if environ is None else environ)
        if name.startswith("VDEV_") and name not in known
    )


def slips(environ: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """What is wrong with each of them, and what to do about it."""
    found = []
    for name in unknown(environ):
        import difflib  # hardly ever needed

        near = difflib.get_close_matches(name, [switch.name for switch in SWITCHES], 1)
        remedy = f"did you mean {near[0]}?" if near else "unset it; `vdev-info` lists the switches"
        found.append((f"{name} is set but is not a switch", remedy))
    return found


def as_markdown() -> str:
    """The table in the form that the guide uses."""
    rows = [f"| `{switch.name}` | `{switch.default}` | {switch.meaning} |" for switch in SWITCHES]
    return "\n".join(["| switch | default | meaning |", "|---|---|---|", *rows])
