/* bind_embed.c - rows of tables by token and by position. The public signatures are in posenc/learned.py. */
#include "core.h"
#include <math.h>

/* a table (rows, dim) of our dtypes, any strides. New reference. */
static PyArrayObject *table_arg(pe_state *s, const char *fn, const char *arg, PyObject *obj, pe_dtype *type) {
    PyArrayObject *a = pe_input(s, fn, arg, obj, type);
    if (!a) return NULL;
    if (PyArray_NDIM(a) == 2) return pe_direct(fn, arg, a);
    char fact[64];
    snprintf(fact, sizeof fact, "must have two axes, (rows, dim), got %d", PyArray_NDIM(a));
    pe_raise_fact(fn, arg, fact);
    pe_drop(a);
    return NULL;
}

static int raise_outside(const char *fn, const char *arg, PyArrayObject *ids, size_t at, npy_intp rows) {
    PyObject *id = PyObject_CallMethod((PyObject *)ids, "item", "n", (Py_ssize_t)at);
    if (id) pe_raise_index(fn, arg, id, rows, ids, (npy_intp)at);
    Py_XDECREF(id);
    return -1;
}

/* ids that have no array: one number */
static int raise_one_outside(const char *fn, const char *arg, int64_t id, npy_intp rows) {
    PyArrayObject *a = (PyArrayObject *)PyArray_SimpleNew(0, NULL, NPY_INT64);
    if (!a) return -1;
    *(int64_t *)PyArray_DATA(a) = id;
    raise_outside(fn, arg, a, 0, rows);
    pe_drop(a);
    return -1;
}

/* integers of any shape, all from 0 to rows - 1, as int64 in C order. New reference. */
static PyArrayObject *ids_arg(const char *fn, const char *arg, PyObject *obj, npy_intp rows) {
    static const char wanted[] = "integers of at most 64 bits";
    PyArrayObject *a = (PyArrayObject *)PyArray_FromAny(obj, NULL, 0, 0, 0, NULL);
    if (!a) {
        if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError))
            pe_raise_type(fn, arg, wanted, obj);
        return NULL;
    }
    PyArrayObject *ids = NULL;
    bool empty_list = PyArray_SIZE(a) == 0 && !PyArray_Check(obj);
    if (!PyArray_ISINTEGER(a) && !empty_list) pe_raise_type(fn, arg, wanted, obj);
    else if (PyArray_NDIM(a) >= NPY_MAXDIMS) pe_raise_fact(fn, arg, "too many axes");
    else
        ids = (PyArrayObject *)PyArray_FromArray(a, PyArray_DescrFromType(NPY_INT64),
                                                 NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST | NPY_ARRAY_ENSUREARRAY);
    if (!ids && PyErr_ExceptionMatches(PyExc_MemoryError)) pe_name_memory(fn, arg);
    size_t n = (size_t)PyArray_SIZE(a), bad = ids ? pe_first_outside(PyArray_DATA(ids), n, (size_t)rows) : n;
    if (bad < n) {
        raise_outside(fn, arg, a, bad, rows);
        Py_CLEAR(ids);
    }
    pe_drop(a);
    return ids;
}

/* out for ids and a table: ids.shape + (dim,). New reference. */
static PyArrayObject *rows_output(const char *fn, const char *arg, PyObject *out, PyArrayObject *table,
                                  PyArrayObject *ids) {
    npy_intp dims[NPY_MAXDIMS];
    int64_t sizes[NPY_MAXDIMS];
    int ndim = PyArray_NDIM(ids);
    size_t bytes;
    for (int i = 0; i < ndim; i++) sizes[i] = dims[i] = PyArray_DIM(ids, i);
    sizes[ndim] = dims[ndim] = PyArray_DIM(table, 1);
    if (pe_raise_status(fn, pe_check_size(arg, sizes, (size_t)ndim + 1, (size_t)PyArray_ITEMSIZE(table), &bytes)) < 0)
        return NULL;
    return pe_output(fn, out, PyArray_DESCR(table), ndim + 1, dims);
}

static pe_embed embed_of(pe_state *s, pe_dtype type, PyArrayObject *weight, PyArrayObject *ids) {
    pe_embed e = {.kernels = s->kernels, .type = type, .scale = 1, .padding = -1, .ids = PyArray_DATA(ids)};
    e.tokens = (size_t)PyArray_DIM(weight, 0), e.dim = (size_t)PyArray_DIM(weight, 1);
    e.weight = PyArray_DATA(weight), e.weight_row = PyArray_STRIDE(weight, 0),
    e.weight_step = PyArray_STRIDE(weight, 1);
    return e;
}

