/* What `domain.py` does most with iteration domains, on the same objects and with the same results.
 *
 * The methods and functions in Python are the definition. These here stand in their places, and call them wherever something is not as
 * it mostly is: a number that is traced, or one of more than 64 bits that is not the one that stands for no bound; a domain without
 * points, of which Python raises; a form or a domain of many parts; no memory. They have changed nothing then.
 */

enum { FORM_CONSTANT, FORM_TERMS };
enum { CONSTRAINTS, DEPENDS, EXACT, HI, LO, LOOSE, ORIGINS, REASONS, SHAPES, DOMAIN_SLOTS };

static struct slotted
    form_class = {.name = "Form", .slots = {"constant", "terms"}},
    domain_class = {.name = "Domain",
                    .slots = {"constraints", "depends", "exact", "hi", "lo", "loose", "origins", "reasons", "shapes"}};

#define OF_FORM(object, slot) SLOT(form_class, object, slot)
#define OF_DOMAIN(object, slot) SLOT(domain_class, object, slot)

/* ---- numbers, and no bounds ----------------------------------------------------------------------------------------- */

/* As `INFINITE` in `nodes.py`, and its negative; made once, never let go. */
enum { INFINITE_BITS = 100 };
static PyObject *infinite, *negative_infinite;

/* Ints of Python's that have 64 bits, those two, and sums of a few multiples of them. */
typedef __int128 wide;
#define NO_BOUND ((wide)1 << INFINITE_BITS)

static int make_infinite(void) {
    PyObject *zero = PyLong_FromLongLong(0), *one = PyLong_FromLongLong(1), *bits = PyLong_FromLongLong(INFINITE_BITS);
    if (infinite == NULL && one != NULL && bits != NULL) infinite = PyNumber_Lshift(one, bits);
    if (negative_infinite == NULL && zero != NULL && infinite != NULL) negative_infinite = PyNumber_Subtract(zero, infinite);
    if (zero != NULL) Py_DecRef(zero);
    if (one != NULL) Py_DecRef(one);
    if (bits != NULL) Py_DecRef(bits);
    return negative_infinite != NULL;
}

static int is_equal(PyObject *a, PyObject *b) { return a == b || PyObject_RichCompareBool(a, b, EQUAL) == 1; }

static int read_wide(PyObject *object, wide *value) {
    int overflow = 0;
    if (object == NULL || type_of(object) != int_type) return ODD;
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) return 0;
    *value = overflow > 0 ? NO_BOUND : -NO_BOUND;
    return is_equal(object, overflow > 0 ? infinite : negative_infinite) ? 0 : ODD;
}

static int is_number(wide value) { return value >= -LLONG_MAX && value <= LLONG_MAX; }

static PyObject *shown_wide(wide value) {
    if (is_number(value)) return PyLong_FromLongLong((number)value);
    return value == NO_BOUND ? kept(infinite) : value == -NO_BOUND ? kept(negative_infinite) : NULL;
}

static PyObject *shown_pair(wide a, wide b) { return tuple_of(2, shown_wide(a), shown_wide(b), NULL, NULL); }

/* A multiple that is so small that all terms of a form together are numbers here. */
static int multiply(number factor, wide value, wide *found) {
    number most = is_number(value) ? (number)1 << 46 : 1 << 10;
    if (factor > most || factor < -most) return ODD;
    *found = value * factor;
    return 0;
}

/* Rounded down, for a divisor above 0. */
static wide floored_wide(wide a, number divisor) {
    if (is_number(a)) return divided_down((number)a, divisor);
    return a / divisor - (a % divisor < 0);
}

/* ---- forms and bounds ----------------------------------------------------------------------------------------------- */

static int read_form_object(PyObject *object, struct form *form, number *constant) {
    if (type_of(object) != form_class.class || OF_FORM(object, FORM_TERMS) == NULL) return ODD;
    return read_small(OF_FORM(object, FORM_CONSTANT), constant) || read_form(OF_FORM(object, FORM_TERMS), form) ? ODD : 0;
}

static PyObject *new_form(number constant, const struct form *form) {
    PyObject *of_constant = PyLong_FromLongLong(constant), *terms = dict_of(form), *made = NULL;
    if (of_constant != NULL && terms != NULL) made = PyType_GenericAlloc(form_class.class, 0);
    if (made == NULL) {
        if (of_constant != NULL) Py_DecRef(of_constant);
        if (terms != NULL) Py_DecRef(terms);
        return NULL;
    }
    OF_FORM(made, FORM_CONSTANT) = of_constant;
    OF_FORM(made, FORM_TERMS) = terms;
    return made;
}

