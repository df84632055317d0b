/* What `projection.py` does with a domain and an offset, and `boxes_of` of `slicing.py`, on the same objects and with the same results.
 *
 * The functions in Python are the definition. These here stand in their places, and call them wherever something is not as it mostly is:
 * a number that is traced, or a large one; many variables, constraints or terms; no memory.
 */

/* Beside `ODD`: a domain is seen to have no point. */
enum { NO_POINT = 1 };

/* As in `projection.py`. */
enum { FEW_TERMS = 4 };

/* A domain and an offset while they are changed. */
struct reduction {
    struct box box;
    struct condition {
        struct form form;
        number constant;
    } constraints[MOST_CONSTRAINTS];
    length count;
    struct form offset;
    number constant;
    int exact;
};

/* Numbers of which sums of products have far less than 128 bits, and that are none of `INFINITE`'s. */
static int is_near(wide value) { return value > -((wide)1 << 60) && value < (wide)1 << 60; }

static int to_number(wide value, number *found) {
    *found = (number)value;
    return is_near(value) ? 0 : ODD;
}

static number coefficient_of(const struct form *form, number variable) {
    for (length at = 0; at < form->count; at++)
        if (form->terms[at].variable == variable) return form->terms[at].coefficient;
    return 0;
}

/* Whether a form is `sign` times another. */
static int is_multiple(const struct form *form, const struct form *other, number sign) {
    if (form->count != other->count) return 0;
    for (length at = 0; at < form->count; at++)
        if (coefficient_of(other, form->terms[at].variable) != sign * form->terms[at].coefficient) return 0;
    return 1;
}

static int add_term(struct form *form, number variable, number factor, number coefficient) {
    wide total = (wide)factor * coefficient;
    for (length at = 0; at < form->count; at++)
        if (form->terms[at].variable == variable) return to_number(form->terms[at].coefficient + total, &form->terms[at].coefficient);
    number shown;
    return to_number(total, &shown) || insert(form, form->count, variable, shown) ? ODD : 0;
}

/* `factor` times a form is added to another. */
static int add_form(struct form *form, number factor, const struct form *more) {
    for (length at = 0; at < more->count; at++)
        if (add_term(form, more->terms[at].variable, factor, more->terms[at].coefficient)) return ODD;
    return 0;
}

static void drop_term(struct form *form, number variable) {
    length kept_ones = 0;
    for (length at = 0; at < form->count; at++)
        if (form->terms[at].variable != variable) form->terms[kept_ones++] = form->terms[at];
    form->count = kept_ones;
}

/* As `_replace`, where it is. */
static int replace_variable(struct form *form, number x, const struct form *value) {
    number factor = coefficient_of(form, x);
    if (factor == 0) return 0;
    drop_term(form, x);
    if (add_form(form, factor, value)) return ODD;
    drop_nothing(form);
    return 0;
}

/* As `_Reduction.add`. */
static int add_constraint(struct reduction *made, wide constant, const struct form *form) {
    wide low, high;
    number small;
    if (form->count == 0 && constant < 0) return NO_POINT;
    if (to_number(constant, &small) || bounds_in_box(&made->box, form, small, &low, &high)) return ODD;
    if (low >= 0) return 0;
    if (high < 0) return NO_POINT;
    if (form->count == 1) {
        number variable = form->terms[0].variable, factor = form->terms[0].coefficient;
        wide bound = floored_wide(constant, absolute(factor));
        wide *lo = &made->box.lo[variable], *hi = &made->box.hi[variable];
        if (factor > 0 && -bound > *lo) *lo = -bound;
        if (factor < 0 && bound < *hi) *hi = bound;
        return *lo > *hi ? NO_POINT : 0;
    }
    if (made->count == MOST_CONSTRAINTS) return ODD;
    made->constraints[made->count].form = *form;
    made->constraints[made->count++].constant = small;
    return 0;
}

/* Its constraints are taken, for others to be added. */
static length take_constraints(struct reduction *made, struct condition *taken) {
    length count = made->count;
    memcpy(taken, made->constraints, (size_t)count * sizeof *taken);
    made->count = 0;
    return count;
}

static int new_variable(struct box *box, wide low, wide high) {
    if (box->count == MOST_VARIABLES || !is_near(low) || !is_near(high)) return ODD;
    box->lo[box->count] = low;
    box->hi[box->count++] = high;
    return 0;
}

static wide width_of(const struct box *box, number variable) { return box->hi[variable] - box->lo[variable]; }

