/* The driver that OpenCL's loaders find: vdev's virtual device for programs in any language.
 *
 * It decides nothing about OpenCL: it holds the dispatch table, the objects' handles and their reference counts, and
 * answers what needs no Python. All else goes to vdev.icd, in the interpreter that the process has, or in one that is
 * started at the first call that needs it. How calls cross is generated from vdev/icd/functions.py (stubs.inc).
 *
 * Python is used through functions that are looked up when it is there, so that this file is compiled without Python's
 * headers, once for all of its versions. References to Python's objects are taken and given back under the interpreter's
 * lock ("the GIL"), which also guards the register of handles.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    DEVICE_NOT_FOUND = -1,
    OUT_OF_RESOURCES = -5,
    OUT_OF_HOST_MEMORY = -6,
    INVALID_VALUE = -30,
    INVALID_PLATFORM = -32,
    INVALID_ARG_INDEX = -49,
    INVALID_KERNEL_ARGS = -52,
    INVALID_EVENT_WAIT_LIST = -57,
    INVALID_EVENT = -58,
    INVALID_OPERATION = -59,
};

/* ---- Python, as far as it is used ---------------------------------------------------------------------------------- */

typedef struct python_object PyObject;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef struct {
    const char *name;
    PyCFunction function;
    int flags;
    const char *doc;
} PyMethodDef;
enum { TAKES_TUPLE = 1 };

#define PYTHON(X)                                                                                                          \
    X(int, Py_IsInitialized, (void))                                                                                       \
    X(void, Py_InitializeEx, (int))                                                                                        \
    X(void, Py_SetProgramName, (const wchar_t *))                                                                          \
    X(wchar_t *, Py_DecodeLocale, (const char *, size_t *))                                                                \
    X(int, PyGILState_Ensure, (void))                                                                                      \
    X(void, PyGILState_Release, (int))                                                                                     \
    X(int, PyGILState_Check, (void))                                                                                       \
    X(void *, PyGILState_GetThisThreadState, (void))                                                                       \
    X(void *, PyEval_SaveThread, (void))                                                                                   \
    X(void, PyEval_RestoreThread, (void *))                                                                                \
    X(void, PyThreadState_Clear, (void *))                                                                                 \
    X(void, PyThreadState_DeleteCurrent, (void))                                                                           \
    X(PyObject *, PyImport_ImportModule, (const char *))                                                                   \
    X(PyObject *, PyObject_GetAttrString, (PyObject *, const char *))                                                      \
    X(PyObject *, PyObject_GetAttr, (PyObject *, PyObject *))                                                              \
    X(int, PyObject_SetAttr, (PyObject *, PyObject *, PyObject *))                                                         \
    X(PyObject *, PyObject_Vectorcall, (PyObject *, PyObject *const *, size_t, PyObject *))                                \
    X(void, Py_IncRef, (PyObject *))                                                                                       \
    X(void, Py_DecRef, (PyObject *))                                                                                       \
    X(PyObject *, PyTuple_New, (ptrdiff_t))                                                                                \
    X(ptrdiff_t, PyTuple_Size, (PyObject *))                                                                               \
    X(PyObject *, PyTuple_GetItem, (PyObject *, ptrdiff_t))                                                                \
    X(int, PyTuple_SetItem, (PyObject *, ptrdiff_t, PyObject *))                                                           \
    X(PyObject *, PyLong_FromUnsignedLongLong, (unsigned long long))                                                       \
    X(PyObject *, PyLong_FromLongLong, (long long))                                                                        \
    X(unsigned long long, PyLong_AsUnsignedLongLong, (PyObject *))                                                         \
    X(long, PyLong_AsLong, (PyObject *))                                                                                   \
    X(PyObject *, PyBytes_FromStringAndSize, (const char *, ptrdiff_t))                                                    \
    X(char *, PyBytes_AsString, (PyObject *))                                                                              \
    X(ptrdiff_t, PyBytes_Size, (PyObject *))                                                                               \
    X(PyObject *, PyUnicode_InternFromString, (const char *))                                                              \
    X(PyObject *, PyCapsule_New, (void *, const char *, void (*)(PyObject *)))                                             \
    X(void *, PyCapsule_GetPointer, (PyObject *, const char *))                                                            \
    X(int, PyCapsule_IsValid, (PyObject *, const char *))                                                                  \
    X(PyObject *, PyCFunction_NewEx, (PyMethodDef *, PyObject *, PyObject *))                                              \
    X(PyObject *, PyErr_Occurred, (void))                                                                                  \
    X(void, PyErr_Fetch, (PyObject **, PyObject **, PyObject **))                                                          \
    X(void, PyErr_NormalizeException, (PyObject **, PyObject **, PyObject **))                                             \
    X(void, PyErr_Print, (void))                                                                                           \
    X(void, PyErr_Clear, (void))                                                                                           \
    X(void, PyErr_SetString, (PyObject *, const char *))

#define DECLARE(result, name, arguments) static result(*name) arguments;
PYTHON(DECLARE)
#undef DECLARE
static PyObject *none, **value_error;

/* ---- objects ------------------------------------------------------------------------------------------------------- */

struct value { /* an argument as it was set last: of local memory, how much */
    size_t nbytes;
    uint64_t serial; /* of the object whose handle it is, 0 where it is none */
    unsigned char bytes[64];
    int known, is_untold; /* it was set here, and Python does not know */
    int is_unset;         /* … of another kernel, which this one was (memory.c) */
};

enum { MOST_READY = 32 }; /* launches of a kernel that are ready: with other buffers, sizes or queues */

struct kernel { /* what a kernel's handle remembers */
    unsigned count;
    char *kinds; /* by argument, the first letters of the kinds of vdev.icd.kernels */
    struct value *values;
    unsigned dims;
    int has_offset, has_local;
    size_t sizes[9];
    PyObject *space[3]; /* offset, global and local size as tuples */
    /* for launches without Python (ready.c) */
    struct object *object;
    struct ready *ready[MOST_READY]; /* the oldest first */
    unsigned ready_count;
    int in_a_row, after;             /* launches through Python that can be repeated, since `calls`; one is made ready after so many */
    uint64_t calls, changes;         /* how often an argument was set to what is not known here */
    uint64_t sets, being_set;        /* arguments that were set through Python, and that some threads are just setting */
    struct value *natively;          /* what the driver's kernel has */
    void **memory;                   /* by argument: the driver's memory of the launch that is being made */
    const char *hidden;              /* … and of the hidden argument of a launch that is ready */
    int is_untold;                   /* some value is */
    struct kernel *next_ready, *next_untold;
    /* what it was made from, if it may be the next kernel like it (memory.c) */
    const struct object *made_in; /* the program; NULL for others */
    char *name;
    struct kernel *next_kept;
};

