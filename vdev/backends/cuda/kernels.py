"""vdev's own kernels on CUDA workers: strided copies, fills with long patterns, merges.

CUDA's copies of rectangles are slow if rows are short, and its fills take patterns of at most four bytes. Merges do
what `Backend.merge` specifies. Nothing here decides what is copied or merged.
"""

from __future__ import annotations

#: Bytes of the longest pattern of clEnqueueFillBuffer (long16, double16).
PATTERN_NBYTES = 128
#: The most boxes that one launch copies.
MOST_BOXES = 8
#: The most memories whose content one launch folds into another.
MOST_PARTS = 16
#: Work-items of a block.
BLOCK = 256

_UNITS = r"""
typedef unsigned char u1;
typedef unsigned short u2;
typedef unsigned int u4;
typedef unsigned long long u8;
struct __align__(16) u16 { u8 low, high; };
"""

_COPIES = r"""
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
"""

_BOXES = r"""
struct Box { const void *source; void *target; u8 width, rows, total, source_row, source_slice, target_row, target_slice; };
struct Boxes { Box box[8]; };  // MOST_BOXES

// Several boxes, `total` units in all.
template <typename T>
__device__ void copy_boxes(const Boxes &boxes, u8 total)
{
    const u8 step = (u8)gridDim.x * blockDim.x;
    for (u8 i = (u8)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        u8 at = i;
        unsigned k = 0;
        while (at >= boxes.box[k].total)
            at -= boxes.box[k++].total;
        const Box &box = boxes.box[k];
        const u8 line = at / box.width, x = at - line * box.width;
        const u8 z = line / box.rows, y = line - z * box.rows;
        ((T *)box.target)[z * box.target_slice + y * box.target_row + x]
            = ((const T *)box.source)[z * box.source_slice + y * box.source_row + x];
    }
}

#define COPY_BOXES(T) \
extern "C" __global__ void copy_boxes_##T(u8 total, const __grid_constant__ Boxes boxes) { copy_boxes<T>(boxes, total); }
"""

_PATTERNS = r"""
struct Pattern { u1 bytes[128]; };  // PATTERN_NBYTES

extern "C" __global__ void fill_pattern(u1 *target, u8 total, u8 length, const __grid_constant__ Pattern pattern)
{
    const u8 step = (u8)gridDim.x * blockDim.x;
    for (u8 i = (u8)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step)
        target[i] = pattern.bytes[i % length];
}
"""

_CHANGES = r"""
__device__ bool differ(u1 a, u1 b) { return a != b; }
__device__ bool differ(u2 a, u2 b) { return a != b; }
__device__ bool differ(u4 a, u4 b) { return a != b; }
__device__ bool differ(u8 a, u8 b) { return a != b; }
__device__ bool differ(const u16 &a, const u16 &b) { return a.low != b.low || a.high != b.high; }

// Rows of `width` units, `stride` units apart: what differs from the twin is copied.
template <typename T>
__device__ void merge_changes(T *target, const T *stage, const T *twin, u8 width, u8 stride, u8 total)
{
    const u8 step = (u8)gridDim.x * blockDim.x;
    for (u8 i = (u8)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        const u8 at = i / width * stride + i % width;
        const T changed = stage[at];
        if (differ(changed, twin[at])) target[at] = changed;
    }
}

#define MERGE_CHANGES(T) \
extern "C" __global__ void merge_diff_##T(T *target, const T *stage, const T *twin, u8 width, u8 stride, u8 total) \
{ merge_changes<T>(target, stage, twin, width, stride, total); }
"""

_CHANGED_UNITS = r"""
struct Cuts { u2 at[256]; };  // MAX_CUTS

// Rows of `nbytes` bytes from `start` of a buffer, `stride` apart; the three memories begin where the buffer would. Units lie
// between cuts, which repeat each `period` bytes. A work-item looks at one unit of one row, which has `most` or fewer.
extern "C" __global__ void merge_units(u8 target, u8 stage, u8 twin, u8 start, u8 nbytes, u8 stride, u8 most, u8 total,
                                       u8 period, u8 count, const __grid_constant__ Cuts cuts)
{
    const u8 step = (u8)gridDim.x * blockDim.x;
    for (u8 i = (u8)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        const u8 row = i / most, number = i % most;
        const u8 from = start + row * stride, to = from + nbytes, first = from / period * period;
        // number 0: what comes before the first cut of the period in which the row begins
        u8 low = number ? first + (number - 1) / count * period + cuts.at[(number - 1) % count] : 0;
        u8 high = first + number / count * period + cuts.at[number % count];
        low = low < from ? from : low;
        high = high > to ? to : high;
        bool changed = false;
        for (u8 at = low; at < high; at++)
            changed |= *(const u1 *)(stage + at) != *(const u1 *)(twin + at);
        if (changed)
            for (u8 at = low; at < high; at++)
                *(u1 *)(target + at) = *(const u1 *)(stage + at);
    }
}
"""