/* As `_Reduction._remainder`: the number of a constraint, or the count where there is none; the bounds of its terms and the variable. */
static int find_remainder(const struct reduction *made, length *found, number *low, number *high, number *x) {
    for (*found = 0; *found < made->count; ++*found) {
        const struct form *form = &made->constraints[*found].form;
        number largest = 0;
        wide widest = 0;
        for (length at = 0; at < form->count; at++) {
            const struct term *term = &form->terms[at];
            if (absolute(term->coefficient) > largest) largest = absolute(term->coefficient);
            if (absolute(term->coefficient) == 1 && width_of(&made->box, term->variable) > widest) {
                widest = width_of(&made->box, term->variable);
                *x = term->variable;
            }
        }
        if (largest <= 1 || widest == 0) continue;
        int bounded = 0;
        *low = -LLONG_MAX;
        for (length at = 0; at < made->count; at++) {
            number constant = made->constraints[at].constant;
            if (is_multiple(form, &made->constraints[at].form, 1) && -constant > *low) *low = -constant;
            if (is_multiple(form, &made->constraints[at].form, -1) && (!bounded || constant < *high)) *high = constant, bounded = 1;
        }
        if (bounded && *low > *high) return NO_POINT;
        if (bounded && ((wide)*high - *low < widest || form->count <= FEW_TERMS)) return 0;
    }
    return 0;
}

/* As `_Reduction._is_implied`: 1, 0 or `ODD`. */
static int is_implied(const struct reduction *made, number x, const struct form *definition, number sign) {
    wide bound = sign > 0 ? made->box.lo[x] : -made->box.hi[x];
    for (length at = 0; at < made->count; at++) {
        struct form rest = made->constraints[at].form;
        number factor = sign * coefficient_of(&rest, x);
        wide least, most;
        if (factor <= 0 || is_multiple(definition, &rest, 1) || is_multiple(definition, &rest, -1)) continue;
        drop_term(&rest, x);
        if (bounds_in_box(&made->box, &rest, made->constraints[at].constant, &least, &most)) return ODD;
        if (-floored_wide(most, factor) >= bound) return 1;
    }
    return 0;
}

/* A variable of a constraint is replaced by others, and the constraint's own bounds by the new one's. `below`, `above`: whether the
 * variable's are not implied by others. */
static int use_remainder(struct reduction *made, const struct form *terms, number x, const struct form *value, int below, int above) {
    struct condition old[MOST_CONSTRAINTS];
    struct form negative = {.count = 0};
    length count = take_constraints(made, old);
    int wrong = add_form(&negative, -1, value);
    for (length at = 0; at < count && !wrong; at++) {
        struct form *form = &old[at].form;
        if (is_multiple(terms, form, 1) || is_multiple(terms, form, -1)) continue;
        wrong = replace_variable(form, x, value);
        if (!wrong) wrong = add_constraint(made, old[at].constant, form);
    }
    if (!wrong && below) wrong = add_constraint(made, -made->box.lo[x], value);
    if (!wrong && above) wrong = add_constraint(made, made->box.hi[x], &negative);
    return wrong ? wrong : replace_variable(&made->offset, x, value);
}

enum { MAX_TURNS = 4, MAX_DIGITS = 64, MAX_PAIRS = 64 };

/* As `_Reduction.rebase`. */
static int rebase(struct reduction *made) {
    int turns = 0;
    for (int digit = 0; digit < MAX_DIGITS; digit++) {
        length at;
        number low = 0, high = 0, x = 0;
        wide least, most;
        int wrong = find_remainder(made, &at, &low, &high, &x);
        if (wrong || at == made->count) return wrong;
        struct form terms = made->constraints[at].form, value = {.count = 0};
        number sign = coefficient_of(&terms, x);
        if (add_form(&value, -sign, &terms)) return ODD;
        drop_term(&value, x);
        if (new_variable(&made->box, low, high) || add_term(&value, made->box.count - 1, 1, sign)) return ODD;
        int of_low = is_implied(made, x, &terms, 1), of_high = is_implied(made, x, &terms, -1);
        if (of_low < 0 || of_high < 0) return ODD;
        if (!of_low && !of_high) {
            if (bounds_in_box(&made->box, &value, 0, &least, &most)) return ODD;
            if (least < made->box.lo[x] && made->box.hi[x] < most && turns++ == MAX_TURNS) return 0;
        }
        wrong = use_remainder(made, &terms, x, &value, !of_low, !of_high);
        if (wrong) return wrong;
    }
    return 0;
}