struct answer { /* to a query, which never changes */
    struct answer *next;
    uint64_t query;
    size_t nbytes;
    unsigned char bytes[];
};

struct command { /* of an event: a command that was made without Python (ready.c) */
    void *native;               /* the driver's event; this is one of its owners */
    const struct object *queue; /* the event, or the command as long as Python does not know it, keeps the queue alive */
    uint64_t context;           /* identifies the queue's */
    uint32_t type;              /* CL_COMMAND_… */
    int is_profiled;
    int64_t offset_ns; /* from the driver's times to the host's */
    unsigned place;    /* among the commands of which Python has not been told */
    int is_told;       /* … and no longer one of them */
};

struct object {
    const void *const *dispatch; /* first, as cl_khr_icd says */
    uint32_t magic;
    uint32_t kind;
    _Atomic int references; /* those of C code; Python's objects live as long as they do */
    PyObject *item;         /* owned where there are references, else borrowed from whom the handle belongs to */
    uint64_t serial;
    struct object *next, *before; /* in the register */
    struct kernel *kernel;
    struct command *command; /* NULL for events that Python has made */
    struct lane *lane;       /* of a queue, and what is known of a memory object (memory.c); NULL where nothing is */
    struct memory *memory;
    uint64_t era;            /* of such an event: when it was held first, as `eras` counts */
    _Atomic(struct answer *) answers;
};

/* A query of one function: others that take the same object have names of their own, which that one refuses. */
#define QUERY(function, name) ((uint64_t)INDEX_##function << 32 | (name))

enum { MAGIC = 0x76646576, BUCKETS = 4096 };
static struct object *registered[BUCKETS];
static _Atomic uint64_t serials; /* taken under the interpreter's lock, and under `guard` */

static const void *const dispatch_table[];
static struct object the_platform = {.dispatch = dispatch_table, .magic = MAGIC, .references = 1, .serial = 1};

/* whether C code has given an object of that kind */
static int is(const void *handle, uint32_t kind) {
    const struct object *object = handle;
    return object != NULL && object->magic == MAGIC && object->kind == kind;
}

static struct object **bucket_of(const void *address) {
    uintptr_t number = (uintptr_t)address;
    return &registered[(number >> 4 ^ number >> 16) % BUCKETS];
}

static struct object *find_object(const void *address) {
    struct object *object = *bucket_of(address);
    while (object != NULL && object != address)
        object = object->next;
    return object;
}

static void drop_ready(struct kernel *only, const struct object *with);
static void free_memory(struct memory *memory);
static int32_t (*release_natively)(void *);

static void free_kernel(struct kernel *kernel) {
    if (kernel == NULL)
        return;
    drop_ready(kernel, NULL);
    for (int i = 0; i < 3; i++)
        if (kernel->space[i] != NULL)
            Py_DecRef(kernel->space[i]);
    free(kernel->kinds);
    free(kernel->values);
    free(kernel->natively);
    free(kernel->memory);
    free(kernel->name);
    free(kernel);
}

static void free_object(struct object *object) {
    if (object->before != NULL)
        object->before->next = object->next;
    else
        *bucket_of(object) = object->next;
    if (object->next != NULL)
        object->next->before = object->before;
    struct answer *answer = object->answers;
    while (answer != NULL) {
        struct answer *next = answer->next;
        free(answer);
        answer = next;
    }
    free_kernel(object->kernel);
    free_memory(object->memory);
    free(object->lane);
    if (object->command != NULL)
        release_natively(object->command->native);
    object->magic = 0;
    free(object);
}

/* ---- start and end of Python --------------------------------------------------------------------------------------- */

static const char CAPSULE[] = "vdev.icd.handle";
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static int is_opening;    /* a thread, which holds that, finds or makes the interpreter */
static _Atomic int ready; /* Python is there, and vdev.icd is loaded */
static _Atomic int over;  /* the process ends: nobody enters Python any more */
static _Atomic int lost;  /* a forked child of a process with an interpreter of this library's own, or half of one */
static int is_own;        /* the interpreter is this library's */
static pthread_key_t thread_end;
static PyObject *name_of_handle, *failure, *acquire, *drop, *end_function, *kernel_kinds, *set_argument, *launch;
static PyObject *functions[];
static char library_path[4096];
static __thread int keeps_state; /* this thread's state is kept by one more reference */
static __thread int is_starting; /* this thread is inside the start */