/* Rows are written to a contiguous array: out, or one that is copied into it at the end. New reference. */
static PyArrayObject *contiguous(PyArrayObject *out) {
    if (PyArray_IS_C_CONTIGUOUS(out)) return (PyArrayObject *)Py_NewRef((PyObject *)out);
    return (PyArrayObject *)PyArray_NewLikeArray(out, NPY_CORDER, NULL, 0);
}

static int run_range(pe_state *s, pe_embed *e, PyArrayObject *rows, size_t count) {
    e->out = PyArray_DATA(rows);
    if (e->dim == 0) return 0;
    return pe_run(s, pe_embed_range, e, count, e->dim * pe_itemsize(e->type), 0);
}

static PyObject *finish(int status, PyArrayObject *rows, PyArrayObject *out) {
    return status == 0 && (rows == out || PyArray_CopyInto(out, rows) == 0) ? Py_NewRef((PyObject *)out) : NULL;
}

/* lookup(table, positions, out) */
PE_FUNCTION(lookup) {
    static const char fn[] = "lookup";
    pe_state *s = pe_state_of(module);
    pe_dtype type;
    PyArrayObject *ids = NULL, *out = NULL, *rows = NULL;
    PyObject *result = NULL;
    (void)nargs;
    PyArrayObject *table = table_arg(s, fn, "table", args[0], &type);
    if (!table) return NULL;
    npy_intp size = PyArray_DIM(table, 0);
    if (pe_is_count(args[1])) {
        int64_t n;
        if (pe_size(fn, "positions", args[1], 0, &n) < 0) goto done;
        if (n > size) {
            raise_one_outside(fn, "positions", size, size);
            goto done;
        }
        ids = (PyArrayObject *)PyArray_Arange(0, (double)n, 1, NPY_INT64);
    } else ids = ids_arg(fn, "positions", args[1], size);
    if (!ids || !(out = rows_output(fn, "positions", args[2], table, ids)) ||
        pe_no_overlap(fn, "table", table, out, false) < 0 || pe_no_overlap(fn, "positions", ids, out, false) < 0 ||
        !(rows = contiguous(out)))
        goto done;
    pe_embed e = embed_of(s, type, table, ids);
    result = finish(run_range(s, &e, rows, (size_t)PyArray_SIZE(ids)), rows, out);
done:
    pe_drop(rows);
    pe_drop(out);
    pe_drop(ids);
    pe_drop(table);
    return result;
}

/* a learned table for e: its dtype and width those of weight, its numbers side by side. New reference. */
static PyArrayObject *learned_arg(pe_state *s, const char *fn, PyObject *obj, PyArrayObject *weight, pe_embed *e) {
    pe_dtype type;
    PyArrayObject *a = table_arg(s, fn, "encoding", obj, &type), *r = NULL;
    if (!a) return NULL;
    npy_intp wanted[2] = {PyArray_DIM(a, 0), PyArray_DIM(weight, 1)};
    if (type != e->type) pe_raise_type(fn, "encoding", "None, \"sinusoidal\" or a table of weight's dtype", obj);
    else if (PyArray_DIM(a, 1) != wanted[1]) pe_raise_shape(fn, "encoding", 2, PyArray_DIMS(a), 2, wanted);
    else if (PyArray_STRIDE(a, 1) == PyArray_ITEMSIZE(a)) r = (PyArrayObject *)Py_NewRef((PyObject *)a);
    else if (!(r = (PyArrayObject *)PyArray_NewCopy(a, NPY_CORDER))) pe_name_memory(fn, "encoding");
    pe_drop(a);
    if (r) e->encoding = PyArray_DATA(r), e->encoding_row = PyArray_STRIDE(r, 0), e->places = (size_t)PyArray_DIM(r, 0);
    return r;
}

/* the positions of seq tokens, or of an array, are rows of the learned table */
static int check_places(const char *fn, const pe_pos_arg *pos, npy_intp seq, size_t places) {
    if (!pos->array) {
        int64_t first = pos->p.first, rows = (int64_t)places;
        if (first >= 0 && first <= rows && seq <= rows - first) return 0;
        return raise_one_outside(fn, "positions", first < 0 || first > rows ? first : rows, rows);
    }
    if (pos->p.kind == PE_POS_F64)
        return pe_raise_type(fn, "positions", "integers, for a learned table", (PyObject *)pos->array);
    size_t bad = pe_first_outside(pos->p.data, pos->count, places);
    return bad < pos->count ? raise_outside(fn, "positions", pos->array, bad, (npy_intp)places) : 0;
}

