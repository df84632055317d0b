/* `hostile`: calls that fail for want of memory are made again, as often as it takes; what they leave is right, each is made once, and no
 * other call fails. */
#include "few.h"
#include <stdio.h>

int32_t clEnqueueCopyBuffer(handle, handle, handle, size_t, size_t, size_t, uint32_t, const handle *, handle *);

enum { N = 64, ROUNDS = 120, MOST_TRIES = 200, COPIES = 32, NO_MEMORY = -6, UNSET = -52 };
static handle context, device, program, queue;
static const char *source =
    "kernel void mix(global uint *a, global const uint *b, uint by) { size_t i = get_global_id(0); a[i] = 3 * b[i] + by; }\n"
    "kernel void count(global uint *a, uint by) { a[get_global_id(0)] += by; }\n";
static unsigned failed, others, wrong;

/* Whether a call has to be made again. */
static int again(int32_t code, unsigned *tries) {
    failed += code == NO_MEMORY;
    others += code != 0 && code != NO_MEMORY;
    return code == NO_MEMORY && ++*tries < MOST_TRIES;
}
#define DO(call) do { unsigned tries = 0; while (again(call, &tries)) continue; } while (0)
#define MAKE(made, call) do { unsigned tries = 0; int32_t code; do made = call; while (again(code, &tries)); } while (0)

static void launch(handle kernel, handle target, handle from, unsigned by, size_t count, int wants_event) {
    handle event = NULL, its_context; int32_t code; unsigned tries = 0; size_t local = 16;
    do {
        DO(clSetKernelArg(kernel, 0, sizeof target, &target));
        DO(clSetKernelArg(kernel, 1, sizeof from, &from));
        DO(clSetKernelArg(kernel, 2, sizeof by, &by));
        code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, count == N ? &local : NULL, 0, NULL, wants_event ? &event : NULL);
    } while (again(code == UNSET ? NO_MEMORY : code, &tries)); /* an argument could not be kept */
    if (event == NULL) return;
    clGetEventInfo(event, 0x11D4, sizeof its_context, &its_context, NULL); /* Python hears of the event, or cannot */
    DO(clWaitForEvents(1, &event));
    DO(clReleaseEvent(event));
}
static void must_wait(handle *event) { DO(clWaitForEvents(1, event)); DO(clReleaseEvent(*event)); }
/* Commands that must not be made twice, in Python: no launch before has had that size. */
static void count_once(handle counter, unsigned r) {
    handle kernel, event; unsigned by = 1, tries = 0; int32_t code; size_t count = N + r;
    MAKE(kernel, clCreateKernel(program, "count", &code));
    DO(clSetKernelArg(kernel, 0, sizeof counter, &counter));
    DO(clSetKernelArg(kernel, 1, sizeof by, &by));
    do code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, &event); while (again(code, &tries));
    must_wait(&event);
    DO(clReleaseKernel(kernel));
}
static void look(handle buffer, unsigned factor, unsigned more, const unsigned *content, unsigned count) {
    unsigned found[N] = {0};
    DO(clEnqueueReadBuffer(queue, buffer, 1, 0, sizeof found, found, 0, NULL, NULL));
    for (unsigned i = 0; i < count; i++) wrong += found[i] != factor * content[i] + more;
}
static void turn(handle kernel, unsigned r) {
    static unsigned content[N];
    handle a, b, c;
    for (unsigned i = 0; i < N; i++) content[i] = 1000 * r + i;
    MAKE(a, clCreateBuffer(context, 1, sizeof content, NULL, &code));
    MAKE(b, clCreateBuffer(context, 1 | COPIES, sizeof content, content, &code));
    MAKE(c, clCreateBuffer(context, 1, sizeof content, NULL, &code));
    for (unsigned i = 0; i < 5; i++) launch(kernel, a, b, r + i, N, r % 3 == 0);
    launch(kernel, a, b, r + 4, 1 + r % 50, 0); /* the same again, in Python: no launch before has had that size */
    DO(clEnqueueCopyBuffer(queue, a, c, 0, 0, sizeof content, 0, NULL, NULL));
    launch(kernel, b, c, r, N, 0);
    look(a, 3, r + 4, content, N), look(c, 3, r + 4, content, N), look(b, 9, 3 * (r + 4) + r, content, N);
    DO(clEnqueueWriteBuffer(queue, c, r % 2, 0, sizeof content, content, 0, NULL, NULL));
    DO(clFinish(queue));
    launch(kernel, a, c, 1, N, 1);
    for (int i = 0; i < 3; i++) look(a, 3, 1, content, N);
    DO(clReleaseMemObject(a)); DO(clReleaseMemObject(b)); DO(clReleaseMemObject(c));
}

int main(void) {
    handle platform, kernel;
    clGetPlatformIDs(1, &platform, NULL);
    DO(clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, NULL));
    MAKE(context, clCreateContext(NULL, 1, &device, NULL, NULL, &code));
    MAKE(queue, clCreateCommandQueue(context, device, 0, &code));
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &code));
    DO(clBuildProgram(program, 1, &device, "", NULL, NULL));
    static unsigned zeros[2 * N + ROUNDS], found[N];
    handle counter;
    MAKE(counter, clCreateBuffer(context, 1 | COPIES, sizeof zeros, zeros, &code));
    for (unsigned r = 0; r < ROUNDS; r++) {
        count_once(counter, r);
        if (r % 20 == 0) MAKE(kernel, clCreateKernel(program, "mix", &code));
        turn(kernel, r);
        if (r % 20 == 19) DO(clReleaseKernel(kernel));
    }
    DO(clEnqueueReadBuffer(queue, counter, 1, 0, sizeof found, found, 0, NULL, NULL));
    for (unsigned i = 0; i < N; i++) wrong += found[i] != ROUNDS;
    printf("%u wrong, %u other errors\n", wrong, others);
    fprintf(stderr, "%u failed\n", failed);
    return 0;
}
