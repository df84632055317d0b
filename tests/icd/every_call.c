/* Calls of every kind, good and bad, and what comes back: run natively and on the virtual device, it prints the same. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOW(call) printf("%s: %d\n", #call, (int)(call))
#define MADE(call) ((call), printf("%s: %d\n", #call, (int)error))
enum { COUNT = 4096, BYTES = COUNT * 4 };

static cl_int error;
static cl_context context;
static cl_device_id device;
static cl_command_queue queue, unordered;
static cl_program program;

static const char *source =
    "__kernel void scale(__global const int *in, __global int *out, const int by, __local int *scratch) {\n"
    "  int i = get_global_id(0);\n"
    "  scratch[get_local_id(0)] = in[i];\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  out[i] = by * scratch[get_local_id(0)];\n"
    "}\n"
    "__kernel void plane(__global int *out, int width) {\n"
    "  out[get_global_id(1) * width + get_global_id(0)] = get_global_id(1) * 1000 + get_global_id(0);\n"
    "}\n"
    "__kernel void invert(__read_only image2d_t in, __write_only image2d_t out, sampler_t s) {\n"
    "  int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "  uint4 p = read_imageui(in, s, at);\n"
    "  write_imageui(out, at, (uint4)(255) - p);\n"
    "}\n";

static long sum(const int *values, size_t count) {
    long total = 0;
    for (size_t i = 0; i < count; i++)
        total += values[i] * (long)(i % 7 + 1);
    return total;
}

static void buffers(void) {
    int *a = malloc(BYTES), *b = malloc(BYTES);
    for (int i = 0; i < COUNT; i++)
        a[i] = i;
    cl_mem mem, bad, part, other;
    MADE(mem = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, BYTES, a, &error));
    MADE(other = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &error));
    MADE(bad = clCreateBuffer(context, CL_MEM_READ_WRITE, 0, NULL, &error));
    MADE(bad = clCreateBuffer(context, CL_MEM_READ_WRITE, 8, a, &error));
    MADE(bad = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, 8, NULL, &error));
    MADE(bad = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 8, NULL, &error));
    MADE(bad = clCreateBuffer(NULL, CL_MEM_READ_WRITE, 8, NULL, &error));
    printf("none: %d\n", bad == NULL);
    cl_mem_properties empty[] = {0}, listed[2];
    for (int given = 0; given < 2; given++) {
        size_t nbytes = 77;
        MADE(bad = clCreateBufferWithProperties(context, given ? empty : NULL, CL_MEM_READ_WRITE, 8, NULL, &error));
        SHOW(clGetMemObjectInfo(bad, CL_MEM_PROPERTIES, sizeof listed, listed, &nbytes));
        printf("properties: %zu bytes\n", nbytes);
        SHOW(clReleaseMemObject(bad));
    }
    bad = NULL;
    cl_buffer_region region = {1024, 2048}, beyond = {BYTES, 4}, odd = {3, 4};
    MADE(part = clCreateSubBuffer(mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error));
    MADE(bad = clCreateSubBuffer(mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &beyond, &error));
    MADE(bad = clCreateSubBuffer(mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &odd, &error));
    size_t size, offset;
    cl_mem owner;
    cl_uint references;
    SHOW(clGetMemObjectInfo(part, CL_MEM_SIZE, sizeof size, &size, NULL));
    SHOW(clGetMemObjectInfo(part, CL_MEM_OFFSET, sizeof offset, &offset, NULL));
    SHOW(clGetMemObjectInfo(part, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof owner, &owner, NULL));
    printf("%zu at %zu of its owner: %d\n", size, offset, owner == mem);
    SHOW(clGetMemObjectInfo(part, CL_MEM_SIZE, 4, &size, NULL));
    SHOW(clGetMemObjectInfo(part, 0x1, sizeof size, &size, NULL));
    SHOW(clRetainMemObject(part));
    SHOW(clGetMemObjectInfo(part, CL_MEM_REFERENCE_COUNT, sizeof references, &references, NULL));
    printf("%u references\n", references);
    SHOW(clReleaseMemObject(part));

    SHOW(clEnqueueReadBuffer(queue, part, CL_TRUE, 0, 2048, b, 0, NULL, NULL));
    printf("part: %ld\n", sum(b, 512));
    SHOW(clEnqueueReadBuffer(queue, mem, CL_TRUE, 8, BYTES, b, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, 8, NULL, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(NULL, mem, CL_TRUE, 0, 8, b, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, NULL, CL_TRUE, 0, 8, b, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, 8, b, 1, NULL, NULL));
    int pattern[2] = {7, -7};
    SHOW(clEnqueueFillBuffer(queue, other, pattern, 8, 16, 1024, 0, NULL, NULL));
    SHOW(clEnqueueFillBuffer(queue, other, pattern, 3, 0, 12, 0, NULL, NULL));
    SHOW(clEnqueueFillBuffer(queue, other, pattern, 8, 4, 16, 0, NULL, NULL));
    SHOW(clEnqueueCopyBuffer(queue, mem, other, 4096, 2048, 4096, 0, NULL, NULL));
    SHOW(clEnqueueCopyBuffer(queue, mem, mem, 0, 4, 4096, 0, NULL, NULL));
    SHOW(clEnqueueWriteBuffer(queue, other, CL_FALSE, BYTES - 64, 64, a, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, other, CL_TRUE, 2048, BYTES - 2048, b, 0, NULL, NULL));
    printf("copied: %ld\n", sum(b, 1024));
    size_t from[3] = {4, 1, 0}, to[3] = {0, 2, 0}, box[3] = {40, 6, 2}, nothing[3] = {0, 1, 1};
    memset(b, 0, BYTES);
    SHOW(clEnqueueReadBufferRect(queue, mem, CL_TRUE, from, to, box, 128, 1024, 64, 640, b, 0, NULL, NULL));
    printf("box: %ld\n", sum(b, COUNT));
    SHOW(clEnqueueReadBufferRect(queue, mem, CL_TRUE, from, to, nothing, 128, 1024, 64, 640, b, 0, NULL, NULL));
    SHOW(clEnqueueReadBufferRect(queue, mem, CL_TRUE, from, to, box, 8, 1024, 64, 640, b, 0, NULL, NULL));
    SHOW(clEnqueueWriteBufferRect(queue, mem, CL_TRUE, from, to, box, 128, 1024, 64, 640, b, 0, NULL, NULL));
    SHOW(clEnqueueCopyBufferRect(queue, mem, other, from, to, box, 128, 1024, 64, 640, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, other, CL_TRUE, 0, BYTES, b, 0, NULL, NULL));
    printf("box copied: %ld\n", sum(b, 512));

    int *mapped;
    MADE(mapped = clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 64, 256, 0, NULL, NULL, &error));
    printf("mapped: %ld\n", sum(mapped, 64));
    for (int i = 0; i < 64; i++)
        mapped[i] = -i;
    cl_uint maps;
    SHOW(clGetMemObjectInfo(mem, CL_MEM_MAP_COUNT, sizeof maps, &maps, NULL));
    printf("%u maps\n", maps);
    SHOW(clEnqueueUnmapMemObject(queue, mem, mapped, 0, NULL, NULL));
    SHOW(clEnqueueUnmapMemObject(queue, mem, b, 0, NULL, NULL));
    MADE(mapped = clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ, 0, BYTES + 1, 0, NULL, NULL, &error));
    SHOW(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, BYTES, b, 0, NULL, NULL));
    printf("after the map: %ld\n", sum(b, 128));
    SHOW(clEnqueueMigrateMemObjects(queue, 1, &mem, 0, 0, NULL, NULL));
    SHOW(clEnqueueMigrateMemObjects(queue, 0, NULL, 0, 0, NULL, NULL));

    cl_mem own;
    MADE(own = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, BYTES, a, &error));
    void *where;
    SHOW(clGetMemObjectInfo(own, CL_MEM_HOST_PTR, sizeof where, &where, NULL));
    printf("the program's memory: %d\n", where == a);
    MADE(mapped = clEnqueueMapBuffer(queue, own, CL_TRUE, CL_MAP_READ, 16, 64, 0, NULL, NULL, &error));
    printf("mapped there: %d\n", mapped == a + 4);
    SHOW(clEnqueueUnmapMemObject(queue, own, mapped, 0, NULL, NULL));
    SHOW(clFinish(queue));
    SHOW(clReleaseMemObject(own));
    SHOW(clReleaseMemObject(part));
    SHOW(clReleaseMemObject(mem));
    SHOW(clReleaseMemObject(other));
    SHOW(clReleaseMemObject(NULL));
    free(a);
    free(b);
}

/* The program out of its own binary, and what the binary is. */
static cl_program reloaded(cl_program from) {
    cl_program found;
    size_t nbytes;
    cl_int loaded = 1;
    cl_program_binary_type kind = 0;
    SHOW(clGetProgramInfo(from, CL_PROGRAM_BINARY_SIZES, sizeof nbytes, &nbytes, NULL));
    unsigned char *binary = malloc(nbytes);
    SHOW(clGetProgramInfo(from, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
    MADE(found = clCreateProgramWithBinary(context, 1, &device, &nbytes, (const unsigned char **)&binary, &loaded, &error));
    SHOW(clGetProgramBuildInfo(found, device, CL_PROGRAM_BINARY_TYPE, sizeof kind, &kind, NULL));
    printf("loaded: %d, of type %u\n", loaded, kind);
    free(binary);
    return found;
}

/* Compiled programs and a library of one of them, linked from their binaries. */
static void reloaded_parts(const cl_program *parts) {
    cl_program first = reloaded(parts[0]), second = reloaded(parts[1]), library, linked;
    MADE(library = clLinkProgram(context, 1, &device, "-create-library", 1, &second, NULL, NULL, &error));
    cl_program both[2] = {first, reloaded(library)};
    MADE(linked = clLinkProgram(context, 1, &device, "", 2, both, NULL, NULL, &error));
    cl_kernel kernel;
    MADE(kernel = clCreateKernel(linked, "linked", &error));
    SHOW(clReleaseKernel(kernel));
    SHOW(clReleaseProgram(linked));
    SHOW(clReleaseProgram(library));
    SHOW(clReleaseProgram(first));
    SHOW(clReleaseProgram(second));
    SHOW(clReleaseProgram(both[1]));
}

static void programs(void) {
    cl_program bad;
    cl_kernel kernel, copy;
    const char *wrong = "__kernel void f( { }", *halves[2] = {"__kernel void half_of(__global int *a) { a[get_glo",
                                                                "bal_id(0)] = 5; } ... never read"};
    size_t lengths[2] = {0, 17};
    char text[4096];
    size_t size;
    cl_build_status status;
    MADE(bad = clCreateProgramWithSource(context, 0, NULL, NULL, &error));
    MADE(bad = clCreateProgramWithSource(context, 1, &wrong, NULL, &error));
    SHOW(clBuildProgram(bad, 1, &device, NULL, NULL, NULL));
    SHOW(clGetProgramBuildInfo(bad, device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL));
    printf("status %d\n", status);
    SHOW(clGetProgramBuildInfo(bad, device, CL_PROGRAM_BUILD_LOG, sizeof text, text, &size));
    printf("the log says error: %d, ends: %d\n", strstr(text, "error") != NULL, text[size - 1] == 0);
    MADE(kernel = clCreateKernel(bad, "f", &error));
    SHOW(clReleaseProgram(bad));
    MADE(bad = clCreateProgramWithSource(context, 2, halves, lengths, &error));
    SHOW(clBuildProgram(bad, 0, NULL, "-DUNUSED=1", NULL, NULL));
    SHOW(clGetProgramBuildInfo(bad, device, CL_PROGRAM_BUILD_OPTIONS, sizeof text, text, &size));
    printf("options %s\n", text);
    SHOW(clGetProgramInfo(bad, CL_PROGRAM_KERNEL_NAMES, sizeof text, text, NULL));
    printf("kernels %s\n", text);
    SHOW(clReleaseProgram(bad));
    SHOW(clGetProgramInfo(program, CL_PROGRAM_SOURCE, sizeof text, text, &size));
    printf("source: %d %zu\n", strcmp(text, source), size);
    size_t binary_size, kernels;
    SHOW(clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof kernels, &kernels, NULL));
    SHOW(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof binary_size, &binary_size, NULL));
    unsigned char *binary = malloc(binary_size);
    SHOW(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL));
    cl_int binary_status;
    MADE(bad = clCreateProgramWithBinary(context, 1, &device, &binary_size, (const unsigned char **)&binary,
                                         &binary_status, &error));
    printf("%zu kernels; binary: %d\n", kernels, binary_status);
    SHOW(clBuildProgram(bad, 1, &device, "", NULL, NULL));
    MADE(kernel = clCreateKernel(bad, "plane", &error));
    SHOW(clReleaseKernel(kernel));
    SHOW(clReleaseProgram(bad));
    free(binary);
    MADE(kernel = clCreateKernel(program, "nobody", &error));
    MADE(kernel = clCreateKernel(program, "scale", &error));
    cl_uint count;
    SHOW(clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, NULL));
    SHOW(clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof text, text, NULL));
    printf("%s has %u arguments\n", text, count);
    for (cl_uint i = 0; i < count; i++) {
        cl_kernel_arg_address_qualifier space;
        cl_kernel_arg_type_qualifier qualifier;
        SHOW(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof text, text, NULL));
        SHOW(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof space, &space, NULL));
        SHOW(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof qualifier, &qualifier, NULL));
        printf("%s in %x, %d ", text, space, (int)qualifier);
        SHOW(clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, sizeof text, text, NULL));
        printf("%s\n", text);
    }
    size_t required[3];
    SHOW(clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required, required, NULL));
    printf("required %zu %zu %zu\n", required[0], required[1], required[2]);
    SHOW(clGetKernelWorkGroupInfo(kernel, NULL, CL_KERNEL_WORK_GROUP_SIZE, sizeof size, &size, NULL));
    MADE(copy = clCloneKernel(kernel, &error));
    SHOW(clReleaseKernel(copy));
    SHOW(clReleaseKernel(kernel));
    cl_kernel all[3];
    SHOW(clCreateKernelsInProgram(program, 0, NULL, &count));
    SHOW(clCreateKernelsInProgram(program, 1, all, NULL));
    SHOW(clCreateKernelsInProgram(program, 3, all, NULL));
    for (cl_uint i = 0; i < 3; i++)
        SHOW(clReleaseKernel(all[i]));

    const char *header = "#define TWICE(x) (2 * (x))\n", *main_text = "#include \"twice.h\"\nint twice(int x);\n"
        "__kernel void linked(__global int *a) { a[get_global_id(0)] = twice(TWICE(3)); }",
        *other_text = "int twice(int x) { return x + x; }", *name = "twice.h";
    cl_program headers, parts[2], linked;
    MADE(headers = clCreateProgramWithSource(context, 1, &header, NULL, &error));
    MADE(parts[0] = clCreateProgramWithSource(context, 1, &main_text, NULL, &error));
    MADE(parts[1] = clCreateProgramWithSource(context, 1, &other_text, NULL, &error));
    SHOW(clCompileProgram(parts[0], 1, &device, "", 1, &headers, &name, NULL, NULL));
    SHOW(clCompileProgram(parts[1], 1, &device, "", 0, NULL, NULL, NULL, NULL));
    MADE(linked = clLinkProgram(context, 1, &device, "", 2, parts, NULL, NULL, &error));
    MADE(kernel = clCreateKernel(linked, "linked", &error));
    int result[64] = {0};
    cl_mem mem;
    MADE(mem = clCreateBuffer(context, CL_MEM_WRITE_ONLY, sizeof result, NULL, &error));
    SHOW(clSetKernelArg(kernel, 0, sizeof mem, &mem));
    size_t items = 64;
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    printf("linked: %d\n", result[63]);
    SHOW(clReleaseMemObject(mem));
    SHOW(clReleaseKernel(kernel));
    SHOW(clReleaseProgram(linked));
    reloaded_parts(parts);
    cl_build_status built;
    size_t log_nbytes;
    static const char *const options[] = {"-cl-bogus", "word", "-cl-std=CL9.9", "-D", "-cl-mad-enable -DA=1 -I. -w", "-D A"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        cl_program anew = clCreateProgramWithSource(context, 1, &other_text, NULL, &error);
        printf("compiled with %s: %d\n", options[i], clCompileProgram(anew, 1, &device, options[i], 0, NULL, NULL, NULL, NULL));
        clReleaseProgram(anew);
        if (i < 4) {
            anew = clLinkProgram(context, 1, &device, options[i], 2, parts, NULL, NULL, &error);
            printf("linked with %s: %d\n", options[i], error);
        }
    }
    linked = clLinkProgram(context, 1, &device, "", 1, parts, NULL, NULL, &error); /* one function is missing */
    printf("not linked: %d, %d\n", error, linked != NULL);
    SHOW(clGetProgramBuildInfo(linked, device, CL_PROGRAM_BUILD_STATUS, sizeof built, &built, NULL));
    SHOW(clGetProgramBuildInfo(linked, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &log_nbytes));
    printf("status %d, a log: %d\n", built, log_nbytes > 1);
    SHOW(clCreateKernel(linked, "linked", &error) == NULL);
    SHOW(clReleaseProgram(headers));
    SHOW(clReleaseProgram(parts[0]));
    SHOW(clReleaseProgram(parts[1]));
    SHOW(clReleaseProgram(linked));
}

