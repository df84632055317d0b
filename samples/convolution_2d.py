"""Convolution of an image with a 9 x 9 filter in constant memory; a work-group's pixels and their
surroundings are staged in local memory, pixels beyond the edge repeat the edge.

Source: V. Podlozhnyuk, "Image Convolution with CUDA" (NVIDIA SDK), without separating the filter;
convolution2D in Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

TILE, RADIUS = 16, 4
SOURCE = """
#define EDGE (TILE + 2 * RADIUS)
#define DIAMETER (2 * RADIUS + 1)

__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void convolve(__global const float *image, __global float *result, __constant float *filter, const int width,
              const int height)
{
    __local float tile[EDGE][EDGE];
    const int lx = get_local_id(0), ly = get_local_id(1);
    const int left = get_group_id(0) * TILE - RADIUS, top = get_group_id(1) * TILE - RADIUS;
    for (int j = ly; j < EDGE; j += TILE)
        for (int i = lx; i < EDGE; i += TILE) {
            const int x = clamp(left + i, 0, width - 1), y = clamp(top + j, 0, height - 1);
            tile[j][i] = image[(size_t)y * width + x];
        }
    barrier(CLK_LOCAL_MEM_FENCE);

    const int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    float sum = 0.0f;
    for (int j = 0; j < DIAMETER; ++j)
        for (int i = 0; i < DIAMETER; ++i)
            sum += filter[j * DIAMETER + i] * tile[ly + j][lx + i];
    result[(size_t)y * width + x] = sum;
}
"""


def convolved_rows(image: common.Array, weights: common.Array, rows: common.Array) -> common.Array:
    """The rows `rows` of the convolved image, in double precision."""
    height, width = image.shape
    result = np.zeros((rows.size, width))
    columns = np.arange(width)
    for (j, i), weight in np.ndenumerate(weights):
        y = np.clip(rows + j - RADIUS, 0, height - 1)
        x = np.clip(columns + i - RADIUS, 0, width - 1)
        result += float(weight) * image[y][:, x]
    return result


def main() -> None:
    width = (
        common.parser(__doc__, size=1000, meaning="width of the image; its height is 3/4 of it")
        .parse_args()
        .size
    )
    height = max(1, 3 * width // 4)
    image, result = common.random(8, height, width), np.empty((height, width), np.float32)
    weights = common.random(9, 2 * RADIUS + 1, 2 * RADIUS + 1) - np.float32(0.25)
    context, queue = common.open_queue()
    common.announce(queue, f"an image of {width} x {height}")
    convolve = cl.Kernel(
        cl.Program(context, SOURCE).build([f"-DTILE={TILE}", f"-DRADIUS={RADIUS}"]), "convolve"
    )
    grid = common.round_up(width, TILE), common.round_up(height, TILE)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, image), common.room(queue, image.nbytes), common.write(queue, weights)]

    def launch(buffers: list[cl.Buffer]) -> None:
        convolve(queue, grid, (TILE, TILE), *buffers, np.int32(width), np.int32(height))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, result, buffers[1])
        return result

    job = common.Job(queue, upload, launch, download)
    common.run(job, "convolution", count=1e-6 * image.size, unit="megapixels")
    rows = common.some(height, max(16, (1 << 20) // width))
    common.check(f"{rows.size} of {height} rows", result[rows], convolved_rows(image, weights, rows), 1e-5)


if __name__ == "__main__":
    main()
