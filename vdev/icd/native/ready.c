/* Launches that are made again without Python. What is made between them stands in commands.c, and what both know of memory in memory.c.
 *
 * Where there is one worker, a launch like an earlier one needs nothing of vdev but to be counted, as long as no other
 * command has come between. Such a launch is *ready*: Python has said how the native driver takes it. It is handed to that
 * driver from here, and Python is told at the next call that enters it, before anything else happens there.
 *
 * A launch that is ready may be made with other buffers than its own as well, where these are known and shared alike. Python is told which.
 * Commands that have ended well before Python is told, and whose events nobody has any more, are only counted.
 *
 * The driver knows best how far such a command is. Its event, where the program wants one, is a handle around the driver's, of which
 * Python knows nothing; it gets one of Python's own when Python is told of the command, as long as the program has it.
 *
 * What keeps this right:
 * - Nothing is made here while any thread is inside Python (`inside`), and whoever enters tells Python first what was made.
 * - A call may change what launches do, so when one ends, nothing is ready any more; except calls that are known to change
 *   nothing for other launches (`kept`). What is ready with an object is so no longer once that is released.
 * - In a process with a Python program, which calls vdev without coming through here, nothing is ever ready.
 * - All commands of the worker are in one queue of the driver's, which keeps their order. So a wait list only says what may fail with
 *   what, and that is the driver's, too, where it knows all of these events.
 * - Python's own threads submit nothing by themselves. What they find out, a failure, is looked at when Python is told.
 *
 * `guard` guards all of this, together with the kernels' values. Who holds it waits for nobody but the driver.
 */

/* the driver's functions: how each is called by the names of others */
#define NATIVE(X)                                                                                                          \
    X(set_natively, "clSetKernelArg", (void *, uint32_t, size_t, const void *))                                            \
    X(launch_natively, "clEnqueueNDRangeKernel",                                                                           \
      (void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, const void *, void *))          \
    X(read_natively, "clEnqueueReadBuffer",                                                                                \
      (void *, void *, uint32_t, size_t, size_t, void *, uint32_t, const void *, void *))                                  \
    X(write_natively, "clEnqueueWriteBuffer",                                                                              \
      (void *, void *, uint32_t, size_t, size_t, const void *, uint32_t, const void *, void *))                            \
    X(copy_natively, "clEnqueueCopyBuffer",                                                                                \
      (void *, void *, void *, size_t, size_t, size_t, uint32_t, const void *, void *))                                    \
    X(fill_natively, "clEnqueueFillBuffer",                                                                                \
      (void *, void *, const void *, size_t, size_t, size_t, uint32_t, const void *, void *))                              \
    X(mark_natively, "clEnqueueMarkerWithWaitList", (void *, uint32_t, const void *, void *))                              \
    X(wait_natively, "clWaitForEvents", (uint32_t, void *const *))                                                         \
    X(flush_natively, "clFlush", (void *))                                                                                 \
    X(finish_natively, "clFinish", (void *))                                                                               \
    X(retain_natively, "clRetainEvent", (void *))                                                                          \
    X(release_natively, "clReleaseEvent", (void *))                                                                        \
    X(ask_natively, "clGetEventInfo", (void *, uint32_t, size_t, void *, void *))                                          \
    X(time_natively, "clGetEventProfilingInfo", (void *, uint32_t, size_t, void *, void *))
#define DECLARE_NATIVE(name, called, arguments) static int32_t(*name) arguments;
NATIVE(DECLARE_NATIVE)
#undef DECLARE_NATIVE

enum { /* vdev.icd.ready */
    KIND_READ, KIND_WRITE, KIND_WRITE_WHOLE, KIND_FILL, KIND_FILL_WHOLE, KIND_COPY, KIND_COPY_WHOLE, KIND_MARK, KIND_CONTENT, KINDS_OF_MOVES
};
enum {
    MOST_WAITS = 16, /* in a wait list */
    MOST_MADE = 62,  /* before Python is told: with the launch through it, a marker's worth */
    AFTER = 3,      /* launches of a kernel in a row: the last of them is made ready */
    LATEST = 64,    /* … where that was not possible, or was of no use again and again */
    USEFUL = 8,     /* launches without Python: then it was worth it */
    MOST_OTHERS = 8 /* buffers of one that is made with others than the one that is ready */
};

