/* What programs do before and between launches that are ready (ready.c), made without Python as these are: transfers of buffers that are
 * known (memory.c), markers, and what is asked about events.
 *
 * All of such a buffer is on the worker, and nobody else has any of it, so a transfer changes nothing for anybody; and nothing of the
 * queue's is anywhere but in the driver's queue. Python is told as it is of launches. A blocking transfer whose event nobody wants is over
 * before it could be told.
 *
 * Of an event that Python has made, only its own calls find out that it is complete. While the program has such events, it is not made to
 * wait here for anything after which these have to be complete. Nor is a queue finished here that has commands of Python's: it lets go what
 * they used once it knows that they are complete.
 */


/* ---- transfers and markers ----------------------------------------------------------------------------------------- */

struct move { /* what is to be made, between memory of the program's, or none, and `mems` */
    const struct object *queue, *mems[2];
    size_t starts[2], nbytes;
    void *host;            /* of a read or write; the pattern of a fill */
    size_t pattern_nbytes;
    unsigned kind; /* of one that changes part of a buffer */
    uint32_t type;
    int blocking;
};

static int32_t move_natively(const struct move *move, void *queue, void *const *memories, uint32_t count, const void *waits, void *done) {
    const size_t *starts = move->starts;
    switch (move->kind) {
    case KIND_READ: return read_natively(queue, memories[0], 0, starts[0], move->nbytes, move->host, count, waits, done);
    case KIND_WRITE: return write_natively(queue, memories[0], 0, starts[0], move->nbytes, move->host, count, waits, done);
    case KIND_FILL:
        return fill_natively(queue, memories[0], move->host, move->pattern_nbytes, starts[0], move->nbytes, count, waits, done);
    case KIND_COPY: return copy_natively(queue, memories[0], memories[1], starts[0], starts[1], move->nbytes, count, waits, done);
    default: return mark_natively(queue, count, waits, done);
    }
}

/* Find its memory; 0 where the move cannot be made without Python. `kind`: with whether it replaces all of a buffer. Under `guard`. */
static int find_memories(const struct move *move, const struct lane *lane, void **memories, unsigned *kind) {
    size_t room = 0;
    *kind = move->kind;
    for (int i = 0; i < 2 && move->mems[i] != NULL; i++) {
        int use = move->kind == KIND_READ || (move->kind == KIND_COPY && i == 0) ? READS : WRITES;
        if (move->nbytes == 0 || move->nbytes > SIZE_MAX - move->starts[i])
            return 0;
        const struct memory *memory = move->mems[i]->memory;
        if (!is_known_in(memory, lane) || move->starts[i] + move->nbytes > memory->rooms[use])
            return 0;
        memories[i] = memory->native;
        room = memory->rooms[use];
        if (i == 1 && memories[0] == memories[1])
            return 0;
    }
    *kind += move->mems[0] != NULL && move->kind != KIND_READ && move->nbytes == room;
    return 1;
}

/* Hand it over to the driver; 0 where that is not possible. `done`: its event, which is the caller's where it is not told. */
static int begin_move(const struct move *move, struct around *around, int is_told, void **done) {
    void *memories[2];
    unsigned kind;
    int is_made = 0;
    pthread_mutex_lock(&guard);
    const struct lane *lane = inside == 0 && made_count < MOST_MADE ? lane_of(move->queue) : NULL;
    if (lane != NULL && (lane->is_in_order || move->kind != KIND_MARK) && find_memories(move, lane, memories, &kind) &&
        gather(around, lane))
        is_made = move_natively(move, lane->native, memories, around->count, waits_of(around), done) == SUCCESS;
    if (is_made && is_told)
        note_made(around,
                  (struct run){.kind = kind, .queue = move->queue, .memories = {move->mems[0], move->mems[1]}, .nbytes = move->nbytes},
                  *done, move->type);
    pthread_mutex_unlock(&guard);
    return is_made;
}

/* Make it without Python; 0 where that is not possible, or has failed, of which Python then tells. */
static int move_without_python(const struct move *move, uint32_t count, const void *list, void *event) {
    struct around around;
    void *done = NULL;
    int is_told = !move->blocking || event != NULL;
    if ((move->blocking && (events_held > 0 || callbacks_open)) || !begin_around(&around, count, list, event))
        return 0;
    int is_made = begin_move(move, &around, is_told, &done);
    if (is_made && move->blocking) { /* `guard` is not held while the device is at work */
        int has_ended = wait_natively(1, is_told ? &around.handle->command->native : &done) == SUCCESS;
        if (!is_told)
            release_natively(done);
        else if (!has_ended) { /* it has failed, as Python has been told, or is going to be */
            release(around.handle);
            return 0;
        }
        is_made = has_ended;
        reads_made += has_ended && move->kind == KIND_READ;
        note_wait();
    }
    end_around(&around, is_made);
    return is_made;
}

static int read_without_python(const void *queue, const void *mem, uint32_t blocking, size_t offset, size_t nbytes, void *target,
                               uint32_t count, const void *list, void *event) {
    struct move move = {queue, {mem, NULL}, {offset, 0}, nbytes, target, 0, KIND_READ, 0x11F3, blocking != 0};
    return target != NULL && move_without_python(&move, count, list, event);
}

