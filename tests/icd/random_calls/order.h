/* Events, user events, markers, callbacks, queues; and the settling of all that is under way. */

static void CL_CALLBACK tell(cl_event event, cl_int status, void *data) {
    (void)event;
    (void)status;
    ++*(_Atomic int *)data;
}

static void log_event(cl_event event) {
    cl_int status = 99;
    cl_command_type type = 0;
    cl_command_queue queue = NULL;
    cl_context of = NULL;
    int code = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    code |= clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    code |= clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL);
    code |= clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof of, &of, NULL);
    int number = -1;
    for (int i = 0; i < QUEUES; i++)
        if (queue == run->queues[i])
            number = i;
    LOG("  event: %d, %x of q%d: %d", status, type, number, code);
    cl_ulong times[4] = {0};
    for (int i = 0; i < 4; i++)
        code |= clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i, sizeof times[i], &times[i], NULL);
    int is_free = type == CL_COMMAND_SVM_FREE; /* whose times are the driver's own affair */
    LOG(", times: %d %d\n", code, code != 0 || is_free || (times[0] <= times[1] && times[1] <= times[2] && times[2] <= times[3]));
}

static void wait_for_callbacks(const char *what, const _Atomic int *found, int wanted) {
    for (int i = 0; i < 3000 && *found < wanted; i++)
        usleep(10000);
    if (*found != wanted)
        LOG("%s: %d of %d\n", what, *found, wanted);
}

/* All commands end; the log gets what they have left. */
static void settle(void) {
    for (int i = 0; i < QUEUES; i++)
        finish_queue(i);
    for (struct later *host = run->later; host != NULL; host = host->next)
        if (host->is_read)
            LOG("  arrived: %016lx\n", sum_of(host->bytes, host->nbytes));
    free_list(&run->later);
    for (int i = 0; i < run->kept_count; i++) {
        log_event(run->kept[i]);
        clReleaseEvent(run->kept[i]);
    }
    run->kept_count = 0;
    for (struct root *root = run->roots; root != NULL; root = root->next)
        forget_uses(root);
    wait_for_callbacks("callbacks", &run->callbacks, run->wanted_callbacks);
}

static void mark(void) {
    struct command c = new_command();
    c.blocks = 0;
    int is_marker = chance(50);
    for (int i = 0; i < 3 && run->kept_count > 0; i++)
        add_wait(&c, run->kept[below(run->kept_count)]);
    for (int i = 0; i < QUEUES; i++)
        clFlush(run->queues[i]);
    LOG("%s for %u events", is_marker ? "marker" : "barrier", c.waits);
    cl_command_queue queue = run->queues[c.queue];
    enqueued(&c, is_marker ? clEnqueueMarkerWithWaitList(queue, WAITING(c)) : clEnqueueBarrierWithWaitList(queue, WAITING(c)));
}

static void migrate(void) {
    struct memory *memory = pick(is_any, 1);
    if (memory == NULL)
        return;
    struct command c = new_command();
    uses(&c, memory->root, 1);
    c.blocks = 0;
    cl_mem_migration_flags flags = chance(50) ? CL_MIGRATE_MEM_OBJECT_HOST : 0;
    LOG("migrate %d, %d", number_of(memory), (int)flags);
    enqueued(&c, clEnqueueMigrateMemObjects(run->queues[c.queue], 1, &memory->mem, flags, WAITING(c)));
}

static void wait_for_some(void) {
    if (run->kept_count == 0 || run->gate != NULL)
        return;
    for (int i = 0; i < QUEUES; i++)
        clFlush(run->queues[i]);
    size_t first = below(run->kept_count), count = 1 + below(run->kept_count - first);
    cl_int code = clWaitForEvents((cl_uint)count, run->kept + first);
    LOG("wait for %zu events: %d\n", count, code);
    log_event(run->kept[first]);
}

static void call_back(void) {
    if (run->kept_count == 0)
        return;
    cl_event event = run->kept[below(run->kept_count)];
    cl_int code = clSetEventCallback(event, (cl_int)ONE_OF(CL_COMPLETE, CL_COMPLETE, CL_RUNNING, CL_SUBMITTED), tell, &run->callbacks);
    LOG("callback: %d\n", code);
    run->wanted_callbacks += code == CL_SUCCESS;
}

static void count_references(void) {
    if (run->gate != NULL)
        return;
    settle();
    cl_uint count = 0;
    cl_int code;
    struct memory *memory = pick_any(is_any);
    size_t more = below(4);
    if (memory != NULL) {
        for (size_t i = 0; i < more; i++)
            clRetainMemObject(memory->mem);
        code = clGetMemObjectInfo(memory->mem, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL);
        LOG("references to memory: %u: %d\n", count, code);
        code = clGetMemObjectInfo(memory->mem, CL_MEM_MAP_COUNT, sizeof count, &count, NULL);
        LOG("maps: %u: %d\n", count, code);
        for (size_t i = 0; i < more; i++)
            clReleaseMemObject(memory->mem);
    }
    cl_command_queue queue = run->queues[below(QUEUES)];
    clRetainCommandQueue(queue);
    code = clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL);
    LOG("references to a queue: %u: %d\n", count, code);
    clReleaseCommandQueue(queue);
    cl_kernel kernel = run->kernels[below(KERNELS)];
    if (kernel == NULL)
        return;
    clRetainKernel(kernel);
    code = clGetKernelInfo(kernel, CL_KERNEL_REFERENCE_COUNT, sizeof count, &count, NULL);
    LOG("references to a kernel: %u: %d\n", count, code);
    clReleaseKernel(kernel);
}

static void step(void);

/* Commands wait for a user event, which then is set. */
static void hold(void) {
    if (run->gate != NULL)
        return;
    settle();
    cl_int code;
    run->gate = clCreateUserEvent(context, &code);
    LOG("gate: %d\n", code);
    for (int i = 0; i < QUEUES; i++)
        if (chance(70))
            LOG("  closed: %d\n", clEnqueueBarrierWithWaitList(run->queues[i], 1, &run->gate, NULL));
    if (is_careful)
        code = clSetUserEventStatus(run->gate, CL_COMPLETE);
    for (size_t count = 1 + below(8); count > 0; count--)
        step();
    if (!is_careful)
        code = clSetUserEventStatus(run->gate, CL_COMPLETE);
    LOG("open: %d, again: %d\n", code, clSetUserEventStatus(run->gate, CL_COMPLETE));
    clReleaseEvent(run->gate);
    run->gate = NULL;
    settle();
}

/* A queue that is released while its commands are under way, and another one in its place. */
static void renew_queue(void) {
    int number = (int)below(QUEUES);
    if (run->gate != NULL)
        return;
    settle();
    LOG("release queue: %d\n", clReleaseCommandQueue(run->queues[number]));
    run->is_profiled[number] = chance(50);
    cl_queue_properties bits = (run->is_profiled[number] ? CL_QUEUE_PROFILING_ENABLE : 0) |
                               order_of(number);
    cl_queue_properties list[] = {CL_QUEUE_PROPERTIES, bits, 0};
    cl_int code;
    run->queues[number] = clCreateCommandQueueWithProperties(context, device, list, &code);
    LOG("new queue: %d\n", code);
}
