/* What `region.py` does most, on the same objects and with the same results: sets of bytes, of bands in their pitches.
 *
 * The methods and functions in Python are the definition. These here stand in their places, and call them wherever something is not
 * as it mostly is: a set in an array of runs, or of a subclass; pitches that do not go together; a number that is no int of 64 bits,
 * such as one that is traced; no memory. They have done nothing then but to note a set's bands in other pitches.
 */

enum { BANDS, CORNERS, FINE, NBOXES, NBYTES, NRUNS, PITCHES, RUNS_LISTED, START, STOP };

static struct slotted region_class = {
    .name = "Region",
    .slots = {"bands", "_corners", "_fine", "_nboxes", "_nbytes", "_nruns", "pitches", "_runs", "start", "stop"},
};
#define OF_REGION(object, slot) SLOT(region_class, object, slot)

/* As in `region.py`. */
enum { MOST_BANDS = 64, FEW_BANDS = 8 };
/* Sets that are united at once. */
enum { MOST_PARTS = 64 };

/* The empty set; what a set has in its slots as long as nobody has asked: -1 and an empty tuple. They are never let go. */
static PyObject *empty_region, *unknown, *no_corners;

struct region {
    PyObject *object, *bands, *pitches; /* borrowed */
    number start, stop;
};

static int read_region(PyObject *object, struct region *region) {
    if (region_class.class == NULL || type_of(object) != region_class.class) return ODD;
    PyObject *bands = OF_REGION(object, BANDS), *pitches = OF_REGION(object, PITCHES);
    PyObject *start = OF_REGION(object, START), *stop = OF_REGION(object, STOP);
    if (bands == NULL || pitches == NULL || start == NULL || stop == NULL) return ODD;
    if (kind_of(bands) != ROW || kind_of(pitches) != ROW) return ODD;
    region->object = object;
    region->bands = bands;
    region->pitches = pitches;
    return read_number(start, &region->start) || read_number(stop, &region->stop) ? ODD : 0;
}

static int is_run(const struct region *region) { return size(region->pitches) == 0 && size(region->bands) == 1; }

static int are_disjoint(const struct region *a, const struct region *b) { return a->stop <= b->start || b->stop <= a->start; }

/* ---- making --------------------------------------------------------------------------------------------------------- */

/* A set of objects whose references are taken. */
static PyObject *new_region(PyObject *bands, PyObject *pitches, PyObject *start, PyObject *stop) {
    PyObject *given[] = {bands, pitches, start, stop}, *made = NULL;
    if (bands != NULL && pitches != NULL && start != NULL && stop != NULL) made = PyType_GenericAlloc(region_class.class, 0);
    if (made == NULL) {
        for (int at = 0; at < 4; at++)
            if (given[at] != NULL) Py_DecRef(given[at]);
        return NULL;
    }
    OF_REGION(made, BANDS) = bands;
    OF_REGION(made, PITCHES) = pitches;
    OF_REGION(made, START) = start;
    OF_REGION(made, STOP) = stop;
    OF_REGION(made, NBYTES) = kept(unknown);
    OF_REGION(made, NRUNS) = kept(unknown);
    OF_REGION(made, NBOXES) = kept(unknown);
    OF_REGION(made, CORNERS) = kept(no_corners);
    OF_REGION(made, FINE) = kept(none);
    OF_REGION(made, RUNS_LISTED) = kept(none);
    return made;
}

/* A single run, the empty set where it has nothing. */
static PyObject *run(number from, number to) {
    if (to <= from) return kept(empty_region);
    PyObject *bands = one_band(from, to, none), *band = bands == NULL ? NULL : item(bands, 0);
    if (band == NULL) return NULL;
    return new_region(bands, PyTuple_New(0), kept(item(band, 0)), kept(item(band, 1)));
}

/* Pitches, and the byte. */
static int read_pitches(PyObject *pitches, struct units *units) {
    length count = size(pitches);
    if (count < 0 || count >= MOST_LEVELS || (count && read_units(pitches, units))) return ODD;
    units->of[count] = 1;
    units->count = count + 1;
    return 0;
}

/* As `region_in`; a reference to the bands is taken. */
static PyObject *region_of(PyObject *bands, PyObject *pitches) {
    struct units units;
    if (bands == NULL) return NULL;
    if (size(bands) == 0) {
        Py_DecRef(bands);
        return kept(empty_region);
    }
    PyObject *parts = read_pitches(pitches, &units) ? NULL : settle(bands, pitches, &units, FEW_BANDS), *found = NULL;
    Py_DecRef(bands);
    if (parts == NULL) return NULL;
    if (size(item(parts, 1)) || size(item(parts, 0)) <= MOST_BANDS) /* others become arrays */
        found = new_region(kept(item(parts, 0)), kept(item(parts, 1)), kept(item(parts, 2)), kept(item(parts, 3)));
    Py_DecRef(parts);
    return found;
}

