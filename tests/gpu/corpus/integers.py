"""Integer functions and operators, relational functions, selections and shuffles."""

from __future__ import annotations

import numpy as np

from .case import (
    COUNT,
    INTEGERS,
    REALS,
    TYPES,
    WIDTHS,
    Array,
    Case,
    drawn,
    function_case,
    integers,
    reals,
    vector,
)

#: calls of a, b and c, all of one type; the result has that type
CALLS = {
    "add_sat": "add_sat(a, b)", "hadd": "hadd(a, b)", "rhadd": "rhadd(a, b)", "clamp": "clamp(a, min(b, c), max(b, c))", "clz": "clz(a)",
    "mad_hi": "mad_hi(a, b, c)", "mad_sat": "mad_sat(a, b, c)", "max": "max(a, b)", "min": "min(a, b)", "mul_hi": "mul_hi(a, b)",
    "rotate": "rotate(a, b)", "sub_sat": "sub_sat(a, b)", "popcount": "popcount(a)",
    "add": "a + b", "subtract": "a - b", "multiply": "a * b", "and_": "a & b", "or_": "a | b", "xor": "a ^ b", "not_": "~a",
    "shift_left": "a << b", "shift_right": "a >> b", "minus": "-a", "bitselect": "bitselect(a, b, c)", "divide": "a / b",
    "remainder": "a % b",
}  # fmt: skip
COMPARISONS = {
    "less": "<",
    "greater": ">",
    "less_equal": "<=",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "land": "&&",
    "lor": "||",
}
RELATIONS = (
    "isequal", "isnotequal", "isgreater", "isgreaterequal", "isless", "islessequal", "islessgreater", "isordered", "isunordered",
)  # fmt: skip
TESTS = ("isfinite", "isinf", "isnan", "isnormal", "signbit")


def cases() -> list[Case]:
    return [*_calls(), *_comparisons(), *_relations(), *_choices(), *_shuffles(), *_special()]


def _three(name: str, type_: str, width: int) -> list[tuple[str, Array]]:
    count = COUNT * width
    found = [(type_, integers(f"{name}{type_}{width}{x}", type_, count)) for x in "abc"]
    if name in ("divide", "remainder"):
        # The lowest number by -1 is undefined.
        a, b = found[0][1], found[1][1]
        b |= b.dtype.type(1)
        a[a == (-(2 ** (8 * a.itemsize - 1)) if a.dtype.kind == "i" else -1)] = 3
    return found


def _calls() -> list[Case]:
    found = []
    for number, (name, call) in enumerate(CALLS.items()):
        for offset, type_ in enumerate(INTEGERS):
            for width in (1, WIDTHS[1 + (number + offset) % 5]):
                arguments = _three(name, type_, width)
                used = [
                    a
                    for a, letter in zip(arguments, "abc", strict=True)
                    if letter == "a" or f"{letter}" in _letters(call)
                ]
                # Small integers are promoted where they stand alone: what is stored is their type again.
                text = f"({type_})({call})" if width == 1 else call
                found.append(function_case(f"{name}_{vector(type_, width)}", text, used, type_, width=width))
                if name == "mad_sat":
                    exact = _saturated_mad(*(array for _, array in used))
                    found[-1] = found[-1].stating(exact, native_errs=_WRAPS.get(type_, ""))
    return found


_SATURATES = "6.12.3: mad_sat() saturates a * b + c"
#: By the comparisons on an H200 and on Intel's CPU engine.
_WRAPS = {
    "int": f"{_SATURATES}; Intel's saturates what fits",
    "uint": f"{_SATURATES}; Intel's wraps",
    "long": f"{_SATURATES}; NVIDIA's and Intel's wrap where the product leaves 64 bits",
}


def _saturated_mad(a: Array, b: Array, c: Array) -> Array:
    """In integers of any length."""
    info = np.iinfo(a.dtype)
    exact = (x * y + z for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    return np.array([min(max(value, info.min), info.max) for value in exact], a.dtype)


def _letters(call: str) -> set[str]:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in call).split()
    last = max((word for word in words if word in ("a", "b", "c")), default="a")
    return {letter for letter in "abc" if letter <= last}


def _comparisons() -> list[Case]:
    found = []
    for number, (name, operator) in enumerate(COMPARISONS.items()):
        for type_ in (*INTEGERS, *REALS):
            width = WIDTHS[1 + number % 5]
            for n in (1, width):
                a, b = ((type_, drawn(f"{name}{x}{type_}{n}", type_, COUNT * n)) for x in "ab")
                b[1][::3] = a[1][::3]
                result = (
                    "int"
                    if n == 1
                    else {1: "char", 2: "short", 4: "int", 8: "long"}[TYPES[type_](0).itemsize]
                )
                found.append(
                    function_case(f"{name}_{vector(type_, n)}", f"a {operator} b", [a, b], result, width=n)
                )
    return found


