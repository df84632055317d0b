/* What is known here of queues and of buffers: how the native driver takes them, for commands without Python (ready.c, commands.c); and
 * buffers that the program has released, which are its next ones.
 *
 * Python says of a queue and of a buffer how the driver takes them, once it has made a transfer of that buffer's there, or a launch with it
 * has been made ready. That is so until a call has changed something (`calls`).
 *
 * A new buffer's content is undefined. So one that the program has released may be its next one with the same context, flags and size, if
 * nobody knows it any more: Python's objects, the driver's memory, and what is ready with it stay as they are, and only its handle is
 * invalid meanwhile. Python is asked whether that may be when such a buffer is released, unless only commands without Python have used it
 * since it was asked last (`is_clean`). Whatever is kept so is let go once a call has changed something, as what is ready is.
 *
 * So it is with kernels: a new one of that name has no argument set (`is_unset`), whatever Python still has.
 *
 * An argument that was set to a buffer which was released since, is none any more, also where the same handle has become another buffer:
 * buffers are told apart by their serial numbers.
 */

enum { READS, WRITES }; /* of `rooms` */
enum { MOST_LENT = 32, MOST_LENT_NBYTES = 1 << 16 }; /* copies of the program's memory that the driver reads, and how large they are */
enum { KNOWN = 256, MOST_KEPT = 64 /* buffers that are released, and kernels */, KIND_RELEASED = 0x100 };

struct lane { /* of a queue */
    uint64_t at; /* how much had changed when this was so (`calls`) */
    void *native;
    uint64_t context; /* identifies the queue's */
    int is_in_order, is_profiled;
    int64_t offset_ns; /* from the driver's times to the host's */
};

struct memory { /* of a memory object */
    struct object *object;
    struct memory *next; /* of those with such addresses */
    /* how the driver takes it */
    uint64_t at; /* as of a lane; 0 where it is not known */
    void *native, *native_queue;
    uint64_t context; /* as of a lane */
    size_t rooms[2];  /* how many of its bytes may be read, and written: 0 where Python has to look at that */
    /* what it was made from, if it may be the next buffer like it */
    const struct object *made_in; /* the context; NULL for others */
    uint64_t flags;
    size_t nbytes;
    uint64_t is_clean; /* the same as `at`, since when only commands without Python have used it; 0 where others have */
    struct memory *next_kept;
};

static struct memory *known[KNOWN]; /* all of them, by address: under `guard` */
static struct memory *kept_first, *kept_last;
static unsigned kept_count;
static size_t kept_nbytes, most_kept_nbytes;
static struct kernel *kept_kernels;
static unsigned kept_kernel_count;
static int has_lanes; /* some queue has one, or had */
static uint64_t buffers_made, kernels_made;
static PyObject *place_of, *may_be_kept;
static unsigned in_vain, passes; /* questions to Python that are not asked, after one that it had no answer to */

static struct memory **chain_of(const void *address) { return &known[((uintptr_t)address >> 4 ^ (uintptr_t)address >> 12) % KNOWN]; }

static struct memory *memory_of(struct object *object) {
    if (object->memory != NULL)
        return object->memory;
    struct memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL)
        return NULL;
    memory->object = object;
    pthread_mutex_lock(&guard);
    struct memory **chain = chain_of(object);
    memory->next = *chain;
    *chain = object->memory = memory;
    pthread_mutex_unlock(&guard);
    return memory;
}

static void free_memory(struct memory *memory) {
    if (memory == NULL)
        return;
    pthread_mutex_lock(&guard);
    struct memory **place = chain_of(memory->object);
    while (*place != memory)
        place = &(*place)->next;
    *place = memory->next;
    pthread_mutex_unlock(&guard);
    free(memory);
}

/* Python gets to know it, and may do anything with it. */
static void touch(const struct object *object) {
    if (object->memory != NULL)
        object->memory->is_clean = 0;
}

/* How the driver takes a queue; NULL where that is not known. Under `guard`, as all that follows but for what says otherwise. */
static const struct lane *lane_of(const struct object *queue) {
    return queue->lane != NULL && queue->lane->at == calls ? queue->lane : NULL;
}

static int is_known_in(const struct memory *memory, const struct lane *lane) {
    return memory != NULL && memory->at == calls && memory->context == lane->context && memory->object->kind == KIND_MEM;
}

