"""How many bytes move, exactly, for six kernels on 2, 3 and 4 workers: first launch, second launch, what
follows.

The access ranges are made by hand as an exact analysis gives them; `tests/cpu/test_bytes_moved.py` is the
same from source to device.
"""

from __future__ import annotations

import pytest
from vdev.translators.interpreter.summaries import AccessRange
from vdev.translators.ranges.ndrange import Chunk, NDRange
from vdev.translators.ranges.region import Region

from vdev.planner.directory import HOST, BufferState, buffer_state
from vdev.planner.footprints import PointerArg
from vdev.planner.instructions import Plan
from vdev.planner.launch_request import Evaluate, LaunchOptions, LaunchRequest
from vdev.planner.launches import plan_launch
from vdev.planner.links import LinkCosts
from vdev.planner.transfers import plan_fill

FLOAT = 4
WORKERS = [2, 3, 4]
N = 192  # a multiple of 16 times 2, 3 and 4
SQUARE = N * N * FLOAT


def at_host(nbytes: int) -> BufferState:
    """Just written by the host."""
    return buffer_state(nbytes, [(HOST, Region.span(0, nbytes))])


def launch(
    states: list[BufferState], ndrange: NDRange, evaluate: Evaluate, workers: int, per_run: float = 0.0
) -> Plan:
    """One buffer for each argument, whole."""
    args = tuple(PointerArg(index, index, 0, state.nbytes) for index, state in enumerate(states))
    options = LaunchOptions(tuple(range(workers)), LinkCosts.uniform(workers, per_run=per_run))
    return plan_launch(states, LaunchRequest(args, ndrange, evaluate), options)


def read(arg: int, region: Region) -> AccessRange:
    return AccessRange(arg, "read", region, True)


def write(arg: int, region: Region) -> AccessRange:
    return AccessRange(arg, "write", region, True)


def items(chunk: Chunk, ndrange: NDRange, dimension: int) -> tuple[int, int]:
    """First and one past the last global id of a chunk."""
    local = ndrange.local_size[dimension]
    return chunk.start[dimension] * local, chunk.stop[dimension] * local


def tile(rows: tuple[int, int], columns: tuple[int, int], pitch: int = N) -> Region:
    """Elements of a row-major matrix of floats."""
    (top, bottom), (left, right) = rows, columns
    return Region.boxes(
        (top * pitch + left) * FLOAT, (right - left) * FLOAT, ((pitch * FLOAT, bottom - top),)
    )


TILES = NDRange((N, N), (16, 16), (0, 0))


def matmul(chunk: Chunk) -> list[AccessRange]:
    """C[y][x] = sum of A[y][k] * B[k][x]; arguments C, A, B."""
    columns, rows = items(chunk, TILES, 0), items(chunk, TILES, 1)
    return [write(0, tile(rows, columns)), read(1, tile(rows, (0, N))), read(2, tile((0, N), columns))]


