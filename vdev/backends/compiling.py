"""Back ends for which whole plans are compiled into calls of their driver (`vdev.executor.compiled_plan`).

Every such call is made with the parameters that it was made ready with, on any thread that has the worker's turn and has called
`Backend.enter`. All calls of a plan, on several workers, can also be made from one list (`call_lists.CallList`): then the back
ends are told afterwards what was made. Decides nothing about order: who uses this puts fences and has others wait for them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from ctypes import Array, c_int64
from typing import NamedTuple

from vdev.backends.base import Allocation, Backend, Box, FoldPart, KernelArgument, LaunchShape, Marker
from vdev.backends.call_lists import CallList, DriverCall
from vdev.errors import BackendError

#: copies from a peer's memory to one's own: the peer, its memory, one's own, and which bytes
PeerCopy = tuple[Backend, Allocation, Allocation, Sequence[Box]]
#: the parameter of `CompilingBackend.waiting`
WAITED_FOR = 1
#: what a step is compiled to. It is given (argument, value) for the launch's values that are others than in the call before.
Call = Callable[[Sequence[tuple[int, bytes]]], object]


class Placed(NamedTuple):
    """An address that a call is made with, which points into a memory, and where it is: in words of eight bytes that the call keeps. It is
    read when the call is made.
    """

    places: Sequence[int]
    memory: Allocation


class ListedCall(ABC):
    """A call of that kind that can also be made from a list."""

    __slots__ = ("calls", "counted", "operations", "placed", "what")

    def __init__(
        self,
        what: str,
        calls: Sequence[DriverCall],
        operations: int,
        counted: Sequence[tuple[str, int]],
        placed: Sequence[Placed] | None = None,
    ) -> None:
        self.what = what  #: for messages
        self.calls = calls  #: the driver's, in order; what they point to is kept here
        self.operations = operations  #: how many each of them counts for (`Backend.pending`)
        self.counted = counted  #: how much it adds to which counters of the worker's
        #: every address among their parameters, so that they can be made for other memory; None where these are not known
        self.placed = placed

    @abstractmethod
    def __call__(self, changed: Sequence[tuple[int, bytes]]) -> None:
        """Make it alone."""

    @abstractmethod
    def set_values(self, changed: Sequence[tuple[int, bytes]]) -> None:
        """From now on these values are the launch's."""

    def take_copies(self, copies: Sequence[PeerCopy]) -> bool:
        """From now on it makes these copies, in the place of others that it was made for; False if it cannot: then it is not to be made
        before it has been given some that it can.
        """
        return False

    def block_copies(
        self,
        blocks: Array[c_int64],
        memories: Array[c_int64],
        boxes: Sequence[tuple[int, int, int]],
    ) -> Callable[[], bool] | None:
        """What does the same as `take_copies` for the blocks that there are when it is called, once its calls are in a list; None if there
        is no such thing. Arguments as of `Boxes`.
        """
        return None

    def take_launch(self, args: list[KernelArgument] | None, shape: LaunchShape) -> bool:
        """The same for another launch of its kernel, whose arguments lie in memory as those did that it was made for: the same ones in one
        memory, and local memory of the same sizes. `args`: None for those that it has, in a launch whose shape has the same bases.
        """
        return False

    def is_let_pass(self, number: int) -> bool:
        """One of its calls was refused: whether what that was for is there all the same, so that the others can be made. It may wait."""
        return False

    def was_listed(self, calls: CallList, start: int) -> None:  # noqa: B027
        """Its calls are in a list, from place `start` on: some of their addresses are only known there."""


