"""What a native engine computes for every operator and integer function is what `tests.pure.operand_cases` says of it: the
analysis is measured against that.

`OPERAND_SEED` sets the seed, which a failure names.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import numpy as np
import pytest

from tests.pure import operand_cases
from tests.pure.operand_cases import FAMILIES, Case
from vdev.start.engines import register_engines

pytestmark = pytest.mark.skipif(os.environ.get("VDEV") == "1", reason="runs on the native engine")

SEED = int(os.environ.get("OPERAND_SEED", random.randrange(1 << 30)))
NCASES, NDRAWS, NKERNEL = 100, 16, 25
#: Bytes for one operand: the largest is a vector of sixteen `long`.
ROOM = 128
ROW = 3 * ROOM

#: Intel's engine gives wrong results for it on vectors of eight `int`.
ENGINE_DIFFERS = "mad_sat"

Draws = list[list[tuple[int, ...]]]


def _source(cases: Sequence[Case]) -> str:
    """Kernels of some cases each; a work-item takes one row of operands of each case."""
    kernels = []
    for first in range(0, len(cases), NKERNEL):
        blocks = []
        for number, case in enumerate(cases[first : first + NKERNEL], first):
            loads = " ".join(
                f"{o.type} {name} = *(global const {o.type} *)(row + {slot * ROOM});"
                for slot, (o, name) in enumerate(zip(case.operands, "abc", strict=False))
            )
            row = f"global const uchar *row = data + ({number} * {NDRAWS} + draw) * {ROW};"
            blocks.append(f"{{ {row} {loads} out[{number} * {NDRAWS} + draw] = (long)({case.text}); }}")
        body = "\n".join(blocks)
        head = f"kernel void r{first // NKERNEL}(global const uchar *data, global long *out)"
        kernels.append(f"{head} {{ size_t draw = get_global_id(0);\n{body}\n}}")
    return "\n".join(kernels)


def _data(cases: Sequence[Case], draws: Sequence[Draws]) -> np.ndarray:
    data = np.zeros((len(cases), NDRAWS, 3, ROOM), np.uint8)
    for number, case in enumerate(cases):
        for j, values in enumerate(draws[number]):
            for slot, (operand, value) in enumerate(zip(case.operands, values, strict=True)):
                found = np.frombuffer(operand.pack(value), np.uint8)
                data[number, j, slot, : found.size] = found
    return data


def _computed(cases: Sequence[Case], draws: Sequence[Draws]) -> np.ndarray:
    """The engine's results by case and draw."""
    register_engines()
    import pyopencl as cl

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    program = cl.Program(context, _source(cases)).build(["-cl-std=CL2.0"])
    flags = cl.mem_flags
    given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=_data(cases, draws))
    results = np.zeros((len(cases), NDRAWS), np.int64)
    out = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=results)
    for kernel in program.all_kernels():
        kernel(queue, (NDRAWS,), None, given, out)
    cl.enqueue_copy(queue, results, out)
    return results


@pytest.mark.filterwarnings("ignore")
def test_engine_gives_what_the_rules_say() -> None:
    rng = random.Random(SEED)
    cases = [
        case
        for family in FAMILIES.values()
        for all_of_it in [list(family())]
        for case in rng.sample(all_of_it, min(NCASES, len(all_of_it)))
        if not case.text.startswith(ENGINE_DIFFERS)
    ]
    draws = [[operand_cases.draw(case, rng) for _ in range(NDRAWS)] for case in cases]
    results = _computed(cases, draws)
    wrong = [
        f"{case.text} with {operand_cases.parameters(case)} = {values} is {found}, expected {expected}"
        for case, rows, computed in zip(cases, draws, results, strict=True)
        for values, found in zip(rows, computed, strict=True)
        if (expected := case.expected(values)) is not None and expected != found
    ]
    assert not wrong, f"{len(wrong)} with OPERAND_SEED={SEED}:\n" + "\n".join(wrong[:20])
