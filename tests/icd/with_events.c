/* Commands with events, wait lists and times between launches that repeat what is known: what they leave, and what is said of their events,
 * must be as natively.
 *
 * `with_events NAME` does one of the things below.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256, NBYTES = 4 * N, MANY = 200, WARM = 12 };
static cl_context context;
static cl_device_id device;
static cl_program program;
static cl_command_queue plain, profiled, unordered;
static const char *source =
    "kernel void add(global uint *a, uint by) { a[get_global_id(0)] += by; }\n"
    "kernel void mix(global uint *to, global const uint *from, uint by) {\n"
    "    size_t i = get_global_id(0); to[i] = 3 * from[(i + 1) % 256] + by; }\n"
    "kernel void slow(global uint *a, uint n) {\n"
    "    uint x = a[get_global_id(0)]; for (uint i = 0; i < n; i++) x = x * 1664525u + 1013904223u; a[get_global_id(0)] = x; }\n";
static size_t size = N, group = 64;

static void must(cl_int code, const char *what) {
    if (code != 0) printf("%s: %d\n", what, code);
}
static cl_kernel kernel(const char *name, cl_mem first, cl_uint by) {
    cl_int code; cl_kernel k = clCreateKernel(program, name, &code);
    must(code, name); must(clSetKernelArg(k, 0, sizeof first, &first), "set");
    if (strcmp(name, "mix") != 0) must(clSetKernelArg(k, 1, sizeof by, &by), "set");
    return k;
}
static void set(cl_kernel k, cl_uint at, cl_uint value) { must(clSetKernelArg(k, at, sizeof value, &value), "set"); }
static void set_mem(cl_kernel k, cl_uint at, cl_mem mem) { must(clSetKernelArg(k, at, sizeof mem, &mem), "set"); }
static cl_mem buffer(cl_uint first, cl_mem_flags flags) {
    cl_uint content[N]; cl_int code;
    for (int i = 0; i < N; i++) content[i] = first + i;
    cl_mem made = clCreateBuffer(context, flags | CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, NBYTES, content, &code);
    return must(code, "clCreateBuffer"), made;
}
static cl_int launch(cl_command_queue q, cl_kernel k, cl_uint count, const cl_event *list, cl_event *event) {
    return clEnqueueNDRangeKernel(q, k, 1, NULL, &size, &group, count, list, event);
}
static cl_event launched(cl_command_queue q, cl_kernel k) {
    cl_event event; must(launch(q, k, 0, NULL, &event), "launch");
    return event;
}
static void warm(cl_command_queue q, cl_kernel k) { for (int i = 0; i < WARM; i++) must(launch(q, k, 0, NULL, NULL), "launch"); }
static cl_uint sum_of(const cl_uint *found) {
    cl_uint sum = 0;
    for (int i = 0; i < N; i++) sum = 31 * sum + found[i];
    return sum;
}
static void show(const char *what, cl_mem mem) {
    cl_uint found[N]; must(clEnqueueReadBuffer(plain, mem, 1, 0, NBYTES, found, 0, NULL, NULL), "read");
    printf("%s: %u\n", what, sum_of(found));
}
static cl_int state(cl_event event) {
    cl_int found = 77; must(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof found, &found, NULL), "status");
    return found;
}
static cl_uint type(cl_event event) {
    cl_command_type found = 0; must(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof found, &found, NULL), "type");
    return found;
}
static cl_uint references(cl_event event) {
    cl_uint found = 0; must(clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof found, &found, NULL), "references");
    return found;
}

/* The times of a command that is complete are in order, and it began no earlier than the one before it ended: 0 where that is so. */
static int times_wrong(cl_event event, cl_ulong *ended) {
    cl_ulong at[5];
    for (int i = 0; i < 5; i++)
        if (clGetEventProfilingInfo(event, i < 4 ? CL_PROFILING_COMMAND_QUEUED + i : 0x1284, sizeof at[i], &at[i], NULL) != (i < 4 ? 0 : 0) && i < 4)
            return 100;
    int wrong = at[0] > at[1] || at[1] > at[2] || at[2] > at[3] || at[2] < *ended;
    *ended = at[3];
    return wrong;
}

