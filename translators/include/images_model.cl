/* What the functions of images.cl touch, for the analysis: the same addresses, and values of which nothing is known.
   Never compiled for a device. P_ stands for a prefix that the program does not use. */

float4 P_some_f(void);
int4 P_some_i(void);
uint4 P_some_ui(void);
long P_pixel_at_floating_point(void);

/* An element has 1, 2, 4, 8 or 16 bytes; rows and slices are whole numbers of elements. */
#define P_PIXEL(SPACE, T, BITS)                                                                                    \
  ((SPACE T *)p)[(long)c.z * (d.slice >> BITS) + (long)c.y * (long)(d.row >> BITS) + (long)c.x]

void P_touch(__global const uchar *p, struct P_desc d, int4 c) {
  c.x = clamp(c.x, 0, d.width - 1);
  c.y = clamp(c.y, 0, d.height - 1);
  c.z = clamp(c.z, 0, d.depth - 1);
  switch (d.elem) {
    case 1: P_PIXEL(__global const, uchar, 0); break;
    case 2: P_PIXEL(__global const, ushort, 1); break;
    case 4: P_PIXEL(__global const, uint, 2); break;
    case 8: P_PIXEL(__global const, ulong, 3); break;
    default: P_PIXEL(__global const, uint4, 4);
  }
}

void P_change(__global uchar *p, struct P_desc d, int4 c) {
  if (c.x < 0 || c.x >= d.width || c.y < 0 || c.y >= d.height || c.z < 0 || c.z >= d.depth) return;
  switch (d.elem) {
    case 1: P_PIXEL(__global, uchar, 0) = 0; break;
    case 2: P_PIXEL(__global, ushort, 1) = 0; break;
    case 4: P_PIXEL(__global, uint, 2) = 0; break;
    case 8: P_PIXEL(__global, ulong, 3) = 0; break;
    default: P_PIXEL(__global, uint4, 4) = (uint4)(0);
  }
}

#define P_READ(NAME, T4, SOME)                                                                                     \
  T4 P_read_##NAME(__global const uchar *p, struct P_desc d, uint s, int4 c, int layered) {                        \
    P_touch(p, d, c);                                                                                              \
    return SOME();                                                                                                 \
  }                                                                                                                \
  T4 P_sample_##NAME(__global const uchar *p, struct P_desc d, uint s, float4 c, int dims, int layered) {          \
    p[P_pixel_at_floating_point()];                                                                               \
    return SOME();                                                                                                 \
  }                                                                                                                \
  void P_write_##NAME(__global uchar *p, struct P_desc d, int4 c, T4 v) { P_change(p, d, c); }

P_READ(f, float4, P_some_f)
P_READ(i, int4, P_some_i)
P_READ(ui, uint4, P_some_ui)
#undef P_READ
#undef P_PIXEL
