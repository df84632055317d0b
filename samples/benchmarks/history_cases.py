"""Mistakes that public OpenCL projects have fixed: where they are in the projects' histories, and with which arguments to show them.

Nothing of the projects' code is here: a case names the commit that mended a mistake, the files that make the program, and arguments
made for the purpose. `check_history.py` reads the files from clones that the user has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdev.harness import local

Arguments = Sequence[Any]


@dataclass(frozen=True)
class Case:
    """A mistake in `kernel`, which the commit `mended_by` mended. The program is `preface`, and the files behind it in this order;
    of a file that is a C++ raw string, what is in it. `arguments`: called with whether the mistake is mended, as signatures
    change. `initialised`: whether Oclgrind can look for values that nobody wrote, and not end in errors of its own.
    """

    project: str
    mended_by: str
    files: tuple[str, ...]
    kernel: str
    wrong: str
    arguments: Callable[[bool], Arguments]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    options: str = ""
    preface: str = ""
    initialised: bool = True
    #: what is found afterwards as well, and real: kinds and variables, and why
    left: tuple[tuple[str, ...], str] = ((), "")


def floats(count: int) -> np.ndarray:
    return np.linspace(1, 2, count, dtype=np.float32)


def zeros(count: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(count, dtype)


def counted(count: int, dtype: Any = np.int32) -> np.ndarray:
    return np.arange(count, dtype=dtype)


#: How ArrayFire tells kernels of an array: sizes, strides and the first element.
_SHAPE = np.dtype([("dims", "i4", 4), ("strides", "i4", 4), ("offset", "i4")])


def shape(*dims: int) -> np.void:
    """Of an array without gaps, the first dimension's elements side by side."""
    found = np.zeros(1, _SHAPE)[0]
    found["dims"] = [*dims, *(1,) * (4 - len(dims))]
    found["strides"] = np.cumprod([1, *found["dims"][:3]])
    return found


#: A box of Bullet's: its corners as numbers of either type.
_BOX = np.dtype({"names": ["f", "i"], "formats": [("f4", 8), ("i4", 8)], "offsets": [0, 0], "itemsize": 32})


def boxes(count: int) -> np.ndarray:
    return floats(8 * count).view(_BOX)


def edge_image() -> np.ndarray:
    """Rows of 20, with values that are no one's neighbours' mean."""
    return (np.arange(400, dtype=np.float32) * 7 % 31).reshape(-1)


_CLBLAST, _SHOC, _ARRAYFIRE = "CNugteren/CLBlast", "vetter/shoc", "arrayfire/arrayfire"
_OPENMM, _BULLET = "openmm/openmm", "bulletphysics/bullet3"
_COMMON, _AF = "src/kernels/common.opencl", "src/backend/opencl/kernel"

