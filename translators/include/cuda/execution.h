// Work-items, synchronisation, work-group functions, copies and atomics (OpenCL C 6.12.1, 6.12.8 to 6.12.11, 6.13).
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
  return __isShared(target) ? copy_strided(target, source, count, 1, stride, event) : copy_strided(target, source, count, stride, 1, event);
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
struct sum_of { template <class T> T operator()(T a, T b) const { return T(a + b); } };
struct least_of { template <class T> T operator()(T a, T b) const { return lesser<T>(a, b); } };
struct greatest_of { template <class T> T operator()(T a, T b) const { return greater<T>(a, b); } };
// Inclusive scan over the work-group; `total` becomes the reduction.
template <class T, class F> inline T group_scan(T x, F f, T &total, T &before, bool &first) {
  __shared__ T sums[32];
  uint id = (uint)get_local_linear_id(), lane = id & 31, warp = id >> 5, n = items_of_group();
  T inclusive = x;
  for (uint d = 1; d < 32; d *= 2) {
    T other = shuffled(inclusive, lane < d ? lane : lane - d);
    if (lane >= d) inclusive = f(other, inclusive);
  }
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
  template <class T> inline T work_group_scan_exclusive_##name(T x) { T t, b; bool first; group_scan(x, F(), t, b, first); return first ? T(least) : b; }
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
inline cl_mem_fence_flags get_fence(const volatile void *p) { return __isShared((const void *)p) ? 1 : 2; }

}  // namespace vdev_cl
