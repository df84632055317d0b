/* What `c_programs.py` measures: an ordinary OpenCL program in C. `c_programs bandwidth|nbody|launch|start SIZE REPEATS`
   prints figures, a name and a number a line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if __has_include(<CL/cl.h>)
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#else /* the few declarations that it needs, for machines without the Khronos headers */
typedef struct cl_thing *cl_platform_id, *cl_device_id, *cl_context, *cl_command_queue, *cl_program, *cl_kernel, *cl_mem;
#define CL_DEVICE_TYPE_GPU 4
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFF
#define CL_MEM_READ_WRITE 1
#define CL_TRUE 1
int32_t clGetPlatformIDs(uint32_t, cl_platform_id *, uint32_t *);
int32_t clGetDeviceIDs(cl_platform_id, uint64_t, uint32_t, cl_device_id *, uint32_t *);
cl_context clCreateContext(const void *, uint32_t, const cl_device_id *, void *, void *, int32_t *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, uint64_t, int32_t *);
cl_program clCreateProgramWithSource(cl_context, uint32_t, const char **, const size_t *, int32_t *);
int32_t clBuildProgram(cl_program, uint32_t, const cl_device_id *, const char *, void *, void *);
cl_kernel clCreateKernel(cl_program, const char *, int32_t *);
cl_mem clCreateBuffer(cl_context, uint64_t, size_t, void *, int32_t *);
int32_t clSetKernelArg(cl_kernel, uint32_t, size_t, const void *);
int32_t clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, uint32_t, const size_t *, const size_t *, const size_t *,
                               uint32_t, const void *, void *);
int32_t clEnqueueReadBuffer(cl_command_queue, cl_mem, uint32_t, size_t, size_t, void *, uint32_t, const void *, void *);
int32_t clEnqueueWriteBuffer(cl_command_queue, cl_mem, uint32_t, size_t, size_t, const void *, uint32_t, const void *,
                             void *);
int32_t clFinish(cl_command_queue);
#endif

static const char *source =
    "#ifdef cl_khr_fp64\n"
    "kernel void init(global double *a, global double *b, global double *c)\n"
    "{ size_t i = get_global_id(0); a[i] = 0.1; b[i] = 0.2; c[i] = 0.0; }\n"
    "kernel void triad(global double *a, global const double *b, global const double *c, double s)\n"
    "{ size_t i = get_global_id(0); a[i] = b[i] + s * c[i]; }\n"
    "#endif\n"
    "kernel void empty(void) {}\n"
    "kernel void step(global const float4 *from, global float4 *to, global float4 *speed, int n, float dt) {\n"
    "    local float4 tile[64];\n"
    "    int i = get_global_id(0), l = get_local_id(0);\n"
    "    float4 mine = from[i], pull = (float4)(0.0f);\n"
    "    for (int first = 0; first < n; first += 64) {\n"
    "        tile[l] = from[first + l];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        for (int k = 0; k < 64; ++k) {\n"
    "            float4 way = tile[k] - mine;\n"
    "            float square = way.x * way.x + way.y * way.y + way.z * way.z + 1e-3f;\n"
    "            float inverse = rsqrt(square);\n"
    "            pull.xyz += way.xyz * (tile[k].w * inverse * inverse * inverse);\n"
    "        }\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    float4 now = speed[i] + pull * dt;\n"
    "    speed[i] = now;\n"
    "    to[i] = (float4)(mine.xyz + now.xyz * dt, mine.w);\n"
    "}\n";

static cl_device_id device;
static cl_context context;
static cl_command_queue queue;
static cl_program program;

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check(int code, const char *what) {
    if (code == 0) return;
    fprintf(stderr, "%s: %d\n", what, code);
    exit(1);
}

/* A GPU where there is one, else whatever there is first. */
static void open_device(void) {
    cl_platform_id platforms[8];
    uint32_t count = 0;
    check(clGetPlatformIDs(8, platforms, &count), "clGetPlatformIDs");
    for (uint32_t i = 0; i < count && i < 8 && !device; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_GPU, 1, &device, NULL)) device = NULL;
    if (!device) check(clGetDeviceIDs(platforms[0], CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    int code;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
}

static cl_kernel kernel(const char *name) {
    int code;
    cl_kernel found = clCreateKernel(program, name, &code);
    check(code, name);
    return found;
}

static cl_mem buffer(size_t nbytes) {
    int code;
    cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, nbytes, NULL, &code);
    check(code, "clCreateBuffer");
    return made;
}

static void set_buffers(cl_kernel given, int count, const cl_mem *buffers) {
    for (int i = 0; i < count; i++) check(clSetKernelArg(given, (uint32_t)i, sizeof *buffers, &buffers[i]), "clSetKernelArg");
}

static void launch(cl_kernel given, size_t items, const size_t *local) {
    check(clEnqueueNDRangeKernel(queue, given, 1, NULL, &items, local, 0, NULL, NULL), "clEnqueueNDRangeKernel");
}

