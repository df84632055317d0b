"""CUDA C++ as a dialect: the tables that the translator reads, and functions that look things up in them.

Which words mean something else, which built-in functions become templates, which constants and build options
stand for what. Never looks at a program.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from functools import lru_cache

from ...frontend import clang

#: Our headers, in the order in which they depend on each other.
HEADERS = (
    "machine.h", "vectors.h", "unaligned.h", "conversions.h", "mathematics.h", "integers.h", "execution.h", "atomics.h", "gnu.h",
    "textures.h",
)  # fmt: skip
#: Words of OpenCL C that CUDA C++ spells differently. The compiler finds out address spaces; constant memory is only
#: read.
WORDS: Mapping[str, str] = {
    **dict.fromkeys(("__global", "global", "__local", "local", "__private", "private", "__generic"), ""),
    **dict.fromkeys(("__constant", "constant"), "const"),
    **dict.fromkeys(("__kernel", "kernel"), "__forceinline__"),
    **dict.fromkeys(("restrict", "__restrict"), "__restrict__"),
    "_Bool": "bool",
    **dict.fromkeys(("__inline", "__inline__"), "inline"),
    **dict.fromkeys(("__const", "__const__"), "const"),
    **dict.fromkeys(("__volatile", "__volatile__"), "volatile"),
    **dict.fromkeys(("__signed", "__signed__"), "signed"),
    **dict.fromkeys(("__extension__", "_Noreturn"), ""),
    **dict.fromkeys(("__asm", "__asm__"), "asm"),
    "__auto_type": "auto",
    "_Static_assert": "static_assert",
    "_Alignas": "alignas",
}

#: Functions that are built into GNU C, and our functions for them. Those that NVRTC knows keep their names.
_GNU_MATHEMATICS = (
    "acos", "asin", "atan", "atan2", "cbrt", "ceil", "copysign", "cos", "cosh", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmax",
    "fmin", "fmod", "hypot", "log", "log10", "log1p", "log2", "pow", "rint", "round", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
    "isinf", "isfinite", "isnormal", "signbit",
)  # fmt: skip
GNU_FUNCTIONS: Mapping[str, str] = {
    **{f"__builtin_{name}{suffix}": f"::vdev_cl::{name}" for name in _GNU_MATHEMATICS for suffix in ("", "f")},
    **{
        f"__builtin_{name}{suffix}": f"::vdev_cl::gnu_{name}{suffix[:1]}"
        for name in ("popcount", "clz", "ctz", "ffs", "parity") for suffix in ("", "l", "ll")
    },
    **{
        f"__builtin_{name}": f"::vdev_cl::gnu_{name}" for name in (
            "abs", "labs", "bswap16", "bswap32", "bswap64", "inf", "inff", "nan", "nanf", "trap", "memcpy", "memset",
        )
    },
    **dict.fromkeys(("__builtin_huge_val", "__builtin_huge_valf"), "::vdev_cl::gnu_inff"),
    "__builtin_llabs": "::vdev_cl::gnu_labs",
}  # fmt: skip

#: Types, and operations that take types or constants, that have no counterpart here yet.
REFUSED = frozenset(
    [f"image{kind}_t" for kind in (
        "1d", "1d_array", "1d_buffer", "2d", "2d_array", "2d_depth", "2d_array_depth", "2d_msaa",
        "2d_array_msaa", "2d_msaa_depth", "2d_array_msaa_depth", "3d",
    )]
    + ["__builtin_shufflevector", "__builtin_convertvector"]
    + ["sampler_t", "queue_t", "clk_event_t", "reserve_id_t", "ndrange_t"]
)  # fmt: skip

#: Identifiers of OpenCL C programs that are keywords in C++ or names with a meaning everywhere in CUDA.
_RESERVED_TEXT = """
    alignas alignof and and_eq auto bitand bitor catch char16_t char32_t char8_t class co_await co_return co_yield
    compl concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export friend
    mutable namespace new noexcept not not_eq nullptr operator or or_eq protected public reinterpret_cast
    requires static_assert static_cast template this thread_local throw try typeid typename using virtual wchar_t
    xor xor_eq asm
    threadIdx blockIdx blockDim gridDim warpSize nv_weak
    __device__ __host__ __global__ __shared__ __constant__ __managed__ __forceinline__ __noinline__ __launch_bounds__
    __grid_constant__ __align__ __cluster_dims__ __maxnreg__ __nv_pure__ __builtin_align__
    std cuda vdev_cl linux unix assert va_start va_end va_arg va_copy
