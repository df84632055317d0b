// What translated programs use of CUDA, for a C++ compiler of the host: work-items are fibres, one work-group after the other, and
// barriers and warps wait for each other as on a GPU. For tests of values; says nothing about speed or memory order.
#undef _FORTIFY_SOURCE  // which takes jumps between stacks for mistakes
#include <cfenv>
#include <cmath>
#include <math.h>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdio.h>
#include <string.h>
#include <limits>
#include <type_traits>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define __builtin_assume(truth)

#include "fake_cuda/textures.h"
#include "misaligned.h"

// Fibres ----------------------------------------------------------------------------------------------

struct Three { unsigned x = 1, y = 1, z = 1; };
static Three threadIdx, blockIdx, blockDim, gridDim;
enum Waits { RUNS, AT_BARRIER, AT_WARP, DONE };
struct Fibre {
  ucontext_t context;  // where it begins
  jmp_buf place;       // where it goes on, once it has begun
  bool has_begun = false;
  std::vector<char> stack = std::vector<char>(256 << 10);
  Waits waits = RUNS;
  Three index;
  unsigned number = 0;
  long long slot[2] = {};  // what it says to its warp, in turn
  unsigned turn = 0;
};
static std::vector<Fibre> fibres;
static Fibre *current;
static jmp_buf scheduler;
static void (*body)(void *);
static void *body_data;
static long long barrier_and, barrier_or, barrier_votes[2];

// By jumps: `swapcontext` calls the kernel for the signals' mask, which took most of the time of short work-items.
static void wait_as(Waits waits) {
  Fibre *own = current;
  own->waits = waits;
  if (!_setjmp(own->place)) _longjmp(scheduler, 1);
}
static void fibre_main() { while (true) body(body_data), wait_as(DONE); }
static void __attribute__((noinline)) go_on(Fibre &f) {
  if (_setjmp(scheduler)) return;
  if (f.has_begun) _longjmp(f.place, 1);
  f.has_begun = true;
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.data();
  f.context.uc_stack.ss_size = f.stack.size();
  f.context.uc_link = nullptr;
  makecontext(&f.context, fibre_main, 0);
  setcontext(&f.context);
}
static void run_group() {
  for (auto &f : fibres) f.waits = RUNS, f.turn = 0;
  while (true) {
    bool some = false, left = false;
    for (auto &f : fibres) {
      if (f.waits != RUNS) continue;
      some = true;
      current = &f;
      threadIdx = f.index;
      go_on(f);
    }
    if (some) continue;
    size_t warps = (fibres.size() + 31) / 32;
    for (size_t w = 0; w < warps; ++w) {
      bool all = true, any = false;
      size_t stop = (w + 1) * 32 < fibres.size() ? (w + 1) * 32 : fibres.size();
      for (size_t i = w * 32; i < stop; ++i) all &= fibres[i].waits == AT_WARP || fibres[i].waits == DONE, any |= fibres[i].waits == AT_WARP;
      if (all && any) for (size_t i = w * 32; i < stop; ++i) if (fibres[i].waits == AT_WARP) fibres[i].waits = RUNS, some = true;
    }
    if (some) continue;
    for (auto &f : fibres) left |= f.waits != DONE, some |= f.waits == AT_WARP;
    if (!left) return;
    if (some) { std::fprintf(stderr, "work-items wait at different places\n"); std::abort(); }
    barrier_votes[0] = barrier_and, barrier_votes[1] = barrier_or;
    barrier_and = 1, barrier_or = 0;
    for (auto &f : fibres) if (f.waits == AT_BARRIER) f.waits = RUNS;
  }
}
inline void __syncthreads() { wait_as(AT_BARRIER); }
inline int __syncthreads_and(int x) { barrier_and &= x != 0; wait_as(AT_BARRIER); return (int)barrier_votes[0]; }
inline int __syncthreads_or(int x) { barrier_or |= x != 0; wait_as(AT_BARRIER); return (int)barrier_votes[1]; }
inline Fibre &lane_of(unsigned lane) { return fibres[(current->number & ~31u) + (lane & 31)]; }
inline int __shfl_sync(unsigned, int x, unsigned lane) {
  Fibre *own = current;
  unsigned turn = own->turn++ & 1;
  own->slot[turn] = x;
  wait_as(AT_WARP);
  return (current->number & ~31u) + (lane & 31) < fibres.size() ? (int)lane_of(lane).slot[turn] : x;
}
inline void __syncwarp(unsigned = ~0u) { wait_as(AT_WARP); }
template <bool ALL> inline int vote(int x) {
  unsigned turn = current->turn++ & 1;
  current->slot[turn] = x != 0;
  wait_as(AT_WARP);
  int r = ALL;
  for (unsigned l = 0; l < 32 && (current->number & ~31u) + l < fibres.size(); ++l) {
    int y = (int)lane_of(l).slot[turn];
    r = ALL ? r & y : r | y;
  }
  return r;
}
inline int __all_sync(unsigned, int x) { return vote<true>(x); }
inline int __any_sync(unsigned, int x) { return vote<false>(x); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
extern __attribute__((visibility("hidden"))) char __bss_start, _end;  // of this library
inline bool __isShared(const void *p) { return p >= (const void *)&__bss_start && p < (const void *)&_end; }
inline bool __isLocal(const void *p) {
  for (auto &f : fibres) if (p >= (const void *)f.stack.data() && p < (const void *)(f.stack.data() + f.stack.size())) return true;
  return false;
}

// Launches: arguments are addresses of values, the last one the hidden structure.
template <class... A, size_t... I> inline void call(void (*kernel)(A...), void **args, std::index_sequence<I...>) {
  kernel(*(std::remove_reference_t<A> *)args[I]...);
}
template <class... A> inline void launch(void (*kernel)(A...), void **args, const unsigned *grid, const unsigned *block) {
  struct Data { void (*kernel)(A...); void **args; } data{kernel, args};
  body = [](void *p) { call(((Data *)p)->kernel, ((Data *)p)->args, std::index_sequence_for<A...>()); };
  body_data = &data;
  blockDim = {block[0], block[1], block[2]};
  gridDim = {grid[0], grid[1], grid[2]};
#ifdef SAME_STACKS  // programs of many launches take them over from the launch before, with what is left there
  if (fibres.size() != block[0] * block[1] * block[2])
#endif
  fibres = std::vector<Fibre>(block[0] * block[1] * block[2]);
  for (unsigned n = 0; n < fibres.size(); ++n) {
    fibres[n].number = n;
    fibres[n].index = {n % block[0], n / block[0] % block[1], n / block[0] / block[1]};
  }
  barrier_and = 1, barrier_or = 0;
  *misaligned = 0;
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0]; ++x) blockIdx = {x, y, z}, run_group();
  std::fflush(stdout);
}

