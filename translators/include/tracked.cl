/* Behind checked.cl, where a launch is made again to say who wrote a few places last. The table of places stands behind the log:
   of each its argument (P_C's roots), first byte (low, high) and size, 0 behind the last; how often it was written, and the last
   P_TRACK_LAST writers in turn: site, group, item. */
void P_wrote(P_C c, ulong a, ulong size, uint site, uint mode);
void P_wrote(P_C c, ulong a, ulong size, uint site, uint mode) {
  if (!(mode & P_WRITES)) return;
  volatile __global uint *place = c->log + P_TRACK_AT;
  for (uint i = 0; i < P_TRACK_PLACES && place[3]; i++, place += P_TRACK_WORDS) {
    ulong first = c->lo[place[0]] + ((ulong)place[2] << 32 | place[1]);
    if (a < first + place[3] && first < a + size) {
      volatile __global uint *last = place + 5 + 3 * (atomic_inc(place + 4) % P_TRACK_LAST);
      last[0] = site; last[1] = c->group; last[2] = c->item;
    }
  }
}
__attribute__((noinline)) __global void *P_g_tracked(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __global void *P_g_tracked(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root, uint mode) {
  P_wrote(c, (ulong)p + off, size, site, mode);
  return P_g(c, p, off, size, site, root, mode);
}
__attribute__((noinline)) __global void *P_gv_tracked(P_C c, long n, const volatile __global void *p, uint stride, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __global void *P_gv_tracked(P_C c, long n, const volatile __global void *p, uint stride, uint size, uint site, int root, uint mode) {
  P_wrote(c, (ulong)p + n * stride, size, site, mode);
  return P_gv(c, n, p, stride, size, site, root, mode);
}
__attribute__((noinline)) ulong P_async_tracked(P_C c, const volatile __local void *near_place, const volatile __global void *far_place, ulong n, ulong elem, ulong stride, uint site, int local_root, int global_root, uint to_local);
__attribute__((noinline)) ulong P_async_tracked(P_C c, const volatile __local void *near_place, const volatile __global void *far_place, ulong n, ulong elem, ulong stride, uint site, int local_root, int global_root, uint to_local) {
  if (!to_local && c->item == 0)
    for (ulong i = 0; i < n; i++) P_wrote(c, (ulong)far_place + i * stride * elem, elem, site, P_WRITES);
  return P_async(c, near_place, far_place, n, elem, stride, site, local_root, global_root, to_local);
}
#define P_g P_g_tracked
#define P_gv P_gv_tracked
#define P_async P_async_tracked
