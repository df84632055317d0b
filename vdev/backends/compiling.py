"""Back ends for which whole plans are compiled into calls of their driver (`vdev.executor.compiled_plan`).

Every such call is made with the parameters that it was made ready with, on any thread that has the worker's turn and has called
`Backend.enter`. Decides nothing about order: who uses this puts fences and has others wait for them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from vdev.backends.base import Allocation, Backend, Box, KernelArgument, LaunchShape

#: copies from a peer's memory to one's own: the peer, its memory, one's own, and which bytes
PeerCopy = tuple[Backend, Allocation, Allocation, Sequence[Box]]
#: what a step is compiled to. It is given (argument, value) for the launch's values that are others than in the call before.
Call = Callable[[Sequence[tuple[int, bytes]]], object]


class CompilingBackend(Backend):
    """A back end that can be used in this way."""

    @abstractmethod
    def fence(self) -> None:
        """Put the worker's fence, of which there is one, behind everything handed over so far. It is no marker: nobody learns of its
        end, and what is pending stays pending. Raises BackendError.
        """

    @abstractmethod
    def order_after_fence(self, peer: Backend) -> None:
        """Work handed over from now on starts only when what is before the peer's fence is done, wherever that is put later; if
        necessary this call waits for it. The peer is of the same kind.
        """

    @abstractmethod
    def own_launch(self, kernel: object, args: list[KernelArgument], shape: LaunchShape) -> Call | None:
        """A call like `launch`, with parameters of its own, whatever the kernel is launched with meanwhile; None if there is none.
        If it raises BackendError, nothing was started.
        """

    @abstractmethod
    def fills(self, target: Allocation, runs: Sequence[tuple[int, int]], pattern: bytes) -> Call | None:
        """One call like those of `fill` for runs of bytes, each with its start and length; None if there is none."""

    @abstractmethod
    def copies(self, copies: Sequence[PeerCopy]) -> Call | None:
        """One call like those of `copy_from_peer` for each of the boxes; None if there is none."""
