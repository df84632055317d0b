/* Kernels: their arguments, and launches over index spaces of all kinds. */

static const char *const source =
    "typedef struct { int factor; char sign; short2 more; } Numbers;\n"
    "__kernel void scale(__global const int *in, __global int *out, int n, int by) {\n"
    "  int i = get_global_id(0);\n"
    "  if (i < n) out[i] = in[i] * by + i;\n"
    "}\n"
    "__kernel void shift(__global const int *in, __global int *out, int n, int by) {\n"
    "  for (int i = get_global_id(0); i < n; i += get_global_size(0)) out[i] = in[(i + by) % n] ^ by;\n"
    "}\n"
    "__kernel void spread(__global const int *in, __global int *out, int n, int by) {\n"
    "  int i = get_global_id(0);\n"
    "  int mask = in[0] & 1;\n"
    "  if (i < n / 2 * 2) out[i ^ mask] = in[i] + by;\n"
    "}\n"
    "__kernel void count(__global const int *in, __global int *out, int n, int by) {\n"
    "  int i = get_global_id(0);\n"
    "  if (i < n) atomic_add(&out[(in[i] & 0xff) % min(n, by & 31 | 1)], by);\n"
    "}\n"
    "__kernel void where(__global const int *in, __global int *out, int n, int by) {\n"
    "  int x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1);\n"
    "  int i = y * get_global_size(0) + x;\n"
    "  if (i < n) out[i] = get_group_id(0) + 100 * get_group_id(1) + 1000 * get_local_id(0) + 10000 * (int)get_global_id(1) +\n"
    "                      100000 * (int)get_num_groups(0) + by * get_work_dim();\n"
    "}\n"
    "__kernel void add(__global int *out, __global const int *in, int n, Numbers by) {\n"
    "  int i = get_global_id(0);\n"
    "  if (i < n) out[i] += in[n - 1 - i] * by.factor + by.sign * by.more.y;\n"
    "}\n"
    "__kernel void table(__constant int *in, __global int *out, int n, int4 by) {\n"
    "  int i = get_global_id(0);\n"
    "  if (i < n) out[i] = in[(i * by.x + by.w) & 7 % n];\n"
    "}\n"
    "__kernel void group(__global const int *in, __global int *out, int n, __local int *scratch) {\n"
    "  int l = get_local_id(0), i = get_global_id(0);\n"
    "  scratch[l] = i < n ? in[i] : 1;\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  int all = 0;\n"
    "  if (l == 0) { for (int k = 0; k < get_local_size(0); k++) all += scratch[k];\n"
    "    if (get_group_id(0) < n) out[get_group_id(0)] = all; }\n"
    "}\n"
    "__kernel void bytes(__global const uchar *in, __global uchar *out, int n, uchar by) {\n"
    "  int i = get_global_id(0);\n"
    "  if (i < 4 * n) out[i] = in[4 * n - 1 - i] + by;\n"
    "}\n"
    "__kernel void search(__global const int *in, __global int *out, int n, int by) {\n"
    "  int i = get_global_id(0), at = i, steps = 0;\n"
    "  while (i < n && steps < 20 && (in[at] & 7) != 0) at = (uint)(at * 5 + in[at]) % (uint)n, steps++;\n"
    "  if (i < n) out[i] = at + by * steps;\n"
    "}\n"
    "__kernel void invert(__read_only image2d_t in, __write_only image2d_t out, int n, sampler_t s) {\n"
    "  int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "  if (at.x < get_image_width(out) && at.y < get_image_height(out))\n"
    "    write_imageui(out, at, read_imageui(in, s, at - (int2)(n, 1)) + (uint4)(1, 2, 3, 4));\n"
    "}\n"
    "__kernel void __attribute__((reqd_work_group_size(8, 2, 1))) tiles(__global const int *in, __global int *out, int n, int by) {\n"
    "  int i = get_global_id(1) * get_global_size(0) + get_global_id(0);\n"
    "  if (i < n) out[i] = in[i] - by;\n"
    "}\n"
    "__kernel void aside(__global const int *in, __global int *out, int n, volatile __global int *by) {\n"
    "  int i = get_global_id(0);\n"
    "  if (i < n) out[i] = in[i] | 256;\n"
    "  if (by != 0 && i == 0) by[0] = n;\n"
    "}\n";

