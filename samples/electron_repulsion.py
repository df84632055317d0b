"""Repulsion integrals between electrons in hydrogen's orbitals, by quadrature: two kernels, launched in
turn on batches.

The first computes an integral over four Gaussian functions a work-item; the atoms of each quartet are read
from a list. The second contracts the 81 integrals of a quartet of orbitals (STO-3G: three Gaussians each)
in a work-group.

Stands in for Parboil's RPES (Rys polynomial equation solver), RPES in Table 2 of Kim et al. (PPoPP 2011),
of whose source no copy was found: integrals of the same kind by two kernels too, but for s orbitals only,
where the Rys polynomial's weight is the integral over t from 0 to 1 of exp(-T t^2), here by Gauss and
Legendre's rule.

Source: J. Rys, M. Dupuis and H. F. King, "Computation of Electron Repulsion Integrals Using the Rys
Quadrature Method" (1983); A. Szabo and N. S. Ostlund, "Modern Quantum Chemistry" (1989), whose values
for H2 are checked.
"""

import math

import common
import numpy as np
import pyopencl as cl

GAUSSIANS, GROUP, LANES = 3, 64, 32
EXPONENTS = np.array([3.42525091, 0.62391373, 0.16885540])  # of 1/bohr^2
COEFFICIENTS = np.array([0.15432897, 0.53532814, 0.44463454]) * (2 * EXPONENTS / np.pi) ** 0.75
SOURCE = """
#define PRIMITIVES (GAUSSIANS * GAUSSIANS * GAUSSIANS * GAUSSIANS)

/* The integral of exp(-t2 * x * x) over x from 0 to 1; `rule` is the squared nodes and the weights. */
float weight(const float t2, __constant float2 *rule)
{
    if (t2 > 30.0f) /* the error function is one in single precision */
        return 0.5f * sqrt(M_PI_F / t2);
    float sum = 0.0f;
    for (int i = 0; i < POINTS; ++i)
        sum += rule[i].y * exp(-t2 * rule[i].x);
    return sum;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void primitives(__global const float4 *atoms, __global const ushort4 *quartets, __constant float2 *gaussians,
                __constant float2 *rule, __global float *result, const uint n, const ulong first)
{
    const uint item = get_global_id(0);
    if (item >= n)
        return;
    const ushort4 quartet = quartets[first + item / PRIMITIVES];
    const uint primitive = item % PRIMITIVES;
    const float3 a = atoms[quartet.x].xyz, b = atoms[quartet.y].xyz;
    const float3 c = atoms[quartet.z].xyz, d = atoms[quartet.w].xyz;
    const float2 ga = gaussians[primitive % GAUSSIANS], gb = gaussians[primitive / GAUSSIANS % GAUSSIANS];
    const float2 gc = gaussians[primitive / (GAUSSIANS * GAUSSIANS) % GAUSSIANS];
    const float2 gd = gaussians[primitive / (GAUSSIANS * GAUSSIANS * GAUSSIANS)];

    const float p = ga.x + gb.x, q = gc.x + gd.x;
    const float3 ab = a - b, cd = c - d;
    const float3 between = (ga.x * a + gb.x * b) / p - (gc.x * c + gd.x * d) / q;
    const float factor = 2.0f * pow(M_PI_F, 2.5f) / (p * q * sqrt(p + q))
                       * exp(-ga.x * gb.x / p * dot(ab, ab) - gc.x * gd.x / q * dot(cd, cd));
    result[item] = ga.y * gb.y * gc.y * gd.y * factor * weight(p * q / (p + q) * dot(between, between), rule);
}

__kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))
void contract(__global const float *terms, __global float *integrals, const ulong first)
{
    __local float scratch[LANES];
    const uint lid = get_local_id(0);
    const size_t quartet = get_group_id(0);
    float sum = 0.0f;
    for (uint i = lid; i < PRIMITIVES; i += LANES)
        sum += terms[quartet * PRIMITIVES + i];
    scratch[lid] = sum;
    for (uint reach = LANES / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < reach)
            scratch[lid] += scratch[lid + reach];
    }
    if (lid == 0)
        integrals[first + quartet] = scratch[0];
}
"""
# (11|11), (21|11), (21|21), (22|11) of H2 at 1.4 bohr: Szabo and Ostlund, section 3.5.2; and their quartets.
PUBLISHED = {0.7746: (0, 0, 0, 0), 0.4441: (1, 0, 0, 0), 0.2970: (1, 0, 1, 0), 0.5697: (1, 1, 0, 0)}


def pairs_of(numbers: common.Array) -> tuple[common.Array, common.Array]:
    """Row and column, not above the row, of the elements of a lower triangle that are counted row by row."""
    row = ((np.sqrt(8.0 * numbers + 1) - 1) / 2).astype(np.int64)
    row -= row * (row + 1) // 2 > numbers
    row += (row + 1) * (row + 2) // 2 <= numbers
    return row, numbers - row * (row + 1) // 2


def quartets_of(numbers: common.Array) -> common.Array:
    """The four atoms of the quartets with these numbers, pairs of pairs; uint16, one quartet a row."""
    bra, ket = pairs_of(numbers)
    return np.stack([*pairs_of(bra), *pairs_of(ket)], 1).astype(np.uint16)


