/* What `slicing.py`, `unlisted.py` and `pitches.py` do most with boxes that constraints cut, and with rows of which each has columns
 * of its own, on the same objects and with the same results; and a question of `domain_image.py`'s.
 *
 * The functions and methods in Python are the definition. These here stand in their places, and call them wherever something is not
 * as it mostly is: a number that is traced or has more than 64 bits; a box without points, of which Python raises; many parts; no
 * memory. They have changed nothing then.
 */

/* ---- boxes ---------------------------------------------------------------------------------------------------------- */

static int read_pair(PyObject *pair, number *a, number *b) {
    if (pair == NULL || kind_of(pair) != ROW || size(pair) != 2) return ODD;
    return read_small(item(pair, 0), a) || read_small(item(pair, 1), b) ? ODD : 0;
}

/* The range of a variable in a box, which is a dict. */
static int read_side(PyObject *box, PyObject *variable, number *low, number *high) {
    return read_pair(entry(box, variable), low, high);
}

static int write_side(PyObject *box, PyObject *variable, wide low, wide high) {
    PyObject *pair = shown_pair(low, high);
    int wrong = pair == NULL || PyDict_SetItem(box, variable, pair);
    if (pair != NULL) Py_DecRef(pair);
    return wrong ? ODD : 0;
}

/* Terms and a constant. */
static int read_parts(PyObject *constraint, PyObject **terms, number *constant) {
    if (kind_of(constraint) != ROW || size(constraint) != 2 || read_small(item(constraint, 1), constant)) return ODD;
    *terms = item(constraint, 0);
    length count = PyDict_Size(*terms);
    return count < 0 || count > MOST_TERMS ? ODD : 0;
}

/* As `_cuts`, of what it is given. */
static PyObject *cuts(PyObject *const *given, length n) {
    PyObject *terms, *variables[MOST_TERMS], *coefficient;
    number constant, factors[MOST_TERMS], lows[MOST_TERMS], highs[MOST_TERMS];
    length count = 0;
    if (n != 2 || read_parts(given[1], &terms, &constant)) return NULL;
    wide least = constant, most = constant;
    for (length at = 0; PyDict_Next(terms, &at, &variables[count], &coefficient); count++) {
        if (read_small(coefficient, &factors[count])) return NULL;
        if (factors[count] == 0 || read_side(given[0], variables[count], &lows[count], &highs[count])) return NULL;
        wide low, high;
        if (multiply(factors[count], lows[count], &low) || multiply(factors[count], highs[count], &high)) return NULL;
        least += factors[count] > 0 ? low : high;
        most += factors[count] > 0 ? high : low;
    }
    if (least >= 0) return PyBool_FromLong(0);
    wide after_lows[MOST_TERMS], after_highs[MOST_TERMS];
    for (length at = 0; at < count; at++) {
        number factor = factors[at];
        wide bound = floored_wide(most - (wide)factor * (factor > 0 ? highs[at] : lows[at]), absolute(factor));
        after_lows[at] = factor > 0 && -bound > lows[at] ? -bound : lows[at];
        after_highs[at] = factor < 0 && bound < highs[at] ? bound : highs[at];
        if (after_lows[at] > after_highs[at]) return NULL;
    }
    if (most < 0) return NULL;
    for (length at = 0; at < count; at++)
        if (after_lows[at] != lows[at] || after_highs[at] != highs[at])
            if (write_side(given[0], variables[at], after_lows[at], after_highs[at])) return NULL;
    return PyBool_FromLong(1);
}

/* The constraints that the variable is in, one after the other, narrow its range: each by what the least of all its other terms
 * leaves, or, where these have one value each, by that. */
