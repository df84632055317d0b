"""Random sequences of commands on a few buffers, for `forced_sequences`: kernels, and which of them are launched on what.

Kernels see the same buffers as words, bytes, vectors, and structures in rows of 3, 5, 6, 7, 12 and more bytes, so that what one of
them writes ends within what is one thing for another. All are safe to run in any order of their work-groups, and none looks at
bytes that it does not change beyond `n` words of its arguments. A sequence depends on its seed alone.
"""

from __future__ import annotations

import random
from typing import Any

from tests.cpu.pressure import COMMON

WORDS = """
__kernel void more(__global uint *out, uint seed, uint n) { EACH out[i] += seed; }
__kernel void bytes(__global uchar *out, uint seed, uint n) { EACH if (i % 3 != seed % 3) out[i] = (uchar)(i + seed); }
__kernel void four(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (4 * i + 3 < n) vstore4(vload4(i, a).wzyx, i, out);
}
__kernel void scatter(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n && n % 5) out[(uint)((ulong)i * 5 % n)] = a[i];
}
__kernel void halves(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0), m = n / 2;
  if (i < m) { out[2 * i] = a[i] + a[i + m]; out[2 * i + 1] = a[i] - a[i + m]; }
}
__kernel void groups(__global const uint *a, __global uint *out, uint n) {
  uint sum = 0;
  EACH sum += a[i] * (i | 1);
  __local uint parts[64];
  parts[get_local_id(0)] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0 && get_group_id(0) < n) {
    for (uint i = 1; i < get_local_size(0); ++i) sum += parts[i];
    out[get_group_id(0)] = sum;
  }
}
__kernel void rows(__global const uint *a, __global uint *out, uint n) {
  uint row = get_global_id(0), sum = 0;
  if (row * (row + 1) / 2 + row < n) {
    for (uint i = 0; i <= row; ++i) sum += a[row * (row + 1) / 2 + i];
    out[row] = sum;
  }
}
__kernel void gather(__global const uint *a, __global const uint *index, __global uint *out, uint n) {
  EACH out[i] = a[index[i] % n];
}
__kernel void backwards(__global uint *out, uint seed, uint n) { uint i = get_global_id(0); if (i < n) out[n - 1 - i] = i * seed; }
__kernel void at_groups(__global uint *out, uint seed, uint n) {
  uint at = 3 * get_group_id(0) + 1;
  if (get_local_id(0) == 0 && at < n) out[at] = seed + at;
}
__kernel void alike(__global uint *out, uint seed, uint n) { EACH out[i / 5] = i / 5 * seed; }
__kernel void swap(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (2 * i + 1 < n) { uint kept = out[2 * i]; out[2 * i] = out[2 * i + 1] + a[i]; out[2 * i + 1] = kept; }
}
__kernel void window(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0), sum = 0;
  if (i < n) { for (uint k = 0; k < 5; ++k) sum += a[min(i + k, n - 1)]; out[i] = sum; }
}
__kernel void count(__global const uint *a, __global uint *out, uint n) { EACH atomic_inc(&out[a[i] % n]); }
__kernel void largest(__global const uint *a, __global uint *out, uint n) { EACH atomic_max(&out[a[i] % 7 % n], a[i]); }
__kernel void mixed(__global const uint *a, __global uint *out, uint n) { EACH atomic_xor(&out[i / 3], a[i]); }
__kernel void columns(__global const uint *a, __global uint *out, uint wide, uint high) {
  uint x = get_global_id(0), y = get_global_id(1);
  if (x < wide && y < high) out[x * high + y] = a[y * wide + x];
}
__kernel void blur(__global const uint *a, __global uint *out, uint wide, uint high) {
  uint x = get_global_id(0), y = get_global_id(1);
  if (x < wide && y < high) out[y * wide + x] = a[y * wide + min(x + 1, wide - 1)] + a[max(y, 1u) * wide - wide + x];
}
"""
#: rows and elements of other sizes than words, in the same buffers
OTHER_SIZES = """
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
typedef struct { uint a; uchar b; ushort c; uchar d[3]; } Twelve;
typedef struct __attribute__((packed)) { uchar a; uint b; ushort c; } Seven;
__kernel void threes(__global uint *out, uint seed, uint n) {
  uint i = get_global_id(0);
  if (3 * i + 2 < 4 * n) vstore3((uchar3)(i, seed, i ^ seed), i, (__global uchar *)out);
}
__kernel void sixes(__global uint *out, uint seed, uint n) {
  uint i = get_global_id(0);
  if (6 * i + 5 < 4 * n) vstore3((ushort3)(i, seed, i ^ seed), i, (__global ushort *)out);
}
__kernel void twelves(__global uint *out, uint seed, uint n) {
  uint i = get_global_id(0);
  if (3 * i + 2 < n) vstore3((uint3)(i, seed, i * seed), i, out);
}
__kernel void fives(__global uint *out, uint seed, uint n) {
  __global uchar *bytes = (__global uchar *)out + seed % 4;
  uint i = get_global_id(0);
  if (5 * i + 7 < 4 * n) for (uint k = 0; k < 3; ++k) bytes[5 * i + k] = i * seed + k;
}
__kernel void members(__global uint *out, uint seed, uint n) {
  __global Twelve *rows = (__global Twelve *)out;
  uint i = get_global_id(0);
  if (3 * i + 2 < n) { rows[i].c = seed + i; rows[i].b = i; if (i % 3 == seed % 3) rows[i].d[1] = seed; }
}
__kernel void packed(__global uint *out, uint seed, uint n) {
  __global Seven *rows = (__global Seven *)out;
  uint i = get_global_id(0);
  if (7 * i + 6 < 4 * n) { rows[i].b = i * seed; if (seed & 1) rows[i].c = i; }
}
__kernel void longs(__global uint *out, uint seed, uint n) {
  uint i = get_global_id(0);
  if (2 * i + 1 < n) ((__global ulong *)out)[i] = (ulong)i * seed * seed;
}
__kernel void quads(__global uint *out, uint seed, uint n) {
  uint i = get_global_id(0);
  if (8 * i + 3 < n) ((__global uint4 *)out)[2 * i] = (uint4)(i, seed, i ^ seed, i * seed);
}
__kernel void unpack(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n) { uchar3 v = vload3(i, (__global const uchar *)a); out[i] = v.x + (v.y << 8) + (v.z << 20); }
}
__kernel void pack(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n) vstore3((uchar3)(a[i], a[i] >> 8, a[i] >> 16), i, (__global uchar *)out);
}
__kernel void some_threes(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n && (a[i] & 1)) ((__global uchar *)out)[3 * i + a[i] % 3] = a[i] >> 8;
}
__kernel void some_members(__global const uint *a, __global uint *out, uint n) {
  __global Twelve *rows = (__global Twelve *)out;
  uint i = get_global_id(0);
  if (3 * i + 2 < n && (a[i] & 2)) { rows[i].c = a[i]; if (a[i] & 4) rows[i].a = a[i]; }
}
__kernel void some_longs(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (2 * i + 1 < n && (a[i] & 1)) ((__global ulong *)out)[i] = ((ulong)a[i] << 32) + i;
}
__kernel void scatter_quads(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0), m = n / 4;
  if (i < m && m % 5) ((__global uint4 *)out)[i * 5 % m] = ((__global const uint4 *)a)[i];
}
__kernel void scatter_bytes(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0);
  if (i < n && n % 7) ((__global uchar *)out)[4 * (i * 7 % n) + 3] = a[i];
}
__kernel void tangled(__global const uint *a, __global uint *out, uint n) {
  uint i = get_global_id(0), at = a[i % n] % n;
  if (i < n && 2 * at + 1 < n) ((__global ulong *)out)[at] = (ulong)at << 40 | at * 7;
}
__kernel void count_longs(__global const uint *a, __global uint *out, uint n) {
  if (n > 1) EACH atom_add((volatile __global ulong *)out + a[i] % (n / 2), (ulong)a[i] << 12);
}
__kernel void largest_longs(__global const uint *a, __global uint *out, uint n) {
  if (n > 1) EACH atom_max((volatile __global long *)out + i % (n / 2), ((long)a[i] << 32) + i);
}
__kernel void least(__global const uint *a, __global uint *out, uint n) {
  EACH atomic_min((volatile __global int *)out + a[i] % n, (int)a[i]);
}
__kernel void common(__global const uint *a, __global uint *out, uint n) { EACH atomic_and(&out[i / 4], a[i] | 1); }
__kernel void joined(__global const uint *a, __global uint *out, uint n) { EACH atomic_or(&out[a[i] % n], 1u << (i & 31)); }
__kernel void count_members(__global const uint *a, __global uint *out, uint n) {
  if (n > 2) EACH atomic_add(&((volatile __global Twelve *)out)[a[i] % (n / 3)].a, 3);
}
__kernel void byte_columns(__global const uint *a, __global uint *out, uint wide, uint high) {
  uint x = get_global_id(0), y = get_global_id(1);
  if (x < wide && y < high) ((__global uchar *)out)[x * high + y] = ((__global const uchar *)a)[y * wide + x];
}
__kernel void pixels(__global const uint *a, __global uint *out, uint wide, uint high) {
  uint x = get_global_id(0), y = get_global_id(1);
  if (x < wide && y < high) vstore3(vload3(y * wide + x, (__global const uchar *)a).zyx, y * wide + x, (__global uchar *)out);
}
__kernel void high_halves(__global const uint *a, __global uint *out, uint wide, uint high) {
  uint x = get_global_id(0), y = get_global_id(1);
  if (x < wide && y < high) ((__global ushort *)out)[2 * (y * wide + x) + 1] = ((__global const ushort *)a)[2 * (y * wide + x)];
}
__kernel void halo(__global const uint *a, __global uint *out, uint wide, uint high) {
  int x = get_global_id(0), y = get_global_id(1);
  uint sum = 0;
  if (x < wide && y < high) {
    for (int v = max(y - 2, 0); v <= min(y + 2, (int)high - 1); ++v)
      for (int u = max(x - 2, 0); u <= min(x + 2, (int)wide - 1); ++u) sum += a[v * wide + u];
    out[y * wide + x] = sum;
  }
}
"""
SOURCE = COMMON + WORDS + OTHER_SIZES

