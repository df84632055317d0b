"""Which samples the benchmarks run, in what sizes, and how closely results must agree with native ones.

Decides sizes and tolerances; the samples decide the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Table 2 of Kim et al. (PPoPP 2011); Table 1 of AMGE (ICS 2015); what else there is.
KIM, AMGE, OTHER = "kim", "amge", "other"
PRESETS = "gpu", "small"


@dataclass(frozen=True)
class Entry:
    """A sample: its arguments for GPUs and for a small machine, and the largest relative difference of two
    devices' results.

    `parts` are the names of the kernels that count by themselves on resident data, where it is not the whole job
    that counts: as in AMGE's table a pass of the transform, and each kernel of the sort.
    """

    sample: str
    group: str
    gpu: str
    small: str
    tolerance: float = 1e-5
    parts: tuple[str, ...] = ()

    def arguments(self, preset: str) -> list[str]:
        return (self.gpu if preset == "gpu" else self.small).split()


SORTS = "sort_shared", "sort_merge_global", "sort_merge_shared"
#: The sizes for GPUs take an H200 some tenths of a second, and about as much memory as the papers' inputs times
#: what GPUs have grown by since; where a paper states the input it is named. A quarter of each still occupies a GPU:
#: with fewer work-items than it keeps in flight (some 270,000) four GPUs wait for latencies that one would hide.
ENTRIES = (
    # 65,520 options and 100 iterations there
    Entry("binomial_option", KIM, "--size 6291456", "--size 1024", 1e-4),
    # 16,773,120 options, priced 1000 times
    Entry("black_scholes", KIM, "--size 100663296 --runs 2000", "--size 100000 --runs 10"),
    # 512 stations, 128 channels
    Entry(
        "correlator",
        KIM,
        "--size 4096 --channels 4 --times 8192 --groups 1024",
        "--size 40 --channels 8 --times 64",
        1e-4,
    ),
    # 8192 x 8192 points, 100,000 atoms
    Entry("coulombic_potential", KIM, "--size 8192 --atoms 24000", "--size 128 --atoms 5000", 1e-4),
    # 65,536 rows; here many matrices of fewer: an eigenvalue is a long chain of divisions, and a GPU hides the latencies
    # of one chain behind thousands of others
    Entry("eigenvalue_bisection", KIM, "--size 4096 --matrices 4096", "--size 200 --matrices 3", 3e-5),
    Entry("electron_repulsion", KIM, "--size 96 --batch 4194304 --points 48", "--size 12"),
    # class D: 2^36 pairs
    Entry("embarrassingly_parallel", KIM, "--size 36", "--size 20"),
    # 8192 x 8192
    Entry("matrix_multiplication", KIM, "--size 16384", "--size 400", 1e-4),
    # 64^3 voxels, 2048 samples
    Entry("mri_q", KIM, "--size 192 --samples 65536", "--size 20 --samples 2048", 1e-4),
    # 524,288 bodies, 10 steps; here two full rounds of work-groups on each of four GPUs, where one round more or less
    # would be a third or so
    Entry("nbody", KIM, "--size 2162688 --steps 1", "--size 2048 --steps 3", 1e-4),
    # 97,178 points, 100 sets; here more sets of fewer points: a work-group goes over a whole set, and with long sets
    # the last groups of each GPU would be a tenth of its time
    Entry("tpacf", KIM, "--size 4096 --sets 4000", "--size 800 --sets 4", 1e-4),
    # 16K x 16K
    Entry("convolution_2d", AMGE, "--size 24576", "--size 500"),
    # 256M
    Entry("fft", AMGE, "--size 268435456", "--size 65536", parts=("fft1D",)),
    # 16K x 16K
    Entry("heat_equation", AMGE, "--size 24576 --steps 40 --output -", "--size 512 --steps 20 --output -"),
    Entry("reduction", AMGE, "--size 3221225472", "--size 1000000"),
    Entry("saxpy", AMGE, "--size 536870912", "--size 1000000", 1e-6),
    Entry("sgemm", AMGE, "--size 12288", "--size 500", 1e-4),
    Entry("sgemv", AMGE, "--size 32768", "--size 1000"),
    # 256M
    Entry("bitonic_sort", AMGE, "--size 268435456", "--size 60000", 0.0, SORTS),
    # 1K x 1K x 512; here as many columns as two full rounds of work-groups on each of four GPUs
    Entry("stencil_3d", AMGE, "--size 1440 --steps 40", "--size 96"),
    # 16K x 16K
    Entry("transpose", AMGE, "--size 36864", "--size 1000", 0.0),
    Entry("vector_addition", AMGE, "--size 536870912", "--size 1000000", 0.0),
    # a pixel may round to the neighbouring value
    Entry("cartoon_filter", OTHER, "--size 4096 --output -", "--size 200 --output -", 1.01 / 255),
    Entry("lattice_boltzmann", OTHER, "--size 512 --steps 40", "--size 32 --steps 20"),
)
#: Benchmarks of one thing each: scripts beside this one, and their arguments.
EXTRAS = {
    "upload": {"gpu": "--nbytes 8589934592", "small": "--nbytes 16777216"},
    "tiny_kernel": {"gpu": "--launches 10000", "small": "--launches 300"},
    "repeated_launch": {"gpu": "--launches 10000", "small": "--launches 300"},
    "device_memory": {"gpu": "--share 1.5", "small": "--nbytes 67108864"},
}
NAMES = (*(entry.sample for entry in ENTRIES), *EXTRAS)
#: Names for several.
GROUPS = {
    group: tuple(entry.sample for entry in ENTRIES if entry.group == group) for group in (KIM, AMGE, OTHER)
}
GROUPS["extras"] = tuple(EXTRAS)
