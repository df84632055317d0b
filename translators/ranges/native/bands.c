/* libvdev_ranges.so, with the other files in it: what `bands.py` and `labelled_bands.py` do most, on the same tuples and with the same results.
 *
 * The functions in Python are the definition. These here stand in their places, and call them wherever something is not as it mostly
 * is: a number that is no int of 64 bits, such as one that is traced (`tracing.py`); no memory. They have done nothing then, for
 * what they work with never changes. Sets and maps with labels are one thing here: what stands in the place of what is inside a
 * band (a *leaf*) is None in a set, and an int, the label, in a map.
 */
#include "python.h"

/* Whether two things that stand inside of bands are equal. Labels may have any number of bits. */
static int same(PyObject *a, PyObject *b) {
    if (a == b) return 1;
    int kind = kind_of(a), other = kind_of(b);
    if (kind == ODD || other == ODD) return ODD;
    if (kind != other) return 0;
    if (kind == LEAF) return a == none || b == none ? 0 : PyObject_RichCompareBool(a, b, EQUAL);
    length count = size(a);
    if (size(b) != count) return 0;
    for (length at = 0; at < count; at++) {
        int found = same(item(a, at), item(b, at));
        if (found != 1) return found;
    }
    return 1;
}

/* ---- reading bands -------------------------------------------------------------------------------------------------- */

struct band {
    number lo, hi;
    PyObject *inner, *object; /* borrowed */
};

static int read_band(PyObject *object, struct band *band) {
    if (kind_of(object) != ROW || size(object) != 3) return ODD;
    band->object = object;
    band->inner = item(object, 2);
    return read_number(item(object, 0), &band->lo) || read_number(item(object, 1), &band->hi) ? ODD : 0;
}

/* Bands one after the other; behind the last one `band` lies behind all digits. */
struct walk {
    PyObject *bands;
    length at, count;
    struct band band;
};

static int step_to(struct walk *walk, length at) {
    walk->at = at;
    if (at < walk->count) return read_band(item(walk->bands, at), &walk->band);
    walk->band.lo = walk->band.hi = LLONG_MAX;
    walk->band.inner = walk->band.object = NULL;
    return 0;
}

static int step(struct walk *walk) { return step_to(walk, walk->at + 1); }
static int goes_on(const struct walk *walk) { return walk->at < walk->count; }

static int begin(struct walk *walk, PyObject *bands) {
    walk->bands = bands;
    walk->count = size(bands);
    return walk->count < 0 ? ODD : step_to(walk, 0);
}

/* The first band from the current one on that ends behind a digit, or at it where `touching`. */
static int skip_to(struct walk *walk, number digit, int touching) {
    length low = walk->at, high = walk->count;
    struct band band;
    if (low < high && (walk->band.hi > digit || (touching && walk->band.hi == digit))) return 0; /* as mostly */
    while (low < high) {
        length middle = low + (high - low) / 2;
        if (read_band(item(walk->bands, middle), &band)) return ODD;
        if (band.hi > digit || (touching && band.hi == digit)) high = middle;
        else low = middle + 1;
    }
    return step_to(walk, low);
}

/* ---- making bands --------------------------------------------------------------------------------------------------- */

struct piece {
    number lo, hi;
    PyObject *inner;  /* NULL: not read from `object` yet */
    PyObject *object; /* the tuple that it is, if there is one; both are owned */
};

enum { FEW = 24 };
struct pieces {
    struct piece *items, few[FEW];
    length count, room;
};

static void start(struct pieces *pieces) {
    pieces->items = pieces->few;
    pieces->count = 0;
    pieces->room = FEW;
}

static void drop_all(struct pieces *pieces) {
    for (length at = 0; at < pieces->count; at++) {
        if (pieces->items[at].inner != NULL) Py_DecRef(pieces->items[at].inner);
        if (pieces->items[at].object != NULL) Py_DecRef(pieces->items[at].object);
    }
    pieces->count = 0;
}

static void discard(struct pieces *pieces) {
    drop_all(pieces);
    if (pieces->items != pieces->few) free(pieces->items);
}

static struct piece *one_more(struct pieces *pieces) {
    if (pieces->count == pieces->room) {
        size_t nbytes = 2 * (size_t)pieces->room * sizeof(struct piece);
        struct piece *more = malloc(nbytes);
        if (more == NULL) return NULL;
        memcpy(more, pieces->items, (size_t)pieces->count * sizeof(struct piece));
        if (pieces->items != pieces->few) free(pieces->items);
        pieces->items = more;
        pieces->room *= 2;
    }
    return &pieces->items[pieces->count++];
}

static int push(struct pieces *pieces, number lo, number hi, PyObject *inner, PyObject *object) {
    struct piece *piece = one_more(pieces);
    if (piece == NULL) return ODD;
    *piece = (struct piece){lo, hi, inner, object};
    if (inner != NULL) Py_IncRef(inner);
    if (object != NULL) Py_IncRef(object);
    return 0;
}

/* The next piece, joined with the last one where it goes on. `object`: the band that it is, or NULL. */
static int append(struct pieces *pieces, number lo, number hi, PyObject *inner, PyObject *object) {
    if (pieces->count) {
        struct piece *last = &pieces->items[pieces->count - 1];
        if (last->inner == NULL) {
            struct band band;
            if (read_band(last->object, &band)) return ODD;
            last->lo = band.lo, last->hi = band.hi, last->inner = band.inner;
            Py_IncRef(last->inner);
        }
        if (last->hi == lo) {
            int found = same(last->inner, inner);
            if (found < 0) return ODD;
            if (found) {
                last->hi = hi;
                if (last->object != NULL) Py_DecRef(last->object);
                last->object = NULL;
                return 0;
            }
        }
    }
    return push(pieces, lo, hi, inner, object);
}

/* A part of a band, which is the band itself where it is all of it. */
static int append_part(struct pieces *pieces, number lo, number hi, const struct band *band) {
    return append(pieces, lo, hi, band->inner, lo == band->lo && hi == band->hi ? band->object : NULL);
}

/* The bands of a tuple from `first` up to `stop`, of which only the first can go on where the last piece ends. */
static int append_bands(struct pieces *pieces, PyObject *bands, length first, length stop) {
    for (length at = first; at < stop; at++) {
        PyObject *object = item(bands, at);
        if (at == first && pieces->count) {
            struct band band;
            if (read_band(object, &band) || append_part(pieces, band.lo, band.hi, &band)) return ODD;
        } else if (object == NULL || push(pieces, 0, 0, NULL, object)) {
            return ODD;
        }
    }
    return 0;
}

/* The rest of a walk, whose current band is there from `lo` on. */
static int append_rest(struct pieces *pieces, struct walk *walk, number lo) {
    if (!goes_on(walk)) return 0;
    if (append_part(pieces, lo, walk->band.hi, &walk->band)) return ODD;
    for (length at = walk->at + 1; at < walk->count; at++) {
        PyObject *object = item(walk->bands, at);
        if (object == NULL || push(pieces, 0, 0, NULL, object)) return ODD;
    }
    return 0;
}

static PyObject *new_band(number lo, number hi, PyObject *inner) {
    PyObject *band = PyTuple_New(3), *low = PyLong_FromLongLong(lo), *high = PyLong_FromLongLong(hi);
    if (band == NULL || low == NULL || high == NULL) {
        if (band != NULL) Py_DecRef(band);
        if (low != NULL) Py_DecRef(low);
        if (high != NULL) Py_DecRef(high);
        return NULL;
    }
    Py_IncRef(inner);
    PyTuple_SetItem(band, 0, low);
    PyTuple_SetItem(band, 1, high);
    PyTuple_SetItem(band, 2, inner);
    return band;
}

static PyObject *one_band(number lo, number hi, PyObject *inner) {
    PyObject *band = new_band(lo, hi, inner), *bands = band == NULL ? NULL : PyTuple_New(1);
    if (bands != NULL) PyTuple_SetItem(bands, 0, band);
    else if (band != NULL) Py_DecRef(band);
    return bands;
}