_FOLDS = r"""
struct Parts { const void *at[16]; };  // MOST_PARTS

// Rows of `width` elements, `stride` elements apart: what lies at the same places of `count` other memories, which may be other
// GPUs', is combined into the target, in their order.
#define FOLD(OP, NAME, EXPRESSION) \
extern "C" __global__ void fold_##OP##_##NAME(T *target, u8 width, u8 stride, u8 total, u8 count, \
                                              const __grid_constant__ Parts parts) \
{ \
    const u8 step = (u8)gridDim.x * blockDim.x; \
    for (u8 i = (u8)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) { \
        const u8 at = i / width * stride + i % width; \
        T a = target[at]; \
        _Pragma("unroll 4") \
        for (u4 k = 0; k < count; k++) { \
            const T b = ((const T *)parts.at[k])[at]; \
            a = EXPRESSION; \
        } \
        target[at] = a; \
    } \
}
"""

#: what an element of a fold becomes, by operation: of integers, whose sums wrap around, and of floating-point numbers, where not-a-number
#: wins as in NumPy's minimum and maximum
_OF_INTEGERS = {
    "add": "(T)((U)a + (U)b)",
    "min": "b < a ? b : a",
    "max": "a < b ? b : a",
    "and": "a & b",
    "or": "a | b",
    "xor": "a ^ b",
}
_OF_FLOATS = {"add": "a + b", "min": "b < a || b != b ? b : a", "max": "a < b || b != b ? b : a"}

#: by NumPy's kind and size of an element: its type, the type in which it is added, and its operations
_ELEMENTS = {
    "i4": ("int", "u4", _OF_INTEGERS),
    "u4": ("u4", "u4", _OF_INTEGERS),
    "i8": ("long long", "u8", _OF_INTEGERS),
    "u8": ("u8", "u8", _OF_INTEGERS),
    "f4": ("float", "float", _OF_FLOATS),
    "f8": ("double", "double", _OF_FLOATS),
}


def _fold(operation: str, element: str) -> str:
    """The program of one fold."""
    kind, sums, operations = _ELEMENTS[element]
    types = f"typedef {kind} T;\ntypedef {sums} U;\n"
    return f"{_UNITS}{types}{_FOLDS}FOLD({operation}, {element}, {operations[operation]})\n"


#: units of a copy in bytes, the widest first, and their kernels
COPIES = ((16, "copy_u16"), (8, "copy_u8"), (4, "copy_u4"), (2, "copy_u2"), (1, "copy_u1"))

#: units that are compared as words
WORDS = tuple(unit for unit, _ in COPIES)

#: by a kernel's name: the program that has it, and nothing else. Each is compiled when it is first needed: the program waits for NVRTC
#: then, in its midst, for tens of milliseconds (`python -m tests.pure.first_runs` counts them). Folds are named by operation and by
#: NumPy's kind and size of an element.
SOURCE_OF = {
    **{f"copy_u{unit}": f"{_UNITS}{_COPIES}COPY(u{unit})\n" for unit, _ in COPIES},
    **{f"copy_boxes_u{unit}": f"{_UNITS}{_BOXES}COPY_BOXES(u{unit})\n" for unit, _ in COPIES},
    "fill_pattern": _UNITS + _PATTERNS,
    "merge_units": _UNITS + _CHANGED_UNITS,
    **{f"merge_diff_u{unit}": f"{_UNITS}{_CHANGES}MERGE_CHANGES(u{unit})\n" for unit, _ in COPIES},
    **{
        f"fold_{operation}_{element}": _fold(operation, element)
        for element, (_, _, operations) in _ELEMENTS.items()
        for operation in operations
    },
}

#: every kernel
NAMES = tuple(SOURCE_OF)

#: those that nearly every program on several GPUs needs, then what most merges need, and what edges of an even number of words do: compiled
#: beside the first program, before it is known which it needs
USUAL = (
    "copy_u16", "copy_boxes_u16", "copy_u4", "copy_boxes_u4", "merge_diff_u4", "copy_u8", "copy_boxes_u8",
)  # fmt: skip
