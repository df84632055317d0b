"""Heat spreading through a plate: the heat equation in two dimensions, solved by explicit steps of a
5-point stencil.

A spiral of wire, hot outside and cooler towards its middle, is held at its temperatures, and so is the
plate's edge; the rest of the plate starts cold and warms up. Two buffers take turns. The field is written
as a picture with isotherms.

Source: J. Crank, "The Mathematics of Diffusion" (1975), forward time and centred space; stencil2D in Table
1 of AMGE (ICS 2015).
"""

from pathlib import Path

import common
import numpy as np
import pyopencl as cl
from PIL import Image, ImageDraw, ImageFont

GROUP = 32, 8
RATE = np.float32(0.24)  # diffusivity * time step / cell area; stable up to 1/4
HOT, COLD = 100.0, 0.0  # degrees Celsius
SOURCE = """
__kernel void advance(__global const float *now, __global float *next, __global const uchar *held,
                   const uint width, const uint height, const float rate)
{
    const size_t x = get_global_id(0), y = get_global_id(1);
    if (x < 1 || y < 1 || x + 1 >= width || y + 1 >= height)
        return;
    const size_t i = y * width + x;
    const float here = now[i];
    const float around = now[i - width] + now[i - 1] + now[i + 1] + now[i + width];
    next[i] = held[i] ? here : here + rate * (around - 4.0f * here);
}
"""
MOST_CHECKED_WHOLE = 1024  # a larger plate is checked on a window around some wire
MOST_DRAWN = 2048  # cells along the edge of a plate of which each is computed
PIXELS = 800  # the most along the edge of the picture
# Colours from the coldest to the hottest, evenly spaced.
COLOURS = "060418 1b1040 45107a 7a1d81 b0305f dd4b3a f5791f fdb42f fbe87a fffbe6"