/* Whether the pieces are the bands of a tuple. */
static int are(const struct pieces *pieces, PyObject *bands) {
    if (bands == NULL || size(bands) != pieces->count) return 0;
    for (length at = 0; at < pieces->count; at++)
        if (pieces->items[at].object == NULL || pieces->items[at].object != item(bands, at)) return 0;
    return 1;
}

/* The pieces as a tuple, which is `like` where they are its bands, and not for `wrong`. Nothing is left of the pieces. */
static PyObject *finished(struct pieces *pieces, int wrong, PyObject *like) {
    PyObject *made = NULL;
    if (!wrong && are(pieces, like)) {
        made = like;
        Py_IncRef(made);
    } else if (!wrong) {
        made = PyTuple_New(pieces->count);
        for (length at = 0; made != NULL && at < pieces->count; at++) {
            struct piece *piece = &pieces->items[at];
            PyObject *band = piece->object;
            if (band != NULL) Py_IncRef(band);
            else band = new_band(piece->lo, piece->hi, piece->inner);
            if (band == NULL) {
                Py_DecRef(made);
                made = NULL;
                break;
            }
            PyTuple_SetItem(made, at, band);
        }
    }
    discard(pieces);
    return made;
}

/* ---- units ---------------------------------------------------------------------------------------------------------- */

enum { MOST_LEVELS = 16 };
struct units {
    number of[MOST_LEVELS];
    length count;
};

static int read_units(PyObject *object, struct units *units) {
    if (kind_of(object) != ROW) return ODD;
    units->count = size(object);
    if (units->count < 1 || units->count > MOST_LEVELS) return ODD;
    for (length at = 0; at < units->count; at++)
        if (read_number(item(object, at), &units->of[at]) || units->of[at] < 1) return ODD;
    return 0;
}

static int read_level(PyObject *object, const struct units *units, length *level) {
    number value;
    if (read_number(object, &value) || value < 0 || value >= units->count) return ODD;
    *level = (length)value;
    return 0;
}

/* How many digits of the next level are one of this. */
static number size_of(const struct units *units, length level) {
    return level + 1 < units->count ? units->of[level] / units->of[level + 1] : 0;
}

/* What is inside of a digit as bands: NULL stands for nothing. */
static PyObject *opened(PyObject *inner, number digits) {
    if (inner == NULL) return PyTuple_New(0);
    int kind = kind_of(inner);
    if (kind == LEAF) return digits ? one_band(0, digits, inner) : NULL;
    if (kind == ODD) return NULL;
    Py_IncRef(inner);
    return inner;
}

/* Bands, whose reference is taken, or their leaf where they are all of so many digits and have the same. */
static PyObject *unless_whole(PyObject *bands, number digits) {
    struct band band;
    if (bands == NULL || size(bands) != 1) return bands;
    if (read_band(item(bands, 0), &band)) {
        Py_DecRef(bands);
        return NULL;
    }
    if (band.lo != 0 || band.hi != digits || kind_of(band.inner) != LEAF) return bands;
    Py_IncRef(band.inner);
    Py_DecRef(bands);
    return band.inner;
}

/* ---- two sets ------------------------------------------------------------------------------------------------------- */

static number larger(number a, number b) { return a > b ? a : b; }
static number smaller(number a, number b) { return a < b ? a : b; }

/* A set, every member with a label. */
static PyObject *painted(PyObject *bands, PyObject *label) {
    struct pieces found;
    struct walk walk;
    int wrong = begin(&walk, bands);
    start(&found);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        if (walk.band.inner == none) {
            wrong = push(&found, walk.band.lo, walk.band.hi, label, NULL);
            continue;
        }
        PyObject *inner = kind_of(walk.band.inner) == ROW ? painted(walk.band.inner, label) : NULL;
        wrong = inner == NULL || push(&found, walk.band.lo, walk.band.hi, inner, NULL);
        if (inner != NULL) Py_DecRef(inner);
    }
    return finished(&found, wrong, NULL);
}

static PyObject *intersect(PyObject *a, PyObject *b);

/* What a digit has inside of what a set has of it; an empty tuple where that is nothing. */
static PyObject *inside_both(PyObject *mine, PyObject *set) {
    if (set == none || mine == set) {
        Py_IncRef(mine);
        return mine;
    }
    int kind = kind_of(mine);
    if (kind == ODD || kind_of(set) != ROW) return NULL;
    if (kind == ROW) return intersect(mine, set);
    if (mine != none) return painted(set, mine);
    Py_IncRef(set);
    return set;
}

static int is_nothing(PyObject *inner) { return inner != none && kind_of(inner) == ROW && size(inner) == 0; }

/* What of a set, or of a map, lies in a set. */
static PyObject *intersect(PyObject *a, PyObject *b) {
    struct pieces found;
    struct walk mine, yours;
    start(&found);
    int wrong = begin(&mine, a) || begin(&yours, b);
    while (!wrong && goes_on(&mine) && goes_on(&yours)) {
        if (mine.band.hi <= yours.band.lo) {
            wrong = skip_to(&mine, yours.band.lo, 0);
            continue;
        }
        if (yours.band.hi <= mine.band.lo) {
            wrong = skip_to(&yours, mine.band.lo, 0);
            continue;
        }
        number lo = larger(mine.band.lo, yours.band.lo), hi = smaller(mine.band.hi, yours.band.hi);
        PyObject *inner = inside_both(mine.band.inner, yours.band.inner);
        if (inner == NULL) {
            wrong = 1;
            break;
        }
        if (!is_nothing(inner)) {
            PyObject *object = NULL;
            if (inner == mine.band.inner && lo == mine.band.lo && hi == mine.band.hi) object = mine.band.object;
            else if (inner == yours.band.inner && lo == yours.band.lo && hi == yours.band.hi) object = yours.band.object;
            wrong = append(&found, lo, hi, inner, object);
        }
        Py_DecRef(inner);
        int further = mine.band.hi <= yours.band.hi, both = mine.band.hi == yours.band.hi;
        if (!wrong && further) wrong = step(&mine);
        if (!wrong && (both || !further)) wrong = step(&yours);
    }
    return finished(&found, wrong, a);
}

/* Whether two sets have a member in common. */
static int meet(PyObject *a, PyObject *b) {
    struct walk mine, yours;
    if (begin(&mine, a) || begin(&yours, b)) return ODD;
    while (goes_on(&mine) && goes_on(&yours)) {
        if (mine.band.hi <= yours.band.lo) {
            if (skip_to(&mine, yours.band.lo, 0)) return ODD;
            continue;
        }
        if (yours.band.hi <= mine.band.lo) {
            if (skip_to(&yours, mine.band.lo, 0)) return ODD;
            continue;
        }
        PyObject *first = mine.band.inner, *second = yours.band.inner;
        int found = first == none || second == none || first == second ? 1 : meet(first, second);
        if (found) return found;
        if (mine.band.hi <= yours.band.hi ? step(&mine) : step(&yours)) return ODD;
    }
    return 0;
}

static PyObject *unite(PyObject *a, PyObject *b, const struct units *units, length level);

/* What a digit has that two have: all of both, and in maps the labels of both. */
static PyObject *united_inside(PyObject *a, PyObject *b, const struct units *units, length level) {
    if (a == b || a == none || b == none) {
        PyObject *found = a == b ? a : none;
        Py_IncRef(found);
        return found;
    }
    int kind = kind_of(a), other = kind_of(b);
    if (kind == ODD || other == ODD) return NULL;
    if (kind == LEAF && other == LEAF) return PyNumber_Or(a, b);
    number digits = size_of(units, level);
    PyObject *mine = opened(a, digits), *yours = opened(b, digits), *found = NULL;
    if (digits && mine != NULL && yours != NULL) found = unless_whole(unite(mine, yours, units, level + 1), digits);
    if (mine != NULL) Py_DecRef(mine);
    if (yours != NULL) Py_DecRef(yours);
    return found;
}

/* The bands of a walk that end before a digit, as they are. */
static int copy_before(struct pieces *pieces, struct walk *walk, number digit) {
    length first = walk->at;
    return skip_to(walk, digit, 1) || append_bands(pieces, walk->bands, first, walk->at);
}