/* Each kind of command, with an event or without, waiting for the one before or not, blocking or not. */
static void kinds_in(cl_command_queue q, const char *name, int is_profiled) {
    cl_mem a = buffer(0, 0), b = buffer(1000, 0); cl_kernel k = kernel("add", a, 3), m = kernel("mix", b, 0);
    set_mem(m, 1, a); set(m, 2, 5);
    cl_uint host[N], got[N], sum = 0, kinds = 0, wrong = 0, open = 0; cl_ulong ended = 0;
    for (int i = 0; i < WARM; i++) must(launch(q, k, 0, NULL, NULL), "launch"), clFinish(q), must(launch(q, m, 0, NULL, NULL), "launch"), clFinish(q);
    for (int i = 0; i < 2 * MANY; i++) {
        cl_event event = NULL, before; cl_uint pattern[4] = {i, i + 1, i + 2, i + 3};
        set(k, 1, i); before = launched(q, k);
        int what = i * 7 % 12, waits = i / 12 % 2, wants = i / 5 % 3 > 0, blocks = i / 3 % 2; size_t at = 16 * (i % 9), nbytes = i % 5 ? 64 : NBYTES - at;
        if (q == unordered) waits = 1;
        const cl_event *list = waits ? &before : NULL; cl_event *out = wants || q == unordered ? &event : NULL;
        for (int n = 0; n < N; n++) host[n] = i * n;
        switch (what) {
        case 0: case 1: case 2: must(clEnqueueWriteBuffer(q, a, blocks, at, nbytes, host, waits, list, out), "write"); break;
        case 3: case 4: must(clEnqueueReadBuffer(q, a, blocks, at, nbytes, got, waits, list, out), "read"); break;
        case 5: must(clEnqueueCopyBuffer(q, a, b, at, 0, nbytes, waits, list, out), "copy"); break;
        case 6: must(clEnqueueFillBuffer(q, b, pattern, 16, 16, 64, waits, list, out), "fill"); break;
        case 7: must(launch(q, m, waits, list, out), "mix"); break;
        case 8: must(clEnqueueMarkerWithWaitList(q, waits, list, out), "marker"); break;
        case 9: must(clEnqueueBarrierWithWaitList(q, waits, list, out), "barrier"); break;
        case 10: must(clEnqueueWriteBuffer(q, b, blocks, 0, NBYTES, host, waits, list, out), "write all"); break;
        default: must(clEnqueueCopyBuffer(q, b, a, 0, 0, NBYTES, waits, list, out), "copy all");
        }
        if (i % 4 == 0) must(clFinish(q), "finish");
        if (event != NULL) {
            if (what == 3 || what == 4) { must(clWaitForEvents(1, &event), "wait"); sum += sum_of(got) * 0 + got[3]; }
            else if (i % 3 == 0 || what < 3 || what == 10 || q == unordered) must(clWaitForEvents(1, &event), "wait");
            kinds = 31 * kinds + type(event);
            must(clWaitForEvents(1, &before), "wait");
            if (i % 4 == 0) open += state(event) != 0;
            if (is_profiled) { must(clWaitForEvents(1, &event), "wait"); wrong += times_wrong(before, &ended) + times_wrong(event, &ended); }
            must(clReleaseEvent(event), "release");
        } else { must(clFinish(q), "finish"); if (what == 3 || what == 4) sum += got[3]; }
        if (q == unordered) must(clFinish(q), "finish");
        must(clReleaseEvent(before), "release");
    }
    printf("%s: read %u, types %u, times wrong %u, open %u\n", name, sum, kinds, wrong, open);
    show("a", a); show("b", b);
    clReleaseMemObject(a); clReleaseMemObject(b); clReleaseKernel(k); clReleaseKernel(m);
}
static void kinds(void) { kinds_in(plain, "plain", 0); kinds_in(profiled, "profiled", 1); kinds_in(unordered, "unordered", 0); }

