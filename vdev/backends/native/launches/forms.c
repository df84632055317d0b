/* Launches of a form: `vdev/executor/whole.py` and `vdev/session/immediate_forms.py`. */

enum { KINDS, NDRANGE, NUMBER, PLACES, POINTERS };
enum { NBYTES, REPLICAS, WRITTEN };
enum { ALLOCATION, START, STOP };
enum { ALONE, AT, AT_ONCE, CACHE, KNOWN, PASSES, ITS_POINTERS, SESSION, LINE };
enum { HOLDINGS, RESIDENT, STAYS, USED };
enum { BUFFER, OFFSET };
static struct slotted
    form_class = {.name = "Form", .slots = {"_kinds", "_ndrange", "_number", "_places", "_pointers"}},
    holdings_class = {.name = "Holdings", .slots = {"nbytes", "replicas", "written"}},
    replica_class = {.name = "Replica", .slots = {"allocation", "start", "stop"}},
    formed_class = {.name = "Formed",
                    .slots = {"_alone", "_at", "_at_once", "_cache", "_known", "_passes", "_pointers", "_session", "line"}},
    buffer_class = {.name = "VirtualBuffer", .slots = {"holdings", "resident", "stays", "used"}},
    argument_class = {.name = "BufferArg", .slots = {"buffer", "offset"}};

#define OF_FORM(object, slot) SLOT(form_class, object, slot)
#define OF_FORMED(object, slot) SLOT(formed_class, object, slot)

/* The memory of a buffer on a worker that has all of it, borrowed; NULL otherwise. */
static PyObject *whole_memory(PyObject *holdings, number worker) {
    number start, stop, nbytes;
    if (holdings == NULL || type_of(holdings) != holdings_class.class) return NULL;
    PyObject *replica = at_place(SLOT(holdings_class, holdings, REPLICAS), worker);
    if (replica == NULL || type_of(replica) != replica_class.class) return NULL;
    if (read_number(SLOT(replica_class, replica, START), &start) || read_number(SLOT(replica_class, replica, STOP), &stop)) return NULL;
    if (read_number(SLOT(holdings_class, holdings, NBYTES), &nbytes) || start != 0 || stop < nbytes) return NULL;
    return SLOT(replica_class, replica, ALLOCATION);
}

/* The arguments with memory in the places of buffers, a list, of the kinds of the last launch's; NULL where they are not. */
static PyObject *with_memory(PyObject *self, PyObject *holdings, PyObject *args) {
    PyObject *pointers = OF_FORM(self, POINTERS), *kinds = OF_FORM(self, KINDS), *now = PySequence_List(args);
    number worker, at, slot;
    int wrong = now == NULL || read_number(OF_FORM(self, NUMBER), &worker) || length_of(kinds) != PyList_Size(now);
    for (length each = 0, count = length_of(pointers); !wrong && each < count; each++) {
        wrong = read_places(at_place(pointers, each), &at, &slot);
        PyObject *memory = wrong ? NULL : whole_memory(at_place(holdings, slot), worker);
        wrong = memory == NULL || at < 0 || at >= PyList_Size(now) || PyList_SetItem(now, at, kept(memory));
    }
    for (length each = 0, count = length_of(kinds); !wrong && each < count; each++)
        wrong = type_of(PyList_GetItem(now, each)) != at_place(kinds, each);
    if (!wrong) return now;
    drop(now);
    return odd();
}

/* `Form.changes`. */
static PyObject *changes(PyObject *self, PyObject *worker, PyObject *entry) {
    if (type_of(entry) != tuple_type || size(entry) != 6 || holdings_class.class == NULL || replica_class.class == NULL) return NULL;
    PyObject *ndrange = item(entry, 3), *places = item(entry, 4), *result = NULL, *now = with_memory(self, item(entry, 1), item(entry, 2));
    if (now == NULL) return NULL;
    if (places != OF_FORM(self, PLACES)) result = CALL(self, _shifted, worker, now, ndrange, places);
    else if (ndrange != OF_FORM(self, NDRANGE)) result = CALL(self, _over, worker, now, ndrange);
    else if ((result = PyTuple_New(3)) != NULL) {
        PyTuple_SetItem(result, 0, kept(now));
        PyTuple_SetItem(result, 1, kept(none));
        PyTuple_SetItem(result, 2, kept(ndrange));
    }
    Py_DecRef(now);
    return result;
}

