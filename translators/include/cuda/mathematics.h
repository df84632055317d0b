// Mathematical, common and geometric functions (OpenCL C 6.12.2, 6.12.4, 6.12.5), for scalars and component by component.
namespace vdev_cl {

// 1, 2, 3 arguments of one type. x, y and z name the arguments in float and double expressions; binary16 goes through binary32.
#define VDEV_VECTOR1(name) \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a) { return each<T, N>([](T x) { return name(x); }, a); }
#define VDEV_VECTOR2(name) \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<T, N> b) { return each<T, N>([](T x, T y) { return name(x, y); }, a, b); }
#define VDEV_VECTOR3(name) \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<T, N> b, vec<T, N> c) { \
    return each<T, N>([](T x, T y, T z) { return name(x, y, z); }, a, b, c); \
  }
#define VDEV_MATH1(name, f32, f64) \
  inline float name(float x) { return f32; } \
  inline double name(double x) { return f64; } \
  inline half name(half h) { float x = h; return half(f32); } \
  VDEV_VECTOR1(name)
#define VDEV_MATH2(name, f32, f64) \
  inline float name(float x, float y) { return f32; } \
  inline double name(double x, double y) { return f64; } \
  inline half name(half g, half h) { float x = g, y = h; return half(f32); } \
  VDEV_VECTOR2(name)
#define VDEV_MATH3(name, f32, f64) \
  inline float name(float x, float y, float z) { return f32; } \
  inline double name(double x, double y, double z) { return f64; } \
  inline half name(half g, half h, half i) { float x = g, y = h, z = i; return half(f32); } \
  VDEV_VECTOR3(name)
VDEV_MATH1(acos, ::acosf(x), ::acos(x)) VDEV_MATH1(acosh, ::acoshf(x), ::acosh(x))
VDEV_MATH1(asin, ::asinf(x), ::asin(x)) VDEV_MATH1(asinh, ::asinhf(x), ::asinh(x))
VDEV_MATH1(atan, ::atanf(x), ::atan(x)) VDEV_MATH1(atanh, ::atanhf(x), ::atanh(x))
VDEV_MATH1(acospi, ::acosf(x) * 0.318309886f, ::acos(x) * 0.318309886183790671538)
VDEV_MATH1(asinpi, ::asinf(x) * 0.318309886f, ::asin(x) * 0.318309886183790671538)
VDEV_MATH1(atanpi, ::atanf(x) * 0.318309886f, ::atan(x) * 0.318309886183790671538)
VDEV_MATH1(cbrt, ::cbrtf(x), ::cbrt(x)) VDEV_MATH1(ceil, ::ceilf(x), ::ceil(x))
VDEV_MATH1(cos, ::cosf(x), ::cos(x)) VDEV_MATH1(cosh, ::coshf(x), ::cosh(x)) VDEV_MATH1(cospi, ::cospif(x), ::cospi(x))
VDEV_MATH1(erf, ::erff(x), ::erf(x)) VDEV_MATH1(erfc, ::erfcf(x), ::erfc(x))
VDEV_MATH1(exp, ::expf(x), ::exp(x)) VDEV_MATH1(exp2, ::exp2f(x), ::exp2(x)) VDEV_MATH1(exp10, ::exp10f(x), ::exp10(x))
VDEV_MATH1(expm1, ::expm1f(x), ::expm1(x)) VDEV_MATH1(fabs, ::fabsf(x), ::fabs(x)) VDEV_MATH1(floor, ::floorf(x), ::floor(x))
VDEV_MATH1(lgamma, ::lgammaf(x), ::lgamma(x)) VDEV_MATH1(tgamma, ::tgammaf(x), ::tgamma(x))
VDEV_MATH1(log, ::logf(x), ::log(x)) VDEV_MATH1(log2, ::log2f(x), ::log2(x)) VDEV_MATH1(log10, ::log10f(x), ::log10(x))
VDEV_MATH1(log1p, ::log1pf(x), ::log1p(x)) VDEV_MATH1(logb, ::logbf(x), ::logb(x))
VDEV_MATH1(rint, ::rintf(x), ::rint(x)) VDEV_MATH1(round, ::roundf(x), ::round(x)) VDEV_MATH1(trunc, ::truncf(x), ::trunc(x))
VDEV_MATH1(rsqrt, ::rsqrtf(x), ::rsqrt(x))
VDEV_MATH1(sin, ::sinf(x), ::sin(x)) VDEV_MATH1(sinh, ::sinhf(x), ::sinh(x)) VDEV_MATH1(sinpi, ::sinpif(x), ::sinpi(x))
VDEV_MATH1(tan, ::tanf(x), ::tan(x)) VDEV_MATH1(tanh, ::tanhf(x), ::tanh(x))
VDEV_MATH1(tanpi, ::sinpif(x) / ::cospif(x), ::sinpi(x) / ::cospi(x))
VDEV_MATH2(atan2, ::atan2f(x, y), ::atan2(x, y)) VDEV_MATH2(copysign, ::copysignf(x, y), ::copysign(x, y))
VDEV_MATH2(atan2pi, ::atan2f(x, y) * 0.318309886f, ::atan2(x, y) * 0.318309886183790671538)
VDEV_MATH2(fdim, ::fdimf(x, y), ::fdim(x, y)) VDEV_MATH2(fmod, ::fmodf(x, y), ::fmod(x, y))
VDEV_MATH2(fmax, ::fmaxf(x, y), ::fmax(x, y)) VDEV_MATH2(fmin, ::fminf(x, y), ::fmin(x, y))
VDEV_MATH2(hypot, ::hypotf(x, y), ::hypot(x, y))
VDEV_MATH2(pow, ::powf(x, y), ::pow(x, y)) VDEV_MATH2(remainder, ::remainderf(x, y), ::remainder(x, y))
// powr() is for x >= 0 and has edge cases of its own (7.5.1).
template <class T> inline bool no_powr(T x, T y) {
  return x < 0 || x != x || y != y || (y == 0 && (x == 0 || ::isinf(x))) || (x == 1 && ::isinf(y));
}
VDEV_MATH2(powr, no_powr(x, y) ? ::nanf("") : ::powf(::fabsf(x), y), no_powr(x, y) ? ::nan("") : ::pow(::fabs(x), y))
VDEV_MATH2(maxmag, ::fabsf(x) > ::fabsf(y) ? x : ::fabsf(y) > ::fabsf(x) ? y : ::fmaxf(x, y),
  ::fabs(x) > ::fabs(y) ? x : ::fabs(y) > ::fabs(x) ? y : ::fmax(x, y))
