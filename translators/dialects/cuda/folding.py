"""Calls of mathematical functions whose arguments the source knows.

NVIDIA's OpenCL computes `pow(M_PI_F, 2.5f)` when it builds; NVRTC does so for few functions, and has each work-item compute the others
again. Their values are printed instead: as doubles of the host's C library, rounded once, which is within all bounds of the
specification's section 7.4 and as exact as a device can be.

Decides for which calls, and the value; prints nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from clang.cindex import TypeKind

from ...frontend import clang
from ...frontend.operator_kinds import Unary
from . import nodes
from .nodes import Node

#: What NVRTC leaves to run time, by the name in OpenCL C.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": math.acos, "acosh": math.acosh, "asin": math.asin, "asinh": math.asinh, "atan": math.atan,
    "atan2": math.atan2, "atanh": math.atanh, "cos": math.cos, "cosh": math.cosh, "erf": math.erf,
    "erfc": math.erfc, "exp": math.exp, "exp10": lambda x: math.pow(10.0, x), "expm1": math.expm1,
    "hypot": math.hypot, "lgamma": math.lgamma, "log": math.log, "log10": math.log10,
    "log1p": math.log1p, "log2": math.log2, "pow": math.pow, "pown": math.pow, "powr": math.pow,
    "rsqrt": lambda x: 1 / math.sqrt(x), "sin": math.sin, "sinh": math.sinh, "tan": math.tan,
    "tanh": math.tanh, "tgamma": math.gamma,
}  # fmt: skip
#: the letters behind a literal, a number's layout, and the least normal one
_SINGLE, _DOUBLE = ("f", "<f", 2.0**-126), ("", "<d", 2.0**-1022)
_FORMS = {TypeKind.FLOAT: _SINGLE, TypeKind.DOUBLE: _DOUBLE}


def folded(call: nodes.Call, text: bytes) -> str | None:
    """The value of a built-in function's call as a literal in hexadecimal; None where it stays a call. `text`: the program's.

    Only normal numbers are told: what becomes of others depends on the device and on build options, and so does an error.
    """
    function, form = _FUNCTIONS.get(call.name), _FORMS.get(clang.canonical(call.type).kind)
    if function is None or form is None or b"\n" in text[call.start : call.stop]:  # lines stay where they are
        return None
    if not all(map(_is_known, call.arguments)):
        return None
    arguments = [clang.evaluate(argument.cursor) for argument in call.arguments]
    if any(argument is None for argument in arguments):
        return None
    suffix, layout, least = form
    try:
        (value,) = struct.unpack(layout, struct.pack(layout, function(*arguments)))
    except (ArithmeticError, ValueError):  # a pole, an overflow, a number out of the function's domain
        return None
    return f"({value.hex()}{suffix})" if math.isfinite(value) and abs(value) >= least else None


def _is_known(node: Node) -> bool:
    """Whether an expression is made of literals alone, so that computing it has no effects."""
    match node:
        case nodes.Integer() | nodes.Float() | nodes.Character() | nodes.Constant():
            return True
        case nodes.Parentheses(inner=operand) | nodes.Converted(operand=operand):
            return _is_known(operand)
        case nodes.Operation(operator=Unary.PLUS | Unary.MINUS, operand=operand):
            return _is_known(operand)
        case nodes.Calculation(left=left, right=right):
            return _is_known(left) and _is_known(right)
        case nodes.Cast(parts=(operand,)):
            return _is_known(operand)
    return False
