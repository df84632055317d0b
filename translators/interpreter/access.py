"""The access analysis: a kernel of a parsed program is interpreted once into its summary (PPoPP'11 section 3.3, AMGE
section 4.1).

Its public face, with what summaries are made of (`summaries`). Decides nothing about partitions, buffers or workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..collecting import seldom_collected
from ..frontend.depth import DeepRecursion
from ..frontend.source import BUFFERS, ArgKind, KernelInfo
from ..frontend.syntax import Unsupported
from ..frontend.syntax_reader import SyntaxReader
from ..frontend.types import MOST_LEAVES, CBool, CInt, CPointer, CRecord, CType, CVector, Whole
from ..ranges.grain import BYTES, NOTHING, Grain, joined, of_store
from ..symbolic import expression as ex
from ..symbolic import logic, nodes
from ..symbolic.domain import Infeasible
from ..symbolic.effort import TooMuch, limited, spend
from ..symbolic.nodes import Expr
from .access_recorder import NO_ARGUMENT, Record
from .summaries import Access, AccessRange, KernelSummary, Reason
from .values import (
    ANYWHERE,
    OPAQUE,
    SHARED,
    Aggregate,
    Argument,
    Number,
    Pointer,
    Target,
    Value,
    Vector,
    pointer_to,
    unknown_value,
)
from .walk import Interpreter
from .ways import Step, StepKind

if TYPE_CHECKING:
    from ..frontend.source import ParsedProgram

#: Steps of work (see `effort`) after which the analysis of a kernel gives up.
MOST_STEPS = 4_000_000

#: libclang's trees are read by one thread at a time; what was read of a program is kept as long as the program.
_lock = Lock()
_readers: WeakKeyDictionary[ParsedProgram, SyntaxReader] = WeakKeyDictionary()


# making summaries -----------------------------------------------------------------------------------


def analyse_kernel(program: ParsedProgram, name: str) -> KernelSummary:
    """The summary of kernel `name`. Raises KeyError if the program has no such kernel.

    What cannot be followed is in the summary: as accesses anywhere, or as reasons for one worker.
    """
    with _lock:
        return _analyse(program, name)


@seldom_collected
def _analyse(program: ParsedProgram, name: str) -> KernelSummary:
    info = program.kernels[name]
    reader = _readers.get(program)
    if reader is None:
        reader = _readers[program] = SyntaxReader(program)
    interpreter = Interpreter(reader)
    problem: Unsupported
    with limited(MOST_STEPS):
        try:
            with DeepRecursion():
                _walk(interpreter, info)
                return _summary(interpreter, info)
        except Unsupported as unsupported:
            problem = unsupported.with_traceback(None)  # which refers to this function, and so to the problem
        except RecursionError:
            problem = Unsupported("its expressions are nested too deeply", interpreter.reached)
        except TooMuch:
            problem = Unsupported(f"not analysed: more than {MOST_STEPS:,} steps", interpreter.reached)
        finally:
            interpreter.end()
    return _gave_up(info, problem)


def _walk(interpreter: Interpreter, info: KernelInfo) -> None:
    function = interpreter.reader.function(info.name)
    if function is None:
        raise Unsupported("the kernel has no body")
    arguments = {
        parameter.name: _argument(index, info.args[index].kind, parameter.type)
        for index, parameter in enumerate(function.parameters)
    }
    interpreter.run(function, arguments)


def _summary(walked: Interpreter, info: KernelInfo) -> KernelSummary:
    names, pointers = _names(info), _pointers(info)
    constant = {index for index in pointers if info.args[index].kind is ArgKind.CONSTANT}
    accesses = list(_accesses(walked.memory.records, pointers, constant, names))
    leaves = _leaves(accesses)
    return KernelSummary(
        info.name,
        tuple(accesses),
        tuple(Reason(text, line) for text, line in walked.outside_program) + _waiting(walked, names),
        _scalars(leaves),
        _images(info),
        Reason(*walked.memory.addresses[0]) if walked.memory.addresses else None,
        names,
        _merged_dimensions(leaves),
        tuple(record.way for record in walked.memory.records if record.arg == NO_ARGUMENT),
    )


def _names(info: KernelInfo) -> dict[int, str]:
    return {index: arg.name for index, arg in enumerate(info.args)}


def _pointers(info: KernelInfo) -> list[int]:
    return [index for index, arg in enumerate(info.args) if arg.kind in BUFFERS]


def _images(info: KernelInfo) -> tuple[int, ...]:
    return tuple(index for index, arg in enumerate(info.args) if arg.kind is ArgKind.IMAGE)


def _waiting(walked: Interpreter, names: Mapping[int, str]) -> tuple[Reason, ...]:
    """Loops that wait for other work-items: across workers they would wait for ever."""
    changed = {record.arg for record in walked.memory.records if record.mode != "read"}
    polls = [(arg, line) for arg, line in walked.memory.polls if arg in changed or None in changed]
    return tuple(Reason(f"a loop that waits for `{names[arg]}` to change", line) for arg, line in polls)


def _gave_up(info: KernelInfo, problem: Unsupported) -> KernelSummary:
    names, root = _names(info), Step(None, StepKind.ROOT, logic.TRUE)
    accesses = tuple(
        Access(index, mode, 1, problem.line, None, None, problem.text, names, None, root)
        for index in _pointers(info)
        for mode in ("read", "write")
    )
    reason = Reason(problem.text, problem.line)
    return KernelSummary(info.name, accesses, (reason,), frozenset(), _images(info), reason, names)


def _argument(index: int, kind: ArgKind, ctype: CType) -> Value:
    """The initial value of a kernel's parameter."""
    if kind in BUFFERS:
        return pointer_to(Argument(index))
    if kind is ArgKind.LOCAL:
        return pointer_to(SHARED)
    if kind is not ArgKind.VALUE:
        return OPAQUE
    return _passed(index, 0, ctype)


