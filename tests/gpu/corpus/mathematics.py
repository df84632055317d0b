"""Mathematical, common and geometric functions: name, range of the argument, the specification's error in ulp (7.4)."""

# ruff: noqa: E501 - kernels are texts, and tables stay tables

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .case import COUNT, REALS, WIDTHS, Array, Case, function_case, integers, reals, store, vector

#: name -> (low, high, ulp), with zeros, infinities and not-a-number among the arguments
ONE = {
    "acos": (-1, 1, 4), "acosh": (1, 50, 4), "acospi": (-1, 1, 5), "asin": (-1, 1, 4), "asinh": (-50, 50, 4),
    "asinpi": (-1, 1, 5), "atan": (-9, 9, 5), "atanh": (-1, 1, 5), "atanpi": (-9, 9, 5), "cbrt": (-99, 99, 2),
    "ceil": (-9, 9, 0), "cos": (-40, 40, 4), "cosh": (-30, 30, 4), "cospi": (-9, 9, 4), "erf": (-3, 3, 16),
    "erfc": (-3, 3, 16), "exp": (-50, 50, 3), "exp2": (-60, 60, 3), "exp10": (-30, 30, 3), "expm1": (-5, 5, 3),
    "fabs": (-9, 9, 0), "floor": (-9, 9, 0), "log": (0, 99, 3), "log2": (0, 99, 3), "log10": (0, 99, 3),
    "log1p": (-1, 9, 2), "logb": (-99, 99, 0), "rint": (-9, 9, 0), "round": (-9, 9, 0), "rsqrt": (0, 99, 2),
    "sin": (-40, 40, 4), "sinh": (-30, 30, 4), "sinpi": (-9, 9, 4), "sqrt": (0, 99, 3), "tan": (-9, 9, 5), "tanh": (-5, 5, 5),
    "tanpi": (-9, 9, 6), "tgamma": (0.1, 20, 16), "trunc": (-9, 9, 0), "sign": (-2, 2, 0), "degrees": (-7, 7, 2),
    "radians": (-400, 400, 2),
}  # fmt: skip
TWO = {
    "atan2": (-9, 9, 6), "atan2pi": (-9, 9, 6), "copysign": (-9, 9, 0), "fdim": (-9, 9, 1), "fmax": (-9, 9, 0), "fmin": (-9, 9, 0),
    "fmod": (-99, 99, 0), "hypot": (-99, 99, 4), "maxmag": (-9, 9, 0), "minmag": (-9, 9, 0), "nextafter": (-9, 9, 0),
    "pow": (0, 9, 16), "powr": (0, 9, 16), "remainder": (-99, 99, 0), "step": (-3, 3, 0),
}  # fmt: skip
#: of numbers only: what becomes of not-a-number is open
PLAIN_TWO = {"max": (-9, 9, 0), "min": (-9, 9, 0)}
THREE = {"fma": (-9, 9, 0), "clamp": (-9, 9, 0), "mix": (0, 1, 64), "smoothstep": (-2, 2, 512)}
#: single precision only, errors are the implementation's; bounds where every GPU is far better
NATIVE = {
    "native_cos": (0.1, 1.4, 8192), "native_exp": (-5, 5, 8192), "native_exp2": (-9, 9, 8192), "native_exp10": (-3, 3, 8192),
    "native_log": (2, 99, 8192), "native_log2": (2, 99, 8192), "native_log10": (2, 99, 8192), "native_recip": (1, 99, 8192),
    "native_rsqrt": (1, 99, 8192), "native_sin": (0.1, 3, 8192), "native_sqrt": (1, 99, 8192), "native_tan": (0.1, 1.2, 8192),
    "half_cos": (0.1, 1.4, 8192), "half_exp": (-5, 5, 8192), "half_exp2": (-9, 9, 8192), "half_exp10": (-3, 3, 8192),
    "half_log": (0.1, 99, 8192), "half_log2": (0.1, 99, 8192), "half_log10": (0.1, 99, 8192), "half_recip": (1, 99, 8192),
    "half_rsqrt": (1, 99, 8192), "half_sin": (0.1, 3, 8192), "half_sqrt": (1, 99, 8192), "half_tan": (0.1, 1.2, 8192),
}  # fmt: skip
#: functions with a second result through a pointer: type of that result, arguments, ulp
SECOND = {
    "fract": (None, 1, 0), "modf": (None, 1, 0), "sincos": (None, 1, 4), "frexp": ("int", 1, 0), "lgamma_r": ("int", 1, 32),
    "remquo": ("int", 2, 0),
}  # fmt: skip


