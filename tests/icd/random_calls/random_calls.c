/* Random sequences of calls of OpenCL, and what comes of them: `random_calls FIRST COUNT [THREADS]`.
 *
 * What a seed does depends on nothing but its number. It logs each call with what it returns, the bytes that arrive, what events
 * tell, and how often objects are held. Natively and on the virtual device the logs are the same (random_calls.py).
 */
#include "common.h"

#include "buffers.h"
#include "images.h"
#include "launches.h"
#include "shared.h"
#include "order.h"
#include "refused.h"

static void repeat(void);

/* `repeats`: what is there before a step is there after it, so the same numbers make the same calls again. */
static const struct {
    void (*make)(void);
    unsigned weight, repeats;
} steps[] = {
    {create_buffer, 10}, {create_part, 6},   {release_memory, 4}, {read_buffer, 8, 1}, {write_buffer, 8, 1}, {fill_buffer, 6, 1},
    {copy_buffer, 6, 1}, {move_box, 6, 1},   {map_buffer, 8},     {touch_map, 4},      {unmap, 8},           {create_image, 5},
    {move_image, 6, 1},  {fill_image, 3, 1}, {copy_image, 3, 1},  {copy_image_and_buffer, 3, 1}, {map_image, 4, 1}, {launch, 24, 1},
    {launch_again, 12, 1}, {allocate_shared, 3}, {fill_shared, 3, 1}, {copy_shared, 4, 1}, {map_shared, 3, 1}, {launch_shared, 5, 1},
    {free_shared, 1},    {mark, 3, 1},       {migrate, 2, 1},     {wait_for_some, 3, 1}, {call_back, 3},     {count_references, 2},
    {hold, 2},           {renew_queue, 1},   {settle_between, 2, 1}, {refused, 12},    {repeat, 6},
};
enum { STEPS = sizeof steps / sizeof *steps };

static void step_of(int repeats) {
    unsigned all = 0;
    for (int i = 0; i < STEPS; i++)
        if (steps[i].repeats >= repeats)
            all += steps[i].weight;
    unsigned at = (unsigned)below(all);
    for (int i = 0; i < STEPS; i++) {
        if (steps[i].repeats < repeats)
            continue;
        if (at < steps[i].weight) {
            steps[i].make();
            make_room();
            return;
        }
        at -= steps[i].weight;
    }
}

static void step(void) { step_of(0); }

/* A program's loop: the same calls in every round, and now and then others between them. */
static void repeat(void) {
    if (run->gate != NULL)
        return;
    uint64_t body[5];
    size_t count = 1 + below(5), rounds = 3 + below(5);
    for (size_t i = 0; i < count; i++)
        body[i] = draw();
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++) {
            uint64_t after = run->random;
            run->random = body[i];
            step_of(1);
            run->random = after;
            if (chance(5))
                step_of(1);
        }
}

/* Every byte that is there. */
static void log_memories(void) {
    settle();
    for (int i = 0; i < MEMORIES; i++) {
        struct memory *memory = &run->memories[i];
        unsigned char *bytes = malloc(memory->nbytes + 1);
        cl_int code = 0;
        if (memory->is_image)
            code = clEnqueueReadImage(run->queues[0], memory->mem, CL_TRUE, (size_t[3]){0}, memory->shape, 0, 0, bytes, 0, NULL, NULL);
        else if (memory->mem != NULL)
            code = clEnqueueReadBuffer(run->queues[0], memory->mem, CL_TRUE, 0, memory->nbytes, bytes, 0, NULL, NULL);
        else if (memory->shared != NULL)
            code = clEnqueueSVMMemcpy(run->queues[0], CL_TRUE, bytes, memory->shared, memory->nbytes, 0, NULL, NULL);
        if (is_there(memory))
            LOG("memory %d: %d, %016lx\n", i, code, sum_of(bytes, memory->nbytes));
        free(bytes);
    }
}

static void end_run(void) {
    settle();
    for (int i = 0; i < MAPS; i++)
        if (run->maps[i].address != NULL)
            unmap_one(&run->maps[i]);
    log_memories();
    for (int i = 0; i < MEMORIES; i++)
        if (run->memories[i].mem != NULL)
            LOG("release %d: %d\n", i, clReleaseMemObject(run->memories[i].mem));
        else if (run->memories[i].shared != NULL)
            clSVMFree(context, run->memories[i].shared);
    for (int i = 0; i < KERNELS; i++)
        if (run->kernels[i] != NULL)
            clReleaseKernel(run->kernels[i]);
    for (int i = 0; i < QUEUES; i++)
        LOG("release queue: %d\n", clReleaseCommandQueue(run->queues[i]));
    wait_for_callbacks("destructors", &run->gone, run->wanted_gone);
    free_list(&run->for_good);
    for (struct root *root = run->roots, *next; root != NULL; root = next) {
        next = root->next;
        free(root);
    }
}

static int looks; /* after each step at all bytes, to find the step that is to blame */
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static void run_seed(unsigned long seed) {
    struct run *mine = calloc(1, sizeof *mine);
    char *text = NULL;
    size_t nbytes = 0;
    run = mine;
    run->random = seed * 0x1234567 + 1;
    run->log = open_memstream(&text, &nbytes);
    LOG("seed %lu\n", seed);
    for (int i = 0; i < QUEUES; i++) {
        cl_int code;
        run->queues[i] = clCreateCommandQueue(context, device, order_of(i), &code);
        LOG("new queue: %d\n", code);
    }
    for (size_t count = 20 + below(100); count > 0; count--) {
        step();
        if (looks)
            log_memories();
    }
    end_run();
    fclose(run->log);
    pthread_mutex_lock(&printing);
    fwrite(text, 1, nbytes, stdout);
    fflush(stdout);
    pthread_mutex_unlock(&printing);
    free(text);
    free(mine);
}

static unsigned long first, last;
static unsigned threads = 1;

static void *run_seeds(void *number) {
    for (unsigned long seed = first + (uintptr_t)number; seed < last; seed += threads)
        run_seed(seed);
    return NULL;
}

int main(int count, char **words) {
    if (count < 3)
        return 2;
    first = strtoul(words[1], NULL, 10);
    last = first + strtoul(words[2], NULL, 10);
    is_careful = getenv("CAREFUL") != NULL;
    looks = getenv("LOOK") != NULL;
    threads = count > 3 ? (unsigned)strtoul(words[3], NULL, 10) : 1;
    cl_platform_id platform;
    cl_int code;
    clGetPlatformIDs(1, &platform, NULL);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    sampler = clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, &code);
    pthread_t all[64];
    for (uintptr_t i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, run_seeds, (void *)i);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    clReleaseSampler(sampler);
    for (int i = 0; i < PROGRAMS; i++)
        if (programs[i] != NULL)
            clReleaseProgram(programs[i]);
    code = clReleaseContext(context);
    printf("end: %d\n", code);
    return 0;
}
