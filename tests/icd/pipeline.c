/* A host program of several threads, each with a context, a program out of a binary and queues of its own: graphs of events on queues out of
 * order, gates that callbacks of other threads' events open, memory that is mapped, shared virtual memory with pointers in it, images,
 * rectangles, parts of buffers, print-outs of kernels. What it prints depends on results only, never on the order of threads. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, N = 1 << 14, W = 96, H = 64, NODES = 500 };
static const char *source =
    "typedef struct node { int value; global struct node *next; } node;\n"
    "kernel void scale(global int *to, global const int *from, int by) { size_t i = get_global_id(0); to[i] = from[i] * by + 1; }\n"
    "kernel void join(global int *to, global const int *a, global const int *b) { size_t i = get_global_id(0); to[i] = a[i] ^ (b[i] << 1); }\n"
    "kernel void total(global const int *a, global uint *sum, local uint *part) {\n"
    "    size_t l = get_local_id(0), n = get_local_size(0); part[l] = a[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (size_t s = n / 2; s > 0; s /= 2) { if (l < s) part[l] += part[l + s]; barrier(CLK_LOCAL_MEM_FENCE); }\n"
    "    if (l == 0) atomic_add(sum, part[0]); }\n"
    "kernel void follow(global node *first, global int *sum) { int s = 0; for (global node *n = first; n; n = n->next) s += n->value; *sum = s; }\n"
    "kernel void blur(read_only image2d_t from, write_only image2d_t to, sampler_t s) {\n"
    "    int2 p = (int2)(get_global_id(0), get_global_id(1)); uint4 v = 0;\n"
    "    for (int y = -1; y <= 1; y++) for (int x = -1; x <= 1; x++) v += read_imageui(from, s, p + (int2)(x, y));\n"
    "    write_imageui(to, p, v / 9u); }\n"
    "kernel void cube(global int *a, int w, int h) {\n"
    "    size_t x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);\n"
    "    a[(z * h + y) * w + x] += 100 * x + 10 * y + z + get_global_offset(0); }\n"
    "kernel void say(global const int *a) { if (get_global_id(0) % 1000 == 7) printf(\"say %d\\n\", a[get_global_id(0)]); }\n";

static cl_platform_id platform;
static cl_device_id device;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static atomic_int called, destroyed, ended;
static size_t binary_nbytes;
static unsigned char *binary;

static void must(cl_int code, const char *what) {
    if (code != CL_SUCCESS) {
        printf("%s: %d\n", what, code);
        fflush(stdout);
        _Exit(1);
    }
}
#define TRY(call) must((call), #call)

struct mine {
    int number;
    cl_context context;
    cl_program program;
    cl_command_queue queue, unordered;
    cl_event gate; /* which the thread before opens, when its first result is there */
    struct mine *next;
    char text[2000];
};
static void say(struct mine *mine, const char *what, unsigned long value) {
    size_t used = strlen(mine->text);
    snprintf(mine->text + used, sizeof mine->text - used, "thread %d, %s: %lu\n", mine->number, what, value);
}
static cl_kernel kernel(struct mine *mine, const char *name) {
    cl_int code;
    cl_kernel made = clCreateKernel(mine->program, name, &code);
    return must(code, name), made;
}
static cl_mem buffer(struct mine *mine, cl_mem_flags flags, size_t nbytes, void *content) {
    cl_int code;
    cl_mem made = clCreateBuffer(mine->context, flags, nbytes, content, &code);
    return must(code, "clCreateBuffer"), made;
}
static unsigned sum_of(const int *values, size_t count) {
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++) sum = sum * 31 + (unsigned)values[i];
    return sum;
}
static void CL_CALLBACK open_next(cl_event event, cl_int state, void *given) {
    struct mine *mine = given;
    atomic_fetch_add(&called, 1);
    if (mine->next != NULL) TRY(clSetUserEventStatus(mine->next->gate, CL_COMPLETE));
}
static void CL_CALLBACK count_end(cl_mem mem, void *given) { atomic_fetch_add(&destroyed, 1); }
static void CL_CALLBACK count_context(cl_context context, void *given) { atomic_fetch_add(&ended, 1); }