static int read_end(PyObject *ends, number variable, wide *value) {
    return variable < 0 || variable >= PyList_Size(ends) ? ODD : read_wide(PyList_GetItem(ends, variable), value);
}

/* The bounds of a linear part, by those of its variables. */
static int linear_bounds(const struct form *form, PyObject *lo, PyObject *hi, wide *low, wide *high) {
    *low = *high = 0;
    for (length at = 0; at < form->count; at++) {
        const struct term *term = &form->terms[at];
        wide least, most;
        if (read_end(lo, term->variable, &least) || multiply(term->coefficient, least, &least)) return ODD;
        if (read_end(hi, term->variable, &most) || multiply(term->coefficient, most, &most)) return ODD;
        *low += term->coefficient > 0 ? least : most;
        *high += term->coefficient > 0 ? most : least;
    }
    return 0;
}

/* As `_shape`, of a form that has terms. */
static PyObject *shape_of(const struct form *form, number *factor) {
    number first = form->terms[0].variable, sign = form->terms[0].coefficient;
    *factor = 0;
    for (length at = 0; at < form->count; at++) {
        *factor = common(*factor, form->terms[at].coefficient);
        if (form->terms[at].variable < first) first = form->terms[at].variable, sign = form->terms[at].coefficient;
    }
    if (*factor == 0) return NULL;
    if (sign < 0) *factor = -*factor;
    PyObject *pairs = PyTuple_New(form->count);
    for (length at = 0; pairs != NULL && at < form->count; at++) {
        const struct term *term = &form->terms[at];
        PyObject *variable = PyLong_FromLongLong(term->variable);
        PyObject *pair = tuple_of(2, variable, PyLong_FromLongLong(term->coefficient / *factor), NULL, NULL);
        if (pair == NULL) {
            Py_DecRef(pairs);
            return NULL;
        }
        PyTuple_SetItem(pairs, at, pair);
    }
    PyObject *shape = pairs == NULL ? NULL : PyFrozenSet_New(pairs);
    if (pairs != NULL) Py_DecRef(pairs);
    return shape;
}

/* What a multiple of no bound is: further away than any sum of numbers. */
#define FAR_AWAY ((wide)1 << 120)

static int multiply_bound(number factor, wide bound, wide *found) {
    if (is_number(bound)) return multiply(factor, bound, found);
    *found = (bound > 0) == (factor > 0) ? FAR_AWAY : -FAR_AWAY;
    return 0;
}

/* Two numbers in a tuple, as often as `factor` says, which is not 0, in their order. */
static int read_multiples(PyObject *pair, number factor, wide *low, wide *high) {
    wide a, b;
    if (kind_of(pair) != ROW || size(pair) != 2 || read_wide(item(pair, 0), &a) || read_wide(item(pair, 1), &b)) return ODD;
    if (multiply_bound(factor, a, &a) || multiply_bound(factor, b, &b)) return ODD;
    *low = a < b ? a : b;
    *high = a < b ? b : a;
    return 0;
}

/* Bounds are no wider than others, which are added up of two parts; what is far away makes no difference to numbers. */
static int narrow_to(wide least, wide more, wide most, wide further, wide *low, wide *high) {
    if (least == -FAR_AWAY) {
        if (!is_number(*low) || !is_number(more)) return ODD;
    } else if (least + more > *low) {
        *low = least + more;
    }
    if (most == FAR_AWAY) {
        if (!is_number(*high) || !is_number(further)) return ODD;
    } else if (most + further < *high) {
        *high = most + further;
    }
    return 0;
}

/* As `Domain.bounds`. */
static int find_bounds(PyObject *domain, const struct form *form, number constant, wide *low, wide *high) {
    PyObject *shapes = OF_DOMAIN(domain, SHAPES);
    if (linear_bounds(form, OF_DOMAIN(domain, LO), OF_DOMAIN(domain, HI), low, high)) return ODD;
    if (form->count > 1 && PyDict_Size(shapes)) {
        number factor;
        wide least, most;
        PyObject *shape = shape_of(form, &factor), *known = shape == NULL ? NULL : entry(shapes, shape);
        if (shape == NULL) return ODD;
        Py_DecRef(shape);
        if (known != NULL) {
            if (read_multiples(known, factor, &least, &most) || narrow_to(least, 0, most, 0, low, high)) return ODD;
        }
    }
    *low += constant, *high += constant;
    return 0;
}

