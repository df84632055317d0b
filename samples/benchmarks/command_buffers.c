/* What `command_buffers.py` measures: the same commands enqueued one by one, and as one command buffer
   (cl_khr_command_buffer). Prints the driver behind a `#`, and figures, a name and a number a line:
   `check NAME` 1 where the driver does what the specification says, 0 where it does not;
   `KIND, N, WAY, FIGURE` microseconds of a row of N commands, the lower quartile of rounds taken in turn: of the thread that
   submits, by the clock up to the end, and of all the process's threads. */
#define CL_TARGET_OPENCL_VERSION 300
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<CL/cl.h>)
#include <CL/cl.h>
#else /* the few declarations that it needs, for machines without the Khronos headers */
typedef struct cl_thing *cl_platform_id, *cl_device_id, *cl_context, *cl_command_queue, *cl_program, *cl_kernel, *cl_mem,
    *cl_event;
typedef int32_t cl_int;
typedef struct { uint32_t version; char name[64]; } cl_name_version;
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFF
#define CL_MEM_READ_WRITE 1
#define CL_TRUE 1
#define CL_DEVICE_EXTENSIONS_WITH_VERSION 0x1060
#define CL_PLATFORM_NAME 0x0902
#define CL_DRIVER_VERSION 0x102D
#define CL_QUEUE_PROPERTIES 0x1093
#define CL_QUEUE_PROFILING_ENABLE 2
#define CL_PROFILING_COMMAND_START 0x1282
#define CL_PROFILING_COMMAND_END 0x1283
#define CL_EVENT_COMMAND_EXECUTION_STATUS 0x11D3
cl_int clGetPlatformIDs(uint32_t, cl_platform_id *, uint32_t *);
cl_int clGetPlatformInfo(cl_platform_id, uint32_t, size_t, void *, size_t *);
cl_int clGetDeviceIDs(cl_platform_id, uint64_t, uint32_t, cl_device_id *, uint32_t *);
cl_int clGetDeviceInfo(cl_device_id, uint32_t, size_t, void *, size_t *);
cl_context clCreateContext(const void *, uint32_t, const cl_device_id *, void *, void *, cl_int *);
cl_command_queue clCreateCommandQueueWithProperties(cl_context, cl_device_id, const uint64_t *, cl_int *);
cl_program clCreateProgramWithSource(cl_context, uint32_t, const char **, const size_t *, cl_int *);
cl_int clBuildProgram(cl_program, uint32_t, const cl_device_id *, const char *, void *, void *);
cl_kernel clCreateKernel(cl_program, const char *, cl_int *);
cl_mem clCreateBuffer(cl_context, uint64_t, size_t, void *, cl_int *);
cl_event clCreateUserEvent(cl_context, cl_int *);
cl_int clSetUserEventStatus(cl_event, cl_int);
cl_int clGetEventInfo(cl_event, uint32_t, size_t, void *, size_t *);
cl_int clGetEventProfilingInfo(cl_event, uint32_t, size_t, void *, size_t *);
cl_int clReleaseEvent(cl_event);
cl_int clReleaseKernel(cl_kernel);
cl_int clReleaseMemObject(cl_mem);
cl_int clSetKernelArg(cl_kernel, uint32_t, size_t, const void *);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t,
                              const cl_event *, cl_event *);
cl_int clEnqueueCopyBuffer(cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, uint32_t, const cl_event *, cl_event *);
cl_int clEnqueueFillBuffer(cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, uint32_t, const cl_event *,
                           cl_event *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, uint32_t, size_t, size_t, void *, uint32_t, const cl_event *, cl_event *);
cl_int clFlush(cl_command_queue);
cl_int clFinish(cl_command_queue);
cl_int clWaitForEvents(uint32_t, const cl_event *);
void *clGetExtensionFunctionAddressForPlatform(cl_platform_id, const char *);
#endif

