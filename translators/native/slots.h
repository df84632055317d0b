/* Objects of Python's classes whose slots are read and written here without asking Python. */

enum { MOST_SLOTS = 64, MOST_USED = 16 };

/* A class of which there are methods here: the names of its slots, and where objects have them, in words from their beginning. */
struct slotted {
    const char *name;
    const char *slots[MOST_USED];
    length at[MOST_USED];
    PyObject *class; /* NULL until it is known where the slots are; it is never let go */
};

#define SLOT(of, object, slot) WORD(object, (of).at[slot])

/* Put another object there, whose reference is taken. */
static void put_slot(struct slotted *of, PyObject *object, int slot, PyObject *value) {
    PyObject *before = SLOT(*of, object, slot);
    SLOT(*of, object, slot) = value;
    if (before != NULL) Py_DecRef(before);
}

static PyObject *kept(PyObject *object) {
    Py_IncRef(object);
    return object;
}

/* Look where objects of a class have their slots: `example` is one, with another object in each, and `values` has these by the slots'
 * names. Whether all that are used here were found; then there are methods for it. */
static int find_slots(struct slotted *of, PyObject *class, PyObject *example, PyObject *values) {
    length count = PyDict_Size(values), head = layout.type + 1; /* of words that every object has */
    if (!layout.type || count < 0 || count > MOST_SLOTS) return 0;
    for (int slot = 0; slot < MOST_USED && of->slots[slot] != NULL; slot++) {
        PyObject *key = PyUnicode_InternFromString(of->slots[slot]), *wanted = key == NULL ? NULL : PyDict_GetItem(values, key);
        if (key != NULL) Py_DecRef(key);
        length at = head;
        while (at < head + count && WORD(example, at) != wanted) at++;
        if (wanted == NULL || at == head + count) return 0;
        of->at[slot] = at;
    }
    if (of->class == NULL) Py_IncRef(class);
    of->class = class;
    return 1;
}