/* the rows of a sinusoidal table go through pe_apply: its x are the ids, one at the head of each row */
static int run_sinusoidal(pe_state *s, const char *fn, pe_embed *e, pe_apply *job, pe_positions positions) {
    pe_wave w = {.base = 10000, .scale = 1};
    pe_table t = {.kernels = s->kernels, .type = e->type, .dim = e->dim, .positions = positions, .factor = {1, false}};
    pe_status bad = pe_check_wave((int64_t)e->dim, &w);
    if (bad.code == PE_ERR_DIM) bad.arg = "weight: last axis";
    if (pe_raise_status(fn, bad) < 0) return -1;
    PyObject *owner = pe_turns(s, fn, &w, &t.turns);
    if (!owner) return -1;
    t.pairs = w.pairs;
    pe_apply_table(job, &t);
    job->ctx = e, job->dim = e->dim, job->item = pe_itemsize(e->type),
    job->x_step = job->out_step = (ptrdiff_t)job->item;
    int status = pe_apply_all(s, job, NULL);
    Py_DECREF(owner);
    return status;
}

/* embed(token_ids, weight, scale, encoding, positions, offset, padding_idx, out) */
PE_FUNCTION(embed) {
    static const char fn[] = "embed";
    pe_state *s = pe_state_of(module);
    pe_dtype type;
    double scale;
    int64_t padding = -1;
    PyArrayObject *ids = NULL, *out = NULL, *rows = NULL, *table = NULL, *x = NULL;
    PyObject *result = NULL;
    pe_pos_arg pos = {.array = NULL};
    pe_apply job;
    (void)nargs;
    pe_apply_init(&job, NULL, NULL, pe_embed_rows, NULL);
    PyArrayObject *weight = table_arg(s, fn, "weight", args[1], &type);
    if (!weight) return NULL;
    npy_intp tokens = PyArray_DIM(weight, 0), dims[NPY_MAXDIMS];
    if (!(ids = ids_arg(fn, "token_ids", args[0], tokens)) || pe_double(fn, "scale", args[2], &scale) < 0) goto done;
    if (!isfinite(scale) || (type != PE_F64 && !isfinite((float)scale))) {
        pe_raise_value(fn, "scale", "finite, also in the dtype of weight", args[2]);
        goto done;
    }
    if (args[6] != Py_None) {
        if (pe_int64(fn, "padding_idx", args[6], &padding) < 0) goto done;
        if (padding < 0 || padding >= tokens) {
            raise_one_outside(fn, "padding_idx", padding, tokens);
            goto done;
        }
    }
    pe_embed e = embed_of(s, type, weight, ids);
    e.scale = scale, e.padding = padding;
    bool sines = PyUnicode_Check(args[3]);
    if (sines && PyUnicode_CompareWithASCIIString(args[3], "sinusoidal") != 0) {
        pe_raise_value(fn, "encoding", "None, \"sinusoidal\" or a table", args[3]);
        goto done;
    }
    if (!sines && args[3] != Py_None && !(table = learned_arg(s, fn, args[3], weight, &e))) goto done;
    if (!(out = rows_output(fn, "token_ids", args[7], weight, ids)) ||
        pe_no_overlap(fn, "weight", weight, out, false) < 0 || pe_no_overlap(fn, "token_ids", ids, out, false) < 0 ||
        (table && pe_no_overlap(fn, "encoding", table, out, false) < 0) || !(rows = contiguous(out)))
        goto done;
    int ndim = PyArray_NDIM(ids);
    for (int i = 0; i < ndim; i++) dims[i] = PyArray_DIM(ids, i);
    dims[ndim] = 1;
    if (!(x = (PyArrayObject *)PyArray_Newshape(ids, &(PyArray_Dims){dims, ndim + 1}, NPY_CORDER)) ||
        pe_apply_loops(fn, x, rows, ndim ? ndim - 1 : 0, args[4], args[5], 1, &pos, &job) < 0)
        goto done;
    size_t count = (size_t)PyArray_SIZE(ids);
    if (table && count && check_places(fn, &pos, ndim ? dims[ndim - 1] : 1, e.places) < 0) goto done;
    e.positions = pos.p, e.axes = job.loops, e.naxes = ndim;
    int status = sines ? run_sinusoidal(s, fn, &e, &job, pos.p) : run_range(s, &e, rows, count);
    result = finish(status, rows, out);
done:
    pe_pos_free(&pos);
    pe_drop(x);
    pe_drop(table);
    pe_drop(rows);
    pe_drop(out);
    pe_drop(ids);
    pe_drop(weight);
    return result;
}