struct ready {
    unsigned used, ended; /* launches, and how many of them have ended and are to be told */
    PyObject *all;  /* what Python has said, owned */
    PyObject *item; /* … and of that, what its side knows of the launch */
    /* what the program gives */
    const struct object *queue;
    uint64_t queue_serial, changes;
    uint64_t *serials; /* by argument: of the memory object, 0 for all else */
    struct object **objects;  /* … and its handle, which is valid as long as this is ready: its release ends that */
    int takes_others;  /* … any of which may be another buffer that is known (memory.c), if they are shared in the same way */
    unsigned dims;
    int has_offset, has_local;
    size_t sizes[9];
    /* what the driver gets */
    void *native_kernel, **memory;
    unsigned native_dims;
    int has_native_local;
    size_t first[3], global_size[3], local_size[3];
    const char *hidden; /* the value of an argument behind the program's, which `item` keeps; NULL for none */
    size_t hidden_nbytes;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t telling = PTHREAD_MUTEX_INITIALIZER; /* held while Python is told */
static unsigned inside;     /* threads in Python */
static int is_telling;      /* one of them tells it of launches */
static int is_off;          /* Python could not be told: there are no more of them */
static struct made {       /* a command of which Python has not been told */
    void *event;           /* the driver's */
    struct object *handle; /* the program's event, NULL where it has none */
    struct run {           /* what it is: that of others, too */
        struct ready *ready; /* of a launch; NULL for others, which differ in the rest */
        const struct object *queue;                 /* of what a new buffer was filled with, its context */
        const struct object *memories[MOST_OTHERS]; /* of such a launch: none, or others in their places */
        size_t nbytes, kind; /* no room between them: runs are compared byte by byte */
    } run;
} made[MOST_MADE]; /* in order */
static unsigned made_count;
static struct ended { /* commands that have ended well, but for launches, which are counted where they are ready */
    const struct object *queue; /* of the last of them, or its context */
    uint64_t count, nbytes;
} moves_ended[KINDS_OF_MOVES];
static int has_ended; /* there are such commands */
static struct kernel *with_ready, *untold; /* kernels with launches that are ready; with values that Python does not know */
static uint64_t calls = 1;                 /* that have changed something, and one */
static _Atomic uint64_t reads_made;
static __thread int has_changed; /* one of the calls that this thread is in has changed something */

static void *handle_at(PyObject *tuple, ptrdiff_t index) {
    return (void *)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, index));
}

#include "memory.c"

/* ---- entering and leaving ------------------------------------------------------------------------------------------ */

/* A thread goes into Python; 1 where it has to be told of launches, or is just being told. Without the interpreter's lock. */
static int come_in(void) {
    pthread_mutex_lock(&guard);
    inside++;
    int owes = made_count > 0 || has_ended || untold != NULL || is_telling;
    is_telling |= owes;
    pthread_mutex_unlock(&guard);
    return owes;
}

/* In a forked child, which has only this thread. */
static void begin_anew_in_child(void) {
    pthread_mutex_init(&guard, NULL);
    pthread_mutex_init(&telling, NULL);
    inside = depth > 0;
    is_telling = 0;
}

static void free_ready(struct ready *ready) {
    free(ready->serials);
    free(ready->objects);
    free(ready->memory);
    free(ready);
}

/* It is ready no longer: if it was hardly used, others are made ready later. */
static void learn_from(struct kernel *kernel, const struct ready *ready) {
    kernel->after = ready->used >= USEFUL ? AFTER : kernel->after < LATEST ? 2 * kernel->after : LATEST;
    kernel->in_a_row = 0;
}

static int uses(const struct kernel *kernel, const struct ready *ready, const struct object *object) {
    if (ready->queue == object)
        return 1;
    for (unsigned i = 0; i < kernel->count; i++)
        if (ready->objects[i] == object)
            return 1;
    return 0;
}

/* Take what is ready of one kernel, or of all, and with some object, or whatever. Whoever takes it drops Python's objects: not under
 * `guard`. */
static struct ready **take_ready(struct kernel *only, const struct object *with, size_t *count) {
    size_t room = 0;
    for (struct kernel *each = with_ready; each != NULL; each = each->next_ready)
        room += each->ready_count;
    struct ready **found = room == 0 ? NULL : malloc(room * sizeof *found);
    *count = 0;
    for (struct kernel **place = &with_ready; *place != NULL;) {
        struct kernel *each = *place;
        unsigned left = 0;
        for (unsigned i = 0; i < each->ready_count; i++) {
            struct ready *ready = each->ready[i];
            if ((only != NULL && each != only) || (with != NULL && !uses(each, ready, with)))
                each->ready[left++] = ready;
            else if (found != NULL) {
                found[(*count)++] = ready;
                learn_from(each, ready);
            }
        }
        each->ready_count = left;
        if (left > 0)
            place = &each->next_ready;
        else
            *place = each->next_ready;
    }
    return found;
}

static void drop_ready(struct kernel *only, const struct object *with) {
    size_t count;
    pthread_mutex_lock(&guard);
    struct ready **found = take_ready(only, with, &count);
    pthread_mutex_unlock(&guard);
    for (size_t i = 0; i < count; i++) {
        Py_DecRef(found[i]->all);
        free_ready(found[i]);
    }
    free(found);
}