class CompilingBackend(Backend):
    """A back end that can be used in this way. Its allocations have addresses."""

    @abstractmethod
    def fence(self) -> None:
        """Put the worker's fence, of which there is one, behind everything handed over so far. It is no marker: nobody learns of its
        end, and what is pending stays pending. Raises BackendError.
        """

    @abstractmethod
    def order_after_fence(self, peer: Backend, *, aside: bool = False) -> None:
        """Work handed over from now on, or only that `aside`, starts only when what is before the peer's fence is done, wherever that is
        put later; if necessary this call waits for it. The peer is of the same kind.
        """

    @abstractmethod
    def own_launch(
        self, kernel: object, args: list[KernelArgument], shape: LaunchShape, *, aside: bool = False
    ) -> Call | None:
        """A call like `launch`, with parameters of its own, whatever the kernel is launched with meanwhile; None if there is none. If it
        raises BackendError, nothing was started. `aside`: it is one of those made between `open_aside` and `close_aside` that are
        carried out beside the others.
        """

    @abstractmethod
    def fills(self, target: Allocation, runs: Sequence[tuple[int, int]], pattern: bytes) -> Call | None:
        """One call like those of `fill` for runs of bytes, each with its start and length; None if there is none."""

    @abstractmethod
    def uploads(self, target: Allocation, start: int, nbytes: int, value: tuple[int, bytes], at: int) -> Call:
        """A call that writes so few bytes that the driver takes at once: those from byte `at` on of a value of the command's, given by its
        number and what it is now.
        """

    @abstractmethod
    def copies(self, copies: Sequence[PeerCopy], *, aside: bool = False) -> Call | None:
        """One call like those of `copy_from_peer` for each of the boxes; None if there is none. `aside`: as of `own_launch`."""

    @abstractmethod
    def open_aside(self) -> None:
        """Calls aside that are made from now on start behind all that was handed over so far, and beside what else is handed over up to
        `close_aside`. If necessary this call waits.
        """

    @abstractmethod
    def close_aside(self) -> None:
        """Work handed over from now on starts when all that was handed over aside is done; if necessary this call waits for it."""

    @abstractmethod
    def own_copies(self, source: Allocation, target: Allocation, wanted: Sequence[Box]) -> Call | None:
        """One call like those of `copy` for each of the boxes; None if there is none."""

    @abstractmethod
    def folds(
        self, target: Allocation, target_start: int, parts: Sequence[FoldPart], op: str, dtype: str
    ) -> Call | None:
        """The same as `folding`."""

    # lists, on any thread that has the worker's turn ----------------------------------------------

    @abstractmethod
    def takes_lists(self) -> bool:
        """Whether calls can be made from lists just now: otherwise they are made one by one, which tells what is wrong."""

    @abstractmethod
    def entry(self) -> DriverCall:
        """What `enter` does; if it is refused, what follows is as well."""

    @abstractmethod
    def is_elsewhere(self, result: int) -> bool:
        """Whether a call from a list may have been refused for want of `entry`, which calls do without as a rule. It has done nothing."""

    @abstractmethod
    def fencing(self) -> DriverCall:
        """What `fence` does."""

    @abstractmethod
    def has_passed(self) -> bool:
        """Whether what is before the fence is done, and nothing that was handed over is known to have failed."""

    @abstractmethod
    def fence_event(self) -> int:
        """What is waited for where the fence is: always the same. Any thread may ask, also without the turn."""

    @abstractmethod
    def waiting(self, event: int, *, aside: bool = False) -> DriverCall:
        """Have what follows, or only that `aside`, wait for an event, its parameter number `WAITED_FOR`; if it is refused, `order_after`
        and `order_after_fence` know what to do.
        """

    @abstractmethod
    def opening(self) -> Sequence[DriverCall]:
        """What `open_aside` does; if one is refused, `settle_aside` knows what to do."""

    @abstractmethod
    def closing(self) -> Sequence[DriverCall]:
        """The same for `close_aside`."""

    @abstractmethod
    def settle_aside(self, *, opened: bool) -> bool:
        """A call of `opening`, or, where it is `opened`, of `closing` was refused: wait instead. Whether that was possible."""

    @abstractmethod
    def event_of(self, marker: Marker) -> int | None:
        """What is waited for to come after a marker: 0 for nothing, None if the device cannot do that."""

    @abstractmethod
    def made(self, operations: int, launches: int = 0) -> int:
        """So many operations were handed over from a list, of which so many are launches, which are counted. When they began is not asked
        for. The same as `pending` afterwards.
        """

    @abstractmethod
    def refused(self, result: int, what: str) -> BackendError:
        """The error of a call from a list."""
