"""How many plans of launches a session keeps (`vdev.session.kept_plans`)."""

from __future__ import annotations

import numpy as np
from vdev.translators.ranges.ndrange import NDRange

from vdev.session.commands import BufferArg, Launch
from vdev.session.kept_plans import KeptPlans

from .test_session_failures import LOCAL, NBYTES, WORDS, Program, ended


class Kernel:
    """Keeps plans that are numbers."""

    def __init__(self) -> None:
        self.nplans = 0

    def drop(self) -> None:
        self.nplans = 0


def test_all_kernels_together_keep_no_more_than_the_most() -> None:
    kept, kernels = KeptPlans(100), [Kernel() for _ in range(10)]
    for kernel in kernels:
        kept.enter(kernel)
    drawn = np.random.default_rng(1)
    for _ in range(5000):
        kernel = kernels[int(drawn.integers(10) ** 2 // 10)]
        kept.added()
        kernel.nplans += 1
        assert sum(each.nplans for each in kernels) <= 100
    assert sum(each.nplans for each in kernels) >= 50, "not everything is forgotten"


def test_the_kernel_that_has_most_forgets_them() -> None:
    kept, few, many = KeptPlans(100), Kernel(), Kernel()
    for kernel, number in ((few, 10), (many, 89)):
        kept.enter(kernel)
        for _ in range(number):
            kept.added()
            kernel.nplans += 1
    kept.added()
    assert (few.nplans, many.nplans) == (10, 89), "there was room for one more"
    few.nplans += 1
    kept.added()
    assert (few.nplans, many.nplans) == (11, 0)


def test_kernels_that_are_gone_do_not_count() -> None:
    kept, lasting = KeptPlans(100), Kernel()
    kept.enter(lasting)
    for _ in range(50):
        passing = Kernel()
        kept.enter(passing)
        for _ in range(30):
            kept.added()
            passing.nplans += 1
        del passing
        kept.added()
        lasting.nplans += 1
    assert lasting.nplans == 50


def test_launches_that_never_come_again_do_not_fill_the_memory() -> None:
    with Program(2) as program:
        program.session.kept_plans = KeptPlans(5)
        out, source = program.buffer(1), program.buffer(2)
        args = (BufferArg(out, 0, NBYTES), BufferArg(source, 0, NBYTES))
        for groups in range(1, WORDS // LOCAL + 1):
            ndrange = NDRange((groups * LOCAL,), (LOCAL,), (0,))
            assert ended(program.submit(Launch(program.kernel, args, ndrange))) == 0
            plans = program.kernel.plans
            assert plans is not None
            assert plans.nplans <= 5
        assert program.session.ledger.kernel(program.kernel).plans > 5