/* Factors of which each is once. */
struct factors {
    number of[MOST_TERMS];
    length count;
};

/* The coefficients of a form as multiples of those of a shape, which is read as well. */
static int read_shape(PyObject *shape, const struct form *form, struct form *part, struct factors *factors) {
    PyObject *pairs = PyObject_GetIter(shape), *pair;
    int wrong = pairs == NULL;
    part->count = factors->count = 0;
    while (!wrong && (pair = PyIter_Next(pairs)) != NULL) {
        struct term term;
        wrong = part->count == MOST_TERMS || kind_of(pair) != ROW || size(pair) != 2 || read_number(item(pair, 0), &term.variable) ||
                read_small(item(pair, 1), &term.coefficient) || term.coefficient == 0;
        Py_DecRef(pair);
        if (wrong) break;
        part->terms[part->count++] = term;
        length at = 0, known = 0;
        while (at < form->count && form->terms[at].variable != term.variable) at++;
        if (at == form->count || form->terms[at].coefficient % term.coefficient) continue;
        number factor = form->terms[at].coefficient / term.coefficient;
        while (known < factors->count && factors->of[known] != factor) known++;
        if (known == factors->count) factors->of[factors->count++] = factor;
    }
    if (pairs != NULL) Py_DecRef(pairs);
    return wrong ? ODD : 0;
}

/* A form less a multiple of another one. */
static int subtract_form(const struct form *form, const struct form *part, number factor, struct form *rest) {
    *rest = *form;
    for (length at = 0; at < part->count; at++) {
        number much;
        length place = 0;
        if (MULTIPLIES(part->terms[at].coefficient, factor, &much)) return ODD;
        while (place < rest->count && rest->terms[place].variable != part->terms[at].variable) place++;
        if (place == rest->count && insert(rest, place, part->terms[at].variable, 0)) return ODD;
        if (SUBTRACTS(rest->terms[place].coefficient, much, &rest->terms[place].coefficient)) return ODD;
    }
    drop_nothing(rest);
    return 0;
}

/* As `Domain.tight_bounds`. */
static int find_tight_bounds(PyObject *domain, const struct form *form, number constant, wide *low, wide *high) {
    PyObject *shape, *bounds;
    struct form part, rest;
    struct factors factors;
    if (find_bounds(domain, form, constant, low, high)) return ODD;
    if (form->count < 2) return 0;
    for (length at = 0; PyDict_Next(OF_DOMAIN(domain, SHAPES), &at, &shape, &bounds);) {
        if (read_shape(shape, form, &part, &factors)) return ODD;
        for (length each = 0; each < factors.count; each++) {
            wide least, most, rest_low, rest_high;
            if (read_multiples(bounds, factors.of[each], &least, &most)) return ODD;
            if (subtract_form(form, &part, factors.of[each], &rest)) return ODD;
            if (find_bounds(domain, &rest, constant, &rest_low, &rest_high)) return ODD;
            if (narrow_to(least, rest_low, most, rest_high, low, high)) return ODD;
        }
    }
    return 0;
}

static PyObject *bounds_by(
    int (*find)(PyObject *, const struct form *, number, wide *, wide *), PyObject *domain, PyObject *object) {
    struct form form;
    number constant;
    wide low, high;
    if (read_form_object(object, &form, &constant) || find(domain, &form, constant, &low, &high)) return NULL;
    return shown_pair(low, high);
}

/* As `box_bounds`, of what it is given. */
static PyObject *box_bounds(PyObject *const *given, length n) {
    struct form form;
    number constant;
    wide low, high;
    if (n != 4 || read_small(given[0], &constant) || read_form(given[1], &form)) return NULL;
    return linear_bounds(&form, given[2], given[3], &low, &high) ? NULL : shown_pair(low + constant, high + constant);
}

