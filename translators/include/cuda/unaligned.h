// What lies in memory less aligned than its type, as members of packed structures may: types made of bytes, read and written as those.
// Records have packed twins, which the translator writes. A packed member of another type is not enough: LLVM takes copies of large
// structures apart into loads that it believes aligned.
namespace vdev_cl {

template <class T> struct bare { typedef plain_t<T> type; };
template <class T, size_t N> struct bare<T[N]> { typedef typename bare<T>::type type; };
template <class T> struct bare<T[]> { typedef typename bare<T>::type type; };
template <class T> using bare_t = typename bare<T>::type;
template <class T> concept parts = requires { typename T::vdev_aligned; };
template <parts T> struct referred<T &> { typedef typename T::vdev_aligned type; };

// What a place holds, and what is put there.
template <parts U> inline typename U::vdev_aligned value(const U &place) {
  typename U::vdev_aligned r;
  ::memcpy(&r, &place, sizeof r);
  return r;
}
template <parts U> inline typename U::vdev_aligned value(const volatile U &place) {
  typename U::vdev_aligned r;
  for (int i = 0; i < sizeof r; ++i) ((char *)&r)[i] = ((const volatile char *)&place)[i];
  return r;
}
template <class U, class T> inline T stored(U *place, const T &x) {
  static_assert(sizeof(U) == sizeof(T), "sizes differ");
  ::memcpy(place, &x, sizeof x);
  return x;
}
template <class U, class T> inline T stored(volatile U *place, const T &x) {
  static_assert(sizeof(U) == sizeof(T), "sizes differ");
  for (int i = 0; i < sizeof x; ++i) ((volatile char *)place)[i] = ((const char *)&x)[i];
  return x;
}
// The address as a pointer of the program's, which it may only use where it is aligned (C99 6.3.2.3).
template <class U, class T> struct as_qualified { typedef T type; };
template <class U, class T> struct as_qualified<const U, T> { typedef const T type; };
template <class U, class T> struct as_qualified<volatile U, T> { typedef volatile T type; };
template <class U, class T> struct as_qualified<const volatile U, T> { typedef const volatile T type; };
template <parts U> inline auto in_place(U *p) { return (typename as_qualified<U, typename U::vdev_aligned>::type *)p; }
template <class U> inline any_pointer in_place(U *p) { return pointer(p); }
// A record that initialises a member, which may be a twin.
template <class T> struct parted_record {
  T x;
  template <class U> requires is_same<U, T> operator U() const { return x; }
  template <parts U> requires is_same<typename U::vdev_aligned, T> operator U() const {
    U r;
    stored(&r, x);
    return r;
  }
};
template <class T> inline parted_record<T> parted(T x) { return {x}; }

// Assignments, in place of those by reference.
#define VDEV_STEPS(T, one, qualified) \
  T operator++() qualified { return *this += one; } \
  T operator--() qualified { return *this -= one; } \
  T operator++(int) qualified { T old = value(*this); *this += one; return old; } \
  T operator--(int) qualified { T old = value(*this); *this -= one; return old; }

template <class T, class A> concept told = (__is_enum(T) && is_same<A, any_enumeration>) || is_same<A, any_pointer>;
template <class T> struct unaligned {
  typedef T vdev_aligned;
  struct bytes { unsigned char at[sizeof(T)]; } all;
  constexpr unaligned() = default;
  constexpr unaligned(T x) : all(__builtin_bit_cast(bytes, x)) {}
  template <class A> requires told<T, A> constexpr unaligned(A x) : unaligned(T(x)) {}
  operator T() const { return value(*this); }
  operator T() const volatile { return value(*this); }
#define VDEV_ASSIGN(op, qualified) \
  template <class B> T operator op##=(B b) qualified { \
    T a = value(*this); \
    if constexpr (__is_enum(T)) return *this = (T)((long)a op (long)b); \
    else if constexpr (__is_class(T)) return *this = T(a op T(b)); \
    else return *this = T(a op b); \
  }
#define VDEV_ASSIGNS(qualified) \
  T operator=(T x) qualified { return stored(this, x); } \
  template <class A> requires told<T, A> T operator=(A x) qualified { return *this = T(x); } \
  VDEV_ASSIGN(+, qualified) VDEV_ASSIGN(-, qualified) VDEV_ASSIGN(*, qualified) VDEV_ASSIGN(/, qualified) VDEV_ASSIGN(%, qualified) \
  VDEV_ASSIGN(&, qualified) VDEV_ASSIGN(|, qualified) VDEV_ASSIGN(^, qualified) VDEV_ASSIGN(<<, qualified) VDEV_ASSIGN(>>, qualified) \
  VDEV_STEPS(T, 1, qualified)
  VDEV_ASSIGNS() VDEV_ASSIGNS(volatile)
#undef VDEV_ASSIGNS
#undef VDEV_ASSIGN
};

template <class T, bool BYTES = sizeof(T) == 1> struct component_in { typedef unaligned<T> type; };
template <class T> struct component_in<T, true> { typedef T type; };
template <class T, int N> struct unaligned<vec<T, N>> {
  typedef vec<T, N> V;
  typedef V vdev_aligned;
  typedef typename component_in<T>::type E;
  E v[N == 3 ? 4 : N];
  constexpr unaligned() = default;
  constexpr unaligned(V x) : unaligned(all_of<N == 3 ? 4 : N>(), x) {}
  template <int... I> constexpr unaligned(indices<I...>, const V &x) : v{x.v[I]...} {}
  operator V() const { return value(*this); }
  operator V() const volatile { return value(*this); }
  E &operator[](size_t i) { return v[i]; }
  volatile E &operator[](size_t i) volatile { return v[i]; }
  template <int I> T one() const { return v[I]; }
  template <int I> T one() const volatile { return v[I]; }
  template <int... I> vec<T, sizeof...(I)> get() const { return value(*this).template get<I...>(); }
  template <int... I> vec<T, sizeof...(I)> get() const volatile { return value(*this).template get<I...>(); }
  template <int... I> view<unaligned, I...> ref() { return {*this}; }
  template <int... I> view<volatile unaligned, I...> ref() volatile { return {*this}; }
#define VDEV_ASSIGN(op, qualified) V operator op##=(V b) qualified { return *this = value(*this) op b; }
#define VDEV_SHIFT(op, qualified) template <class U> V operator op##=(vec<U, N> b) qualified { return *this = value(*this) op b; }
#define VDEV_ASSIGNS(qualified) \
  V operator=(V x) qualified { return stored(this, x); } \
  VDEV_ASSIGN(+, qualified) VDEV_ASSIGN(-, qualified) VDEV_ASSIGN(*, qualified) VDEV_ASSIGN(/, qualified) VDEV_ASSIGN(%, qualified) \
  VDEV_ASSIGN(&, qualified) VDEV_ASSIGN(|, qualified) VDEV_ASSIGN(^, qualified) VDEV_SHIFT(<<, qualified) VDEV_SHIFT(>>, qualified) \
  VDEV_STEPS(V, V(T(1)), qualified)
  VDEV_ASSIGNS() VDEV_ASSIGNS(volatile)
#undef VDEV_ASSIGNS
#undef VDEV_SHIFT
#undef VDEV_ASSIGN
};
#undef VDEV_STEPS
template <class T, int N> struct vector_of<unaligned<vec<T, N>>> { typedef T element; enum { count = N }; };
}  // namespace vdev_cl
