/* Shadow of private variables: a byte for each granule says whether it is written. */
void P_mark(__private uchar *shadow, uint first, uint count, uint cells, uchar state);
void P_mark(__private uchar *shadow, uint first, uint count, uint cells, uchar state) {
  if (first < cells && count <= cells - first)
    for (uint i = 0; i < count; i++) shadow[first + i] = state;
}
void P_copied(__private uchar *to, const __private uchar *from, uint cells);
void P_copied(__private uchar *to, const __private uchar *from, uint cells) {
  for (uint i = 0; i < cells; i++) to[i] = from[i];
}
/* `some`: one written granule is enough, as for a vector of which part is wanted. What is told of once counts as written. */
void P_written(P_C c, __private uchar *shadow, uint first, uint count, uint cells, uint some, uint site, uint declared);
void P_written(P_C c, __private uchar *shadow, uint first, uint count, uint cells, uint some, uint site, uint declared) {
  uint found = 0;
  if (first >= cells || count > cells - first) return;
  for (uint i = 0; i < count; i++) found += shadow[first + i];
  if (found == count || (some && found)) return;
  P_report(c, P_UNWRITTEN_PRIVATE, site, -1, 0, 0, declared, 0);
  for (uint i = 0; i < count; i++) shadow[first + i] = 1;
}
