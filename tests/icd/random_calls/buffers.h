/* Buffers and parts of them: creation, transfers, maps, and what becomes of them at their end. */

static void CL_CALLBACK tell_gone(cl_mem mem, void *data) {
    (void)mem;
    ++*(_Atomic int *)data;
}

static void watch_end(cl_mem mem) {
    if (chance(30) && clSetMemObjectDestructorCallback(mem, tell_gone, &run->gone) == CL_SUCCESS)
        run->wanted_gone++;
}

static void create_buffer(void) {
    struct memory *place = free_place();
    if (place == NULL || run->gate != NULL)
        return;
    size_t nbytes = 128 * (1 + below(chance(20) ? 256 : 16)) + (size_t)ONE_OF(0, 0, 4, 64);
    cl_mem_flags flags = (cl_mem_flags)ONE_OF(CL_MEM_COPY_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR, CL_MEM_ALLOC_HOST_PTR,
                                              CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR, 0);
    flags |= (cl_mem_flags)ONE_OF(0, CL_MEM_READ_WRITE);
    int is_given = (flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR)) != 0;
    struct later *host = host_memory(nbytes, 0, 1);
    cl_int code;
    cl_mem mem = clCreateBuffer(context, flags, nbytes, is_given ? host->bytes : NULL, &code);
    LOG("create buffer %d: %zu bytes, flags %x: %d\n", number_of(place), nbytes, (unsigned)flags, code);
    if (mem == NULL)
        return;
    *place = (struct memory){.mem = mem, .root = new_root(), .nbytes = nbytes, .flags = flags};
    watch_end(mem);
    if (!is_given)
        LOG("  first bytes: %d\n", clEnqueueWriteBuffer(run->queues[0], mem, CL_TRUE, 0, nbytes, host->bytes, 0, NULL, NULL));
}

static int can_have_parts(const struct memory *memory) { return is_buffer(memory) && !memory->has_parent; }