static void complain(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("vdev: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static int look_up(void *library) {
#define LOOK_UP(result, name, arguments)                                                                                   \
    *(void **)&name = dlsym(library, #name);                                                                               \
    if (name == NULL && strcmp(#name, "PyObject_Vectorcall") == 0) /* inline before 3.11: the same, without names */       \
        *(void **)&name = dlsym(library, "PyObject_VectorcallDict");                                                       \
    if (name == NULL && strcmp(#name, "Py_SetProgramName") != 0)                                                           \
        return complain("this Python has no " #name), 0;
    PYTHON(LOOK_UP)
#undef LOOK_UP
    none = dlsym(library, "_Py_NoneStruct");
    value_error = dlsym(library, "PyExc_ValueError");
    return none != NULL && value_error != NULL;
}

/* The lines of the file beside this library, written by vdev.icd.library: Python's library, and its executable. */
static int read_configuration(char *python, char *executable, size_t size) {
    char path[sizeof library_path + 8];
    snprintf(path, sizeof path, "%s.conf", library_path);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        complain("%s cannot be read (%s): start the program with vdev-run, which writes it", path, strerror(errno));
        return 0;
    }
    char *lines[2] = {python, executable};
    int found = 0;
    while (found < 2 && fgets(lines[found], (int)size, file) != NULL) {
        lines[found][strcspn(lines[found], "\n")] = 0;
        found++;
    }
    fclose(file);
    return found == 2;
}

/* Whether nobody gets into Python any more. A program in Python finalises its interpreter before C's destructors run. */
static int is_closed(void) {
    if (ready && !is_own && !Py_IsInitialized())
        over = 1;
    return over || lost;
}

static void forget_thread(void *state) {
    if (is_closed())
        return;
    PyEval_RestoreThread(state);
    PyThreadState_Clear(state); /* Python's own note of the thread's state is gone by now */
    PyThreadState_DeleteCurrent();
}

static void begin_anew_in_child(void);

static void lose(void) {
    if (is_own || is_opening)
        lost = 1;
    pthread_mutex_init(&starting, NULL);
    begin_anew_in_child();
}

/* The interpreter that the process has, or one of this library's own. */
static int open_python(void) {
    int (*is_there)(void) = NULL;
    *(void **)&is_there = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    if (is_there != NULL && is_there())
        return look_up(RTLD_DEFAULT);
    char python[4096], executable[4096];
    if (!read_configuration(python, executable, sizeof python))
        return 0;
    void *library = dlopen(python, RTLD_NOW | RTLD_GLOBAL); /* extension modules look for its names in all libraries */
    if (library == NULL) {
        complain("Python cannot be loaded: %s", dlerror());
        return 0;
    }
    if (!look_up(library))
        return 0;
    int *ignores = dlsym(library, "Py_IgnoreEnvironmentFlag");
    if (ignores != NULL)
        *ignores = 1; /* the program's own Python's settings, if it starts one, are not for this one */
    char *numbers = setlocale(LC_CTYPE, NULL), *before = numbers == NULL ? NULL : strdup(numbers);
    static wchar_t *volatile program; /* Python keeps no copy */
    program = Py_DecodeLocale(executable, NULL);
    if (Py_SetProgramName != NULL && program != NULL)
        Py_SetProgramName(program);
    Py_InitializeEx(0);
    if (before != NULL)
        setlocale(LC_CTYPE, before);
    free(before);
    is_own = 1;
    keeps_state = 1; /* the interpreter's first thread keeps its state anyway */
    PyEval_SaveThread();
    return 1;
}

static PyObject *attribute(PyObject *module, const char *name) {
    PyObject *found = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    if (found == NULL)
        PyErr_Print();
    return found;
}

static PyObject *make_builtins(void), *make_ready, *tell_made, *tell_ended, *place_of, *may_be_kept;
static void end(void);

static int load_functions(void) {
    PyObject *module = PyImport_ImportModule("vdev.icd.entry");
    PyObject *start = attribute(module, "start");
    if (start == NULL)
        return 0;
    PyObject *arguments[2] = {make_builtins(), PyLong_FromLongLong(is_own)};
    PyObject *all = PyObject_Vectorcall(start, arguments, 2, NULL);
    if (all == NULL) {
        PyErr_Print();
        return 0;
    }
    PyObject **places[] = {&failure, &acquire, &drop, &end_function, &kernel_kinds, &set_argument, &launch,
                            &make_ready, &tell_made, &tell_ended, &place_of, &may_be_kept};
    ptrdiff_t count = sizeof places / sizeof *places;
    for (ptrdiff_t i = 0; i < PyTuple_Size(all); i++) {
        PyObject *item = PyTuple_GetItem(all, i);
        Py_IncRef(item);
        *(i < count ? places[i] : &functions[i - count]) = item;
    }
    name_of_handle = PyUnicode_InternFromString("_handle");
    return 1;
}

static int start_python(void) {
    static int failed;
    pthread_mutex_lock(&starting);
    is_opening = 1;
    int opened = !failed && (PyGILState_Ensure != NULL || open_python());
    failed = !opened;
    is_opening = 0;
    pthread_mutex_unlock(&starting);
    if (!opened)
        return 0;
    int state = PyGILState_Ensure();
    if (!ready && !is_starting) { /* twice where two threads begin: `start` gives the same to both */
        is_starting = 1;
        if (load_functions()) {
            static int registered_end;
            if (!registered_end++) {
                pthread_key_create(&thread_end, forget_thread);
                if (is_own)
                    atexit(end);
            }
            ready = 1;
        }
        is_starting = 0;
    }
    PyGILState_Release(state);
    return ready;
}

static int come_in(void);
static void tell_python(void);
static uint64_t count_made(int kind);
static void leave(int state); /* Python, in the state that `enter` has given */
static pthread_mutex_t telling;
static __thread unsigned depth; /* calls that this thread is in: one may call the program, and that another one */
static __thread int kept;       /* the call that it is in changes nothing for launches that are ready */

/* Enter Python. A thread that Python does not know keeps its state from call to call. */
static int enter(int *state) {
    if (is_closed() || is_starting)
        return 0;
    if (!ready && !start_python())
        return 0;
    if (!keeps_state) {
        keeps_state = 1;
        if (PyGILState_GetThisThreadState() == NULL) {
            PyGILState_Ensure();
            pthread_setspecific(thread_end, PyEval_SaveThread());
        }
    }
    int owes = depth++ == 0 && come_in();
    if (owes)
        pthread_mutex_lock(&telling); /* before the interpreter's lock, for which its holder may be waiting */
    *state = PyGILState_Ensure();
    if (owes) {
        tell_python();
        pthread_mutex_unlock(&telling);
    }
    kept = 0;
    return 1;
}

/* The program ends. Python stays as it is: it is not finalised, and nobody gets into it any more. */
static void end(void) {
    int state;
    if (!enter(&state))
        return;
    PyObject *counts[3];
    int is_complete = 1;
    for (int i = 0; i < 3; i++)
        is_complete &= (counts[i] = PyLong_FromUnsignedLongLong(count_made(i))) != NULL;
    PyObject *result = is_complete ? PyObject_Vectorcall(end_function, counts, 3, NULL) : NULL;
    if (result == NULL)
        PyErr_Print();
    over = 1;
}

static int32_t refuse_entry(void) {
    static _Atomic int told;
    if (lost && !told++)
        complain("a forked child cannot use its parent's OpenCL objects; a program that the child starts (exec) can use OpenCL");
    return lost ? -34 /* CL_INVALID_CONTEXT */ : OUT_OF_RESOURCES;
}

/* ---- handles ------------------------------------------------------------------------------------------------------- */

static void forget_handle(PyObject *capsule) {
    struct object *object = PyCapsule_GetPointer(capsule, CAPSULE);
    if (object->references > 0) /* it was the program's before, and Python's object could not be given it */
        object->item = NULL;
    else
        free_object(object);
}

static struct object *object_of(PyObject *item) {
    PyObject *capsule = PyObject_GetAttr(item, name_of_handle);
    struct object *object = NULL;
    if (capsule == NULL)
        return NULL;
    if (PyCapsule_IsValid(capsule, CAPSULE))
        object = PyCapsule_GetPointer(capsule, CAPSULE);
    Py_DecRef(capsule);
    return object;
}

static void begin_handle(struct object *object, uint32_t kind) {
    object->dispatch = dispatch_table;
    object->magic = MAGIC;
    object->kind = kind;
}

/* Let a handle stand for an object of Python's, with which it goes from now on. */
static int register_handle(struct object *object, PyObject *item) {
    object->item = item;
    object->serial = ++serials + 1;
    struct object **bucket = bucket_of(object);
    object->next = *bucket;
    if (object->next != NULL)
        object->next->before = object;
    *bucket = object;
    PyObject *capsule = PyCapsule_New(object, CAPSULE, forget_handle);
    int failed = capsule == NULL || PyObject_SetAttr(item, name_of_handle, capsule) < 0;
    if (capsule != NULL)
        Py_DecRef(capsule);
    return !failed;
}

/* The handle of an object of Python's, made where it has none. It goes with the object. */
static struct object *handle_of(PyObject *item, uint32_t kind) {
    struct object *object = object_of(item);
    if (object != NULL || PyErr_Occurred())
        return object;
    object = calloc(1, sizeof *object);
    if (object == NULL)
        return NULL;
    begin_handle(object, kind);
    return register_handle(object, item) ? object : NULL;
}

/* Tell Python's side that C code holds a memory object, or no longer does. */
static void tell(PyObject *function, struct object *object, uint32_t kind) {
    if (kind != KIND_MEM)
        return;
    PyObject *result = PyObject_Vectorcall(function, &object->item, 1, NULL);
    if (result == NULL)
        PyErr_Print();
    else
        Py_DecRef(result);
}

/* events that C code has references to, and of which only Python finds out that they are complete, since all was known to be complete:
 * that begins an era. Under the interpreter's lock; who holds it not may read how many. */
static _Atomic unsigned events_held;
static _Atomic int has_enqueued; /* Python has, in this era */
static uint64_t eras = 1, events_given; /* … and all such events ever */

/* callbacks that have not returned: waits of the program's are for them as well, which Python knows of */
static _Atomic int callbacks_open;

/* (count): how many there are */
static PyObject *set_callbacks(PyObject *self, PyObject *arguments) {
    (void)self;
    callbacks_open = (int)PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, 0));
    return PyLong_FromUnsignedLongLong(0);
}

static int is_pythons_event(const struct object *object) { return object->kind == KIND_EVENT && object->command == NULL; }

/* () -> how many of these events there were; (count): all that was enqueued by then is known to be complete */
static PyObject *begin_era(PyObject *self, PyObject *arguments) {
    (void)self;
    if (PyTuple_Size(arguments) > 0 && PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, 0)) == events_given) {
        eras++;
        events_held = has_enqueued = 0;
    }
    return PyLong_FromUnsignedLongLong(events_given);
}

/* One more reference of C code's. `is_new`: the object was made for C code, and has its reference already. */
static void hold(struct object *object, int is_new) {
    if (atomic_fetch_add(&object->references, 1) > 0)
        return;
    if (is_pythons_event(object)) {
        object->era = eras;
        events_given++;
        events_held++;
    }
    Py_IncRef(object->item);
    if (!is_new)
        tell(acquire, object, object->kind);
}

static void let_go(struct object *object) {
    PyObject *item = object->item;
    if (object->kind == KIND_QUEUE || object->kind == KIND_MEM)
        drop_ready(NULL, object);
    events_held -= is_pythons_event(object) && object->era == eras;
    tell(drop, object, object->kind);
    if (item != NULL) /* Python could not be told of the command */
        Py_DecRef(item); /* may end the object, and with it the handle */
}

/* clRetain… and clRelease… */
static int32_t retain(struct object *object) {
    int references = object->references;
    while (references > 0)
        if (atomic_compare_exchange_weak(&object->references, &references, references + 1))
            return SUCCESS;
    int state;
    if (!enter(&state))
        return refuse_entry();
    hold(object, 0);
    leave(state);
    return SUCCESS;
}

static int forget_untold(struct object *object);
static int keep_without_python(struct object *object), keep_in_python(struct object *object);
static int keep_kernel_without_python(struct object *object);
static struct kernel *kernel_of(struct object *object, int32_t *code);
static void touch(const struct object *object);

static int32_t release(struct object *object) {
    int references = object->references;
    while (references > 1)
        if (atomic_compare_exchange_weak(&object->references, &references, references - 1))
            return SUCCESS;
    if (references <= 0)
        return INVALID_VALUE; /* it is Python's alone */
    if ((object->command != NULL && forget_untold(object)) || keep_without_python(object) ||
        keep_kernel_without_python(object))
        return SUCCESS;
    int state;
    if (!enter(&state))
        return SUCCESS; /* at the process's end, and in a forked child, nothing is left to be given back */
    uint32_t kind = object->kind;
    if (atomic_fetch_sub(&object->references, 1) == 1 && !keep_in_python(object))
        let_go(object);
    kept = kind == KIND_EVENT || kind == KIND_QUEUE || kind == KIND_MEM || kind == KIND_KERNEL;
    leave(state);
    return SUCCESS;
}

/* What Python's side calls: (item, kind) -> address, the same with one more reference of C's, (address, kind) -> item. */
static PyObject *give_address(PyObject *arguments, int holds) {
    PyObject *item = PyTuple_GetItem(arguments, 0);
    uint32_t kind = (uint32_t)PyLong_AsLong(PyTuple_GetItem(arguments, 1));
    struct object *object = handle_of(item, kind);
    if (object == NULL)
        return NULL;
    if (holds)
        hold(object, holds > 1);
    return PyLong_FromUnsignedLongLong((uintptr_t)object);
}

static PyObject *address_of(PyObject *self, PyObject *arguments) { return (void)self, give_address(arguments, 0); }
static PyObject *give_out(PyObject *self, PyObject *arguments) { return (void)self, give_address(arguments, 2); }
static PyObject *lend_out(PyObject *self, PyObject *arguments) { return (void)self, give_address(arguments, 1); }

static PyObject *item_at(PyObject *self, PyObject *arguments) {
    (void)self;
    void *address = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, 0));
    long kind = PyLong_AsLong(PyTuple_GetItem(arguments, 1));
    struct object *object = PyErr_Occurred() ? NULL : find_object(address);
    if (address == &the_platform)
        object = &the_platform;
    PyObject *item = object == NULL || (long)object->kind != kind || object->item == NULL ? none : object->item;
    if (item != none)
        touch(object);
    PyErr_Clear();
    Py_IncRef(item);
    return item;
}

