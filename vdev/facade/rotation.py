"""Sets of buffers that take turns as a kernel's arguments: two that are swapped after each step, or several pairs of them.

Decides which launches may be made again in the way in which a launch with the same buffers was made before, though launches with
others came between: that of the same buffers, whatever the values. What makes them again knows by itself whether that is still
possible (`vdev.session.in_a_row`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import ref

from vdev.facade.memory import Memory
from vdev.facade.svm_memory import SVMArgument

if TYPE_CHECKING:
    from vdev.session.commands import Argument, Repeater

#: what made the last launch with a set of buffers again, or will make the next; and that launch's number
Known: TypeAlias = tuple["Repeater | None", int]
Key: TypeAlias = tuple[Any, ...]

#: kept arguments of which a launch captures the memory
_OBJECTS = frozenset((Memory, SVMArgument))
#: sets of buffers that are known of a kernel
_MOST = 8
#: launches with other buffers than before that are not looked at, after sets of which none came back
_LONGEST_PAUSE = 255


class RotatedKernel(Protocol):
    """A kernel as its rotation sees it (`vdev.facade.kernel.KernelState`)."""

    args: list[Any]  #: the values of its arguments


class Rotation:
    """What is known of the launches of one kernel, by their buffers."""

    __slots__ = ("_came_back", "_known", "_last", "_pause", "left", "stays")

    def __init__(self) -> None:
        self._known: dict[Key, Known] = {}
        self._came_back = False  #: whether any of them has been found again
        self._pause = 0
        self._last: Known | None = None
        #: whether the last two launches that were looked for were found with the same buffers: these do not take turns
        self.stays = False
        #: launches with other buffers that are not looked at from now on
        self.left = 0

    def key(self, kernel: RotatedKernel, args: Sequence[Argument]) -> Key | None:
        """The buffers, and all else that is no value, of a launch with these `args`, which keeps no memory of theirs alive. None where
        nobody should look for them, and where the kernel's arguments are others by now: another thread has set some.
        """
        if self.left:
            self.left -= 1
            return None
        kept: Sequence[Any] = (*kernel.args,)
        found: list[Any] = []
        if len(kept) != len(args):
            return None
        for each, arg in zip(kept, args, strict=True):
            if type(each) in _OBJECTS:
                try:
                    current: Any = each.argument
                except AttributeError:  # another thread has just released it
                    return None
                if current is not arg:
                    return None
                found.append(
                    ref(arg)
                )  # which is the next buffer's, too, if that is this one (`spare_buffers`)
            elif type(each) is not bytes:
                if each is not arg:
                    return None
                found.append(each)
        key = (*found,)  # of a buffer, the same object each time
        hash(key)  # which they know from now on, even if another thread lets go of a buffer
        return key

    def find(self, key: Key) -> Known | None:
        """What was kept last for these buffers."""
        found = self._known.get(key)
        self.stays, self._last = found is not None and found is self._last, found
        if found is not None:
            self._came_back = True
        return found

    def keep(self, key: Key, known: Known) -> None:
        """Keep what makes launches with these buffers again."""
        if len(self._known) >= _MOST and key not in self._known:
            self._pause = 0 if self._came_back else min(2 * self._pause + _MOST, _LONGEST_PAUSE)
            self.left, self._came_back = self._pause, False
            self._known.clear()
        self._known[key] = known
