"""Images of random programs: what kernels read of them, and the pixels of its own that each work-item writes.

Decides kinds, formats, samplers and coordinates, such that the specification says to the last bit what is read: whole numbers, of the
pixel that is nearest, where coordinates lie in the middle of pixels (OpenCL 3.0, 8.2 and 8.3).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from .host import Role
from .program import KINDS, Arg, ImageForm, SamplerBits, Stmt
from .values import CHAR, INT, SHORT, UCHAR, UINT, USHORT, Ex, IntType, cast

if TYPE_CHECKING:
    from .writer import Draft

#: by CL_ channel type: what a channel holds, and the letters of the functions that read and write it
CHANNELS: dict[int, tuple[IntType, str]] = {
    0x10D2: (UCHAR, "f"), 0x10D7: (CHAR, "i"), 0x10D8: (SHORT, "i"), 0x10D9: (INT, "i"), 0x10DA: (UCHAR, "ui"),
    0x10DB: (USHORT, "ui"), 0x10DC: (UINT, "ui"), 0x10DE: (CHAR, "f"),
}  # fmt: skip
#: CL_R, CL_A, CL_RG, CL_RA, CL_RGBA
ORDERS = (0x10B0, 0x10B1, 0x10B2, 0x10B3, 0x10B5)
UNORM_INT8 = 0x10D2
VECTORS = {"f": "float4", "i": "int4", "ui": "uint4"}
NUMBERS = {"f": "float", "i": "int", "ui": "uint"}
#: OpenCL C's constants of a sampler, by what `SamplerBits` has; and those for coordinates from 0 to 1 alone
ADDRESSING = {0x1130: "NONE", 0x1131: "CLAMP_TO_EDGE", 0x1132: "CLAMP", 0x1133: "REPEAT", 0x1134: "MIRRORED_REPEAT"}  # fmt: skip
NORMALISED_ALONE = (0x1133, 0x1134)


def random_form(rng: random.Random, pixels: int, each: int) -> ImageForm:
    """One with so many pixels at least; now and then rows are the `each` of one work-item."""
    kind = rng.choice([*KINDS, "image2d_t", "image2d_t"])
    naxes = len(KINDS[kind].axes)
    sizes = [rng.choice([each, 3, 4, 5, 7, 8, 13, 16, 32]) for _ in range(naxes - 1)]
    if KINDS[kind].axes[-1] == "array_size":
        sizes = [max(size, 3) for size in sizes]  # there are no more than 2048 layers
    inner = 1
    for size in sizes:
        inner *= size
    sizes.append(max(-(-pixels // inner) + rng.choice([0, 0, 1]), 1))
    return ImageForm(kind, tuple(sizes), rng.choice(ORDERS), rng.choice([*CHANNELS]))


class Images:
    """Those of one program: all of one form, so that what a launch has written is read in others."""

    def __init__(self, draft: Draft) -> None:
        rng = self.rng = draft.rng
        self.draft = draft
        self.each = rng.choice([1, 1, 2, 3])  #: pixels of a work-item
        self.form = random_form(rng, draft.items * self.each, self.each)
        self.t, self.letters = CHANNELS[self.form.data_type]

    def write(self) -> None:
        rng, draft = self.rng, self.draft
        draft.prelude.forms.add("images")
        self._add("write_only", "wim", "image out")
        draft.statements.extra += [self._store, self._store]
        for number in range(rng.choice([1, 1, 2])):
            name = f"im{number}"
            self._add("read_only", name, "image in")
            for _ in range(rng.randrange(1, 4)):
                self._leaf(name)
            self._queries(name)
        if rng.random() < 0.3:
            draft.prelude.forms.add("images that are read and written")
            self._add("read_write", "rim", "image out")
            draft.statements.extra.append(self._change)

    def _add(self, access: str, name: str, role: str) -> None:
        access = self.rng.choice([access, f"__{access}"])
        self.draft.add(Arg("image", f"{access} {self.form.kind} {name}"), Role(role, image=self.form))

    # coordinates ------------------------------------------------------------------------------------

    def _own(self, me: str, slot: str) -> list[str]:
        """Those of one of a work-item's own pixels."""
        sizes = self.form.sizes
        if len(sizes) > 1 and sizes[0] == self.each and len(sizes) == 2:
            return [f"(int)({slot})", f"(int)({me})"]
        number, inner, found = f"((int)({me}) * {self.each} + (int)({slot}))", 1, []
        for size in sizes[:-1]:
            found.append(f"{number} / {inner} % {size}" if inner > 1 else f"{number} % {size}")
            inner *= size
        return [*found, f"{number} / {inner}"]

    def _anywhere(self, beyond: int) -> list[str]:
        """Any pixel's, or so many pixels beyond the edges at most."""
        e = self.draft.expressions
        found = [f"(int)({e.index(size + 2 * beyond, 1).text})" for size in self.form.sizes]
        return [f"{one} - {beyond}" for one in found] if beyond else found

    def _vector(self, axes: list[str], of: str = "int") -> str:
        """As the built-in functions take them."""
        if len(axes) == 1:
            return f"({of})({axes[0]})"
        return f"({of}2)({', '.join(axes)})" if len(axes) == 2 else f"({of}4)({', '.join(axes)}, 0)"

    # reading ----------------------------------------------------------------------------------------

    def _leaf(self, name: str) -> None:
        """One component of a pixel, as an expression."""
        rng = self.rng
        sampler, bits = self._sampler() if rng.random() < 0.7 else ("", None)
        beyond = 0 if bits is None or ADDRESSING[bits.addressing] == "NONE" else rng.choice([0, 2, 2])
        axes = self._anywhere(beyond)
        if rng.random() < 0.5:
            axes = self._own("me", str(rng.randrange(self.each)))
            if beyond:
                axes = [f"{axis} + {rng.randrange(-beyond, beyond + 1)}" for axis in axes]
        where = self._vector(axes)
        if bits is not None and (bits.normalized or rng.random() < 0.4):
            where = self._vector(self._in_the_middle(axes, bits), "float")
        text = f"read_image{self.letters}({name}, {sampler}{where}).{rng.choice('xyzw')}"
        if self.letters == "f":
            text = (
                f"convert_int_rte({text} * 255.0f)" if self.form.data_type == UNORM_INT8 else f"(int){text}"
            )
            text = f"({text})"
        self.draft.scope.leaves.append(
            Ex(text, UINT if self.letters == "ui" else INT, min(self.t.lo, 0), self.t.hi)
        )

    def _in_the_middle(self, axes: list[str], bits: SamplerBits) -> list[str]:
        """Coordinates of pixels' middles; layers are counted."""
        found = []
        for axis, size, name in zip(axes, self.form.sizes, KINDS[self.form.kind].axes, strict=True):
            middle = f"(float)({axis})" if name == "array_size" else f"((float)({axis}) + 0.5f)"
            found.append(f"{middle} / {size}.0f" if bits.normalized and name != "array_size" else middle)
        return found

    def _sampler(self) -> tuple[str, SamplerBits]:
        """Its text as an argument: of the kernel's, or a constant."""
        rng, draft = self.rng, self.draft
        normalized = rng.random() < 0.3
        addressing = rng.choice([one for one in ADDRESSING if normalized or one not in NORMALISED_ALONE])
        bits, name = SamplerBits(normalized, addressing), draft.prelude.fresh("smp")
        if rng.random() < 0.4:
            draft.add(Arg("sampler", f"sampler_t {name}"), Role("sampler", sampler=bits))
        else:
            way = "TRUE" if normalized else "FALSE"
            value = f"CLK_NORMALIZED_COORDS_{way} | CLK_ADDRESS_{ADDRESSING[addressing]} | CLK_FILTER_NEAREST"
            draft.prelude.declare(f"constant sampler_t {name} = {value};")
        return f"{name}, ", bits

    def _queries(self, name: str) -> None:
        """What an image says of itself, which is the same for all work-items."""
        form, rng = self.form, self.rng
        known = {
            f"get_image_{axis}": size for axis, size in zip(KINDS[form.kind].axes, form.sizes, strict=True)
        }
        known |= {"get_image_channel_order": form.order, "get_image_channel_data_type": form.data_type}
        for function, value in known.items():
            if rng.random() < 0.3:
                leaf = Ex(f"((int){function}({name}))", INT, value, value, uniform=True)
                self.draft.scope.leaves.append(leaf)

    # writing ----------------------------------------------------------------------------------------

    def _place(self) -> str:
        draft = self.draft
        slot = draft.expressions.index(self.each, 1).text
        return self._vector(self._own(draft.statements.me, slot))

    def _value(self) -> str:
        e = self.draft.expressions
        found = []
        for _ in range(4):
            wide = self.rng.random() < 0.2 and self.letters != "f"  # brought into the channel's range (8.3.4)
            t = (UINT if self.letters == "ui" else INT) if wide else self.t
            text = f"({NUMBERS[self.letters]})({cast(t, e.scalar(1)).text})"
            found.append(f"{text} / 255.0f" if self.form.data_type == UNORM_INT8 else text)
        return f"({VECTORS[self.letters]})({', '.join(found)})"

    def _store(self) -> list[Stmt]:
        text = f"write_image{self.letters}(wim, {self._place()}, {self._value()});"
        return [
            Stmt(text if self.rng.random() < 0.6 else f"if ({self.draft.expressions.scalar(2).text}) {text}")
        ]

    def _change(self) -> list[Stmt]:
        """A pixel that becomes what it was in another order, or something else. The fence: it may be read again (6.13.14.3)."""
        draft = self.draft
        at, was = draft.statements.fresh("at"), draft.statements.fresh("was")
        of = {1: "int", 2: "int2", 3: "int4"}[len(self.form.sizes)]
        new = self.rng.choice(
            [f"{was}.wzyx", f"{draft.expressions.index(2, 1).text} ? {was}.yxwz : {self._value()}"]
        )
        if self.letters != "f":
            new = self.rng.choice([new, f"{was} ^ {self._value()}"])
        return [
            Stmt(
                f"{{ const {of} {at} = {self._place()}; const {VECTORS[self.letters]} {was} = read_image{self.letters}(rim, {at});\n"
                f"write_image{self.letters}(rim, {at}, {new});\n"
                "atomic_work_item_fence(CLK_IMAGE_MEM_FENCE, memory_order_acq_rel, memory_scope_work_item); }"
            )
        ]
