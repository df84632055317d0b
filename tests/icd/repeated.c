/* Launches that repeat what is known, with something else in between each time: what they leave must be as natively.
 *
 * `repeated NAME` does one of the things below. Numbers are small, so that every launch can be told from the others.
 */
#define _GNU_SOURCE
#include "few.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256, ROOM = N + 64, MANY = 200 };
static handle context, device, program, queue;
static const char *source =
    "kernel void add(global uint *a, uint by) { a[get_global_id(0)] += by; }\n"
    "kernel void mix(global uint *to, global const uint *from, uint by) {\n"
    "    size_t i = get_global_id(0); to[i] = 3 * from[(i + 1) % 256] + by; }\n"
    "kernel void near(global uint *a, local uint *l, uint by) {\n"
    "    size_t i = get_local_id(0); l[i] = a[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    a[get_global_id(0)] = l[(i + 1) % get_local_size(0)] + by; }\n"
    "kernel void plane(global uint *a, uint by) { a[get_global_id(1) * 16 + get_global_id(0)] += by * get_num_groups(1); }\n"
    "kernel void both(global uint *a, local uint *l, local uint *m, uint count) {\n"
    "    uint sum = 0; for (uint i = 0; i < count; i++) { l[i] = i + 1; m[i] = 3 * i; }\n"
    "    for (uint i = 0; i < count; i++) sum = 31 * sum + l[i] - m[i]; a[get_group_id(0)] += sum; }\n"
    "    " /* what would overlap if one of them were too small */
    "kernel void maybe(global uint *a, global const uint *b) { a[get_global_id(0)] += b ? b[0] : 7; }\n";

static void must(int code, const char *what) {
    if (code != 0) printf("%s: %d\n", what, code);
}
static handle kernel(const char *name) {
    int32_t code; handle made = clCreateKernel(program, name, &code);
    return must(code, name), made;
}
static handle buffer(unsigned first) {
    int32_t code; unsigned content[ROOM];
    for (int i = 0; i < ROOM; i++) content[i] = first + i;
    handle made = clCreateBuffer(context, 1 | 32, sizeof content, content, &code);
    return must(code, "clCreateBuffer"), made;
}
static void set_uint(handle k, unsigned at, unsigned value) { must(clSetKernelArg(k, at, sizeof value, &value), "set"); }
static void set_mem(handle k, unsigned at, handle m) { must(clSetKernelArg(k, at, sizeof m, &m), "set"); }
static void launch_in(handle q, handle k, size_t count) {
    size_t local = count < 64 ? count : 64; must(clEnqueueNDRangeKernel(q, k, 1, NULL, &count, &local, 0, NULL, NULL), "launch");
}
static void launch(handle k) { launch_in(queue, k, N); }
static void show(const char *what, handle m) {
    unsigned found[ROOM], sum = 0;
    must(clEnqueueReadBuffer(queue, m, 1, 0, sizeof found, found, 0, NULL, NULL), "read");
    for (int i = 0; i < ROOM; i++) sum = 31 * sum + found[i];
    printf("%s: %u\n", what, sum);
}