VDEV_MATH2(minmag, ::fabsf(x) < ::fabsf(y) ? x : ::fabsf(y) < ::fabsf(x) ? y : ::fminf(x, y),
  ::fabs(x) < ::fabs(y) ? x : ::fabs(y) < ::fabs(x) ? y : ::fmin(x, y))
VDEV_MATH3(fma, ::fmaf(x, y, z), ::fma(x, y, z)) VDEV_MATH3(mad, ::fmaf(x, y, z), ::fma(x, y, z))
// Exact in binary16, as 7.4 has it there.
inline float sqrt(float x) { return ::sqrtf(x); }
inline double sqrt(double x) { return ::sqrt(x); }
inline half sqrt(half x) { return half(__fsqrt_rn((float)x)); }
VDEV_VECTOR1(sqrt)
inline float nextafter(float x, float y) { return ::nextafterf(x, y); }
inline double nextafter(double x, double y) { return ::nextafter(x, y); }
inline half nextafter(half x, half y) {
  float a = x, b = y;
  if (a != a || a == b) return a != a ? x : y;
  if (a == 0.0f) return half_of(b > 0.0f ? 1 : 0x8001);
  return half_of(ushort(x.bits + ((a < b) == (a > 0.0f) ? 1 : -1)));
}
VDEV_VECTOR2(nextafter)

// 6.12.2: native_ and half_ functions, in single precision. half_ functions must hold 8192 ulp: logarithms near 1 and angles far out
// need the full functions for that.
#define VDEV_FAST1(name, f32) \
  inline float name(float x) { return f32; } \
  template <int N> inline vec<float, N> name(vec<float, N> a) { return each<float, N>([](float x) { return name(x); }, a); }
#define VDEV_FAST2(name, f32) \
  inline float name(float x, float y) { return f32; } \
  template <int N> inline vec<float, N> name(vec<float, N> a, vec<float, N> b) { \
    return each<float, N>([](float x, float y) { return name(x, y); }, a, b); \
  }