/* The memory object of that handle, which may be anything: it is only compared. NULL where it is none that is known. */
static const struct memory *find_memory(const void *handle, const struct lane *lane) {
    const struct memory *memory = *chain_of(handle);
    while (memory != NULL && memory->object != handle)
        memory = memory->next;
    return is_known_in(memory, lane) ? memory : NULL;
}

/* ---- what Python says ---------------------------------------------------------------------------------------------- */

/* Whether Python is not to be asked now: it had no answers before. With the interpreter's lock. */
static int is_in_vain(void) {
    if (passes == 0)
        return 0;
    passes--;
    return 1;
}

static void learn_whether(int is_of_use) {
    in_vain = is_of_use ? 0 : in_vain < 64 ? 2 * in_vain + 1 : in_vain;
    passes = in_vain;
}

/* context, whether in order, whether profiled, offset of times: behind the first `at` of a tuple. In Python. */
static void learn_lane(struct object *queue, void *native, PyObject *all, ptrdiff_t at) {
    struct lane *lane = queue->lane != NULL ? queue->lane : calloc(1, sizeof *lane);
    if (lane == NULL)
        return;
    lane->native = native;
    lane->context = PyLong_AsUnsignedLongLong(PyTuple_GetItem(all, at));
    lane->is_in_order = (int)PyLong_AsLong(PyTuple_GetItem(all, at + 1));
    lane->is_profiled = (int)PyLong_AsLong(PyTuple_GetItem(all, at + 2));
    lane->offset_ns = PyLong_AsLong(PyTuple_GetItem(all, at + 3));
    lane->at = calls;
    queue->lane = lane;
    has_lanes = 1;
}

/* In Python. */
static void learn_memory(struct object *object, void *native, const struct lane *lane, const size_t *rooms) {
    struct memory *memory = memory_of(object);
    if (memory == NULL)
        return;
    memory->native = native;
    memory->native_queue = lane->native;
    memory->context = lane->context;
    memcpy(memory->rooms, rooms, sizeof memory->rooms);
    memory->at = calls;
}

/* Python has made a transfer of a buffer's: how can it be made here, if that has changed nothing (`kept`)? With the interpreter's lock. */
static void moved(struct object *queue, struct object *object) {
    int is_known = lane_of(queue) != NULL && object->memory != NULL && object->memory->at == calls;
    if (!kept || !is_own || is_off || is_known || is_in_vain())
        return;
    uint64_t before = calls;
    PyObject *arguments[2] = {queue->item, object->item};
    PyObject *all = PyObject_Vectorcall(place_of, arguments, 2, NULL);
    learn_whether(all != NULL && all != none);
    if (all == NULL) {
        PyErr_Print();
        return;
    }
    if (all != none && calls == before) { /* else another thread's call has changed something since Python looked at it */
        size_t rooms[2] = {(size_t)handle_at(all, 2), (size_t)handle_at(all, 3)};
        learn_lane(queue, handle_at(all, 0), all, 4);
        if (queue->lane != NULL)
            learn_memory(object, handle_at(all, 1), queue->lane, rooms);
    }
    Py_DecRef(all);
}

/* ---- buffers that are released ------------------------------------------------------------------------------------- */

static const uint64_t COPIES = 1 << 5;                     /* CL_MEM_COPY_HOST_PTR */
static const uint64_t PLAIN_FLAGS = 7 | 7 << 7 | 1 << 5; /* how kernels and how the host may use it, but for host memory that it is */

/* A buffer was made. In Python. */
static void note_buffer(struct object *object, const struct object *context, uint64_t flags, size_t nbytes) {
    if (object == NULL || !is_own || (flags & ~PLAIN_FLAGS) != 0)
        return;
    struct memory *memory = memory_of(object);
    if (memory == NULL)
        return;
    memory->made_in = context;
    memory->flags = flags;
    memory->nbytes = nbytes;
}

/* Its last reference is given up: keep it. */
static void keep_released(struct memory *memory) {
    memory->object->kind = KIND_RELEASED;
    memory->object->serial = 0;
    memory->next_kept = NULL;
    *(kept_first == NULL ? &kept_first : &kept_last->next_kept) = memory;
    kept_last = memory;
    kept_count++;
    kept_nbytes += memory->nbytes;
}

static int has_room_for(const struct memory *memory) {
    return kept_count < MOST_KEPT && memory->nbytes <= most_kept_nbytes && kept_nbytes <= most_kept_nbytes - memory->nbytes;
}