#: kernels of one index space by what they take: (out), (a, out), (a, index, out), and of two
FILLING = (
    "blocks", "stripes", "more", "bytes", "backwards", "at_groups", "alike",
    "threes", "sixes", "twelves", "fives", "members", "packed", "longs", "quads",
)  # fmt: skip
#: those of two whose sums may stay pending
ATOMIC = (
    "count", "largest", "mixed", "count_longs", "largest_longs", "least", "common", "joined", "count_members",
)  # fmt: skip
MAPPING = (
    "add", "some", "four", "reversed", "stencil", "scatter", "halves", "groups", "rows", "swap", "window",
    "unpack", "pack", "some_threes", "some_members", "some_longs", "scatter_quads", "scatter_bytes", "tangled", *ATOMIC,
)  # fmt: skip
GATHERING = ("gather",)
PLANES = ("columns", "blur", "byte_columns", "pixels", "high_halves", "halo")
#: those whose work-items go on with what is beyond the index space
_STRIDING = frozenset(
    ("stripes", "more", "bytes", "at_groups", "alike", "add", "some", "groups", "gather", *ATOMIC)
)
#: those whose work-items read only what they write at the same place: both arguments may be the same bytes
_IN_PLACE = ("add", "some")
LOCAL = (1, 4, 16, 64)
#: work-groups of a launch at most; and words of a buffer: one in so many is large
_MOST_GROUPS, _MOST, _MOST_LARGE, _LARGE = 24, 1500, 40000, 8
#: bytes that a part of a buffer begins at a multiple of
_ALIGNED = 128

