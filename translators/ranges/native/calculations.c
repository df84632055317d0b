/* What `calculations.py` does, on the same objects and with the same results.
 *
 * The function in Python is the definition. It is called wherever something is not as it mostly is: a number of more than 64 bits, a
 * division by 0, a whole number that is no floating-point number; a calculation of many variables; no memory.
 */

/* ---- whole numbers -------------------------------------------------------------------------------------------------- */

enum { FEW_VARIABLES = 1024 };
struct variables {
    number of[FEW_VARIABLES];
    length count;
};

/* The value of a linear part. */
static int value_of_linear(const struct variables *values, PyObject *linear, number *total) {
    if (kind_of(linear) != ROW) return ODD;
    *total = 0;
    for (length at = 0; at < size(linear); at++) {
        PyObject *term = item(linear, at);
        number variable, coefficient, value;
        if (kind_of(term) != ROW || size(term) != 2 || read_number(item(term, 0), &variable)) return ODD;
        if (variable < 0 || variable >= values->count || read_number(item(term, 1), &coefficient)) return ODD;
        if (MULTIPLIES(coefficient, values->of[variable], &value) || ADDS(*total, value, total)) return ODD;
    }
    return 0;
}

/* The value of a form. */
static int value_of(const struct variables *values, PyObject *form, number *value) {
    number constant;
    if (kind_of(form) != ROW || size(form) != 2 || read_number(item(form, 1), &constant)) return ODD;
    return value_of_linear(values, item(form, 0), value) || ADDS(*value, constant, value) ? ODD : 0;
}

/* Put the numbers that are given into their variables. */
static int give_values(struct variables *values, PyObject *numbers, PyObject *variables) {
    int in_tuple = kind_of(numbers) == ROW;
    length count = in_tuple ? size(numbers) : PyList_Size(numbers);
    memset(values->of, 0, (size_t)values->count * sizeof *values->of);
    if (count < 0 || count != size(variables)) return ODD;
    for (length at = 0; at < count; at++) {
        number variable;
        if (read_number(item(variables, at), &variable) || variable >= values->count) return ODD;
        PyObject *given = in_tuple ? item(numbers, at) : PyList_GetItem(numbers, at);
        if (variable >= 0 && read_number(given, &values->of[variable])) return ODD;
    }
    return 0;
}

/* The value of a variable: of a form divided by a number, or times another one. */
static int define(struct variables *values, PyObject *definition) {
    number variable, value, other;
    if (kind_of(definition) != ROW || size(definition) != 2 || read_number(item(definition, 0), &variable)) return ODD;
    PyObject *how = item(definition, 1);
    if (variable < 0 || variable >= values->count || kind_of(how) != ROW || size(how) != 2) return ODD;
    if (value_of(values, item(how, 0), &value)) return ODD;
    if (type_of(item(how, 1)) == int_type) {
        if (read_number(item(how, 1), &other) || other <= 0) return ODD;
        values->of[variable] = divided_down(value, other);
        return 0;
    }
    return value_of(values, item(how, 1), &other) || MULTIPLIES(value, other, &values->of[variable]) ? ODD : 0;
}

/* Whether a linear part is in its range, or is not what it must not be. */
static int is_allowed(const struct variables *values, PyObject *row, length parts) {
    number value, low, high;
    if (kind_of(row) != ROW || size(row) != parts || value_of_linear(values, item(row, parts - 1), &value)) return ODD;
    PyObject *least = item(row, 0), *most = item(row, parts - 2);
    if ((least != none && read_number(least, &low)) || (most != none && read_number(most, &high))) return ODD;
    if (parts == 2) return least == none ? ODD : value != low;
    return (least == none || value >= low) && (most == none || value <= high);
}

/* Whether all in a table are. */
static int are_allowed(const struct variables *values, PyObject *rows, length parts) {
    for (length at = 0; at < size(rows); at++) {
        int allowed = is_allowed(values, item(rows, at), parts);
        if (allowed != 1) return allowed;
    }
    return 1;
}

/* ---- floating-point numbers ----------------------------------------------------------------------------------------- */

/* As in Python, a number in such a calculation may be whole: as long as only whole ones meet, it is exact. */
struct real {
    int is_whole;
    number whole;
    double value;
};
enum { FEW_REALS = 512 };
struct reals {
    struct real of[FEW_REALS];
    length count;
};
enum { PLUS, MINUS, TIMES, DIVIDED };
enum { IS_LESS, IS_LESS_OR_EQUAL, IS_MORE, IS_MORE_OR_EQUAL, IS_EQUAL };
static const number most_exact = (number)1 << 53;

static int read_real(PyObject *object, struct real *found) {
    found->is_whole = type_of(object) == int_type;
    if (found->is_whole) return read_number(object, &found->whole);
    if (type_of(object) != float_type) return ODD;
    found->value = PyFloat_AsDouble(object);
    return 0;
}

/* An operand, as of `RealOperand`. */
static int find_real(
    const struct variables *values, const struct reals *reals, PyObject *numbers, PyObject *operand, struct real *found) {
    if (type_of(operand) == int_type) {
        number place;
        if (read_number(operand, &place) || place >= reals->count) return ODD;
        if (place < 0) {
            int in_tuple = kind_of(numbers) == ROW;
            place = -1 - place;
            if (place >= (in_tuple ? size(numbers) : PyList_Size(numbers))) return ODD;
            return read_real(in_tuple ? item(numbers, place) : PyList_GetItem(numbers, place), found);
        }
        *found = reals->of[place];
        return 0;
    }
    if (kind_of(operand) != ROW) return ODD;
    if (size(operand) == 1) return type_of(item(operand, 0)) == float_type ? read_real(item(operand, 0), found) : ODD;
    found->is_whole = 1;
    return value_of(values, operand, &found->whole);
}