static int write_without_python(const void *queue, const void *mem, uint32_t blocking, size_t offset, size_t nbytes, const void *source,
                                uint32_t count, const void *list, void *event) {
    struct move move = {queue, {mem, NULL}, {offset, 0}, nbytes, (void *)source, 0, KIND_WRITE, 0x11F4, blocking != 0};
    return source != NULL && move_without_python(&move, count, list, event);
}

static int copy_without_python(const void *queue, const void *from, const void *to, size_t start, size_t other, size_t nbytes,
                               uint32_t count, const void *list, void *event) {
    struct move move = {queue, {from, to}, {start, other}, nbytes, NULL, 0, KIND_COPY, 0x11F5, 0};
    return move_without_python(&move, count, list, event);
}

static int fill_without_python(const void *queue, const void *mem, const void *pattern, size_t size, size_t offset, size_t nbytes,
                               uint32_t count, const void *list, void *event) {
    struct move move = {queue, {mem, NULL}, {offset, 0}, nbytes, (void *)pattern, size, KIND_FILL, 0x1207, 0};
    return pattern != NULL && move_without_python(&move, count, list, event);
}

static int mark_without_python(const void *queue, uint32_t type, uint32_t count, const void *list, void *event) {
    struct move move = {queue, {NULL, NULL}, {0, 0}, 0, NULL, 0, KIND_MARK, type, 0};
    return move_without_python(&move, count, list, event);
}

/* ---- what is asked about events ------------------------------------------------------------------------------------ */

/* The driver's queue, if all that the program has enqueued in that queue of its own is there; NULL where it may not be. */
static void *native_queue_of(const struct object *queue) {
    if (over || lost)
        return NULL;
    pthread_mutex_lock(&guard);
    const struct lane *lane = inside == 0 ? lane_of(queue) : NULL;
    void *found = lane == NULL ? NULL : lane->native;
    pthread_mutex_unlock(&guard);
    return found;
}

static int finish_without_python(const void *queue) {
    void *native = events_held > 0 || has_enqueued || callbacks_open ? NULL : native_queue_of(queue);
    int is_finished = native != NULL && finish_natively(native) == SUCCESS;
    if (is_finished)
        note_wait();
    return is_finished;
}

static int flush_without_python(const void *queue) {
    void *native = native_queue_of(queue);
    return native != NULL && flush_natively(native) == SUCCESS;
}

/* Wait for events of which the driver knows all; 0 where Python has to: for others, or because one of them has failed. */
static int wait_without_python(uint32_t count, const void *list) {
    struct object *const *events = list;
    void *natives[MOST_WAITS];
    if (over || lost || callbacks_open || count == 0 || count > MOST_WAITS || events == NULL)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is(events[i], KIND_EVENT) || events[i]->command == NULL || events[i]->command->context != events[0]->command->context)
            return 0;
        natives[i] = events[i]->command->native;
    }
    int has_waited = wait_natively(count, natives) == SUCCESS;
    if (has_waited)
        note_wait();
    return has_waited;
}

/* A command's state; 0 with `failed` where it has failed, and Python knows with which status. */
static int32_t state_of(const struct command *command, int *failed) {
    int32_t state = -1;
    *failed = ask_natively(command->native, 0x11D3, sizeof state, &state, NULL) != SUCCESS || state < 0;
    return state;
}

static int ask_without_python(const struct object *event, uint32_t name, size_t size, void *value, size_t *size_ret, int32_t *code) {
    const struct command *command = event->command;
    int failed = 0;
    if (command == NULL || over || lost)
        return 0;
    if (name == 0x11D0) /* CL_EVENT_COMMAND_QUEUE */
        *code = answer_with(&command->queue, sizeof command->queue, size, value, size_ret);
    else if (name == 0x11D1) /* CL_EVENT_COMMAND_TYPE */
        *code = answer_with(&command->type, sizeof command->type, size, value, size_ret);
    else if (name == 0x11D3) { /* CL_EVENT_COMMAND_EXECUTION_STATUS */
        int32_t state = state_of(command, &failed);
        *code = failed ? 0 : answer_with(&state, sizeof state, size, value, size_ret);
    } else
        return 0;
    return !failed;
}

/* CL_PROFILING_COMMAND_QUEUED, …_SUBMIT, …_START, …_END and …_COMPLETE, which is the end: nothing launches from the device. */
static int time_without_python(const struct object *event, uint32_t name, size_t size, void *value, size_t *size_ret, int32_t *code) {
    const struct command *command = event->command;
    uint64_t time;
    int failed;
    if (command == NULL || over || lost || name < 0x1280 || name > 0x1284)
        return 0;
    if (!command->is_profiled || state_of(command, &failed) != 0)
        return *code = -7 /* CL_PROFILING_INFO_NOT_AVAILABLE */, 1;
    if (time_natively(command->native, name == 0x1284 ? 0x1283 : name, sizeof time, &time, NULL) != SUCCESS)
        return 0;
    time += (uint64_t)command->offset_ns;
    *code = answer_with(&time, sizeof time, size, value, size_ret);
    return 1;
}