/* As `bands.span`, of what is not empty. */
static PyObject *span_in(number from, number to, const struct units *units, length level) {
    number unit = units->of[level];
    if (unit == 1) return one_band(from, to, none);
    if (level + 1 >= units->count) return NULL;
    number first = floored(from, unit), last = floored(to, unit), low = from - first * unit, high = to - last * unit;
    struct pieces found;
    int wrong = 0;
    start(&found);
    if (low || first == last) {
        PyObject *inner = span_in(low, first == last ? high : unit, units, level + 1);
        wrong = inner == NULL || push(&found, first, first + 1, inner, NULL);
        if (inner != NULL) Py_DecRef(inner);
        first++;
    }
    if (!wrong && first < last) wrong = push(&found, first, last, none, NULL);
    if (!wrong && high && first <= last) {
        PyObject *inner = span_in(0, high, units, level + 1);
        wrong = inner == NULL || push(&found, last, last + 1, inner, NULL);
        if (inner != NULL) Py_DecRef(inner);
    }
    return finished(&found, wrong, NULL);
}

/* ---- two sets ------------------------------------------------------------------------------------------------------- */

/* Pitches that two sets can have. */
struct joint {
    PyObject *pitches; /* owned */
    struct units units;
};

/* Units of which each has those of both; they have to divide one another. */
static int merge_units(const struct units *a, const struct units *b, struct units *both) {
    length at = 0, other = 0;
    for (both->count = 0; at < a->count || other < b->count;) {
        number mine = at < a->count ? a->of[at] : 0, yours = other < b->count ? b->of[other] : 0;
        number next = larger(mine, yours);
        if (both->count == MOST_LEVELS || (both->count && both->of[both->count - 1] % next)) return ODD;
        both->of[both->count++] = next;
        at += mine == next;
        other += yours == next;
    }
    return 0;
}

static PyObject *pitches_in(const struct units *units) {
    PyObject *pitches = PyTuple_New(units->count - 1);
    for (length at = 0; pitches != NULL && at < units->count - 1; at++) {
        PyObject *pitch = PyLong_FromLongLong(units->of[at]);
        if (pitch != NULL) {
            PyTuple_SetItem(pitches, at, pitch);
            continue;
        }
        Py_DecRef(pitches);
        pitches = NULL;
    }
    return pitches;
}

/* Have pitches of another set, too. */
static int join(struct joint *joint, PyObject *pitches) {
    struct units more, both;
    if (pitches == joint->pitches) return 0;
    if (read_pitches(pitches, &more) || merge_units(&joint->units, &more, &both)) return ODD;
    PyObject *found = joint->pitches;
    if (both.count != joint->units.count) found = both.count == more.count ? kept(pitches) : pitches_in(&both);
    if (found == NULL) return ODD;
    if (found != joint->pitches) Py_DecRef(joint->pitches);
    joint->pitches = found;
    joint->units = both;
    return 0;
}

static int begin_joint(struct joint *joint, const struct region *region) {
    if (read_pitches(region->pitches, &joint->units)) return ODD;
    joint->pitches = kept(region->pitches);
    return 0;
}

/* A set's bands in pitches that have all of its own. */
static PyObject *refined(const struct region *region, const struct joint *joint) {
    if (size(region->pitches) == joint->units.count - 1) return kept(region->bands);
    if (is_run(region)) return span_in(region->start, region->stop, &joint->units, 0);
    PyObject *fine = OF_REGION(region->object, FINE);
    if (fine != NULL && type_of(fine) == tuple_type && size(fine) == 2 && same(item(fine, 0), joint->pitches) == 1)
        return kept(item(fine, 1));
    struct units old;
    PyObject *bands = read_pitches(region->pitches, &old) ? NULL : refine(region->bands, &old, &joint->units);
    PyObject *noted = bands == NULL ? NULL : PyTuple_New(2);
    if (noted != NULL) {
        PyTuple_SetItem(noted, 0, kept(joint->pitches));
        PyTuple_SetItem(noted, 1, kept(bands));
        put_slot(&region_class, region->object, FINE, noted);
    }
    return bands;
}

/* Two sets' bands in pitches that both can have. */
struct pair {
    struct joint joint;
    PyObject *mine, *yours; /* owned */
};

static void part_with(struct pair *pair) {
    Py_DecRef(pair->joint.pitches);
    if (pair->mine != NULL) Py_DecRef(pair->mine);
    if (pair->yours != NULL) Py_DecRef(pair->yours);
}

