/* Which compiled version a launch may use. An entry of a kernel's table is a version with a list of steps, each of which
   checks something about an argument, or puts something into the argument block. recipe.py writes them. */
enum { STEPS };

struct step {
    i64 what, parameter, a, b, c, d;
};
struct view { /* what was read of an array */
    char *data;
    const i64 *sizes, *strides;
    i64 shift;     /* from strides to elements */
    i64 low, high; /* the addresses of its first byte and behind its last, which are equal for an empty one */
};
struct tensor { /* DLPack's `DLTensor` */
    char *data;
    int device, number, axes, kind;
    const i64 *sizes, *strides;
    i64 offset;
};
struct layout { /* where torch's object has its fields; the keys and the function that frees memory, which are compared */
    i64 object, keys, wanted, dtype, storage, data, offset, sizes, frees, refused;
};

/* Fills a view. False if a stride is no multiple of the element, which has 2 ** log bytes. */
INLINE bool read(struct view *view, char *data, const i64 *sizes, const i64 *strides, i64 axes, i64 shift, i64 log) {
    i64 low = (i64)data, high = low, all = 0;
    bool is_empty = 0;
    for (i64 n = 0; n < axes; n++) {
        i64 end = (sizes[n] - 1) * (strides[n] << (log - shift));
        all |= strides[n];
        is_empty |= sizes[n] == 0;
        low += end < 0 ? end : 0;
        high += end > 0 ? end : 0;
    }
    i64 first = is_empty ? (i64)data : low, behind = is_empty ? (i64)data : high + (1LL << log);
    *view = (struct view){data, sizes, strides, shift, first, behind};
    return !(all & ((1LL << shift) - 1));
}

/* Whether a view is of memory that begins at an address, or of nothing. */
INLINE bool is_there(const struct view *view, const char *base) {
    return view->low == view->high || base;
}

INLINE i64 stride_of(const struct view *view, i64 axis) {
    return view->strides[axis] >> view->shift;
}

/* Whether no axis of more than one element has a stride of 0, or the array has no elements. */
INLINE bool is_distinct(const struct view *view, i64 axes) {
    bool is_empty = 0, is_repeated = 0;
    for (i64 n = 0; n < axes; n++) {
        is_empty |= view->sizes[n] == 0;
        is_repeated |= view->strides[n] == 0 && (u64)view->sizes[n] > 1;
    }
    return is_empty || !is_repeated;
}

INLINE bool is_numpy(object *value, struct view *view, object *dtype, i64 axes, i64 flags) {
    if (FIELD(value, array_dtype, object *) != dtype || FIELD(value, array_axes, int) != axes)
        return 0;
    if ((FIELD(value, array_flags, int) & (int)flags) != (int)flags)
        return 0;
    char *data = FIELD(value, array_data, char *);
    i64 *sizes = FIELD(value, array_sizes, i64 *), *strides = FIELD(value, array_strides, i64 *);
    return read(view, data, sizes, strides, axes, flags >> 32, flags >> 32);
}

/* Reads a tensor through DLPack's exchange API. False if it is not on the CPU, not in memory, or of another kind. */
static bool is_tensor(object *value, struct view *view, i64 axes, i64 kind, int describe(object *, struct tensor *)) {
    struct tensor t;
    if (describe(value, &t)) {
        PyErr_Clear();
        return 0;
    }
    if (t.device != 1 || t.axes != axes || t.kind != (int)kind || (axes && !t.strides))
        return 0;
    return read(view, t.data + t.offset, t.sizes, t.strides, axes, 0, kind >> 32) && is_there(view, t.data);
}

/* Reads a tensor from torch's object. False if it is another kind of tensor, or not in memory. */
static bool is_plain(object *value, struct view *view, i64 axes, i64 kind, const struct layout *layout) {
    char *object = FIELD(value, layout->object, char *);
    if (FIELD(object, layout->keys, i64) != layout->wanted || FIELD(object, layout->dtype, short) != (short)kind)
        return 0;
    const i64 *sizes = &FIELD(object, layout->sizes, i64);
    char *storage = FIELD(object, layout->storage, char *);
    if (*sizes != axes || FIELD(storage, layout->frees, i64) == layout->refused)
        return 0;
    char *base = FIELD(storage, layout->data, char *);
    char *data = base + (FIELD(object, layout->offset, i64) << (kind >> 32));
    return read(view, data, sizes + 1, sizes + 1 + INSIDE, axes, 0, kind >> 32) && is_there(view, base);
}

/* Adds one to the version of a tensor, in the counter that its object may have. */
INLINE void note_write(char *object, i64 counter, i64 version) {
    char *at = FIELD(object, counter, char *);
    if (at)
        __atomic_fetch_add(&FIELD(at, version, unsigned), 1, __ATOMIC_RELAXED);
}

/* The stride of an axis as kernels know it: 0, 1, or 2 for any other; a last axis of size 1 counts as 1. */
INLINE i64 kind_of_stride(const struct view *view, i64 axis, bool is_last) {
    u64 stride = stride_of(view, axis);
    return stride < 2 ? stride : is_last && view->sizes[axis] == 1 ? 1 : 2;
}

INLINE bool is_integer(struct shared *shared, object *value, i64 *slot, i64 least, i64 most) {
    int overflow;
    if (type_of(value) != shared->type_int.object)
        return 0;
    *slot = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && *slot >= least && *slot <= most;
}

