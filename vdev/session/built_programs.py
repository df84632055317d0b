"""Programs built before, for those that build the same again.

A function that makes its program each time it is called builds the same source with the same options again and again. What
was learnt of such a program outlasts it: its translation, what its kernels touch, and above all the plans of their launches,
which take longer to make than anything else; on one worker, what its driver has made of it. Decides
which programs may stand for others, and how many are kept.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from vdev.session.programs import SessionProgram
from vdev.translators.frontend.options import joined_lines, may_include

#: versions in which functions may have variables of their own, and the only ways to declare one: by this word, or by
#: letting the preprocessor make it
_NEWER = re.compile(r"-cl-std=CL(?!1\.)")
_MAY_STAY = re.compile(r"static|##|%:%:|\?\?=")

#: programs that are kept, with what they occupy on the workers; and the plans of all of them, some 25 KB each
_MOST, _MOST_PLANS = 64, 4096
#: plans are counted again when one in so many of the programs is new
_EVERY = 4

#: source, options, and the workers over which launches may be split: plans are made for these
_Key = tuple[str, tuple[str, ...], tuple[int, ...]]


class BuiltPrograms:
    """The last programs of a session, by what they were built from. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[_Key, SessionProgram] = OrderedDict()
        self._uncounted = 0  #: programs remembered since the plans were counted

    def find(
        self, source: str | bytes, options: Sequence[str], workers: tuple[int, ...]
    ) -> SessionProgram | None:
        """A program that does what one built from `source` with `options` would, for launches that may be split over these workers;
        None if there is none.
        """
        if isinstance(source, bytes):
            return None
        with self._lock:
            key = source, tuple(options), workers
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def remember(self, program: SessionProgram, workers: tuple[int, ...]) -> None:
        """Keep a program that was built for launches that may be split over these workers, if others may share it."""
        source = program.source
        if isinstance(source, bytes) or not _may_be_shared(program, source):
            return
        with self._lock:
            self._known[source, program.options, workers] = program
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
            # Counting takes as long as there are kernels: all of them, for each program, would take longer than the rest.
            self._uncounted += 1
            if self._uncounted > len(self._known) // _EVERY:
                self._uncounted = 0
                while len(self._known) > 1 and self._nplans() > _MOST_PLANS:
                    self._known.popitem(last=False)

    def _nplans(self) -> int:
        kernels = (kernel for program in self._known.values() for kernel in program.kernels.values())
        return sum(kernel.plans.nplans for kernel in kernels if kernel.plans is not None)


def _may_be_shared(program: SessionProgram, source: str) -> bool:
    """Whether a program has no content of its own that launches change, as variables at program scope are (they are a reason
    to run whole), and whether its text is all that it was made of: files that it includes may have changed.
    """
    given = program.options
    stays = any(map(_NEWER.match, given)) and any(map(_MAY_STAY.search, map(joined_lines, (source, *given))))
    return not (
        program.reasons
        or stays
        or may_include(source)
        or "import" in source
        or any("include" in each for each in given)
    )
