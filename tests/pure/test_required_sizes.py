"""A kernel's required work-group size holds on GPUs as well, whose compiler does not tell it: what is asked, chosen and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from . import fake_cuda
from .cuda_host import COMPILER, MISSING

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

PROGRAM = """
import json, numpy as np, pyopencl as cl
context = cl.create_some_context(interactive=False)
queue, device = cl.CommandQueue(context), context.devices[0]
program = cl.Program(context, '''
enum { EDGE = 2 };
#define REQUIRED __attribute__((reqd_work_group_size(8, sizeof(int), EDGE)))
kernel REQUIRED void sizes(global int *r)
{
    size_t at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) + get_global_id(0);
    r[at] = get_local_size(0) * 100 + get_local_size(1) * 10 + get_local_size(2);
}
''').build()
kernel = cl.Kernel(program, "sizes")
result = np.zeros(1024, np.int32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, result.nbytes)
kernel.set_args(buffer)
said = {}
for name, whole, group in (
    ("open", (16, 8, 8), None), ("given", (16, 8, 8), (8, 4, 2)), ("other", (16, 8, 8), (4, 4, 4)), ("parts", (12, 8, 8), None),
):
    cl.enqueue_fill_buffer(queue, buffer, np.int32(0), 0, result.nbytes)
    try:
        cl.enqueue_nd_range_kernel(queue, kernel, whole, group)
    except cl.LogicError as error:
        said[name] = error.code
        continue
    cl.enqueue_copy(queue, result, buffer)
    said[name] = np.unique(result).tolist()
uneven = cl.Program(context, "kernel void plain(global int *r) { r[get_global_id(0)] = 1; }").build("-cl-std=CL2.0")
try:
    uneven.plain(queue, (12,), (8,), buffer)
except cl.LogicError as error:
    said["uneven"] = [error.code, str(error)]
said["asked"] = list(kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, device))
print(json.dumps(said))
"""


def test_a_required_size_holds(tmp_path: Path) -> None:
    said = json.loads(fake_cuda.run(PROGRAM, fake_cuda.environment(tmp_path)))
    refused = -54  # CL_INVALID_WORK_GROUP_SIZE
    code, text = said.pop("uneven")
    assert code == refused
    assert "does not divide the global size" in text
    assert said == {"open": [842], "given": [842], "other": refused, "parts": refused, "asked": [8, 4, 2]}