static int narrow_by(PyObject *box, PyObject *constraints, PyObject *variable, wide *low, wide *high) {
    number first, last;
    length count = PyList_Size(constraints);
    if (count < 0 || read_side(box, variable, &first, &last)) return ODD;
    *low = first, *high = last;
    for (length at = 0; at < count; at++) {
        PyObject *terms, *other, *coefficient;
        number constant, factor, each;
        if (read_parts(PyList_GetItem(constraints, at), &terms, &constant)) return ODD;
        PyObject *own = entry(terms, variable);
        if (own == NULL) continue;
        if (read_small(own, &factor) || factor == 0) return ODD;
        wide least = constant, part;
        for (length next = 0; PyDict_Next(terms, &next, &other, &coefficient);) {
            if (coefficient == own && is_equal(other, variable)) continue;
            if (read_small(coefficient, &each) || read_side(box, other, &first, &last)) return ODD;
            if (multiply(each, each > 0 ? first : last, &part)) return ODD;
            least += part;
        }
        wide bound = floored_wide(least, absolute(factor));
        if (factor > 0 && -bound > *low) *low = -bound;
        if (factor < 0 && bound < *high) *high = bound;
    }
    return 0;
}

/* As `_untouched`, of what it is given. */
static PyObject *untouched(PyObject *const *given, length n) {
    wide low, high;
    if (n != 3 || narrow_by(given[0], given[1], given[2], &low, &high)) return NULL;
    return tuple_of(3, kept(given[2]), shown_wide(low), shown_wide(high), NULL);
}

/* As `_is_in_line`, of what it is given: a box in which all other variables have one value. */
static PyObject *is_in_line(PyObject *const *given, length n) {
    wide low, high;
    if (n != 3 || narrow_by(given[0], given[1], given[2], &low, &high) || write_side(given[0], given[2], low, high)) return NULL;
    return PyBool_FromLong(low <= high);
}

/* As `steps_of_another`, of what it is given. */
static PyObject *steps_of_another(PyObject *const *given, length n) {
    struct form offset;
    PyObject *lo, *hi;
    length count;
    if (n != 4 || read_form(given[0], &offset) || (count = PyList_Size(given[3])) < 0) return NULL;
    lo = given[1], hi = given[2];
    for (length x = 0; x < offset.count; x++) {
        const struct term *one = &offset.terms[x];
        wide low, high;
        if (one->coefficient == 0 || read_end(lo, one->variable, &low) || read_end(hi, one->variable, &high)) return NULL;
        if (high <= low) continue;
        for (length y = 0; y < offset.count; y++) {
            const struct term *other = &offset.terms[y];
            number steps = divided_down(other->coefficient, one->coefficient);
            if (x == y || steps == 0 || absolute(steps) > high - low + 1 || other->coefficient % one->coefficient) continue;
            int tied = 0;
            for (length at = 0; at < count && !tied; at++) {
                struct form form;
                if (read_form(PyList_GetItem(given[3], at), &form)) return NULL;
                wide mine = 0, yours = 0;
                for (length term = 0; term < form.count; term++) {
                    if (form.terms[term].variable == one->variable) mine = form.terms[term].coefficient;
                    if (form.terms[term].variable == other->variable) yours = form.terms[term].coefficient;
                }
                tied = yours != mine * steps;
            }
            if (tied) continue;
            PyObject *of_x = PyLong_FromLongLong(one->variable), *of_y = PyLong_FromLongLong(other->variable);
            return tuple_of(3, of_x, of_y, PyLong_FromLongLong(steps), NULL);
        }
    }
    return kept(none);
}

