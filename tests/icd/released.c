/* Buffers and kernels that are released, and those that are made after them: what they leave is as natively.
 *
 * `released [NAME]` does one of the things below, or all that are the same natively.
 */
#define _GNU_SOURCE
#include "few.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int32_t clGetMemObjectInfo(handle, uint32_t, size_t, void *, size_t *);
int32_t clGetKernelInfo(handle, uint32_t, size_t, void *, size_t *);
int32_t clGetEventProfilingInfo(handle, uint32_t, size_t, void *, size_t *);
int32_t clSetMemObjectDestructorCallback(handle, void (*)(handle, void *), void *);
int32_t clRetainMemObject(handle);
int32_t clRetainKernel(handle);
int32_t clSetKernelArgSVMPointer(handle, uint32_t, const void *);
int32_t clEnqueueSVMMemcpy(handle, uint32_t, void *, const void *, size_t, uint32_t, const handle *, handle *);
void *clSVMAlloc(handle, uint64_t, size_t, uint32_t);
void clSVMFree(handle, void *);
int32_t clEnqueueTask(handle, handle, uint32_t, const handle *, handle *);
int32_t clEnqueueCopyBuffer(handle, handle, handle, size_t, size_t, size_t, uint32_t, const handle *, handle *);
void *clEnqueueMapBuffer(handle, handle, uint32_t, uint64_t, size_t, size_t, uint32_t, const handle *, handle *, int32_t *);
int32_t clEnqueueUnmapMemObject(handle, handle, void *, uint32_t, const handle *, handle *);

enum { N = 64, MANY = 40, READ_WRITE = 1, WRITE_ONLY = 2, READ_ONLY = 4, COPIES = 32, GONE = -52 };
static handle context, device, program, queue;
static const char *source =
    "kernel void add(global uint *a, uint by) { a[get_global_id(0)] += by; }\n"
    "kernel void both(global uint *a, global const uint *b, uint by) { size_t i = get_global_id(0); a[i] = a[i] + 2 * b[i] + by; }\n"
    "kernel void slow(global uint *a, uint turns) { size_t i = get_global_id(0); uint x = a[i];\n"
    "    for (uint t = 0; t < turns; t++) x = x * 1664525u + 1013904223u; a[i] = x; }\n"
    "kernel void near(global uint *a, local uint *l) { size_t i = get_local_id(0); l[i] = a[get_global_id(0)];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); a[get_global_id(0)] = l[(i + 1) % get_local_size(0)]; }\n";

static void must(int code, const char *what) {
    if (code != 0) printf("%s: %d\n", what, code);
}
static handle new_kernel(const char *name) {
    int32_t code; handle made = clCreateKernel(program, name, &code);
    return must(code, name), made;
}
static handle new_buffer(uint64_t flags, size_t nbytes, void *content) {
    int32_t code; handle made = clCreateBuffer(context, flags, nbytes, content, &code);
    return must(code, "clCreateBuffer"), made;
}
static void set_mem(handle k, unsigned at, handle m) { must(clSetKernelArg(k, at, sizeof m, &m), "set"); }
static void set_uint(handle k, unsigned at, unsigned value) { must(clSetKernelArg(k, at, sizeof value, &value), "set"); }
static int32_t launch_in(handle q, handle k) { size_t count = N, local = 16; return clEnqueueNDRangeKernel(q, k, 1, NULL, &count, &local, 0, NULL, NULL); }
static void launch(handle k) { must(launch_in(queue, k), "launch"); }
static void write_in(handle q, handle m, unsigned first, int blocking) {
    static __thread unsigned content[N];
    for (int i = 0; i < N; i++) content[i] = first + i;
    must(clEnqueueWriteBuffer(q, m, blocking, 0, sizeof content, content, 0, NULL, NULL), "write");
    if (!blocking) must(clFinish(q), "finish");
}
static unsigned sum_in(handle q, handle m) {
    unsigned found[N], sum = 0;
    must(clEnqueueReadBuffer(q, m, 1, 0, sizeof found, found, 0, NULL, NULL), "read");
    for (int i = 0; i < N; i++) sum = 31 * sum + found[i];
    return sum;
}
static void let_go(handle m) { must(clReleaseMemObject(m), "release"); }
static void one_round(handle k, unsigned r) {
    handle m = new_buffer(READ_WRITE, 4 * N, NULL);
    write_in(queue, m, r, 1); set_mem(k, 0, m); set_uint(k, 1, 3 * r); launch(k);
    unsigned sum = sum_in(queue, m);
    if (r % 7 == 0) printf("round %u: %u\n", r, sum);
    let_go(m);
}
static void warm_up(handle k) { for (unsigned r = 1; r < 15; r += 1 + (r % 7 == 6)) one_round(k, r); }

