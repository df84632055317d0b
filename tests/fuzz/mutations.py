"""Planted defects, by which the generator's strength is measured: one small change of one line of the code each.

A defect is a piece of a module's text and what stands in its place; it is put there when the module is imported, in a
process of its own. Nothing on disk changes. A piece that the module no longer has, or has twice, is an error: then the
defect has to be written anew. `python -m tests.fuzz.strength` runs the generator against each.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


@dataclass(frozen=True)
class Defect:
    """`edits`: module, what stands there once, what stands there then. `issue`: number of a known fault put back."""

    name: str
    kind: (
        str  #: "analysis", "preprocessor", "planner", "merging", "translation", "cuda", "check" or "session"
    )
    edits: tuple[tuple[str, str, str], ...]
    issue: str = ""
    checked: bool = False  #: runs under the check, and is found by what that lets pass
    tests: str = ""  #: a file of tests that has to find it: what it changes is a matter of who is how far, not of programs


def _one(name: str, kind: str, module: str, old: str, new: str, issue: str = "") -> Defect:
    return Defect(name, kind, ((module, old, new),), issue)


def _analysis(name: str, module: str, old: str, new: str, issue: str = "") -> Defect:
    return _one(name, "analysis", f"vdev.translators.{module}", old, new, issue)


#: what makes one map of holders' regions, for a module that does not import it
_OVERLAID = "__import__('vdev.translators.ranges.labelled', fromlist=['overlaid']).overlaid"


def _planner(name: str, module: str, old: str, new: str, issue: str = "") -> Defect:
    return _one(name, "planner", f"vdev.planner.{module}", old, new, issue)


def _traced(name: str, old: str, new: str) -> Defect:
    """One of numbers that are traced, in Python, which no compiled methods replace then."""
    module = "vdev.translators.ranges.tracing"
    plainly = "compiled.replace_methods(Number, _COMPILED)", "compiled.replace_methods(Number, ())"
    return Defect(name, "planner", ((module, old, new), (module, *plainly)), "")


def _by_tests(defect: Defect, tests: str) -> Defect:
    """One that random programs hardly reach, and a file of tests has to find."""
    return replace(defect, tests=f"tests/pure/{tests}.py")


def _cuda(name: str, module: str, old: str, new: str) -> Defect:
    return _one(name, "cuda", f"vdev.translators.dialects.cuda.{module}", old, new)


def _session(name: str, tests: str, *edits: tuple[str, str, str]) -> Defect:
    found = tuple((f"vdev.{module}", old, new) for module, old, new in edits)
    return Defect(name, "session", found, tests=f"tests/pure/{tests}.py")


#: The trees are not compared: only then does what the preprocessor gets wrong come into a program.
_NOT_COMPARED = (
    "vdev.translators.frontend.source",
    "reasons += [] if other is None else [other]",
    "reasons += []",
)


def _preprocessor(name: str, module: str, old: str, new: str, issue: str = "") -> Defect:
    return Defect(name, "preprocessor", (_NOT_COMPARED, (f"vdev.translators.{module}", old, new)), issue)


DEFECTS: tuple[Defect, ...] = (
    # the faults that were found by hand, put back
    _analysis("a vector comparison gives 1", "interpreter.operators",
              "return Number(ex.scale(truth, ALL_BITS), kind)", "return Number(truth, kind)", "01"),
    _analysis("one condition chooses all components", "interpreter.operators",
              "return Vector(tuple(join_values(most_significant_bit(c), x, y) for c, x, y in rows))",
              "one = most_significant_bit(condition.items[0])\n"
              "    return Vector(tuple(join_values(one, x, y) for c, x, y in rows))", "02"),
    _analysis("a narrowing cast keeps the sign", "interpreter.loops",
              "return (not end.kind.signed or highest <= end.kind.hi) and _shrinks(end.a, head, highest)",
              "return _shrinks(end.a, head, highest)", "03"),
    _analysis("a constant table read as another type", "interpreter.memory",
              'isinstance(ctype, CBool) or integer_of(ctype) != constants.kind:', 'isinstance(ctype, CBool):', "04"),
    _planner("stores are taken for words", "footprints",
             "footprint.grains.append((part.shift(start), grain.shift(start)))",
             "footprint.grains.append((part.shift(start), of_unit(4)))", "05"),
    Defect("semicolons counted in the text", "analysis", (
        ("vdev.translators.frontend.syntax_reader",
         "first, second = ends\n",
         "text = self.text\n"
         "        at = clang.extent_of(cursor)[0]\n"
         "        first = text.index(b';', at)\n"
         "        second = text.index(b';', first + 1)\n"),), "06"),
    _preprocessor("lines behind a macro", "frontend.preprocessor",
                  "tokens = file.tokens(following)", "tokens = tokenize(following.text, line.first + file.shift, [])", "07"),
    Defect("the check takes the analysis' word", "check", (
        ("vdev.planner.footprints",
         "footprint.grains.append((part.shift(start), grain.shift(start)))",
         "footprint.grains.append((part.shift(start), of_unit(4)))"),
        ("vdev.check.checking",
         "        if not any(mask.any() for mask in wrong):\n            return\n        self._excuse_unwritten",
         "        for slot, mask in enumerate(wrong):\n"
         "            changes = [part.footprints[slot].changes for part in case.parts]\n"
         "            for number, one in enumerate(changes):\n"
         "                mask &= ~mask_of(one & Region.union(changes[:number]), len(mask))\n"
         "        if not any(mask.any() for mask in wrong):\n            return\n        self._excuse_unwritten")),
        "13", checked=True),
    _analysis("padding counts as written", "interpreter.memory", "elif has_gaps(ctype):", "elif False:", "12"),
    _analysis("a bool in a vector counts 1", "interpreter.operators",
              "return Number(ex.scale(logic.truth(value.observed()), ALL_BITS), kind)",
              "return Number(logic.truth(value.observed()), kind)", "20"),
    _analysis("an array declared in a switch is a constant", "interpreter.walk", "self._in_scope(statement)", "pass", "21"),
    _preprocessor("true is 0 in conditions", "frontend.conditions", 'return (int(word == "true"), False)', "return (0, False)", "22"),
    _preprocessor("elifdef is passed over", "frontend.preprocessor",
                  '_ALTERNATIVES = {"elif": "if", "elifdef": "ifdef", "elifndef": "ifndef"}',
                  '_ALTERNATIVES = {"elif": "if"}', "23"),
    # conditions
    _analysis("a strict comparison excludes one more", "symbolic.logic",
              "return ge0(linear_difference(b, a, -1))", "return ge0(linear_difference(b, a, -2))"),
    _analysis("a comparison excludes equality", "symbolic.logic", "return ge0(sub(b, a))", "return less(a, b)"),
    _analysis("a negated comparison excludes one more", "symbolic.logic",
              "return ge0(add(const(-1), a.a, -1))", "return ge0(add(const(-2), a.a, -1))"),
    _analysis("greater is taken for less", "interpreter.operators",
              "Binary.GREATER: lambda a, b: logic.less(b, a),", "Binary.GREATER: lambda a, b: logic.less(a, b),"),
    _analysis("not equal is taken for equal", "interpreter.operators",
              "Binary.NOT_EQUAL: lambda a, b: logic.negate(logic.equal(a, b)),", "Binary.NOT_EQUAL: logic.equal,"),
    _analysis("or is taken for its first part", "symbolic.evaluation",
              "self._assume_either(condition.a, condition.b)", "self.assume(condition.a)"),
    _analysis("a value other than zero is above one", "symbolic.evaluation",
              "if low == 0:\n            domain.require(form.shifted(-1))\n        elif high == 0:",
              "if low == 0:\n            domain.require(form.shifted(-2))\n        elif high == 0:"),
    _analysis("an unknown condition never holds", "symbolic.evaluation",
              'self.domain.blur(f"a condition on {_origin(condition)}")', "raise Infeasible"),
    # operators and functions
    _analysis("eight bits do not wrap", "symbolic.expression",
              "if lo <= a.lo and a.hi <= hi:\n        return a\n    if type(a) is Const:",
              "if kind.bits == 8 or (lo <= a.lo and a.hi <= hi):\n        return a\n    if type(a) is Const:"),
    _analysis("a cast cuts to one window", "symbolic.evaluation",
              "window = first + self.choose(last - first + 1)", "window = first"),
    _by_tests(_analysis("a quotient of negative numbers is rounded down", "symbolic.evaluation",
              "return self.floor_div(form.times(-1), divisor).times(-1)\n        return self.between",
              "return self.floor_div(form, divisor)\n        return self.between"), "test_operation_bounds"),
    _by_tests(_analysis("a remainder is never negative", "symbolic.operations",
              "return scope.between(max(low, 1 - divisor) if low < 0 else 0, min(max(high, 0), divisor - 1), a)",
              "return scope.between(0, min(max(high, 0), divisor - 1), a)"), "test_operation_bounds"),
    _analysis("a mask loses its highest bit", "symbolic.operations",
              "block.bit_length()).times(1 << trailing)", "block.bit_length() - 1).times(1 << trailing)"),
    _analysis("or ends at its larger operand", "symbolic.operations",
              "top = (1 << max(high, most).bit_length()) - 1", "top = max(high, most)"),
    _analysis("a quotient ends one too low", "symbolic.operations",
              "high // max(least, 1),", "high // max(least, 1) - 1,"),
    _analysis("the complement is the negative", "interpreter.operators",
              "return Number(ex.add(ex.scale(value.expr, -1), ex.const(-1)), kind)",
              "return Number(ex.scale(value.expr, -1), kind)"),
    _analysis("max is min", "interpreter.integers", "return ex.maximum(a.observed(), b.observed())",
              "return ex.minimum(a.observed(), b.observed())"),
    _analysis("clamp has no upper end", "interpreter.integers",
              "return ex.minimum(ex.maximum(x.observed(), low.observed()), high.observed())",
              "return ex.maximum(x.observed(), low.observed())"),
    _analysis("saturation wraps", "interpreter.integers",
              "return _apply(lambda x, kind: _within(x.observed(), kind), values, ctype)",
              "return _apply(lambda x, kind: x.observed(), values, ctype)"),
    _analysis("abs is the value", "interpreter.integers",
              "value = x.observed()\n    return ex.maximum(value, ex.scale(value, -1))", "return x.observed()"),
    _analysis("select takes the other one", "interpreter.integers",
              "return join_values(logic.truth(c.observed()), convert(b, ctype), convert(a, ctype))",
              "return convert(a, ctype)"),
    _analysis("any is all", "interpreter.integers", "return _of_bits(values[0], ctype, logic.either)",
              "return _of_bits(values[0], ctype, logic.both)"),
    _analysis("hi is lo", "frontend.syntax", '"hi": range(half, 2 * half),', '"hi": range(0, half),'),
    _analysis("of several components the first alone is stored", "interpreter.memory",
              "for component, item in zip(place.components, items, strict=False):",
              "for component, item in zip(place.components[:1], items, strict=False):"),
    _analysis("a popcount ends at half the bits", "interpreter.integers",
              'return ex.unknown(0, x.kind.bits, "a count of bits")', 'return ex.unknown(0, x.kind.bits // 8, "a count of bits")'),
    _analysis("a word read anew keeps its bounds", "interpreter.values",
              "return value if ctype.integer is value.kind else Number(value.expr, ctype.integer)",
              "return Number(value.observed(), IntType(64, True))"),
    # statements
    _analysis("a conditional is its first part", "interpreter.calculation",
              "return join_values(condition, found[True], found[False])", "return found[True]"),
    _analysis("two ways join as the first", "interpreter.memory",
              "value if other is value or same_value(value, other) else join_values(condition, value, other)", "value"),
    _analysis("a function returns its last value", "interpreter.walk",
              "value = join_values(condition, end.value, value)", "pass"),
    _analysis("no case is fallen into", "interpreter.walk",
              "if self.alive:\n            entered = self._join(self.memory.state, entered)", "if False:\n            pass"),
    _analysis("the default is where no case is known", "interpreter.walk",
              "has_default = True\n                entries.append(nothing)",
              "has_default = True\n                entries.append(logic.FALSE)"),
    _analysis("behind a switch without a default", "interpreter.walk",
              "if not has_default:", "if False:"),
    _analysis("continue ends the loop", "interpreter.loops",
              "ends = [*jumps.continues, *([interpreter.memory.state] if interpreter.alive else [])]",
              "ends = [*([interpreter.memory.state] if interpreter.alive else [])]"),
    _analysis("one break of several", "interpreter.loops", "for state in reversed(self.breaks):", "for state in self.breaks[:1]:"),
    _analysis("a store at an unknown place in an array changes nothing", "interpreter.values",
              "        places = places_of(content) | places_of(value)\n"
              "        if isinstance(value, Number) and value.kind.bits == 64:",
              "        return content\n"
              "        places = places_of(content) | places_of(value)\n"
              "        if isinstance(value, Number) and value.kind.bits == 64:"),
    # loops
    _analysis("a loop's step counts twice", "interpreter.loops",
              "result[head] = ex.add(start, ex.mul(self.counter, step))",
              "result[head] = ex.add(start, ex.mul(self.counter, ex.scale(step, 2)))"),
    _analysis("a loop ends one early", "interpreter.access_recorder",
              'result = self.ways.step(result, StepKind.WHILE, self.expr(step.expr), counter)',
              'one_on = {counter: ex.add(counter, ex.ONE)}\n'
              '                result = self.ways.step(result, StepKind.WHILE, substitute(self.expr(step.expr), one_on), counter)'),
    _analysis("a variable behind a loop is as before its last step", "interpreter.loops",
              "last = {self.counter: ex.trips(lambda leaf: self._trips(leaf, rewriter, stays))}",
              "last = {self.counter: ex.add(ex.trips(lambda leaf: self._trips(leaf, rewriter, stays)), ex.const(-1))}"),
    _analysis("a variable without a step is as at the start", "interpreter.loops",
              "result[head] = self._between(head, end, initial)", "result[head] = initial.expr"),
    # accesses
    _analysis("a vector load touches its first element", "interpreter.builtins",
              "loaded = calculator.memory.load(pointer, ctype, node.line)",
              "loaded = calculator.memory.load(pointer, ctype.element, node.line)"),
    _analysis("a vector store is as wide as an element", "interpreter.builtins",
              'packed = COther(ctype.count * element.size,', 'packed = COther(element.size,'),
    _analysis("vload counts elements", "interpreter.builtins",
              "pointer = calculator.advance(calculator.pointer(base), position, stride * element.size)",
              "pointer = calculator.advance(calculator.pointer(base), position, element.size)"),
    _analysis("a read is taken for nothing", "interpreter.memory",
              'self.record(place, "read", target.offset, ctype.size, line, condition=target.condition)',
              'ctype.size < 2 or self.record(place, "read", target.offset, ctype.size, line, condition=target.condition)'),
    _analysis("the offset of the index space is left out", "symbolic.evaluation",
              "scope.ids[GlobalId, d] = inside.shifted(offset)", "scope.ids[GlobalId, d] = inside"),
    _analysis("linear ids count columns", "interpreter.builtins",
              "result = ex.add(ex.mul(result, ex.workitem(nodes.GlobalSize, d)), position[d])",
              "result = ex.add(ex.mul(result, ex.workitem(ex.GlobalSize, 0)), position[d])"),
    _analysis("sizes of partial groups", "symbolic.launch_numbers",
              "return min(local, ndrange.global_size[dimension] - self.chunk.start[dimension] * local)", "return local"),
    _analysis("a value argument has no sign", "symbolic.launch_numbers",
              'return int.from_bytes(part, "little", signed=kind.signed)', 'return int.from_bytes(part, "little", signed=False)'),
    _analysis("an offset of unknown parts is exact", "symbolic.domain_image",
              "exact = domain.exact and not loose", "exact = domain.exact"),
    _analysis("a may-write is a write", "interpreter.launch_ranges",
              "exact = certainly.contains(possibly)", "exact = bool(certainly) or certainly.contains(possibly)"),
    # planner
    _planner("a transfer is left out", "builder", "for source, piece in found:\n            self.copy(slot, source, holder, piece)",
             "for source, piece in found[:1]:\n            self.copy(slot, source, holder, piece)"),
    _planner("invalidation is forgotten", "directory", "self.valid[holder] = held - gone", "self.valid[holder] = held"),
    _planner("an owner too many", "directory",
             "for holder, region in written:\n            self.add(holder, region)",
             "for holder, region in written:\n            self.add(holder, region), self.add(HOST, region)"),
    _planner("a host write leaves old copies", "transfers",
             "placed = place(state, region, links)\n    builder.drafts[0].forget(region)",
             "placed = place(state, region, links)"),
    _planner("a fill forgets what it does not hold", "transfers",
             "if rest:\n        places.append((HOST, rest))", "if rest and not places:\n        places.append((HOST, rest))"),
    _planner("a copy leaves old copies", "transfers", "draft.forget(target_region)\n", "pass\n"),
    _planner("regions are one byte short", "footprints",
             "region = item.region.shift(start).clip(start, offset + pointer.nbytes)",
             "region = item.region.shift(start).clip(start, offset + pointer.nbytes - 1)"),
    _one("a sub-buffer begins at 0", "planner", "vdev.session.requests",
         "return PointerArg(arg, slot, offset, size - offset, offset, own)", "return PointerArg(arg, slot, 0, size, 0, own)"),
    _one("a sub-buffer is all that its kernel reaches", "planner", "vdev.session.requests",
         "return PointerArg(arg, slot, offset, size - offset, offset, own)", "return PointerArg(arg, slot, offset, own, 0, own)"),
    _planner("what may be kept is not brought", "footprints",
             "kept = (footprint.inexact - footprint.exact) & (own | diff)", "kept = EMPTY"),
    _planner("writes alone need nothing", "footprints",
             "Region.union((f.reads, f.inexact - f.exact, atomic))", "Region.union((f.reads, atomic))"),
    _planner("the second argument hides the first", "footprints",
             "footprint.reads = footprint.reads | region", "footprint.reads = region"),
    _planner("a replica that grows loses what it held", "builder",
             "Reserve(worker, slot, start, stop, kept), (Touch", "Reserve(worker, slot, start, stop, EMPTY), (Touch"),
    _planner("two chunks may write alike", "footprints",
             "return parts[0] & parts[1] if parts[0].overlaps(parts[1]) else EMPTY", "return EMPTY"),
    # merging
    _one("min begins at the lowest", "merging", "vdev.planner.merges",
         'limits.max if op == "min" else limits.min', 'limits.min if op == "min" else limits.max'),
    _one("and begins at 0", "merging", "vdev.planner.merges", 'return b"\\xff" * kind.itemsize', 'return b"\\0" * kind.itemsize'),
    _one("xor is merged by or", "merging", "vdev.backends.merging", '"xor": np.bitwise_xor,', '"xor": np.bitwise_or,'),
    _one("dec is merged as inc of a word", "merging", "vdev.translators.interpreter.builtins",
         '_COMMUTING = {"sub": "add", "inc": "add", "dec": "add"}', '_COMMUTING = {"sub": "or", "inc": "add", "dec": "add"}'),
    _one("unsigned minima are merged as signed", "merging", "vdev.translators.interpreter.builtins",
         "return f\"{'int' if ctype.integer.signed else 'uint'}{ctype.integer.bits}\"", 'return f"int{ctype.integer.bits}"'),
    _one("the last version wins whole", "merging", "vdev.backends.merging",
         "np.copyto(into, new, where=new != old)", "np.copyto(into, new)"),
    _one("only growing bytes count as changed", "merging", "vdev.backends.merging",
         "np.copyto(into, new, where=new != old)", "np.copyto(into, new, where=new > old)"),
    _one("periods of units are cut one off", "merging", "vdev.backends.merging",
         "first = min((grain.cuts[0] - start) % period, len(into))", "first = min((grain.cuts[0] - start) % period + 1, len(into))"),
    _one("a merge of one chunk too few", "merging", "vdev.planner.footprints",
         "parts = tuple(write & diff for write in writes)", "parts = tuple(write & diff for write in writes[:-1]) + (EMPTY,)"),
    # translation
    _one("group ids begin at 0", "translation", "vdev.translators.dialects.subgrid",
         "d < 3 ? get_group_id(d) + (size_t){p}g->group[d]{groups} : 0", "d < 3 ? get_group_id(d){groups} : 0"),
    _one("the number of groups is the chunk's", "translation", "vdev.translators.dialects.subgrid",
         "d < 3 ? (size_t){p}g->groups[d] : 1", "get_num_groups(d)"),
    _one("the global size is the chunk's", "translation", "vdev.translators.dialects.subgrid",
         "d < 3 ? (size_t){p}g->size[d] : 1", "get_global_size(d)"),
    _one("the offset is the chunk's", "translation", "vdev.translators.dialects.subgrid",
         "d < 3 ? (size_t){p}g->offset[d] : 0", "get_global_offset(d)"),
    _one("linear ids forget the offset", "translation", "vdev.translators.dialects.subgrid",
         "+ {gid}0) - {p}get_global_offset({p}g, 0)", "+ {gid}0)"),
    _one("helper functions ask the engine", "translation", "vdev.translators.dialects.subgrid",
         "if use.name in self.grid_functions:\n                self.used",
         "if use.name in self.grid_functions and self.functions.enclosing(use.offset).kernel:\n                self.used"),
    _one("all pointers have the first one's shift", "translation", "vdev.translators.dialects.subgrid",
         "{own} - {p}hidden.shift[{number}]);", "{own} - {p}hidden.shift[0]);"),
    _one("the second dimension's groups", "translation", "vdev.translators.dialects.subgrid_kernel",
         "_INDEX_SPACE(*start, *zeros,", "_INDEX_SPACE(start[0], *(0 for _ in start[1:]), *zeros,"),
    # operators and functions, with operands of few values
    _analysis("a remainder by a variable ends at its least", "symbolic.operations",
              "limit = max(abs(least), abs(most), 1) - 1", "limit = max(min(abs(least), abs(most)), 1) - 1"),
    _analysis("a shift by a variable takes its least", "symbolic.operations",
              "corners = [bound << shift for bound in (low, high) for shift in (least, most)]",
              "corners = [bound << shift for bound in (low, high) for shift in (least, least)]"),
    _analysis("xor with one bit is or", "symbolic.operations",
              "return a.shifted(b.constant).plus(bit, -b.constant * (2 if flips else 1))",
              "return a.shifted(b.constant).plus(bit, -b.constant)"),
    _analysis("a shift beyond the width is one by all bits but the highest", "interpreter.operators",
              "amount = ex.const(amount.number & (kind.bits - 1))", "amount = ex.const(max(0, min(amount.number, kind.bits - 1)))"),
    _analysis("mad_hi is mul_hi", "interpreter.integers", "return ex.add(_mul_hi(a, b, kind), c.expr)", "return _mul_hi(a, b, kind)"),
    _analysis("a group's copy in steps is one in a row", "interpreter.builtins",
              "far = Number(ex.mul(counter, stride.observed()), LONG)", "far = step"),
    _analysis("rhadd is hadd", "interpreter.integers",
              "ex.shift_right(ex.add(ex.add(a.observed(), b.observed()), ex.ONE), ex.ONE)",
              "ex.shift_right(ex.add(a.observed(), b.observed()), ex.ONE)"),
    _analysis("abs_diff has a sign", "interpreter.integers",
              "return ex.maximum(difference, ex.scale(difference, -1))", "return difference"),
    _analysis("odd is even", "frontend.syntax", '"odd": range(1, 2 * half, 2),', '"odd": range(0, 2 * half, 2),'),
    # pointers, calls, arrays and jumps
    _analysis("of two pointers into one object the first", "interpreter.values",
              "Target(s.place, logic.select(condition, s.offset, t.offset), s.condition)", "s"),
    _analysis("both of two pointers under one condition", "interpreter.values",
              "_under(logic.negate(condition), target) for target in b.targets", "_under(condition, target) for target in b.targets"),
    _analysis("a store through one of two pointers is certain", "interpreter.memory",
              "certain = len(pointer.targets) == 1 and pointer.targets[0].condition is None", "certain = True"),
    _by_tests(_analysis("a load through one of two pointers takes the first", "interpreter.memory",
              "found = join_values(logic.negate(target.condition or unknown_truth()), found, value)", "pass"), "test_access_expressions"),
    _analysis("an array keeps its content through a loop", "interpreter.loops",
              "            return Aggregate({}, places, complete=value.complete)\n        return value\n\n    def _widen",
              "            return value\n        return value\n\n    def _widen"),
    _analysis("a pointer that moves by varying steps stays", "interpreter.loops",
              '-nodes.INFINITE, nodes.INFINITE, "a pointer that moves by varying steps"',
              '0, 0, "a pointer that moves by varying steps"'),
    _analysis("a pointer that a loop moves is as before the loop", "interpreter.loops",
              "return value.moved(moved)", "return value"),
    _analysis("continue in a switch is nobody's", "interpreter.walk",
              "Jumps(continues=self.jumps[-1].continues if self.jumps else [])", "Jumps()"),
    _analysis("parameters that are written as arrays are objects", "frontend.type_reader",
              "if isinstance(found, CArray) and _is_pointer(cursor):", "if False:"),
    # plans with parameters
    _planner("a plan is filled in without its conditions", "parameters",
             "calculation(tuple(self._forms), known=known)", "calculation(tuple(self._forms), known=True)"),
    _planner("a view has one holder", "parameters",
             "valid = valid_by_labels(labelled_of(held, rest), pitches)",
             "valid = valid_by_labels(labelled_of(held, rest), pitches)[:1]"),
    _planner("a filled plan invalidates nobody", "parameters",
             "inside = state.bands()",
             f"inside = {_OVERLAID}([(1 << holder + 1, region) for holder, region in"
             " (*state.valid, *self._views[slot].valid)], state.pitches)"),
    _planner("holders that lose all are overlooked", "parameters",
             "inside = state.bands()",
             f"inside = {_OVERLAID}([(1 << holder + 1, region) for holder, region in"
             " (*state.valid, *[item for item in self._views[slot].valid if item[0] not in dict(state.valid)])],"
             " state.pitches)"),
    _planner("a plan that is made on views changes nothing", "views",
             "if view.cut is None or inside == view.cut.inside:", "if view.cut is None or view.cut.inside:"),
    _planner("what is read is not in view", "views",
             "parts = (footprint.reads, footprint.exact,", "parts = (footprint.exact,"),
    _by_tests(_planner("the window of one chunk", "parameters",
             "for chunk in chunks_of(traced, habit):", "for chunk in chunks_of(traced, habit)[:1]:"), "test_parameters"),
    _traced("a traced condition is one too wide",
         "self._narrow(linear, None, bound // abs(factor))", "self._narrow(linear, None, bound // abs(factor) + 1)"),
    _traced("a number that is looked at is not pinned",
         'self.trace.compare(self.terms, self.constant - self.value, 0, "==")\n        return self.value', "return self.value"),
    _one("a filled plan runs with the numbers of the first", "planner", "vdev.session.making_plans",
         "prepared = kept.prepared = kept.prepared.with_numbers(plan, recipe)", "prepared = kept.prepared"),
    _session("windows are those of diagonals, whatever lies beside them", "test_parameters", ("planner.parameters",
             "found[slot] = footprint if held is None else", "found[slot] = footprint if True else")),
    _session("a diagonal is planned in its own pitch", "test_parameters", ("planner.tidying",
             "footprints = [listed_beside(f, pitches) for f in footprints]", "pass")),
    _session("of a diagonal only the first run is listed", "test_doctests", ("translators.ranges.covers",
             "return region_in(bands, ())", "return region_in(bands[:1], ())")),
    _session("a filled plan is for any pointers", "test_parameters", ("session.launch_plans",
             "parts.append((index, buffers.index(arg.buffer), arg.nbytes, arg.buffer.nbytes))", "pass")),
    _session("a filled plan is for pointers to where the first points", "test_parameters", ("session.making_plans",
             "place.pointers(values[behind:])", "place._pointers")),
    _one("plans are found whatever the numbers", "planner", "vdev.session.launch_plans",
         "parts.append(args[index])\n        if launch.shared", "pass\n        if launch.shared"),
    _one("plans are found whatever the offsets", "planner", "vdev.session.launch_plans",
         "parts.append((arg.offset, arg.nbytes, arg.before))", "parts.append((arg.nbytes, arg.before))"),
    _by_tests(_planner("who begins in the middle is not near", "nearby",
             "both &= before[bisect_left(firsts, high)] &", "both &= before[bisect_right(firsts, low)] &"), "test_nearby"),
    # launches without plans, and repeated ones
    _session("new buffers are taken for the last ones", "test_new_buffers", ("executor.whole",
             "now[at] = replica.allocation", "now[at] = self._last[at]")),
    _session("a new buffer has what a released one had", "test_spare_buffers", ("session.spare_buffers",
             "if buffer.resident is None:", "if False:")),
    _session("launches in a row go on with a buffer that has become another's", "test_spare_buffers", ("session.spare_buffers",
             "executor.standing = object()", "pass")),
    _session("released buffers serve again while a command is held back", "test_spare_buffers", ("session.spare_buffers",
             "session.deferrals.held or ", "")),
    _session("a released buffer's failures are the next one's", "test_spare_buffers", ("session.spare_buffers",
             "buffer.holdings.renew(executor.last_number, executor.unsettled)", "pass")),
    _session("a part of a released buffer is its own", "test_spare_buffers", ("facade.memory",
             "        if parent is not None:\n            parent.retain()\n", "        pass\n")),
    _session("whoever makes a buffer waits for whoever plans", "test_spare_buffers", ("session.spare_buffers",
             "session.lock.acquire(False)", "session.lock.acquire()")),
    _session("released buffers are garbage", "test_spare_buffers", ("session.spare_buffers",
             "self._in_use.add(arg)\n\n", "pass\n\n")),
    _session("released buffers are in the way", "test_spare_buffers", ("session.core",
             "self.executor.let_go = self.room.let_go = self.spares.drop", "pass")),
    _session("a form takes its first values for the last ones", "test_new_buffers", ("executor.whole",
             "self._last, self._ndrange = now, ndrange", "self._ndrange = ndrange")),
    _session("a form's launches have the first one's values", "test_new_buffers", ("backends.cuda.launching",
             "words: list[Any] = [*now]\n",
             "words: list[Any] = [each if type(each) is bytes else now[at] for at, each in enumerate(args)]\n")),
    _session("nobody is told that a form has set a kernel's parameters", "test_new_buffers", ("backends.cuda.launching",
             "                kernel.owner = owner\n", "                pass\n")),
    _session("what a form has set is not set anew", "test_new_buffers", ("backends.cuda.launching",
             "                last[:] = unset ", "                pass ")),
    _session("a buffer's first read does not wait for its wait list", "test_reads_again", ("session.moves",
             "if after and not may_follow(after, queue, at, alone=self._only is not None):", "if False:")),
    _session("a buffer's first read does not wait for other workers", "test_reads_again", ("session.moves",
             "may_follow(after, queue, at, alone=self._only is not None):", "may_follow(after, queue, at, alone=True):")),
    _session("a buffer's first read is one of its beginning", "test_reads_again", ("session.moves",
             "reading = RepeatedRead(executor, worker, holdings, start,", "reading = RepeatedRead(executor, worker, holdings, 0,")),
    _session("a released buffer's last read keeps its memory", "test_reads_again", ("facade.memory",
             "self.last_read = self.last_write = _NONE  # they", "pass  # they")),
    _session("launches of a form do not wait for the program", "test_formed_launches", ("session.immediate_forms",
             "if session.deferrals.held or", "if")),
    _session("launches of a form do not wait for their wait lists", "test_formed_launches", ("session.immediate_forms",
             "if after and not may_follow(", "if False and not may_follow(")),
    _session("launches of a form do not look who keeps their buffers", "test_kept", ("session.immediate",
             "if account is None or not (account.thrifty and account.keeper == worker):\n                return False\n            if",
             "if account is None:\n                return False\n            if")),
    _session("launches of a form overtake their queue", "test_kept", ("session.immediate",
             "if not (is_free or self._is_free(line, holdings, queue)):\n            return False\n        self.until_looked_at = left",
             "self.until_looked_at = left")),
    _session("launches of a form are on whole buffers", "test_formed_launches", ("session.immediate_forms",
             "places = _shifted(places, args)", "pass")),
    _session("launches on new buffers alone take no form", "test_formed_launches", ("session.immediate",
             "if not (_keeps(account, worker) and _may_join(buffers, worker)):", "if True:")),
    _session("pointers of a form's launches point to beginnings", "test_formed_launches", ("executor.whole",
             "now[at] = now[at], offset", "pass")),
    Defect("a form's launches are told of the last one's places", "session",
           (("vdev.executor.whole", "(now, shape, None)", "(now, shape, ndrange)"),), tests="tests/cpu/test_formed_launches.py"),
    _session("a kernel takes the form of another thread's", "test_formed_launches", ("session.immediate",
             "if cached is not cache.resident.get((at, len({slot for _, slot, _ in places}))):", "if False:")),
    _session("a form keeps its first index space", "test_new_buffers", ("executor.whole",
             "if ndrange is not self._ndrange:", "if ndrange is None:")),
    _session("a launch has the last one's grid", "test_index_spaces", ("backends.cuda.launch",
             "if grid is not self.grid:", "if self.grid is None:")),
    _session("another launch's grid is taken for its own", "test_index_spaces", ("backends.cuda.launching",
             "if over is not kernel.grid:", "if other is not None:")),
    _session("a launch that is made again has the last one's sizes", "test_index_spaces", ("backends.cuda.launching",
             "if other is not used.grid:", "if used.grid is None:")),
    _session("a launch that is made again is told of the last one's index space", "test_index_spaces", ("backends.cuda.launch",
             "if hidden is not None:", "if hidden is not None and self.grid is None:")),
    *[
        Defect(name, "session", (("vdev.facade.index_spaces", old, new),), tests="tests/cpu/test_groupings.py")
        for name, old, new in (
            ("a global size need not be a multiple of a known local size",
             "if count * group != size and not self._takes_partial:", "if False:"),
            ("a global size of nought has a known local size", "size < 1 or size > largest", "size > largest"),
            ("an offset has any number of dimensions", "and len(offset) == dimensions", ""),
            ("what equals a known local size is one", "local_size is None or _are_plain(local_size, 1, self._largest)", "True"),
        )
    ],
    _session("each index space has one work-group", "test_index_spaces", ("facade.index_spaces",
             "counts = (*counts, count)", "counts = (*counts, 1)")),
    _session("a launch is told of the last one's grid", "test_index_spaces", ("backends.cuda.launch",
             "self.set_hidden(grid[6])", "self.grid or self.set_hidden(grid[6])")),
    _session("every index space has the last one's shape", "test_index_spaces", ("executor.whole",
             "known = self._again_over.get(at)\n        if known is not None and known[0] is ndrange and known[1] is places:",
             "known = next(iter(self._again_over.values()), None)\n        if known is not None:")),
    _session("a required local size that a program leaves open is chosen", "test_index_spaces", ("facade.launch",
             "is_chosen = local_size is None and not any(kernel.kernel.resources.compile_work_group_size)",
             "is_chosen = local_size is None")),
    _session("what is known of one transfer is taken for all states", "test_moves_elsewhere", ("session.anywhere",
             "state.resident != worker or state.fine or state.pending for state in states", "False for state in states")),
    _session("a transfer of a part counts as one of the whole", "test_moves_elsewhere", ("executor.prepare",
             "found.overwrites = self.writes if whole else ()", "found.overwrites = self.writes")),
    _session("a fill at another place has the first one's pattern", "test_moves_elsewhere", ("executor.anywhere",
             "nbytes, pattern)\n", "nbytes, bytes(len(pattern)))\n")),
    _session("copies like others do not wait for the program", "test_copied_boxes", ("session.immediate_copies",
             "(queue is not alike.queue or standing is not alike.standing)", "(queue is not alike.queue and alike.queue is None)")),
    _session("fills like others are not refused beyond their buffer", "test_copied_boxes", ("facade.transfers",
             "if not 0 <= offset < offset + size <= memory.nbytes:", "if not 0 <= offset < offset + size:")),
    _session("fills like others have the first one's pattern", "test_copied_boxes", ("executor.anywhere",
             "fill = self._known.calls.get(name) or", "fill = next(filter(None, self._known.calls.values()), None) or")),
    _session("copies like others are not refused beyond their buffer", "test_copied_boxes", ("facade.transfers",
             "or to + reaches[1] > target.nbytes\n", "")),
    _session("copies like others are of buffers that are not parts", "test_copied_boxes", ("facade.transfers",
             "start + source.offset, to + target.offset", "start, to + target.offset")),
    _session("copies within a buffer are copies like others", "test_copied_boxes", ("facade.transfers",
             "    if buffer is other:  # they may overlap\n        return None\n", "")),
    _session("boxes are copied in the units of the first one", "test_copied_boxes", ("backends.cuda.own_kernels",
             "found = self._calls.get(matters & -matters)", "found = next(iter(self._calls.values()), None)")),
    _session("boxes are put beyond the program's array", "test_copied_boxes", ("facade.transfers",
             " or host_start + reaches[1] > hostbuf.nbytes", "")),
    _session("boxes on their way have the bytes between them", "test_copied_boxes", ("executor.anywhere",
             "copy_box(found, host, box_of_layout(layout, to_host=True).moved(-layout.buffer_start, 0))",
             "host[layout.host_start : layout.host_start + len(found)] = found")),
    _session("copies like others are all of the same length", "test_copied_boxes", ("executor.anywhere",
             "copy = self._known.calls.get(name) or", "copy = next(filter(None, self._known.calls.values()), None) or")),
    _session("kept buffers change while others read them", "test_kept", ("session.immediate_moves",
             "if readers is not None and not self._executor.have_ended(readers):", "if False:")),
    _session("launches on kept buffers overtake their queue", "test_kept", ("session.immediate_moves",
             "return not queue.in_order or last is None or last is line.latest or stands_at(last, worker)", "return True")),
    _session("launches on kept buffers overtake their wait list", "test_kept", ("session.immediate_moves",
             "if not _is_behind(item, worker, alone=alone):", "if False:")),
    _session("launches on kept buffers overtake a barrier", "test_kept", ("session.immediate_moves",
             "if barrier is not None and not is_ahead(barrier, worker):", "if False:")),
    _session("a marker fails with nothing", "test_immediate_markers", ("session.immediate_markers",
             "(MARKER, (), (), None, (), after)", "(MARKER, (), (), None, (), ())")),
    _session("what is behind a barrier does not fail with it", "test_immediate_markers", ("session.immediate_markers",
             "if is_barrier and after:", "if False:")),
    _session("what has ended is left to the collector", "test_stretches", ("executor.stretch",
             "        self.mark = _NO_MARK\n", "")),
    _session("markers without end are kept", "test_immediate_markers", ("executor.line",
             "or part.index >= MARK_EVERY", "or False")),
    _session("a mapping ends whatever has changed", "test_immediate_maps", ("session.immediate_maps",
             "if made.plan is None or buffer.state is not made.plan.states[0]:", "if made.plan is None:")),
    _session("the end of a mapping is counted as another one", "test_immediate_maps", ("session.immediate_maps",
             'count_move(session.ledger, Write, made.layout, found, "unmap")', 'session.ledger.count("unmap", found.plan)')),
    _session("mappings for writing take plans that nobody carries out", "test_immediate_maps", ("session.immediate_maps",
             "        self._plans[key] = before, plan\n", "        self._executor.prepare(plan)\n")),
    _session("what the host maps for writing stays on its worker", "test_immediate_maps", ("session.immediate_maps",
             "(buffer.state,) = made.plan.states", "pass")),
    _session("a mapping is made again of other bytes", "test_reads_again", ("session.immediate_maps",
             "made.what != (command.offset, command.nbytes, command.read, command.write)", "False")),
    _session("a mapping is made again whatever has changed", "test_immediate_maps", ("session.immediate_maps",
             "if buffer.mapped is not made or session.observers", "if session.observers")),
    _session("a mapping that is made again is not behind other workers' commands", "test_immediate_maps", ("session.immediate_maps",
             "            moves.wait_behind(order)", "            pass")),
    _session("a mapping is made again while others use the home", "test_immediate_maps", ("session.immediate_maps",
             "if not (is_sent or self._is_home_free(buffer)):", "if False:")),
    _session("a mapping of bytes that the program gives up does not wait", "test_reads_again", ("session.immediate_maps",
             "if order is not None and not (order.settled or is_complete(order)):", "if False:")),
    _session("what the host has written is not written back again", "test_reads_again", ("session.immediate_maps",
             "send or writing.make,", "(lambda _: None),")),
    _session("what is sent from a home does not count as its use", "test_pinned_homes", ("session.immediate_maps",
             "holdings.did_read(HOST, worker.number, worker.issued)", "pass")),
    _session("the program's own memory is sent as it is later", "test_pinned_homes", ("session.immediate_maps",
             " if holdings.is_pinned and not holdings.is_given else None", " if holdings.is_pinned else None")),
    _session("an interrupted read still comes", "test_pinned_homes", ("executor.direct_reads",
             "self._worker.backend.rest()", "pass")),
    _session("a mapping that is made again is counted as a read", "test_reads_again", ("session.immediate_maps",
             "moves.note_again, uncounted, ()", "moves.note_again, counted, ()"),
             ("session.immediate_maps", "import uncounted", "import counted, uncounted")),
    _session("mappings like others need not be of numbers", "test_reads_again", ("facade.maps",
             "strides is None and type(flags) is int and type(offset) is int", "strides is None")),
    _session("mappings like others are of any context's queue", "test_reads_again", ("facade.maps",
             " or memory.context is not line.context or line.is_finalized", " or line.is_finalized")),
    _session("a box is put where the array begins", "test_immediate_boxes", ("session.moves",
             "layout.buffer_pitches, layout.host_start, layout.host_pitches)", "layout.buffer_pitches, 0, layout.host_pitches)")),
    _session("a new buffer begins without its content", "test_immediate_buffers", ("session.session",
             "if self.fill_at_once(buffer, host):", "if self.fill_at_once(buffer, host) or True:")),
    _session("a submitted launch changes what others still read", "test_kept", ("executor.hazards",
             "            if readers is not None:\n                found = self._add(",
             "            if False:\n                found = self._add(")),
    _session("a submitted launch waits for nobody who has changed what it reads", "test_exchange_on_gpus", ("executor.hazards",
             "if holder < 0 or workers[holder].completed < record.written[holder]:", "if holder < 0:")),
    _session("a submitted command does not tell what it reads elsewhere", "test_executor", ("executor.hazards",
             "            holdings[slot].did_read(holder, number, bases[number] + last)\n        if job.host",
             "            pass\n        if job.host")),
    _session("columns side by side count as apart whatever their widths", "test_cuda_backend", ("backends.cuda.boxes",
             "return behind < self.width or behind + other.width > steps[0]", "return behind < self.width")),
    _session("a launch is repeated in any queue", "test_runs", ("session.repetition",
             "if queue is not self._order or ndrange", "if ndrange")),
    _session("a launch is repeated over any index space", "test_runs", ("session.repetition",
             "if queue is not self._order or ndrange is not self._ndrange:", "if queue is not self._order:")),
    _session("a repeated launch overlooks what came between", "test_runs",
             ("executor.repeated_launch",
              "if executor.last_number != self.number or executor.standing is not self._standing or not self._left:", "if not self._left:"),
             ("executor.repeated_launch",
              "if executor.last_number != self.number or executor.standing is not self._standing:", "if False:")),
    _session("a run goes on behind its end", "test_ends_told", ("executor.repeated_launch",
             "job.completion.settled or job.completion.error", "job.completion.error")),
    _session("a repeated launch writes nothing", "test_runs", ("executor.repeated_launch",
             "                written[number] = step\n            # Nobody", "                pass\n            # Nobody")),
    _session("a plan's list is made again with the values of its last command", "test_runs_on_gpus", ("executor.compiled_plan",
             "        changed, begun = self._changed(args), False\n        try:\n            started",
             "        changed, begun = [], False\n        try:\n            started")),
    _session("a repeated launch from a list begins everywhere", "test_runs_on_gpus", ("executor.plan_list",
             "        if place == self._end:\n            return len(self._legs), None\n",
             "        if place >= 0:\n            return len(self._legs), None\n")),
    _session("a list enters no context", "test_runs_on_gpus", ("executor.plan_list",
             "return not self._enters and backend is not None and backend.is_elsewhere(self._calls.result)", "return False")),
    _session("launches in a row are not told to who records", "test_reported_ways", ("session.in_a_row",
             "            if recorder is not None and self._cached.shape is not None:\n", "            if False:\n")),
    _session("who records is not told what a recalled launch exchanges", "test_reported_ways", ("session.telling",
             "        tell_exchange(recorder, cache, cached, args, buffers)\n", "        pass\n")),
    # plans handed over together
    _session("what a plan writes is forgotten by those behind it", "test_orders", ("executor.orders",
             "        written[buffer, worker] = top[worker] + last\n", "        pass\n")),
    _session("what a plan reads is forgotten by those behind it", "test_orders", ("executor.orders",
             "        readers[buffer, holder, reader] = top[reader] + last\n", "        pass\n")),
    _session("an order forgets what not all come after", "test_orders", ("executor.orders",
             "floor = min(others, default=0)", "floor = max(others, default=0)")),
    _session("replicas are not looked at before plans are handed over together", "test_compiled_plans", ("executor.compiled_plan",
             "return [each.replicas for each in holdings] == self.replicas", "return True")),
    _session("a form of a plan waits for nobody who has changed what it reads", "test_plan_forms", ("executor.hazards",
             "            if holder == reader or workers[holder].completed >= step:\n", "            if True:\n")),
    _session("a form of a plan waits for nobody who reads what it changes", "test_plan_forms", ("executor.hazards",
             "                    found[number, other] = max(found.get((number, other), 0), step)\n", "                    pass\n")),
    _session("a read waits for nobody else's work", "test_plan_forms", ("session.moves",
             "        if not earlier.settled:\n            earlier.wait()\n", "")),
    _session("a read fills the program's memory before it fails", "test_immediate_reads", ("session.moves",
             "into = np.empty(layout.nbytes, np.uint8)",
             "into = command.host[layout.host_start : layout.host_start + layout.nbytes]")),
    _session("a form of a plan notes no change", "test_plan_forms", ("executor.hazards",
             "            _note_changes(record.written, record.readers, changes, bases)\n", "            pass\n")),
    _session("a form of a plan copies from the replica of its first command", "test_plan_forms", ("executor.plan_form",
             "        self.former = before.allocation.address + self.start - before.start\n", "")),
    _session("a form of a plan takes the memory of its first command", "test_plan_forms", ("executor.plan_form",
             "        if not self._addresses.move(addresses):\n            return False\n", "")),
    _session("a form of a plan takes place in memory of other bytes", "test_plan_forms", ("executor.plan_form",
             "if None in found or [*map(_BOUNDS, found)] != self._bounds:", "if None in found:")),
    _session("a form of a plan is found whatever its values", "test_plan_forms", ("session.launch_plans",
             "*map(_place_of, given), *values)", "*map(_place_of, given))")),
    _session("a form of a plan is found wherever its arguments point", "test_plan_forms", ("session.launch_plans",
             "*map(_place_of, given), *values)", "*values)")),
    _session("a form of a plan is found whatever its buffers hold", "test_plan_forms", ("session.launch_plans",
             "self.span_of(buffers), *map(id, states), ", "self.span_of(buffers), ")),
    _session("a form of a fold reads what it read first", "test_plan_forms", ("backends.cuda.compiling",
             "            for at, number in enumerate(fold.parts)\n", "            for at, number in ()\n")),
    _session("a form of a fold goes where it went first", "test_plan_forms", ("backends.cuda.compiling",
             "places = [Placed((fold.call.address(0),), target) for fold in folds]", "places: list[Placed] = []")),
    _session("a form of a fold waits for nobody", "test_plan_forms", ("executor.hazards",
             "        for slot, holder, reader, _ in self._reads:\n            step =",
             "        for slot, holder, reader, _ in ():\n            step =")),
    _session("a form of a plan brings the first command's bytes", "test_plan_forms", ("executor.plan_form",
             "            call.set_values(given)\n", "            given and not any(call._memory.raw) and call.set_values(given)\n")),
    _session("a form of a plan fills memory of its first command", "test_plan_forms", ("backends.cuda.compiling",
             "                addressed.append((len(calls), address, target))\n", "                pass\n")),
    _session("weighed launches are submitted", "test_weighed_recalls", ("session.weighed_recalls",
             "    if plan is None or not together.is_ready()", "    if True or not together.is_ready()")),
    _session("launches are handed over as before though their way changes", "test_weighed_recalls", ("session.weighed_recalls",
             "    if changes_way(session, choosing, cache, launch, cached, buffers):\n",
             "    if changes_way(session, choosing, cache, launch, cached, buffers) and not launch:\n")),
    _session("launches that exchange much are always weighed", "test_weighed_recalls", ("session.choosing",
             "        if self.open or (exchanges and not self._are_alike(stake, timing)):\n",
             "        if self.open or exchanges:\n")),
    _session("a form of a plan keeps the memory that it replaces", "test_plan_forms", ("executor.plan_form",
             "                if before is not None:\n                    worker.memory.discard(before.allocation)\n",
             "                pass\n")),
    _session("index spaces that never come again are measured", "test_balance", ("planner.balance",
             " and not self._is_stray(case, launches)", "")),
    # plans that take others' numbers
    _session("a refilled plan launches the chunks of the one before", "test_refilled_plans", ("backends.cuda.compiling",
             "        kernel.set_hidden(grid[6])\n        if grid", "        if grid")),
    _session("a refilled plan launches with the values of the one before", "test_refilled_plans", ("executor.refilled_plan",
             "            if value != last\n", "            if value is None\n")),
    _session("a refilled plan launches on the part of a buffer of the one before", "test_refilled_plans", ("executor.refilled_plan",
             " and there == bases[at] and ", " and bases[at] and ")),
    _session("a plan that was made ahead is made again", "test_refilled_plans", ("session.launch_plans",
             "ahead[1] if ahead is not None and ahead[0] == key else", "ahead[1] if None else")),
    _session("a command has the number of one that comes meanwhile", "test_refilled_plans", ("executor.together",
             "            if executor.last_number != self._last:  #", "            if False:  #")),
    _session("a refilled plan copies the blocks of the one before", "test_refilled_plans", ("executor.refilled_plan",
             "        self.blocks[:] = [*numbers]\n", "        any(self.blocks) or self.blocks.__setitem__(slice(None), [*numbers])\n")),
    _session("a refilled plan copies between the replicas of its first command", "test_refilled_plans", ("executor.refilled_plan",
             "        if found != self._now:\n", "        if not self._now:\n")),
    _session("a refilled plan waits for what its first command's buffers say", "test_refilled_plans", ("executor.refilled_plan",
             "            part.look_at(holdings)\n", "            pass\n")),
    _session("a refilled plan is another command's while it is handed over", "test_refilled_plans", ("executor.refilled_plan",
             "if self._is_used or any(", "if any(")),
    _session("a refilled plan counts the bytes of its first command", "test_refilled_plans", ("executor.refilled_plan",
             "            listed.from_peer = sum([call.counted[0][1] for call in self._copying])\n", "            pass\n")),
    _session("a refilled plan notes what it changes in no record", "test_refilled_plans", ("executor.hazards",
             "        bases, clock, workers = self.number_steps(job.holdings), job.clock, self._workers\n",
             "        bases, clock, workers = self._number(), job.clock, self._workers\n")),
    _session("a part of a shared stretch takes the failures of another", "test_compiled_plans", ("executor.shared_stretch",
             "                first = last\n", "                pass\n")),
    _session("a refused call of plans handed over together is not seen", "test_compiled_plans", ("executor.together",
             ") != plan.end:", ") < 0:")),
    # reads that are made again
    _session("a read is made again into any array", "test_reads_again", ("facade.transfers",
             "            and hostbuf.flags.carray  # contiguous and writeable\n", "")),
    _session("a read is made again of any offset", "test_reads_again", ("facade.transfers",
             "            and src_offset == offset\n", "")),
    _session("a read is made again at an offset that is no number of bytes", "test_reads_again", ("facade.transfers",
             "            and type(src_offset) is int\n", "")),
    _session("a read is made again of any length", "test_reads_again", ("facade.transfers",
             "            and hostbuf.nbytes == reading.nbytes\n", "")),
    _session("a read is made again of a buffer that is gone", "test_reads_again", ("facade.transfers",
             "# contiguous and writeable\n            and memory.references > 0\n", "\n")),
    _session("a read is made again in another context", "test_reads_again", ("facade.transfers",
             "and memory.context is line.context\n            and type(src_offset)", "and type(src_offset)")),
    _session("a read is made again in a queue that has ended", "test_reads_again", ("facade.transfers",
             "and type(src_offset) is int\n            and not (line.is_finalized or (starts and is_shared(hostbuf)))",
             "and type(src_offset) is int\n            and not (starts and is_shared(hostbuf))")),
    _session("a read is made again into shared memory", "test_reads_again", ("facade.transfers",
             "and type(src_offset) is int\n            and not (line.is_finalized or (starts and is_shared(hostbuf)))",
             "and type(src_offset) is int\n            and not line.is_finalized")),
    _session("a write is made again from shared memory", "test_reads_again", ("facade.transfers",
             "and type(dst_offset) is int\n            and not (line.is_finalized or (starts and is_shared(hostbuf)))",
             "and type(dst_offset) is int\n            and not line.is_finalized")),
    _session("no mapping of shared memory is ended as it was made", "test_reads_again", ("facade.svm",
             "made = mapping.command or Map(", "made = Map(")),
    _session("a read is made again before its wait list", "test_reads_again", ("facade.transfers",
             "if not wait_for and type(hostbuf) is np.ndarray", "if type(hostbuf) is np.ndarray")),
    _session("a read is made again where the bytes were before", "test_reads_again", ("session.moves",
             "                or (buffer.reading is not reading and not self._is_folded_for(buffer, reading))\n", "")),
    _session("a read is made again of what another part of the buffer was read", "test_reads_again", ("facade.transfers",
             "if reading is not None and (reading.start, reading.nbytes) == (start, hostbuf.nbytes):", "if reading is not None:")),
    _session("a read is made again before what waits for the program", "test_reads_again", ("session.moves",
             "queue is reading.queue and session.executor.standing is reading.standing\n", "queue is reading.queue\n")),
    _session("a read is made again before what its own queue waits for", "test_reads_again", ("session.moves",
             "            if not (\n                queue is reading.queue and session.executor.standing is reading.standing",
             "            if not (\n                session.executor.standing is reading.standing")),
    _session("a read is made again whatever is held back", "test_reads_again", ("session.immediate_moves",
             "if session.checker is not None or session.deferrals.held or executor.failures.any", "if executor.failures.any")),
    _session("a read is made again before a barrier", "test_reads_again", ("session.immediate_moves",
             "(not queue.profiled or timed) and (barrier is None or is_ahead(barrier, worker))", "not queue.profiled or timed")),
    _session("a read is made again without its times", "test_timed_commands", ("session.moves",
             "timed=clocked is not None and self._tells_times)", "timed=True)")),
    _session("a read that is made again is counted once", "test_reads_again", ("session.moves",
             "            tally.count += 1\n            tally.moved.worker_to_host += reading.nbytes",
             "            tally.moved.worker_to_host += reading.nbytes")),
    _session("a read that is made again ends before its queue", "test_reads_again", ("session.moves",
             "elif not is_behind and order is not None and queue.in_order:", "elif False:")),
    _session("a read that is made again overtakes what brings bytes to its array", "test_reads_again", ("executor.direct_reads",
             "                or self._hazards.host_uses\n", "")),
    _session("a read that is made again overtakes what is queued", "test_reads_again", ("executor.direct_reads",
             "                worker.queue\n                or worker.marks  #", "                worker.marks  #")),
    _session("a read that is made again ends before its bytes are there", "test_reads_again", ("session.moves",
             "status = 0 if begun is None else reading.end(begun, host)", "status = 0")),
    _session("a read that is made again delivers what came before", "test_reads_again", ("backends.cuda.backend",
             "            if result or self._lost is not None or any(self._let_go_behind_markers):\n                assert pinned",
             "            if self._lost is not None or any(self._let_go_behind_markers):\n                assert pinned")),
    _session("a write is made again from any array", "test_reads_again", ("facade.transfers",
             "            and hostbuf.flags.c_contiguous\n            and memory", "            and memory")),
    _session("a write is made again at any offset", "test_reads_again", ("facade.transfers",
             "            and dst_offset == offset\n", "")),
    _session("a write is made again at an offset that is no number of bytes", "test_reads_again", ("facade.transfers",
             "            and type(dst_offset) is int\n", "")),
    _session("a write is made again of a buffer that is gone", "test_reads_again", ("facade.transfers",
             "and hostbuf.flags.c_contiguous\n            and memory.references > 0\n", "and hostbuf.flags.c_contiguous\n")),
    _session("a write is made again in another context", "test_reads_again", ("facade.transfers",
             "and memory.context is line.context\n            and type(dst_offset)", "and type(dst_offset)")),
    _session("a write is made again in a queue that has ended", "test_reads_again", ("facade.transfers",
             "and type(dst_offset) is int\n            and not (line.is_finalized or (starts and is_shared(hostbuf)))",
             "and type(dst_offset) is int\n            and not (starts and is_shared(hostbuf))")),
    _session("a write is made again of any length", "test_reads_again", ("facade.transfers",
             "            and hostbuf.nbytes == writing.nbytes\n", "")),
    _session("a write is made again before its wait list", "test_reads_again", ("facade.transfers",
             "    if wait_for or not (is_blocking is True or is_blocking is False):",
             "    if not (is_blocking is True or is_blocking is False):")),
    _session("a write is made again where the bytes were before", "test_reads_again", ("session.immediate_moves",
             "if buffer.writing is not writing or session.observers", "if session.observers")),
    _session("a write is made again at what another part was written", "test_reads_again", ("facade.transfers",
             "if isinstance(writing, _WRITINGS) and (writing.start, writing.nbytes) == (start, hostbuf.nbytes):",
             "if isinstance(writing, _WRITINGS):")),
    _session("a write is made again before what waits for the program", "test_reads_again", ("session.immediate_moves",
             "queue is writing.queue and executor.standing is writing.standing", "queue is writing.queue")),
    _session("a write is made again before what its own queue waits for", "test_reads_again", ("session.immediate_moves",
             "queue is writing.queue and executor.standing is writing.standing", "executor.standing is writing.standing")),
    _session("a first write goes where the buffer begins", "test_reads_again", ("session.immediate_moves",
             "Box.contiguous(0, start - replica.start, host.size)", "Box.contiguous(0, 0, host.size)")),
    _session("a first write does not wait for what is held back", "test_reads_again", ("session.immediate_moves",
             "                or not is_unhindered(session, queue, line.worker.number, timed=line.tells_times)\n", "")),
    _session("a write that is made again takes the last array", "test_cuda_reads", ("backends.cuda.backend",
             "            read_from(address)\n",
             "            read_from(vars(self).setdefault('first', address))\n")),
    _session("a longer write is given to a worker at work", "test_immediate_writes", ("session.immediate_moves",
             "layout.is_contiguous and is_short and line.worker.is_quiet_alone", "layout.is_contiguous and is_short")),
    _session("bytes are changed at home while a worker reads them", "test_immediate_homes", ("session.immediate_homes",
             "if writes and holdings.home_reads and not", "if False and not")),
    _session("a home is given more bytes and its buffer's state is not", "test_immediate_homes", ("session.immediate_homes",
             "                self._goes_on(buffer, reach)", "                pass")),
    _session("a mapping of new bytes counts as one of bytes at home", "test_immediate_homes", ("session.immediate_homes",
             "if not reach.adds or not found.is_alone", "if not reach.writes or not found.is_alone")),
    _session("a write is made again while others read", "test_kept", ("session.immediate_moves",
             "if self._only is None and not self._is_free(line, entry[1], queue):", "if False:")),
    _session("a write that is made again is counted once", "test_reads_again", ("session.immediate_moves",
             "            tally.count += 1\n            tally.moved.host_to_worker += writing",
             "            tally.moved.host_to_worker += writing")),
    _session("a read that is waited for alone is not waited for", "test_reads_later", ("backends.cuda.backend",
             "        return not self.driver.event_synchronize(event)\n", "        return True\n")),
    _session("a read is made again in another state", "test_reads_later", ("session.immediate_moves",
             "if buffer.later is not later or session.observers:", "if session.observers:"),
             ("session.buffers", "self.mapped = self.later = self.stays = None", "self.mapped = self.stays = None")),
    _session("nobody knows of the array that a read comes into", "test_reads_later", ("executor.line",
             "            executor.enter_host(into, self._at, step, writes=True)\n            worker.arrivals",
             "            worker.arrivals")),
    _session("a read's event is that of an earlier one", "test_reads_later", ("backends.cuda.backend",
             "pinned.is_recorded = not (record() and self._in_own_context(record))",
             "pinned.is_recorded = True")),
    _session("a read under way shares its memory with the next", "test_cuda_reads", ("backends.cuda.backend",
             "                landing.free.remove(pinned)\n", "")),
    _session("a call made again leaves another GPU's context", "test_cuda_reads", ("backends.cuda.launching",
             "if outside is not None:\n                self.leave(outside)", "pass")),
    _session("a call refused in another context fails", "test_cuda_reads", ("backends.cuda.launching",
             "if result in ELSEWHERE:", "if False:")),
    _session("a marker leaves a refused command to be timed", "test_cuda_launches", ("backends.cuda.backend",
             "self._count, self._lapse = 0, None", "self._count = 0")),
    _session("a block of a GPU's memory crosses frames", "test_cuda_pool", ("backends.cuda.pool",
             "    return -address % min(", "    return 0 * address % min(")),
    _session("zeros of other types than the kernel's keep their bytes", "test_calls_alike", ("facade.repeat",
             "return PACKERS.get(np.dtype(kind).char.encode()) is converter", "return True")),
    # images
    _one("unsigned pixels are written as signed ones", "translation", "vdev.translators.dialects.image_lowering",
         '"write_imageui": "ui"', '"write_imageui": "i"'),
    # translation to CUDA
    _session("arguments lie apart whatever they are", "test_cuda_apart", ("backends.cuda.launch",
             "return not any(id(_block_of(args[index])) in written for index in apart.read)", "return True")),
    _session("a launch that is compiled keeps the first version", "test_cuda_apart", ("backends.cuda.compiling",
             "version, given = self._version(kernel, moved(args, known.bases), known.threads)",
             "version, given = kernel.apart or kernel, moved(args, known.bases)")),
    _session("a launch made again keeps the second version", "test_cuda_apart", ("backends.cuda.launching",
             "plain = self._again(self._fitting(kernel, args, known.threads), [*args], shape)",
             "plain = self._again(kernel.apart or kernel, [*args], shape)")),
    _session("a texture shows memory that the kernel writes", "test_cuda_textures", ("backends.cuda.launch",
             " or not are_only_read(self.info, args):", ":")),
    _session("textures outlive their memory", "test_cuda_textures", ("backends.cuda.backend",
             "self._textures.forget(address)", "pass")),
    _session("textures go while they may be in use", "test_cuda_textures", ("backends.cuda.textures",
             "        self._wait()\n", "")),
    _session("a launch made again keeps its texture", "test_cuda_textures", ("backends.cuda.launching",
             "if used is not None and not any(at in self._read for at, _ in changed):", "if used is not None:")),
    _session("a launch made again on other memory keeps its texture", "test_cuda_textures", ("backends.cuda.launching",
             "given, used = self._textures.given(self._images, now), self._used",
             "given, used = self._textures.given(self._images, self._args), self._used")),
    _session("a compiled launch with a texture is made for other memory", "test_cuda_textures", ("backends.cuda.compiling",
             "super().__init__(backend, what, [start], counted=[(\"launches\", 1)], kernel=kernel)",
             "super().__init__(backend, what, [start], counted=[(\"launches\", 1)], kernel=kernel, placed=kernel.placed_arguments())")),
    _session("a compiled launch keeps its version", "test_cuda_textures", ("backends.cuda.compiling",
             "            words[at] = function\n", "            pass\n")),
    _session("a compiled launch keeps its textures", "test_cuda_textures", ("backends.cuda.compiling",
             "kernel.set_argument(image.descriptor, given[image.descriptor])", "pass")),
    _session("a part of an image has the whole one's texture", "test_cuda_textures", ("backends.cuda.textures",
             "if made is not None and ahead + made[0] <= memory.nbytes else None", "if made is not None else None")),
    _session("a texture serves whatever the sampler", "test_cuda_textures", ("translators.dialects.image_lowering",
             "if (im.d.depth == (int)~s) return {given}; ", "if (im.d.depth) return {given}; ")),
    _session("nothing waits for what is aside", "test_interiors_on_gpus", ("backends.cuda.aside",
             "partial(driver.stream_wait, self._main, self._ended, 0),", "")),
    _session("what is aside waits for nothing before it", "test_interiors_on_gpus", ("backends.cuda.aside",
             "partial(driver.stream_wait, self.stream, self._opened, 0),", "")),
    _session("what is aside waits for no other GPU", "test_interiors_on_gpus", ("backends.cuda.compiling",
             "partial(self.driver.stream_wait, self._stream_of(aside), event, 0)",
             "partial(self.driver.stream_wait, self.stream, event, 0)")),
    _session("an interior comes before those that read what it changes", "test_orders", ("executor.orders",
             "early = _early(ranks, accesses)", "early: frozenset[tuple[int, int]] = frozenset()")),
    _session("of several reads of one replica the last one counts", "test_orders", ("executor.orders",
             "regions[key] = region | regions[key] if key in readers else region", "regions[key] = region")),
    _session("bytes that are not known were not read", "test_orders", ("executor.orders",
             "if key not in regions or regions[key]", "if key in regions and regions[key]")),
    _session("an interior may change what is read elsewhere", "test_interiors", ("planner.interiors",
             "(self._moved if touch.writes else self._arriving)", "self._arriving")),
    _cuda("components behind the fourth are the first four", "printing",
          'text = f"v[{numbers}]"', 'text = f"v[{node.components[0] & 3}]"'),
    _cuda("a bool in a vector is 1", "printing", 'inside = ["(-(int)(", *inside, "))"]', 'inside = ["((int)(", *inside, "))"]'),
    _by_tests(
        _cuda("quotients have low bits of their own", "narrowing", "Binary.ADD, Binary.SUB", "Binary.DIVIDE, Binary.ADD, Binary.SUB"),
        "test_cuda_narrowing",
    ),
    _cuda("shifts are cut to 32 bits", "printing", "nbits = 64 if clang.canonical(shifted).get_size() > 4 else 32", "nbits = 32"),
    _cuda("a structure's array is copied but for its last", "records",
          "{index} < {type_.element_count}; ++{index}", "{index} < {type_.element_count - 1}; ++{index}"),
    _cuda("constants keep their sign", "types", "negative = clang.canonical(type_).kind not in _UNSIGNED and number >> (nbits - 1)",
          "negative = number >> (nbits - 1)"),
    _one("digraphs stay as they are", "cuda", "vdev.translators.frontend.source",
         "return replace(text, text=without_digraphs(text.text))", "return text"),
    _cuda("a range of labels ends one early", "printing",
          "low, high = (literal(clang.evaluate(number), type_) for number in ends)",
          "low, high = literal(clang.evaluate(ends[0]), type_), literal(clang.evaluate(ends[1]) - 1, type_)"),
    _cuda("a conditional of vectors gives complements", "printing",
          'return ["::vdev_cl::choose("', 'return ["~::vdev_cl::choose("'),
)  # fmt: skip
BY_NAME = {defect.name: defect for defect in DEFECTS}
_PLANTED: set[str] = set()  #: modules that were loaded with a defect in them
#: where methods of a module on the way of a launch are replaced by compiled ones, which would not have the defect
_PLAIN = re.compile(r"^(compiled\.code\.replace_methods\(\w+, )\(.*?\)\)", re.MULTILINE | re.DOTALL)


class _Planted(SourceFileLoader):
    """Loads a module with a piece of its text replaced; no byte code is kept."""

    def __init__(self, name: str, path: str, edits: Sequence[tuple[str, str]]) -> None:
        super().__init__(name, path)
        self._edits = edits

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        text = _PLAIN.sub(r"\1())", replaced(self.get_data(path).decode(), self._edits, fullname))
        _PLANTED.add(fullname)
        return compile(text, path, "exec", dont_inherit=True)


def replaced(text: str, edits: Sequence[tuple[str, str]], module: str) -> str:
    for old, new in edits:
        if text.count(old) != 1:
            raise LookupError(f"{module} has {text.count(old)} times: {old}")
        text = text.replace(old, new)
    return text


def check_applies(defect: Defect) -> None:
    """Raises LookupError where the code of today does not have a piece once, SyntaxError where what stands there then is none."""
    for module in {module for module, _, _ in defect.edits}:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            raise LookupError(f"no module {module}")
        edits = [(old, new) for where, old, new in defect.edits if where == module]
        compile(replaced(Path(spec.origin).read_text(), edits, module), module, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, defect: Defect) -> None:
        self._edits: dict[str, list[tuple[str, str]]] = {}
        for module, old, new in defect.edits:
            self._edits.setdefault(module, []).append((old, new))

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        edits = self._edits.get(name)
        if edits is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.origin is not None:
                spec.loader = _Planted(name, spec.origin, edits)
                return spec
        return None


def plant(name: str) -> None:
    """Put the defect in place. Comes before the first import of its modules; raises RuntimeError otherwise."""
    defect = BY_NAME[name]
    loaded = [module for module, _, _ in defect.edits if module in sys.modules]
    if loaded:
        raise RuntimeError(f"imported already: {', '.join(loaded)}")
    os.environ["VDEV_CACHE"] = (
        "0"  # what it makes is not to be kept, nor what was made without it to be taken
    )
    sys.meta_path.insert(0, _Finder(defect))


def nowhere(name: str) -> list[str]:
    """The modules of a planted defect that nothing has imported: there it stands in no code that runs."""
    return [module for module, _, _ in BY_NAME[name].edits if module not in _PLANTED]


__all__ = ["BY_NAME", "DEFECTS", "Defect", "check_applies", "nowhere", "plant", "replaced"]
