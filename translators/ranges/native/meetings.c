/* What `meetings.py` does, on the same objects and with the same results.
 *
 * The function in Python is the definition. It is called wherever something is not as it mostly is: a number that is no int of 64 bits,
 * such as one that is traced; a set of a subclass; no memory.
 */

/* What is told of a set by its bounds alone: those of one that has no bands, too. */
static int read_bounds(PyObject *object, struct region *region) {
    if (region_class.class == NULL || type_of(object) != region_class.class) return ODD;
    PyObject *start = OF_REGION(object, START), *stop = OF_REGION(object, STOP);
    PyObject *bands = OF_REGION(object, BANDS), *pitches = OF_REGION(object, PITCHES);
    if (start == NULL || stop == NULL || bands == NULL || pitches == NULL || kind_of(pitches) != ROW) return ODD;
    region->object = object;
    region->bands = bands == none ? NULL : bands;
    region->pitches = pitches;
    if (region->bands != NULL && kind_of(bands) != ROW) return ODD;
    return read_number(start, &region->start) || read_number(stop, &region->stop) ? ODD : 0;
}

/* Whether the pitches of two sets go together. */
static int go_together(const struct region *a, const struct region *b) {
    struct units mine, yours, both;
    if (a->pitches == b->pitches) return 1;
    if (read_pitches(a->pitches, &mine) || read_pitches(b->pitches, &yours)) return ODD;
    return merge_units(&mine, &yours, &both) == 0;
}

/* Whether a set may meet another one: 2 where that is told by their bounds. */
static int encounter(const struct region *asked, PyObject *object) {
    struct region held;
    if (read_bounds(object, &held)) return ODD;
    if (are_disjoint(asked, &held)) return 0;
    int together = asked->bands == NULL || held.bands == NULL ? 0 : go_together(asked, &held);
    return together == ODD ? ODD : together ? overlap(asked, &held) : 2;
}

static PyObject *may_meet(PyObject *const *given, length n) {
    struct region asked;
    if (n != 2 || read_bounds(given[1], &asked)) return NULL;
    length count = PyList_Size(given[0]);
    PyObject *found = PyList_New(0);
    number unsure = 0;
    int wrong = found == NULL || count < 0;
    for (length at = 0; !wrong && at < count; at++) {
        PyObject *each = PyList_GetItem(given[0], at);
        int meets = kind_of(each) == ROW && size(each) == 2 ? encounter(&asked, item(each, 1)) : ODD;
        unsure += meets == 2;
        wrong = meets == ODD || (meets && PyList_Append(found, each));
    }
    PyObject *number_of = wrong ? NULL : PyLong_FromLongLong(unsure);
    if (number_of != NULL) return tuple_of(2, found, number_of, NULL, NULL);
    if (found != NULL) Py_DecRef(found);
    return NULL;
}