/* ---- Formed --------------------------------------------------------------------------------------------------------- */

/* The buffers of a launch, each once, and the memory that they hold: lists. `way`: which pointers share one. */
enum { MOST_POINTERS = 32 };
struct reached {
    PyObject *buffers, *holdings, *way;
};

static void let_go(struct reached *reached) {
    drop(reached->buffers);
    drop(reached->holdings);
    drop(reached->way);
}

/* The buffer to whose beginning an argument points, borrowed, where it is on that worker, with others beside it kept there; NULL otherwise. */
static PyObject *buffer_of(PyObject *arg, number worker, int alone) {
    number offset, where;
    if (arg == NULL || type_of(arg) != argument_class.class) return NULL;
    if (read_number(SLOT(argument_class, arg, OFFSET), &offset) || offset != 0) return NULL;
    PyObject *buffer = SLOT(argument_class, arg, BUFFER);
    if (type_of(buffer) != buffer_class.class || read_number(SLOT(buffer_class, buffer, alone ? RESIDENT : STAYS), &where)) return NULL;
    return where == worker ? buffer : NULL;
}

/* Numbers of the pointers that come first to the same buffers; nothing where each points to another one. */
static PyObject *way_of(PyObject *const *buffers, length count, int *shared) {
    PyObject *way = PyTuple_New(count);
    *shared = 0;
    for (length at = 0; way != NULL && at < count; at++) {
        length first = 0;
        while (buffers[first] != buffers[at]) first++;
        *shared |= first != at;
        PyTuple_SetItem(way, at, PyLong_FromLongLong(first));
    }
    if (*shared || way == NULL) return way;
    Py_DecRef(way);
    return PyTuple_New(0);
}

static int find_reached(struct reached *reached, PyObject *pointers, PyObject *args, number worker, int alone) {
    PyObject *found[MOST_POINTERS];
    length count = length_of(pointers);
    int shared, wrong = 0;
    if (count < 0 || count > MOST_POINTERS) return ODD;
    for (length each = 0; each < count; each++) {
        number at;
        PyObject *place = at_place(pointers, each);
        if (read_number(place, &at) || (found[each] = buffer_of(at_place(args, at), worker, alone)) == NULL) return ODD;
    }
    reached->way = way_of(found, count, &shared);
    reached->buffers = PyList_New(0);
    reached->holdings = PyList_New(0);
    if (reached->way == NULL || reached->buffers == NULL || reached->holdings == NULL) return ODD;
    for (length each = 0; each < count && !wrong; each++) {
        length first = 0;
        while (found[first] != found[each]) first++;
        if (first < each) continue;
        wrong = PyList_Append(reached->buffers, found[each]) || PyList_Append(reached->holdings, SLOT(buffer_class, found[each], HOLDINGS));
    }
    return wrong;
}

/* Whether the turn of a launch to be looked at has come; ODD with an error. */
static int is_looked_at(PyObject *self) {
    number left = 0;
    PyObject *at_once = kept(OF_FORMED(self, AT_ONCE)), *value = ATTRIBUTE(at_once, until_looked_at);
    int yes = value == NULL ? ODD : read_number(value, &left) == 0 && left < 0;
    drop(value);
    Py_DecRef(at_once);
    return yes;
}

/* The call of `Line.hand_over_formed`, or of `_looked_at`; NULL with an error. `found`: form, plan and places. */
static PyObject *hand_over(PyObject *self, PyObject *found, struct reached *reached, PyObject *const *given) {
    PyObject *ndrange = given[1], *args = given[2], *after = given[3], *standing = given[4];
    PyObject *line = kept(OF_FORMED(self, LINE)), *prepared = ATTRIBUTE(item(found, 1), prepared), *part = NULL;
    PyObject *entry = prepared == NULL ? NULL : PyTuple_New(6);
    if (entry != NULL) {
        PyObject *items[] = {prepared, reached->holdings, args, ndrange, item(found, 2), after};
        for (length at = 0; at < 6; at++) PyTuple_SetItem(entry, at, kept(items[at]));
        int looked_at = OF_FORMED(self, ALONE) != no ? 0 : is_looked_at(self);
        if (looked_at == 0) part = CALL(line, hand_over_formed, item(found, 0), entry, standing);
        else if (looked_at == 1) part = CALL(self, _looked_at, item(found, 0), entry, standing, reached->buffers);
        Py_DecRef(entry);
    }
    drop(prepared);
    Py_DecRef(line);
    return part;
}

