/* Images as plain memory: what the pixels mean (OpenCL C specification 6.15.15; OpenCL API specification, "Image
   Addressing and Filtering"). P_ stands for a prefix that the program does not use.

   A descriptor's `format` holds the channel order less 0x10B0 in its first byte, the channel type less 0x10D0 in its
   second and the number of stored channels in its third. Sizes are in pixels, `row` and `slice` in bytes; dimensions
   that an image lacks have the size 1, the layers of an array are its depth. Samplers have the bits that OpenCL C's
   constants have: 1 normalised, 14 addressing mode, 0x20 linear.

   P_FOUR and P_PUT_FOUR read and write a pixel of four channels: at once, where pixels are aligned to their size. P_TWO is
   there only on such devices. */

/* Numbers of an image's pixels outside of it: clamped to the edge. */
int4 P_inside(struct P_desc d, int4 c) {
  return (int4)(clamp(c.x, 0, d.width - 1), clamp(c.y, 0, d.height - 1), clamp(c.z, 0, d.depth - 1), 0);
}

/* `c`: inside. A row has less than 4 GiB, so products of 32 bits will do where they can. */
__global const uchar *P_at(__global const uchar *p, struct P_desc d, int4 c) {
  return p + (long)c.z * d.slice + (ulong)(uint)c.y * d.row + (uint)c.x * d.elem;
}

int P_is_border(uint s, int4 c, int4 e) {
  return (s & 14u) == 4u && (c.x != e.x || c.y != e.y || c.z != e.z);
}

/* One, where a border or a channel that is not stored is opaque: R, RG, RGB, LUMINANCE. */
int P_alpha(uint format) {
  uint order = format & 255u;
  return order == 0u || order == 2u || order == 4u || order == 9u;
}

float P_linear_light(float c) {
  return c <= 0.04045f ? c / 12.92f : powr((c + 0.055f) / 1.055f, 2.4f);
}

/* Stored channels to components. */
#define P_COMPONENTS(T, T4)                                                                                        \
  switch (format & 255u) {                                                                                         \
    case 0: case 13: return (T4)(c.x, (T)0, (T)0, (T)1);                                                           \
    case 1: return (T4)((T)0, (T)0, (T)0, c.x);                                                                    \
    case 2: return (T4)(c.x, c.y, (T)0, (T)1);                                                                     \
    case 3: return (T4)(c.x, (T)0, (T)0, c.y);                                                                     \
    case 6: return (T4)(c.z, c.y, c.x, c.w);                                                                       \
    case 7: return (T4)(c.y, c.z, c.w, c.x);                                                                       \
    case 8: return (T4)(c.x, c.x, c.x, c.x);                                                                       \
    case 9: return (T4)(c.x, c.x, c.x, (T)1);                                                                      \
    case 17: return (T4)(P_LIGHT(c.x), P_LIGHT(c.y), P_LIGHT(c.z), c.w);                                           \
    case 18: return (T4)(P_LIGHT(c.z), P_LIGHT(c.y), P_LIGHT(c.x), c.w);                                           \
    default: return c;                                                                                             \
  }

#define P_CHANNELS(T, VALUE) {                                                                                     \
    __global const T *t = (__global const T *)q;                                                                   \
    c.x = VALUE(t[0]);                                                                                             \
    if (n > 1u) c.y = VALUE(t[1]);                                                                                 \
    if (n > 2u) { c.z = VALUE(t[2]); c.w = VALUE(t[3]); }                                                          \
    break; }

#define P_PLAIN(v) v
/* Of two ways to normalise, both as exact as asked for (8.3.1), the one that CPU engines take: results are the same to
   the last bit on workers of any kind. */
#define P_UNORM8(v) (order > 16u ? (v) / 255.0f : (v) * (1.0f / 255.0f))
#define P_UNORM16(v) (order == 0u || order == 13u ? (v) / 65535.0f : (v) * (1.0f / 65535.0f))
#define P_SNORM8(v) fmax(order == 3u ? (v) * (1.0f / 127.0f) : (v) / 127.0f, -1.0f)
#define P_SNORM16(v) fmax(order == 3u ? (v) * (1.0f / 32767.0f) : (v) / 32767.0f, -1.0f)

