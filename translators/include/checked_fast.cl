typedef struct P_ctx_s {
  __global uint *writers[P_ROOTS], *readers[P_ROOTS]; volatile __global uint *log; __local uint *shadow;
  __local uint *local_writers[P_ROOTS]; const volatile __local uchar *place[P_ROOTS];
  ulong lo[P_ROOTS], size[P_ROOTS], local_cells, written, read, mixed;
  uint me, mask, first, items, bits, age, item, epoch, stamp, bad, claims, slots, slot;
  uchar skip, atomics, ordered;
} P_ctx;
typedef __private P_ctx *P_C;

#define AI __attribute__((always_inline))
#define P_READS 1u
#define P_WRITES 2u
#define P_ATOMICALLY 4u
#define P_UNSURE 8u
#define P_INSIDE 64u
#define P_IS(mask, root) ((c->mask >> (root)) & 1)
#define P_MANY 0xffffffffu
#define P_BY_ATOMIC 0xfffffffeu
#define P_L_MANY 0xfffeu
#define P_L_ATOMIC 0xffffu
/* A mark: whether several work-items of the group have read, barriers of global memory behind the start (as many bits as there
   are left), and the work-item of the launch, from 2 on; 1: written before the launch. */
#define P_SEVERAL 0x80000000u
#define P_OURS(c, mark) ((((mark) & (c)->mask) - (c)->first) < (c)->items)
/* Of a mark of our group: whether it is of this side of the last barrier, and whether it is of another work-item. */
#define P_RECENT(c, mark) ((((mark) ^ (c)->me) & ~P_SEVERAL & ~(c)->mask) == 0)
#define P_OTHERS(c, mark) ((((mark) ^ (c)->me) & (P_SEVERAL | (c)->mask)) != 0)
/* Shadow follows its bytes in steps of one size, so that neighbours have neighbouring shadow. */
#define P_CELL(base, rel) ((base) + (rel) * 4 / P_GRANULE)

/* Whatever it is, the launch is made again, precisely. */
#define P_report(c, kind, site, root, rel, size, other_site, other) ((void)((c)->bad = 1))

AI void P_begin(P_C c, __global ulong *numbers, __global uint *cells, __global uchar *init, __global uchar *log, __local ulong *local_memory);
AI void P_begin(P_C c, __global ulong *numbers, __global uint *cells, __global uchar *init, __global uchar *log, __local ulong *local_memory) {
  uint group = (uint)((get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) + get_group_id(0));
  c->log = (volatile __global uint *)(log + 2 * P_SCRATCH);
  c->shadow = (__local uint *)(local_memory + 2 * P_SCRATCH / 8);
  c->item = (uint)((get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0) + get_local_id(0));
  c->items = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
  c->slot = group * c->items + c->item;
  c->bits = (uint)numbers[1]; c->mask = (1u << c->bits) - 1; c->first = group * c->items + 2; c->age = 0;
  c->me = c->slot + 2;
  c->local_cells = numbers[0]; c->slots = (uint)numbers[2];
  c->epoch = 1; c->stamp = 0x10001 + c->item; c->bad = 0; c->claims = 0; c->skip = c->atomics = c->ordered = 0;
}
/* `cells`: those of who writes; `behind`: how far those of who reads are from there. */
AI void P_root_g(P_C c, int root, ulong lo, __global const ulong *numbers, __global uint *cells);
AI void P_root_g(P_C c, int root, ulong lo, __global const ulong *numbers, __global uint *cells) {
  c->lo[root] = lo; c->size[root] = lo ? numbers[P_HEAD + 2 * root] : 0;
  c->writers[root] = cells + numbers[P_HEAD + 2 * root + 1]; c->readers[root] = c->writers[root] + numbers[3];
}
AI void P_root_l(P_C c, int root, const volatile __local void *p, __global const ulong *numbers);
AI void P_root_l(P_C c, int root, const volatile __local void *p, __global const ulong *numbers) {
  c->place[root] = p; c->size[root] = numbers[P_HEAD + 2 * root]; c->local_writers[root] = c->shadow + numbers[P_HEAD + 2 * root + 1];
}
AI void P_clear(P_C c, ulong ncells);
AI void P_clear(P_C c, ulong ncells) {
  uint step = (uint)(get_local_size(0) * get_local_size(1) * get_local_size(2));
  for (ulong i = c->item; i < 2 * ncells; i += step) c->shadow[i] = 0;
}
AI void P_end(P_C c);
AI void P_end(P_C c) {
  if (c->bad) c->log[0] = 1;
  if (c->slot < c->slots) c->log[1 + c->slot] = c->claims;
  else if (c->claims) atomic_add(c->log + 1 + c->slot % P_COUNTERS, c->claims);
}

