/* Images of all shapes, with the formats that every device has, and their transfers. */

static const cl_image_format formats[] = {
    {CL_RGBA, CL_UNSIGNED_INT8}, {CL_RGBA, CL_UNSIGNED_INT8},  {CL_RGBA, CL_UNSIGNED_INT32}, {CL_R, CL_UNSIGNED_INT16},
    {CL_RGBA, CL_SIGNED_INT16},  {CL_R, CL_UNSIGNED_INT8},     {CL_RG, CL_UNSIGNED_INT8},    {CL_R, CL_UNSIGNED_INT32},
};

static size_t size_of_pixel(const cl_image_format *format) {
    size_t channels = format->image_channel_order == CL_RGBA ? 4 : format->image_channel_order == CL_RG ? 2 : 1;
    cl_channel_type type = format->image_channel_data_type;
    return channels * (type == CL_UNSIGNED_INT8 ? 1 : type == CL_UNSIGNED_INT32 ? 4 : 2);
}

/* Sizes, and in `shape` how origins and regions count them. */
static cl_image_desc draw_desc(size_t *shape) {
    cl_image_desc desc = {.image_type = (cl_mem_object_type)ONE_OF(CL_MEM_OBJECT_IMAGE2D, CL_MEM_OBJECT_IMAGE2D, CL_MEM_OBJECT_IMAGE1D,
                                                                   CL_MEM_OBJECT_IMAGE3D, CL_MEM_OBJECT_IMAGE1D_ARRAY,
                                                                   CL_MEM_OBJECT_IMAGE2D_ARRAY)};
    shape[0] = desc.image_width = 1 + below(40);
    shape[1] = shape[2] = 1;
    switch (desc.image_type) {
    case CL_MEM_OBJECT_IMAGE1D: break;
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: shape[1] = desc.image_array_size = 1 + below(6); break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY: shape[2] = desc.image_array_size = 1 + below(4); /* fall through */
    case CL_MEM_OBJECT_IMAGE2D: shape[1] = desc.image_height = 1 + below(24); break;
    case CL_MEM_OBJECT_IMAGE3D:
        shape[1] = desc.image_height = 1 + below(10);
        shape[2] = desc.image_depth = 2 + below(4);
        break;
    }
    return desc;
}

static void create_image(void) {
    struct memory *place = free_place();
    if (place == NULL)
        return;
    struct memory made = {.is_image = 1, .format = formats[below(sizeof formats / sizeof *formats)]};
    made.desc = draw_desc(made.shape);
    made.pixel = size_of_pixel(&made.format);
    made.nbytes = made.pixel * made.shape[0] * made.shape[1] * made.shape[2];
    made.flags = (cl_mem_flags)ONE_OF(CL_MEM_COPY_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_USE_HOST_PTR);
    struct later *host = host_memory(made.nbytes, 0, 1);
    cl_int code;
    made.mem = clCreateImage(context, made.flags, &made.format, &made.desc, host->bytes, &code);
    LOG("create image %d: %zux%zux%zu, type %x, format %x %x, flags %x: %d\n", number_of(place), made.shape[0], made.shape[1], made.shape[2],
        made.desc.image_type, made.format.image_channel_order, made.format.image_channel_data_type, (unsigned)made.flags, code);
    if (made.mem == NULL)
        return;
    made.root = new_root();
    *place = made;
    watch_end(made.mem);
}

static void region_of(const struct memory *image, size_t *origin, size_t *region) {
    for (int i = 0; i < 3; i++) {
        origin[i] = below(image->shape[i]);
        region[i] = 1 + below(image->shape[i] - origin[i]);
        if (chance(30))
            origin[i] = 0, region[i] = image->shape[i];
    }
}

static size_t bytes_of(const struct memory *image, const size_t *region) { return image->pixel * region[0] * region[1] * region[2]; }

static void log_region(const char *what, const struct memory *image, const size_t *origin, const size_t *region) {
    LOG("%s image %d: %zux%zux%zu at %zu,%zu,%zu", what, number_of(image), region[0], region[1], region[2], origin[0], origin[1], origin[2]);
}

static void move_image(void) {
    int writes = chance(50);
    struct memory *image = pick(is_an_image, writes);
    if (image == NULL)
        return;
    size_t origin[3], region[3], row = 0, plane = 0;
    region_of(image, origin, region);
    if (chance(40))
        row = image->pixel * (region[0] + below(5));
    if (chance(40) && image->shape[2] > 1)
        plane = (row ? row : image->pixel * region[0]) * (region[1] + below(3));
    size_t nbytes = (plane ? plane : (row ? row : image->pixel * region[0]) * region[1]) * region[2];
    struct command c = new_command();
    uses(&c, image->root, writes);
    struct later *host = host_memory(nbytes, !writes, 0);
    log_region(writes ? "write" : "read", image, origin, region);
    LOG(" by %zu, %zu", row, plane);
    if (writes)
        enqueued(&c, clEnqueueWriteImage(run->queues[c.queue], image->mem, c.blocks, origin, region, row, plane, host->bytes, WAITING(c)));
    else
        enqueued(&c, clEnqueueReadImage(run->queues[c.queue], image->mem, c.blocks, origin, region, row, plane, host->bytes, WAITING(c)));
}