float4 P_components_f(float4 c, uint format) {
#define P_LIGHT(v) P_linear_light(v)
  P_COMPONENTS(float, float4)
#undef P_LIGHT
}

#define P_LIGHT(v) v
int4 P_components_i(int4 c, uint format) { P_COMPONENTS(int, int4) }
uint4 P_components_ui(uint4 c, uint format) { P_COMPONENTS(uint, uint4) }
#ifdef P_TEXTURES
/* Of formats that textures are made of, in which no channel is to be converted. */
float4 P_components_t(float4 c, uint format) { P_COMPONENTS(float, float4) }
#endif
#undef P_LIGHT

/* Of any format. Not inlined, as the other way round: compilers take seconds for a kernel with many copies of it. */
__attribute__((noinline)) float4 P_decode_f(__global const uchar *q, uint format) {
  uint n = format >> 16, order = format & 255u;
  float4 c = (float4)(0.0f, 0.0f, 0.0f, 0.0f);
  switch (format >> 8 & 255u) {
    case 0: P_CHANNELS(char, P_SNORM8)
    case 1: P_CHANNELS(short, P_SNORM16)
    case 2: P_CHANNELS(uchar, P_UNORM8)
    case 3: P_CHANNELS(ushort, P_UNORM16)
    case 7: P_CHANNELS(char, P_PLAIN)
    case 8: P_CHANNELS(short, P_PLAIN)
    case 9: P_CHANNELS(int, P_PLAIN)
    case 10: P_CHANNELS(uchar, P_PLAIN)
    case 11: P_CHANNELS(ushort, P_PLAIN)
    case 12: P_CHANNELS(uint, P_PLAIN)
    case 13: {
      __global const half *t = (__global const half *)q;
      c.x = vload_half(0, t);
      if (n > 1u) c.y = vload_half(1, t);
      if (n > 2u) { c.z = vload_half(2, t); c.w = vload_half(3, t); }
      break; }
    case 14: P_CHANNELS(float, P_PLAIN)
  }
  return P_components_f(c, format);
}

/* One stored channel to components: R, A, INTENSITY, LUMINANCE, DEPTH. */
float4 P_spread_f(float v, uint order) {
  float more = order == 8u || order == 9u ? v : 0.0f;
  return (float4)(order == 1u ? 0.0f : v, more, more, order == 1u || order == 8u ? v : 1.0f);
}

/* A pixel of a format that is known; `order` is its channels'. */
#define P_AS_RGBA_FLOAT(q) P_FOUR(float, q)
#define P_AS_RGBA_UNORM8(q) (convert_float4(P_FOUR(uchar, q)) * (1.0f / 255.0f))
#define P_AS_BGRA_UNORM8(q) (convert_float4(P_FOUR(uchar, q).zyxw) * (1.0f / 255.0f))
#define P_AS_R_FLOAT(q) P_spread_f(*(__global const float *)(q), order)
#define P_AS_R_UNORM8(q) P_spread_f((float)*(q) * (1.0f / 255.0f), order)
#ifdef P_TWO
#define P_AS_RGBA_HALF(q) vloada_half4(0, (__global const half *)(q))
#define P_AS_RGBA_UNORM16(q) (convert_float4(P_FOUR(ushort, q)) * (1.0f / 65535.0f))
#define P_AS_RG_FLOAT(q) (float4)(P_TWO(float, q), 0.0f, 1.0f)
#define P_AS_RG_HALF(q) (float4)(vloada_half2(0, (__global const half *)(q)), 0.0f, 1.0f)
#define P_AS_RG_UNORM16(q) (float4)(convert_float2(P_TWO(ushort, q)) * (1.0f / 65535.0f), 0.0f, 1.0f)
#define P_AS_RG_UNORM8(q) (float4)(convert_float2(P_TWO(uchar, q)) * (1.0f / 255.0f), 0.0f, 1.0f)
#define P_AS_R_HALF(q) P_spread_f(vload_half(0, (__global const half *)(q)), order)
#define P_AS_R_UNORM16(q) P_spread_f(P_UNORM16((float)*(__global const ushort *)(q)), order)
#endif
#define P_AS_OTHER(q) P_decode_f(q, format)

