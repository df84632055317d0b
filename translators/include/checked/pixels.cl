/* The coordinates of a pixel, and how it is sampled: 14 addressing, 1 normalised, 0x20 linear; a sampler of P_STRICT says that
   nothing is known outside. */
#define P_STRICT 0u
__attribute__((noinline)) void P_pixel(P_C c, const volatile __global uchar *p, int width, int height, int depth, uint row, long slice, uint elem, int4 at, uint sampler, uint site, int root, uint mode);
__attribute__((noinline)) void P_pixel(P_C c, const volatile __global uchar *p, int width, int height, int depth, uint row, long slice, uint elem, int4 at, uint sampler, uint site, int root, uint mode) {
  if (at.x < 0 || at.x >= width || at.y < 0 || at.y >= height || at.z < 0 || at.z >= depth) {
    if (!(sampler & 14u)) P_report(c, P_PIXEL, site, root, (ulong)(uint)at.x | (ulong)(uint)at.y << 32, (uint)at.z, (uint)width, (uint)height);
    return;
  }
  if (sampler & 0x20u || elem < P_GRANULE) return;
  P_PIXEL_AT(c, p + at.z * slice + at.y * (long)row + at.x * (long)elem, 0, elem, site, root, mode);
}
int P_whole(float x, int n, uint sampler);
int P_whole(float x, int n, uint sampler) {
  float u = floor(sampler & 1u ? x * n : x);
  return u >= -1.0f && u <= n ? (int)u : u > 0 ? n : -1;
}