/* As `_Reduction._pairs`, but for the variable. */
static number pairs_of(const struct reduction *made, number variable) {
    number positive = 0, all = 0, more = 0;
    for (length at = 0; at < made->count; at++) {
        number factor = coefficient_of(&made->constraints[at].form, variable);
        all += factor != 0;
        positive += factor > 0;
        if (absolute(factor) > 1) more = 1000;
    }
    return (positive + 1) * (all - positive + 1) + more;
}

/* The variable to be projected out first; -1 if there is none. */
static number next_to_eliminate(const struct reduction *made) {
    number best = -1, fewest = 0;
    for (length at = 0; at < made->count; at++) {
        const struct form *form = &made->constraints[at].form;
        for (length term = 0; term < form->count; term++) {
            number variable = form->terms[term].variable;
            if (coefficient_of(&made->offset, variable) || variable == best) continue;
            number pairs = pairs_of(made, variable);
            if (best < 0 || pairs < fewest || (pairs == fewest && variable < best)) best = variable, fewest = pairs;
        }
    }
    return best;
}

/* A lower bound of a variable, times `a`, and an upper one, times `b`: what has to hold for there to be a value. */
static int add_pair(struct reduction *made, number a, const struct condition *lower, number b, const struct condition *upper) {
    struct form form = {.count = 0};
    if (lower->form.count == 0 && upper->form.count == 0) return 0;
    if (add_form(&form, b, &lower->form) || add_form(&form, a, &upper->form)) return ODD;
    drop_nothing(&form);
    wide constant = (wide)b * lower->constant + (wide)a * upper->constant, least, most;
    number small;
    if (to_number(constant, &small)) return ODD;
    if (a > 1 && b > 1) {
        if (bounds_in_box(&made->box, &form, small, &least, &most)) return ODD;
        if (least < (wide)(a - 1) * (b - 1)) made->exact = 0;
    }
    if (form.count) return add_constraint(made, constant, &form);
    return constant < 0 ? NO_POINT : 0;
}

/* As `_Reduction._eliminate`. */
static int eliminate_variable(struct reduction *made, number variable) {
    struct condition old[MOST_CONSTRAINTS + 2], lowers[MOST_CONSTRAINTS + 1], uppers[MOST_CONSTRAINTS + 1];
    number of_lower[MOST_CONSTRAINTS + 1] = {1}, of_upper[MOST_CONSTRAINTS + 1] = {1};
    length nlowers = 1, nuppers = 1, count = take_constraints(made, old);
    lowers[0].form.count = uppers[0].form.count = 0;
    if (to_number(-made->box.lo[variable], &lowers[0].constant) || to_number(made->box.hi[variable], &uppers[0].constant)) return ODD;
    for (length at = 0; at < count; at++) {
        number factor = coefficient_of(&old[at].form, variable);
        if (factor == 0) {
            made->constraints[made->count++] = old[at];
            continue;
        }
        drop_term(&old[at].form, variable);
        if (factor > 0) of_lower[nlowers] = factor, lowers[nlowers++] = old[at];
        else of_upper[nuppers] = -factor, uppers[nuppers++] = old[at];
    }
    if (nlowers * nuppers > MAX_PAIRS) {
        made->exact = 0;
        return 0;
    }
    for (length low = 0; low < nlowers; low++)
        for (length up = 0; up < nuppers; up++) {
            int wrong = add_pair(made, of_lower[low], &lowers[low], of_upper[up], &uppers[up]);
            if (wrong) return wrong;
        }
    return 0;
}

static int eliminate(struct reduction *made) {
    for (number variable; (variable = next_to_eliminate(made)) >= 0;) {
        int wrong = eliminate_variable(made, variable);
        if (wrong) return wrong;
    }
    return 0;
}

/* Whether two variables are in constraints only as x + steps * y. */
static int are_tied_alike(const struct reduction *made, number x, number y, number steps) {
    for (length at = 0; at < made->count; at++) {
        const struct form *form = &made->constraints[at].form;
        if ((wide)coefficient_of(form, y) != (wide)steps * coefficient_of(form, x)) return 0;
    }
    return 1;
}

/* As `_steps_of_another`, of a reduction: whether there are such variables. */
static int find_steps(const struct reduction *made, number *x, number *y, number *steps) {
    const struct form *offset = &made->offset;
    for (length one = 0; one < offset->count; one++) {
        *x = offset->terms[one].variable;
        wide count = width_of(&made->box, *x) + 1;
        if (count <= 1) continue;
        for (length other = 0; other < offset->count; other++) {
            number of_x = offset->terms[one].coefficient, of_y = offset->terms[other].coefficient;
            *y = offset->terms[other].variable;
            *steps = divided_down(of_y, of_x);
            if (one == other || *steps == 0 || absolute(*steps) > count || of_y % of_x) continue;
            if (are_tied_alike(made, *x, *y, *steps)) return 1;
        }
    }
    return 0;
}

