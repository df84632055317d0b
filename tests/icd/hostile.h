/* What happens seldom, for a library that is compiled with this before it (`test_hostile.py`, `sanitized.py`).
 *
 * FAILING=K: once the library has begun, every K-th piece of memory that it asks for, its own or an object of Python's, is not to be had.
 * UNTOLD=K: only for arguments of kernels that Python is told of later; UNHELD=K: for what holds the program's events then.
 * DISTURBED: whenever Python has said what may be kept or made without it, another thread's call has changed something meanwhile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct python_object PyObject;
static PyObject *end_function, *place_of, *may_be_kept;
static uint64_t calls;
static int is_telling;

static int fails_by(const char *variable) {
    static _Atomic unsigned long asked;
    const char *every = getenv(variable);
    return every != NULL && end_function != NULL && ++asked % strtoul(every, NULL, 10) == 0;
}
static int fails(void) { return fails_by("FAILING"); }

static PyObject *disturbed(PyObject *function, PyObject *result) {
    calls += getenv("DISTURBED") != NULL && (function == place_of || function == may_be_kept);
    return result;
}

#define malloc(nbytes) (fails() ? NULL : malloc(nbytes))
#define calloc(count, nbytes) (fails() ? NULL : calloc(count, nbytes))
#define strdup(text) (fails() ? NULL : strdup(text))
#define NONE_IN_PYTHON PyErr_SetString(*(PyObject **)dlsym(RTLD_DEFAULT, "PyExc_MemoryError"), "none")
#define UNLESS(fails, made) ((fails) ? NONE_IN_PYTHON, (PyObject *)NULL : made)
#define IN_PYTHON(made) UNLESS(fails(), made)
#define PyTuple_New(count) IN_PYTHON(PyTuple_New(count))
#define PyLong_FromUnsignedLongLong(number) IN_PYTHON(PyLong_FromUnsignedLongLong(number))
#define PyLong_FromLongLong(number) IN_PYTHON(PyLong_FromLongLong(number))
#define PyBytes_FromStringAndSize(bytes, nbytes) \
    UNLESS(fails() || (is_telling && fails_by("UNTOLD")), PyBytes_FromStringAndSize(bytes, nbytes))
#define PyCapsule_New(pointer, name, end) IN_PYTHON(PyCapsule_New(pointer, name, end))
#define PyObject_SetAttr(item, name, value) \
    (fails() || (is_telling && fails_by("UNHELD")) ? NONE_IN_PYTHON, -1 : PyObject_SetAttr(item, name, value))
#define PyObject_Vectorcall(function, ...) disturbed(function, PyObject_Vectorcall(function, __VA_ARGS__))