/* A diamond on a queue out of order, behind the gate. */
static void graph(struct mine *mine) {
    int *host = malloc(N * sizeof *host), by[2] = {3 + mine->number, -7};
    for (int i = 0; i < N; i++) host[i] = i * 7 % 1000 + mine->number;
    cl_mem from = buffer(mine, CL_MEM_READ_ONLY, N * sizeof *host, NULL), side[2], to = buffer(mine, CL_MEM_READ_WRITE, N * sizeof *host, NULL);
    cl_kernel scale[2], join = kernel(mine, "join");
    cl_event written, sides[2], joined, marker;
    size_t items = N, local = 64;
    TRY(clSetMemObjectDestructorCallback(to, count_end, NULL));
    TRY(clEnqueueWriteBuffer(mine->unordered, from, CL_FALSE, 0, N * sizeof *host, host, 1, &mine->gate, &written));
    for (int i = 0; i < 2; i++) {
        scale[i] = kernel(mine, "scale"), side[i] = buffer(mine, CL_MEM_READ_WRITE, N * sizeof *host, NULL);
        TRY(clSetKernelArg(scale[i], 0, sizeof side[i], &side[i]));
        TRY(clSetKernelArg(scale[i], 1, sizeof from, &from));
        TRY(clSetKernelArg(scale[i], 2, sizeof by[i], &by[i]));
        TRY(clEnqueueNDRangeKernel(mine->unordered, scale[i], 1, NULL, &items, &local, 1, &written, &sides[i]));
        by[i] = 12345; /* taken when it was set */
        TRY(clSetKernelArg(scale[i], 2, sizeof by[i], &by[i]));
        TRY(clReleaseKernel(scale[i]));
    }
    TRY(clSetKernelArg(join, 0, sizeof to, &to));
    TRY(clSetKernelArg(join, 1, sizeof side[0], &side[0]));
    TRY(clSetKernelArg(join, 2, sizeof side[1], &side[1]));
    TRY(clEnqueueNDRangeKernel(mine->unordered, join, 1, NULL, &items, NULL, 2, sides, &joined));
    TRY(clSetEventCallback(joined, CL_COMPLETE, open_next, mine));
    TRY(clEnqueueMarkerWithWaitList(mine->unordered, 1, &joined, &marker));
    TRY(clFlush(mine->unordered));
    TRY(clEnqueueReadBuffer(mine->queue, to, CL_TRUE, 0, N * sizeof *host, host, 1, &marker, NULL));
    say(mine, "graph", sum_of(host, N));
    cl_event all[] = {written, sides[0], sides[1], joined, marker};
    for (int i = 0; i < 5; i++) {
        cl_int state;
        TRY(clGetEventInfo(all[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
        if (state != CL_COMPLETE) say(mine, "not complete", i);
        TRY(clReleaseEvent(all[i]));
    }
    TRY(clReleaseMemObject(from)), TRY(clReleaseMemObject(side[0])), TRY(clReleaseMemObject(side[1]));
    TRY(clReleaseMemObject(to)), TRY(clReleaseKernel(join));
    free(host);
}

/* Sums through mapped memory, a part of it at a time. */
static void mapped(struct mine *mine) {
    cl_int code;
    cl_mem all = buffer(mine, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, N * sizeof(int), NULL), sum = buffer(mine, CL_MEM_READ_WRITE, 4, NULL);
    cl_kernel total = kernel(mine, "total");
    size_t local = 128, items = N / 4;
    cl_uint zero = 0, found;
    for (int round = 0; round < 3; round++) {
        int *host = clEnqueueMapBuffer(mine->queue, all, CL_TRUE, round ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_WRITE_INVALIDATE_REGION, 0,
                                       N * sizeof(int), 0, NULL, NULL, &code);
        must(code, "clEnqueueMapBuffer");
        for (int i = 0; i < N; i++) host[i] = (round ? host[i] : i) + mine->number;
        TRY(clEnqueueUnmapMemObject(mine->queue, all, host, 0, NULL, NULL));
        for (int part = 0; part < 4; part++) {
            cl_buffer_region region = {part * items * sizeof(int), items * sizeof(int)};
            cl_mem view = clCreateSubBuffer(all, CL_MEM_READ_ONLY, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
            must(code, "clCreateSubBuffer");
            TRY(clEnqueueFillBuffer(mine->queue, sum, &zero, 4, 0, 4, 0, NULL, NULL));
            TRY(clSetKernelArg(total, 0, sizeof view, &view)), TRY(clSetKernelArg(total, 1, sizeof sum, &sum));
            TRY(clSetKernelArg(total, 2, local * sizeof(cl_uint), NULL));
            TRY(clEnqueueNDRangeKernel(mine->queue, total, 1, NULL, &items, &local, 0, NULL, NULL));
            TRY(clEnqueueReadBuffer(mine->queue, sum, CL_TRUE, 0, 4, &found, 0, NULL, NULL));
            say(mine, "part", found);
            TRY(clReleaseMemObject(view));
        }
    }
    TRY(clReleaseMemObject(all)), TRY(clReleaseMemObject(sum)), TRY(clReleaseKernel(total));
}

/* A list whose nodes point to each other. */
static void linked(struct mine *mine) {
    struct node { cl_int value; struct node *next; } *nodes = clSVMAlloc(mine->context, CL_MEM_READ_WRITE, NODES * sizeof *nodes, 0);
    cl_kernel follow = kernel(mine, "follow");
    cl_mem sum = buffer(mine, CL_MEM_WRITE_ONLY, 4, NULL);
    cl_int found;
    size_t one = 1;
    if (nodes == NULL) must(-1, "clSVMAlloc");
    for (int round = 0; round < 2; round++) {
        TRY(clEnqueueSVMMap(mine->queue, CL_TRUE, CL_MAP_WRITE, nodes, NODES * sizeof *nodes, 0, NULL, NULL));
        for (int i = 0; i < NODES; i++) {
            int at = i * 7 % NODES, next = (i + 1) * 7 % NODES; /* 7 and their number have no common divisor */
            nodes[at].value = i * (round + 1) + mine->number;
            nodes[at].next = i + 1 < NODES ? &nodes[next] : NULL;
        }
        TRY(clEnqueueSVMUnmap(mine->queue, nodes, 0, NULL, NULL));
        TRY(clSetKernelArgSVMPointer(follow, 0, &nodes[0])), TRY(clSetKernelArg(follow, 1, sizeof sum, &sum));
        TRY(clEnqueueNDRangeKernel(mine->queue, follow, 1, NULL, &one, NULL, 0, NULL, NULL));
        TRY(clEnqueueReadBuffer(mine->queue, sum, CL_TRUE, 0, 4, &found, 0, NULL, NULL));
        say(mine, "list", found);
    }
    TRY(clFinish(mine->queue));
    clSVMFree(mine->context, nodes);
    TRY(clReleaseMemObject(sum)), TRY(clReleaseKernel(follow));
}

static void pictures(struct mine *mine) {
    static const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc about = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = W, .image_height = H};
    unsigned char (*pixels)[4] = malloc(W * H * sizeof *pixels);
    cl_int code;
    for (int i = 0; i < W * H; i++)
        for (int c = 0; c < 4; c++) pixels[i][c] = (unsigned char)(i * (c + 3) + 17 * mine->number);
    cl_mem images[2];
    for (int i = 0; i < 2; i++) {
        images[i] = clCreateImage(mine->context, CL_MEM_READ_WRITE | (i ? 0 : CL_MEM_COPY_HOST_PTR), &format, &about, i ? NULL : pixels, &code);
        must(code, "clCreateImage");
    }
    cl_sampler sampler = clCreateSampler(mine->context, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, &code);
    must(code, "clCreateSampler");
    cl_kernel blur = kernel(mine, "blur");
    size_t items[2] = {W, H}, local[2] = {16, 8}, start[3] = {0, 0, 0}, region[3] = {W, H, 1}, part[3] = {W / 2, H / 4, 1};
    for (int i = 0; i < 5; i++) {
        TRY(clSetKernelArg(blur, 0, sizeof images[0], &images[i % 2])), TRY(clSetKernelArg(blur, 1, sizeof images[0], &images[1 - i % 2]));
        TRY(clSetKernelArg(blur, 2, sizeof sampler, &sampler));
        TRY(clEnqueueNDRangeKernel(mine->queue, blur, 2, NULL, items, local, 0, NULL, NULL));
    }
    size_t to[3] = {W / 2, H / 2, 0};
    TRY(clEnqueueCopyImage(mine->queue, images[1], images[0], start, to, part, 0, NULL, NULL));
    TRY(clEnqueueReadImage(mine->queue, images[0], CL_TRUE, start, region, 0, 0, pixels, 0, NULL, NULL));
    say(mine, "picture", sum_of((int *)pixels, W * H));
    TRY(clReleaseSampler(sampler)), TRY(clReleaseKernel(blur)), TRY(clReleaseMemObject(images[0])), TRY(clReleaseMemObject(images[1]));
    free(pixels);
}

static void boxes(struct mine *mine) {
    int w = 24, h = 20, d = 12, zero = 0, *host = calloc(w * h * d, sizeof *host);
    size_t nbytes = (size_t)w * h * d * sizeof *host, row = w * sizeof *host, plane = row * h;
    cl_mem a = buffer(mine, CL_MEM_READ_WRITE, nbytes, NULL), b = buffer(mine, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, nbytes, host);
    cl_kernel cube = kernel(mine, "cube");
    TRY(clEnqueueFillBuffer(mine->queue, a, &zero, 4, 0, nbytes, 0, NULL, NULL));
    TRY(clSetKernelArg(cube, 0, sizeof a, &a)), TRY(clSetKernelArg(cube, 1, sizeof w, &w)), TRY(clSetKernelArg(cube, 2, sizeof h, &h));
    for (size_t i = 0; i < 4; i++) {
        size_t offset[3] = {4 * i, i, 0}, items[3] = {8, 16, d - i}, local[3] = {4, 4, 1};
        TRY(clEnqueueNDRangeKernel(mine->queue, cube, 3, offset, items, local, 0, NULL, NULL));
    }
    size_t from[3] = {8, 3, 1}, to[3] = {16, 5, 2}, region[3] = {32, 10, 8};
    TRY(clEnqueueCopyBufferRect(mine->queue, a, b, from, to, region, row, plane, row, plane, 0, NULL, NULL));
    TRY(clEnqueueReadBuffer(mine->queue, b, CL_TRUE, 0, nbytes, host, 0, NULL, NULL));
    say(mine, "box", sum_of(host, w * h * d));
    TRY(clReleaseMemObject(a)), TRY(clReleaseMemObject(b)), TRY(clReleaseKernel(cube));
    free(host);
}

static void *run(void *given) {
    struct mine *mine = given;
    graph(mine);
    mapped(mine);
    linked(mine);
    pictures(mine);
    boxes(mine);
    TRY(clFinish(mine->queue)), TRY(clFinish(mine->unordered));
    pthread_mutex_lock(&printing);
    fputs(mine->text, stdout);
    pthread_mutex_unlock(&printing);
    return NULL;
}

static void begin(struct mine *mine) {
    cl_int code, loaded;
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    mine->context = clCreateContext(properties, 1, &device, NULL, NULL, &code);
    must(code, "clCreateContext");
    TRY(clSetContextDestructorCallback(mine->context, count_context, NULL));
    if (binary == NULL) {
        mine->program = clCreateProgramWithSource(mine->context, 1, &source, NULL, &code);
        TRY(clBuildProgram(mine->program, 1, &device, "-cl-std=CL2.0", NULL, NULL));
        TRY(clGetProgramInfo(mine->program, CL_PROGRAM_BINARY_SIZES, sizeof binary_nbytes, &binary_nbytes, NULL));
        binary = malloc(binary_nbytes);
        TRY(clGetProgramInfo(mine->program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
    } else {
        mine->program = clCreateProgramWithBinary(mine->context, 1, &device, &binary_nbytes, (const unsigned char **)&binary, &loaded, &code);
        must(code, "clCreateProgramWithBinary");
        TRY(clBuildProgram(mine->program, 1, &device, "", NULL, NULL));
    }
    cl_queue_properties unordered[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
    mine->queue = clCreateCommandQueueWithProperties(mine->context, device, NULL, &code), must(code, "queue");
    mine->unordered = clCreateCommandQueueWithProperties(mine->context, device, unordered, &code), must(code, "unordered queue");
    mine->gate = clCreateUserEvent(mine->context, &code), must(code, "clCreateUserEvent");
}

static void print_by_kernel(struct mine *mine) {
    int *host = malloc(4000 * sizeof *host);
    size_t items = 4000;
    for (int i = 0; i < 4000; i++) host[i] = i / 1000;
    cl_mem a = buffer(mine, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, 4000 * sizeof *host, host);
    cl_kernel say = kernel(mine, "say");
    fflush(stdout);
    TRY(clSetKernelArg(say, 0, sizeof a, &a));
    TRY(clEnqueueNDRangeKernel(mine->queue, say, 1, NULL, &items, NULL, 0, NULL, NULL));
    TRY(clFinish(mine->queue));
    TRY(clReleaseKernel(say)), TRY(clReleaseMemObject(a));
    free(host);
}

int main(void) {
    static struct mine all[THREADS];
    pthread_t threads[THREADS];
    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    for (int i = 0; i < THREADS; i++) {
        all[i].number = i, all[i].next = i + 1 < THREADS ? &all[i + 1] : NULL;
        begin(&all[i]);
    }
    for (int i = THREADS - 1; i >= 0; i--) pthread_create(&threads[i], NULL, run, &all[i]);
    TRY(clSetUserEventStatus(all[0].gate, CL_COMPLETE));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    print_by_kernel(&all[0]);
    for (int i = 0; i < THREADS; i++) {
        TRY(clReleaseEvent(all[i].gate)), TRY(clReleaseProgram(all[i].program));
        TRY(clReleaseCommandQueue(all[i].queue)), TRY(clReleaseCommandQueue(all[i].unordered));
        TRY(clReleaseContext(all[i].context));
    }
    for (int i = 0; i < 60000 && (called < THREADS || destroyed < THREADS || ended < THREADS); i++) usleep(1000);
    printf("called %d, destroyed %d, ended %d\n", called, destroyed, ended);
    return 0;
}
