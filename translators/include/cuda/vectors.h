// OpenCL C's types for CUDA C++ (OpenCL C 6.1): vectors as classes whose components are reached by index, swizzles as
// get<...>() (a value) and ref<...>() (an assignable view), operators component by component.
// Arguments are values and components are named one by one, never in a loop, so that a vector is loaded and stored at once: a loop is
// taken apart too late for the compiler, which by then has lost how the vector is aligned.
// Everything is constexpr and trivially copyable, so that vectors may stand in unions, in shared and in constant memory.
namespace vdev_cl {

// Small parts of <type_traits>, which NVRTC does not bring. Constants are static: otherwise each would become a variable of the module.
template <class T> struct same { typedef T type; };
template <class T> using same_t = typename same<T>::type;
template <class T> struct plain { typedef T type; };
template <class T> struct plain<const T> { typedef T type; };
template <class T> struct plain<volatile T> { typedef T type; };
template <class T> struct plain<const volatile T> { typedef T type; };
template <class T> using plain_t = typename plain<T>::type;
template <class T> struct referred { typedef T type; };
template <class T> struct referred<T &> { typedef T type; };
template <class T> struct referred<T &&> { typedef T type; };
template <class T> using referred_t = typename referred<T>::type;
template <class A, class B> static constexpr bool is_same = false;
template <class A> static constexpr bool is_same<A, A> = true;

// Variables in constant memory are initialised when the program is built, where there are no machine instructions: the conversions
// without them. A NaN keeps its sign and the front of its payload.
constexpr ushort known_half_bits(double x) {
  ulong all = __builtin_bit_cast(ulong, x), fraction = all & 0xfffffffffffffUL;
  int exponent = (int)(all >> 52 & 0x7ff) - 1023;
  ushort sign = ushort(all >> 48 & 0x8000);
  if (exponent == 1024 && fraction != 0) return ushort(sign | 0x7e00 | fraction >> 42);
  if (exponent > 15) return ushort(sign | 0x7c00);
  if (exponent < -25) return sign;
  int dropped = exponent < -14 ? 28 - exponent : 42;
  ulong whole = fraction | 1UL << 52, kept = whole >> dropped, rest = whole - (kept << dropped), middle = 1UL << (dropped - 1);
  if (exponent >= -14) kept += (ulong)(exponent + 14) << 10;
  return ushort(sign | (kept + (rest > middle || (rest == middle && (kept & 1)))));
}
constexpr float known_float_of_half(ushort bits) {
  uint sign = (uint)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 0) return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint, (float)fraction * 0x1p-24f));
  return __builtin_bit_cast(float, sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13);
}

// IEEE binary16. Arithmetic in binary32 rounded once to binary16 is binary16's own (24 >= 2 * 11 + 2 bits).
struct half {
  ushort bits;
  constexpr half() = default;
  constexpr half(float x) : bits(__builtin_is_constant_evaluated() ? known_half_bits(x) : half_bits<rte>(x)) {}
  constexpr half(double x) : bits(__builtin_is_constant_evaluated() ? known_half_bits(x) : half_bits<rte>(x)) {}
  constexpr half(int x) : half((float)x) {}
  constexpr half(uint x) : half((float)x) {}
  constexpr half(long x) : half((double)x) {}
  constexpr half(ulong x) : half((double)x) {}
  constexpr half(char x) : half((float)x) {}
  constexpr half(signed char x) : half((float)x) {}
  constexpr half(uchar x) : half((float)x) {}
  constexpr half(short x) : half((float)x) {}
  constexpr half(ushort x) : half((float)x) {}
  constexpr half(bool x) : half((float)x) {}
  // From and to volatile memory; templates, because members of their own would cost triviality.
  template <class S> requires (!is_same<S, half> && is_same<plain_t<S>, half>) constexpr half(S &other) : bits(other.bits) {}
  template <class S> requires is_same<S, half> void operator=(const S &other) volatile { bits = other.bits; }
  constexpr operator float() const { return __builtin_is_constant_evaluated() ? known_float_of_half(bits) : float_of_half(bits); }
  operator float() const volatile { return float_of_half(bits); }
};
constexpr half half_of(ushort bits) { half h{}; h.bits = bits; return h; }
constexpr half operator-(half a) { return half_of(a.bits ^ 0x8000); }
constexpr half operator+(half a) { return a; }
#define VDEV_BINARY(op, result) \
  constexpr half operator op(half a, half b) { \
    if (__builtin_is_constant_evaluated()) return half((float)a op (float)b); \
    return result; \
  } \
  inline half &operator op##=(half &a, half b) { return a = a op b; } \
  inline half operator op##=(volatile half &a, half b) { half r = half(a) op b; a = r; return r; }
