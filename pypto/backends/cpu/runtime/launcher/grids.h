/* The grid of a launch: whole numbers in an int or a tuple, or a function of the arguments that gives them. Anything else
   is for Python to look at, which knows the words for what is wrong with it. */
enum { GIVEN = 3 }; /* besides PYTHON, DONE and RAISED: Python is to look at what a function gave */

INLINE bool read_size(struct shared *shared, object *value, i64 *slot) {
    return is_integer(shared, value, slot, 0, 2147483647);
}

/* Sizes out of an int or a tuple of up to three, to the first slots of the argument block. */
INLINE bool read_sizes(struct shared *shared, object *grid, word *block) {
    block[1].number = block[2].number = 1;
    if (type_of(grid) != shared->type_tuple.object)
        return read_size(shared, grid, &block[0].number);
    i64 axes = length(grid);
    if (axes < 1 || axes > 3)
        return 0;
    for (i64 n = 0; n < axes; n++)
        if (!read_size(shared, items(grid)[n], &block[n].number))
            return 0;
    return 1;
}

/* What a function gives for a dict of the arguments. Null where it raises. */
INLINE object *call_grid(struct kernel *kernel, object *grid, object **values) {
    object *dict = PyDict_New(), **names = kernel->names.at, *given = 0;
    if (!dict)
        return 0;
    i64 n = 0;
    while (n < kernel->arity.number && !PyDict_SetItem(dict, names[n], values[n]))
        n++;
    if (n == kernel->arity.number)
        given = PyObject_CallOneArg(grid, dict);
    Py_DecRef(dict);
    return given;
}

/* The sizes of a grid, to the argument block. What a function gave is in `answer` then. */
INLINE int measure(struct kernel *kernel, object *grid, object **values, word *block, object **answer) {
    struct shared *shared = kernel->shared.at;
    if (read_sizes(shared, grid, block))
        return DONE;
    if (type_of(grid) != shared->type_function.object)
        return PYTHON;
    object *given = call_grid(kernel, grid, values);
    if (!given) { /* Python asks again where its argument may be the reason, and has the words for what is wrong */
        if (!PyErr_ExceptionMatches(shared->meant.object))
            return RAISED;
        PyErr_Clear();
        return PYTHON;
    }
    *answer = given;
    if (read_sizes(shared, given, block))
        return DONE;
    *answer = PyObject_CallOneArg(shared->again.object, given); /* a function, so that Python sees all of it as the grid */
    Py_DecRef(given);
    return *answer ? GIVEN : RAISED;
}