/* What either has. */
static PyObject *unite(PyObject *a, PyObject *b, const struct units *units, length level) {
    struct pieces found;
    struct walk mine, yours;
    start(&found);
    int wrong = begin(&mine, a) || begin(&yours, b);
    if (!wrong && goes_on(&yours)) wrong = copy_before(&found, &mine, yours.band.lo);
    if (!wrong && !found.count && goes_on(&mine)) wrong = copy_before(&found, &yours, mine.band.lo);
    number alo = mine.band.lo, blo = yours.band.lo;
    while (!wrong && goes_on(&mine) && goes_on(&yours)) {
        number end;
        if (alo != blo) {
            struct walk *earlier = alo < blo ? &mine : &yours;
            end = smaller(earlier->band.hi, larger(alo, blo));
            wrong = append_part(&found, smaller(alo, blo), end, &earlier->band);
            if (alo < blo) alo = end;
            else blo = end;
        } else {
            end = smaller(mine.band.hi, yours.band.hi);
            PyObject *inner = united_inside(mine.band.inner, yours.band.inner, units, level);
            if (inner == NULL) {
                wrong = 1;
                break;
            }
            PyObject *object = NULL;
            if (inner == mine.band.inner && alo == mine.band.lo && end == mine.band.hi) object = mine.band.object;
            wrong = append(&found, alo, end, inner, object);
            Py_DecRef(inner);
            alo = blo = end;
        }
        if (!wrong && alo == mine.band.hi) {
            wrong = step(&mine);
            alo = mine.band.lo;
        }
        if (!wrong && blo == yours.band.hi) {
            wrong = step(&yours);
            blo = yours.band.lo;
        }
    }
    wrong = wrong || append_rest(&found, &mine, alo) || append_rest(&found, &yours, blo);
    return finished(&found, wrong, a);
}

/* The members of `a` that `b` has not. */
static PyObject *subtract(PyObject *a, PyObject *b, const struct units *units, length level) {
    struct pieces found;
    struct walk mine, yours;
    start(&found);
    int wrong = begin(&mine, a) || begin(&yours, b);
    if (!wrong && goes_on(&yours)) wrong = copy_before(&found, &mine, yours.band.lo);
    number lo = mine.band.lo;
    while (!wrong && goes_on(&mine) && goes_on(&yours)) {
        if (yours.band.hi <= lo) {
            wrong = skip_to(&yours, lo, 0);
            continue;
        }
        if (lo < yours.band.lo) {
            number end = smaller(mine.band.hi, yours.band.lo);
            wrong = append_part(&found, lo, end, &mine.band);
            lo = end;
        } else {
            number end = smaller(mine.band.hi, yours.band.hi);
            PyObject *first = mine.band.inner, *second = yours.band.inner;
            if (first != second && second != none) {
                number digits = size_of(units, level);
                PyObject *own = opened(first, digits), *inner = NULL;
                if (digits && own != NULL) inner = subtract(own, second, units, level + 1);
                if (own != NULL) Py_DecRef(own);
                if (inner == NULL) {
                    wrong = 1;
                    break;
                }
                int all = inner == first && lo == mine.band.lo && end == mine.band.hi;
                if (size(inner)) wrong = append(&found, lo, end, inner, all ? mine.band.object : NULL);
                Py_DecRef(inner);
            }
            lo = end;
        }
        if (!wrong && lo == mine.band.hi) {
            wrong = step(&mine);
            lo = mine.band.lo;
        }
    }
    wrong = wrong || append_rest(&found, &mine, lo);
    return finished(&found, wrong, a);
}

/* ---- a map, a window and what is put there -------------------------------------------------------------------------- */

static PyObject *put(PyObject *a, PyObject *window, PyObject *inside, const struct units *units, length level);

/* What a digit has, NULL for nothing, with something else in a set of the next level's digits; an empty tuple for nothing. */
static PyObject *put_inside(
    PyObject *outer, PyObject *window, PyObject *inside, const struct units *units, length level
) {
    number digits = size_of(units, level);
    PyObject *around = opened(outer, digits), *within = opened(inside, digits), *found = NULL;
    if (digits && around != NULL && within != NULL)
        found = unless_whole(put(around, window, within, units, level + 1), digits);
    if (around != NULL) Py_DecRef(around);
    if (within != NULL) Py_DecRef(within);
    if (found == NULL || outer == NULL || found == outer) return found;
    int equal = same(found, outer); /* what has not changed is the same object, and later found to be so at once */
    if (equal) {
        Py_DecRef(found);
        found = equal < 0 ? NULL : outer;
        if (found != NULL) Py_IncRef(found);
    }
    return found;
}

/* One step of `put`: the digits up to the next at which something else begins; where they end. */
static int put_next(
    struct pieces *found, struct walk *map, struct walk *window, struct walk *inside, const struct units *units,
    length level, number *at
) {
    number first = larger(*at, smaller(map->band.lo, window->band.lo));
    int in_map = map->band.lo <= first, in_window = window->band.lo <= first, is_put = inside->band.lo <= first;
    number stop = in_map ? map->band.hi : map->band.lo;
    stop = smaller(stop, in_window ? window->band.hi : window->band.lo);
    stop = smaller(stop, is_put ? inside->band.hi : inside->band.lo);
    *at = stop;
    if (!in_window) return in_map ? append_part(found, first, stop, &map->band) : 0;
    if (window->band.inner == none) return is_put ? append_part(found, first, stop, &inside->band) : 0;
    PyObject *outer = in_map ? map->band.inner : NULL;
    PyObject *inner = put_inside(outer, window->band.inner, is_put ? inside->band.inner : NULL, units, level);
    if (inner == NULL) return ODD;
    int all = inner == outer && first == map->band.lo && stop == map->band.hi;
    int wrong = is_nothing(inner) ? 0 : append(found, first, stop, inner, all ? map->band.object : NULL);
    Py_DecRef(inner);
    return wrong;
}

/* A map outside of a set, and `inside`, which lies in it, there. */
static PyObject *put(PyObject *a, PyObject *window, PyObject *inside, const struct units *units, length level) {
    struct pieces found;
    struct walk map, where, what;
    start(&found);
    int wrong = begin(&map, a) || begin(&where, window) || begin(&what, inside);
    if (!wrong && goes_on(&where)) wrong = copy_before(&found, &map, where.band.lo);
    number at = LLONG_MIN;
    while (!wrong && goes_on(&where)) {
        wrong = put_next(&found, &map, &where, &what, units, level, &at);
        while (!wrong && goes_on(&map) && map.band.hi <= at) wrong = step(&map);
        while (!wrong && goes_on(&where) && where.band.hi <= at) wrong = step(&where);
        while (!wrong && goes_on(&what) && what.band.hi <= at) wrong = step(&what);
    }
    wrong = wrong || goes_on(&what); /* something lies outside of the window */
    wrong = wrong || append_rest(&found, &map, larger(map.band.lo, at));
    return finished(&found, wrong, a);
}

/* The pattern of a map, whose numbers are added to a list. */
static PyObject *pattern(PyObject *bands, PyObject *numbers, PyObject *gap) {
    length count = size(bands), gaps = 0, at = 0;
    struct band band;
    number end = 0;
    if (count < 0) return NULL;
    for (length number_of = 0; number_of < count; number_of++) {
        if (read_band(item(bands, number_of), &band)) return NULL;
        gaps += number_of == 0 || band.lo != end;
        end = band.hi;
    }
    PyObject *found = PyTuple_New(count + gaps);
    for (length number_of = 0; found != NULL && number_of < count; number_of++) {
        int wrong = read_band(item(bands, number_of), &band);
        if (!wrong && (number_of == 0 || band.lo != end)) {
            Py_IncRef(gap);
            PyTuple_SetItem(found, at++, gap);
            wrong = PyList_Append(numbers, item(band.object, 0));
        }
        end = band.hi;
        wrong = wrong || PyList_Append(numbers, item(band.object, 1));
        PyObject *item = NULL;
        int kind = wrong ? ODD : kind_of(band.inner);
        if (kind == ROW) item = pattern(band.inner, numbers, gap);
        if (kind == LEAF && band.inner != none) Py_IncRef(item = band.inner);
        if (item == NULL) {
            Py_DecRef(found);
            return NULL;
        }
        PyTuple_SetItem(found, at++, item);
    }
    return found;
}

