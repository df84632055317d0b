// Atomics of OpenCL 1.x and C11 (OpenCL C 6.12.11).
namespace vdev_cl {

// Atomics of OpenCL 1.x (6.12.11): relaxed, of the device.
template <class T> struct atomic_word { typedef T type; };
template <> struct atomic_word<long> { typedef long long type; };
template <> struct atomic_word<ulong> { typedef unsigned long long type; };
template <class T> using word_of = typename atomic_word<T>::type;
template <class T> inline word_of<T> *words(volatile T *p) { return (word_of<T> *)p; }
template <class T> inline unsigned_of<T> *bits(volatile T *p) { return (unsigned_of<T> *)p; }
// Compare and exchange, on which everything without an instruction of its own is built.
template <class T> inline T exchange_if(volatile T *p, T expected, T desired) {
  if constexpr (sizeof(T) == 4) return as<T>((int)::atomicCAS((int *)p, as<int>(expected), as<int>(desired)));
  else return as<T>((ulong)::atomicCAS((unsigned long long *)p, (unsigned long long)as<ulong>(expected), (unsigned long long)as<ulong>(desired)));
}
template <class T, class F> inline T update(volatile T *p, F f) {
  T old = *p, found;
  while (true) {
    found = exchange_if(p, old, f(old));
    if (as<unsigned_of<T>>(found) == as<unsigned_of<T>>(old)) return old;
    old = found;
  }
}
template <class T> inline T atomic_add(volatile T *p, same_t<T> v) {
  if constexpr (is_real<T>) return ::atomicAdd((T *)p, v);
  else return (T)::atomicAdd((word_of<unsigned_of<T>> *)p, (word_of<unsigned_of<T>>)v);
}
template <class T> inline T atomic_sub(volatile T *p, same_t<T> v) { return atomic_add(p, T(T(0) - v)); }
template <class T> inline T atomic_xchg(volatile T *p, same_t<T> v) {
  if constexpr (sizeof(T) == 4) return as<T>(::atomicExch((int *)p, as<int>(v)));
  else return as<T>((ulong)::atomicExch((unsigned long long *)p, (unsigned long long)as<ulong>(v)));
}
template <class T> inline T atomic_cmpxchg(volatile T *p, same_t<T> expected, same_t<T> desired) { return exchange_if(p, expected, desired); }
template <class T> inline T atomic_inc(volatile T *p) { return atomic_add(p, T(1)); }
template <class T> inline T atomic_dec(volatile T *p) { return atomic_sub(p, T(1)); }
template <class T> inline T atomic_min(volatile T *p, same_t<T> v) {
  if constexpr (is_real<T>) return update(p, [v](T old) { return lesser<T>(old, v); });
  else return (T)::atomicMin(words(p), (word_of<T>)v);
}
template <class T> inline T atomic_max(volatile T *p, same_t<T> v) {
  if constexpr (is_real<T>) return update(p, [v](T old) { return greater<T>(old, v); });
  else return (T)::atomicMax(words(p), (word_of<T>)v);
}
#define VDEV_BITS(name, cuda) \
  template <class T> inline T name(volatile T *p, same_t<T> v) { \
    return (T)::cuda((word_of<unsigned_of<T>> *)p, (word_of<unsigned_of<T>>)v); \
  }
VDEV_BITS(atomic_and, atomicAnd) VDEV_BITS(atomic_or, atomicOr) VDEV_BITS(atomic_xor, atomicXor)
#undef VDEV_BITS
#define VDEV_ATOM(name) template <class T> inline T atom_##name(volatile T *p, same_t<T> v) { return atomic_##name(p, v); }
VDEV_ATOM(add) VDEV_ATOM(sub) VDEV_ATOM(xchg) VDEV_ATOM(min) VDEV_ATOM(max) VDEV_ATOM(and) VDEV_ATOM(or) VDEV_ATOM(xor)
#undef VDEV_ATOM
template <class T> inline T atom_inc(volatile T *p) { return atomic_inc(p); }
template <class T> inline T atom_dec(volatile T *p) { return atomic_dec(p); }
template <class T> inline T atom_cmpxchg(volatile T *p, same_t<T> expected, same_t<T> desired) { return exchange_if(p, expected, desired); }

// C11 atomics (6.13.11). Read-modify-write operations are of the device, whatever the scope; order is made by fences on
// either side, of system scope where all devices are meant.
template <class T> struct atomic_object { T value; };
typedef atomic_object<int> atomic_int;
typedef atomic_object<uint> atomic_uint;
typedef atomic_object<long> atomic_long;
typedef atomic_object<ulong> atomic_ulong;
typedef atomic_object<float> atomic_float;
typedef atomic_object<double> atomic_double;
typedef atomic_object<ulong> atomic_size_t;
typedef atomic_object<ulong> atomic_uintptr_t;
typedef atomic_object<long> atomic_intptr_t;
typedef atomic_object<long> atomic_ptrdiff_t;
typedef atomic_object<int> atomic_flag;
inline memory_scope wide(memory_scope scope) { return scope == memory_scope_work_item ? memory_scope_work_group : scope; }
inline void before(memory_order order, memory_scope scope) {
  if (order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst) fence(wide(scope));
}
inline void after(memory_order order, memory_scope scope) {
  if (order == memory_order_acquire || order == memory_order_acq_rel || order == memory_order_seq_cst) fence(wide(scope));
}
template <class T> inline void atomic_init(volatile atomic_object<T> *p, same_t<T> v) { p->value = v; }
template <class T> inline T atomic_load_explicit(const volatile atomic_object<T> *p, memory_order order, memory_scope scope = memory_scope_device) {
  if (order == memory_order_seq_cst) fence(wide(scope));
  T r = p->value;
  after(order, scope);
  return r;
}
template <class T> inline void atomic_store_explicit(volatile atomic_object<T> *p, same_t<T> v, memory_order order, memory_scope scope = memory_scope_device) {
  before(order, scope);
  p->value = v;
  if (order == memory_order_seq_cst) fence(wide(scope));
}
template <class T> inline T atomic_load(const volatile atomic_object<T> *p) { return atomic_load_explicit(p, memory_order_seq_cst); }
template <class T> inline void atomic_store(volatile atomic_object<T> *p, same_t<T> v) { atomic_store_explicit(p, v, memory_order_seq_cst); }
#define VDEV_FETCH(name, function) \
  template <class T> inline T name##_explicit(volatile atomic_object<T> *p, same_t<T> v, memory_order order, memory_scope scope = memory_scope_device) { \
    before(order, scope); \
    T r = function(&p->value, v); \
    after(order, scope); \
    return r; \
  } \
  template <class T> inline T name(volatile atomic_object<T> *p, same_t<T> v) { return name##_explicit(p, v, memory_order_seq_cst); }
VDEV_FETCH(atomic_exchange, atomic_xchg) VDEV_FETCH(atomic_fetch_add, atomic_add) VDEV_FETCH(atomic_fetch_sub, atomic_sub)
VDEV_FETCH(atomic_fetch_min, atomic_min) VDEV_FETCH(atomic_fetch_max, atomic_max) VDEV_FETCH(atomic_fetch_and, atomic_and)
VDEV_FETCH(atomic_fetch_or, atomic_or) VDEV_FETCH(atomic_fetch_xor, atomic_xor)
#undef VDEV_FETCH
#define VDEV_EXCHANGE(name) \
  template <class T> inline bool name##_explicit(volatile atomic_object<T> *p, same_t<T> *expected, same_t<T> desired, memory_order success, \
      memory_order failure, memory_scope scope = memory_scope_device) { \
    before(success, scope); \
    T wanted = *expected, found = exchange_if(&p->value, wanted, desired); \
    after(success, scope); \
    bool done = as<unsigned_of<T>>(found) == as<unsigned_of<T>>(wanted); \
    if (!done) *expected = found; \
    return done; \
  } \
  template <class T> inline bool name(volatile atomic_object<T> *p, same_t<T> *expected, same_t<T> desired) { \
    return name##_explicit(p, expected, desired, memory_order_seq_cst, memory_order_seq_cst); \
  }
VDEV_EXCHANGE(atomic_compare_exchange_strong) VDEV_EXCHANGE(atomic_compare_exchange_weak)
#undef VDEV_EXCHANGE
inline bool atomic_flag_test_and_set_explicit(volatile atomic_flag *p, memory_order order, memory_scope scope = memory_scope_device) {
  return atomic_exchange_explicit(p, 1, order, scope) != 0;
}
inline bool atomic_flag_test_and_set(volatile atomic_flag *p) { return atomic_flag_test_and_set_explicit(p, memory_order_seq_cst); }
inline void atomic_flag_clear_explicit(volatile atomic_flag *p, memory_order order, memory_scope scope = memory_scope_device) {
  atomic_store_explicit(p, 0, order, scope);
}
inline void atomic_flag_clear(volatile atomic_flag *p) { atomic_flag_clear_explicit(p, memory_order_seq_cst); }
}  // namespace vdev_cl