/* The interpreter's lock is held. */
static void leave(int state) {
    has_changed |= !kept;
    kept = 0;
    if (--depth == 0) {
        if (has_changed) {
            calls++;
            drop_ready(NULL, NULL);
            let_go_of_kept(NULL);
            let_go_of_kernels();
        }
        has_changed = 0;
        pthread_mutex_lock(&guard);
        inside--;
        pthread_mutex_unlock(&guard);
    }
    PyGILState_Release(state);
}

/* ---- telling Python ------------------------------------------------------------------------------------------------ */

/* A launch's record, (record, memories …) where it has others, or (kind, queue, bytes, memories …). */
static PyObject *item_of(const struct run *run) {
    unsigned count = 0, first = run->ready != NULL ? 1 : 3;
    while (count < MOST_OTHERS && run->memories[count] != NULL)
        count++;
    if (run->ready != NULL && count == 0)
        return again(run->ready->item);
    PyObject *all = PyTuple_New(first + count);
    if (all == NULL)
        return NULL;
    PyTuple_SetItem(all, 0, run->ready != NULL ? again(run->ready->item) : PyLong_FromLongLong(run->kind));
    if (run->ready == NULL) {
        PyTuple_SetItem(all, 1, told(run->queue));
        PyTuple_SetItem(all, 2, PyLong_FromUnsignedLongLong(run->nbytes));
    }
    for (unsigned i = 0; i < count; i++)
        PyTuple_SetItem(all, first + i, told(run->memories[i]));
    return filled(all);
}

static PyObject *pair_of(PyObject *item, uint64_t count) {
    PyObject *pair = PyTuple_New(2);
    if (pair == NULL) {
        Py_DecRef(item);
        return NULL;
    }
    PyTuple_SetItem(pair, 0, item);
    PyTuple_SetItem(pair, 1, PyLong_FromUnsignedLongLong(count));
    return filled(pair);
}

/* How many commands from one on are launches like that one. */
static unsigned count_alike(const struct made *commands, unsigned count, unsigned first) {
    const struct run *run = &commands[first].run;
    unsigned last = first + 1;
    while (last < count && run->ready != NULL && memcmp(run, &commands[last].run, sizeof *run) == 0)
        last++;
    return last - first;
}

static PyObject *runs_of(const struct made *commands, unsigned count) {
    unsigned different = 0, at = 0;
    for (unsigned i = 0; i < count; i += count_alike(commands, count, i))
        different++;
    PyObject *all = PyTuple_New(different);
    for (unsigned i = 0; all != NULL && i < count;) {
        unsigned alike = count_alike(commands, count, i);
        PyTuple_SetItem(all, at++, pair_of(item_of(&commands[i].run), alike));
        i += alike;
    }
    return filled(all);
}

/* (place, queue, type) of each command whose event the program has. */
static PyObject *wanted_of(const struct made *commands, unsigned count) {
    unsigned wanted = 0;
    for (unsigned i = 0; i < count; i++)
        wanted += commands[i].handle != NULL;
    PyObject *all = PyTuple_New(wanted);
    for (unsigned i = 0, at = 0; all != NULL && i < count; i++) {
        const struct object *handle = commands[i].handle;
        if (handle == NULL)
            continue;
        PyObject *each = PyTuple_New(3);
        if (each == NULL) {
            Py_DecRef(all);
            return NULL;
        }
        PyTuple_SetItem(each, 0, PyLong_FromLongLong(i));
        PyTuple_SetItem(each, 1, told(handle->command->queue));
        PyTuple_SetItem(each, 2, PyLong_FromLongLong(handle->command->type));
        PyTuple_SetItem(all, at++, filled(each));
    }
    return filled(all);
}

/* Python's events stand for the program's from now on: `all` has them behind its first element. */
static int take_over(PyObject *all, const struct made *commands, unsigned count) {
    ptrdiff_t at = 1;
    int is_complete = 1;
    for (unsigned i = 0; i < count; i++) {
        if (commands[i].handle == NULL)
            continue;
        PyObject *item = PyTuple_GetItem(all, at++);
        is_complete &= item != NULL && register_handle(commands[i].handle, item);
        if (item != NULL)
            Py_IncRef(item); /* the program has references */
    }
    return is_complete;
}

static PyObject *addresses_of(const struct made *commands, unsigned count) {
    PyObject *all = PyTuple_New(count);
    for (unsigned i = 0; all != NULL && i < count; i++)
        PyTuple_SetItem(all, i, PyLong_FromUnsignedLongLong((uintptr_t)commands[i].event));
    return filled(all);
}

/* Tell Python of an argument that was set without it, which it has accepted before, or that it is gone by now. */
static void tell_value(struct object *object, unsigned index) {
    struct value *value = &object->kernel->values[index];
    int32_t code;
    PyObject *arguments[5] = {told(object), PyLong_FromUnsignedLongLong(index), PyLong_FromUnsignedLongLong(value->nbytes),
                              PyBytes_FromStringAndSize((const char *)value->bytes, (ptrdiff_t)value->nbytes),
                              PyLong_FromUnsignedLongLong(is_gone(object->kernel, index) ? 2 : 1)};
    PyObject *result = call(set_argument, arguments, 5, &code);
    if (result == NULL)
        value->is_unset = is_off = 1; /* a launch would have what was set before: it is refused until the argument is set anew */
    Py_DecRef(result);
}

