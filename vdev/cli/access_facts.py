"""The data of a report on the accesses of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from vdev.translators.frontend.source import KernelInfo
from vdev.translators.interpreter.summaries import AccessRange, KernelSummary
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.values import dataclass


@dataclass(frozen=True)
class Setting:
    """The launch that the question is about. `values` and `sizes` (bytes) by argument name; `pitch` likewise, "" for
    all.
    """

    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None
    workers: int = 2
    values: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    pitches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerPart:
    """What one worker does: its chunk, and the ranges of each of its accesses."""

    worker: int
    chunk: Chunk
    ranges: tuple[AccessRange, ...]


@dataclass(frozen=True)
class LaunchReport:
    """A launch as it would be planned. `sizes`: bytes by argument number; `assumed`: those that were not given."""

    ndrange: NDRange
    parts: tuple[WorkerPart, ...]
    reasons: tuple[str, ...]
    moved_nbytes: int
    sizes: Mapping[int, int]
    assumed: frozenset[int]
    pitches: Mapping[int, int]


@dataclass(frozen=True)
class KernelReport:
    """One kernel: its signature, its accesses and, if a launch was given, what that accesses (or why it is unknown)."""

    info: KernelInfo
    summary: KernelSummary
    launch: LaunchReport | None = None
    problem: str | None = None
