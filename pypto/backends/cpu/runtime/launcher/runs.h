/* Running all programs of a grid: here, one after the other, or through the threads of the backend's pool. */
enum { PYTHON, DONE, RAISED }; /* Python is to do it; it is done; an exception is set */
enum { MEMORY = 3, BYTES = 4 }; /* slots of scratch memory in an argument block, behind the sizes of the grid */

/* Nanoseconds of work below which one thread runs a launch, from which Python's other threads may run, and from which
   signals are handled meanwhile. */
extern const i64 serial_below, long_above, polled_above;

struct pool { /* the backend's: code, which is null until the pool is started, its state, and its threads */
    int (*run)(void *, body *, void *, i64, i64, i64, i64, i64);
    void *state;
    u64 threads;
};
struct place { /* scratch memory; its address is null while it is in use */
    void *memory;
    u64 bytes;
};

/* The number of programs of a block's grid. False where there are too many to count. */
INLINE bool count_programs(const word *block, u64 *programs) {
    return !__builtin_mul_overflow((u64)block[0].number * (u64)block[1].number, (u64)block[2].number, programs);
}

/* Threads for so much work. */
INLINE u64 threads_for(struct shared *shared, struct entry *entry, u64 programs, double work) {
    if (programs < 2 || work < serial_below)
        return 1;
    u64 wanted = entry->threads.number ? entry->threads.number : shared->threads.number;
    unsigned (*ask)(void) = (unsigned (*)(void))entry->asks.at; /* of another library that says on how many it runs */
    if (ask)
        wanted = ask();
    u64 most = ((struct pool *)entry->pool.at)->threads;
    return wanted < most ? wanted : most;
}

/* The place of free scratch memory of at least a size; null where there is none. A size of 0 gets a place that holds
   nothing. Nobody else changes a place meanwhile: all this happens under the interpreter's lock. */
INLINE struct place *take(struct shared *shared, u64 size) {
    struct place *places = (struct place *)&shared->scratch, *end = places + PLACES;
    if (!size)
        return end;
    for (struct place *place = places; place < end; place++)
        if (place->bytes >= size && place->memory)
            return place;
    return 0;
}

/* Puts memory into a place that has none, or less and not in use. Gives the number of the place, or -1. */
i64 offer(struct shared *shared, void *memory, u64 size) {
    struct place *places = (struct place *)&shared->scratch;
    for (i64 n = 0; n < PLACES; n++)
        if (!places[n].bytes || (places[n].bytes < size && places[n].memory)) {
            places[n] = (struct place){memory, size};
            return n;
        }
    return -1;
}

INLINE int run_programs(struct entry *entry, word *block, u64 programs, u64 threads, bool is_polled) {
    struct pool *pool = entry->pool.at;
    body *body = (void (*)(i64, i64, i64, void *))entry->body.at;
    if (threads > 1 || is_polled)
        return pool->run(pool->state, body, block, programs, threads, entry->least.number, entry->group.number, is_polled);
    body(0, programs, 0, block);
    return 0;
}

/* Runs all programs of a launch. Python is to do it where the pool is not started, or scratch memory is missing. */
INLINE int run(struct kernel *kernel, struct entry *entry, word *block) {
    struct shared *shared = kernel->shared.at;
    u64 programs;
    if (!count_programs(block, &programs))
        return PYTHON;
    if (!programs)
        return DONE;
    double work = entry->cost.real * (double)programs;
    u64 threads = threads_for(shared, entry, programs, work);
    bool is_unbounded = entry->unbounded.number;
    bool is_polled = (is_unbounded || work > polled_above) && programs > 1;
    if ((threads > 1 || is_polled) && !((struct pool *)entry->pool.at)->run)
        return PYTHON;
    struct place *place = take(shared, entry->scratch.number * threads);
    if (!place)
        return PYTHON;
    void *memory = place->memory;
    block[MEMORY].at = memory;
    block[BYTES] = entry->scratch;
    place->memory = 0;
    int is_stopped = 0;
    if (is_unbounded || work > long_above) {
        void *state = PyEval_SaveThread();
        is_stopped = run_programs(entry, block, programs, threads, is_polled);
        PyEval_RestoreThread(state);
    } else
        run_programs(entry, block, programs, threads, 0);
    place->memory = memory;
    return is_stopped ? RAISED : DONE;
}
