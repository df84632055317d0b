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
