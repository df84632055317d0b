/* A cell of global memory: who wrote and who read it, by groups; where P_NARROW is not defined, also which work-item of the group
   and behind how many barriers. */
#ifdef P_NARROW
#define P_CELL_WORDS 2
#else
#define P_CELL_WORDS 4
#endif
/* The shadow of local memory stands in local memory, or behind the log where it finds no room there. */
#ifdef P_FAR
#define P_NEAR __global
#else
#define P_NEAR __local
#endif
typedef struct P_ctx_s {
  volatile __global uint *cells; __global const uchar *init; volatile __global uint *log; __local uchar *scratch; P_NEAR ulong *local_cells;
  ulong lo[P_ROOTS], size[P_ROOTS], cell[P_ROOTS];
  ulong noted, stamp, pending_place, pending_rel, pending_old[2], pending_cell;
  uint noted_site, group, me, item, self, epoch, age, fenced, pending, pending_size, pending_site, pending_other, pending_with;
  int nroots, pending_root;
  uchar is_local[P_ROOTS], noted_local, skip, atomics, ordered, pending_where;
  P_FIELDS
} P_ctx;
typedef __private P_ctx *P_C;

#define P_GROUPS 0xffffe000u
#define P_MANY 0xffffe000u
#define P_SAME 0xffffc000u
#define P_BY_ATOMIC 0x1000u
#define P_SITE 0xfffu
#define P_NOW(c) (((ulong)(c)->epoch + 1) << 36)
#define P_ITEM(c) (((ulong)(c)->item + 1) << 20 & 0xffff00000UL)
#define P_ITEMS 0xffff00000UL
#define P_L_ATOMIC 0x10000UL
#define P_L_SAME 0x20000UL
#define P_L_MANY 0x40000UL
#define P_L_VOLATILE 0x80000UL
/* Marks within a group: barriers behind the start, and the work-item, from 1 on. */
#define P_AGE 16
#define P_A_ATOMIC 0x8000u
#define P_A_MANY 0x4000u
#define P_A_ITEM 0x3fffu
#define P_A_SAME 0x3fffu
/* Where two accesses meet: of two groups; of two work-items of one, in local and in global memory, and there with a barrier
   between them whose fence leaves global memory out. */
#define P_BETWEEN 0
#define P_NEARBY 1
#define P_AMONG 2
#define P_UNFENCED 3
#define P_READS 1u
#define P_WRITES 2u
#define P_ATOMICALLY 4u
#define P_UNSURE 8u
#define P_SETTLES 16u
#define P_VOLATILE 32u

__attribute__((noinline)) void P_report(P_C c, uint kind, uint site, int root, ulong rel, uint size, uint other_site, uint other);
__attribute__((noinline)) void P_report(P_C c, uint kind, uint site, int root, ulong rel, uint size, uint other_site, uint other) {
  if (P_QUIET(c)) return;
  if (atomic_inc(c->log + 1 + kind * P_SITES + site) >= P_KEPT) return;
  uint slot = atomic_inc(c->log);
  if (slot >= P_MOST) return;
  volatile __global uint *r = c->log + 1 + P_KINDS * P_SITES + slot * P_WORDS;
  r[0] = kind; r[1] = site; r[2] = (uint)root; r[3] = c->group; r[4] = c->item; r[5] = other_site; r[6] = other;
  r[7] = (uint)rel; r[8] = (uint)(rel >> 32); r[9] = size;
}

