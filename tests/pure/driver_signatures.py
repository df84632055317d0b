"""The functions of NVIDIA's driver that vdev calls, as `cuda.h` declares them: a wrong width would be wrong on every GPU.

Names are those of the library, with the version that the header's macros give them. `described` reads the same from C++
declarations: the header's, where it is installed, and those of `fake_cuda`.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .cuda_host import COMPILER

#: By function, its parameters: p is a handle or an address in the program's memory, *p what points to one, and a letter with a number
#: of bytes an integer (an enumeration, too) or a floating-point number, behind * what points to one. All return a CUresult, an int.
SIGNATURES = {
    "cuCtxGetCurrent": "*p",
    "cuCtxSetCurrent": "p",
    "cuDeviceGet": "*i4 i4",
    "cuDeviceGetAttribute": "*i4 i4 i4",
    "cuDeviceGetCount": "*i4",
    "cuDeviceGetName": "*i1 i4 i4",
    "cuDevicePrimaryCtxRetain": "*p i4",
    "cuEventCreate": "*p u4",
    "cuEventElapsedTime": "*f4 p p",
    "cuEventQuery": "p",
    "cuEventRecord": "p p",
    "cuEventSynchronize": "p",
    "cuFuncGetAttribute": "*i4 i4 p",
    "cuFuncGetParamInfo": "p u8 *u8 *u8",
    "cuFuncSetAttribute": "p i4 i4",
    "cuGetErrorName": "i4 *p",
    "cuInit": "u4",
    "cuLaunchKernelEx": "p p *p *p",
    "cuMemAllocManaged": "*u8 u8 u4",
    "cuMemAlloc_v2": "*u8 u8",
    "cuMemFree_v2": "u8",
    "cuMemcpyAsync": "u8 u8 u8 p",
    "cuMemcpyDtoHAsync_v2": "p u8 u8 p",
    "cuMemsetD16Async": "u8 u2 u8 p",
    "cuMemsetD32Async": "u8 u4 u8 p",
    "cuMemsetD8Async": "u8 u1 u8 p",
    "cuModuleGetFunction": "*p p *i1",
    "cuModuleLoadData": "*p p",
    "cuModuleUnload": "p",
    "cuStreamQuery": "p",
    "cuStreamSynchronize": "p",
    "cuStreamWaitEvent": "p p u4",
    "cuTexObjectCreate": "*u8 p p p",
    "cuTexObjectDestroy": "u8",
}

#: prints each function's parameters in the words of `SIGNATURES`
_PRINTING = """
#include <cstdio>
#include <type_traits>
template <class T> void number(const char *before) {
  using P = typename std::remove_cv<T>::type;
  char kind = std::is_floating_point<P>::value ? 'f' : std::is_unsigned<P>::value ? 'u' : 'i';
  std::printf(" %s%c%zu", before, kind, sizeof(P));
}
template <class T> void parameter() {
  if constexpr (!std::is_pointer<T>::value) number<T>("");
  else {
    using P = typename std::remove_pointer<T>::type;
    if constexpr (std::is_pointer<P>::value) std::printf(" *p");
    else if constexpr (std::is_arithmetic<P>::value) number<P>("*");
    else std::printf(" p");
  }
}
template <class F> struct Told;
template <class R, class... A> struct Told<R(A...)> {
  static void tell(const char *name) {
    static_assert(sizeof(R) == 4);
    std::printf("%s", name), (parameter<A>(), ...), std::printf("\\n");
  }
};
"""


def described(declarations: str, folder: Path, flags: Sequence[str] = ()) -> dict[str, str]:
    """What C++ text declares of the functions in `SIGNATURES`, in the same words."""
    assert COMPILER is not None
    source, program = folder / "signatures.cc", folder / "signatures"
    tell = "".join(f'  Told<decltype({name})>::tell("{name}");\n' for name in SIGNATURES)
    source.write_text(f"{declarations}\n{_PRINTING}\nint main() {{\n{tell}}}\n")
    command = [COMPILER, "-std=c++20", "-w", *flags, str(source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:6000]
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in printed.splitlines())


def header() -> Path | None:
    """The folder of `cuda.h`, which comes with CUDA's toolkit and with NVIDIA's packages of CUDA's runtime."""
    spec = importlib.util.find_spec("nvidia")
    packages = () if spec is None else spec.submodule_search_locations or ()
    places = [path for root in packages for path in sorted(Path(root).glob("*/include"))]
    return next(
        (path for path in (*places, Path("/usr/local/cuda/include")) if (path / "cuda.h").exists()), None
    )