"""
RESERVED = frozenset(_RESERVED_TEXT.split())

#: Attributes (without underscores) that keep their meaning; all others are hints, or handled by the translator.
ATTRIBUTES = frozenset({"packed", "aligned", "noinline"})

_SCALARS = "char|uchar|short|ushort|int|uint|long|ulong|half|float|double"
#: Scalar types with the same name in C++.
_BOTH = frozenset({"bool", "char", "short", "int", "long", "float", "double"})
_ROUNDED = r"(?:_(?P<round>rt[ezpn]))?"
#: Families of built-in functions that are templates here.
_TEMPLATES = [
    (re.compile(rf"convert_(?P<type>(?:{_SCALARS})\d*|bool)(?P<sat>_sat)?{_ROUNDED}"), "convert<{type}, {sat}, {round}>"),
    (re.compile(rf"as_(?P<type>(?:{_SCALARS})\d*)"), "as<{type}>"),
    (re.compile(r"vload(?P<n>\d+)"), "vload<{n}>"),
    (re.compile(r"vstore(?P<n>\d+)"), "vstore<{n}>"),
    (re.compile(r"vloada?_half(?P<n>\d*)"), "vload_half<{n}, {aligned}>"),
    (re.compile(rf"vstorea?_half(?P<n>\d*){_ROUNDED}"), "vstore_half<{n}, {aligned}, {round}>"),
]  # fmt: skip
#: What the sub-grid's text calls natively, and needs no definition of ours.
_FREE = frozenset({"printf"} | {
    f"__builtin_{name}" for name in ("assume", "assume_aligned", "constant_p", "expect", "isnan", "unreachable")
})  # fmt: skip


def type_name(name: str) -> str:
    """A scalar or vector type of OpenCL C, usable anywhere. It begins with a blank: < and : would be a digraph."""
    return name if name in _BOTH else f" ::vdev_cl::{name}"


def template_of(name: str) -> str | None:
    """The template that a built-in function is, or None.

    >>> template_of("convert_uchar4_sat_rte"), template_of("vloada_half3")
    ('convert< ::vdev_cl::uchar4, true, ::vdev_cl::rte>', 'vload_half<3, true>')
    """
    for pattern, text in _TEMPLATES:
        if match := pattern.fullmatch(name):
            found = match.groupdict()
            count = found.get("n") or "1"
            return text.format(
                type=type_name(found.get("type") or ""),
                sat="true" if found.get("sat") else "false",
                round="::vdev_cl::" + (found.get("round") or "rounds_default"),
                n=count,
                aligned="true" if name.startswith(("vloada", "vstorea")) else "false",
            )
    return None


@lru_cache(maxsize=1)
def half_literal(written: str) -> str:
    """A number of binary16 as its bits, which the compiler need not convert: rounded as a float and then once more, as a conversion is.

    >>> half_literal("1.5"), half_literal("0x1p-3"), half_literal("1e9")
    ('::vdev_cl::half_of(0x3e00)', '::vdev_cl::half_of(0x3000)', '::vdev_cl::half_of(0x7c00)')
    """
    number = float.fromhex(written) if "x" in written.lower() else float(written)
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", number))
        (bits,) = struct.unpack("<H", struct.pack("<e", single))
    except OverflowError:
        bits = 0x7C00
    return f"::vdev_cl::half_of({bits:#06x})"


def headers() -> str:
    """Text of our headers, one after the other; a compiler's messages name them."""
    folder = os.path.join(clang.INCLUDE_DIR, "cuda")
    parts = []
    for name in HEADERS:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            parts.append(f'#line 1 "vdev/{name}"\n{file.read()}')
    return "".join(parts)


