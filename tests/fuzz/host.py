"""The host part of a random program: buffers, what arguments are bound to, and the steps around the launches.

Decides which buffer an argument gets in which launch: what is written gets a buffer of its own, what is read any other
buffer, or the upper half of a written one, whose lower half alone is written. Contents change between launches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

from .prelude import Struct
from .program import (
    PADDING,
    Bound,
    Buffer,
    Copy,
    Fill,
    Given,
    ImageForm,
    Launch,
    LocalSize,
    Memory,
    Read,
    SamplerBits,
    Step,
    Write,
    WriteRows,
)
from .values import INT, IntType

#: bytes that a sub-buffer's offset is a multiple of, on every engine known
ALIGNMENT = 512
LAUNCHES = 10
#: CL_FLOAT
FLOAT = 0x10DE


@dataclass(frozen=True)
class Shape:
    """An index space."""

    size: tuple[int, ...]
    local: tuple[int, ...]
    offset: tuple[int, ...]

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(-(-n // m) for n, m in zip(self.size, self.local, strict=True))

    @property
    def items_in_group(self) -> int:
        return int(np.prod(self.local))


@dataclass(frozen=True)
class Role:
    """What an argument is for, and what the host part has to know of it."""

    kind: str
    t: IntType = INT
    n: int = 1
    lo: int = 0
    hi: int = 0
    nbytes: int = 0
    struct: Struct | None = None
    by_value: Struct | None = None  #: the argument is one
    image: ImageForm | None = None
    sampler: SamplerBits | None = None


class Host:
    """`capacity`: bytes of each argument. `items`: work-items at most, `power`: the next power of two."""

    def __init__(
        self,
        rng: random.Random,
        roles: list[Role],
        shapes: list[Shape],
        capacity: int,
        items: int,
        power: int,
        sweep: bool = False,
    ) -> None:
        self.rng, self.roles, self.shapes, self.sweep = rng, roles, shapes, sweep
        self.capacity, self.items, self.power = capacity, items, power
        self.bytes = np.random.default_rng(rng.randrange(1 << 30))
        self.buffers: list[Buffer] = []
        written = sum(role.kind in ("out", "acc", "scatter", "row") for role in roles)
        self.pool = [
            self.add(self.contents(self.size(), rng.randrange(3)))
            for _ in range(written + rng.choice([1, 1, 2]))
        ]
        self.perms = {r.t: self.add(self.permutation(r.t)) for r in roles if r.kind == "perm"}
        self.structs: dict[str, int] = {}
        for role in roles:
            if role.struct is not None:
                self.structs[role.kind] = self.add(*self.structures(role.struct))

        self.images = self._images([role for role in roles if role.image is not None])

    def add(self, content: Memory, padding: Memory | None = None, image: ImageForm | None = None) -> int:
        self.buffers.append(Buffer(content, padding, image))
        return len(self.buffers) - 1

    def _images(self, roles: list[Role]) -> list[int]:
        """One for each that a launch writes, and more."""
        count = sum(role.kind == "image out" for role in roles) + self.rng.choice([1, 1, 2]) if roles else 0
        return [self.add(self.pixels(roles[0].image), image=roles[0].image) for _ in range(count)]

    def pixels(self, form: ImageForm | None) -> Memory:
        """Any numbers; floating-point ones are small and whole."""
        assert form is not None
        if form.data_type == FLOAT:
            return self.bytes.integers(-100, 100, form.nbytes // 4).astype("<f4").view(np.uint8)
        return self.contents(form.nbytes, self.rng.randrange(3))

    def size(self) -> int:
        return self.capacity + ALIGNMENT * self.rng.choice([0, 0, 1, 2]) + self.rng.choice([0, 0, 1, 13])

    def contents(self, nbytes: int, kind: int) -> Memory:
        """Any bytes, small ones, or mostly zeros."""
        if kind == 0:
            return self.bytes.integers(0, 256, nbytes, np.uint8)
        if kind == 1:
            return self.bytes.integers(0, 5, nbytes, np.uint8)
        return (self.bytes.integers(0, 256, nbytes) * (self.bytes.random(nbytes) < 0.3)).astype(np.uint8)

    def permutation(self, t: IntType) -> Memory:
        return self.bytes.permutation(self.power).astype(t.code).view(np.uint8)

    def structures(self, struct: Struct) -> tuple[Memory, Memory]:
        """Random members; the padding is the same everywhere and for ever."""
        padding = np.tile(np.array(struct.padding(), np.uint8), self.items)
        content = self.contents(len(padding), self.rng.randrange(3))
        return np.where(padding == 1, np.uint8(PADDING), content).astype(np.uint8), padding

    # launches ---------------------------------------------------------------------------------------

    def write(self) -> tuple[list[Buffer], list[Step]]:
        rng = self.rng
        if self.sweep:
            return self.buffers, self.launches_alike()
        steps: list[Step] = []
        launches: list[Launch] = []
        for _ in range(LAUNCHES + rng.choice([0, 0, 0, 2])):
            if len(launches) < 3:
                launches.append(self.launch())
            steps.append(rng.choice(launches) if rng.random() < 0.6 else launches[-1])
            while rng.random() < 0.25:
                steps.append(self.between())
        return self.buffers, steps

    def launches_alike(self) -> list[Step]:
        """Launches that differ from the first in their numbers alone, which move on from launch to launch."""
        rng, base = self.rng, self.launch()
        steps: list[Step] = []
        jumps, others = rng.choice([0, 0, 0, 0.3]), rng.choice([0, 0, 0, 0.2])
        for count in range(LAUNCHES + 2):
            args = list(base.args)
            for number, role in enumerate(self.roles):
                if role.kind == "walk":
                    at = count if rng.random() >= jumps else rng.randrange(100)
                    args[number] = self.number(at * role.nbytes % (role.hi + 1), role)
                elif role.kind == "value" and rng.random() < others:
                    args[number] = self.numbers(role)
            shape = rng.choice(self.shapes) if rng.random() < others else self.shapes[0]
            base = replace(base, args=tuple(args), size=shape.size, offset=shape.offset)
            steps.append(base)
            if rng.random() < 0.1:
                steps.append(self.between())
        return steps

    def launch(self) -> Launch:
        rng, shape = self.rng, self.rng.choice(self.shapes)
        free = rng.sample(self.pool, len(self.pool))
        bound: dict[int, Given] = {}
        outs: list[Bound] = []
        images = rng.sample(self.images, len(self.images))
        for number, role in enumerate(self.roles):
            if role.kind == "image out":
                bound[number] = self.whole(images.pop())
        for number, role in enumerate(self.roles):
            if role.kind == "image in":
                bound[number] = self.whole(rng.choice(images))
            elif role.sampler is not None:
                bound[number] = role.sampler
        for number, role in enumerate(self.roles):
            if role.kind in ("out", "acc", "scatter", "row"):
                bound[number] = self.part(free.pop())
                if role.kind == "out":
                    outs.append(bound[number])  # type: ignore[arg-type]
        first_out = next((number for number, role in enumerate(self.roles) if role.kind == "out"), -1)
        shift = 0
        for number, role in enumerate(self.roles):
            if role.kind == "in":
                bound[number] = self.part(rng.choice(free))
            elif role.kind == "upper":
                of = rng.choice(outs) if outs and rng.random() < 0.6 else self.part(rng.choice(free))
                bound[number] = of
            elif role.kind == "alias":
                base = bound[self._named(first_out)]
                assert isinstance(base, Bound)
                shift = rng.randrange(0, base.offset // ALIGNMENT + 1) * ALIGNMENT
                bound[number] = Bound(base.buffer, base.offset - shift, base.nbytes + shift)
            elif role.kind == "perm":
                bound[number] = Bound(self.perms[role.t], 0, self.buffers[self.perms[role.t]].content.size)
            elif role.struct is not None:
                buffer = self.structs[role.kind]
                bound[number] = Bound(buffer, 0, self.buffers[buffer].content.size)
            elif role.kind == "local":
                bound[number] = LocalSize(role.nbytes)
        for number, role in enumerate(self.roles):
            if role.kind == "shift":
                bound[number] = self.number(shift, role)
            elif role.kind in ("value", "walk"):
                bound[number] = self.numbers(role)
        args = tuple(bound[number] for number in range(len(self.roles)))
        return Launch(0, args, shape.size, shape.local, shape.offset)

    def _named(self, first: int) -> int:
        """The argument `out0`: aliases are of the output that was declared first."""
        return next(
            (number for number, role in enumerate(self.roles) if role.kind == "out" and role.lo == 1), first
        )

    def numbers(self, role: Role) -> bytes:
        if role.by_value is not None:
            return self.contents(role.by_value.nbytes, self.rng.randrange(3)).tobytes()
        count = 4 if role.n == 3 else role.n
        return b"".join(self.number(self.value(role), role) for _ in range(count))

    def value(self, role: Role) -> int:
        ends = [role.lo, role.hi, min(max(1, role.lo), role.hi)]
        return self.rng.choice(
            [*ends, self.rng.randrange(role.lo, role.hi + 1), self.rng.randrange(role.lo, role.hi + 1)]
        )

    @staticmethod
    def number(value: int, role: Role) -> bytes:
        return (value % (1 << role.t.bits)).to_bytes(role.t.nbytes, "little")

    def whole(self, buffer: int) -> Bound:
        return Bound(buffer, 0, self.buffers[buffer].content.size)

    def part(self, buffer: int) -> Bound:
        """The whole buffer, or a sub-buffer."""
        size = self.buffers[buffer].content.size
        steps = (size - self.capacity) // ALIGNMENT
        if self.rng.random() < 0.5:
            return Bound(buffer, 0, size)
        offset = self.rng.randrange(steps + 1) * ALIGNMENT
        return Bound(buffer, offset, self.rng.choice([size - offset, self.capacity]))

    # between launches -------------------------------------------------------------------------------

    def between(self) -> Step:
        rng = self.rng
        if self.structs and rng.random() < 0.15:
            return self.write_structures()
        if self.images and rng.random() < 0.3:
            buffer = rng.choice(self.images)
            pixels = self.pixels(self.buffers[buffer].image)
            return Read(buffer, 0, pixels.size) if rng.random() < 0.4 else Write(buffer, 0, pixels.tobytes())
        if self.perms and rng.random() < 0.2:
            t, buffer = rng.choice(list(self.perms.items()))
            return Write(buffer, 0, self.permutation(t).tobytes())
        buffer = rng.choice(self.pool)
        size = self.buffers[buffer].content.size
        offset = rng.choice([0, rng.randrange(size)])
        nbytes = rng.randrange(1, size - offset + 1)
        kind = rng.randrange(6)
        if kind == 0:
            return Read(buffer, offset, nbytes)
        if kind == 1:
            width = rng.choice([1, 2, 4, 8, 16, 32, 64, 128])
            offset -= offset % width
            nbytes -= nbytes % width
            pattern = bytes(rng.randrange(256) for _ in range(width))
            return (
                Fill(buffer, offset, max(nbytes, width), pattern)
                if offset + width <= size
                else Read(buffer, 0, size)
            )
        if kind == 2 and size > 64:
            pitch = rng.randrange(8, 64)
            rows = min(rng.randrange(2, 9), (size - offset) // pitch)
            if rows >= 1:
                width = rng.randrange(1, pitch + 1)
                return WriteRows(
                    buffer,
                    offset,
                    rows,
                    width,
                    pitch,
                    self.contents(rows * width, rng.randrange(3)).tobytes(),
                )
        if kind == 3 and len(self.pool) > 1:
            target = rng.choice([b for b in self.pool if b != buffer])
            room = self.buffers[target].content.size
            start = rng.randrange(room)
            return Copy(buffer, target, offset, start, min(nbytes, room - start))
        return Write(buffer, offset, self.contents(nbytes, rng.randrange(3)).tobytes())

    def write_structures(self) -> Step:
        role = self.rng.choice([r for r in self.roles if r.struct is not None])
        assert role.struct is not None
        return Write(self.structs[role.kind], 0, self.structures(role.struct)[0].tobytes())