Box = tuple[
    tuple[int, int, int], int, tuple[int, int]
]  #: shape, first byte, (slice, row) pitches, as `CopyBuffer` has them


class Commands:
    """The commands of a sequence, in terms of its buffers' numbers: the same for every session."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        #: whether launches work on small parts of buffers, mostly of one, beside one another: some of it is pending meanwhile
        self._beside = self.random.random() < 0.4
        most = _MOST if seed % _LARGE else _MOST_LARGE
        self.words = [self.random.randint(64, most) for _ in range(self.random.randint(2, 4))]
        self.contents = [self.random.randbytes(4 * words) for words in self.words]
        self.list = [self._one() for _ in range(self.random.randint(3, 14 if self._beside else 10))]
        if self.random.random() < 0.25:
            self.list = self._repeated(self.list[:6])

    def _one(self) -> tuple[Any, ...]:
        choice = self.random.random()
        if choice < 0.7 or (self._beside and self.random.random() < 0.8):
            return self._launch()
        number = self._some()
        start, stop = self._part(self.words[number])
        if choice < 0.76:
            return ("write", number, start, self.random.randbytes(stop - start))
        if choice < 0.82:
            return ("read", number, start, stop)
        if choice < 0.87:
            return self._fill(number, start, stop)
        if choice < 0.90:
            written = self.random.randbytes(stop - start) if self.random.random() < 0.6 else None
            return ("map", number, start, stop, written)
        if choice < 0.94:
            return self._rectangle(number)
        return self._copy(number, start, stop)

    def _repeated(self, body: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """A program's loop: launches have the same numbers in every round, or fewer items and other values in each."""
        less = [self.random.choice((0, 0, 1, 3, 16)) for _ in body]
        return [
            _in_round(command, number * each)
            for number in range(self.random.choice((2, 3, 8)))
            for command, each in zip(body, less, strict=True)
        ]

    def _some(self) -> int:
        return self.random.randrange(len(self.words))

    def _part(self, words: int) -> tuple[int, int]:
        """Of a buffer of so many words: bytes, from one to the one after the last."""
        if self.random.random() < 0.3:
            return 0, 4 * words
        start = self.random.randrange(4 * words)
        return start, self.random.randint(start + 1, 4 * words)

    def _fill(self, number: int, start: int, stop: int) -> tuple[Any, ...]:
        size = self.random.choice((1, 2, 4, 4, 8, 16))
        start = start // size * size
        nbytes = max((stop - start) // size, 1) * size
        if start + nbytes > 4 * self.words[number]:
            start -= size
        return ("fill", number, start, nbytes, self.random.randbytes(size))

    def _copy(self, number: int, start: int, stop: int) -> tuple[Any, ...]:
        other = self._some()
        if self.random.random() < 0.5 and (boxes := self._two_boxes(number, other)):
            return ("copy", number, other, *boxes)
        nbytes = min(stop - start, 4 * self.words[other])
        into = self.random.randint(0, 4 * self.words[other] - nbytes)
        if other == number and start < into + nbytes and into < start + nbytes:
            return ("read", number, start, stop)
        row = (1, 1, nbytes), (nbytes, nbytes)
        return ("copy", number, other, row[0], start, row[1], into, row[1])

    def _two_boxes(self, number: int, other: int) -> tuple[Any, ...] | None:
        """Boxes of one shape in two buffers, or in two parts of one."""
        shape = self._shape()
        source, target = (self._laid_out(shape, 4 * self.words[each]) for each in (number, other))
        if source is None or target is None:
            return None
        if number == other:
            ends = [start + _extent(shape, pitches) for start, pitches in (source, target)]
            if source[0] < ends[1] and target[0] < ends[0]:
                return None
        return shape, *source, *target

    def _rectangle(self, number: int) -> tuple[Any, ...]:
        """A box of a buffer, from or to an array of the host's in which it lies otherwise."""
        shape = self._shape()
        found, host = self._laid_out(shape, 4 * self.words[number]), self._laid_out(shape, 1 << 16)
        assert host is not None
        if found is None:
            return ("read", number, 0, 4 * self.words[number])
        start, pitches = host
        content = self.random.randbytes(start + _extent(shape, pitches))
        return (self.random.choice(("read box", "write box")), number, (shape, *found, *host), content)

    def _shape(self) -> tuple[int, int, int]:
        return self.random.randint(1, 3), self.random.randint(1, 9), self.random.randint(1, 21)

    def _laid_out(self, shape: tuple[int, int, int], nbytes: int) -> tuple[int, tuple[int, int]] | None:
        """Where a box begins within so many bytes, and its pitches; None if it has no room."""
        row = shape[2] + self.random.choice((0, 0, 1, 2, 3, 5, 12))
        plane = row * (shape[1] + self.random.choice((0, 0, 1, 2)))
        room = nbytes - _extent(shape, (plane, row))
        return None if room < 0 else (self.random.randint(0, room), (plane, row))

    # launches -----------------------------------------------------------------------------------

    def _launch(self) -> tuple[Any, ...]:
        names = self.random.choice((FILLING, FILLING, MAPPING, MAPPING, MAPPING, GATHERING, PLANES))
        if self._beside and self.random.random() < 0.4:
            names = ATOMIC
        name = self.random.choice(names)
        bound, room = self._bound(name, 1 if names is FILLING else 3 if names is GATHERING else 2)
        if self._beside:
            room = self.random.randint(1, max(room // 3, 1))
        again = self.random.choice((1, 1, 1, 1, 1, 2, 5, 9))
        if names is PLANES:
            wide = self.random.randint(1, min(room, 40))
            high = self.random.randint(1, min(room // wide, 40))
            local = self.random.choice(((4, 4), (8, 2), (2, 8)))
            size = tuple(-(-n // each) * each for n, each in zip((wide, high), local, strict=True))
            return ("launch", name, bound, ((wide, high),) * again, size, (0, 0), local)
        n = self.random.randint(1, 4 * room if name == "bytes" else room)
        local_size = self.random.choice(LOCAL)
        wanted = -(-n // local_size)
        if name in _STRIDING:
            groups = self.random.randint(1, min(wanted, _MOST_GROUPS))
        else:
            n = min(n, local_size * _MOST_GROUPS)
            groups = -(-n // local_size)
        offset = self.random.randint(1, n) if self.random.random() < 0.1 else 0
        numbers = self._numbers(n, again, seeded=names is FILLING)
        return ("launch", name, bound, numbers, (groups * local_size,), (offset,), (local_size,))

    def _numbers(self, n: int, again: int, *, seeded: bool) -> tuple[tuple[int, ...], ...]:
        """The values of a launch that is made so many times; in some, each time others."""
        seed, changes = self.random.getrandbits(32), self.random.random() < 0.4
        found = []
        for _ in range(again):
            found.append((seed, n) if seeded else (n,))
            if changes:
                seed, n = seed * 5 + 1 & 0xFFFFFFFF, max(n - self.random.choice((0, 0, 1, 3)), 1)
        return tuple(found)

    def _bound(self, name: str, count: int) -> tuple[list[tuple[int, int]], int]:
        """Which parts of which buffers a launch works on, the one that is written last, and how many words it may use of each."""
        out = 0 if self._beside and self.random.random() < 0.8 else self._some()
        if count == 2 and self.random.random() < 0.15:  # of one buffer
            offset = self._offset(out)
            if name in _IN_PLACE and self.random.random() < 0.5:
                return [(out, offset)] * 2, self.words[out] - offset // 4
            behind = offset + (4 * self.words[out] - offset) // 2 // _ALIGNED * _ALIGNED
            if room := min(behind - offset, 4 * self.words[out] - behind) // 4:
                parts = [(out, offset), (out, behind)]
                self.random.shuffle(parts)
                return parts, room
        # What is written is otherwise no buffer that is read.
        others = [number for number in range(len(self.words)) if number != out]
        numbers = [self.random.choice(others) for _ in range(count - 1)] + [out]
        bound = [(number, self._offset(number)) for number in numbers]
        return bound, min(self.words[number] - offset // 4 for number, offset in bound)

    def _offset(self, number: int) -> int:
        """Bytes into a buffer at which an argument begins."""
        most = (4 * self.words[number] - 64) // _ALIGNED
        return (
            self.random.randint(0, most) * _ALIGNED
            if self.random.random() < (0.8 if self._beside else 0.2)
            else 0
        )


def _in_round(command: tuple[Any, ...], less: int) -> tuple[Any, ...]:
    """The command in a later round of a loop: launches of one dimension with `less` items, and a value of their own."""
    if command[0] != "launch" or len(command[4]) > 1 or not less:
        return command
    kind, name, bound, numbers, *rest = command
    values = tuple(
        [(*[seed + less & 0xFFFFFFFF for seed in seeds], max(n - less, 1)) for *seeds, n in numbers]
    )
    return (kind, name, bound, values, *rest)


def _extent(shape: tuple[int, int, int], pitches: tuple[int, int]) -> int:
    """Bytes from the first to the last of a box."""
    return (shape[0] - 1) * pitches[0] + (shape[1] - 1) * pitches[1] + shape[2]
