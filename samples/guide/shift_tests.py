"""Images in tests: an array serves as an image, and accesses to pixels outside it are reported."""

import numpy as np
import pytest

from vdev.harness import FindingsError, assert_equal, empty, sampler

SHIFT = """
kernel void shift(read_only image2d_t in, write_only image2d_t out, sampler_t s, int by) {
  int2 at = (int2)(get_global_id(0), get_global_id(1));
  write_imagef(out, at, read_imagef(in, s, at + (int2)(by, 0)));
}
"""


def test_shift(opencl_program):
    program = opencl_program(SHIFT)
    pixels = np.random.default_rng(1).random((8, 16, 4), dtype=np.float32)
    (out,) = program.shift(
        pixels, empty((8, 16, 4), np.float32), sampler("clamp_to_edge"), 1, global_size=(16, 8)
    )
    assert_equal(out, pixels[:, [*range(1, 16), 15]])


def test_nothing_is_said_of_pixels_outside_with_this_sampler(opencl_program):
    pixels = np.ones((8, 16, 4), np.float32)
    with pytest.raises(FindingsError, match="out-of-bounds in kernel shift, line 4"):
        opencl_program(SHIFT).shift(pixels, pixels, sampler("none"), 1, global_size=(16, 8))
