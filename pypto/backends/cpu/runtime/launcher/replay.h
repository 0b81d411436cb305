/* A row of launches that is made again and again on other arrays of the same types, shapes and strides, as a plan makes
   them. Argument blocks are filled in once, by `resolve`; a replay checks the arrays, puts their addresses into the
   blocks, and runs. Launches that do not depend on each other are a wave: one launch whose grid is the union of theirs. */
struct replay {
    word REPLAY;
};
struct launch {
    struct kernel *kernel;
    struct entry *entry;
    word *block;
    const struct move *moves; /* what of the arrays goes where in the block */
    i64 count;                /* of moves */
    i64 wave;                 /* how many launches are a wave that begins here */
};
struct move { /* the bytes behind the address of an array go to a slot */
    i64 slot, array, bytes;
};
struct unit { /* a part of a wave */
    body *body;
    word *block;
    i64 first, last;
};
struct pair { /* two arrays, which overlap where the distance of their addresses is between these */
    i64 one, other, low, high;
};

/* The entry for some arguments, as a number, with the block filled in; 0 where there is none, or the grid is no tuple. */
i64 resolve(struct kernel *kernel, object *grid, object *values, word *block) {
    if (length(values) != kernel->arity.number || !read_sizes(kernel->shared.at, grid, block))
        return 0;
    return (i64)find(kernel, items(values), block);
}

/* Whether an array is like a row: its type, dtype, number of axes, layout where it is a tensor, sizes, then strides.
   Gives the address of its elements. */
INLINE bool is_like(object *array, const word *row, i64 *address) {
    if (type_of(array) != row[0].object)
        return 0;
    i64 axes = row[2].number;
    struct view view;
    if (row[3].at) {
        if (!is_plain(array, &view, axes, row[1].number, row[3].at))
            return 0;
    } else {
        if (FIELD(array, array_dtype, object *) != row[1].object || FIELD(array, array_axes, int) != axes)
            return 0;
        view.data = FIELD(array, array_data, char *);
        view.sizes = FIELD(array, array_sizes, i64 *);
        view.strides = FIELD(array, array_strides, i64 *);
    }
    *address = (i64)view.data;
    for (i64 n = 0; n < axes; n++) {
        if (view.sizes[n] != row[4 + n].number)
            return 0;
        if (view.strides[n] != row[4 + axes + n].number && view.sizes[n] != 1) /* no stride is taken along one element */
            return 0;
    }
    return 1;
}

/* The address of a result, which is new: that of its memory, if it is a tensor. */
INLINE i64 address_of(struct replay *replay, object *result) {
    const struct layout *layout = replay->layout.at;
    if (!layout || type_of(result) == replay->numpy.object)
        return FIELD(result, array_data, i64);
    char *storage = FIELD(FIELD(result, layout->object, char *), layout->storage, char *);
    return FIELD(storage, layout->data, i64);
}

/* Whether the first arrays are like those that the blocks were filled in for, and none is given twice that may not be:
   an array that is given twice is one array of the plan, and not two. Notes the addresses of all arrays. */
static bool are_alike(struct replay *replay, object **args) {
    const word *row = replay->like.at;
    i64 *addresses = replay->addresses.at;
    for (i64 n = 0; n < replay->compared.number; n++) {
        if (!is_like(args[n], row, addresses + n))
            return 0;
        for (i64 m = 0; m < n && !replay->repeats.number; m++)
            if (args[m] == args[n])
                return 0;
        row += 4 + 2 * row[2].number;
    }
    for (i64 n = replay->compared.number; n < replay->arrays.number; n++)
        addresses[n] = address_of(replay, args[n]);
    return 1;
}

/* Whether torch need not see a call: no mode of its dispatcher is active, and autograd records none of the tensors. */
static bool is_unseen(struct replay *replay, object **args) {
    const struct layout *layout = replay->layout.at;
    if (!layout)
        return 1;
    if (((i64(*)(void))replay->modes.at)())
        return 0;
    if (!((bool (*)(void))replay->gradients.at)())
        return 1;
    for (i64 n = 0; n < replay->compared.number; n++)
        if (type_of(args[n]) != replay->numpy.object)
            if (((bool (*)(char *))replay->requires.at)(FIELD(args[n], layout->object, char *)))
                return 0;
    return 1;
}

/* Whether no pair of arrays overlaps. */
static bool are_apart(struct replay *replay) {
    const struct pair *pair = replay->pairs.at, *end = pair + replay->count.number;
    const i64 *addresses = replay->addresses.at;
    for (; pair < end; pair++) {
        i64 distance = addresses[pair->one] - addresses[pair->other];
        if (distance > pair->low && distance < pair->high)
            return 0;
    }
    return 1;
}