/* (address): one reference less of C's, which Python's side has taken over. */
static PyObject *take_back(PyObject *self, PyObject *arguments) {
    (void)self;
    void *address = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(PyTuple_GetItem(arguments, 0));
    struct object *object = find_object(address);
    int had = object != NULL && object->references > 0;
    if (had && atomic_fetch_sub(&object->references, 1) == 1)
        let_go(object);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(had);
}

/* (item): the platform's handle stands for it. It is static, and there before Python. */
static PyObject *set_platform(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *item = PyTuple_GetItem(arguments, 0);
    if (the_platform.item == NULL) {
        PyObject *capsule = PyCapsule_New(&the_platform, CAPSULE, NULL);
        Py_IncRef(item);
        the_platform.item = item;
        PyObject_SetAttr(item, PyUnicode_InternFromString("_handle"), capsule);
        Py_DecRef(capsule);
    }
    Py_IncRef(none);
    return none;
}

/* (item) -> how many references C code has, at least 1 */
static PyObject *count_of(PyObject *self, PyObject *arguments) {
    (void)self;
    struct object *object = object_of(PyTuple_GetItem(arguments, 0));
    PyErr_Clear();
    return PyLong_FromLongLong(object != NULL && object->references > 0 ? object->references : 1);
}

#include "binding.c"

