"""A checked program as plain values and back, so that it can be stored.

Decides only the form: lists and numbers, in the order of the classes' fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ...frontend.source import ArgKind
from .program import CheckedKernel, CheckedProgram, Root, Site

__all__ = ["checked_of_plain", "plain_checked"]


def plain_checked(program: CheckedProgram) -> dict[str, Any]:
    """What JSON takes."""
    return _members(program) | {
        "kernels": [_plain_kernel(kernel) for kernel in program.kernels.values()],
        "sites": [_members(site) for site in program.sites],
        "intended": sorted(program.intended),
    }


def checked_of_plain(plain: Mapping[str, Any]) -> CheckedProgram:
    """The program from which `plain_checked` made these values. Raises TypeError, KeyError or ValueError for anything
    else.
    """
    kernels = [_kernel(each) for each in plain["kernels"]]
    own: dict[str, Any] = {
        "options": tuple(plain["options"]),
        "kernels": {kernel.name: kernel for kernel in kernels},
        "sites": tuple(Site(**site) for site in plain["sites"]),
        "skipped": tuple((line, why) for line, why in plain["skipped"]),
        "intended": frozenset(plain["intended"]),
    }
    return CheckedProgram(**{**plain, **own})


def _plain_kernel(kernel: CheckedKernel) -> dict[str, Any]:
    return _members(kernel) | {
        "roots": [_members(root) | {"space": root.space.value} for root in kernel.roots],
        "written": sorted(kernel.written),
        "read": sorted(kernel.read),
    }


def _kernel(plain: Mapping[str, Any]) -> CheckedKernel:
    own: dict[str, Any] = {
        "roots": tuple(Root(**{**root, "space": ArgKind(root["space"])}) for root in plain["roots"]),
        "written": frozenset(plain["written"]),
        "read": frozenset(plain["read"]),
    }
    return CheckedKernel(**{**plain, **own})


def _members(value: CheckedProgram | CheckedKernel | Root | Site) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
