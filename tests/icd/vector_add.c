/* Adds two vectors, and ends in the way that its argument says: nothing, `exit`, `pending`, `fork`, `failed`, `signal`, `destructor`. */
#include "few.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define CHECK(call)                                                                                                        \
    do {                                                                                                                   \
        int32_t code_ = (call);                                                                                            \
        if (code_)                                                                                                         \
            return printf("%s: %d\n", #call, code_), 1;                                                                    \
    } while (0)
enum { N = 1 << 16, TYPE_ALL = -1, NAME = 0x102B, PLATFORM_NAME = 0x0902, READ_ONLY = 4, WRITE_ONLY = 2, COPY = 32 };

static const char *source = "__kernel void add(__global const float *a, __global const float *b, __global float *c, int n) {\n"
                            "  int i = get_global_id(0);\n"
                            "  if (i < n) c[i] = a[i] + b[i];\n"
                            "}\n";
static handle platform, device, context, queue, kernel;
static float a[N], b[N], r[N];

__attribute__((destructor)) static void late(void) {
    if (getenv("LATE") != NULL && context != NULL)
        printf("released late: %d\n", clReleaseContext(context));
}

static int forked(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int32_t code = clFinish(queue), other;
        handle mine = clCreateContext(NULL, 1, &device, NULL, NULL, &other);
        printf("in the child: %d, %d, %d\n", code, mine == NULL, other);
        fflush(stdout);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("the child's status: %d\n", status);
    return 0;
}

static int failed(handle mem) {
    int32_t error, status;
    handle user = clCreateUserEvent(context, &error), written;
    CHECK(error);
    CHECK(clEnqueueWriteBuffer(queue, mem, 0, 0, 64, a, 1, &user, &written));
    CHECK(clSetUserEventStatus(user, -5));
    printf("waiting: %d\n", clWaitForEvents(1, &written));
    CHECK(clGetEventInfo(written, 0x11D3, sizeof status, &status, NULL));
    printf("failed: %d\n", status < 0);
    CHECK(clReleaseEvent(user));
    CHECK(clReleaseEvent(written));
    return 0;
}

int main(int count, char **words) {
    const char *way = count > 1 ? words[1] : "";
    char name[256];
    int32_t error, n = N, wrong = 0;
    size_t items = N, group = 64;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetPlatformInfo(platform, PLATFORM_NAME, sizeof name, name, NULL));
    CHECK(clGetDeviceIDs(platform, (uint32_t)TYPE_ALL, 1, &device, NULL));
    printf("%s: ", name);
    CHECK(clGetDeviceInfo(device, NAME, sizeof name, name, NULL));
    printf("%s\n", name);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    CHECK(error);
    queue = clCreateCommandQueue(context, device, 0, &error);
    CHECK(error);
    handle program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
    CHECK(error);
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    kernel = clCreateKernel(program, "add", &error);
    CHECK(error);
    for (int i = 0; i < N; i++)
        a[i] = (float)i, b[i] = 2.0f * (float)i;
    handle A = clCreateBuffer(context, READ_ONLY | COPY, sizeof a, a, &error);
    CHECK(error);
    handle B = clCreateBuffer(context, READ_ONLY, sizeof b, NULL, &error);
    CHECK(error);
    handle C = clCreateBuffer(context, WRITE_ONLY, sizeof r, NULL, &error), event;
    CHECK(error);
    CHECK(clEnqueueWriteBuffer(queue, B, 0, 0, sizeof b, b, 0, NULL, NULL));
    CHECK(clSetKernelArg(kernel, 0, sizeof A, &A));
    CHECK(clSetKernelArg(kernel, 1, sizeof B, &B));
    CHECK(clSetKernelArg(kernel, 2, sizeof C, &C));
    CHECK(clSetKernelArg(kernel, 3, sizeof n, &n));
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, &event));
    CHECK(clEnqueueReadBuffer(queue, C, 1, 0, sizeof r, r, 1, &event, NULL));
    for (int i = 0; i < N; i++)
        wrong += r[i] != a[i] + b[i];
    /* a buffer that is released while it is an argument, another one perhaps at its address, and the same number set again */
    CHECK(clReleaseMemObject(B));
    handle D = clCreateBuffer(context, READ_ONLY | COPY, sizeof a, a, &error);
    CHECK(clSetKernelArg(kernel, 1, sizeof D, &D));
    CHECK(clSetKernelArg(kernel, 3, sizeof n, &n));
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, C, 1, 0, sizeof r, r, 0, NULL, NULL));
    for (int i = 0; i < N; i++)
        wrong += r[i] != 2 * a[i];
    printf("%d wrong\n", wrong);
    if (strcmp(way, "fork") == 0)
        CHECK(forked());
    if (strcmp(way, "failed") == 0)
        CHECK(failed(A));
    if (strcmp(way, "signal") == 0) {
        struct sigaction now;
        sigaction(SIGPIPE, NULL, &now);
        printf("a closed pipe ends it: %d\n", now.sa_handler == SIG_DFL);
        fflush(stdout);
        raise(SIGINT);
        CHECK(clFinish(queue));
        puts("it goes on");
    }
    if (strcmp(way, "pending") == 0) { /* work that waits for ever, and nothing is released */
        handle user = clCreateUserEvent(context, &error);
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, &group, 1, &user, NULL));
    }
    if (strcmp(way, "exit") == 0 || strcmp(way, "pending") == 0)
        exit(3);
    CHECK(clReleaseEvent(event));
    CHECK(clReleaseMemObject(A));
    CHECK(clReleaseMemObject(D));
    CHECK(clReleaseMemObject(C));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    if (getenv("LATE") == NULL)
        CHECK(clReleaseContext(context));
    return wrong != 0;
}
