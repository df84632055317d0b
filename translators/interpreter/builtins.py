"""OpenCL C's own functions: what they return and which memory they touch (OpenCL C specification 6.13, 6.15).

Tables by name; functions that only compute values are in `integers`. A function that is in no table counts as pure if
it takes no pointers; otherwise it may do anything with the memory behind them, also atomically.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ..frontend.syntax import Call, Expression, Unsupported
from ..frontend.types import (
    CArray,
    CFloat,
    COther,
    CPointer,
    CType,
    CVector,
    CVoid,
    Whole,
    integer_of,
)
from ..symbolic import expression as ex
from ..symbolic import logic, nodes
from ..symbolic.nodes import INT, LONG, UINT, ULONG, Expr
from .calculation import Calculator
from .integers import MOST_NAMES, rule
from .values import (
    OPAQUE,
    Anywhere,
    Argument,
    Number,
    Place,
    Pointer,
    Private,
    Shared,
    Value,
    Vector,
    convert,
    places_of,
    pointer_into,
    unknown_value,
)
from .ways import StepKind

Arguments = tuple[Expression, ...]
Handler = Callable[[Calculator, Call, Arguments, bool], Value]

_IDS: dict[str, type[nodes.WorkItems]] = {
    "get_global_id": nodes.GlobalId,
    "get_local_id": nodes.LocalId,
    "get_group_id": nodes.GroupId,
    "get_global_size": nodes.GlobalSize,
    "get_local_size": nodes.LocalSize,
    "get_enqueued_local_size": nodes.WholeLocalSize,
    "get_num_groups": nodes.NumGroups,
    "get_global_offset": nodes.GlobalOffset,
}
#: Work-item functions of which only bounds are known: (lowest, highest).
_BOUNDED = {
    "get_local_linear_id": (0, INT.hi),
    "get_sub_group_size": (1, INT.hi),
    "get_max_sub_group_size": (1, INT.hi),
    "get_num_sub_groups": (1, INT.hi),
    "get_enqueued_num_sub_groups": (1, INT.hi),
    "get_sub_group_id": (0, INT.hi),
    "get_sub_group_local_id": (0, INT.hi),
    "ilogb": (INT.lo, INT.hi),
}

#: Functions that only order, hint or ask (prefetch reads nothing that the program sees).
_SILENT = frozenset(
    [
        "barrier",
        "work_group_barrier",
        "sub_group_barrier",
        "mem_fence",
        "read_mem_fence",
        "write_mem_fence",
        "atomic_work_item_fence",
        "prefetch",
        "get_fence",
        "wait_group_events",
    ]
)

#: Functions that write one value through their last pointer argument and read nothing there.
_WRITERS = frozenset(["sincos", "fract", "frexp", "lgamma_r", "modf", "remquo"])

_ATOMIC = re.compile(r"(?:atomic|atom)_(?:fetch_)?(add|sub|inc|dec|min|max|and|or|xor)(?:_explicit)?")
_OTHER_ATOMIC = re.compile(
    r"(?:atomic|atom)_(xchg|cmpxchg|store|load|exchange|compare_exchange\w*|flag_\w+|init)(?:_explicit)?"
)
_COMMUTING = {"sub": "add", "inc": "add", "dec": "add"}


def builtin(calculator: Calculator, node: Call, *, used: bool) -> Value:
    """The value of a call to a function without a body; its accesses are recorded."""
    name, args = node.name, node.arguments
    if name in _IDS:
        return _work_item(calculator, node, _IDS[name], args)
    handler = _handler(name)
    return _of_values(calculator, node) if handler is None else handler(calculator, node, args, used)


@lru_cache(MOST_NAMES)
def _handler(name: str) -> Handler | None:
    """What is done in a call of a function with a rule of its own; None for a function of its arguments' values."""
    if name in _HANDLERS:
        return _HANDLERS[name]
    return next((handler for pattern, handler in _PATTERNS if pattern.fullmatch(name)), None)


def _of_values(calculator: Calculator, node: Call) -> Value:
    """The same for a function that depends only on its arguments' values."""
    name, args = node.name, node.arguments
    values = [calculator.value(arg) for arg in args]
    by_value = rule(name)
    if by_value is not None:
        return by_value(values, node.type)
    if name in _SILENT:
        return unknown_value(node.type) if isinstance(node.type, CPointer) else OPAQUE
    if name in _BOUNDED and isinstance(node.type, Whole):
        return Number(ex.unknown(*_BOUNDED[name]), node.type.integer)
    if name in _WRITERS and args:
        *values, last = values
        pointee = _pointee(args[-1])
        if isinstance(last, Pointer) and not isinstance(pointee, CVoid):
            calculator.memory.store(last, pointee, unknown_value(pointee), node.line)
    for value in values:
        calculator.give_away(value, f"an unknown function: {name}", node.line)
    return unknown_value(node.type, f"the result of {name}()")


