"""Access summaries: which bytes of which argument a chunk of a kernel's index space reads and writes.

Decides nothing about partitions, buffers or workers: a summary says what is touched, whether that is the exact set,
and where and why it had to be estimated. A launch puts its numbers in (`KernelSummary.evaluate`; PPoPP'11 section
3.3, AMGE section 4.1). `access` makes summaries: nothing here reads source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from vdev.translators.values import dataclass

from ..ranges.grain import Grain
from ..ranges.ndrange import Chunk, NDRange
from .accesses import Access, AccessRange, Reason
from .launch_ranges import Images, LaunchRanges, Values
from .ways import Step

__all__ = ["Access", "AccessRange", "KernelSummary", "Reason"]

_NOTHING_BEFORE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class KernelSummary:
    """What one kernel does to its pointer arguments.

    `one_worker`: why it must run as one chunk, if it must. `scalars`: value arguments whose numbers influence
    `evaluate`. `images`: image arguments, which are not analysed.
    """

    name: str
    accesses: tuple[Access, ...] = ()
    one_worker: tuple[Reason, ...] = ()
    scalars: frozenset[int] = frozenset()
    images: tuple[int, ...] = ()
    #: where it uses addresses as numbers, or follows any other than its arguments'
    addresses: Reason | None = None
    names: Mapping[int, str] = field(default_factory=dict, repr=False)  #: of the arguments
    merged: frozenset[int] = field(default=frozenset(), repr=False)  #: dimensions with global ids only
    #: the ways to the ends of the bodies of loops that touch no argument: they take time all the same (`work`)
    loops: tuple[Step, ...] = field(default=(), repr=False)
    #: what is known of the chunks of its launches
    _images: Images = field(default_factory=Images, init=False, repr=False)

    @property
    def may_merge(self) -> frozenset[tuple[str, str | None, Grain]]:
        """What launches on several workers may have to merge, as far as their numbers do not decide it: by an atomic's operation and type,
        or, with 'diff' and none, by which units have changed, where values that the kernel loads decide if a store is made, or where.
        """
        if self.one_worker:
            return frozenset()
        found: set[tuple[str, str | None, Grain]] = set()
        for access in self.accesses:
            if access.mode == "atomic" and access.op is not None and access.dtype is not None:
                found.add((access.op, access.dtype, access.grain))
            elif access.mode == "write" and access.depends_on_memory:
                found.add(("diff", None, access.grain))
        return frozenset(found)

    def evaluate(
        self,
        ndrange: NDRange,
        chunk: Chunk,
        values: Values,
        sizes: Mapping[int, int],
        before: Mapping[int, int] = _NOTHING_BEFORE,
    ) -> tuple[AccessRange, ...]:
        """The ranges of `chunk`: at most one per (arg, mode, op, dtype).

        `values`: numbers of the scalar arguments by index (of those in `scalars`; a struct or vector as its
        bytes). `sizes`: bytes from the pointer to the end of its memory, by argument index; an argument left
        out (a NULL) has none. `before`: bytes of its memory before the pointer, where there are any.
        """
        return self.of_launch(ndrange, values, sizes, before).of(chunk)

    def of_launch(
        self,
        ndrange: NDRange,
        values: Values,
        sizes: Mapping[int, int],
        before: Mapping[int, int] = _NOTHING_BEFORE,
    ) -> LaunchRanges:
        """What gives the same for any chunk of a launch, whose numbers are put in once."""
        return LaunchRanges(
            self.accesses, self.merged, self.names, ndrange, values, sizes, before, self._images
        )
