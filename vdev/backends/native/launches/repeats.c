/* Calls of a kernel like the last one: `vdev/facade/repeat.py`. */

enum { BUFFERS, CAPTURED, COUNT, KEEPS, MEMORIES, OTHERS, VALUES };
enum { ARRAYS, FORMS, OFFSETS, PLAIN };
enum { ARGUMENT, OF_CONTEXT, REFERENCES };
enum { ARGS, CONTEXT, REPETITION };
static struct slotted
    repeat_class = {.name = "Repeat", .slots = {"_buffers", "_captured", "_count", "_keeps", "_memories", "_others", "_values"}},
    arrays_class = {.name = "RepeatOfArrays", .slots = {"_arrays", "_forms", "_offsets", "_plain"}},
    memory_class = {.name = "Memory", .slots = {"argument", "context", "references"}},
    kernel_class = {.name = "KernelState", .slots = {"args", "context", "repetition"}};

#define OF_REPEAT(object, slot) SLOT(repeat_class, object, slot)

/* The memory objects of a call, whose references are kept here; and what a launch captures, a tuple. */
enum { MOST_MEMORIES = 32 };
struct call {
    PyObject *args, *captured, *memories[MOST_MEMORIES];
    length count;
};

static PyObject *ended(struct call *call, PyObject *result) {
    for (length at = 0; at < call->count; at++) Py_DecRef(call->memories[at]);
    if (result != call->captured) drop(call->captured);
    return result;
}

/* Whether an attribute is that object, or one that is equal to it. */
static int is_attribute(PyObject *object, PyObject *name, PyObject *wanted) {
    PyObject *found = PyObject_GetAttr(object, name);
    if (found == NULL) return 0;
    int same = found == wanted || PyObject_RichCompareBool(found, wanted, EQUAL) == 1;
    Py_DecRef(found);
    return same;
}

/* The memory object of `wrapper`, which is the kernel's argument `at`, joins the call. */
static int add_memory(struct call *call, PyObject *wrapper, number at, int counts) {
    number references = 1;
    PyObject *memory = call->count == MOST_MEMORIES ? NULL : ATTRIBUTE(wrapper, _vdev_state);
    if (memory == NULL) return ODD;
    call->memories[call->count++] = memory;
    if (type_of(memory) != memory_class.class || at < 0 || at >= size(call->captured)) return ODD;
    if (counts && (read_number(SLOT(memory_class, memory, REFERENCES), &references) || references <= 0)) return ODD;
    PyObject *argument = SLOT(memory_class, memory, ARGUMENT); /* which a released one has no more */
    return argument == NULL ? ODD : PyTuple_SetItem(call->captured, at, kept(argument));
}

static int add_buffers(struct call *call, PyObject *places, int counts) {
    for (length each = 0, count = length_of(places); each < count; each++) {
        number source, at;
        if (read_places(at_place(places, each), &source, &at) || source < 0 || source >= size(call->args)) return ODD;
        if (add_memory(call, item(call->args, source), at, counts)) return ODD;
    }
    return 0;
}

/* An array of the form that it had in the last call, of the queue in which the kernel is launched, or of none. */
static int is_as_before(PyObject *array, PyObject *queue, PyObject *form, PyObject *offset) {
    if (form == NULL || offset == NULL || type_of(form) != tuple_type || size(form) != 3) return 0;
    PyObject *own = ATTRIBUTE(array, queue);
    if (own == NULL) return 0;
    int here = own == queue || own == none;
    Py_DecRef(own);
    return here && is_attribute(array, names[NAMED_shape], item(form, 0)) && is_attribute(array, names[NAMED_strides], item(form, 1)) &&
           is_attribute(array, names[NAMED_dtype], item(form, 2)) && is_attribute(array, names[NAMED_offset], offset);
}

static int add_arrays(struct call *call, PyObject *self) {
    PyObject *places = SLOT(arrays_class, self, ARRAYS), *forms = SLOT(arrays_class, self, FORMS), *offsets = SLOT(arrays_class, self, OFFSETS);
    for (length each = 0, count = length_of(places); each < count; each++) {
        number source, at;
        if (read_places(at_place(places, each), &source, &at) || source < 0 || source >= size(call->args)) return ODD;
        PyObject *array = item(call->args, source);
        if (!is_as_before(array, item(call->args, 0), at_place(forms, each), at_place(offsets, each))) return ODD;
        PyObject *base = ATTRIBUTE(array, base_data);
        if (base == NULL) return ODD;
        int wrong = add_memory(call, base, at, 0);
        Py_DecRef(base);
        if (wrong) return ODD;
    }
    return add_buffers(call, SLOT(arrays_class, self, PLAIN), 0);
}

static int are_the_last(const struct call *call, PyObject *memories) {
    if (type_of(memories) != list_type || PyList_Size(memories) != call->count) return 0;
    for (length at = 0; at < call->count; at++)
        if (PyList_GetItem(memories, at) != call->memories[at]) return 0;
    return 1;
}