static void kernels(void) {
    int *a = malloc(BYTES), by = 3;
    for (int i = 0; i < COUNT; i++)
        a[i] = i - 100;
    cl_kernel kernel, plane;
    cl_mem in, out;
    MADE(in = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, BYTES, a, &error));
    MADE(out = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &error));
    MADE(kernel = clCreateKernel(program, "scale", &error));
    size_t items = COUNT, group = 64, odd = 100, zero = 0, start = 64, less = COUNT - 64;
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
    SHOW(clSetKernelArg(kernel, 0, sizeof in, &in));
    SHOW(clSetKernelArg(kernel, 1, sizeof out, &out));
    SHOW(clSetKernelArg(kernel, 2, sizeof by, &by));
    SHOW(clSetKernelArg(kernel, 2, 8, &by));
    SHOW(clSetKernelArg(kernel, 2, sizeof by, NULL));
    SHOW(clSetKernelArg(kernel, 3, group * sizeof(int), NULL));
    SHOW(clSetKernelArg(kernel, 4, sizeof by, &by));
    SHOW(clSetKernelArg(kernel, 0, 4, &in));
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &odd, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 4, NULL, &items, &group, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &zero, 0, NULL, NULL));
    cl_event event;
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, &event));
    SHOW(clWaitForEvents(1, &event));
    cl_int status;
    cl_command_type type;
    SHOW(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    SHOW(clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL));
    printf("status %d of %x\n", status, type);
    cl_ulong times[4];
    for (cl_uint i = 0; i < 4; i++)
        SHOW(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof(cl_ulong), &times[i], NULL));
    printf("in order: %d\n", times[0] <= times[1] && times[1] <= times[2] && times[2] <= times[3]);
    SHOW(clReleaseEvent(event));
    SHOW(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, BYTES, a, 0, NULL, NULL));
    printf("scaled: %ld\n", sum(a, COUNT));
    for (by = 4; by < 8; by++) {
        SHOW(clSetKernelArg(kernel, 2, sizeof by, &by));
        SHOW(clEnqueueNDRangeKernel(queue, kernel, 1, &start, &less, &group, 0, NULL, NULL));
    }
    SHOW(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, BYTES, a, 0, NULL, NULL));
    printf("scaled in part: %ld\n", sum(a, COUNT));
    int width = 64;
    size_t space[2] = {64, 64}, tile[2] = {8, 4};
    MADE(plane = clCreateKernel(program, "plane", &error));
    SHOW(clSetKernelArg(plane, 0, sizeof out, &out));
    SHOW(clSetKernelArg(plane, 1, sizeof width, &width));
    SHOW(clEnqueueNDRangeKernel(queue, plane, 2, NULL, space, tile, 0, NULL, NULL));
    SHOW(clEnqueueNDRangeKernel(queue, plane, 2, NULL, space, NULL, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, out, CL_TRUE, 0, BYTES, a, 0, NULL, NULL));
    printf("plane: %ld\n", sum(a, COUNT));
    SHOW(clEnqueueTask(queue, plane, 0, NULL, NULL));
    SHOW(clFinish(queue));
    SHOW(clReleaseKernel(kernel));
    SHOW(clReleaseKernel(plane));
    SHOW(clReleaseMemObject(in));
    SHOW(clReleaseMemObject(out));
    free(a);
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int calls, status;
} told = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

