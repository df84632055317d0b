/* What the files of this library have in common: Python's functions and objects, and how objects lie in memory.
 *
 * Python is used through functions of its stable interface that are looked up when they are needed, so that this library is compiled
 * without Python's headers, once for all of its versions.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* What the library was made from, so that another version is not taken for it. */
EXPORTED const char vdev_ranges_sources[] = VDEV_SOURCES;

typedef struct python_object PyObject;
typedef ptrdiff_t length;
typedef long long number;
typedef PyObject *(*Fast)(PyObject *, PyObject *const *, length);
typedef struct {
    const char *name;
    Fast function;
    int flags;
    const char *doc;
} PyMethodDef;
enum { TAKES_NOTHING = 0x4, TAKES_ONE = 0x8, TAKES_ARRAY = 0x80, LESS_THAN = 0, EQUAL = 2 };

#define PYTHON(X)                                                                                                          \
    X(PyObject *, PyTuple_New, (length))                                                                                   \
    X(length, PyTuple_Size, (PyObject *))                                                                                  \
    X(PyObject *, PyTuple_GetItem, (PyObject *, length))                                                                   \
    X(int, PyTuple_SetItem, (PyObject *, length, PyObject *))                                                              \
    X(PyObject *, PyObject_Type, (PyObject *))                                                                             \
    X(PyObject *, PyObject_CallObject, (PyObject *, PyObject *))                                                           \
    X(PyObject *, PyObject_GetAttrString, (PyObject *, const char *))                                                      \
    X(int, PyObject_RichCompareBool, (PyObject *, PyObject *, int))                                                        \
    X(PyObject *, PyNumber_Or, (PyObject *, PyObject *))                                                                   \
    X(number, PyLong_AsLongLongAndOverflow, (PyObject *, int *))                                                           \
    X(PyObject *, PyLong_FromLongLong, (number))                                                                           \
    X(double, PyFloat_AsDouble, (PyObject *))                                                                              \
    X(PyObject *, PyBool_FromLong, (long))                                                                                 \
    X(int, PyList_Append, (PyObject *, PyObject *))                                                                        \
    X(length, PyList_Size, (PyObject *))                                                                                   \
    X(PyObject *, PyList_New, (length))                                                                                    \
    X(PyObject *, PyList_GetItem, (PyObject *, length))                                                                    \
    X(int, PyList_SetItem, (PyObject *, length, PyObject *))                                                               \
    X(PyObject *, PyList_GetSlice, (PyObject *, length, length))                                                           \
    X(int, PyList_SetSlice, (PyObject *, length, length, PyObject *))                                                      \
    X(PyObject *, PyDict_New, (void))                                                                                         \
    X(PyObject *, PyDict_Copy, (PyObject *))                                                                               \
    X(length, PyDict_Size, (PyObject *))                                                                                   \
    X(int, PyDict_Next, (PyObject *, length *, PyObject **, PyObject **))                                                  \
    X(PyObject *, PyDict_GetItem, (PyObject *, PyObject *))                                                                \
    X(int, PyDict_DelItem, (PyObject *, PyObject *))                                                                       \
    X(PyObject *, PySet_New, (PyObject *))                                                                                 \
    X(PyObject *, PyFrozenSet_New, (PyObject *))                                                                           \
    X(PyObject *, PyObject_GetIter, (PyObject *))                                                                          \
    X(PyObject *, PyIter_Next, (PyObject *))                                                                               \
    X(int, PySet_Add, (PyObject *, PyObject *))                                                                            \
    X(int, PySet_Contains, (PyObject *, PyObject *))                                                                       \
    X(int, PySet_Discard, (PyObject *, PyObject *))                                                                        \
    X(PyObject *, PyLong_FromVoidPtr, (void *))                                                                            \
    X(PyObject *, PyUnicode_InternFromString, (const char *))                                                              \
    X(PyObject *, PyNumber_Multiply, (PyObject *, PyObject *))                                                             \
    X(PyObject *, PyNumber_Subtract, (PyObject *, PyObject *))                                                             \
    X(PyObject *, PyNumber_Lshift, (PyObject *, PyObject *))                                                               \
    X(PyObject *, PyType_GenericAlloc, (PyObject *, length))                                                               \
    X(PyObject *, PyDescr_NewMethod, (PyObject *, PyMethodDef *))                                                          \
    X(int, PyDict_SetItem, (PyObject *, PyObject *, PyObject *))                                                           \
    X(PyObject *, PyCFunction_NewEx, (PyMethodDef *, PyObject *, PyObject *))                                              \
    X(PyObject *, PyErr_Occurred, (void))                                                                                  \
    X(void, PyErr_Clear, (void))                                                                                           \
    X(void, Py_IncRef, (PyObject *))                                                                                       \
    X(void, Py_DecRef, (PyObject *))

#define DECLARE(result, name, arguments) static result(*name) arguments;
PYTHON(DECLARE)
#undef DECLARE
static PyObject *tuple_type, *int_type, *float_type, *none, *no;

/* In all functions: -1 or NULL where something is not as it mostly is. */
enum { LEAF, ROW, ODD = -1 };

/* How a tuple lies in memory: words from its beginning to its type, its size, and its items. Looked for in tuples (`find_layout`), as
 * asking Python takes a third of the time here; 0 where it was not found, and Python is asked. */
static struct {
    length type, size, items;
} layout;

#define WORD(object, at) (((PyObject **)(object))[at])

static PyObject *type_of(PyObject *object) {
    if (layout.type) return WORD(object, layout.type);
    PyObject *type = PyObject_Type(object);
    if (type != NULL) Py_DecRef(type); /* it lives as long as the object does */
    return type;
}

static int kind_of(PyObject *inner) {
    if (inner == none) return LEAF;
    PyObject *type = type_of(inner);
    return type == tuple_type ? ROW : type == int_type ? LEAF : ODD;
}

/* Of a tuple. */
static length size(PyObject *tuple) {
    return layout.size ? (length)WORD(tuple, layout.size) : PyTuple_Size(tuple);
}

/* An item that it has. */
static PyObject *item(PyObject *tuple, length at) {
    return layout.items ? WORD(tuple, layout.items + at) : PyTuple_GetItem(tuple, at);
}

static int read_number(PyObject *object, number *value) {
    if (type_of(object) != int_type) return ODD;
    int overflow = 0;
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow ? ODD : 0;
}
