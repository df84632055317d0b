/* Methods: what stands in the places of those in Python, of classes whose objects are known here. */

/* ---- as methods ----------------------------------------------------------------------------------------------------- */

static PyObject *plain_method(int place);

/* The result; that of the method in Python where there is none. */
static PyObject *or_by_method(PyObject *found, int place, PyObject *self, PyObject *const *given, length count) {
    if (found != NULL) return found;
    PyErr_Clear();
    PyObject *arguments = PyTuple_New(count + 1);
    if (arguments == NULL) return NULL;
    PyTuple_SetItem(arguments, 0, kept(self));
    for (length at = 0; at < count; at++) PyTuple_SetItem(arguments, at + 1, kept(given[at]));
    found = PyObject_CallObject(plain_method(place), arguments);
    Py_DecRef(arguments);
    return found;
}

#define METHODS(NOTHING, ONE)                                                                                              \
    ONE(__add__, added(self, other, 1))                                                                                    \
    ONE(__radd__, added(self, other, 1))                                                                                   \
    ONE(__sub__, added(self, other, -1))                                                                                   \
    ONE(__rsub__, turned(self, other))                                                                                     \
    ONE(__mul__, multiplied(self, other))                                                                                  \
    ONE(__rmul__, multiplied(self, other))                                                                                 \
    ONE(__floordiv__, quotient_of(self, other))                                                                            \
    ONE(__mod__, rest_of(self, other))                                                                                     \
    ONE(__lt__, answered(compared(self, other, LESS), 0))                                                                  \
    ONE(__le__, answered(compared(self, other, LESS_OR_EQUAL), 0))                                                         \
    ONE(__gt__, answered(compared(self, other, LESS_OR_EQUAL), 1))                                                         \
    ONE(__ge__, answered(compared(self, other, LESS), 1))                                                                  \
    ONE(__eq__, answered(compared(self, other, SAME), 0))                                                                  \
    NOTHING(__bool__, is_there(self))                                                                                      \
    NOTHING(__neg__, times(self, -1))                                                                                      \
    NOTHING(__index__, pinned(self))                                                                                       \
    NOTHING(__int__, pinned(self))                                                                                         \
    NOTHING(_pinned, pinned(self))

/* And those of sets of bytes. */
#define REGION_METHODS(NOTHING, ONE)                                                                                       \
    ONE(__or__, of_two_regions(either, self, other))                                                                       \
    ONE(__and__, of_two_regions(both, self, other))                                                                        \
    ONE(__sub__, of_two_regions(less, self, other))                                                                        \
    ONE(overlaps, asked(overlap, self, other))                                                                             \
    ONE(contains, asked(contains, self, other))                                                                            \
    ONE(copies, copied_region(self, other))                                                                                \
    ONE(shift, moved_by(self, other))                                                                                      \
    NOTHING(__bool__, is_something(self))

/* And those of iteration domains. */
#define DOMAIN_METHODS(NOTHING, ONE)                                                                                       \
    ONE(bounds, bounds_by(find_bounds, self, other))                                                                       \
    ONE(tight_bounds, bounds_by(find_tight_bounds, self, other))                                                           \
    ONE(fold, folded(self, other))                                                                                         \
    ONE(corner, corner(self, other))                                                                                       \
    ONE(_tighten, tightened(self, other))                                                                                  \
    ONE(require, required(self, other))                                                                                    \
    ONE(within, within(self, other))                                                                                       \
    ONE(ancestors, ancestors(self, other))                                                                                 \
    ONE(is_loose, answered(has_loose(self, other), 0))                                                                     \
    NOTHING(settle, settle_domain(self))                                                                                   \
    NOTHING(outline, outline(self))                                                                                        \
    NOTHING(copy, copied(self))

enum {
#define NAME(name, found) AT_##name,
    METHODS(NAME, NAME)
#undef NAME
    AT_reduced,
    AT_range_of,
#define NAME(name, found) AT_REGION_##name,
    REGION_METHODS(NAME, NAME)
#undef NAME
    AT_clip,
#define NAME(name, found) AT_DOMAIN_##name,
    DOMAIN_METHODS(NAME, NAME)
#undef NAME
    AT_form_plus,
    AT_form_times,
    AT_form_shifted,
    AT_ranges_with,
    AT_columns_of,
    AT_groups,
    AT_bands,
    AT_place,
    AT_places,
    AT_constant,
    COUNT_METHODS
};

static PyObject *answered(int result, int turned) { return result < 0 ? NULL : PyBool_FromLong(result != turned); }

static PyObject *is_there(PyObject *self) {
    struct traced mine;
    if (read_traced(self, &mine)) return NULL;
    return answered(compare(mine.trace, mine.terms, mine.constant, mine.value, SAME), 1);
}

static PyObject *pinned(PyObject *self) {
    struct traced mine;
    if (read_traced(self, &mine)) return NULL;
    int result = compare(mine.trace, mine.terms, mine.constant - mine.value, 0, SAME);
    return result < 0 ? NULL : PyLong_FromLongLong(mine.value);
}

