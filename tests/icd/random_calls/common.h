/* What all parts of the program share: random numbers, the log, the run of a seed, and the order of its commands.
 *
 * Commands are ordered by what they use. Whatever a command reads or writes has a root: a buffer without a parent, an
 * image or an allocation. A root knows the commands that use it and may not have ended. A command waits for those that it
 * conflicts with, by their events, by the queue's order, a barrier or clFinish; so the result never depends on timing.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUES = 3, UNORDERED = 2, MEMORIES = 12, MAPS = 6, USES = 16, WAITS = 40, KEPT = 64, KERNELS = 6 };

struct use { /* a command that may not have ended */
    int queue, writes;
    cl_event event; /* NULL where the program did not ask for one */
};

struct root {
    struct use uses[USES];
    int count;
    struct root *next;
};

struct memory { /* a buffer, a part of one, an image or an allocation of shared virtual memory */
    cl_mem mem;
    char *shared; /* the allocation's address */
    struct root *root;
    size_t nbytes, offset; /* offset: in the parent */
    cl_mem_flags flags;
    int is_image, has_parent, parts;
    cl_image_format format;
    cl_image_desc desc;
    size_t pixel, shape[3]; /* bytes of a pixel; pixels, rows and planes, as origins and regions count them */
};

struct map {
    struct memory *memory;
    cl_mem mem;
    char *address;
    size_t start, nbytes; /* bytes of the root; of an image all of them */
    size_t pitch, region[3], row; /* of an image: pixels mapped, and bytes of a row */
    int writes, must_write;
};

struct later { /* memory of the host that a command uses, freed once that has ended */
    char *bytes;
    size_t nbytes;
    int is_read; /* whether the log says what has arrived */
    struct later *next;
};

struct run {
    FILE *log;
    uint64_t random;
    cl_command_queue queues[QUEUES];
    int is_profiled[QUEUES];
    struct root *roots;
    struct memory memories[MEMORIES];
    struct map maps[MAPS];
    struct later *later, *for_good; /* `for_good`: until the seed's end */
    cl_event kept[KEPT]; /* events whose outcome is logged when all has ended */
    int kept_count;
    cl_event gate; /* a user event that is not set yet */
    cl_kernel kernels[KERNELS];
    const struct memory *launched_on[KERNELS][2]; /* what their arguments are, as long as it is there */
    _Atomic int callbacks, gone;
    int wanted_callbacks, wanted_gone;
};

static cl_context context;
static cl_device_id device;
static __thread struct run *run;
/* Whether each command ends before the next one is enqueued: the reference, in which nothing can overtake anything. */
static int is_careful;

/* Properties of a queue by its number. The reference has no unordered ones, whose clFinish may return too early natively. */
static cl_command_queue_properties order_of(int number) {
    return number == UNORDERED && !is_careful ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0;
}