def cases() -> list[Case]:
    return [
        *_tables(),
        *_natives(),
        *_integer_exponents(),
        *_seconds(),
        *_geometry(),
        *_scalars_for_all(),
        *_halves(),
    ]


def _inputs(
    name: str, type_: str, count: int, table: tuple[float, float, float], n: int, *, edges: bool
) -> list[tuple[str, Array]]:
    low, high, _ = table
    return [
        (type_, reals(f"{name}{type_}{argument}", type_, count, low, high, edges=edges and argument == 0))
        for argument in range(n)
    ]


def _tables() -> list[Case]:
    found = []
    for table, n, edges in ((ONE, 1, True), (TWO, 2, True), (PLAIN_TWO, 2, False), (THREE, 3, False)):
        letters = ", ".join("abc"[:n])
        for number, (name, entry) in enumerate(table.items()):
            for type_ in REALS:
                # Compilers take long over sixteen of a function in double precision.
                for width in (1, WIDTHS[1 + number % (5 if type_ == "float" else 2)]):
                    inputs = _inputs(name, type_, COUNT * width, entry, n, edges=edges and name != "step")
                    if name == "smoothstep":  # of not-a-number it is undefined (6.12.4)
                        inputs[0][1][np.isnan(inputs[0][1])] = 0.25
                    call = f"{name}({letters})"
                    if name == "clamp":
                        call = "clamp(a, fmin(b, c), fmax(b, c))"
                    elif name == "smoothstep":
                        call = "smoothstep(b - 3, b + c + 6, a)"
                    found.append(
                        function_case(
                            f"{name}_{vector(type_, width)}",
                            call,
                            inputs,
                            type_,
                            width=width,
                            ulp=2 * entry[2],
                        )
                    )
                    if name == "smoothstep" and type_ == "double":
                        a, b, c = (array for _, array in inputs)
                        exact = _smoothstep(b - 3, b + c + 6, a)
                        found[-1] = found[-1].stating(exact, native_errs=_SINGLE)
    return found


#: By the comparisons on an H200 and on Intel's CPU engine.
_SINGLE = (
    "6.12.4: smoothstep() of doubles, whose error 7.4 leaves open; NVIDIA's is a number of single precision"
)
_SIGN = "6.12.2: lgamma_r() stores the sign of the gamma function; NVIDIA's stores 0 for positive numbers"
_POLES = "7.5.1: lgamma_r() stores 0 at the poles, the sign elsewhere; Intel's stores 1 there, NVIDIA's 0 elsewhere"


def _smoothstep(low: Array, high: Array, x: Array) -> Array:
    """In double precision, rounded once."""
    found = []
    for edge0, edge1, at in zip(low.tolist(), high.tolist(), x.tolist(), strict=True):
        if np.isinf(at):
            t = Fraction(at > 0)
        else:
            t = (Fraction(at) - Fraction(edge0)) / (Fraction(edge1) - Fraction(edge0))
        t = min(max(t, Fraction(0)), Fraction(1))
        found.append(float(t * t * (3 - 2 * t)))
    return np.array(found)


def _sign_of_gamma(x: Array) -> Array:
    """1 and -1 in turns between the poles at 0 and the negative integers, which have no sign (7.5.1)."""
    whole = np.floor(x)
    turn = np.where(whole % 2 == 0, 1, -1)
    return np.where(x > 0, 1, np.where(whole == x, 0, turn)).astype(np.int32)


def _natives() -> list[Case]:
    found = []
    for number, (name, entry) in enumerate(NATIVE.items()):
        for width in (1, WIDTHS[1 + number % 5]):
            inputs = _inputs(name, "float", COUNT * width, entry, 1, edges=False)
            found.append(
                function_case(
                    f"{name}_float{width}", f"{name}(a)", inputs, "float", width=width, ulp=2 * entry[2]
                )
            )
    for name in ("native_divide", "native_powr", "half_divide", "half_powr"):
        inputs = _inputs(name, "float", COUNT, (1, 9, 0), 2, edges=False)
        found.append(function_case(f"{name}_float", f"{name}(a, b)", inputs, "float", ulp=16384))
    return found


