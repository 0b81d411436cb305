/* The thread pool as its users see it: pool.c, and the libraries of aot_linux.c. */
typedef long long i64;
typedef unsigned long long u64;
#define bool _Bool
#define INLINE __attribute__((always_inline)) static inline

typedef void body(i64 first, i64 last, i64 thread, void *block);
struct pool;
struct worker {
    struct pool *pool;
    i64 thread;
};

/* Of a polled launch: when to ask next, programs that stay together, and whether it is stopped. */
struct control {
    i64 due, unit;
    int is_stopped;
};

/* What is read together lies together, in one cache line each, since each line that goes from one core to another costs
   the launch some fifty nanoseconds. */
struct pool {
    int generation; /* a futex */
    int is_polled;
    body *body; /* the job */
    void *block;
    u64 programs, chunk, threads, small, total; /* `total` has the programs that the last group lacks, too */
    _Alignas(64) int sleepers;
    _Alignas(64) u64 tickets; /* drawn; those at the end of the grid in the upper half */
    int inside;               /* workers; the sign bit: closed */
    _Alignas(64) int is_used; /* by a launch */
    int is_started;
    struct worker *workers; /* memory for them */
    i64 count;              /* of workers */
    struct control control;
};
