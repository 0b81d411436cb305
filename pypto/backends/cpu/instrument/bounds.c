/* What a checked kernel calls: exact tests of what an access touches, and who stored an element first. */
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
#define HELPER __attribute__((noinline, used, nothrow)) static
#define RARE HELPER __attribute__((cold))

/* An array of a launch. `exists` has a byte for each element, and is null where all exist; `owners` has the program
   that stored each element, and is null where nobody asks. `before` is the number before that of the first program.
   `blocks` has the program that stored each block of 64 elements as a whole; the number after that of the last
   program says that the elements of the block have owners of their own. */
struct array {
    i64 low, quick, size, width;
    const unsigned char *exists;
    u32 *owners;
    i64 before;
    u32 *blocks;
};

/* The report of a launch: whether something was found; its site, value, program and the other program. `unused` begins
   with the index that names no element. `arrays` has a record for each array. */
struct report {
    i64 failed, site, value, program, other, count;
    i64 *locks;
    i64 programs, shared, index[8], unused[7];
    struct array arrays[];
};

/* An access: the array is null where it may be any; `stores` says what a store does with owners (0: no store, 1: one
   of its own, 2: an atomic, which may come after others). */
struct dimension {
    i64 offset, stride, extent, size;
};
struct access {
    struct report *report;
    struct array *array;
    i64 site, program, item, stores, base, rank;
    struct dimension dims[];
};