/* As `added_up`, of what it is given. */
static PyObject *added_up(PyObject *const *given, length n) {
    struct form total = {.count = 0}, form;
    number constant, factor, more, part;
    if (n != 3 || read_small(given[0], &constant) || kind_of(given[1]) != ROW || size(given[1]) != PyList_Size(given[2])) return NULL;
    for (length at = 0; at < size(given[1]); at++) {
        PyObject *term = item(given[1], at);
        if (kind_of(term) != ROW || size(term) != 2 || read_small(item(term, 1), &factor)) return NULL;
        if (read_form_object(PyList_GetItem(given[2], at), &form, &more)) return NULL;
        if (MULTIPLIES(factor, more, &part) || ADDS(constant, part, &constant)) return NULL;
        for (length each = 0; each < form.count; each++) {
            length place = find_term(&total, form.terms[each].variable);
            if (place == total.count && insert(&total, place, form.terms[each].variable, 0)) return NULL;
            if (MULTIPLIES(factor, form.terms[each].coefficient, &part)) return NULL;
            if (ADDS(total.terms[place].coefficient, part, &total.terms[place].coefficient)) return NULL;
        }
    }
    drop_nothing(&total);
    return new_form(constant, &total);
}

/* As `Domain.corner`. */
static PyObject *corner(PyObject *domain, PyObject *object) {
    struct form form;
    number constant;
    wide low, unused;
    if (read_form_object(object, &form, &constant)) return NULL;
    PyObject *lo = OF_DOMAIN(domain, LO);
    return linear_bounds(&form, lo, lo, &low, &unused) ? NULL : shown_wide(low + constant);
}

/* As `Domain.outline`. */
static PyObject *outline(PyObject *domain) {
    PyObject *lo = OF_DOMAIN(domain, LO), *hi = OF_DOMAIN(domain, HI), *constraints = OF_DOMAIN(domain, CONSTRAINTS);
    length variables = PyList_Size(lo), count = PyList_Size(constraints);
    if (variables < 0 || count < 0 || PyList_Size(hi) != variables) return NULL;
    PyObject *found = PyTuple_New(variables + count);
    for (length at = 0; found != NULL && at < variables + count; at++) {
        PyObject *part = NULL, *variable, *coefficient;
        wide low, high;
        if (at < variables) {
            if (!read_end(lo, at, &low) && !read_end(hi, at, &high)) part = shown_wide(high - low);
        } else {
            PyObject *form = PyList_GetItem(constraints, at - variables), *constant = corner(domain, form);
            PyObject *terms = constant == NULL ? NULL : OF_FORM(form, FORM_TERMS);
            part = terms == NULL ? NULL : PyTuple_New(PyDict_Size(terms) + 1);
            if (part != NULL) PyTuple_SetItem(part, 0, kept(constant));
            for (length next = 0, place = 1; part != NULL && PyDict_Next(terms, &next, &variable, &coefficient); place++) {
                PyObject *pair = tuple_of(2, kept(variable), kept(coefficient), NULL, NULL);
                if (pair != NULL) {
                    PyTuple_SetItem(part, place, pair);
                    continue;
                }
                Py_DecRef(part);
                part = NULL;
            }
            if (constant != NULL) Py_DecRef(constant);
        }
        if (part == NULL) {
            Py_DecRef(found);
            return NULL;
        }
        PyTuple_SetItem(found, at, part);
    }
    return found;
}

/* ---- boxes that constraints narrow ---------------------------------------------------------------------------------- */

enum { MOST_VARIABLES = 64, MOST_CONSTRAINTS = 64 };

struct box {
    wide lo[MOST_VARIABLES], hi[MOST_VARIABLES];
    length count;
};

static int read_box(PyObject *domain, struct box *box) {
    PyObject *lo = OF_DOMAIN(domain, LO), *hi = OF_DOMAIN(domain, HI);
    box->count = PyList_Size(lo);
    if (box->count < 0 || box->count > MOST_VARIABLES || PyList_Size(hi) != box->count) return ODD;
    for (length at = 0; at < box->count; at++)
        if (read_end(lo, at, &box->lo[at]) || read_end(hi, at, &box->hi[at])) return ODD;
    return 0;
}

/* Put into a domain's lists what has changed: nothing where that cannot be done. */
static int write_box(PyObject *domain, const struct box *before, const struct box *after) {
    PyObject *changed[2][MOST_VARIABLES] = {{NULL}}, *ends[] = {OF_DOMAIN(domain, LO), OF_DOMAIN(domain, HI)};
    int wrong = 0;
    for (length at = 0; at < after->count && !wrong; at++) {
        if (before->lo[at] != after->lo[at]) wrong = (changed[0][at] = shown_wide(after->lo[at])) == NULL;
        if (before->hi[at] != after->hi[at] && !wrong) wrong = (changed[1][at] = shown_wide(after->hi[at])) == NULL;
    }
    for (length at = 0; at < 2 * after->count; at++) {
        PyObject *end = changed[at % 2][at / 2];
        if (end != NULL && wrong) Py_DecRef(end);
        else if (end != NULL) PyList_SetItem(ends[at % 2], at / 2, end);
    }
    return wrong ? ODD : 0;
}

