"""The device that programs are compiled for, and the macros that are in force before a program's first line.

Decides what is predefined, and which of these names stay in the text because every engine knows them, too.
"""

from __future__ import annotations

from functools import lru_cache

from vdev.translators.values import dataclass

from . import clang
from .macros import Macro, parse_definition
from .preprocessor import Preprocessor

_VERSIONS = (100, 110, 120, 200, 210, 220, 300, 310)
_KERNEL_EXEC = "__kernel __attribute__((work_group_size_hint(X, 1, 1))) __attribute__((vec_type_hint(typen)))"


@dataclass(frozen=True)
class Target:
    """What the device that programs are compiled for looks like to a program.

    `opencl_version`: 300 for OpenCL 3.0. `c_version`: the OpenCL C version without -cl-std. `macros`: further
    predefined ones. `is_cpu`: whether its memory may be the host's. `features`: the `__opencl_c_…` macros of
    OpenCL C 3.0. `answers`: the answers of the device's own compiler to `Preprocessed.asked` (None: not defined, or
    no).
    """

    extensions: tuple[str, ...] = (
        "cl_khr_fp64",
        "cl_khr_byte_addressable_store",
        "cl_khr_global_int32_base_atomics",
    )
    opencl_version: int = 300
    c_version: int = 120
    address_bits: int = 64
    macros: tuple[tuple[str, str], ...] = ()
    answers: tuple[tuple[str, str | None], ...] = ()
    include_dirs: tuple[str, ...] = ()
    features: tuple[str, ...] = ("__opencl_c_int64", "__opencl_c_fp64")
    image_support: bool = True
    is_cpu: bool = True


@lru_cache(maxsize=1)
def base_macros() -> dict[str, Macro]:
    """The constants of the base header: every engine has them, so they stay in the text."""
    with open(clang.BASE_HEADER, encoding="utf-8") as file:
        preprocessor = Preprocessor({}, ())
        preprocessor.run(file.read())
    names = (
        macro for macro in preprocessor.macros.values() if not macro.name.startswith(("VDEV_", "__opencl_"))
    )
    return {m.name: Macro(m.name, m.body, m.parameters, m.variadic, True) for m in names}


@lru_cache(maxsize=16)
def predefined_macros(target: Target, c_version: int, fast_relaxed_math: bool) -> dict[str, Macro]:
    """Macros before the first line (OpenCL C specification 6.10): expanded, except for the base header's
    constants.
    """
    values = {
        "__OPENCL_VERSION__": str(target.opencl_version),
        "__OPENCL_C_VERSION__": str(c_version),
        "__ENDIAN_LITTLE__": "1",
        "__kernel_exec(X, typen)": _KERNEL_EXEC,
        "kernel_exec(X, typen)": _KERNEL_EXEC,
        "ATOMIC_VAR_INIT(x)": "(x)",
        "ATOMIC_FLAG_INIT": "0",
        "__STDC__": "1",
        "__STDC_VERSION__": "199901L",
    }
    versions = (version for version in _VERSIONS if version <= target.opencl_version)
    values.update((f"CL_VERSION_{v // 100}_{v // 10 % 10}", str(v)) for v in versions)
    if target.image_support:
        values["__IMAGE_SUPPORT__"] = "1"
    if fast_relaxed_math:
        values["__FAST_RELAXED_MATH__"] = "1"
    values.update((extension, "1") for extension in target.extensions)
    if c_version >= 300:
        values.update((feature, "1") for feature in target.features)
    values.update(target.macros)
    macros = dict(base_macros())
    for name, value in values.items():
        macro = parse_definition(f"{name} {value}")
        macros[macro.name] = macro
    return macros
