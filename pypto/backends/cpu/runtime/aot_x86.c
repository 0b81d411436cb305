/* The feature level of an x86-64 CPU whose registers the system saves: 4, 3 or 2 for x86-64-v4 to v2, and 0 for less. */
struct features { /* ECX of leaf 1, EBX of leaf 7, ECX of leaf 0x80000001, and the states that are saved */
    unsigned basic, wide, extended, saved;
};
extern const struct features aot_needed[3]; /* by v2, v3 and v4; aot.py defines it */

struct registers {
    unsigned a, b, c, d;
};

static struct registers cpuid(unsigned leaf) {
    struct registers r;
    __asm__ volatile("cpuid" : "=a"(r.a), "=b"(r.b), "=c"(r.c), "=d"(r.d) : "a"(leaf), "c"(0));
    return r;
}

static struct features present(void) {
    struct features found = {cpuid(1).c, cpuid(7).b, cpuid(0x80000001).c, 0};
    unsigned high;
    if (found.basic >> 27 & 1)
        __asm__ volatile("xgetbv" : "=a"(found.saved), "=d"(high) : "c"(0));
    return found;
}

static _Bool has(struct features have, struct features want) {
    return !(want.basic & ~have.basic) && !(want.wide & ~have.wide) && !(want.extended & ~have.extended) &&
           !(want.saved & ~have.saved);
}

int aot_level(void) {
    static int known = -1;
    int level = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (level >= 0)
        return level;
    level = 0;
    if (cpuid(0).a >= 7) {
        struct features have = present();
        while (level < 3 && has(have, aot_needed[level]))
            level++;
        level = level ? level + 1 : 0;
    }
    __atomic_store_n(&known, level, __ATOMIC_RELAXED);
    return level;
}
