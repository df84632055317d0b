/* Objects of Python's classes whose slots are read and written here without asking Python. */

enum { MOST_SLOTS = 24, MOST_USED = 12 };

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