/* ---- a map, by name ------------------------------------------------------------------------------------------------- */

/* Of as many workers as there may be, and of two neighbours each. */
enum { MOST_NAMES = 160 };

/* Things by what they are told apart by; all references are owned. */
struct groups {
    length count;
    PyObject *names[MOST_NAMES];
    struct pieces of[MOST_NAMES];
};
struct naming {
    PyObject *ask; /* gives the names of a label, as a tuple */
    length count;  /* the labels that it was asked for, and what it gave; references are owned */
    PyObject *labels[MOST_NAMES], *names[MOST_NAMES];
};

/* Where an object equal to `wanted` is among others, `count` where none is. */
static length place_of(PyObject *const *objects, length count, PyObject *wanted) {
    for (length at = 0; at < count; at++)
        if (objects[at] == wanted) return at;
    for (length at = 0; at < count; at++) {
        int equal = PyObject_RichCompareBool(objects[at], wanted, EQUAL);
        if (equal) return equal < 0 ? ODD : at;
    }
    return count;
}

static struct groups *no_groups(void) {
    struct groups *groups = malloc(sizeof *groups);
    if (groups != NULL) groups->count = 0;
    return groups;
}

static void discard_groups(struct groups *groups) {
    for (length at = 0; at < groups->count; at++) {
        Py_DecRef(groups->names[at]);
        discard(&groups->of[at]);
    }
    free(groups);
}

/* The pieces with a name. */
static struct pieces *named(struct groups *groups, PyObject *name) {
    length at = place_of(groups->names, groups->count, name);
    if (at < 0 || at == MOST_NAMES) return NULL;
    if (at == groups->count) {
        Py_IncRef(groups->names[groups->count++] = name);
        start(&groups->of[at]);
    }
    return &groups->of[at];
}

/* The names of a label, borrowed. */
static PyObject *names_of(struct naming *naming, PyObject *label) {
    length at = place_of(naming->labels, naming->count, label);
    if (at < 0 || at == MOST_NAMES) return NULL;
    if (at < naming->count) return naming->names[at];
    PyObject *arguments = PyTuple_New(1);
    if (arguments == NULL) return NULL;
    Py_IncRef(label);
    PyTuple_SetItem(arguments, 0, label);
    PyObject *names = PyObject_CallObject(naming->ask, arguments);
    Py_DecRef(arguments);
    if (names == NULL) return NULL;
    if (type_of(names) != tuple_type) {
        Py_DecRef(names);
        return NULL;
    }
    Py_IncRef(naming->labels[at] = label);
    naming->names[at] = names;
    naming->count++;
    return names;
}

static int tell_apart(PyObject *bands, const struct units *units, length level, struct naming *naming, struct groups *found);

/* The same for the inside of digits from `lo` to `hi`, which has so many digits of its own. */
static int tell_row_apart(
    const struct band *band, const struct units *units, length level, struct naming *naming, struct groups *found
) {
    struct groups *inside = no_groups();
    int wrong = inside == NULL || level + 1 >= units->count || tell_apart(band->inner, units, level + 1, naming, inside);
    for (length at = 0; !wrong && at < inside->count; at++) {
        struct pieces *pieces = named(found, inside->names[at]);
        PyObject *below = finished(&inside->of[at], 0, NULL);
        start(&inside->of[at]); /* nothing is left of it */
        if (below != NULL) below = unless_whole(below, size_of(units, level));
        wrong = pieces == NULL || below == NULL || append(pieces, band->lo, band->hi, below, NULL);
        if (below != NULL) Py_DecRef(below);
    }
    if (inside != NULL) discard_groups(inside);
    return wrong ? ODD : 0;
}

/* By name, the set of those whose labels have it. */
static int tell_apart(PyObject *bands, const struct units *units, length level, struct naming *naming, struct groups *found) {
    struct walk walk;
    int wrong = begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        int kind = walk.band.inner == none ? ODD : kind_of(walk.band.inner);
        if (kind == ROW) {
            wrong = tell_row_apart(&walk.band, units, level, naming, found);
            continue;
        }
        PyObject *names = kind == LEAF ? names_of(naming, walk.band.inner) : NULL;
        wrong = names == NULL;
        for (length at = 0; !wrong && at < size(names); at++) {
            struct pieces *pieces = named(found, item(names, at));
            wrong = pieces == NULL || append(pieces, walk.band.lo, walk.band.hi, none, NULL);
        }
    }
    return wrong ? ODD : 0;
}

/* Whether bands in which no digit is missing go from one number to another, in units of the last level. */
static int is_span(PyObject *bands, number from, number to, const struct units *units, length level) {
    number unit = units->of[level];
    if (from % unit || to % unit) return 0;
    number end = from / unit;
    struct walk walk;
    int wrong = begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = step(&walk)) {
        if (walk.band.lo != end) return 0;
        int kind = walk.band.inner == none ? ODD : kind_of(walk.band.inner);
        if (kind == ODD || (kind == ROW && level + 1 >= units->count)) return ODD;
        int whole = kind == LEAF ? 1 : is_span(walk.band.inner, 0, unit, units, level + 1);
        if (whole != 1) return whole;
        end = walk.band.hi;
    }
    return wrong ? ODD : end == to / unit;
}

/* ---- one set -------------------------------------------------------------------------------------------------------- */

/* A quotient that is rounded down, of a divisor above 0. */
static number floored(number value, number divisor) { return value / divisor - (value % divisor < 0); }

/* One digit as two, the lower one of `ratio` values. */
static PyObject *split(PyObject *bands, number ratio) {
    struct pieces found, parts; /* of the row that is not complete yet */
    struct walk walk;
    number open_row = 0;
    start(&found);
    start(&parts);
    int wrong = ratio < 1 || begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        number lo = walk.band.lo, hi = walk.band.hi, stop;
        for (; !wrong && lo < hi; lo = stop) {
            number row = floored(lo, ratio), low = lo - row * ratio;
            if (__builtin_mul_overflow(row + 1, ratio, &stop)) {
                wrong = 1;
                break;
            }
            if (parts.count && row != open_row) {
                PyObject *inner = finished(&parts, 0, NULL);
                wrong = inner == NULL || append(&found, open_row, open_row + 1, inner, NULL);
                if (inner != NULL) Py_DecRef(inner);
                start(&parts);
            }
            if (low || hi < stop) {
                stop = smaller(hi, stop);
                wrong = wrong || push(&parts, low, stop - row * ratio, walk.band.inner, NULL);
                open_row = row;
                continue;
            }
            stop = floored(hi, ratio) * ratio;
            PyObject *inner = none;
            if (walk.band.inner != none) inner = one_band(0, ratio, walk.band.inner);
            else Py_IncRef(inner);
            wrong = wrong || inner == NULL || append(&found, row, floored(hi, ratio), inner, NULL);
            if (inner != NULL) Py_DecRef(inner);
        }
    }
    if (!wrong && parts.count) {
        PyObject *inner = finished(&parts, 0, NULL);
        wrong = inner == NULL || append(&found, open_row, open_row + 1, inner, NULL);
        if (inner != NULL) Py_DecRef(inner);
        start(&parts);
    }
    discard(&parts);
    return finished(&found, wrong, NULL);
}

/* Two digits as one, the lower one of `ratio` values so far. */
static PyObject *flatten(PyObject *bands, number ratio) {
    struct pieces found;
    struct walk walk, below;
    start(&found);
    int wrong = begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        number row, stop;
        if (__builtin_mul_overflow(walk.band.lo, ratio, &row) || __builtin_mul_overflow(walk.band.hi, ratio, &stop)) {
            wrong = 1;
        } else if (walk.band.inner == none) {
            wrong = append(&found, row, stop, none, NULL);
        } else {
            wrong = kind_of(walk.band.inner) != ROW;
            for (; !wrong && row < stop; row += ratio) {
                wrong = begin(&below, walk.band.inner);
                for (; !wrong && goes_on(&below); wrong = wrong || step(&below))
                    wrong = append(&found, row + below.band.lo, row + below.band.hi, below.band.inner, NULL);
            }
        }
    }
    return finished(&found, wrong, NULL);
}

