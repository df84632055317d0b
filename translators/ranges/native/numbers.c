/* What `tracing.py` and `linear_forms.py` do most, on the same objects and with the same results: numbers that are traced.
 *
 * The methods in Python are the definition. These here stand in their places, and call them wherever something is not as it mostly is:
 * an operand that is neither a Number nor an int, an int of more than 64 bits, a trace that is closed; no memory. What they have noted
 * until then, they would have noted all the same, and to note it again changes nothing.
 *
 * `terms` are dicts, as there, and of a trace; what finds them gives them borrowed, as they live as long as it does.
 */

/* ---- objects with slots --------------------------------------------------------------------------------------------- */

enum { CONSTANT, TERMS, TRACE, VALUE };
enum { CLOSED, COMPARED, KNOWN, MULTIPLES, NORMAL, OTHERS, RANGES, SOLUTION, SUMS, ALL_TERMS, VARIABLES };
enum { FORMS, IN_FORMS_OF, PARAMETERS };

static struct slotted
    number_class = {.name = "Number", .slots = {"constant", "terms", "trace", "value"}},
    trace_class = {.name = "Trace",
                   .slots = {"closed", "compared", "_known", "_multiples", "_normal", "_others", "_ranges", "_solution", "_sums",
                             "_terms", "_variables"}},
    solution_class = {.name = "Solution", .slots = {"forms", "_in_forms_of", "_parameters"}};

#define OF_NUMBER(object, slot) SLOT(number_class, object, slot)
#define OF_TRACE(object, slot) SLOT(trace_class, object, slot)

/* ---- small things --------------------------------------------------------------------------------------------------- */

#define ADDS __builtin_add_overflow
#define SUBTRACTS __builtin_sub_overflow
#define MULTIPLIES __builtin_mul_overflow