static int has_variables(const struct box *box, const struct form *form) {
    for (length at = 0; at < form->count; at++)
        if (form->terms[at].variable < 0 || form->terms[at].variable >= box->count) return 0;
    return 1;
}

static int bounds_in_box(const struct box *box, const struct form *form, number constant, wide *low, wide *high) {
    *low = *high = constant;
    for (length at = 0; at < form->count; at++) {
        const struct term *term = &form->terms[at];
        wide least, most;
        if (multiply(term->coefficient, box->lo[term->variable], &least)) return ODD;
        if (multiply(term->coefficient, box->hi[term->variable], &most)) return ODD;
        *low += term->coefficient > 0 ? least : most;
        *high += term->coefficient > 0 ? most : least;
    }
    return 0;
}

/* As `Domain._tighten`: whether anything changed; `highest`: of the form. */
static int tighten(struct box *box, const struct form *form, wide highest) {
    int changed = 0;
    for (length at = 0; at < form->count; at++) {
        number coefficient = form->terms[at].coefficient;
        wide *lo = &box->lo[form->terms[at].variable], *hi = &box->hi[form->terms[at].variable], part;
        if (multiply(coefficient, coefficient > 0 ? *hi : *lo, &part)) return ODD;
        wide bound = floored_wide(highest - part, absolute(coefficient));
        if (coefficient > 0 && -bound > *lo) *lo = -bound, changed = 1;
        if (coefficient < 0 && bound < *hi) *hi = bound, changed = 1;
        if (*lo > *hi) return ODD; /* there are no points */
    }
    return changed;
}

static PyObject *tightened(PyObject *domain, PyObject *object) {
    struct form form;
    struct box before, after;
    number constant;
    wide low, high;
    if (read_form_object(object, &form, &constant) || read_box(domain, &before) || !has_variables(&before, &form)) return NULL;
    after = before;
    if (bounds_in_box(&before, &form, constant, &low, &high)) return NULL;
    int changed = tighten(&after, &form, high);
    return changed < 0 || write_box(domain, &before, &after) ? NULL : PyBool_FromLong(changed);
}

struct constraint {
    struct form form;
    number constant;
    PyObject *object; /* NULL: not the one that it was */
};

/* Replace variables that have one value. */
static int fold(const struct box *box, struct constraint *constraint) {
    struct form *form = &constraint->form;
    length count = 0;
    for (length at = 0; at < form->count; at++) {
        struct term term = form->terms[at];
        wide part;
        if (box->lo[term.variable] != box->hi[term.variable]) {
            form->terms[count++] = term;
            continue;
        }
        if (multiply(term.coefficient, box->lo[term.variable], &part) || !is_number(part + constraint->constant)) return ODD;
        constraint->constant += (number)part;
    }
    if (count != form->count) constraint->object = NULL;
    form->count = count;
    return 0;
}

/* As `Domain.fold`. */
static PyObject *folded(PyObject *domain, PyObject *object) {
    struct constraint constraint = {.object = object};
    PyObject *lo = OF_DOMAIN(domain, LO), *hi = OF_DOMAIN(domain, HI);
    struct form *form = &constraint.form;
    wide constant;
    length count = 0;
    if (read_form_object(object, form, &constraint.constant)) return NULL;
    constant = constraint.constant;
    for (length at = 0; at < form->count; at++) {
        struct term term = form->terms[at];
        wide low, high, part;
        if (read_end(lo, term.variable, &low) || read_end(hi, term.variable, &high)) return NULL;
        if (low != high) form->terms[count++] = term;
        else if (multiply(term.coefficient, low, &part)) return NULL;
        else constant += part;
    }
    if (count == form->count) return kept(object);
    form->count = count;
    return is_number(constant) ? new_form((number)constant, form) : NULL;
}

/* As a round of `Domain.settle`: the places of the constraints that are left, and whether anything changed. */
static int settle_once(struct box *box, struct constraint *all, length *left, length *count) {
    length kept_ones = 0;
    int changed = 0;
    for (length at = 0; at < *count; at++) {
        struct constraint *each = &all[left[at]];
        wide low, high;
        if (fold(box, each) || bounds_in_box(box, &each->form, each->constant, &low, &high) || high < 0) return ODD;
        if (low >= 0) continue;
        int narrower = tighten(box, &each->form, high);
        if (narrower < 0) return ODD;
        changed |= narrower;
        if (each->form.count > 1) left[kept_ones++] = left[at];
    }
    *count = kept_ones;
    return changed;
}