def number_of(quartet: tuple[int, int, int, int]) -> int:
    """The number of a quartet whose atoms are in the order that `quartets_of` gives."""
    bra, ket = (row * (row + 1) // 2 + column for row, column in (quartet[:2], quartet[2:]))
    return bra * (bra + 1) // 2 + ket


def integrals_of(atoms: common.Array, quartets: common.Array) -> common.Array:
    """The integrals of quartets of atoms in double precision, with the error function for the weight."""
    error_function = np.vectorize(math.erf)
    a, b, c, d = (atoms[quartets[:, i], None, None, None, None, :3].astype(np.float64) for i in range(4))
    grids = np.meshgrid(*[np.arange(GAUSSIANS)] * 4, indexing="ij")
    ea, eb, ec, ed = (EXPONENTS[grid][..., None] for grid in grids)
    p, q = ea + eb, ec + ed
    ab, cd = ((a - b) ** 2).sum(-1, keepdims=True), ((c - d) ** 2).sum(-1, keepdims=True)
    between = (((ea * a + eb * b) / p - (ec * c + ed * d) / q) ** 2).sum(-1, keepdims=True)
    t2 = np.maximum(p * q / (p + q) * between, 1e-14)
    factor = 2 * np.pi**2.5 / (p * q * np.sqrt(p + q)) * np.exp(-ea * eb / p * ab - ec * ed / q * cd)
    terms = factor * 0.5 * np.sqrt(np.pi / t2) * error_function(np.sqrt(t2))
    coefficients = np.prod([COEFFICIENTS[grid] for grid in grids], 0).ravel()
    contracted: common.Array = terms.reshape(len(quartets), -1) @ coefficients
    return contracted


def computed(
    queue: cl.CommandQueue, atoms: common.Array, quartets: common.Array, batch: int, points: int
) -> common.Array:
    """The integrals of quartets of the atoms, computed on the queue's device, so many at a time."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    rule = np.stack([((nodes + 1) / 2) ** 2, weights / 2], 1).astype(np.float32)
    gaussians = np.stack([EXPONENTS, COEFFICIENTS], 1).astype(np.float32)
    integrals = np.empty(len(quartets), np.float32)
    options = [f"-DGAUSSIANS={GAUSSIANS}", f"-DPOINTS={points}", f"-DGROUP={GROUP}", f"-DLANES={LANES}"]
    program = cl.Program(queue.context, SOURCE).build(options)
    primitives, contract = cl.Kernel(program, "primitives"), cl.Kernel(program, "contract")

    def upload() -> list[cl.Buffer]:
        inputs = [common.write(queue, array) for array in (atoms, quartets, gaussians, rule)]
        terms = common.room(queue, 4 * min(batch, len(quartets)) * GAUSSIANS**4)
        return [*inputs, terms, common.room(queue, integrals.nbytes)]

    def launch(buffers: list[cl.Buffer]) -> None:
        *inputs, terms, result = buffers
        for first in range(0, len(quartets), batch):
            number = min(batch, len(quartets) - first)
            nterms = number * GAUSSIANS**4
            grid = (common.round_up(nterms, GROUP),)
            primitives(queue, grid, (GROUP,), *inputs, terms, np.uint32(nterms), np.uint64(first))
            contract(queue, (number * LANES,), (LANES,), terms, result, np.uint64(first))

    def download(buffers: list[cl.Buffer]) -> common.Array:
        cl.enqueue_copy(queue, integrals, buffers[-1])
        return integrals

    job = common.Job(queue, upload, launch, download)
    common.run(job, "integrals", count=1e-6 * len(quartets), unit="million integrals")
    return integrals


def main() -> None:
    parser = common.parser(__doc__, size=16, meaning="hydrogen atoms; the integrals grow as its fourth power")
    for name, default, meaning in (
        ("batch", 8192, "integrals computed at a time"),
        ("points", 16, "of the quadrature"),
    ):
        parser.add_argument(
            f"--{name}", type=common.positive, default=default, help=f"{meaning} (default: %(default)s)"
        )
    args = parser.parse_args()
    n = args.size
    npairs = n * (n + 1) // 2
    nquartets = npairs * (npairs + 1) // 2
    atoms = np.zeros((n, 4), np.float32)
    atoms[2:, :3] = np.random.default_rng(20).random((max(0, n - 2), 3), np.float32) * 3 * n ** (1 / 3)
    atoms[1:2, 0] = 1.4

    quartets = quartets_of(np.arange(nquartets))

    _, queue = common.open_queue()
    common.announce(queue, f"{n} atoms, {nquartets} integrals in {-(-nquartets // args.batch)} batches")
    integrals = computed(queue, atoms, quartets, args.batch, args.points)
    chosen = common.some(nquartets, 1 << 14)
    expected = integrals_of(atoms, quartets[chosen])
    common.check(f"{chosen.size} of {nquartets} integrals", integrals[chosen], expected, 1e-5)
    known = {value: number_of(quartet) for value, quartet in PUBLISHED.items() if max(quartet) < n}
    common.check("the published integrals of H2", integrals[list(known.values())], list(known), 1e-4)


if __name__ == "__main__":
    main()
