/* Shared virtual memory: allocations, what the host does with them, and kernels that take addresses. */

static void allocate_shared(void) {
    struct memory *place = free_place();
    if (place == NULL || run->gate != NULL)
        return;
    size_t nbytes = 64 * (1 + below(64));
    char *address = clSVMAlloc(context, CL_MEM_READ_WRITE, nbytes, (cl_uint)ONE_OF(0, 0, 16, 64));
    LOG("allocate %d: %zu bytes: %d\n", number_of(place), nbytes, address != NULL);
    if (address == NULL)
        return;
    *place = (struct memory){.shared = address, .root = new_root(), .nbytes = nbytes};
    LOG("  map: %d", clEnqueueSVMMap(run->queues[0], CL_TRUE, CL_MAP_WRITE, address, nbytes, 0, NULL, NULL));
    randomise(address, nbytes);
    LOG(", unmap: %d\n", clEnqueueSVMUnmap(run->queues[0], address, 0, NULL, NULL));
    finish_queue(0);
}

static void fill_shared(void) {
    struct memory *to = pick(is_shared, 1);
    if (to == NULL)
        return;
    size_t start, nbytes, unit = (size_t)1 << below(6);
    span_of(to, &start, &nbytes, unit);
    struct command c = new_command();
    uses(&c, to->root, 1);
    c.blocks = 0;
    unsigned char pattern[128];
    randomise(pattern, sizeof pattern);
    LOG("fill shared %d: %zu bytes at %zu by %zu", number_of(to), nbytes, start, unit);
    enqueued(&c, clEnqueueSVMMemFill(run->queues[c.queue], to->shared + start, pattern, unit, nbytes, WAITING(c)));
}

/* Between allocations, or from and to plain memory of the host. */
static void copy_shared(void) {
    int kind = (int)below(3);
    struct memory *one = pick(is_shared, kind != 0), *other = pick(is_shared, 0);
    if (one == NULL || other == NULL)
        return;
    size_t start, nbytes, at;
    span_of(one, &start, &nbytes, 1);
    struct command c = new_command();
    uses(&c, one->root, kind != 0);
    if (kind == 2) {
        if (one == other || nbytes > other->nbytes)
            return;
        at = below(other->nbytes - nbytes + 1);
        uses(&c, other->root, 0);
        LOG("copy shared %d to %d: %zu bytes from %zu to %zu", number_of(other), number_of(one), nbytes, at, start);
        enqueued(&c, clEnqueueSVMMemcpy(run->queues[c.queue], c.blocks, one->shared + start, other->shared + at, nbytes, WAITING(c)));
        return;
    }
    struct later *host = host_memory(nbytes, kind == 0, 0);
    LOG("copy shared %d %s: %zu bytes at %zu", number_of(one), kind ? "from the host" : "to the host", nbytes, start);
    enqueued(&c, clEnqueueSVMMemcpy(run->queues[c.queue], c.blocks, kind ? one->shared + start : host->bytes,
                                    kind ? host->bytes : one->shared + start, nbytes, WAITING(c)));
}

static void map_shared(void) {
    struct memory *memory = pick(is_shared, 1);
    if (memory == NULL || run->gate != NULL)
        return;
    int writes = chance(50);
    size_t start, nbytes;
    span_of(memory, &start, &nbytes, 1);
    struct command c = new_command(), after;
    uses(&c, memory->root, writes);
    LOG("map shared %d: %zu bytes at %zu", number_of(memory), nbytes, start);
    cl_int code = clEnqueueSVMMap(run->queues[c.queue], c.blocks, writes ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ, memory->shared + start,
                                  nbytes, WAITING(c));
    enqueued(&c, code);
    if (code != CL_SUCCESS)
        return;
    wait_for_map(&c);
    LOG("  %016lx\n", sum_of(memory->shared + start, nbytes));
    if (writes)
        randomise(memory->shared + start, nbytes);
    after = new_command();
    uses(&after, memory->root, writes);
    after.blocks = 0;
    LOG("unmap shared");
    enqueued(&after, clEnqueueSVMUnmap(run->queues[after.queue], memory->shared + start, WAITING(after)));
}

static void launch_shared(void) {
    struct memory *in = pick(is_shared, 0), *out = pick(is_shared, 1);
    const struct declared *form = &declared[below(4)];
    if (in == NULL || out == NULL || is_race(form, in, out))
        return;
    size_t start = 64 * below(out->nbytes / 64);
    if (in == out)
        start = 0;
    size_t room = out->nbytes - start;
    int n = (int)((in->nbytes < room ? in->nbytes : room) / 4);
    cl_kernel kernel = clCreateKernel(program_of(1), form->name, NULL);
    int code = clSetKernelArgSVMPointer(kernel, 0, in->shared) | clSetKernelArgSVMPointer(kernel, 1, out->shared + start) |
               clSetKernelArg(kernel, 2, sizeof n, &n);
    struct space space = draw_space(form, n);
    set_last(kernel, form, space.local[0]);
    LOG("launch %s, shared %d to %d, n %d: %d", form->name, number_of(in), number_of(out), n, code);
    enqueue_launch(kernel, in->root, out->root, &space);
    clReleaseKernel(kernel);
}

static void free_shared(void) {
    struct memory *memory = pick(is_shared, 1);
    if (memory == NULL || run->gate != NULL)
        return;
    if (chance(50)) {
        settle();
        LOG("free shared %d\n", number_of(memory));
        clSVMFree(context, memory->shared);
    } else {
        struct command c = new_command();
        uses(&c, memory->root, 1);
        c.blocks = 0;
        LOG("free shared %d", number_of(memory));
        void *address = memory->shared;
        enqueued(&c, clEnqueueSVMFree(run->queues[c.queue], 1, &address, NULL, NULL, WAITING(c)));
    }
    *memory = (struct memory){0};
}
