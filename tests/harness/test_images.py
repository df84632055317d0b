"""Images under `vdev-check`: pixels outside, races for pixels, pixels that nobody has written, and all else in their kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vdev.harness.reports import Report, run_program

#: Lines that end in `//@ KIND` have a mistake of that kind; the other kernels have none.
KERNELS = """
constant sampler_t none = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
constant sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR;
constant sampler_t share = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_NONE | CLK_FILTER_NEAREST;
#define HERE (int2)(get_global_id(0), get_global_id(1))
float4 fetch(read_only image2d_t in, int2 at) {
  return read_imagef(in, none, at); //@ out-of-bounds
}
kernel void beyond(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, HERE, read_imagef(in, none, HERE + (int2)(1, 0))); //@ out-of-bounds
}
kernel void beyond_in_a_function(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, HERE, fetch(in, HERE - (int2)(0, 1)));
}
kernel void beyond_without_a_sampler(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, HERE, read_imagef(in, (int2)(HERE.y, HERE.x))); //@ out-of-bounds
}
kernel void beyond_by_shares(read_only image2d_t in, write_only image2d_t out, global int *n) {
  float2 at = (convert_float2(HERE) + 0.5f) / (float2)(16, 8) + (float2)(0.0f, 0.125f);
  write_imagef(out, HERE, read_imagef(in, share, at)); //@ out-of-bounds
}
kernel void written_beyond(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, HERE + (int2)(0, HERE.x < 4 ? 4 : 0), (float4)(1)); //@ out-of-bounds
}
kernel void groups_meet(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, (int2)(0, get_local_id(1)), (float4)(HERE.x)); //@ race-between-groups
}
kernel void items_meet(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, (int2)(HERE.x / 2 * 2, HERE.y), (float4)(HERE.x)); //@ race-between-items
}
kernel void beside_images(read_only image2d_t in, write_only image2d_t out, global int *n) {
  n[HERE.y * 16 + HERE.x + 1] = get_image_width(in); //@ out-of-bounds
}
kernel void nothing_written(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, HERE, read_imagef(in, none, HERE)); //@ unwritten-value
}
kernel void right(read_only image2d_t in, write_only image2d_t out, global int *n) {
  float4 v = read_imagef(in, edge, convert_float2(HERE) + 3.5f) + read_imagef(in, edge, HERE - (int2)(5, 5));
  v += read_imagef(in, none, HERE) + read_imagef(in, share, (convert_float2(HERE) + 0.5f) / (float2)(16, 8));
  if (HERE.x < get_image_width(out) - 1) write_imagef(out, HERE + (int2)(1, 0), v);
  n[HERE.y * 16 + HERE.x] = v.x;
}
kernel void right_in_a_function(read_only image2d_t in, write_only image2d_t out, global int *n) {
  write_imagef(out, HERE, fetch(in, HERE));
}
"""
VOLUMES = """
kernel void deep(read_only image3d_t in, write_only image2d_array_t out) {
  int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
  write_imagef(out, at, read_imagef(in, at + (int4)(0, 0, 1, 0))); //@ out-of-bounds
}
kernel void layers(read_only image3d_t in, write_only image2d_array_t out) {
  int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
  write_imagef(out, at + (int4)(0, 0, 1, 0), read_imagef(in, at)); //@ out-of-bounds
}
kernel void right(read_only image3d_t in, write_only image2d_array_t out) {
  int4 at = (int4)(get_global_id(0), get_global_id(1), get_global_id(2), 0);
  write_imagef(out, at, read_imagef(in, at));
}
"""
PROGRAM = """
import re, sys
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)


def kernels(path):
    text = open(path).read()
    program = cl.Program(context, text).build()
    return [(name, getattr(program, name)) for name in re.findall(r"kernel void (\\w+)", text)]


def image(shape, written=True, layers=0):
    flags = cl.mem_flags.READ_WRITE | (cl.mem_flags.COPY_HOST_PTR if written else 0)
    content = np.ones((*shape[::-1], 4), np.float32) if written else None
    if layers:
        return cl.Image(context, flags, form, shape=(*shape[:2], layers), is_array=True)
    return cl.create_image(context, flags, form, shape=shape, hostbuf=content)


n = cl.Buffer(context, cl.mem_flags.READ_WRITE, 16 * 8 * 4)
for name, kernel in kernels(sys.argv[1]):
    read = image((16, 8), name != "nothing_written")
    kernel(queue, (16, 8), (4, 4), read, image((16, 8), False), n)
for _, kernel in kernels(sys.argv[2]):
    kernel(queue, (8, 4, 4), (4, 4, 1), image((8, 4, 4)), image((8, 4), False, 4))
queue.finish()
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    folder: Path = tmp_path_factory.mktemp("images")
    texts = {"program.py": PROGRAM, "kernels.cl": KERNELS, "volumes.cl": VOLUMES}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return run_program([str(folder / name) for name in texts], quiet=True)


def test_mistakes_are_found_by_their_lines_and_nothing_else(report: Report) -> None:
    expected = {
        (match[1], line)
        for text in (KERNELS, VOLUMES)
        for line in text.splitlines()
        if (match := re.search(r"//@ ([\w-]+)$", line))
    }

    assert report.status == 0
    assert {(each.kind, each.place.excerpt) for each in report.findings} == expected
    assert not any(each.kernel.startswith("right") for each in report.findings)
    assert (report.unchecked, report.nchecked) == ({}, 14)


def test_a_pixel_outside_is_reported_with_its_coordinates(report: Report) -> None:
    found = next(each for each in report.findings if each.kernel == "written_beyond")

    assert found.message == "kernel written_beyond writes pixel (0, 8, 0) of out, which has 16 by 8 pixels"
    assert found.place.expression == "write_imagef(out, (int2)(get_global_id(0), get_global_id(1)…"
    assert (found.who.item, found.who.group) == ((0, 4), (0, 1))
