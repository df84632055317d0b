"""Which kernels cannot tell how their work-items are grouped: if a launch leaves the grouping open, each device may
then choose its own.

Decides by names alone: a kernel can tell if it, or a function whose name it mentions, mentions anything in OpenCL C
that has to do with work-groups (6.15.1, 6.15.8, 6.15.11, 6.15.16, 6.15.18), including local memory. A function of the
program that shares its name with one of these counts as that one.
"""

from __future__ import annotations

import re

from .source import ParsedProgram

__all__ = ["blind_to_groups"]

_NAMES = re.compile(r"[A-Za-z_]\w*")
#: Everything by which the grouping can be told.
_OF_GROUPS = re.compile(
    r"get_local_\w+|get_enqueued_local_size|get_enqueued_num_sub_groups|get_group_id|get_num_groups|barrier"
    r"|(?:__)?local|\w*work_?group\w*|\w*sub_?group\w*|async_\w+|wait_group_events|memory_scope_\w+|intel_\w+"
    r"|pipe|\w+_pipe\w*|enqueue_\w+|asm|__asm\w*"
)


def blind_to_groups(program: ParsedProgram) -> frozenset[str]:
    """The kernels that cannot tell; none if macros could not be expanded."""
    if not program.exact:
        return frozenset()
    mentioned: dict[str, set[str]] = {}
    for function in program.functions():
        names = set(_NAMES.findall(program.text_of(function)))
        mentioned.setdefault(function.spelling, set()).update(names)
    # Names between functions (variables, types) may be used by any of them.
    return frozenset(name for name in program.kernels if not _sees(name, mentioned))


def _sees(kernel: str, mentioned: dict[str, set[str]]) -> bool:
    pending, seen = [kernel], {kernel}
    while pending:
        for name in mentioned.get(pending.pop(), ()):
            if _OF_GROUPS.fullmatch(name) and name not in (
                "work_group_size_hint",
                "__work_group_size_hint__",
            ):
                return True
            if name not in seen and name in mentioned:
                seen.add(name)
                pending.append(name)
    return False