INLINE bool is_float(struct shared *shared, object *value, word *slot, bool is_double) {
    if (type_of(value) != shared->type_float.object)
        return 0;
    union {
        float real;
        unsigned bits;
    } narrow;
    slot->real = PyFloat_AsDouble(value);
    narrow.real = (float)slot->real;
    if (!is_double)
        slot->number = narrow.bits;
    return 1;
}

/* Whether a cell has some content. */
INLINE bool is_content(object *cell, object *content) {
    object *value = PyCell_Get(cell);
    Py_DecRef(value);
    return value == content;
}

/* Whether a dict has some object under a name. */
INLINE bool is_global(object *dict, object *name, object *content) {
    if (PyDict_GetItemWithError(dict, name) == content)
        return 1;
    PyErr_Clear();
    return 0;
}

INLINE bool do_meet(const struct view *x, const struct view *y) {
    i64 from = x->low > y->low ? x->low : y->low, to = x->high < y->high ? x->high : y->high;
    return x->low != x->high && y->low != y->high && from < to;
}

/* Whether all steps of an entry hold. The argument block is filled in on the way. */
INLINE bool holds(struct shared *shared, struct entry *entry, object **values, struct view *views, word *block) {
    bool have_met = 0;
    for (const struct step *step = (const struct step *)&entry->steps;; step++) {
        i64 a = step->a, b = step->b, c = step->c, d = step->d;
        object *value = values[step->parameter];
        struct view *view = views + step->parameter;
#define HOLDS(condition) \
    if (condition)       \
        break;           \
    return 0
        switch (step->what) {
        case END:
            return 1;
        case IS: /* the object a */
            HOLDS((i64)value == a);
        case NUMPY: /* of type a and dtype b, with c axes, 2 ** (d >> 32) bytes per element, and the flags d */
            HOLDS((i64)type_of(value) == a && is_numpy(value, view, (object *)b, c, d));
        case TENSOR: /* of type a, with b axes, 2 ** (c >> 32) bytes per element, the DLPack dtype c, by function d */
            HOLDS((i64)type_of(value) == a && is_tensor(value, view, b, c, (int (*)(object *, struct tensor *))d));
        case PLAIN: /* tensor of type a with b axes, 2 ** (c >> 32) bytes per element and dtype c, by layout d */
            HOLDS((i64)type_of(value) == a && is_plain(value, view, b, c, (const struct layout *)d));
        case KEYS: /* of the tensor, at b of its object, whose address lies at a, are c */
            HOLDS(FIELD(FIELD(value, a, char *), b, i64) == c);
        case DISTINCT: /* no two elements of the array, which has a axes, are one in memory */
            HOLDS(is_distinct(view, a));
        case UNDISPATCHED: /* no mode of torch's dispatcher is active, as function a says, which gives their number */
            HOLDS(((i64(*)(void))a)() == 0);
        case UNPROFILED: /* no profiler of torch records calls of this thread, as function a says */
            HOLDS(!((bool (*)(void))a)());
        case UNRECORDED: /* the object at a requires no gradient, as function b says, or function c, which records none */
            HOLDS(!((bool (*)(char *))b)(FIELD(value, a, char *)) || !((bool (*)(void))c)());
        case NOTE_WRITE: /* adds one to the version, at c of the counter whose address is at b of the object at a */
            note_write(FIELD(value, a, char *), b, c);
            break;
        case SIZE: /* of axis a is b */
            HOLDS(view->sizes[a] == b);
        case STRIDE: /* of axis a, which is the last if c says so, is b */
            HOLDS(kind_of_stride(view, a, c) == b);
        case INT: /* from a to b, goes to slot c */
            HOLDS(is_integer(shared, value, &block[c].number, a, b));
        case BOOL: /* of which True is a, goes to slot c */
            block[c].number = (i64)value == a;
            HOLDS(type_of(value) == shared->type_bool.object);
        case FLOAT32: /* goes to slot c */
            HOLDS(is_float(shared, value, block + c, 0));
        case FLOAT64:
            HOLDS(is_float(shared, value, block + c, 1));
        case EQUAL: /* whether slot a holds b is c */
            HOLDS((block[a].number == b) == c);
        case GLOBAL: /* b in the dict a is the object c */
            HOLDS(is_global((object *)a, (object *)b, (object *)c));
        case CELL: /* the content of a is the object b */
            HOLDS(is_content((object *)a, (object *)b));
        case PUT_WORD: /* b goes to slot a */
            block[a].number = b;
            break;
        case PUT_ADDRESS: /* to slot a */
            block[a].at = view->data;
            break;
        case PUT_SIZE: /* of axis b to slot a */
            block[a].number = view->sizes[b];
            break;
        case PUT_STRIDE: /* of axis b to slot a */
            block[a].number = stride_of(view, b);
            break;
        case MEET: /* notes whether this array and that of parameter a overlap */
            have_met |= do_meet(view, views + a);
            break;
        case MET: /* whether any did is a */
            HOLDS(have_met == a);
        default:
            return 0;
        }
#undef HOLDS
    }
}

/* The first entry whose steps all hold, with the argument block filled in; null if there is none. */
__attribute__((noinline)) static struct entry *find(struct kernel *kernel, object **values, word *block) {
    struct view views[PARAMETERS];
    struct entry **table = kernel->table.at;
    for (i64 n = 0; n < kernel->entries.number; n++)
        if (holds(kernel->shared.at, table[n], values, views, block))
            return table[n];
    return 0;
}