/* The usual formats without a call: where the compiler makes vectors of work-items, a call takes thirty times as long.
   RGBA and one channel, of floats and of bytes; BGRA of bytes. With one channel of 16 bits here as well, Intel's
   compiler makes code that takes four times as long of kernels that sample the engine's own images. GPUs take to those of 16 bits and
   to two channels as well. */
float4 P_load_f(__global const uchar *q, uint format) {
  uint order = format & 255u;
  if (format == 0x40E05u) return P_AS_RGBA_FLOAT(q);
  if (format == 0x40205u) return P_AS_RGBA_UNORM8(q);
  if (format >> 8 == 0x10Eu) return P_AS_R_FLOAT(q);
  if (format >> 8 == 0x102u) return P_AS_R_UNORM8(q);
  if (format == 0x40206u) return P_AS_BGRA_UNORM8(q);
#ifdef P_TWO
  if (format == 0x40D05u) return P_AS_RGBA_HALF(q);
  if (format == 0x40305u) return P_AS_RGBA_UNORM16(q);
  if (format == 0x20E02u) return P_AS_RG_FLOAT(q);
  if (format == 0x20D02u) return P_AS_RG_HALF(q);
  if (format == 0x20302u) return P_AS_RG_UNORM16(q);
  if (format == 0x20202u) return P_AS_RG_UNORM8(q);
  if (format >> 8 == 0x10Du) return P_AS_R_HALF(q);
  if (format >> 8 == 0x103u) return P_AS_R_UNORM16(q);
#endif
  return P_AS_OTHER(q);
}

__attribute__((noinline)) int4 P_decode_i(__global const uchar *q, uint format) {
  uint n = format >> 16;
  int4 c = (int4)(0, 0, 0, 0);
  switch (format >> 8 & 255u) {
    case 0: case 7: P_CHANNELS(char, P_PLAIN)
    case 1: case 8: P_CHANNELS(short, P_PLAIN)
    case 2: case 10: P_CHANNELS(uchar, P_PLAIN)
    case 3: case 11: case 13: P_CHANNELS(ushort, P_PLAIN)
    default: P_CHANNELS(int, P_PLAIN)
  }
  return P_components_i(c, format);
}

/* One stored channel to components: R, A. */
int4 P_spread_i(int v, uint format) {
  return (format & 255u) == 1u ? (int4)(0, 0, 0, v) : (int4)(v, 0, 0, 1);
}

int4 P_load_i(__global const uchar *q, uint format) {
  if (format == 0x40905u) return P_FOUR(int, q);
  if (format >> 8 == 0x107u) return P_spread_i(*(__global const char *)q, format);
  if (format >> 8 == 0x108u) return P_spread_i(*(__global const short *)q, format);
  if (format >> 8 == 0x109u) return P_spread_i(*(__global const int *)q, format);
  return P_decode_i(q, format);
}

uint4 P_load_ui(__global const uchar *q, uint format) {
  if (format == 0x40A05u) return convert_uint4(P_FOUR(uchar, q));
  int4 c;
  if (format >> 8 == 0x10Au) c = P_spread_i(*q, format);
  else if (format >> 8 == 0x10Bu) c = P_spread_i(*(__global const ushort *)q, format);
  else if (format >> 8 == 0x10Cu) c = P_spread_i(*(__global const int *)q, format);
  else c = P_decode_i(q, format);
  return (uint4)((uint)c.x, (uint)c.y, (uint)c.z, (uint)c.w);
}

float4 P_fetch_f(__global const uchar *p, struct P_desc d, uint s, int4 c) {
  int4 e = P_inside(d, c);
  if (P_is_border(s, c, e)) return (float4)(0.0f, 0.0f, 0.0f, (float)P_alpha(d.format));
  return P_load_f(P_at(p, d, e), d.format);
}

int4 P_fetch_i(__global const uchar *p, struct P_desc d, uint s, int4 c) {
  int4 e = P_inside(d, c);
  if (P_is_border(s, c, e)) return (int4)(0, 0, 0, P_alpha(d.format));
  return P_load_i(P_at(p, d, e), d.format);
}