// CUDA's functions ------------------------------------------------------------------------------------

template <class T> inline T atomicAdd(T *p, T v) { T old = *p; *p = old + v; return old; }
template <class T> inline T atomicExch(T *p, T v) { T old = *p; *p = v; return old; }
template <class T> inline T atomicCAS(T *p, T e, T v) { T old = *p; if (old == e) *p = v; return old; }
template <class T> inline T atomicMin(T *p, T v) { T old = *p; if (v < old) *p = v; return old; }
template <class T> inline T atomicMax(T *p, T v) { T old = *p; if (v > old) *p = v; return old; }
template <class T> inline T atomicAnd(T *p, T v) { T old = *p; *p = old & v; return old; }
template <class T> inline T atomicOr(T *p, T v) { T old = *p; *p = old | v; return old; }
template <class T> inline T atomicXor(T *p, T v) { T old = *p; *p = old ^ v; return old; }

template <class R, class S> inline R bits_as(S x) { R r; std::memcpy(&r, &x, sizeof r); return r; }
inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
inline float __int_as_float(int x) { return bits_as<float>(x); }
inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }
inline unsigned __sad(int x, int y, unsigned z) { return z + (x < y ? (unsigned)y - (unsigned)x : (unsigned)x - (unsigned)y); }
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline void __trap() { std::abort(); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) { return (unsigned long long)((unsigned __int128)x * y >> 64); }

// Rounded as asked; `volatile` keeps the compiler from computing with another rounding.
template <class R, class S> inline R rounded_to(int mode, S x) {
  std::fesetround(mode);
  volatile S y = x;
  volatile R r = (R)y;
  std::fesetround(FE_TONEAREST);
  return r;
}
// As PTX's cvt: rounded, saturated; not a number is 0 from float to 32 bits, the lowest number's bits else.
template <class I, class S> inline I integer_of(int mode, S x) {
  std::fesetround(mode);
  volatile S y = x;
  S whole = std::nearbyint(y);
  std::fesetround(FE_TONEAREST);
  if (whole != whole) return sizeof(S) == 4 && sizeof(I) == 4 ? I(0) : I(1ull << (8 * sizeof(I) - 1));
  if ((long double)whole >= (long double)std::numeric_limits<I>::max()) return std::numeric_limits<I>::max();
  if ((long double)whole <= (long double)std::numeric_limits<I>::min()) return std::numeric_limits<I>::min();
  return (I)whole;
}
#define HOST_MODES(R, S, name, function) \
  inline R name##_rn(S x) { return function<R>(FE_TONEAREST, x); } inline R name##_rz(S x) { return function<R>(FE_TOWARDZERO, x); } \
  inline R name##_ru(S x) { return function<R>(FE_UPWARD, x); } inline R name##_rd(S x) { return function<R>(FE_DOWNWARD, x); }
