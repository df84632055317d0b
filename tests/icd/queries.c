/* What objects answer, asked again and again while they change; and launches with queries between them: all must be as natively. */
#include "few.h"
#include <stdio.h>
#include <string.h>

typedef int32_t query(handle, uint32_t, size_t, void *, size_t *);
extern query clGetCommandQueueInfo, clGetMemObjectInfo, clGetImageInfo, clGetKernelInfo, clGetSamplerInfo;
int32_t clGetKernelWorkGroupInfo(handle, handle, uint32_t, size_t, void *, size_t *);
handle clCreateImage(handle, uint64_t, const void *, const void *, void *, int32_t *);
handle clCreateSampler(handle, uint32_t, uint32_t, uint32_t, int32_t *);
void *clEnqueueMapBuffer(handle, handle, uint32_t, uint64_t, size_t, size_t, uint32_t, const handle *, handle *, int32_t *);
int32_t clEnqueueUnmapMemObject(handle, handle, void *, uint32_t, const handle *, handle *);
int32_t clGetProgramInfo(handle, uint32_t, size_t, void *, size_t *);
int32_t clGetSupportedImageFormats(handle, uint64_t, uint32_t, uint32_t, void *, uint32_t *);
int32_t clRetainMemObject(handle);
int32_t clRetainKernel(handle);

enum { N = 64 };
static handle device, context, queue, program, kernel, whole, part, image, sampler;

static void must(int code, const char *what) {
    if (code != 0) printf("%s: %d\n", what, code);
}

/* a handle as its name, all else as numbers */
static void show(uint32_t name, int32_t code, size_t nbytes, const unsigned char *bytes) {
    const handle known[] = {device, context, queue, program, kernel, whole, part, image, sampler};
    static const char *const names[] = {"device", "context", "queue", "program", "kernel", "whole", "part", "image", "sampler"};
    printf("%#x: %d,", name, code);
    if (code == 0) printf(" %zu bytes:", nbytes);
    for (unsigned i = 0; code == 0 && nbytes == sizeof(handle) && i < sizeof known / sizeof *known; i++)
        if (memcmp(bytes, &known[i], nbytes) == 0) {
            printf(" %s\n", names[i]);
            return;
        }
    for (size_t i = 0; code == 0 && i < nbytes; i++) printf(" %u", bytes[i]);
    printf("\n");
}

static void ask(query *function, handle object, const uint32_t *names) {
    for (; *names != 0; names++)
        for (size_t room = 1; room <= 256; room *= 256) { /* too little, and enough */
            unsigned char bytes[256] = {0}; size_t nbytes = 0;
            int32_t code = function(object, *names, room, bytes, &nbytes);
            show(*names, code, nbytes, bytes);
        }
}

static void ask_for_groups(handle of) {
    for (uint32_t name = 0x11B0; name <= 0x11B5; name++) {
        unsigned char bytes[256] = {0}; size_t nbytes = 0;
        int32_t code = clGetKernelWorkGroupInfo(kernel, of, name, sizeof bytes, bytes, &nbytes);
        show(name, code, nbytes, bytes);
    }
}

static void ask_all(void) {
    static const uint32_t of_queue[] = {0x1090, 0x1091, 0x1092, 0x1093, 0x1098, 0};
    /* but for the host's address; the width of an image is for clGetImageInfo only, and the size of memory for the other */
    static const uint32_t of_memory[] = {0x1100, 0x1101, 0x1102, 0x1104, 0x1105, 0x1106, 0x1107, 0x1108, 0x1109, 0x1114, 0};
    static const uint32_t of_image[] = {0x1110, 0x1111, 0x1112, 0x1113, 0x1114, 0x1115, 0x1102, 0x1104, 0};
    static const uint32_t of_kernel[] = {0x1190, 0x1191, 0x1192, 0x1193, 0x1194, 0x11B0, 0};
    static const uint32_t of_sampler[] = {0x1150, 0x1151, 0x1152, 0x1153, 0x1154, 0};
    ask(clGetCommandQueueInfo, queue, of_queue);
    ask(clGetMemObjectInfo, whole, of_memory); ask(clGetMemObjectInfo, part, of_memory); ask(clGetMemObjectInfo, image, of_memory);
    ask(clGetImageInfo, image, of_image); ask(clGetImageInfo, whole, of_image);
    ask(clGetKernelInfo, kernel, of_kernel);
    ask(clGetSamplerInfo, sampler, of_sampler);
    ask_for_groups(device); ask_for_groups(NULL);
}