static void CL_CALLBACK tell(cl_event event, cl_int status, void *data) {
    pthread_mutex_lock(&told.lock);
    told.calls += *(int *)data;
    told.status = event == NULL ? 99 : status;
    pthread_cond_signal(&told.changed);
    pthread_mutex_unlock(&told.lock);
}

static int gone;
static void CL_CALLBACK go(cl_mem mem, void *data) {
    (void)mem;
    gone = gone * 10 + *(int *)data;
}

static void events(void) {
    int value = 1, one = 1, two = 2, read = 0;
    cl_event user, written, marker, waits[2];
    cl_mem mem;
    MADE(mem = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &error));
    SHOW(clSetMemObjectDestructorCallback(mem, go, &one));
    SHOW(clSetMemObjectDestructorCallback(mem, go, &two));
    MADE(user = clCreateUserEvent(context, &error));
    SHOW(clEnqueueWriteBuffer(unordered, mem, CL_FALSE, 0, sizeof value, &value, 1, &user, &written));
    SHOW(clEnqueueMarkerWithWaitList(unordered, 1, &written, &marker));
    cl_int status;
    SHOW(clGetEventInfo(user, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    printf("user event %d\n", status);
    SHOW(clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
    printf("marker waits: %d\n", status > 0);
    SHOW(clSetEventCallback(marker, CL_COMPLETE, tell, &one));
    SHOW(clSetEventCallback(marker, 7, tell, &one));
    SHOW(clSetEventCallback(marker, CL_COMPLETE, NULL, &one));
    SHOW(clSetUserEventStatus(written, CL_COMPLETE));
    SHOW(clSetUserEventStatus(user, 5));
    SHOW(clSetUserEventStatus(user, CL_COMPLETE));
    SHOW(clSetUserEventStatus(user, CL_COMPLETE));
    waits[0] = marker, waits[1] = written;
    SHOW(clWaitForEvents(2, waits));
    SHOW(clWaitForEvents(0, NULL));
    pthread_mutex_lock(&told.lock);
    while (!told.calls)
        pthread_cond_wait(&told.changed, &told.lock);
    printf("told %d times, %d\n", told.calls, told.status);
    pthread_mutex_unlock(&told.lock);
    SHOW(clEnqueueBarrierWithWaitList(unordered, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(unordered, mem, CL_TRUE, 0, sizeof read, &read, 1, &written, NULL));
    printf("read %d\n", read);
    SHOW(clGetEventProfilingInfo(user, CL_PROFILING_COMMAND_END, sizeof(cl_ulong), &(cl_ulong){0}, NULL));
    SHOW(clReleaseEvent(user));
    SHOW(clReleaseEvent(written));
    SHOW(clReleaseEvent(marker));
    SHOW(clFinish(unordered));
    SHOW(clReleaseMemObject(mem));
    printf("destructors %d\n", gone);
}

static void images(void) {
    enum { W = 32, H = 24 };
    unsigned char pixels[W * H * 4], back[W * H * 4];
    for (int i = 0; i < W * H * 4; i++)
        pixels[i] = (unsigned char)(i * 7);
    cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8}, wrong = {1, 2};
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = W, .image_height = H};
    cl_image_desc empty = {.image_type = CL_MEM_OBJECT_IMAGE2D};
    cl_mem in, out, bad;
    cl_sampler sampler;
    MADE(in = clCreateImage(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, &format, &desc, pixels, &error));
    MADE(out = clCreateImage2D(context, CL_MEM_WRITE_ONLY, &format, W, H, 0, NULL, &error));
    MADE(bad = clCreateImage(context, CL_MEM_READ_ONLY, &wrong, &desc, NULL, &error));
    MADE(bad = clCreateImage(context, CL_MEM_READ_ONLY, &format, &empty, NULL, &error));
    printf("none: %d\n", bad == NULL);
    MADE(sampler = clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, &error));
    size_t width, height, element;
    SHOW(clGetImageInfo(in, CL_IMAGE_WIDTH, sizeof width, &width, NULL));
    SHOW(clGetImageInfo(in, CL_IMAGE_HEIGHT, sizeof height, &height, NULL));
    SHOW(clGetImageInfo(in, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL));
    printf("%zu %zu %zu\n", width, height, element);
    cl_kernel kernel;
    MADE(kernel = clCreateKernel(program, "invert", &error));
    SHOW(clSetKernelArg(kernel, 0, sizeof in, &in));
    SHOW(clSetKernelArg(kernel, 1, sizeof out, &out));
    SHOW(clSetKernelArg(kernel, 2, sizeof sampler, NULL));
    SHOW(clSetKernelArg(kernel, 2, sizeof sampler, &sampler));
    size_t space[2] = {W, H}, origin[3] = {0, 0, 0}, region[3] = {W, H, 1}, corner[3] = {4, 2, 0}, box[3] = {8, 6, 1};
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, space, NULL, 0, NULL, NULL));
    SHOW(clEnqueueReadImage(queue, out, CL_TRUE, origin, region, 0, 0, back, 0, NULL, NULL));
    int wrong_pixels = 0;
    for (int i = 0; i < W * H * 4; i++)
        wrong_pixels += back[i] != 255 - pixels[i];
    printf("%d wrong\n", wrong_pixels);
    cl_uint color[4] = {1, 2, 3, 4};
    SHOW(clEnqueueFillImage(queue, out, color, corner, box, 0, NULL, NULL));
    SHOW(clEnqueueCopyImage(queue, in, out, origin, corner, (size_t[3]){2, 2, 1}, 0, NULL, NULL));
    SHOW(clEnqueueReadImage(queue, out, CL_TRUE, corner, box, 0, 0, back, 0, NULL, NULL));
    long total = 0;
    for (int i = 0; i < 8 * 6 * 4; i++)
        total += back[i] * (i % 5 + 1);
    printf("filled: %ld\n", total);
    SHOW(clEnqueueReadImage(queue, out, CL_TRUE, corner, region, 0, 0, back, 0, NULL, NULL));
    cl_mem plain;
    MADE(plain = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof pixels, NULL, &error));
    SHOW(clEnqueueCopyImageToBuffer(queue, in, plain, origin, region, 0, 0, NULL, NULL));
    SHOW(clEnqueueReadBuffer(queue, plain, CL_TRUE, 0, sizeof back, back, 0, NULL, NULL));
    printf("as a buffer: %d\n", memcmp(back, pixels, sizeof back));
    SHOW(clEnqueueCopyBufferToImage(queue, plain, out, 16, corner, box, 0, NULL, NULL));
    SHOW(clEnqueueWriteImage(queue, out, CL_TRUE, origin, (size_t[3]){1, 1, 1}, 0, 0, pixels, 0, NULL, NULL));
    for (int i = 0; i < 3; i++) { /* empty along one dimension, the last of which the image does not have */
        size_t flat[3] = {4, 2, 1};
        flat[i] = 0;
        SHOW(clEnqueueReadImage(queue, out, CL_TRUE, origin, flat, 0, 0, back, 0, NULL, NULL));
        SHOW(clEnqueueWriteImage(queue, out, CL_TRUE, origin, flat, 0, 0, back, 0, NULL, NULL));
        SHOW(clEnqueueFillImage(queue, out, color, origin, flat, 0, NULL, NULL));
        SHOW(clEnqueueCopyImage(queue, out, out, origin, corner, flat, 0, NULL, NULL));
        SHOW(clEnqueueCopyImageToBuffer(queue, out, plain, origin, flat, 0, 0, NULL, NULL));
        SHOW(clEnqueueCopyBufferToImage(queue, plain, out, 0, origin, flat, 0, NULL, NULL));
    }
    MADE(bad = clCreateSubBuffer(out, 0, CL_BUFFER_CREATE_TYPE_REGION, &(cl_buffer_region){0, 64}, &error));
    size_t pitch;
    unsigned char *mapped;
    MADE(mapped = clEnqueueMapImage(queue, out, CL_TRUE, CL_MAP_READ, corner, box, &pitch, NULL, 0, NULL, NULL, &error));
    printf("mapped %d %d\n", mapped[0], mapped[pitch]);
    SHOW(clEnqueueUnmapMemObject(queue, out, mapped, 0, NULL, NULL));
    cl_uint formats;
    SHOW(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D, 0, NULL, &formats));
    printf("formats: %d\n", formats > 8);
    SHOW(clFinish(queue));
    SHOW(clReleaseSampler(sampler));
    SHOW(clReleaseKernel(kernel));
    SHOW(clReleaseMemObject(in));
    SHOW(clReleaseMemObject(out));
    SHOW(clReleaseMemObject(plain));
}

