/* bind_sinusoidal.c - sinusoidal tables and their sum with an array. The public signatures are in
 * posenc/sinusoidal.py; here arguments come by position, all of them. */
#include "core.h"

enum { KEPT_TABLES = 64, KEPT_PAIRS = 1 << 14 };

static int wave_args(const char *fn, PyObject *const *args, pe_wave *w) { /* base, shift, scale */
    return pe_double(fn, "base", args[0], &w->base) < 0 || pe_double(fn, "shift", args[1], &w->shift) < 0 ||
                   pe_double(fn, "scale", args[2], &w->scale) < 0
               ? -1
               : 0;
}

PyObject *pe_turns(pe_state *s, const char *fn, const pe_wave *w, const pe_num **turns) {
    double scale = w->scale < 0 ? -w->scale : w->scale;
    PyObject *key = Py_BuildValue("(dddn)", w->base, w->denom, scale, (Py_ssize_t)w->pairs);
    PyObject *kept = key ? PyDict_GetItemWithError(s->turns, key) : NULL;
    if (kept) {
        Py_INCREF(kept);
    } else if (key && !PyErr_Occurred()) {
        npy_intp dims[2] = {(npy_intp)w->pairs, sizeof(pe_num) / 8};
        PyArrayObject *a = (PyArrayObject *)PyArray_SimpleNew(2, dims, NPY_UINT64);
        if (!a) PyErr_Clear(), pe_raise_memory(fn, "dim");
        if (a) {
            pe_num *out = PyArray_DATA(a);
            PyThreadState *saved = PyEval_SaveThread();
            pe_powers(PE_TURNS, w->base, w->denom, scale, w->pairs, out);
            PyEval_RestoreThread(saved);
            PyArray_CLEARFLAGS(a, NPY_ARRAY_WRITEABLE);
            pe_status bad = pe_check_turns(out, w->pairs);
            bad.real = w->base;
            bool fine = pe_raise_status(fn, bad) == 0;
            if (fine && w->pairs <= KEPT_PAIRS) {
                if (PyDict_Size(s->turns) >= KEPT_TABLES) PyDict_Clear(s->turns);
                fine = PyDict_SetItem(s->turns, key, (PyObject *)a) == 0;
            }
            if (fine) kept = (PyObject *)a;
            else pe_drop(a);
        }
    }
    Py_XDECREF(key);
    if (kept) *turns = PyArray_DATA((PyArrayObject *)kept);
    return kept;
}

/* turns(fn, dim, base, shift, scale) -> uint64 (pairs, 9): what RopePlan keeps beside inv_freq */
PE_FUNCTION(turns) {
    pe_wave w;
    int64_t dim;
    const pe_num *turns;
    (void)nargs;
    const char *fn = PyUnicode_AsUTF8AndSize(args[0], NULL);
    if (!fn || pe_size(fn, "dim", args[1], 1, &dim) < 0 || wave_args(fn, args + 2, &w) < 0 ||
        pe_raise_status(fn, pe_check_wave(dim, &w)) < 0)
        return NULL;
    return pe_turns(pe_state_of(module), fn, &w, &turns);
}

/* turns_from(inv_freq) -> the same from float64 (pairs,), contiguous, finite, not negative, below 2^60 */
PE_FUNCTION(turns_from) {
    (void)nargs, (void)module;
    PyArrayObject *freq = (PyArrayObject *)args[0];
    npy_intp dims[2] = {PyArray_SIZE(freq), sizeof(pe_num) / 8};
    PyArrayObject *a = (PyArrayObject *)PyArray_SimpleNew(2, dims, NPY_UINT64);
    if (!a) {
        PyErr_Clear(), pe_raise_memory("RopePlan", "inv_freq");
        return NULL;
    }
    pe_turns_from_f64(PyArray_DATA(freq), (size_t)dims[0], PyArray_DATA(a));
    PyArray_CLEARFLAGS(a, NPY_ARRAY_WRITEABLE);
    return (PyObject *)a;
}