static int bring_together(struct pair *pair, const struct region *a, const struct region *b) {
    pair->mine = pair->yours = NULL;
    if (begin_joint(&pair->joint, a)) return ODD;
    if (!join(&pair->joint, b->pitches)) {
        pair->mine = refined(a, &pair->joint);
        pair->yours = refined(b, &pair->joint);
    }
    if (pair->mine != NULL && pair->yours != NULL) return 0;
    part_with(pair);
    return ODD;
}

static PyObject *clipped(const struct region *region, number from, number to) {
    if (to <= from || region->stop <= from || to <= region->start) return kept(empty_region);
    if (from <= region->start && region->stop <= to) return kept(region->object);
    from = larger(from, region->start);
    to = smaller(to, region->stop);
    if (is_run(region)) return run(from, to);
    struct units units;
    PyObject *window = read_pitches(region->pitches, &units) ? NULL : span_in(from, to, &units, 0);
    if (window == NULL) return NULL;
    PyObject *found = region_of(intersect(region->bands, window), region->pitches);
    Py_DecRef(window);
    return found;
}

static PyObject *either(const struct region *a, const struct region *b) {
    if (a->object == empty_region || a->object == b->object) return kept(b->object);
    if (b->object == empty_region) return kept(a->object);
    if (is_run(a) && is_run(b) && a->start <= b->stop && b->start <= a->stop) {
        if (a->start <= b->start && b->stop <= a->stop) return kept(a->object);
        return run(smaller(a->start, b->start), larger(a->stop, b->stop));
    }
    struct pair pair;
    if (bring_together(&pair, a, b)) return NULL;
    PyObject *found = region_of(unite(pair.mine, pair.yours, &pair.joint.units, 0), pair.joint.pitches);
    part_with(&pair);
    return found;
}

static PyObject *both(const struct region *a, const struct region *b) {
    if (a->object == b->object) return kept(a->object);
    if (are_disjoint(a, b)) return kept(empty_region);
    if (is_run(a)) return clipped(b, a->start, a->stop);
    if (is_run(b)) return clipped(a, b->start, b->stop);
    struct pair pair;
    if (bring_together(&pair, a, b)) return NULL;
    PyObject *found = region_of(intersect(pair.mine, pair.yours), pair.joint.pitches);
    part_with(&pair);
    return found;
}

/* What two sets that are given as objects have; their references are taken. */
static PyObject *either_of(PyObject *one, PyObject *other) {
    struct region a, b;
    PyObject *found = NULL;
    if (one != NULL && other != NULL && !read_region(one, &a) && !read_region(other, &b)) found = either(&a, &b);
    if (one != NULL) Py_DecRef(one);
    if (other != NULL) Py_DecRef(other);
    return found;
}

static PyObject *less(const struct region *a, const struct region *b) {
    if (a->object == empty_region || b->object == empty_region || are_disjoint(a, b)) return kept(a->object);
    if (is_run(b)) {
        if (b->start <= a->start && a->stop <= b->stop) return kept(empty_region);
        if (is_run(a)) return either_of(run(a->start, b->start), run(b->stop, a->stop));
    } else if (a->object == b->object) {
        return kept(empty_region);
    }
    struct pair pair;
    if (bring_together(&pair, a, b)) return NULL;
    PyObject *found = region_of(subtract(pair.mine, pair.yours, &pair.joint.units, 0), pair.joint.pitches);
    part_with(&pair);
    return found;
}

static int overlap(const struct region *a, const struct region *b) {
    if (a->object == empty_region || b->object == empty_region || are_disjoint(a, b)) return 0;
    if (is_run(a) && is_run(b)) return 1;
    struct pair pair;
    if (bring_together(&pair, a, b)) return ODD;
    int found = meet(pair.mine, pair.yours);
    part_with(&pair);
    return found;
}

static int contains(const struct region *a, const struct region *b) {
    if (b->object == empty_region) return 1;
    if (b->start < a->start || a->stop < b->stop) return 0;
    if (is_run(a)) return 1;
    PyObject *rest = less(b, a);
    if (rest == NULL) return ODD;
    Py_DecRef(rest); /* the empty one lives on */
    return rest == empty_region;
}

/* ---- many sets ------------------------------------------------------------------------------------------------------ */