/* An int less a number. */
static PyObject *turned(PyObject *self, PyObject *other) {
    struct traced more;
    if (type_of(other) == number_class.class || read_operand(other, &more) != AN_INT) return NULL;
    PyObject *negated = times(self, -1), *found = negated == NULL ? NULL : added(negated, other, 1);
    if (negated != NULL) Py_DecRef(negated);
    return found;
}

static PyObject *multiplied(PyObject *self, PyObject *other) {
    struct traced mine, more;
    number factor;
    if (type_of(other) != number_class.class) return read_number(other, &factor) ? NULL : times(self, factor);
    return read_traced(self, &mine) || read_traced(other, &more) ? NULL : product(&mine, &more);
}

/* For a divisor above 0. */
static PyObject *quotient_of(PyObject *self, PyObject *other) {
    struct traced mine;
    number divisor;
    if (read_traced(self, &mine) || read_small(other, &divisor) || divisor <= 0) return NULL;
    return divide(&mine, divisor);
}

static PyObject *rest_of(PyObject *self, PyObject *other) {
    PyObject *quotient = quotient_of(self, other);
    PyObject *whole = quotient == NULL ? NULL : PyNumber_Multiply(quotient, other);
    PyObject *found = whole == NULL ? NULL : added(self, whole, -1);
    if (quotient != NULL) Py_DecRef(quotient);
    if (whole != NULL) Py_DecRef(whole);
    return found;
}

#define NOTHING(name, found)                                                                                               \
    static PyObject *method_##name(PyObject *self, PyObject *nothing) {                                                    \
        (void)nothing;                                                                                                     \
        return or_by_method(found, AT_##name, self, NULL, 0);                                                              \
    }
#define ONE(name, found)                                                                                                   \
    static PyObject *method_##name(PyObject *self, PyObject *other) {                                                      \
        return or_by_method(found, AT_##name, self, &other, 1);                                                            \
    }
METHODS(NOTHING, ONE)
#undef NOTHING
#undef ONE
#define NOTHING(name, found)                                                                                               \
    static PyObject *region_method_##name(PyObject *self, PyObject *nothing) {                                             \
        (void)nothing;                                                                                                     \
        return or_by_method(found, AT_REGION_##name, self, NULL, 0);                                                       \
    }
#define ONE(name, found)                                                                                                   \
    static PyObject *region_method_##name(PyObject *self, PyObject *other) {                                               \
        return or_by_method(found, AT_REGION_##name, self, &other, 1);                                                     \
    }
REGION_METHODS(NOTHING, ONE)
#undef NOTHING
#undef ONE
#define NOTHING(name, found)                                                                                               \
    static PyObject *domain_method_##name(PyObject *self, PyObject *nothing) {                                             \
        (void)nothing;                                                                                                     \
        return or_by_method(found, AT_DOMAIN_##name, self, NULL, 0);                                                       \
    }
#define ONE(name, found)                                                                                                   \
    static PyObject *domain_method_##name(PyObject *self, PyObject *other) {                                               \
        return or_by_method(found, AT_DOMAIN_##name, self, &other, 1);                                                     \
    }
DOMAIN_METHODS(NOTHING, ONE)
#undef NOTHING
#undef ONE

static PyObject *method_form_plus(PyObject *self, PyObject *const *given, length n) {
    return or_by_method(form_plus(self, given, n), AT_form_plus, self, given, n);
}

static PyObject *method_form_times(PyObject *self, PyObject *factor) {
    return or_by_method(form_times(self, factor), AT_form_times, self, &factor, 1);
}

static PyObject *method_form_shifted(PyObject *self, PyObject *constant) {
    return or_by_method(form_shifted(self, constant), AT_form_shifted, self, &constant, 1);
}

static PyObject *method_clip(PyObject *self, PyObject *const *given, length n) {
    return or_by_method(clip_given(self, given, n), AT_clip, self, given, n);
}

static PyObject *method_range_of(PyObject *self, PyObject *const *given, length n) {
    return or_by_method(n == 3 ? range_of(self, given[0], given[1], given[2]) : NULL, AT_range_of, self, given, n);
}

static PyObject *method_reduced(PyObject *self, PyObject *const *given, length n) {
    return or_by_method(n == 2 ? reduced(self, given[0], given[1]) : NULL, AT_reduced, self, given, n);
}

static PyObject *method_ranges_with(PyObject *self, PyObject *solution) {
    return or_by_method(ranges_with(self, solution), AT_ranges_with, self, &solution, 1);
}

static PyObject *method_columns_of(PyObject *self, PyObject *const *given, length n) {
    return or_by_method(columns_given(self, given, n), AT_columns_of, self, given, n);
}

static PyObject *method_groups(PyObject *self, PyObject *count) {
    return or_by_method(groups_of(self, count), AT_groups, self, &count, 1);
}

static PyObject *method_bands(PyObject *self, PyObject *groups) {
    return or_by_method(bands_of(self, groups), AT_bands, self, &groups, 1);
}

