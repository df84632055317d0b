// Textures of two dimensions over memory, for machines without a GPU: what a driver is asked for and what kernels read. Between pixels
// the shares have eight bits (CUDA C++ Programming Guide, "Texture Fetching"). A handle is the address of what it stands for.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <unistd.h>

struct Texture {
  enum Form { UNSIGNED_8 = 0x01, UNSIGNED_16 = 0x02, SIGNED_8 = 0x08, SIGNED_16 = 0x09, HALF = 0x10, FLOAT = 0x20 };
  enum Addressing { WRAP, CLAMP, MIRROR, BORDER };
  enum : uint32_t { EXISTS = 0x7e87a11e };
  uint32_t exists;
  int form, channels, addressing;
  bool linear, normalized;
  long width, height;
  size_t pitch;
  const char *pixels;

  static size_t nbytes_of(int form) { return form == FLOAT ? 4 : form == HALF || form == UNSIGNED_16 || form == SIGNED_16 ? 2 : 1; }
  static float of_half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY) : std::ldexp(float(exponent ? fraction | 1024 : fraction), (exponent ? exponent : 1) - 25);
    return bits & 0x8000 ? -size : size;
  }
  template <class T> static T load(const char *at) { T value; memcpy(&value, at, sizeof(T)); return value; }
  float channel(const char *at) const {
    switch (form) {
      case UNSIGNED_8: return load<uint8_t>(at) * (1.0f / 255.0f);
      case UNSIGNED_16: return load<uint16_t>(at) * (1.0f / 65535.0f);
      case SIGNED_8: return std::fmax(load<int8_t>(at) / 127.0f, -1.0f);
      case SIGNED_16: return std::fmax(load<int16_t>(at) / 32767.0f, -1.0f);
      case HALF: return of_half(load<uint16_t>(at));
      default: return load<float>(at);
    }
  }
  // The pixel's number along one axis; -1: the border's.
  long inside(long i, long n) const {
    switch (addressing) {
      case WRAP: return ((i % n) + n) % n;
      case MIRROR: i = ((i % (2 * n)) + 2 * n) % (2 * n); return i < n ? i : 2 * n - 1 - i;
      case CLAMP: return i < 0 ? 0 : i < n ? i : n - 1;
      default: return i < 0 || i >= n ? -1 : i;
    }
  }
  void pixel(long i, long j, float *to) const {
    i = inside(i, width), j = inside(j, height);
    for (int c = 0; c < 4; ++c) to[c] = c == 3 && channels < 4 ? 1.0f : 0.0f;
    if (i < 0 || j < 0) { to[3] = 0.0f; return; }
    size_t size = nbytes_of(form);
    for (int c = 0; c < channels; ++c) to[c] = channel(pixels + j * pitch + (i * channels + c) * size);
  }
  static long whole(float x) { return long(std::fmax(std::fmin(std::floor(x), 1e9f), -1e9f)); }
  static float share(float x) { return std::floor((x - std::floor(x)) * 256.0f + 0.5f) / 256.0f; }
  void read(float x, float y, float *to) const {
    if (exists != EXISTS) {
      fprintf(stderr, "fault: a kernel reads a texture that is gone\n");
      fflush(stderr);
      _exit(99);
    }
    if (normalized) x *= float(width), y *= float(height);
    if (!linear) return pixel(whole(x), whole(y), to);
    x -= 0.5f, y -= 0.5f;
    float a = share(x), b = share(y), corner[4][4];
    long i = whole(x), j = whole(y);
    for (int n = 0; n < 4; ++n) pixel(i + n % 2, j + n / 2, corner[n]);
    for (int c = 0; c < 4; ++c)
      to[c] = (1 - a) * (1 - b) * corner[0][c] + a * (1 - b) * corner[1][c] + (1 - a) * b * corner[2][c] + a * b * corner[3][c];
  }
};
