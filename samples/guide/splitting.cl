// Kernels of splitting.md, each launched by splitting.py.

__kernel void add(__global const float *a, __global const float *b, __global float *out, uint n)
{
    size_t i = get_global_id(0);
    if (i < n)
        out[i] = a[i] + b[i];
}

__kernel void blur(__global const float *in, __global float *out, uint width)
{
    size_t x = get_global_id(0), y = get_global_id(1);
    if (x == 0 || y == 0 || x + 1 >= width || y + 1 >= get_global_size(1))
        return;
    size_t i = y * width + x;
    out[i] = (in[i - width] + in[i - 1] + in[i] + in[i + 1] + in[i + width]) / 5;
}

__kernel void transpose(__global const float *in, __global float *out, uint width, uint height)
{
    size_t x = get_global_id(0), y = get_global_id(1);
    out[x * height + y] = in[y * width + x];
}

__kernel void square_all(__global float *a, uint n)
{
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0))
        a[i] *= a[i];
}

__kernel void sum_groups(__global const int *in, __global int *sums, __local int *scratch)
{
    size_t l = get_local_id(0);
    scratch[l] = in[get_global_id(0)];
    for (size_t reach = get_local_size(0) / 2; reach > 0; reach /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < reach)
            scratch[l] += scratch[l + reach];
    }
    if (l == 0)
        sums[get_group_id(0)] = scratch[0];
}

__kernel void gather(__global const float *in, __global const int *index, __global float *out)
{
    size_t i = get_global_id(0);
    out[i] = in[index[i]];
}

__kernel void scatter(__global const float *in, __global const int *index, __global float *out)
{
    size_t i = get_global_id(0);
    out[index[i]] = in[i];
}

__kernel void histogram(__global const uchar *in, __global uint *bins)
{
    atomic_inc(&bins[in[get_global_id(0)]]);
}

__kernel void keep_positive(__global const int *in, __global int *out, __global uint *count)
{
    int value = in[get_global_id(0)];
    if (value > 0)
        out[atomic_inc(count)] = value;
}

__kernel void sum_all(__global const int *in, __global int *sums, __global uint *done, __global int *total)
{
    if (get_local_id(0) > 0)
        return;
    size_t first = get_group_id(0) * get_local_size(0);
    int sum = 0;
    for (size_t i = first; i < first + get_local_size(0); ++i)
        sum += in[i];
    sums[get_group_id(0)] = sum;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    if (atomic_inc(done) + 1 == get_num_groups(0))  // the last work-group adds up
        for (size_t group = 0; group < get_num_groups(0); ++group)
            *total += sums[group];
}

__kernel void collatz(__global const int *in, __global int *steps)
{
    int value = in[get_global_id(0)], count = 0;
again:
    if (value != 1) {
        value = value % 2 ? 3 * value + 1 : value / 2;
        ++count;
        goto again;
    }
    steps[get_global_id(0)] = count;
}