VDEV_FAST1(native_cos, approximate_cos(x)) VDEV_FAST1(native_sin, approximate_sin(x))
VDEV_FAST1(native_tan, approximate_quotient(approximate_sin(x), approximate_cos(x)))
VDEV_FAST1(native_exp, approximate_exp2(x * 1.44269504f)) VDEV_FAST1(native_exp2, approximate_exp2(x))
VDEV_FAST1(native_exp10, approximate_exp2(x * 3.32192809f))
VDEV_FAST1(native_log, approximate_log2(x) * 0.693147181f) VDEV_FAST1(native_log2, approximate_log2(x))
VDEV_FAST1(native_log10, approximate_log2(x) * 0.301029996f)
VDEV_FAST1(native_recip, approximate_reciprocal(x)) VDEV_FAST1(native_rsqrt, approximate_rsqrt(x))
VDEV_FAST1(native_sqrt, approximate_sqrt(x))
VDEV_FAST2(native_divide, approximate_quotient(x, y)) VDEV_FAST2(native_powr, approximate_exp2(y * approximate_log2(x)))
VDEV_FAST1(half_cos, ::cosf(x)) VDEV_FAST1(half_sin, ::sinf(x)) VDEV_FAST1(half_tan, ::tanf(x))
VDEV_FAST1(half_exp, approximate_exp2(x * 1.44269504f)) VDEV_FAST1(half_exp2, approximate_exp2(x))
VDEV_FAST1(half_exp10, approximate_exp2(x * 3.32192809f))
VDEV_FAST1(half_log, ::logf(x)) VDEV_FAST1(half_log2, ::log2f(x)) VDEV_FAST1(half_log10, ::log10f(x))
VDEV_FAST1(half_recip, 1.0f / x) VDEV_FAST1(half_rsqrt, approximate_rsqrt(x)) VDEV_FAST1(half_sqrt, approximate_sqrt(x))
VDEV_FAST2(half_divide, x / y) VDEV_FAST2(half_powr, powr(x, y))

// Vector and scalar.
template <class T, int N> inline vec<T, N> fmax(vec<T, N> a, same_t<T> b) { return fmax(a, vec<T, N>(b)); }
template <class T, int N> inline vec<T, N> fmin(vec<T, N> a, same_t<T> b) { return fmin(a, vec<T, N>(b)); }

inline float ldexp(float x, int n) { return ::ldexpf(x, n); }
inline double ldexp(double x, int n) { return ::ldexp(x, n); }
inline half ldexp(half x, int n) { return half(::ldexp((double)(float)x, n)); }
// An exponent beyond 24 bits is no float.
inline float pown(float x, int n) { return n > -16777216 && n < 16777216 ? ::powf(x, (float)n) : (float)::pow((double)x, (double)n); }
inline double pown(double x, int n) { return ::pow(x, (double)n); }
inline half pown(half x, int n) { return half(pown((float)x, n)); }
// rootn(): odd roots of negative numbers are negative, even ones do not exist (7.5.1).
inline double rootn(double x, int n) {
  if (n == 0) return ::nan("");
  if (x == 0) return n & 1 ? ::copysign(n < 0 ? __longlong_as_double(0x7ff0000000000000) : 0.0, x) : n < 0 ? __longlong_as_double(0x7ff0000000000000) : 0.0;
  if (x < 0 && !(n & 1)) return ::nan("");
  if (x != x || ::isinf(x)) return ::pow(x, 1.0 / n);
  // 1 / n is rounded, which counts by the number of binary digits: whole n-th powers of 2 are taken out before.
  int exponent;
  double fraction = ::frexp(::fabs(x), &exponent), root = ::pow(::ldexp(fraction, exponent % n), 1.0 / n);
  return ::copysign(::ldexp(root, exponent / n), x);
}
inline float rootn(float x, int n) { return (float)rootn((double)x, n); }
inline half rootn(half x, int n) { return half(rootn((double)(float)x, n)); }
#define VDEV_INTEGER_POWER(name) \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<int, N> n) { \
    return each<T, N>([](T x, int m) { return name(x, m); }, a, n); \
  }