def _integer_exponents() -> list[Case]:
    found = []
    for type_ in REALS:
        for width in (1, 4):
            count = COUNT * width
            n = ("int", integers(f"exponent{width}", "int", count, -6, 6))
            x = (type_, reals(f"base{type_}{width}", type_, count, -9, 9, edges=True))
            kind = vector(type_, width)
            found += [
                function_case(f"pown_{kind}", "pown(a, b)", [x, n], type_, width=width, ulp=32),
                function_case(f"rootn_{kind}", "rootn(a, b)", [x, n], type_, width=width, ulp=32),
                function_case(f"ldexp_{kind}", "ldexp(a, b)", [x, n], type_, width=width),
                function_case(f"ldexp_same_{kind}", "ldexp(a, -3)", [x], type_, width=width),
                function_case(
                    f"ilogb_{kind}",
                    "ilogb(a)",
                    [(type_, reals("ilogb", type_, count, 0.01, 99))],
                    "int",
                    width=width,
                ),
            ]
        bits = "uint" if type_ == "float" else "ulong"
        payload = (bits, integers(f"nan{type_}", bits, COUNT, 0, 1000))
        found.append(function_case(f"nan_{type_}", "isnan(nan(a))", [payload], "int"))
    return found


def _seconds() -> list[Case]:
    found = []
    for name, (second, n, ulp) in SECOND.items():
        for type_ in REALS:
            for width in (1, 4):
                kind, other = vector(type_, width), vector(second or type_, width)
                low, high = (3, 30) if name == "lgamma_r" else (-30, 30)
                inputs = _inputs(name, type_, COUNT * width, (low, high, 0), n, edges=False)
                call = f"{name}({', '.join('ab'[:n])}, &s)"
                declared = f"{other} s = ({other})(0); {kind} f = {call};"
                # Of a quotient the low seven bits count.
                last = "s % 128" if name == "remquo" else "s"
                for which, result, value in (("first", type_, "f"), ("second", second or type_, last)):
                    body = f"{declared} {vector(result, width)} r = {value};"
                    found.append(_statements(f"{name}_{which}_{kind}", body, inputs, result, width, 2 * ulp))
                if name == "lgamma_r":
                    signs = _sign_of_gamma(inputs[0][1])
                    found[-1] = found[-1].stating(signs, native_errs=_SIGN)
                    found.append(_signs(type_, width))
    return found


def _signs(type_: str, width: int) -> Case:
    """Of lgamma_r() for numbers up to 0, the poles among them."""
    kind, other = vector(type_, width), vector("int", width)
    values = reals(f"signs{type_}{width}", type_, COUNT * width, -9, 2)
    values[::5] = np.rint(values[::5])
    values[:2] = 0.0, -0.0
    body = f"{other} s = ({other})(5); {kind} f = lgamma_r(a, &s); {other} r = s;"
    case = _statements(f"lgamma_r_sign_{kind}", body, [(type_, values)], "int", width, 0)
    return case.stating(_sign_of_gamma(values), native_errs=_POLES)


def _statements(
    name: str, body: str, inputs: list[tuple[str, Array]], result: str, width: int, ulp: float
) -> Case:
    """As function_case, with statements that leave their result in r."""
    plain = function_case(name, "r", inputs, result, width=width, ulp=ulp)
    mark = store(width, "r", "r_")
    source = plain.source.replace(mark, f"{body} {mark}")
    return Case(plain.name, source, plain.kernel, plain.args, plain.global_size, None, plain.outputs, ulp)


