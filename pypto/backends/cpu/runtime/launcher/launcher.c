/* A launch as Python calls it. `subscript` is `kernel[grid]`, `launch` is the call of what that gives, `prepared` the call
   of what `kernel.bind(...)` gives, and `direct` the call of a kernel in generated code. All are functions of Python's C
   API; the tuple that each is bound to begins with the address of a table, followed by whoever keeps that alive.

   A launch that no entry of the table is for goes to Python, with all its arguments: a miss is slow, and never wrong. */
#include "objects.h"
#include "guards.h"
#include "runs.h"
#include "grids.h"

/* The table that a function is bound to: bytes hold its address. */
INLINE void *table_of(object *self) {
    return FIELD(items(self)[0], object_bytes_content, void *);
}

INLINE object *none(struct shared *shared) {
    return owned(shared->none.object);
}

/* kernel[grid]: a new function bound to the grid, or one that is remembered. */
object *subscript(object *self, object *grid) {
    struct kernel *kernel = table_of(self);
    struct shared *shared = kernel->shared.at;
    object *grids = kernel->grids.object, **pairs = FIELD(grids, object_list_items, object **);
    for (i64 n = 0; n < GRIDS; n += 2)
        if (pairs[n] == grid)
            return owned(pairs[n + 1]);
    object *bound = PyTuple_Pack(3, items(self)[0], items(self)[1], grid);
    if (!bound)
        return 0;
    object *made = PyCFunction_NewEx(shared->launch.at, bound, 0);
    Py_DecRef(bound);
    if (!made)
        return 0;
    i64 turn = kernel->turn.number;
    kernel->turn.number = (turn + 2) % GRIDS;
    PyList_SetItem(grids, turn, owned(grid));
    PyList_SetItem(grids, turn + 1, owned(made));
    return made;
}

/* The launch in Python: the function of the kernel's table, called with the grid before all arguments. */
static object *call_python(struct kernel *kernel, object *grid, object **args, i64 count, object *names) {
    i64 positional = count & 0x7fffffffffffffff, all = positional + (names ? length(names) : 0);
    object **given = __builtin_alloca((all + 1) * sizeof *given);
    given[0] = grid;
    for (i64 n = 0; n < all; n++)
        given[n + 1] = args[n];
    return PyObject_Vectorcall(kernel->python.object, given, positional + 1, names);
}

/* True while somebody wants launches to go through Python: hooks, the interpreter, a profile. */
INLINE bool is_elsewhere(struct kernel *kernel) {
    struct shared *shared = kernel->shared.at;
    object *mode;
    if (length(kernel->before.object) | length(kernel->after.object))
        return 1;
    if (PyContextVar_Get(shared->mode.object, shared->plain.object, &mode)) {
        PyErr_Clear();
        return 1;
    }
    Py_DecRef(mode);
    return mode != shared->plain.object;
}

/* Lets Python say that a launch was ended by the exception that is set. Gives null, with the exception that is raised. */
static object *stopped(struct kernel *kernel, struct entry *entry) {
    struct shared *shared = kernel->shared.at;
    object *type, *value, *trace = 0;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    object *result = PyObject_CallFunctionObjArgs(shared->stopped.object, entry->program.object, value, (void *)0);
    Py_DecRef(type);
    Py_DecRef(value);
    Py_DecRef(trace);
    return result;
}

/* Whether launches of GPU compilers know a word, and it is no parameter of the kernel. */
static bool means_nothing(struct kernel *kernel, object *name) {
    object *words = ((struct shared *)kernel->shared.at)->ignored.object;
    for (object **parameter = kernel->names.at; *parameter; parameter++)
        if (*parameter == name)
            return 0;
    for (i64 n = 0; n < length(words); n++)
        if (items(words)[n] == name)
            return 1;
    return 0;
}

/* The values of all parameters in order. False where it is not as simple as that. */
INLINE bool bind(struct kernel *kernel, object **values, object **args, i64 count, object *names) {
    i64 positional = count & 0x7fffffffffffffff, arity = kernel->arity.number;
    object **parameters = kernel->names.at, **defaults = kernel->defaults.at;
    if (positional > arity)
        return 0;
    for (i64 n = 0; n < arity; n++)
        values[n] = n < positional ? args[n] : defaults[n];
    for (i64 n = 0, words = names ? length(names) : 0; n < words; n++) {
        object *name = items(names)[n];
        i64 at = positional;
        while (at < arity && parameters[at] != name)
            at++;
        if (at < arity)
            values[at] = args[positional + n];
        else if (!means_nothing(kernel, name)) /* or a mistake */
            return 0;
    }
    for (i64 n = positional; n < arity; n++)
        if (!values[n])
            return 0;
    return 1;
}

/* Drops what a grid function gave, where there was one. */
INLINE void forget(object *answer, object *grid) {
    if (answer != grid)
        Py_DecRef(answer);
}

static object *go(struct kernel *kernel, object *grid, object **args, i64 count, object *names) {
    object *values[PARAMETERS], *answer = grid;
    _Alignas(16) word block[SLOTS];
    if (!bind(kernel, values, args, count, names) || is_elsewhere(kernel))
        return call_python(kernel, grid, args, count, names);
    int measured = measure(kernel, grid, values, block, &answer);
    if (measured == RAISED)
        return 0;
    struct entry *entry = measured == DONE ? find(kernel, values, block) : 0;
    int ran = entry ? run(kernel, entry, block) : PYTHON;
    if (ran == PYTHON) { /* what a function gave for the grid is not asked for again */
        object *result = call_python(kernel, answer, args, count, names);
        forget(answer, grid);
        return result;
    }
    forget(answer, grid);
    return ran == DONE ? none(kernel->shared.at) : stopped(kernel, entry);
}

/* kernel[grid](arguments...) */
object *launch(object *self, object **args, i64 count, object *names) {
    return go(table_of(self), items(self)[2], args, count, names);
}

/* kernel.bind(arguments..., grid=grid)() */
object *prepared(object *self, object *nothing) {
    (void)nothing;
    object *values = items(self)[3];
    return go(table_of(self), items(self)[2], items(values), length(values), 0);
}

/* A launch from generated code: all arguments by position, and the grid is part of what was taught for such arguments. */
object *direct(object *self, object **args, i64 count) {
    struct kernel *kernel = table_of(self);
    struct shared *shared = kernel->shared.at;
    _Alignas(16) word block[SLOTS];
    bool is_native = count == kernel->arity.number && !is_elsewhere(kernel);
    struct entry *entry = is_native ? find(kernel, args, block) : 0;
    int ran = entry ? run(kernel, entry, block) : PYTHON;
    if (ran == PYTHON)
        return call_python(kernel, shared->none.object, args, count, 0);
    return ran == DONE ? none(shared) : stopped(kernel, entry);
}

#include "replay.h"
