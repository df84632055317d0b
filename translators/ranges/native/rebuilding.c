/* What `rebuilding.py` does, on the same objects and with the same results.
 *
 * The function in Python is the definition. It is called wherever something is not as it mostly is; what a step raises is raised.
 */

/* The kinds of things, in their order; all but the last one lie in tables. */
enum { CONSTANTS_KIND, NUMBERS_KIND, GIVEN_KIND, MADE_KIND, KINDS };

/* What lies there, borrowed; NULL if nothing does. */
static PyObject *thing_at(PyObject *const *tables, PyObject *const *made, length count, PyObject *object) {
    number where;
    if (read_number(object, &where) || where < 0) return NULL;
    number kind = where % KINDS, place = where / KINDS;
    if (kind == MADE_KIND) return place < count ? made[place] : NULL;
    return place < size(tables[kind]) ? item(tables[kind], place) : NULL;
}

/* What a step makes. */
static PyObject *make_step(PyObject *const *tables, PyObject *const *made, length count, PyObject *step) {
    if (kind_of(step) != ROW || size(step) != 2 || kind_of(item(step, 1)) != ROW) return NULL;
    PyObject *make = item(step, 0), *parts = item(step, 1), *found = PyTuple_New(size(parts));
    for (length at = 0; found != NULL && at < size(parts); at++) {
        PyObject *part = thing_at(tables, made, count, item(parts, at));
        if (part == NULL) {
            Py_DecRef(found);
            return NULL;
        }
        PyTuple_SetItem(found, at, kept(part));
    }
    if (found == NULL || make == none) return found;
    PyObject *called = PyObject_CallObject(make, found);
    Py_DecRef(found);
    return called;
}

/* As `built`, of what it is given. */
static PyObject *built(PyObject *const *given, length n) {
    enum { FEW_STEPS = 128 };
    PyObject *few[FEW_STEPS], **made = few, *found = NULL;
    for (length at = 0; at < n && at < 4; at++)
        if (kind_of(given[at]) != ROW) return NULL;
    if (n != 5) return NULL;
    PyObject *steps = given[3];
    length count = 0, all = size(steps);
    if (all > FEW_STEPS && (made = malloc((size_t)all * sizeof *made)) == NULL) return NULL;
    while (count < all && (made[count] = make_step(given, made, count, item(steps, count))) != NULL) count++;
    if (count == all) found = thing_at(given, made, count, given[4]);
    if (found != NULL) Py_IncRef(found);
    for (length at = 0; at < count; at++) Py_DecRef(made[at]);
    if (made != few) free(made);
    return found;
}

/* ---- what is written down ------------------------------------------------------------------------------------------- */

enum { NUMBER_OF, OTHER, PLAIN, SHOWN, WHERE, CONSTANTS, NUMBERS_AT, STEPS };

static struct slotted record_class = {
    .name = "Record", .slots = {"_number", "_other", "_plain", "_shown", "_where", "constants", "numbers", "steps"}};

#define OF_RECORD(object, slot) SLOT(record_class, object, slot)

static PyObject *where_of(number kind, length place) { return PyLong_FromLongLong((number)place * KINDS + kind); }

static PyObject *call_with(PyObject *function, PyObject *argument) {
    PyObject *arguments = tuple_of(1, kept(argument), NULL, NULL, NULL);
    PyObject *found = arguments == NULL ? NULL : PyObject_CallObject(function, arguments);
    if (arguments != NULL) Py_DecRef(arguments);
    return found;
}

/* As `Record.constant`. */
static PyObject *constant_at(PyObject *record, PyObject *found) {
    PyObject *key = PyLong_FromVoidPtr(found), *known = key == NULL ? NULL : entry(OF_RECORD(record, WHERE), key);
    if (known == NULL && key != NULL) {
        length count = PyList_Size(OF_RECORD(record, CONSTANTS));
        if (count >= 0 && !PyList_Append(OF_RECORD(record, CONSTANTS), found))
            known = entered(OF_RECORD(record, WHERE), kept(key), where_of(CONSTANTS_KIND, count));
    }
    if (key != NULL) Py_DecRef(key);
    return known == NULL ? NULL : kept(known);
}

/* As `Record.step`, for a tuple of parts whose reference is taken. */
static PyObject *tuple_step(PyObject *record, PyObject *parts) {
    PyObject *steps = OF_RECORD(record, STEPS), *step = tuple_of(2, kept(none), parts, NULL, NULL);
    PyObject *known = step == NULL ? NULL : entry(steps, step);
    if (known == NULL && step != NULL) known = entered(steps, kept(step), where_of(MADE_KIND, PyDict_Size(steps)));
    if (step != NULL) Py_DecRef(step);
    return known == NULL ? NULL : kept(known);
}

static PyObject *place_in_record(PyObject *record, PyObject *found);

/* As `Record.places`. */
static PyObject *places_of(PyObject *record, PyObject *found) {
    length count = size(found), traced = 0;
    PyObject *places = PyTuple_New(count);
    for (length at = 0; places != NULL && at < count; at++) {
        PyObject *place = place_in_record(record, item(found, at));
        if (place == NULL) {
            Py_DecRef(places);
            return NULL;
        }
        traced += place != none;
        PyTuple_SetItem(places, at, place);
    }
    if (places != NULL && traced == 0) {
        Py_DecRef(places);
        return kept(none);
    }
    for (length at = 0; places != NULL && at < count; at++) {
        if (item(places, at) != none) continue;
        PyObject *place = constant_at(record, item(found, at));
        if (place == NULL) {
            Py_DecRef(places);
            return NULL;
        }
        PyTuple_SetItem(places, at, place); /* what was there is let go */
    }
    return places;
}

/* As `Record.place`, of a Number. */
static PyObject *place_of_number(PyObject *record, PyObject *found) {
    PyObject *key = tuple_of(2, PyLong_FromVoidPtr(OF_NUMBER(found, TERMS)), kept(OF_NUMBER(found, CONSTANT)), NULL, NULL);
    PyObject *known = key == NULL ? NULL : entry(OF_RECORD(record, NUMBERS_AT), key);
    if (known != NULL) Py_IncRef(known);
    if (key != NULL) Py_DecRef(key);
    return known != NULL || key == NULL ? known : call_with(OF_RECORD(record, NUMBER_OF), found);
}

/* As `Record.place`. */
static PyObject *place_in_record(PyObject *record, PyObject *found) {
    PyObject *type = type_of(found);
    if (found == none || type == int_type) return kept(none);
    if (type == number_class.class) return place_of_number(record, found);
    if (type != tuple_type) {
        int is_plain = PySet_Contains(OF_RECORD(record, PLAIN), type);
        if (is_plain) return is_plain < 0 ? NULL : kept(none);
    }
    PyObject *shown = OF_RECORD(record, SHOWN), *key = PyLong_FromVoidPtr(found), *place = NULL;
    PyObject *known = key == NULL ? NULL : entry(shown, key);
    if (known != NULL && kind_of(known) == ROW && size(known) == 2) place = kept(item(known, 0));
    if (known == NULL && key != NULL) {
        place = type == tuple_type ? places_of(record, found) : call_with(OF_RECORD(record, OTHER), found);
        if (place != NULL && place != none && type == tuple_type) place = tuple_step(record, place);
        if (place != NULL && entered(shown, kept(key), tuple_of(2, kept(place), kept(found), NULL, NULL)) == NULL) {
            Py_DecRef(place);
            place = NULL;
        }
    }
    if (key != NULL) Py_DecRef(key);
    return place;
}