/* Work-items side by side store at once, and one of them prevails: each looks at what is there behind its store. The read
   is volatile, or the compiler would take what was stored. */
AI bool P_within(P_C c, ulong rel, uint size, int root);
AI bool P_within(P_C c, ulong rel, uint size, int root) {
  ulong n = c->size[root], stop = n >= size ? n - size + 1 : 0;
  return (rel < stop) & !(rel & (P_GRANULE - 1));
}

AI void P_sees(P_C c, int root, ulong rel, uint mode);
AI void P_sees(P_C c, int root, ulong rel, uint mode) {
  __global uint *w = (__global uint *)P_CELL((__global uchar *)c->writers[root], rel);
  uint seen = *w, me = c->me;
  c->bad |= (uint)((seen == 0) & !(mode & P_UNSURE));
  if (!P_IS(written, root)) return;
  __global uint *r = (__global uint *)P_CELL((__global uchar *)c->readers[root], rel);
  uint old = *r, first = old == 0, ours = P_OURS(c, old), recent = ours & P_RECENT(c, old), other = P_OTHERS(c, old);
  c->bad |= (seen > 1) & (!P_OURS(c, seen) | (P_RECENT(c, seen) & P_OTHERS(c, seen)));
  c->bad |= old == P_BY_ATOMIC;
  uint want = first | (ours & !recent) ? me : ours ? me | P_SEVERAL : P_MANY;
  uint known = (recent & (!other | (old >> 31))) | (old == P_MANY);
  if (!known) *r = want;
  uint now = *(volatile __global uint *)r;
  if (!known & (now != want) & P_OURS(c, now)) *r = me | P_SEVERAL;
  c->claims += first & (now == me);
  c->bad |= first & !P_OURS(c, now) & (now != P_MANY);
}
AI void P_puts(P_C c, int root, ulong rel, uint mode);
AI void P_puts(P_C c, int root, ulong rel, uint mode) {
  __global uint *w = (__global uint *)P_CELL((__global uchar *)c->writers[root], rel);
  uint old = *w, me = c->me, other = !P_OURS(c, old);
  *w = me;
  uint now = *(volatile __global uint *)w;
  c->claims += other & (now == me);
  c->bad |= (other & (old > 1)) | (!other & P_RECENT(c, old) & P_OTHERS(c, old)) | (now != me);
  if (!P_IS(read, root)) return;
  uint read = *(__global uint *)P_CELL((__global uchar *)c->readers[root], rel);
  c->bad |= (read != 0) & (!P_OURS(c, read) | (P_RECENT(c, read) & P_OTHERS(c, read)));
}
AI void P_does(P_C c, int root, ulong rel, uint mode);
AI void P_does(P_C c, int root, ulong rel, uint mode) {
  uint seen = *(__global uint *)P_CELL((__global uchar *)c->writers[root], rel);
  volatile __global uint *r = (volatile __global uint *)P_CELL((__global uchar *)c->readers[root], rel);
  c->bad |= (seen > 1) | ((seen == 0) & (mode & P_READS) & !(mode & P_UNSURE));
  if (*r == P_BY_ATOMIC) return;
  uint old = atomic_cmpxchg(r, 0, P_BY_ATOMIC);
  c->claims += old == 0;
  c->bad |= (old != 0) & (old != P_BY_ATOMIC);
}
AI bool P_try_g(P_C c, const volatile __global void *p, uint off, uint size, int root, uint mode, bool ok);
AI bool P_try_g(P_C c, const volatile __global void *p, uint off, uint size, int root, uint mode, bool ok) {
  ulong rel = (ulong)p + off - c->lo[root];
  ok &= P_within(c, rel, size, root);
  c->bad |= !ok;
  if ((P_IS(written, root) || P_INITS) && ok) {
#pragma unroll
    for (uint k = 0; k < size; k += P_GRANULE) {
      if (mode & P_ATOMICALLY) P_does(c, root, rel + k, mode);
      else {
        if (mode & P_READS) P_sees(c, root, rel + k, mode);
        if (mode & P_WRITES) P_puts(c, root, rel + k, mode);
      }
    }
  }
  return ok;
}

