"""Nodes that are found again by what makes them equal, for as long as anybody has them.

What a `WeakValueDictionary` does, without a Python call for each question and two for each answer that is kept.
"""

from __future__ import annotations

from weakref import ref

from .nodes import Node

__all__ = ["Held", "hold", "table"]

Key = tuple[object, ...]


class Held(ref[Node]):
    """A node that is only held by others, with its key."""

    __slots__ = ("key",)
    key: Key


#: by key: calling what is found gives the node, or None if it is no more
table: dict[Key, Held] = {}


def hold(key: Key, node: Node) -> Node:
    """Find `node` by that key from now on; the node that is found by it, which another thread may have made meanwhile."""
    kept = Held(node, _forget)
    kept.key = key
    earlier = table.setdefault(key, kept)
    if earlier is kept:
        return node
    found = earlier()
    if found is None:  # it is no more, and about to be forgotten
        table[key], found = kept, node
    return found


def _forget(gone: Held, table: dict[Key, Held] = table) -> None:
    """A node is no more. `table`: at the end of a process the module's names may be gone before the last node."""
    found = table.pop(gone.key, None)
    if found is not None and found is not gone:
        table.setdefault(gone.key, found)  # an equal one has been made in the meantime
