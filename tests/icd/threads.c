/* Eight threads of a host program, each with a queue, a kernel and a buffer of its own, in one context. */

#include "few.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { N = 1 << 14, ROUNDS = 40 };
static handle c; static handle d; static handle g;
static void *run(void *p) {
  long id = (long)p; int32_t e; long bad = 0;
  handle q = clCreateCommandQueue(c, d, 0, &e);
  handle k = clCreateKernel(g, "step", &e);
  int *h = malloc(N * 4); for (int i = 0; i < N; i++) h[i] = i;
  handle m = clCreateBuffer(c, 1 | 32, N * 4, h, &e);
  int by = (int)id + 1; size_t gs = N, ls = 64;
  clSetKernelArg(k, 0, sizeof m, &m); clSetKernelArg(k, 1, sizeof by, &by);
  for (int r = 0; r < ROUNDS; r++) {
    handle ev; if (clEnqueueNDRangeKernel(q, k, 1, NULL, &gs, &ls, 0, NULL, &ev)) bad++;
    if (r % 8 == 7) { if (clWaitForEvents(1, &ev)) bad++; }
    clRetainEvent(ev); clReleaseEvent(ev); clReleaseEvent(ev);
  }
  if (clEnqueueReadBuffer(q, m, 1, 0, N * 4, h, 0, NULL, NULL)) bad++;
  for (int i = 0; i < N; i++) bad += h[i] != i + by * ROUNDS;
  clReleaseMemObject(m); clReleaseKernel(k); clReleaseCommandQueue(q); free(h);
  return (void *)bad;
}
int main(void) {
  handle p; int32_t e; pthread_t t[8]; long bad = 0;
  const char *s = "kernel void step(global int *a, int by) { a[get_global_id(0)] += by; }";
  clGetPlatformIDs(1, &p, NULL); clGetDeviceIDs(p, 0xFFFFFFFFu, 1, &d, NULL);
  c = clCreateContext(NULL, 1, &d, NULL, NULL, &e); g = clCreateProgramWithSource(c, 1, &s, NULL, &e);
  clBuildProgram(g, 1, &d, "", NULL, NULL);
  for (long i = 0; i < 8; i++) pthread_create(&t[i], NULL, run, (void *)i);
  for (int i = 0; i < 8; i++) { void *r; pthread_join(t[i], &r); bad += (long)r; }
  clReleaseProgram(g); clReleaseContext(c);
  printf("%ld wrong\n", bad);
  return bad != 0;
}
