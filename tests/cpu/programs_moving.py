"""Programs whose launches write elsewhere each time: windows that move, turn and flip; views whose strides change their signs."""

from __future__ import annotations

import numpy as np

from tests.cpu.program_device import Device, i32, program, same


@program
def moving_windows(device: Device) -> None:
    """Parts of pictures at places and of sizes that change, copied upright, flipped, and turned by quarters."""
    source = """
    kernel void shade(global int *a, int x0, int y0, int w, int h, int pitch, int k) {
        int x = get_global_id(0), y = get_global_id(1);
        if (x < w && y < h) a[(y0 + y) * pitch + x0 + x] = a[(y0 + y) * pitch + x0 + x] * 3 + k;
    }
    kernel void put(global int *a, global const int *b, int from_x, int from_y, int to_x, int to_y,
                    int w, int h, int pitch, int flips) {
        int x = get_global_id(0), y = get_global_id(1);
        if (x < w && y < h)
            a[(to_y + (flips & 1 ? h - 1 - y : y)) * pitch + to_x + (flips & 2 ? w - 1 - x : x)] =
                b[(from_y + y) * pitch + from_x + x];
    }
    kernel void turn(global int *a, global const int *b, int n, int quarters) {
        int x = get_global_id(0), y = get_global_id(1), to_x = x, to_y = y;
        for (int q = 0; q < quarters; ++q) { int last = to_x; to_x = n - 1 - to_y; to_y = last; }
        a[to_y * n + to_x] = b[y * n + x];
    }"""
    n, built = 96, device.build(source)
    a, b = device.integers(-999, 999, (n, n)), device.integers(-999, 999, (n, n))
    on_a, on_b = device.buffer(a), device.buffer(b)

    def numbers(*values: int) -> tuple[np.int32, ...]:
        return tuple(map(i32, values))

    for step in range(24):
        w, h, x0, y0, x1, y1 = map(int, device.integers(1, 36, 6))
        w, h, flips = w + 24, h + 24, step % 4
        built.shade(device.queue, (64, 64), (8, 4), on_a, *numbers(x0, y0, w, h, n, step))
        part = a[y0 : y0 + h, x0 : x0 + w]
        part[:] = part * 3 + step
        built.put(device.queue, (64, 64), (8, 8), on_b, on_a, *numbers(x0, y0, x1, y1, w, h, n, flips))
        b[y1 : y1 + h, x1 : x1 + w] = part[:: -1 if flips & 1 else 1, :: -1 if flips & 2 else 1]
        if step % 3 == 0:
            built.turn(device.queue, (n, n), (8, 8), on_a, on_b, *numbers(n, step % 5))
            a = np.rot90(b, -(step % 5)).copy()
    same(device.read(on_a, i32, (n, n)), a)
    same(device.read(on_b, i32, (n, n)), b)


@program
def views_by_value(device: Device) -> None:
    """Arrays' offsets and strides, of both signs, in structures that are arguments by value."""
    source = """
    typedef struct { long sizes[3], strides[3], offset; } View;
    kernel void add(global int *a, View to, global const int *b, View from) {
        long x = get_global_id(0), y = get_global_id(1) % to.sizes[1], z = get_global_id(1) / to.sizes[1];
        if (x < to.sizes[0] && z < to.sizes[2])
            a[to.offset + x * to.strides[0] + y * to.strides[1] + z * to.strides[2]] +=
                b[from.offset + x * from.strides[0] + y * from.strides[1] + z * from.strides[2]];
    }"""
    view = np.dtype([("sizes", "i8", 3), ("strides", "i8", 3), ("offset", "i8")])
    sizes, built = np.array((32, 16, 4)), device.build(source)
    held = [device.integers(-999, 999, 6000) for _ in range(2)]
    on = [device.buffer(each) for each in held]
    layouts = [(1, 40, 700), (40, 1, 1300), (-1, 40, 700), (2, -70, 1120), (-40, -1, -1280)]
    for step in range(20):
        to, other = step % 2, 1 - step % 2
        views, places = [], []
        for layout in (layouts[step % 5], layouts[step * 3 % 5]):
            strides = np.array(layout)
            down = int((np.minimum(strides, 0) * (sizes - 1)).sum())
            views.append(np.array((sizes, strides, step - down), view))
            x, y, z = np.indices(sizes)
            places.append(step - down + x * strides[0] + y * strides[1] + z * strides[2])
        built.add(device.queue, (32, 64), (8, 4), on[to], views[0], on[other], views[1])
        held[to][places[0]] += held[other][places[1]]
    for buffer, content in zip(on, held, strict=True):
        same(device.read(buffer, i32, 6000), content)
