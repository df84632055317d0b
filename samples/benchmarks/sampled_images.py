"""Images read at floating-point coordinates: natively and on 1, 2 ... workers.

    python samples/benchmarks/sampled_images.py [--workers 1,2] [--size N] [--kind cpu|cuda] [--json FILE]

An image of N x N pixels is turned by some degrees, in several formats and with several samplers; `odd` has rows of which
engines make no images. The time of a launch is the least of some rounds, the best of three processes for each column. The
results' last bits are compared with native.
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

import columns
import machine

machine.find_engine()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import common  # noqa: E402
import numpy as np  # noqa: E402
import pyopencl as cl  # noqa: E402

SOURCE = """
kernel void turn(read_only image2d_t from, sampler_t s, global float4 *to, float scale) {
    int x = get_global_id(0), y = get_global_id(1);
    float u = 0.8f * x - 0.6f * y, v = 0.6f * x + 0.8f * y;
    to[y * get_global_size(0) + x] = read_imagef(from, s, (float2)(u, v) * scale);
}
"""
FORMATS = {
    "RGBA float": (cl.channel_order.RGBA, cl.channel_type.FLOAT, np.float32, 4),
    "RGBA bytes": (cl.channel_order.RGBA, cl.channel_type.UNORM_INT8, np.uint8, 4),
    "R half": (cl.channel_order.R, cl.channel_type.HALF_FLOAT, np.float16, 1),
    "RG shorts": (cl.channel_order.RG, cl.channel_type.UNORM_INT16, np.uint16, 2),
}
SAMPLERS = {
    "linear, clamp": (False, cl.addressing_mode.CLAMP, cl.filter_mode.LINEAR),
    "nearest, edge": (False, cl.addressing_mode.CLAMP_TO_EDGE, cl.filter_mode.NEAREST),
    "linear, repeat": (True, cl.addressing_mode.REPEAT, cl.filter_mode.LINEAR),
}
SIZE, ROUNDS, TURNS, MOST = 512, 6, 3, 1.2


def measure(size: int) -> columns.Figures:
    """Seconds of a launch, and a digest of what it gave."""
    context, queue = common.open_queue()
    turn = cl.Kernel(cl.Program(context, SOURCE).build(), "turn")
    rng = np.random.default_rng(3)
    found: columns.Figures = {"device": queue.device.name.strip(), "sum": 0.0}
    for name, (order, channel, dtype, count) in FORMATS.items():
        for width in (size, size - 1) if name == "RGBA bytes" else (size,):
            content = (
                rng.random((size, width, count)) * (1 if dtype in (np.float16, np.float32) else 200)
            ).astype(dtype)
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            made = cl.create_image(
                context, flags, cl.ImageFormat(order, channel), shape=(width, size), hostbuf=content
            )
            out = np.zeros((size, width, 4), np.float32)
            to = common.write(queue, out, kept=True)
            for how, properties in SAMPLERS.items():
                scale = np.float32(1 / size if properties[0] else 1)
                sampler = cl.Sampler(context, *properties)
                seconds = []
                for _ in range(ROUNDS + 1):
                    common.finish(queue)
                    began = time.perf_counter()
                    turn(queue, (width, size), None, made, sampler, to, scale)
                    common.finish(queue)
                    seconds.append(time.perf_counter() - began)
                cl.enqueue_copy(queue, out, to)
                label = f"{name}{', odd' if width != size else ''}, {how}"
                found[label] = min(seconds[1:])
                found[f"{label} digest"] = hashlib.sha256(out.tobytes()).hexdigest()
                found["sum"] += min(seconds[1:])
    return found


def main() -> int:
    parser = columns.parser(__doc__)
    parser.add_argument(
        "--size", type=common.positive, default=SIZE, help="pixels of a side (default: %(default)s)"
    )
    parser.set_defaults(workers="1,2")
    options = parser.parse_args()
    found = columns.measured(options, lambda: measure(options.size), turns=TURNS, least="sum")
    native = found.get(machine.NATIVE, {})
    lines, bars = [], []
    for name in (name for name in native if f"{name} digest" in native):
        line = f"{name:34}{native[name] * 1e3:9.2f} ms"
        for column, figures in found.items():
            if column == machine.NATIVE or name not in figures:
                continue
            ratio = columns.quotient(figures[name], native[name])
            same = figures[f"{name} digest"] == native[f"{name} digest"]
            line += f"{ratio or 0:8.2f}{'' if same else ' (other bits)'}"
            if "odd" not in name:
                bars.append(columns.most(f"{name}, {column} workers over native", ratio, MOST))
        lines.append(line)
    return columns.conclude(options, found, lines, bars)


if __name__ == "__main__":
    sys.exit(main())