static void same(void) {
    handle k = kernel("add"), a = buffer(0);
    set_mem(k, 0, a); set_uint(k, 1, 3);
    for (int i = 0; i < MANY; i++) launch(k);
    must(clFinish(queue), "finish"); show("same", a);
    for (int i = 0; i < MANY; i++) { launch(k); if (i % 7 == 0) must(clFlush(queue), "flush"); if (i % 50 == 0) show("in between", a); }
    show("again", a);
}
static void scalars(void) {
    handle k = kernel("mix"), other = kernel("mix"), a = buffer(0), b = buffer(9);
    set_mem(k, 0, a); set_mem(k, 1, b); set_mem(other, 0, b); set_mem(other, 1, a); set_uint(other, 2, 5);
    for (int i = 0; i < MANY; i++) { set_uint(k, 2, i * i); launch(k); launch(other); }
    show("scalars", a); show("others", b);
}
static void swapped(void) {
    handle k = kernel("mix"), a = buffer(0), b = buffer(9), c = buffer(70);
    for (int i = 0; i < MANY; i++) {
        handle to = i % 3 == 0 ? a : i % 3 == 1 ? b : c, from = i % 3 == 0 ? c : i % 3 == 1 ? a : b;
        set_mem(k, 0, to); set_mem(k, 1, from); set_uint(k, 2, i / 5); launch(k);
    }
    show("a", a); show("b", b); show("c", c);
}
static void spaces(void) {
    handle k = kernel("add"), a = buffer(0);
    set_mem(k, 0, a);
    for (int i = 0; i < MANY; i++) {
        size_t count = 64 << (i % 3), local = i % 2 ? 32 : 64, offset = i % 5 == 0 ? 64 : 0;
        set_uint(k, 1, i);
        must(clEnqueueNDRangeKernel(queue, k, 1, i % 5 < 2 ? &offset : NULL, &count, i % 4 == 3 ? NULL : &local, 0, NULL, NULL), "launch");
    }
    show("spaces", a);
    size_t square[2] = {16, 16}, part[2] = {8, 4};
    k = kernel("plane"); set_mem(k, 0, a);
    for (int i = 0; i < 20; i++) set_uint(k, 1, i % 3), must(clEnqueueNDRangeKernel(queue, k, 2, NULL, square, part, 0, NULL, NULL), "launch");
    show("square", a);
    size_t none = 0, count = N;
    k = kernel("add"); set_mem(k, 0, a); set_uint(k, 1, 1);
    for (int i = 0; i < 10; i++) must(clEnqueueNDRangeKernel(queue, k, 1, NULL, &count, NULL, 0, NULL, NULL), "launch");
    printf("no groups: %d\n", clEnqueueNDRangeKernel(queue, k, 1, NULL, &count, &none, 0, NULL, NULL) != 0);
}
static void written(void) {
    handle k = kernel("add"), a = buffer(0); unsigned content[N];
    set_mem(k, 0, a); set_uint(k, 1, 1);
    for (int r = 0; r < 12; r++) {
        for (int i = 0; i < 10; i++) launch(k);
        for (int i = 0; i < N; i++) content[i] = 1000 * r + i;
        must(clEnqueueWriteBuffer(queue, a, r % 2, 0, sizeof content / 2, content, 0, NULL, NULL), "write");
        for (int i = 0; i < 10; i++) launch(k);
        must(clEnqueueFillBuffer(queue, a, &r, 4, 4 * r, 40, 0, NULL, NULL), "fill");
        for (int i = 0; i < 10; i++) launch(k);
        show("round", a);
    }
}
static void events(void) {
    handle k = kernel("add"), a = buffer(0), event, other; int32_t code; unsigned state;
    set_mem(k, 0, a);
    size_t count = N, local = 64;
    for (int i = 0; i < MANY; i++) {
        set_uint(k, 1, i);
        if (i % 9 == 5) {
            must(clEnqueueNDRangeKernel(queue, k, 1, NULL, &count, &local, 0, NULL, &event), "launch");
            launch(k);
            must(clEnqueueNDRangeKernel(queue, k, 1, NULL, &count, &local, 1, &event, &other), "launch");
            must(clWaitForEvents(1, &other), "wait");
            must(clGetEventInfo(other, 0x11D3, sizeof state, &state, NULL), "info");
            if (state != 0) printf("state %u\n", state);
            clReleaseEvent(event); clReleaseEvent(other);
        } else launch(k);
    }
    show("events", a);
    for (int r = 0; r < 4; r++) { /* what waits for the program comes before what follows it */
        for (int i = 0; i < 10; i++) launch(k);
        handle gate = clCreateUserEvent(context, &code); unsigned hundred[N] = {100};
        must(clEnqueueWriteBuffer(queue, a, 0, 0, sizeof hundred, hundred, 1, &gate, NULL), "write");
        for (int i = 0; i < 10; i++) launch(k);
        must(clSetUserEventStatus(gate, 0), "set");
        for (int i = 0; i < 10; i++) launch(k);
        show("gate", a);
        clReleaseEvent(gate);
    }
    handle mix = kernel("mix"), b = buffer(5), beside = clCreateCommandQueue(context, device, 0, &code);
    handle gate = clCreateUserEvent(context, &code); unsigned late[N] = {7, 8, 9};
    set_mem(mix, 0, a); set_mem(mix, 1, b); set_uint(mix, 2, 1);
    for (int i = 0; i < 10; i++) launch(mix);
    must(clEnqueueNDRangeKernel(queue, mix, 1, NULL, &count, &local, 1, &gate, NULL), "launch");
    must(clEnqueueWriteBuffer(beside, b, 1, 0, sizeof late, late, 0, NULL, NULL), "write");
    must(clSetUserEventStatus(gate, 0), "set"); show("held up", a);
    clReleaseEvent(gate); clReleaseCommandQueue(beside);
}
static void queues(void) {
    int32_t code; handle k = kernel("add"), a = buffer(0), others[3];
    for (int i = 0; i < 3; i++) others[i] = clCreateCommandQueue(context, device, i, &code), must(code, "queue");
    set_mem(k, 0, a);
    for (int r = 0; r < 20; r++) {
        handle q = others[r % 3];
        for (int i = 0; i < 10; i++) { set_uint(k, 1, r + i); launch_in(q, k, N); if (r % 3 == 1) must(clFinish(q), "finish"); }
        must(clFinish(q), "finish");
    }
    show("queues", a);
    for (int i = 0; i < 3; i++) clReleaseCommandQueue(others[i]);
}
static void arguments(void) {
    int32_t code; handle k = kernel("near"), m = kernel("maybe"), a = buffer(0), b = buffer(50);
    set_mem(k, 0, a); set_mem(m, 0, a);
    for (int i = 0; i < MANY; i++) {
        must(clSetKernelArg(k, 1, i % 40 < 20 ? 256 : 512, NULL), "local");
        set_uint(k, 2, i); launch(k);
        if (i % 50 < 25) must(clSetKernelArg(m, 1, sizeof b, NULL), "null"); else set_mem(m, 1, b);
        launch(m);
    }
    show("arguments", a);
    uint64_t wide = 1;
    for (int i = 0; i < 10; i++) launch(k), launch(m);
    printf("wide: %d\n", clSetKernelArg(k, 2, sizeof wide, &wide));
    printf("no memory: %d\n", clSetKernelArg(k, 0, sizeof k, &k) != 0);
    printf("no argument: %d\n", clSetKernelArg(k, 3, 4, &wide));
    for (int i = 0; i < 10; i++) launch(k);
    show("as before", a);
    handle copy = clCloneKernel(k, &code); must(code, "clone");
    set_uint(k, 2, 77); launch(k); handle later = clCloneKernel(k, &code);
    launch(copy); launch(later); show("copies", a);
}
static void parts(void) {
    int32_t code; handle k = kernel("add"), a = buffer(0), halves[2]; size_t about[2] = {0, 512};
    for (int i = 0; i < 2; i++) about[0] = 512 * i, halves[i] = clCreateSubBuffer(a, 1, 0x1220, about, &code), must(code, "part");
    for (int i = 0; i < MANY; i++) { set_mem(k, 0, i % 10 < 5 ? halves[i & 1] : a); set_uint(k, 1, i); launch_in(queue, k, 64); }
    show("parts", a);
    clReleaseMemObject(halves[0]); set_mem(k, 0, a); launch(k); show("one", a); clReleaseMemObject(halves[1]);
}
static void released(void) {
    handle k = kernel("add");
    for (int r = 0; r < 30; r++) { /* a new object may be where another one was */
        handle a = buffer(r); set_mem(k, 0, a); set_uint(k, 1, r);
        for (int i = 0; i < 8; i++) launch(k);
        if (r % 3 == 0) show("released", a);
        clReleaseMemObject(a);
        if (r % 5 == 4) { clReleaseKernel(k); k = kernel("add"); }
    }
}
static void kernels(void) {
    handle k = kernel("add"), a = buffer(0), b = buffer(7);
    for (int r = 0; r < 30; r++) {
        set_mem(k, 0, r % 2 ? a : b); set_uint(k, 1, r);
        for (int i = 0; i < 8; i++) launch(k);
        clReleaseKernel(k); k = kernel("add");
    }
    show("of one", a); show("of the other", b);
}
static void orphan(void) { /* drivers differ in what they say of it */
    handle k = kernel("add"), a = buffer(0);
    set_mem(k, 0, a); set_uint(k, 1, 1);
    for (int i = 0; i < 100; i++) launch(k);
    clReleaseMemObject(a);
    size_t count = N, local = 64;
    for (int i = 0; i < 3; i++)
        printf("orphan: %d\n", clEnqueueNDRangeKernel(queue, k, 1, NULL, &count, &local, 0, NULL, NULL));
}
static void strange(void) { /* what is no memory object is not looked at, but refused */
    handle k = kernel("add"), a = buffer(0), nothing = (handle)(uintptr_t)0xdead0, gone = buffer(3);
    set_uint(k, 1, 1); clReleaseMemObject(gone);
    handle all[3] = {nothing, k, gone};
    for (int r = 0; r < 3; r++) {
        set_mem(k, 0, a);
        for (int i = 0; i < 100; i++) launch(k);
        printf("strange: %d\n", clSetKernelArg(k, 0, sizeof all[r], &all[r]));
        launch(k);
    }
    show("strange", a);
}
struct mine { int number; handle memory; };
static void *thread(void *given) {
    struct mine *mine = given; int32_t code;
    handle q = clCreateCommandQueue(context, device, 0, &code), k = kernel("add"), other = kernel("mix"), b = buffer(1);
    set_mem(k, 0, mine->memory); set_mem(other, 0, b); set_mem(other, 1, mine->memory);
    for (int i = 0; i < MANY; i++) {
        set_uint(k, 1, mine->number + i); launch_in(q, k, N);
        if (i % 3 == mine->number % 3) set_uint(other, 2, i), launch_in(q, other, N);
        if (mine->number % 2 && i % 40 == 39) must(clFinish(q), "finish");
    }
    must(clFinish(q), "finish"); clReleaseMemObject(b); clReleaseCommandQueue(q);
    return NULL;
}
static void threads(void) {
    pthread_t all[8]; struct mine mine[8];
    for (int i = 0; i < 8; i++) { mine[i] = (struct mine){i, buffer(i)}; pthread_create(&all[i], NULL, thread, &mine[i]); }
    for (int i = 0; i < 8; i++) pthread_join(all[i], NULL);
    for (int i = 0; i < 8; i++) show("thread", mine[i].memory);
}
enum { AT_ONCE = 6, ROUNDS = 2500 };
static pthread_barrier_t gate;
static handle shared_kernel;
static void *sized(void *given) {
    for (int r = 0; r < ROUNDS; r++) {
        pthread_barrier_wait(&gate); /* there is a new kernel, of which nothing is ready */
        for (int i = 0; i < 6; i++) launch_in(queue, shared_kernel, (size_t)given);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}
static void sizes(void) { /* of one kernel, each thread's own: all fit into what is launched over, whichever is made */
    pthread_t all[AT_ONCE]; int32_t code;
    handle a = clCreateBuffer(context, 1, 64 << AT_ONCE, NULL, &code); must(code, "clCreateBuffer");
    static unsigned found[16 << AT_ONCE];
    must(clEnqueueWriteBuffer(queue, a, 1, 0, sizeof found, found, 0, NULL, NULL), "write");
    pthread_barrier_init(&gate, NULL, AT_ONCE + 1);
    for (size_t i = 0; i < AT_ONCE; i++) pthread_create(&all[i], NULL, sized, (void *)((size_t)32 << i));
    for (int r = 0; r < ROUNDS; r++) {
        shared_kernel = kernel("add"); set_mem(shared_kernel, 0, a); set_uint(shared_kernel, 1, 1);
        pthread_barrier_wait(&gate); pthread_barrier_wait(&gate);
        clReleaseKernel(shared_kernel);
    }
    for (int i = 0; i < AT_ONCE; i++) pthread_join(all[i], NULL);
    must(clEnqueueReadBuffer(queue, a, 1, 0, sizeof found, found, 0, NULL, NULL), "read");
    for (int i = 0; i < AT_ONCE; i++) printf("below %d: %u\n", 32 << i, found[(32 << i) - 1]);
}
/* What another thread does while a launch is made ready, as soon as one is: `at_ready` says what, and natively, where nothing is made
 * ready, `do_it` does it before the launch that comes next. */
static handle entered, put_in, held_in, opened_by;
static int has_come;
static void (*coming)(void);
static void *come(void *given) { coming(); return NULL; }
static void intrude(void) {
    pthread_t other;
    pthread_create(&other, NULL, come, NULL); pthread_join(other, NULL);
    has_come = 1;
}
static int at_ready(void (*function)(void)) {
    int (*run)(const char *), (*hold)(void); void (*let)(int); char words[1000];
    coming = function; has_come = 0;
    *(void **)&run = dlsym(RTLD_DEFAULT, "PyRun_SimpleString"); *(void **)&hold = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    *(void **)&let = dlsym(RTLD_DEFAULT, "PyGILState_Release");
    if (run == NULL) return 0;
    snprintf(words, sizeof words, /* vdev's Python, which lets other threads run meanwhile */
             "import ctypes\nfrom vdev.session.immediate import AtOnce\nasked = globals().get('asked', AtOnce.ready)\n"
             "def ready(*given):\n    found = asked(*given)\n    if found:\n        AtOnce.ready = asked\n"
             "        ctypes.CFUNCTYPE(None)(%llu)()\n    return found\n"
             "AtOnce.ready = ready\n", (unsigned long long)(uintptr_t)intrude);
    int state = hold(), failed = run(words); let(state);
    return !failed;
}
static int launch_until_it_is_done(handle k) { /* how often */
    int count = 0;
    for (; count < MANY && !has_come; count++) launch(k);
    if (!has_come) intrude();
    return count;
}
static unsigned at(handle m, int index) {
    unsigned found[N];
    must(clEnqueueReadBuffer(queue, m, 1, 0, sizeof found, found, 0, NULL, NULL), "read");
    return found[index];
}
static void put(void) { set_mem(entered, 0, put_in); }
static void between(void) { /* an argument is set */
    handle k = kernel("add"), a = buffer(0), b = buffer(0);
    set_mem(k, 0, a); set_uint(k, 1, 3); entered = k; put_in = b;
    at_ready(put);
    int count = launch_until_it_is_done(k);
    set_mem(k, 0, b);
    for (int i = 0; i < 9; i++) launch(k);
    printf("between: %u %u\n", at(a, 0) - 3 * count, at(b, 0));
}
static void put_aside(void) { /* … where another launch was ready before, with another buffer */
    handle k = kernel("add"), a = buffer(0), b = buffer(0), c = buffer(0);
    set_uint(k, 1, 3); set_mem(k, 0, b); launch(k); /* which brings it to the worker */
    set_mem(k, 0, a);
    for (int i = 0; i < 20; i++) launch(k);
    entered = k; put_in = c; at_ready(put);
    set_mem(k, 0, b);
    int count = launch_until_it_is_done(k);
    set_mem(k, 0, a);
    for (int i = 0; i < 9; i++) launch(k);
    printf("put aside: %u %u %u\n", at(a, 0), at(b, 0) - 3 * count, at(c, 0));
}
static void launch_a_part(void) { for (int i = 0; i < 9; i++) launch_in(queue, entered, 64); }
static void twins(void) { /* the same kernel is launched over another size, and that is made ready as well */
    handle k = kernel("add"), a = buffer(0);
    set_mem(k, 0, a); set_uint(k, 1, 3); entered = k;
    at_ready(launch_a_part);
    int count = launch_until_it_is_done(k);
    for (int i = 1; i < 9; i++) {
        set_uint(k, 1, 100 * i); launch(k); launch_in(queue, k, 64);
        set_uint(k, 1, 7 * i); launch_in(queue, k, 64); launch(k);
    }
    printf("twins: %u %u\n", at(a, 0) - 3 * count, at(a, N - 1) - 3 * count);
}
static void hold_back(void) {
    static unsigned thousand[N] = {1000}; int32_t code;
    opened_by = clCreateUserEvent(context, &code);
    must(clEnqueueWriteBuffer(queue, held_in, 0, 0, sizeof thousand, thousand, 1, &opened_by, NULL), "write");
}
static void overtaken(void) { /* a command is enqueued that waits for the program: what follows it in the queue does so as well */
    handle k = kernel("add"), a = buffer(0);
    set_mem(k, 0, a); set_uint(k, 1, 3); held_in = a;
    at_ready(hold_back);
    launch_until_it_is_done(k);
    for (int i = 0; i < 9; i++) launch(k);
    must(clSetUserEventStatus(opened_by, 0), "set");
    printf("overtaken: %u\n", at(a, 0));
    clReleaseEvent(opened_by);
}
static void reads(void) { /* of a few bytes behind each launch, and of others */
    int32_t code; handle k = kernel("add"), m = kernel("mix"), a = buffer(0), b = buffer(9), hidden, beside = clCreateCommandQueue(context, device, 0, &code);
    unsigned found[ROOM], sum = 0, refused = 0; handle event;
    hidden = clCreateBuffer(context, 1 | 1 << 9, sizeof found, NULL, &code); must(code, "hidden");
    set_mem(k, 0, a); set_mem(m, 0, b); set_mem(m, 1, a); set_uint(m, 2, 5);
    for (int i = 0; i < 3 * MANY; i++) {
        size_t at = 4 * (i % N), nbytes = i % 5 == 4 ? sizeof found - at : i % 5 == 3 ? 3 : 4;
        set_uint(k, 1, i); launch(k);
        if (i % 3 == 0) launch(m);
        memset(found, 0, sizeof found);
        must(clEnqueueReadBuffer(queue, i % 3 ? a : b, 1, at, nbytes, found, 0, NULL, NULL), "read");
        for (int n = 0; n < ROOM; n++) sum = 31 * sum + found[n];
        if (i < MANY) continue; /* from now on with something in between */
        if (i % 7 == 6) must(clEnqueueWriteBuffer(queue, a, i % 2, at, 4, &sum, 0, NULL, NULL), "write"), must(clFinish(queue), "finish");
        if (i % 11 == 10) must(clEnqueueFillBuffer(queue, b, &i, 4, 0, 64, 0, NULL, NULL), "fill");
        if (i % 13 == 12) must(clFinish(queue), "finish"), must(clEnqueueReadBuffer(beside, a, 1, at, 4, found, 0, NULL, NULL), "beside"), sum += found[0];
        if (i % 17 == 16) {
            must(clEnqueueReadBuffer(queue, a, 0, at, 4, found, 0, NULL, &event), "with an event");
            must(clWaitForEvents(1, &event), "wait"); sum += found[0]; clReleaseEvent(event);
        }
        if (i % 40 == 38) refused += clEnqueueReadBuffer(queue, a, 1, sizeof found - 2, 4, found, 0, NULL, NULL) == -30;
        if (i % 40 == 39) refused += clEnqueueReadBuffer(queue, a, 1, 0, 4, NULL, 0, NULL, NULL) == -30;
    }
    printf("reads: %u, refused %u\n", sum, refused);
    set_mem(k, 0, hidden);
    for (int i = 0; i < 20; i++) launch(k);
    printf("hidden: %d\n", clEnqueueReadBuffer(queue, hidden, 1, 0, 4, found, 0, NULL, NULL));
    handle part = kernel("add"), c = buffer(70); size_t few = 64; /* what no launch has touched is read as well */
    set_mem(part, 0, c); set_uint(part, 1, 1);
    for (int i = 0; i < 20; i++) launch_in(queue, part, few), show("a part", c);
    must(clFinish(queue), "finish"); must(clReleaseCommandQueue(beside), "release");
}
static void finished(void) { /* behind a read, everything that came before it in its queue is known to be complete */
    handle k = kernel("add"), a = buffer(0), event; unsigned found; int open = 0, state; size_t count = N, local = 64;
    set_mem(k, 0, a); set_uint(k, 1, 1);
    for (int i = 0; i < 50; i++) {
        for (int n = 0; n < 5; n++) launch(k);
        must(clEnqueueNDRangeKernel(queue, k, 1, NULL, &count, &local, 0, NULL, &event), "launch");
        if (i % 2) launch(k);
        must(clEnqueueReadBuffer(queue, a, 1, 0, sizeof found, &found, 0, NULL, NULL), "read");
        must(clGetEventInfo(event, 0x11D3, sizeof state, &state, NULL), "info");
        open += state != 0; clReleaseEvent(event);
    }
    printf("finished: %u, open %d\n", found, open);
}
/* Memory in work-groups that grows and shrinks between launches, or is set to what it was. */
static void locals(void) {
    handle k = kernel("both"), a = buffer(0); size_t count = N, local = 1;
    set_mem(k, 0, a);
    for (unsigned i = 0; i < 120; i++) {
        unsigned words = i % 40 < 20 ? 4 : 600 + i / 40;
        must(clSetKernelArg(k, 1, 4 * words, NULL), "local"); must(clSetKernelArg(k, 2, 4 * words, NULL), "local");
        set_uint(k, 3, words);
        must(clEnqueueNDRangeKernel(queue, k, 1, NULL, &count, &local, 0, NULL, NULL), "launch");
        if (i == 70) printf("a value: %d\n", clSetKernelArg(k, 1, 4 * words, &words));
    }
    show("locals", a);
}
static void forked(void) {
    handle k = kernel("add"), a = buffer(0);
    set_mem(k, 0, a); set_uint(k, 1, 1);
    for (int i = 0; i < 20; i++) launch(k);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(0);
    int status; waitpid(child, &status, 0);
    for (int i = 0; i < 20; i++) launch(k);
    show("parent", a);
}
static void left(void) { /* nobody waits */
    handle k = kernel("add"), a = buffer(0);
    set_mem(k, 0, a); set_uint(k, 1, 1);
    for (int i = 0; i < 20; i++) launch(k);
    printf("left\n");
}

int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"same", same}, {"scalars", scalars}, {"swapped", swapped}, {"spaces", spaces}, {"written", written},
        {"events", events}, {"queues", queues}, {"arguments", arguments}, {"parts", parts}, {"released", released},
        {"kernels", kernels}, {"threads", threads}, {"between", between}, {"put aside", put_aside},
        {"twins", twins}, {"reads", reads}, {"finished", finished}, {"overtaken", overtaken}, {"locals", locals}, {"forked", forked}, {"left", left}};
    int32_t code; handle platform;
    clGetPlatformIDs(1, &platform, NULL); clGetDeviceIDs(platform, 0xFFFFFFFFu, 1, &device, NULL);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    queue = clCreateCommandQueue(context, device, 0, &code);
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (count < 2 || strcmp(words[1], all[i].name) == 0) all[i].run();
    if (count == 2 && strcmp(words[1], "orphan") == 0) orphan();
    if (count == 2 && strcmp(words[1], "strange") == 0) strange();
    if (count == 2 && strcmp(words[1], "sizes") == 0) sizes();
    return 0;
}