VDEV_BINARY(+, half_of(half_sum(a.bits, b.bits))) VDEV_BINARY(-, half_of(half_difference(a.bits, b.bits)))
VDEV_BINARY(*, half_of(half_product(a.bits, b.bits))) VDEV_BINARY(/, half((float)a / (float)b))
#undef VDEV_BINARY
#define VDEV_STEP(op, by) \
  inline half &operator op(half &a) { return a = a by half(1); } \
  inline half operator op(half &a, int) { half old = a; op a; return old; } \
  inline half operator op(volatile half &a) { half r = half(a) by half(1); a = r; return r; } \
  inline half operator op(volatile half &a, int) { half old = a; op a; return old; }
VDEV_STEP(++, +) VDEV_STEP(--, -)
#undef VDEV_STEP
#define VDEV_COMPARE(op) constexpr bool operator op(half a, half b) { return (float)a op (float)b; }
VDEV_COMPARE(==) VDEV_COMPARE(!=) VDEV_COMPARE(<) VDEV_COMPARE(>) VDEV_COMPARE(<=) VDEV_COMPARE(>=)
#undef VDEV_COMPARE

template <class T> static constexpr bool is_real = is_same<T, half> || is_same<T, float> || is_same<T, double>;
template <class T> static constexpr bool is_signed = is_real<T> || T(-1) < T(0);

// Integers of a size: results of comparisons (6.3 d), unsigned partners, double width.
template <int NBYTES> struct sized;
template <> struct sized<1> { typedef char I; typedef uchar U; };
template <> struct sized<2> { typedef short I; typedef ushort U; };
template <> struct sized<4> { typedef int I; typedef uint U; };
template <> struct sized<8> { typedef long I; typedef ulong U; };
template <class T> using signed_of = typename sized<sizeof(T)>::I;
template <class T> using unsigned_of = typename sized<sizeof(T)>::U;

// 6.3 j: only the low log2(width) bits of the right operand count.
template <class T> constexpr T shift_left(T a, T b) { return T(a << (b & T(8 * sizeof(T) - 1))); }
template <class T> constexpr T shift_right(T a, T b) { return T(a >> (b & T(8 * sizeof(T) - 1))); }

// Indices of components.
template <int... I> struct indices {};
template <int N> struct numbered;
template <> struct numbered<1> { typedef indices<0> type; };
template <> struct numbered<2> { typedef indices<0, 1> type; };
template <> struct numbered<3> { typedef indices<0, 1, 2> type; };
template <> struct numbered<4> { typedef indices<0, 1, 2, 3> type; };
template <> struct numbered<8> { typedef indices<0, 1, 2, 3, 4, 5, 6, 7> type; };
template <> struct numbered<16> { typedef indices<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15> type; };
template <int N> using all_of = typename numbered<N>::type;
template <int K, int First, int... I> constexpr int chosen() {
  if constexpr (K == 0) return First;
  else return chosen<K - 1, I...>();
}

template <class V, int... I> struct view;

