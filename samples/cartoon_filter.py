"""A photograph turned into a cartoon: smoothed where it is even, its edges inked, its brightness in steps.

Three passes of a bilateral filter on tiles in local memory, then one kernel for ink and brightness. The
picture written shows the photograph beside the result.

Source: H. Winnemöller, S. C. Olsen and B. Gooch, "Real-Time Video Abstraction" (SIGGRAPH 2006), with
Sobel's edges.
"""

import importlib.util
import sys
from pathlib import Path

import common
import numpy as np
import pyopencl as cl
from PIL import Image

TILE, RADIUS, PASSES = 16, 4, 3
NEARNESS, LIKENESS = 3.0, 0.12  # standard deviations: in pixels, and in colour from 0 to 1
LEVELS, SHARPNESS = 8, 24.0  # of brightness, and how abruptly one becomes the next
INK_FROM, INK_TO = 0.25, 0.75  # slopes of brightness at which the ink begins, and is black
SOURCE = """
#define EDGE (TILE + 2 * RADIUS)

/* A mean over the pixels around, in which those of a like colour count. */
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void smooth(__global const float4 *image, __global float4 *result, const int width, const int height)
{
    __local float4 tile[EDGE][EDGE];
    const int lx = get_local_id(0), ly = get_local_id(1);
    const int left = get_group_id(0) * TILE - RADIUS, top = get_group_id(1) * TILE - RADIUS;
    for (int j = ly; j < EDGE; j += TILE)
        for (int i = lx; i < EDGE; i += TILE)
            tile[j][i] = image[(size_t)clamp(top + j, 0, height - 1) * width + clamp(left + i, 0, width - 1)];
    barrier(CLK_LOCAL_MEM_FENCE);

    const int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    const float4 centre = tile[ly + RADIUS][lx + RADIUS];
    float4 sum = (float4)(0.0f);
    float total = 0.0f;
    for (int j = -RADIUS; j <= RADIUS; ++j)
        for (int i = -RADIUS; i <= RADIUS; ++i) {
            const float4 colour = tile[ly + RADIUS + j][lx + RADIUS + i], away = colour - centre;
            const float weight = exp(-(i * i + j * j) / (2.0f * NEARNESS * NEARNESS)
                                     - dot(away, away) / (2.0f * LIKENESS * LIKENESS));
            sum += weight * colour;
            total += weight;
        }
    result[(size_t)y * width + x] = sum / total;
}

float brightness(__global const float4 *image, const int x, const int y, const int width, const int height)
{
    const float4 pixel = image[(size_t)clamp(y, 0, height - 1) * width + clamp(x, 0, width - 1)];
    return dot(pixel.xyz, (float3)(0.299f, 0.587f, 0.114f));
}

__kernel void ink(__global const float4 *image, __global uchar4 *result, const int width, const int height)
{
    const int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height)
        return;
    float around[3][3];
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i)
            around[j][i] = brightness(image, x + i - 1, y + j - 1, width, height);
    const float across = around[0][2] + 2.0f * around[1][2] + around[2][2]
                       - around[0][0] - 2.0f * around[1][0] - around[2][0];
    const float down = around[2][0] + 2.0f * around[2][1] + around[2][2]
                     - around[0][0] - 2.0f * around[0][1] - around[0][2];
    const float paper = 1.0f - smoothstep(INK_FROM, INK_TO, sqrt(across * across + down * down));

    const float here = around[1][1], level = rint(here * LEVELS) / LEVELS;
    const float steepest = tanh(SHARPNESS * 0.5f / LEVELS); /* half-way to the next level, where both meet */
    const float stepped = level + tanh(SHARPNESS * (here - level)) / steepest * (0.5f / LEVELS);
    float4 pixel = image[(size_t)y * width + x];
    pixel.xyz *= paper * clamp(stepped, 0.0f, 1.0f) / max(here, 0.01f);
    result[(size_t)y * width + x] = convert_uchar4_sat_rte(255.0f * pixel);
}
"""
MOST_CHECKED = 480  # pixels along the edges of the window checked


def photograph(path: Path | None, width: int) -> common.Array:
    """The picture scaled to so many columns: rows of red, green, blue and opacity, floats from 0 to 1.

    Without a path it is the portrait of Rear Admiral Grace Hopper that comes with matplotlib (public domain).
    """
    if path is None:
        package = importlib.util.find_spec("matplotlib")
        if package is None or package.origin is None:
            sys.exit("no --input, and matplotlib, whose sample photograph is the default, is not installed")
        path = Path(package.origin).parent / "mpl-data" / "sample_data" / "grace_hopper.jpg"
    with Image.open(path) as picture:
        height = max(1, round(picture.height * width / picture.width))
        scaled = picture.convert("RGBA").resize((width, height), Image.Resampling.LANCZOS)
    pixels: common.Array = np.asarray(scaled, np.float32) / np.float32(255)
    return pixels