static void rounds(void) {
    handle k = new_kernel("add");
    for (unsigned r = 0; r < MANY; r++) one_round(k, r);
    for (unsigned r = 0; r < MANY; r++) { /* of many sizes, in another order than they were made in */
        handle all[5]; unsigned sum = 0;
        for (unsigned i = 0; i < 5; i++) {
            size_t nbytes = 0;
            write_in(queue, all[i] = new_buffer(i % 2 ? READ_WRITE : 0, 4 * (N + (r + i) % 9), NULL), 100 * i + r, i % 2);
            must(clGetMemObjectInfo(all[i], 0x1102, sizeof nbytes, &nbytes, NULL), "size"); sum = 3 * sum + nbytes;
        }
        for (unsigned i = 0; i < 5; i++) { set_mem(k, 0, all[i]); set_uint(k, 1, i + r); launch(k); }
        for (unsigned i = 0; i < 5; i++) { sum = 17 * sum + sum_in(queue, all[i]); let_go(all[r % 2 ? i : 4 - i]), all[r % 2 ? i : 4 - i] = NULL; if (r % 2 == 0) break; }
        for (unsigned i = 0; i < 5; i++) if (all[i] != NULL) sum = 17 * sum + sum_in(queue, all[i]), let_go(all[i]);
        if (r % 8 == 0) printf("sizes %u: %u\n", r, sum);
    }
    must(clReleaseKernel(k), "release");
    for (unsigned r = 0; r < MANY; r++) k = new_kernel("add"), one_round(k, r), must(clReleaseKernel(k), "release");
}
static void shared(void) { /* one buffer for both arguments, and two */
    handle k = new_kernel("both");
    for (unsigned r = 0; r < MANY; r++) {
        handle a = new_buffer(READ_WRITE, 4 * N, NULL), b = new_buffer(READ_WRITE, 4 * N, NULL);
        write_in(queue, a, r, 1); write_in(queue, b, 50 * r, 1);
        set_mem(k, 0, a); set_mem(k, 1, r % 3 == 1 ? a : b); set_uint(k, 2, r); launch(k);
        set_mem(k, 0, b); set_mem(k, 1, r % 4 == 2 ? b : a); launch(k);
        must(clEnqueueCopyBuffer(queue, a, b, 0, 4 * N / 2, 4 * N / 2, 0, NULL, NULL), "copy");
        if (r % 5 == 0) printf("shared %u: %u %u\n", r, sum_in(queue, a), sum_in(queue, b));
        let_go(a); let_go(b);
    }
}
static void content(void) { /* the program changes its memory at once, and the device is at work with something else */
    handle k = new_kernel("add"), other = new_kernel("slow"), busy = new_buffer(READ_WRITE, 4 * N, NULL);
    unsigned given[N];
    write_in(queue, busy, 1, 1); set_mem(other, 0, busy); set_uint(other, 1, 20000);
    for (unsigned r = 0; r < MANY; r++) {
        handle all[3]; unsigned sum = 0;
        launch(other);
        for (unsigned j = 0; j < 3; j++) {
            for (int i = 0; i < N; i++) given[i] = 1000 * j + r * i;
            all[j] = new_buffer(READ_WRITE | COPIES, sizeof given, given);
            memset(given, 0xff, sizeof given);
            set_mem(k, 0, all[j]); set_uint(k, 1, j); launch(k);
        }
        for (unsigned j = 0; j < 3; j++) sum = 13 * sum + sum_in(queue, all[j]), let_go(all[j]);
        if (r % 8 == 0) printf("content %u: %u\n", r, sum);
    }
    printf("busy: %u\n", sum_in(queue, busy));
}
static void kernels(void) { /* a new one has no argument */
    handle m = new_buffer(READ_WRITE, 4 * N, NULL);
    write_in(queue, m, 5, 1);
    for (unsigned r = 0; r < MANY; r++) {
        handle k = new_kernel("add"), l = new_kernel(r % 2 ? "both" : "near"); int32_t codes[5];
        codes[0] = launch_in(queue, k);
        set_mem(k, 0, m); codes[1] = launch_in(queue, k);
        set_uint(k, 1, r); codes[2] = launch_in(queue, k);
        codes[3] = launch_in(queue, l);
        set_mem(l, 0, m); if (r % 2) { set_mem(l, 1, m); set_uint(l, 2, 1); } else must(clSetKernelArg(l, 1, 64, NULL), "local");
        codes[4] = launch_in(queue, l);
        if (r % 8 < 2) printf("kernel %u: %d %d %d %d %d, %u\n", r, codes[0], codes[1], codes[2], codes[3], codes[4], sum_in(queue, m));
        if (r == 20) must(clRetainKernel(k), "retain"), must(clReleaseKernel(k), "release"), launch(k);
        must(clReleaseKernel(k), "release"); must(clReleaseKernel(l), "release");
        if (r == 30) printf("build: %d\n", clBuildProgram(program, 1, &device, "", NULL, NULL)); /* refused while it has kernels */
    }
    printf("kernels: %u\n", sum_in(queue, m));
}
static void pointers(void) { /* arguments in shared virtual memory: a new kernel has none, and then it has */
    unsigned *at = clSVMAlloc(context, READ_WRITE, 4 * N, 0);
    int32_t codes[3];
    warm_up(new_kernel("add"));
    for (unsigned r = 0; r < MANY; r++) {
        handle k = new_kernel("both"), m = new_buffer(READ_WRITE, 4 * N, NULL);
        write_in(queue, m, r, 1);
        must(clEnqueueSVMMemcpy(queue, 1, at, (unsigned[N]){r, 2, r}, 4 * N, 0, NULL, NULL), "copy");
        set_mem(k, 0, m); set_uint(k, 2, r); codes[0] = launch_in(queue, k);
        must(clSetKernelArgSVMPointer(k, 1, at), "pointer"); codes[1] = launch_in(queue, k);
        if (r % 2) set_mem(k, 1, m); /* and a buffer again */
        codes[2] = launch_in(queue, k);
        if (r % 8 < 2) printf("pointer %u: %d %d %d, %u\n", r, codes[0], codes[1], codes[2], sum_in(queue, m));
        must(clFinish(queue), "finish");
        let_go(m); must(clReleaseKernel(k), "release");
    }
    clSVMFree(context, at);
}
static void tell_end(handle m, void *count) { (void)m; ++*(_Atomic int *)count; }
static unsigned references(handle m) { unsigned count = 0; must(clGetMemObjectInfo(m, 0x1105, sizeof count, &count, NULL), "references"); return count; }
static void used_otherwise(void) { /* mapped, with a part, with a callback, held twice */
    static _Atomic int ends; int32_t code; handle k = new_kernel("add"), rest = NULL;
    for (unsigned r = 0; r < MANY; r++) {
        handle m = new_buffer(READ_WRITE, 4 * N, NULL), part = NULL; unsigned *at; const size_t region[2] = {0, 2 * N};
        uint64_t flags = 0; size_t nbytes = 0, was = ends;
        write_in(queue, m, r, 1); set_mem(k, 0, m); set_uint(k, 1, r); launch(k);
        must(clGetMemObjectInfo(m, 0x1101, sizeof flags, &flags, NULL), "flags"); must(clGetMemObjectInfo(m, 0x1102, sizeof nbytes, &nbytes, NULL), "size");
        if (r % 6 == 1) must(clSetMemObjectDestructorCallback(m, tell_end, &ends), "callback");
        if (r % 6 == 2) part = clCreateSubBuffer(m, 0, 0x1220, region, &code);
        if (r % 6 == 3) must(clRetainMemObject(m), "retain");
        if (r % 6 == 4) {
            at = clEnqueueMapBuffer(queue, m, 1, 3, 0, 4 * N, 0, NULL, NULL, &code);
            at[3] = 77; must(clEnqueueUnmapMemObject(queue, m, at, 0, NULL, NULL), "unmap");
        }
        if (r % 5 == 0) printf("used %u: %u, flags %u, %zu bytes, %u references\n", r, sum_in(queue, m), (unsigned)flags, nbytes, references(m));
        if (r % 6 == 3) let_go(m);
        must(clFinish(queue), "finish"); let_go(m);
        if (rest != NULL) { /* a part of a buffer that was released before this one was made */
            unsigned first = 0;
            must(clEnqueueReadBuffer(queue, rest, 1, 4, 4, &first, 0, NULL, NULL), "read"); printf("part %u: %u\n", r, first); let_go(rest);
        }
        rest = part;
        for (int i = 0; r % 6 == 1 && ends == (int)was && i < 60000; i++) usleep(1000);
    }
    printf("ends: %d\n", ends);
}
static void gated(void) { /* a command that waits for the program uses a buffer which is released meanwhile */
    int32_t code; handle k = new_kernel("add"), beside = clCreateCommandQueue(context, device, 0, &code); unsigned late[N] = {9};
    alarm(120);
    for (unsigned r = 0; r < 6; r++) {
        warm_up(k);
        handle gate = clCreateUserEvent(context, &code), m = new_buffer(READ_WRITE, 4 * N, NULL);
        write_in(queue, m, 1, 1);
        must(clEnqueueWriteBuffer(beside, m, 0, 0, sizeof late, late, 1, &gate, NULL), "write");
        let_go(m);
        m = new_buffer(READ_WRITE, 4 * N, NULL);
        write_in(queue, m, r, 1); set_mem(k, 0, m); set_uint(k, 1, r); launch(k);
        printf("gated %u: %u\n", r, sum_in(queue, m));
        must(clSetUserEventStatus(gate, 0), "gate"); must(clFinish(beside), "finish");
        printf("after: %u\n", sum_in(queue, m));
        let_go(m); clReleaseEvent(gate);
    }
}
static void held_events(void) { /* longer than what their commands used */
    handle k = new_kernel("add"), events[2 * MANY]; int32_t code; unsigned content[N] = {3}, states = 0, times = 0; size_t count = N;
    handle timed = clCreateCommandQueue(context, device, 2, &code);
    for (unsigned r = 0; r < MANY; r++) {
        handle m = new_buffer(READ_WRITE, 4 * N, NULL), q = r % 2 ? timed : queue;
        must(clEnqueueWriteBuffer(q, m, 0, 0, sizeof content, content, 0, NULL, &events[2 * r]), "write");
        set_mem(k, 0, m); set_uint(k, 1, r);
        must(clEnqueueNDRangeKernel(q, k, 1, NULL, &count, NULL, 1, &events[2 * r], &events[2 * r + 1]), "launch");
        must(clWaitForEvents(1, &events[2 * r + 1]), "wait"); let_go(m);
    }
    handle m = new_buffer(READ_WRITE, 4 * N, NULL), mapped; /* Python has not heard of the last ones yet */
    unsigned *at = clEnqueueMapBuffer(queue, m, 1, 2, 0, 4 * N, 4, events + 2 * MANY - 4, &mapped, &code); must(code, "map");
    must(clEnqueueUnmapMemObject(queue, m, at, 1, &mapped, NULL), "unmap"); must(clFinish(queue), "finish"); let_go(m); clReleaseEvent(mapped);
    for (unsigned i = 0; i < 2 * MANY; i++) {
        int32_t state = 5; uint64_t start = 0, end = 0;
        must(clGetEventInfo(events[i], 0x11D3, sizeof state, &state, NULL), "state"); states += state != 0;
        int is_timed = clGetEventProfilingInfo(events[i], 0x1282, sizeof start, &start, NULL) == 0;
        clGetEventProfilingInfo(events[i], 0x1283, sizeof end, &end, NULL);
        times += is_timed && start <= end;
        must(clReleaseEvent(events[i]), "release");
    }
    printf("events: %u not complete, %u timed\n", states, times);
}
static void *in_thread(void *number) {
    unsigned mine = (unsigned)(uintptr_t)number; int32_t code;
    handle k = new_kernel("add"), q = clCreateCommandQueue(context, device, 0, &code); unsigned wrong = 0;
    for (unsigned r = 0; r < 150; r++) {
        handle m = new_buffer(READ_WRITE, 4 * N, NULL); unsigned found[N];
        write_in(q, m, 1000 * mine + r, r % 2); set_mem(k, 0, m); set_uint(k, 1, mine); must(launch_in(q, k), "launch");
        must(clEnqueueReadBuffer(q, m, 1, 0, sizeof found, found, 0, NULL, NULL), "read");
        for (unsigned i = 0; i < N; i++) wrong += found[i] != 1001 * mine + r + i;
        let_go(m);
        if (r % 10 == 9) { must(clReleaseKernel(k), "release"); k = new_kernel("add"); }
    }
    return (void *)(uintptr_t)wrong;
}
static void threads(void) {
    pthread_t all[4]; void *wrong;
    for (uintptr_t i = 0; i < 4; i++) pthread_create(&all[i], NULL, in_thread, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(all[i], &wrong), printf("thread %d: %u wrong\n", i, (unsigned)(uintptr_t)wrong);
}
static void leaky(void) { /* many at once, and some never released */
    handle k = new_kernel("add"), all[300]; unsigned sum = 0;
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < 300; i++) { write_in(queue, all[i] = new_buffer(READ_WRITE, 4 * N << (i % 3), NULL), i, 1); set_mem(k, 0, all[i]); set_uint(k, 1, turn); launch(k); }
        for (unsigned i = 0; i < 300; i++) { sum = 7 * sum + sum_in(queue, all[i]); if (i % 50 != 7) let_go(all[i]); }
        printf("leaky: %u\n", sum);
    }
}
static void gone(void) { /* arguments that are released; natively such launches may do anything */
    int32_t code; handle k = new_kernel("add"), clone, m, other;
    warm_up(k); warm_up(k);
    m = new_buffer(READ_WRITE, 4 * N, NULL); write_in(queue, m, 1, 1); set_mem(k, 0, m); launch(k);
    clone = clCloneKernel(k, &code); must(code, "clone");
    let_go(m);
    printf("gone: %d", launch_in(queue, k)); printf(" %d", launch_in(queue, clone)); printf(" %d", clEnqueueTask(queue, k, 0, NULL, NULL));
    printf(", released: %d", clSetKernelArg(k, 0, sizeof m, &m)); printf(" %d", clRetainMemObject(m));
    other = new_buffer(READ_WRITE, 4 * N, NULL); write_in(queue, other, 1, 1);
    printf(", again: %d %d", other == m, launch_in(queue, k)); printf(" %d", launch_in(queue, clone));
    set_mem(k, 0, other); printf(" %d", launch_in(queue, k)); printf(" %d\n", launch_in(queue, clone));
    let_go(other);
    other = new_buffer(READ_WRITE, 4 * N, NULL); set_mem(k, 0, other); /* of which Python is told once it is gone */
    let_go(other);
    clone = new_kernel("slow");
    printf("untold: %d\n", launch_in(queue, k));
}
static void tell_context(handle c, void *count) { (void)c; ++*(_Atomic int *)count; }
static void contexts(void) { /* what is kept does not keep its context */
    static _Atomic int ends; int32_t code;
    extern int32_t clSetContextDestructorCallback(handle, void (*)(handle, void *), void *);
    for (int r = 0; r < 3; r++) {
        handle outer = context, before = queue, old = program;
        context = clCreateContext(NULL, 1, &device, NULL, NULL, &code); must(code, "context");
        queue = clCreateCommandQueue(context, device, 0, &code);
        program = clCreateProgramWithSource(context, 1, &source, NULL, &code); must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
        must(clSetContextDestructorCallback(context, tell_context, &ends), "callback");
        handle k = new_kernel("add"), last = r % 2 ? new_buffer(READ_WRITE, 4 * N, NULL) : NULL; warm_up(k);
        must(clReleaseKernel(k), "release"); must(clReleaseProgram(program), "release"); must(clReleaseCommandQueue(queue), "release"); must(clReleaseContext(context), "release");
        if (last != NULL) let_go(last);
        for (int i = 0; ends <= r && i < 60000; i++) usleep(1000);
        printf("contexts gone: %d\n", ends);
        context = outer; queue = before; program = old;
    }
}

static const struct {
    const char *name;
    void (*make)(void);
    int is_vdevs; /* natively it may do anything, or is not there */
} parts[] = {{"rounds", rounds, 0}, {"shared", shared, 0}, {"content", content, 0}, {"used", used_otherwise, 0}, {"gated", gated, 0}, {"events", held_events, 0},
             {"threads", threads, 0}, {"leaky", leaky, 0}, {"kernels", kernels, 0}, {"pointers", pointers, 0}, {"gone", gone, 1}, {"contexts", contexts, 1}};

int main(int count, char **words) {
    handle platform; int32_t code;
    clGetPlatformIDs(1, &platform, NULL);
    clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, NULL);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    queue = clCreateCommandQueue(context, device, 0, &code);
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (count > 1 ? strcmp(words[1], parts[i].name) == 0 : !parts[i].is_vdevs)
            parts[i].make();
    return 0;
}
