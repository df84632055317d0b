"""Laplacian pyramid of a picture: every level is a blurred picture of half the size, and what is lost by that. From the
top and the losses the picture is put together again. Levels are images; enlarging is left to a sampler's linear filter.

Source: P. J. Burt and E. H. Adelson, "The Laplacian Pyramid as a Compact Image Code" (IEEE Transactions on
Communications, 1983).
"""

import common
import numpy as np
import pyopencl as cl

LEVELS = 4
GROUP = 16, 8
SOURCE = """
constant sampler_t exact = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;
constant sampler_t between = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR;
constant float weights[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

bool outside(const int2 at, const int2 size)
{
    return at.x >= size.x || at.y >= size.y;
}

float4 enlarged(read_only image2d_t coarse, const int2 at, const int2 size)
{
    return read_imagef(coarse, between, (convert_float2(at) + 0.5f) / convert_float2(size));
}

__kernel void halve(read_only image2d_t fine, write_only image2d_t coarse)
{
    const int2 at = (int2)(get_global_id(0), get_global_id(1));
    if (outside(at, get_image_dim(coarse)))
        return;
    float4 sum = 0;
    for (int j = -2; j <= 2; ++j)
        for (int i = -2; i <= 2; ++i)
            sum += weights[j + 2] * weights[i + 2] * read_imagef(fine, exact, 2 * at + (int2)(i, j));
    write_imagef(coarse, at, sum);
}

__kernel void subtract(read_only image2d_t fine, read_only image2d_t coarse, write_only image2d_t loss)
{
    const int2 at = (int2)(get_global_id(0), get_global_id(1)), size = get_image_dim(fine);
    if (!outside(at, size))
        write_imagef(loss, at, read_imagef(fine, exact, at) - enlarged(coarse, at, size));
}

__kernel void add(read_only image2d_t loss, read_only image2d_t coarse, write_only image2d_t fine)
{
    const int2 at = (int2)(get_global_id(0), get_global_id(1)), size = get_image_dim(loss);
    if (!outside(at, size))
        write_imagef(fine, at, read_imagef(loss, exact, at) + enlarged(coarse, at, size));
}
"""


def halved(fine: common.Array) -> common.Array:
    """The picture blurred and without every other row and column."""
    weights = np.outer(*[[0.0625, 0.25, 0.375, 0.25, 0.0625]] * 2)
    height, width = fine.shape[0] // 2, fine.shape[1] // 2
    padded = np.pad(fine.astype(np.float64), ((2, 2), (2, 2), (0, 0)), mode="edge")
    return sum(
        weights[j, i] * padded[j : j + 2 * height : 2, i : i + 2 * width : 2]
        for j in range(5)
        for i in range(5)
    )


def main() -> None:
    parser = common.parser(
        __doc__, size=512, meaning="columns of the picture; its rows are three quarters of it"
    )
    args = parser.parse_args()
    unit = 2**LEVELS
    width, height = common.round_up(args.size, unit), common.round_up(args.size * 3 // 4, unit)
    sizes = [(width >> level, height >> level) for level in range(LEVELS + 1)]
    picture = common.random(17, height, width, 4)
    context, queue = common.open_queue()
    common.announce(queue, f"{LEVELS} levels of a picture of {width} x {height}")
    program = cl.Program(context, SOURCE).build()
    halve, subtract, add = (cl.Kernel(program, name) for name in ("halve", "subtract", "add"))
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)

    def images() -> list[cl.Image]:
        return [cl.create_image(context, cl.mem_flags.READ_WRITE, form, shape=size) for size in sizes]

    def download(image: cl.Image, level: int) -> common.Array:
        result = np.empty((*reversed(sizes[level]), 4), np.float32)
        cl.enqueue_copy(queue, result, image, origin=(0, 0), region=sizes[level])
        return result

    def launch(kernel: cl.Kernel, level: int, *arguments: cl.Image) -> None:
        grid = [common.round_up(n, group) for n, group in zip(sizes[level], GROUP, strict=True)]
        kernel(queue, grid, GROUP, *arguments)

    levels, losses, restored = images(), images(), images()
    cl.enqueue_copy(queue, levels[0], picture, origin=(0, 0), region=sizes[0])
    pixels = sum(w * h for w, h in sizes)
    with common.timed(queue, "taken apart and put together", count=2e-6 * pixels, unit="million pixels"):
        for level in range(LEVELS):
            launch(halve, level + 1, levels[level], levels[level + 1])
            launch(subtract, level, levels[level], levels[level + 1], losses[level])
        restored[LEVELS] = levels[LEVELS]
        for level in reversed(range(LEVELS)):
            launch(add, level, losses[level], restored[level + 1], restored[level])

    expected = picture
    for level in range(1, LEVELS + 1):
        expected = halved(expected)
        common.check(f"level {level}", download(levels[level], level), expected, 1e-5)
    common.check("the picture put together again", download(restored[0], 0), picture, 1e-5)


if __name__ == "__main__":
    main()
