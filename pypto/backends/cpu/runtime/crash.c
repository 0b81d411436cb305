/* What a process says before a kernel ends it. The handler of SIGSEGV and SIGBUS looks for the instruction in a table
   of the memory that holds kernels, writes a line for the one that it finds, and leaves the rest to the handler before
   it. Where the instruction is in none, or the C library has found the heap to be broken (SIGABRT), it writes the line
   of the latest kernel that may have done that. It calls `write`, `sigaction` and `raise` only, all of which may be
   called in a signal handler. crash.py defines the constants of the machine. */
typedef long long i64;
typedef unsigned long long u64;

/* Where a signal's context has the program counter, and what leads to the return address: a register with it, or with
   the address of it. */
extern const i64 crash_counter, crash_link, crash_is_stacked;

struct row {
    u64 begin, end;
    const char *line;
    i64 size;
    const char *later; /* the line for what happens later */
    i64 later_size;
};
struct action { /* glibc's `struct sigaction` */
    void (*handler)(int, void *, void *);
    i64 mask[16];
    int flags;
    void (*restorer)(void);
};
enum { ABORT = 6, BUS = 7, SEGV = 11, SIGINFO_ONSTACK = 0x8000004, TKILL = -6 };

extern i64 write(int, const void *, i64);
extern int sigaction(int, const struct action *, struct action *);
extern int raise(int);

static const struct row *rows;
static i64 count;
static int said;
static struct action old_segv, old_bus, old_abort;

/* The table from now on; the one before it stays where it is. */
void crash_table(const struct row *table, i64 size) {
    __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&rows, table, __ATOMIC_SEQ_CST);
    __atomic_store_n(&count, size, __ATOMIC_SEQ_CST);
}

/* The row of an address; null where no kernel is. The latest row comes first: memory of a kernel that is gone may be
   another one's. */
static const struct row *row_of(u64 address) {
    i64 size = __atomic_load_n(&count, __ATOMIC_SEQ_CST);
    const struct row *table = __atomic_load_n(&rows, __ATOMIC_SEQ_CST);
    while (size--)
        if (address >= table[size].begin && address < table[size].end)
            return table + size;
    return 0;
}

/* Writes a line, unless one was written. */
static void say(const char *line, i64 size) {
    if (!__atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
        write(2, line, size);
}

/* Names the latest kernel that has a line for a fault elsewhere. */
static void suspect(void) {
    i64 size = __atomic_load_n(&count, __ATOMIC_SEQ_CST);
    const struct row *table = __atomic_load_n(&rows, __ATOMIC_SEQ_CST);
    while (size--)
        if (table[size].later_size) {
            say(table[size].later, table[size].later_size);
            return;
        }
}

static void tell(const char *context) {
    const struct row *row = row_of(*(const u64 *)(context + crash_counter));
    if (!row) { /* a function of the C library, which a kernel has called */
        u64 held = *(const u64 *)(context + crash_link);
        row = row_of(crash_is_stacked ? *(const u64 *)held : held);
    }
    if (row)
        say(row->line, row->size);
    else
        suspect();
}

static void handle(int signal, void *info, void *context) {
    int code = *(const int *)((const char *)info + 8);
    _Bool is_fault = code > 0; /* of the processor, not sent by somebody */
    if (is_fault)
        tell(context);
    else if (signal == ABORT && code == TKILL) /* the process calls abort() */
        suspect();
    struct action *old = signal == SEGV ? &old_segv : signal == BUS ? &old_bus : &old_abort;
    if ((u64)old->handler > 1) {
        old->handler(signal, info, context);
        return;
    }
    sigaction(signal, old, 0); /* the instruction fails again, now with the default action */
    if (!is_fault)
        raise(signal);
}

void crash_install(void) {
    static struct action new;
    new.handler = handle;
    new.flags = SIGINFO_ONSTACK;
    sigaction(SEGV, &new, &old_segv);
    sigaction(BUS, &new, &old_bus);
    sigaction(ABORT, &new, &old_abort);
}