uint4 P_fetch_ui(__global const uchar *p, struct P_desc d, uint s, int4 c) {
  int4 e = P_inside(d, c);
  if (P_is_border(s, c, e)) return (uint4)(0u, 0u, 0u, (uint)P_alpha(d.format));
  return P_load_ui(P_at(p, d, e), d.format);
}

/* A coordinate in pixels, before it is rounded; of an addressing mode that repeats, within the image. */
float P_position(float x, int n, uint s) {
  if (!(s & 1u)) return x;
  if ((s & 14u) == 6u) return (x - floor(x)) * (float)n;
  if ((s & 14u) == 8u) return fabs(x - 2.0f * rint(0.5f * x)) * (float)n;
  return x * (float)n;
}

/* The floor as an integer: what lies further outside than the border's first pixel is border, too. */
int P_floor(float u, int n) {
  return (int)fmax(fmin(floor(u), (float)n + 1.0f), -2.0f);
}

int P_layer(float z, int n) {
  return (int)fmax(fmin(rint(z), (float)n - 1.0f), 0.0f);
}

int P_nearest1(float x, int n, uint s) {
  int i = P_floor(P_position(x, n, s), n);
  if ((s & 15u) == 7u && i > n - 1) i -= n;
  if ((s & 15u) == 9u) i = min(i, n - 1);
  return i;
}

int4 P_nearest(struct P_desc d, uint s, float4 c, int dims, int layered) {
  int4 i = (int4)(P_nearest1(c.x, d.width, s), 0, 0, 0);
  if (dims > 1) i.y = P_nearest1(c.y, d.height, s);
  if (dims > 2) i.z = P_nearest1(c.z, d.depth, s);
  if (layered) i.z = P_layer(c.z, d.depth);
  return i;
}

/* The two pixels between which a coordinate lies, and the second one's share. */
int2 P_pair(float x, int n, uint s, __private float *share) {
  float u = P_position(x, n, s) - 0.5f;
  int2 i;
  i.x = P_floor(u, n);
  i.y = i.x + 1;
  *share = u - floor(u);
  if ((s & 15u) == 7u) {
    if (i.x < 0) i.x += n;
    if (i.y > n - 1) i.y -= n;
  }
  if ((s & 15u) == 9u) {
    i.x = max(i.x, 0);
    i.y = min(i.y, n - 1);
  }
  return i;
}

#ifdef P_TWO
#define P_FOUR_PIXELS(LOAD) {                                                                                      \
    v = LOAD(upper + left); w = LOAD(upper + right); t = LOAD(lower + left); u = LOAD(lower + right);              \
    break; }

/* Between four pixels of a two-dimensional image: all of them are loaded before any is used, and the format is looked at once.
   Outside of the image, the nearest pixel in it is loaded in place of a border's. */
float4 P_bilinear(__global const uchar *p, struct P_desc d, uint s, int2 x, int2 y, float a, float b) {
  uint format = d.format, order = format & 255u;
  int2 i = clamp(x, (int2)(0, 0), (int2)(d.width - 1, d.width - 1));
  int2 j = clamp(y, (int2)(0, 0), (int2)(d.height - 1, d.height - 1));
  int has_border = (s & 14u) == 4u;
  int4 outside = has_border ? (int4)(i.x != x.x, i.y != x.y, j.x != y.x, j.y != y.y) : (int4)(0, 0, 0, 0);
  float4 border = (float4)(0.0f, 0.0f, 0.0f, (float)P_alpha(format)), v, w, t, u;
  if ((outside.x & outside.y) | (outside.z & outside.w)) {
    v = w = t = u = border;
  } else {
    __global const uchar *upper = p + (ulong)(uint)j.x * d.row, *lower = p + (ulong)(uint)j.y * d.row;
    uint left = (uint)i.x * d.elem, right = (uint)i.y * d.elem;
    switch (format >> 8 == 0x10Eu || format >> 8 == 0x102u || format >> 8 == 0x10Du || format >> 8 == 0x103u
                ? format & 0xFFFF00u
                : format) {
      case 0x40E05u: P_FOUR_PIXELS(P_AS_RGBA_FLOAT)
      case 0x40205u: P_FOUR_PIXELS(P_AS_RGBA_UNORM8)
      case 0x40206u: P_FOUR_PIXELS(P_AS_BGRA_UNORM8)
      case 0x40D05u: P_FOUR_PIXELS(P_AS_RGBA_HALF)
      case 0x40305u: P_FOUR_PIXELS(P_AS_RGBA_UNORM16)
      case 0x20E02u: P_FOUR_PIXELS(P_AS_RG_FLOAT)
      case 0x20D02u: P_FOUR_PIXELS(P_AS_RG_HALF)
      case 0x20302u: P_FOUR_PIXELS(P_AS_RG_UNORM16)
      case 0x20202u: P_FOUR_PIXELS(P_AS_RG_UNORM8)
      case 0x10E00u: P_FOUR_PIXELS(P_AS_R_FLOAT)
      case 0x10200u: P_FOUR_PIXELS(P_AS_R_UNORM8)
      case 0x10D00u: P_FOUR_PIXELS(P_AS_R_HALF)
      case 0x10300u: P_FOUR_PIXELS(P_AS_R_UNORM16)
      default: P_FOUR_PIXELS(P_AS_OTHER)
    }
    if (outside.x | outside.z) v = border;
    if (outside.y | outside.z) w = border;
    if (outside.x | outside.w) t = border;
    if (outside.y | outside.w) u = border;
  }
  float e = 1.0f - a, f = 1.0f - b;
  return e * f * v + a * f * w + e * b * t + a * b * u;
}
#endif

