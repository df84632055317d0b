/* A structure copied out of memory: its granules are written where those there are. */
void P_fetched(P_C c, __private uchar *shadow, uint cells, uint granule);
void P_fetched(P_C c, __private uchar *shadow, uint cells, uint granule) {
  for (uint i = 0; i < cells; i++) shadow[i] = (uchar)P_is_set(c, c->noted + i * granule, granule, -1, c->noted_local);
}
/* A number or a vector copied out of memory that nobody has written: told of where it is used, as the access that read it. */
typedef struct { ulong place; uint site, size; uchar is_local; } P_from;
void P_got(P_C c, __private uchar *shadow, uint cells, uint granule, uint size, __private P_from *from);
void P_got(P_C c, __private uchar *shadow, uint cells, uint granule, uint size, __private P_from *from) {
  from->place = 0;
  for (uint i = 0; i < cells; i++) {
    shadow[i] = (uchar)P_is_set(c, c->noted + i * granule, granule ? granule : size, -1, c->noted_local);
    if (!shadow[i]) { from->place = c->noted; from->site = c->noted_site; from->size = size; from->is_local = c->noted_local; }
  }
}
void P_used(P_C c, __private uchar *shadow, uint first, uint count, uint cells, uint some, uint site, uint declared, const __private P_from *from);
void P_used(P_C c, __private uchar *shadow, uint first, uint count, uint cells, uint some, uint site, uint declared, const __private P_from *from) {
  uint found = 0;
  if (!from->place) { P_written(c, shadow, first, count, cells, some, site, declared); return; }
  if (first >= cells || count > cells - first) return;
  for (uint i = 0; i < count; i++) found += shadow[first + i];
  if (found == count || (some && found)) return;
  int root = P_find(c, from->place, from->is_local);
  P_report(c, from->is_local ? P_UNWRITTEN_LOCAL : P_UNWRITTEN, from->site, root, root < 0 ? 0 : from->place - c->lo[root], from->size, 0, 0);
  for (uint i = 0; i < count; i++) shadow[first + i] = 1;
}