static void find_native_functions(void *loader);
static PyObject *keep_ready(PyObject *self, PyObject *arguments);

/* bind_calls(path as bytes) -> whether that was possible */
static PyObject *bind_calls_of(PyObject *self, PyObject *arguments) {
    const char *path = PyBytes_AsString(PyTuple_GetItem(arguments, 0));
    (void)self;
    return path == NULL ? NULL : PyLong_FromLongLong(bind_calls(path, find_native_functions));
}

static PyObject *make_builtins(void) {
    static PyMethodDef methods[] = {
        {"address_of", address_of, TAKES_TUPLE, NULL}, {"give_out", give_out, TAKES_TUPLE, NULL},
        {"lend_out", lend_out, TAKES_TUPLE, NULL},     {"item_at", item_at, TAKES_TUPLE, NULL},
        {"take_back", take_back, TAKES_TUPLE, NULL},   {"count_of", count_of, TAKES_TUPLE, NULL},
        {"set_platform", set_platform, TAKES_TUPLE, NULL}, {"bind_calls", bind_calls_of, TAKES_TUPLE, NULL},
        {"keep_ready", keep_ready, TAKES_TUPLE, NULL}, {"begin_era", begin_era, TAKES_TUPLE, NULL},
        {"set_callbacks", set_callbacks, TAKES_TUPLE, NULL},
    };
    int count = sizeof methods / sizeof *methods;
    PyObject *all = PyTuple_New(count);
    for (int i = 0; i < count; i++)
        PyTuple_SetItem(all, i, PyCFunction_NewEx(&methods[i], NULL, NULL));
    if (name_of_handle == NULL)
        name_of_handle = PyUnicode_InternFromString("_handle");
    return all;
}

/* ---- calls --------------------------------------------------------------------------------------------------------- */

/* What stands for it in Python, which is told of it only. */
static PyObject *told(const void *handle) {
    PyObject *item = handle == NULL ? none : ((const struct object *)handle)->item;
    if (item == NULL)
        item = none; /* the platform, before a session has opened */
    Py_IncRef(item);
    return item;
}

static PyObject *given(const void *handle) {
    if (handle != NULL)
        touch(handle);
    return told(handle);
}

/* One more reference to it. */
static PyObject *again(PyObject *item) {
    Py_IncRef(item);
    return item;
}

/* 0 where number and address of a wait list do not fit, or an element is no event */
static int are_events(uint32_t count, const void *list) {
    void *const *events = list;
    if ((count == 0) != (events == NULL))
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (!is(events[i], KIND_EVENT))
            return 0;
    return 1;
}

/* A tuple; NULL where there was no memory for one of its elements. */
static PyObject *filled(PyObject *tuple) {
    for (ptrdiff_t i = 0; tuple != NULL && i < PyTuple_Size(tuple); i++)
        if (PyTuple_GetItem(tuple, i) == NULL) {
            Py_DecRef(tuple);
            return NULL;
        }
    return tuple;
}

static PyObject *waits(uint32_t count, const void *list) {
    void *const *events = list;
    if (count == 0)
        return again(none);
    PyObject *all = PyTuple_New(count);
    for (uint32_t i = 0; all != NULL && i < count; i++)
        PyTuple_SetItem(all, i, given(events[i]));
    return all;
}

static int32_t failed(void) {
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    PyObject *arguments[2] = {error == NULL ? none : error, trace == NULL ? none : trace};
    PyObject *result = PyObject_Vectorcall(failure, arguments, 2, NULL);
    long code = OUT_OF_RESOURCES;
    if (result == NULL)
        PyErr_Print();
    else
        code = PyLong_AsLong(result);
    PyObject *all[] = {kind, error, trace, result};
    for (int i = 0; i < 4; i++)
        if (all[i] != NULL)
            Py_DecRef(all[i]);
    return (int32_t)code;
}

/* Call a function of Python's side; the arguments' references are given up. NULL: `code` says what went wrong. */
static PyObject *call(PyObject *function, PyObject **arguments, size_t count, int32_t *code) {
    PyObject *result = NULL;
    int complete = 1;
    for (size_t i = 0; i < count; i++)
        complete &= arguments[i] != NULL;
    if (complete)
        result = PyObject_Vectorcall(function, arguments, count, NULL);
    else
        PyErr_Clear();
    *code = result == NULL ? complete ? failed() : OUT_OF_HOST_MEMORY : SUCCESS;
    for (size_t i = 0; i < count; i++)
        if (arguments[i] != NULL)
            Py_DecRef(arguments[i]);
    return result;
}

static int32_t as_status(PyObject *result, int32_t code) {
    if (result == NULL)
        return code;
    long number = result == none ? SUCCESS : PyLong_AsLong(result);
    Py_DecRef(result);
    return (int32_t)number;
}

#include "ready.c"

/* A handle for what Python's side has made; NULL, and `code`, where it has not. */
static void *as_object(PyObject *result, uint32_t kind, int32_t *code) {
    if (result == NULL)
        return NULL;
    struct object *object = handle_of(result, kind);
    if (object == NULL) {
        PyErr_Print();
        *code = OUT_OF_HOST_MEMORY;
    } else {
        hold(object, 1);
    }
    Py_DecRef(result);
    return object;
}

