/* The local size that is suggested for a launch is the one that the launch takes: run natively and on the virtual device, it
 * prints the same. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOW(call) printf("%s: %d\n", #call, (int)(call))
typedef cl_int (*suggest_function)(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, size_t *);

static cl_int error;
static cl_context context;
static cl_device_id device;
static cl_command_queue queue;
static suggest_function suggest;

#define TELLS(name, before)                                                                                                \
    before "kernel void " name "(global uint *out) {\n"                                                                    \
           "  if (get_global_linear_id() == 0)\n"                                                                          \
           "    for (uint i = 0; i < 3; i++) out[i] = get_enqueued_local_size(i);\n"                                       \
           "}\n"
/* The second one vdev's own parser does not split, and the third has a size of its own. */
static const char *sources[] = {
    TELLS("plain", ""),
    TELLS("whole", "global int total;\n"),
    TELLS("sized", "__attribute__((reqd_work_group_size(4, 2, 1))) "),
};
static const char *names[] = {"plain", "whole", "sized"};

static void launch(cl_kernel kernel, cl_mem out, cl_uint dims, const size_t *start, const size_t *sizes, cl_uint *found) {
    memset(found, 0, 3 * sizeof *found);
    error = clEnqueueNDRangeKernel(queue, kernel, dims, start, sizes, NULL, 0, NULL, NULL);
    error |= clEnqueueReadBuffer(queue, out, CL_TRUE, 0, 3 * sizeof *found, found, 0, NULL, NULL);
}

static void compare(const char *name, cl_kernel kernel, cl_mem out, cl_uint dims, const size_t *start, const size_t *sizes) {
    size_t local[3] = {1, 1, 1};
    cl_uint before[3], after[3];
    for (int i = 0; i < 6; i++)
        launch(kernel, out, dims, start, sizes, before);
    cl_int status = suggest(queue, kernel, dims, start, sizes, local);
    launch(kernel, out, dims, start, sizes, after);
    int same = 1, divides = 1;
    for (cl_uint i = 0; i < 3; i++) {
        same &= status != CL_SUCCESS || local[i] == after[i];
        divides &= i >= dims || local[i] == 0 || sizes[i] % local[i] == 0;
    }
    printf("%s, %u dimensions from %zu: %d %d, the launch's: %d, divides: %d\n", name, dims, start ? start[0] : 0, status, error,
           same, divides);
}

static void errors(cl_kernel kernel) {
    size_t sizes[3] = {64, 4, 1}, none[3] = {64, 0, 1}, local[3] = {7, 7, 7};
    cl_context other = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue foreign = clCreateCommandQueueWithProperties(other, device, NULL, &error);
    SHOW(suggest(NULL, kernel, 1, NULL, sizes, local));
    SHOW(suggest(queue, NULL, 1, NULL, sizes, local));
    SHOW(suggest(foreign, kernel, 1, NULL, sizes, local));
    SHOW(suggest(queue, kernel, 0, NULL, sizes, local));
    SHOW(suggest(queue, kernel, 4, NULL, sizes, local));
    SHOW(suggest(queue, kernel, 1, NULL, NULL, local));
    SHOW(suggest(queue, kernel, 2, NULL, none, local));
    SHOW(suggest(queue, kernel, 1, NULL, sizes, NULL));
    printf("untouched: %d\n", local[0] == 7 && local[1] == 7 && local[2] == 7);
    SHOW(suggest(queue, kernel, 1, NULL, sizes, local));
    printf("untouched: %d\n", local[1] == 7 && local[2] == 7);
    for (cl_uint dims = 1; dims <= 3; dims++) /* launches with too few dimensions for a required size */
        for (int given = 0; given < 2; given++) {
            size_t group[3] = {4, 2, 1};
            error = clEnqueueNDRangeKernel(queue, kernel, dims, NULL, sizes, given ? group : NULL, 0, NULL, NULL);
            printf("%u dimensions, %s: %d\n", dims, given ? "given" : "chosen", error);
        }
    clFinish(queue);
    clReleaseCommandQueue(foreign);
    clReleaseContext(other);
}

int main(void) {
    cl_platform_id platform;
    char extensions[8192] = "";
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 1;
    clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, sizeof extensions, extensions, NULL);
    printf("offered: %d\n", strstr(extensions, "cl_khr_suggested_local_work_size") != NULL);
    suggest = (suggest_function)clGetExtensionFunctionAddressForPlatform(platform, "clGetKernelSuggestedLocalWorkSizeKHR");
    if (suggest == NULL)
        return 2;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    cl_mem out = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &error);
    size_t spaces[][3] = {{8000, 4, 2}, {1, 1, 1}, {12, 4, 1}, {64, 6, 3}, {4096, 2, 1}, {996, 2, 1}, {1012, 14, 5}};
    size_t starts[][3] = {{0, 0, 0}, {10, 3, 1}};
    for (int i = 0; i < 3; i++) {
        cl_program program = clCreateProgramWithSource(context, 1, &sources[i], NULL, &error);
        printf("built: %d\n", clBuildProgram(program, 1, &device, "-cl-std=CL3.0", NULL, NULL));
        cl_kernel kernel = clCreateKernel(program, names[i], &error);
        size_t one = 8, local = 7;
        SHOW(suggest(queue, kernel, 1, NULL, &one, &local)); /* its argument is not set */
        clSetKernelArg(kernel, 0, sizeof out, &out);
        cl_uint found[3];
        for (size_t space = 0; space < sizeof spaces / sizeof *spaces; space++)
            launch(kernel, out, 2, NULL, spaces[space], found); /* before anything was suggested */
        for (size_t space = 0; space < sizeof spaces / sizeof *spaces; space++)
            for (cl_uint dims = i == 2 ? 2 : 1; dims <= 3; dims++)
                for (int start = 0; start < 3; start++)
                    compare(names[i], kernel, out, dims, start == 2 ? NULL : starts[start], spaces[space]);
        errors(kernel);
        clReleaseKernel(kernel);
        clReleaseProgram(program);
    }
    clReleaseMemObject(out);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
