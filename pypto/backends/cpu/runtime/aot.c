/* What stands around kernels that are compiled ahead of time: which of them this CPU can run, scratch memory, and threads.
   aot.py writes an entry for each version of a kernel, which calls `aot_launch` with the bodies of that version. Macros
   are its: STATUS, PAGE, SERIAL_BELOW, MOST_THREADS and FIXED_SLOTS. */
typedef long long i64;
typedef unsigned long long u64;
enum { STATUS };
enum { MEMORY = 3, BYTES = 4 }; /* slots of scratch memory, behind the sizes of the grid */

typedef void kernel(i64 first, i64 last, i64 thread, i64 *block);
struct body {
    kernel *run;
    const i64 *slots; /* for each of its slots, which of the version's it is */
    double cost;      /* nanoseconds of a program */
    i64 count;        /* of slots */
    i64 level;        /* that it needs */
    u64 pages;        /* bytes of scratch memory of each thread */
    i64 least, group;
};

extern void *aligned_alloc(u64, u64), free(void *);

/* The feature level of the CPU, and threads: other sources have those of a machine. */
__attribute__((weak)) int aot_level(void) {
    return 0;
}

__attribute__((weak)) void aot_share(kernel *run, i64 *block, u64 programs, u64 threads, u64 least, i64 group) {
    (void)threads, (void)least, (void)group;
    run(0, programs, 0, block);
}

/* The number of programs of a grid; -1 where it is none. */
static i64 count_programs(const u64 *grid) {
    u64 programs;
    _Bool is_grid = grid[0] >> 31 == 0 && grid[1] >> 31 == 0 && grid[2] >> 31 == 0;
    _Bool is_much = __builtin_mul_overflow(grid[0] * grid[1], grid[2], &programs);
    return is_grid && !is_much && (i64)programs >= 0 ? (i64)programs : -1;
}

static int run(const struct body *body, i64 *block, u64 programs, i64 asked) {
    u64 threads = asked < 1 ? 1 : asked < MOST_THREADS ? asked : MOST_THREADS;
    if (programs < 2 || body->cost * (double)programs < SERIAL_BELOW)
        threads = 1;
    void *memory = body->pages ? aligned_alloc(PAGE, body->pages * threads) : 0;
    if (body->pages && !memory)
        return NO_MEMORY;
    block[MEMORY] = (i64)memory;
    block[BYTES] = body->pages;
    if (threads == 1)
        body->run(0, programs, 0, block);
    else
        aot_share(body->run, block, programs, threads, body->least, body->group);
    free(memory);
    return OK;
}

/* Runs the first of some bodies, the one with most features first, that this CPU can run. */
int aot_launch(const struct body *bodies, i64 count, const i64 *grid, const i64 *slots, i64 threads) {
    i64 programs = count_programs((const u64 *)grid);
    if (programs < 0)
        return BAD_GRID;
    if (!programs)
        return OK;
    i64 level = aot_level();
    for (const struct body *body = bodies; body < bodies + count; body++)
        if (level >= body->level) {
            i64 *block = __builtin_alloca((FIXED_SLOTS + body->count) * sizeof *block);
            for (i64 n = 0; n < 3; n++)
                block[n] = grid[n];
            for (i64 n = 0; n < body->count; n++)
                block[FIXED_SLOTS + n] = slots[body->slots[n]];
            return run(body, block, programs, threads);
        }
    return NO_CPU;
}
