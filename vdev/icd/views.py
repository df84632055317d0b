"""Memory objects as the façade's commands take them.

A C program's handle stands for the memory object itself (`vdev.facade.memory.Memory`), whose references are counted in C;
commands take wrappers. A view is a wrapper that owns no reference.
"""

from __future__ import annotations

from typing import Any

from vdev.facade.images import Image, ImageMemory
from vdev.facade.memory import Buffer, Memory

_new = object.__new__


class _View:
    _vdev_state: Any
    _valid = False  # it owns no reference

    def show(self, memory: Memory) -> None:
        """Stand for another memory object from now on."""
        self._vdev_state = memory


class _BufferView(_View, Buffer):
    pass


class _ImageView(_View, Image):
    pass


def view(memory: Memory) -> Any:
    """A wrapper around `memory` for one call."""
    wrapper: Any = _new(_ImageView if isinstance(memory, ImageMemory) else _BufferView)
    wrapper.show(memory)
    return wrapper


def unwrap(wrapper: Any) -> Memory:
    """The memory object of a wrapper; from now on the wrapper's reference is the caller's."""
    return wrapper._vdev_give_up()  # type: ignore[no-any-return]