def _geometry() -> list[Case]:
    found = []
    for type_ in REALS:
        for width in (1, 2, 3, 4):
            kind = vector(type_, width)
            a, b = ((type_, reals(f"geometry{x}{kind}", type_, COUNT * width, -9, 9)) for x in "ab")
            for name, call in (
                ("dot", "dot(a, a + 10)"), ("length", "length(a)"), ("distance", "distance(a, b)"),
                ("fast_length", "fast_length(a)"), ("fast_distance", "fast_distance(a, b)"),
            ):  # fmt: skip
                if name.startswith("fast") and type_ == "double":
                    continue
                scalar_result = f"({vector(type_, width)})({call})" if width > 1 else call
                ulp = 16384 if name.startswith("fast") else 4096 if name == "dot" else 16
                found.append(
                    function_case(
                        f"{name}_{kind}",
                        scalar_result,
                        [(type_, a[1]), (type_, b[1])],
                        type_,
                        width=width,
                        ulp=ulp,
                    )
                )
            found.append(function_case(f"normalize_{kind}", "normalize(a)", [a], type_, width=width, ulp=16))
            if type_ == "float":
                found.append(
                    function_case(
                        f"fast_normalize_{kind}", "fast_normalize(a)", [a], type_, width=width, ulp=16384
                    )
                )
            if width > 2:
                # differences of products of like size: exact in integers
                whole = [
                    (type_, integers(f"cross{x}", "int", COUNT * width, -99, 99).astype(a[1].dtype))
                    for x in "ab"
                ]
                found.append(function_case(f"cross_{kind}", "cross(a, b)", whole, type_, width=width))
        large = reals(f"large{type_}", type_, COUNT * 4) * (1e30 if type_ == "float" else 1e300)
        small = reals(f"small{type_}", type_, COUNT * 4) * (1e-30 if type_ == "float" else 1e-300)
        for name, values in (("large", large), ("small", small)):
            found.append(
                function_case(
                    f"length_{name}_{type_}",
                    f"({type_}4)(length(a))",
                    [(type_, values)],
                    type_,
                    width=4,
                    ulp=16,
                )
            )
            found.append(
                function_case(
                    f"normalize_{name}_{type_}", "normalize(a)", [(type_, values)], type_, width=4, ulp=16
                )
            )
    return found


def _scalars_for_all() -> list[Case]:
    """A scalar argument that counts for all components."""
    found = []
    for type_ in REALS:
        a, b = ((type_, reals(f"all{x}{type_}", type_, COUNT * 4, -3, 3)) for x in "ab")
        for name, call in (
            ("fmax", "fmax(a, b.x)"), ("fmin", "fmin(a, b.y)"), ("max", "max(a, b.x)"), ("min", "min(a, b.z)"),
            ("clamp", f"clamp(a, ({type_})-1, ({type_})1)"), ("mix", f"mix(a, b, ({type_})0.25)"), ("step", "step(a.x, b)"),
            ("smoothstep", f"smoothstep(({type_})-1, ({type_})2, b)"),
        ):  # fmt: skip
            found.append(
                function_case(
                    f"{name}_scalar_{type_}4", call, [a, b], type_, width=4, ulp=1024 if name == "mix" else 64
                )
            )
            if name == "smoothstep" and type_ == "double":
                exact = _smoothstep(np.full_like(b[1], -1), np.full_like(b[1], 2), b[1])
                found[-1] = found[-1].stating(exact, native_errs=_SINGLE)
    return found


def _halves() -> list[Case]:
    needs = ("cl_khr_fp16",)
    a, b = (("half", reals(f"half{x}", "half", COUNT * 4, 0.1, 9)) for x in "ab")
    calls = {
        "add": ("a + b", 0), "sub": ("a - b", 0), "mul": ("a * b", 0), "div": ("a / b", 1), "sqrt": ("sqrt(a)", 1), "exp": ("exp(a)", 4),
        "sin": ("sin(a)", 4), "fmax": ("fmax(a, b)", 0), "floor": ("floor(a)", 0), "nextafter": ("nextafter(a, b)", 0), "fma": ("fma(a, b, a)", 0),
        "mix": ("mix(a, b, a)", 64), "dot": ("(half4)(dot(a, b))", 8), "normalize": ("normalize(a)", 4), "pow": ("pow(a, b)", 8),
    }  # fmt: skip
    found = [
        function_case(f"half_type_{name}", call, [a, b], "half", width=4, ulp=2 * ulp, needs=needs)
        for name, (call, ulp) in calls.items()
    ]
    call = "({ volatile half4 t = a; t += b; t.xy = t.yx; t; })"
    turned = (a[1] + b[1]).reshape(-1, 4)[:, [1, 0, 2, 3]].reshape(-1)
    found.append(
        function_case("half_type_volatile4", call, [a, b], "half", width=4, needs=needs).stating(turned)
    )
    x, y = (("half", numbers[:COUNT]) for _, numbers in (a, b))
    call = "({ volatile half t = a; t += b; t *= t; ++t; half kept = t--; kept - t; })"
    squared = (x[1] + y[1]) * (x[1] + y[1])
    lost = (squared + np.float16(1)) - ((squared + np.float16(1)) - np.float16(1))
    found.append(function_case("half_type_volatile", call, [x, y], "half", needs=needs).stating(lost))
    return found
