/* A structure copied out of memory: its granules are written where those there are. */
void P_fetched(P_C c, __private uchar *shadow, uint cells, uint granule);
void P_fetched(P_C c, __private uchar *shadow, uint cells, uint granule) {
  for (uint i = 0; i < cells; i++) shadow[i] = (uchar)P_is_set(c, c->noted + i * granule, granule, -1, c->noted_local);
}
