"""A failing program as a script that stands alone: plain PyOpenCL, natively or under VDEV=1.

Decides nothing; the script runs the steps and compares with the bytes that the native device gave is left to its reader:
it prints a digest of every buffer, natively and virtually the same.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import numpy as np

from .machines import Difference
from .program import (
    KINDS,
    Bound,
    Buffer,
    Copy,
    Fill,
    Launch,
    LocalSize,
    Program,
    Read,
    SamplerBits,
    Write,
    WriteRows,
)

_HEAD = '''"""{title}

    python this.py                                   natively
    VDEV=1 VDEV_MIN_ITEMS=0 VDEV_WORKERS={workers} python this.py

Prints each buffer's digest; where both runs print the same, nothing is wrong. With a file's name as argument the
buffers' bytes are written there (numpy.savez).
"""

import base64
import sys
import warnings
import zlib

import numpy as np
import pyopencl as cl

warnings.simplefilter("ignore")
SOURCE = r"""{source}"""
OPTIONS = {options!r}


def data(text):
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), np.uint8).copy()


parts = []  # kept: a kernel does not keep its arguments


def image(kind, shape, order, data_type, content):
    described = cl.ImageDescriptor()
    described.image_type = getattr(cl.mem_object_type, kind)
    described.shape, described.array_size = shape, shape[2]
    return cl.Image(context, flags, cl.ImageFormat(order, data_type), hostbuf=content, desc=described)


def write(buffer, number, content, offset):
    if number in REGIONS:
        cl._cl._enqueue_write_image(queue, buffer, (0, 0, 0), REGIONS[number], content)
    else:
        cl.enqueue_copy(queue, buffer, content, dst_offset=offset)


def read(buffer, number, nbytes, offset):
    content = np.empty(nbytes, np.uint8)
    if number in REGIONS:
        cl._cl._enqueue_read_image(queue, buffer, (0, 0, 0), REGIONS[number], content)
    else:
        cl.enqueue_copy(queue, content, buffer, src_offset=offset)
    return content


def part(buffer, offset, nbytes):
    whole = (offset, nbytes) == (0, buffer.size) or isinstance(buffer, cl.Image)
    parts.append(buffer if whole else buffer.get_sub_region(offset, nbytes))
    return parts[-1]


context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build(OPTIONS)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
'''
_TAIL = """
found = {}
for number, buffer in enumerate(buffers):
    content = read(buffer, number, SIZES[number], 0)
    found[f"buffer{number}"] = content
    print(f"buffer {number}: {zlib.crc32(content.tobytes()):08x}")
if len(sys.argv) > 1:
    np.savez(sys.argv[1], **found)
"""


def packed(content: bytes) -> str:
    return f"data({base64.b85encode(zlib.compress(content, 9)).decode()!r})"


def script(source: str, options: Sequence[str], program: Program, difference: Difference) -> str:
    title = f"Differs from the native result: {difference}".replace("\\", "/").replace('"""', "'''")
    workers = difference.workers if ":" in difference.workers else "cpu:3"
    lines = [_HEAD.format(title=title, workers=workers, source=source, options=list(options))]
    lines.append("buffers = [")
    for buffer in program.buffers:
        lines.append(f"    {_made(buffer)},")
    regions = {number: each.image.region for number, each in enumerate(program.buffers) if each.image}
    lines += ["]", f"SIZES = {[each.content.size for each in program.buffers]}", f"REGIONS = {regions}"]
    names = [kernel.name for kernel in program.kernels]
    lines.append(f"kernels = [{', '.join(f'cl.Kernel(program, {name!r})' for name in names)}]")
    for step in program.steps:
        lines += _step(step)
    return "\n".join(lines) + _TAIL


def _made(buffer: Buffer) -> str:
    content, form = packed(buffer.content.tobytes()), buffer.image
    if form is None:
        return f"cl.Buffer(context, flags, hostbuf={content})"
    kind = KINDS[form.kind].name
    return f"image({kind!r}, {form.shape}, {form.order}, {form.data_type}, {content})"


def _step(step: object) -> list[str]:
    if isinstance(step, Launch):
        lines = []
        for number, arg in enumerate(step.args):
            if isinstance(arg, Bound):
                value = f"part(buffers[{arg.buffer}], {arg.offset}, {arg.nbytes})"
            elif isinstance(arg, LocalSize):
                value = f"cl.LocalMemory({arg.nbytes})"
            elif isinstance(arg, SamplerBits):
                value = f"cl.Sampler(context, {arg.normalized}, {arg.addressing}, cl.filter_mode.NEAREST)"
                lines.append(f"parts.append({value})")
                value = "parts[-1]"
            else:
                value = f"np.frombuffer({bytes(arg)!r}, np.uint8)"
            lines.append(f"kernels[{step.kernel}].set_arg({number}, {value})")
        lines.append(
            f"cl.enqueue_nd_range_kernel(queue, kernels[{step.kernel}], {step.size}, {step.local}, {step.offset})"
        )
        return lines
    if isinstance(step, Write):
        return [f"write(buffers[{step.buffer}], {step.buffer}, {packed(step.data)}, {step.offset})"]
    if isinstance(step, WriteRows):
        rows = np.frombuffer(step.data, np.uint8).reshape(step.rows, step.width)
        return [
            f"cl.enqueue_copy(queue, buffers[{step.buffer}], {packed(row.tobytes())}, dst_offset={step.offset + n * step.pitch})"
            for n, row in enumerate(rows)
        ]
    if isinstance(step, Read):
        return [f"read(buffers[{step.buffer}], {step.buffer}, {step.nbytes}, {step.offset})"]
    if isinstance(step, Fill):
        return [
            f"cl.enqueue_fill_buffer(queue, buffers[{step.buffer}], {step.pattern!r}, {step.offset}, {step.nbytes})"
        ]
    assert isinstance(step, Copy)
    return [
        f"cl.enqueue_copy(queue, buffers[{step.target}], buffers[{step.source}], byte_count={step.nbytes}, "
        f"src_offset={step.source_offset}, dst_offset={step.target_offset})"
    ]
