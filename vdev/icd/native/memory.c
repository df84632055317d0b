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
 * An argument that was set to a buffer which was released since, is none any more, also where the same handle has become another buffer:
 * buffers are told apart by their serial numbers.
 */

enum { READS, WRITES }; /* of `rooms` */
enum { KNOWN = 256, MOST_KEPT = 64 /* buffers that are released */, KIND_RELEASED = 0x100 };

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
    void *native;
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
static uint64_t buffers_made;
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
}

/* In Python. */
static void learn_memory(struct object *object, void *native, uint64_t context, const size_t *rooms) {
    struct memory *memory = memory_of(object);
    if (memory == NULL)
        return;
    memory->native = native;
    memory->context = context;
    memcpy(memory->rooms, rooms, sizeof memory->rooms);
    memory->at = calls;
}

/* Python has made a transfer of a buffer's: how can it be made here, if that has changed nothing (`kept`)? With the interpreter's lock. */
static void moved(struct object *queue, struct object *object) {
    int is_known = lane_of(queue) != NULL && object->memory != NULL && object->memory->at == calls;
    if (!kept || !is_own || is_off || is_known || is_in_vain())
        return;
    PyObject *arguments[2] = {queue->item, object->item};
    PyObject *all = PyObject_Vectorcall(place_of, arguments, 2, NULL);
    learn_whether(all != NULL && all != none);
    if (all == NULL) {
        PyErr_Print();
        return;
    }
    if (all != none) {
        size_t rooms[2] = {(size_t)handle_at(all, 2), (size_t)handle_at(all, 3)};
        learn_lane(queue, handle_at(all, 0), all, 4);
        if (queue->lane != NULL)
            learn_memory(object, handle_at(all, 1), queue->lane->context, rooms);
    }
    Py_DecRef(all);
}

/* ---- buffers that are released ------------------------------------------------------------------------------------- */

static const uint64_t PLAIN_FLAGS = 7 | 7 << 7; /* how kernels and how the host may use it, and none of host memory */

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
        drop_ready(NULL, memory->object);
        let_go(memory->object);
    }
}

/* The same as `keep_without_python`, with the interpreter's lock; the reference has been given up. */
static int keep_in_python(struct object *object) {
    struct memory *memory = object->memory;
    if (memory == NULL || memory->made_in == NULL || memory->made_in->references <= 0 || is_off || is_in_vain())
        return 0;
    PyObject *answer = PyObject_Vectorcall(may_be_kept, &object->item, 1, NULL);
    if (answer == NULL)
        PyErr_Print();
    size_t most = answer == NULL ? 0 : (size_t)PyLong_AsUnsignedLongLong(answer);
    if (answer != NULL)
        Py_DecRef(answer);
    learn_whether(most > 0);
    if (memory->nbytes > most)
        return 0;
    most_kept_nbytes = most;
    let_go_of_kept(memory);
    pthread_mutex_lock(&guard);
    keep_released(memory);
    pthread_mutex_unlock(&guard);
    return 1;
}

/* A new buffer; NULL where Python has to make it. */
static void *create_without_python(const struct object *context, uint64_t flags, size_t nbytes, const void *host) {
    struct memory *memory = NULL;
    if (host != NULL || over || lost)
        return NULL;
    pthread_mutex_lock(&guard);
    if (inside == 0 && kept_first != NULL)
        memory = take_kept(context, flags, nbytes);
    if (memory != NULL) {
        memory->object->serial = ++serials + 1;
        memory->object->references = 1;
        memory->is_clean = calls;
        buffers_made++;
    }
    pthread_mutex_unlock(&guard);
    return memory == NULL ? NULL : memory->object;
}

/* ---- arguments that are gone --------------------------------------------------------------------------------------- */

/* Whether an argument is a buffer that was released since it was set. With the interpreter's lock, which guards the register. */
static int is_gone(const struct kernel *kernel, unsigned index) {
    const struct value *value = &kernel->values[index];
    const void *handle;
    if (!value->known || value->serial == 0 || value->nbytes != sizeof handle)
        return 0;
    memcpy(&handle, value->bytes, sizeof handle);
    const struct object *object = find_object(handle);
    return object == NULL || object->serial != value->serial;
}

static int has_gone(const struct kernel *kernel) {
    for (unsigned i = 0; i < kernel->count; i++)
        if (is_gone(kernel, i))
            return 1;
    return 0;
}