static void create_part(void) {
    struct memory *parent = pick(can_have_parts, 0), *place = free_place();
    if (parent == NULL || place == NULL)
        return;
    cl_buffer_region region = {128 * below(parent->nbytes / 128), 0};
    region.size = 1 + below(parent->nbytes - region.origin);
    if (chance(70))
        region.size = (region.size + 3) / 4 * 4;
    cl_int code;
    cl_mem mem = clCreateSubBuffer(parent->mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    LOG("create part %d of %d: %zu bytes at %zu: %d\n", number_of(place), number_of(parent), region.size, region.origin, code);
    if (mem == NULL)
        return;
    *place = (struct memory){.mem = mem, .root = parent->root, .nbytes = region.size, .offset = region.origin, .has_parent = 1,
                             .flags = parent->flags};
    watch_end(mem);
}

static int is_any(const struct memory *memory) { return memory->mem != NULL; }

static int has_map(const struct memory *memory) {
    for (int i = 0; i < MAPS; i++)
        if (run->maps[i].address != NULL && run->maps[i].memory == memory)
            return 1;
    return 0;
}

/* Kernels that have it as an argument are not launched again. */
static void forget_launches(const struct memory *memory) {
    for (int i = 0; i < KERNELS; i++)
        if (run->launched_on[i][0] == memory || run->launched_on[i][1] == memory)
            run->launched_on[i][0] = run->launched_on[i][1] = NULL;
}

/* Commands that use it may be under way. */
static void release_memory(void) {
    struct memory *memory = pick(is_any, 0);
    if (memory == NULL || has_map(memory))
        return;
    LOG("release %d: %d\n", number_of(memory), clReleaseMemObject(memory->mem));
    forget_launches(memory);
    *memory = (struct memory){0};
}

static void span_of(const struct memory *memory, size_t *start, size_t *nbytes, size_t unit) {
    size_t count = memory->nbytes / unit;
    size_t first = below(count), length = 1 + below(count - first);
    if (chance(20))
        first = 0, length = count;
    *start = first * unit;
    *nbytes = length * unit;
}

static void read_buffer(void) {
    struct memory *from = pick(is_buffer, 0);
    if (from == NULL)
        return;
    size_t start, nbytes;
    span_of(from, &start, &nbytes, 1);
    struct command c = new_command();
    uses(&c, from->root, 0);
    struct later *host = host_memory(nbytes, 1, 0);
    LOG("read %d: %zu bytes at %zu", number_of(from), nbytes, start);
    enqueued(&c, clEnqueueReadBuffer(run->queues[c.queue], from->mem, c.blocks, start, nbytes, host->bytes, WAITING(c)));
    if (c.blocks)
        LOG("  %016lx\n", sum_of(host->bytes, nbytes));
}

static void write_buffer(void) {
    struct memory *to = pick(is_buffer, 1);
    if (to == NULL)
        return;
    size_t start, nbytes;
    span_of(to, &start, &nbytes, 1);
    struct command c = new_command();
    uses(&c, to->root, 1);
    struct later *host = host_memory(nbytes, 0, 0);
    LOG("write %d: %zu bytes at %zu", number_of(to), nbytes, start);
    enqueued(&c, clEnqueueWriteBuffer(run->queues[c.queue], to->mem, c.blocks, start, nbytes, host->bytes, WAITING(c)));
    if (c.blocks)
        memset(host->bytes, 0xdb, nbytes); /* it may be used again at once */
}

static void fill_buffer(void) {
    struct memory *to = pick(is_buffer, 1);
    if (to == NULL)
        return;
    size_t start, nbytes, unit = (size_t)1 << below(8);
    if (unit > to->nbytes)
        return;
    span_of(to, &start, &nbytes, unit);
    struct command c = new_command();
    uses(&c, to->root, 1);
    c.blocks = 0;
    unsigned char pattern[128];
    randomise(pattern, sizeof pattern);
    LOG("fill %d: %zu bytes at %zu by %zu", number_of(to), nbytes, start, unit);
    enqueued(&c, clEnqueueFillBuffer(run->queues[c.queue], to->mem, pattern, unit, start, nbytes, WAITING(c)));
}

static int do_overlap(const struct memory *a, size_t start, const struct memory *b, size_t other, size_t nbytes) {
    size_t first = a->offset + start, second = b->offset + other;
    return a->root == b->root && first < second + nbytes && second < first + nbytes;
}

static void copy_buffer(void) {
    struct memory *from = pick(is_buffer, 0), *to = pick(is_buffer, 1);
    if (from == NULL || to == NULL)
        return;
    size_t start, nbytes, other, most;
    span_of(from, &start, &nbytes, 1);
    span_of(to, &other, &most, 1);
    if (nbytes > most)
        nbytes = most;
    if (do_overlap(from, start, to, other, nbytes) && from != to)
        return; /* what happens is not defined, except that a buffer's own overlap is an error */
    struct command c = new_command();
    uses(&c, from->root, 0);
    uses(&c, to->root, 1);
    c.blocks = 0;
    LOG("copy %d to %d: %zu bytes from %zu to %zu", number_of(from), number_of(to), nbytes, start, other);
    enqueued(&c, clEnqueueCopyBuffer(run->queues[c.queue], from->mem, to->mem, start, other, nbytes, WAITING(c)));
}

/* ---- boxes ----------------------------------------------------------------------------------------------------------- */

struct box {
    size_t origin[3], row, plane;
};

static size_t end_of(const struct box *box, const size_t *region) {
    return (box->origin[2] + region[2] - 1) * box->plane + (box->origin[1] + region[1] - 1) * box->row + box->origin[0] + region[0];
}

/* A place for the region in so many bytes; 0 where it does not fit. */
static int place_box(struct box *box, const size_t *region, size_t nbytes) {
    size_t rows = region[1] + below(3), before = below(4);
    *box = (struct box){{before, below(3), below(2)}, region[0] + before + below(8), 0};
    box->plane = box->row * (rows + box->origin[1]);
    if (chance(10)) /* planes that are given anew for the library to compute */
        box->origin[1] = 0, box->plane = box->row * region[1];
    return end_of(box, region) <= nbytes;
}

static void move_box(void) {
    int kind = (int)below(3);
    struct memory *first = pick(is_buffer, kind == 1), *second = pick(is_buffer, 1);
    size_t region[3] = {1 + below(40), 1 + below(6), 1 + below(3)};
    struct box one, other;
    if (first == NULL || second == NULL || !place_box(&one, region, first->nbytes) || !place_box(&other, region, second->nbytes))
        return;
    struct command c = new_command();
    uses(&c, first->root, kind == 1);
    if (kind == 2) {
        if (first->root == second->root)
            return;
        uses(&c, second->root, 1);
        c.blocks = 0;
        LOG("copy box %d to %d: %zux%zux%zu", number_of(first), number_of(second), region[0], region[1], region[2]);
        enqueued(&c, clEnqueueCopyBufferRect(run->queues[c.queue], first->mem, second->mem, one.origin, other.origin, region, one.row,
                                             one.plane, other.row, other.plane, WAITING(c)));
        return;
    }
    struct later *host = host_memory(second->nbytes, kind == 0, 0);
    LOG("%s box %d: %zux%zux%zu", kind ? "write" : "read", number_of(first), region[0], region[1], region[2]);
    enqueued(&c, (kind ? (cl_int(*)(cl_command_queue, cl_mem, cl_bool, const size_t *, const size_t *, const size_t *, size_t, size_t, size_t,
                                    size_t, void *, cl_uint, const cl_event *, cl_event *))clEnqueueWriteBufferRect
                       : clEnqueueReadBufferRect)(run->queues[c.queue], first->mem, c.blocks, one.origin, other.origin, region, one.row,
                                                  one.plane, other.row, other.plane, host->bytes, WAITING(c)));
}

/* ---- maps ------------------------------------------------------------------------------------------------------------- */

static struct map *free_map(void) {
    for (int i = 0; i < MAPS; i++)
        if (run->maps[i].address == NULL)
            return &run->maps[i];
    return NULL;
}

/* Whether bytes of the root may be mapped: two maps of the same bytes must be for reading. */
static int may_map(const struct root *root, size_t start, size_t nbytes, int writes) {
    for (int i = 0; i < MAPS; i++) {
        const struct map *map = &run->maps[i];
        if (map->address != NULL && map->memory->root == root && start < map->start + map->nbytes && map->start < start + nbytes &&
            (writes || map->writes))
            return 0;
    }
    return 1;
}

static int is_plain(const struct memory *memory) { return is_buffer(memory); }

/* A buffer, mapped or not: several parts of it may be mapped at once. */
static struct memory *pick_any(int (*fits)(const struct memory *)) {
    struct memory *memory = &run->memories[below(MEMORIES)];
    return fits(memory) ? memory : NULL;
}

/* What a map shows is read after it has ended. */
static void wait_for_map(struct command *c) {
    if (!c->blocks && c->wants_event)
        LOG("  waited: %d\n", clWaitForEvents(1, &c->event));
    else if (!c->blocks)
        finish_queue(c->queue);
}

static void map_buffer(void) {
    struct memory *memory = pick_any(is_plain);
    struct map *map = free_map();
    if (memory == NULL || map == NULL || run->gate != NULL)
        return;
    cl_map_flags flags = (cl_map_flags)ONE_OF(CL_MAP_READ, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_READ | CL_MAP_WRITE,
                                              CL_MAP_WRITE_INVALIDATE_REGION);
    int writes = flags != CL_MAP_READ;
    size_t start, nbytes;
    span_of(memory, &start, &nbytes, 1);
    if (!may_map(memory->root, memory->offset + start, nbytes, writes))
        return;
    struct command c = new_command();
    uses(&c, memory->root, writes);
    cl_int code;
    char *address = clEnqueueMapBuffer(run->queues[c.queue], memory->mem, c.blocks, flags, start, nbytes, WAITING(c), &code);
    LOG("map %d as %d: %zu bytes at %zu, flags %d", number_of(memory), (int)(map - run->maps), nbytes, start, (int)flags);
    enqueued(&c, code);
    if (address == NULL)
        return;
    *map = (struct map){.memory = memory, .mem = memory->mem, .address = address, .start = memory->offset + start, .nbytes = nbytes, .writes = writes,
                        .must_write = flags == CL_MAP_WRITE_INVALIDATE_REGION};
    wait_for_map(&c);
    if (!map->must_write)
        LOG("  %016lx\n", sum_of(address, nbytes));
    else
        randomise(address, nbytes);
}

static struct map *pick_map(void) {
    struct map *map = &run->maps[below(MAPS)];
    return map->address != NULL ? map : NULL;
}

static void touch_map(void) {
    struct map *map = pick_map();
    if (map == NULL || map->memory->is_image)
        return;
    size_t start = below(map->nbytes), nbytes = 1 + below(map->nbytes - start);
    LOG("through map %d: %016lx\n", (int)(map - run->maps), sum_of(map->address, map->nbytes));
    if (map->writes)
        randomise(map->address + start, nbytes);
}

static void unmap_one(struct map *map) {
    struct command c = new_command();
    uses(&c, map->memory->root, map->writes);
    c.blocks = 0;
    LOG("unmap %d", (int)(map - run->maps));
    enqueued(&c, clEnqueueUnmapMemObject(run->queues[c.queue], map->mem, map->address, WAITING(c)));
    *map = (struct map){0};
}

static void unmap(void) {
    struct map *map = pick_map();
    if (map != NULL && map->mem != NULL)
        unmap_one(map);
}
