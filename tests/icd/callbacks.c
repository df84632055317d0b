/* Callbacks of events: natively one at a time, in the order of an in-order queue's commands and of each command's states.
 * With an argument: one that waits for a later command, which native drivers may not begin before it has returned. */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdio.h>
#include <unistd.h>

enum { LAUNCHES = 1500, WAITING = 60 };
static int called[2 * LAUNCHES], count, inside, overlaps;

/* `number`: which call this should be. Nothing is protected: no two calls come at one time. */
static void CL_CALLBACK note(cl_event event, cl_int status, void *number) {
    if (__sync_fetch_and_add(&inside, 1))
        __sync_fetch_and_add(&overlaps, 1);
    called[count] = (int)(size_t)number;
    __sync_fetch_and_sub(&inside, 1);
    __sync_fetch_and_add(&count, 1);
}

static void CL_CALLBACK freed(cl_command_queue queue, cl_uint many, void *pointers[], void *number) {
    for (cl_uint i = 0; i < many; i++)
        clSVMFree(number, pointers[i]);
    __sync_fetch_and_add(&count, 1);
}

static volatile int *ended;
static void CL_CALLBACK waits(cl_event event, cl_int status, void *other) {
    cl_int state = 1;
    for (int i = 0; i < 6000 && state > 0; i++, usleep(10000)) /* callbacks hold no command up */
        clGetEventInfo(other, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    *ended = state;
    __sync_fetch_and_add(&count, 1);
}

static void show(const char *name, int expected) {
    for (int i = 0; i < 6000 && __sync_fetch_and_add(&count, 0) < expected; i++)
        usleep(10000);
    int wrong = 0;
    for (int i = 0; i < expected; i++)
        wrong += called[i] != i;
    printf("%s: %d called, %d out of place, %d at one time\n", name, count, wrong, overlaps);
    count = 0;
}

int main(int argc, char **argv) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int error, state = 1;
    clGetPlatformIDs(1, &platform, NULL);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error), second = clCreateCommandQueue(context, device, 0, &error);
    const char *source = "__kernel void more(__global int *a) { a[get_global_id(0)]++; }";
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
    clBuildProgram(program, 0, NULL, NULL, NULL, NULL);
    cl_kernel kernel = clCreateKernel(program, "more", &error);
    size_t size = 1024;
    int zero = 0, values[1024];
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof values, NULL, &error);
    clSetKernelArg(kernel, 0, sizeof mem, &mem);
    clEnqueueFillBuffer(queue, mem, &zero, 4, 0, sizeof values, 0, NULL, NULL);

    for (int i = 0; i < LAUNCHES; i++) {
        cl_event event;
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, &event);
        clSetEventCallback(event, CL_COMPLETE, note, (void *)(size_t)i);
        clReleaseEvent(event);
        if (i / 1200 == 49)
            clFlush(queue);
    }
    clFinish(queue);
    show("launches", LAUNCHES);

    cl_event gate = clCreateUserEvent(context, &error), event;
    clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 1, &gate, &event);
    for (int i = 0; i < WAITING / 3; i++) {
        clSetEventCallback(event, CL_COMPLETE, note, (void *)(size_t)(2 * WAITING / 3 + i));
        clSetEventCallback(event, CL_RUNNING, note, (void *)(size_t)(WAITING / 3 + i));
        clSetEventCallback(event, CL_SUBMITTED, note, (void *)(size_t)i);
    }
    clSetUserEventStatus(gate, CL_COMPLETE);
    clFinish(queue);
    show("states", WAITING);
    for (int i = 0; i < 10; i++) /* it has ended */
        clSetEventCallback(event, CL_COMPLETE, note, (void *)(size_t)i);
    show("afterwards", 10);

    void *plain = clSVMAlloc(context, CL_MEM_READ_WRITE, sizeof values, 0);
    int late[5] = {0};
    for (int i = 0; i < 600; i++) { /* what has been waited for has been called for as well */
        cl_event last;
        void *mapped;
        clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &size, NULL, 0, NULL, &last);
        clSetEventCallback(last, CL_COMPLETE, note, (void *)(size_t)i);
        if (i / 120 != 1)
            clReleaseEvent(last);
        switch (i / 120) {
        case 0: clFinish(queue); break;
        case 1: clWaitForEvents(1, &last); clReleaseEvent(last); break;
        case 2: clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL); break;
        case 3:
            mapped = clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ, 0, sizeof values, 0, NULL, NULL, &error);
            clEnqueueUnmapMemObject(queue, mem, mapped, 0, NULL, NULL);
            break;
        default: clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, plain, 64, 0, NULL, NULL); clEnqueueSVMUnmap(queue, plain, 0, NULL, NULL);
        }
        late[i / 120] += __sync_fetch_and_add(&count, 0) <= i;
    }
    printf("late: %d %d %d %d %d\n", late[0], late[1], late[2], late[3], late[4]);
    show("waited for", 600);

    int *shared = clSVMAlloc(context, CL_MEM_READ_WRITE, 64, 0);
    clEnqueueSVMFree(queue, 1, (void **)&shared, freed, context, 0, NULL, NULL);
    clFinish(queue);
    show("freed", 1);

    if (argc > 1) {
        cl_event again = clCreateUserEvent(context, &error), later;
        clEnqueueNDRangeKernel(second, kernel, 1, NULL, &size, NULL, 1, &again, &later);
        ended = &state;
        clSetEventCallback(event, CL_COMPLETE, waits, later);
        clFinish(queue); /* is not held up for long */
        clSetUserEventStatus(again, CL_COMPLETE);
        clFinish(second);
        while (__sync_fetch_and_add(&count, 0) < 1)
            usleep(1000);
        printf("a callback saw the end of a later command: %d\n", state);
    }
    clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof values, values, 0, NULL, NULL);
    printf("launched: %d\n", values[1023] > 0);
    return 0;
}