/* The number of members. */
static int count(PyObject *bands, const struct units *units, length level, number *total) {
    struct walk walk;
    *total = 0;
    if (level >= units->count || begin(&walk, bands)) return ODD;
    while (goes_on(&walk)) {
        number each = units->of[level], all;
        if (walk.band.inner != none && (kind_of(walk.band.inner) != ROW || count(walk.band.inner, units, level + 1, &each)))
            return ODD;
        if (__builtin_mul_overflow(walk.band.hi - walk.band.lo, each, &all) || __builtin_add_overflow(*total, all, total))
            return ODD;
        if (step(&walk)) return ODD;
    }
    return 0;
}

struct runs {
    number total;
    int begins, ends;
};

/* How many runs of members there are; the rest as in `bands.count_runs`. */
static int count_runs(PyObject *bands, const struct units *units, length level, struct runs *found) {
    struct walk walk;
    number end = 0;
    int joined = 0;
    *found = (struct runs){0, 0, 0};
    if (level >= units->count || begin(&walk, bands)) return ODD;
    for (length index = 0; goes_on(&walk); index++) {
        struct runs inner = {1, 1, 1};
        number digits = walk.band.hi - walk.band.lo, runs = 1;
        if (walk.band.inner != none) {
            if (kind_of(walk.band.inner) != ROW || count_runs(walk.band.inner, units, level + 1, &inner)) return ODD;
            if (__builtin_mul_overflow(digits, inner.total, &runs)) return ODD;
            if (inner.begins && inner.ends) runs -= digits - 1;
        }
        runs -= index && end == walk.band.lo && joined && inner.begins;
        if (__builtin_add_overflow(found->total, runs, &found->total)) return ODD;
        if (index == 0) found->begins = inner.begins && walk.band.lo == 0;
        end = walk.band.hi;
        joined = inner.ends;
        if (step(&walk)) return ODD;
    }
    found->ends = joined && level > 0 && end == size_of(units, level - 1);
    return 0;
}

/* How many boxes there are. Their numbers are not read, and may be of any kind. */
static int count_boxes(PyObject *bands, number *total) {
    length bands_here = size(bands);
    if (bands_here < 0) return ODD;
    for (length at = 0; at < bands_here; at++) {
        PyObject *band = item(bands, at), *inner = kind_of(band) == ROW && size(band) == 3 ? item(band, 2) : NULL;
        int kind = inner == NULL ? ODD : kind_of(inner);
        if (kind == LEAF) (*total)++;
        else if (kind == ODD || count_boxes(inner, total)) return ODD;
    }
    return 0;
}

/* Change the sets of a level `depth` levels further in. */
static PyObject *at_depth(PyObject *bands, length depth, number ratio, PyObject *(*change)(PyObject *, number)) {
    if (depth == 0) return change(bands, ratio);
    struct pieces found;
    struct walk walk;
    start(&found);
    int wrong = begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        PyObject *inner = walk.band.inner, *changed = inner;
        if (inner != none) changed = kind_of(inner) == ROW ? at_depth(inner, depth - 1, ratio, change) : NULL;
        else Py_IncRef(none);
        wrong = changed == NULL || push(&found, walk.band.lo, walk.band.hi, changed, changed == inner ? walk.band.object : NULL);
        if (changed != NULL) Py_DecRef(changed);
    }
    return finished(&found, wrong, bands);
}

/* The same set in units of which it has some already. */
static PyObject *refine(PyObject *bands, struct units *old, const struct units *new) {
    Py_IncRef(bands);
    for (length depth = 0; bands != NULL && depth < new->count; depth++) {
        if (depth < old->count && old->of[depth] == new->of[depth]) continue;
        PyObject *finer = NULL;
        if (depth < old->count && old->count < new->count)
            finer = at_depth(bands, depth, new->of[depth] / old->of[depth], split);
        Py_DecRef(bands);
        bands = finer;
        if (bands == NULL) break;
        memmove(&old->of[depth + 1], &old->of[depth], (size_t)(old->count - depth) * sizeof *old->of);
        old->of[depth] = new->of[depth];
        old->count++;
    }
    return bands;
}

/* The same set moved, as `bands.shift` says. */
static PyObject *shift(PyObject *bands, number offset, const struct units *units, length level) {
    number unit = units->of[level], up = floored(offset, unit), rest = offset - up * unit, digits = size_of(units, level);
    struct pieces near, far;
    struct walk walk;
    start(&near);
    start(&far);
    int wrong = (rest && !digits) || begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        number lo, hi;
        if (__builtin_add_overflow(walk.band.lo, up, &lo) || __builtin_add_overflow(walk.band.hi, up, &hi) || hi == LLONG_MAX) {
            wrong = 1;
            break;
        }
        if (!rest) {
            wrong = push(&near, lo, hi, walk.band.inner, up ? NULL : walk.band.object);
            continue;
        }
        PyObject *inner = opened(walk.band.inner, digits), *window = one_band(0, digits, none), *moved = NULL, *stays = NULL;
        if (inner != NULL && window != NULL) moved = shift(inner, rest, units, level + 1);
        if (moved != NULL) stays = intersect(moved, window);
        wrong = stays == NULL || (!is_nothing(stays) && append(&near, lo, hi, stays, NULL));
        if (!wrong && stays != moved) { /* something is carried */
            struct pieces carried;
            struct walk beyond;
            start(&carried);
            wrong = begin(&beyond, moved) || skip_to(&beyond, digits, 0);
            for (; !wrong && goes_on(&beyond); wrong = wrong || step(&beyond)) {
                number low = larger(beyond.band.lo - digits, 0);
                wrong = push(&carried, low, beyond.band.hi - digits, beyond.band.inner, NULL);
            }
            PyObject *goes = finished(&carried, wrong, NULL);
            wrong = goes == NULL || (!is_nothing(goes) && append(&far, lo + 1, hi + 1, goes, NULL));
            if (goes != NULL) Py_DecRef(goes);
        }
        if (inner != NULL) Py_DecRef(inner);
        if (window != NULL) Py_DecRef(window);
        if (moved != NULL) Py_DecRef(moved);
        if (stays != NULL) Py_DecRef(stays);
    }
    PyObject *first = finished(&near, wrong, bands), *second = finished(&far, wrong, NULL), *found = NULL;
    if (first != NULL && second != NULL) found = unite(first, second, units, level);
    if (first != NULL) Py_DecRef(first);
    if (second != NULL) Py_DecRef(second);
    return found;
}

/* The union of the set moved by 0, 1, ... of the largest unit, as `bands.repeat` says. */
static PyObject *repeat(PyObject *bands, number times, const struct units *units) {
    struct walk walk;
    PyObject *found = PyTuple_New(0);
    int wrong = found == NULL || begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        number hi;
        wrong = __builtin_add_overflow(walk.band.hi, times - 1, &hi) || hi == LLONG_MAX;
        PyObject *one = wrong ? NULL : one_band(walk.band.lo, hi, walk.band.inner);
        PyObject *more = one == NULL ? NULL : unite(found, one, units, 0);
        if (one != NULL) Py_DecRef(one);
        Py_DecRef(found);
        found = more;
        wrong = found == NULL;
    }
    if (!wrong) return found;
    if (found != NULL) Py_DecRef(found);
    return NULL;
}

/* Everything between the first and the last digit of each set of level `depth`, as `bands.close_up` says. */
static PyObject *close_up(PyObject *bands, length depth) {
    struct walk walk;
    if (begin(&walk, bands) || !goes_on(&walk)) return NULL;
    if (depth == 0) {
        number first = walk.band.lo;
        return step_to(&walk, walk.count - 1) ? NULL : one_band(first, walk.band.hi, none);
    }
    struct pieces found;
    int wrong = 0;
    start(&found);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        PyObject *inner = walk.band.inner, *closed = inner;
        if (inner != none) closed = kind_of(inner) == ROW ? close_up(inner, depth - 1) : NULL;
        else Py_IncRef(none);
        wrong = closed == NULL || append(&found, walk.band.lo, walk.band.hi, closed, NULL);
        if (closed != NULL) Py_DecRef(closed);
    }
    return finished(&found, wrong, NULL);
}