/* Three vectors of doubles: the least time of a triad, each waited for, in GB per second. */
static void bandwidth(size_t count, int repeats) {
    cl_mem vectors[3];
    for (int i = 0; i < 3; i++) vectors[i] = buffer(count * sizeof(double));
    cl_kernel init = kernel("init"), triad = kernel("triad");
    double scale = 0.4, least = 1e30, found[2];
    set_buffers(init, 3, vectors);
    set_buffers(triad, 3, vectors);
    check(clSetKernelArg(triad, 3, sizeof scale, &scale), "clSetKernelArg");
    launch(init, count, NULL);
    check(clFinish(queue), "clFinish");
    for (int i = 0; i < repeats; i++) {
        double began = seconds();
        launch(triad, count, NULL);
        check(clFinish(queue), "clFinish");
        double took = seconds() - began;
        if (took < least) least = took;
    }
    check(clEnqueueReadBuffer(queue, vectors[0], CL_TRUE, 0, sizeof(double), &found[0], 0, NULL, NULL), "read");
    check(clEnqueueReadBuffer(queue, vectors[0], CL_TRUE, (count - 1) * sizeof(double), sizeof(double), &found[1], 0, NULL,
                              NULL), "read");
    printf("check %.9g\nspeed %.9g\n", found[0] + found[1], 3e-9 * (double)(count * sizeof(double)) / least);
}

static void place(float *bodies, size_t count) {
    uint32_t state = 1;
    for (size_t i = 0; i < 4 * count; i++) {
        state = state * 1664525u + 1013904223u;
        bodies[i] = i % 4 == 3 ? 1.0f / (float)count : (float)(state >> 8) / 8388608.0f - 1.0f;
    }
}

/* All pairs of bodies, ten steps: thousand million interactions per second, by the least time of ten steps. */
static void nbody(size_t count, int repeats) {
    enum { STEPS = 10 };
    size_t nbytes = 4 * count * sizeof(float), local = 64;
    float *bodies = calloc(4 * count, sizeof(float)), dt = 1e-4f, *still = calloc(4 * count, sizeof(float));
    cl_mem buffers[3] = {buffer(nbytes), buffer(nbytes), buffer(nbytes)};
    cl_mem other[3] = {buffers[1], buffers[0], buffers[2]};
    cl_kernel there = kernel("step"), back = kernel("step");
    int n = (int)count;
    place(bodies, count);
    check(clEnqueueWriteBuffer(queue, buffers[0], CL_TRUE, 0, nbytes, bodies, 0, NULL, NULL), "write");
    check(clEnqueueWriteBuffer(queue, buffers[2], CL_TRUE, 0, nbytes, still, 0, NULL, NULL), "write");
    set_buffers(there, 3, buffers);
    set_buffers(back, 3, other);
    for (int i = 0; i < 2; i++) {
        check(clSetKernelArg(i ? back : there, 3, sizeof n, &n), "clSetKernelArg");
        check(clSetKernelArg(i ? back : there, 4, sizeof dt, &dt), "clSetKernelArg");
    }
    double least = 1e30, sum = 0;
    for (int i = 0; i < repeats; i++) {
        double began = seconds();
        for (int k = 0; k < STEPS; k++) launch(k % 2 ? back : there, count, &local);
        check(clFinish(queue), "clFinish");
        double took = seconds() - began;
        if (took < least) least = took;
    }
    check(clEnqueueReadBuffer(queue, buffers[0], CL_TRUE, 0, nbytes, bodies, 0, NULL, NULL), "read");
    for (size_t i = 0; i < 4 * count; i++) sum += bodies[i] * bodies[i];
    printf("check %.9g\nspeed %.9g\n", sum, 1e-9 * STEPS * (double)count * (double)count / least);
    free(bodies);
    free(still);
}

/* Microseconds of a clEnqueueNDRangeKernel of an empty kernel: of `size` in a row, the least of so many repeats. */
static void launches(size_t size, int repeats) {
    cl_kernel empty = kernel("empty");
    double least = 1e30;
    for (int i = 0; i < repeats; i++) {
        double began = seconds();
        for (size_t k = 0; k < size; k++) launch(empty, 1, NULL);
        double took = seconds() - began;
        check(clFinish(queue), "clFinish");
        if (took < least) least = took;
    }
    printf("check 0\nspeed %.9g\n", 1e6 * least / (double)size);
}

int main(int count, char **words) {
    if (count != 4) return fprintf(stderr, "usage: c_programs bandwidth|nbody|launch|start SIZE REPEATS\n"), 2;
    size_t size = strtoull(words[2], NULL, 10);
    int repeats = atoi(words[3]);
    open_device();
    if (!strcmp(words[1], "bandwidth")) bandwidth(size, repeats);
    else if (!strcmp(words[1], "nbody")) nbody(size, repeats);
    else if (!strcmp(words[1], "launch")) launches(size, repeats);
    else {
        launch(kernel("empty"), 1, NULL);
        check(clFinish(queue), "clFinish");
        printf("check 0\n");
    }
    return 0;
}