HOST_MODES(float, double, __double2float, rounded_to) HOST_MODES(float, int, __int2float, rounded_to)
HOST_MODES(float, unsigned, __uint2float, rounded_to) HOST_MODES(float, long, __ll2float, rounded_to)
HOST_MODES(float, unsigned long, __ull2float, rounded_to) HOST_MODES(double, long, __ll2double, rounded_to)
HOST_MODES(double, unsigned long, __ull2double, rounded_to)
HOST_MODES(int, float, __float2int, integer_of) HOST_MODES(unsigned, float, __float2uint, integer_of)
HOST_MODES(long, float, __float2ll, integer_of) HOST_MODES(unsigned long, float, __float2ull, integer_of)
HOST_MODES(int, double, __double2int, integer_of) HOST_MODES(unsigned, double, __double2uint, integer_of)
HOST_MODES(long, double, __double2ll, integer_of) HOST_MODES(unsigned long, double, __double2ull, integer_of)

inline float rsqrtf(float x) { return (float)(1 / std::sqrt((double)x)); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
// Exact where the argument is a multiple of a half.
inline double sinpi(double x) {
  double r = std::remainder(x, 2.0);
  if (r == 0 || std::fabs(r) == 1) return std::copysign(0.0, x);
  if (std::fabs(r) == 0.5) return std::copysign(1.0, r);
  return std::copysign(std::sin((std::fabs(r) > 0.5 ? 1 - std::fabs(r) : std::fabs(r)) * M_PI), r);
}
inline double cospi(double x) {
  double r = std::fabs(std::remainder(x, 2.0));
  return r == 0.5 ? 0.0 : r < 0.25 ? std::cos(r * M_PI) : std::sin((0.5 - r) * M_PI);
}
inline float sinpif(float x) { return (float)sinpi((double)x); }
inline float cospif(float x) { return (float)cospi((double)x); }

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

inline float float_of_half(ushort bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double x = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return (float)(bits >> 15 ? -x : x);
}
template <rounding R> inline ushort half_bits(double x) {
  ushort sign = std::signbit(x) ? 0x8000 : 0;
  double a = std::fabs(x);
  if (x != x) return 0x7e00;
  if (a == INFINITY) return sign | 0x7c00;
  int exponent;
  std::frexp(a, &exponent);
  double unit = std::ldexp(1.0, (exponent < -13 ? -13 : exponent) - 11), n = a / unit, whole = std::floor(n), rest = n - whole;
  bool up = R == rtz ? false : R == rtp ? rest > 0 && !sign : R == rtn ? rest > 0 && sign : rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1);
  double y = (whole + up) * unit;
  if (y > 65504) {
    bool inward = R == rtz || (R == rtp && sign) || (R == rtn && !sign);
    return sign | (inward ? 0x7bff : 0x7c00);
  }
  std::frexp(y, &exponent);
  if (y < 0x1p-14) return sign | (ushort)(y / 0x1p-24);
  return sign | (ushort)(((exponent + 14) << 10) + (int)((y / std::ldexp(1.0, exponent - 1) - 1) * 1024));
}
inline ushort half_sum(ushort x, ushort y) { return half_bits<rte>((double)(float_of_half(x) + float_of_half(y))); }
inline ushort half_difference(ushort x, ushort y) { return half_bits<rte>((double)(float_of_half(x) - float_of_half(y))); }
inline ushort half_product(ushort x, ushort y) { return half_bits<rte>((double)(float_of_half(x) * float_of_half(y))); }
template <rounding R, class T> inline T saturated_at_once(float x, T *) {
  double y = R == rte ? std::nearbyint((double)x) : R == rtp ? std::ceil((double)x) : R == rtn ? std::floor((double)x) : std::trunc((double)x);
  double most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::lowest();
  return x != x ? T(0) : y > most ? std::numeric_limits<T>::max() : y < least ? std::numeric_limits<T>::lowest() : T(y);
}
inline float approximate_sqrt(float x) { return std::sqrt(x); }
inline float approximate_rsqrt(float x) { return 1 / std::sqrt(x); }
inline float approximate_reciprocal(float x) { return 1 / x; }
inline float approximate_exp2(float x) { return std::exp2(x); }
inline float approximate_log2(float x) { return std::log2(x); }
inline float approximate_sin(float x) { return std::sin(x); }
inline float approximate_cos(float x) { return std::cos(x); }
inline float approximate_quotient(float x, float y) { return x / y; }
// As without fusing: what is computed elsewhere for comparison is not fused either.
inline float fused_float(float x, float y, float z) { return x * y + z; }
inline double fused_double(double x, double y, double z) { return x * y + z; }
inline float fused_onto_float(float z, float x, float y) { return z + x * y; }
inline double fused_onto_double(double z, double x, double y) { return z + x * y; }
inline void texel(unsigned long texture, float x, float y, float *found) { ((const Texture *)texture)->read(x, y, found); }
inline int product24(int x, int y) { return (int)((unsigned)(x << 8 >> 8) * (unsigned)(y << 8 >> 8)); }
inline unsigned product24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
}  // namespace vdev_cl
