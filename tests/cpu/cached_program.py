"""A program of several kernels for `test_program_cache`, with a header by `#include` or by the directive given: its results,
which modules it loaded, and whether the build has loaded what analyses kernels, as JSON."""

from __future__ import annotations

import json
import os
import sys
import warnings

import numpy as np
import pyopencl as cl

SOURCE = """
#include "factor.h"
#ifndef PLACE
#define PLACE(i, n) i
#endif
struct pair { int a; float b; };
kernel void scale(global const float *x, global float *y, int n) {
    int i = get_global_id(0);
    if (i < n) y[PLACE(i, n)] = FACTOR * x[i];
}
kernel void pairs(global struct pair *p, struct pair step) {
    int i = get_global_id(0);
    p[i].a += step.a * i; p[i].b += step.b;
}
kernel void bins(global const float *x, global int *counts) {
    atomic_add(&counts[(int)x[get_global_id(0)] & 7], 1);
}
kernel __attribute__((reqd_work_group_size(8, 8, 1)))
void turned(global const float *x, global float *y) {
    y[get_global_id(0) * get_global_size(1) + get_global_id(1)] = x[get_global_id(1) * get_global_size(0) + get_global_id(0)];
}
kernel void blurred(read_only image2d_t from, global float *y, sampler_t s) {
    int i = get_global_id(0);
    y[i] = read_imagef(from, s, (float2)((i & 15) + 0.25f, i >> 4)).x;
}
"""
ITEMS = 256
PAIR = np.dtype([("a", np.int32), ("b", np.float32)])


def main() -> None:
    warnings.simplefilter("ignore")
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    source = SOURCE.replace("include", "".join(sys.argv[2:]) or "include")
    program = cl.Program(context, source).build(["-I", f'"{sys.argv[1]}"'])
    analysis = "vdev.translators.interpreter.access" in sys.modules
    x = np.arange(ITEMS, dtype=np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    given = cl.Buffer(context, flags, hostbuf=x)
    found = {}
    outputs = {
        "scale": np.zeros(ITEMS, np.float32),
        "pairs": np.zeros(ITEMS, PAIR),
        "bins": np.zeros(8, np.int32),
        "turned": np.zeros(ITEMS, np.float32),
        "blurred": np.zeros(ITEMS, np.float32),
    }
    image = cl.Image(
        context,
        flags,
        cl.ImageFormat(cl.channel_order.R, cl.channel_type.FLOAT),
        shape=(16, 16),
        hostbuf=x.reshape(16, 16),
    )
    sampler = cl.Sampler(context, False, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.LINEAR)
    for name, out in outputs.items():
        target = cl.Buffer(context, flags, hostbuf=out)
        kernel = cl.Kernel(program, name)
        args = {
            "scale": (given, target, np.int32(ITEMS - 3)),
            "pairs": (target, np.array((3, 0.5), PAIR)[()]),
            "bins": (given, target),
            "turned": (given, target),
            "blurred": (image, target, sampler),
        }[name]
        kernel(queue, (16, 16) if name == "turned" else (ITEMS,), None, *args)
        cl.enqueue_copy(queue, out, target)
        found[name] = out.tobytes().hex()
    loaded = [
        name for name in ("clang.cindex", "sympy", "vdev.translators.frontend.source") if name in sys.modules
    ]
    from vdev.start.current import current_session

    session = current_session()
    log = program.get_build_info(context.devices[0], cl.program_build_info.LOG)
    arguments = [
        (
            arg,
            kernel.get_arg_info(arg, cl.kernel_arg_info.TYPE_NAME),
            kernel.get_arg_info(arg, cl.kernel_arg_info.NAME),
        )
        for kernel in program.all_kernels()
        for arg in range(kernel.num_args)
    ]
    launches = [counters.launches for counters in session.executor.counters()]
    print(
        json.dumps(
            {
                "found": found,
                "loaded": loaded,
                "analysis": analysis,
                "log": log,
                "arguments": arguments,
                "launches": launches,
            }
        )
    )
    sys.stdout.flush()
    if os.environ.get("KEPT_PROGRAM_WAITS"):
        sys.stdin.read()


if __name__ == "__main__":
    main()
