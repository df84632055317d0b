/* Asynchronous copies to local memory: until somebody waits, what they write is in flight, and no barrier lands it. */
void P_flies(P_C c, ulong cell, ulong ncells, uint site);
void P_flies(P_C c, ulong cell, ulong ncells, uint site) {
  for (ulong k = cell; k < cell + ncells; k++) c->local_cells[3 * k] = P_IN_FLIGHT << 36 | (site & 0xffff);
  if (c->nflying < P_FLIGHTS) { c->flying[2 * c->nflying] = cell; c->flying[2 * c->nflying++ + 1] = ncells; }
}
void P_land(P_C c);
void P_land(P_C c) {
  for (uint i = 0; i < c->nflying; i++)
    for (ulong k = c->flying[2 * i]; k < c->flying[2 * i] + c->flying[2 * i + 1]; k++) c->local_cells[3 * k] = P_L_SAME;
  c->nflying = 0;
}
