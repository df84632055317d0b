"""Conversions with all roundings and saturation, reinterpretations, vectors and halves in memory."""

from __future__ import annotations

import numpy as np

from .case import (
    COUNT,
    INTEGERS,
    REALS,
    TYPES,
    Array,
    Case,
    function_case,
    generator,
    integers,
    reals,
    vector,
)

ROUNDINGS = ("", "_rte", "_rtz", "_rtp", "_rtn")


def cases() -> list[Case]:
    return [*_conversions(), *_reinterpretations(), *_vectors_in_memory(), *_halves_in_memory(), *_casts()]


def _source_numbers(source: str, target: str, saturate: bool, count: int) -> Array:
    """Numbers of the source type; those that fit the target where the result would be open otherwise (6.2.3.3)."""
    name = f"convert{source}{target}"
    if source in INTEGERS:
        return integers(name, source, count)
    if target in REALS:
        found = reals(name, source, count, -1e4, 1e4, edges=True)
        if source == "double":
            found *= np.where(generator(name).random(count) < 0.5, 1, 1e-30)
            found[np.abs(found) > 1e300] = 1e35  # overflows are rounded as asked, and flushed by some
            found[(found != 0) & (np.abs(found) < 1e-37)] = 1.5
        return found
    info = np.iinfo(TYPES[target])
    if saturate:
        return reals(name, source, count, 2.0 * info.min - 9, 2.0 * info.max + 9, edges=True)
    margin = 0.49 if info.bits < 32 else 0.4 * info.max
    found = reals(name, source, count, info.min * 0.5 + 0.1, info.max - 1 - margin)
    if info.bits >= 32:
        found[::2] = reals(name + "small", source, len(found[::2]), -99 if info.min else 0.1, 99)
    return found


def _conversions() -> list[Case]:
    found = []
    every = (*INTEGERS, *REALS)
    for number, source in enumerate(every):
        for offset, target in enumerate(every):
            for saturate in (False, True) if target in INTEGERS else (False,):
                n = 4 if (number + offset) % 2 else 1
                a = (source, _source_numbers(source, target, saturate, COUNT * n))
                sat = "_sat" if saturate else ""
                kind = vector(target, n)
                plain = function_case(f"convert_{vector(source, n)}_{kind}{sat}", "r", [a], target, width=n)
                out = np.zeros(len(ROUNDINGS) * COUNT * n, TYPES[target])
                stores = " ".join(
                    f"r_[i * {len(ROUNDINGS)} + {k}] = convert_{kind}{sat}{rounding}(a);" if n == 1
                    else f"vstore{n}(convert_{kind}{sat}{rounding}(a), i * {len(ROUNDINGS)} + {k}, r_);"
                    for k, rounding in enumerate(ROUNDINGS)
                )  # fmt: skip
                mark = plain.source.splitlines()[2]
                text = plain.source.replace(mark, f"  {stores}")
                found.append(Case(plain.name, text, plain.kernel, (a[1], out), (COUNT,), None, (1,)))
                if saturate and source in REALS:
                    exact = _saturated(a[1].reshape(-1, n), target)
                    found[-1] = found[-1].stating(exact, native_errs=_NO_NUMBER)
    return found


#: By the comparisons on an H200 (all but float to 32 bits and less) and on Intel's CPU engine (float to uint).
_NO_NUMBER = "6.2.3.3: with _sat not-a-number should become 0; NVIDIA's and Intel's make extremes of it"


def _saturated(values: Array, target: str) -> Array:
    """The vectors that are the rows of `values` in each of ROUNDINGS, as integers of the target type."""
    info = np.iinfo(TYPES[target])

    def whole(x: float) -> int:
        if np.isnan(x):
            return 0
        return info.max if x >= info.max else info.min if x <= info.min else int(x)

    # A float is a double, and rounding a double to an integer is exact.
    roundings = (np.trunc, np.rint, np.trunc, np.ceil, np.floor)
    rounded = np.stack([function(values.astype(np.float64)) for function in roundings], 1)
    return np.array([whole(x) for x in rounded.reshape(-1).tolist()], TYPES[target])


def _reinterpretations() -> list[Case]:
    found = []
    names = {
        1: ("char", "uchar"),
        2: ("short", "ushort"),
        4: ("int", "uint", "float"),
        8: ("long", "ulong", "double"),
    }
    for group in names.values():
        for source in group:
            for target in group:
                if source == target:
                    continue
                a = (
                    source,
                    reals(f"as{source}", source, COUNT * 4)
                    if source in REALS
                    else integers(f"as{source}", source, COUNT * 4),
                )
                found.append(
                    function_case(f"as_{source}4_{target}4", f"as_{target}4(a)", [a], target, width=4)
                )
    a = ("uint", integers("as", "uint", COUNT * 2))
    found.append(
        function_case("as_uint2_ulong", "(uint2)((uint)as_ulong(a), as_uchar8(a).s6)", [a], "uint", width=2)
    )
    a = ("int", integers("asint", "int", COUNT * 4))
    found.append(
        function_case("as_int4_float3", "as_int4((float4)(as_float3(a), 1.0f))", [a], "int", width=4)
    )
    found.append(function_case("as_int4_short8", "as_int4(as_short8(a).s76543210)", [a], "int", width=4))
    return found