enum kind { INT, STRUCT, VECTOR, LOCAL, BYTE, IMAGES, POINTER };
static const struct declared {
    const char *name;
    enum kind last;
    cl_uint dims, output;
} declared[] = {
    {"scale", INT, 1, 1}, {"shift", INT, 1, 1},  {"spread", INT, 1, 1}, {"count", INT, 1, 1},    {"where", INT, 2, 1},  {"add", STRUCT, 1, 0},   {"table", VECTOR, 1, 1},
    {"group", LOCAL, 1, 1}, {"bytes", BYTE, 1, 1}, {"search", INT, 1, 1}, {"invert", IMAGES, 2, 1}, {"tiles", INT, 2, 1}, {"aside", POINTER, 1, 1},
};
enum { DECLARED = sizeof declared / sizeof *declared };

static const char *const options[] = {"-cl-kernel-arg-info", "-cl-std=CL2.0", "-cl-std=CL3.0 -cl-kernel-arg-info", "-cl-std=CL1.2 -DX=1 -I."};
enum { PROGRAMS = sizeof options / sizeof *options };
static cl_program programs[PROGRAMS];
static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER;

/* Made once in a process: what a seed does must not depend on those before it. */
static cl_program program_of(size_t number) {
    pthread_mutex_lock(&building);
    if (programs[number] == NULL) {
        cl_int code;
        programs[number] = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &code);
        code = clBuildProgram(programs[number], 1, &device, options[number], NULL, NULL);
        if (code != CL_SUCCESS) {
            static char text[10000];
            clGetProgramBuildInfo(programs[number], device, CL_PROGRAM_BUILD_LOG, sizeof text, text, NULL);
            printf("building %s: %d\n%s\n", options[number], code, text);
            exit(1);
        }
    }
    pthread_mutex_unlock(&building);
    return programs[number];
}

static cl_sampler sampler;

static int is_of_whole_numbers(const struct memory *memory) { return is_buffer(memory) && memory->nbytes % 4 == 0 && memory->offset % 128 == 0; }

static int is_plane(const struct memory *memory) {
    return is_an_image(memory) && memory->desc.image_type == CL_MEM_OBJECT_IMAGE2D &&
           memory->format.image_channel_data_type != CL_SIGNED_INT16;
}

/* Arguments that are set from the same numbers as `n`, which is the least of what the buffers have. */
static void set_last(cl_kernel kernel, const struct declared *form, size_t local) {
    struct {
        int factor;
        char sign, gap[3];
        short more[2];
    } numbers = {(int)below(9), (char)((int)below(3) - 1), {0}, {1, (short)below(100)}};
    int by = 1 + (int)below(30), four[4] = {(int)below(5), 2, 3, (int)below(5)};
    unsigned char byte = (unsigned char)by;
    cl_int code = 0;
    switch (form->last) {
    case INT: code = clSetKernelArg(kernel, 3, sizeof by, &by); break;
    case STRUCT: code = clSetKernelArg(kernel, 3, sizeof numbers, &numbers); break;
    case VECTOR: code = clSetKernelArg(kernel, 3, sizeof four, four); break;
    case LOCAL: code = clSetKernelArg(kernel, 3, 4 * local, NULL); break;
    case BYTE: code = clSetKernelArg(kernel, 3, 1, &byte); break;
    case IMAGES: code = clSetKernelArg(kernel, 3, sizeof sampler, &sampler); break;
    case POINTER: code = clSetKernelArg(kernel, 3, sizeof(cl_mem), chance(50) ? NULL : &(cl_mem){NULL}); break;
    }
    if (code != CL_SUCCESS)
        LOG("  last argument: %d\n", code);
}

struct space {
    cl_uint dims;
    size_t offset[2], global[2], local[2];
    int has_offset, has_local;
};

static struct space draw_space(const struct declared *form, int n) {
    struct space space = {form->dims, {0, 0}, {1, 1}, {1, 1}, form->dims == 2 && chance(50), chance(70)};
    size_t most[2] = {form->last == BYTE ? 4 * (size_t)n : (size_t)n, 1};
    if (form->dims == 2) {
        most[1] = 1 + below(20);
        most[0] = most[0] / most[1] + 1;
    }
    int is_tiled = strcmp(form->name, "tiles") == 0;
    for (cl_uint i = 0; i < form->dims; i++) {
        space.local[i] = is_tiled ? (i ? 2 : 8) : (size_t)ONE_OF(1, 2, 3, 8, 16, 32);
        space.global[i] = (most[i] / space.local[i] + below(2) + 1) * space.local[i];
        space.offset[i] = below(3) * 5;
    }
    space.has_local |= is_tiled || form->last == LOCAL || strcmp(form->name, "where") == 0; /* whose results depend on it */
    if (!space.has_local && chance(50)) /* a size that nothing divides */
        space.global[0] += 1;
    return space;
}

