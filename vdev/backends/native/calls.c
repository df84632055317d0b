/* libvdev_calls.so: makes the calls of an array one after the other, so that nothing runs between them.
 *
 * A call names a function of a driver and its parameters, each an integer or a pointer in a word of its own, as the
 * calling conventions of 64-bit Linux pass them; the functions return an int, 0 if all went well. Decides nothing: the
 * arrays are `vdev/backends/call_lists.py`'s. It keeps no state, so any number of threads may call it.
 */
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

enum { MOST_PARAMETERS = 12 };
typedef uint64_t word;
struct call {
    void *function; /* NULL: the call is left out */
    word count;     /* of its parameters */
    word p[MOST_PARAMETERS];
};

/* What the library was made from, so that another version is not taken for it. */
EXPORTED const char vdev_calls_sources[] = VDEV_SOURCES;

/* Elsewhere it is not known how parameters narrower than a word are passed, and there is no such function. */
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
static int make(const struct call *call) {
    const word *p = call->p;
#define FUNCTION(...) ((int (*)(__VA_ARGS__))call->function)
    switch (call->count) {
    case 0: return FUNCTION(void)();
    case 1: return FUNCTION(word)(p[0]);
    case 2: return FUNCTION(word, word)(p[0], p[1]);
    case 3: return FUNCTION(word, word, word)(p[0], p[1], p[2]);
    case 4: return FUNCTION(word, word, word, word)(p[0], p[1], p[2], p[3]);
    case 5: return FUNCTION(word, word, word, word, word)(p[0], p[1], p[2], p[3], p[4]);
    case 6: return FUNCTION(word, word, word, word, word, word)(p[0], p[1], p[2], p[3], p[4], p[5]);
    default: /* those that are left out are zeros, which the function does not look at */
        return FUNCTION(word, word, word, word, word, word, word, word, word, word, word, word)(
            p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11]);
    }
}

/* Makes calls `first` to `stop` until one returns something else than 0. That one's number, or `stop`; `result` gets what
 * it has returned. */
EXPORTED int64_t vdev_make_calls(const struct call *calls, int64_t first, int64_t stop, int32_t *result) {
    for (int64_t at = first; at < stop; at++) {
        if (calls[at].function == NULL) continue;
        int returned = make(&calls[at]);
        if (returned != 0) {
            *result = returned;
            return at;
        }
    }
    return stop;
}

/* A call for a thread that has the right context: `ask` gives the thread's, and `own` is the right one. */
struct call_within {
    int (*ask)(void **);
    const void *own;
    struct call call;
};
enum { ELSEWHERE = -1 };

/* Makes it: what it returns; ELSEWHERE, and it was not made, where the thread has another context. */
EXPORTED int32_t vdev_make_within(const struct call_within *within) {
    void *current = NULL;
    if (within->ask(&current) != 0 || current != within->own) return ELSEWHERE;
    return make(&within->call);
}
#endif