def _passed(index: int, byte: int, ctype: CType) -> Value:
    """The value of type `ctype` at `byte` of a value argument."""
    match ctype:
        case CInt() | CBool():
            return Number(ex.argument(index, byte, ctype.integer), ctype.integer)
        case CVector():
            size = ctype.element.size
            return Vector(tuple(_passed(index, byte + i * size, ctype.element) for i in range(ctype.count)))
        case CRecord():
            cells = {
                (at, member.size): _passed(index, byte + at, member)
                for at, member in ctype.members.values()
                if isinstance(member, Whole | CVector)
            }
            return Aggregate(cells, frozenset((ANYWHERE,)), complete=True)
        case CPointer():
            return Pointer((Target(ANYWHERE, ex.ZERO),))
    return unknown_value(ctype)


def _accesses(
    records: Sequence[Record], pointers: Sequence[int], constant: set[int], names: Mapping[int, str]
) -> Iterator[Access]:
    for record in records:
        spend(4)
        if record.arg == NO_ARGUMENT:
            continue
        targets = [record.arg] if record.arg is not None else list(pointers)
        for arg in targets:
            if record.mode != "read" and arg in constant:
                continue
            yield Access(
                arg,
                record.mode,
                record.nbytes,
                record.line,
                record.op,
                record.dtype,
                record.reason,
                names,
                record.offset,
                record.way,
                _grain(record),
            )


def _grain(record: Record) -> Grain:
    """Where the stores of a write begin and end, relative to the argument's pointer."""
    if record.mode != "write":
        return NOTHING
    if record.offset is None or len(record.pieces) > MOST_LEAVES:
        return BYTES
    modulus, residue = ex.congruence(record.offset)
    pieces = record.pieces or ((0, record.nbytes),)
    return joined(of_store(modulus, residue + byte, nbytes) for byte, nbytes in pieces)


def _leaves(accesses: Sequence[Access]) -> set[Expr]:
    found: set[Expr] = set()
    seen: set[Step] = set()
    for access in accesses:
        if access.offset is not None:
            found |= access.offset.leaves
        way: Step | None = access.way
        while way is not None and way not in seen:
            spend(4)
            seen.add(way)
            found |= way.expr.leaves
            way = way.parent
    return found


def _scalars(leaves: Iterable[Expr]) -> frozenset[int]:
    return frozenset(leaf.index for leaf in leaves if isinstance(leaf, nodes.Argument))


def _merged_dimensions(leaves: Iterable[Expr]) -> frozenset[int]:
    apart = nodes.GroupId | nodes.LocalId | nodes.LocalSize
    split = {leaf.dimension for leaf in leaves if isinstance(leaf, apart)}
    return frozenset(range(3)) - split


__all__ = ["Access", "AccessRange", "Infeasible", "KernelSummary", "Reason", "analyse_kernel"]
