/* The direct way to a worker: `vdev/executor/line.py`. */

enum { IS_ALONE, ITS_NUMBER, STRETCH, FIRST, LAST, WORKER };
enum { CLOCK, ENDS, ENTRIES, IS_OPEN, ITS_LAST, LAUNCHES, MARK };
enum { INDEX, ITS_STRETCH };
enum { ENDS_OF_MARK };
static struct slotted
    line_class = {.name = "Line", .slots = {"_alone", "_at", "_stretch", "first", "last", "worker"}},
    stretch_class = {.name = "Stretch", .slots = {"clock", "ends", "entries", "is_open", "last", "launches", "mark"}},
    part_class = {.name = "Part", .slots = {"index", "stretch"}},
    mark_class = {.name = "Mark", .slots = {"ends"}};

#define OF_LINE(object, slot) SLOT(line_class, object, slot)
#define OF_STRETCH(object, slot) SLOT(stretch_class, object, slot)

static int is_number(PyObject *object, number wanted) {
    number value;
    return read_number(object, &value) == 0 && value == wanted;
}

/* Whether a command goes on with that stretch, for which the worker has this mark. */
static int goes_on(PyObject *stretch, PyObject *mark, number at, number command, number step) {
    if (type_of(stretch) != stretch_class.class || OF_STRETCH(stretch, MARK) != mark || type_of(mark) != mark_class.class) return 0;
    if (PyObject_IsTrue(OF_STRETCH(stretch, IS_OPEN)) != 1 || !is_number(OF_STRETCH(stretch, ITS_LAST), command - 1)) return 0;
    PyObject *clock = OF_STRETCH(stretch, CLOCK), *ends = SLOT(mark_class, mark, ENDS_OF_MARK);
    if (type_of(clock) != list_type || type_of(ends) != list_type || PyList_Size(ends) < 1) return 0;
    return type_of(OF_STRETCH(stretch, ENTRIES)) == list_type && type_of(OF_STRETCH(stretch, ENDS)) == list_type && is_number(at_place(clock, at), step - 1);
}

/* The step that wrote to each buffer last, of those of a command. */
static int note_written(PyObject *entry, number at, PyObject *step) {
    PyObject *held = item(entry, 1);
    for (length each = 0, count = length_of(held); each < count; each++) {
        PyObject *written = SLOT(holdings_class, at_place(held, each), WRITTEN);
        if (PyList_SetItem(written, at, kept(step))) return ODD;
    }
    return 0;
}

static int are_holdings(PyObject *entry, number at) {
    PyObject *held = item(entry, 1);
    length count = length_of(held);
    for (length each = 0; each < count; each++) {
        PyObject *one = at_place(held, each);
        if (type_of(one) != holdings_class.class) return 0;
        PyObject *written = SLOT(holdings_class, one, WRITTEN);
        if (type_of(written) != list_type || at >= PyList_Size(written)) return 0;
    }
    return count >= 0;
}

/* The part that a command becomes of a stretch that goes on; NULL with an error. */
static PyObject *part_of(PyObject *stretch) {
    number launches;
    if (read_number(OF_STRETCH(stretch, LAUNCHES), &launches)) return NULL;
    PyObject *part = PyType_GenericAlloc(part_class.class, 0), *more = part == NULL ? NULL : PyLong_FromLongLong(launches + 1);
    if (more == NULL) {
        drop(part);
        return NULL;
    }
    put_slot(&part_class, part, ITS_STRETCH, kept(stretch));
    put_slot(&part_class, part, INDEX, kept(OF_STRETCH(stretch, LAUNCHES)));
    put_slot(&stretch_class, stretch, LAUNCHES, more);
    return part;
}

/* `Line._enter` of a command whose times nobody wants, and which goes on with the last stretch: entry, number, step and pending. */
static PyObject *entered(PyObject *self, PyObject *const *given, length n) {
    PyObject *entry = given[0], *pending = n > 3 ? given[3] : NULL, *part = NULL;
    number command, step, end, at, last;
    if (n < 4 || (n > 4 && given[4] != none) || (n > 5 && given[5] != none) || n > 6) return NULL;
    if (holdings_class.class == NULL || part_class.class == NULL || stretch_class.class == NULL || mark_class.class == NULL) return NULL;
    if (type_of(entry) != tuple_type || size(entry) != 6 || read_number(given[1], &command) || read_number(given[2], &step)) return NULL;
    if (read_number(pending, &end) || end < 0 || read_number(OF_LINE(self, ITS_NUMBER), &at) || read_number(OF_LINE(self, LAST), &last)) return NULL;
    int alone = OF_LINE(self, IS_ALONE) != no;
    if (!alone && !are_holdings(entry, at)) return NULL;
    PyObject *stretch = kept(OF_LINE(self, STRETCH)), *worker = kept(OF_LINE(self, WORKER)), *mark = ATTRIBUTE(worker, next_mark);
    if (mark != NULL && goes_on(stretch, mark, at, command, step) && PyObject_SetAttr(worker, names[NAMED_issued], given[2]) == 0 &&
        (part = part_of(stretch)) != NULL) {
        if (command != last + 1) put_slot(&line_class, self, FIRST, kept(given[1]));
        put_slot(&line_class, self, LAST, kept(given[1]));
        put_slot(&stretch_class, stretch, ITS_LAST, kept(given[1]));
        PyObject *ends = SLOT(mark_class, mark, ENDS_OF_MARK);
        if (PyList_Append(OF_STRETCH(stretch, ENTRIES), entry) || PyList_Append(OF_STRETCH(stretch, ENDS), pending) ||
            PyList_SetItem(OF_STRETCH(stretch, CLOCK), at, kept(given[2])) || PyList_SetItem(ends, PyList_Size(ends) - 1, kept(pending)) ||
            (!alone && note_written(entry, at, given[2]))) {
            Py_DecRef(part);
            part = NULL; /* there is no memory, and an error says so */
        }
    }
    drop(mark);
    Py_DecRef(worker);
    Py_DecRef(stretch);
    return part;
}
