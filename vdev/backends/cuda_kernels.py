"""Kernels of our own on CUDA workers: strided copies and fills with long patterns.

CUDA's copies of rectangles are slow where rows are short, and its fills know patterns of up to four bytes.
"""

from __future__ import annotations

#: Bytes of the longest pattern of clEnqueueFillBuffer (long16, double16).
PATTERN_NBYTES = 128
#: Work-items of a block.
BLOCK = 256

SOURCE = r"""
typedef unsigned char u1;
typedef unsigned short u2;
typedef unsigned int u4;
typedef unsigned long long u8;
struct __align__(16) u16 { u8 low, high; };

// Units of T from a box to a box; sizes and pitches are in units.
template <typename T>
__device__ void copy_box(const T *source, T *target, u8 width, u8 rows, u8 total,
                         u8 source_row, u8 source_slice, u8 target_row, u8 target_slice)
{
    const u8 step = (u8)gridDim.x * blockDim.x;
    for (u8 i = (u8)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        const u8 line = i / width, x = i - line * width;
        const u8 z = line / rows, y = line - z * rows;
        target[z * target_slice + y * target_row + x] = source[z * source_slice + y * source_row + x];
    }
}

#define COPY(T) \
extern "C" __global__ void copy_##T(const T *source, T *target, u8 width, u8 rows, u8 total, \
                                    u8 source_row, u8 source_slice, u8 target_row, u8 target_slice) \
{ copy_box<T>(source, target, width, rows, total, source_row, source_slice, target_row, target_slice); }
COPY(u1) COPY(u2) COPY(u4) COPY(u8) COPY(u16)

struct Pattern { u1 bytes[128]; };

extern "C" __global__ void fill_pattern(u1 *target, u8 total, u8 length, const __grid_constant__ Pattern pattern)
{
    const u8 step = (u8)gridDim.x * blockDim.x;
    for (u8 i = (u8)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step)
        target[i] = pattern.bytes[i % length];
}
"""

#: units of a copy in bytes, the widest first, and their kernels
COPIES = ((16, "copy_u16"), (8, "copy_u8"), (4, "copy_u4"), (2, "copy_u2"), (1, "copy_u1"))