static void tell_values(struct kernel *kernel) {
    for (unsigned i = 0; i < kernel->count; i++)
        if (kernel->values[i].is_untold) {
            kernel->values[i].is_untold = 0;
            tell_value(kernel->object, i);
        }
}

/* ((record, count) …, ((kind, queue, bytes), count) …) of the commands that have ended. Python is told of them now. */
static PyObject *ended_of(void) {
    unsigned count = 0, at = 0;
    for (const struct kernel *kernel = with_ready; kernel != NULL; kernel = kernel->next_ready)
        for (unsigned i = 0; i < kernel->ready_count; i++)
            count += kernel->ready[i]->ended > 0;
    for (unsigned kind = 0; kind < KINDS_OF_MOVES; kind++)
        count += moves_ended[kind].count > 0;
    PyObject *all = PyTuple_New(count);
    for (struct kernel *kernel = with_ready; all != NULL && kernel != NULL; kernel = kernel->next_ready)
        for (unsigned i = 0; i < kernel->ready_count; i++) {
            struct ready *ready = kernel->ready[i];
            if (ready->ended > 0)
                PyTuple_SetItem(all, at++, pair_of(item_of(&(struct run){.ready = ready}), ready->ended));
            ready->ended = 0;
        }
    for (unsigned kind = 0; all != NULL && kind < KINDS_OF_MOVES; kind++) {
        struct ended *ended = &moves_ended[kind];
        struct run run = {.kind = kind, .queue = ended->queue, .nbytes = ended->nbytes};
        if (ended->count > 0)
            PyTuple_SetItem(all, at++, pair_of(item_of(&run), ended->count));
        *ended = (struct ended){0};
    }
    return filled(all);
}

/* With the interpreter's lock and `telling`. Nothing is made meanwhile, since this thread is inside. */
static void tell_python(void) {
    struct made commands[MOST_MADE];
    pthread_mutex_lock(&guard);
    unsigned count = made_count;
    struct kernel *kernels = untold;
    memcpy(commands, made, count * sizeof *commands);
    for (unsigned i = 0; i < count; i++)
        if (commands[i].handle != NULL)
            commands[i].handle->command->is_told = 1; /* from now on it is not released without Python, that is not before this is through */
    int tells_ended = has_ended; /* other threads look at it as they come in */
    has_ended = made_count = 0;
    untold = NULL;
    pthread_mutex_unlock(&guard);
    int32_t code;
    if (tells_ended) {
        PyObject *ended = ended_of(), *result = call(tell_ended, &ended, 1, &code);
        if (result != NULL)
            Py_DecRef(result);
    }
    if (count > 0) {
        PyObject *arguments[3] = {runs_of(commands, count), addresses_of(commands, count), wanted_of(commands, count)};
        PyObject *result = call(tell_made, arguments, 3, &code);
        if (result == NULL || !take_over(result, commands, count))
            is_off = 1; /* and the reason was printed */
        else if (PyLong_AsLong(PyTuple_GetItem(result, 0)) == 0)
            has_changed = 1;
        if (result != NULL)
            Py_DecRef(result);
    }
    while (kernels != NULL) {
        struct kernel *next = kernels->next_untold;
        kernels->is_untold = 0;
        tell_values(kernels);
        kernels = next;
    }
    has_changed |= is_off;
    pthread_mutex_lock(&guard);
    is_telling = 0;
    pthread_mutex_unlock(&guard);
}

/* ---- making launches ----------------------------------------------------------------------------------------------- */

/* The index space as the program gives it; an offset of zeros is none. */
static void read_space(size_t *sizes, int *has_offset, unsigned dims, const size_t *offset, const size_t *global,
                       const size_t *local) {
    static const size_t nothing[3];
    const size_t *given_sizes[3] = {offset, global == NULL ? nothing : global, local};
    memset(sizes, 0, 9 * sizeof *sizes);
    for (int i = 0; i < 3; i++)
        if (given_sizes[i] != NULL)
            memcpy(sizes + 3 * i, given_sizes[i], dims * sizeof(size_t));
    *has_offset = sizes[0] || sizes[1] || sizes[2];
}