static void shared_memory(void) {
    cl_kernel kernel;
    int *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, BYTES, 0), other[16] = {1, 2, 3}, width = 64, pattern = 9;
    printf("allocated: %d %d\n", memory != NULL, clSVMAlloc(context, CL_MEM_READ_WRITE, 0, 0) == NULL);
    cl_mem above;
    MADE(above = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, 2 * BYTES, memory, &error));
    MADE(above = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, BYTES / 2, memory, &error));
    SHOW(clReleaseMemObject(above));
    MADE(kernel = clCreateKernel(program, "plane", &error));
    SHOW(clSetKernelArgSVMPointer(kernel, 0, memory));
    SHOW(clSetKernelArgSVMPointer(kernel, 7, memory));
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof memory, &memory));
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, 0, NULL));
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, 8, NULL));
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, 0, NULL));
    SHOW(clSetKernelArg(kernel, 1, sizeof width, &width));
    size_t space[2] = {64, 64};
    SHOW(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, space, NULL, 0, NULL, NULL));
    SHOW(clEnqueueSVMMemcpy(queue, CL_TRUE, memory + 8, other, sizeof other, 0, NULL, NULL));
    SHOW(clEnqueueSVMMemFill(queue, memory, &pattern, sizeof pattern, 16, 0, NULL, NULL));
    SHOW(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, memory, BYTES, 0, NULL, NULL));
    printf("shared: %ld\n", sum(memory, COUNT));
    SHOW(clEnqueueSVMUnmap(queue, memory, 0, NULL, NULL));
    SHOW(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, NULL, BYTES, 0, NULL, NULL));
    SHOW(clFinish(queue));
    SHOW(clReleaseKernel(kernel));
    clSVMFree(context, memory);
    clSVMFree(context, NULL);
}

