// What kernels without barriers use of CUDA: work-items one after the other.
#include <cstddef>
#include <type_traits>
#include <utility>

#include "../misaligned.h"

#define __device__
#define __global__
#define __grid_constant__
#define __align__(n) alignas(n)
struct Three { unsigned x = 1, y = 1, z = 1; };
static Three threadIdx, blockIdx, blockDim, gridDim;
template <class... A, size_t... I> void call(void (*kernel)(A...), void **args, std::index_sequence<I...>) {
  kernel(*(std::remove_reference_t<A> *)args[I]...);
}
template <class... A> void launch(void (*kernel)(A...), void **args, const unsigned *grid, const unsigned *block) {
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {block[0], block[1], block[2]};
  for (unsigned b = 0; b < grid[0]; ++b)
    for (unsigned t = 0; t < block[0]; ++t) blockIdx.x = b, threadIdx.x = t, call(kernel, args, std::index_sequence_for<A...>());
}