CASES = (
    Case(
        _CLBLAST, "9560193a9e4de27889e3980c8353a050ff2e00da",
        (_COMMON, "src/kernels/level1/level1.opencl", "src/kernels/level1/xhad.opencl"), "XhadFaster",
        "each work-item takes WPT elements, the test leaves room for one",
        lambda _: (256, 2.0, 3.0, floats(256), floats(256), floats(256)),
        (256,), (64,), "-DPRECISION=32 -DWGS=64 -DWPT=2 -DVW=1",
    ),
    Case(
        _CLBLAST, "512b83dbad50cf04ea58ed6edc2def4fa6fc12ad",
        (_COMMON, "src/kernels/level3/invert_diagonal_blocks.opencl"), "InvertDiagonalBlock",
        "a column is read while others write it",
        lambda _: (16, floats(256), 0, 16, zeros(256), 16, 0, 1),
        (16,), (16,), "-DPRECISION=32 -DROUTINE_INVERT -DINTERNAL_BLOCK_SIZE=16", initialised=False,
    ),
    Case(
        _CLBLAST, "df7638c3058c59b173f04cadef78c1955ac008f6",
        (_COMMON, "src/kernels/level3/level3.opencl"), "FillMatrix",
        "rows are filled to the leading dimension, beyond the last column's end",
        lambda mended: (*((5,) if mended else ()), 8, 8, 0, zeros(7 * 8 + 5), 3.0),
        (8, 8), (8, 8), "-DPRECISION=32 -DROUTINE_INVERT",
    ),
    Case(
        _SHOC, "297ee65a8395a5a88bafe211268c33ac50c8087d", ("src/opencl/level1/sort/sort.cl",), "top_scan",
        "the seed is changed while others read it",
        lambda _: (counted(16 * 16, np.uint32), 16, local(32, np.uint32)), (16,), (16,),
    ),
    Case(
        _ARRAYFIRE, "57d6123effc3056342dbe78ae331e59842708a6f",
        (f"{_AF}/KParam.hpp", f"{_AF}/ops.cl", f"{_AF}/scan_first.cl"), "scan_first_kernel",
        "the input is read as far as the output goes",
        lambda _: (
            zeros(32, np.int32), shape(32), zeros(1, np.int32), shape(1), counted(22), shape(22), np.uint32(1), np.uint32(1),
            np.uint32(1),
        ),
        (32, 4), (32, 4),
        "-DTo=int -DTi=int -DT=To -DDIMX=32 -DDIMY=4 -DSHARED_MEM_SIZE=128 -Dinit=0 -DADD_OP -DCPLX=0 -DisFinalPass=1 "
        "-Dinclusive_scan=1",
        preface="typedef int dim_t;",
    ),
    Case(
        _ARRAYFIRE, "d58ec9574289e0af73e241eb78bac47fe212ac28",
        (f"{_AF}/KParam.hpp", f"{_AF}/ops.cl", f"{_AF}/scan_dim.cl"), "scan_dim_kernel",
        "no barrier at the end of the loop",
        lambda _: (
            zeros(16 * 16, np.int32), shape(16, 16), zeros(16, np.int32), shape(16), counted(16 * 16), shape(16, 16),
            *(np.uint32(n) for n in (1, 1, 1, 2)),
        ),
        (16, 8), (16, 8),
        "-DTo=int -DTi=int -DT=To -Ddim=1 -DDIMY=8 -DTHREADS_X=16 -Dinit=0 -DADD_OP -DCPLX=0 -DisFinalPass=1",
        preface="typedef int dim_type;",
    ),
    Case(
        _ARRAYFIRE, "987d9761d33bde9ad45e519da2ce67e213953094", (f"{_AF}/csr2coo.cl",), "csrReduce_kernel",
        "work-items beyond the number of rows read a row's start",
        lambda _: (zeros(21, np.int32), counted(64) * np.int32(20) // np.int32(64), 20, 64), (64,), (16,), "-DT=float",
    ),
    Case(
        _ARRAYFIRE, "7fc3856721b4852c63e87fea33adf84078fb103b", (f"{_AF}/KParam.hpp", f"{_AF}/sift_nonfree.cl"), "sub",
        "no test of the last work-group's items",
        lambda _: (zeros(2 * 200), floats(3 * 200), np.uint32(200), np.uint32(2)), (256,), (64,), "-DT=float",
        preface="typedef int dim_t;",
    ),
    Case(
        _ARRAYFIRE, "6cea4d361b67d5f26e90ef15af0e6a1ce686a911", (f"{_AF}/KParam.hpp", f"{_AF}/flood_fill.cl"), "flood_step",
        "the result of a reduction is read while the next begins",
        lambda _: (
            np.where(counted(256) == 100, 2, 0).astype(np.float32), shape(16, 16), floats(256), shape(16, 16), 1.0, 2.0,
            zeros(1, np.int32),
        ),
        (16, 16), (16, 16),
        "-DT=float -DRADIUS=1 -DVALID=2 -DINVALID=1 -DZERO=0 -DFLOOD_FILL_STEP -DLMEM_WIDTH=18 -DLMEM_HEIGHT=18 -DGROUP_SIZE=256 "
        "-DAF_IS_PLATFORM_NVIDIA=0",
        preface="typedef int dim_t;",
        left=(
            ("race-between-items: out",),
            "work-items read their neighbours' pixels of global memory and then write their own, with barriers between whose fences are "
            "for local memory alone (OpenCL 3.0, 3.3.4): a second mistake, which the commit leaves",
        ),
    ),
    Case(
        _ARRAYFIRE, "91e0af7019657f25627758105a810c6b83466cae", (f"{_AF}/KParam.hpp", f"{_AF}/nonmax_suppression.cl"),
        "nonMaxSuppressionKernel", "a tile's border is read beyond the image",
        lambda _: (
            zeros(400), shape(20, 20), edge_image(), shape(20, 20), floats(400), shape(20, 20), floats(400) - np.float32(1.5),
            shape(20, 20), np.uint32(2), np.uint32(2),
        ),
        (32, 32), (16, 16), "-DT=float -DSHRD_MEM_HEIGHT=18 -DSHRD_MEM_WIDTH=18 -DNON_MAX_SUPPRESSION",
        preface="typedef int dim_t;",
    ),
    Case(
        _OPENMM, "9abaa587caf25b801b231fdd65bb58d9d662cead", ("platforms/opencl/src/kernels/sort.cl",), "computeBucketPositions",
        "the next round's values are stored while the last sum is read",
        lambda _: (np.uint32(40), counted(40, np.uint32), local(16, np.uint32)), (16,), (16,),
        "-DDATA_TYPE=float -DKEY_TYPE=float -DSORT_KEY=value -DMIN_KEY=-MAXFLOAT -DMAX_KEY=MAXFLOAT -DMAX_VALUE=MAXFLOAT",
    ),
    Case(
        _OPENMM, "de666e305b61a1cff0bfc7d7f51c23de5d13ff43", ("platforms/opencl/src/kernels/rmsd.cl",), "computeRMSDPart1",
        "a sum is read while the next one's values are stored",
        lambda _: (48, floats(4 * 48).reshape(48, 4), floats(4 * 48).reshape(48, 4), counted(48), zeros(13), local(16, np.float32)),
        (16,), (16,), "-DSYNC_WARPS=barrier(CLK_LOCAL_MEM_FENCE)",
        preface="typedef float real; typedef float3 real3; typedef float4 real4;", initialised=False,
    ),
    Case(
        _BULLET, "01d14f538a50b564d26aa7ad4d6b9029476f33d4",
        ("src/Bullet3OpenCL/BroadphaseCollision/kernels/sap.cl",), "prepareSumVarianceKernel", "one work-item too many",
        lambda _: (boxes(50), counted(50), zeros(200), zeros(200), 50), (64,), (16,),
    ),
)  # fmt: skip