/* By level, whether several digits have the same proper part of a unit. */
static int mark_repeated(PyObject *bands, length level, length depth, char *found) {
    struct walk walk;
    if (begin(&walk, bands)) return ODD;
    for (; goes_on(&walk);) {
        if (walk.band.inner != none) {
            if (kind_of(walk.band.inner) != ROW || level >= depth) return ODD;
            if (walk.band.hi - walk.band.lo > 1) found[level] = 1;
            if (level + 1 < depth && mark_repeated(walk.band.inner, level + 1, depth, found)) return ODD;
        }
        if (step(&walk)) return ODD;
    }
    return 0;
}

/* Add to `*total` what the least member is, or with `end` one more than the largest. */
static int add_end(PyObject *bands, const struct units *units, length level, int end, number *total) {
    length count = size(bands);
    struct band band;
    number part;
    if (level >= units->count || count < 1 || read_band(item(bands, end ? count - 1 : 0), &band)) return ODD;
    int inside = band.inner != none;
    if (inside && kind_of(band.inner) != ROW) return ODD;
    number digit = !end ? band.lo : inside ? band.hi - 1 : band.hi;
    if (__builtin_mul_overflow(digit, units->of[level], &part) || __builtin_add_overflow(*total, part, total)) return ODD;
    return inside ? add_end(band.inner, units, level + 1, end, total) : 0;
}

/* Bands without the units that spare none, if there are few; those units, and where the set begins and ends. `units`: with 1. */
static PyObject *settle(PyObject *bands, PyObject *pitches, struct units *units, number few) {
    char needed[MOST_LEVELS] = {0};
    number first = 0, last = 0;
    Py_IncRef(bands);
    if (units->count > 1 && size(bands) <= few) {
        int wrong = mark_repeated(bands, 0, units->count - 1, needed);
        for (length depth = units->count - 2; depth >= 0; depth--) {
            if (wrong || needed[depth]) continue;
            PyObject *fewer = at_depth(bands, depth, units->of[depth] / units->of[depth + 1], flatten);
            Py_DecRef(bands);
            bands = fewer;
            if (bands == NULL) return NULL;
            memmove(&units->of[depth], &units->of[depth + 1], (size_t)(units->count - depth - 1) * sizeof *units->of);
            units->count--;
        }
        if (wrong) {
            Py_DecRef(bands);
            return NULL;
        }
    }
    PyObject *parts[4] = {bands, NULL, NULL, NULL}, *found = NULL;
    if (!add_end(bands, units, 0, 0, &first) && !add_end(bands, units, 0, 1, &last)) {
        if (size(pitches) == units->count - 1) Py_IncRef(parts[1] = pitches);
        else parts[1] = PyTuple_New(units->count - 1);
        for (length at = 0; parts[1] != NULL && parts[1] != pitches && at < units->count - 1; at++)
            if (PyTuple_SetItem(parts[1], at, PyLong_FromLongLong(units->of[at]))) break;
        parts[2] = PyLong_FromLongLong(first);
        parts[3] = PyLong_FromLongLong(last);
        found = PyTuple_New(4);
    }
    for (int at = 0; at < 4; at++) {
        if (found != NULL && parts[at] != NULL) PyTuple_SetItem(found, at, parts[at]);
        else if (parts[at] != NULL) Py_DecRef(parts[at]);
    }
    if (found != NULL && (parts[1] == NULL || parts[2] == NULL || parts[3] == NULL)) {
        Py_DecRef(found);
        found = NULL;
    }
    return found;
}

/* As `painted`. */
static PyObject *paint(PyObject *bands, PyObject *label) {
    length count = size(bands);
    PyObject *found = PyTuple_New(count);
    for (length at = 0; found != NULL && at < count; at++) {
        struct band band;
        PyObject *inner = NULL, *made = NULL;
        if (!read_band(item(bands, at), &band)) {
            if (band.inner == none) Py_IncRef(inner = label);
            else if (kind_of(band.inner) == ROW) inner = paint(band.inner, label);
        }
        if (inner != NULL) {
            made = new_band(band.lo, band.hi, inner);
            Py_DecRef(inner);
        }
        if (made == NULL) {
            Py_DecRef(found);
            return NULL;
        }
        PyTuple_SetItem(found, at, made);
    }
    return found;
}

/* As `coarsening_cost`; `dropped` says it by level. */
static int coarsening_cost(PyObject *bands, const char *dropped, length level, number *total) {
    struct walk walk;
    *total = 0;
    if (level >= MOST_LEVELS || begin(&walk, bands)) return ODD;
    while (goes_on(&walk)) {
        number below = 1, digits = dropped[level] && walk.band.inner != none ? walk.band.hi - walk.band.lo : 1;
        if (walk.band.inner != none &&
            (kind_of(walk.band.inner) != ROW || coarsening_cost(walk.band.inner, dropped, level + 1, &below)))
            return ODD;
        if (__builtin_mul_overflow(below, digits, &below) || __builtin_add_overflow(*total, below, total) || step(&walk)) return ODD;
    }
    return 0;
}

/* ---- the largest boxes ---------------------------------------------------------------------------------------------- */

/* The members of each box, in order; -1 for one that is chosen. */
struct sizes {
    number *of;
    length count, room;
};

static int add_size(struct sizes *sizes, number each) {
    if (sizes->count == sizes->room) {
        length room = sizes->room ? 2 * sizes->room : 64;
        number *more = realloc(sizes->of, (size_t)room * sizeof *more);
        if (more == NULL) return ODD;
        sizes->of = more;
        sizes->room = room;
    }
    sizes->of[sizes->count++] = each;
    return 0;
}

static int add_sizes(struct sizes *sizes, PyObject *bands, const struct units *units, length level, number times) {
    struct walk walk;
    number unit, all;
    if (level >= units->count || __builtin_mul_overflow(units->of[level], times, &unit) || begin(&walk, bands)) return ODD;
    while (goes_on(&walk)) {
        number digits = walk.band.hi - walk.band.lo;
        if (walk.band.inner == none) {
            if (__builtin_mul_overflow(digits, unit, &all) || add_size(sizes, all)) return ODD;
        } else if (kind_of(walk.band.inner) != ROW || __builtin_mul_overflow(digits, times, &all) ||
                   add_sizes(sizes, walk.band.inner, units, level + 1, all)) {
            return ODD;
        }
        if (step(&walk)) return ODD;
    }
    return 0;
}

/* The chosen ones of the boxes from `number` on, which is counted up. */
static PyObject *chosen_boxes(PyObject *bands, const struct sizes *sizes, length *next) {
    struct pieces found;
    struct walk walk;
    start(&found);
    int wrong = begin(&walk, bands);
    for (; !wrong && goes_on(&walk); wrong = wrong || step(&walk)) {
        if (walk.band.inner == none) {
            if (sizes->of[(*next)++] < 0) wrong = append(&found, walk.band.lo, walk.band.hi, none, NULL);
            continue;
        }
        PyObject *below = chosen_boxes(walk.band.inner, sizes, next);
        wrong = below == NULL || (size(below) && append(&found, walk.band.lo, walk.band.hi, below, NULL));
        if (below != NULL) Py_DecRef(below);
    }
    return finished(&found, wrong, NULL);
}

/* As `largest_boxes`. */
static PyObject *largest_boxes(PyObject *bands, const struct units *units, number most) {
    struct sizes sizes = {NULL, 0, 0};
    PyObject *found = NULL;
    length next = 0;
    if (!add_sizes(&sizes, bands, units, 0, 1)) {
        for (number taken = 0; taken < most && taken < sizes.count; taken++) {
            length largest = 0;
            for (length at = 1; at < sizes.count; at++)
                if (sizes.of[at] > sizes.of[largest]) largest = at;
            sizes.of[largest] = -1;
        }
        found = chosen_boxes(bands, &sizes, &next);
    }
    free(sizes.of);
    return found;
}