def _relations() -> list[Case]:
    found = []
    for type_ in REALS:
        for n in (1, 4):
            a = (type_, reals(f"relation{type_}{n}", type_, COUNT * n, edges=True))
            b = (type_, reals(f"relation{type_}{n}b", type_, COUNT * n, edges=True))
            b[1][::3] = a[1][::3]
            result = "int" if n == 1 or type_ == "float" else "long"
            for name in RELATIONS:
                found.append(
                    function_case(f"{name}_{vector(type_, n)}", f"{name}(a, b)", [a, b], result, width=n)
                )
            for name in TESTS:
                found.append(function_case(f"{name}_{vector(type_, n)}", f"{name}(a)", [a], result, width=n))
            if n == 4:
                found.append(
                    function_case(
                        f"any_{type_}",
                        "(int4)(any(a < b), all(a < b), any(isnan(a)), 1)",
                        [a, b],
                        "int",
                        width=4,
                    )
                )
            found.append(function_case(f"not_{vector(type_, n)}", "!a", [a], result, width=n))
            found.append(
                function_case(f"bitselect_{vector(type_, n)}", "bitselect(a, b, -a)", [a, b], type_, width=n)
            )
    return found


def _choices() -> list[Case]:
    found = []
    for type_ in (*INTEGERS, *REALS):
        nbytes = TYPES[type_](0).itemsize
        for signed in (True, False):
            chooser = {1: "char", 2: "short", 4: "int", 8: "long"}[nbytes]
            chooser = chooser if signed else f"u{chooser}"
            for n in (1, 4):
                a, b = ((type_, drawn(f"select{x}{type_}", type_, COUNT * n)) for x in "ab")
                c = (chooser, integers(f"select{chooser}", chooser, COUNT * n))
                found.append(
                    function_case(
                        f"select_{vector(type_, n)}_{chooser}", "select(a, b, c)", [a, b, c], type_, width=n
                    )
                )
        a, b = ((type_, drawn(f"choose{x}{type_}", type_, COUNT * 4)) for x in "ab")
        found.append(function_case(f"choose_{type_}4", "a < b ? a : b", [a, b], type_, width=4))
        found.append(function_case(f"choose_scalar_{type_}4", "a.x < b.x ? a : b", [a, b], type_, width=4))
    return found


def _shuffles() -> list[Case]:
    found = []
    for type_ in (*INTEGERS, *REALS):
        nbytes = TYPES[type_](0).itemsize
        mask = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}[nbytes]
        for n in (2, 4, 8, 16):
            a, b = ((type_, drawn(f"shuffle{x}{type_}{n}", type_, COUNT * n)) for x in "ab")
            m = (mask, integers(f"shuffle{mask}{n}", mask, COUNT * n))
            kind = vector(type_, n)
            found.append(function_case(f"shuffle_{kind}", "shuffle(a, b)", [a, m], type_, width=n))
            found.append(function_case(f"shuffle2_{kind}", "shuffle2(a, b, c)", [a, b, m], type_, width=n))
    return found


def _special() -> list[Case]:
    found = []
    for type_ in INTEGERS:
        unsigned = type_ if type_.startswith("u") else f"u{type_}"
        for n in (1, 4):
            a, b = ((type_, integers(f"abs{x}{type_}", type_, COUNT * n)) for x in "ab")
            kind = vector(type_, n)
            found.append(function_case(f"abs_{kind}", "abs(a)", [a], unsigned, width=n))
            found.append(function_case(f"abs_diff_{kind}", "abs_diff(a, b)", [a, b], unsigned, width=n))
            found.append(
                function_case(f"ctz_{kind}", "ctz(a)", [a], type_, width=n, options=("-cl-std=CL3.0",))
            )
        if n_wider := {"char": "short", "short": "int", "int": "long"}.get(type_.removeprefix("u")):
            wider = n_wider if not type_.startswith("u") else f"u{n_wider}"
            for n in (1, 4):
                high = (type_, integers(f"upsample{type_}{n}", type_, COUNT * n))
                low = (unsigned, integers(f"upsample{unsigned}{n}", unsigned, COUNT * n))
                found.append(
                    function_case(
                        f"upsample_{vector(type_, n)}", "upsample(a, b)", [high, low], wider, width=n
                    )
                )
    for type_ in ("int", "uint"):
        low = -(2**23) if type_ == "int" else 0
        for n in (1, 4):
            # Results of more than 32 bits are the implementation's.
            a = (type_, integers(f"mul24a{n}", type_, COUNT * n, low // 2048, 2**11))
            b = (type_, integers(f"mul24b{n}", type_, COUNT * n, low // 2048, 2**11))
            found.append(function_case(f"mul24_{vector(type_, n)}", "mul24(a, b)", [a, b], type_, width=n))
            found.append(function_case(f"mad24_{vector(type_, n)}", "mad24(a, b, a)", [a, b], type_, width=n))
    for type_ in INTEGERS:
        a, b = ((type_, integers(f"scalar{x}{type_}", type_, COUNT * 4)) for x in "ab")
        found.append(function_case(f"max_scalar_{type_}4", "max(a, b.x)", [a, b], type_, width=4))
        found.append(function_case(f"min_scalar_{type_}4", "min(a, b.y)", [a, b], type_, width=4))
        found.append(
            function_case(
                f"update_{type_}4",
                "(a += b, a *= a, a <<= b, a ^= b, a--, ++a, a |= b.x, a)",
                [a, b],
                type_,
                width=4,
            )
        )
    return found