// 6.1.5: aligned to its size; three components are stored as four.
template <class T, int N> struct alignas(sizeof(T) * (N == 3 ? 4 : N)) vec {
  T v[N == 3 ? 4 : N];
  constexpr vec() = default;
  // 6.2.2: true becomes all ones in the components of an integer vector.
  template <class S> requires (!__is_class(S) || is_same<S, half>) explicit constexpr vec(S s) : vec(all_of<N == 3 ? 4 : N>(), of(s)) {}
  template <int... I> constexpr vec(indices<I...>, T s) : v{((void)I, s)...} {}
  template <class S> static constexpr T of(S s) { return is_same<S, bool> && !is_real<T> && s ? T(-1) : T(s); }
  // From volatile memory; a template, because a constructor for it would cost triviality.
  template <class S> requires is_same<plain_t<S>, vec> constexpr vec(S &other) : vec() { copy(all_of<N>(), other); }
  template <int... I, class S> constexpr void copy(indices<I...>, S &other) { ((v[I] = T(other.v[I])), ...); }
  template <class S> requires is_same<S, vec> void operator=(const S &other) volatile {
    for (int i = 0; i < N; ++i) v[i] = other.v[i];
  }
  constexpr T &operator[](size_t i) { return v[i]; }
  constexpr const T &operator[](size_t i) const { return v[i]; }
  constexpr volatile T &operator[](size_t i) volatile { return v[i]; }
  constexpr const volatile T &operator[](size_t i) const volatile { return v[i]; }
  template <int... I> constexpr vec<T, sizeof...(I)> get() const {
    vec<T, sizeof...(I)> r{};
    int k = 0;
    ((r.v[k++] = v[I]), ...);
    return r;
  }
  template <int... I> constexpr vec<T, sizeof...(I)> get() const volatile { return vec(*this).template get<I...>(); }
  template <int... I> view<vec, I...> ref() { return {*this}; }
  template <int... I> view<volatile vec, I...> ref() volatile { return {*this}; }
};
template <class T> struct vector_of { typedef T element; enum { count = 1 }; };
template <class T, int N> struct vector_of<vec<T, N>> { typedef T element; enum { count = N }; };
template <class V> using element_of = typename vector_of<V>::element;
template <class V> static constexpr int count_of = vector_of<V>::count;
template <class V> static constexpr bool is_vector = false;
template <class T, int N> constexpr bool is_vector<vec<T, N>> = true;
template <class T> concept scalar = !is_vector<T> && (!__is_class(T) || is_same<T, half>);

// Several components of a vector in memory, to be assigned (6.1.7).
template <class V, int... I> struct view {
  V &base;
  typedef element_of<plain_t<V>> T;
  typedef vec<T, sizeof...(I)> R;
  operator R() const { return base.template get<I...>(); }
  R operator=(R r) const { int k = 0; ((base.v[I] = r.v[k++]), ...); return r; }
  R operator=(const view &other) const { return *this = R(other); }
  template <int... J> view<V, chosen<J, I...>()...> ref() const { return {base}; }
  template <int J> auto &at() const { return base.v[chosen<J, I...>()]; }
  R operator++() const { return *this = R(*this) + R(T(1)); }
  R operator--() const { return *this = R(*this) - R(T(1)); }
  R operator++(int) const { R old = *this; ++*this; return old; }
  R operator--(int) const { R old = *this; --*this; return old; }
#define VDEV_ASSIGN(op) R operator op##=(R r) const { return *this = R(*this) op r; }
  VDEV_ASSIGN(+) VDEV_ASSIGN(-) VDEV_ASSIGN(*) VDEV_ASSIGN(/) VDEV_ASSIGN(%)
  VDEV_ASSIGN(&) VDEV_ASSIGN(|) VDEV_ASSIGN(^)
#undef VDEV_ASSIGN
  template <class U> R operator<<=(vec<U, sizeof...(I)> r) const { return *this = R(*this) << r; }
  template <class U> R operator>>=(vec<U, sizeof...(I)> r) const { return *this = R(*this) >> r; }
};