@pytest.mark.parametrize(("workers", "squares", "cuts"), [(2, 3, (1, 2)), (3, 4, (1, 3)), (4, 4, (2, 2))])
def test_matrix_multiplication(workers: int, squares: int, cuts: tuple[int, int]) -> None:
    """By rows A goes out once and B to everybody.

    On a grid each goes to every worker of its row or column.
    """
    states = [buffer_state(SQUARE), at_host(SQUARE), at_host(SQUARE)]
    first = launch(states, TILES, matmul, workers)
    assert first.moved_nbytes == squares * SQUARE
    assert (TILES.num_groups[0] // cuts[0], TILES.num_groups[1] // cuts[1]) == first.partition[0][1].stop
    assert all(source == HOST for source, _, _ in first.moved)
    second = launch(list(first.states), TILES, matmul, workers)
    assert second.moved_nbytes == 0
    assert second.states == first.states


def stencil(chunk: Chunk) -> list[AccessRange]:
    """Each point of argument 1 from argument 0's same point and its four neighbours, inside the field."""
    (left, right), (top, bottom) = items(chunk, TILES, 0), items(chunk, TILES, 1)
    cross = Region.union(
        (
            tile((max(top - 1, 0), min(bottom + 1, N)), (left, right)),
            tile((top, bottom), (max(left - 1, 0), min(right + 1, N))),
        )
    )
    return [read(0, cross), write(1, tile((top, bottom), (left, right)))]


@pytest.mark.parametrize(("workers", "halo_lines"), [(2, 2), (3, 4), (4, 4)])
def test_five_point_stencil(workers: int, halo_lines: int) -> None:
    """The field once, then only the lines along the cuts: one each way for each of 1 or 2 cuts (4 workers.

    A cross).
    """
    states = [at_host(SQUARE), buffer_state(SQUARE)]
    halos = halo_lines * N * FLOAT
    plan = launch(states, TILES, stencil, workers)
    assert plan.moved_nbytes == SQUARE + halos
    for _ in range(4):
        plan = launch([plan.states[1], plan.states[0]], TILES, stencil, workers)
        assert plan.moved_nbytes == halos
        assert all(HOST not in (source, target) for source, target, _ in plan.moved)


def test_a_stencil_where_short_runs_are_dear() -> None:
    """A grid would move fewer bytes (above), but in columns of single elements."""
    plan = launch([at_host(SQUARE), buffer_state(SQUARE)], TILES, stencil, 4, per_run=64.0)
    assert plan.moved_nbytes == SQUARE + 6 * N * FLOAT


def transpose(chunk: Chunk) -> list[AccessRange]:
    columns, rows = items(chunk, TILES, 0), items(chunk, TILES, 1)
    return [read(0, tile(rows, columns)), write(1, tile(columns, rows))]


@pytest.mark.parametrize("workers", WORKERS)
def test_transpose(workers: int) -> None:
    """The input once. The output lies in column blocks.

    Transposing it back moves nothing, as the cut follows the data.
    """
    first = launch([at_host(SQUARE), buffer_state(SQUARE)], TILES, transpose, workers)
    assert first.moved_nbytes == SQUARE
    second = launch(list(first.states), TILES, transpose, workers)
    assert second.moved_nbytes == 0
    back = launch([second.states[1], buffer_state(SQUARE)], TILES, transpose, workers)
    assert back.moved_nbytes == 0


@pytest.mark.parametrize("workers", WORKERS)
def test_rows_after_a_transpose(workers: int) -> None:
    """A kernel that can only be cut by rows, after one that left column blocks.

    All but each worker's own share moves.
    """
    first = launch([at_host(SQUARE), buffer_state(SQUARE)], TILES, transpose, workers)
    rows = NDRange((N,), (16,), (0,))

    def row_sums(chunk: Chunk) -> list[AccessRange]:
        top, bottom = items(chunk, rows, 0)
        return [read(0, tile((top, bottom), (0, N))), write(1, Region.span(top * FLOAT, bottom * FLOAT))]

    plan = launch([first.states[1], buffer_state(N * FLOAT)], rows, row_sums, workers)
    assert plan.moved_nbytes == SQUARE * (workers - 1) // workers


LANES = NDRange((12 * 64,), (64,), (0,))
ELEMENTS = 40 * 12 * 64 + 100


def saxpy(chunk: Chunk) -> list[AccessRange]:
    """y[i] = a*x[i] + y[i], i from the global id in steps of the global size: pyopencl.array's kernels."""
    start, stop = items(chunk, LANES, 0)
    step = LANES.global_size[0] * FLOAT
    cycles = Region.boxes(start * FLOAT, (stop - start) * FLOAT, ((step, 41),)).clip(0, ELEMENTS * FLOAT)
    return [read(0, cycles), read(1, cycles), write(1, cycles)]


@pytest.mark.parametrize("workers", WORKERS)
def test_saxpy_in_block_cyclic_shares(workers: int) -> None:
    first = launch([at_host(ELEMENTS * FLOAT), at_host(ELEMENTS * FLOAT)], LANES, saxpy, workers)
    assert first.moved_nbytes == 2 * ELEMENTS * FLOAT
    second = launch(list(first.states), LANES, saxpy, workers)
    assert second.moved_nbytes == 0


BINS = 256 * 4


def histogram(chunk: Chunk) -> list[AccessRange]:
    """Each lane counts 40 bytes of the data into the bins."""
    start, stop = items(chunk, LANES, 0)
    bins = AccessRange(1, "atomic", Region.span(0, BINS), False, "add", "uint32", "index from memory", 5)
    return [read(0, Region.span(start * 40, stop * 40)), bins]


@pytest.mark.parametrize("workers", WORKERS)
def test_histogram_with_atomics(workers: int) -> None:
    """The data once; each time one set of bins from each worker, and none to it.

    Clearing the bins between moves nothing.
    """
    data = LANES.global_size[0] * 40
    links = LinkCosts.uniform(workers)
    cleared = plan_fill(buffer_state(BINS), 0, BINS, bytes(4), links)
    assert cleared.moved_nbytes == 0
    first = launch([at_host(data), cleared.states[0]], LANES, histogram, workers)
    assert first.moved_nbytes == data + workers * BINS
    cleared = plan_fill(first.states[1], 0, BINS, bytes(4), links)
    assert cleared.moved_nbytes == 0
    second = launch([first.states[0], cleared.states[0]], LANES, histogram, workers)
    assert second.moved == tuple((worker, HOST, BINS) for worker in range(workers))


def scatter(chunk: Chunk) -> list[AccessRange]:
    """out[index[i]] = value[i]: arguments out, index, value."""
    start, stop = items(chunk, LANES, 0)
    mine = Region.span(start * FLOAT, stop * FLOAT)
    anywhere = Region.span(0, LANES.global_size[0] * FLOAT)
    return [
        AccessRange(0, "write", anywhere, False, reason="index from memory", line=3),
        read(1, mine),
        read(2, mine),
    ]


@pytest.mark.parametrize("workers", WORKERS)
def test_scatter_through_an_index_array(workers: int) -> None:
    """Index and values once.

    The output to every worker and back each time, for it is compared with its twin.
    """
    size = LANES.global_size[0] * FLOAT
    first = launch([at_host(size), at_host(size), at_host(size)], LANES, scatter, workers)
    assert first.moved_nbytes == 2 * size + 2 * workers * size
    assert first.reasons == (
        f"argument 0: {size} bytes that several chunks may write are compared with a twin"
        " (index from memory), line 3",
    )
    second = launch(list(first.states), LANES, scatter, workers)
    assert second.moved_nbytes == 2 * workers * size


@pytest.mark.parametrize("workers", WORKERS)
def test_scatter_into_memory_nobody_wrote(workers: int) -> None:
    """There is nothing to bring to the workers: twin and copies start from zeros."""
    size = LANES.global_size[0] * FLOAT
    first = launch([buffer_state(size), at_host(size), at_host(size)], LANES, scatter, workers)
    assert first.moved_nbytes == 2 * size + workers * size