def _work_item(calculator: Calculator, node: Call, function: type[nodes.WorkItems], args: Arguments) -> Value:
    kind = integer_of(node.type) or ULONG
    dimension = calculator.number(args[0])
    if isinstance(dimension, nodes.Const) and 0 <= dimension.number <= 2:
        return Number(ex.workitem(function, dimension.number), kind)
    # The answer for a dimension that does not exist (OpenCL C 6.13.1).
    result: Expr = ex.ZERO if issubclass(function, nodes.ItemId | nodes.GlobalOffset) else ex.ONE
    if isinstance(dimension, nodes.Const):
        return Number(result, kind)
    for index in range(3):
        result = logic.select(logic.equal(dimension, ex.const(index)), ex.workitem(function, index), result)
    return Number(result, kind)


def _work_dim(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    return Number(ex.WORK_DIM, UINT)


def _linear_id(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    """get_global_linear_id (OpenCL C 2.0, 6.13.1)."""
    position = [ex.sub(ex.workitem(nodes.GlobalId, d), ex.workitem(nodes.GlobalOffset, d)) for d in range(3)]
    result = position[2]
    for d in (1, 0):
        result = ex.add(ex.mul(result, ex.workitem(nodes.GlobalSize, d)), position[d])
    return Number(result, ULONG)


def _local_linear_id(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    result: Expr = ex.workitem(nodes.LocalId, 2)
    for d in (1, 0):
        result = ex.add(ex.mul(result, ex.workitem(nodes.LocalSize, d)), ex.workitem(nodes.LocalId, d))
    return Number(result, ULONG)


# vectors in memory ----------------------------------------------------------------------------------


def _vector_load(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    """vloadn, vload_half, vload_halfn, vloada_halfn: n elements at offset * n (vloada_half3: * 4), OpenCL C
    6.13.7."""
    pointer, ctype = _vector_place(calculator, node.name, args[0], args[1])
    loaded = calculator.memory.load(pointer, ctype, node.line)
    if isinstance(node.type, CVector) and isinstance(loaded, Vector):
        return convert(loaded, node.type)
    return unknown_value(node.type)


def _vector_store(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    value = calculator.value(args[0])
    pointer, ctype = _vector_place(calculator, node.name, args[1], args[2])
    element = ctype.element
    if isinstance(value, Vector):
        known = len(value.items) == ctype.count
        items = value.items if known else (unknown_value(element),) * ctype.count
    else:
        items = (value if ctype.count == 1 else unknown_value(element),) * ctype.count
    private = all(target.place in calculator.memory.state.env for target in pointer.targets)
    if private:
        for index, item in enumerate(items[: ctype.count]):
            calculator.memory.store(pointer.moved(ex.const(index * element.size)), element, item, node.line)
    else:
        packed = COther(ctype.count * element.size, space=element.space, volatile=element.volatile)
        calculator.memory.store(pointer, packed, OPAQUE, node.line)
    return OPAQUE


def _vector_place(
    calculator: Calculator, name: str, offset: Expression, base: Expression
) -> tuple[Pointer, CVector]:
    count = int((re.findall(r"\d+", name) or ["1"])[-1])
    element = _pointee(base)
    stride = 4 if count == 3 and name.startswith(("vloada", "vstorea")) else count
    position = calculator.value(offset)
    pointer = calculator.advance(calculator.pointer(base), position, stride * element.size)
    nbytes = count * element.size
    return pointer, CVector(nbytes, element, count, space=element.space, volatile=element.volatile)


def _pointee(argument: Expression) -> CType:
    """What a pointer argument points to."""
    match argument.type:
        case CPointer(pointee=ctype) | CArray(element=ctype):
            return ctype
    raise Unsupported("an argument that is not a pointer", argument.line)


def _async_copy(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    """async_work_group_copy and its strided form: done once by the whole work-group with equal arguments."""
    target, source = calculator.pointer(args[0]), calculator.pointer(args[1])
    count = calculator.number(args[2])
    strided = "strided" in node.name
    stride = calculator.value(args[3]) if strided else None
    for arg in args[4 if strided else 3 :]:
        calculator.value(arg)
    element = _pointee(args[0])
    to_global = any(isinstance(t.place, Argument) for t in target.targets)
    counter = ex.counter()
    outside = calculator.memory.state.way
    way = calculator.memory.ways.step(outside, StepKind.LOOP, logic.TRUE, counter)
    calculator.memory.state.way = calculator.memory.ways.condition(way, logic.less(counter, count))
    step = Number(counter, LONG)
    far = step
    if isinstance(stride, Number):
        far = Number(ex.mul(counter, stride.observed()), LONG)
    calculator.memory.load(
        calculator.advance(source, step if to_global else far, element.size), element, node.line
    )
    calculator.memory.store(
        calculator.advance(target, far if to_global else step, element.size),
        element,
        unknown_value(element),
        node.line,
    )
    calculator.memory.state.way = outside
    return OPAQUE


# atomics --------------------------------------------------------------------------------------------


def _dtype(ctype: CType) -> str | None:
    if isinstance(ctype, CFloat):
        return {4: "float32", 8: "float64"}.get(ctype.size)
    if isinstance(ctype, Whole):
        return f"{'int' if ctype.integer.signed else 'uint'}{ctype.integer.bits}"
    return None


def _atomic_update(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    match = _ATOMIC.fullmatch(node.name)
    assert match is not None
    op = _COMMUTING.get(match.group(1), match.group(1))
    if used:
        return _atomic(calculator, node, args, None, "the result of an atomic function is used")
    if _dtype(_pointee(args[0])) not in ("int32", "uint32", "int64", "uint64"):
        return _atomic(calculator, node, args, None, "atomic arithmetic whose order matters")
    return _atomic(calculator, node, args, op, None)


def _atomic_other(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    return _atomic(calculator, node, args, None, f"{node.name} does not commute")


def _atomic(calculator: Calculator, node: Call, args: Arguments, op: str | None, reason: str | None) -> Value:
    pointer = calculator.pointer(args[0])
    for arg in args[1:]:
        value = calculator.value(arg)
        if isinstance(value, Pointer):  # compare_exchange writes what it found through `expected`
            expected = _pointee(arg)
            calculator.memory.store(
                pointer_into(places_of(value)), expected, unknown_value(expected), node.line
            )
    element = _pointee(args[0])
    for target in pointer.targets:
        calculator.memory.record(
            target.place, "atomic", target.offset, element.size, node.line,
            condition=target.condition, op=op, dtype=_dtype(element) if op else None, reason=reason,
        )  # fmt: skip
        if target.place in calculator.memory.state.env:
            calculator.memory.store(Pointer((target,)), element, unknown_value(element), node.line)
    return unknown_value(node.type, "the result of an atomic function")


def _printf(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    for arg in args:
        calculator.value(arg)
    return unknown_value(node.type)


def _into_space(*kinds: type[Place]) -> Handler:
    """to_global() and similar: the pointer if it leads into that address space, else a null pointer."""

    def handler(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
        return Pointer(
            tuple(t for t in calculator.pointer(args[0]).targets if isinstance(t.place, (Anywhere, *kinds)))
        )

    return handler


def _expect(calculator: Calculator, node: Call, args: Arguments, used: bool) -> Value:
    """GNU C's __builtin_expect: the first argument; the second is its usual value."""
    for arg in args[1:]:
        calculator.value(arg)
    return calculator.value(args[0])


_HANDLERS: dict[str, Handler] = {
    "get_work_dim": _work_dim,
    "get_global_linear_id": _linear_id,
    "get_local_linear_id": _local_linear_id,
    "printf": _printf,
    "__builtin_expect": _expect,
    # Here a program's variables in global memory count as shared memory, like local ones.
    "to_global": _into_space(Argument, Shared),
    "to_local": _into_space(Shared),
    "to_private": _into_space(Private),
}

_PATTERNS: list[tuple[re.Pattern[str], Handler]] = [
    (re.compile(r"vloada?(_half)?\d*"), _vector_load),
    (re.compile(r"vstorea?(_half)?\d*(_rt[ezpn])?"), _vector_store),
    (re.compile(r"async_work_group_(strided_)?copy"), _async_copy),
    (_ATOMIC, _atomic_update),
    (_OTHER_ATOMIC, _atomic_other),
]