VDEV_INTEGER_POWER(ldexp) VDEV_INTEGER_POWER(pown) VDEV_INTEGER_POWER(rootn)
template <class T, int N> inline vec<T, N> ldexp(vec<T, N> a, int n) { return ldexp(a, vec<int, N>(n)); }
inline int ilogb(float x) { return x != x ? 2147483647 : x == 0 ? -2147483647 - 1 : ::ilogbf(x); }
inline int ilogb(double x) { return x != x ? 2147483647 : x == 0 ? -2147483647 - 1 : ::ilogb(x); }
inline int ilogb(half x) { return ilogb((float)x); }
template <class T, int N> inline vec<int, N> ilogb(vec<T, N> a) { return each<int, N>([](T x) { return ilogb(x); }, a); }
inline float nan(uint x) { return __uint_as_float(0x7fc00000u | (x & 0x3fffffu)); }
inline double nan(ulong x) { return __longlong_as_double(0x7ff8000000000000ul | (x & 0x7fffffffffffful)); }
inline half nan(ushort x) { return half_of(ushort(0x7e00 | (x & 0x1ff))); }
template <int N> inline vec<float, N> nan(vec<uint, N> a) { return each<float, N>([](uint x) { return nan(x); }, a); }
template <int N> inline vec<double, N> nan(vec<ulong, N> a) { return each<double, N>([](ulong x) { return nan(x); }, a); }
template <int N> inline vec<half, N> nan(vec<ushort, N> a) { return each<half, N>([](ushort x) { return nan(x); }, a); }

// Functions with a second result through a pointer.
inline float fract(float x, float *whole) {
  *whole = ::floorf(x);
  return x != x ? x : ::isinf(x) ? ::copysignf(0.0f, x) : ::fminf(x - *whole, 0x1.fffffep-1f);
}
inline double fract(double x, double *whole) {
  *whole = ::floor(x);
  return x != x ? x : ::isinf(x) ? ::copysign(0.0, x) : ::fmin(x - *whole, 0x1.fffffffffffffp-1);
}
inline float frexp(float x, int *n) { return ::frexpf(x, n); }
inline double frexp(double x, int *n) { return ::frexp(x, n); }
inline float modf(float x, float *whole) { return ::modff(x, whole); }
inline double modf(double x, double *whole) { return ::modf(x, whole); }
inline float sincos(float x, float *c) { float s; ::sincosf(x, &s, c); return s; }
inline double sincos(double x, double *c) { double s; ::sincos(x, &s, c); return s; }
inline half fract(half x, half *whole) {
  float w, r = fract((float)x, &w);
  *whole = half(w);
  return half(::fminf(r, 0x1.ffcp-1f));
}
inline half modf(half x, half *whole) { float w, r = ::modff((float)x, &w); *whole = half(w); return half(r); }
inline half sincos(half x, half *c) { float s, d; ::sincosf((float)x, &s, &d); *c = half(d); return half(s); }
inline half frexp(half x, int *n) { return half(::frexpf((float)x, n)); }
// 0 at its poles, which are 0 and the negative integers (7.5.1).
template <class T> inline int sign_of_gamma(T x, T whole) { return !(x <= 0) || ::isinf(x) ? 1 : whole == x ? 0 : (long)whole & 1 ? -1 : 1; }
inline float lgamma_r(float x, int *sign) { *sign = sign_of_gamma(x, ::floorf(x)); return ::lgammaf(x); }
inline double lgamma_r(double x, int *sign) { *sign = sign_of_gamma(x, ::floor(x)); return ::lgamma(x); }
inline half lgamma_r(half x, int *sign) { return half(lgamma_r((float)x, sign)); }
// remquo() has seven bits of the quotient (6.12.2), CUDA's only three: they are those of the exact rest of 128 divisors.
inline double remquo(double x, double y, int *quotient) {
  double a = ::fabs(x), b = ::fabs(y), c = ::fmod(a, 128 * b), r = ::remainder(x, y);
  *quotient = 0;
  if (r != r || ::isinf(y)) return r;
  c = ::isinf(128 * b) ? a : c;
  int q = (int)::rint((c - ::remainder(c, b)) / b) & 127;
  *quotient = (x < 0) != (y < 0) ? -q : q;
  return r;
}
inline float remquo(float x, float y, int *quotient) { return (float)remquo((double)x, (double)y, quotient); }
inline half remquo(half x, half y, int *quotient) { return half((float)remquo((double)(float)x, (double)(float)y, quotient)); }
template <int I, class F, class S, class... A> inline auto at_with(F f, S *second, A... a) { return f(second, part<I>(a)...); }
template <class T, int N, class S, int... I, class F, class... A> inline vec<T, N> each_with(indices<I...>, F f, vec<S, N> *second, A... a) {
  vec<T, N> r{};
  vec<S, N> s{};
  ((r.v[I] = at_with<I>(f, &s.v[I], a...)), ...);
  *second = s;
  return r;
}
#define VDEV_SECOND(name, S) \
  template <class T, int N> inline vec<T, N> name(vec<T, N> a, vec<S, N> *second) { \
    return each_with<T, N>(all_of<N>(), [](S *s, T x) { return name(x, s); }, second, a); \
  }