static volatile int ended;
static void CL_CALLBACK end(cl_context gone, void *data) {
    (void)gone;
    ended = ended * 10 + *(int *)data;
}

static void queues(void) {
    cl_queue_properties some[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0}, bad[] = {1, 2, 0};
    cl_command_queue one, none;
    cl_command_queue_properties bits;
    cl_context of;
    cl_uint references;
    MADE(one = clCreateCommandQueueWithProperties(context, device, some, &error));
    MADE(none = clCreateCommandQueueWithProperties(context, device, bad, &error));
    MADE(none = clCreateCommandQueue(context, NULL, 0, &error));
    printf("none: %d\n", none == NULL);
    SHOW(clGetCommandQueueInfo(one, CL_QUEUE_PROPERTIES, sizeof bits, &bits, NULL));
    SHOW(clGetCommandQueueInfo(one, CL_QUEUE_CONTEXT, sizeof of, &of, NULL));
    SHOW(clGetCommandQueueInfo(one, CL_QUEUE_REFERENCE_COUNT, sizeof references, &references, NULL));
    printf("%d %d %u\n", (int)bits, of == context, references);
    size_t nbytes;
    SHOW(clGetCommandQueueInfo(one, CL_QUEUE_PROPERTIES_ARRAY, 0, NULL, &nbytes));
    printf("properties of %zu bytes, ", nbytes);
    SHOW(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, 0, NULL, &nbytes));
    printf("and, made without a list, of %zu\n", nbytes);
    void *nothing[1] = {NULL};
    cl_event freed;
    SHOW(clEnqueueSVMFree(one, 0, NULL, NULL, NULL, 0, NULL, &freed));
    SHOW(clWaitForEvents(1, &freed));
    SHOW(clReleaseEvent(freed));
    SHOW(clEnqueueSVMFree(one, 0, nothing, NULL, NULL, 0, NULL, NULL));
    SHOW(clEnqueueSVMFree(one, 1, NULL, NULL, NULL, 0, NULL, NULL));
    SHOW(clFlush(one));
    SHOW(clFinish(NULL));
    SHOW(clReleaseCommandQueue(one));
    cl_context other;
    cl_context_properties wrong[] = {1, 2, 0};
    cl_device_id devices[1], none_there = NULL;
    MADE(other = clCreateContext(NULL, 0, NULL, NULL, NULL, &error));
    MADE(other = clCreateContext(NULL, 1, &none_there, NULL, NULL, &error));
    MADE(other = clCreateContext(wrong, 1, &device, NULL, NULL, &error));
    SHOW(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof devices, devices, NULL));
    printf("its device: %d, none: %d\n", devices[0] == device, other == NULL);
    MADE(other = clCreateContextFromType(NULL, CL_DEVICE_TYPE_ALL, NULL, NULL, &error));
    int first = 1, second = 2;
    SHOW(clSetContextDestructorCallback(other, NULL, &first));
    SHOW(clSetContextDestructorCallback(other, end, &first));
    SHOW(clSetContextDestructorCallback(other, end, &second));
    SHOW(clReleaseContext(other));
    for (int i = 0; i < 6000 && ended < 10; i++)
        usleep(10000);
    printf("callbacks of the context: %d\n", ended);
}