/* Whether a launch's memory, which becomes `memory` of the kernel, is that of what is ready, or may be in its place. Under `guard`. */
static int has_memory(const struct kernel *kernel, const struct ready *ready, int *is_other) {
    *is_other = 0;
    if (ready->changes != kernel->changes)
        return 0;
    for (unsigned i = 0; i < kernel->count; i++) {
        const struct value *value = &kernel->values[i];
        if (value->is_unset)
            return 0;
        kernel->memory[i] = ready->memory[i];
        if (value->serial == ready->serials[i] && (value->serial == 0 || ready->objects[i]->serial == value->serial))
            continue;
        if (value->serial == 0 || ready->serials[i] == 0 || !ready->takes_others)
            return 0;
        const void *handle;
        memcpy(&handle, value->bytes, sizeof handle);
        const struct memory *other = find_memory(handle, ready->queue->lane);
        if (other == NULL || other->object->serial != value->serial)
            return 0;
        kernel->memory[i] = other->native;
        *is_other = 1;
    }
    return 1;
}

/* Whether pointers that share a buffer, and only these, do so in what is ready. */
static int is_shared_alike(const struct kernel *kernel, const struct ready *ready) {
    for (unsigned i = 0; i < kernel->count; i++)
        for (unsigned j = 0; j < i; j++)
            if (ready->memory[i] != NULL && ready->memory[j] != NULL &&
                (ready->memory[i] == ready->memory[j]) != (kernel->memory[i] == kernel->memory[j]))
                return 0;
    return 1;
}

/* `is_other`: whether the launch is with others' memory. Under `guard`. */
static struct ready *find_ready(const struct kernel *kernel, const struct object *queue, unsigned dims, const size_t *offset,
                                const size_t *global, const size_t *local, int *is_other) {
    size_t sizes[9];
    int has_offset;
    if (kernel->ready_count == 0 || lane_of(queue) == NULL)
        return NULL;
    read_space(sizes, &has_offset, dims, offset, global, local);
    for (unsigned i = 0; i < kernel->ready_count; i++) {
        struct ready *ready = kernel->ready[i];
        if (ready->queue == queue && ready->queue_serial == queue->serial && ready->dims == dims &&
            ready->has_local == (local != NULL) && memcmp(ready->sizes, sizes, sizeof sizes) == 0 &&
            has_memory(kernel, ready, is_other) && (!*is_other || is_shared_alike(kernel, ready)))
            return ready;
    }
    return NULL;
}

static int is_local(const struct kernel *kernel, unsigned index) { return kernel->kinds[index] == 'l'; }

/* Set the driver's kernel's arguments to what the program has set. Its local memory is what it was when the launch was made ready: what changes
 * that, changes `changes`. Under `guard`. */
static int bring_values(struct kernel *kernel, const struct ready *ready) {
    for (unsigned i = 0; i < kernel->count; i++) {
        struct value *value = &kernel->values[i], *native = &kernel->natively[i];
        void *const *memory = &kernel->memory[i];
        int is_memory = ready->serials[i] != 0;
        const void *bytes = is_memory ? (const void *)memory : value->bytes;
        size_t nbytes = is_memory ? sizeof *memory : value->nbytes;
        if ((!is_memory && (!value->known || is_local(kernel, i))) || (native->known && memcmp(native->bytes, bytes, nbytes) == 0))
            continue;
        native->known = 0;
        if (set_natively(ready->native_kernel, i, nbytes, bytes) != SUCCESS)
            return 0;
        memcpy(native->bytes, bytes, nbytes);
        native->known = 1;
    }
    if (ready->hidden != kernel->hidden) {
        kernel->hidden = NULL;
        if (set_natively(ready->native_kernel, kernel->count, ready->hidden_nbytes, ready->hidden) != SUCCESS)
            return 0;
        kernel->hidden = ready->hidden;
    }
    return 1;
}

/* ---- what every command is made with ------------------------------------------------------------------------------- */

/* What a command waits for, as the driver knows it, and the program's event. */
struct around {
    uint32_t count;
    struct object *const *list;
    void *waits[MOST_WAITS];
    void **event;          /* where the program wants an event; NULL where it wants none */
    struct object *handle; /* which it has not got yet */
};

struct handle {
    struct object object;
    struct command command;
};

static void note_ended(const struct run *run) {
    struct ended *ended = &moves_ended[run->kind];
    ended->queue = run->queue;
    ended->count++;
    ended->nbytes += run->nbytes;
}

/* Commands that have ended well, and whose events nobody has, are no longer told one by one, but counted: as all are in one queue of the
 * driver's, nothing that comes later has to wait for them, or fails with them. Under `guard`. */
static void let_ended_go(void) {
    unsigned left = 0;
    for (unsigned i = 0; i < made_count; i++) {
        int32_t state = -1;
        if (made[i].handle != NULL || ask_natively(made[i].event, 0x11D3, sizeof state, &state, NULL) != SUCCESS || state != 0) {
            if (made[i].handle != NULL)
                made[i].handle->command->place = left;
            made[left++] = made[i];
            continue;
        }
        release_natively(made[i].event);
        const struct run *run = &made[i].run;
        if (run->ready != NULL)
            run->ready->ended++;
        else
            note_ended(run);
        has_ended = 1;
    }
    made_count = left;
}