#include "slots.h"
#include "regions.c"
#include "numbers.c"
#include "domains.c"
#include "slices.c"
#include "projections.c"
#include "calculations.c"
#include "rebuilding.c"
#include "conflicts.c"
#include "meetings.c"
#include "methods.c"

/* ---- as Python's functions ------------------------------------------------------------------------------------------ */

/* The result; that of the function in Python, which is `self`, where there is none. */
static PyObject *or_by_python(PyObject *found, PyObject *self, PyObject *const *given, length count_given) {
    if (found != NULL) return found;
    PyErr_Clear();
    PyObject *arguments = PyTuple_New(count_given);
    if (arguments == NULL) return NULL;
    for (length at = 0; at < count_given; at++) {
        Py_IncRef(given[at]);
        PyTuple_SetItem(arguments, at, given[at]);
    }
    found = PyObject_CallObject(self, arguments);
    Py_DecRef(arguments);
    return found;
}

/* Whether there are so many parameters, and the first ones are bands. */
static int has_bands(PyObject *const *given, length count_given, length wanted, length bands) {
    if (count_given != wanted) return 0;
    for (length at = 0; at < bands; at++)
        if (given[at] == none || kind_of(given[at]) != ROW) return 0;
    return 1;
}

#define FUNCTION(name) static PyObject *call_##name(PyObject *self, PyObject *const *given, length n)
#define OR_BY_PYTHON(found) return or_by_python(found, self, given, n)

FUNCTION(intersect) { OR_BY_PYTHON(has_bands(given, n, 2, 2) ? intersect(given[0], given[1]) : NULL); }

FUNCTION(meet) {
    int found = has_bands(given, n, 2, 2) ? meet(given[0], given[1]) : ODD;
    OR_BY_PYTHON(found == ODD ? NULL : PyBool_FromLong(found));
}

/* Two sets, units and a level, 0 if it is left out. */
static PyObject *of_two(
    PyObject *(*function)(PyObject *, PyObject *, const struct units *, length), PyObject *const *given, length n
) {
    struct units units;
    length level = 0;
    if (n != 3 && n != 4) return NULL;
    if (!has_bands(given, n, n, 2) || read_units(given[2], &units)) return NULL;
    if (n == 4 && read_level(given[3], &units, &level)) return NULL;
    return function(given[0], given[1], &units, level);
}

FUNCTION(unite) { OR_BY_PYTHON(of_two(unite, given, n)); }
FUNCTION(subtract) { OR_BY_PYTHON(of_two(subtract, given, n)); }

/* What lies in the window, and None for what `put_in` does not need. */
FUNCTION(cut_out) {
    PyObject *inside = has_bands(given, n, 4, 2) ? intersect(given[0], given[1]) : NULL;
    PyObject *found = inside == NULL ? NULL : PyTuple_New(2);
    if (found != NULL) {
        PyTuple_SetItem(found, 0, inside);
        Py_IncRef(none);
        PyTuple_SetItem(found, 1, none);
    } else if (inside != NULL) {
        Py_DecRef(inside);
    }
    OR_BY_PYTHON(found);
}

FUNCTION(put_in) {
    struct units units;
    length level;
    PyObject *found = NULL;
    if (has_bands(given, n, 6, 2) && kind_of(given[3]) == ROW && !read_units(given[4], &units) &&
        !read_level(given[5], &units, &level))
        found = put(given[0], given[1], given[3], &units, level);
    OR_BY_PYTHON(found);
}

FUNCTION(numbers_of_labelled) {
    PyObject *found = NULL;
    length known = n == 2 ? PyList_Size(given[1]) : -1;
    if (known >= 0 && has_bands(given, n, 2, 1)) {
        PyObject *gap = PyLong_FromLongLong(-1);
        if (gap != NULL) {
            found = pattern(given[0], given[1], gap);
            Py_DecRef(gap);
        }
        if (found == NULL) {
            PyErr_Clear();
            PyList_SetSlice(given[1], known, PyList_Size(given[1]), NULL);
        }
    }
    OR_BY_PYTHON(found);
}

/* Of a map, units, a level and what gives the names of a label. */
FUNCTION(apart) {
    struct units units;
    length level;
    PyObject *found = NULL;
    if (has_bands(given, n, 4, 1) && !read_units(given[1], &units) && !read_level(given[2], &units, &level)) {
        struct naming naming = {.ask = given[3], .count = 0};
        struct groups *groups = no_groups();
        if (groups != NULL && !tell_apart(given[0], &units, level, &naming, groups)) found = PyDict_New();
        for (length at = 0; found != NULL && at < groups->count; at++) {
            PyObject *bands = finished(&groups->of[at], 0, NULL);
            start(&groups->of[at]);
            if (bands == NULL || PyDict_SetItem(found, groups->names[at], bands)) {
                Py_DecRef(found);
                found = NULL;
            }
            if (bands != NULL) Py_DecRef(bands);
        }
        if (groups != NULL) discard_groups(groups);
        for (length at = 0; at < naming.count; at++) {
            Py_DecRef(naming.labels[at]);
            Py_DecRef(naming.names[at]);
        }
    }
    OR_BY_PYTHON(found);
}

/* Of a map, two numbers, units and a level. */
FUNCTION(is_span) {
    struct units units;
    length level;
    number from, to;
    int found = ODD;
    if (has_bands(given, n, 5, 1) && !read_number(given[1], &from) && !read_number(given[2], &to) &&
        !read_units(given[3], &units) && !read_level(given[4], &units, &level))
        found = is_span(given[0], from, to, &units, level);
    OR_BY_PYTHON(found == ODD ? NULL : PyBool_FromLong(found));
}

FUNCTION(paint) { OR_BY_PYTHON(has_bands(given, n, 2, 1) && kind_of(given[1]) == LEAF ? paint(given[0], given[1]) : NULL); }

/* Of bands, units, and a set of levels. */
FUNCTION(coarsening_cost) {
    char dropped[MOST_LEVELS] = {0};
    number total;
    int wrong = !has_bands(given, n, 3, 2);
    for (length level = 0; !wrong && level < MOST_LEVELS; level++) {
        PyObject *object = PyLong_FromLongLong(level);
        int found = object == NULL ? ODD : PySet_Contains(given[2], object);
        if (object != NULL) Py_DecRef(object);
        wrong = found < 0;
        dropped[level] = found > 0;
    }
    OR_BY_PYTHON(wrong || coarsening_cost(given[0], dropped, 0, &total) ? NULL : PyLong_FromLongLong(total));
}

/* Of bands, units, and how many. */
FUNCTION(largest_boxes) {
    enum { FEW_BOXES = 64 };
    struct units units;
    number most;
    PyObject *found = NULL;
    if (has_bands(given, n, 3, 1) && !read_units(given[1], &units) && !read_number(given[2], &most) && most <= FEW_BOXES)
        found = largest_boxes(given[0], &units, most);
    OR_BY_PYTHON(found);
}

static PyObject *of_ratio(PyObject *(*function)(PyObject *, number), PyObject *const *given, length n) {
    number ratio;
    return has_bands(given, n, 2, 1) && !read_number(given[1], &ratio) ? function(given[0], ratio) : NULL;
}

FUNCTION(split) { OR_BY_PYTHON(of_ratio(split, given, n)); }
FUNCTION(flatten) { OR_BY_PYTHON(of_ratio(flatten, given, n)); }

static int of_units(PyObject *const *given, length n, struct units *units, length *level) {
    *level = 0;
    if (n != 2 && n != 3) return ODD;
    if (!has_bands(given, n, n, 1) || read_units(given[1], units)) return ODD;
    return n == 3 ? read_level(given[2], units, level) : 0;
}

FUNCTION(count) {
    struct units units;
    length level;
    number total;
    int wrong = of_units(given, n, &units, &level) || count(given[0], &units, level, &total);
    OR_BY_PYTHON(wrong ? NULL : PyLong_FromLongLong(total));
}

