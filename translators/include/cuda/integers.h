// Integer and relational functions (OpenCL C 6.12.3, 6.12.6), shuffles (6.12.12), and what integers share with reals.
namespace vdev_cl {

// G stands for a scalar or a vector type.
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
template <class T> inline T high_product(T x, T y) {
  if constexpr (sizeof(T) < 8) return T(((long)x * (long)y) >> (8 * sizeof(T)));
  else if constexpr (is_signed<T>) return __mul64hi(x, y);
  else return __umul64hi(x, y);
}
template <> inline uint high_product(uint x, uint y) { return __umulhi(x, y); }
template <class T> inline T within(int x) {
  int most = highest_of<T>(), least = lowest_of<T>(), r = x < most ? x : most;
  return T(r > least ? r : least);
}
template <class T> inline T saturated_sum(T x, T y) {
  if constexpr (sizeof(T) < 4) return within<T>(int(x) + int(y));
  T r = T(unsigned_of<T>(x) + unsigned_of<T>(y));
  if constexpr (!is_signed<T>) return r < x ? highest_of<T>() : r;
  else return ((x ^ r) & (y ^ r)) < 0 ? (x < 0 ? lowest_of<T>() : highest_of<T>()) : r;
}
template <class T> inline T saturated_difference(T x, T y) {
  if constexpr (sizeof(T) < 4) return within<T>(int(x) - int(y));
  T r = T(unsigned_of<T>(x) - unsigned_of<T>(y));
  if constexpr (!is_signed<T>) return x < y ? T(0) : r;
  else return ((x ^ y) & (x ^ r)) < 0 ? (x < 0 ? lowest_of<T>() : highest_of<T>()) : r;
}
template <class T> inline T saturated_mad(T x, T y, T z) {
  if constexpr (sizeof(T) < 4) return saturated<T>((long)x * (long)y + (long)z);
  else if constexpr (is_same<T, int>) return saturated<T>((long)x * (long)y + (long)z);
  else if constexpr (is_same<T, uint>) return saturated<T>((ulong)x * (ulong)y + (ulong)z);
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
VDEV_BOTH2(mul24, T(product24(x, y))) VDEV_BOTH3(mad24, T(product24(x, y) + z))
VDEV_BOTH2(rotate, rotated<T>(x, y))
template <class G> inline G clz(G a) { typedef VDEV_T T; return apply<T>([](T x) { return leading_zeros<T>(x); }, a); }
template <class G> inline G ctz(G a) { typedef VDEV_T T; return apply<T>([](T x) { return trailing_zeros<T>(x); }, a); }
template <class G> inline G popcount(G a) {
  typedef VDEV_T T;
  return apply<T>([](T x) { return T(sizeof(T) == 8 ? __popcll((ulong)x) : __popc((uint)(unsigned_of<T>)x)); }, a);
}
template <class G> inline like_t<G, unsigned_of<VDEV_T>> abs(G a) {
  typedef VDEV_T T;
  typedef unsigned_of<T> U;
  return apply<U>([](T x) { return U(is_signed<T> && x < 0 ? U(0) - U(x) : U(x)); }, a);
}
template <class G> inline like_t<G, unsigned_of<VDEV_T>> abs_diff(G a, same_t<G> b) {
  typedef VDEV_T T;
  typedef unsigned_of<T> U;
  return apply<U>([](T x, T y) {
    if constexpr (sizeof(T) > 4) return U(x < y ? U(y) - U(x) : U(x) - U(y));
    else if constexpr (is_signed<T>) return U(__sad(x, y, 0u));
    else return U(__usad(x, y, 0u));
  }, a, b);
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
inline int isnormal(half x) { return ::isfinite((float)x) && ::fabsf((float)x) >= 0x1p-14f; }
inline int isnormal(double x) { return ::isfinite(x) && ::fabs(x) >= 0x1p-1022; }
template <class T, int N> inline vec<signed_of<T>, N> isnormal(vec<T, N> a) {
  return each<signed_of<T>, N>([](T x) { return signed_of<T>(isnormal(x) ? -1 : 0); }, a);
}
template <class G> inline int any(G a) { return folded<bool>(a, false, [](VDEV_T x, bool r) { return r | ((signed_of<VDEV_T>)x < 0); }); }
template <class G> inline int all(G a) { return folded<bool>(a, true, [](VDEV_T x, bool r) { return r & ((signed_of<VDEV_T>)x < 0); }); }
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
  return each<T, N>([&](U k) { return a.v[k & (M == 3 ? 3 : M - 1)]; }, mask);
}
template <class T, int M, class U, int N> inline vec<T, N> shuffle2(vec<T, M> a, vec<T, M> b, vec<U, N> mask) {
  constexpr int count = M == 3 ? 4 : M;
  return each<T, N>([&](U k) { return k & count ? b.v[k & (count - 1)] : a.v[k & (count - 1)]; }, mask);
}
#undef VDEV_BOTH2
#undef VDEV_BOTH3
#undef VDEV_RELATION1
#undef VDEV_RELATION2
#undef VDEV_T
}  // namespace vdev_cl