static int draw_buffers(const struct declared *form, struct memory **in, struct memory **out) {
    int (*fits)(const struct memory *) = form->last == IMAGES ? is_plane : is_of_whole_numbers;
    *in = pick(fits, 0);
    *out = pick(fits, 1);
    return *in != NULL && *out != NULL;
}

/* Whether what a work-item reads may be what another one writes. */
static int is_race(const struct declared *form, const struct memory *in, const struct memory *out) {
    int is_own_element = strcmp(form->name, "scale") == 0 || strcmp(form->name, "tiles") == 0 || strcmp(form->name, "aside") == 0;
    if (in->root != out->root)
        return 0;
    return !is_own_element || in != out;
}

static void enqueue_launch(cl_kernel kernel, struct root *in, struct root *out, const struct space *space) {
    struct command c = new_command();
    uses(&c, in, 0);
    uses(&c, out, 1);
    c.blocks = 0;
    LOG(" over %zux%zu by %zux%zu%s", space->global[0], space->global[1], space->local[0], space->local[1], space->has_local ? "" : " (none)");
    enqueued(&c, clEnqueueNDRangeKernel(run->queues[c.queue], kernel, space->dims, space->has_offset ? space->offset : NULL, space->global,
                                        space->has_local ? space->local : NULL, WAITING(c)));
}

/* What the kernels that are kept were launched on. */
static __thread struct launched {
    const struct declared *form;
    struct space space;
} launched[KERNELS];

static void launch(void) {
    const struct declared *form = &declared[below(DECLARED)];
    struct memory *in, *out;
    if (!draw_buffers(form, &in, &out) || is_race(form, in, out))
        return;
    int n = (int)((in->nbytes < out->nbytes ? in->nbytes : out->nbytes) / 4);
    if (chance(30))
        n = 1 + (int)below(n);
    if (form->last == IMAGES)
        n = (int)below(3);
    size_t number = below(KERNELS);
    cl_kernel *kept = &run->kernels[number], kernel = clCreateKernel(program_of(below(PROGRAMS)), form->name, NULL);
    int code = clSetKernelArg(kernel, form->output, sizeof out->mem, &out->mem) | clSetKernelArg(kernel, !form->output, sizeof in->mem, &in->mem) |
               clSetKernelArg(kernel, 2, sizeof n, &n);
    int side = form->last == IMAGES ? (int)(out->nbytes / 16) : n;
    struct space space = draw_space(form, side);
    set_last(kernel, form, space.local[0]);
    LOG("launch %s, %d to %d, n %d: %d", form->name, number_of(in), number_of(out), n, code);
    enqueue_launch(kernel, in->root, out->root, &space);
    for (size_t again = chance(20) ? below(5) : 0; again > 0 && run->gate == NULL; again--) { /* with other numbers */
        set_last(kernel, form, space.local[0]);
        LOG("again");
        enqueue_launch(kernel, in->root, out->root, &space);
    }
    if (*kept != NULL)
        clReleaseKernel(*kept);
    *kept = kernel; /* so it may end long after its launch, or before */
    launched[number] = (struct launched){form, space};
    run->launched_on[number][0] = in;
    run->launched_on[number][1] = out;
}

/* A kernel with the arguments that it has, which were set before whatever came between; or with another last one. */
static void launch_again(void) {
    size_t number = below(KERNELS);
    const struct launched *last = &launched[number];
    const struct memory *in = run->launched_on[number][0], *out = run->launched_on[number][1];
    if (in == NULL || is_mapped(in->root, 0) || is_mapped(out->root, 1))
        return;
    if (chance(30))
        set_last(run->kernels[number], last->form, last->space.local[0]);
    LOG("launch %s again, %d to %d", last->form->name, number_of(in), number_of(out));
    enqueue_launch(run->kernels[number], in->root, out->root, &last->space);
}
