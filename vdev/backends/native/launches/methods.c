/* What stands in the places of methods in Python. */

enum { AT_takes, AT_takes_arrays, AT_changes, AT_handed_over, AT_entered, COUNT_METHODS };
static PyObject *plain_method(int place);

/* The result, or the error that there is; where there is neither, what the method in Python makes of it. */
static PyObject *or_by_method(PyObject *found, int place, PyObject *self, PyObject *const *given, length count) {
    if (found != NULL || PyErr_Occurred() != NULL) return found;
    PyObject *arguments = PyTuple_New(count + 1);
    if (arguments == NULL) return NULL;
    PyTuple_SetItem(arguments, 0, kept(self));
    for (length at = 0; at < count; at++) PyTuple_SetItem(arguments, at + 1, kept(given[at]));
    found = PyObject_CallObject(plain_method(place), arguments);
    Py_DecRef(arguments);
    return found;
}

#define METHOD(name, parameters, found)                                                                                    \
    static PyObject *method_##name(PyObject *self, PyObject *const *given, length n) {                                     \
        return or_by_method(n == parameters ? found : NULL, AT_##name, self, given, n);                                    \
    }
METHOD(takes, 2, taken(self, given[0], given[1], 0))
METHOD(takes_arrays, 2, taken(self, given[0], given[1], 1))
METHOD(changes, 2, changes(self, given[0], given[1]))
METHOD(handed_over, 6, handed_over(self, given))
#undef METHOD

static PyObject *method_entered(PyObject *self, PyObject *const *given, length n) {
    return or_by_method(entered(self, given, n), AT_entered, self, given, n);
}

static struct method {
    struct slotted *of;
    PyMethodDef definition;
    PyObject *plain;
} methods[] = {
    {&repeat_class, {"takes", method_takes, TAKES_ARRAY, NULL}, NULL},
    {&arrays_class, {"takes", method_takes_arrays, TAKES_ARRAY, NULL}, NULL},
    {&form_class, {"changes", method_changes, TAKES_ARRAY, NULL}, NULL},
    {&formed_class, {"_handed_over", method_handed_over, TAKES_ARRAY, NULL}, NULL},
    {&line_class, {"_enter", method_entered, TAKES_ARRAY, NULL}, NULL},
};

static PyObject *plain_method(int place) { return methods[place].plain; }

static struct slotted *const slotted_classes[] = {
    &repeat_class, &arrays_class, &memory_class, &kernel_class, &form_class, &holdings_class, &replica_class, &formed_class,
    &buffer_class, &argument_class, &line_class, &stretch_class, &part_class, &mark_class,
};

/* Whether there can be such methods: Python is found. Comes before all others. */
EXPORTED int32_t vdev_launch_find_python(void) { return find_python() && find_names(); }

/* `find_slots` of one of these classes. With the interpreter's lock. */
EXPORTED int32_t vdev_launch_slots(const char *name, PyObject *class, PyObject *example, PyObject *values) {
    for (size_t at = 0; at < sizeof slotted_classes / sizeof *slotted_classes; at++)
        if (strcmp(slotted_classes[at]->name, name) == 0) return find_slots(slotted_classes[at], class, example, values);
    return 0;
}

/* What stands in the place of a method in Python, by the names of its class and its own; NULL where there is none. */
EXPORTED PyObject *vdev_launch_method(const char *class, const char *name, PyObject *plain) {
    for (int at = 0; at < COUNT_METHODS; at++) {
        struct method *method = &methods[at];
        if (strcmp(method->definition.name, name) || strcmp(method->of->name, class) || method->of->class == NULL) continue;
        if (method->plain == NULL) Py_IncRef(plain);
        method->plain = plain;
        return PyDescr_NewMethod(method->of->class, &method->definition);
    }
    return NULL;
}

/* There are no functions. */
EXPORTED PyObject *vdev_launch_function(const char *name, PyObject *plain) {
    (void)name;
    (void)plain;
    return NULL;
}
