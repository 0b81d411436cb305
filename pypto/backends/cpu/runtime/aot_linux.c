/* Threads of a library on Linux: the pool of pool.c, in memory of the library's own. Its workers are started with the
   first launch that wants several, one for each CPU but the caller's. A forked child, which has none, starts its own. */
#include "pool.h"

enum { ONLINE = 84 }; /* of `sysconf` */
extern int getpid(void);
extern i64 sysconf(int);
extern int pool_run(struct pool *, body *, void *, u64, u64, u64, i64, i64);

static struct pool memory;
static struct worker workers[MOST_THREADS];
static int process, lock;

/* The pool handles Python's signals in launches that are polled; those of a library are not, and it has no Python. */
int PyGILState_Ensure(void) {
    return 0;
}
void PyGILState_Release(int state) {
    (void)state;
}
int PyErr_CheckSignals(void) {
    return 0;
}
void *PyEval_SaveThread(void) {
    return 0;
}
void PyEval_RestoreThread(void *state) {
    (void)state;
}

void aot_share(body *run, void *block, u64 programs, u64 threads, u64 least, i64 group) {
    int own = getpid();
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        ;
    if (process != own) {
        i64 others = sysconf(ONLINE) - 1;
        memory = (struct pool){0};
        memory.workers = workers;
        memory.count = others < 0 ? 0 : others < MOST_THREADS - 1 ? others : MOST_THREADS - 1;
        process = own;
    }
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    pool_run(&memory, run, block, programs, threads, least, group, 0);
}
