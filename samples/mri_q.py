"""The matrix Q of reconstructing magnetic resonance images from samples that are not on a grid: two
kernels.

The first squares the samples' magnitudes; each launch of the second adds the samples that fit constant
memory, a voxel a work-item.

Source: S. S. Stone et al., "Accelerating Advanced MRI Reconstructions on GPUs" (2008), as in Parboil's
mri-q; MRI-Q in Table 2 of Kim et al. (PPoPP 2011).
"""

import common
import numpy as np
import pyopencl as cl

GROUP = 256
SAMPLES_A_LAUNCH = 1024
SOURCE = """
typedef struct {
    float kx, ky, kz, magnitude;
} Sample;

__kernel void magnitudes(__global const float *real, __global const float *imaginary, __global float *result,
                         const int n)
{
    const int i = get_global_id(0);
    if (i < n)
        result[i] = real[i] * real[i] + imaginary[i] * imaginary[i];
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void add_q(__constant Sample *samples, const int nsamples, __global const float *xs, __global const float *ys,
           __global const float *zs, __global float *q_real, __global float *q_imaginary, const int voxels)
{
    const int i = get_global_id(0);
    if (i >= voxels)
        return;
    const float x = xs[i], y = ys[i], z = zs[i];
    float real = q_real[i], imaginary = q_imaginary[i];
    for (int k = 0; k < nsamples; ++k) {
        const float turns = samples[k].kx * x + samples[k].ky * y + samples[k].kz * z;
        real += samples[k].magnitude * cospi(2.0f * turns);
        imaginary += samples[k].magnitude * sinpi(2.0f * turns);
    }
    q_real[i] = real;
    q_imaginary[i] = imaginary;
}
"""
SAMPLE = np.dtype([(name, np.float32) for name in ("kx", "ky", "kz", "magnitude")])


def computed(
    queue: cl.CommandQueue, phi: list[common.Array], trajectory: common.Array, voxels: list[common.Array]
) -> tuple[common.Array, common.Array]:
    """The samples' squared magnitudes, and Q's real and imaginary parts, computed on the queue's device."""
    nsamples, nvoxels = len(trajectory), len(voxels[0])
    program = cl.Program(queue.context, SOURCE).build([f"-DGROUP={GROUP}"])
    magnitudes, add_q = cl.Kernel(program, "magnitudes"), cl.Kernel(program, "add_q")

    squares, q = np.empty(nsamples, np.float32), np.empty((2, nvoxels), np.float32)

    def upload() -> list[list[cl.Buffer]]:
        inputs = [[common.write(queue, a) for a in arrays] for arrays in (phi, voxels)]
        small = [common.room(queue, nbytes) for nbytes in (4 * nsamples, SAMPLE.itemsize * SAMPLES_A_LAUNCH)]
        return [*inputs, small, [common.room(queue, 4 * nvoxels) for _ in range(2)]]

    def launch(buffers: list[list[cl.Buffer]]) -> None:
        phi_buffers, voxel_buffers, (magnitudes_buffer, constant), q_buffers = buffers
        grid = (common.round_up(nsamples, GROUP),)
        magnitudes(queue, grid, (GROUP,), *phi_buffers, magnitudes_buffer, np.int32(nsamples))
        cl.enqueue_copy(queue, squares, magnitudes_buffer)
        samples = np.concatenate([trajectory, squares[:, None]], 1).view(SAMPLE)[:, 0]
        for buffer in q_buffers:
            cl.enqueue_fill_buffer(queue, buffer, np.float32(0), 0, 4 * nvoxels)
        grid = (common.round_up(nvoxels, GROUP),)
        for start in range(0, nsamples, SAMPLES_A_LAUNCH):
            part = samples[start : start + SAMPLES_A_LAUNCH]
            common.rewrite(queue, constant, part)
            args = constant, np.int32(len(part)), *voxel_buffers, *q_buffers, np.int32(nvoxels)
            add_q(queue, grid, (GROUP,), *args)

    def download(buffers: list[list[cl.Buffer]]) -> tuple[common.Array, common.Array]:
        for row, buffer in zip(q, buffers[-1], strict=True):
            cl.enqueue_copy(queue, row, buffer)
        return squares, q

    job = common.Job(queue, upload, launch, download)
    done: tuple[common.Array, common.Array] = common.run(
        job, "Q", count=1e-9 * nvoxels * nsamples, unit="billion terms"
    )
    return done


def main() -> None:
    parser = common.parser(__doc__, size=16, meaning="voxels along each edge of the volume")
    parser.add_argument(
        "--samples", type=common.positive, default=2048, help="k-space samples (default: %(default)s)"
    )
    args = parser.parse_args()
    nvoxels, nsamples = args.size**3, args.samples
    rng = np.random.default_rng(17)
    phi = list(rng.standard_normal((2, nsamples), np.float32))
    trajectory = rng.random((nsamples, 3), np.float32) * 8 - 4  # turns over the volume's edge
    position = np.linspace(-0.5, 0.5, args.size, dtype=np.float32)
    zs, ys, xs = (a.ravel() for a in np.meshgrid(position, position, position, indexing="ij"))

    _, queue = common.open_queue()
    common.announce(queue, f"{nvoxels} voxels, {nsamples} samples")
    squares, q = computed(queue, phi, trajectory, [xs, ys, zs])
    expected_squares = phi[0].astype(np.float64) ** 2 + phi[1].astype(np.float64) ** 2
    common.check(f"the magnitudes of {nsamples} samples", squares, expected_squares, 1e-6)
    chosen = common.some(nvoxels, max(64, (1 << 23) // nsamples))
    turns = np.stack([xs, ys, zs], 1)[chosen].astype(np.float64) @ trajectory.T
    expected = np.exp(2j * np.pi * turns) @ expected_squares
    found = q[0, chosen] + 1j * q[1, chosen]
    common.check(f"Q in {chosen.size} of {nvoxels} voxels", found, expected, common.rounding(nsamples))


if __name__ == "__main__":
    main()
