// Accesses to memory that is less aligned than their types, which a GPU does not make: -fsanitize=alignment finds them.
#include <cstdio>

// What GCC calls with -fsanitize=alignment, in place of its own library: where a launch's first one was is kept.
struct Access { const char *file; unsigned line, column; const void *type; unsigned char alignment_bits, kind; };
static char misaligned[256];
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(const Access *access, const void *place) {
  if (*misaligned) return;
  std::snprintf(misaligned, sizeof misaligned, "%s:%u:%u: %p is not aligned to %u bytes", access->file, access->line, access->column, place,
                1u << access->alignment_bits);
}
extern "C" const char *first_misaligned() { return misaligned; }
