/* What the launcher reads: objects of Python and numpy, and tables of words that Python fills in. native.py defines the
   places of fields in objects. Names of words, in order, are macros (SHARED, KERNEL, ENTRY, REPLAY, STEPS): the command
   that compiles this takes them from native.py, replay.py and recipe.py. */
typedef long long i64;
typedef unsigned long long u64;
#define bool _Bool
#define INLINE __attribute__((always_inline)) static inline

typedef struct object object;
typedef void body(i64 first, i64 last, i64 thread, void *block);
typedef union {
    i64 number;
    double real;
    void *at;
    object *object;
} word;
struct shared { /* what all kernels share; behind the last one, places of scratch memory */
    word SHARED;
};
struct kernel {
    word KERNEL;
};
struct entry { /* a version of a kernel; behind the last one, the steps of its guard */
    word ENTRY;
};

extern const i64 object_type, object_size, object_list_items, object_tuple_items, object_bytes_content;
extern const i64 array_data, array_axes, array_sizes, array_strides, array_dtype, array_flags;
#define FIELD(object, place, type) (*(type *)((char *)(object) + (place)))

extern void Py_IncRef(object *), Py_DecRef(object *), PyErr_Clear(void);
extern void PyErr_Fetch(object **, object **, object **), PyErr_NormalizeException(object **, object **, object **);
extern int PyErr_ExceptionMatches(object *), PyList_SetItem(object *, i64, object *);
extern int PyDict_SetItem(object *, object *, object *), PyContextVar_Get(object *, object *, object **);
extern i64 PyLong_AsLongLongAndOverflow(object *, int *);
extern double PyFloat_AsDouble(object *);
extern object *PyLong_FromLongLong(i64), *PyTuple_Pack(i64, ...), *PyDict_New(void), *PyCell_Get(object *);
extern object *PyDict_GetItemWithError(object *, object *), *PyObject_CallOneArg(object *, object *);
extern object *PyObject_Vectorcall(object *, object **, i64, object *), *PyObject_CallFunctionObjArgs(object *, ...);
extern object *PyCFunction_NewEx(void *, object *, object *);
extern void *PyEval_SaveThread(void), PyEval_RestoreThread(void *);

INLINE object *type_of(object *value) {
    return FIELD(value, object_type, object *);
}

/* The number of items of a tuple, list or bytes. */
INLINE i64 length(object *sequence) {
    return FIELD(sequence, object_size, i64);
}

INLINE object **items(object *tuple) {
    return &FIELD(tuple, object_tuple_items, object *);
}

INLINE object *owned(object *value) {
    Py_IncRef(value);
    return value;
}
