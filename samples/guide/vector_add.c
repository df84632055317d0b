/* Adds two vectors with OpenCL: an ordinary C program, which knows nothing of vdev. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20 };

int main(void) {
    const char *source = "__kernel void add(__global const float *a, __global const float *b, __global float *c) {\n"
                         "    int i = get_global_id(0);\n"
                         "    c[i] = a[i] + b[i];\n"
                         "}\n";
    size_t items = N, nbytes = N * sizeof(float);
    float *a = malloc(nbytes), *b = malloc(nbytes), *c = malloc(nbytes);
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 2.0f * (float)i;
    }
    cl_platform_id platform;
    cl_device_id device;
    char name[256];
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return puts("no device"), 1;
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
    clBuildProgram(program, 1, &device, "", NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "add", NULL);
    cl_mem A = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, nbytes, a, NULL);
    cl_mem B = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, nbytes, b, NULL);
    cl_mem C = clCreateBuffer(context, CL_MEM_WRITE_ONLY, nbytes, NULL, NULL);
    clSetKernelArg(kernel, 0, sizeof A, &A);
    clSetKernelArg(kernel, 1, sizeof B, &B);
    clSetKernelArg(kernel, 2, sizeof C, &C);
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
    int code = clEnqueueReadBuffer(queue, C, CL_TRUE, 0, nbytes, c, 0, NULL, NULL);
    printf("%s | status %d, last sum %.0f\n", name, code, c[N - 1]);
    clReleaseMemObject(A);
    clReleaseMemObject(B);
    clReleaseMemObject(C);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    free(a);
    free(b);
    free(c);
    return code != 0;
}