VDEV_SECOND(fract, T) VDEV_SECOND(modf, T) VDEV_SECOND(sincos, T) VDEV_SECOND(frexp, int) VDEV_SECOND(lgamma_r, int)
#undef VDEV_SECOND
template <class T, int N> inline vec<T, N> remquo(vec<T, N> a, vec<T, N> b, vec<int, N> *second) {
  return each_with<T, N>(all_of<N>(), [](int *q, T x, T y) { return remquo(x, y, q); }, second, a, b);
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
inline float dot(float a, float b) { return a * b; }
inline double dot(double a, double b) { return a * b; }
inline half dot(half a, half b) { return a * b; }
template <class T, int N, int... I> inline T dot_of(indices<0, I...>, vec<T, N> a, vec<T, N> b) {
  T r = a.v[0] * b.v[0];
  ((r = mad(a.v[I], b.v[I], r)), ...);
  return r;
}
template <class T, int N> inline T dot(vec<T, N> a, vec<T, N> b) { return dot_of(all_of<N>(), a, b); }
template <class T, int N> inline vec<T, N> cross(vec<T, N> a, vec<T, N> b) {
  vec<T, N> r{};
  r.v[0] = a.v[1] * b.v[2] - a.v[2] * b.v[1];
  r.v[1] = a.v[2] * b.v[0] - a.v[0] * b.v[2];
  r.v[2] = a.v[0] * b.v[1] - a.v[1] * b.v[0];
  return r;
}
// Squares that overflow or vanish are the rare case: then everything is scaled by the largest component.
template <class T> inline bool is_plain_square(T square) {
  if constexpr (sizeof(T) == 8) return square > 0x1p-960 && square < 0x1p1020;
  else return (float)square > 0x1p-100f && (float)square < 0x1p120f;
}
template <class T, int N> inline T largest_of(vec<T, N> a) { return folded<T>(a, T(0), [](T x, T so_far) { return fmax(so_far, fabs(x)); }); }
inline float length(float a) { return ::fabsf(a); }
inline double length(double a) { return ::fabs(a); }
inline half length(half a) { return fabs(a); }
template <class T, int N> inline T length(vec<T, N> a) {
  if constexpr (is_same<T, half>) return half(length(each<float, N>([](half x) { return (float)x; }, a)));
  else {
    T square = dot(a, a);
    if (is_plain_square(square)) return sqrt(square);
    T largest = largest_of(a);
    if (largest == T(0) || ::isinf(largest) || square != square) return ::isinf(largest) ? largest : sqrt(square);
    vec<T, N> scaled = a / vec<T, N>(largest);
    return largest * sqrt(dot(scaled, scaled));
  }
}
template <class G> inline element_of<G> distance(G a, same_t<G> b) { return length(G(a - b)); }
inline float normalize(float a) { return sign(a); }
inline double normalize(double a) { return sign(a); }
inline half normalize(half a) { return sign(a); }
template <class T, int N> inline vec<T, N> normalize(vec<T, N> a) {
  if constexpr (is_same<T, half>)
    return each<half, N>([](float x) { return half(x); }, normalize(each<float, N>([](half x) { return (float)x; }, a)));
  else {
    T square = dot(a, a);
    if (is_plain_square(square)) return a * vec<T, N>(rsqrt(square));
    T largest = largest_of(a);
    if (largest == T(0) || square != square) return a;
    // 6.12.5: infinite components count as 1, all others as 0 then.
    vec<T, N> scaled = ::isinf(largest) ? each<T, N>([](T x) { return copysign(::isinf(x) ? T(1) : T(0), x); }, a) : a / vec<T, N>(largest);
    return scaled * vec<T, N>(rsqrt(dot(scaled, scaled)));
  }
}
template <class G> inline float fast_length(G a) { return half_sqrt(dot(a, a)); }
template <class G> inline float fast_distance(G a, same_t<G> b) { return fast_length(G(a - b)); }
template <class G> inline G fast_normalize(G a) {
  float square = dot(a, a);
  return square == 0.0f ? a : G(a * G(half_rsqrt(square)));
}
#undef VDEV_MATH1
#undef VDEV_MATH2
#undef VDEV_MATH3
#undef VDEV_VECTOR1
#undef VDEV_VECTOR2
#undef VDEV_VECTOR3
#undef VDEV_FAST1
#undef VDEV_FAST2
#undef VDEV_INTEGER_POWER
}  // namespace vdev_cl