// Functions of components: f is called for each, scalar arguments count for all.
template <int I, class A> constexpr A part(A a) requires scalar<A> { return a; }
template <int I, class T, int N> constexpr T part(vec<T, N> a) { return a.v[I]; }
template <int I, class F, class... A> constexpr auto at(F f, A... a) { return f(part<I>(a)...); }
template <class R, int N, int... I, class F, class... A> constexpr vec<R, N> each_of(indices<I...>, F f, A... a) {
  vec<R, N> r{};
  ((r.v[I] = at<I>(f, a...)), ...);
  return r;
}
template <class R, int N, class F, class... A> constexpr vec<R, N> each(F f, A... a) { return each_of<R, N>(all_of<N>(), f, a...); }
// Components one after the other, whatever is done with them: f(x, so_far).
template <class R, class V, class F, int... I> constexpr R folded_of(indices<I...>, V a, R r, F f) {
  ((r = f(part<I>(a), r)), ...);
  return r;
}
template <class R, class V, class F> constexpr R folded(V a, R start, F f) { return folded_of<R>(all_of<count_of<V>>(), a, start, f); }

#define VDEV_BINARY(op, value) \
  template <class T, int N> constexpr vec<T, N> operator op(vec<T, N> a, vec<T, N> b) { \
    return each<T, N>([](T x, T y) { return T(value); }, a, b); \
  } \
  template <class T, int N> constexpr vec<T, N> &operator op##=(vec<T, N> &a, same_t<vec<T, N>> b) { \
    return a = a op b; \
  } \
  template <class T, int N> vec<T, N> operator op##=(volatile vec<T, N> &a, same_t<vec<T, N>> b) { \
    vec<T, N> r = vec<T, N>(a) op b; \
    a = r; \
    return r; \
  }
VDEV_BINARY(+, x + y) VDEV_BINARY(-, x - y) VDEV_BINARY(*, x *y) VDEV_BINARY(/, x / y) VDEV_BINARY(%, x % y)
VDEV_BINARY(&, x &y) VDEV_BINARY(|, x | y) VDEV_BINARY(^, x ^ y)
#undef VDEV_BINARY
// Numbers of bits may have another type than what is shifted.
#define VDEV_SHIFT(op, function) \
  template <class T, class U, int N> constexpr vec<T, N> operator op(vec<T, N> a, vec<U, N> b) { \
    return each<T, N>([](T x, U y) { return function<T>(x, T(y)); }, a, b); \
  } \
  template <class T, class U, int N> constexpr vec<T, N> &operator op##=(vec<T, N> &a, vec<U, N> b) { return a = a op b; } \
  template <class T, class U, int N> vec<T, N> operator op##=(volatile vec<T, N> &a, vec<U, N> b) { \
    vec<T, N> r = vec<T, N>(a) op b; \
    a = r; \
    return r; \
  }
VDEV_SHIFT(<<, shift_left) VDEV_SHIFT(>>, shift_right)
#undef VDEV_SHIFT

// 6.3 d, e, g: 0 and -1 in integers of the operands' width. Both operands are evaluated.
#define VDEV_COMPARE(op) \
  template <class T, int N> constexpr vec<signed_of<T>, N> operator op(vec<T, N> a, vec<T, N> b) { \
    return each<signed_of<T>, N>([](T x, T y) { return signed_of<T>((x op y) ? -1 : 0); }, a, b); \
  }
VDEV_COMPARE(==) VDEV_COMPARE(!=) VDEV_COMPARE(<) VDEV_COMPARE(>) VDEV_COMPARE(<=) VDEV_COMPARE(>=)
VDEV_COMPARE(&&) VDEV_COMPARE(||)
#undef VDEV_COMPARE
template <class T, int N> constexpr vec<signed_of<T>, N> operator!(vec<T, N> a) {
  return each<signed_of<T>, N>([](T x) { return signed_of<T>(x ? 0 : -1); }, a);
}
#define VDEV_UNARY(op) \
  template <class T, int N> constexpr vec<T, N> operator op(vec<T, N> a) { return each<T, N>([](T x) { return T(op x); }, a); }
VDEV_UNARY(-) VDEV_UNARY(+) VDEV_UNARY(~)
#undef VDEV_UNARY
#define VDEV_STEP(op, by) \
  template <class T, int N> vec<T, N> &operator op(vec<T, N> &a) { return a = a by vec<T, N>(T(1)); } \
  template <class T, int N> vec<T, N> operator op(vec<T, N> &a, int) { vec<T, N> old = a; a = a by vec<T, N>(T(1)); return old; }