float4 P_linear(__global const uchar *p, struct P_desc d, uint s, float4 c, int dims, int layered) {
  float a = 0.0f, b = 0.0f, r = 0.0f;
  int2 x = P_pair(c.x, d.width, s, &a), y = (int2)(0, 0), z = (int2)(0, 0);
  if (dims > 1) y = P_pair(c.y, d.height, s, &b);
  if (dims > 2) z = P_pair(c.z, d.depth, s, &r);
  if (layered) z.x = P_layer(c.z, d.depth);
  float e = 1.0f - a, f = 1.0f - b, g = 1.0f - r;
#define P_CORNER(I, J, K) P_fetch_f(p, d, s, (int4)(I, J, K, 0))
  if (dims == 1) return e * P_CORNER(x.x, 0, z.x) + a * P_CORNER(x.y, 0, z.x);
#ifdef P_TWO
  if (dims == 2 && !layered) return P_bilinear(p, d, s, x, y, a, b);
#endif
  if (dims == 2)
    return e * f * P_CORNER(x.x, y.x, z.x) + a * f * P_CORNER(x.y, y.x, z.x)
      + e * b * P_CORNER(x.x, y.y, z.x) + a * b * P_CORNER(x.y, y.y, z.x);
  return e * f * g * P_CORNER(x.x, y.x, z.x) + a * f * g * P_CORNER(x.y, y.x, z.x)
    + e * b * g * P_CORNER(x.x, y.y, z.x) + a * b * g * P_CORNER(x.y, y.y, z.x)
    + e * f * r * P_CORNER(x.x, y.x, z.y) + a * f * r * P_CORNER(x.y, y.x, z.y)
    + e * b * r * P_CORNER(x.x, y.y, z.y) + a * b * r * P_CORNER(x.y, y.y, z.y);
}

float4 P_sample_f(__global const uchar *p, struct P_desc d, uint s, float4 c, int dims, int layered) {
  if (s & 0x20u) return P_linear(p, d, s, c, dims, layered);
  return P_fetch_f(p, d, s, P_nearest(d, s, c, dims, layered));
}

int4 P_sample_i(__global const uchar *p, struct P_desc d, uint s, float4 c, int dims, int layered) {
  return P_fetch_i(p, d, s, P_nearest(d, s, c, dims, layered));
}

uint4 P_sample_ui(__global const uchar *p, struct P_desc d, uint s, float4 c, int dims, int layered) {
  return P_fetch_ui(p, d, s, P_nearest(d, s, c, dims, layered));
}

/* Integer coordinates: layers of an array are clamped whatever the sampler says. */
int4 P_whole(struct P_desc d, int4 c, int layered) {
  if (layered) c.z = clamp(c.z, 0, d.depth - 1);
  return c;
}

float4 P_read_f(__global const uchar *p, struct P_desc d, uint s, int4 c, int layered) {
  return P_fetch_f(p, d, s, P_whole(d, c, layered));
}