static PyObject *constraints_left(const struct constraint *all, const length *left, length count) {
    PyObject *found = PyList_New(count);
    for (length at = 0; found != NULL && at < count; at++) {
        const struct constraint *each = &all[left[at]];
        PyObject *object = each->object != NULL ? kept(each->object) : new_form(each->constant, &each->form);
        if (object == NULL) {
            Py_DecRef(found);
            return NULL;
        }
        PyList_SetItem(found, at, object);
    }
    return found;
}

/* As `Domain.settle`. */
static PyObject *settle_domain(PyObject *domain) {
    enum { ROUNDS = 4 };
    PyObject *constraints = OF_DOMAIN(domain, CONSTRAINTS);
    length count = PyList_Size(constraints), left[MOST_CONSTRAINTS];
    struct constraint all[MOST_CONSTRAINTS];
    struct box before, after;
    if (count < 0 || count > MOST_CONSTRAINTS || read_box(domain, &before)) return NULL;
    after = before;
    for (length at = 0; at < count; at++) {
        left[at] = at;
        all[at].object = PyList_GetItem(constraints, at);
        if (read_form_object(all[at].object, &all[at].form, &all[at].constant) || !has_variables(&before, &all[at].form)) return NULL;
    }
    int changed = 1;
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = settle_once(&after, all, left, &count);
        if (changed < 0) return NULL;
    }
    PyObject *found = constraints_left(all, left, count);
    if (found == NULL) return NULL;
    if (write_box(domain, &before, &after)) {
        Py_DecRef(found);
        return NULL;
    }
    put_slot(&domain_class, domain, CONSTRAINTS, found);
    return kept(none);
}

/* As `Domain.copy`. */
static PyObject *copied(PyObject *domain) {
    PyObject *parts[DOMAIN_SLOTS], *twin = PyType_GenericAlloc(domain_class.class, 0);
    int wrong = twin == NULL;
    for (int slot = 0; slot < DOMAIN_SLOTS; slot++) {
        PyObject *part = OF_DOMAIN(domain, slot);
        parts[slot] = NULL;
        if (wrong || part == NULL) wrong = 1;
        else if (slot == LO || slot == HI || slot == CONSTRAINTS) parts[slot] = PyList_GetSlice(part, 0, PyList_Size(part));
        else if (slot == SHAPES || slot == DEPENDS) parts[slot] = PyDict_Copy(part);
        else parts[slot] = kept(part);
        wrong = wrong || parts[slot] == NULL;
    }
    for (int slot = 0; slot < DOMAIN_SLOTS; slot++) {
        if (!wrong) OF_DOMAIN(twin, slot) = parts[slot];
        else if (parts[slot] != NULL) Py_DecRef(parts[slot]);
    }
    if (wrong && twin != NULL) {
        Py_DecRef(twin);
        return NULL;
    }
    return twin;
}

/* As `Domain.within`; where no point is left by its constraints, Python says so. */
static PyObject *within(PyObject *domain, PyObject *limits) {
    if (type_of(limits) != tuple_type) return NULL;
    PyObject *twin = copied(domain), *settled = NULL;
    int wrong = twin == NULL;
    for (length at = 0; at < size(limits) && !wrong; at++) {
        PyObject *limit = item(limits, at);
        number variable;
        wide low, high, least, most;
        wrong = kind_of(limit) != ROW || size(limit) != 3 || read_number(item(limit, 0), &variable) ||
                read_wide(item(limit, 1), &low) || read_wide(item(limit, 2), &high);
        if (wrong) break;
        PyObject *lo = OF_DOMAIN(twin, LO), *hi = OF_DOMAIN(twin, HI);
        wrong = read_end(lo, variable, &least) || read_end(hi, variable, &most);
        if (wrong) break;
        if (low > least) PyList_SetItem(lo, variable, kept(item(limit, 1)));
        if (high < most) PyList_SetItem(hi, variable, kept(item(limit, 2)));
        if ((low > least ? low : least) > (high < most ? high : most)) {
            Py_DecRef(twin);
            return kept(none);
        }
        wrong = 0;
    }
    if (!wrong) settled = settle_domain(twin);
    if (settled != NULL) Py_DecRef(settled);
    else if (twin != NULL) Py_DecRef(twin);
    return settled == NULL ? NULL : twin;
}