VDEV_STEP(++, +) VDEV_STEP(--, -)
#undef VDEV_STEP

// 6.3 i: a vector condition chooses by the most significant bit of each component.
template <class C, int N, class T> constexpr vec<T, N> choose(vec<C, N> c, vec<T, N> a, vec<T, N> b) {
  return each<T, N>([](C z, T x, T y) { return (signed_of<C>)z < 0 ? x : y; }, c, a, b);
}

// Vector literals and lists (6.1.6): parts one behind the other, the rest zero.
template <class T, int N, class S> constexpr void append(vec<T, N> &r, int &k, S part) { r.v[k++] = T(part); }
template <class T, int N, int M, int... I> constexpr void append_of(indices<I...>, vec<T, N> &r, int &k, vec<T, M> part) {
  ((r.v[k++] = part.v[I]), ...);
}
template <class T, int N, int M> constexpr void append(vec<T, N> &r, int &k, vec<T, M> part) { append_of(all_of<M>(), r, k, part); }
template <class V, class... A> constexpr V make(A... parts) {
  V r{};
  int k = 0;
  (append(r, k, parts), ...);
  return r;
}

// C converts void* to any pointer; C++ wants to be told.
struct any_pointer {
  const volatile void *p;
  template <class T> operator T *() const { return (T *)p; }
};
inline any_pointer pointer(const volatile void *p) { return {p}; }
// C converts integers to enumerations and counts in them.
struct any_enumeration {
  long value;
  template <class T> requires(__is_enum(T)) constexpr operator T() const { return (T)value; }
};
constexpr any_enumeration enumeration(long value) { return {value}; }
#define VDEV_UPDATE(op) \
  template <class E, class B> requires(__is_enum(E)) constexpr E &operator op##=(E &a, B b) { return a = (E)((long)a op (long)b); }
VDEV_UPDATE(+) VDEV_UPDATE(-) VDEV_UPDATE(*) VDEV_UPDATE(/) VDEV_UPDATE(%) VDEV_UPDATE(&) VDEV_UPDATE(|) VDEV_UPDATE(^)
VDEV_UPDATE(<<) VDEV_UPDATE(>>)
#undef VDEV_UPDATE
template <class E> requires(__is_enum(E)) constexpr E &operator++(E &a) { return a = (E)((long)a + 1); }
template <class E> requires(__is_enum(E)) constexpr E &operator--(E &a) { return a = (E)((long)a - 1); }
template <class E> requires(__is_enum(E)) constexpr E operator++(E &a, int) { E old = a; ++a; return old; }
template <class E> requires(__is_enum(E)) constexpr E operator--(E &a, int) { E old = a; --a; return old; }
template <class T> using identity = T;
// C reads and assigns volatile structures as a whole.
template <class T> inline T &settled(const volatile T &x) { return (T &)x; }
template <class T> inline volatile T &unsettled(T &x) { return x; }
// Assignments of structures that leave padding as it is: f copies the members. All are loaded before one is stored, whatever overlaps.
template <class A, class B, class F> inline A &assigned(A &to, B from, F f) { f(to, from); return to; }
template <int First, int Count> inline void copied_bytes(void *to, const void *from) {
  for (int i = First; i < First + Count; ++i) ((char *)to)[i] = ((const char *)from)[i];
}

#define VDEV_VECTORS(type) \
  typedef vec<type, 2> type##2; typedef vec<type, 3> type##3; typedef vec<type, 4> type##4; \
  typedef vec<type, 8> type##8; typedef vec<type, 16> type##16;
VDEV_VECTORS(char) VDEV_VECTORS(uchar) VDEV_VECTORS(short) VDEV_VECTORS(ushort) VDEV_VECTORS(int) VDEV_VECTORS(uint)
VDEV_VECTORS(long) VDEV_VECTORS(ulong) VDEV_VECTORS(half) VDEV_VECTORS(float) VDEV_VECTORS(double)
#undef VDEV_VECTORS
}  // namespace vdev_cl
