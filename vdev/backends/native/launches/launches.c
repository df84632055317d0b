/* libvdev_launches.so, with the other files in it: what each launch passes through, as the methods in Python of the same names, on the same
 * objects and with the same results.
 *
 * The methods in Python are the definition. These here stand in their places, and leave to them whatever is not as it mostly is. Until then
 * they have done nothing that those would not do again with the same result.
 */
#define MORE_PYTHON(X)                                                                                                     \
    X(PyObject *, PyObject_GetAttr, (PyObject *, PyObject *))                                                              \
    X(int, PyObject_SetAttr, (PyObject *, PyObject *, PyObject *))                                                         \
    X(PyObject *, PyObject_CallFunctionObjArgs, (PyObject *, ...))                                                         \
    X(PyObject *, PyObject_CallMethodObjArgs, (PyObject *, PyObject *, ...))                                               \
    X(int, PyObject_IsTrue, (PyObject *))                                                                                  \
    X(PyObject *, PySequence_List, (PyObject *))                                                                           \
    X(PyObject *, PyList_AsTuple, (PyObject *))
#include "python.h"
#include "slots.h"

/* ---- names of attributes and methods -------------------------------------------------------------------------------- */

#define NAMES(X)                                                                                                           \
    X(_changed) X(_looked_at) X(_over) X(_shifted) X(_tell) X(_vdev_state) X(are_kept) X(base_data) X(dtype)               \
    X(hand_over_formed) X(issued) X(launches) X(next_mark) X(number) X(offset) X(outcome) X(prepared) X(queue)             \
    X(recorder) X(shape) X(streak_length) X(strides) X(takes_values) X(tobytes) X(until_looked_at)

enum {
#define NAME(name) NAMED_##name,
    NAMES(NAME)
#undef NAME
    COUNT_NAMES
};
static PyObject *names[COUNT_NAMES];

static int find_names(void) {
    static const char *const texts[] = {
#define NAME(name) #name,
        NAMES(NAME)
#undef NAME
    };
    for (int at = 0; at < COUNT_NAMES; at++)
        if ((names[at] = PyUnicode_InternFromString(texts[at])) == NULL) return 0;
    return 1;
}

/* ---- small things --------------------------------------------------------------------------------------------------- */

/* A reference of the caller's; NULL with an error. */
#define ATTRIBUTE(object, name) PyObject_GetAttr(object, names[NAMED_##name])
#define CALL(object, name, ...) PyObject_CallMethodObjArgs(object, names[NAMED_##name], __VA_ARGS__, NULL)

static void drop(PyObject *object) {
    if (object != NULL) Py_DecRef(object);
}

/* What is to be left to Python: nothing has happened yet. */
static PyObject *odd(void) {
    if (PyErr_Occurred() != NULL) PyErr_Clear();
    return NULL;
}

/* An item of a list or a tuple, borrowed; NULL if there is none. */
static PyObject *at_place(PyObject *row, length at) {
    PyObject *type = type_of(row);
    if (type == list_type) return at < 0 || at >= PyList_Size(row) ? NULL : PyList_GetItem(row, at);
    return type == tuple_type && at >= 0 && at < size(row) ? item(row, at) : NULL;
}

static length length_of(PyObject *row) {
    PyObject *type = type_of(row);
    return type == list_type ? PyList_Size(row) : type == tuple_type ? size(row) : -1;
}

/* Two places, as a tuple has them. */
static int read_places(PyObject *pair, number *one, number *other) {
    if (pair == NULL || type_of(pair) != tuple_type || size(pair) < 2) return ODD;
    return read_number(item(pair, 0), one) || read_number(item(pair, 1), other) ? ODD : 0;
}

/* Add 1 to an attribute that is an int; what it is then, the caller's, or NULL with an error. */
static PyObject *one_more(PyObject *object, PyObject *name) {
    number value;
    PyObject *before = PyObject_GetAttr(object, name), *after = NULL;
    if (before == NULL) return NULL;
    if (read_number(before, &value) == 0) after = PyLong_FromLongLong(value + 1);
    Py_DecRef(before);
    if (after != NULL && PyObject_SetAttr(object, name, after)) {
        Py_DecRef(after);
        return NULL;
    }
    return after;
}

#include "repeats.c"
#include "forms.c"
#include "line.c"
#include "methods.c"