static uint64_t draw(void) {
    uint64_t x = run->random += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static size_t below(size_t count) { return (size_t)(draw() % count); }
static int chance(unsigned percent) { return below(100) < percent; }
#define ONE_OF(...) ((const long long[]){__VA_ARGS__}[below(sizeof((const long long[]){__VA_ARGS__}) / sizeof(long long))])

#define LOG(...) fprintf(run->log, __VA_ARGS__)

static uint64_t sum_of(const void *bytes, size_t nbytes) {
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < nbytes; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3;
    return hash;
}

static void randomise(void *bytes, size_t nbytes) {
    for (size_t i = 0; i < nbytes; i++)
        ((unsigned char *)bytes)[i] = i % 4 == 0 ? (unsigned char)draw() : i % 4 == 1 ? (unsigned char)(i >> 3) : 0;
}

/* Memory that lives until all commands have ended (or the seed, `for_good`); random bytes. */
static struct later *host_memory(size_t nbytes, int is_read, int for_good) {
    struct later *found = malloc(sizeof *found), **list = for_good ? &run->for_good : &run->later;
    *found = (struct later){aligned_alloc(4096, (nbytes + 4096) / 4096 * 4096), nbytes, is_read, *list};
    randomise(found->bytes, nbytes);
    return *list = found;
}

static void free_list(struct later **list) {
    while (*list != NULL) {
        struct later *first = *list;
        *list = first->next;
        free(first->bytes);
        free(first);
    }
}

/* ---- the order of commands ------------------------------------------------------------------------------------------ */

struct command {
    int queue, blocks, wants_event;
    struct root *roots[6];
    int writes[6], count;
    cl_uint waits;
    cl_event list[WAITS], event;
};

static struct root *new_root(void) {
    struct root *root = calloc(1, sizeof *root);
    root->next = run->roots;
    return run->roots = root;
}

static void forget_uses(struct root *root) {
    for (int i = 0; i < root->count; i++)
        if (root->uses[i].event != NULL)
            clReleaseEvent(root->uses[i].event);
    root->count = 0;
}

static void finish_queue(int queue) {
    cl_int code = clFinish(run->queues[queue]);
    if (code != CL_SUCCESS)
        LOG("finish %d: %d\n", queue, code);
}

static struct command new_command(void) {
    int is_gated = run->gate != NULL;
    struct command made = {.queue = (int)below(QUEUES)};
    made.blocks = !is_gated && chance(30);
    made.wants_event = is_gated || chance(60);
    return made;
}

static void add_wait(struct command *command, cl_event event) {
    for (cl_uint i = 0; i < command->waits; i++)
        if (command->list[i] == event)
            return;
    command->list[command->waits++] = event;
}

static void wait_for_use(struct command *command, const struct use *use) {
    int is_ordered = use->queue == command->queue && use->queue != UNORDERED;
    if (use->event != NULL && command->waits < WAITS - 2 && (!is_ordered || chance(30))) {
        add_wait(command, use->event);
        if (use->queue != command->queue)
            clFlush(run->queues[use->queue]);
    } else if (!is_ordered && use->queue == command->queue) {
        clEnqueueBarrierWithWaitList(run->queues[use->queue], 0, NULL, NULL);
    } else if (!is_ordered) {
        finish_queue(use->queue);
    }
}

/* The command reads or writes what belongs to the root. */
static void uses(struct command *command, struct root *root, int writes) {
    for (int i = 0; i < root->count; i++)
        if (writes || root->uses[i].writes)
            wait_for_use(command, &root->uses[i]);
    command->writes[command->count] = writes;
    command->roots[command->count++] = root;
}

#define WAITING(c) (c).waits, (c).waits ? (c).list : NULL, (c).wants_event ? &(c).event : NULL

static void note_use(struct root *root, const struct command *command, int writes) {
    if (writes)
        forget_uses(root); /* the command comes after them */
    if (root->count == USES)
        return;
    if (command->event != NULL)
        clRetainEvent(command->event);
    root->uses[root->count++] = (struct use){command->queue, writes, command->event};
}

static void keep_event(cl_event event) {
    if (run->kept_count == KEPT)
        clReleaseEvent(event);
    else
        run->kept[run->kept_count++] = event;
}

/* The command has been enqueued, or refused. */
static void enqueued(struct command *command, cl_int code) {
    LOG(" q%d%s%s: %d\n", command->queue, command->blocks ? " blocking" : "", command->wants_event ? " event" : "", code);
    if (code != CL_SUCCESS)
        return;
    for (int i = 0; is_careful && i < QUEUES; i++)
        finish_queue(i);
    if (!command->blocks)
        for (int i = 0; i < command->count; i++) {
            struct root *root = command->roots[i];
            int writes = command->writes[i];
            for (int j = 0; j < i; j++)
                if (command->roots[j] == root)
                    root = NULL;
            for (int j = i + 1; root != NULL && j < command->count; j++)
                writes |= command->roots[j] == root && command->writes[j];
            if (root != NULL)
                note_use(root, command, writes);
        }
    if (command->wants_event)
        keep_event(command->event);
}

static void settle(void);

static void make_room(void) {
    if (run->gate != NULL) /* nothing would end */
        return;
    for (struct root *root = run->roots; root != NULL; root = root->next)
        if (root->count > USES - 4) {
            settle();
            return;
        }
    if (run->kept_count > KEPT - 12)
        settle();
}

/* ---- what is there to be used ---------------------------------------------------------------------------------------- */

static int is_there(const struct memory *memory) { return memory->mem != NULL || memory->shared != NULL; }

/* Whether a map forbids commands: writing ones, or all where the map is for writing. */
static int is_mapped(const struct root *root, int for_writing) {
    for (int i = 0; i < MAPS; i++)
        if (run->maps[i].address != NULL && run->maps[i].memory->root == root && (for_writing || run->maps[i].writes))
            return 1;
    return 0;
}

static int is_buffer(const struct memory *memory) { return memory->mem != NULL && !memory->is_image; }
static int is_an_image(const struct memory *memory) { return memory->mem != NULL && memory->is_image; }
static int is_shared(const struct memory *memory) { return memory->shared != NULL; }

/* A memory that the condition holds for, and that commands may read (or write); NULL where there is none. */
static struct memory *pick(int (*fits)(const struct memory *), int for_writing) {
    size_t first = below(MEMORIES);
    for (int i = 0; i < MEMORIES; i++) {
        struct memory *memory = &run->memories[(first + i) % MEMORIES];
        if (fits(memory) && !is_mapped(memory->root, for_writing))
            return memory;
    }
    return NULL;
}

static struct memory *free_place(void) {
    for (int i = 0; i < MEMORIES; i++)
        if (!is_there(&run->memories[i]))
            return &run->memories[i];
    return NULL;
}

static int number_of(const struct memory *memory) { return (int)(memory - run->memories); }