/* What a function that is called raises is raised. */
static PyObject *method_of_record(PyObject *found, int place, PyObject *self, PyObject *argument) {
    if (found == NULL && PyErr_Occurred() != NULL) return NULL;
    return or_by_method(found, place, self, &argument, 1);
}

static PyObject *method_place(PyObject *self, PyObject *found) {
    return method_of_record(place_in_record(self, found), AT_place, self, found);
}

static PyObject *method_places(PyObject *self, PyObject *found) {
    return method_of_record(type_of(found) == tuple_type ? places_of(self, found) : NULL, AT_places, self, found);
}

static PyObject *method_constant(PyObject *self, PyObject *found) {
    return method_of_record(constant_at(self, found), AT_constant, self, found);
}

/* Methods, by their class; `plain`: the one in Python. */
static struct method {
    struct slotted *of;
    PyMethodDef definition;
    PyObject *plain;
} methods[] = {
#define NOTHING(name, found) {&number_class, {#name, (Fast)(void *)method_##name, TAKES_NOTHING, NULL}, NULL},
#define ONE(name, found) {&number_class, {#name, (Fast)(void *)method_##name, TAKES_ONE, NULL}, NULL},
    METHODS(NOTHING, ONE)
#undef NOTHING
#undef ONE
    {&solution_class, {"reduced", method_reduced, TAKES_ARRAY, NULL}, NULL},
    {&solution_class, {"range_of", method_range_of, TAKES_ARRAY, NULL}, NULL},
#define NOTHING(name, found) {&region_class, {#name, (Fast)(void *)region_method_##name, TAKES_NOTHING, NULL}, NULL},
#define ONE(name, found) {&region_class, {#name, (Fast)(void *)region_method_##name, TAKES_ONE, NULL}, NULL},
    REGION_METHODS(NOTHING, ONE)
#undef NOTHING
#undef ONE
    {&region_class, {"clip", method_clip, TAKES_ARRAY, NULL}, NULL},
#define NOTHING(name, found) {&domain_class, {#name, (Fast)(void *)domain_method_##name, TAKES_NOTHING, NULL}, NULL},
#define ONE(name, found) {&domain_class, {#name, (Fast)(void *)domain_method_##name, TAKES_ONE, NULL}, NULL},
    DOMAIN_METHODS(NOTHING, ONE)
#undef NOTHING
#undef ONE
    {&form_class, {"plus", method_form_plus, TAKES_ARRAY, NULL}, NULL},
    {&form_class, {"times", (Fast)(void *)method_form_times, TAKES_ONE, NULL}, NULL},
    {&form_class, {"shifted", (Fast)(void *)method_form_shifted, TAKES_ONE, NULL}, NULL},
    {&trace_class, {"_ranges_with", (Fast)(void *)method_ranges_with, TAKES_ONE, NULL}, NULL},
    {&tied_rows_class, {"_columns_of", method_columns_of, TAKES_ARRAY, NULL}, NULL},
    {&tied_rows_class, {"_groups", (Fast)(void *)method_groups, TAKES_ONE, NULL}, NULL},
    {&place_class, {"bands", (Fast)(void *)method_bands, TAKES_ONE, NULL}, NULL},
    {&record_class, {"place", (Fast)(void *)method_place, TAKES_ONE, NULL}, NULL},
    {&record_class, {"places", (Fast)(void *)method_places, TAKES_ONE, NULL}, NULL},
    {&record_class, {"constant", (Fast)(void *)method_constant, TAKES_ONE, NULL}, NULL},
};

static PyObject *plain_method(int place) { return methods[place].plain; }

static struct slotted *const slotted_classes[] = {
    &number_class, &trace_class, &solution_class, &region_class, &form_class, &domain_class, &tied_rows_class, &place_class,
    &record_class, &log_class,
};

/* `find_slots` of one of these classes. With the interpreter's lock. */
EXPORTED int32_t vdev_range_slots(const char *name, PyObject *class, PyObject *example, PyObject *values) {
    struct slotted *of = NULL;
    for (size_t at = 0; at < sizeof slotted_classes / sizeof *slotted_classes; at++)
        if (strcmp(slotted_classes[at]->name, name) == 0) of = slotted_classes[at];
    if (of == NULL || !find_slots(of, class, example, values)) return 0;
    if (of == &region_class && !find_empty_region()) of->class = NULL;
    return of->class != NULL;
}

/* What stands in the place of a method in Python, by the names of its class and its own; NULL where there is none. */
EXPORTED PyObject *vdev_range_method(const char *class, const char *name, PyObject *plain) {
    for (int at = 0; at < COUNT_METHODS; at++) {
        struct method *method = &methods[at];
        if (strcmp(method->definition.name, name) || strcmp(method->of->name, class) || method->of->class == NULL) continue;
        if (method->plain == NULL) Py_IncRef(plain);
        method->plain = plain;
        return PyDescr_NewMethod(method->of->class, &method->definition);
    }
    return NULL;
}
