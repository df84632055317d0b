// Functions that GNU C builds in and clang knows in OpenCL C, too, where CUDA has none of their names.
namespace vdev_cl {

inline int gnu_popcount(unsigned x) { return __popc(x); }
inline int gnu_popcountl(unsigned long x) { return __popcll(x); }
inline int gnu_clz(unsigned x) { return __clz((int)x); }
inline int gnu_clzl(unsigned long x) { return __clzll((long long)x); }
inline int gnu_ctz(unsigned x) { return __ffs((int)x) - 1; }
inline int gnu_ctzl(unsigned long x) { return __ffsll((long long)x) - 1; }
inline int gnu_ffs(int x) { return __ffs(x); }
inline int gnu_ffsl(long x) { return __ffsll(x); }
inline int gnu_parity(unsigned x) { return __popc(x) & 1; }
inline int gnu_parityl(unsigned long x) { return __popcll(x) & 1; }
inline int gnu_abs(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }
inline long gnu_labs(long x) { return x < 0 ? (long)(0ul - (unsigned long)x) : x; }
inline unsigned short gnu_bswap16(unsigned short x) { return (unsigned short)(x << 8 | x >> 8); }
inline unsigned gnu_bswap32(unsigned x) { return x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24; }
inline unsigned long gnu_bswap64(unsigned long x) { return (unsigned long)gnu_bswap32((unsigned)x) << 32 | gnu_bswap32((unsigned)(x >> 32)); }
inline float gnu_inff() { return __builtin_bit_cast(float, 0x7f800000); }
inline double gnu_inf() { return gnu_inff(); }
inline float gnu_nanf(const char *) { return __builtin_bit_cast(float, 0x7fc00000); }
inline double gnu_nan(const char *) { return gnu_nanf(0); }
inline void gnu_trap() { __trap(); }
inline void *gnu_memcpy(void *to, const void *from, size_t n) { return ::memcpy(to, from, n); }
inline void *gnu_memset(void *to, int value, size_t n) { return ::memset(to, value, n); }

// `a ?: b`.
template <class A, class F> inline auto otherwise(A a, F f) -> decltype(true ? a : f()) { return a ? a : f(); }
// ++ and -- of a bool, which C++ has no longer.
inline bool raised(bool &x, bool behind) { bool old = x; x = true; return behind ? old : true; }
inline bool lowered(bool &x, bool behind) { bool old = x; x = !x; return behind ? old : x; }
// A range of labels: what lies in it becomes its first number.
template <class T> inline T first_of(T x, T low, T high) { return low <= x && x <= high ? low : x; }
}  // namespace vdev_cl
