// Mathematical, integer, common, geometric and relational functions (OpenCL C 6.12.2 to 6.12.6, 6.12.12).
namespace vdev_cl {

// 1, 2, 3 arguments of one type, for scalars and vectors. x, y and z name the arguments in float and double expressions.
#define VDEV_MATH1(name, f32, f64) \
  inline float name(float x) { return f32; } \
  inline double name(double x) { return f64; } \
  inline half name(half h) { float x = h; return half(f32); } \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a) { return each<T, N>([](T x) { return name(x); }, a); }
#define VDEV_MATH2(name, f32, f64) \
  inline float name(float x, float y) { return f32; } \
  inline double name(double x, double y) { return f64; } \
  inline half name(half g, half h) { float x = g, y = h; return half(f32); } \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<T, N> b) { \
    return each<T, N>([](T x, T y) { return name(x, y); }, a, b); \
  }
#define VDEV_MATH3(name, f32, f64) \
  inline float name(float x, float y, float z) { return f32; } \
  inline double name(double x, double y, double z) { return f64; } \
  inline half name(half g, half h, half i) { float x = g, y = h, z = i; return half(f32); } \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<T, N> b, vec<T, N> c) { \
    return each<T, N>([](T x, T y, T z) { return name(x, y, z); }, a, b, c); \
  }
VDEV_MATH1(acos, ::acosf(x), ::acos(x)) VDEV_MATH1(acosh, ::acoshf(x), ::acosh(x))
VDEV_MATH1(asin, ::asinf(x), ::asin(x)) VDEV_MATH1(asinh, ::asinhf(x), ::asinh(x))
VDEV_MATH1(atan, ::atanf(x), ::atan(x)) VDEV_MATH1(atanh, ::atanhf(x), ::atanh(x))
VDEV_MATH1(acospi, (float)(::acos((double)x) * 0.318309886183790671538), ::acos(x) * 0.318309886183790671538)
VDEV_MATH1(asinpi, (float)(::asin((double)x) * 0.318309886183790671538), ::asin(x) * 0.318309886183790671538)
VDEV_MATH1(atanpi, (float)(::atan((double)x) * 0.318309886183790671538), ::atan(x) * 0.318309886183790671538)
VDEV_MATH1(cbrt, ::cbrtf(x), ::cbrt(x)) VDEV_MATH1(ceil, ::ceilf(x), ::ceil(x))
VDEV_MATH1(cos, ::cosf(x), ::cos(x)) VDEV_MATH1(cosh, ::coshf(x), ::cosh(x)) VDEV_MATH1(cospi, ::cospif(x), ::cospi(x))
VDEV_MATH1(erf, ::erff(x), ::erf(x)) VDEV_MATH1(erfc, ::erfcf(x), ::erfc(x))
VDEV_MATH1(exp, ::expf(x), ::exp(x)) VDEV_MATH1(exp2, ::exp2f(x), ::exp2(x)) VDEV_MATH1(exp10, ::exp10f(x), ::exp10(x))
VDEV_MATH1(expm1, ::expm1f(x), ::expm1(x)) VDEV_MATH1(fabs, ::fabsf(x), ::fabs(x)) VDEV_MATH1(floor, ::floorf(x), ::floor(x))
VDEV_MATH1(lgamma, ::lgammaf(x), ::lgamma(x)) VDEV_MATH1(tgamma, ::tgammaf(x), ::tgamma(x))
VDEV_MATH1(log, ::logf(x), ::log(x)) VDEV_MATH1(log2, ::log2f(x), ::log2(x)) VDEV_MATH1(log10, ::log10f(x), ::log10(x))
VDEV_MATH1(log1p, ::log1pf(x), ::log1p(x)) VDEV_MATH1(logb, ::logbf(x), ::logb(x))
VDEV_MATH1(rint, ::rintf(x), ::rint(x)) VDEV_MATH1(round, ::roundf(x), ::round(x)) VDEV_MATH1(trunc, ::truncf(x), ::trunc(x))
VDEV_MATH1(rsqrt, ::rsqrtf(x), ::rsqrt(x)) VDEV_MATH1(sqrt, ::sqrtf(x), ::sqrt(x))
VDEV_MATH1(sin, ::sinf(x), ::sin(x)) VDEV_MATH1(sinh, ::sinhf(x), ::sinh(x)) VDEV_MATH1(sinpi, ::sinpif(x), ::sinpi(x))
VDEV_MATH1(tan, ::tanf(x), ::tan(x)) VDEV_MATH1(tanh, ::tanhf(x), ::tanh(x))
VDEV_MATH1(tanpi, ::sinpif(x) / ::cospif(x), ::sinpi(x) / ::cospi(x))
VDEV_MATH2(atan2, ::atan2f(x, y), ::atan2(x, y)) VDEV_MATH2(copysign, ::copysignf(x, y), ::copysign(x, y))
VDEV_MATH2(atan2pi, (float)(::atan2((double)x, (double)y) * 0.318309886183790671538), ::atan2(x, y) * 0.318309886183790671538)
VDEV_MATH2(fdim, ::fdimf(x, y), ::fdim(x, y)) VDEV_MATH2(fmod, ::fmodf(x, y), ::fmod(x, y))
VDEV_MATH2(fmax, ::fmaxf(x, y), ::fmax(x, y)) VDEV_MATH2(fmin, ::fminf(x, y), ::fmin(x, y))
VDEV_MATH2(hypot, ::hypotf(x, y), ::hypot(x, y)) VDEV_MATH2(nextafter, ::nextafterf(x, y), ::nextafter(x, y))
VDEV_MATH2(pow, ::powf(x, y), ::pow(x, y)) VDEV_MATH2(remainder, ::remainderf(x, y), ::remainder(x, y))
// powr() is for x >= 0 and has edge cases of its own (7.5.1).
VDEV_MATH2(powr, x < 0 || (x == 0 && y == 0) || (x == 1 && ::isinf(y)) || (::isinf(x) && y == 0) ? ::nanf("") : x == 0 ? ::powf(::fabsf(x), y) : x != x || y != y ? x + y : ::powf(x, y),
  x < 0 || (x == 0 && y == 0) || (x == 1 && ::isinf(y)) || (::isinf(x) && y == 0) ? ::nan("") : x == 0 ? ::pow(::fabs(x), y) : x != x || y != y ? x + y : ::pow(x, y))