@lru_cache(maxsize=1)
def known_functions() -> frozenset[str]:
    """Identifiers of our headers: a built-in function that is not among them is not translated."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", headers())) | _FREE | _GROUP_FUNCTIONS | _ATOM_FUNCTIONS


#: Names that our headers' macros put together.
_GROUP_FUNCTIONS = frozenset(
    f"{group}_{what}_{op}"
    for group in ("work_group", "sub_group")
    for what in ("reduce", "scan_inclusive", "scan_exclusive")
    for op in ("add", "min", "max")
)
_ATOM_FUNCTIONS = frozenset(
    [f"atom_{op}" for op in ("add", "sub", "xchg", "min", "max", "and", "or", "xor")]
    + [f"atomic_{op}_explicit" for op in ("exchange", "compare_exchange_strong", "compare_exchange_weak")]
    + [f"atomic_fetch_{op}_explicit" for op in ("add", "sub", "min", "max", "and", "or", "xor")]
)

_CONSTANT = re.compile(r"^#define (\w+) (.+)$", re.MULTILINE)
_OWN_CONSTANTS = {
    "NULL": "((void *)0)",
    "HUGE_VALF": "(__builtin_bit_cast(float, 0x7f800000))",
    "INFINITY": "(__builtin_bit_cast(float, 0x7f800000))",
    "NAN": "(__builtin_bit_cast(float, 0x7fc00000))",
    "HUGE_VAL": "(__builtin_bit_cast(double, 0x7ff0000000000000))",
}


@lru_cache(maxsize=1)
def constants() -> Mapping[str, str]:
    """The object-like macros that OpenCL C predefines (they stay in a program's text by name), in C++."""
    with open(clang.BASE_HEADER, encoding="utf-8") as file:
        text = file.read()
    found: dict[str, str] = {}
    for name, value in _CONSTANT.findall(text):
        if name.startswith(("VDEV_", "__opencl", "as_")) or "__builtin_astype" in value:
            continue
        # only OpenCL C has binary16 literals
        value = re.sub(r"\(\(half\)([\w.+-]+)h\)", lambda found: f"({half_literal(found[1])})", value)
        found[name] = _OWN_CONSTANTS.get(name, value)
    return found


#: Build options (OpenCL specification 5.8.6) as NVRTC's. Those that only permit the compiler more, or ask for what is
#: so anyway, are left out.
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "-cl-single-precision-constant": (),  # the text was rewritten
    "-cl-denorms-are-zero": ("--ftz=true",),
    "-cl-fp32-correctly-rounded-divide-sqrt": ("--prec-div=true", "--prec-sqrt=true"),
    "-cl-opt-disable": (),
    "-cl-strict-aliasing": (),
    "-cl-uniform-work-group-size": (),
    "-cl-no-subgroup-ifp": (),
    "-cl-mad-enable": (),
    "-cl-no-signed-zeros": (),
    "-cl-unsafe-math-optimizations": ("--ftz=true",),  # includes -cl-denorms-are-zero
    "-cl-finite-math-only": (),
    "-cl-fast-relaxed-math": ("--use_fast_math",),
    "-cl-kernel-arg-info": (),
    "-cl-nv-verbose": (),
    "-cl-nv-allow-cuda-extensions": (),
    "-w": (),
    "-Werror": (),  # clang's warnings have been reported already
    "-g": (),
}
#: Optimisations that clang and its relatives can be told to leave out, and the layout of messages.
_LEFT_OUT = (
    "fast-math|finite-math-only|unsafe-math-optimizations|associative-math|reciprocal-math|math-errno|trapping-math|signed-zeros"
    "|strict-aliasing|unroll-loops|vectorize|slp-vectorize|inline|inline-functions|omit-frame-pointer|common|exceptions"
)
#: Options that change no result: messages, debuggers, versions of the language that devices here have, how hard the compiler tries.
WITHOUT_MEANING = re.compile(
    r"-W.*|-cl-std=CL(?:1\.[0-2]|2\.0|3\.0)|-cl-ext=\S+|-cl-nv-\S+|-nv-\S+|-O[0-3s]?|-g\S*|-x=\S+|-s=.+|-profiling"
    r"|-spir-std=\S+|-triple=\S+"
    rf"|-fno-(?:{_LEFT_OUT})|-f(?:no-)?(?:color-diagnostics|caret-diagnostics|diagnostics-\S+)"
)
#: In force for every program. FP_CONTRACT is on by default (6.12.1); a quotient may be off by 2.5 ulp and a square
#: root by 3 (7.4), which is also what NVIDIA's own OpenCL does.
BASE_OPTIONS = (
    "--std=c++20",
    "--device-as-default-execution-space",
    "--fmad=true",
    "--prec-div=false",
    "--prec-sqrt=false",
)
