// Each kernel of a program as functions that take CUDA's parameter buffer, and its name in OpenCL: KERNEL(space, name, own) behind its definition.
#include <cstddef>

template <class... A> struct Layout {
  size_t offsets[sizeof...(A) + 1], sizes[sizeof...(A) + 1];
  constexpr Layout() : offsets(), sizes() {
    size_t at = 0, n = 0;
    ((at = (at + alignof(A) - 1) / alignof(A) * alignof(A), offsets[n] = at, sizes[n++] = sizeof(A), at += sizeof(A)), ...);
  }
};
template <class... A> int layout_of(void (*)(A...), int number, size_t *offset, size_t *nbytes) {
  const Layout<A...> found;
  if (number >= (int)sizeof...(A)) return 1;
  *offset = found.offsets[number], *nbytes = found.sizes[number];
  return 0;
}
template <class... A> void run_with(void (*kernel)(A...), char *params, const unsigned *grid, const unsigned *block) {
  const Layout<A...> found;
  void *args[sizeof...(A) + 1];
  for (size_t n = 0; n < sizeof...(A); ++n) args[n] = params + found.offsets[n];
  launch(kernel, args, grid, block);
}
#define KERNEL(SPACE, NAME, OWN) \
extern "C" const char own_##NAME[] = #OWN; \
extern "C" void run_##NAME(char *params, const unsigned *grid, const unsigned *block) { run_with(SPACE::NAME, params, grid, block); } \
extern "C" int layout_##NAME(int number, size_t *offset, size_t *nbytes) { return layout_of(SPACE::NAME, number, offset, nbytes); }
