// What only the machine's own instructions say: binary16, approximations, products of 24 bits and textures. Everything else of these headers is C++ on CUDA's functions.
namespace vdev_cl {

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;

enum rounding { rounds_default, rte, rtz, rtp, rtn };

#define VDEV_CVT(mode, type, letter) asm("cvt." mode ".f16." type " %0, %1;" : "=h"(h) : letter(x));
template <rounding R> inline ushort half_bits(float x) {
  ushort h;
  if constexpr (R == rtz) VDEV_CVT("rz", "f32", "f")
  else if constexpr (R == rtp) VDEV_CVT("rp", "f32", "f")
  else if constexpr (R == rtn) VDEV_CVT("rm", "f32", "f")
  else VDEV_CVT("rn", "f32", "f")
  return h;
}
template <rounding R> inline ushort half_bits(double x) {
  ushort h;
  if constexpr (R == rtz) VDEV_CVT("rz", "f64", "d")
  else if constexpr (R == rtp) VDEV_CVT("rp", "f64", "d")
  else if constexpr (R == rtn) VDEV_CVT("rm", "f64", "d")
  else VDEV_CVT("rn", "f64", "d")
  return h;
}
#undef VDEV_CVT
inline float float_of_half(ushort bits) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x; }

// Each is rounded once, as from a float. Without a mode of rounding, the assembler may fuse a product with a sum (OpenCL C 6.12.1).
#ifdef VDEV_FUSES
#define VDEV_HALF(name, instruction) \
  inline ushort name(ushort x, ushort y) { ushort r; asm(instruction ".f16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y)); return r; }
#else
#define VDEV_HALF(name, instruction) \
  inline ushort name(ushort x, ushort y) { ushort r; asm(instruction ".rn.f16 %0, %1, %2;" : "=h"(r) : "h"(x), "h"(y)); return r; }
#endif
VDEV_HALF(half_sum, "add") VDEV_HALF(half_difference, "sub") VDEV_HALF(half_product, "mul")
#undef VDEV_HALF

// To a small integer, rounded and saturated at once; not a number becomes 0.
#define VDEV_SATURATED(T, type) \
  template <rounding R> inline T saturated_at_once(float x, T *) { \
    ushort r; \
    if constexpr (R == rte) asm("cvt.rni.sat." type ".f32 %0, %1;" : "=h"(r) : "f"(x)); \
    else if constexpr (R == rtp) asm("cvt.rpi.sat." type ".f32 %0, %1;" : "=h"(r) : "f"(x)); \
    else if constexpr (R == rtn) asm("cvt.rmi.sat." type ".f32 %0, %1;" : "=h"(r) : "f"(x)); \
    else asm("cvt.rzi.sat." type ".f32 %0, %1;" : "=h"(r) : "f"(x)); \
    return T(r); \
  }
VDEV_SATURATED(char, "s8") VDEV_SATURATED(uchar, "u8") VDEV_SATURATED(short, "s16") VDEV_SATURATED(ushort, "u16")
#undef VDEV_SATURATED

// For native_ and half_ functions only: numbers below the normal ones may count as zero (OpenCL C 7.5.3), which saves instructions.
#define VDEV_APPROXIMATE(name, instruction) \
  inline float name(float x) { float r; asm(instruction " %0, %1;" : "=f"(r) : "f"(x)); return r; }
VDEV_APPROXIMATE(approximate_sqrt, "sqrt.approx.ftz.f32")
VDEV_APPROXIMATE(approximate_rsqrt, "rsqrt.approx.ftz.f32")
VDEV_APPROXIMATE(approximate_reciprocal, "rcp.approx.ftz.f32")
VDEV_APPROXIMATE(approximate_exp2, "ex2.approx.ftz.f32")
VDEV_APPROXIMATE(approximate_log2, "lg2.approx.ftz.f32")
VDEV_APPROXIMATE(approximate_sin, "sin.approx.ftz.f32")
VDEV_APPROXIMATE(approximate_cos, "cos.approx.ftz.f32")
#undef VDEV_APPROXIMATE
inline float approximate_quotient(float x, float y) { float r; asm("div.approx.ftz.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }

// A product and a sum that are rounded together (OpenCL C 6.12.1).
inline float fused_float(float x, float y, float z) { return __fmaf_rn(x, y, z); }
inline double fused_double(double x, double y, double z) { return __fma_rn(x, y, z); }
inline float fused_onto_float(float z, float x, float y) { return __fmaf_rn(x, y, z); }
inline double fused_onto_double(double z, double x, double y) { return __fma_rn(x, y, z); }

// NVVM takes __mul24 apart, and where a factor is a negative constant it then believes that p[3 + mul24(x, -3)] is never p[0],
// and keeps what p[0] was.
inline int product24(int x, int y) { int r; asm("mul24.lo.s32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); return r; }
inline uint product24(uint x, uint y) { uint r; asm("mul24.lo.u32 %0, %1, %2;" : "=r"(r) : "r"(x), "r"(y)); return r; }

// What a texture of two dimensions gives at a place. Nothing else in a kernel changes it, so it is no volatile instruction.
inline void texel(ulong texture, float x, float y, float *found) {
  asm("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}];"
      : "=f"(found[0]), "=f"(found[1]), "=f"(found[2]), "=f"(found[3]) : "l"(texture), "f"(x), "f"(y));
}
}  // namespace vdev_cl