/* inv_freq(fn, dim, base, wavelengths) -> float64 (ceil(dim / 2),): radians a position, or positions a turn */
PE_FUNCTION(inv_freq) {
    pe_wave w = {.scale = 1};
    int64_t dim;
    bool wavelengths;
    (void)nargs, (void)module;
    const char *fn = PyUnicode_AsUTF8AndSize(args[0], NULL);
    if (!fn || pe_size(fn, "dim", args[1], 1, &dim) < 0 || pe_double(fn, "base", args[2], &w.base) < 0 ||
        pe_bool(fn, "wavelengths", args[3], &wavelengths) < 0 || pe_raise_status(fn, pe_check_wave(dim, &w)) < 0)
        return NULL;
    npy_intp n = (npy_intp)w.pairs;
    pe_num *nums = malloc((size_t)n * sizeof *nums);
    PyArrayObject *out = nums ? (PyArrayObject *)PyArray_SimpleNew(1, &n, NPY_DOUBLE) : NULL;
    if (!nums) pe_raise_memory(fn, "dim");
    if (out) {
        pe_powers(wavelengths ? PE_WAVELENGTHS : PE_RADIANS, w.base, w.denom, 1, w.pairs, nums);
        for (npy_intp i = 0; i < n; i++) ((double *)PyArray_DATA(out))[i] = pe_num_to_f64(nums + i);
    }
    free(nums);
    return (PyObject *)out;
}

typedef struct {
    pe_table table;
    char *out;
    ptrdiff_t row_bytes;
    bool stream;
} fill;

static void fill_rows(const void *ctx, size_t begin, size_t end, void *work) {
    const fill *f = ctx;
    pe_table_rows(&f->table, begin, end, f->out + (ptrdiff_t)begin * f->row_bytes, f->row_bytes, f->stream, work);
}

/* sinusoidal(positions, dim, base, layout, shift, scale, cos_first, dtype, out) */
PE_FUNCTION(sinusoidal) {
    static const char fn[] = "sinusoidal";
    pe_state *s = pe_state_of(module);
    PyArrayObject *out = NULL;
    PyObject *owner = NULL, *result = NULL;
    fill f = {.table = {.kernels = s->kernels, .factor = {1, false}}};
    pe_table *t = &f.table;
    pe_pos_arg pos = {.array = NULL};
    pe_wave w;
    int64_t dim;
    (void)nargs;
    PyArray_Descr *descr = pe_dtype_arg(
        s, fn,
        args[7] == Py_None && PyArray_Check(args[8]) ? (PyObject *)PyArray_DESCR((PyArrayObject *)args[8]) : args[7],
        &t->type);
    if (!descr) return NULL;
    PyObject *numbers[3] = {args[2], args[4], args[5]};
    if (pe_size(fn, "dim", args[1], 1, &dim) < 0 || wave_args(fn, numbers, &w) < 0 ||
        pe_layout_arg(fn, args[3], &t->layout) < 0 || pe_bool(fn, "cos_first", args[6], &t->cos_first) < 0 ||
        pe_raise_status(fn, pe_check_wave(dim, &w)) < 0 || pe_positions_arg(fn, args[0], &pos) < 0)
        goto done;
    if (pos.ndim >= NPY_MAXDIMS) {
        pe_raise_fact(fn, "positions", "too many axes");
        goto done;
    }
    npy_intp dims[PE_MAX_LOOPS + 1];
    int64_t sizes[PE_MAX_LOOPS + 1];
    size_t bytes;
    for (int i = 0; i < pos.ndim; i++) sizes[i] = dims[i] = pos.dims[i];
    sizes[pos.ndim] = dims[pos.ndim] = (npy_intp)dim;
    if (pe_raise_status(fn, pe_check_size("positions", sizes, (size_t)pos.ndim + 1, pe_itemsize(t->type), &bytes)) < 0)
        goto done;
    out = pe_output(fn, args[8], descr, pos.ndim + 1, dims);
    if (!out || (pos.array && pe_no_overlap(fn, "positions", pos.array, out, false) < 0)) goto done;
    if (bytes == 0) {
        result = Py_NewRef((PyObject *)out);
        goto done;
    } /* and no frequencies */
    owner = pe_turns(s, fn, &w, &t->turns);
    if (!owner) goto done;
    t->dim = (size_t)dim, t->pairs = w.pairs, t->positions = pos.p;
    t->positions.negate = w.scale < 0;
    /* rows one step apart are filled in place; an out of stranger strides gets a copy */
    size_t row = (size_t)dim * pe_itemsize(t->type);
    bool steps = pos.ndim == 1 && PyArray_STRIDE(out, 1) == PyArray_ITEMSIZE(out);
    PyArrayObject *rows = PyArray_IS_C_CONTIGUOUS(out) || steps
                              ? (PyArrayObject *)Py_NewRef((PyObject *)out)
                              : (PyArrayObject *)PyArray_NewLikeArray(out, NPY_CORDER, NULL, 0);
    if (rows) {
        f.out = PyArray_DATA(rows), f.row_bytes = steps ? PyArray_STRIDE(out, 0) : (ptrdiff_t)row;
        f.stream = bytes > PE_STREAM_BYTES;
        if (pe_run(s, fill_rows, &f, pos.count, row, PE_TABLE_WORK) == 0 &&
            (rows == out || PyArray_CopyInto(out, rows) == 0))
            result = Py_NewRef((PyObject *)out);
        pe_drop(rows);
    }
done:
    pe_pos_free(&pos);
    Py_XDECREF(owner);
    pe_drop(out);
    pe_drop(descr);
    return result;
}