static void late(void) { /* events of many commands are kept until all are through, and asked in another order */
    cl_mem a = buffer(0, 0); cl_kernel k = kernel("add", a, 3); static cl_event all[3 * MANY]; cl_ulong ended = 0; int wrong = 0, open = 0;
    warm(profiled, k);
    for (int i = 0; i < 3 * MANY; i++) { set(k, 1, i); all[i] = launched(profiled, k); if (i % 50 == 49) clFlush(profiled); }
    must(clWaitForEvents(1, &all[3 * MANY - 1]), "wait");
    for (int i = 0; i < 3 * MANY; i++) open += state(all[i]) != 0, wrong += times_wrong(all[i], &ended);
    printf("late: %d open, %d wrong\n", open, wrong);
    must(clWaitForEvents(3 * MANY, all), "wait for all");
    for (int i = 3 * MANY - 1; i >= 0; i--) must(clReleaseEvent(all[i]), "release");
    for (int i = 0; i < 3 * MANY; i++) { cl_event event = launched(profiled, k); must(clRetainEvent(event), "retain"); if (references(event) != 2) printf("references\n"); clReleaseEvent(event); if (i % 70 == 0) clFinish(profiled), show("between", a); must(clReleaseEvent(event), "release"); }
    must(clFinish(profiled), "finish"); show("late", a);
}
static void dropped(void) { /* events are released before their commands are complete */
    cl_mem a = buffer(0, 0), b = buffer(9, 0); cl_kernel k = kernel("slow", a, 2000), m = kernel("mix", b, 0); cl_uint found[N] = {0}, other[N];
    set_mem(m, 1, a); set(m, 2, 1); warm(plain, k); warm(plain, m);
    for (int i = 0; i < 40; i++) {
        cl_event e[3]; set(k, 1, 20000 + i);
        must(launch(plain, k, 0, NULL, &e[0]), "launch"); must(launch(plain, m, 1, &e[0], &e[1]), "mix"); clReleaseEvent(e[0]);
        must(clEnqueueReadBuffer(plain, b, 0, 0, NBYTES, found, 1, &e[1], &e[2]), "read"); clReleaseEvent(e[1]);
        if (i % 2) clWaitForEvents(1, &e[2]); else must(clEnqueueReadBuffer(plain, a, 1, 0, NBYTES, other, 1, &e[2], NULL), "blocking");
        if (i % 8 == 0) printf("dropped %u %u\n", sum_of(found), i % 2 ? 0 : sum_of(other));
        clReleaseEvent(e[2]);
    }
    show("dropped", b);
}
static void arguments(void) { /* … are those of the enqueue, whatever is set afterwards; and so are the bytes of a blocking write */
    cl_mem a = buffer(0, 0), b = buffer(50, 0); cl_kernel s = kernel("slow", a, 1000), k = kernel("add", a, 1); cl_uint host[N];
    warm(plain, s); warm(plain, k); set_mem(k, 0, b); warm(plain, k);
    for (int i = 0; i < 60; i++) {
        cl_event e, last; set(s, 1, 30000); must(launch(plain, s, 0, NULL, &e), "slow");
        set_mem(k, 0, a); set(k, 1, i); must(launch(plain, k, 1, &e, &last), "add");
        set_mem(k, 0, b); set(k, 1, 1000 * i); set(s, 1, 7);
        must(launch(plain, k, 1, &last, NULL), "add");
        for (int n = 0; n < N; n++) host[n] = i + n;
        if (i % 6 == 0) { must(clEnqueueWriteBuffer(plain, b, 1, 0, 64, host, 1, &last, NULL), "write"); memset(host, 255, sizeof host); }
        clReleaseEvent(e); clReleaseEvent(last);
    }
    show("arguments a", a); show("arguments b", b);
}
static void refused(void) {
    cl_int code; cl_mem a = buffer(0, 0), b = buffer(5, 0), closed = buffer(5, CL_MEM_HOST_NO_ACCESS), shown_only = buffer(5, CL_MEM_HOST_READ_ONLY); cl_kernel k = kernel("add", a, 3), m = kernel("mix", b, 0), c = kernel("add", closed, 1), d = kernel("add", shown_only, 1); cl_uint host[N + 8] = {0};
    set_mem(m, 1, a); set(m, 2, 1);
    cl_context elsewhere = clCreateContext(NULL, 1, &device, NULL, NULL, &code); cl_command_queue there = clCreateCommandQueue(elsewhere, device, 0, &code);
    cl_event foreign, event, mine; cl_program apart = clCreateProgramWithSource(elsewhere, 1, &source, NULL, &code);
    must(clBuildProgram(apart, 1, &device, "", NULL, NULL), "build");
    cl_kernel its = clCreateKernel(apart, "add", &code); cl_mem own = clCreateBuffer(elsewhere, CL_MEM_READ_WRITE, NBYTES, NULL, &code);
    set_mem(its, 0, own); set(its, 1, 1); warm(there, its); foreign = launched(there, its); clFinish(there);
    cl_buffer_region half = {0, NBYTES / 2}; cl_mem part = clCreateSubBuffer(a, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code);
    cl_kernel of_part = kernel("slow", part, 1); size_t few = 64;
    for (int r = 0; r < 2; r++) {
        cl_command_queue q = r ? profiled : plain;
#define TRY(call) do { /* an error ends what is ready */ \
    for (int i = 0; i < WARM; i++) must(clEnqueueNDRangeKernel(q, of_part, 1, NULL, &few, &few, 0, NULL, NULL), "launch"); \
    warm(q, k); warm(q, m); warm(q, c); warm(q, d); printf("%s: %d\n", #call, call); } while (0)
        warm(q, k); mine = launched(q, k);
        cl_event pair[2] = {mine, foreign}, bad[1] = {(cl_event)a}; size_t big; cl_ulong time; char byte;
        TRY(launch(q, k, 1, &foreign, NULL)); TRY(launch(q, k, 2, pair, &event)); TRY(clEnqueueReadBuffer(q, a, 1, 0, 4, host, 2, pair, NULL));
        TRY(launch(q, k, 1, NULL, NULL)); TRY(launch(q, k, 0, &mine, NULL)); TRY(launch(q, k, 1, bad, NULL));
        TRY(clWaitForEvents(1, bad) != 0); TRY(clWaitForEvents(0, NULL)); TRY(clWaitForEvents(2, pair));
        TRY(clEnqueueReadBuffer(q, a, 1, 8, NBYTES, host, 1, &mine, NULL)); TRY(clEnqueueReadBuffer(q, a, 0, NBYTES, 4, host, 0, NULL, &event));
        TRY(clEnqueueWriteBuffer(q, a, 1, NBYTES - 4, 8, host, 0, NULL, NULL)); TRY(clEnqueueWriteBuffer(q, a, 1, 0, 8, NULL, 0, NULL, NULL));
        TRY(clEnqueueCopyBuffer(q, a, a, 0, 8, 64, 0, NULL, NULL)); TRY(clEnqueueCopyBuffer(q, a, b, 8, 8, NBYTES, 0, NULL, NULL));
        TRY(clEnqueueCopyBuffer(q, a, a, 0, 128, 64, 0, NULL, NULL)); TRY(clEnqueueFillBuffer(q, a, host, 3, 0, 12, 0, NULL, NULL));
        TRY(clEnqueueFillBuffer(q, a, host, 8, 4, 16, 0, NULL, NULL)); TRY(clEnqueueFillBuffer(q, a, host, 8, 8, 12, 0, NULL, NULL));
        TRY(clEnqueueReadBuffer(q, closed, 1, 0, 4, host, 0, NULL, NULL)); TRY(clEnqueueWriteBuffer(q, closed, 1, 0, 4, host, 0, NULL, NULL));
        TRY(clEnqueueReadBuffer(q, shown_only, 1, 0, 4, host, 0, NULL, NULL)); TRY(clEnqueueWriteBuffer(q, shown_only, 1, 0, 4, host, 0, NULL, NULL));
        TRY(clEnqueueReadBuffer(q, part, 1, NBYTES / 2, 4, host, 0, NULL, NULL)); TRY(clEnqueueCopyBuffer(q, b, part, 0, 8, NBYTES / 2, 0, NULL, NULL));
        TRY(clGetEventInfo(mine, 0x1234, 8, &big, NULL)); TRY(clGetEventInfo(mine, CL_EVENT_COMMAND_EXECUTION_STATUS, 1, &byte, NULL));
        must(clFinish(q), "finish");
        TRY(clGetEventProfilingInfo(mine, CL_PROFILING_COMMAND_END, 8, &time, NULL)); TRY(clGetEventProfilingInfo(mine, CL_PROFILING_COMMAND_END, 4, &time, NULL));
        TRY(clGetEventProfilingInfo(mine, 0x1299, 8, &time, NULL) != 0);
        cl_command_queue of = NULL; cl_context in = NULL; size_t nbytes = 0;
        must(clGetEventInfo(mine, CL_EVENT_COMMAND_QUEUE, sizeof of, &of, &nbytes), "queue"); must(clGetEventInfo(mine, CL_EVENT_CONTEXT, sizeof in, &in, NULL), "context");
        printf("of %d %d %zu %x %d\n", of == q, in == context, nbytes, type(mine), state(mine));
        clReleaseEvent(mine); clFinish(q); show("refused", a); show("b", b);
    }
    clReleaseEvent(foreign); clReleaseCommandQueue(there); clReleaseContext(elsewhere);
}

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t counted = PTHREAD_COND_INITIALIZER;
static int called, codes;
static void CL_CALLBACK call(cl_event event, cl_int code, void *data) {
    pthread_mutex_lock(&counting);
    called++; codes += 100 * (code != (int)(size_t)data) + (code < 0);
    pthread_cond_signal(&counted);
    pthread_mutex_unlock(&counting);
}
static void await(int count) {
    pthread_mutex_lock(&counting);
    while (called < count) pthread_cond_wait(&counted, &counting);
    pthread_mutex_unlock(&counting);
}
static void callbacks(void) { /* before and after the end, for each state; then the event is dropped */
    cl_mem a = buffer(0, 0); cl_kernel k = kernel("add", a, 3), s = kernel("slow", a, 100); cl_uint host[N]; called = codes = 0; int due = 0;
    warm(plain, k); warm(plain, s);
    for (int i = 0; i < 60; i++) {
        cl_event event;
        if (i % 3 == 0) event = launched(plain, k);
        else if (i % 3 == 1) { set(s, 1, 100000); event = launched(plain, s); }
        else must(clEnqueueReadBuffer(plain, a, 0, 0, NBYTES, host, 0, NULL, &event), "read");
        if (i % 4 == 0) must(clWaitForEvents(1, &event), "wait");
        for (size_t at = 0; at < 3; at++) must(clSetEventCallback(event, at, call, (void *)at), "callback"), due++;
        if (i % 5 == 0) launch(plain, k, 1, &event, NULL);
        clReleaseEvent(event);
        if (i % 10 == 9) { clFlush(plain); await(due); warm(plain, k); warm(plain, s); }
    }
    await(due); printf("callbacks: %d, codes %d\n", called, codes); show("called", a);
}
static void *set_later(void *event) { usleep(3000); must(clSetUserEventStatus(((cl_event *)event)[0], ((cl_int *)event)[4]), "set"); return NULL; }
static void gate_of(int r) { /* a user event that another thread sets, well or badly */
    cl_mem a = buffer(r, 0), b = buffer(9, 0); cl_kernel k = kernel("add", a, 3), other = kernel("add", b, 1); cl_command_queue q = r % 2 ? profiled : plain; cl_int code; pthread_t thread;
    struct { cl_event gate; cl_int pad[2], code; } given; cl_event e[4]; cl_uint host[N]; cl_ulong time;
    warm(q, k); warm(q, other); e[0] = launched(q, k);
    given.gate = clCreateUserEvent(context, &code); given.code = r >= 4 ? -7 - r : 0;
    cl_event both[2] = {e[0], given.gate};
    must(launch(q, k, 2, both, &e[1]), "held"); must(launch(q, other, 0, NULL, &e[3]), "behind");
    must(clEnqueueReadBuffer(unordered, a, 0, 0, NBYTES, host, 1, &e[1], &e[2]), "read");
    int before = clGetEventProfilingInfo(e[1], CL_PROFILING_COMMAND_END, 8, &time, NULL);
    pthread_create(&thread, NULL, set_later, &given);
    int waited = clWaitForEvents(1, &e[2]); pthread_join(thread, NULL);
    int all = clWaitForEvents(3, e);
    must(clFinish(q), "finish");
    printf("gate %d: %d %d %d, states %d %d %d, profiled %d %d\n", r, before, waited, all, state(e[0]), state(e[1]) < 0, state(e[2]) < 0,
           clGetEventProfilingInfo(e[1], CL_PROFILING_COMMAND_END, 8, &time, NULL) == 0, clGetEventProfilingInfo(e[0], CL_PROFILING_COMMAND_START, 8, &time, NULL));
    warm(q, k);
    if (given.code == 0) must(launch(q, other, 1, &e[1], NULL), "later"), clFinish(q), show("gate", a);
    clFinish(q); show("other", b);
    for (int i = 0; i < 4; i++) clReleaseEvent(e[i]);
    clReleaseEvent(given.gate); clReleaseKernel(k); clReleaseKernel(other); clReleaseMemObject(a); clReleaseMemObject(b);
}
static void opened(void) { for (int r = 0; r < 4; r++) gate_of(r); }
static void failing(void) { for (int r = 4; r < 8; r++) gate_of(r); }
static void outlived(void) { /* the queue, the kernel and the memory are released before the event */
    for (int i = 0; i < 30; i++) {
        cl_int code; cl_command_queue q = clCreateCommandQueue(context, device, i % 2 ? CL_QUEUE_PROFILING_ENABLE : 0, &code), of;
        cl_mem a = buffer(i, 0); cl_kernel k = kernel("add", a, 3); cl_ulong ended = 0; cl_uint wrong = 0, count = 0;
        warm(q, k); cl_event e = launched(q, k), last; must(launch(q, k, 1, &e, &last), "launch");
        clReleaseMemObject(a); clReleaseKernel(k); clReleaseCommandQueue(q);
        must(clWaitForEvents(1, &last), "wait"); must(clGetEventInfo(last, CL_EVENT_COMMAND_QUEUE, sizeof of, &of, NULL), "queue");
        if (i % 2) wrong = times_wrong(e, &ended) + times_wrong(last, &ended);
        if (of != q || state(e) || state(last) || wrong) printf("outlived %d\n", i);
        clReleaseEvent(e); clReleaseEvent(last);
    }
    printf("outlived\n");
}
struct mine { int number; cl_mem memory; cl_event *seen; };
static pthread_barrier_t gate;
static cl_event shown[8];
static void *thread(void *given) { /* each waits for the event of its neighbour as well */
    struct mine *mine = given; cl_int code; cl_ulong ended = 0; cl_uint found[N];
    cl_command_queue q = clCreateCommandQueue(context, device, mine->number % 2 ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    cl_kernel k = kernel("add", mine->memory, 1);
    for (int i = 0; i < 60; i++) {
        cl_event next;
        set(k, 1, mine->number + i); must(launch(q, k, 0, NULL, &shown[mine->number]), "launch");
        pthread_barrier_wait(&gate);
        cl_event pair[2] = {shown[(mine->number + 1) % 8], shown[mine->number]};
        if (i % 2) must(launch(q, k, 2, pair, &next), "launch"); else must(clEnqueueReadBuffer(q, mine->memory, i % 4 == 0, 0, NBYTES, found, 2, pair, &next), "read");
        must(clWaitForEvents(2, pair), "wait"); must(clWaitForEvents(1, &next), "wait");
        if (state(next) || state(pair[0])) printf("open\n");
        if (mine->number % 2 && times_wrong(next, &ended)) printf("times\n");
        clReleaseEvent(next); pthread_barrier_wait(&gate);
        clReleaseEvent(shown[mine->number]);
    }
    must(clFinish(q), "finish"); clReleaseKernel(k); clReleaseCommandQueue(q);
    return NULL;
}
static void threads(void) {
    pthread_t all[8]; struct mine mine[8];
    pthread_barrier_init(&gate, NULL, 8);
    for (int i = 0; i < 8; i++) { mine[i] = (struct mine){i, buffer(i, 0), NULL}; pthread_create(&all[i], NULL, thread, &mine[i]); }
    for (int i = 0; i < 8; i++) pthread_join(all[i], NULL);
    for (int i = 0; i < 8; i++) show("thread", mine[i].memory);
}
static void held(void) { /* the events of the first commands of their kind: what is waited for behind them has to end them as well */
    cl_mem a = buffer(0, 0), b = buffer(9, 0); cl_kernel k = kernel("add", a, 3); cl_uint found[N]; cl_int code; int open = 0; unsigned sum = 0;
    cl_event gate = clCreateUserEvent(context, &code);
    for (int i = 0; i < 40; i++) {
        cl_kernel s = kernel("slow", b, 300000); warm(plain, k);
        cl_event event = launched(plain, s); must(launch(plain, k, 0, NULL, NULL), "launch");
        if (i % 2) must(clEnqueueReadBuffer(plain, a, 1, 0, NBYTES, found, 0, NULL, NULL), "read");
        else { memset(found, 0, sizeof found); must(clEnqueueReadBuffer(plain, a, 0, 0, NBYTES, found, 0, NULL, NULL), "read"); must(clFinish(plain), "finish"); }
        open += state(event) != 0; sum = 31 * sum + sum_of(found); clReleaseEvent(event); clReleaseKernel(s);
    }
    clReleaseEvent(gate); printf("held: %d open, %u\n", open, sum);
}
static void transfers(void) {
    cl_mem a = buffer(0, 0); cl_kernel k = kernel("add", a, 3); cl_uint host[N] = {1};
    warm(plain, k);
    for (int i = 0; i < 2 * MANY; i++) { cl_event e; host[1] = i; must(clEnqueueWriteBuffer(plain, a, 0, 0, NBYTES, host, 0, NULL, &e), "write"); must(clWaitForEvents(1, &e), "wait"); clReleaseEvent(e); }
    show("transfers", a);
}
static void leaky(void) { /* events are never released: behind a finish they are known to be complete, and concern nobody */
    cl_mem a = buffer(0, 0); cl_kernel k = kernel("add", a, 3); cl_event first = launched(plain, k), kept[20]; cl_uint found, sum = 0;
    for (int i = 0; i < 8; i++) launched(plain, k);
    must(clFinish(plain), "finish");
    for (int i = 0; i < MANY; i++) {
        kept[i % 20] = launched(plain, k); must(clEnqueueReadBuffer(plain, a, 1, 4, 4, &found, 0, NULL, NULL), "read"); sum = 31 * sum + found;
        if (state(kept[i / 2 % 20 > i % 20 ? 0 : i / 2 % 20]) || state(first)) printf("open\n");
    }
    printf("leaky %u\n", sum);
}
static void short_lived(void) { /* memory, kernels and queues come and go beside launches that repeat what is known */
    cl_mem a = buffer(0, 0), other = NULL; cl_kernel k = kernel("add", a, 3), m; cl_uint found, sum = 0; cl_int code;
    warm(plain, k);
    for (int i = 0; i < MANY; i++) {
        must(launch(plain, k, 0, NULL, NULL), "launch");
        if (i % 4 == 0) other = buffer(i, 0), m = kernel("add", other, 2);
        if (i % 4 < 3) must(launch(plain, m, 0, NULL, NULL), "launch");
        else { set_mem(m, 0, a); must(clEnqueueReadBuffer(plain, other, 1, 8, 4, &found, 0, NULL, NULL), "read"); sum = 31 * sum + found; clReleaseMemObject(other); must(launch(plain, m, 0, NULL, NULL), "launch"); clReleaseKernel(m); }
        if (i % 9 == 8) { cl_command_queue q = clCreateCommandQueue(context, device, 0, &code); clFinish(plain); warm(q, k); clFinish(q); clReleaseCommandQueue(q); }
        if (i % 11 == 10) { cl_buffer_region half = {0, 512}; cl_mem part = clCreateSubBuffer(a, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &code); must(code, "part"); clReleaseMemObject(part); }
    }
    printf("short-lived %u\n", sum); show("a", a);
}
static void forked(void) {
    cl_mem a = buffer(0, 0); cl_kernel k = kernel("add", a, 3);
    warm(plain, k); cl_event e = launched(plain, k);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) { clReleaseEvent(e); _exit(0); }
    int status; waitpid(child, &status, 0);
    must(launch(plain, k, 1, &e, NULL), "launch"); must(clWaitForEvents(1, &e), "wait"); clReleaseEvent(e);
    printf("child %d\n", WIFEXITED(status)); show("parent", a);
}
static void left(void) { /* nobody waits, and nothing is released */
    cl_mem a = buffer(0, 0); cl_kernel k = kernel("add", a, 3);
    for (int i = 0; i < 100; i++) launched(i % 2 ? plain : profiled, k);
    printf("left\n");
}
int main(int count, char **words) {
    static const struct { const char *name; void (*run)(void); } all[] = {
        {"kinds", kinds}, {"late", late}, {"dropped", dropped}, {"arguments", arguments}, {"refused", refused}, {"callbacks", callbacks},
        {"opened", opened}, {"outlived", outlived}, {"threads", threads}, {"held", held}, {"transfers", transfers}, {"leaky", leaky}, {"short-lived", short_lived}, {"forked", forked}};
    cl_int code; cl_platform_id platform;
    clGetPlatformIDs(1, &platform, NULL); clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    plain = clCreateCommandQueue(context, device, 0, &code); profiled = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
    unordered = clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (count < 2 || strcmp(words[1], all[i].name) == 0) all[i].run(), fflush(stdout);
    clFinish(plain); clFinish(profiled); clFinish(unordered);
    if (count == 2 && strcmp(words[1], "failing") == 0) failing(); /* some drivers crash here, and at the end of what is left */
    if (count == 2 && strcmp(words[1], "left") == 0) left();
    return 0;
}
