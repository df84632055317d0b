/* libvdev_calls.so: makes the calls of an array one after the other, so that nothing runs between them, and functions of Python's
 * that do so (prepared calls).
 *
 * A call names a function of a driver and its parameters, each an integer or a pointer in a word of its own, as the
 * calling conventions of 64-bit Linux pass them; the functions return an int, 0 if all went well. Decides nothing: the
 * arrays are `vdev/backends/call_lists.py`'s. It keeps no state but Python's functions that it has looked up, so any number of
 * threads may call it.
 *
 * Python is used through functions of its stable interface that are looked up when they are needed, so that this file is compiled
 * without Python's headers, once for all of its versions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

enum { MOST_PARAMETERS = 12 };
typedef uint64_t word;
struct call {
    void *function; /* NULL: the call is left out */
    word count;     /* of its parameters */
    word p[MOST_PARAMETERS];
};

/* What the library was made from, so that another version is not taken for it. */
EXPORTED const char vdev_calls_sources[] = VDEV_SOURCES;

/* Elsewhere it is not known how parameters narrower than a word are passed, and there is no such function. */
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
static int make(const struct call *call) {
    const word *p = call->p;
#define FUNCTION(...) ((int (*)(__VA_ARGS__))call->function)
    switch (call->count) {
    case 0: return FUNCTION(void)();
    case 1: return FUNCTION(word)(p[0]);
    case 2: return FUNCTION(word, word)(p[0], p[1]);
    case 3: return FUNCTION(word, word, word)(p[0], p[1], p[2]);
    case 4: return FUNCTION(word, word, word, word)(p[0], p[1], p[2], p[3]);
    case 5: return FUNCTION(word, word, word, word, word)(p[0], p[1], p[2], p[3], p[4]);
    case 6: return FUNCTION(word, word, word, word, word, word)(p[0], p[1], p[2], p[3], p[4], p[5]);
    default: /* those that are left out are zeros, which the function does not look at */
        return FUNCTION(word, word, word, word, word, word, word, word, word, word, word, word)(
            p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11]);
    }
}

/* Makes calls `first` to `stop` until one returns something else than 0. That one's number, or `stop`; `result` gets what
 * it has returned. */
EXPORTED int64_t vdev_make_calls(const struct call *calls, int64_t first, int64_t stop, int32_t *result) {
    for (int64_t at = first; at < stop; at++) {
        if (calls[at].function == NULL) continue;
        int returned = make(&calls[at]);
        if (returned != 0) {
            *result = returned;
            return at;
        }
    }
    return stop;
}

/* A word of a call that is an address in a memory, which is one of several. */
struct placed {
    word *at;
    word memory; /* its number */
    word ahead;  /* from where the memory begins */
};

/* Has calls take place in memories that begin `now`, by number, where they were made for memories that began at `first`: writes the
 * words of `placed`. 1, and nothing is written, if a memory lies no multiple of `apart` bytes away from its first place; else 0. */