/* As `open_box`, of what it is given. */
static PyObject *open_box(PyObject *const *given, length n) {
    enum { MOST_DIMENSIONS = 16 };
    struct dimension {
        number stride, count;
    } dims[MOST_DIMENSIONS], rest[MOST_DIMENSIONS];
    number first, nbytes;
    length count, left = 0;
    if (n != 3 || read_small(given[0], &first) || read_small(given[1], &nbytes)) return NULL;
    int in_tuple = kind_of(given[2]) == ROW;
    count = in_tuple ? size(given[2]) : PyList_Size(given[2]);
    if (count < 0 || count > MOST_DIMENSIONS) return NULL;
    wide low = first, extent = nbytes, part;
    for (length at = 0; at < count; at++) {
        PyObject *pair = in_tuple ? item(given[2], at) : PyList_GetItem(given[2], at);
        struct dimension next;
        if (kind_of(pair) != ROW || size(pair) != 2 || read_small(item(pair, 0), &next.stride) || read_small(item(pair, 1), &next.count))
            return NULL;
        if (next.stride < 0) {
            if (multiply(next.stride, next.count - 1, &part)) return NULL;
            low += part;
            next.stride = -next.stride;
        }
        length place = at;
        for (; place > 0; place--) {
            const struct dimension *before = &dims[place - 1];
            if (before->stride < next.stride || (before->stride == next.stride && before->count <= next.count)) break;
            dims[place] = *before;
        }
        dims[place] = next;
    }
    for (length at = 0; at < count; at++) {
        number stride = dims[at].stride, many = dims[at].count;
        struct dimension *last = left ? &rest[left - 1] : NULL;
        if (last == NULL && stride <= extent) {
            if (multiply(stride, many - 1, &part)) return NULL;
            extent += part;
        } else if (last != NULL && many > 1 && last->stride > 0 && stride % last->stride == 0 &&
                   stride / last->stride <= last->count) {
            if (MULTIPLIES(stride / last->stride, many - 1, &many) || ADDS(last->count, many, &last->count)) return NULL;
        } else if (many > 1) {
            if (stride == 0) return NULL;
            rest[left++] = dims[at];
        }
    }
    PyObject *dims_left = PyList_New(left);
    for (length at = 0; dims_left != NULL && at < left; at++) {
        PyObject *pair = tuple_of(2, PyLong_FromLongLong(rest[at].stride), PyLong_FromLongLong(rest[at].count), NULL, NULL);
        if (pair == NULL) {
            Py_DecRef(dims_left);
            dims_left = NULL;
        } else {
            PyList_SetItem(dims_left, at, pair);
        }
    }
    return tuple_of(3, shown_wide(low), shown_wide(extent), dims_left, NULL);
}

/* Dimensions of a box, of which some become pitches. */
enum { MOST_PITCHES = 10 };

/* Which of them do, as bits, as `pitches_for` chooses them, and how many copies the others are. */
static int choose_pitches(PyObject *dims, length *count, number *chosen, number *copies) {
    number strides[MOST_PITCHES], counts[MOST_PITCHES], most = 0;
    int in_tuple = kind_of(dims) == ROW, in_line = 1;
    *count = in_tuple ? size(dims) : PyList_Size(dims);
    if (*count < 0 || *count > MOST_PITCHES) return ODD;
    for (length at = 0; at < *count; at++) {
        PyObject *pair = in_tuple ? item(dims, at) : PyList_GetItem(dims, at);
        if (kind_of(pair) != ROW || size(pair) != 2 || read_small(item(pair, 0), &strides[at]) || read_small(item(pair, 1), &counts[at]))
            return ODD;
        if (strides[at] <= 0 || counts[at] <= 0) return ODD;
        in_line = in_line && (at == 0 || strides[at] % strides[at - 1] == 0);
    }
    *chosen = in_line ? ((number)1 << *count) - 1 : 0;
    for (number choice = 1; !in_line && choice < (number)1 << *count; choice++) {
        number before = 1, members = 1;
        for (length at = 0; at < *count && before; at++) {
            if (!(choice >> at & 1)) continue;
            if (MULTIPLIES(members, counts[at], &members)) return ODD;
            before = strides[at] % before == 0 ? strides[at] : 0;
        }
        if (before && members > most) most = members, *chosen = choice;
    }
    *copies = 1;
    for (length at = 0; at < *count; at++)
        if (!(*chosen >> at & 1) && MULTIPLIES(*copies, counts[at], copies)) return ODD;
    return 0;
}

