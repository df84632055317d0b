"""Tests of blur.cl, as the guide shows them: `python -m pytest samples/guide/blur_tests.py`."""

import numpy as np
import pytest

from vdev.harness import assert_allclose, empty


@pytest.mark.opencl("blur.cl", local_sizes=[16, 64])
def test_blur(kernels):
    x = np.random.default_rng(1).random(1000, dtype=np.float32)
    (y,) = kernels.blur(empty(1000, np.float32), x, 1000, global_size=1024)
    around = np.pad(x, 1)
    assert_allclose(y, (around[:-2] + around[1:-1] + around[2:]) / np.float32(3), ulp=8)