/* The program has waited for something. */
static void note_wait(void) {
    pthread_mutex_lock(&guard);
    let_ended_go();
    pthread_mutex_unlock(&guard);
}

/* Tell Python, if that is due before another command is made: where there are many that have not ended. */
static void make_room(void) {
    int state;
    pthread_mutex_lock(&guard);
    int is_full = made_count == MOST_MADE;
    if (is_full)
        let_ended_go();
    int is_due = is_full && made_count > MOST_MADE / 2 && inside == 0;
    pthread_mutex_unlock(&guard);
    if (is_due && enter(&state)) {
        kept = 1;
        leave(state);
    }
}

/* 0 where the command cannot be made without Python. */
static int begin_around(struct around *around, uint32_t count, const void *list, void *event) {
    around->count = count;
    around->list = list;
    around->event = event;
    around->handle = NULL;
    if (over || lost || count > MOST_WAITS)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (around->list[i]->command == NULL)
            return 0;
    make_room();
    if (event == NULL)
        return 1;
    struct handle *made = calloc(1, sizeof *made);
    if (made == NULL)
        return 0;
    made->object.dispatch = dispatch_table;
    made->object.magic = MAGIC;
    made->object.kind = KIND_EVENT;
    made->object.references = 1;
    made->object.command = &made->command;
    around->handle = &made->object;
    return 1;
}

/* Whether a command's queue is of the same context as all that it waits for. Under `guard`. */
static int gather(struct around *around, const struct lane *lane) {
    for (uint32_t i = 0; i < around->count; i++) {
        const struct command *earlier = around->list[i]->command;
        if (earlier->context != lane->context)
            return 0;
        around->waits[i] = earlier->native;
    }
    return 1;
}

static const void *waits_of(const struct around *around) { return around->count > 0 ? around->waits : NULL; }

/* The command was made: `event` is the driver's, which is Python's from now on. Under `guard`. */
static void note_made(struct around *around, struct run run, void *event, uint32_t type) {
    const struct lane *lane = run.queue->lane;
    if (around->handle != NULL) {
        retain_natively(event);
        *around->handle->command = (struct command){event, run.queue, lane->context, type, lane->is_profiled, lane->offset_ns,
                                                    made_count, 0};
    }
    made[made_count++] = (struct made){event, around->handle, run};
}

/* The program gets its event; where the command was not made, there is none. */
static void end_around(struct around *around, int is_made) {
    if (is_made && around->handle != NULL)
        *around->event = around->handle;
    else
        free(around->handle);
}

/* The last reference to the event of a command of which Python has not been told is given up: 1 where that is so. Then it is gone. */
static int forget_untold(struct object *object) {
    struct command *command = object->command;
    if (lost)
        return 0;
    pthread_mutex_lock(&guard);
    int is_untold = !command->is_told;
    if (is_untold)
        made[command->place].handle = NULL;
    pthread_mutex_unlock(&guard);
    if (is_untold) {
        release_natively(command->native);
        object->magic = 0;
        free(object);
    }
    return is_untold;
}

/* The memory objects of a launch that is made with others, in order. */
static void note_others(const struct kernel *kernel, struct run *run) {
    for (unsigned i = 0, count = 0; i < kernel->count; i++)
        if (kernel->values[i].serial != 0)
            memcpy(&run->memories[count++], kernel->values[i].bytes, sizeof run->memories[0]);
}

/* Launch without Python; 0 where that is not possible: then nothing has happened. */
static int launch_without_python(const struct object *queue, const struct object *object, unsigned dims, const size_t *offset,
                                 const size_t *global, const size_t *local, uint32_t count, const void *list, void *event) {
    struct kernel *kernel = object->kernel;
    struct around around;
    int is_made = 0;
    if (kernel == NULL || !begin_around(&around, count, list, event))
        return 0;
    pthread_mutex_lock(&guard);
    if (inside == 0 && made_count < MOST_MADE) {
        int is_other;
        struct ready *ready = find_ready(kernel, queue, dims, offset, global, local, &is_other);
        const struct lane *lane = queue->lane;
        void *done;
        is_made = ready != NULL && gather(&around, lane) && bring_values(kernel, ready) &&
               launch_natively(lane->native, ready->native_kernel, ready->native_dims, ready->first,
                               ready->global_size, ready->has_native_local ? ready->local_size : NULL, count,
                               waits_of(&around), &done) == SUCCESS;
        if (is_made) {
            struct run run = {.ready = ready, .queue = queue};
            if (is_other)
                note_others(kernel, &run);
            note_made(&around, run, done, 0x11F0 /* CL_COMMAND_NDRANGE_KERNEL */);
            ready->used++;
        }
    }
    pthread_mutex_unlock(&guard);
    end_around(&around, is_made);
    return is_made;
}