typedef struct {
    const pe_kernels *kernels;
    pe_dtype type;
    size_t dim;
} sum;

static void sum_rows(const void *ctx, const pe_rows *r) {
    const sum *a = ctx;
    a->kernels->add[a->type](r, a->dim);
}

/* add_sinusoidal(x, positions, offset, seq_axis, base, layout, shift, scale, cos_first, out) */
PE_FUNCTION(add_sinusoidal) {
    static const char fn[] = "add_sinusoidal";
    pe_state *s = pe_state_of(module);
    PyArrayObject *out = NULL;
    PyObject *owner = NULL, *result = NULL;
    pe_table t = {.kernels = s->kernels, .factor = {1, false}};
    sum adds = {.kernels = s->kernels};
    pe_apply job;
    pe_pos_arg pos;
    pe_wave w;
    int axis = 0;
    (void)nargs;
    pe_pos_init(&pos);
    pe_apply_init(&job, NULL, NULL, sum_rows, &adds);
    PyArrayObject *x = pe_input(s, fn, "x", args[0], &t.type);
    if (!x) return NULL;
    int ndim = PyArray_NDIM(x);
    PyObject *numbers[3] = {args[4], args[6], args[7]};
    if (ndim == 0) {
        pe_raise_fact(fn, "x", "must have at least one axis, got 0");
        goto done;
    }
    if (wave_args(fn, numbers, &w) < 0 || pe_layout_arg(fn, args[5], &t.layout) < 0 ||
        pe_bool(fn, "cos_first", args[8], &t.cos_first) < 0 || pe_axis(fn, "seq_axis", args[3], ndim, &axis) < 0)
        goto done;
    pe_status bad = pe_check_wave(PyArray_DIM(x, ndim - 1), &w);
    if (bad.code == PE_ERR_DIM) bad.arg = "x: last axis";
    if (pe_raise_status(fn, bad) < 0) goto done;
    out = pe_output_like(fn, "x", x, args[9]);
    if (!out) goto done;
    PyArrayObject *from = pe_readable(x) ? x : out;
    adds.type = t.type, adds.dim = t.dim = (size_t)PyArray_DIM(x, ndim - 1), t.pairs = w.pairs;
    if (pe_apply_loops(fn, from, out, axis, args[1], args[2], 1, &pos, &job) < 0 ||
        !(owner = pe_turns(s, fn, &w, &t.turns)))
        goto done;
    t.positions = pos.p, t.positions.negate = w.scale < 0;
    pe_apply_table(&job, &t);
    if ((from == x || pe_fill_from(x, out) == 0) && pe_apply_all(s, &job, NULL) == 0)
        result = Py_NewRef((PyObject *)out);
done:
    pe_pos_free(&pos);
    Py_XDECREF(owner);
    pe_drop(out);
    pe_drop(x);
    return result;
}