/* Members of a structure that is read whole. */
AI bool P_set_g(P_C c, const volatile __global void *p, uint off, uint size, int root);
AI bool P_set_g(P_C c, const volatile __global void *p, uint off, uint size, int root) {
  ulong rel = (ulong)p + off - c->lo[root];
  if (P_IS(written, root) || P_INITS) {
#pragma unroll
    for (uint k = 0; k < size; k += P_GRANULE) c->bad |= (uint)(*(__global uint *)P_CELL((__global uchar *)c->writers[root], rel + k) == 0);
  }
  return 1;
}
AI bool P_set_l(P_C c, const volatile __local void *p, uint off, uint size, int root);
AI bool P_set_l(P_C c, const volatile __local void *p, uint off, uint size, int root) {
  ulong rel = (ulong)p + off - (ulong)c->place[root];
#pragma unroll
  for (uint k = 0; k < size; k += P_GRANULE) c->bad |= (uint)(*(__local uint *)P_CELL((__local uchar *)c->local_writers[root], rel + k) == 0);
  return 1;
}

AI void P_touch_l(P_C c, int root, ulong rel, uint mode);
AI void P_touch_l(P_C c, int root, ulong rel, uint mode) {
  __local uint *w = (__local uint *)P_CELL((__local uchar *)c->local_writers[root], rel), *r = w + c->local_cells;
  uint seen = *w, stamp = c->stamp, epoch = c->epoch;
  uint by = mode & P_ATOMICALLY ? epoch << 16 | P_L_ATOMIC : stamp;
  if (mode & P_READS) c->bad |= (uint)((seen == 0) & !(mode & P_UNSURE));
  uint mixed = (uint)P_IS(mixed, root);
  if (mixed || (mode & P_WRITES)) c->bad |= (seen >> 16 == epoch) & (seen != by);
  if (mixed && (mode & P_READS) && !(mode & P_ATOMICALLY)) {
    uint old = *r, now = (old >> 16 != epoch) | (old == stamp) ? stamp : epoch << 16 | P_L_MANY;
    *r = now;
    if (*(volatile __local uint *)r != now) *r = epoch << 16 | P_L_MANY;
  }
  if (mode & P_WRITES) {
    if (mixed) { uint old = *r; c->bad |= (old >> 16 == epoch) & (old != stamp); }
    *w = by;
    c->bad |= *(volatile __local uint *)w != by;
  }
}
AI bool P_try_l(P_C c, const volatile __local void *p, uint off, uint size, int root, uint mode, bool ok);
AI bool P_try_l(P_C c, const volatile __local void *p, uint off, uint size, int root, uint mode, bool ok) {
  ulong rel = (ulong)p + off - (ulong)c->place[root];
  if (!(mode & P_INSIDE)) ok &= P_within(c, rel, size, root);
  c->bad |= !ok;
  if (ok) {
#pragma unroll
    for (uint k = 0; k < size; k += P_GRANULE) P_touch_l(c, root, rel + k, mode);
  }
  return ok;
}
AI bool P_try_k(P_C c, const volatile __constant void *p, uint off, uint size, int root, uint mode, bool ok);
AI bool P_try_k(P_C c, const volatile __constant void *p, uint off, uint size, int root, uint mode, bool ok) {
  if (root >= 0) ok &= P_within(c, (ulong)p + off - c->lo[root], size, root);
  c->bad |= !ok;
  return ok;
}

