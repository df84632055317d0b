// Work-items, synchronisation, work-group and sub-group functions, copies, printing (OpenCL C 6.12.1, 6.12.8 to 6.12.10, 6.12.13, 6.13).
namespace vdev_cl {

// One launch covers a chunk; what a work-item asks about the whole NDRange was rewritten before (the hidden argument).
inline size_t get_local_id(uint d) { return d == 0 ? ::threadIdx.x : d == 1 ? ::threadIdx.y : d == 2 ? ::threadIdx.z : 0; }
inline size_t get_local_size(uint d) { return d == 0 ? ::blockDim.x : d == 1 ? ::blockDim.y : d == 2 ? ::blockDim.z : 1; }
inline size_t get_enqueued_local_size(uint d) { return get_local_size(d); }
inline size_t get_group_id(uint d) { return d == 0 ? ::blockIdx.x : d == 1 ? ::blockIdx.y : d == 2 ? ::blockIdx.z : 0; }
inline size_t get_global_id(uint d) { return get_group_id(d) * get_local_size(d) + get_local_id(d); }
inline size_t get_local_linear_id() { return (::threadIdx.z * ::blockDim.y + ::threadIdx.y) * ::blockDim.x + ::threadIdx.x; }
inline uint items_of_group() { return ::blockDim.x * ::blockDim.y * ::blockDim.z; }

typedef uint cl_mem_fence_flags;
typedef uint cl_mem_fence_flags_t;
enum memory_scope {
  memory_scope_work_item = 0, memory_scope_work_group = 1, memory_scope_device = 2, memory_scope_all_svm_devices = 3,
  memory_scope_all_devices = 3, memory_scope_sub_group = 4
};
enum memory_order {
  memory_order_relaxed = 0, memory_order_acquire = 2, memory_order_release = 3, memory_order_acq_rel = 4, memory_order_seq_cst = 5
};
inline void fence(memory_scope scope) {
  if (scope == memory_scope_all_svm_devices) __threadfence_system();
  else if (scope == memory_scope_device) __threadfence();
  else if (scope != memory_scope_work_item) __threadfence_block();
}
inline void barrier(cl_mem_fence_flags) { __syncthreads(); }
inline void work_group_barrier(cl_mem_fence_flags, memory_scope scope = memory_scope_work_group) { fence(scope); __syncthreads(); }
// Flag 2 is CLK_GLOBAL_MEM_FENCE: order among the work-items of all work-groups is what programs have relied on.
inline void mem_fence(cl_mem_fence_flags flags) { if (flags & 2) __threadfence(); else __threadfence_block(); }
inline void read_mem_fence(cl_mem_fence_flags flags) { mem_fence(flags); }
inline void write_mem_fence(cl_mem_fence_flags flags) { mem_fence(flags); }
inline void atomic_work_item_fence(cl_mem_fence_flags, memory_order order, memory_scope scope) {
  if (order != memory_order_relaxed) fence(scope);
}

// Asynchronous copies are done when they are asked for; waiting makes them visible to the work-group.
typedef uint event_t;
template <class T> inline event_t async_work_group_copy(T *target, const T *source, size_t count, event_t event) {
  for (size_t i = get_local_linear_id(); i < count; i += items_of_group()) target[i] = source[i];
  return event;
}
template <class T> inline event_t copy_strided(T *target, const T *source, size_t count, size_t to, size_t from, event_t event) {
  for (size_t i = get_local_linear_id(); i < count; i += items_of_group()) target[i * to] = source[i * from];
  return event;
}
template <class T>
inline event_t async_work_group_strided_copy(T *target, const T *source, size_t count, size_t stride, event_t event) {
  return __isShared((const void *)target) ? copy_strided(target, source, count, 1, stride, event) : copy_strided(target, source, count, stride, 1, event);
}
inline void wait_group_events(int, event_t *) { __syncthreads(); }
template <class T> inline void prefetch(const T *, size_t) {}

// Work-group functions (6.13.15): all work-items call them, in order of the linear local id.
inline uint lanes_of_warp() {
  uint first = (uint)get_local_linear_id() & ~31u, rest = items_of_group() - first;
  return rest >= 32 ? 0xffffffffu : (1u << rest) - 1;
}
template <class T> inline T shuffled(T x, uint lane) {
  int words[(sizeof(T) + 3) / 4] = {};
  ::memcpy(words, &x, sizeof(T));
  for (int &word : words) word = __shfl_sync(lanes_of_warp(), word, lane);
  ::memcpy(&x, words, sizeof(T));
  return x;
}
// Sub-groups (6.13.16, cl_khr_subgroups) are warps; the last one of a work-group may have fewer work-items.
inline uint get_max_sub_group_size() { return items_of_group() < 32 ? items_of_group() : 32; }
inline uint get_num_sub_groups() { return (items_of_group() + 31) / 32; }
inline uint get_enqueued_num_sub_groups() { return get_num_sub_groups(); }
inline uint get_sub_group_id() { return (uint)get_local_linear_id() / 32; }
inline uint get_sub_group_local_id() { return (uint)get_local_linear_id() & 31; }
inline uint get_sub_group_size() { return __popc(lanes_of_warp()); }
inline void sub_group_barrier(cl_mem_fence_flags, memory_scope scope = memory_scope_sub_group) {
  fence(scope == memory_scope_sub_group ? memory_scope_work_group : scope);
  __syncwarp(lanes_of_warp());
}
inline int sub_group_all(int x) { return __all_sync(lanes_of_warp(), x); }
inline int sub_group_any(int x) { return __any_sync(lanes_of_warp(), x); }
template <class T> inline T sub_group_broadcast(T x, uint lane) { return shuffled(x, lane); }
template <class T> inline T sub_group_shuffle(T x, uint lane) { return shuffled(x, lane); }
template <class T> inline T sub_group_shuffle_xor(T x, uint mask) { return shuffled(x, get_sub_group_local_id() ^ mask); }
template <class T> inline T sub_group_shuffle_up(T x, uint by) { return shuffled(x, get_sub_group_local_id() - by); }
template <class T> inline T sub_group_shuffle_down(T x, uint by) { return shuffled(x, get_sub_group_local_id() + by); }

struct sum_of { template <class T> T operator()(T a, T b) const { return T(a + b); } };
struct least_of { template <class T> T operator()(T a, T b) const { return lesser<T>(a, b); } };
struct greatest_of { template <class T> T operator()(T a, T b) const { return greater<T>(a, b); } };
// Inclusive scan over a warp, whose lanes are in the order of the linear local id.
template <class T, class F> inline T warp_scan(T x, F f) {
  uint lane = (uint)get_local_linear_id() & 31;
  for (uint d = 1; d < 32; d *= 2) {
    T other = shuffled(x, lane < d ? lane : lane - d);
    if (lane >= d) x = f(other, x);
  }
  return x;
}
// Inclusive scan over the work-group; `total` becomes the reduction.
template <class T, class F> inline T group_scan(T x, F f, T &total, T &before, bool &first) {
  __shared__ T sums[32];
  uint id = (uint)get_local_linear_id(), lane = id & 31, warp = id >> 5, n = items_of_group();
  T inclusive = warp_scan(x, f);
  T neighbour = shuffled(inclusive, lane ? lane - 1 : 0);
  __syncthreads();
  if (lane == 31 || id == n - 1) sums[warp] = inclusive;
  __syncthreads();
  first = id == 0;
  T below = sums[0];  // of the warps before this one, where there are any
  total = sums[0];
  for (uint w = 1; w < (n + 31) / 32; ++w) {
    if (w < warp) below = f(below, sums[w]);
    total = f(total, sums[w]);
  }
  before = lane == 0 ? below : warp ? f(below, neighbour) : neighbour;
  T result = warp ? f(below, inclusive) : inclusive;
  __syncthreads();
  return result;
}
#define VDEV_GROUP(name, F, least) \
  template <class T> inline T work_group_reduce_##name(T x) { T t, b; bool first; group_scan(x, F(), t, b, first); return t; } \
  template <class T> inline T work_group_scan_inclusive_##name(T x) { T t, b; bool first; return group_scan(x, F(), t, b, first); } \
  template <class T> inline T work_group_scan_exclusive_##name(T x) { T t, b; bool first; group_scan(x, F(), t, b, first); return first ? T(least) : b; } \
  template <class T> inline T sub_group_reduce_##name(T x) { return shuffled(warp_scan(x, F()), get_sub_group_size() - 1); } \
  template <class T> inline T sub_group_scan_inclusive_##name(T x) { return warp_scan(x, F()); } \
  template <class T> inline T sub_group_scan_exclusive_##name(T x) { \
    uint lane = get_sub_group_local_id(); \
    T before = shuffled(warp_scan(x, F()), lane ? lane - 1 : 0); \
    return lane ? before : T(least); \
  }
