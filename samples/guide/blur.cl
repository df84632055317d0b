/* A row blurred with its neighbours, through a tile in local memory. */
__kernel void blur(__global float *out, __global const float *in, const int n) {
  __local float tile[66];
  const int i = get_global_id(0), l = get_local_id(0) + 1, last = get_local_size(0);
  tile[l] = i < n ? in[i] : 0.0f;
  if (l == 1)
    tile[0] = i > 0 && i <= n ? in[i - 1] : 0.0f;
  if (l == last)
    tile[last + 1] = i + 1 < n ? in[i + 1] : 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < n)
    out[i] = (tile[l - 1] + tile[l] + tile[l + 1]) / 3.0f;
}
