"""The feature macros of atomics: device queries and the preprocessor say the same, and a source that names one keeps its functions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from vdev.backends.base import WorkerInfo
from vdev.session.capabilities import language_features

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

#: CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, by number and by bit
MEMORY = 0x1063
FEATURES = {
    1 << 1: "__opencl_c_atomic_order_acq_rel",
    1 << 2: "__opencl_c_atomic_order_seq_cst",
    1 << 5: "__opencl_c_atomic_scope_device",
    1 << 6: "__opencl_c_atomic_scope_all_devices",
}


@dataclass
class Worker:
    native: dict[int, object]
    extensions: tuple[str, ...] = field(default=())


def features(*answers: int | None) -> set[str]:
    workers = [Worker({} if bits is None else {MEMORY: bits}) for bits in answers]
    return {name for name in language_features(cast("list[WorkerInfo]", workers)) if "atomic" in name}


@pytest.mark.parametrize("bit", FEATURES)
def test_each_feature_is_what_all_workers_have(bit: int) -> None:
    everything = sum(FEATURES)
    assert features(everything, bit) == features(bit) == {FEATURES[bit]}
    assert features(everything, everything - bit) == set(FEATURES.values()) - {FEATURES[bit]}
    assert features(everything, None) == set()


PROGRAM = """
import json, numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue, device = cl.CommandQueue(context), context.devices[0]
names = NAMES
program = cl.Program(context, '''
kernel void count(global atomic_int *sum, global int *seen)
{
    atomic_fetch_add(sum, 1);
    atomic_fetch_max_explicit(sum + 1, (int)get_global_id(0), memory_order_acq_rel, memory_scope_device);
''' + "".join(f'''
#if defined({name}) && {name}
    seen[{at}] = 1;
#endif''' for at, name in enumerate(names)) + '''
}
''').build(["-cl-std=CL3.0"])
sums, seen = np.zeros(2, np.int32), np.zeros(len(names), np.int32)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
buffers = [cl.Buffer(context, flags, hostbuf=array) for array in (sums, seen)]
program.count(queue, (256,), (64,), *buffers)
for array, buffer in zip((sums, seen), buffers):
    cl.enqueue_copy(queue, array, buffer)
listed = {each.name for each in device.opencl_c_features}
print(json.dumps({
    "sums": sums.tolist(), "seen": [name for name, bit in zip(names, seen) if bit],
    "listed": [name for name in names if name in listed],
    "capabilities": [device.atomic_memory_capabilities, device.atomic_fence_capabilities],
}))
"""


@pytest.mark.skipif(COMPILER is None, reason=MISSING)
def test_queries_and_sources_hear_the_same_on_gpus(tmp_path: Path) -> None:
    program = PROGRAM.replace("NAMES", repr(list(FEATURES.values())))
    said: dict[str, Any] = json.loads(fake_cuda.run(program, fake_cuda.environment(tmp_path)))
    assert said["sums"] == [256, 255]
    assert said["seen"] == said["listed"] == list(FEATURES.values())
    memory, fence = said["capabilities"]
    # relaxed order and the scope of a work-group are the least that the specification allows
    assert memory & 0b0010001 == 0b0010001
    assert memory & sum(FEATURES) == sum(FEATURES)
    assert fence & memory == memory