/* As `_Reduction.merge_ids`. */
static int merge_ids(struct reduction *made) {
    number x, y, steps;
    while (find_steps(made, &x, &y, &steps)) {
        struct condition old[MOST_CONSTRAINTS];
        wide further = steps * width_of(&made->box, y), shift = made->box.lo[y];
        if (further > 0) made->box.hi[x] += further;
        else made->box.lo[x] += further;
        if (!is_near(made->box.hi[x]) || !is_near(made->box.lo[x])) return ODD;
        if (to_number(made->constant + coefficient_of(&made->offset, y) * shift, &made->constant)) return ODD;
        drop_term(&made->offset, y);
        length count = take_constraints(made, old);
        for (length at = 0; at < count; at++) {
            wide constant = old[at].constant + coefficient_of(&old[at].form, y) * shift;
            drop_term(&old[at].form, y);
            int wrong = add_constraint(made, constant, &old[at].form);
            if (wrong) return wrong;
        }
    }
    return 0;
}

/* ---- what constraints tie together ---------------------------------------------------------------------------------- */

enum { MOST_TIED = 64 };

/* As `_components` of `domain_image.py`, of what it is given: a set of variables is one word of bits here. */
static PyObject *components(PyObject *const *given, length n) {
    uint64_t groups[MOST_TIED];
    length count = 0, forms = n == 1 ? PyList_Size(given[0]) : -1;
    if (forms < 0) return NULL;
    for (length at = 0; at < forms; at++) {
        PyObject *terms = PyList_GetItem(given[0], at), *variable, *coefficient;
        uint64_t merged = 0;
        number each;
        if (PyDict_Size(terms) <= 0) return NULL;
        for (length next = 0; PyDict_Next(terms, &next, &variable, &coefficient);) {
            if (read_number(variable, &each) || each < 0 || each >= MOST_TIED) return NULL;
            merged |= (uint64_t)1 << each;
        }
        const uint64_t mine = merged;
        length left = 0;
        for (length group = 0; group < count; group++) {
            if (groups[group] & mine) merged |= groups[group];
            else groups[left++] = groups[group];
        }
        groups[left] = merged; /* none of the others has any of its variables: there are no more groups than variables */
        count = left + 1;
    }
    PyObject *found = PyList_New(0);
    for (length group = 0; found != NULL && group < count; group++) {
        PyObject *variables = PyList_New(0);
        int wrong = variables == NULL;
        for (number each = 0; each < MOST_TIED && !wrong; each++) {
            if (!(groups[group] >> each & 1)) continue;
            PyObject *shown = PyLong_FromLongLong(each);
            wrong = shown == NULL || PyList_Append(variables, shown);
            if (shown != NULL) Py_DecRef(shown);
        }
        wrong = wrong || PyList_Append(found, variables);
        if (variables != NULL) Py_DecRef(variables);
        if (!wrong) continue;
        Py_DecRef(found);
        found = NULL;
    }
    return found;
}

/* ---- from Python's objects, and to them ----------------------------------------------------------------------------- */

static int read_ends(PyObject *lo, PyObject *hi, struct box *box) {
    number low, high;
    length count = PyList_Size(lo);
    box->count = 0;
    if (count < 0 || PyList_Size(hi) != count) return ODD;
    for (length at = 0; at < count; at++)
        if (read_small(PyList_GetItem(lo, at), &low) || read_small(PyList_GetItem(hi, at), &high) || new_variable(box, low, high)) return ODD;
    return 0;
}

static int read_known_form(PyObject *terms, const struct box *box, struct form *form) {
    if (terms == NULL || read_form(terms, form) || !has_variables(box, form)) return ODD;
    for (length at = 0; at < form->count; at++)
        if (form->terms[at].coefficient == 0 || !is_near(form->terms[at].coefficient)) return ODD;
    return 0;
}

static PyObject *list_of_ends(const wide *ends, length count) {
    PyObject *made = PyList_New(count);
    for (length at = 0; made != NULL && at < count; at++) {
        PyObject *end = shown_wide(ends[at]);
        if (end == NULL || PyList_SetItem(made, at, end)) {
            Py_DecRef(made);
            return NULL;
        }
    }
    return made;
}

/* Constraints' forms, or their constants. */
static PyObject *list_of_constraints(const struct reduction *made, int constants) {
    PyObject *found = PyList_New(made->count);
    for (length at = 0; found != NULL && at < made->count; at++) {
        const struct condition *each = &made->constraints[at];
        PyObject *shown = constants ? PyLong_FromLongLong(each->constant) : dict_of(&each->form);
        if (shown == NULL || PyList_SetItem(found, at, shown)) {
            Py_DecRef(found);
            return NULL;
        }
    }
    return found;
}

