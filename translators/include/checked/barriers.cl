/* Barriers that not all work-items of a group reach. Where work-items may part, the group votes: it parts only where they
   do, and meets again behind the statement. While it is parted no barrier is executed; whoever comes to one is lost, and
   runs to the end without waiting for anybody, so that nothing hangs. Votes are in three turns: who reads one is done
   before anybody clears it. */
#define P_TURN 4
#define P_BROKEN (3 * P_TURN)
#define P_NEVER 0x7fffffffu

void P_meet_begin(P_C c, __local uint *votes);
void P_meet_begin(P_C c, __local uint *votes) {
  c->votes = votes; c->base = c->parted = c->turn = c->escape = c->lost = c->parted_site = 0;
  c->met[0] = c->met[1] = 0;
  if (c->item == 0) {
    for (uint i = 0; i <= P_BROKEN; i++) votes[i] = 0;
    votes[1] = votes[2] = 0xffffffffu;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}
/* What all say: the bits of everybody, and the first work-item on each side, from 1 on. */
uint P_vote(P_C c, uint bits, uint side);
uint P_vote(P_C c, uint bits, uint side) {
  volatile __local uint *now = c->votes + P_TURN * c->turn;
  c->turn = (c->turn + 1) % 3;
  volatile __local uint *next = c->votes + P_TURN * c->turn;
  next[0] = 0; next[1] = next[2] = 0xffffffffu;
  atomic_or(now, bits);
  atomic_min(now + 1 + side, c->item + 1);
  barrier(CLK_LOCAL_MEM_FENCE);
  c->met[0] = now[1]; c->met[1] = now[2];
  return now[0];
}
void P_part(P_C c, uint level, uint site, uint other);
void P_part(P_C c, uint level, uint site, uint other) {
  c->parted = c->base + level; c->parted_site = site; c->parted_other = other;
}
/* A condition that work-items may see differently. */
uint P_if(P_C c, uint value, uint level, uint site);
uint P_if(P_C c, uint value, uint level, uint site) {
  if (!c->parted && P_vote(c, value ? 1 : 2, value != 0) == 3) P_part(c, level, site, c->met[!value]);
  return value;
}
ulong P_pick(P_C c, ulong value, uint level, uint site);
ulong P_pick(P_C c, ulong value, uint level, uint site) {
  if (c->parted) return value;
  uint ones = P_vote(c, (uint)value, 0), noughts = P_vote(c, ~(uint)value, 0);
  uint high = P_vote(c, (uint)(value >> 32), 0), low = P_vote(c, ~(uint)(value >> 32), 0);
  if ((ones & noughts) | (high & low)) P_part(c, level, site, 0);
  return value;
}
/* Where a group meets again: whoever has to leave further out does so behind it. */
void P_join(P_C c, uint level, uint returns, uint breaks, uint continues);
void P_join(P_C c, uint level, uint returns, uint breaks, uint continues) {
  if (!c->parted || c->parted != c->base + level) return;
  uint all = P_vote(c, c->lost ? 16 : 1 << c->escape, c->escape != 0), ways = all & 15;
  if (all & 16) { c->lost = 1; c->parted = P_NEVER; return; }
  if (!(ways & (ways - 1))) { c->parted = 0; return; }
  P_part(c, ways & 2 ? returns : ways & 4 ? breaks : continues, c->parted_site, c->met[!c->escape]);
}
/* Whether a loop goes on. */
uint P_loop(P_C c, uint value, uint level, uint site, uint returns);
uint P_loop(P_C c, uint value, uint level, uint site, uint returns) {
  P_join(c, level + 1, returns, level, level + 1);
  return c->lost ? 0 : P_if(c, value, level, site);
}
/* Whether a barrier may be executed. */
uint P_meet(P_C c, uint site);
uint P_meet(P_C c, uint site) {
  if (!c->parted) return 1;
  if (!c->lost) {
    P_report(c, P_BARRIER, site, -1, 0, 0, c->parted_site, c->parted_other == 0xffffffffu ? 0 : c->parted_other);
    c->votes[P_BROKEN] = 1; c->lost = 1;
  }
  return 0;
}