/* (program, status code) */
static void *as_outcome(PyObject *result, int32_t *code) {
    if (result == NULL)
        return NULL;
    PyObject *program = PyTuple_GetItem(result, 0);
    *code = (int32_t)PyLong_AsLong(PyTuple_GetItem(result, 1));
    Py_IncRef(program);
    Py_DecRef(result);
    return as_object(program, KIND_PROGRAM, code);
}

/* What becomes the event of a command, had before the command is enqueued: nobody takes one back for want of memory. 0 where it is not to
 * be had; `made` is NULL where the program wants no event. */
static int reserve(const void *event, struct object **made) {
    *made = event == NULL ? NULL : calloc(1, sizeof **made);
    return event == NULL || *made != NULL;
}

/* The program's event of a command, which is `made` unless Python's has a handle. It is the program's as well where Python's cannot be
 * given it: then it stays for ever. */
static struct object *event_of(PyObject *item, struct object *made) {
    struct object *object = object_of(item);
    if (object == NULL) {
        object = made;
        made = NULL;
        begin_handle(object, KIND_EVENT);
        object->references = 1; /* it must not go with what could not be given to Python's */
        if (!register_handle(object, item))
            object->item = item;
        object->references = 0;
        PyErr_Clear();
    }
    free(made);
    hold(object, 1);
    return object;
}

static int32_t as_command(PyObject *result, int32_t code, void *event, struct object *made) {
    has_enqueued |= result != NULL;
    if (result == NULL || result == none)
        free(made);
    else if (event != NULL)
        *(void **)event = event_of(result, made);
    if (result == NULL)
        return code;
    Py_DecRef(result);
    return SUCCESS;
}

static void *as_address(PyObject *result) {
    if (result == NULL)
        return NULL;
    void *address = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(result);
    Py_DecRef(result);
    return address;
}

static void *as_map(PyObject *result, int32_t *code, void *event, struct object *reserved) {
    if (result == NULL) {
        free(reserved);
        return NULL;
    }
    PyObject *address = PyTuple_GetItem(result, 0), *made = PyTuple_GetItem(result, 1);
    Py_IncRef(address);
    Py_IncRef(made);
    Py_DecRef(result);
    *code = as_command(made, *code, event, reserved);
    return as_address(address);
}

static int32_t answer_with(const void *bytes, size_t nbytes, size_t size, void *value, size_t *size_ret) {
    if (value != NULL) {
        if (size < nbytes)
            return INVALID_VALUE;
        memcpy(value, bytes, nbytes);
    }
    if (size_ret != NULL)
        *size_ret = nbytes;
    return SUCCESS;
}

static int32_t as_info(PyObject *result, int32_t code, size_t size, void *value, size_t *size_ret) {
    if (result == NULL)
        return code;
    code = answer_with(PyBytes_AsString(result), (size_t)PyBytes_Size(result), size, value, size_ret);
    Py_DecRef(result);
    return code;
}

static const struct answer *find_answer(struct object *object, uint64_t query) {
    const struct answer *answer = object->answers;
    while (answer != NULL && answer->query != query)
        answer = answer->next;
    return answer;
}

static void keep_answer(struct object *object, uint64_t query, PyObject *result) {
    if (find_answer(object, query) != NULL)
        return;
    size_t nbytes = (size_t)PyBytes_Size(result);
    struct answer *answer = malloc(sizeof *answer + nbytes);
    if (answer == NULL)
        return;
    answer->query = query;
    answer->nbytes = nbytes;
    memcpy(answer->bytes, PyBytes_AsString(result), nbytes);
    answer->next = object->answers;
    object->answers = answer;
}

static int32_t count_references(const struct object *object, size_t size, void *value, size_t *size_ret) {
    uint32_t references = object->references > 0 ? (uint32_t)object->references : 1;
    return answer_with(&references, sizeof references, size, value, size_ret);
}

#include "commands.c"

/* ---- written by hand ----------------------------------------------------------------------------------------------- */

/* What every session's device has; the whole list is the device's, once there is one. A loader asks while it looks for drivers,
 * when Python must not be started: what that changes in the environment the loader would see. */
#define EXTENSIONS(X)                                                                                                      \
    X("cl_khr_icd")                                                                                                        \
    X("cl_khr_global_int32_base_atomics")                                                                                  \
    X("cl_khr_global_int32_extended_atomics")                                                                              \
    X("cl_khr_local_int32_base_atomics")                                                                                   \
    X("cl_khr_local_int32_extended_atomics")                                                                               \
    X("cl_khr_byte_addressable_store")
#define IN_TEXT(name) name " "
#define WITH_VERSION(name) {1u << 22, name},
static const struct {
    uint32_t version;
    char name[64];
} extensions_with_version[] = {EXTENSIONS(WITH_VERSION)};
static const char extensions[] = EXTENSIONS(IN_TEXT);
static const char PROFILE[] = "FULL_PROFILE", VERSION[] = "OpenCL 3.0 vdev " VDEV_VERSION, NAME[] = "vdev", SUFFIX[] = "VDEV";

static int32_t c_clGetPlatformIDs(uint32_t count, void *platforms, void *found) {
    if ((count == 0) != (platforms == NULL) || (platforms == NULL && found == NULL))
        return INVALID_VALUE;
    if (is_starting)
        return -1001; /* CL_PLATFORM_NOT_FOUND_KHR: vdev does not find itself among native drivers */
    if (platforms != NULL)
        *(void **)platforms = &the_platform;
    if (found != NULL)
        *(uint32_t *)found = 1;
    return SUCCESS;
}

/* What loaders ask before any program's call is answered without Python; 1 where that is so. */
static int answer_platform(uint32_t name, size_t size, void *value, void *size_ret, int32_t *code) {
    static const struct {
        uint32_t name;
        const char *text;
    } texts[] = {{0x0900, PROFILE}, {0x0901, VERSION}, {0x0902, NAME}, {0x0903, NAME}, {0x0920, SUFFIX}};
    static const uint32_t version = 3u << 22;
    static const uint64_t resolution = 1;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].name == name)
            return *code = answer_with(texts[i].text, strlen(texts[i].text) + 1, size, value, size_ret), 1;
    if (name == 0x0905)
        return *code = answer_with(&resolution, sizeof resolution, size, value, size_ret), 1;
    if (name == 0x0906)
        return *code = answer_with(&version, sizeof version, size, value, size_ret), 1;
    if (name == 0x0904 && !ready)
        return *code = answer_with(extensions, sizeof extensions, size, value, size_ret), 1;
    if (name == 0x0907 && !ready)
        return *code = answer_with(extensions_with_version, sizeof extensions_with_version, size, value, size_ret), 1;
    return *code = INVALID_VALUE, name < 0x0900 || name > 0x0907 || !ready;
}