template <class T> inline T smallest() {
  if constexpr (is_same<T, float>) return __int_as_float((int)0xff800000u);
  else if constexpr (is_same<T, double>) return __longlong_as_double((long long)0xfff0000000000000ull);
  else if constexpr (is_same<T, half>) return half_of(0xfc00);
  else return lowest_of<T>();
}
template <class T> inline T largest() {
  if constexpr (is_real<T>) return T(-smallest<T>());
  else return highest_of<T>();
}
VDEV_GROUP(add, sum_of, 0) VDEV_GROUP(min, least_of, largest<T>()) VDEV_GROUP(max, greatest_of, smallest<T>())
#undef VDEV_GROUP
inline int work_group_all(int x) { return __syncthreads_and(x); }
inline int work_group_any(int x) { return __syncthreads_or(x); }
template <class T> inline T work_group_broadcast(T x, size_t i, size_t j = 0, size_t k = 0) {
  __shared__ T value;
  __syncthreads();
  if (::threadIdx.x == i && ::threadIdx.y == j && ::threadIdx.z == k) value = x;
  __syncthreads();
  T result = value;
  __syncthreads();
  return result;
}

// The address space of a generic pointer (6.13.9).
template <class T> inline T *to_local(T *p) { return __isShared((const void *)p) ? p : nullptr; }
template <class T> inline T *to_private(T *p) { return __isLocal((const void *)p) ? p : nullptr; }
template <class T> inline T *to_global(T *p) { return __isShared((const void *)p) || __isLocal((const void *)p) ? nullptr : p; }
inline cl_mem_fence_flags get_fence(const volatile void *p) { return __isShared((const void *)p) ? 1 : 2; }


// printf() of vectors (6.12.13.2): the translator writes the format out, here vectors become their components. What varies is
// promoted as for any function of variable arguments.
template <class F> inline int printed(F f) { return f(); }
template <class F, class A, class... B> inline int printed(F f, A a, B... rest);
template <class F, class T, int N, int... I, class... B> inline int printed_parts(indices<I...>, F f, vec<T, N> a, B... rest) {
  return printed(f, a.v[I]..., rest...);
}
template <class F, class A, class... B> inline int printed(F f, A a, B... rest) {
  if constexpr (is_vector<A>) return printed_parts(all_of<count_of<A>>(), f, a, rest...);
  else if constexpr (is_same<A, half> || is_same<A, float>) return printed([=](auto... more) { return f((double)a, more...); }, rest...);
  else return printed([=](auto... more) { return f(a, more...); }, rest...);
}
template <class... A> inline int print(const char *format, A... a) {
  printed([=](auto... all) { return ::printf(format, all...); }, a...);
  return 0;
}
}  // namespace vdev_cl
