"""Bitonic sort of keys with their values: short runs are sorted and merged in local memory, long ones in
global memory.

Source: K. E. Batcher, "Sorting Networks and Their Applications" (1968), as in the sortingNetworks sample of
the NVIDIA SDK; sort (sort_shared, sort_merge_shared, sort_merge_global) in Table 1 of AMGE (ICS 2015).
"""

import common
import numpy as np
import pyopencl as cl

MOST_CHECKED_WHOLE = 1 << 22
RUN = 512  # elements that a work-group sorts in local memory, two an item
SOURCE = """
/* Exchange elements i and j of keys and values where they are not in the order wanted. */
void order(__local uint *keys, __local uint *values, const uint i, const uint j, const bool descending)
{
    if ((keys[i] > keys[j]) != descending) {
        const uint key = keys[i], value = values[i];
        keys[i] = keys[j];
        values[i] = values[j];
        keys[j] = key;
        values[j] = value;
    }
}

/* Merge one bitonic sequence of 2 * reach elements, all steps in local memory. */
void merge(__local uint *keys, __local uint *values, uint reach, const bool descending)
{
    const uint lid = get_local_id(0);
    for (; reach > 0; reach >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint i = 2 * lid - (lid & (reach - 1));
        order(keys, values, i, i + reach, descending);
    }
}

__kernel __attribute__((reqd_work_group_size(RUN / 2, 1, 1)))
void sort_shared(__global const uint *keys_in, __global const uint *values_in, __global uint *keys_out,
                 __global uint *values_out)
{
    __local uint keys[RUN], values[RUN];
    const uint lid = get_local_id(0);
    const size_t first = get_group_id(0) * RUN + lid, second = first + RUN / 2;
    keys[lid] = keys_in[first];
    values[lid] = values_in[first];
    keys[lid + RUN / 2] = keys_in[second];
    values[lid + RUN / 2] = values_in[second];

    for (uint length = 2; length < RUN; length <<= 1)
        merge(keys, values, length / 2, (lid & (length / 2)) != 0);
    merge(keys, values, RUN / 2, (get_group_id(0) & 1) != 0);

    barrier(CLK_LOCAL_MEM_FENCE);
    keys_out[first] = keys[lid];
    values_out[first] = values[lid];
    keys_out[second] = keys[lid + RUN / 2];
    values_out[second] = values[lid + RUN / 2];
}

/* One step of merging runs into runs of `length`, over elements `reach` apart. */
__kernel __attribute__((reqd_work_group_size(RUN / 2, 1, 1)))
void merge_global(__global uint *keys, __global uint *values, const uint length, const uint reach)
{
    const uint item = get_global_id(0);
    const bool descending = (item & (length / 2)) != 0;
    const uint i = 2 * item - (item & (reach - 1)), j = i + reach;
    const uint a = keys[i], b = keys[j], value_a = values[i], value_b = values[j];
    const bool exchange = (a > b) != descending;
    keys[i] = exchange ? b : a;
    keys[j] = exchange ? a : b;
    values[i] = exchange ? value_b : value_a;
    values[j] = exchange ? value_a : value_b;
}

/* The remaining steps, once a work-group holds all that it compares. */
__kernel __attribute__((reqd_work_group_size(RUN / 2, 1, 1)))
void merge_shared(__global uint *keys_inout, __global uint *values_inout, const uint length)
{
    __local uint keys[RUN], values[RUN];
    const uint lid = get_local_id(0);
    const size_t first = get_group_id(0) * RUN + lid, second = first + RUN / 2;
    keys[lid] = keys_inout[first];
    values[lid] = values_inout[first];
    keys[lid + RUN / 2] = keys_inout[second];
    values[lid + RUN / 2] = values_inout[second];
    merge(keys, values, RUN / 2, (get_global_id(0) & (length / 2)) != 0);
    barrier(CLK_LOCAL_MEM_FENCE);
    keys_inout[first] = keys[lid];
    values_inout[first] = values[lid];
    keys_inout[second] = keys[lid + RUN / 2];
    values_inout[second] = values[lid + RUN / 2];
}
"""