/* The extensions' own declarations, of all their versions: the headers that a machine has may know an older one. */
enum {
    CAPABILITIES = 0x12A9, REQUIRED_PROPERTIES = 0x12AA, MUTABLE_CAPABILITIES = 0x12B0, FLAGS = 0x1293,
    UPDATABLE_FIELDS = 0x12B1, AGAIN_WHILE_PENDING = 1, MUTABLE = 2, MUTABLE_ARGUMENTS = 8, CAN_BE_PENDING_TWICE = 4,
    DISPATCH_CONFIG = 0, VERSION_WITH_PROPERTIES = 9 << 12 | 5, VERSION_WITH_ARRAYS = 9 << 12 | 2,
};
typedef struct buffer_thing *Buffer;
typedef struct command_thing *Command;
typedef struct { uint32_t index; size_t size; const void *value; } Argument;
typedef struct {
    Command command;
    uint32_t argument_count, svm_count, info_count, dimensions;
    const Argument *arguments, *svm;
    const void *infos;
    const size_t *offset, *global, *local;
} Update;
static Buffer (*create)(uint32_t, const cl_command_queue *, const uint64_t *, cl_int *);
static cl_int (*finalize)(Buffer), (*release)(Buffer);
static cl_int (*enqueue)(uint32_t, cl_command_queue *, Buffer, uint32_t, const cl_event *, cl_event *);
static cl_int (*record_launch)(Buffer, cl_command_queue, const uint64_t *, cl_kernel, uint32_t, const size_t *, const size_t *,
                               const size_t *, uint32_t, const uint32_t *, uint32_t *, Command *);
static cl_int (*record_copy)(Buffer, cl_command_queue, const uint64_t *, cl_mem, cl_mem, size_t, size_t, size_t, uint32_t,
                             const uint32_t *, uint32_t *, Command *);
static cl_int (*record_copy_before)(Buffer, cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, uint32_t,
                                    const uint32_t *, uint32_t *, Command *);
static cl_int (*update)(Buffer, uint32_t, const uint32_t *, const void **);

enum { MOST = 16, SMALL = 64, LARGE = 1 << 18 };
static const char *source =
    "kernel void empty(global int *a, int b) {}\n"
    "kernel void add(global int *a, int b) { size_t i = get_global_id(0); a[i] = a[i] * 3 + b; }\n"
    "kernel void shift(global const int *a, global int *b) { size_t i = get_global_id(0); b[i] = a[i] + (int)i; }\n"
    "kernel void slow(global int *a, int b) { int s = b; for (int k = 0; k < 2000000; k++) s = s * 5 + k; a[0] += s | 1; }\n";
static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;
static uint32_t version, mutable_version;
static uint64_t capabilities, mutable_fields;

static void check(int code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "%s: %d\n", what, code);
    exit(1);
}

static int rounds = 31; /* at most MOST_ROUNDS */
enum { MOST_ROUNDS = 99 };

static double microseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void find_versions(void) {
    cl_name_version names[256];
    size_t nbytes = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS_WITH_VERSION, sizeof names, names, &nbytes)) return;
    for (size_t i = 0; i < nbytes / sizeof *names; i++) {
        if (!strcmp(names[i].name, "cl_khr_command_buffer")) version = names[i].version;
        if (!strcmp(names[i].name, "cl_khr_command_buffer_mutable_dispatch")) mutable_version = names[i].version;
    }
    if (!version) return;
    check(clGetDeviceInfo(device, CAPABILITIES, sizeof capabilities, &capabilities, NULL), "capabilities");
    if (mutable_version >= VERSION_WITH_ARRAYS)
        check(clGetDeviceInfo(device, MUTABLE_CAPABILITIES, sizeof mutable_fields, &mutable_fields, NULL), "mutable fields");
}

static void *function(const char *name) {
    void *found = clGetExtensionFunctionAddressForPlatform(platform, name);
    if (!found) check(1, name);
    return found;
}