RARE _Bool checks_fail(struct report *report, i64 site, i64 value, i64 program, i64 other) {
    i64 none = 0;
    if (__atomic_compare_exchange_n(&report->failed, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        report->site = site;
        report->value = value;
        report->program = program;
        report->other = other;
    }
    return 1;
}

/* Fails with the index of an access, whose offsets are copied to the report. */
RARE _Bool checks_beyond(struct access *access) {
    struct report *report = access->report;
    i64 none = 0;
    if (__atomic_compare_exchange_n(&report->failed, &none, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        report->site = access->site;
        report->program = access->program;
        for (i64 d = 0; d < access->rank; d++)
            report->index[d] = access->dims[d].offset;
    }
    return 1;
}

/* Fails with a number of its own for the access at hand. */
RARE _Bool checks_blame(struct access *access, i64 value, i64 other) {
    return checks_fail(access->report, access->site, value, access->program, other);
}

/* The array that an address lies in. */
HELPER struct array *checks_find(struct report *report, i64 address) {
    for (i64 k = 0; k < report->count; k++)
        if ((u64)(address - report->arrays[k].low) < (u64)report->arrays[k].size)
            return &report->arrays[k];
    return 0;
}

/* The lock of an element's stretch of owners. Each is asked and noted by one thread at a time, so that of two programs
   the second always sees the first. To take one waits for all that the thread has stored: a single one needs none. */
HELPER i64 *checks_lock(struct access *access, i64 element) {
    struct report *report = access->report;
    i64 *lock = report->locks + ((u64)element >> 12 & 63) * 8;
    if (report->shared)
        while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
            while (__atomic_load_n(lock, __ATOMIC_RELAXED))
                ;
    return lock;
}

/* Notes a program as the owner of neighbours; gives how many, which are fewer where one was another program's. */
HELPER i64 checks_note(u32 *owners, i64 count, u32 before, u32 mine, _Bool asks) {
    typedef u32 lanes __attribute__((vector_size(64), aligned(4)));
    i64 n = 0;
    for (; n + 16 <= count; n += 16) {
        lanes seen = *(lanes *)(owners + n);
        _Bool is_taken = __builtin_reduce_or((seen > before) & (seen != mine)) != 0;
        if (asks & is_taken)
            break;
        *(lanes *)(owners + n) = (lanes){} + mine;
    }
    for (; n < count; n++) {
        if (asks && owners[n] > before && owners[n] != mine)
            break;
        owners[n] = mine;
    }
    return n;
}

/* Notes a program for neighbours from an element on to before another one, by block; gives where it stopped. */
HELPER i64 checks_note_blocks(
    struct array *array, i64 from, i64 stop, u32 before, u32 mine, u32 single, _Bool asks
) {
    for (i64 e = from, end; e < stop; e = end) {
        end = (e | 63) + 1 < stop ? (e | 63) + 1 : stop;
        u32 *block = array->blocks + ((u64)e >> 6);
        if (*block == mine)
            continue;
        if (*block > before && *block != single) { /* another program's as a whole */
            if (asks)
                return e;
            continue;
        }
        if (*block <= before) {
            *block = end - e == 64 ? mine : single;
            if (end - e == 64)
                continue;
        }
        i64 noted = checks_note(array->owners + e, end - e, before, mine, asks);
        if (noted != end - e)
            return e + noted;
    }
    return from < stop ? stop : from;
}

/* Notes the program as the owner of elements that exist; whether one was another program's. */
HELPER _Bool checks_claim(struct access *access, struct array *array, i64 first, i64 step, i64 count) {
    i64 width = array->width, item = access->item;
    u32 before = array->before, mine = array->before + access->program + 1;
    u32 single = array->before + access->report->programs + 1;
    _Bool asks = access->stores == 1;
    _Bool is_row = (u64)first % (u64)width == 0 && step == width && item == width;
    i64 runs = is_row ? 1 : count, bytes = is_row ? count * width : item;
    for (i64 j = 0; j < runs; j++) {
        u64 at = first + j * step;
        i64 end = (at + bytes - 1) / (u64)width + 1;
        for (i64 e = at / (u64)width; e < end;) {
            i64 stop = (e | 4095) + 1 < end ? (e | 4095) + 1 : end;
            i64 *lock = checks_lock(access, e);
            e = checks_note_blocks(array, e, stop, before, mine, single, asks);
            if (e != stop) {
                u32 block = array->blocks[(u64)e >> 6];
                i64 owner = block == single ? array->owners[e] : block;
                __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
                return checks_blame(access, array->low + e * width, owner - array->before - 1);
            }
            __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
        }
    }
    return 0;
}

/* Elements of one array, `count` of them, `step` bytes apart: whether one does not exist, or is another program's. */
HELPER _Bool checks_run(struct access *access, i64 start, i64 step, i64 count) {
    struct array *array = access->array ? access->array : checks_find(access->report, start);
    if (!array)
        return checks_blame(access, start, -1);
    i64 item = access->item, limit = array->size - item, first = start - array->low, span;
    _Bool wraps = __builtin_mul_overflow(step, count - 1, &span);
    _Bool are_inside = limit >= 0 && (u64)first <= (u64)limit && (u64)(first + span) <= (u64)limit && !wraps;
    if (!are_inside || array->exists)
        for (i64 j = 0; j < count; j++) {
            u64 at = first + j * step, width = array->width;
            _Bool is_there = limit >= 0 && at <= (u64)limit;
            if (is_there && array->exists)
                is_there = array->exists[at / width] && array->exists[(at + item - 1) / width];
            if (!is_there)
                return checks_blame(access, array->low + at, -1);
        }
    return access->stores && array->owners && checks_claim(access, array, first, step, count);
}

/* A structured access, row by row of its last dimension. */
HELPER _Bool checks_box(struct access *access) {
    i64 outer = access->rank - 1, item = access->item, rows = 1;
    struct dimension inner = access->dims[outer];
    i64 from = inner.offset > 0 ? inner.offset : 0;
    i64 stop = inner.offset + inner.size, to = stop < inner.extent ? stop : inner.extent;
    i64 step = inner.stride * item;
    if (to <= from)
        return 0;
    for (i64 d = 0; d < outer; d++)
        rows *= access->dims[d].size;
    for (i64 row = 0; row < rows; row++) {
        i64 start = access->base + from * step;
        u64 left = row;
        _Bool exists = 1;
        for (i64 d = outer - 1; d >= 0; d--) {
            struct dimension *dim = &access->dims[d];
            i64 at = dim->offset + left % (u64)dim->size;
            left /= (u64)dim->size;
            exists = exists && at >= 0 && at < dim->extent;
            start += at * (dim->stride * item);
        }
        if (exists && checks_run(access, start, step, to - from))
            return 1;
    }
    return 0;
}

/* Single elements: those of `count` addresses whose byte in `on` is not 0. */
HELPER _Bool checks_lanes(struct access *access, i64 *addresses, unsigned char *on, i64 count) {
    for (i64 j = 0; j < count; j++)
        if (on[j] && checks_run(access, addresses[j], 0, 1))
            return 1;
    return 0;
}

/* Fails with the first of the values whose byte in `on` is not 0; one is. */
RARE _Bool checks_values(struct access *access, i64 *values, unsigned char *on, i64 count) {
    i64 j = 0;
    while (j < count - 1 && !on[j])
        j++;
    return checks_blame(access, values[j], -1);
}