static void fill_image(void) {
    struct memory *image = pick(is_an_image, 1);
    if (image == NULL)
        return;
    size_t origin[3], region[3];
    region_of(image, origin, region);
    cl_uint color[4] = {(cl_uint)below(100), (cl_uint)below(100), (cl_uint)below(100), (cl_uint)below(100)};
    struct command c = new_command();
    uses(&c, image->root, 1);
    c.blocks = 0;
    log_region("fill", image, origin, region);
    enqueued(&c, clEnqueueFillImage(run->queues[c.queue], image->mem, color, origin, region, WAITING(c)));
}

static void copy_image(void) {
    struct memory *from = pick(is_an_image, 0), *to = pick(is_an_image, 1);
    if (from == NULL || to == NULL || from == to)
        return;
    size_t origin[3], other[3], region[3], most[3];
    region_of(from, origin, region);
    region_of(to, other, most);
    for (int i = 0; i < 3; i++)
        if (most[i] < region[i])
            region[i] = most[i];
    struct command c = new_command();
    uses(&c, from->root, 0);
    uses(&c, to->root, 1);
    c.blocks = 0;
    log_region("copy", from, origin, region);
    LOG(" to %d", number_of(to));
    enqueued(&c, clEnqueueCopyImage(run->queues[c.queue], from->mem, to->mem, origin, other, region, WAITING(c)));
}

static void copy_image_and_buffer(void) {
    int to_image = chance(50);
    struct memory *image = pick(is_an_image, to_image), *buffer = pick(is_buffer, !to_image);
    if (image == NULL || buffer == NULL)
        return;
    size_t origin[3], region[3];
    region_of(image, origin, region);
    size_t nbytes = bytes_of(image, region);
    if (nbytes > buffer->nbytes)
        return;
    size_t start = below(buffer->nbytes - nbytes + 1);
    struct command c = new_command();
    uses(&c, image->root, to_image);
    uses(&c, buffer->root, !to_image);
    c.blocks = 0;
    log_region(to_image ? "from a buffer to" : "to a buffer from", image, origin, region);
    LOG(", %d at %zu", number_of(buffer), start);
    if (to_image)
        enqueued(&c, clEnqueueCopyBufferToImage(run->queues[c.queue], buffer->mem, image->mem, start, origin, region, WAITING(c)));
    else
        enqueued(&c, clEnqueueCopyImageToBuffer(run->queues[c.queue], image->mem, buffer->mem, origin, region, start, WAITING(c)));
}

/* Pixels through the map, row by row: what lies between rows belongs to nobody. */
static void use_mapped_image(const struct memory *image, char *address, const size_t *region, size_t row, size_t plane, int writes) {
    uint64_t all = 0;
    for (size_t z = 0; z < region[2]; z++)
        for (size_t y = 0; y < region[1]; y++) {
            char *at = address + z * plane + y * row;
            all = all * 31 + sum_of(at, region[0] * image->pixel);
            if (writes)
                randomise(at, region[0] * image->pixel);
        }
    LOG("  %016lx\n", all);
}

/* Mapped and unmapped in one step. */
static void map_image(void) {
    int writes = chance(50);
    struct memory *image = pick(is_an_image, writes);
    if (image == NULL || run->gate != NULL)
        return;
    size_t origin[3], region[3], row = 0, plane = 0;
    region_of(image, origin, region);
    struct command c = new_command(), after;
    uses(&c, image->root, writes);
    cl_int code;
    char *address = clEnqueueMapImage(run->queues[c.queue], image->mem, c.blocks, writes ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ,
                                      origin, region, &row, &plane, WAITING(c), &code);
    log_region("map", image, origin, region);
    enqueued(&c, code);
    if (address == NULL)
        return;
    wait_for_map(&c);
    int is_line = image->desc.image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY; /* whose lines are as far apart as planes are */
    use_mapped_image(image, address, region, is_line ? plane : row, plane, writes);
    after = new_command();
    uses(&after, image->root, writes);
    after.blocks = 0;
    LOG("unmap image");
    enqueued(&after, clEnqueueUnmapMemObject(run->queues[after.queue], image->mem, address, WAITING(after)));
}
