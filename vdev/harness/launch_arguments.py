"""The arguments of a program's launch, as a launch of the harness takes them."""

from __future__ import annotations

from collections.abc import Sequence

from vdev.harness.checked_launch import Argument, Memory, Pointer
from vdev.session.buffers import VirtualBuffer
from vdev.session.commands import BufferArg, Launch
from vdev.session.shadow_runs import ShadowFailure


def arguments_of(
    launch: Launch, buffers: Sequence[VirtualBuffer], memories: Sequence[Memory]
) -> list[Argument]:
    """With the memory of each buffer in its place. Raises ShadowFailure."""
    args: list[Argument] = []
    for arg in launch.args:
        if not isinstance(arg, BufferArg):
            args.append(arg)
            continue
        if arg.before:
            raise ShadowFailure("a pointer into the middle of shared virtual memory")
        args.append(Pointer(memories[buffers.index(arg.buffer)], arg.offset, arg.nbytes))
    return args