void P_begin(P_C c, __global ulong *numbers, __global uint *cells, __global uchar *init, __global uchar *log, __local ulong *local_memory);
void P_begin(P_C c, __global ulong *numbers, __global uint *cells, __global uchar *init, __global uchar *log, __local ulong *local_memory) {
  c->cells = cells; c->init = init; c->log = (volatile __global uint *)(log + 2 * P_SCRATCH);
  c->scratch = (__local uchar *)local_memory;
  c->group = (uint)((get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0));
#ifdef P_FAR
  c->local_cells = (__global ulong *)(log + P_LOGGED) + c->group * 3 * numbers[0];
#else
  c->local_cells = local_memory + 2 * P_SCRATCH / 8;
#endif
  c->item = (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
  c->epoch = 0; c->age = c->fenced = 0; c->self = c->item + 1; c->stamp = P_NOW(c) | P_ITEM(c); c->me = (c->group % 0x7fffdu + 1) << 13; c->pending = 0; c->nroots = 0; c->skip = 0; c->atomics = 0; c->ordered = 0; P_begin_flights(c);
}
void P_root(P_C c, int root, ulong lo, uchar is_local, __global const ulong *numbers);
void P_root(P_C c, int root, ulong lo, uchar is_local, __global const ulong *numbers) {
  c->lo[root] = lo; c->size[root] = lo || is_local ? numbers[P_HEAD + 2 * root] : 0; c->cell[root] = numbers[P_HEAD + 2 * root + 1];
  c->is_local[root] = is_local;
  c->nroots = root + 1 > c->nroots ? root + 1 : c->nroots;
}
/* Addresses in local memory become numbers within functions of their own alone: where a kernel makes them, Intel's compiler
   may give a variable two addresses. */
__attribute__((noinline)) void P_root_l(P_C c, int root, const volatile __local void *p, __global const ulong *numbers);
__attribute__((noinline)) void P_root_l(P_C c, int root, const volatile __local void *p, __global const ulong *numbers) {
  P_root(c, root, (ulong)p, 1, numbers);
}
void P_clear(P_C c, ulong ncells);
void P_clear(P_C c, ulong ncells) {
  uint step = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
  for (ulong i = c->item; i < 3 * ncells; i += step) c->local_cells[i] = 0;
}
int P_find(P_C c, ulong a, uchar is_local);
int P_find(P_C c, ulong a, uchar is_local) {
  for (int i = 0; i < c->nroots; i++)
    if (c->is_local[i] == is_local && a - c->lo[i] < c->size[i]) return i;
  return -1;
}

/* Where all pointers come from the arguments: whose end an address is least beyond. */
int P_nearest(P_C c, ulong a, uchar is_local);
int P_nearest(P_C c, ulong a, uchar is_local) {
  int found = -1;
  ulong least = 0;
  for (int i = 0; i < c->nroots; i++) {
    ulong away = a < c->lo[i] ? c->lo[i] - a : a - c->lo[i] - c->size[i];
    if (c->is_local[i] == is_local && c->size[i] && (found < 0 || away < least)) { found = i; least = away; }
  }
  return found;
}

/* Up to sixteen bytes, as two numbers. */
void P_value(P_C c, ulong a, uint size, uchar is_local, __private ulong *value);
void P_value(P_C c, ulong a, uint size, uchar is_local, __private ulong *value) {
  value[0] = value[1] = 0;
  for (uint i = 0; i < size; i++) {
    uchar one = is_local ? ((volatile __local uchar *)a)[i] : ((volatile __global uchar *)a)[i];
    value[i / 8] |= (ulong)one << (8 * (i % 8));
  }
}
uint P_race(uint where, uint same);
uint P_race(uint where, uint same) {
  if (where == P_BETWEEN) return same ? P_GROUPS_SAME : P_GROUPS_RACE;
  return same ? P_ITEMS_SAME : where == P_UNFENCED ? P_UNFENCED_RACE : P_ITEMS_RACE;
}
void P_conflict(P_C c, uint where, uint site, int root, ulong rel, uint size, ulong a, ulong cell, uint mode, uint other_site, uint other);
void P_conflict(P_C c, uint where, uint site, int root, ulong rel, uint size, ulong a, ulong cell, uint mode, uint other_site, uint other) {
  uint is_local = where == P_NEARBY;
  if (!is_local && c->ordered) { P_report(c, P_NOTE_ORDERED, site, root, rel, size, other_site, other); return; }
  if ((mode & P_SETTLES) && size <= 16) {
    if (c->pending & 1) return;
    if (is_local) c->pending_old[0] = c->local_cells[3 * cell + 2];
    else P_value(c, a, size, 0, c->pending_old);
    c->pending |= 1; c->pending_place = a; c->pending_rel = rel; c->pending_size = size; c->pending_site = site;
    c->pending_root = root; c->pending_other = other_site; c->pending_with = other; c->pending_cell = cell;
    c->pending_where = (uchar)where;
    return;
  }
  P_report(c, P_race(where, 0), site, root, rel, size, other_site, other);
}
__attribute__((noinline)) void P_settle(P_C c);
__attribute__((noinline)) void P_settle(P_C c) {
  ulong now[2];
  uint conflict = c->pending & 1, is_local = c->pending_where == P_NEARBY;
  P_value(c, c->pending_place, c->pending_size, (uchar)is_local, now);
  c->pending = 0;
  if (is_local) {
    /* An engine may keep a copy for each work-item until the next barrier: what others have written is in the shadow alone. */
    P_NEAR ulong *cell = c->local_cells + 3 * c->pending_cell;
    now[0] ^= now[1] * 0x9e3779b97f4a7c15UL; now[1] = c->pending_old[1] = 0;
    cell[2] = now[0];
    if (conflict && now[0] == c->pending_old[0]) cell[0] |= P_L_SAME;
  }
  if (!conflict) return;
  uint same = now[0] == c->pending_old[0] && now[1] == c->pending_old[1];
  volatile __global uint *marks = c->cells + P_CELL_WORDS * c->pending_cell;
  if (same && c->pending_where == P_BETWEEN) marks[0] = P_SAME;
  if (same && c->pending_where >= P_AMONG) marks[2] |= P_A_SAME;
  P_report(c, P_race(c->pending_where, same), c->pending_site, c->pending_root, c->pending_rel, c->pending_size, c->pending_other, c->pending_with);
}
#define P_after(c) ((c)->pending ? P_settle(c) : (void)0)

uint P_short(uint site);
uint P_short(uint site) { return site <= P_SITE ? site : 0; }

#ifdef P_NARROW
#define P_among(c, cell, mode, site, root, rel, size, a) 0u
#define P_wrote_now(c, cell) 1
#define P_read_now(c, cell) 1
#define P_unwritten_now(c, cell) 1
#else
/* Whether a mark is of an access that no barrier with a fence for global memory stands behind. Marks count barriers in few bits:
   behind more of them, nothing is said. */
#define P_fresh(c, mark) ((mark) && (((c)->age - ((mark) >> P_AGE)) & 0xffff) <= (c)->age - (c)->fenced && (c)->age < 0x10000)
#define P_MARK(c) ((c)->age << P_AGE | (c)->self)
#define P_wrote_now(c, cell) ((cell)[2] == P_MARK(c))
#define P_read_now(c, cell) ((((cell)[3] ^ P_MARK(c)) & (0xffff0000u | ((cell)[3] & P_A_MANY ? 0 : P_A_ITEM))) == 0)
#define P_unwritten_now(c, cell) (((cell)[2] & (P_A_ITEM | P_A_MANY)) == (c)->self || !P_fresh(c, (cell)[2]))
/* Two work-items of one group: before the marks of groups change. What several groups read has no marks of items, as whoever
   writes there is told of for the groups. */
__attribute__((noinline)) uint P_among(P_C c, ulong cell, uint mode, uint site, int root, ulong rel, uint size, ulong a);
__attribute__((noinline)) uint P_among(P_C c, ulong cell, uint mode, uint site, int root, ulong rel, uint size, ulong a) {
  volatile __global uint *marks = c->cells + P_CELL_WORDS * cell;
  uint seen = marks[0], rd = marks[1], writer = marks[2], reader = marks[3], now = P_MARK(c), self = c->self & P_A_ITEM, bad = 0, at = 0;
  if (mode & P_VOLATILE && !(mode & P_WRITES)) return 0;
  uint written = (seen & P_GROUPS) == c->me && P_fresh(c, writer), read = (rd & P_GROUPS) == c->me && P_fresh(c, reader);
  uint others_wrote = written && ((writer & P_A_MANY) || (writer & P_A_ITEM) != self);
  if (others_wrote && !(mode & P_ATOMICALLY && writer & P_A_ATOMIC) && (mode & P_WRITES || (writer & P_A_ITEM) != P_A_SAME)) { bad = writer; at = seen; }
  else if (mode & P_WRITES && read && ((reader & P_A_MANY) || (reader & P_A_ITEM) != self)) { bad = reader; at = rd; }
  if (mode & P_ATOMICALLY) {
    if (mode & P_WRITES && (!written || others_wrote || writer & P_A_ATOMIC)) marks[2] = now | P_A_ATOMIC | (others_wrote ? P_A_MANY : 0);
  } else {
    if (mode & P_READS) {
      uint others = read && ((reader & P_A_MANY) || (reader & P_A_ITEM) != self);
      marks[3] = now | (others ? P_A_MANY : 0);
      if (!read && (rd & P_GROUPS) == c->me) atomic_cmpxchg(marks + 1, rd, c->me | P_short(site));
    }
    if (mode & P_WRITES) marks[2] = now;
  }
  if (!bad || mode & P_VOLATILE) return 0;
  uint where = (bad >> P_AGE) == (c->age & 0xffff) ? P_AMONG : P_UNFENCED, with = bad & P_A_ITEM;
  P_conflict(c, where, site, root, rel, size, a, cell, mode & P_READS ? 0 : mode, at & P_SITE, bad & P_A_MANY || with == P_A_SAME ? 0 : with);
  return 1;
}
#endif
uint P_touch(P_C c, ulong cell, uint mode, uint site, int root, ulong rel, uint size, ulong a);
uint P_touch(P_C c, ulong cell, uint mode, uint site, int root, ulong rel, uint size, ulong a) {
  uint met = P_among(c, cell, mode, site, root, rel, size, a);
  volatile __global uint *w = c->cells + P_CELL_WORDS * cell, *r = w + 1;
  uint me = c->me, mine = me | P_short(site), seen = *w, by = seen & P_GROUPS;
  if (mode & P_ATOMICALLY) {
    if (mode & P_VOLATILE && !(mode & P_WRITES)) return met;
    uint rd = *r, bad = 0;
    if (seen && by != me && !(seen & P_BY_ATOMIC) && by != P_SAME) bad = seen;
    else if (rd && (rd & P_GROUPS) != me) bad = rd;
    if (bad && !(mode & P_VOLATILE)) { P_conflict(c, P_BETWEEN, site, root, rel, size, a, cell, 0, bad & P_SITE, (bad & P_GROUPS) == P_MANY ? 0 : bad >> 13); return 1; }
    if (!seen && (mode & P_READS) && !(mode & (P_UNSURE | P_VOLATILE)) && !c->init[cell]) P_report(c, P_UNWRITTEN, site, root, rel, size, 0, 0);
    if (!seen) atomic_cmpxchg(w, 0, mine | P_BY_ATOMIC);
    else if ((seen & P_BY_ATOMIC) && by != me) atomic_xchg(w, P_MANY | P_BY_ATOMIC | P_short(site));
    return met;
  }
  if (mode & P_READS) {
    uint rd = *r;
    if (!((rd & P_GROUPS) == me || (rd & P_GROUPS) == P_MANY) || (seen && by != me)) {
      if (!seen && !(mode & P_UNSURE) && !c->init[cell]) P_report(c, P_UNWRITTEN, site, root, rel, size, 0, 0);
      while ((rd & P_GROUPS) != me && (rd & P_GROUPS) != P_MANY) {
        uint want = rd ? P_MANY | P_short(site) : mine, found = atomic_cmpxchg(r, rd, want);
        if (found == rd) break;
        rd = found;
      }
      seen = *w; by = seen & P_GROUPS;
      if (seen && by != me && by != P_SAME) {
        P_conflict(c, P_BETWEEN, site, root, rel, size, a, cell, 0, seen & P_SITE, by == P_MANY ? 0 : seen >> 13);
        return 1;
      }
    }
  }
  if (mode & P_WRITES) {
    if (by == me && !(seen & P_BY_ATOMIC) && seen) return met;
    uint old = atomic_xchg(w, mine), rd = *r;
    uint bad = old && (old & P_GROUPS) != me ? old : rd && (rd & P_GROUPS) != me ? rd : 0;
    if (bad) {
      uint with = bad & P_GROUPS;
      P_conflict(c, P_BETWEEN, site, root, rel, size, a, cell, mode, bad & P_SITE, with == P_MANY || with == P_SAME ? 0 : bad >> 13);
      return 1;
    }
  }
  return met;
}

P_COPIES
uint P_touch_local(P_C c, ulong cell, uint mode, uint site, int root, ulong rel, uint size, ulong a);
uint P_touch_local(P_C c, ulong cell, uint mode, uint site, int root, ulong rel, uint size, ulong a) {
  P_NEAR ulong *w = c->local_cells + 3 * cell, *r = w + 1;
  ulong now = P_NOW(c), me = P_ITEM(c), stamp = now | me | (site & 0xffff), seen = *w, rd = *r, bad = 0;
  ulong others = 0xffff00000UL;
  if (P_is_flying(seen)) { P_report(c, P_NOT_AWAITED, site, root, rel, size, (uint)(seen & 0xffff), 0); return 1; }
  uint recent = seen >> 36 == now >> 36 && (seen & others) && (seen & others) != me && !(seen & P_L_SAME);
  uint is_volatile = (mode & P_VOLATILE) != 0, read_now = rd >> 36 == now >> 36 && ((rd & others) != me || (rd & P_L_MANY));
  if (mode & P_ATOMICALLY && !is_volatile) {
    if (mode & P_READS && !seen && !(mode & P_UNSURE)) { P_report(c, P_UNWRITTEN_LOCAL, site, root, rel, size, 0, 0); *w = stamp | P_L_ATOMIC; return 1; }
    if (recent && !(seen & P_L_ATOMIC)) bad = seen;
    else if (read_now && !(rd & P_L_VOLATILE)) bad = rd;
    if (mode & P_WRITES) *w = seen >> 36 == now >> 36 && (seen & others) == me && !(seen & P_L_ATOMIC) ? seen : stamp | P_L_ATOMIC;
    if (bad) P_conflict(c, P_NEARBY, site, root, rel, size, a, cell, 0, (uint)(bad & 0xffff), bad & P_L_MANY ? 0 : (uint)(bad >> 20 & 0xffff));
    return bad != 0;
  }
  /* A volatile access looks at what atomics change, and orders nothing: beside other accesses it is one like them. */
  recent = recent && !(is_volatile && (seen & P_L_ATOMIC));
  if (mode & P_READS) {
    uint unwritten = !seen && !(mode & P_UNSURE) && !is_volatile;
    if (unwritten) { P_report(c, P_UNWRITTEN_LOCAL, site, root, rel, size, 0, 0); seen = *w = P_L_SAME; }
    if (recent) bad = seen;
    /* Whoever writes it later, before the next barrier, races with what was read too early. */
    if (rd >> 36 != now >> 36) *r = stamp | (is_volatile ? P_L_VOLATILE : 0);
    else {
      if (!is_volatile) rd &= ~P_L_VOLATILE;
      *r = (rd & others) != me ? rd | P_L_MANY : rd;
    }
    if (unwritten) return 1;
  }
  if (mode & P_WRITES) {
    if (recent) bad = seen;
    else if (!bad && read_now) bad = rd;
    *w = stamp;
    if ((mode & P_SETTLES) && size <= 16 && !c->pending) {
      c->pending = 2; c->pending_place = a; c->pending_size = size; c->pending_cell = cell; c->pending_where = P_NEARBY;
    }
  }
  if (bad) P_conflict(c, P_NEARBY, site, root, rel, size, a, cell, mode & P_READS ? 0 : mode, (uint)(bad & 0xffff), (bad & others) == me ? 0 : (uint)(bad >> 20 & 0xffff));
  return bad != 0;
}

uint P_check(P_C c, ulong a, uint size, uint site, int root, uint mode, uchar is_local);
uint P_check(P_C c, ulong a, uint size, uint site, int root, uint mode, uchar is_local) {
  if (c->skip) { c->skip = 0; return 1; }
  if (root < 0) {
    root = P_find(c, a, is_local);
    if (root < 0) {
      if (a < 4096 && !is_local) { P_report(c, P_NULL, site, root, a, size, 0, 0); return 1; }
      root = P_CLOSED ? P_nearest(c, a, is_local) : -1;
      if (root < 0) { P_report(c, P_NOTE_ELSEWHERE, site, root, 0, size, 0, 0); return 0; }
    }
  }
  ulong rel = a - c->lo[root], n = c->size[root];
  if (rel >= n || size > n - rel) {
    P_report(c, c->lo[root] || is_local ? P_OUTSIDE : P_NULL, site, root, rel, size, 0, 0);
    return 1;
  }
  ulong first = c->cell[root] + (rel >> P_SHIFT), last = c->cell[root] + ((rel + size - 1) >> P_SHIFT);
  for (ulong cell = first; cell <= last; cell++)
    if (is_local ? P_touch_local(c, cell, mode, site, root, rel, size, a) : P_touch(c, cell, mode, site, root, rel, size, a)) break;
  return 0;
}
__attribute__((noinline)) __global void *P_g_slow(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __global void *P_g_slow(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root, uint mode) {
  if (P_check(c, (ulong)p + off, size, site, root, mode, 0))
    return (__global void *)((__global uchar *)c->log - (mode & (P_WRITES | P_ATOMICALLY) ? P_SCRATCH : 2 * P_SCRATCH));
  return (__global void *)p;
}
__attribute__((noinline)) __local void *P_l_slow(P_C c, const volatile __local void *p, uint off, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __local void *P_l_slow(P_C c, const volatile __local void *p, uint off, uint size, uint site, int root, uint mode) {
  if (P_check(c, (ulong)p + off, size, site, root, mode, 1)) return (__local void *)(c->scratch + P_SCRATCH);
  return (__local void *)p;
}
/* What has been seen before, in one granule: nothing to be done. */
__attribute__((always_inline)) __global void *P_g(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root, uint mode);
__attribute__((always_inline)) __global void *P_g(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root, uint mode) {
  if (root >= 0 && !(mode & (P_ATOMICALLY | P_VOLATILE)) && !c->skip) {
    ulong rel = (ulong)p + off - c->lo[root], n = c->size[root];
    if (rel < n && size <= n - rel && (rel & (P_GRANULE - 1)) + size <= P_GRANULE) {
      volatile __global uint *cell = c->cells + P_CELL_WORDS * (c->cell[root] + (rel >> P_SHIFT));
      uint seen = cell[0], rd = cell[1], me = c->me;
      if (mode & P_WRITES ? (seen & (P_GROUPS | P_BY_ATOMIC)) == me && P_wrote_now(c, cell) : (((rd & P_GROUPS) == me && P_read_now(c, cell)) || (rd & P_GROUPS) == P_MANY) && (!seen || ((seen & P_GROUPS) == me && P_unwritten_now(c, cell))))
        return (__global void *)p;
    }
  }
  return P_g_slow(c, p, off, size, site, root, mode);
}
__attribute__((noinline)) __local void *P_l(P_C c, const volatile __local void *p, uint off, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __local void *P_l(P_C c, const volatile __local void *p, uint off, uint size, uint site, int root, uint mode) {
  if (root >= 0 && !(mode & (P_ATOMICALLY | P_VOLATILE | P_WRITES)) && !c->skip) {
    ulong rel = (ulong)p + off - c->lo[root], n = c->size[root];
    if (rel < n && size <= n - rel && (rel & (P_GRANULE - 1)) + size <= P_GRANULE) {
      P_NEAR ulong *cell = c->local_cells + 3 * (c->cell[root] + (rel >> P_SHIFT));
      ulong seen = cell[0], rd = cell[1], stamp = c->stamp;
      if (seen && (rd ^ stamp) >> 36 == 0 && (((rd ^ stamp) & P_ITEMS) == 0 || (rd & P_L_MANY)) &&
          ((seen ^ stamp) >> 36 || ((seen ^ stamp) & P_ITEMS) == 0 || (seen & P_L_SAME)))
        return (__local void *)p;
    }
  }
  return P_l_slow(c, p, off, size, site, root, mode);
}
/* Whether somebody has written all of a place; of one outside of all memory nothing is said here. */
uint P_is_set(P_C c, ulong a, uint size, int root, uchar is_local);
uint P_is_set(P_C c, ulong a, uint size, int root, uchar is_local) {
  if (root < 0) root = P_find(c, a, is_local);
  if (root < 0) return 1;
  ulong rel = a - c->lo[root], n = c->size[root];
  if (rel >= n || size > n - rel) return 1;
  ulong first = c->cell[root] + (rel >> P_SHIFT), last = c->cell[root] + ((rel + size - 1) >> P_SHIFT);
  for (ulong cell = first; cell <= last; cell++)
    if (is_local ? !c->local_cells[3 * cell] : !(c->cells[P_CELL_WORDS * cell] || c->init[cell])) return 0;
  return 1;
}
/* Where a value comes from that is copied to a variable, and the access that reads it. */
__attribute__((noinline)) __global void *P_note_g(P_C c, const volatile __global void *p, uint site);
__attribute__((noinline)) __global void *P_note_g(P_C c, const volatile __global void *p, uint site) { c->noted = (ulong)p; c->noted_local = 0; c->noted_site = site; return (__global void *)p; }
__attribute__((noinline)) __local void *P_note_l(P_C c, const volatile __local void *p, uint site);
__attribute__((noinline)) __local void *P_note_l(P_C c, const volatile __local void *p, uint site) { c->noted = (ulong)p; c->noted_local = 1; c->noted_site = site; return (__local void *)p; }
/* Members of a structure that is copied to memory: the access to the whole of it follows. */
__attribute__((noinline)) __global void *P_members_g(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root);
__attribute__((noinline)) __global void *P_members_g(P_C c, const volatile __global void *p, uint off, uint size, uint site, int root) {
  if (!c->skip && !P_is_set(c, (ulong)p + off, size, root, 0)) P_report(c, P_UNWRITTEN, site, root, root < 0 ? 0 : (ulong)p + off - c->lo[root], size, 0, 0);
  return (__global void *)p;
}
__attribute__((noinline)) __local void *P_members_l(P_C c, const volatile __local void *p, uint off, uint size, uint site, int root);
__attribute__((noinline)) __local void *P_members_l(P_C c, const volatile __local void *p, uint off, uint size, uint site, int root) {
  if (!c->skip && !P_is_set(c, (ulong)p + off, size, root, 1)) P_report(c, P_UNWRITTEN_LOCAL, site, root, root < 0 ? 0 : (ulong)p + off - c->lo[root], size, 0, 0);
  return (__local void *)p;
}
__constant ulong P_zero[P_SCRATCH / 8] = {0};
__attribute__((noinline)) __constant void *P_k(P_C c, const volatile __constant void *p, uint off, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __constant void *P_k(P_C c, const volatile __constant void *p, uint off, uint size, uint site, int root, uint mode) {
  if (c->skip) { c->skip = 0; return P_zero; }
  if (root < 0) return (__constant void *)p;
  ulong rel = (ulong)p + off - c->lo[root], n = c->size[root];
  if (rel < n && size <= n - rel) return (__constant void *)p;
  P_report(c, c->lo[root] ? P_OUTSIDE : P_NULL, site, root, rel, size, 0, 0);
  return P_zero;
}
__attribute__((noinline)) __global void *P_gv(P_C c, long n, const volatile __global void *p, uint stride, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __global void *P_gv(P_C c, long n, const volatile __global void *p, uint stride, uint size, uint site, int root, uint mode) {
  return P_g(c, (const volatile __global uchar *)p + n * stride, 0, size, site, root, mode);
}
__attribute__((noinline)) __local void *P_lv(P_C c, long n, const volatile __local void *p, uint stride, uint size, uint site, int root, uint mode);
__attribute__((noinline)) __local void *P_lv(P_C c, long n, const volatile __local void *p, uint stride, uint size, uint site, int root, uint mode) {
  return P_l(c, (const volatile __local uchar *)p + n * stride, 0, size, site, root, mode);
}

__attribute__((noinline)) long P_ix(P_C c, long i, ulong n, uint site, uint where);
__attribute__((noinline)) long P_ix(P_C c, long i, ulong n, uint site, uint where) {
  if ((ulong)i < n) return i;
  P_report(c, P_INDEX, site, -1, (ulong)i, 0, 0, 0);
  if (where) c->skip = where == 1;
  return where == 1 ? i : 0;
}
__attribute__((noinline)) void P_divided(P_C c, uint site);
__attribute__((noinline)) void P_divided(P_C c, uint site) { P_report(c, P_DIVISION, site, -1, 0, 0, 0, 0); }
__attribute__((noinline)) void P_shifted(P_C c, long by, uint site);
__attribute__((noinline)) void P_shifted(P_C c, long by, uint site) { P_report(c, P_SHIFT_KIND, site, -1, (ulong)by, 0, 0, 0); }

#define P_passed(c, local, global) ((c)->age++, (global) ? (void)((c)->fenced = (c)->age) : (void)0, (local) ? (void)((c)->epoch++, (c)->stamp = P_NOW(c) | P_ITEM(c)) : (void)0, P_fenced(c, global))
#define P_fenced(c, global) ((global) && (c)->atomics ? (void)((c)->ordered = 1) : (void)0)

__attribute__((noinline)) ulong P_async(P_C c, const volatile __local void *near_place, const volatile __global void *far_place, ulong n, ulong elem, ulong stride, uint site, int local_root, int global_root, uint to_local);
__attribute__((noinline)) ulong P_async(P_C c, const volatile __local void *near_place, const volatile __global void *far_place, ulong n, ulong elem, ulong stride, uint site, int local_root, int global_root, uint to_local) {
  ulong local_place = (ulong)near_place, global_place = (ulong)far_place;
  if (!n) return 0;
  ulong far = ((n - 1) * stride + 1) * elem, near = n * elem;
  if (local_root < 0) local_root = P_find(c, local_place, 1);
  if (global_root < 0) global_root = P_find(c, global_place, 0);
  if (local_root >= 0) {
    ulong rel = local_place - c->lo[local_root];
    if (rel >= c->size[local_root] || near > c->size[local_root] - rel) { P_report(c, P_OUTSIDE, site, local_root, rel, (uint)near, 0, 0); return 0; }
    if (to_local && c->item == 0) {
      for (ulong k = rel >> P_SHIFT; k <= (rel + near - 1) >> P_SHIFT; k++) c->local_cells[3 * (c->cell[local_root] + k)] = P_L_SAME;
      P_flies(c, c->cell[local_root] + (rel >> P_SHIFT), ((rel + near - 1) >> P_SHIFT) - (rel >> P_SHIFT) + 1, site);
    }
  }
  if (global_root >= 0) {
    ulong rel = global_place - c->lo[global_root];
    if (rel >= c->size[global_root] || far > c->size[global_root] - rel) { P_report(c, P_OUTSIDE, site, global_root, rel, (uint)far, 0, 0); return 0; }
    if (c->item == 0) {
      c->self = P_A_MANY; /* all of the group copies, at any time until somebody waits */
      uint mode = to_local ? P_READS | P_UNSURE : P_WRITES, bad = 0;
      for (ulong i = 0; i < n && !bad; i++)
        for (ulong k = (rel + i * stride * elem) >> P_SHIFT; k <= (rel + (i * stride + 1) * elem - 1) >> P_SHIFT && !bad; k++)
          bad = P_touch(c, c->cell[global_root] + k, mode, site, global_root, rel, (uint)elem, 0);
      c->self = c->item + 1;
    }
  }
  return n;
}