/* The variables of the offset that no constraint has; `start`: with the constant. */
static PyObject *list_of_free(const struct reduction *made, wide *start) {
    PyObject *found = PyList_New(0);
    *start = made->constant;
    for (length at = 0; found != NULL && at < made->offset.count; at++) {
        const struct term *term = &made->offset.terms[at];
        int tied = 0;
        for (length each = 0; each < made->count && !tied; each++)
            tied = coefficient_of(&made->constraints[each].form, term->variable) != 0;
        if (tied) continue;
        *start += (wide)term->coefficient * made->box.lo[term->variable];
        PyObject *pair = shown_pair(term->coefficient, width_of(&made->box, term->variable) + 1);
        int wrong = pair == NULL || PyList_Append(found, pair);
        if (pair != NULL) Py_DecRef(pair);
        if (wrong) {
            Py_DecRef(found);
            return NULL;
        }
    }
    return found;
}

/* `Parts`. */
enum { PARTS = 9 };

static PyObject *shown_parts(const struct reduction *made) {
    wide start = 0;
    PyObject *free_ones = list_of_free(made, &start), *parts = PyTuple_New(PARTS);
    PyObject *items[PARTS] = {
        list_of_ends(made->box.lo, made->box.count),
        list_of_ends(made->box.hi, made->box.count),
        list_of_constraints(made, 0),
        list_of_constraints(made, 1),
        PyLong_FromLongLong(made->constant),
        dict_of(&made->offset),
        PyBool_FromLong(made->exact),
        shown_wide(start),
        free_ones,
    };
    int wrong = parts == NULL;
    for (length at = 0; at < PARTS; at++) wrong = wrong || items[at] == NULL;
    for (length at = 0; at < PARTS; at++) {
        if (!wrong) PyTuple_SetItem(parts, at, items[at]);
        else if (items[at] != NULL) Py_DecRef(items[at]);
    }
    if (wrong && parts != NULL) Py_DecRef(parts);
    return wrong ? NULL : parts;
}

static PyObject *shown_or_none(int wrong, const struct reduction *made) {
    if (wrong == NO_POINT) return kept(none);
    return wrong ? NULL : shown_parts(made);
}

/* As `reduced`, of what it is given: lists of bounds, forms and an offset. */
static PyObject *reduced_domain(PyObject *const *given, length n) {
    struct reduction made = {.count = 0, .exact = 1};
    length count;
    if (n != 4 || (count = PyList_Size(given[2])) < 0 || read_ends(given[0], given[1], &made.box)) return NULL;
    if (read_form_object(given[3], &made.offset, &made.constant) || !is_near(made.constant)) return NULL;
    if (read_known_form(OF_FORM(given[3], FORM_TERMS), &made.box, &made.offset)) return NULL;
    int wrong = 0;
    for (length at = 0; at < count && !wrong; at++) {
        struct form form;
        number constant;
        PyObject *object = PyList_GetItem(given[2], at);
        if (read_form_object(object, &form, &constant) || read_known_form(OF_FORM(object, FORM_TERMS), &made.box, &form)) return NULL;
        if (form.count) wrong = add_constraint(&made, constant, &form);
    }
    if (!wrong) wrong = rebase(&made);
    if (!wrong) wrong = eliminate(&made);
    if (!wrong) wrong = merge_ids(&made);
    return shown_or_none(wrong, &made);
}

/* A form in which two variables are told by others: `unit` and `step` by x and y, which come last. */
static int tell(
    struct form *form, number unit, number step, number modulus, number sign, number remainder, number x, wide *shift) {
    number a = coefficient_of(form, unit), b = coefficient_of(form, step);
    struct form more = {.terms = {{x, 0}, {x + 1, b}}, .count = 2};
    *shift = (wide)a * remainder;
    if (to_number((wide)a * modulus + (wide)b * sign, &more.terms[0].coefficient)) return ODD;
    drop_term(form, unit);
    drop_term(form, step);
    drop_nothing(&more);
    return add_form(form, 1, &more);
}