/* What must not happen goes to scratch memory. */
__constant ulong P_zero[P_SCRATCH / 8] = {0};
AI __global void *P_else_g(P_C c, uint mode);
AI __global void *P_else_g(P_C c, uint mode) { return (__global void *)((__global uchar *)c->log - (mode & P_WRITES ? P_SCRATCH : 2 * P_SCRATCH)); }
AI __local void *P_else_l(P_C c, uint mode);
AI __local void *P_else_l(P_C c, uint mode) { return (__local void *)((__local uchar *)c->shadow - P_SCRATCH); }
#define P_else_k(c, mode) ((__constant void *)P_zero)
#define P_g(c, p, off, size, site, root, mode) P_at_g(c, p, off, size, root, mode)
#define P_l(c, p, off, size, site, root, mode) P_at_l(c, p, off, size, root, mode)
#define P_k(c, p, off, size, site, root, mode) P_at_k(c, p, off, size, root, mode)
AI __global void *P_at_g(P_C c, const volatile __global void *p, uint off, uint size, int root, uint mode);
AI __global void *P_at_g(P_C c, const volatile __global void *p, uint off, uint size, int root, uint mode) {
  return P_try_g(c, p, off, size, root, mode, 1) ? (__global void *)p : P_else_g(c, mode);
}
AI __local void *P_at_l(P_C c, const volatile __local void *p, uint off, uint size, int root, uint mode);
AI __local void *P_at_l(P_C c, const volatile __local void *p, uint off, uint size, int root, uint mode) {
  return P_try_l(c, p, off, size, root, mode, 1) ? (__local void *)p : P_else_l(c, mode);
}
AI __constant void *P_at_k(P_C c, const volatile __constant void *p, uint off, uint size, int root, uint mode);
AI __constant void *P_at_k(P_C c, const volatile __constant void *p, uint off, uint size, int root, uint mode) {
  return P_try_k(c, p, off, size, root, mode, 1) ? (__constant void *)p : P_else_k(c, mode);
}
#define P_gv(c, n, p, stride, size, site, root, mode) P_at_g(c, (const volatile __global uchar *)(p) + (n) * (long)(stride), 0, size, root, mode)
#define P_lv(c, n, p, stride, size, site, root, mode) P_at_l(c, (const volatile __local uchar *)(p) + (n) * (long)(stride), 0, size, root, mode)

/* An index beyond an array: the access that `ok` is for does not happen, or the first element serves. */
AI long P_index(P_C c, long i, ulong n, uint where, __private bool *ok);
AI long P_index(P_C c, long i, ulong n, uint where, __private bool *ok) {
  bool within = (ulong)i < n;
  c->bad |= !within;
  if (where == 1) { *ok &= within; return i; }
  return within ? i : 0;
}
#define P_ix(c, i, n, site, where) P_index(c, i, n, where, &P_ok)
#define P_divided(c, site) ((void)((c)->bad = 1))
#define P_shifted(c, by, site) ((void)((c)->bad = 1))
AI void P_meet(P_C c);
AI void P_meet(P_C c) { c->epoch++; c->stamp += 0x10000; c->bad |= c->epoch >> 16; }
/* Behind many barriers marks are of one age again: that looks like a race, and none looks like no race. */
AI void P_meet_globally(P_C c);
AI void P_meet_globally(P_C c) { c->age++; c->me = (c->me & c->mask) | (c->age << c->bits & ~P_SEVERAL); }
#define P_passed(c, local, global) ((local) ? P_meet(c) : (void)0, (global) ? P_meet_globally(c) : (void)0)
#define P_fenced(c, global) ((void)0)
#define P_async(c, near_place, far_place, n, elem, stride, site, local_root, global_root, to_local) ((c)->bad = 1, 0UL)
#define P_after(c) ((void)0)
