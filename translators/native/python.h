/* What libraries of functions and methods (`native_code.py`) have in common: Python's functions and objects, and how objects lie in memory.
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
EXPORTED const char vdev_sources[] = VDEV_SOURCES;

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

/* What a library needs besides. */
#ifndef MORE_PYTHON
#define MORE_PYTHON(X)
#endif

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

#define UNUSED __attribute__((unused))
#define DECLARE(result, name, arguments) UNUSED static result(*name) arguments;
PYTHON(DECLARE)
MORE_PYTHON(DECLARE)
#undef DECLARE
UNUSED static PyObject *tuple_type, *int_type, *float_type, *list_type, *none, *no;

/* In all functions: -1 or NULL where something is not as it mostly is. */
enum { LEAF, ROW, ODD = -1 };

/* How a tuple lies in memory: words from its beginning to its type, its size, and its items. Looked for in tuples (`find_layout`), as
 * asking Python takes a third of the time here; 0 where it was not found, and Python is asked. */
static struct {
    length type, size, items;
} layout;

#define WORD(object, at) (((PyObject **)(object))[at])

UNUSED static PyObject *type_of(PyObject *object) {
    if (object == NULL) return NULL; /* a slot that has nothing */
    if (layout.type) return WORD(object, layout.type);
    PyObject *type = PyObject_Type(object);
    if (type != NULL) Py_DecRef(type); /* it lives as long as the object does */
    return type;
}

UNUSED static int kind_of(PyObject *inner) {
    if (inner == none) return LEAF;
    PyObject *type = type_of(inner);
    return type == tuple_type ? ROW : type == int_type ? LEAF : ODD;
}

/* Of a tuple. */
UNUSED static length size(PyObject *tuple) {
    return layout.size ? (length)WORD(tuple, layout.size) : PyTuple_Size(tuple);
}

/* An item that it has. */
UNUSED static PyObject *item(PyObject *tuple, length at) {
    return layout.items ? WORD(tuple, layout.items + at) : PyTuple_GetItem(tuple, at);
}

UNUSED static int read_number(PyObject *object, number *value) {
    if (type_of(object) != int_type) return ODD;
    int overflow = 0;
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow ? ODD : 0;
}

/* Find how tuples lie in memory, in one of eight different items and in one of three; 0 where there is no memory. The type of an int
 * has to be at the same place. Elsewhere (without the interpreter's lock, say) objects begin in another way. */
static int32_t find_layout(void) {
    enum { MANY = 8, SOME = 3, MOST_WORDS = 6 };
    PyObject *many = PyTuple_New(MANY), *some = PyTuple_New(SOME), *last = NULL;
    for (length at = 0; many != NULL && at < MANY; at++) {
        last = PyLong_FromLongLong(at);
        if (last == NULL || PyTuple_SetItem(many, at, last)) break;
    }
    for (length at = 0; some != NULL && at < SOME; at++) {
        Py_IncRef(none);
        PyTuple_SetItem(some, at, none);
    }
    int32_t complete = many != NULL && some != NULL && PyTuple_GetItem(many, MANY - 1) != NULL;
    /* Objects on 64 bits: a count of references, the type; then, for a tuple, its size. */
    if (complete && sizeof(void *) == 8 && WORD(many, 1) == tuple_type && WORD(last, 1) == int_type) {
        length items = 3;
        while (items < MOST_WORDS && !(WORD(many, items) == PyTuple_GetItem(many, 0) && WORD(some, items) == none)) items++;
        int sized = (length)WORD(many, 2) == MANY && (length)WORD(some, 2) == SOME;
        for (length at = 0; at < MANY && items < MOST_WORDS; at++)
            if (items + at < 3 + MANY && WORD(many, items + at) != PyTuple_GetItem(many, at)) items = MOST_WORDS;
        if (sized && items < MOST_WORDS) {
            layout.type = 1;
            layout.size = 2;
            layout.items = items;
        }
    }
    if (many != NULL) Py_DecRef(many);
    if (some != NULL) Py_DecRef(some);
    return complete;
}

/* Whether Python's functions and objects are found. */
static int32_t find_python(void) {
    int32_t all = 1;
#define FIND(result, name, arguments) all &= (*(void **)&name = dlsym(RTLD_DEFAULT, #name)) != NULL;
    PYTHON(FIND)
    MORE_PYTHON(FIND)
#undef FIND
    tuple_type = dlsym(RTLD_DEFAULT, "PyTuple_Type");
    list_type = dlsym(RTLD_DEFAULT, "PyList_Type");
    int_type = dlsym(RTLD_DEFAULT, "PyLong_Type");
    float_type = dlsym(RTLD_DEFAULT, "PyFloat_Type");
    none = dlsym(RTLD_DEFAULT, "_Py_NoneStruct");
    no = dlsym(RTLD_DEFAULT, "_Py_FalseStruct");
    return all && tuple_type != NULL && list_type != NULL && int_type != NULL && float_type != NULL && none != NULL && no != NULL && find_layout();
}
