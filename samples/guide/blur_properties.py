"""What blur.cl does with any row, as the guide shows it: `python -m pytest samples/guide/blur_properties.py`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdev.harness import assert_allclose, empty


@pytest.mark.opencl("blur.cl")
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_any_row(kernels, data):
    calls = kernels.blur.calls(
        {"in": lambda call: call.n},
        elements={"in": st.floats(-1000, 1000, width=32)},
        n=st.integers(1, 100),
        out=lambda call: empty(call.n, np.float32),
        global_size=128,
        local_size=st.sampled_from([16, 32, 64]),
    )
    call = data.draw(calls)
    (y,) = call.run()
    around = np.pad(np.float64(call["in"]), 1)
    assert_allclose(y, np.float32((around[:-2] + around[1:-1] + around[2:]) / 3), atol=1e-3)
