"""Launches whose chunks repeat in cycles, as later launches read what they leave: when plans are made for that.

Such chunks need kernels of their own, for which a compiler takes as long as thousands of launches. Decides that the program does not
wait for it where launches are chosen by what they take: they go on as they are cut, the kernels are compiled beside the program, and
plans are made anew once these are there. Elsewhere it waits, so that what is planned depends on no clock.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from vdev.process.beside import compilers

if TYPE_CHECKING:
    from vdev.session.core import SessionCore
    from vdev.session.launch_plans import LaunchCache


def plan_for_readers(
    session: SessionCore, cache: LaunchCache, place: Hashable, reader: LaunchCache | None
) -> None:
    """Have the launches of `cache` that leave something at `place` planned for how it is read (`Successors.use`), by those of `reader`:
    from the next one on, or once it can be done without a compiler. Under the session's lock.
    """
    program = cache.kernel.program

    def use() -> None:
        cache.successors.use(place)
        cache.forget()

    def compile_and_use() -> None:
        program.compile_renumbered(session.executor.compile_ahead)
        with session.lock:
            use()
            if choosing is not None:  # until then they may have been better off on one worker
                choosing.begin_again([each.tally for each in (cache, reader) if each is not None])
            session.executor.standing = object()  # plans are made anew: none is repeated

    choosing = session.choosing
    waits = choosing is None or not choosing.thrifty or not session.executor.compiles_ahead
    if waits or program.is_renumbered or not compilers.begin(compile_and_use):
        use()
