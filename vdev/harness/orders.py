"""Finds results that depend on which work-group runs first, or on how the index space is cut into groups.

Decides which other orders and cuts are tried, and which part of their results is compared: every byte that a kernel
may write. Two results that differ are a finding; equal ones prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vdev.backends.base import Bytes
from vdev.harness.checked_launch import Argument, Memory, Pointer
from vdev.harness.findings import Finding, Place
from vdev.harness.running import Order, run_in_order
from vdev.session.session import Session, SessionKernel
from vdev.translators.ranges.ndrange import NDRange

KIND = "order-dependent"
_ORDERS = ("backward", "shuffled:1", "shuffled:2")
_FIRST = Order("forward")


def compare_orders(
    session: Session,
    kernel: SessionKernel,
    args: Sequence[Argument],
    ndrange: NDRange,
    place: Place,
    *,
    cuts: bool,
) -> list[Finding]:
    """Findings of a launch, run in several orders; `cuts`: with smaller work-groups as well, if the caller named no
    size. The memories stay as they are. ValueError for a kernel whose groups cannot be run one by one.
    """
    first = _results(session, kernel, args, ndrange, _FIRST)
    found = []
    for order in _ORDERS:
        result = _results(session, kernel, args, ndrange, Order.parse(order))
        found += _differences(kernel, args, first, result, place, f"with the order of work-groups ({order})")
    smaller = _smaller(ndrange) if cuts else None
    if smaller is not None:
        result = _results(session, kernel, args, smaller, _FIRST)
        found += _differences(kernel, args, first, result, place, f"with work-groups of {smaller.local_size}")
    return list({finding.key: finding for finding in reversed(found)}.values())


def _smaller(ndrange: NDRange) -> NDRange | None:
    """The same index space in groups of half the size."""
    for axis, size in enumerate(ndrange.local_size):
        if size % 2 == 0:
            local = tuple(each // 2 if k == axis else each for k, each in enumerate(ndrange.local_size))
            return NDRange(ndrange.global_size, local, ndrange.offset)
    return None


def _results(
    session: Session, kernel: SessionKernel, args: Sequence[Argument], ndrange: NDRange, order: Order
) -> list[Bytes]:
    """What a run leaves in each memory, in the order of the arguments that point to them."""
    copies: dict[int, Memory] = {}
    given: list[Argument] = []
    for arg in args:
        if isinstance(arg, Pointer):
            memory = copies.setdefault(
                id(arg.memory), Memory(arg.memory.content.copy(), arg.memory.written.copy())
            )
            arg = replace(arg, memory=memory)
        given.append(arg)
    run_in_order(session, kernel, order, given, ndrange)
    return [memory.content for memory in copies.values()]


def _differences(
    kernel: SessionKernel,
    args: Sequence[Argument],
    first: Sequence[Bytes],
    other: Sequence[Bytes],
    place: Place,
    how: str,
) -> list[Finding]:
    names: dict[int, str] = {}
    for info, arg in zip(kernel.declared.args, args, strict=False):  # behind them, the descriptors of images
        if isinstance(arg, Pointer):
            names.setdefault(id(arg.memory), info.name)
    found = []
    for name, mine, theirs in zip(names.values(), first, other, strict=True):
        different = np.flatnonzero(mine != theirs)
        if len(different):
            text = f"kernel {kernel.name} leaves different values in {name} {how}: {len(different)} bytes, from byte {different[0]}"
            found.append(
                Finding(KIND, text, kernel.name, name, "result", place, None, int(different[0]), len(mine))
            )
    return found
