/* The thread pool. Each launch is a generation: workers wait for the next one, by spinning first and then on a futex,
   and draw tickets for chunks of programs from a common counter. Every other thread begins at the end of the grid, so
   that with two of them each finds in its own caches what it had there in the launch before, and long programs are no
   thread's last ones if they stand at one end. The chunks of the middle quarter are small, so that all threads end
   together.

   A launch that may take long is polled: threads run stretches of a few milliseconds, and between two of them the caller
   lets Python handle signals now and then. Where a handler raises (Ctrl-C), no thread begins another stretch, and the
   launch returns 1 with the exception set. Other launches look at no clock.

   pool.py defines what belongs to a machine: the number of the system call, the pause of a waiting loop, and the clock,
   which on x86-64 has ticks that are a few times as many as nanoseconds, and cheaper to read. */
#include "pool.h"

/* The system call; polls of a worker before it sleeps; chunks for each thread; ticks after which a polled launch asks
   for signals, and of a stretch that it neither grows nor cuts. */
extern const i64 pool_futex, pool_spins, pool_parts, pool_interval, pool_quick, pool_slow;
extern void pool_pause(void);
extern i64 pool_now(void);

extern int pthread_create(u64 *, void *, void *(*)(void *), void *), pthread_detach(u64);
extern int clock_gettime(int, i64 *);
extern i64 syscall(i64, ...);
extern int PyGILState_Ensure(void), PyErr_CheckSignals(void);
extern void PyGILState_Release(int), *PyEval_SaveThread(void), PyEval_RestoreThread(void *);

enum { WAIT = 128, WAKE = 129, ALL = 0x7fffffff, CLOSED = -0x7fffffff - 1 }; /* of a futex of this process */
#define LOAD(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define STORE(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELAXED)

INLINE u64 least_of(u64 x, u64 y) {
    return x < y ? x : y;
}

INLINE u64 most_of(u64 x, u64 y) {
    return x > y ? x : y;
}

/* The clock of machines whose counter is not known, or slow. */
i64 pool_nanoseconds(void) {
    i64 time[2];
    clock_gettime(1, time);
    return time[0] * 1000000000 + time[1];
}

/* Lets Python handle signals where it is time for that. True from the moment on where a handler has raised. */
static bool ask(struct control *control, i64 now) {
    bool is_stopped = LOAD(control->is_stopped);
    if (!control->due) {
        control->due = now + pool_interval;
        return is_stopped;
    }
    if (is_stopped || now < control->due)
        return is_stopped;
    int state = PyGILState_Ensure();
    bool has_raised = PyErr_CheckSignals();
    PyGILState_Release(state);
    control->due = pool_now() + pool_interval;
    STORE(control->is_stopped, has_raised);
    return has_raised;
}

/* Runs programs of a polled launch: one at first, then as many as take some milliseconds. True where the launch is
   stopped. Behind the last one, signals matter only to a caller who has more to do. */
static bool stretch(struct control *control, body *run, void *block, u64 first, u64 last, i64 thread, bool is_alone) {
    u64 count = 1;
    i64 before = pool_now();
    while (!LOAD(control->is_stopped)) {
        u64 end = least_of(first + count * control->unit, last);
        run(first, end, thread, block);
        if (end >= last && is_alone)
            return 0;
        i64 after = pool_now();
        if (!thread && ask(control, after))
            return 1;
        if (end >= last)
            return 0;
        if (after - before < pool_quick)
            count *= 8;
        else if (after - before > pool_slow)
            count = most_of(count / 8, 1);
        first = end;
        before = after;
    }
    return 1;
}

/* Begins a polled launch: the programs of a group stay together where the group is a number of programs. */
static void begin(struct control *control, i64 group) {
    control->due = 0;
    control->unit = group > 1 ? group : 1;
    STORE(control->is_stopped, 0);
}

/* Runs chunks of the job until none is left. */
static void work(struct pool *pool, i64 thread) {
    bool is_polled = pool->is_polled, is_far = thread & 1;
    body *run = pool->body;
    void *block = pool->block;
    u64 programs = pool->programs, total = pool->total, chunk = pool->chunk, small = pool->small;
    u64 many = (total - total / 4) / chunk / 2; /* large chunks at each end */
    u64 large = many * chunk, behind = total - large;
    u64 chunks = 2 * many + (behind - large + small - 1) / small;
    for (;;) {
        u64 drawn = __atomic_fetch_add(&pool->tickets, is_far ? 1ULL << 32 : 1, __ATOMIC_RELAXED);
        u64 near = drawn & 0xffffffff, far = drawn >> 32;
        if (near + far >= chunks)
            return;
        u64 n = is_far ? chunks - far - 1 : near, rest = chunks - n;
        u64 first = n < many ? n * chunk : rest <= many ? total - rest * chunk : large + (n - many) * small;
        u64 last = n < many || rest <= many ? first + chunk : least_of(first + small, behind);
        last = least_of(last, programs);
        if (!is_polled)
            run(first, last, thread, block);
        else if (stretch(&pool->control, run, block, first, last, thread, 0))
            return;
    }
}