/* How many reads, buffers and kernels were made here. */
static uint64_t count_made(int kind) { return kind == 0 ? reads_made : kind == 1 ? buffers_made : kernels_made; }

/* Whether it is the handle of a memory object that a launch is ready with, or that may be in the place of one. It is only compared: it may
 * be anything. */
static int is_ready_with(const struct kernel *kernel, unsigned index, const void *handle) {
    for (unsigned i = 0; i < kernel->ready_count; i++) {
        const struct ready *ready = kernel->ready[i];
        if (ready->serials[index] == 0)
            continue;
        if (ready->objects[index] == handle && ready->objects[index]->kind == KIND_MEM)
            return 1;
        if (ready->takes_others && lane_of(ready->queue) != NULL && find_memory(handle, ready->queue->lane) != NULL)
            return 1;
    }
    return 0;
}

/* Whether Python has accepted such a value of this argument, and would again. Under `guard`. */
static int is_acceptable(const struct kernel *kernel, uint32_t index, size_t size, const void *value) {
    if (kernel->ready_count == 0 || value == NULL || index >= kernel->count)
        return 0;
    const struct value *last = &kernel->values[index];
    if (!last->known || last->nbytes != size)
        return 0;
    if (kernel->kinds[index] == 'v')
        return 1;
    const void *handle;
    if (size != sizeof handle)
        return 0;
    memcpy(&handle, value, sizeof handle);
    return is_ready_with(kernel, index, handle);
}

static void note_value(struct kernel *kernel, uint32_t index, size_t size, const void *value);
static void note_space(struct kernel *kernel, unsigned dims, const size_t *offset, const size_t *global, const size_t *local);

/* Set an argument without Python; 0 where that is not possible: then nothing has happened. */
static int set_without_python(struct object *object, uint32_t index, size_t size, const void *value) {
    struct kernel *kernel = object->kernel;
    if (kernel == NULL || over || lost)
        return 0;
    pthread_mutex_lock(&guard);
    int is_set = inside == 0 && is_acceptable(kernel, index, size, value);
    if (is_set) {
        note_value(kernel, index, size, value);
        kernel->values[index].is_untold = 1;
        if (!kernel->is_untold) {
            kernel->is_untold = 1;
            kernel->next_untold = untold;
            untold = kernel;
        }
    }
    pthread_mutex_unlock(&guard);
    return is_set;
}

/* ---- making them ready --------------------------------------------------------------------------------------------- */

static void read_sizes(PyObject *tuple, size_t *sizes) {
    for (ptrdiff_t i = 0; i < PyTuple_Size(tuple) && i < 3; i++)
        sizes[i] = (size_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(tuple, i));
}

/* (item, queue, kernel, memory by argument, first, global size, local size or None, hidden value or None, bytes that may be read and bytes
 * that may be written by argument, whether it takes other memory, what `learn_lane` takes) -> what is ready; NULL without memory */
static struct ready *read_ready(const struct kernel *kernel, PyObject *all) {
    struct ready *ready = calloc(1, sizeof *ready);
    if (ready == NULL)
        return NULL;
    ready->serials = calloc(kernel->count + 1, sizeof *ready->serials);
    ready->objects = calloc(kernel->count + 1, sizeof *ready->objects);
    ready->memory = calloc(kernel->count + 1, sizeof *ready->memory);
    if (ready->serials == NULL || ready->objects == NULL || ready->memory == NULL) {
        free_ready(ready);
        return NULL;
    }
    ready->all = all;
    ready->item = PyTuple_GetItem(all, 0);
    ready->native_kernel = handle_at(all, 2);
    PyObject *memory = PyTuple_GetItem(all, 3), *global = PyTuple_GetItem(all, 5), *local = PyTuple_GetItem(all, 6);
    for (unsigned i = 0; i < kernel->count; i++) {
        ready->memory[i] = handle_at(memory, i);
        ready->serials[i] = kernel->values[i].serial;
        if (ready->serials[i] != 0)
            memcpy(&ready->objects[i], kernel->values[i].bytes, sizeof ready->objects[i]);
    }
    ready->native_dims = (unsigned)PyTuple_Size(global);
    read_sizes(PyTuple_GetItem(all, 4), ready->first);
    read_sizes(global, ready->global_size);
    ready->has_native_local = local != none;
    if (local != none)
        read_sizes(local, ready->local_size);
    ready->takes_others = (int)PyLong_AsLong(PyTuple_GetItem(all, 10));
    PyObject *hidden = PyTuple_GetItem(all, 7);
    if (hidden != none) {
        ready->hidden = PyBytes_AsString(hidden);
        ready->hidden_nbytes = (size_t)PyBytes_Size(hidden);
    }
    Py_IncRef(ready->all);
    return ready;
}

/* Whether each memory object among the arguments is known by its serial number: others, of null pointers, only change with
 * `changes`. */