/* The last reference to a memory object is given up: 1 where it is kept, without Python. */
static int keep_without_python(struct object *object) {
    struct memory *memory = object->memory;
    int last = 1, is_kept = 0;
    if (memory == NULL || memory->made_in == NULL || over || lost)
        return 0;
    pthread_mutex_lock(&guard);
    if (inside == 0 && memory->is_clean == calls && memory->made_in->references > 0 && has_room_for(memory))
        is_kept = atomic_compare_exchange_strong(&object->references, &last, 0);
    if (is_kept)
        keep_released(memory);
    pthread_mutex_unlock(&guard);
    return is_kept;
}

/* Take one that is kept, like this if that is not NULL. */
static struct memory *take_kept(const struct object *context, uint64_t flags, size_t nbytes) {
    struct memory *before = NULL, *memory = kept_first;
    while (memory != NULL && context != NULL && (memory->made_in != context || memory->flags != flags || memory->nbytes != nbytes)) {
        before = memory;
        memory = memory->next_kept;
    }
    if (memory == NULL)
        return NULL;
    *(before == NULL ? &kept_first : &before->next_kept) = memory->next_kept;
    if (kept_last == memory)
        kept_last = before;
    kept_count--;
    kept_nbytes -= memory->nbytes;
    memory->object->kind = KIND_MEM;
    return memory;
}

/* Let the oldest go until there is room for another, or all of them. With the interpreter's lock, not under `guard`. */
static void let_go_of_kept(const struct memory *other) {
    for (;;) {
        pthread_mutex_lock(&guard);
        struct memory *memory = other != NULL && has_room_for(other) ? NULL : take_kept(NULL, 0, 0);
        pthread_mutex_unlock(&guard);
        if (memory == NULL)
            return;
        let_go(memory->object);
    }
}

/* The same as `keep_without_python`, with the interpreter's lock; the reference has been given up. */
static int keep_in_python(struct object *object) {
    struct memory *memory = object->memory;
    if (memory == NULL || memory->made_in == NULL || memory->made_in->references <= 0 || is_off || is_in_vain())
        return 0;
    uint64_t before = calls;
    PyObject *answer = PyObject_Vectorcall(may_be_kept, &object->item, 1, NULL);
    if (answer == NULL)
        PyErr_Print();
    size_t most = answer == NULL ? 0 : (size_t)PyLong_AsUnsignedLongLong(answer);
    if (answer != NULL)
        Py_DecRef(answer);
    learn_whether(most > 0);
    if (memory->nbytes > most || calls != before) /* as in `moved` */
        return 0;
    most_kept_nbytes = most;
    let_go_of_kept(memory);
    pthread_mutex_lock(&guard);
    keep_released(memory);
    pthread_mutex_unlock(&guard);
    return 1;
}

static struct lent { /* a copy of what the program has given, and the driver's command that reads it */
    void *event, *bytes;
} lent[MOST_LENT];
static unsigned lent_count;

/* Whether there is room for another copy, now that those that were read have gone. */
static int may_lend(size_t nbytes) {
    unsigned left = 0;
    for (unsigned i = 0; i < lent_count; i++) {
        int32_t state = -1;
        if (ask_natively(lent[i].event, 0x11D3, sizeof state, &state, NULL) != SUCCESS || state > 0) { /* it may still be read */
            lent[left++] = lent[i];
            continue;
        }
        release_natively(lent[i].event);
        free(lent[i].bytes);
    }
    lent_count = left;
    return lent_count < MOST_LENT && nbytes <= MOST_LENT_NBYTES;
}

/* Give a buffer its first content; 0 where that is not possible. The call waits for nothing: the program may change its memory at once. */
static int fill_from(struct memory *memory, const void *host) {
    void *bytes = memory->at == calls && made_count < MOST_MADE && may_lend(memory->nbytes) ? malloc(memory->nbytes) : NULL, *event;
    if (bytes == NULL)
        return 0;
    memcpy(bytes, host, memory->nbytes);
    if (write_natively(memory->native_queue, memory->native, 0, 0, memory->nbytes, bytes, 0, NULL, &event) != SUCCESS) {
        free(bytes);
        return 0;
    }
    retain_natively(event);
    lent[lent_count++] = (struct lent){event, bytes};
    made[made_count++] =
        (struct made){event, NULL, {.queue = memory->made_in, .memories = {memory->object}, .nbytes = memory->nbytes, .kind = KIND_CONTENT}};
    return 1;
}

static void make_room(void);