/* As `pitches_for`, of what it is given. */
static PyObject *pitches_for(PyObject *const *given, length n) {
    length count;
    number chosen, unused;
    if (n != 1 || choose_pitches(given[0], &count, &chosen, &unused)) return NULL;
    PyObject *numbers = PyList_New(0);
    for (length at = 0; numbers != NULL && at < count; at++) {
        if (!(chosen >> at & 1)) continue;
        PyObject *each = PyLong_FromLongLong(at);
        int wrong = each == NULL || PyList_Append(numbers, each);
        if (each != NULL) Py_DecRef(each);
        if (!wrong) continue;
        Py_DecRef(numbers);
        numbers = NULL;
    }
    PyObject *found = numbers == NULL ? NULL : PyFrozenSet_New(numbers);
    if (numbers != NULL) Py_DecRef(numbers);
    return found;
}

/* As `copies`, of what it is given. */
static PyObject *copies(PyObject *const *given, length n) {
    length count;
    number chosen, found;
    return n != 1 || choose_pitches(given[0], &count, &chosen, &found) ? NULL : PyLong_FromLongLong(found);
}

/* As `Region._repeated`. */
static PyObject *repeated_region(PyObject *object, number stride, number times) {
    struct region region;
    struct units old, new;
    if (read_region(object, &region) || read_pitches(region.pitches, &old)) return NULL;
    if (stride % old.of[0]) return NULL;
    PyObject *pitches = kept(region.pitches);
    if (size(pitches) == 0 || old.of[0] != stride) {
        if (old.count == MOST_LEVELS || stride <= old.of[0]) {
            Py_DecRef(pitches);
            return NULL;
        }
        new.of[0] = stride;
        memcpy(&new.of[1], old.of, (size_t)old.count * sizeof *old.of);
        new.count = old.count + 1;
        Py_DecRef(pitches);
        pitches = pitches_in(&new);
    } else {
        new = old;
    }
    PyObject *bands = pitches == NULL ? NULL : refine(region.bands, &old, &new);
    PyObject *found = bands == NULL ? NULL : region_of(repeat(bands, times, &new), pitches);
    if (bands != NULL) Py_DecRef(bands);
    if (pitches != NULL) Py_DecRef(pitches);
    return found;
}

/* As `Region.copies`, where all dimensions become pitches. */
static PyObject *copied_region(PyObject *self, PyObject *dims) {
    struct region region;
    length count;
    number chosen, others, stride, times;
    if (read_region(self, &region) || choose_pitches(dims, &count, &chosen, &others)) return NULL;
    if (chosen != ((number)1 << count) - 1) return NULL;
    PyObject *found = kept(self);
    for (length at = 0; found != NULL && at < count; at++) {
        PyObject *pair = kind_of(dims) == ROW ? item(dims, at) : PyList_GetItem(dims, at), *more = NULL;
        number widest = 1;
        int wrong = read_pair(pair, &stride, &times);
        if (!wrong && at == 0 && size(region.pitches)) wrong = read_number(item(region.pitches, 0), &widest) || stride % widest != 0;
        if (!wrong) more = repeated_region(found, stride, times);
        Py_DecRef(found);
        found = more;
    }
    return found;
}