static int fits(const struct kernel *kernel, const struct ready *ready) {
    for (unsigned i = 0; i < kernel->count; i++)
        if ((ready->memory[i] != NULL) != (ready->serials[i] != 0))
            return 0;
    return 1;
}

/* What Python has said of a launch's queue and memory is so for all commands. In Python. */
static void learn_from_ready(const struct kernel *kernel, struct object *queue, struct ready *ready) {
    unsigned count = 0;
    learn_lane(queue, handle_at(ready->all, 1), ready->all, 11);
    for (unsigned i = 0; queue->lane != NULL && i < kernel->count; i++) {
        size_t rooms[2];
        for (int j = 0; j < 2; j++)
            rooms[j] = (size_t)handle_at(PyTuple_GetItem(ready->all, 8 + j), i);
        if (ready->serials[i] != 0 && (rooms[READS] > 0 || rooms[WRITES] > 0 || ready->takes_others))
            learn_memory(ready->objects[i], ready->memory[i], queue->lane, rooms);
        count += ready->serials[i] != 0;
    }
    ready->takes_others &= count <= MOST_OTHERS;
}

/* Add it to the kernel's, in the place of the oldest if there are many. */
static void add_ready(struct kernel *kernel, struct ready *ready) {
    struct ready *oldest = NULL;
    pthread_mutex_lock(&guard);
    if (kernel->ready_count == 0) {
        kernel->next_ready = with_ready;
        with_ready = kernel;
    } else if (kernel->ready_count == MOST_READY) {
        oldest = kernel->ready[0];
        learn_from(kernel, oldest);
        memmove(kernel->ready, kernel->ready + 1, (MOST_READY - 1) * sizeof *kernel->ready);
        kernel->ready_count--;
    }
    kernel->ready[kernel->ready_count++] = ready;
    pthread_mutex_unlock(&guard);
    if (oldest != NULL) {
        Py_DecRef(oldest->all);
        free_ready(oldest);
    }
}

/* Python has set the driver's kernel's arguments as it wanted: for this thread, or for another that came in between. */
static void forget_natively(struct kernel *kernel) {
    pthread_mutex_lock(&guard);
    for (unsigned i = 0; i < kernel->count; i++)
        kernel->natively[i].known = 0;
    kernel->hidden = NULL;
    pthread_mutex_unlock(&guard);
}

/* A kernel was launched through Python, in a way that can be repeated. With the interpreter's lock. */
static void launched(struct object *queue, struct object *object, unsigned dims, const size_t *offset, const size_t *global,
                     const size_t *local) {
    struct kernel *kernel = object->kernel;
    if (kernel->calls != calls) {
        kernel->calls = calls;
        kernel->in_a_row = 0;
    }
    int is_other;
    int32_t code;
    if (!is_own || is_off || ++kernel->in_a_row < kernel->after ||
        find_ready(kernel, queue, dims, offset, global, local, &is_other) != NULL)
        return;
    note_space(kernel, dims, offset, global, local); /* another thread may have launched it over something else meanwhile */
    PyObject *arguments[5] = {told(queue), told(object), again(kernel->space[1]), again(kernel->space[2]), again(kernel->space[0])};
    uint64_t sets = kernel->sets;
    PyObject *all = call(make_ready, arguments, 5, &code);
    forget_natively(kernel);
    struct ready *ready = all == NULL || all == none ? NULL : read_ready(kernel, all);
    Py_DecRef(all);
    /* Python and the values here tell of the same arguments, unless another thread has set one meanwhile. */
    int is_told_alike = kernel->being_set == 0 && kernel->sets == sets;
    if (ready != NULL && PyErr_Occurred() == NULL && is_told_alike && fits(kernel, ready) && kernel->calls == calls) {
        ready->queue = queue;
        ready->queue_serial = queue->serial;
        ready->changes = kernel->changes;
        ready->dims = dims;
        ready->has_local = local != NULL;
        read_space(ready->sizes, &ready->has_offset, dims, offset, global, local);
        learn_from_ready(kernel, queue, ready);
        add_ready(kernel, ready);
        return;
    }
    kernel->in_a_row = kernel->calls == calls ? kernel->after - LATEST : 0; /* another thread's call may have changed something */
    if (ready != NULL) {
        Py_DecRef(ready->all);
        free_ready(ready);
    }
    PyErr_Clear();
}

/* () -> None: the call that this thread is in changes nothing for launches that are ready */
static PyObject *keep_ready(PyObject *self, PyObject *arguments) {
    (void)self, (void)arguments;
    kept = 1;
    Py_IncRef(none);
    return none;
}

/* The native driver's functions, of the loader that its handles come from. */
static void find_native_functions(void *loader) {
#define LOOK_UP_NATIVE(name, called, arguments) is_off |= (*(void **)&name = dlsym(loader, called)) == NULL;
    NATIVE(LOOK_UP_NATIVE)
#undef LOOK_UP_NATIVE
}