def _vectors_in_memory() -> list[Case]:
    found = []
    for type_ in (*INTEGERS, *REALS):
        for n in (2, 3, 4, 8, 16):
            kind = vector(type_, n)
            source = (
                f"kernel void memory_{kind}(global const {type_} *a, global {type_} *r) {{\n"
                f"  local {type_} t[{16 * n + 1}]; {type_} own[{n} + 1]; size_t l = get_local_id(0), i = get_global_id(0);\n"
                f"  vstore{n}(vload{n}(i, a), l, t + 1); barrier(CLK_LOCAL_MEM_FENCE);\n"
                f"  vstore{n}(vload{n}(15 - l, t + 1), 0, own + 1); vstore{n}(vload{n}(0, own + 1), i, r);\n}}\n"
            )
            values = (
                integers(f"memory{kind}", type_, COUNT * n)
                if type_ in INTEGERS
                else reals(f"memory{kind}", type_, COUNT * n)
            )
            out = np.zeros_like(values)
            found.append(
                Case(f"memory_{kind}", source, f"memory_{kind}", (values, out), (COUNT,), (16,), (1,))
            )
    return found


def _halves_in_memory() -> list[Case]:
    found = []
    values = np.arange(0x10000, dtype=np.uint16)[:: 0x10000 // (COUNT * 16)].view(np.float16)
    values = np.where(np.isnan(values), np.float16(2), values)
    for n in (1, 2, 3, 4, 8, 16):
        suffix = "" if n == 1 else str(n)
        for aligned in ("", "a"):
            if aligned and n == 1:
                continue
            stride = 4 if aligned and n == 3 else n
            name = f"vload{aligned}_half{suffix}"
            body = f"{name}(i, a)"
            text = f"r[i] = {body};" if n == 1 else f"vstore{n}({body}, i, r);"
            source = f"kernel void {name}_(global const half *a, global float *r) {{ size_t i = get_global_id(0); {text} }}\n"
            out = np.zeros(COUNT * n, np.float32)
            found.append(
                Case(
                    f"{name}_",
                    source,
                    f"{name}_",
                    (np.ascontiguousarray(values[: COUNT * stride]), out),
                    (COUNT,),
                    None,
                    (1,),
                )
            )
            for type_ in REALS:
                for rounding in ROUNDINGS:
                    name = f"vstore{aligned}_half{suffix}{rounding}"
                    x = "a[i]" if n == 1 else f"vload{n}(i, a)"
                    # Through integers: not every device has halves as a type. The fourth of three is left open.
                    rest = " r[4 * i + 3] = 0;" if stride > n else ""
                    source = (
                        f"kernel void {name}_{type_}(global const {type_} *a, global ushort *r) "
                        f"{{ size_t i = get_global_id(0); {name}({x}, i, (global half *)r);{rest} }}\n"
                    )
                    numbers = reals(f"{name}{type_}", type_, COUNT * n, -9, 9)
                    numbers[::7] *= TYPES[type_](1e-6)
                    numbers[::11] *= TYPES[type_](1e4)
                    out = np.zeros(COUNT * stride, np.uint16)
                    found.append(
                        Case(
                            f"{name}_{type_}", source, f"{name}_{type_}", (numbers, out), (COUNT,), None, (1,)
                        )
                    )
    return found


def _casts() -> list[Case]:
    found = []
    for source in (*INTEGERS, *REALS):
        a = (
            source,
            integers(f"cast{source}", source, COUNT)
            if source in INTEGERS
            else reals(f"cast{source}", source, COUNT, 0, 99),
        )
        for target in ("uchar", "int", "long", "float", "double"):
            if source in REALS and target == "uchar":
                continue
            found.append(
                function_case(f"cast_{source}_{target}4", f"({target}4)(({target})a)", [a], target, width=4)
            )
            found[-1] = _scalar_source(found[-1])
    return found


def _scalar_source(case: Case) -> Case:
    """A scalar is read, whatever the result's width."""
    text = case.source
    start = text.index("size_t i = get_global_id(0); ") + len("size_t i = get_global_id(0); ")
    stop = text.index("\n", start)
    declared = text[start:stop].split()[0].rstrip("0123456789")
    return Case(
        case.name,
        f"{text[:start]}{declared} a = a_[i];{text[stop:]}",
        case.kernel,
        case.args,
        case.global_size,
        None,
        case.outputs,
    )