/* What is counted of a launch that was made; whether nothing went wrong. */
static int count_launch(PyObject *self, PyObject *part, PyObject *found, struct reached *reached, PyObject *const *given) {
    PyObject *queue = given[0], *ndrange = given[1], *args = given[2], *started = given[5], *cached = item(found, 1), *result = NULL;
    PyObject *session = kept(OF_FORMED(self, SESSION)), *at_once = kept(OF_FORMED(self, AT_ONCE)), *passes = kept(OF_FORMED(self, PASSES));
    PyObject *recorder = NULL, *outcome = NULL, *streak = NULL, *launches = NULL, *number = one_more(session, names[NAMED_number]);
    int right = number != NULL;
    for (length at = 0; right && at < PyList_Size(reached->buffers); at++)
        put_slot(&buffer_class, PyList_GetItem(reached->buffers, at), USED, kept(number));
    right = right && (recorder = ATTRIBUTE(session, recorder)) != NULL;
    if (right && recorder != none) {
        result = CALL(self, _tell, part, started, queue, cached, args, reached->buffers, reached->holdings);
        right = result != NULL;
        drop(result);
    }
    right = right && (streak = one_more(at_once, names[NAMED_streak_length])) != NULL && (outcome = ATTRIBUTE(cached, outcome)) != NULL &&
            (launches = one_more(outcome, names[NAMED_launches])) != NULL;
    result = right ? PyObject_CallFunctionObjArgs(passes, ndrange, NULL) : NULL;
    right = result != NULL;
    PyObject *held[] = {session, at_once, passes, recorder, outcome, streak, launches, number, result};
    for (size_t at = 0; at < sizeof held / sizeof *held; at++) drop(held[at]);
    return right;
}

/* Whether the session keeps a launch where it is, whose buffers are known to be kept there; ODD with an error. */
static int is_kept(PyObject *self, struct reached *reached, PyObject *queue, PyObject *ndrange) {
    PyObject *at_once = kept(OF_FORMED(self, AT_ONCE)), *cache = kept(OF_FORMED(self, CACHE)), *line = kept(OF_FORMED(self, LINE));
    PyObject *stay = PyBool_FromLong(1), *answer = CALL(at_once, are_kept, line, cache, ndrange, reached->buffers, reached->holdings, queue, stay);
    int yes = answer == NULL ? ODD : PyObject_IsTrue(answer);
    drop(answer);
    drop(stay);
    Py_DecRef(at_once);
    Py_DecRef(cache);
    Py_DecRef(line);
    return yes;
}

/* `Formed._handed_over`, whose parameters are queue, ndrange, args, after, standing and started. */
static PyObject *handed_over(PyObject *self, PyObject *const *given) {
    struct reached reached = {NULL, NULL, NULL};
    PyObject *known = kept(OF_FORMED(self, KNOWN)), *found = NULL, *part = NULL;
    number worker;
    int alone = OF_FORMED(self, ALONE) != no, stays = 0;
    if (argument_class.class != NULL && buffer_class.class != NULL && read_number(OF_FORMED(self, AT), &worker) == 0 &&
        find_reached(&reached, OF_FORMED(self, ITS_POINTERS), given[2], worker, alone) == 0)
        found = PyDict_GetItem(known, reached.way);
    if (found == NULL || type_of(found) != tuple_type || size(found) != 3) {
        let_go(&reached);
        Py_DecRef(known);
        return odd();
    }
    Py_IncRef(found);
    stays = alone ? 1 : is_kept(self, &reached, given[0], given[1]);
    if (stays == 0) part = kept(none);
    else if (stays == 1 && PyDict_DelItem(known, reached.way) == 0) { /* until it has made the launch */
        part = hand_over(self, found, &reached, given);
        /* The launch was made: without an error it is never left to Python, which would make it again. */
        if (part != NULL && part != none &&
            (PyDict_SetItem(known, reached.way, found) || !count_launch(self, part, found, &reached, given)) && PyErr_Occurred() != NULL) {
            Py_DecRef(part);
            part = NULL;
        }
    }
    Py_DecRef(found);
    Py_DecRef(known);
    let_go(&reached);
    return part;
}
