// Conversions and reinterpretations (OpenCL C 6.2.3, 6.2.4), vectors and halves in memory (6.12.7).
namespace vdev_cl {

enum rounding { rounds_default, rte, rtz, rtp, rtn };

template <class T> constexpr T lowest_of() { return is_signed<T> ? T(T(1) << (8 * sizeof(T) - 1)) : T(0); }
template <class T> constexpr T highest_of() { return T(~lowest_of<T>()); }

template <rounding R> inline float rounded(float x) {
  return R == rte ? ::rintf(x) : R == rtp ? ::ceilf(x) : R == rtn ? ::floorf(x) : ::truncf(x);
}
template <rounding R> inline double rounded(double x) {
  return R == rte ? ::rint(x) : R == rtp ? ::ceil(x) : R == rtn ? ::floor(x) : ::trunc(x);
}
template <rounding R> inline float to_float(double x) {
  return R == rtz ? __double2float_rz(x) : R == rtp ? __double2float_ru(x) : R == rtn ? __double2float_rd(x) : __double2float_rn(x);
}
template <rounding R> inline float to_float(float x) { return x; }
template <rounding R> inline float to_float(half x) { return x; }
template <rounding R> inline float to_float(long x) {
  return R == rtz ? __ll2float_rz(x) : R == rtp ? __ll2float_ru(x) : R == rtn ? __ll2float_rd(x) : __ll2float_rn(x);
}
template <rounding R> inline float to_float(ulong x) {
  return R == rtz ? __ull2float_rz(x) : R == rtp ? __ull2float_ru(x) : R == rtn ? __ull2float_rd(x) : __ull2float_rn(x);
}
template <rounding R, class S> inline float to_float(S x) {
  if constexpr (is_signed<S>) return to_float<R>((long)x);
  else return to_float<R>((ulong)x);
}
template <rounding R> inline double to_double(long x) {
  return R == rtz ? __ll2double_rz(x) : R == rtp ? __ll2double_ru(x) : R == rtn ? __ll2double_rd(x) : __ll2double_rn(x);
}
template <rounding R> inline double to_double(ulong x) {
  return R == rtz ? __ull2double_rz(x) : R == rtp ? __ull2double_ru(x) : R == rtn ? __ull2double_rd(x) : __ull2double_rn(x);
}
template <rounding R, class S> inline double to_double(S x) { return (double)x; }
template <rounding R> inline half to_half(float x) {
  ushort h;
  if constexpr (R == rtz) asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  else if constexpr (R == rtp) asm("cvt.rp.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  else if constexpr (R == rtn) asm("cvt.rm.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  else asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return half_of(h);
}
template <rounding R> inline half to_half(double x) {
  ushort h;
  if constexpr (R == rtz) asm("cvt.rz.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
  else if constexpr (R == rtp) asm("cvt.rp.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
  else if constexpr (R == rtn) asm("cvt.rm.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
  else asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(x));
  return half_of(h);
}
template <rounding R> inline half to_half(half x) { return x; }
// Integers of more than 53 bits are far beyond binary16: to odd in the last bit, so that the second rounding decides right.
template <rounding R, class S> inline half to_half(S x) {
  double d = to_double<rtz>(x);
  if constexpr (sizeof(S) == 8) if ((S)d != x) d = __longlong_as_double(__double_as_longlong(d) | 1);
  return to_half<R>(d);
}

template <class T, bool SATURATE, rounding R, class S> inline T convert_one(S x) {
  if constexpr (is_same<T, S>) return x;
  else if constexpr (is_same<T, half>) return to_half<R>(x);
  else if constexpr (is_same<T, float>) return to_float<R>(x);
  else if constexpr (is_same<T, double>) return to_double<R>(x);
  else if constexpr (is_same<S, half>) return convert_one<T, SATURATE, R>((float)x);
  else if constexpr (is_real<S>) {
    S y = rounded<R>(x);
    if constexpr (!SATURATE) return T(y);
    // -lowest and 2 * (highest / 2 + 1) are powers of two, exact in either format. Not a number becomes 0.
    S above = S(T(highest_of<T>() / 2 + 1)) * S(2);
    return y >= above ? highest_of<T>() : y <= S(lowest_of<T>()) ? lowest_of<T>() : y == y ? T(y) : T(0);
  } else {
    if constexpr (!SATURATE) return T(x);
    if constexpr (is_signed<S>) {
      if constexpr (is_signed<T>) return (long)x > (long)highest_of<T>() ? highest_of<T>() : (long)x < (long)lowest_of<T>() ? lowest_of<T>() : T(x);
      else return x < 0 ? T(0) : (ulong)x > (ulong)highest_of<T>() ? highest_of<T>() : T(x);
    } else return (ulong)x > (ulong)highest_of<T>() ? highest_of<T>() : T(x);
  }
}
template <class V, bool SATURATE, rounding R, class S> inline V convert(S x) {
  if constexpr (is_vector<V>)
    return each<element_of<V>, count_of<V>>([](auto y) { return convert_one<element_of<V>, SATURATE, R>(y); }, x);
  else return convert_one<V, SATURATE, R>(x);
}

// as_type(): the bits, of the smaller of the two where three components meet four.
template <class R, class S> inline R as(S x) {
  static_assert(sizeof(R) == sizeof(S), "sizes differ");
  R r;
  ::memcpy(&r, &x, sizeof(R));
  return r;
}

// vloadn and vstoren: element aligned only.
template <int N, class T> inline vec<plain_t<T>, N> vload(size_t offset, const T *p) {
  vec<plain_t<T>, N> r{};
  for (int i = 0; i < N; ++i) r.v[i] = p[offset * N + i];
  return r;
}
template <int N, class T> inline void vstore(vec<T, N> x, size_t offset, T *p) {
  for (int i = 0; i < N; ++i) p[offset * N + i] = x.v[i];
}
template <int N, int STRIDE, class H> inline auto vload_half(size_t offset, const H *p) {
  if constexpr (N == 1) return (float)p[offset];
  else {
    vec<float, N> r{};
    for (int i = 0; i < N; ++i) r.v[i] = (float)p[offset * STRIDE + i];
    return r;
  }
}
template <int N, int STRIDE, rounding R, class S> inline void vstore_half(S x, size_t offset, half *p) {
  for (int i = 0; i < N; ++i) p[offset * STRIDE + i] = to_half<R>(part(x, i));
}
}  // namespace vdev_cl
