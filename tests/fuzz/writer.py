"""Random programs: a kernel, its arguments, and what its host part does.

Decides how work-items are numbered, which arguments there are and what each is for, so that no launch has a race: a
work-item writes blocks of its own, or the value that all write, or by atomics that commute; what it reads elsewhere
nobody writes in that launch.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

import numpy as np

from .arguments import FIRST, Arguments, Features
from .host import Host, Role
from .images import Images
from .prelude import OPTIONS, RARE_OPTIONS
from .program import Arg, Batch, Kernel, Program, Stmt
from .values import (
    INT,
    INTS,
    LONG,
    UCHAR,
    UINT,
    ULONG,
    USHORT,
    Ex,
    cast,
    constant,
)


@dataclass
class Draft(Arguments):
    """A program on its way, with the kernel that its arguments are for. `observed`: what the kernel ends with storing."""

    observed: list[Ex] = field(default_factory=list)

    def number(self) -> list[Stmt]:
        """`me`: different in every work-item, in [0, items)."""
        rng, shapes = self.rng, self.shapes
        dims = len(shapes[0].size)
        offset = any(any(s.offset) for s in shapes)
        place = [
            f"get_global_id({d})" + (f" - get_global_offset({d})" if offset else "") for d in range(dims)
        ]
        if (
            rng.random() < 0.3
        ):  # within a group, also from its other end: a partial group's is not where others have it
            within = rng.choice(["get_local_id({0})", "(get_local_size({0}) - 1 - get_local_id({0}))"])
            place = [
                f"get_group_id({d}) * get_enqueued_local_size({d}) + {within.format(d)}" for d in range(dims)
            ]
        width, height = (max(s.size[d] for s in shapes) for d in (0, min(1, dims - 1)))
        if dims == 1:
            text, items = rng.choice(
                [(place[0], width), ("get_global_linear_id()", width), (f"{width - 1} - ({place[0]})", width)]
            )
            if offset and rng.random() < 0.4:
                text, items = "get_global_id(0)", max(s.size[0] + s.offset[0] for s in shapes)
        else:
            depth = max(s.size[2] for s in shapes) if dims == 3 else 1
            items = width * height * depth
            x, y, z = f"({place[0]})", f"({place[1]})", f"({place[2]})" if dims == 3 else "0"
            row = rng.choice([str(width), "get_global_size(0)"])
            column = rng.choice([str(height), "get_global_size(1)"])
            text = rng.choice(
                [f"({z} * {column} + {y}) * {row} + {x}", f"({z} * {row} + {x}) * {column} + {y}",
                 f"mad24((int)({z} * {column} + {y}), (int){row}, (int){x})"]
            )  # fmt: skip
            if rng.random() < 0.2:
                text = "get_global_linear_id()"
            elif dims == 3:
                text = f"({z} * {column} + {y}) * {row} + {x}"
        power = 1 << (items - 1).bit_length()
        roll = rng.random()
        if items > 200 and rng.random() < 0.8:
            roll = 1.0  # rows of many work-items in another order are as many regions: that takes seconds
        if roll < 0.08:
            text, items = (
                f"((uint)({text}) * {rng.choice([3, 5, 7])}u + {rng.randrange(9)}u) & {power - 1}",
                power,
            )
        elif roll < 0.16:
            text, items = f"((uint)({text})) ^ {rng.randrange(power)}u", power
        elif roll < 0.24:
            text, items = f"{power - 1} - (int)({text})", power
        elif roll < 0.32 and power >= 4:
            text, items = f"((uint)({text}) % 4) * {power // 4} + (uint)({text}) / 4", power
        elif roll < 0.44 and power >= 4:
            text, items = f"({self.by_bits(f'(uint)({text})', power)})", power
        types = [t for t in (INT, INT, UINT, UINT, LONG, ULONG, USHORT, INTS[2], UCHAR) if t.hi >= items - 1]
        t = rng.choice(types)
        self.items, self.power, self.me_type = items, 1 << (items - 1).bit_length(), t
        self.number_text = f"({t.name})({text})"
        return [Stmt(f"const {t.name} me = {self.number_text};")]

    def by_bits(self, number: str, power: int) -> str:
        """The numbers below `power` in another order, by their bits: a Gray code, turned round, or from the last bit to the first."""
        bits = power.bit_length() - 1
        by = self.rng.randrange(1, bits)
        self.prelude.forms.add("numbers by their bits")
        return self.rng.choice([
            f"{number} ^ ({number} >> {by})",
            f"({number} << {by} | {number} >> {bits - by}) & {power - 1}u",
            " | ".join(f"({number} >> {bit} & 1u) << {bits - 1 - bit}" for bit in range(bits)),
        ])  # fmt: skip

    def stride_loop(self, inner: list[Stmt]) -> list[Stmt]:
        """The body for every `me` of `total`, dealt to the work-items in one way or another (one dimension)."""
        rng, t = self.rng, self.me_type
        one, n = t.name, f"({t.name})total"
        gid, step = f"({one})(get_global_id(0) - get_global_offset(0))", f"({one})get_global_size(0)"
        self.prelude.forms.add("grid-stride loop")
        kind = rng.randrange(6)
        if kind == 0:
            return [Stmt(f"for ({one} me = {gid}; me < {n}; me += {step}) {{", inner, "}")]
        if kind == 1:
            head = f"const {one} per = ({n} + {step} - 1) / {step};"
            return [
                Stmt(head),
                Stmt(f"for ({one} me = {gid} * per; me < min({n}, ({gid} + 1) * per); ++me) {{", inner, "}"),
            ]
        if kind == 2:
            first = f"({one})(get_enqueued_local_size(0) * get_group_id(0) + get_local_id(0))"
            return [Stmt(f"for ({one} me = {first}; me < {n}; me += {step}) {{", inner, "}")]
        if kind == 3 and t.signed:
            return [Stmt(f"for ({one} me = {n} - 1 - {gid}; me >= 0; me -= {step}) {{", inner, "}")]
        if kind == 4:
            inner = [
                Stmt(
                    f"const {one} me = block * ({one})get_enqueued_local_size(0) + ({one})get_local_id(0);\nif (me >= {n}) continue;"
                ),
                *inner,
            ]
            group, groups, local = (
                f"({one})get_{what}(0)" for what in ("group_id", "num_groups", "local_size")
            )
            head = f"for ({one} block = {group}; block * {local} < {n}; block += {groups}) {{"
            return [Stmt(head, inner, "}")]
        lines = [*inner]
        if any("continue" in line for s in inner for line in s.lines()):
            return [Stmt(f"for ({one} me = {gid}; me < {n}; me += {step}) {{", inner, "}")]
        return [
            Stmt(f"{one} me = {gid};"),
            Stmt(f"while (me < {n}) {{", [*lines, Stmt(f"me += {step};", droppable=False)], "}"),
        ]

    def tiles(self) -> list[Stmt]:
        """Values that a work-group exchanges through local memory."""
        rng, e = self.rng, self.expressions
        t = rng.choice(INTS)
        most = max(s.items_in_group for s in self.shapes)
        dims = len(self.shapes[0].size)
        self.prelude.forms.add("local memory")
        lines: list[Stmt] = []
        size = " * ".join(f"get_local_size({d})" for d in range(dims))
        linear = "get_local_id(0)"
        for d in range(1, dims):
            inner = " * ".join(f"get_local_size({x})" for x in range(d))
            linear += f" + {inner} * get_local_id({d})"
        name = "tile"
        if rng.random() < 0.5:
            self.add(Arg("local", f"local {t.name} *tile"), Role("local", nbytes=most * t.nbytes))
        else:
            lines.append(Stmt(f"local {t.name} tile[{most}];"))
        lines.append(Stmt(f"const uint within = {linear}, nwithin = {size};"))
        lines.append(
            Stmt(
                f"tile[within] = {cast(t, e.scalar(2)).text};\nbarrier(CLK_LOCAL_MEM_FENCE);", droppable=False
            )
        )
        for number in range(rng.randrange(1, 3)):
            at = cast(UINT, e.scalar(1))
            leaf = f"near{number}"
            place = rng.choice(
                [
                    f"{at.text} % nwithin",
                    f"(within + {rng.randrange(1, 5)}) % nwithin",
                    "nwithin - 1 - within",
                ]
            )
            lines.append(Stmt(f"const {t.name} {leaf} = {name}[{place}];"))
            self.scope.leaves.append(Ex(leaf, t, t.lo, t.hi))
        if rng.random() < 0.3:
            lines += self.group_copy()
        if rng.random() < 0.3:
            lines += self.local_cells()
        if rng.random() < 0.3 and not self.features.plain:
            lines += self.group_functions()
        if rng.random() < 0.5:
            lines.append(
                Stmt(
                    f"{t.name} sum = 0;\nbarrier(CLK_LOCAL_MEM_FENCE);\ntile[within] = {cast(t, e.scalar(1)).text};\n"
                    f"barrier(CLK_LOCAL_MEM_FENCE);\nfor (uint s = 0; s < nwithin; ++s) sum ^= tile[s];",
                )
            )
            self.scope.leaves.append(Ex("sum", t, t.lo, t.hi))
        return lines

    def group_copy(self) -> list[Stmt]:
        """What a work-group copies to its local memory together, in steps or in a row."""
        rng, e = self.rng, self.expressions
        found = [m for m in self.scope.memories if not m.base and m.space == "global" and m.n in (1, 2, 4)]
        if not found:
            return []
        memory, count, stride = rng.choice(found), rng.choice([1, 3, 4, 8]), rng.choice([1, 1, 2, 3])
        room = memory.count - (count - 1) * stride
        if room < 1:
            return []
        with e.only_uniform():
            e.loads = False
            at = e.index(min(room, 64), 1).text
            e.loads = True
        first = f" + {memory.first}" if memory.first else ""
        source = f"(const global {memory.element} *)({memory.name}{first} + {at})"
        how = f"async_work_group_strided_copy(apart, {source}, {count}, {stride}, 0)"
        if stride == 1 and rng.random() < 0.7:
            how = f"async_work_group_copy(apart, {source}, {count}, 0)"
        part = "" if memory.n == 1 else f".s{rng.randrange(memory.n):x}"
        leaf = Ex(f"apart[{rng.randrange(count)}]{part}", memory.t, memory.t.lo, memory.t.hi)
        self.scope.leaves.append(leaf)
        self.prelude.forms.add("copy of a group")
        text = (
            f"local {memory.element} apart[{count}];\nevent_t copied = {how};\nwait_group_events(1, &copied);"
        )
        return [Stmt(text)]

    def group_rows(self) -> list[Stmt]:
        """Each work-group copies a row of its own from a buffer, or to one, in steps: nothing else is read or written there, so
        that each element counts.
        """
        rng, t = self.rng, self.rng.choice(INTS)
        groups = max(int(np.prod(shape.groups)) for shape in self.shapes)
        count, stride = rng.choice([2, 3, 4, 5, 8]), rng.choice([1, 2, 2, 3, 4])
        row = (count - 1) * stride + rng.choice([1, 1, 2, 4])
        if groups * row * t.nbytes > self.capacity:
            return []
        self.prelude.forms.add("rows of groups")
        near, event = self.statements.fresh("rows"), self.statements.fresh("ev")
        group = "get_group_id(0)"
        for d in range(1, len(self.shapes[0].size)):
            inner = " * ".join(f"get_num_groups({x})" for x in range(d))
            group += f" + {inner} * get_group_id({d})"
        lines = [f"local {t.name} {near}[{count}];"]
        if rng.random() < 0.5:
            self.add(Arg("buffer", f"global const {t.name} *gin"), Role("in"))
            ends = f"{near}, gin + ({group}) * {row}"
            one, other = rng.sample(range(count), 2)
            self.observed.append(Ex(f"({near}[{one}] ^ {near}[{other}])", t, t.lo, t.hi))
        else:
            self.add(Arg("buffer", f"global {t.name} *gout"), Role("row"))
            ends = f"gout + ({group}) * {row}, (const local {t.name} *){near}"
            value = f"({t.name})(({group}) * 7 + k * 3 + {rng.randrange(50)})"
            first = " + ".join(f"get_local_id({d})" for d in range(len(self.shapes[0].size)))
            lines.append(f"if ({first} == 0) for (int k = 0; k < {count}; ++k) {near}[k] = {value};")
            lines.append("barrier(CLK_LOCAL_MEM_FENCE);")
        how = f"async_work_group_strided_copy({ends}, {count}, {stride}, 0)"
        if stride == 1:
            how = f"async_work_group_copy({ends}, {count}, 0)"
        lines.append(f"event_t {event} = {how};\nwait_group_events(1, &{event});")
        return [Stmt("\n".join(lines), droppable=False)]

    def group_functions(self) -> list[Stmt]:
        """What a work-group finds out together by functions of OpenCL C 2.0: sums that wrap, extremes, one work-item's number."""
        rng, e, t = self.rng, self.expressions, self.rng.choice([UINT, UINT, ULONG])
        lines = []
        for _ in range(rng.randrange(1, 3)):
            value, name = cast(t, e.scalar(1)).text, self.statements.fresh("all")
            how = rng.choice(["reduce", "scan_inclusive", "scan_exclusive"])
            call = f"work_group_{how}_{rng.choice(['add', 'min', 'max'])}({value})"
            if rng.random() < 0.3:
                places = ", ".join("0" for _ in self.shapes[0].size)
                call = f"work_group_broadcast({value}, {places})"
            elif rng.random() < 0.3:
                call = f"({t.name})work_group_{rng.choice(['any', 'all'])}({cast(INT, e.scalar(1)).text})"
            lines.append(Stmt(f"const {t.name} {name} = {call};", droppable=False))
            self.scope.leaves.append(Ex(name, t, t.lo, t.hi))
        self.prelude.forms.add("functions of a group")
        return lines

    def local_cells(self) -> list[Stmt]:
        """Atomics on local memory that commute."""
        rng, e, t = self.rng, self.expressions, self.rng.choice([INT, UINT])
        op = rng.choice(["add", "or", "xor", "and", "min", "max"])
        text = (
            f"local {t.name} cells[4];\n"
            f"if (within == 0) for (int k = 0; k < 4; ++k) cells[k] = k * 3;\nbarrier(CLK_LOCAL_MEM_FENCE);\n"
            f"atomic_{op}(&cells[{e.index(4, 1).text}], {cast(t, e.scalar(1)).text});\nbarrier(CLK_LOCAL_MEM_FENCE);"
        )
        self.scope.leaves.append(Ex(f"cells[{rng.randrange(4)}]", t, t.lo, t.hi))
        self.prelude.forms.add("local atomics")
        return [Stmt(text)]

    def write(self) -> Program:
        rng, s = self.rng, self.statements
        start = self.number()
        style = rng.choices(["plain", "stride", "group"], [6, 2, 1])[0]
        if self.light or (len(self.shapes[0].size) > 1 and style == "stride"):
            style = "plain"
        t = self.me_type
        if style == "stride":
            self.items = rng.randrange(1, 2 * self.items)
            self.power = 1 << (self.items - 1).bit_length()
            self.add(Arg("value", "const int total"), Role("value", t=INT, lo=0, hi=self.items))
            self.scope.leaves.append(Ex("total", INT, 0, self.items, uniform=True))
            start, self.me_type = [], rng.choice([INT, UINT, LONG, ULONG])
        self.capacity = max(2 * 64 * self.items, 512, 8 * 40 + 8 * self.items, 16 * self.power)
        if self.sweep:
            self.capacity += 64 * FIRST
        self.capacity = -(-self.capacity // 128) * 128
        self.scalars()
        self.work_item_functions()
        self.inputs()
        self.outputs()
        if rng.random() < 0.15 and not self.sweep:
            self.alias()
        for make, chance in (
            (self.accumulators, 0.35),
            (self.scatter, 0.2),
            (self.structures, 0.2),
            (self.helper_store, 0.3),
        ):
            if self.light:
                chance = float(make == self.structures)
            if self.sweep:  # each launch is planned anew
                chance /= 4
            if rng.random() < chance and not (
                make == self.scatter and "place from data" in self.features.skip
            ):
                make()
        if self.images and rng.random() < 0.7:
            Images(self).write()
        body = [*start]
        memories, owns = [m for m in self.scope.memories if m.base], s.owns
        self.scope.memories = [m for m in self.scope.memories if not m.base]  # until `me` is known
        early = [e for e in self.scope.leaves if style != "plain" and re.search(r"\bme\b", e.text)]
        self.scope.leaves = [e for e in self.scope.leaves if e not in early]
        if style == "plain":
            self.scope.leaves.append(Ex("me", t, 0, self.items - 1))
        if not self.light and rng.random() < 0.25:
            body += self.tiles()
        if not self.light and rng.random() < 0.12:
            body += self.group_rows()
        if style == "plain" and not self.light and rng.random() < 0.25:
            n = constant(rng.randrange(1, self.items + 1))
            known = [e for e in self.scope.leaves if e.uniform and e.n == 1 and e.hi < 1 << 30 and e.lo >= 0]
            n = rng.choice([n, *known])
            body.append(Stmt(f"if (me >= {cast(t, n).text}) return;"))
        self.scope.memories += memories
        self.scope.leaves += early
        s.owns = owns
        if style == "stride":
            s.in_loop, s.may_return = True, False
            before = len(self.scope.leaves)
            self.scope.leaves.append(Ex("me", self.me_type, 0, self.items - 1))
            inner = self.main_block()
            del self.scope.leaves[before:]
            body += self.stride_loop(inner)
        elif style == "group":
            body = self.per_group(body)
        else:
            s.may_return = True
            body += self.main_block()
        return self.finish(body)

    def per_group(self, body: list[Stmt]) -> list[Stmt]:
        """One work-item of each group writes, to the group's own block."""
        dims = len(self.shapes[0].size)
        text = "get_group_id(0)"
        if dims > 1:
            plane = (
                "(get_group_id(2) * get_num_groups(1) + get_group_id(1))" if dims == 3 else "get_group_id(1)"
            )
            text = f"({plane} * get_num_groups(0) + get_group_id(0))"
        first = " && ".join(f"get_local_id({d}) == 0" for d in range(dims))
        self.prelude.forms.add("result of a group")
        start = [line for line in body if not line.text.startswith(f"const {self.me_type.name} me =")]
        head = Stmt(f"const {self.me_type.name} me = ({self.me_type.name}){text};")
        self.scope.leaves = [e for e in self.scope.leaves if e.text != "me"] + [
            Ex("me", self.me_type, 0, self.items - 1)
        ]
        self.statements.may_return = True
        return [head, *start, Stmt(f"if ({first}) {{", self.main_block(), "}")]

    def main_block(self) -> list[Stmt]:
        s, rng = self.statements, self.rng
        found: list[Stmt] = []
        if self.light:
            for _ in range(rng.randrange(1, 4)):
                found += rng.choice(s.extra)()
            return found
        for extra in s.extra[-1:]:
            found += extra()
        most = 2 if s.rows else 4
        if s.rows and rng.random() < 0.5:
            found += s.probed()
        found += s.block(rng.randrange(1, most), 2)
        while s.rows:
            found += s.probed()
        if self.sweep:
            return found + s.store()
        if rng.random() < 0.7:
            found += s.idiom()
        for extra in rng.sample(s.extra, min(2, len(s.extra))):
            found += extra()
        found += s.store()
        for number, value in enumerate([*self.prelude.chosen, *self.observed]):
            own = s.owns[number % len(s.owns)]
            if own.n == 1:
                found.append(Stmt(f"{own.name}[{own.base(s.me)}] = {cast(own.t, value).text};"))
        return found

    def finish(self, body: list[Stmt]) -> Program:
        rng = self.rng
        order = list(range(len(self.args)))
        rng.shuffle(order)
        args, roles = [self.args[i] for i in order], [self.roles[i] for i in order]
        kernel = Kernel(f"{self.name}", args, body, braces=("<%", "%>") if self.odd else ("{", "}"))
        host = Host(rng, roles, self.shapes, self.capacity, self.items, self.power, self.sweep)
        buffers, steps = host.write()
        forms = self.prelude.forms | self.statements.forms
        return Program(self.name, self.prelude.statements, [kernel], buffers, steps, forms)


#: touches every byte of a buffer, cut in another way than most kernels
STIR = """
kernel void stir(global uchar *bytes, uint count, uint step) {
    uint i = get_global_id(0);
    if (i * step < count) bytes[i * step] ^= (uchar)(i + 1);
}
"""


def random_batch(seed: int, number: int, size: int, features: Features) -> Batch:
    """The batch with that number of the run with that seed."""
    rng = random.Random(f"{seed}:{number}")
    # Unoptimised mostly: that compiles three times as fast, and Intel's optimiser (2026.2) ends the process or computes
    # something else now and then. Padding of structures is a matter of optimised code alone.
    options = ["-cl-std=CL3.0", "-cl-opt-disable", "-w", *OPTIONS]
    head = "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable\n"
    programs = []
    rare = number % 12 == 9 and not features.plain
    if rare:
        options += [option for option in RARE_OPTIONS if rng.random() < 0.5]
    light = number % 12 == 5 and not features.plain
    # Launches of NVIDIA's unoptimised code end in OUT_OF_RESOURCES now and then, and few programs a second are compiled.
    if light or features.plain:
        options.remove("-cl-opt-disable")
    odd = number % 16 == 12 and not features.plain
    images = number % 6 == 2 and not features.plain
    for index in range(size):
        alternatives = index == number % size and not features.plain
        programs.append(Draft(rng, f"p{index}", features, rare, alternatives, light, odd, images).write())
    return Batch(number, seed, tuple(options), head + STIR, programs)


__all__ = ["Features", "random_batch"]