/* As `_replaced`, which images have their own of. */
static int replace_memories(const struct call *call, PyObject *self, PyObject *kernel) {
    PyObject *type = type_of(self), *context = SLOT(kernel_class, kernel, CONTEXT), *places = OF_REPEAT(self, BUFFERS);
    PyObject *args = SLOT(kernel_class, kernel, ARGS);
    if ((type != repeat_class.class && type != arrays_class.class) || length_of(places) != call->count || type_of(args) != list_type) return ODD;
    for (length at = 0; at < call->count; at++)
        if (SLOT(memory_class, call->memories[at], OF_CONTEXT) != context) return ODD;
    PyObject *list = PyList_New(call->count);
    if (list == NULL) return ODD;
    for (length at = 0; at < call->count; at++) PyList_SetItem(list, at, kept(call->memories[at]));
    put_slot(&repeat_class, self, MEMORIES, list);
    for (length each = 0; each < call->count; each++) {
        number source, at;
        if (read_places(at_place(places, each), &source, &at) || PyList_SetItem(args, at, kept(call->memories[each]))) return ODD;
    }
    put_slot(&kernel_class, kernel, REPETITION, kept(none));
    return 0;
}

/* Another value than in the last call of an argument whose bytes are captured: as the same in `_with_values`. */
static int put_bytes(struct call *call, PyObject *self, PyObject *kernel, length at, PyObject *value) {
    PyObject *captured = OF_REPEAT(self, CAPTURED), *args = SLOT(kernel_class, kernel, ARGS), *bytes = CALL(value, tobytes, NULL);
    if (bytes == NULL) return ODD;
    PyList_SetItem(OF_REPEAT(self, VALUES), at, kept(value));
    int same = PyObject_RichCompareBool(bytes, PyList_GetItem(captured, at), EQUAL);
    PyTuple_SetItem(call->captured, at, kept(bytes));
    if (same == 0) {
        PyList_SetItem(captured, at, kept(bytes));
        PyList_SetItem(args, at, kept(bytes));
        PyObject *repetition = kept(SLOT(kernel_class, kernel, REPETITION)), *takes = repetition == none ? NULL : ATTRIBUTE(repetition, takes_values);
        if (takes != NULL && !PyObject_IsTrue(takes)) put_slot(&kernel_class, kernel, REPETITION, kept(none));
        drop(takes);
        Py_DecRef(repetition);
    }
    Py_DecRef(bytes);
    return same < 0 ? ODD : 0;
}

/* The result of `_changed`. */
static int is_changed(PyObject *self, PyObject *kernel, length at, PyObject *value) {
    PyObject *place = PyLong_FromLongLong(at), *result = place == NULL ? NULL : CALL(self, _changed, kernel, place, value);
    int yes = result == NULL ? ODD : PyObject_IsTrue(result);
    drop(place);
    drop(result);
    return yes;
}

/* As `_with_values`, also of values none of which has changed. */
static int put_values(struct call *call, PyObject *self, PyObject *kernel) {
    PyObject *places = OF_REPEAT(self, OTHERS), *values = OF_REPEAT(self, VALUES), *keeps = OF_REPEAT(self, KEEPS);
    PyObject *captured = OF_REPEAT(self, CAPTURED), *args = SLOT(kernel_class, kernel, ARGS);
    length all = PyList_Size(captured);
    if (type_of(values) != list_type || type_of(keeps) != list_type || type_of(args) != list_type) return ODD;
    if (PyList_Size(values) != all || PyList_Size(keeps) != all || PyList_Size(args) != all) return ODD;
    for (length each = 0, count = length_of(places); each < count; each++) {
        number source, at;
        if (read_places(at_place(places, each), &source, &at) || source < 0 || source >= size(call->args) || at < 0 || at >= all) return ODD;
        PyObject *value = item(call->args, source);
        if (value == PyList_GetItem(values, at)) continue;
        if (type_of(value) == PyList_GetItem(keeps, at)) {
            if (put_bytes(call, self, kernel, at, value)) return ODD;
        } else if (is_changed(self, kernel, at, value) == 1) {
            if (PyTuple_SetItem(call->captured, at, kept(PyList_GetItem(captured, at)))) return ODD;
        } else return ODD; /* in Python it is found to be so once more */
    }
    return 0;
}

/* `Repeat.takes` and `RepeatOfArrays.takes`. */
static PyObject *taken(PyObject *self, PyObject *kernel, PyObject *args, int of_arrays) {
    struct call call = {.args = args, .count = 0, .captured = NULL};
    number count;
    if (type_of(args) != tuple_type || type_of(kernel) != kernel_class.class || memory_class.class == NULL) return NULL;
    if (of_arrays && arrays_class.class == NULL) return NULL;
    if (read_number(OF_REPEAT(self, COUNT), &count) || count != size(args) || count == 0) return NULL;
    PyObject *captured = OF_REPEAT(self, CAPTURED);
    if (type_of(captured) != list_type || (call.captured = PyList_AsTuple(captured)) == NULL) return odd();
    if (of_arrays ? add_arrays(&call, self) : add_buffers(&call, OF_REPEAT(self, BUFFERS), 1)) return ended(&call, odd());
    if (!are_the_last(&call, OF_REPEAT(self, MEMORIES)) && replace_memories(&call, self, kernel)) return ended(&call, odd());
    if (put_values(&call, self, kernel)) return ended(&call, odd());
    return ended(&call, call.captured);
}
