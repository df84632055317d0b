/* Specialization constants of a program in SPIR-V: run natively and on the virtual device, it prints the same.
 *
 * The kernel `put` stores the number with the identifier 7 (5 unless another one is given), and 100 more if the Boolean with the
 * identifier 8 is true, as it is by itself.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>

#define SHOW(call) printf("%s: %d\n", #call, (int)(call))

static const cl_uint il[] = {
    0x07230203, 0x00010000, 0x00070000, 0x0000000f, 0x00000000, 0x00020011, 0x00000004, 0x00020011,
    0x00000005, 0x00020011, 0x00000006, 0x0003000e, 0x00000002, 0x00000002, 0x0004000f, 0x00000006,
    0x00000001, 0x00747570, 0x00040047, 0x00000002, 0x00000001, 0x00000007, 0x00040047, 0x00000003,
    0x00000001, 0x00000008, 0x00020013, 0x00000004, 0x00040015, 0x00000005, 0x00000020, 0x00000000,
    0x00020014, 0x00000006, 0x00040020, 0x00000007, 0x00000005, 0x00000005, 0x00040021, 0x00000008,
    0x00000004, 0x00000007, 0x00040032, 0x00000005, 0x00000002, 0x00000005, 0x00030030, 0x00000006,
    0x00000003, 0x0004002b, 0x00000005, 0x00000009, 0x00000064, 0x0004002b, 0x00000005, 0x0000000a,
    0x00000000, 0x00050036, 0x00000004, 0x00000001, 0x00000000, 0x00000008, 0x00030037, 0x00000007,
    0x0000000b, 0x000200f8, 0x0000000c, 0x000600a9, 0x00000005, 0x0000000d, 0x00000003, 0x00000009,
    0x0000000a, 0x00050080, 0x00000005, 0x0000000e, 0x00000002, 0x0000000d, 0x0005003e, 0x0000000b,
    0x0000000e, 0x00000002, 0x00000004, 0x000100fd, 0x00010038,
};
static cl_int error;
static cl_context context;
static cl_command_queue queue;

static void run(cl_program program) {
    cl_uint found = 0;
    printf("built: %d\n", clBuildProgram(program, 0, NULL, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "put", &error);
    cl_mem out = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof found, NULL, &error);
    size_t one = 1;
    clSetKernelArg(kernel, 0, sizeof out, &out);
    error = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
    clEnqueueReadBuffer(queue, out, CL_TRUE, 0, sizeof found, &found, 0, NULL, NULL);
    printf("%d: %u\n", error, found);
    clReleaseMemObject(out);
    clReleaseKernel(kernel);
}

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    const char *text = "kernel void put(global uint *out) { *out = 1; }";
    cl_uint number = 42;
    cl_uchar flag = 0;
    if (clGetPlatformIDs(1, &platform, NULL) || clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL))
        return 1;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
    for (int given = 0; given < 4; given++) {
        cl_program program = clCreateProgramWithIL(context, il, sizeof il, &error);
        printf("made: %d\n", error);
        if (given & 1)
            SHOW(clSetProgramSpecializationConstant(program, 7, sizeof number, &number));
        if (given & 2)
            SHOW(clSetProgramSpecializationConstant(program, 8, sizeof flag, &flag));
        run(program);
        clReleaseProgram(program);
    }
    cl_program program = clCreateProgramWithIL(context, il, sizeof il, &error);
    SHOW(clSetProgramSpecializationConstant(program, 9, sizeof number, &number));
    SHOW(clSetProgramSpecializationConstant(program, 7, 8, (cl_ulong[]){1}));
    SHOW(clSetProgramSpecializationConstant(program, 7, sizeof number, NULL));
    SHOW(clSetProgramSpecializationConstant(NULL, 7, sizeof number, &number));
    clReleaseProgram(program);
    program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    SHOW(clSetProgramSpecializationConstant(program, 7, sizeof number, &number));
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}