/* The union of several sets, in pairs; which pitches it needs is looked at once. */
static PyObject *united(const struct region *parts, length count) {
    PyObject *bands[MOST_PARTS] = {NULL}, *found = NULL;
    struct joint joint;
    if (begin_joint(&joint, &parts[0])) return NULL;
    int wrong = 0;
    for (length at = 1; !wrong && at < count; at++) wrong = join(&joint, parts[at].pitches);
    for (length at = 0; !wrong && at < count; at++) wrong = (bands[at] = refined(&parts[at], &joint)) == NULL;
    for (length left = count; !wrong && left > 1; left = (left + 1) / 2) {
        for (length at = 0; !wrong && at + 1 < left; at += 2) {
            PyObject *of_both = unite(bands[at], bands[at + 1], &joint.units, 0);
            Py_DecRef(bands[at]);
            Py_DecRef(bands[at + 1]);
            bands[at] = bands[at + 1] = NULL;
            bands[at / 2] = of_both;
            wrong = of_both == NULL;
        }
        if (!wrong && left % 2 && left > 1) {
            PyObject *last = bands[left - 1];
            bands[left - 1] = NULL;
            bands[left / 2] = last;
        }
    }
    if (!wrong) {
        found = region_of(bands[0], joint.pitches);
        bands[0] = NULL;
    }
    for (length at = 0; at < count; at++)
        if (bands[at] != NULL) Py_DecRef(bands[at]);
    Py_DecRef(joint.pitches);
    return found;
}

static PyObject *union_of(PyObject *given) {
    struct region parts[MOST_PARTS];
    length count = 0;
    if (region_class.class == NULL || kind_of(given) != ROW) return NULL;
    for (length at = 0; at < size(given); at++) {
        PyObject *part = item(given, at);
        if (part == empty_region) continue;
        if (count == MOST_PARTS || read_region(part, &parts[count++])) return NULL;
    }
    if (count == 0) return kept(empty_region);
    if (count == 1) return kept(parts[0].object);
    return count == 2 ? either(&parts[0], &parts[1]) : united(parts, count);
}

/* ---- as methods and functions --------------------------------------------------------------------------------------- */

static PyObject *of_two_regions(PyObject *(*function)(const struct region *, const struct region *), PyObject *self, PyObject *other) {
    struct region a, b;
    return read_region(self, &a) || read_region(other, &b) ? NULL : function(&a, &b);
}

static PyObject *asked(int (*question)(const struct region *, const struct region *), PyObject *self, PyObject *other) {
    struct region a, b;
    int found = read_region(self, &a) || read_region(other, &b) ? ODD : question(&a, &b);
    return found < 0 ? NULL : PyBool_FromLong(found);
}

static PyObject *is_something(PyObject *self) { return PyBool_FromLong(self != empty_region); }

static PyObject *moved_by(PyObject *self, PyObject *distance) {
    struct region region;
    struct units units;
    number offset, from, to;
    if (read_region(self, &region) || read_number(distance, &offset)) return NULL;
    if (offset == 0 || self == empty_region) return kept(self);
    if (__builtin_add_overflow(region.start, offset, &from) || __builtin_add_overflow(region.stop, offset, &to)) return NULL;
    if (is_run(&region)) return run(from, to);
    return read_pitches(region.pitches, &units) ? NULL : region_of(shift(region.bands, offset, &units, 0), region.pitches);
}

static PyObject *clip_given(PyObject *self, PyObject *const *given, length n) {
    struct region region;
    number from, to;
    if (n != 2 || read_region(self, &region) || read_number(given[0], &from) || read_number(given[1], &to)) return NULL;
    return clipped(&region, from, to);
}

static PyObject *run_given(PyObject *const *given, length n) {
    number from, to;
    if (region_class.class == NULL || n != 2 || read_number(given[0], &from) || read_number(given[1], &to)) return NULL;
    return run(from, to);
}

static PyObject *region_given(PyObject *const *given, length n) {
    if (region_class.class == NULL || n != 2 || kind_of(given[0]) != ROW || kind_of(given[1]) != ROW) return NULL;
    return region_of(kept(given[0]), given[1]);
}

/* Whether what sets have in common was found; comes once it is known where their slots are. */
static int find_empty_region(void) {
    if (empty_region != NULL) return 1;
    PyObject *ask = PyObject_GetAttrString(region_class.class, "empty"), *nothing = PyTuple_New(0);
    PyObject *found = ask == NULL || nothing == NULL ? NULL : PyObject_CallObject(ask, nothing);
    if (ask != NULL) Py_DecRef(ask);
    if (found == NULL || type_of(found) != region_class.class) {
        PyErr_Clear();
        if (found != NULL) Py_DecRef(found);
        if (nothing != NULL) Py_DecRef(nothing);
        return 0;
    }
    unknown = PyLong_FromLongLong(-1);
    no_corners = nothing;
    empty_region = found;
    return unknown != NULL;
}
