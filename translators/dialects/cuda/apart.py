"""Kernels that gain from knowing that what they read is not what they write.

NVIDIA's compilers keep loads behind the stores that come before them, as two pointers may point to the same memory. Where a loop does
both, no turn's loads begin before the stores of the turn before are under way. A kernel with such a loop gets a second version, for
launches whose arguments lie apart: memory of arguments to `const` data is none of another argument's. There it reads through
`__restrict__`.

Decides which kernels get one, and for which launches it is right. That rests on types alone: nothing stores through a pointer to `const`
data, and programs where any other pointer to buffers may come from elsewhere than an argument without `const` get no such version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from clang.cindex import Cursor, CursorKind, Type, TypeKind

from ...frontend import clang
from ...frontend.source import ArgKind, KernelInfo
from ...frontend.types import OWN, Space
from . import nodes
from .nodes import Node
from .program import Apart
from .types import ARRAYS, holds_pointer

#: of functions, by name: several where a name is overloaded
Bodies: TypeAlias = Mapping[str, Sequence[Node]]
_LOOPS = (CursorKind.WHILE_STMT, CursorKind.DO_STMT)
#: memory that is no buffer's
_NO_BUFFER = (*OWN, Space.LOCAL, Space.CONSTANT)
#: types of most expressions, which are none of pointers
_NUMBERS = frozenset({
    TypeKind.BOOL, TypeKind.CHAR_U, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG, TypeKind.CHAR_S,
    TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.HALF,
})  # fmt: skip
_STORING = ("vstore", "atom")  #: how names of built-in functions begin that store
_READING = ("vload", "async_work_group")  #: and of some that read


def arguments_apart(info: KernelInfo, entry: str) -> Apart | None:
    """Which arguments have to lie apart, and the version's entry function; None where nothing can be gained."""
    read, written = [], []
    for index, argument in enumerate(info.args):
        if argument.kind is not ArgKind.GLOBAL:
            continue
        if not argument.pointee_const:
            written.append(index)
        elif "volatile" not in argument.type_qualifiers and "atomic" not in argument.type_name:
            read.append(index)
    return Apart(f"{entry}_apart", tuple(read), tuple(written)) if read and written else None


def reads_behind_stores(kernel: str, bodies: Bodies) -> bool:
    """Whether a loop of a kernel, or of a function that it calls, may both store to a buffer and read `const` data of one. `bodies`: of all
    functions.
    """
    within = chain.from_iterable(_reached(body, bodies, {kernel}) for body in bodies.get(kernel, ()))
    for loop in within:
        if isinstance(loop, nodes.For) or (isinstance(loop, nodes.Plain) and loop.cursor.kind in _LOOPS):
            stores = reads = False
            for node in _reached(loop, bodies, set()):
                stores = stores or _stores(node)
                reads = reads or _reads(node)
                if stores and reads:
                    return True
    return False


def _reached(node: Node, bodies: Bodies, seen: set[str]) -> Iterator[Node]:
    """A node, all below it, and those of functions that it calls, but for the `seen` ones."""
    for each in nodes.walk(node):
        yield each
        if isinstance(each, nodes.Call) and each.ours and each.name not in seen:
            seen.add(each.name)
            for body in bodies.get(each.name, ()):
                yield from _reached(body, bodies, seen)


def _stores(node: Node) -> bool:
    """Whether an expression may store to a buffer itself."""
    match node:
        case nodes.Assignment(left=target) | nodes.Update(left=target) | nodes.Step(operand=target):
            return not isinstance(target, nodes.Name) and clang.address_space(target.type) not in _NO_BUFFER
        case nodes.Call(ours=False, name=name, arguments=arguments):
            return name.startswith(_STORING) and any(_may_store(argument.type) for argument in arguments)
    return False


def _reads(node: Node) -> bool:
    """Whether an expression may read `const` data of a buffer itself."""
    match node:
        case nodes.Index() | nodes.Dereference():
            type_ = node.type
            return clang.address_space(type_) not in _NO_BUFFER and type_.get_canonical().is_const_qualified()
        case nodes.Call(ours=False, name=name):
            return name.startswith(_READING)
    return False


def stores_by_arguments_alone(
    declarations: Iterable[Cursor], bodies: Bodies, shifts: Collection[int]
) -> bool:
    """Whether every pointer with which a program may store to buffers comes from a kernel's argument that has no `const`. `shifts`: where
    statements begin that were put in front of a kernel's own, and that make each argument another pointer of the same type.
    """
    if any(cursor.kind == CursorKind.VAR_DECL and holds_pointer(cursor.type) for cursor in declarations):
        return False  # an earlier launch may have left a pointer there
    own = (
        part
        for body in chain.from_iterable(bodies.values())
        for part in (body.parts if isinstance(body, nodes.Plain) else (body,))
        if part.start not in shifts
    )
    return not any(map(_is_from_elsewhere, _nodes(own)))


def _nodes(bodies: Iterable[Node]) -> Iterator[Node]:
    return chain.from_iterable(map(nodes.walk, bodies))


def _is_from_elsewhere(node: Node) -> bool:
    """Whether a pointer that stores to buffers may come into being here: from a pointer to `const` data, from a number, from memory, or
    from a function of which that is not known.
    """
    match node:
        case nodes.Plain():
            return node.cursor.kind in (CursorKind.ASM_STMT, CursorKind.MS_ASM_STMT)
        case nodes.Converted() | nodes.Cast():
            return any(
                _level(node.type, of)
                for of in _sources(node)
                if of.kind not in _NUMBERS or node.type.kind not in _NUMBERS
            )
        case nodes.Member() | nodes.Index() | nodes.Dereference():
            if node.type.kind in _NUMBERS or not _may_store(node.type):
                return False
            # In memory of the work-item's own, what a variable holds was put there as a pointer of the same type.
            return isinstance(node, nodes.Member) or clang.address_space(node.type) not in OWN
        case nodes.Call():
            return not node.ours and _may_store(node.type)
        case nodes.Unnamed():
            return _may_store(node.type)
    return False


def _sources(node: nodes.Converted | nodes.Cast) -> Iterator[Type]:
    for part in (node.operand,) if isinstance(node, nodes.Converted) else node.parts:
        yield part.type


def _level(to: Type, of: Type) -> bool:
    """Whether a conversion makes a pointer that stores to buffers of something that does not, or of whatever is stored in memory; or
    shows the memory of a pointer as that of something else.
    """
    target, source = clang.pointee(to), clang.pointee(of)
    if _is_pointer(target) or _is_pointer(source):  # pointers in memory are as they are
        return target is None or source is None or source.get_canonical() != target.get_canonical()
    if target is None:
        return False
    if not _may_store(to) or of.get_canonical().kind in ARRAYS:
        return False
    return source is None or not (_may_store(of) or clang.address_space(source) in _NO_BUFFER)


def _is_pointer(type_: Type | None) -> bool:
    return type_ is not None and clang.pointee(type_) is not None


def _may_store(type_: Type) -> bool:
    """Whether it is a pointer through which a buffer may be stored to."""
    target = clang.pointee(type_)
    if target is None or clang.address_space(target) in _NO_BUFFER:
        return False
    target = target.get_canonical()
    while not target.is_const_qualified():  # an array's qualifiers may be with the array or with its elements
        if target.kind not in ARRAYS:
            return True
        target = target.element_type.get_canonical()
    return False