static int32_t c_clGetPlatformInfo(void *platform, uint32_t name, size_t size, void *value, void *size_ret) {
    int32_t code;
    int state;
    if (platform != NULL && !is(platform, KIND_PLATFORM))
        return INVALID_PLATFORM;
    if (answer_platform(name, size, value, size_ret, &code))
        return code;
    const struct answer *known = find_answer(&the_platform, QUERY(clGetPlatformInfo, name));
    if (known != NULL)
        return answer_with(known->bytes, known->nbytes, size, value, size_ret);
    if (!enter(&state))
        return refuse_entry();
    PyObject *arguments[2] = {given(&the_platform), PyLong_FromUnsignedLongLong(name)};
    PyObject *result = call(functions[INDEX_clGetPlatformInfo], arguments, 2, &code);
    if (result != NULL)
        keep_answer(&the_platform, QUERY(clGetPlatformInfo, name), result);
    code = as_info(result, code, size, value, size_ret);
    leave(state);
    return code;
}

static int32_t c_clUnloadCompiler(void) { return SUCCESS; }

static int32_t c_clUnloadPlatformCompiler(void *platform) {
    return is(platform, KIND_PLATFORM) ? SUCCESS : INVALID_PLATFORM;
}

static int32_t c_clRetainDeviceEXT(void *device) { return is(device, KIND_DEVICE) ? SUCCESS : -33; }
static int32_t c_clReleaseDeviceEXT(void *device) { return is(device, KIND_DEVICE) ? SUCCESS : -33; }

/* What the kernel's handle remembers; NULL with `code` where there is no memory. */
static struct kernel *kernel_of(struct object *object, int32_t *code) {
    if (object->kernel != NULL)
        return object->kernel;
    PyObject *kinds = PyObject_Vectorcall(kernel_kinds, &object->item, 1, NULL);
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (kinds == NULL || kernel == NULL) {
        *code = kinds == NULL ? failed() : OUT_OF_HOST_MEMORY;
        Py_DecRef(kinds);
        free(kernel);
        return NULL;
    }
    kernel->count = (unsigned)PyBytes_Size(kinds);
    kernel->kinds = strdup(PyBytes_AsString(kinds));
    kernel->values = calloc(kernel->count + 1, sizeof *kernel->values);
    kernel->natively = calloc(kernel->count + 1, sizeof *kernel->natively);
    kernel->memory = calloc(kernel->count + 1, sizeof *kernel->memory);
    kernel->object = object;
    kernel->after = AFTER;
    Py_DecRef(kinds);
    if (kernel->kinds == NULL || kernel->values == NULL || kernel->natively == NULL || kernel->memory == NULL) {
        *code = OUT_OF_HOST_MEMORY;
        free_kernel(kernel);
        return NULL;
    }
    if (object->kernel != NULL) { /* another thread has made it meanwhile */
        free_kernel(kernel);
        return object->kernel;
    }
    return object->kernel = kernel;
}

/* The serial number of the object whose handle an argument is; 0 for all else. */
static uint64_t serial_of(char kind, size_t size, const void *value) {
    if (strchr("gis", kind) == NULL || size != sizeof(void *))
        return 0;
    const struct object *object;
    memcpy(&object, value, sizeof object);
    return object != NULL && object->magic == MAGIC ? object->serial : 0;
}

/* Whether the argument has this value already: then setting it changes nothing. */
static int is_set(const struct kernel *kernel, uint32_t index, size_t size, const void *value) {
    if (kernel == NULL || index >= kernel->count || (value == NULL) != is_local(kernel, index))
        return 0;
    const struct value *last = &kernel->values[index];
    if (last->is_unset)
        return 0;
    if (!last->known || last->nbytes != size || value == NULL)
        return last->known && last->nbytes == size;
    return memcmp(last->bytes, value, size) == 0 && last->serial == serial_of(kernel->kinds[index], size, value);
}

static void note_value(struct kernel *kernel, uint32_t index, size_t size, const void *value) {
    struct value *last = &kernel->values[index];
    last->known = last->is_unset = 0;
    last->serial = 0;
    if (!is_own) /* a program in Python sets arguments as well, of which nobody hears here */
        return;
    int has_bytes = value != NULL && size <= sizeof last->bytes && strchr("gv", kernel->kinds[index]) != NULL;
    if (!has_bytes && !is_local(kernel, index))
        return;
    if (has_bytes)
        memcpy(last->bytes, value, size);
    last->nbytes = size;
    last->serial = serial_of(kernel->kinds[index], size, value);
    last->known = 1;
}

static int32_t c_clSetKernelArg(void *handle, uint32_t index, size_t size, const void *value) {
    struct object *object = handle;
    int32_t code;
    int state;
    if (!is(object, KIND_KERNEL))
        return -48;
    if (is_set(object->kernel, index, size, value) || set_without_python(object, index, size, value))
        return SUCCESS;
    if (!enter(&state))
        return refuse_entry();
    struct kernel *kernel = kernel_of(object, &code);
    if (kernel != NULL && index >= kernel->count) {
        code = INVALID_ARG_INDEX;
    } else if (kernel != NULL) {
        PyObject *bytes = none;
        int is_large = size > ((size_t)1 << 20); /* of a value: it is refused, but must not be read */
        if (value != NULL && kernel->kinds[index] != 'l' && !is_large)
            bytes = PyBytes_FromStringAndSize(value, (ptrdiff_t)size);
        else
            Py_IncRef(none);
        PyObject *arguments[5] = {given(object), PyLong_FromUnsignedLongLong(index), PyLong_FromUnsignedLongLong(size),
                                  bytes, PyLong_FromUnsignedLongLong(value != NULL)};
        int was_known = kernel->values[index].known;
        kernel->values[index].known = 0;
        kernel->being_set++;
        PyObject *result = call(set_argument, arguments, 5, &code);
        code = as_status(result, code);
        if (code == SUCCESS)
            note_value(kernel, index, size, value);
        else if (kernel->being_set == 1)
            kernel->values[index].known |= was_known; /* it is what it was */
        kernel->being_set--;
        kernel->sets++;
        kernel->changes += !kernel->values[index].known || is_local(kernel, index);
    }
    kept = 1; /* each launch's own values are looked at */
    leave(state);
    return code;
}

