"""Private variables of checked kernels, whose records of what was set are declared beside them."""

from __future__ import annotations

import re

from vdev.translators.dialects.checked import translate_checked
from vdev.translators.frontend.source import parse_program

PAIRS = 30


def test_what_a_variable_is_copied_from_has_its_record_first() -> None:
    """libclang's cursors have no order of their own: by chance, not one of many pairs would be the wrong way round."""
    pairs = "".join(
        f"    int a{n}; if (in[{n}] > 0) a{n} = in[{n}];\n    int b{n} = a{n}; if (in[{n}] > 1) b{n} += 1; out[{n}] = b{n};\n"
        for n in range(PAIRS)
    )
    source = f"kernel void k(global int *out, global const int *in) {{\n{pairs}}}\n"
    text = translate_checked(parse_program(source)).source
    declared = [int(number) for number in re.findall(r"uchar \w*w_(\d+)\[1\];", text)]
    assert len(declared) == 2 * PAIRS
    assert declared == sorted(declared)