FUNCTION(count_runs) {
    struct units units;
    length level;
    struct runs runs;
    PyObject *found = NULL;
    if (!of_units(given, n, &units, &level) && !count_runs(given[0], &units, level, &runs)) {
        PyObject *total = PyLong_FromLongLong(runs.total);
        found = total == NULL ? NULL : PyTuple_New(3);
        if (found != NULL) {
            PyTuple_SetItem(found, 0, total);
            PyTuple_SetItem(found, 1, PyBool_FromLong(runs.begins));
            PyTuple_SetItem(found, 2, PyBool_FromLong(runs.ends));
        } else if (total != NULL) {
            Py_DecRef(total);
        }
    }
    OR_BY_PYTHON(found);
}

/* Of bands; whatever else is given is how deep they are, which is seen. */
FUNCTION(count_boxes) {
    number total = 0;
    int wrong = n < 1 || !has_bands(given, n, n, 1) || count_boxes(given[0], &total);
    OR_BY_PYTHON(wrong ? NULL : PyLong_FromLongLong(total));
}

FUNCTION(refine) {
    struct units old, new;
    PyObject *found = NULL;
    if (has_bands(given, n, 3, 1) && !read_units(given[1], &old) && !read_units(given[2], &new))
        found = refine(given[0], &old, &new);
    OR_BY_PYTHON(found);
}

FUNCTION(coarsen) {
    struct units units;
    length depth;
    PyObject *found = NULL;
    if (has_bands(given, n, 3, 1) && !read_units(given[1], &units) && !read_level(given[2], &units, &depth) &&
        size_of(&units, depth))
        found = at_depth(given[0], depth, size_of(&units, depth), flatten);
    OR_BY_PYTHON(found);
}

FUNCTION(repeat) {
    struct units units;
    number times;
    int plain = has_bands(given, n, 3, 1) && !read_number(given[1], &times) && times > 0 && !read_units(given[2], &units);
    OR_BY_PYTHON(plain ? repeat(given[0], times, &units) : NULL);
}

FUNCTION(close_up) {
    number depth;
    int plain = has_bands(given, n, 2, 1) && !read_number(given[1], &depth) && depth >= 0 && depth < MOST_LEVELS;
    OR_BY_PYTHON(plain ? close_up(given[0], (length)depth) : NULL);
}

FUNCTION(shift) {
    struct units units;
    length level = 0;
    number offset;
    PyObject *found = NULL;
    if ((n == 3 || n == 4) && has_bands(given, n, n, 1) && !read_number(given[1], &offset) && !read_units(given[2], &units) &&
        !(n == 4 && read_level(given[3], &units, &level)))
        found = shift(given[0], offset, &units, level);
    OR_BY_PYTHON(found);
}

/* Of bands, pitches, and how many bands are few. */
FUNCTION(settled) {
    struct units units = {{0}, 0};
    number few;
    PyObject *found = NULL;
    int plain = has_bands(given, n, 3, 2) && !read_number(given[2], &few);
    length count = plain ? size(given[1]) : MOST_LEVELS;
    if (count < MOST_LEVELS && (count == 0 || !read_units(given[1], &units))) {
        units.of[count] = 1;
        units.count = count + 1;
        found = settle(given[0], given[1], &units, few);
    }
    OR_BY_PYTHON(found);
}

FUNCTION(region_in) { OR_BY_PYTHON(region_given(given, n)); }
FUNCTION(run) { OR_BY_PYTHON(run_given(given, n)); }
FUNCTION(union_of) { OR_BY_PYTHON(n == 1 ? union_of(given[0]) : NULL); }

FUNCTION(plus) { OR_BY_PYTHON(plus_given(given, n)); }
FUNCTION(normal) { OR_BY_PYTHON(n == 1 ? normal(given[0]) : NULL); }
FUNCTION(solved) { OR_BY_PYTHON(solved(given, n)); }
FUNCTION(added_up) { OR_BY_PYTHON(added_up(given, n)); }
FUNCTION(divided_form) { OR_BY_PYTHON(divided_form(given, n)); }
FUNCTION(box_bounds) { OR_BY_PYTHON(box_bounds(given, n)); }
FUNCTION(cuts) { OR_BY_PYTHON(cuts(given, n)); }
FUNCTION(untouched) { OR_BY_PYTHON(untouched(given, n)); }
FUNCTION(is_in_line) { OR_BY_PYTHON(is_in_line(given, n)); }
FUNCTION(steps_of_another) { OR_BY_PYTHON(steps_of_another(given, n)); }
FUNCTION(pitches_for) { OR_BY_PYTHON(pitches_for(given, n)); }
FUNCTION(copies) { OR_BY_PYTHON(copies(given, n)); }
FUNCTION(components) { OR_BY_PYTHON(components(given, n)); }
FUNCTION(placed) { OR_BY_PYTHON(placed(given, n)); }
FUNCTION(open_box) { OR_BY_PYTHON(open_box(given, n)); }
FUNCTION(reduced_domain) { OR_BY_PYTHON(reduced_domain(given, n)); }
FUNCTION(class_of_domain) { OR_BY_PYTHON(class_of_domain(given, n)); }
FUNCTION(boxes_of) { OR_BY_PYTHON(boxes_of(given, n)); }
FUNCTION(calculated) { OR_BY_PYTHON(calculated(given, n)); }


/* What a function that is called raises is raised. */
#define OR_RAISED(made)                                                                                                    \
    PyObject *found = made;                                                                                                \
    if (found == NULL && PyErr_Occurred() != NULL) return NULL;                                                            \
    OR_BY_PYTHON(found)

FUNCTION(built) { OR_RAISED(built(given, n)); }
FUNCTION(conflicts) { OR_RAISED(conflicts(given, n)); }
FUNCTION(may_meet) { OR_BY_PYTHON(may_meet(given, n)); }

static PyMethodDef functions[] = {
#define NAMED(name, of) {#name, call_##of, TAKES_ARRAY, NULL},
    NAMED(intersect, intersect) NAMED(meet, meet) NAMED(unite, unite) NAMED(subtract, subtract)
    NAMED(laid_over, unite) NAMED(cut_out, cut_out) NAMED(put_in, put_in)
    NAMED(refine, refine) NAMED(coarsen, coarsen) NAMED(repeat, repeat) NAMED(close_up, close_up) NAMED(shift, shift) NAMED(settled, settled)
    NAMED(numbers_of_labelled, numbers_of_labelled) NAMED(_split, split) NAMED(_flatten, flatten)
    NAMED(count, count) NAMED(count_runs, count_runs) NAMED(count_boxes, count_boxes)
    NAMED(count_labelled, count_boxes) NAMED(apart, apart) NAMED(is_span, is_span)
    NAMED(painted, paint) NAMED(largest_boxes, largest_boxes)
    NAMED(coarsening_cost, coarsening_cost)
    NAMED(region_in, region_in) NAMED(_run, run) NAMED(_union, union_of)
    NAMED(plus, plus) NAMED(normal, normal)
    NAMED(solved, solved)
    NAMED(added_up, added_up) NAMED(box_bounds, box_bounds) NAMED(divided, divided_form)
    NAMED(_steps_of_another, steps_of_another) NAMED(open_box, open_box)
    NAMED(pitches_for, pitches_for) NAMED(copies, copies) NAMED(_placed, placed) NAMED(_components, components)
    NAMED(reduced, reduced_domain) NAMED(of_class, class_of_domain) NAMED(boxes_of, boxes_of)
    NAMED(_cuts, cuts) NAMED(_untouched, untouched) NAMED(_is_in_line, is_in_line)
    NAMED(calculated, calculated) NAMED(built, built) NAMED(conflicts, conflicts) NAMED(may_meet, may_meet)
#undef NAMED
};

/* Whether there can be such functions: Python's are found. Comes before `vdev_range_function`. */
EXPORTED int32_t vdev_range_find_python(void) {
    return find_python() && name_signs() && make_infinite();
}

/* What stands in the place of a function in Python, by its name; NULL where there is none. With the interpreter's lock. */
EXPORTED PyObject *vdev_range_function(const char *name, PyObject *plain) {
    for (size_t at = 0; at < sizeof functions / sizeof *functions; at++)
        if (strcmp(functions[at].name, name) == 0) return PyCFunction_NewEx(&functions[at], plain, NULL);
    return NULL;
}