/* A kernel was made with the arguments of another one, some of which may be gone by the time that it is launched. */
static void note_clone(struct object *object, const struct object *other) {
    int32_t code;
    if (object == NULL || other->kernel == NULL || kernel_of(object, &code) == NULL)
        return;
    for (unsigned i = 0; i < object->kernel->count && i < other->kernel->count; i++)
        object->kernel->values[i] = other->kernel->values[i];
}

/* An argument was set in another way: as an SVM pointer, or by Python. */
static void forget_values(struct object *object) {
    if (object->kernel == NULL)
        return;
    object->kernel->changes++;
    object->kernel->sets++;
    for (unsigned i = 0; i < object->kernel->count; i++)
        object->kernel->values[i].known = 0, object->kernel->values[i].serial = 0;
}

/* An argument is an SVM pointer, if that was not refused. */
static void note_pointer(int32_t code, struct object *object, uint32_t index) {
    if (code == SUCCESS && object->kernel != NULL && index < object->kernel->count)
        object->kernel->values[index].is_unset = 0;
}

static PyObject *as_tuple(const size_t *sizes, unsigned dims) {
    PyObject *all = PyTuple_New(dims);
    for (unsigned i = 0; all != NULL && i < dims; i++)
        PyTuple_SetItem(all, i, PyLong_FromUnsignedLongLong(sizes[i]));
    return filled(all);
}

/* The index space as Python has it, the same objects as for the last launch where it is the same. */
static void note_space(struct kernel *kernel, unsigned dims, const size_t *offset, const size_t *global, const size_t *local) {
    size_t sizes[9];
    int has_offset, has_local = local != NULL;
    read_space(sizes, &has_offset, dims, offset, global, local);
    if (kernel->space[1] != NULL && kernel->dims == dims && kernel->has_offset == has_offset &&
        kernel->has_local == has_local && memcmp(kernel->sizes, sizes, sizeof sizes) == 0)
        return;
    kernel->dims = dims;
    kernel->has_offset = has_offset;
    kernel->has_local = has_local;
    memcpy(kernel->sizes, sizes, sizeof sizes);
    int has[3] = {has_offset, 1, has_local};
    for (int i = 0; i < 3; i++) {
        PyObject *before = kernel->space[i];
        kernel->space[i] = has[i] ? as_tuple(sizes + 3 * i, dims) : none;
        if (!has[i])
            Py_IncRef(none);
        if (kernel->space[i] == NULL)
            kernel->dims = 0; /* there was no memory: it is made anew */
        Py_DecRef(before);
    }
}

static int32_t c_clEnqueueNDRangeKernel(void *queue, void *handle, uint32_t dims, const void *offset, const void *global,
                                        const void *local, uint32_t count, const void *list, void *event) {
    struct object *object = handle;
    int32_t code;
    int state;
    if (!is(queue, KIND_QUEUE))
        return -36;
    if (!is(object, KIND_KERNEL))
        return -48;
    if (dims < 1 || dims > 3)
        return -53; /* CL_INVALID_WORK_DIMENSION */
    if (!are_events(count, list))
        return INVALID_EVENT_WAIT_LIST;
    if (launch_without_python(queue, object, dims, offset, global, local, count, list, event))
        return SUCCESS;
    if (!enter(&state))
        return refuse_entry();
    struct object *made;
    struct kernel *kernel = kernel_of(object, &code);
    if (kernel != NULL && has_gone(object)) {
        code = INVALID_KERNEL_ARGS;
        kept = 1;
    } else if (kernel != NULL && !reserve(event, &made)) {
        code = OUT_OF_HOST_MEMORY;
        kept = 1;
    } else if (kernel != NULL) {
        note_space(kernel, dims, offset, global, local);
        PyObject *arguments[7] = {given(queue),
                                  given(object),
                                  again(kernel->space[1]), /* another thread may launch it over something else meanwhile */
                                  again(kernel->space[2]),
                                  again(kernel->space[0]),
                                  waits(count, list),
                                  PyLong_FromLongLong(event != NULL)};
        PyObject *result = call(launch, arguments, 7, &code);
        code = as_command(result, code, event, made);
        if (code == SUCCESS && kept)
            launched(queue, object, dims, offset, global, local);
    }
    leave(state);
    return code;
}

static void *c_clGetExtensionFunctionAddress(const void *name);

static void *c_clGetExtensionFunctionAddressForPlatform(void *platform, const void *name) {
    return is(platform, KIND_PLATFORM) ? c_clGetExtensionFunctionAddress(name) : NULL;
}

#include "stubs.inc"

static void *c_clGetExtensionFunctionAddress(const void *name) {
    static const struct {
        const char *name;
        void *function;
    } functions_by_name[] = {
        {"clIcdGetPlatformIDsKHR", (void *)c_clGetPlatformIDs},
        {"clGetPlatformInfo", (void *)c_clGetPlatformInfo},
        {"clCreateProgramWithILKHR", (void *)c_clCreateProgramWithIL},
        EXTENSION_FUNCTIONS
    };
    for (size_t i = 0; name != NULL && i < sizeof functions_by_name / sizeof *functions_by_name; i++)
        if (strcmp(name, functions_by_name[i].name) == 0)
            return functions_by_name[i].function;
    return NULL;
}

EXPORT void *clGetExtensionFunctionAddress(const char *name) { return c_clGetExtensionFunctionAddress(name); }

EXPORT int32_t clIcdGetPlatformIDsKHR(uint32_t count, void *platforms, uint32_t *found) {
    return c_clGetPlatformIDs(count, platforms, found);
}

EXPORT int32_t clGetPlatformInfo(void *platform, uint32_t name, size_t size, void *value, size_t *size_ret) {
    return c_clGetPlatformInfo(platform, name, size, value, size_ret);
}

/* Tells whether a compiled library is of the sources beside it (vdev.icd.library). */
EXPORT const char vdev_sources[] = VDEV_SOURCES;

/* For vdev.icd in a process of Python's own: make handles for the objects that it has. */
EXPORT int vdev_join(void) { return ready || start_python(); }

__attribute__((constructor)) static void load(void) {
    Dl_info about;
    char path[sizeof library_path];
    pthread_atfork(NULL, NULL, lose);
    if (dladdr((void *)load, &about) && about.dli_fname != NULL && realpath(about.dli_fname, path) != NULL)
        snprintf(library_path, sizeof library_path, "%s", path);
}
