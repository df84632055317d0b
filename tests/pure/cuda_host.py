"""Translated programs run by the host's C++ compiler: values of the translation without a GPU.

The text for CUDA is compiled as it is, less the header that holds machine instructions; `cuda_host.h` stands in for it and
for what CUDA brings. Needs g++ (any that knows C++20).
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from vdev.translators.dialects.cuda.translation import CudaProgram
from vdev.translators.ranges.ndrange import Chunk, NDRange, whole_chunk

MISSING = "no g++ on this machine"
COMPILER = shutil.which("g++")
HEADER = Path(__file__).with_name("cuda_host.h")
#: of a shared library that computes as a GPU does
FLAGS = (
    "-std=c++20",
    "-O1",
    "-w",
    "-fPIC",
    "-shared",
    "-fno-gnu-unique",  # local variables of inline functions are each library's own, as __isShared tells them by their place
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fpermissive",
    "-ffp-contract=off",
)


class HostProgram:
    """A translated program as a shared library in `folder`. `options` come behind `FLAGS`."""

    def __init__(self, program: CudaProgram, folder: Path, options: Sequence[str] = ()) -> None:
        self.program = program
        text = host_text(program)
        source, library = folder / "program.cc", folder / "program.so"
        source.write_text(text)
        assert COMPILER is not None
        command = [COMPILER, *FLAGS, "-fsanitize=alignment", *options]
        done = subprocess.run(
            [*command, str(source), "-o", str(library)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[:6000]
        self._library = ctypes.CDLL(str(library))
        self._library.first_misaligned.restype = ctypes.c_char_p

    def run(
        self,
        name: str,
        args: Sequence[npt.NDArray[Any] | np.generic | int | None],
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
        offset: tuple[int, ...] = (),
        chunk: Chunk | None = None,
    ) -> None:
        """A whole NDRange, or a chunk of it. `args`: an array is a buffer, an int the size of a local argument, None no buffer. An
        access to memory that is less aligned than its type is an error: a GPU does not make it.
        """
        kernel = self.program.kernels[name]
        offsets = iter(kernel.local_layout([arg for arg in args if isinstance(arg, int)])[0])
        values: list[Any] = []
        for arg in args:
            if arg is None:
                values.append(ctypes.c_void_p())
            elif isinstance(arg, np.ndarray):
                values.append(ctypes.c_void_p(arg.ctypes.data))
            elif isinstance(arg, int):
                values.append(ctypes.c_uint(next(offsets)))
            else:
                values.append(_aligned_bytes(arg.tobytes()))
        ndrange = NDRange(global_size, local_size, offset or (0,) * len(global_size))
        chunk = whole_chunk(ndrange) if chunk is None else chunk
        hidden = kernel.pack(ndrange, chunk, [0] * len(kernel.pointer_args))
        values.append(_aligned_bytes(hidden))
        addresses = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        groups = chunk.counts
        three = ctypes.c_uint * 3
        getattr(self._library, f"run_{kernel.entry}")(
            addresses,
            three(*groups, *(1,) * (3 - len(groups))),
            three(*local_size, *(1,) * (3 - len(groups))),
        )
        said = self._library.first_misaligned().decode()
        assert not said, f"kernel {name}: {said}"


def aligned(content: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy that begins where the largest type of OpenCL C may."""
    memory = np.empty(content.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 128
    part = memory[start : start + content.nbytes].view(content.dtype).reshape(content.shape)
    part[...] = content
    return part


def _aligned_bytes(content: bytes) -> Any:
    return np.ctypeslib.as_ctypes(aligned(np.frombuffer(content, np.uint8)))


def host_text(program: CudaProgram) -> str:
    """The program for the host's compiler, with a function to launch each kernel."""
    _, _, rest = program.source.partition('#line 1 "vdev/machine.h"')
    rest = rest[rest.index('#line 1 "vdev/vectors.h"') :]
    rest = re.sub(r"extern __shared__ __align__\((\d+)\) (.*?)\[\];", r"alignas(\1) static \2[232448];", rest)
    rest = rest.replace("static __constant__", "__constant__").replace("static __shared__", "__shared__")
    # `const constant` and `constant static const`, which NVCC takes
    rest = re.sub(r"\bconst\s+(static\s+)?(?:const\b\s*)+", r"\1const ", rest)
    runs = "".join(
        f'extern "C" void run_{kernel.entry}(void **args, const unsigned *grid, const unsigned *block) '
        f"{{ launch(vdev_cl::user::{kernel.entry}, args, grid, block); }}\n"
        for kernel in program.kernels.values()
    )
    return f'#include "{HEADER}"\n{rest}\n{runs}'