EXPORTED int32_t vdev_place(const struct placed *placed, word count, const word *first, const word *now, word memories,
                            word apart) {
    for (word number = 0; number < memories; number++)
        if ((now[number] - first[number]) % apart != 0) return 1;
    for (word number = 0; number < count; number++)
        *placed[number].at = now[placed[number].memory] + placed[number].ahead;
    return 0;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* Bytes that are copied: runs of `nbytes` at `start` in rows and slices; and a memory that has bytes `start` to `stop`. */
struct block {
    int64_t start, nbytes, stride, count, slice_stride, slices;
};
struct memory {
    int64_t address, start, stop;
};
/* One launch that copies boxes, and what it is launched with: `call_lists.Boxes`. */
struct boxes {
    const struct block *blocks;
    const struct memory *memories;
    word count;            /* of boxes */
    word *parameters;      /* of a box alone: its nine words; of several: how many units there are, and these of each */
    uint32_t *groups;      /* of the launch */
    word *started, *again; /* its function, in two places */
    int64_t most_groups, width, most_nbytes; /* groups, items of each, and bytes that it does not reach */
    int64_t nbytes;        /* that are copied */
    word functions[5];     /* for units of 1, 2, 4, 8 and 16 bytes */
    struct {
        word block, source, target; /* their numbers */
    } of[];
};
enum { MOST_BOXES = 8 };
struct box {
    int64_t source, target, width, rows, slices, pitch, slice_pitch, stop;
};

static int has(const struct memory *memory, int64_t start, int64_t stop) {
    return memory->start <= start && stop <= memory->stop;
}

/* Whether the targets may have a byte in common: not if they lie one behind the other, or side by side in rows that are as far apart. */
static int may_overlap(const struct box *a, const struct box *b) {
    if (a->stop <= b->target || b->stop <= a->target) return 0;
    int64_t pitch = a->rows > 1 ? a->pitch : b->pitch;
    if (a->slices > 1 || b->slices > 1 || pitch <= 0) return 1;
    if (a->rows > 1 ? b->rows > 1 && b->pitch != pitch : b->rows == 1) return 1;
    int64_t behind = (b->target - a->target) % pitch;
    if (behind < 0) behind += pitch;
    return behind < a->width || behind + b->width > pitch;
}

/* Has the launch copy the blocks that there are now, between these memories. 1 if it cannot: nothing has changed then. */
EXPORTED int32_t vdev_fill_boxes(struct boxes *all) {
    struct box found[MOST_BOXES];
    word together = 0;
    int64_t nbytes = 0;
    if (all->count == 0 || all->count > MOST_BOXES) return 1;
    for (word number = 0; number < all->count; number++) {
        const struct block *block = &all->blocks[all->of[number].block];
        const struct memory *from = &all->memories[all->of[number].source], *to = &all->memories[all->of[number].target];
        struct box *box = &found[number];
        int64_t rows = block->count, slices = block->slices, width = block->nbytes, pitch = block->stride;
        int64_t slice_pitch = block->slice_stride ? block->slice_stride : rows * pitch;
        int64_t length = width + (rows - 1) * pitch + (slices - 1) * slice_pitch;
        if (width <= 0 || rows <= 0 || slices <= 0 || pitch < 0 || slice_pitch < 0) return 1;
        if (!has(from, block->start, block->start + length) || !has(to, block->start, block->start + length)) return 1;
        nbytes += width * rows * slices;
        if ((rows == 1 || pitch == width) && (slices == 1 || slice_pitch == rows * width)) { /* one behind the other */
            width *= rows * slices;
            rows = slices = 1;
        }
        box->source = from->address + block->start - from->start;
        box->target = to->address + block->start - to->start;
        box->width = width, box->rows = rows, box->slices = slices;
        box->pitch = pitch, box->slice_pitch = slice_pitch;
        box->stop = box->target + length;
        together |= (word)(box->source | box->target | width | (rows > 1 ? pitch : 0) | (slices > 1 ? slice_pitch : 0));
        for (word other = 0; other < number; other++)
            if (may_overlap(box, &found[other])) return 1; /* the later one must be the last */
    }
    if (nbytes >= all->most_nbytes) return 1;
    int bits = 0; /* the largest unit that divides all */
    while (bits < 4 && !(together >> bits & 1)) bits++;
    word *next = all->parameters;
    if (all->count > 1) *next++ = (word)nbytes >> bits;
    for (word number = 0; number < all->count; number++) {
        const struct box *box = &found[number];
        *next++ = (word)box->source, *next++ = (word)box->target;
        *next++ = (word)box->width >> bits, *next++ = (word)box->rows;
        *next++ = (word)(box->width * box->rows * box->slices) >> bits;
        for (int side = 0; side < 2; side++) *next++ = (word)box->pitch >> bits, *next++ = (word)box->slice_pitch >> bits;
    }
    int64_t groups = ((nbytes >> bits) + all->width - 1) / all->width;
    *all->groups = (uint32_t)(groups < all->most_groups ? groups : all->most_groups);
    *all->started = *all->again = all->functions[bits];
    all->nbytes = nbytes;
    return 0;
}

/* ---- prepared calls ------------------------------------------------------------------------------------------------ */

typedef struct python_object PyObject;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef struct {
    const char *name;
    PyCFunction function;
    int flags;
    const char *doc;
} PyMethodDef;
enum { TAKES_NOTHING = 4 };

#define PYTHON(X)                                                                                                          \
    X(char *, PyBytes_AsString, (PyObject *))                                                                              \
    X(PyObject *, PyBytes_FromStringAndSize, (const char *, ptrdiff_t))                                                    \
    X(PyObject *, PyCFunction_NewEx, (PyMethodDef *, PyObject *, PyObject *))                                              \
    X(PyObject *, PyLong_FromLongLong, (long long))                                                                        \
    X(void, Py_DecRef, (PyObject *))                                                                                       \
    X(void *, PyEval_SaveThread, (void))                                                                                   \
    X(void, PyEval_RestoreThread, (void *))

#define DECLARE(result, name, arguments) static result(*name) arguments;
PYTHON(DECLARE)
#undef DECLARE

struct prepared { /* what such a function has as its `self`, in an object of bytes */
    const struct call *calls;
    int64_t count;
};

/* What is wrong, as a number: 0, or the place of the call that was refused times 2^32, plus what it has returned. */
static int64_t make_prepared(const struct prepared *prepared) {
    int32_t result = 0;
    int64_t at = vdev_make_calls(prepared->calls, 0, prepared->count, &result);
    return at == prepared->count ? 0 : at * ((int64_t)1 << 32) + result;
}

static PyObject *call_briefly(PyObject *self, PyObject *none) {
    (void)none;
    return PyLong_FromLongLong(make_prepared((const void *)PyBytes_AsString(self)));
}

static PyObject *call_waiting(PyObject *self, PyObject *none) {
    (void)none;
    const struct prepared *prepared = (const void *)PyBytes_AsString(self);
    void *state = PyEval_SaveThread();
    int64_t wrong = make_prepared(prepared);
    PyEval_RestoreThread(state);
    return PyLong_FromLongLong(wrong);
}

static PyMethodDef briefly = {"prepared_call", call_briefly, TAKES_NOTHING, NULL};
static PyMethodDef waiting = {"prepared_waiting_call", call_waiting, TAKES_NOTHING, NULL};

/* Whether there can be prepared calls: Python's functions are found. Comes before `vdev_prepare`. */
EXPORTED int32_t vdev_find_python(void) {
    int32_t all = 1;
#define FIND(result, name, arguments) all &= (*(void **)&name = dlsym(RTLD_DEFAULT, #name)) != NULL;
    PYTHON(FIND)
#undef FIND
    return all;
}

/* A function of Python's, without parameters, that makes these calls; it keeps `owner` alive, to whom they and what they point to
 * belong. `waits`: other threads of Python's may run meanwhile. NULL with an error. With the interpreter's lock. */
EXPORTED PyObject *vdev_prepare(const struct call *calls, int64_t count, int32_t waits, PyObject *owner) {
    struct prepared prepared = {calls, count};
    PyObject *self = PyBytes_FromStringAndSize((const char *)&prepared, sizeof prepared);
    if (self == NULL) return NULL;
    /* What Python takes for the function's module is any object: it is kept as long as the function is. */
    PyObject *made = PyCFunction_NewEx(waits ? &waiting : &briefly, self, owner);
    Py_DecRef(self);
    return made;
}
#endif