VDEV_MATH2(maxmag, ::fabsf(x) > ::fabsf(y) ? x : ::fabsf(y) > ::fabsf(x) ? y : ::fmaxf(x, y),
  ::fabs(x) > ::fabs(y) ? x : ::fabs(y) > ::fabs(x) ? y : ::fmax(x, y))
VDEV_MATH2(minmag, ::fabsf(x) < ::fabsf(y) ? x : ::fabsf(y) < ::fabsf(x) ? y : ::fminf(x, y),
  ::fabs(x) < ::fabs(y) ? x : ::fabs(y) < ::fabs(x) ? y : ::fmin(x, y))
VDEV_MATH3(fma, ::fmaf(x, y, z), ::fma(x, y, z)) VDEV_MATH3(mad, ::fmaf(x, y, z), ::fma(x, y, z))

// 6.12.2: native_ and half_ functions, in single precision. half_sin and its like must hold 8192 ulp, as full precision does.
inline float approximate_sqrt(float x) { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
inline float approximate_reciprocal(float x) { float r; asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
inline float approximate_exp2(float x) { float r; asm("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }
inline float approximate_quotient(float x, float y) { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
#define VDEV_FAST1(name, f32) \
  inline float name(float x) { return f32; } \
  template <int N> inline vec<float, N> name(vec<float, N> a) { return each<float, N>([](float x) { return name(x); }, a); }
#define VDEV_FAST2(name, f32) \
  inline float name(float x, float y) { return f32; } \
  template <int N> inline vec<float, N> name(vec<float, N> a, vec<float, N> b) { \
    return each<float, N>([](float x, float y) { return name(x, y); }, a, b); \
  }
VDEV_FAST1(native_cos, __cosf(x)) VDEV_FAST1(native_sin, __sinf(x)) VDEV_FAST1(native_tan, __tanf(x))
VDEV_FAST1(native_exp, __expf(x)) VDEV_FAST1(native_exp2, approximate_exp2(x)) VDEV_FAST1(native_exp10, __exp10f(x))
VDEV_FAST1(native_log, __logf(x)) VDEV_FAST1(native_log2, __log2f(x)) VDEV_FAST1(native_log10, __log10f(x))
VDEV_FAST1(native_recip, approximate_reciprocal(x)) VDEV_FAST1(native_rsqrt, ::rsqrtf(x)) VDEV_FAST1(native_sqrt, approximate_sqrt(x))
VDEV_FAST2(native_divide, approximate_quotient(x, y)) VDEV_FAST2(native_powr, __powf(x, y))
VDEV_FAST1(half_cos, ::cosf(x)) VDEV_FAST1(half_sin, ::sinf(x)) VDEV_FAST1(half_tan, ::tanf(x))
VDEV_FAST1(half_exp, ::expf(x)) VDEV_FAST1(half_exp2, ::exp2f(x)) VDEV_FAST1(half_exp10, ::exp10f(x))
VDEV_FAST1(half_log, ::logf(x)) VDEV_FAST1(half_log2, ::log2f(x)) VDEV_FAST1(half_log10, ::log10f(x))
VDEV_FAST1(half_recip, approximate_quotient(1.0f, x)) VDEV_FAST1(half_rsqrt, ::rsqrtf(x)) VDEV_FAST1(half_sqrt, ::sqrtf(x))
VDEV_FAST2(half_divide, approximate_quotient(x, y)) VDEV_FAST2(half_powr, powr(x, y))

// Vector and scalar.
template <class T, int N> inline vec<T, N> fmax(vec<T, N> a, same_t<T> b) { return fmax(a, vec<T, N>(b)); }
template <class T, int N> inline vec<T, N> fmin(vec<T, N> a, same_t<T> b) { return fmin(a, vec<T, N>(b)); }

inline float ldexp(float x, int n) { return ::ldexpf(x, n); }
inline double ldexp(double x, int n) { return ::ldexp(x, n); }
inline float pown(float x, int n) { return ::powf(x, (float)n) * 0.0f == 0.0f && n > -16777216 && n < 16777216 ? ::powf(x, (float)n) : (float)::pow((double)x, (double)n); }
inline double pown(double x, int n) { return ::pow(x, (double)n); }
// rootn(): odd roots of negative numbers are negative, even ones do not exist (7.5.1).
inline double rootn(double x, int n) {
  if (n == 0) return ::nan("");
  if (x == 0) return n & 1 ? ::copysign(n < 0 ? 1.0 / 0.0 : 0.0, x) : n < 0 ? 1.0 / 0.0 : 0.0;
  if (x < 0) return n & 1 ? -::pow(-x, 1.0 / n) : ::nan("");
  return ::pow(x, 1.0 / n);
}
inline float rootn(float x, int n) { return (float)rootn((double)x, n); }
#define VDEV_INTEGER_POWER(name) \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<int, N> n) { \
    return each<T, N>([](T x, int m) { return name(x, m); }, a, n); \
  }
VDEV_INTEGER_POWER(ldexp) VDEV_INTEGER_POWER(pown) VDEV_INTEGER_POWER(rootn)
template <class T, int N> inline vec<T, N> ldexp(vec<T, N> a, int n) { return ldexp(a, vec<int, N>(n)); }
inline int ilogb(float x) { return ::ilogbf(x); }
inline int ilogb(double x) { return ::ilogb(x); }
template <class T, int N> inline vec<int, N> ilogb(vec<T, N> a) { return each<int, N>([](T x) { return ilogb(x); }, a); }
inline float nan(uint x) { return __uint_as_float(0x7fc00000u | (x & 0x3fffffu)); }
inline double nan(ulong x) { return __longlong_as_double(0x7ff8000000000000ul | (x & 0x7fffffffffffful)); }
template <int N> inline vec<float, N> nan(vec<uint, N> a) { return each<float, N>([](uint x) { return nan(x); }, a); }
template <int N> inline vec<double, N> nan(vec<ulong, N> a) { return each<double, N>([](ulong x) { return nan(x); }, a); }

// Functions with a second result through a pointer.
inline float fract(float x, float *whole) { *whole = ::floorf(x); return ::isinf(x) ? ::copysignf(0.0f, x) : ::fminf(x - *whole, 0x1.fffffep-1f); }
inline double fract(double x, double *whole) { *whole = ::floor(x); return ::isinf(x) ? ::copysign(0.0, x) : ::fmin(x - *whole, 0x1.fffffffffffffp-1); }
inline float frexp(float x, int *n) { return ::frexpf(x, n); }
inline double frexp(double x, int *n) { return ::frexp(x, n); }
inline float modf(float x, float *whole) { return ::modff(x, whole); }
inline double modf(double x, double *whole) { return ::modf(x, whole); }
inline float sincos(float x, float *c) { float s; ::sincosf(x, &s, c); return s; }
inline double sincos(double x, double *c) { double s; ::sincos(x, &s, c); return s; }
inline float lgamma_r(float x, int *sign) { *sign = x < 0 && ::floorf(x) != x && ((long)::floorf(x) & 1) ? -1 : 1; return ::lgammaf(x); }
inline double lgamma_r(double x, int *sign) { *sign = x < 0 && ::floor(x) != x && ((long)::floor(x) & 1) ? -1 : 1; return ::lgamma(x); }
inline float remquo(float x, float y, int *q) { return ::remquof(x, y, q); }
inline double remquo(double x, double y, int *q) { return ::remquo(x, y, q); }
#define VDEV_SECOND(name, S) \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<S, N> *second) { \
    vec<T, N> r{}; \
    for (int i = 0; i < N; ++i) r.v[i] = name(a.v[i], &second->v[i]); \
    return r; \
  }
VDEV_SECOND(fract, T) VDEV_SECOND(modf, T) VDEV_SECOND(sincos, T) VDEV_SECOND(frexp, int) VDEV_SECOND(lgamma_r, int)
#undef VDEV_SECOND
template <class T, int N> inline vec<T, N> remquo(vec<T, N> a, vec<T, N> b, vec<int, N> *q) {
  vec<T, N> r{};
  for (int i = 0; i < N; ++i) r.v[i] = remquo(a.v[i], b.v[i], &q->v[i]);
  return r;
}

// Integers, and what integers share with reals. G stands for a scalar or a vector type.
template <class G> constexpr bool is_real_type = is_real<element_of<G>>;
template <class G, class R> struct like { typedef R type; };
template <class T, int N, class R> struct like<vec<T, N>, R> { typedef vec<R, N> type; };
template <class G, class R> using like_t = typename like<G, R>::type;
// f of every component, for scalars as for vectors.
template <class R, class G, class F, class... A> inline like_t<G, R> apply(F f, G a, A... b) {
  if constexpr (is_vector<G>) return each<R, count_of<G>>(f, a, b...);
  else return f(a, b...);
}
#define VDEV_T element_of<G>
#define VDEV_BOTH2(name, value) \
  template <class G> inline G name(G a, same_t<G> b) { \
    typedef VDEV_T T; \
    return apply<T>([](T x, T y) -> T { return value; }, a, b); \
  }
#define VDEV_BOTH3(name, value) \
  template <class G> inline G name(G a, same_t<G> b, same_t<G> c) { \
    typedef VDEV_T T; \
    return apply<T>([](T x, T y, T z) -> T { return value; }, a, b, c); \
  }
template <class T> inline T lesser(T x, T y) { return y < x ? y : x; }
template <class T> inline T greater(T x, T y) { return x < y ? y : x; }
template <> inline float lesser(float x, float y) { return ::fminf(x, y); }
template <> inline float greater(float x, float y) { return ::fmaxf(x, y); }
template <> inline double lesser(double x, double y) { return ::fmin(x, y); }
template <> inline double greater(double x, double y) { return ::fmax(x, y); }
VDEV_BOTH2(max, greater<T>(x, y)) VDEV_BOTH2(min, lesser<T>(x, y)) VDEV_BOTH3(clamp, lesser<T>(greater<T>(x, y), z))
template <class T, int N> inline vec<T, N> max(vec<T, N> a, same_t<T> b) { return max(a, vec<T, N>(b)); }
template <class T, int N> inline vec<T, N> min(vec<T, N> a, same_t<T> b) { return min(a, vec<T, N>(b)); }
template <class T, int N> inline vec<T, N> clamp(vec<T, N> a, same_t<T> b, same_t<T> c) {
  return clamp(a, vec<T, N>(b), vec<T, N>(c));
}
template <class T> using wide_of = typename sized<sizeof(T) == 8 ? 8 : 2 * sizeof(T)>::I;
template <class T> inline T high_product(T x, T y) {
  if constexpr (sizeof(T) < 8) return T(((long)x * (long)y) >> (8 * sizeof(T)));
  else if constexpr (is_signed<T>) return __mul64hi(x, y);
  else return __umul64hi(x, y);
}
template <> inline uint high_product(uint x, uint y) { return __umulhi(x, y); }
template <class T> inline T saturated_sum(T x, T y) {
  T r = T(unsigned_of<T>(x) + unsigned_of<T>(y));
  if constexpr (!is_signed<T>) return r < x ? highest_of<T>() : r;
  else return ((x ^ r) & (y ^ r)) < 0 ? (x < 0 ? lowest_of<T>() : highest_of<T>()) : r;
}
template <class T> inline T saturated_difference(T x, T y) {
  T r = T(unsigned_of<T>(x) - unsigned_of<T>(y));
  if constexpr (!is_signed<T>) return x < y ? T(0) : r;
  else return ((x ^ y) & (x ^ r)) < 0 ? (x < 0 ? lowest_of<T>() : highest_of<T>()) : r;
}
template <class T> inline T saturated_mad(T x, T y, T z) {
  if constexpr (sizeof(T) < 4) return convert_one<T, true, rtz>((int)x * (int)y + (int)z);
  else if constexpr (is_same<T, int>) return convert_one<T, true, rtz>((long)x * (long)y + (long)z);
  else if constexpr (is_same<T, uint>) return convert_one<T, true, rtz>((ulong)x * (ulong)y + (ulong)z);
  else {
    // 128 bits: the product's two halves, then the sum with its carry.
    ulong low = (ulong)x * (ulong)y, sum = low + (ulong)z;
    T high = T(high_product<T>(x, y) + T(sum < low) + (is_signed<T> && z < 0 ? T(-1) : T(0)));
    if constexpr (is_signed<T>) return high < 0 ? (high == -1 && (long)sum < 0 ? (T)sum : lowest_of<T>()) : (high == 0 && (long)sum >= 0 ? (T)sum : highest_of<T>());
    else return high ? highest_of<T>() : (T)sum;
  }
}
template <class T> inline T leading_zeros(T x) {
  if constexpr (sizeof(T) == 8) return T(__clzll((long long)x));
  else return T(__clz((int)(unsigned_of<T>)x) - (32 - 8 * (int)sizeof(T)));
}
template <class T> inline T trailing_zeros(T x) {
  if constexpr (sizeof(T) == 8) return x ? T(__ffsll((long long)x) - 1) : T(64);
  else return x ? T(__ffs((int)x) - 1) : T(8 * sizeof(T));
}
template <class T> inline T rotated(T x, T n) {
  constexpr int bits = 8 * sizeof(T);
  unsigned_of<T> u = unsigned_of<T>(x);
  int k = int(n & T(bits - 1));
  return T(unsigned_of<T>(u << k) | unsigned_of<T>(u >> ((bits - k) & (bits - 1))));
}
VDEV_BOTH2(add_sat, saturated_sum<T>(x, y)) VDEV_BOTH2(sub_sat, saturated_difference<T>(x, y))
VDEV_BOTH2(hadd, T((x & y) + ((x ^ y) >> 1))) VDEV_BOTH2(rhadd, T((x | y) - ((x ^ y) >> 1)))
VDEV_BOTH2(mul_hi, high_product<T>(x, y)) VDEV_BOTH3(mad_hi, T(high_product<T>(x, y) + z)) VDEV_BOTH3(mad_sat, saturated_mad<T>(x, y, z))
VDEV_BOTH2(mul24, T(is_signed<T> ? __mul24((int)x, (int)y) : __umul24((uint)x, (uint)y)))
VDEV_BOTH3(mad24, T((is_signed<T> ? __mul24((int)x, (int)y) : __umul24((uint)x, (uint)y)) + z))
VDEV_BOTH2(rotate, rotated<T>(x, y))
template <class G> inline G clz(G a) { typedef VDEV_T T; return apply<T>([](T x) { return leading_zeros<T>(x); }, a); }
template <class G> inline G ctz(G a) { typedef VDEV_T T; return apply<T>([](T x) { return trailing_zeros<T>(x); }, a); }
template <class G> inline G popcount(G a) {
  typedef VDEV_T T;
  return apply<T>([](T x) { return T(__popcll((ulong)(unsigned_of<T>)x)); }, a);
}
template <class G> inline like_t<G, unsigned_of<VDEV_T>> abs(G a) {
  typedef VDEV_T T;
  typedef unsigned_of<T> U;
  return apply<U>([](T x) { return U(is_signed<T> && x < 0 ? U(0) - U(x) : U(x)); }, a);
}
template <class G> inline like_t<G, unsigned_of<VDEV_T>> abs_diff(G a, same_t<G> b) {
  typedef VDEV_T T;
  typedef unsigned_of<T> U;
  return apply<U>([](T x, T y) { return U(x < y ? U(y) - U(x) : U(x) - U(y)); }, a, b);
}
template <class H, class L> inline auto upsample(H high, L low) {
  typedef element_of<H> S;
  typedef element_of<L> U;
  constexpr int bits = 8 * sizeof(S);
  if constexpr (is_signed<S>) {
    typedef typename sized<2 * sizeof(S)>::I R;
    return apply<R>([](S h, U l) { return R((typename sized<sizeof(R)>::U)(R)h << bits | l); }, high, low);
  } else {
    typedef typename sized<2 * sizeof(S)>::U R;
    return apply<R>([](S h, U l) { return R(R(h) << bits | l); }, high, low);
  }
}

// Common functions (6.12.4).
VDEV_MATH1(degrees, x * 57.295779513082320877f, x * 57.295779513082320877)
VDEV_MATH1(radians, x * 0.017453292519943295769f, x * 0.017453292519943295769)
VDEV_MATH1(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x == x ? x : 0.0f, x > 0 ? 1.0 : x < 0 ? -1.0 : x == x ? x : 0.0)
VDEV_MATH3(mix, x + (y - x) * z, x + (y - x) * z)
VDEV_MATH2(step, y < x ? 0.0f : 1.0f, y < x ? 0.0 : 1.0)
inline float hermite(float t) { t = ::fminf(::fmaxf(t, 0.0f), 1.0f); return t * t * (3.0f - 2.0f * t); }
inline double hermite(double t) { t = ::fmin(::fmax(t, 0.0), 1.0); return t * t * (3.0 - 2.0 * t); }
VDEV_MATH3(smoothstep, hermite((z - x) / (y - x)), hermite((z - x) / (y - x)))
template <class T, int N> inline vec<T, N> mix(vec<T, N> a, vec<T, N> b, same_t<T> c) { return mix(a, b, vec<T, N>(c)); }
template <class T, int N> inline vec<T, N> step(same_t<T> a, vec<T, N> b) { return step(vec<T, N>(a), b); }
template <class T, int N> inline vec<T, N> smoothstep(same_t<T> a, same_t<T> b, vec<T, N> c) {
  return smoothstep(vec<T, N>(a), vec<T, N>(b), c);
}

// Geometric functions (6.12.5).
template <class G> inline VDEV_T dot(G a, same_t<G> b) {
  VDEV_T r = part(a, 0) * part(b, 0);
  for (int i = 1; i < count_of<G>; ++i) r = mad(part(a, i), part(b, i), r);
  return r;
}
template <class T, int N> inline vec<T, N> cross(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r{};
  r.v[0] = a.v[1] * b.v[2] - a.v[2] * b.v[1];
  r.v[1] = a.v[2] * b.v[0] - a.v[0] * b.v[2];
  r.v[2] = a.v[0] * b.v[1] - a.v[1] * b.v[0];
  return r;
}
// Scaled by the largest component, so that squares neither overflow nor vanish (6.12.5: without extraordinary precautions).
template <class G> inline VDEV_T length(G a) {
  typedef VDEV_T T;
  if constexpr (!is_vector<G>) return fabs(a);
  else {
    T largest = fabs(a.v[0]);
    for (int i = 1; i < count_of<G>; ++i) largest = fmax(largest, fabs(a.v[i]));
    T square = dot(a, a);
    constexpr bool is_double = sizeof(T) == 8;
    T low = is_double ? T(0x1p-400) : T(0x1p-40f), high = is_double ? T(0x1p400) : T(0x1p40f);
    if (largest == T(0) || (largest > low && largest < high) || largest != largest || largest - largest != T(0))
      return largest - largest != T(0) && largest == largest ? largest : sqrt(square);
    G scaled = a / G(largest);
    return largest * sqrt(dot(scaled, scaled));
  }
}
template <class G> inline VDEV_T distance(G a, same_t<G> b) { return length(G(a - b)); }
template <class G> inline G normalize(G a) {
  if constexpr (!is_vector<G>) return sign(a);
  else {
    VDEV_T n = length(a);
    return n == VDEV_T(0) ? a : G(a / G(n));
  }
}
template <class G> inline float fast_length(G a) { return half_sqrt(dot(a, a)); }
template <class G> inline float fast_distance(G a, same_t<G> b) { return fast_length(G(a - b)); }
template <class G> inline G fast_normalize(G a) {
  float square = dot(a, a);
  return square == 0.0f ? a : G(a * G(half_rsqrt(square)));
}

// Relational functions (6.12.6): 0 and 1 for scalars, 0 and -1 for vectors.
template <class G> using truth_of = like_t<G, signed_of<VDEV_T>>;
#define VDEV_RELATION2(name, value) \
  inline int name(float x, float y) { return value; } \
  inline int name(double x, double y) { return value; } \
  inline int name(half g, half h) { float x = g, y = h; return value; } \
  template <class T, int N> inline vec<signed_of<T>, N> name(vec<T, N> a, vec<T, N> b) { \
    return each<signed_of<T>, N>([](T x, T y) { return signed_of<T>(name(x, y) ? -1 : 0); }, a, b); \
  }
#define VDEV_RELATION1(name, value) \
  inline int name(float x) { return value; } \
  inline int name(double x) { return value; } \
  inline int name(half h) { float x = h; return value; } \
  template <class T, int N> inline vec<signed_of<T>, N> name(vec<T, N> a) { \
    return each<signed_of<T>, N>([](T x) { return signed_of<T>(name(x) ? -1 : 0); }, a); \
  }
VDEV_RELATION2(isequal, x == y) VDEV_RELATION2(isnotequal, x != y) VDEV_RELATION2(isgreater, x > y)
VDEV_RELATION2(isgreaterequal, x >= y) VDEV_RELATION2(isless, x < y) VDEV_RELATION2(islessequal, x <= y)
VDEV_RELATION2(islessgreater, x < y || x > y) VDEV_RELATION2(isordered, x == x && y == y) VDEV_RELATION2(isunordered, x != x || y != y)
VDEV_RELATION1(isfinite, ::isfinite(x)) VDEV_RELATION1(isinf, ::isinf(x)) VDEV_RELATION1(isnan, ::isnan(x))
VDEV_RELATION1(signbit, ::signbit(x))
inline int isnormal(float x) { return ::isfinite(x) && ::fabsf(x) >= 0x1p-126f; }
inline int isnormal(double x) { return ::isfinite(x) && ::fabs(x) >= 0x1p-1022; }
template <class T, int N> inline vec<signed_of<T>, N> isnormal(vec<T, N> a) {
  return each<signed_of<T>, N>([](T x) { return signed_of<T>(isnormal(x) ? -1 : 0); }, a);
}
template <class G> inline int any(G a) {
  bool r = false;
  for (int i = 0; i < count_of<G>; ++i) r |= (signed_of<VDEV_T>)part(a, i) < 0;
  return r;
}
template <class G> inline int all(G a) {
  bool r = true;
  for (int i = 0; i < count_of<G>; ++i) r &= (signed_of<VDEV_T>)part(a, i) < 0;
  return r;
}
template <class G> inline G bitselect(G a, same_t<G> b, same_t<G> c) {
  typedef VDEV_T T;
  typedef unsigned_of<T> U;
  return apply<T>([](T x, T y, T z) { return as<T>(U((as<U>(x) & U(~as<U>(z))) | (as<U>(y) & as<U>(z)))); }, a, b, c);
}
template <class G, class C> inline G select(G a, same_t<G> b, C c) {
  if constexpr (is_vector<G>) return choose(c, b, a);
  else return c ? b : a;
}

// shuffle and shuffle2 (6.12.12): as many low bits of the mask as there are components.
template <class T, int M, class U, int N> inline vec<T, N> shuffle(vec<T, M> a, vec<U, N> mask) {
  vec<T, N> r{};
  for (int i = 0; i < N; ++i) r.v[i] = a.v[mask.v[i] & (M == 3 ? 3 : M - 1)];
  return r;
}
template <class T, int M, class U, int N> inline vec<T, N> shuffle2(vec<T, M> a, vec<T, M> b, vec<U, N> mask) {
  constexpr int count = M == 3 ? 4 : M;
  vec<T, N> r{};
  for (int i = 0; i < N; ++i) {
    int k = int(mask.v[i] & (2 * count - 1));
    r.v[i] = k < count ? a.v[k & (count - 1)] : b.v[k & (count - 1)];
  }
  return r;
}
#undef VDEV_MATH1
#undef VDEV_MATH2
#undef VDEV_MATH3
#undef VDEV_FAST1
#undef VDEV_FAST2
#undef VDEV_INTEGER_POWER
#undef VDEV_BOTH2
#undef VDEV_BOTH3
#undef VDEV_RELATION1
#undef VDEV_RELATION2
#undef VDEV_T
}  // namespace vdev_cl