static void open_device(void) {
    uint64_t properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    int code;
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    char name[256] = "", driver[256] = "";
    check(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL), "clGetPlatformInfo");
    check(clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof driver, driver, NULL), "clGetDeviceInfo");
    printf("# %s %s\n", name, driver);
    find_versions();
    if (!version) return;
    *(void **)&create = function("clCreateCommandBufferKHR");
    *(void **)&finalize = function("clFinalizeCommandBufferKHR");
    *(void **)&release = function("clReleaseCommandBufferKHR");
    *(void **)&enqueue = function("clEnqueueCommandBufferKHR");
    *(void **)&record_launch = function("clCommandNDRangeKernelKHR");
    *(void **)&record_copy = function("clCommandCopyBufferKHR");
    *(void **)&record_copy_before = function("clCommandCopyBufferKHR");
    if (mutable_fields) *(void **)&update = function("clUpdateMutableCommandsKHR");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    queue = clCreateCommandQueueWithProperties(context, device, (void *)properties, &code);
    check(code, "clCreateCommandQueueWithProperties");
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
}

static cl_mem memory(size_t items) {
    int code, zero = 0;
    cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, items * sizeof(int), NULL, &code);
    check(code, "clCreateBuffer");
    check(clEnqueueFillBuffer(queue, made, &zero, sizeof zero, 0, items * sizeof(int), 0, NULL, NULL), "fill");
    return made;
}

static cl_kernel kernel(const char *name, cl_mem first, size_t size, const void *second) {
    int code;
    cl_kernel made = clCreateKernel(program, name, &code);
    check(code, name);
    check(clSetKernelArg(made, 0, sizeof first, &first), "clSetKernelArg");
    check(clSetKernelArg(made, 1, size, second), "clSetKernelArg");
    return made;
}

static int first_of(cl_mem given) {
    int found = 0;
    check(clEnqueueReadBuffer(queue, given, CL_TRUE, 0, sizeof found, &found, 0, NULL, NULL), "read");
    return found;
}

static Buffer begin(uint64_t flags) {
    uint64_t properties[] = {FLAGS, flags, 0};
    int code;
    if (!(capabilities & CAN_BE_PENDING_TWICE)) properties[1] &= ~(uint64_t)AGAIN_WHILE_PENDING;
    Buffer made = create(1, &queue, properties, &code);
    check(code, "clCreateCommandBufferKHR");
    return made;
}

static void add_launch(Buffer into, cl_kernel given, size_t items, Command *command) {
    uint64_t properties[] = {UPDATABLE_FIELDS, MUTABLE_ARGUMENTS, 0};
    size_t local = SMALL < items ? SMALL : items;
    check(record_launch(into, NULL, command ? properties : NULL, given, 1, NULL, &items, &local, 0, NULL, NULL, command),
          "clCommandNDRangeKernelKHR");
}

static void add_copy(Buffer into, cl_mem from, cl_mem to, size_t nbytes) {
    int code = version >= VERSION_WITH_PROPERTIES
                   ? record_copy(into, NULL, NULL, from, to, 0, 0, nbytes, 0, NULL, NULL, NULL)
                   : record_copy_before(into, NULL, from, to, 0, 0, nbytes, 0, NULL, NULL, NULL);
    check(code, "clCommandCopyBufferKHR");
}

static void submit(Buffer given, uint32_t waits, const cl_event *wait, cl_event *event) {
    check(enqueue(0, NULL, given, waits, wait, event), "clEnqueueCommandBufferKHR");
}

static void set_values(Buffer given, int count, const Command *commands, uint32_t index, size_t size, const void *values) {
    Argument arguments[MOST];
    Update updates[MOST];
    uint32_t kinds[MOST];
    const void *all[MOST];
    memset(updates, 0, sizeof updates);
    for (int i = 0; i < count; i++) {
        arguments[i] = (Argument){index, size, (const char *)values + (size_t)i * size};
        updates[i].command = commands[i];
        updates[i].argument_count = 1;
        updates[i].arguments = &arguments[i];
        kinds[i] = DISPATCH_CONFIG;
        all[i] = &updates[i];
    }
    check(update(given, (uint32_t)count, kinds, all), "clUpdateMutableCommandsKHR");
}

