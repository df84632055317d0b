"""Kernels that a program makes anew for each launch, as `program.name(queue, …)` does.

Natively each of them is a new object that knows nothing. Here what a dropped kernel knew of its launches (index spaces found
valid, what makes a launch again, the functions that PyOpenCL generated) is set aside with its program, one for each name, and
the next kernel of that name begins with it. Its arguments are unset all the same, until its first call gives all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from vdev.facade.repeat import CalledKernel, Repeat

if TYPE_CHECKING:
    from vdev.session.commands import Argument


class Revived:
    """Takes the first call of a kernel as one after the last call of the kernel that was set aside.

    In the place of the kernel's `Repeat`, and dropped as that is if an argument is set in another way.
    """

    __slots__ = ("_args", "_repeat", "_repetition", "behind", "has_arrays")

    def __init__(self, args: list[Any], repeat: Repeat | Revived, repetition: Any) -> None:
        self._args = args
        self._repeat = repeat
        self._repetition = repetition
        self.has_arrays: bool = repeat.has_arrays
        self.behind: Callable[..., Iterable[Any] | None] = repeat.behind

    def takes(self, kernel: RevivedKernel, args: Sequence[Any]) -> Sequence[Argument] | None:
        """As `Repeat.takes`. If the usual way has to do it, the arguments are unset as before: should it fail in the middle, those
        behind have never been set.
        """
        unset = kernel.args
        kernel.args, kernel.repeat, kernel.repetition = self._args, self._repeat, self._repetition
        captured = self._repeat.takes(kernel, args)
        if captured is None:
            kernel.args, kernel.repeat, kernel.repetition = unset, None, None
        else:
            kernel.is_ready = True
        return captured


class RevivedKernel(CalledKernel, Protocol):
    """A kernel as it is revived (`vdev.facade.kernel.KernelState`)."""

    repeat: Any  #: takes the next call
    is_ready: bool  #: whether every argument has been set