/* As `of_class`, of what it is given: parts, terms, two of their variables and the remainder. */
static PyObject *class_of_domain(PyObject *const *given, length n) {
    struct reduction made = {.count = 0};
    struct form terms, form;
    number unit, step, remainder;
    wide shift;
    if (n != 5 || kind_of(given[0]) != ROW || size(given[0]) != PARTS || read_number(given[2], &unit) || read_number(given[3], &step)) return NULL;
    PyObject *parts[PARTS];
    for (length at = 0; at < PARTS; at++) parts[at] = item(given[0], at);
    length count = PyList_Size(parts[2]);
    if (read_small(given[4], &remainder) || !is_near(remainder) || read_ends(parts[0], parts[1], &made.box)) return NULL;
    if (count < 0 || PyList_Size(parts[3]) != count || read_small(parts[4], &made.constant) || !is_near(made.constant)) return NULL;
    if (read_known_form(parts[5], &made.box, &made.offset) || read_known_form(given[1], &made.box, &terms)) return NULL;
    number of_unit = coefficient_of(&terms, unit), of_step = coefficient_of(&terms, step), modulus = absolute(of_step);
    if (of_unit == 0 || of_step == 0) return NULL;
    number sign = divided_down(-of_unit * modulus, of_step), x = made.box.count;
    wide low = -floored_wide(remainder - made.box.lo[unit], modulus), high = floored_wide(made.box.hi[unit] - remainder, modulus);
    wide one = sign * low, other = sign * high, first = made.box.lo[step], last = made.box.hi[step];
    made.exact = parts[6] != no;
    if (low > high) return kept(none);
    if (new_variable(&made.box, low, high)) return NULL;
    if (new_variable(&made.box, first - (one > other ? one : other), last - (one > other ? other : one))) return NULL;
    if (tell(&made.offset, unit, step, modulus, sign, remainder, x, &shift)) return NULL;
    if (to_number(made.constant + shift, &made.constant)) return NULL;
    int wrong = 0;
    for (length at = 0; at < count && !wrong; at++) {
        number constant;
        if (read_small(PyList_GetItem(parts[3], at), &constant) || !is_near(constant)) return NULL;
        if (read_known_form(PyList_GetItem(parts[2], at), &made.box, &form)) return NULL;
        if (tell(&form, unit, step, modulus, sign, remainder, x, &shift)) return NULL;
        wrong = add_constraint(&made, constant + shift, &form);
    }
    struct form above = {.terms = {{x + 1, 1}, {x, sign}}, .count = 2}, below = {.terms = {{x + 1, -1}, {x, -sign}}, .count = 2};
    if (!wrong) wrong = add_constraint(&made, -first, &above);
    if (!wrong) wrong = add_constraint(&made, last, &below);
    if (!wrong) wrong = merge_ids(&made);
    return shown_or_none(wrong, &made);
}

/* ---- boxes ---------------------------------------------------------------------------------------------------------- */

/* As `ROUNDS` in `slicing.py`; and boxes, parts of parts and variables of more than which Python takes care. */
enum { ROUNDS = 8, MOST_FOUND = 128, MOST_DEEP = 40, MOST_SIDES = 32 };

/* A box, and the constraints on it, whose variables are numbers of its sides. */
struct sides {
    wide lo[MOST_SIDES], hi[MOST_SIDES];
};
struct slicing {
    struct condition constraints[MOST_CONSTRAINTS];
    struct sides found[MOST_FOUND];
    length count, sides;
    number vain, refused; /* `refused`: -1 if there is none */
};
/* Those that still cut. */
struct left {
    int of[MOST_CONSTRAINTS];
    int count;
};

/* As `_cuts`: 1 or 0, or that there is no point (-2). */
enum { NOTHING_LEFT = -2, TOO_MANY = -3 };
static int cut_sides(struct sides *box, const struct condition *by) {
    wide least = by->constant, most = by->constant;
    for (length at = 0; at < by->form.count; at++) {
        const struct term *term = &by->form.terms[at];
        wide low, high;
        if (multiply(term->coefficient, box->lo[term->variable], &low) || multiply(term->coefficient, box->hi[term->variable], &high))
            return ODD;
        least += term->coefficient > 0 ? low : high;
        most += term->coefficient > 0 ? high : low;
    }
    if (least >= 0) return 0;
    if (most < 0) return NOTHING_LEFT;
    for (length at = 0; at < by->form.count; at++) {
        number factor = by->form.terms[at].coefficient;
        wide *lo = &box->lo[by->form.terms[at].variable], *hi = &box->hi[by->form.terms[at].variable];
        wide bound = floored_wide(most - factor * (factor > 0 ? *hi : *lo), absolute(factor));
        if (factor > 0 && -bound > *lo) *lo = -bound;
        if (factor < 0 && bound < *hi) *hi = bound;
        if (*lo > *hi) return NOTHING_LEFT;
    }
    return 1;
}