/* ---- forms that are made of others ---------------------------------------------------------------------------------- */

/* A form with the terms of another one, as neither is ever changed. */
static PyObject *with_constant(PyObject *form, number constant) {
    PyObject *of_constant = PyLong_FromLongLong(constant), *made = NULL;
    if (of_constant != NULL) made = PyType_GenericAlloc(form_class.class, 0);
    if (made == NULL) {
        if (of_constant != NULL) Py_DecRef(of_constant);
        return NULL;
    }
    OF_FORM(made, FORM_CONSTANT) = of_constant;
    OF_FORM(made, FORM_TERMS) = kept(OF_FORM(form, FORM_TERMS));
    return made;
}

/* As `Form.plus`, of what it is given. */
static PyObject *form_plus(PyObject *self, PyObject *const *given, length n) {
    struct form form, more;
    number factor = 1, constant, part;
    if (n < 1 || n > 2 || (n == 2 && read_small(given[1], &factor))) return NULL;
    if (factor == 0) return kept(self);
    if (read_form_object(self, &form, &constant) || read_form_object(given[0], &more, &part)) return NULL;
    if (more.count == 0 && part == 0) return kept(self);
    if (MULTIPLIES(part, factor, &part) || ADDS(constant, part, &constant)) return NULL;
    if (more.count == 0) return with_constant(self, constant);
    for (length at = 0; at < more.count; at++) {
        length place = 0;
        while (place < form.count && form.terms[place].variable != more.terms[at].variable) place++;
        if (place == form.count && insert(&form, place, more.terms[at].variable, 0)) return NULL;
        number *coefficient = &form.terms[place].coefficient;
        if (MULTIPLIES(more.terms[at].coefficient, factor, &part) || ADDS(*coefficient, part, coefficient)) return NULL;
    }
    drop_nothing(&form);
    return new_form(constant, &form);
}

/* As `Form.times`. */
static PyObject *form_times(PyObject *self, PyObject *object) {
    struct form form;
    number factor, constant;
    if (read_small(object, &factor) || read_form_object(self, &form, &constant)) return NULL;
    if (factor == 1) return kept(self);
    if (factor == 0) form.count = 0;
    if (MULTIPLIES(constant, factor, &constant)) return NULL;
    for (length at = 0; at < form.count; at++)
        if (MULTIPLIES(form.terms[at].coefficient, factor, &form.terms[at].coefficient)) return NULL;
    return new_form(constant, &form);
}

/* As `Form.shifted`. */
static PyObject *form_shifted(PyObject *self, PyObject *object) {
    number more, constant;
    if (read_small(object, &more) || read_small(OF_FORM(self, FORM_CONSTANT), &constant)) return NULL;
    if (more == 0) return kept(self);
    return ADDS(constant, more, &constant) ? NULL : with_constant(self, constant);
}

/* As `divided`, of what it is given. */
static PyObject *divided_form(PyObject *const *given, length n) {
    struct form form, whole = {.count = 0}, rest = {.count = 0};
    number constant, divisor;
    if (n != 2 || read_form_object(given[0], &form, &constant) || read_small(given[1], &divisor) || divisor <= 0) return NULL;
    for (length at = 0; at < form.count; at++) {
        number quotient = form.terms[at].coefficient / divisor, left = form.terms[at].coefficient % divisor; /* towards 0 */
        if (quotient && insert(&whole, whole.count, form.terms[at].variable, quotient)) return NULL;
        if (left && insert(&rest, rest.count, form.terms[at].variable, left)) return NULL;
    }
    number quotient = divided_down(constant, divisor);
    PyObject *of_rest = rest.count ? new_form(constant - quotient * divisor, &rest) : kept(none);
    return tuple_of(2, new_form(quotient, &whole), of_rest, NULL, NULL);
}

/* ---- what is required of a domain ----------------------------------------------------------------------------------- */

/* As `Domain.is_loose`: 1, 0 or `ODD`. */
static int has_loose(PyObject *domain, PyObject *form) {
    PyObject *loose = OF_DOMAIN(domain, LOOSE), *terms, *variable, *coefficient;
    if (type_of(form) != form_class.class || loose == NULL || (terms = OF_FORM(form, FORM_TERMS)) == NULL) return ODD;
    for (length at = 0; PyDict_Next(terms, &at, &variable, &coefficient);) {
        int found = PySet_Contains(loose, variable);
        if (found) return found < 0 ? ODD : 1;
    }
    return 0;
}