int4 P_read_i(__global const uchar *p, struct P_desc d, uint s, int4 c, int layered) {
  return P_fetch_i(p, d, s, P_whole(d, c, layered));
}

uint4 P_read_ui(__global const uchar *p, struct P_desc d, uint s, int4 c, int layered) {
  return P_fetch_ui(p, d, s, P_whole(d, c, layered));
}

/* Components to stored channels. */
#define P_STORED                                                                                                   \
  switch (format & 255u) {                                                                                         \
    case 1: c.x = c.w; break;                                                                                      \
    case 3: c.y = c.w; break;                                                                                      \
    case 6: c = c.zyxw; break;                                                                                     \
    case 7: c = c.wxyz; break;                                                                                     \
  }

#define P_STORE(T, VALUE) {                                                                                        \
    __global T *t = (__global T *)q;                                                                               \
    t[0] = VALUE(c.x);                                                                                             \
    if (n > 1u) t[1] = VALUE(c.y);                                                                                 \
    if (n > 2u) { t[2] = VALUE(c.z); t[3] = VALUE(c.w); }                                                          \
    break; }

#define P_TO_SNORM8(v) convert_char_sat_rte((v) * 127.0f)
#define P_TO_SNORM16(v) convert_short_sat_rte((v) * 32767.0f)
#define P_TO_UNORM8(v) convert_uchar_sat_rte((v) * 255.0f)
#define P_TO_UNORM16(v) convert_ushort_sat_rte((v) * 65535.0f)

__attribute__((noinline)) void P_encode_f(__global uchar *q, uint format, float4 c) {
  uint n = format >> 16;
  P_STORED
  switch (format >> 8 & 255u) {
    case 0: P_STORE(char, P_TO_SNORM8)
    case 1: P_STORE(short, P_TO_SNORM16)
    case 2: P_STORE(uchar, P_TO_UNORM8)
    case 3: P_STORE(ushort, P_TO_UNORM16)
    case 13: {
      __global half *t = (__global half *)q;
      vstore_half_rte(c.x, 0, t);
      if (n > 1u) vstore_half_rte(c.y, 1, t);
      if (n > 2u) { vstore_half_rte(c.z, 2, t); vstore_half_rte(c.w, 3, t); }
      break; }
    case 14: P_STORE(float, P_PLAIN)
  }
}

__attribute__((noinline)) void P_encode_i(__global uchar *q, uint format, int4 c) {
  uint n = format >> 16;
  P_STORED
  switch (format >> 8 & 255u) {
    case 7: P_STORE(char, convert_char_sat)
    case 8: P_STORE(short, convert_short_sat)
    case 9: P_STORE(int, P_PLAIN)
  }
}

__attribute__((noinline)) void P_encode_ui(__global uchar *q, uint format, uint4 c) {
  uint n = format >> 16;
  P_STORED
  switch (format >> 8 & 255u) {
    case 10: P_STORE(uchar, convert_uchar_sat)
    case 11: P_STORE(ushort, convert_ushort_sat)
    case 12: P_STORE(uint, P_PLAIN)
  }
}

/* Pixels outside of an image are not written. */
#define P_PLACE                                                                                                    \
  int4 e = P_inside(d, at);                                                                                        \
  if (at.x != e.x || at.y != e.y || at.z != e.z) return;                                                           \
  __global uchar *q = (__global uchar *)P_at(p, d, e);

void P_write_f(__global uchar *p, struct P_desc d, int4 at, float4 c) {
  P_PLACE
  if (d.format == 0x40E05u) P_PUT_FOUR(float, c, q);
  else if (d.format == 0x40205u) P_PUT_FOUR(uchar, convert_uchar4_sat_rte(c * 255.0f), q);
  else P_encode_f(q, d.format, c);
}

void P_write_i(__global uchar *p, struct P_desc d, int4 at, int4 c) {
  P_PLACE
  P_encode_i(q, d.format, c);
}

void P_write_ui(__global uchar *p, struct P_desc d, int4 at, uint4 c) {
  P_PLACE
  if (d.format == 0x40A05u) P_PUT_FOUR(uchar, convert_uchar4_sat(c), q);
  else P_encode_ui(q, d.format, c);
}