/* A step's place in a table, and its operands as floating-point numbers; `are_whole`: they are left as they are. */
static int read_step(const struct variables *values, const struct reals *reals, PyObject *numbers, PyObject *step, number *place,
                     struct real *a, struct real *b, int *are_whole) {
    if (kind_of(step) != ROW || size(step) != 3 || read_number(item(step, 0), place)) return ODD;
    if (find_real(values, reals, numbers, item(step, 1), a) || find_real(values, reals, numbers, item(step, 2), b)) return ODD;
    *are_whole = a->is_whole && b->is_whole;
    if (*are_whole) return 0;
    for (struct real *each = a;; each = b) {
        if (each->is_whole) {
            if (absolute(each->whole) > most_exact) return ODD;
            *each = (struct real){0, 0, (double)each->whole};
        }
        if (each == b) return 0;
    }
}

static int make_real(const struct variables *values, struct reals *reals, PyObject *numbers, PyObject *step) {
    number sign;
    struct real a, b, *found = &reals->of[reals->count];
    int are_whole, wrong = 0;
    if (reals->count == FEW_REALS || read_step(values, reals, numbers, step, &sign, &a, &b, &are_whole)) return ODD;
    found->is_whole = are_whole && sign != DIVIDED;
    if (are_whole && sign == DIVIDED) {
        if (b.whole == 0 || absolute(a.whole) > most_exact || absolute(b.whole) > most_exact) return ODD;
        found->value = (double)a.whole / (double)b.whole;
    } else if (are_whole) {
        wrong = sign == PLUS    ? ADDS(a.whole, b.whole, &found->whole)
                : sign == MINUS ? SUBTRACTS(a.whole, b.whole, &found->whole)
                : sign == TIMES ? MULTIPLIES(a.whole, b.whole, &found->whole)
                                : 1;
    } else if (sign == PLUS) {
        found->value = a.value + b.value;
    } else if (sign == MINUS) {
        found->value = a.value - b.value;
    } else if (sign == TIMES) {
        found->value = a.value * b.value;
    } else {
        if (sign != DIVIDED || b.value == 0) return ODD;
        found->value = a.value / b.value;
    }
    reals->count++;
    return wrong ? ODD : 0;
}

#define COMPARE(a, b)                                                                                                      \
    (sign == IS_LESS ? (a) < (b) : sign == IS_LESS_OR_EQUAL ? (a) <= (b) : sign == IS_MORE ? (a) > (b)                      \
     : sign == IS_MORE_OR_EQUAL ? (a) >= (b) : (a) == (b))

/* Whether a comparison has the result that it must have. */
static int has_result(const struct variables *values, const struct reals *reals, PyObject *numbers, PyObject *comparison) {
    number sign;
    struct real a, b;
    int are_whole;
    if (kind_of(comparison) != ROW || size(comparison) != 2) return ODD;
    if (read_step(values, reals, numbers, item(comparison, 0), &sign, &a, &b, &are_whole)) return ODD;
    if (sign < IS_LESS || sign > IS_EQUAL) return ODD;
    int found = are_whole ? COMPARE(a.whole, b.whole) : COMPARE(a.value, b.value);
    return found == (item(comparison, 1) != no);
}

/* ---- all together --------------------------------------------------------------------------------------------------- */

/* As `calculated`, of what it is given. */
static PyObject *calculated(PyObject *const *given, length n) {
    enum { NUMBERS, VARIABLES_OF, NVARIABLES, DEFINITIONS, REALS, COMPARISONS_OF, RANGES_OF, FORBIDDEN, FORMS_OF, PARTS };
    struct variables values;
    struct reals reals = {.count = 0};
    number nvariables;
    if (n != PARTS || read_number(given[NVARIABLES], &nvariables) || nvariables < 0 || nvariables > FEW_VARIABLES) return NULL;
    for (length at = VARIABLES_OF; at < PARTS; at++)
        if (at != NVARIABLES && kind_of(given[at]) != ROW) return NULL;
    values.count = nvariables;
    if (give_values(&values, given[NUMBERS], given[VARIABLES_OF])) return NULL;
    for (length at = 0; at < size(given[DEFINITIONS]); at++)
        if (define(&values, item(given[DEFINITIONS], at))) return NULL;
    for (length at = 0; at < size(given[REALS]); at++)
        if (make_real(&values, &reals, given[NUMBERS], item(given[REALS], at))) return NULL;
    for (length at = 0; at < size(given[COMPARISONS_OF]); at++) {
        int holds_here = has_result(&values, &reals, given[NUMBERS], item(given[COMPARISONS_OF], at));
        if (holds_here != 1) return holds_here < 0 ? NULL : kept(none);
    }
    int allowed = are_allowed(&values, given[RANGES_OF], 3);
    if (allowed == 1) allowed = are_allowed(&values, given[FORBIDDEN], 2);
    if (allowed != 1) return allowed < 0 ? NULL : kept(none);
    length count = size(given[FORMS_OF]);
    PyObject *found = PyTuple_New(count);
    for (length at = 0; found != NULL && at < count; at++) {
        number value;
        PyObject *object = value_of(&values, item(given[FORMS_OF], at), &value) ? NULL : PyLong_FromLongLong(value);
        if (object == NULL) {
            Py_DecRef(found);
            return NULL;
        }
        PyTuple_SetItem(found, at, object);
    }
    return found;
}