/* As `_narrow`. */
static int narrow_sides(const struct slicing *all, struct sides *box, struct left *left) {
    for (int round = 0; round < ROUNDS; round++) {
        struct sides before = *box;
        int count = 0, changed = 0;
        for (int at = 0; at < left->count; at++) {
            int cuts_it = cut_sides(box, &all->constraints[left->of[at]]);
            if (cuts_it < 0) return cuts_it;
            if (cuts_it) left->of[count++] = left->of[at];
        }
        left->count = count;
        for (length side = 0; side < all->sides; side++)
            changed = changed || before.lo[side] != box->lo[side] || before.hi[side] != box->hi[side];
        if (count == 0 || !changed) return 0;
    }
    return TOO_MANY;
}

/* As `_untouched`; with `in_line`, where all others have one value, as `_is_in_line`. */
static int narrow_side(const struct slicing *all, const struct sides *box, const struct left *left, number side, wide *low, wide *high) {
    *low = box->lo[side], *high = box->hi[side];
    for (int at = 0; at < left->count; at++) {
        const struct condition *by = &all->constraints[left->of[at]];
        number factor = coefficient_of(&by->form, side);
        if (factor == 0) continue;
        wide least = by->constant;
        for (length each = 0; each < by->form.count; each++) {
            const struct term *term = &by->form.terms[each];
            wide part;
            if (term->variable == side) continue;
            if (multiply(term->coefficient, term->coefficient > 0 ? box->lo[term->variable] : box->hi[term->variable], &part)) return ODD;
            least += part;
        }
        wide bound = floored_wide(least, absolute(factor));
        if (factor > 0 && -bound > *low) *low = -bound;
        if (factor < 0 && bound < *high) *high = bound;
    }
    return 0;
}

static int keep_sides(struct slicing *all, const struct sides *box) {
    if (all->count == MOST_FOUND) return ODD;
    all->found[all->count++] = *box;
    return 0;
}

/* As `_reach`. */
static int find_reach(const struct slicing *all, const struct sides *box, const struct left *left, number side, wide *reach) {
    number largest = 0;
    for (int at = 0; at < left->count; at++) {
        number factor = absolute(coefficient_of(&all->constraints[left->of[at]].form, side));
        if (factor > largest) largest = factor;
    }
    return multiply(largest, box->hi[side] - box->lo[side], reach);
}

/* The side along which least lies outside of the part that no constraint cuts; how many sides are open, and another one of them. */
static int find_side(
    const struct slicing *all, const struct sides *box, const struct left *left, number *best, wide *low, wide *high, number *other) {
    number sides[MOST_SIDES];
    int nsides = 0;
    wide least = 0, furthest = 0, reach;
    for (int at = 0; at < left->count; at++) {
        const struct form *form = &all->constraints[left->of[at]].form;
        for (length term = 0; term < form->count; term++) {
            number side = form->terms[term].variable;
            int known = 0;
            while (known < nsides && sides[known] != side) known++;
            if (known == nsides && box->lo[side] < box->hi[side]) sides[nsides++] = side;
        }
    }
    for (int at = 0; at < nsides; at++) {
        wide first, last;
        if (narrow_side(all, box, left, sides[at], &first, &last) || find_reach(all, box, left, sides[at], &reach)) return ODD;
        wide outside = box->hi[sides[at]] - box->lo[sides[at]] + 1 - (last >= first ? last - first + 1 : 0);
        if (at && (outside > least || (outside == least && reach <= furthest))) continue;
        least = outside, furthest = reach;
        *best = sides[at], *low = first, *high = last;
    }
    for (int at = 0; at < nsides; at++)
        if (sides[at] != *best) *other = sides[at];
    return nsides;
}

static int slice(struct slicing *all, struct sides box, struct left left, number most, int depth);

/* A part of a box, in which a side has these bounds. */
static int slice_part(
    struct slicing *all, const struct sides *box, const struct left *left, number side, wide low, wide high, number in_line, number most,
    int depth) {
    struct sides part = *box;
    part.lo[side] = low, part.hi[side] = high;
    if (in_line >= 0 && low == high) {
        for (int at = 0; at < left->count; at++)
            if (coefficient_of(&all->constraints[left->of[at]].form, in_line) == 0) return ODD;
        if (narrow_side(all, &part, left, in_line, &low, &high)) return ODD;
        part.lo[in_line] = low, part.hi[in_line] = high;
        return low > high ? 0 : keep_sides(all, &part);
    }
    int wrong = slice(all, part, *left, most, depth + 1);
    return wrong ? wrong : all->vain < 0 ? TOO_MANY : 0;
}