static void launch_and_ask(void) {
    uint32_t content[N]; size_t count = N; int32_t code; unsigned sum = 0, formats; uint64_t found;
    for (unsigned i = 0; i < 100; i++) {
        must(clSetKernelArg(kernel, 1, (i / 50 + 1) * 64, NULL), "local");
        must(clSetKernelArg(kernel, 2, sizeof i, &i), "number");
        must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, 0, NULL, NULL), "launch");
        must(clGetKernelWorkGroupInfo(kernel, device, 0x11B0, sizeof found, &found, NULL), "work-group's size");
        must(clGetMemObjectInfo(whole, 0x1102, sizeof found, &found, NULL), "memory's size");
        must(clGetCommandQueueInfo(queue, 0x1090, sizeof found, &found, NULL), "queue's context");
        if (i % 3) continue;
        must(clGetProgramInfo(program, 0x1162, sizeof formats, &formats, NULL), "program's devices");
        must(clGetSupportedImageFormats(context, 1, 0x10F1, 0, NULL, &formats), "formats");
        must(clGetDeviceIDs(NULL, 0xFFFFFFFF, 0, NULL, &formats), "devices");
    }
    must(code = clEnqueueReadBuffer(queue, whole, 1, 0, sizeof content, content, 0, NULL, NULL), "read");
    for (int i = 0; i < N; i++) sum = 31 * sum + content[i];
    printf("after launches: %u\n", sum);
}

/* an object in the place of one that is gone, which may have its address */
static void ask_of_others(void) {
    for (size_t i = 1; i <= 20; i++) {
        int32_t code; size_t nbytes = 0; handle other = clCreateBuffer(context, i % 2 ? 1 : 4, 64 * i, NULL, &code);
        uint64_t flags = 0;
        must(clGetMemObjectInfo(other, 0x1102, sizeof nbytes, &nbytes, NULL), "size");
        must(clGetMemObjectInfo(other, 0x1101, sizeof flags, &flags, NULL), "flags");
        printf("other: %zu bytes, flags %u\n", nbytes, (unsigned)flags);
        must(clReleaseMemObject(other), "release");
    }
}

int main(void) {
    static const char *source = "kernel void add(global uint *a, local uint *l, uint by) {\n"
                                "    l[get_local_id(0) % 16] = by; a[get_global_id(0)] += by + get_global_id(0); }\n";
    uint32_t format[2] = {0x10B0, 0x10DA}, content[N] = {0}; /* CL_R, CL_UNSIGNED_INT32 */
    size_t shape[] = {0x10F1, 4, 8, 0, 0, 0, 0, 0, 0}, region[] = {128, 64}; /* CL_MEM_OBJECT_IMAGE2D */
    handle platform; int32_t code;
    must(clGetPlatformIDs(1, &platform, NULL), "platform");
    must(clGetDeviceIDs(platform, 0xFFFFFFFF, 1, &device, NULL), "device");
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code); must(code, "context");
    queue = clCreateCommandQueue(context, device, 2, &code); must(code, "queue");
    program = clCreateProgramWithSource(context, 1, &source, NULL, &code); must(code, "program");
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
    kernel = clCreateKernel(program, "add", &code); must(code, "kernel");
    whole = clCreateBuffer(context, 1 | 32, sizeof content, content, &code); must(code, "buffer");
    part = clCreateSubBuffer(whole, 4, 0x1220, region, &code); must(code, "sub-buffer");
    image = clCreateImage(context, 1, format, shape, NULL, &code); must(code, "image");
    sampler = clCreateSampler(context, 0, 0x1130, 0x1140, &code); must(code, "sampler");
    ask_all();
    must(clSetKernelArg(kernel, 0, sizeof whole, &whole), "memory"); must(clSetKernelArg(kernel, 1, 64, NULL), "local");
    must(clRetainKernel(kernel), "retain"); must(clRetainMemObject(whole), "retain");
    void *mapped = clEnqueueMapBuffer(queue, whole, 1, 1, 0, 64, 0, NULL, NULL, &code); must(code, "map");
    ask_all();
    must(clSetKernelArg(kernel, 1, 4096, NULL), "local");
    must(clEnqueueUnmapMemObject(queue, whole, mapped, 0, NULL, NULL), "unmap"); must(clFinish(queue), "finish");
    must(clReleaseKernel(kernel), "release"); must(clReleaseMemObject(whole), "release");
    ask_all(); launch_and_ask(); ask_of_others(); ask_all();
    return 0;
}