static void say(const char *name, int well) { printf("check %s\t%d\n", name, well); }

/* Commands of an in-order queue's buffer follow each other, as often as it is submitted. */
static void check_order(void) {
    cl_mem a = memory(SMALL), b = memory(SMALL);
    int one = 1, wanted = 0;
    cl_kernel add = kernel("add", a, sizeof one, &one), back = kernel("add", b, sizeof one, &one);
    Buffer made = begin(AGAIN_WHILE_PENDING);
    for (int i = 0; i < 4; i++) {
        add_launch(made, add, SMALL, NULL);
        add_copy(made, a, b, SMALL * sizeof(int));
        add_launch(made, back, SMALL, NULL);
        add_copy(made, b, a, SMALL * sizeof(int));
    }
    check(finalize(made), "clFinalizeCommandBufferKHR");
    for (int k = 0; k < 50; k++) {
        submit(made, 0, NULL, NULL);
        if (!(capabilities & CAN_BE_PENDING_TWICE)) check(clFinish(queue), "clFinish");
        for (int i = 0; i < 8; i++) wanted = (int)((uint32_t)wanted * 3u + 1u);
    }
    say("order", first_of(a) == wanted);
    check(release(made), "clReleaseCommandBufferKHR");
}

/* What is recorded stays as it was, whatever becomes of what it was made of. (Memory that kernels are given may go, as for
   clSetKernelArg; that of copies may not.) */
enum { ARGUMENT_SET, KERNEL_RELEASED, MEMORY_RELEASED };

static void check_recorded(int what, const char *name) {
    cl_mem a = memory(SMALL), b = memory(SMALL);
    int five = 5, nine = 9;
    cl_kernel add = kernel("add", what == MEMORY_RELEASED ? b : a, sizeof five, &five);
    Buffer made = begin(0);
    if (what != MEMORY_RELEASED) add_launch(made, add, SMALL, NULL);
    add_copy(made, a, b, SMALL * sizeof(int));
    if (what == MEMORY_RELEASED) add_launch(made, add, SMALL, NULL);
    check(finalize(made), "clFinalizeCommandBufferKHR");
    check(clFinish(queue), "clFinish");
    if (what == ARGUMENT_SET) check(clSetKernelArg(add, 1, sizeof nine, &nine), "clSetKernelArg");
    if (what == KERNEL_RELEASED) check(clReleaseKernel(add), "clReleaseKernel");
    if (what == MEMORY_RELEASED) check(clReleaseMemObject(a), "clReleaseMemObject");
    say(name, !enqueue(0, NULL, made, 0, NULL, NULL) && first_of(b) == 5);
    check(release(made), "clReleaseCommandBufferKHR");
}

/* A wait list holds the whole of it; its event ends behind all commands, and has times. */
static void check_events(void) {
    cl_mem a = memory(SMALL), b = memory(SMALL);
    int seven = 7, code, status = -1, before;
    uint64_t started = 0, ended = 0;
    cl_event gate = clCreateUserEvent(context, &code), event;
    check(code, "clCreateUserEvent");
    check(clFinish(queue), "clFinish");
    cl_kernel add = kernel("add", a, sizeof seven, &seven);
    Buffer made = begin(0);
    add_launch(made, add, SMALL, NULL);
    add_copy(made, a, b, SMALL * sizeof(int));
    check(finalize(made), "clFinalizeCommandBufferKHR");
    submit(made, 1, &gate, &event);
    check(clFlush(queue), "clFlush");
    nanosleep(&(struct timespec){0, 100000000}, NULL); /* long enough for commands that wait for nothing */
    check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof before, &before, NULL), "clGetEventInfo");
    check(clSetUserEventStatus(gate, 0), "clSetUserEventStatus");
    check(clWaitForEvents(1, &event), "clWaitForEvents");
    check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL), "clGetEventInfo");
    say("waits for events", before > 0 && status == 0 && first_of(b) == 7);
    code = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof started, &started, NULL) |
           clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof ended, &ended, NULL);
    say("has times", !code && started && started <= ended);
    check(clReleaseEvent(event), "clReleaseEvent");
    check(release(made), "clReleaseCommandBufferKHR");
}