def plate(size: int) -> tuple[common.Array, common.Array]:
    """The plate's first temperatures in degrees, float32, and which of its cells are held at them, bool.

    A large plate is a smaller one's cells enlarged.
    """
    if size > MOST_DRAWN:
        factor = -(-size // MOST_DRAWN)
        coarse = plate(-(-size // factor))
        temperature, wire = (f.repeat(factor, 1)[:, :size].repeat(factor, 0)[:size] for f in coarse)
        return temperature, wire
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j].astype(np.float32)
    radius, angle = np.hypot(x, y), np.arctan2(y, x) / (2 * np.pi)
    pitch, turns, thickness = 0.21, 4, 0.014
    turn = np.rint(radius / pitch - angle)  # which turn of the wire a cell is closest to
    along = (turn + angle) / turns  # 0 at the wire's inner end, 1 at its outer one
    wire = (
        (np.abs(radius - along * turns * pitch) < max(thickness, 1.5 / size)) & (along > 0.1) & (along <= 1)
    )
    temperature = np.where(wire, HOT * (0.35 + 0.65 * along), COLD).astype(np.float32)
    return temperature, wire


def stepped(temperature: common.Array, held: common.Array, steps: int, core: tuple[int, int]) -> common.Array:
    """Rows and columns `core` (start, stop) of a square plate after so many steps.

    Computed from the cells that they depend on: as many around them as there are steps, one fewer after each.
    """
    size = len(temperature)
    start, stop = max(0, core[0] - steps), min(size, core[1] + steps)
    now, still = (field[start:stop, start:stop] for field in (temperature.astype(np.float64), held))
    for left in range(steps - 1, -1, -1):
        inner = now[1:-1, 1:-1]
        around = now[:-2, 1:-1] + now[1:-1, :-2]
        around += now[1:-1, 2:]
        around += now[2:, 1:-1]
        following = now.copy()
        following[1:-1, 1:-1] = np.where(still[1:-1, 1:-1], inner, inner + float(RATE) * (around - 4 * inner))
        new_start, new_stop = max(0, core[0] - left), min(size, core[1] + left)
        kept = slice(new_start - start, new_stop - start)
        now, still = following[kept, kept], still[kept, kept]
        start, stop = new_start, new_stop
    return now


def fitted(field: common.Array) -> common.Array:
    """A square field, averaged over blocks or interpolated to the picture's size."""
    block = -(-len(field) // PIXELS)
    edge = len(field) // block
    blocks = field[: edge * block, : edge * block].reshape(edge, block, edge, block)
    means: common.Array = blocks.mean((1, 3), dtype=np.float32)
    if edge >= PIXELS:
        return means
    return np.asarray(Image.fromarray(means).resize((PIXELS, PIXELS), Image.Resampling.BICUBIC))


def picture(temperature: common.Array, held: common.Array) -> Image.Image:
    """The field in colours, an isotherm every ten degrees beside the wire, and a scale."""
    field = fitted(temperature)
    field = field.clip(COLD, HOT)
    slope = np.hypot(*np.gradient(field)) + 1e-6  # degrees per pixel
    level = (10 * np.rint(field / 10)).clip(COLD + 10, HOT - 10)
    line = (1.2 - np.abs(field - level) / slope).clip(
        0, 1
    )  # fades with the distance from the isotherm, in pixels
    line *= ((10 / slope - 4) / 8).clip(0, 1)  # and where lines would crowd
    line *= (1 - 4 * fitted(held)).clip(0, 1)
    ink = np.where(level < 50, 255, 0)[..., None]
    rgb = coloured(field)
    rgb += 0.4 * line[..., None] * (ink - rgb)
    return with_scale(Image.fromarray(np.rint(rgb).astype(np.uint8)))


def coloured(field: common.Array) -> common.Array:
    """Temperatures as colours: one more axis of red, green and blue, from 0 to 255."""
    stops = np.array([list(bytes.fromhex(colour)) for colour in COLOURS.split()], float)
    at = np.linspace(COLD, HOT, len(stops))
    return np.stack([np.interp(field, at, channel) for channel in stops.T], -1)


def with_scale(image: Image.Image) -> Image.Image:
    """The picture with a margin, and at its right the scale of the colours in degrees."""
    edge = image.height
    margin, bar = edge // 16, edge // 32
    canvas = Image.new("RGB", (edge + 4 * margin + bar, edge + 2 * margin), "#0b0b10")
    canvas.paste(image, (margin, margin))
    left = edge + 2 * margin
    scale = coloured(np.repeat(np.linspace(HOT, COLD, edge)[:, None], bar, 1)).astype(np.uint8)
    canvas.paste(Image.fromarray(scale), (left, margin))
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(edge // 36)
    for degrees in range(int(COLD), int(HOT) + 1, 20):
        y = margin + round((edge - 1) * (1 - (degrees - COLD) / (HOT - COLD)))
        draw.text((left + bar + margin // 4, y), f"{degrees} °C", "#d8d8de", font, anchor="lm")
    return canvas


def main() -> None:
    parser = common.parser(__doc__, size=512, meaning="cells along each edge of the plate")
    parser.add_argument(
        "--steps", type=common.positive, default=1000, help="time steps (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("heat_equation.png"), help="the picture to write; - for none"
    )
    args = parser.parse_args()
    size, steps = args.size, args.steps
    first, held = plate(size)
    temperature = np.empty_like(first)
    context, queue = common.open_queue()
    common.announce(queue, f"{size} x {size} cells, {steps} steps")
    advance = cl.Kernel(cl.Program(context, SOURCE).build(), "advance")
    grid = common.round_up(size, GROUP[0]), common.round_up(size, GROUP[1])
    width = height = np.uint32(size)

    def upload() -> list[cl.Buffer]:
        fields = [common.write(queue, first, kept=True) for _ in range(2)]
        return [*fields, common.write(queue, held)]

    def launch(buffers: list[cl.Buffer]) -> None:
        for _ in range(steps):
            advance(queue, grid, GROUP, *buffers, width, height, RATE)
            buffers[:2] = buffers[1::-1]

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, temperature, buffers[0])
        return temperature

    job = common.Job(queue, upload, launch, download)
    common.run(job, "time steps", count=1e-6 * size * size * steps, unit="million cells")
    print(
        f"  temperature: mean {first.mean():.1f} °C at the start, {temperature.mean():.1f} °C at the end; "
        f"now from {temperature.min():.1f} to {temperature.max():.1f} °C"
    )
    core = 0, size
    if size > MOST_CHECKED_WHOLE:
        wire = int(np.median(np.flatnonzero(np.diagonal(held))))
        core = wire - 16, wire + 16
    expected = stepped(first, held, steps, core)
    rows = slice(*core)
    what = f"cells {core[0]} to {core[1] - 1} both ways after {steps} steps"
    common.check(what, temperature[rows, rows], expected, 1e-4)
    if str(args.output) != "-":
        picture(temperature, held).save(args.output)
        print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