/* Rounded down; no divisor is 0, and nothing is as small as the least number. */
static number divided_down(number a, number b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static number modulo(number a, number b) { return a - divided_down(a, b) * b; }
static number absolute(number a) { return a < 0 ? -a : a; }
static number common(number a, number b) {
    for (a = absolute(a), b = absolute(b); b != 0;) {
        number rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* A number that can be negated, and have 1 added. */
static int read_small(PyObject *object, number *value) {
    return read_number(object, value) || *value < -LLONG_MAX / 2 || *value > LLONG_MAX / 2 ? ODD : 0;
}

/* Of objects whose references are taken. */
static PyObject *tuple_of(length count, PyObject *a, PyObject *b, PyObject *c, PyObject *d) {
    PyObject *items[] = {a, b, c, d}, *made = PyTuple_New(count);
    for (length at = 0; at < count; at++) {
        if (items[at] == NULL && made != NULL) {
            Py_DecRef(made); /* with what it has already */
            made = NULL;
        }
        if (made != NULL) PyTuple_SetItem(made, at, items[at]);
        else if (items[at] != NULL) Py_DecRef(items[at]);
    }
    return made;
}

/* What a table has under a key, borrowed; NULL if there is nothing. */
static PyObject *entry(PyObject *table, PyObject *key) { return PyDict_GetItem(table, key); }

/* Enter what was made under a key; the references of both are taken, and what is there is borrowed. */
static PyObject *entered(PyObject *table, PyObject *key, PyObject *made) {
    PyObject *found = key == NULL || made == NULL || PyDict_SetItem(table, key, made) ? NULL : made;
    if (key != NULL) Py_DecRef(key);
    if (made != NULL) Py_DecRef(made); /* the table has it */
    return found;
}

static int put_number(PyObject *table, PyObject *key, number value) {
    PyObject *object = PyLong_FromLongLong(value);
    int wrong = object == NULL || PyDict_SetItem(table, key, object) ? ODD : 0;
    if (object != NULL) Py_DecRef(object);
    return wrong;
}

/* A bound, or none. */
struct bound {
    number value;
    int there;
};

static int read_bound(PyObject *object, struct bound *bound) {
    *bound = (struct bound){0, object != none};
    return bound->there ? read_small(object, &bound->value) : 0;
}

static PyObject *shown_bound(const struct bound *bound) {
    return bound->there ? PyLong_FromLongLong(bound->value) : kept(none);
}

/* ---- forms ---------------------------------------------------------------------------------------------------------- */

/* Terms that are not too many, in an order. */
enum { MOST_TERMS = 48 };
struct form {
    struct term {
        number variable, coefficient;
    } terms[MOST_TERMS];
    length count;
};

static int read_form(PyObject *terms, struct form *form) {
    PyObject *variable, *coefficient;
    form->count = 0;
    if (PyDict_Size(terms) < 0 || PyDict_Size(terms) > MOST_TERMS) return ODD;
    for (length at = 0; PyDict_Next(terms, &at, &variable, &coefficient); form->count++) {
        struct term *term = &form->terms[form->count];
        if (read_number(variable, &term->variable) || read_small(coefficient, &term->coefficient)) return ODD;
    }
    return 0;
}

/* Where the variable is, or has to be inserted, in a form that ascends. */
static length place_in(const struct form *form, number variable) {
    length at = form->count;
    while (at > 0 && form->terms[at - 1].variable >= variable) at--;
    return at;
}

static int insert(struct form *form, length at, number variable, number coefficient) {
    if (form->count == MOST_TERMS) return ODD;
    memmove(&form->terms[at + 1], &form->terms[at], (size_t)(form->count - at) * sizeof *form->terms);
    form->terms[at] = (struct term){variable, coefficient};
    form->count++;
    return 0;
}

static int sort(struct form *form) {
    struct form sorted = {.count = 0};
    for (length at = 0; at < form->count; at++) {
        struct term *term = &form->terms[at];
        if (insert(&sorted, place_in(&sorted, term->variable), term->variable, term->coefficient)) return ODD;
    }
    memcpy(form->terms, sorted.terms, (size_t)form->count * sizeof *form->terms);
    return 0;
}

/* As `linear_forms.plus`. */
static PyObject *plus(PyObject *terms, PyObject *others, number factor) {
    PyObject *found = PyDict_Copy(terms), *variable, *coefficient;
    int wrong = found == NULL;
    for (length at = 0; !wrong && PyDict_Next(others, &at, &variable, &coefficient);) {
        number of_other, total = 0;
        PyObject *known = entry(found, variable);
        wrong = read_small(coefficient, &of_other) || (known != NULL && read_number(known, &total)) ||
                MULTIPLIES(of_other, factor, &of_other) || ADDS(total, of_other, &total);
        if (!wrong) wrong = total != 0 ? put_number(found, variable, total) : PyDict_DelItem(found, variable);
    }
    if (wrong && found != NULL) {
        Py_DecRef(found);
        return NULL;
    }
    return found;
}

/* Terms as a tuple of pairs, in their order, with coefficients divided by a factor that all have. */
static PyObject *linear_of(const struct form *form, number factor) {
    PyObject *linear = PyTuple_New(form->count);
    for (length at = 0; linear != NULL && at < form->count; at++) {
        const struct term *term = &form->terms[at];
        PyObject *variable = PyLong_FromLongLong(term->variable);
        PyObject *pair = tuple_of(2, variable, PyLong_FromLongLong(term->coefficient / factor), NULL, NULL);
        if (pair == NULL) {
            Py_DecRef(linear);
            return NULL;
        }
        PyTuple_SetItem(linear, at, pair);
    }
    return linear;
}

/* The linear part of a form that ascends, as of `linear_forms.normal`, and its factor. */
static PyObject *normal_form(const struct form *form, number *common_factor) {
    number factor = 0;
    for (length at = 0; at < form->count; at++) {
        if (form->terms[at].coefficient < -LLONG_MAX / 2 || form->terms[at].coefficient > LLONG_MAX / 2) return NULL;
        factor = common(factor, form->terms[at].coefficient);
    }
    if (form->terms[0].coefficient < 0) factor = -factor;
    *common_factor = factor;
    return linear_of(form, factor);
}

/* As `linear_forms.normal`. */
static PyObject *normal(PyObject *terms) {
    struct form form;
    number factor;
    if (read_form(terms, &form) || form.count == 0 || sort(&form)) return NULL;
    PyObject *linear = normal_form(&form, &factor);
    return linear == NULL ? NULL : tuple_of(2, linear, PyLong_FromLongLong(factor), NULL, NULL);
}

/* A form as a dict, in its order. */
static PyObject *dict_of(const struct form *form) {
    PyObject *terms = PyDict_New();
    for (length at = 0; terms != NULL && at < form->count; at++) {
        PyObject *variable = PyLong_FromLongLong(form->terms[at].variable);
        int wrong = variable == NULL || put_number(terms, variable, form->terms[at].coefficient);
        if (variable != NULL) Py_DecRef(variable);
        if (wrong) {
            Py_DecRef(terms);
            return NULL;
        }
    }
    return terms;
}

/* `linear_forms.plus`, of what it is given. */
static PyObject *plus_given(PyObject *const *given, length n) {
    number factor;
    return n == 3 && !read_number(given[2], &factor) ? plus(given[0], given[1], factor) : NULL;
}

/* A term in the variables that a solution leaves: as often in a form, which ascends, and what is constant in it. */
static int put_in_form(PyObject *forms, PyObject *variable, number factor, struct form *form, number *constant) {
    PyObject *known = entry(forms, variable);
    struct form more = {.count = 1};
    number of_form = 0;
    if (known == NULL) {
        if (read_number(variable, &more.terms[0].variable)) return ODD;
        more.terms[0].coefficient = 1;
    } else if (kind_of(known) != ROW || read_form(item(known, 0), &more) || read_number(item(known, 1), &of_form)) {
        return ODD;
    }
    if (MULTIPLIES(of_form, factor, &of_form) || ADDS(*constant, of_form, constant)) return ODD;
    for (length at = 0; at < more.count; at++) {
        struct term *term = &more.terms[at];
        length place = place_in(form, term->variable);
        number part;
        if (MULTIPLIES(term->coefficient, factor, &part)) return ODD;
        if (place == form->count || form->terms[place].variable != term->variable) {
            if (insert(form, place, term->variable, part)) return ODD;
        } else if (ADDS(form->terms[place].coefficient, part, &form->terms[place].coefficient)) {
            return ODD;
        }
    }
    return 0;
}

/* Without terms that have become nothing. */
static void drop_nothing(struct form *form) {
    length count = 0;
    for (length at = 0; at < form->count; at++)
        if (form->terms[at].coefficient != 0) form->terms[count++] = form->terms[at];
    form->count = count;
}

/* As `Solution.reduced`. */
static PyObject *reduced(PyObject *solution, PyObject *terms, PyObject *constant_object) {
    PyObject *forms = SLOT(solution_class, solution, FORMS), *variable, *coefficient;
    struct form found = {.count = 0};
    number constant, factor;
    if (forms == NULL || read_number(constant_object, &constant)) return NULL;
    for (length at = 0; PyDict_Next(terms, &at, &variable, &coefficient);)
        if (read_small(coefficient, &factor) || put_in_form(forms, variable, factor, &found, &constant)) return NULL;
    drop_nothing(&found);
    return tuple_of(2, dict_of(&found), PyLong_FromLongLong(constant), NULL, NULL);
}

/* As `Solution.range_of`. */
static PyObject *range_of(PyObject *solution, PyObject *linear, PyObject *low_object, PyObject *high_object) {
    PyObject *forms = SLOT(solution_class, solution, FORMS);
    struct form form = {.count = 0};
    struct bound low, high;
    number constant = 0, factor;
    int same = 1;
    if (forms == NULL || kind_of(linear) != ROW || read_bound(low_object, &low) || read_bound(high_object, &high)) return NULL;
    for (length at = 0; at < size(linear); at++) {
        PyObject *term = item(linear, at), *variable = kind_of(term) == ROW && size(term) == 2 ? item(term, 0) : NULL;
        if (variable == NULL || read_small(item(term, 1), &factor)) return NULL;
        if (put_in_form(forms, variable, factor, &form, &constant)) return NULL;
        same = same && entry(forms, variable) == NULL;
    }
    if (same) return tuple_of(3, kept(low_object), kept(high_object), kept(linear), NULL);
    drop_nothing(&form);
    if (form.count == 0) return kept(none);
    PyObject *rest = normal_form(&form, &factor);
    if (rest == NULL) return NULL;
    if (constant < -LLONG_MAX / 4 || constant > LLONG_MAX / 4) {
        Py_DecRef(rest);
        return NULL;
    }
    if (factor < 0) {
        struct bound before = low;
        low = (struct bound){-high.value, high.there}, high = (struct bound){-before.value, before.there};
        constant = -constant, factor = -factor;
    }
    low.value = -divided_down(constant - low.value, factor);
    high.value = divided_down(high.value - constant, factor);
    return tuple_of(3, shown_bound(&low), shown_bound(&high), rest, NULL);
}

/* ---- what a trace knows --------------------------------------------------------------------------------------------- */

/* As `Trace.terms`; the reference of what is given is taken. */
static PyObject *known_terms(PyObject *trace, PyObject *terms) {
    PyObject *key = terms == NULL ? NULL : PyTuple_New(PyDict_Size(terms)), *variable, *coefficient;
    for (length at = 0, place = 0; key != NULL && PyDict_Next(terms, &at, &variable, &coefficient); place++) {
        PyObject *pair = tuple_of(2, kept(variable), kept(coefficient), NULL, NULL);
        if (pair == NULL) {
            Py_DecRef(key);
            key = NULL;
        } else {
            PyTuple_SetItem(key, place, pair);
        }
    }
    PyObject *found = key == NULL ? NULL : entry(OF_TRACE(trace, ALL_TERMS), key);
    if (found == NULL) return entered(OF_TRACE(trace, ALL_TERMS), key, terms);
    Py_DecRef(key);
    Py_DecRef(terms);
    return found;
}

/* As `Trace.plus`. */
static PyObject *sum(PyObject *trace, PyObject *terms, PyObject *others, number factor) {
    PyObject *table = OF_TRACE(trace, SUMS);
    PyObject *key = tuple_of(3, PyLong_FromVoidPtr(terms), PyLong_FromVoidPtr(others), PyLong_FromLongLong(factor), NULL);
    PyObject *found = key == NULL ? NULL : entry(table, key);
    if (found == NULL) {
        found = known_terms(trace, plus(terms, others, factor));
        return entered(table, key, found == NULL ? NULL : kept(found));
    }
    Py_DecRef(key);
    return found;
}

/* As `Trace.times`. */
static PyObject *multiple(PyObject *trace, PyObject *terms, number factor) {
    PyObject *table = OF_TRACE(trace, MULTIPLES), *variable, *coefficient;
    PyObject *key = tuple_of(2, PyLong_FromVoidPtr(terms), PyLong_FromLongLong(factor), NULL, NULL);
    PyObject *found = key == NULL ? NULL : entry(table, key);
    if (found != NULL || key == NULL) {
        if (key != NULL) Py_DecRef(key);
        return found;
    }
    PyObject *product = PyDict_New();
    int wrong = product == NULL;
    for (length at = 0; !wrong && PyDict_Next(terms, &at, &variable, &coefficient);) {
        number part;
        wrong = read_number(coefficient, &part) || MULTIPLIES(part, factor, &part) || put_number(product, variable, part);
    }
    if (wrong && product != NULL) {
        Py_DecRef(product);
        product = NULL;
    }
    found = known_terms(trace, product);
    return entered(table, key, found == NULL ? NULL : kept(found));
}

/* As `Trace.normal`. */
static int normal_of(PyObject *trace, PyObject *terms, PyObject **linear, number *factor) {
    PyObject *table = OF_TRACE(trace, NORMAL), *key = PyLong_FromVoidPtr(terms);
    PyObject *found = key == NULL ? NULL : entry(table, key);
    if (found == NULL) found = entered(table, key, normal(terms));
    else Py_DecRef(key);
    if (found == NULL || kind_of(found) != ROW || size(found) != 2) return ODD;
    *linear = item(found, 0);
    return read_small(item(found, 1), factor);
}

/* The range of a linear part: no bounds where none is known. */
static int read_range(PyObject *trace, PyObject *linear, struct bound *low, struct bound *high) {
    PyObject *known = entry(OF_TRACE(trace, RANGES), linear);
    low->there = high->there = 0;
    if (known == NULL) return 0;
    if (kind_of(known) != ROW || size(known) != 2) return ODD;
    return read_bound(item(known, 0), low) || read_bound(item(known, 1), high) ? ODD : 0;
}

/* As `Trace._narrow`. */
static int narrow(PyObject *trace, PyObject *linear, struct bound low, struct bound high) {
    struct bound least, most;
    if (read_range(trace, linear, &least, &most)) return ODD;
    if (least.there) low = (struct bound){low.there ? larger(low.value, least.value) : least.value, 1};
    if (most.there) high = (struct bound){high.there ? smaller(high.value, most.value) : most.value, 1};
    put_slot(&trace_class, trace, SOLUTION, kept(none));
    PyObject *range = tuple_of(2, shown_bound(&low), shown_bound(&high), NULL, NULL);
    return entered(OF_TRACE(trace, RANGES), kept(linear), range) == NULL ? ODD : 0;
}

/* Note that a linear part is not this. */
static int forbid(PyObject *trace, PyObject *linear, number value) {
    PyObject *table = OF_TRACE(trace, OTHERS), *values = entry(table, linear), *object = PyLong_FromLongLong(value);
    if (values == NULL) values = entered(table, kept(linear), PySet_New(NULL));
    int wrong = object == NULL || values == NULL || PySet_Add(values, object) ? ODD : 0;
    if (object != NULL) Py_DecRef(object);
    return wrong;
}

/* Of `compare`, as Python writes them. */
enum sign { LESS, LESS_OR_EQUAL, SAME, SIGNS };
static PyObject *signs[SIGNS];

static int name_signs(void) {
    const char *names[] = {"<", "<=", "=="};
    for (int at = 0; at < SIGNS; at++)
        if (signs[at] == NULL && (signs[at] = PyUnicode_InternFromString(names[at])) == NULL) return 0;
    return 1;
}

static int holds(number value, enum sign sign) {
    return value < 0 ? sign != SAME : value == 0 && sign != LESS;
}

/* As `Trace._noted`. */
static int noted(PyObject *trace, PyObject *terms, number constant, number value, enum sign sign) {
    static const struct bound unknown = {0, 0};
    PyObject *linear;
    number factor, steps = absolute(constant);
    if (steps > LLONG_MAX / 4 || absolute(value) > LLONG_MAX / 4 || normal_of(trace, terms, &linear, &factor)) return ODD;
    int true = holds(value, sign);
    if (sign == SAME) {
        struct bound now = {divided_down(value - constant, factor), 1};
        if (value == 0) return narrow(trace, linear, now, now) ? ODD : true;
        if (constant % factor == 0 && forbid(trace, linear, -constant / factor)) return ODD;
        return true; /* otherwise it can never be 0 */
    }
    if (sign == LESS) constant++; /* of integers: < 0 is +1 <= 0 */
    /* factor * L + constant <= 0, or else factor * L + constant >= 1 */
    if (true == (factor > 0)) {
        struct bound high = {divided_down(true ? -constant : constant - 1, absolute(factor)), 1};
        return narrow(trace, linear, unknown, high) ? ODD : true;
    }
    struct bound low = {-divided_down(true ? -constant : constant - 1, absolute(factor)), 1};
    return narrow(trace, linear, low, unknown) ? ODD : true;
}

/* Enter the result of a comparison; the reference of the key is taken. */
static int enter_result(PyObject *trace, PyObject *key, int result) {
    return result < 0 || entered(OF_TRACE(trace, COMPARED), key, PyBool_FromLong(result)) == NULL ? ODD : result;
}

/* As `Trace.compare`. */
static int compare(PyObject *trace, PyObject *terms, number constant, number value, enum sign sign) {
    PyObject *key = tuple_of(3, kept(signs[sign]), PyLong_FromLongLong(constant), PyLong_FromVoidPtr(terms), NULL);
    PyObject *found = key == NULL ? NULL : entry(OF_TRACE(trace, COMPARED), key);
    if (found == NULL && key != NULL) {
        int result = noted(trace, terms, constant, value, sign);
        if (result >= 0) return enter_result(trace, key, result);
    }
    if (key != NULL) Py_DecRef(key);
    return found == NULL ? ODD : found != no;
}

/* As `Trace.quotient`: whether there is one. */
static int quotient(PyObject *trace, PyObject *terms, number constant, number divisor, number *found) {
    PyObject *linear;
    number factor, first, last;
    struct bound low, high;
    if (normal_of(trace, terms, &linear, &factor) || read_range(trace, linear, &low, &high)) return ODD;
    if (!low.there || !high.there) return 0;
    if (MULTIPLIES(factor, low.value, &first) || ADDS(first, constant, &first)) return ODD;
    if (MULTIPLIES(factor, high.value, &last) || ADDS(last, constant, &last)) return ODD;
    if (first == LLONG_MIN || last == LLONG_MIN) return ODD;
    *found = divided_down(first, divisor);
    return *found == divided_down(last, divisor);
}

/* ---- numbers -------------------------------------------------------------------------------------------------------- */

struct traced {
    PyObject *trace, *terms;
    number value, constant;
};

/* A Number whose trace is not closed. */
static int read_traced(PyObject *object, struct traced *read) {
    read->trace = OF_NUMBER(object, TRACE);
    read->terms = OF_NUMBER(object, TERMS);
    if (read->trace == NULL || read->terms == NULL || type_of(read->trace) != trace_class.class) return ODD;
    if (OF_TRACE(read->trace, CLOSED) != no) return ODD;
    return read_small(OF_NUMBER(object, VALUE), &read->value) || read_small(OF_NUMBER(object, CONSTANT), &read->constant) ? ODD : 0;
}

enum operand { AN_INT, A_NUMBER };

/* What is done with a number, as a number of the same trace: an int has no terms. Which it is. */
static int read_operand(PyObject *object, struct traced *read) {
    PyObject *type = type_of(object);
    if (type == number_class.class) return read_traced(object, read) ? ODD : A_NUMBER;
    read->terms = NULL;
    if (type != int_type || read_small(object, &read->value)) return ODD;
    read->constant = read->value;
    return AN_INT;
}

/* A Number, or an int where there are no terms. */
static PyObject *made(PyObject *trace, number value, PyObject *terms, number constant) {
    if (terms == NULL) return NULL;
    if (PyDict_Size(terms) == 0) return PyLong_FromLongLong(constant);
    PyObject *of_value = PyLong_FromLongLong(value), *of_constant = PyLong_FromLongLong(constant);
    PyObject *found = of_value == NULL || of_constant == NULL ? NULL : PyType_GenericAlloc(number_class.class, 0);
    if (found == NULL) {
        if (of_value != NULL) Py_DecRef(of_value);
        if (of_constant != NULL) Py_DecRef(of_constant);
        return NULL;
    }
    OF_NUMBER(found, CONSTANT) = of_constant;
    OF_NUMBER(found, TERMS) = kept(terms);
    OF_NUMBER(found, TRACE) = kept(trace);
    OF_NUMBER(found, VALUE) = of_value;
    return found;
}

/* A number and `factor` times an operand, for a factor of 1 or -1. */
static PyObject *added(PyObject *self, PyObject *other, number factor) {
    struct traced mine, more;
    int kind = read_traced(self, &mine) ? ODD : read_operand(other, &more);
    if (kind == ODD) return NULL;
    PyObject *terms = kind == A_NUMBER ? sum(mine.trace, mine.terms, more.terms, factor) : mine.terms;
    return made(mine.trace, mine.value + factor * more.value, terms, mine.constant + factor * more.constant);
}

static PyObject *times(PyObject *self, number factor) {
    struct traced mine;
    number value, constant;
    if (factor == 0) return PyLong_FromLongLong(0);
    if (factor == 1) return kept(self); /* nothing changes a number */
    if (read_traced(self, &mine) || MULTIPLIES(mine.value, factor, &value) || MULTIPLIES(mine.constant, factor, &constant))
        return NULL;
    return made(mine.trace, value, multiple(mine.trace, mine.terms, factor), constant);
}

/* As `Number._of`, its terms: of a variable with this definition, whose reference is taken. */
static PyObject *terms_of(PyObject *trace, PyObject *definition) {
    PyObject *table = OF_TRACE(trace, KNOWN), *all = OF_TRACE(trace, VARIABLES);
    PyObject *found = definition == NULL ? NULL : entry(table, definition);
    if (found == NULL && definition != NULL) {
        length count = PyList_Size(all);
        if (count >= 0 && !PyList_Append(all, definition))
            found = entered(table, kept(definition), PyLong_FromLongLong(count));
    }
    if (definition != NULL) Py_DecRef(definition);
    PyObject *terms = found == NULL ? NULL : PyDict_New();
    if (terms != NULL && put_number(terms, found, 1)) {
        Py_DecRef(terms);
        terms = NULL;
    }
    return known_terms(trace, terms);
}

/* A form as a tuple: its linear part, in its order, and its constant. */
static PyObject *tuple_of_form(const struct form *form, number constant) {
    return tuple_of(2, linear_of(form, 1), PyLong_FromLongLong(constant), NULL, NULL);
}

static PyObject *product(const struct traced *a, const struct traced *b) {
    struct form first, second;
    number value;
    if (read_form(a->terms, &first) || read_form(b->terms, &second) || MULTIPLIES(a->value, b->value, &value)) return NULL;
    PyObject *one = tuple_of_form(&first, a->constant), *other = tuple_of_form(&second, b->constant);
    int turned = one == NULL || other == NULL ? ODD : PyObject_RichCompareBool(other, one, LESS_THAN);
    PyObject *definition = turned > 0 ? tuple_of(2, other, one, NULL, NULL) : tuple_of(2, one, other, NULL, NULL);
    if (turned < 0 && definition != NULL) {
        Py_DecRef(definition);
        return NULL;
    }
    return made(a->trace, value, terms_of(a->trace, definition), 0);
}

/* The whole parts of coefficients divided by a divisor, and what is left of them. */
static int divided(PyObject *terms, number divisor, PyObject *whole, struct form *rest) {
    PyObject *variable, *object;
    rest->count = 0;
    for (length at = 0; PyDict_Next(terms, &at, &variable, &object);) {
        number coefficient, name;
        if (read_number(variable, &name) || read_small(object, &coefficient)) return ODD;
        number part = divided_down(coefficient, divisor), left = coefficient - part * divisor;
        if (part && put_number(whole, variable, part)) return ODD;
        if (left && insert(rest, rest->count, name, left)) return ODD;
    }
    return 0;
}

/* As `Number.__floordiv__`, for a divisor above 0. */
static PyObject *divide(const struct traced *mine, number divisor) {
    PyObject *trace = mine->trace;
    number known;
    int found = quotient(trace, mine->terms, mine->constant, divisor, &known);
    if (found != 0) return found < 0 ? NULL : PyLong_FromLongLong(known);
    struct form rest;
    PyObject *whole = PyDict_New();
    if (whole != NULL && divided(mine->terms, divisor, whole, &rest)) {
        Py_DecRef(whole);
        return NULL;
    }
    PyObject *terms = known_terms(trace, whole);
    number constant = divided_down(mine->constant, divisor), low = modulo(mine->constant, divisor);
    if (terms != NULL && rest.count) {
        /* floor((a*x + b) / (a*d)) is floor((x + b//a) / d) */
        number factor = divisor;
        for (length at = 0; at < rest.count; at++) factor = common(factor, rest.terms[at].coefficient);
        for (length at = 0; at < rest.count; at++) rest.terms[at].coefficient /= factor;
        low /= factor, divisor /= factor;
        PyObject *left = known_terms(trace, dict_of(&rest));
        found = left == NULL ? ODD : quotient(trace, left, low, divisor, &known);
        if (found < 0) return NULL;
        if (found) {
            constant += known;
        } else {
            left = terms_of(trace, tuple_of(2, tuple_of_form(&rest, low), PyLong_FromLongLong(divisor), NULL, NULL));
            if (left == NULL) return NULL;
            terms = PyDict_Size(terms) == 0 ? left : sum(trace, terms, left, 1);
        }
        divisor *= factor;
    }
    return made(trace, divided_down(mine->value, divisor), terms, constant);
}

/* Whether a comparison holds. */
static int compared(PyObject *self, PyObject *other, enum sign sign) {
    struct traced mine, more;
    int kind = read_traced(self, &mine) ? ODD : read_operand(other, &more);
    if (kind == ODD) return ODD;
    number constant = mine.constant - more.constant, value = mine.value - more.value;
    if (kind == AN_INT) return compare(mine.trace, mine.terms, constant, value, sign);
    PyObject *known = OF_TRACE(mine.trace, COMPARED), *a = PyLong_FromVoidPtr(mine.terms), *b = PyLong_FromVoidPtr(more.terms);
    PyObject *key = tuple_of(4, kept(signs[sign]), PyLong_FromLongLong(constant), a, b);
    PyObject *found = key == NULL ? NULL : entry(known, key);
    if (found == NULL && key != NULL) {
        PyObject *terms = sum(mine.trace, mine.terms, more.terms, -1);
        int result = terms == NULL ? ODD : PyDict_Size(terms) ? compare(mine.trace, terms, constant, value, sign) : holds(constant, sign);
        if (result >= 0) return enter_result(mine.trace, key, result);
    }
    if (key != NULL) Py_DecRef(key);
    return found == NULL ? ODD : found != no;
}

/* ---- conditions ----------------------------------------------------------------------------------------------------- */

/* As `Trace._ranges_with`. */
static PyObject *ranges_with(PyObject *trace, PyObject *solution) {
    PyObject *table = OF_TRACE(trace, RANGES), *linear, *range, *found;
    if (type_of(solution) != solution_class.class || (found = PyDict_New()) == NULL) return NULL;
    for (length at = 0; PyDict_Next(table, &at, &linear, &range);) {
        struct bound low, high, least, most;
        PyObject *rewritten = NULL;
        if (kind_of(range) == ROW && size(range) == 2) rewritten = range_of(solution, linear, item(range, 0), item(range, 1));
        int wrong = rewritten == NULL;
        if (!wrong && rewritten != none) { /* otherwise it follows from the equations */
            PyObject *rest = item(rewritten, 2), *known = entry(found, rest);
            wrong = read_bound(item(rewritten, 0), &low) || read_bound(item(rewritten, 1), &high);
            if (!wrong && known != NULL) {
                wrong = read_bound(item(known, 0), &least) || read_bound(item(known, 1), &most);
                if (!wrong && least.there) low = (struct bound){low.there ? larger(low.value, least.value) : least.value, 1};
                if (!wrong && most.there) high = (struct bound){high.there ? smaller(high.value, most.value) : most.value, 1};
            }
            wrong = wrong || entered(found, kept(rest), tuple_of(2, shown_bound(&low), shown_bound(&high), NULL, NULL)) == NULL;
        }
        if (rewritten != NULL) Py_DecRef(rewritten);
        if (wrong) {
            Py_DecRef(found);
            return NULL;
        }
    }
    return found;
}

/* ---- equations ------------------------------------------------------------------------------------------------------ */

static length find_term(const struct form *form, number variable) {
    length at = 0;
    while (at < form->count && form->terms[at].variable != variable) at++;
    return at;
}

/* Which forms a variable is in. */
static int note_use(PyObject *solution, number other, PyObject *variable, int is_in) {
    PyObject *table = SLOT(solution_class, solution, IN_FORMS_OF), *key = PyLong_FromLongLong(other);
    PyObject *users = key == NULL ? NULL : entry(table, key);
    int wrong = key == NULL;
    if (!wrong && users == NULL && is_in) wrong = (users = entered(table, kept(key), PySet_New(NULL))) == NULL;
    if (!wrong && users != NULL) wrong = (is_in ? PySet_Add(users, variable) : PySet_Discard(users, variable)) < 0;
    if (key != NULL) Py_DecRef(key);
    return wrong ? ODD : 0;
}

/* As `Solution._keep`; `before`: the terms until now. */
static int keep_form(PyObject *solution, PyObject *variable, const struct form *before, const struct form *form, number constant) {
    for (length at = 0; at < before->count; at++)
        if (find_term(form, before->terms[at].variable) == form->count && note_use(solution, before->terms[at].variable, variable, 0))
            return ODD;
    for (length at = 0; at < form->count; at++)
        if (find_term(before, form->terms[at].variable) == before->count && note_use(solution, form->terms[at].variable, variable, 1))
            return ODD;
    PyObject *parts = tuple_of(2, dict_of(form), PyLong_FromLongLong(constant), NULL, NULL);
    return entered(SLOT(solution_class, solution, FORMS), kept(variable), parts) == NULL ? ODD : 0;
}

/* Put a form in the place of a variable in the form of another one. */
static int put_in_place(PyObject *solution, PyObject *variable, number gone, const struct form *form, number constant) {
    PyObject *known = entry(SLOT(solution_class, solution, FORMS), variable);
    struct form before, after;
    number more, part;
    if (known == NULL || kind_of(known) != ROW || read_form(item(known, 0), &before) || read_small(item(known, 1), &more)) return ODD;
    length place = find_term(&before, gone);
    if (place == before.count) return ODD;
    number factor = before.terms[place].coefficient;
    after = before;
    after.terms[place].coefficient = 0;
    for (length at = 0; at < form->count; at++) {
        length there = find_term(&after, form->terms[at].variable);
        if (there == after.count && insert(&after, there, form->terms[at].variable, 0)) return ODD;
        if (MULTIPLIES(form->terms[at].coefficient, factor, &part)) return ODD;
        if (ADDS(after.terms[there].coefficient, part, &after.terms[there].coefficient)) return ODD;
    }
    drop_nothing(&after);
    if (MULTIPLIES(constant, factor, &part) || ADDS(more, part, &more)) return ODD;
    return keep_form(solution, variable, &before, &after, more);
}

/* As `Solution.add`, of a linear part less a value. */
static int add_equation(PyObject *solution, PyObject *linear, number value) {
    PyObject *forms = SLOT(solution_class, solution, FORMS), *users_of = SLOT(solution_class, solution, IN_FORMS_OF);
    struct form form = {.count = 0}, none_before = {.count = 0};
    number constant = -value, factor;
    length gone = -1;
    int is_parameter = 0;
    for (length at = 0; at < size(linear); at++) {
        PyObject *term = item(linear, at);
        if (kind_of(term) != ROW || size(term) != 2 || read_small(item(term, 1), &factor)) return ODD;
        if (put_in_form(forms, item(term, 0), factor, &form, &constant)) return ODD;
    }
    drop_nothing(&form);
    for (length at = 0; at < form.count; at++) { /* they ascend */
        if (absolute(form.terms[at].coefficient) != 1) continue;
        PyObject *name = PyLong_FromLongLong(form.terms[at].variable);
        int given = name == NULL ? ODD : PySet_Contains(SLOT(solution_class, solution, PARAMETERS), name);
        if (name != NULL) Py_DecRef(name);
        if (given < 0) return ODD;
        if (gone < 0 || given >= is_parameter) gone = at, is_parameter = given;
    }
    if (gone < 0) return 0;
    number left_out = form.terms[gone].variable, sign = -form.terms[gone].coefficient;
    form.terms[gone].coefficient = 0;
    drop_nothing(&form);
    for (length at = 0; at < form.count; at++) form.terms[at].coefficient *= sign;
    constant *= sign;
    PyObject *name = PyLong_FromLongLong(left_out), *users = name == NULL ? NULL : entry(users_of, name), *walk = NULL, *variable;
    int wrong = name == NULL;
    if (users != NULL) {
        Py_IncRef(users); /* it is taken out of the table before those in it change others */
        walk = PyObject_GetIter(users);
        wrong = walk == NULL || PyDict_DelItem(users_of, name) < 0;
        while (!wrong && (variable = PyIter_Next(walk)) != NULL) {
            wrong = put_in_place(solution, variable, left_out, &form, constant);
            Py_DecRef(variable);
        }
        if (walk != NULL) Py_DecRef(walk);
        Py_DecRef(users);
    }
    wrong = wrong || keep_form(solution, name, &none_before, &form, constant);
    if (name != NULL) Py_DecRef(name);
    return wrong ? ODD : 0;
}

/* As `solved`, of what it is given. */
static PyObject *solved(PyObject *const *given, length n) {
    PyObject *linear, *range, *found;
    if (n != 2 || solution_class.class == NULL || PyDict_Size(given[1]) < 0) return NULL;
    PyObject *forms = PyDict_New(), *users = PyDict_New();
    found = forms == NULL || users == NULL ? NULL : PyType_GenericAlloc(solution_class.class, 0);
    if (found == NULL) {
        if (forms != NULL) Py_DecRef(forms);
        if (users != NULL) Py_DecRef(users);
        return NULL;
    }
    SLOT(solution_class, found, FORMS) = forms;
    SLOT(solution_class, found, IN_FORMS_OF) = users;
    SLOT(solution_class, found, PARAMETERS) = kept(given[0]);
    int wrong = 0;
    for (length at = 0; !wrong && PyDict_Next(given[1], &at, &linear, &range);) {
        struct bound low, high;
        wrong = kind_of(linear) != ROW || kind_of(range) != ROW || size(range) != 2 || read_bound(item(range, 0), &low) ||
                read_bound(item(range, 1), &high);
        if (!wrong && low.there && high.there && low.value == high.value) wrong = add_equation(found, linear, low.value);
    }
    if (!wrong) return found;
    Py_DecRef(found);
    return NULL;
}
