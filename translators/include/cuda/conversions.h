// Conversions and reinterpretations (OpenCL C 6.2.3, 6.2.4), vectors and halves in memory (6.12.7).
namespace vdev_cl {

template <class T> constexpr T lowest_of() { return is_signed<T> ? T(T(1) << (8 * sizeof(T) - 1)) : T(0); }
template <class T> constexpr T highest_of() { return T(~lowest_of<T>()); }

// Between the real types.
template <rounding R> inline float to_float(double x) {
  if constexpr (R == rtz) return __double2float_rz(x);
  else if constexpr (R == rtp) return __double2float_ru(x);
  else if constexpr (R == rtn) return __double2float_rd(x);
  else return __double2float_rn(x);
}
template <rounding R> inline float to_float(float x) { return x; }
template <rounding R> inline float to_float(half x) { return x; }
#define VDEV_TO_REAL(name, real, S, cuda) \
  template <rounding R> inline real name(S x) { \
    if constexpr (R == rtz) return cuda##_rz(x); \
    else if constexpr (R == rtp) return cuda##_ru(x); \
    else if constexpr (R == rtn) return cuda##_rd(x); \
    else return cuda##_rn(x); \
  }
VDEV_TO_REAL(to_float, float, int, __int2float) VDEV_TO_REAL(to_float, float, uint, __uint2float)
VDEV_TO_REAL(to_float, float, long, __ll2float) VDEV_TO_REAL(to_float, float, ulong, __ull2float)
VDEV_TO_REAL(to_double, double, long, __ll2double) VDEV_TO_REAL(to_double, double, ulong, __ull2double)
#undef VDEV_TO_REAL
template <rounding R, class S> inline float to_float(S x) { return (float)x; }  // of at most 16 bits: exact
template <rounding R, class S> inline double to_double(S x) { return (double)x; }
template <rounding R> inline half to_half(float x) { return half_of(half_bits<R>(x)); }
template <rounding R> inline half to_half(double x) { return half_of(half_bits<R>(x)); }
template <rounding R> inline half to_half(half x) { return x; }
// Integers of more than 53 bits are far beyond binary16: to odd in the last bit, so that the second rounding decides right.
template <rounding R, class S> inline half to_half(S x) {
  if constexpr (sizeof(S) < 4) return to_half<R>((float)x);
  double d = to_double<rtz>(x);
  if constexpr (sizeof(S) == 8) if (d >= 0x1p53 || d <= -0x1p53) d = __longlong_as_double(__double_as_longlong(d) | 1);
  return to_half<R>(d);
}

// To an integer of at least 32 bits: the machine rounds and saturates at once. Not a number becomes 0, which the machine does only
// from float to 32 bits.
#define VDEV_TO_INTEGER(I, S, cuda, is_number) \
  template <rounding R> inline I to_integer(S x, I *) { \
    I r; \
    if constexpr (R == rte) r = cuda##_rn(x); \
    else if constexpr (R == rtp) r = cuda##_ru(x); \
    else if constexpr (R == rtn) r = cuda##_rd(x); \
    else r = cuda##_rz(x); \
    return is_number ? r : 0; \
  }
VDEV_TO_INTEGER(int, float, __float2int, true) VDEV_TO_INTEGER(uint, float, __float2uint, true)
VDEV_TO_INTEGER(long, float, __float2ll, x == x) VDEV_TO_INTEGER(ulong, float, __float2ull, x == x)
VDEV_TO_INTEGER(int, double, __double2int, x == x) VDEV_TO_INTEGER(uint, double, __double2uint, x == x)
VDEV_TO_INTEGER(long, double, __double2ll, x == x) VDEV_TO_INTEGER(ulong, double, __double2ull, x == x)
#undef VDEV_TO_INTEGER

template <class T, class S> inline T saturated(S x) {
  if constexpr (is_signed<S>) {
    if constexpr (is_signed<T>) return (long)x > (long)highest_of<T>() ? highest_of<T>() : (long)x < (long)lowest_of<T>() ? lowest_of<T>() : T(x);
    else return x < 0 ? T(0) : (ulong)x > (ulong)highest_of<T>() ? highest_of<T>() : T(x);
  } else return (ulong)x > (ulong)highest_of<T>() ? highest_of<T>() : T(x);
}
template <class T, bool SATURATE, rounding R, class S> inline T convert_one(S x) {
  if constexpr (is_same<T, S>) return x;
  else if constexpr (is_same<T, bool>) return x != S(0);
  else if constexpr (is_same<T, half>) return to_half<R>(x);
  else if constexpr (is_same<T, float>) return to_float<R>(x);
  else if constexpr (is_same<T, double>) return to_double<R>(x);
  else if constexpr (is_same<S, half>) return convert_one<T, SATURATE, R>((float)x);
  else if constexpr (is_real<S>) {
    if constexpr (sizeof(T) >= 4) {
      if constexpr (SATURATE || R != rounds_default) return to_integer<R>(x, (T *)nullptr);
      else return T(x);
    } else if constexpr (SATURATE && is_same<S, float>) return saturated_at_once<R>(x, (T *)nullptr);
    else {
      int y = to_integer<R>(x, (int *)nullptr);
      if constexpr (SATURATE) return saturated<T>(y);
      else return T(y);
    }
  } else if constexpr (SATURATE) return saturated<T>(x);
  else return T(x);
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
template <int... I, class T> inline vec<plain_t<T>, sizeof...(I)> load_of(indices<I...>, const T *p) {
  vec<plain_t<T>, sizeof...(I)> r{};
  ((r.v[I] = p[I]), ...);
  return r;
}
template <int N, class T> inline vec<plain_t<T>, N> vload(size_t offset, const T *p) { return load_of(all_of<N>(), p + offset * N); }
template <int... I, class T, int N> inline void store_of(indices<I...>, vec<T, N> x, T *p) { ((p[I] = x.v[I]), ...); }
template <int N, class T> inline void vstore(vec<T, N> x, size_t offset, T *p) { store_of(all_of<N>(), x, p + offset * N); }
// ALIGNED: to the whole vector, three components standing at the place of four.
template <int N, bool ALIGNED, class H> inline auto vload_half(size_t offset, const H *p) {
  if constexpr (N == 1) return (float)p[offset];
  else if constexpr (ALIGNED && N != 3) {
    vec<half, N> all = ((const vec<half, N> *)p)[offset];
    return each<float, N>([](half h) { return (float)h; }, all);
  } else return each<float, N>([](half h) { return (float)h; }, load_of(all_of<N>(), p + offset * (ALIGNED ? 4 : N)));
}
template <int N, bool ALIGNED> inline auto vload_half(size_t offset, any_pointer p) {
  return vload_half<N, ALIGNED>(offset, (const half *)p);
}
template <int N, bool ALIGNED, rounding R, class S> inline void vstore_half(S x, size_t offset, half *p) {
  if constexpr (N == 1) p[offset] = to_half<R>(x);
  else {
    typedef element_of<S> E;
    vec<half, N> all = each<half, N>([](E y) { return to_half<R>(y); }, x);
    if constexpr (ALIGNED && N != 3) ((vec<half, N> *)p)[offset] = all;
    else store_of(all_of<N>(), all, p + offset * (ALIGNED ? 4 : N));
  }
}
}  // namespace vdev_cl
