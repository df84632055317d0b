"""Words that mean the same in CUDA C++ only if something is done for them: what kernels compute with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from vdev.translators.dialects.cuda.translation import translate_cuda
from vdev.translators.frontend.source import parse_program

from .cuda_host import COMPILER, MISSING, HostProgram, aligned

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

#: Functions have other names in CUDA C++, and a constant that is declared `const` as well has the word twice.
SOURCE = """
constant static const uint table[] = {5, 6, 7};
static constant const int other = 8;
const constant uint third = 9;
int helper(int i) { return i < 0 ? 0 : __func__[i] * 100 + sizeof(__FUNCTION__); }
kernel void longer(global int *out) {
  constant const char *name = __func__;
  out[0] = name[0];
  out[1] = sizeof(__func__);
  out[2] = __FUNCTION__[5];
  out[3] = helper(2);
  out[4] = table[2] + other + third;
}
"""


def test_what_words_stand_for(tmp_path: Path) -> None:
    out = aligned(np.zeros(5, np.int32))
    HostProgram(translate_cuda(parse_program(SOURCE)), tmp_path).run("longer", [out], (1,), (1,))
    assert out.tolist() == [ord("l"), 7, ord("r"), ord("l") * 100 + 7, 24]