void *pool_worker(void *argument) {
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    i64 thread = worker->thread;
    for (int seen = 0, now;;) {
        i64 spins = 0;
        while ((now = __atomic_load_n(&pool->generation, __ATOMIC_ACQUIRE)) == seen && spins++ < pool_spins)
            pool_pause();
        if (now == seen) {
            __atomic_fetch_add(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
            do
                syscall(pool_futex, &pool->generation, WAIT, seen, (void *)0, (void *)0, 0);
            while ((now = __atomic_load_n(&pool->generation, __ATOMIC_SEQ_CST)) == seen);
            __atomic_fetch_sub(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
        }
        seen = now;
        int was = __atomic_fetch_add(&pool->inside, 1, __ATOMIC_ACQ_REL);
        if (was >= 0 && thread < (i64)pool->threads)
            work(pool, thread);
        __atomic_fetch_sub(&pool->inside, 1, __ATOMIC_ACQ_REL);
    }
}

/* Starts the workers. Those that could not be started are not waited for. */
static void start(struct pool *pool) {
    u64 id;
    pool->is_started = 1;
    for (i64 n = 0; n < pool->count; n++) {
        pool->workers[n] = (struct worker){pool, n + 1};
        if (pthread_create(&id, 0, pool_worker, pool->workers + n))
            return;
        pthread_detach(id);
    }
}

/* Runs the job on the caller's thread and those of the workers. */
static void share(struct pool *pool) {
    STORE(pool->tickets, 0);
    __atomic_fetch_and(&pool->inside, ~CLOSED, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&pool->generation, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST) > 0)
        syscall(pool_futex, &pool->generation, WAKE, ALL, (void *)0, (void *)0, 0);
    work(pool, 0);
    __atomic_fetch_or(&pool->inside, CLOSED, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&pool->inside, __ATOMIC_ACQUIRE) & ~CLOSED) {
        pool_pause();
        if (pool->is_polled)
            ask(&pool->control, pool_now());
    }
}

/* The programs of a group: see `Locality.encoded`. */
INLINE u64 group_size(i64 group, const i64 *grid, u64 total, u64 threads) {
    if (group > 1)
        return group;
    u64 word = -group, programs = word & 0x3fffffff, strips = word >> 32, size = grid[word >> 30 & 3];
    u64 line = size == 1 ? most_of(programs, 1) : size;
    return strips && total >= line * strips * threads ? line * strips : line;
}

/* Cuts programs 0 to `total` into chunks, small ones being `least` programs or more. Gives how many stay together. */
INLINE u64 cut(struct pool *pool, u64 total, u64 threads, u64 least, i64 encoded) {
    if (encoded == 1) {
        pool->chunk = most_of(total / (threads * pool_parts), 1);
        pool->small = least_of(most_of(pool->chunk / 4, least), pool->chunk);
        return 1;
    }
    u64 group = group_size(encoded, pool->block, total, threads), groups = total / group, each = groups / threads;
    if (each >= 4 || total % (group * threads) == 0) {
        pool->chunk = most_of(each / pool_parts, 1) * group;
        pool->small = ((groups >> 30) + 1) * group; /* so that no half of the counter overflows */
        return group;
    }
    u64 pieces = most_of(each, 1) * threads; /* few groups with a rest: one size, with a cut in some group */
    pool->chunk = pool->small = (total + pieces - 1) / pieces;
    return 1;
}

/* Runs programs 0 to `total` on some threads. While another thread of the process uses the pool, and with one thread, the
   caller does it alone. Gives 0, or 1 where a polled launch was stopped. */
int pool_run(struct pool *pool, body *run, void *block, u64 total, u64 threads, u64 least, i64 group, i64 is_polled) {
    if (threads < 2 || __atomic_exchange_n(&pool->is_used, 1, __ATOMIC_ACQUIRE)) {
        if (is_polled) {
            struct control control;
            begin(&control, group);
            return stretch(&control, run, block, 0, total, 0, 1);
        }
        run(0, total, 0, block);
        return 0;
    }
    if (!pool->is_started)
        start(pool);
    pool->is_polled = is_polled;
    pool->body = run;
    pool->block = block;
    pool->programs = total;
    pool->threads = threads;
    u64 unit = cut(pool, total, threads, least, group);
    pool->total = (total + unit - 1) / unit * unit;
    if (is_polled)
        begin(&pool->control, unit);
    share(pool);
    int is_stopped = is_polled ? LOAD(pool->control.is_stopped) : 0;
    __atomic_store_n(&pool->is_used, 0, __ATOMIC_RELEASE);
    return is_stopped;
}

/* The same for a caller that holds the interpreter's lock, which is free meanwhile. */
int pool_locked(struct pool *pool, body *run, void *block, u64 total, u64 threads, u64 least, i64 group, i64 is_polled) {
    void *state = PyEval_SaveThread();
    int is_stopped = pool_run(pool, run, block, total, threads, least, group, is_polled);
    PyEval_RestoreThread(state);
    return is_stopped;
}
