"""Values that do not fit their type: conversions out of range, signed overflow, NaN and infinity from finite
operands.

Decides which expressions are checked, and writes the functions that check them, one for each type. A constant that
fits is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from itertools import pairwise

from clang.cindex import Cursor, CursorKind, Type, TypeKind
from vdev.translators.values import dataclass

from ...frontend import clang
from ...frontend.edits import Edits, Function, Functions
from ...frontend.operator_kinds import Binary, Placed, Unary
from ...frontend.types import OWN
from .barriers import Wrap
from .roots import expression_parts
from .sites import Recorder, integer_name

CONVERSION, OVERFLOW, NON_FINITE = "conversion-out-of-range", "signed-overflow", "non-finite"
#: Checked only on request: correct programs wrap and use infinities on purpose.
ON_REQUEST = frozenset({OVERFLOW, NON_FINITE})

_FLOATS = {TypeKind.FLOAT: "float", TypeKind.DOUBLE: "double"}
_BITS = {"char": 8, "short": 16, "int": 32, "long": 64}
_CONVERT = re.compile(r"convert_(u?(?:char|short|int|long))(2|3|4|8|16)?(?:_rt[ezpn])?")
_STEPS = {Placed.RAISE: "+", Placed.LOWER: "-"}
_CASTS = (CursorKind.CSTYLE_CAST_EXPR, CursorKind.UNEXPOSED_EXPR)
_OPERATIONS = {Binary.ADD: "+", Binary.SUBTRACT: "-", Binary.MULTIPLY: "*", Binary.DIVIDE: "/"}
_NAMES = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem"}
_UNASKED = (TypeKind.INVALID, TypeKind.UNEXPOSED, TypeKind.OVERLOAD, TypeKind.DEPENDENT)
#: Floating-point functions that can give a result that is not finite from operands that are.
_MATH = re.compile(
    r"(?:native_|half_)?(?:sqrt|rsqrt|exp|exp2|exp10|log|log2|log10|powr|divide|recip|tan)|pow|pown|rootn|expm1|log1p|logb|"
    r"acos|asin|acosh|atanh|acospi|asinpi|cosh|sinh|tgamma|lgamma|fmod|remainder|hypot|ldexp|fma|mad|tanpi|normalize|"
    r"length|distance|dot|cross"
)
#: Signed operands a and b, and r, the result with wrap-around; also for vectors. If the quotient does not exist, the
#: divisor becomes 1.
_OVERFLOWS = {
    "+": "((a ^ r) & (b ^ r)) < 0",
    "-": "((a ^ b) & (a ^ r)) < 0",
    "*": "mul_hi(a, b) != r >> {sign}",
}
_DIVISIONS = {Binary.DIVIDE: "/", Binary.REMAINDER: "%"}
_SIGNED = re.compile(r"(int|long)(\d*)")


def float_name(type_: Type) -> str | None:
    """`float`, `double4` and so on; None for a type that is not floating point."""
    canonical = type_.get_canonical()
    if canonical.kind in (TypeKind.EXTVECTOR, TypeKind.VECTOR):
        element = _FLOATS.get(canonical.element_type.get_canonical().kind)
        return None if element is None else f"{element}{canonical.element_count}"
    return _FLOATS.get(canonical.kind)


@dataclass
class Numbers:
    """The numeric checks of one program. `kinds`: those on request that were requested. `put`: takes what is put
    around a cursor.
    """

    functions: Functions
    recorder: Recorder
    edits: Edits
    kinds: frozenset[str]
    put: Callable[[Cursor, Wrap], None]
    _definitions: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Plan what all functions need."""
        for function in self.functions.defined:
            for cursor in clang.walk(function.cursor):
                if cursor.kind is CursorKind.CXX_UNARY_EXPR or cursor.type.kind in _UNASKED:
                    continue
                self._look(function, cursor)

    def definitions(self) -> str:
        """The checking functions, by the types that they are for."""
        return "".join(text for _, text in sorted(self._definitions.items()))

    def _look(self, function: Function, cursor: Cursor) -> None:
        parts = expression_parts(cursor)
        if cursor.kind in _CASTS and parts:
            self._cast(function, cursor, parts[-1])
        elif cursor.kind is CursorKind.CALL_EXPR:
            self._call(function, cursor, parts[1:])
        elif cursor.kind is CursorKind.BINARY_OPERATOR and len(parts) == 2:
            self._binary(function, cursor, parts)
        elif cursor.kind is CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
            self._compound(function, cursor, parts)
        elif cursor.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) is Unary.MINUS:
            self._negated(function, cursor, parts[0])
        elif cursor.kind is CursorKind.UNARY_OPERATOR and clang.unary_operator(cursor) in _STEPS:
            self._stepped(function, cursor, parts[0])

    # conversions

    def _cast(self, function: Function, cursor: Cursor, value: Cursor) -> None:
        target = integer_name(cursor.type)
        if target is not None and target != "bool" and value.type.kind not in _UNASKED:
            self._converted(function, cursor, value, target)

    def _call(self, function: Function, cursor: Cursor, arguments: list[Cursor]) -> None:
        name = str(cursor.spelling)
        match = _CONVERT.fullmatch(name)
        if match is not None and len(arguments) == 1:
            self._converted(function, cursor, arguments[0], match[1] + (match[2] or ""))
        elif _MATH.fullmatch(name) and NON_FINITE in self.kinds:
            self._math(function, cursor, arguments)

    def _converted(self, function: Function, cursor: Cursor, value: Cursor, target: str) -> None:
        source = float_name(value.type)
        element = target.rstrip("0123456789")
        if source is None or element.removeprefix("u") not in _BITS:
            return
        low, high = _range(element)
        constant = clang.evaluate(value)
        if isinstance(constant, int | float) and low <= constant <= high:
            return
        bits = _BITS[element.removeprefix("u")]
        name = f"P_to_{element}_{source}"
        scalar = source.rstrip("0123456789")
        suffix = "f" if scalar == "float" else ""
        # In a wide type, one below the least value is not a float: then the least value is the bound.
        exact = bits < (24 if scalar == "float" else 53) or low == 0
        below = f"> {low - 1}.0{suffix}" if exact else f">= {low}.0{suffix}"
        test = f"v {below} && v < {high + 1}.0{suffix}"
        failed = f"any(!({test}))" if source != scalar else f"!({test})"
        self._define(
            name,
            f"{source} {name}(P_C c, {source} v, uint site)",
            f"if ({failed}) P_report(c, P_CONVERSION, site, -1, 0, 0, 0, 0); return v;",
        )
        site = self.recorder.site(cursor, "conversion", function.name, name=target)
        start, stop = self.recorder.extent(value)
        p = self.recorder.prefix
        self.put(value, Wrap(start, f"{p}{name[2:]}({p}c, (", stop, f"), {site})"))

    # operators

    def _binary(self, function: Function, cursor: Cursor, parts: list[Cursor]) -> None:
        operation = clang.binary_operator(cursor)
        if operation in _DIVISIONS and self._divided(function, cursor, parts):
            return
        text = _OPERATIONS.get(operation) if isinstance(operation, Binary) else None
        name = None if text is None else self._operation(cursor.type, text)
        if name is None or clang.evaluate(cursor) is not None:
            return
        kind = OVERFLOW if "int" in name or "long" in name else NON_FINITE
        site = self.recorder.site(cursor, kind, function.name)
        self._joined(cursor, parts, f"{name}({self.recorder.prefix}c, (", f"), {site})")

    def _operation(self, type_: Type, operation: str) -> str | None:
        """The function for an operator of a type, if it is checked."""
        integer, floating = integer_name(type_), float_name(type_)
        match = _SIGNED.fullmatch(integer or "")
        if integer and match and OVERFLOW in self.kinds and operation in _OVERFLOWS:
            name = f"{_NAMES[operation]}_{integer}"
            test = _OVERFLOWS[operation].format(sign=63 if match[1] == "long" else 31)
            bad = f"any({test})" if match[2] else test
            body = f"{integer} r = as_{integer}(as_u{integer}(a) {operation} as_u{integer}(b)); "
            body += f"if ({bad}) P_report(c, P_OVERFLOW, site, -1, 0, 0, 0, 0); return r;"
            self._define(name, f"{integer} P_{name}(P_C c, {integer} a, {integer} b, uint site)", body)
        elif floating is not None and NON_FINITE in self.kinds:
            name = f"{_NAMES[operation]}_{floating}"
            finite = "all(isfinite({}))" if floating[-1].isdigit() else "isfinite({})"
            asked = f"{finite.format('a')} && {finite.format('b')} && !{finite.format('r')}"
            body = f"{floating} r = a {operation} b; if ({asked}) P_report(c, P_NON_FINITE, site, -1, 0, 0, 0, 0); return r;"
            self._define(name, f"{floating} P_{name}(P_C c, {floating} a, {floating} b, uint site)", body)
        else:
            return None
        return f"{self.recorder.prefix}{name}"

    def _divided(self, function: Function, cursor: Cursor, parts: list[Cursor]) -> bool:
        """The least integer divided by -1, which stops a process: this is prevented whatever was requested."""
        integer = integer_name(cursor.type)
        match = _SIGNED.fullmatch(integer or "")
        if integer is None or match is None or clang.evaluate(parts[1]) not in (None, -1):
            return False
        operation = _DIVISIONS[clang.binary_operator(cursor)]  # type: ignore[index]
        name = f"{_NAMES[operation]}_{integer}"
        self._define_divisor(integer, match)
        body = f"return a {operation} P_by_{integer}(c, a, b, site);"
        self._define(name, f"{integer} P_{name}(P_C c, {integer} a, {integer} b, uint site)", body)
        site = self.recorder.site(cursor, OVERFLOW, function.name)
        p = self.recorder.prefix
        self._joined(cursor, parts, f"{p}{name}({p}c, (", f"), {site})")
        return True

    def _define_divisor(self, integer: str, match: re.Match[str]) -> None:
        least = "LONG_MIN" if match[1] == "long" else "INT_MIN"
        test = f"(a == ({integer})({least})) & (b == ({integer})(-1))"
        asked, by = (f"any({test})", f"b + (({test}) & 2)") if match[2] else (test, "1")
        body = f"if ({asked}) {{ P_report(c, P_OVERFLOW, site, -1, 0, 0, 0, 0); return {by}; }} return b;"
        head = f"{integer} P_by_{integer}(P_C c, {integer} a, {integer} b, uint site)"
        self._define(f"by_{integer}", head, body)

    def _stepped(self, function: Function, cursor: Cursor, target: Cursor) -> None:
        """`x++` and so on, for a variable."""
        private = target.kind is CursorKind.DECL_REF_EXPR and clang.address_space(target.type) in OWN
        operation = _STEPS[clang.unary_operator(cursor)]  # type: ignore[index]
        name = self._operation(cursor.type, operation) if private and integer_name(target.type) else None
        if name is None:
            return
        site = self.recorder.site(cursor, OVERFLOW, function.name)
        start, stop = self.recorder.extent(cursor)
        p = self.recorder.prefix
        self.put(cursor, Wrap(start, f"((void){name}({p}c, {target.spelling}, 1, {site}), ", stop, ")"))

    def _joined(self, cursor: Cursor, parts: list[Cursor], head: str, tail: str) -> None:
        """Operands or arguments become those of a function of ours; the text between them is removed."""
        start, stop = self.recorder.extent(cursor)
        bounds = [self.recorder.extent(part) for part in parts]
        self.put(cursor, Wrap(start, head, bounds[-1][1], tail, bounds[0][0] - start))
        for (_, left), (right, _) in pairwise(bounds):
            self.edits.replace(left, right, "), (")
        if stop > bounds[-1][1]:
            self.edits.replace(bounds[-1][1], stop, "")

    def _compound(self, function: Function, cursor: Cursor, parts: list[Cursor]) -> None:
        """`x += y` for a variable: y is checked together with the value of x."""
        target, value = parts
        operation = clang.binary_operator(cursor)
        if operation in _DIVISIONS and self._compound_division(function, parts):
            return
        text = _OPERATIONS.get(operation) if isinstance(operation, Binary) else None
        private = target.kind is CursorKind.DECL_REF_EXPR and clang.address_space(target.type) in OWN
        same = _number_name(value.type) == _number_name(target.type)
        name = self._operation(cursor.type, text) if text is not None and private and same else None
        if name is None:
            return
        p, type_ = self.recorder.prefix, cursor.type.spelling
        kind = OVERFLOW if "int" in name or "long" in name else NON_FINITE
        site = self.recorder.site(cursor, kind, function.name)
        start, stop = self.recorder.extent(value)
        look = f"{name}({p}c, {target.spelling}, {p}by, {site})"
        self.put(value, Wrap(start, f"({{ {type_} {p}by = (", stop, f"); (void){look}; {p}by; }})"))

    def _compound_division(self, function: Function, parts: list[Cursor]) -> bool:
        """`x /= y` for a variable."""
        target, value = parts
        integer = integer_name(target.type)
        match = _SIGNED.fullmatch(integer or "")
        private = target.kind is CursorKind.DECL_REF_EXPR and clang.address_space(target.type) in OWN
        if integer is None or match is None or not private or integer_name(value.type) != integer:
            return False
        if clang.evaluate(value) not in (None, -1):
            return False
        self._define_divisor(integer, match)
        site = self.recorder.site(target, OVERFLOW, function.name)
        start, stop = self.recorder.extent(value)
        p = self.recorder.prefix
        head = f"{p}by_{integer}({p}c, {target.spelling}, ("
        self.put(value, Wrap(start, head, stop, f"), {site})"))
        return True

    def _negated(self, function: Function, cursor: Cursor, value: Cursor) -> None:
        name = self._operation(cursor.type, "-") if integer_name(cursor.type) is not None else None
        if name is None or clang.evaluate(cursor) is not None:
            return
        site = self.recorder.site(cursor, OVERFLOW, function.name)
        start, stop = self.recorder.extent(cursor)
        inner = self.recorder.extent(value)[0]
        p = self.recorder.prefix
        self.put(cursor, Wrap(start, f"{name}({p}c, 0, (", stop, f"), {site})", inner - start))

    def _math(self, function: Function, cursor: Cursor, arguments: list[Cursor]) -> None:
        result = float_name(cursor.type)
        if result is None or not arguments or any(argument.type.kind in _UNASKED for argument in arguments):
            return
        p = self.recorder.prefix
        types = [_number_name(argument.type) or "" for argument in arguments]
        if not all(types):
            return
        name = f"math_{cursor.spelling}_{'_'.join(types)}"
        names = [f"a{index}" for index in range(len(arguments))]
        finite = "all(isfinite({}))"
        asked = [
            (finite if types[i][-1].isdigit() else "isfinite({})").format(names[i])
            for i, argument in enumerate(arguments)
            if float_name(argument.type) is not None
        ]
        bad = f"!{(finite if result[-1].isdigit() else 'isfinite({})').format('r')}"
        parameters = ", ".join(f"{type_} {each}" for type_, each in zip(types, names, strict=True))
        self._define(
            name,
            f"{result} P_{name}(P_C c, {parameters}, uint site)",
            f"{result} r = {cursor.spelling}({', '.join(names)}); "
            f"if ({' && '.join([*asked, bad])}) P_report(c, P_NON_FINITE, site, -1, 0, 0, 0, 0); return r;",
        )
        site = self.recorder.site(cursor, NON_FINITE, function.name)
        self._joined(cursor, arguments, f"{p}{name}({p}c, (", f"), {site})")

    def _define(self, name: str, head: str, body: str) -> None:
        self._definitions.setdefault(name, f"{head};\n{head} {{ {body} }}\n")


def _number_name(type_: Type) -> str | None:
    return integer_name(type_) or float_name(type_)


def _range(element: str) -> tuple[int, int]:
    bits = _BITS[element.removeprefix("u")]
    return (0, (1 << bits) - 1) if element.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)
