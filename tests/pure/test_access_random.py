"""Analysed ranges against brute force: supersets always, equal where they say so.

FUZZ_KERNELS sets the number of kernels (300); `python -m tests.pure.long_run` is the long run.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vdev.translators.frontend.source import parse_program
from vdev.translators.interpreter.access import analyse_kernel
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import NDRange, whole_chunk
from vdev.translators.ranges.region import Region

from .fuzzing import Mismatch, compare, one_round
from .kernels import Generator
from .oracle import Trace, touched

KERNELS = int(os.environ.get("FUZZ_KERNELS", "300"))


@settings(max_examples=KERNELS, deadline=None)
@given(st.randoms(use_true_random=False))
def test_ranges_contain_what_brute_force_touches(rng: random.Random) -> None:
    one_round(rng)


def test_random_kernels_cover_the_forms() -> None:
    seen: Counter[str] = Counter()
    for seed in range(400):
        seen.update(Generator(random.Random(seed), 1 + seed % 3).write().forms)
    names = """quotient bits min/max ?: indirect struct swizzle vload atomic pointer helper return break
    continue switch local_memory private_array vector_arithmetic pointer_cast for_loop grid_loop down_loop
    while_loop do_loop not_equal_loop halving_loop endless_loop pointer_loop loop_with_loaded_bounds
    async_copy constant_table volatile side_effects statement_expression"""
    wanted = [name.replace("_", " ") for name in names.split()]
    assert all(seen[name] for name in wanted), [name for name in wanted if not seen[name]]


def test_most_ranges_of_random_kernels_are_exact() -> None:
    counts: Counter[str] = Counter()
    for seed in range(200):
        counts += one_round(random.Random(seed))
    assert counts["exact"] > 2 * counts["inexact"]


@pytest.mark.parametrize("fault", ["missing", "too much", "not exact"])
def test_oracle_notices(fault: str) -> None:
    """The comparison itself: a range that is too small, or exact and too large, must not pass."""
    ndrange = NDRange((8,), (4,), (0,))
    kernel = Generator(random.Random(3), 1).write()
    sizes = {b.index: 4000 for b in kernel.buffers}
    trace = Trace(sizes, 0)
    trace.touch(0, "write", None, 8, 8)
    region = {"missing": (8, 12), "too much": (4, 16), "not exact": (4, 16)}[fault]
    found = AccessRange(0, "write", Region.span(*region), fault != "not exact", reason="a test")
    if fault == "not exact":
        compare(kernel, (found,), trace, str)
    else:
        with pytest.raises(Mismatch):
            compare(kernel, (found,), trace, str)
    assert touched(kernel, ndrange, whole_chunk(ndrange), sizes, 0).masks
    assert analyse_kernel(parse_program(kernel.c), "k").name == "k"