/* A new buffer; NULL where Python has to make it. */
static void *create_without_python(const struct object *context, uint64_t flags, size_t nbytes, const void *host) {
    struct memory *memory = NULL;
    if ((host != NULL) != ((flags & COPIES) != 0) || over || lost)
        return NULL;
    if (host != NULL)
        make_room();
    pthread_mutex_lock(&guard);
    if (inside == 0 && kept_first != NULL)
        memory = take_kept(context, flags, nbytes);
    if (memory != NULL && host != NULL && !fill_from(memory, host)) {
        keep_released(memory);
        memory = NULL;
    }
    if (memory != NULL) {
        memory->object->serial = ++serials + 1;
        memory->object->references = 1;
        memory->is_clean = calls;
        buffers_made++;
    }
    pthread_mutex_unlock(&guard);
    return memory == NULL ? NULL : memory->object;
}

/* ---- kernels that are released ------------------------------------------------------------------------------------- */

/* A kernel was made. In Python. */
static void note_kernel(struct object *object, const struct object *program, const char *name) {
    int32_t code;
    if (object == NULL || !is_own)
        return;
    struct kernel *kernel = kernel_of(object, &code);
    if (kernel == NULL || strspn(kernel->kinds, "gv") != kernel->count)
        return;
    kernel->name = strdup(name);
    kernel->made_in = kernel->name == NULL ? NULL : program;
}

/* As `keep_without_python`, of a kernel, where commands are made without Python at all. */
static int keep_kernel_without_python(struct object *object) {
    struct kernel *kernel = object->kernel;
    int last = 1, is_kept = 0;
    if (kernel == NULL || kernel->made_in == NULL || over || lost)
        return 0;
    pthread_mutex_lock(&guard);
    if (inside == 0 && has_lanes && kernel->made_in->references > 0 && kept_kernel_count < MOST_KEPT)
        is_kept = atomic_compare_exchange_strong(&object->references, &last, 0);
    if (is_kept) {
        object->kind = KIND_RELEASED;
        kernel->next_kept = kept_kernels;
        kept_kernels = kernel;
        kept_kernel_count++;
    }
    pthread_mutex_unlock(&guard);
    return is_kept;
}

/* As `take_kept`, of a kernel. */
static struct kernel *take_kept_kernel(const struct object *program, const char *name) {
    struct kernel **place = &kept_kernels;
    while (*place != NULL && program != NULL && ((*place)->made_in != program || strcmp((*place)->name, name) != 0))
        place = &(*place)->next_kept;
    struct kernel *kernel = *place;
    if (kernel == NULL)
        return NULL;
    *place = kernel->next_kept;
    kept_kernel_count--;
    kernel->object->kind = KIND_KERNEL;
    return kernel;
}

static void let_go_of_kernels(void) {
    for (;;) {
        pthread_mutex_lock(&guard);
        struct kernel *kernel = take_kept_kernel(NULL, NULL);
        pthread_mutex_unlock(&guard);
        if (kernel == NULL)
            return;
        let_go(kernel->object);
    }
}

/* A new kernel, of which no argument is set; NULL where Python has to make it. */
static void *create_kernel_without_python(const struct object *program, const char *name) {
    struct kernel *kernel = NULL;
    if (name == NULL || over || lost)
        return NULL;
    pthread_mutex_lock(&guard);
    if (inside == 0 && kept_kernels != NULL)
        kernel = take_kept_kernel(program, name);
    if (kernel != NULL) {
        for (unsigned i = 0; i < kernel->count; i++)
            kernel->values[i].is_unset = 1;
        kernel->object->references = 1;
        kernels_made++;
    }
    pthread_mutex_unlock(&guard);
    return kernel == NULL ? NULL : kernel->object;
}

/* ---- arguments that are gone --------------------------------------------------------------------------------------- */

/* Whether an argument is a buffer that was released since it was set, or none at all. With the interpreter's lock, which guards the
 * register. */
static int is_gone(const struct kernel *kernel, unsigned index) {
    const struct value *value = &kernel->values[index];
    const void *handle;
    if (value->is_unset)
        return 1;
    if (!value->known || value->serial == 0 || value->nbytes != sizeof handle)
        return 0;
    memcpy(&handle, value->bytes, sizeof handle);
    const struct object *object = find_object(handle);
    return object == NULL || object->serial != value->serial;
}

static int has_gone(const struct object *object) {
    const struct kernel *kernel = object->kernel;
    for (unsigned i = 0; kernel != NULL && i < kernel->count; i++)
        if (is_gone(kernel, i))
            return 1;
    return 0;
}