/* As `_parts`. */
static int slice(struct slicing *all, struct sides box, struct left left, number most, int depth) {
    length before = all->count;
    number side = -1, other = -1;
    wide low = 0, high = 0;
    if (depth > MOST_DEEP) return ODD;
    int wrong = narrow_sides(all, &box, &left);
    if (wrong == NOTHING_LEFT) {
        all->vain--;
        return 0;
    }
    if (wrong) return wrong;
    if (left.count == 0) return keep_sides(all, &box);
    int nsides = find_side(all, &box, &left, &side, &low, &high, &other);
    if (nsides <= 0) return ODD;
    wide first = box.lo[side], last = box.hi[side], outside = last - first + 1 - (high >= low ? high - low + 1 : 0);
    if (outside >= most) {
        if (depth == 0 && to_number(outside, &all->refused)) return ODD;
        return TOO_MANY;
    }
    number in_line = nsides == 2 ? other : -1;
    if (low <= high) wrong = slice_part(all, &box, &left, side, low, high, in_line, most, depth);
    for (wide value = first; value <= last && !wrong; value++) {
        if (low <= high && value == low) value = high + 1;
        if (value > last) break;
        wrong = slice_part(all, &box, &left, side, value, value, in_line, most - (number)(all->count - before), depth);
    }
    return wrong ? wrong : all->count - before > most ? TOO_MANY : 0;
}

/* A form whose variables become numbers of sides. */
static int number_sides(struct form *form, const number *keys, length sides) {
    for (length at = 0; at < form->count; at++) {
        length side = 0;
        while (side < sides && keys[side] != form->terms[at].variable) side++;
        if (side == sides || form->terms[at].coefficient == 0 || !is_near(form->terms[at].coefficient)) return ODD;
        form->terms[at].variable = side;
    }
    return 0;
}

static PyObject *list_of_boxes(const struct slicing *all, PyObject *const *keys) {
    PyObject *boxes = PyList_New(all->count);
    for (length at = 0; boxes != NULL && at < all->count; at++) {
        PyObject *box = PyDict_New();
        int wrong = box == NULL;
        for (length side = 0; side < all->sides && !wrong; side++)
            wrong = write_side(box, keys[side], all->found[at].lo[side], all->found[at].hi[side]);
        if (wrong && box != NULL) Py_DecRef(box);
        if (wrong || PyList_SetItem(boxes, at, box)) {
            Py_DecRef(boxes);
            return NULL;
        }
    }
    return boxes;
}

/* As `boxes_of`, of what it is given. */
static PyObject *boxes_of(PyObject *const *given, length n) {
    struct slicing all; /* large: not all of it is set */
    struct sides box;
    struct left left = {.count = 0};
    PyObject *keys[MOST_SIDES], *pair;
    all.count = all.sides = 0, all.refused = -1;
    number most, low, high, numbers[MOST_SIDES];
    length count = n < 3 || n > 4 ? -1 : PyList_Size(given[1]);
    if (count < 0 || count > MOST_CONSTRAINTS || read_small(given[2], &most) || PyDict_Size(given[0]) > MOST_SIDES) return NULL;
    PyObject *refused = n == 4 ? given[3] : none;
    for (length at = 0; PyDict_Next(given[0], &at, &keys[all.sides], &pair); all.sides++) {
        if (kind_of(pair) != ROW || size(pair) != 2 || read_number(keys[all.sides], &numbers[all.sides])) return NULL;
        if (read_small(item(pair, 0), &low) || read_small(item(pair, 1), &high) || !is_near(low) || !is_near(high)) return NULL;
        box.lo[all.sides] = low, box.hi[all.sides] = high;
    }
    for (length at = 0; at < count; at++) {
        PyObject *terms;
        struct condition *next = &all.constraints[at];
        if (read_parts(PyList_GetItem(given[1], at), &terms, &next->constant) || !is_near(next->constant)) return NULL;
        if (read_form(terms, &next->form) || number_sides(&next->form, numbers, all.sides)) return NULL;
        left.of[left.count++] = (int)at;
    }
    all.vain = most;
    int wrong = slice(&all, box, left, most, 0);
    if (wrong && wrong != TOO_MANY) return NULL;
    PyObject *found = wrong ? kept(none) : list_of_boxes(&all, keys);
    for (int way = 0; way < 2 && found != NULL && refused != none; way++) {
        if (way == 0 ? all.refused < 0 : all.vain >= 0) continue;
        PyObject *limit = PyLong_FromLongLong(way == 0 ? all.refused : most);
        if (limit != NULL) {
            PyList_Append(refused, limit);
            Py_DecRef(limit);
        }
    }
    return found;
}