static void refused(void) {
    cl_mem mem, bad;
    cl_buffer_region region = {0, 64};
    MADE(mem = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error));
    MADE(bad = clCreateSubBuffer(mem, CL_MEM_ALLOC_HOST_PTR, CL_BUFFER_CREATE_TYPE_REGION, &region, &error));
    MADE(bad = clCreateBuffer(context, CL_MEM_KERNEL_READ_AND_WRITE, 64, NULL, &error));
    printf("none: %d\n", bad == NULL);
    cl_uint found;
    SHOW(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_PIPE, 0, NULL, &found));
    cl_kernel kernel;
    MADE(kernel = clCreateKernel(program, "scale", &error));
    void *pointer = clSVMAlloc(context, CL_MEM_READ_WRITE, 64, 0);
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof pointer, &pointer));
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, 4, &pointer));
    SHOW(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, 12, &pointer));
    clSVMFree(context, pointer);
    cl_context other;
    cl_program part, linked;
    MADE(other = clCreateContext(NULL, 1, &device, NULL, NULL, &error));
    MADE(part = clCreateProgramWithSource(context, 1, &source, NULL, &error));
    SHOW(clCompileProgram(part, 0, NULL, "", 0, NULL, NULL, NULL, NULL));
    MADE(linked = clLinkProgram(other, 0, NULL, "", 1, &part, NULL, NULL, &error));
    MADE(linked = clLinkProgram(context, 0, NULL, "", 1, &part, NULL, NULL, &error));
    SHOW(clReleaseProgram(linked));
    SHOW(clReleaseProgram(part));
    SHOW(clReleaseContext(other));
    SHOW(clReleaseKernel(kernel));
    SHOW(clReleaseMemObject(mem));
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    cl_platform_id platform;
    SHOW(clGetPlatformIDs(1, &platform, NULL));
    SHOW(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    MADE(context = clCreateContext(properties, 1, &device, NULL, NULL, &error));
    MADE(queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &error));
    MADE(unordered = clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error));
    MADE(program = clCreateProgramWithSource(context, 1, &source, NULL, &error));
    SHOW(clBuildProgram(program, 1, &device, "-cl-kernel-arg-info", NULL, NULL));
    queues();
    buffers();
    programs();
    kernels();
    events();
    images();
    shared_memory();
    refused();
    SHOW(clReleaseProgram(program));
    SHOW(clReleaseCommandQueue(queue));
    SHOW(clReleaseCommandQueue(unordered));
    SHOW(clReleaseContext(context));
    return 0;
}