def smoothed(image: common.Array) -> common.Array:
    """One pass of the bilateral filter."""
    height, width = image.shape[:2]
    padded = np.pad(image, ((RADIUS, RADIUS), (RADIUS, RADIUS), (0, 0)), "edge")
    total, weights = np.zeros_like(image), np.zeros((height, width, 1), image.dtype)
    for j in range(2 * RADIUS + 1):
        for i in range(2 * RADIUS + 1):
            colour = padded[j : j + height, i : i + width]
            near = ((i - RADIUS) ** 2 + (j - RADIUS) ** 2) / (2 * NEARNESS**2)
            away = colour - image
            like = np.einsum("yxc,yxc->yx", away, away) / (2 * LIKENESS**2)
            weight = np.exp(-near - like)[..., None]
            total += weight * colour
            weights += weight
    result: common.Array = total / weights
    return result


def inked(image: common.Array) -> common.Array:
    """Ink and levels of brightness on a smoothed picture; bytes."""
    here = image[..., :3] @ np.array([0.299, 0.587, 0.114], image.dtype)
    p = np.pad(here, 1, "edge")
    across = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    down = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    t = ((np.hypot(across, down) - INK_FROM) / (INK_TO - INK_FROM)).clip(0, 1)
    level = np.rint(here * LEVELS) / LEVELS
    stepped = level + np.tanh(SHARPNESS * (here - level)) / np.tanh(SHARPNESS * 0.5 / LEVELS) * 0.5 / LEVELS
    factor = (1 - t * t * (3 - 2 * t)) * stepped.clip(0, 1) / here.clip(0.01)
    result = image.copy()
    result[..., :3] *= factor[..., None]
    levels: common.Array = np.rint(255 * result).clip(0, 255).astype(np.uint8)
    return levels


def expected(image: common.Array, rows: slice, columns: slice) -> common.Array:
    """A window of the cartoon, computed from the pixels that it depends on."""
    margin = PASSES * RADIUS + 1
    top, left = max(0, rows.start - margin), max(0, columns.start - margin)
    part = image[top : rows.stop + margin, left : columns.stop + margin].astype(np.float64)
    for _ in range(PASSES):
        part = smoothed(part)
    return inked(part)[rows.start - top :, columns.start - left :][
        : rows.stop - rows.start, : columns.stop - columns.start
    ]


def cartoon(context: cl.Context, queue: cl.CommandQueue, image: common.Array) -> common.Array:
    """The cartoon of a picture, computed on the queue's device; bytes, of the picture's shape."""
    height, width = image.shape[:2]
    options = [f"-DTILE={TILE}", f"-DRADIUS={RADIUS}", f"-DNEARNESS={NEARNESS}f", f"-DLIKENESS={LIKENESS}f"]
    options += [
        f"-DLEVELS={LEVELS}.0f",
        f"-DSHARPNESS={SHARPNESS}f",
        f"-DINK_FROM={INK_FROM}f",
        f"-DINK_TO={INK_TO}f",
    ]
    program = cl.Program(context, SOURCE).build(options)
    smooth, ink = cl.Kernel(program, "smooth"), cl.Kernel(program, "ink")
    grid, group = (common.round_up(width, TILE), common.round_up(height, TILE)), (TILE, TILE)
    shape = np.int32(width), np.int32(height)
    result = np.empty(image.shape, np.uint8)

    def upload() -> list[cl.Buffer]:
        sizes = image.nbytes, image.nbytes, result.nbytes
        return [common.write(queue, image), *(common.room(queue, nbytes) for nbytes in sizes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        here, *others, inked = buffers
        for _ in range(PASSES):
            smooth(queue, grid, group, here, others[0], *shape)
            here = others[0]
            others.reverse()
        ink(queue, grid, group, here, inked, *shape)

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, result, buffers[-1])
        return result

    job = common.Job(queue, upload, launch, download)
    done: common.Array = common.run(job, "filters", count=1e-6 * width * height, unit="megapixels")
    return done


def main() -> None:
    parser = common.parser(__doc__, size=400, meaning="columns that the photograph is scaled to")
    parser.add_argument("--input", type=Path, help="a photograph (default: one that comes with matplotlib)")
    parser.add_argument(
        "--output", type=Path, default=Path("cartoon_filter.png"), help="the picture to write; - for none"
    )
    args = parser.parse_args()
    image = photograph(args.input, args.size)
    height, width = image.shape[:2]
    context, queue = common.open_queue()
    common.announce(queue, f"a photograph of {width} x {height}")
    result = cartoon(context, queue, image)

    most = MOST_CHECKED if width <= 2 * MOST_CHECKED else MOST_CHECKED // 4
    rows, columns = (
        slice(n // 2 - min(n, most) // 2, n // 2 + -(-min(n, most) // 2)) for n in (height, width)
    )
    wanted = expected(image, rows, columns)
    # A pixel may round to the neighbouring value: an error of one in 255.
    what = f"rows {rows.start} to {rows.stop - 1}, columns {columns.start} to {columns.stop - 1}"
    common.check(what, result[rows, columns], wanted, 1.01 / 255)
    if str(args.output) != "-":
        beside = np.concatenate([np.rint(255 * image).astype(np.uint8), result], axis=1)
        Image.fromarray(beside).convert("RGB").save(args.output)
        print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