/* As `_placed` of `domain_image.py`, of what it is given: coefficients, an offset and its dimensions, and a box. */
static PyObject *placed(PyObject *const *given, length n) {
    PyObject *variable, *side;
    number first, coefficient, low, high;
    if (n != 4 || PyDict_Size(given[0]) < 0 || PyDict_Size(given[3]) < 0 || read_small(given[1], &first)) return NULL;
    wide start = first, part;
    length count = PyList_Size(given[2]);
    if (count < 0) return NULL;
    PyObject *dims = PyList_New(0);
    int wrong = dims == NULL;
    for (length at = 0; at < count && !wrong; at++) wrong = PyList_Append(dims, PyList_GetItem(given[2], at));
    for (length at = 0; !wrong && PyDict_Next(given[3], &at, &variable, &side);) {
        PyObject *known = entry(given[0], variable);
        coefficient = 0;
        wrong = read_pair(side, &low, &high) || (known != NULL && read_small(known, &coefficient)) || multiply(coefficient, low, &part);
        if (wrong) break;
        start += part;
        PyObject *pair = shown_pair(coefficient, (wide)high - low + 1);
        wrong = pair == NULL || PyList_Append(dims, pair);
        if (pair != NULL) Py_DecRef(pair);
    }
    PyObject *shown = wrong ? NULL : shown_wide(start);
    if (shown != NULL) return tuple_of(2, shown, dims, NULL, NULL);
    if (dims != NULL) Py_DecRef(dims);
    return NULL;
}

/* ---- rows that constraints tie to columns --------------------------------------------------------------------------- */

enum { COLUMNS, ROWS_CONSTRAINTS, ROWS, NROWS };
enum { EXTENT, PITCH, WIDTH };

static struct slotted
    tied_rows_class = {.name = "TiedRows", .slots = {"_columns", "_constraints", "_rows", "nrows"}},
    place_class = {.name = "Place", .slots = {"extent", "pitch", "width"}};

struct extent {
    wide low, high;
};

static PyObject *shown_extent(const struct extent *extent) { return shown_pair(extent->low, extent->high); }

static void cut_extent(struct extent *extent, number of_column, wide rest) {
    wide bound = floored_wide(rest, absolute(of_column));
    if (of_column > 0 && -bound > extent->low) extent->low = -bound;
    if (of_column < 0 && bound < extent->high) extent->high = bound;
}

/* As `TiedRows._columns_of`: of a row, of any up to another one, and of that one. */
static int columns_of(PyObject *tied, number first, number last, struct extent found[3]) {
    PyObject *constraints = SLOT(tied_rows_class, tied, ROWS_CONSTRAINTS);
    number low, high, of_row, of_column, constant;
    length count = PyList_Size(constraints);
    if (count < 0 || read_pair(SLOT(tied_rows_class, tied, COLUMNS), &low, &high)) return ODD;
    for (int at = 0; at < 3; at++) found[at] = (struct extent){low, high};
    for (length at = 0; at < count; at++) {
        PyObject *each = PyList_GetItem(constraints, at);
        if (kind_of(each) != ROW || size(each) != 3 || read_small(item(each, 0), &of_row)) return ODD;
        if (read_small(item(each, 1), &of_column) || of_column == 0 || read_small(item(each, 2), &constant)) return ODD;
        wide here, there;
        if (multiply(of_row, first, &here) || multiply(of_row, last, &there)) return ODD;
        here += constant, there += constant;
        cut_extent(&found[0], of_column, here);
        cut_extent(&found[1], of_column, here > there ? here : there);
        cut_extent(&found[2], of_column, there);
    }
    return 0;
}

static PyObject *columns_given(PyObject *tied, PyObject *const *given, length n) {
    struct extent found[3];
    number first, last;
    if (n != 2 || read_small(given[0], &first) || read_small(given[1], &last) || columns_of(tied, first, last, found)) return NULL;
    return tuple_of(3, shown_extent(&found[0]), shown_extent(&found[1]), shown_extent(&found[2]), NULL);
}

static wide span_of(const struct extent *extent) { return extent->high - extent->low; }