/* As `Domain.ancestors`. */
static PyObject *ancestors(PyObject *domain, PyObject *form) {
    PyObject *terms, *variable, *coefficient, *more, *found = NULL;
    if (type_of(form) != form_class.class || (terms = OF_FORM(form, FORM_TERMS)) == NULL) return NULL;
    for (length at = 0; PyDict_Next(terms, &at, &variable, &coefficient);) {
        PyObject *known = entry(OF_DOMAIN(domain, DEPENDS), variable);
        if (known == NULL) continue;
        if (found == NULL && (found = PySet_New(terms)) == NULL) return NULL;
        PyObject *each = PyObject_GetIter(known);
        while (each != NULL && (more = PyIter_Next(each)) != NULL) {
            PySet_Add(found, more);
            Py_DecRef(more);
        }
        if (each != NULL) Py_DecRef(each);
    }
    if (found == NULL) return PyFrozenSet_New(terms);
    PyObject *made = PyFrozenSet_New(found);
    Py_DecRef(found);
    return made;
}

/* Divide a form by what all its coefficients have in common, and its constant, rounded down; whether that is more than 1. */
static int divide_by_common(struct form *form, number *constant) {
    number factor = 0;
    for (length at = 0; at < form->count; at++) factor = common(factor, form->terms[at].coefficient);
    if (factor <= 1) return 0;
    for (length at = 0; at < form->count; at++) form->terms[at].coefficient /= factor;
    *constant = divided_down(*constant, factor);
    return 1;
}

/* What is known of a form's shape once it is 0 or more: the entry and its key. */
static int known_shape(PyObject *domain, const struct form *form, number constant, PyObject **shape, PyObject **bounds) {
    number factor;
    wide low = -NO_BOUND, high = NO_BOUND;
    *bounds = NULL;
    *shape = shape_of(form, &factor);
    PyObject *known = *shape == NULL ? NULL : entry(OF_DOMAIN(domain, SHAPES), *shape);
    if (*shape == NULL) return ODD;
    if (known != NULL && (kind_of(known) != ROW || size(known) != 2 || read_wide(item(known, 0), &low) || read_wide(item(known, 1), &high)))
        return ODD;
    if (factor > 0 && -constant > low) low = -constant;
    if (factor < 0 && constant < high) high = constant;
    if (low > high) return ODD; /* there are no points */
    *bounds = shown_pair(low, high);
    return *bounds == NULL ? ODD : 0;
}

/* A constraint that cuts something, of more than one variable, is kept. */
static int keep_constraint(PyObject *domain, PyObject *object, const struct form *form, number constant, int changed) {
    PyObject *shape, *bounds, *made = NULL;
    int wrong = known_shape(domain, form, constant, &shape, &bounds);
    if (!wrong) wrong = (made = changed ? new_form(constant, form) : kept(object)) == NULL;
    if (!wrong) wrong = PyDict_SetItem(OF_DOMAIN(domain, SHAPES), shape, bounds) || PyList_Append(OF_DOMAIN(domain, CONSTRAINTS), made);
    PyObject *mine[] = {shape, bounds, made};
    for (int at = 0; at < 3; at++)
        if (mine[at] != NULL) Py_DecRef(mine[at]);
    return wrong ? ODD : 0;
}

/* As `Domain.require`; what raises, and what blurs the domain, is left to Python. */
static PyObject *required(PyObject *domain, PyObject *object) {
    struct form form;
    struct box before, after;
    number constant;
    wide low, high;
    if (read_form_object(object, &form, &constant) || find_bounds(domain, &form, constant, &low, &high)) return NULL;
    if (low < 0 && high >= 0 && PyDict_Size(OF_DOMAIN(domain, SHAPES)))
        if (find_tight_bounds(domain, &form, constant, &low, &high)) return NULL;
    if (low >= 0) return PyBool_FromLong(0);
    if (high < 0 || (OF_DOMAIN(domain, EXACT) != no && has_loose(domain, object))) return NULL; /* else it is blurred already */
    int divided = divide_by_common(&form, &constant);
    if (read_box(domain, &before) || !has_variables(&before, &form)) return NULL;
    after = before;
    if (bounds_in_box(&before, &form, constant, &low, &high) || tighten(&after, &form, high) < 0) return NULL;
    if (form.count > 1 && keep_constraint(domain, object, &form, constant, divided)) return NULL;
    return write_box(domain, &before, &after) ? NULL : PyBool_FromLong(1);
}