/* Values told while earlier submissions are pending are those of later ones alone; and so is other memory. */
static void check_updates(void) {
    cl_mem a = memory(SMALL), b = memory(SMALL), both[2] = {a, b};
    int zero = 0, wanted[2] = {0, 0}, well;
    cl_kernel add = kernel("add", a, sizeof zero, &zero), slow = kernel("slow", memory(1), sizeof zero, &zero);
    size_t one = 1;
    Command command;
    Buffer made = begin(AGAIN_WHILE_PENDING | MUTABLE);
    add_launch(made, add, SMALL, &command);
    check(finalize(made), "clFinalizeCommandBufferKHR");
    check(clEnqueueNDRangeKernel(queue, slow, 1, NULL, &one, NULL, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    for (int k = 1; k < 200; k++) {
        set_values(made, 1, &command, 1, sizeof k, &k);
        set_values(made, 1, &command, 0, sizeof a, &both[k % 2]);
        submit(made, 0, NULL, NULL);
        if (k == 1) check(clFlush(queue), "clFlush");
        wanted[k % 2] = (int)((uint32_t)wanted[k % 2] * 3u + (uint32_t)k);
    }
    well = first_of(a) == wanted[0];
    say("updates while pending", first_of(b) == wanted[1] && well);
    check(release(made), "clReleaseCommandBufferKHR");
}

typedef struct { double thread, wall, process; } Times;
enum { ALONE, TOGETHER, WAYS };

static int by_thread(const void *a, const void *b) {
    double one = ((const Times *)a)->thread, two = ((const Times *)b)->thread;
    return (one > two) - (one < two);
}
static int by_wall(const void *a, const void *b) {
    double one = ((const Times *)a)->wall, two = ((const Times *)b)->wall;
    return (one > two) - (one < two);
}
static int by_process(const void *a, const void *b) {
    double one = ((const Times *)a)->process, two = ((const Times *)b)->process;
    return (one > two) - (one < two);
}

/* A row of commands: launches of a kernel with the same values or with others each time, or copies. */
typedef struct {
    const char *kind;
    cl_kernel kernel;
    cl_mem from, to;
    size_t items;
    int count, changes;
    Buffer made;
    Command commands[MOST];
} Row;

/* Each command has an event, as who learns of failures needs it. */
static void submit_alone(Row *row, int round) {
    size_t local = SMALL;
    for (int i = 0; i < row->count; i++) {
        cl_event event;
        int value = round * MOST + i;
        if (row->changes) check(clSetKernelArg(row->kernel, 1, sizeof value, &value), "clSetKernelArg");
        check(row->kernel ? clEnqueueNDRangeKernel(queue, row->kernel, 1, NULL, &row->items, &local, 0, NULL, &event)
                          : clEnqueueCopyBuffer(queue, row->from, row->to, 0, 0, row->items * sizeof(int), 0, NULL, &event),
              "enqueue");
        check(clReleaseEvent(event), "clReleaseEvent");
    }
}

static void submit_together(Row *row, int round) {
    cl_event event;
    int values[MOST];
    for (int i = 0; i < row->count; i++) values[i] = round * MOST + i;
    if (row->changes) set_values(row->made, row->count, row->commands, 1, sizeof *values, values);
    submit(row->made, 0, NULL, &event);
    check(clReleaseEvent(event), "clReleaseEvent");
}

static Times time_of(Row *row, int way, int repeats) {
    check(clFinish(queue), "clFinish");
    double thread = microseconds(CLOCK_THREAD_CPUTIME_ID), wall = microseconds(CLOCK_MONOTONIC);
    double process = microseconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int k = 0; k < repeats; k++) (way == ALONE ? submit_alone : submit_together)(row, k);
    double submitted = microseconds(CLOCK_THREAD_CPUTIME_ID);
    check(clFinish(queue), "clFinish");
    return (Times){(submitted - thread) / repeats, (microseconds(CLOCK_MONOTONIC) - wall) / repeats,
                   (microseconds(CLOCK_PROCESS_CPUTIME_ID) - process) / repeats};
}

static void measure(Row *row) {
    static const char *names[WAYS] = {"separate", "buffer"};
    static Times found[WAYS][MOST_ROUNDS];
    int repeats = row->items == SMALL ? 200 : 20;
    row->made = begin(AGAIN_WHILE_PENDING | (row->changes ? MUTABLE : 0));
    for (int i = 0; i < row->count; i++)
        if (row->kernel) add_launch(row->made, row->kernel, row->items, row->changes ? &row->commands[i] : NULL);
        else add_copy(row->made, row->from, row->to, row->items * sizeof(int));
    check(finalize(row->made), "clFinalizeCommandBufferKHR");
    for (int round = -3; round < rounds; round++) /* the first ones warm up */
        for (int way = 0; way < WAYS; way++) found[way][round < 0 ? 0 : round] = time_of(row, way, repeats);
    for (int way = 0; way < WAYS; way++) {
        Times *all = found[way];
        qsort(all, (size_t)rounds, sizeof *all, by_thread);
        printf("%s, %d, %s, thread\t%.9g\n", row->kind, row->count, names[way], all[rounds / 4].thread);
        qsort(all, (size_t)rounds, sizeof *all, by_wall);
        printf("%s, %d, %s, wall\t%.9g\n", row->kind, row->count, names[way], all[rounds / 4].wall);
        qsort(all, (size_t)rounds, sizeof *all, by_process);
        printf("%s, %d, %s, process\t%.9g\n", row->kind, row->count, names[way], all[rounds / 4].process);
    }
    check(release(row->made), "clReleaseCommandBufferKHR");
}

static void measure_all(void) {
    int value = 3;
    cl_mem a = memory(LARGE), b = memory(LARGE);
    cl_kernel empty = kernel("empty", a, sizeof value, &value), add = kernel("add", a, sizeof value, &value);
    Row rows[] = {
        {"empty", empty, 0, 0, SMALL, 0, 0, 0, {0}},     {"one work-group", add, 0, 0, SMALL, 0, 0, 0, {0}},
        {"other value", add, 0, 0, SMALL, 0, 1, 0, {0}}, {"large", add, 0, 0, LARGE, 0, 0, 0, {0}},
        {"copy", 0, a, b, SMALL, 0, 0, 0, {0}},          {"large copy", 0, a, b, LARGE, 0, 0, 0, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int count = 1; count <= MOST; count *= 2) {
            if (rows[i].changes && !(mutable_fields & MUTABLE_ARGUMENTS)) continue;
            rows[i].count = count;
            measure(&rows[i]);
        }
}

int main(int count, char **words) {
    if (count > 1) rounds = atoi(words[1]);
    if (rounds < 1 || rounds > MOST_ROUNDS) return fprintf(stderr, "usage: command_buffers [ROUNDS]\n"), 2;
    open_device();
    printf("version\t%u\nmutable version\t%u\ncapabilities\t%llu\nmutable fields\t%llu\n", version, mutable_version,
           (unsigned long long)capabilities, (unsigned long long)mutable_fields);
    if (!version) return 0;
    check_order();
    check_recorded(ARGUMENT_SET, "keeps its arguments");
    check_recorded(KERNEL_RELEASED, "keeps kernels");
    check_recorded(MEMORY_RELEASED, "keeps memory of copies");
    check_events();
    if (mutable_fields & MUTABLE_ARGUMENTS && capabilities & CAN_BE_PENDING_TWICE) check_updates();
    if (capabilities & CAN_BE_PENDING_TWICE) measure_all();
    return 0;
}