/* As `TiedRows._groups`. */
static PyObject *groups_of(PyObject *tied, PyObject *object) {
    number count, begin, end, nrows;
    if (read_small(object, &count) || count < 0 || count > 1 << 16 || read_small(SLOT(tied_rows_class, tied, NROWS), &nrows)) return NULL;
    if (read_pair(SLOT(tied_rows_class, tied, ROWS), &begin, &end)) return NULL;
    PyObject *groups = PyList_New(0);
    wide least = 0;
    int wrong = groups == NULL;
    for (number at = 0; at < count && !wrong; at++) {
        wide first = begin + (wide)nrows * at / count, last = begin + (wide)nrows * (at + 1) / count - 1;
        struct extent columns[3];
        wrong = !is_number(first) || !is_number(last) || columns_of(tied, (number)first, (number)last, columns);
        if (wrong || columns[1].low > columns[1].high) continue;
        PyObject *group = tuple_of(2, shown_pair(first, last), shown_extent(&columns[1]), NULL, NULL);
        wrong = group == NULL || PyList_Append(groups, group);
        if (group != NULL) Py_DecRef(group);
        wide shorter = span_of(&columns[0]) < span_of(&columns[2]) ? span_of(&columns[0]) : span_of(&columns[2]);
        wrong = wrong || !is_number(shorter);
        if (shorter > 0) least += (last - first + 1) * shorter;
        wrong = wrong || !is_number(least);
    }
    if (!wrong) return tuple_of(2, groups, shown_wide(least), NULL, NULL);
    if (groups != NULL) Py_DecRef(groups);
    return NULL;
}

struct group {
    number first, last, low, high;
};

static int read_group(PyObject *object, struct group *group) {
    if (kind_of(object) != ROW || size(object) != 2) return ODD;
    return read_pair(item(object, 0), &group->first, &group->last) || read_pair(item(object, 1), &group->low, &group->high) ? ODD : 0;
}

/* As `Place.bands`. */
static PyObject *bands_of(PyObject *place, PyObject *given) {
    enum { MOST_GROUPS = 128 };
    struct group groups[MOST_GROUPS];
    number extent, pitch, width, from, to;
    length count = PyList_Size(given), left = 0;
    if (count <= 0 || count > MOST_GROUPS || read_small(SLOT(place_class, place, EXTENT), &extent)) return NULL;
    if (read_small(SLOT(place_class, place, PITCH), &pitch) || read_small(SLOT(place_class, place, WIDTH), &width)) return NULL;
    for (length at = 0; at < count; at++)
        if (read_group(PyList_GetItem(given, pitch > 0 ? at : count - 1 - at), &groups[at])) return NULL;
    number origin = width > 0 ? groups[0].low : groups[0].high;
    for (length at = 0; at < count; at++)
        origin = width > 0 ? smaller(origin, groups[at].low) : larger(origin, groups[at].high);
    for (length at = 0; at < count; at++) {
        struct group next = groups[at];
        if (pitch < 0) next.first = -groups[at].last, next.last = -groups[at].first;
        if (width < 0) next.low = groups[at].high, next.high = groups[at].low;
        struct group *before = left ? &groups[left - 1] : NULL;
        if (before != NULL && before->last + 1 == next.first && before->low == next.low && before->high == next.high)
            before->last = next.last;
        else
            groups[left++] = next;
    }
    PyObject *found = PyTuple_New(left);
    for (length at = 0; found != NULL && at < left; at++) {
        const struct group *group = &groups[at];
        int wrong = MULTIPLIES(width, group->low - origin, &from) || MULTIPLIES(width, group->high - origin, &to) || ADDS(to, extent, &to);
        PyObject *inner = wrong ? NULL : one_band(from, to, none);
        PyObject *first = PyLong_FromLongLong(group->first), *band = NULL;
        if (inner != NULL) band = tuple_of(3, first, PyLong_FromLongLong(group->last + 1), inner, NULL);
        else if (first != NULL) Py_DecRef(first);
        if (band == NULL) {
            Py_DecRef(found);
            return NULL;
        }
        PyTuple_SetItem(found, at, band);
    }
    return tuple_of(2, found, PyLong_FromLongLong(origin), NULL, NULL);
}
