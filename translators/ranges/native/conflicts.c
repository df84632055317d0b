/* What `conflicts.py` does, on the same objects and with the same results.
 *
 * The function in Python is the definition. It is called wherever something is not as it mostly is: numbers of more than 64 bits, no
 * memory. What a method raises is raised.
 */

enum { ENTRIES };

static struct slotted log_class = {.name = "Log", .slots = {"entries"}};

static PyObject *region_method_overlaps(PyObject *self, PyObject *other);

static PyObject *call_method(PyObject *object, const char *name, PyObject *argument) {
    PyObject *method = PyObject_GetAttrString(object, name);
    PyObject *found = method == NULL ? NULL : call_with(method, argument);
    if (method != NULL) Py_DecRef(method);
    return found;
}

/* Whether regions overlap, by the method of their class, which may note something. */
static int do_overlap(PyObject *region, PyObject *other) {
    int is_plain = type_of(region) == region_class.class;
    PyObject *answer = is_plain ? region_method_overlaps(region, other) : call_method(region, "overlaps", other);
    if (answer == NULL) return ODD;
    Py_DecRef(answer);
    return answer != no;
}

/* Enter which entries of a log are in the way; `listed`: all of them, or none in a tuple. */
static int add_entries(PyObject *listed, PyObject *region, number maker, int in_order, PyObject *found) {
    length count = kind_of(listed) == ROW ? 0 : PyList_Size(listed);
    for (length at = 0; at < count; at++) {
        PyObject *each = PyList_GetItem(listed, at);
        number other;
        if (kind_of(each) != ROW || size(each) != 3 || read_number(item(each, 1), &other)) return ODD;
        if (in_order && other == maker) continue;
        int meets = do_overlap(region, item(each, 2));
        if (meets < 0 || (meets && PyList_Append(found, item(each, 0)))) return ODD;
    }
    return count < 0 ? ODD : 0;
}

static int add_conflicts(PyObject *log, PyObject *region, number maker, int in_order, number few, PyObject *found) {
    if (type_of(log) != log_class.class) return ODD;
    PyObject *entries = SLOT(log_class, log, ENTRIES);
    if (PyList_Size(entries) <= few) return add_entries(entries, region, maker, in_order, found);
    PyObject *near = call_method(log, "meeting", region);
    int wrong = near == NULL || add_entries(near, region, maker, in_order, found);
    if (near != NULL) Py_DecRef(near);
    return wrong ? ODD : 0;
}

/* As `conflicts`, of what it is given. */
static PyObject *conflicts(PyObject *const *given, length n) {
    number maker, few;
    if (n != 5 || kind_of(given[1]) != ROW || read_number(given[2], &maker) || read_number(given[4], &few)) return NULL;
    PyObject *found = PyList_New(0);
    for (length at = 0; found != NULL && at < size(given[1]); at++) {
        PyObject *access = item(given[1], at); /* of a class of tuples */
        int is_tuple = PyTuple_Size(access) == 4;
        if (!is_tuple) PyErr_Clear();
        int wrong = !is_tuple || type_of(item(access, 3)) != type_of(no);
        for (int kind = !wrong && item(access, 3) != no ? 0 : 1; kind < 2 && !wrong; kind++) {
            PyObject *key = tuple_of(3, kept(item(access, 0)), kept(item(access, 1)), PyBool_FromLong(kind), NULL);
            PyObject *log = key == NULL ? NULL : entry(given[0], key);
            wrong = key == NULL || (log != NULL && add_conflicts(log, item(access, 2), maker, given[3] != no, few, found));
            if (key != NULL) Py_DecRef(key);
        }
        if (wrong) {
            Py_DecRef(found);
            return NULL;
        }
    }
    return found;
}