/* Puts addresses of arrays into the block of a launch. */
INLINE void move(const struct launch *launch, const i64 *addresses) {
    for (const struct move *move = launch->moves, *end = move + launch->count; move < end; move++)
        launch->block[move->slot].number = addresses[move->array] + move->bytes;
}

/* Programs of a launch, none where they are too many to count. */
INLINE u64 programs_of(const struct launch *launch) {
    u64 programs;
    return count_programs(launch->block, &programs) ? programs : 0;
}

INLINE double work_of(const struct launch *launch) {
    return launch->entry->cost.real * (double)programs_of(launch);
}

/* The body of a wave: its programs are units. */
static void run_units(i64 first, i64 last, i64 thread, void *units) {
    for (struct unit *unit = (struct unit *)units + first, *end = (struct unit *)units + last; unit < end; unit++)
        unit->body(unit->first, unit->last, thread, unit->block);
}

/* Cuts the launches of a wave into parts of about equal work. Gives the number of parts. */
INLINE i64 cut(struct unit *units, const struct launch *launch, i64 size, double portion) {
    i64 filled = 0;
    for (const struct launch *end = launch + size; launch < end; launch++) {
        u64 programs = programs_of(launch), cuts = (u64)(work_of(launch) / portion + 0.5);
        cuts = cuts > 1 ? cuts : 1;
        cuts = cuts < programs ? cuts : programs;
        for (u64 n = 0; n < cuts; n++) {
            body *body = (void (*)(i64, i64, i64, void *))launch->entry->body.at;
            units[filled++] = (struct unit){body, launch->block, n * programs / cuts, (n + 1) * programs / cuts};
        }
    }
    return filled;
}

/* Runs some launches as one. False where nothing was done: they are made one after the other then. */
__attribute__((noinline)) static bool wave(struct replay *replay, const struct launch *launch, i64 size) {
    struct shared *shared = replay->shared.at;
    struct pool *pool = launch->entry->pool.at;
    u64 programs = 0;
    i64 scratch = 0;
    double work = 0;
    if (!pool->run)
        return 0;
    for (i64 n = 0; n < size; n++) {
        struct entry *entry = launch[n].entry;
        if (is_elsewhere(launch[n].kernel) || entry->pool.at != pool || entry->unbounded.number)
            return 0;
        programs += programs_of(launch + n);
        work += work_of(launch + n);
        scratch = entry->scratch.number > scratch ? entry->scratch.number : scratch;
    }
    u64 threads = threads_for(shared, launch->entry, programs, work);
    struct place *place = work > polled_above || threads < 2 ? 0 : take(shared, scratch * threads);
    if (!place)
        return 0;
    void *memory = place->memory;
    place->memory = 0;
    for (i64 n = 0; n < size; n++) {
        move(launch + n, replay->addresses.at);
        launch[n].block[MEMORY].at = memory;
        launch[n].block[BYTES].number = scratch;
    }
    double portion = work / (double)(threads * PARTS);
    i64 filled = cut(replay->units.at, launch, size, portion > 2000 ? portion : 2000);
    void *state = work > long_above ? PyEval_SaveThread() : 0;
    pool->run(pool->state, run_units, replay->units.at, filled, threads, 1, 1, 0);
    if (state)
        PyEval_RestoreThread(state);
    place->memory = memory;
    return 1;
}

/* A replay on some arrays. None when all launches are done; the number of a launch that Python is to make, after which
   it calls again; -1 where the arrays are others, and nothing was done. */
object *replay(object *self, object **args, i64 count) {
    struct replay *replay = table_of(self);
    const struct launch *launches = replay->launches.at;
    if (count != replay->arrays.number || !are_alike(replay, args) || !are_apart(replay) ||
        !is_unseen(replay, args))
        return PyLong_FromLongLong(-1);
    i64 n = replay->next.number;
    while (n < replay->total.number) {
        const struct launch *launch = launches + n;
        if ((u64)launch->wave > 1 && wave(replay, launch, launch->wave)) {
            n += launch->wave;
            continue;
        }
        int ran = PYTHON;
        if (!is_elsewhere(launch->kernel)) {
            move(launch, replay->addresses.at);
            ran = run(launch->kernel, launch->entry, launch->block);
        }
        n++;
        if (ran == PYTHON) {
            replay->next.number = n;
            return PyLong_FromLongLong(n - 1);
        }
        if (ran == RAISED) {
            replay->next.number = 0;
            return stopped(launch->kernel, launch->entry);
        }
    }
    replay->next.number = 0;
    return none(replay->shared.at);
}