def check(
    keys: common.Array, values: common.Array, sorted_keys: common.Array, sorted_values: common.Array
) -> None:
    """Check the order, that each key still has its value, and that no value is lost or doubled."""
    if keys.size <= MOST_CHECKED_WHOLE:
        common.check(f"the order of {keys.size} keys", sorted_keys, np.sort(keys))
        common.check("each key beside its value", keys[sorted_values], sorted_keys)
        common.check("no value lost or doubled", np.sort(sorted_values), values)
        return
    wrong = int(np.count_nonzero(sorted_keys[1:] < sorted_keys[:-1]))
    common.verdict(wrong == 0, f"the order of {keys.size} keys", f"{wrong} are smaller than the one before")
    chosen = common.some(keys.size, 1 << 20)
    what = f"{chosen.size} of the keys beside their values"
    common.check(what, keys[sorted_values[chosen]], sorted_keys[chosen])
    found = np.zeros(keys.size, bool)
    found[sorted_values] = True
    common.check("values not lost", np.count_nonzero(found), keys.size)


def main() -> None:
    n = common.parser(__doc__, size=1 << 18, meaning="keys to sort").parse_args().size
    padded = max(RUN, 1 << (n - 1).bit_length())  # the network sorts powers of two
    top = np.iinfo(np.uint32).max  # what pads goes to the end: no key of ours is as large
    keys = np.full(padded, top, np.uint32)
    drawn = np.random.default_rng(10).integers(0, top, min(n, common.MOST_DRAWN), np.uint32)
    keys[:n] = common.repeated(drawn, n)
    values = np.arange(padded, dtype=np.uint32)
    sorted_keys, sorted_values = np.empty_like(keys), np.empty_like(values)
    context, queue = common.open_queue()
    common.announce(queue, f"{n} keys with their values")
    program = cl.Program(context, SOURCE).build([f"-DRUN={RUN}"])
    kernels = [cl.Kernel(program, name) for name in ("sort_shared", "merge_global", "merge_shared")]
    sort_shared, merge_global, merge_shared = kernels
    grid, group = (padded // 2,), (RUN // 2,)

    def upload() -> list[cl.Buffer]:
        return [common.write(queue, array) for array in (keys, values)] + [
            common.room(queue, array.nbytes) for array in (keys, values)
        ]

    def merge_far(buffers: list[cl.Buffer], length: int) -> None:
        reach = length // 2
        while reach > RUN // 2:
            merge_global(queue, grid, group, *buffers[2:], np.uint32(length), np.uint32(reach))
            reach //= 2

    def merge_near(buffers: list[cl.Buffer], length: int) -> None:
        merge_shared(queue, grid, group, *buffers[2:], np.uint32(length))

    def launch(buffers: list[cl.Buffer]) -> None:
        sort_shared(queue, grid, group, *buffers)
        length = 2 * RUN
        while length <= padded:
            merge_far(buffers, length)
            merge_near(buffers, length)
            length *= 2

    def download(buffers: list[cl.Buffer]) -> tuple[common.Array, common.Array]:
        cl.enqueue_copy(queue, sorted_keys, buffers[2])
        cl.enqueue_copy(queue, sorted_values, buffers[3])
        return sorted_keys, sorted_values

    parts = {
        "sort_shared": lambda buffers: sort_shared(queue, grid, group, *buffers),
        "sort_merge_global": lambda buffers: merge_far(buffers, padded),
        "sort_merge_shared": lambda buffers: merge_near(buffers, padded),
    }
    job = common.Job(queue, upload, launch, download, parts)
    common.run(job, "sort", count=1e-6 * n, unit="million keys")
    check(keys, values, sorted_keys, sorted_values)


if __name__ == "__main__":
    main()
