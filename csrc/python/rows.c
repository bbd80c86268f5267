/* rows.c - x, out and positions as loops (see pe_apply): which axis of x moves along which axis of positions. */
#include "core.h"

static const char RANGE[] = "position + offset must fit into 64 bits";

static int offsets_arg(const char *fn, PyObject *obj, PyArrayObject **rows, int64_t *offset) {
    static const char wanted[] = "an integer, or one integer for each row of the batch";
    *rows = NULL, *offset = 0;
    if (pe_is_count(obj)) return pe_int64(fn, "offset", obj, offset);
    pe_pos_arg p;
    if (PyBool_Check(obj) || pe_positions_array(fn, obj, &p) < 0) return pe_raise_type(fn, "offset", wanted, obj);
    int status = 0;
    if (p.p.kind == PE_POS_F64 && p.count) status = pe_raise_type(fn, "offset", wanted, obj);
    for (size_t i = 0; status == 0 && p.p.kind == PE_POS_U64 && i < p.count; i++)
        if (((const uint64_t *)p.p.data)[i] > INT64_MAX) status = pe_raise_fact(fn, "offset", RANGE);
    if (status == 0 && p.ndim == 0) *offset = *(const int64_t *)p.p.data;
    else if (status == 0 && p.ndim == 1) *rows = (PyArrayObject *)Py_NewRef((PyObject *)p.array);
    else if (status == 0) status = pe_raise_axes(fn, "offset", "() or (batch,)", p.ndim, p.dims);
    pe_pos_free(&p);
    return status;
}

/* to[i] = positions[from + i] + offset for i < n, exactly; `to` has the kind's type */
static bool add_offset(const pe_positions *p, size_t from, size_t n, int64_t offset, pe_pos_kind kind, void *to) {
    bool fits = true;
    for (size_t i = 0; i < n && fits; i++) {
        int64_t signed_at = ((const int64_t *)p->data)[from + i];
        uint64_t at = (uint64_t)signed_at;
        if (p->kind == PE_POS_F64) ((double *)to)[i] = ((const double *)p->data)[from + i] + (double)offset;
        else if (p->kind == PE_POS_I64) fits = !__builtin_add_overflow(signed_at, offset, (int64_t *)to + i);
        else if (kind == PE_POS_U64) fits = !__builtin_add_overflow(at, offset, (uint64_t *)to + i);
        else fits = !__builtin_add_overflow(at, offset, (int64_t *)to + i);
    }
    return fits;
}

/* Adds offsets to positions, one for all or, with `rows`, one for each of the `batch` entries of their axis 0. Positions
 * of `axes` axes follow each other, each of them one row, which all entries share, or `batch` rows. Integers that leave 64
 * bits are refused. */
static int shifted(const char *fn, pe_pos_arg *pos, const int64_t *offsets, size_t batch, size_t axes) {
    size_t own = batch > 1 && pos->ndim && pos->dims[0] == (npy_intp)batch ? batch : 1, n = pos->count / own;
    npy_intp dims = (npy_intp)(axes * batch * n);
    PyArrayObject *sum = (PyArrayObject *)PyArray_SimpleNew(1, &dims, PyArray_TYPE(pos->array));
    if (!sum) {
        pe_name_memory(fn, "positions");
        return -1;
    }
    pe_pos_kind kind = pos->p.kind;
    bool fits = false;
    for (int attempt = 0; attempt < 2 && !fits; attempt++) {
        char *to = PyArray_BYTES(sum);
        fits = true;
        for (size_t a = 0; a < axes && fits; a++)
            for (size_t b = 0; b < batch && fits; b++, to += 8 * n)
                fits = add_offset(&pos->p, a * pos->axis_step + (own > 1 ? b * n : 0), n, offsets[b], kind, to);
        if (fits || kind != PE_POS_U64) break;
        kind = PE_POS_I64;                               /* below zero */
    }
    if (!fits) {
        pe_drop(sum);
        return pe_raise_fact(fn, "offset", RANGE);
    }
    pe_drop(pos->array);
    pos->array = sum, pos->p.data = PyArray_DATA(sum), pos->p.kind = kind;
    pos->count = batch * n, pos->axis_step = axes > 1 ? pos->count : 0;
    return pe_raise_status(fn, pe_check_positions(&pos->p, axes * pos->count));
}

/* positions offset[b], offset[b] + 1, ... for each row b of the batch: an array (batch, seq) */
static int ragged(const char *fn, PyArrayObject *rows, npy_intp seq, pe_pos_arg *pos) {
    npy_intp dims[2] = {PyArray_DIM(rows, 0), seq};
    PyArrayObject *a = (PyArrayObject *)PyArray_SimpleNew(2, dims, NPY_INT64);
    if (!a) {
        pe_name_memory(fn, "offset");
        return -1;
    }
    const int64_t *offset = PyArray_DATA(rows);
    int64_t *to = PyArray_DATA(a);
    for (npy_intp b = 0; b < dims[0]; b++)
        for (npy_intp i = 0; i < seq; i++)
            if (__builtin_add_overflow(offset[b], (int64_t)i, to++)) {
                pe_drop(a);
                return pe_raise_fact(fn, "offset", RANGE);
            }
    *pos = (pe_pos_arg){.p = {.kind = PE_POS_I64, .data = PyArray_DATA(a)},
                        .array = a,
                        .ndim = 2,
                        .dims = {dims[0], seq},
                        .count = (size_t)PyArray_SIZE(a)};
    return 0;
}

/* which axis of x each of ndim axes of positions is; false: no such shape */
static bool axes_of(int ndim, int outer, int seq_axis, int axis[]) {
    if (ndim == outer)
        for (int i = 0; i < ndim; i++) axis[i] = i;
    else if (ndim == 1 && outer > 0) axis[0] = seq_axis;
    else if (ndim == 2 && outer > 2 && seq_axis > 0) axis[0] = 0, axis[1] = seq_axis;
    else return ndim == 0;
    return true;
}

/* Loops of job that move along axes dims[ndim]: those of positions, or of a table without its last. */
int pe_apply_match(const char *fn, const char *arg, int ndim, const npy_intp *dims, PyArrayObject *x, int seq_axis,
                   pe_apply *job) {
    int axis[PE_MAX_LOOPS];
    npy_intp wanted[PE_MAX_LOOPS];
    if (!axes_of(ndim, PyArray_NDIM(x) - 1, seq_axis, axis))
        return pe_raise_axes(fn, arg, "(seq,), (batch, seq), or that of x without its last axis", ndim, dims);
    size_t step = 1;
    for (int i = ndim; i-- > 0; step *= (size_t)dims[i]) {
        wanted[i] = PyArray_DIM(x, axis[i]);
        if (dims[i] > 1) job->loops[axis[i]].pos = step;
    }
    for (int i = 0; i < ndim; i++)
        if (dims[i] != 1 && dims[i] != wanted[i]) return pe_raise_shape(fn, arg, ndim, dims, ndim, wanted);
    return 0;
}

/* an axis for the batch, of length 1, before those of positions that have none; false: no such shape */
static bool give_batch(pe_pos_arg *pos, int outer, int seq_axis) {
    int axis[PE_MAX_LOOPS] = {-1}, ndim = pos->ndim;
    npy_intp dims[PE_MAX_LOOPS];
    if (!axes_of(ndim, outer, seq_axis, axis)) return false;
    for (int i = 0; i < outer; i++) dims[i] = 1;
    for (int i = 0; i < ndim; i++) dims[axis[i]] = pos->dims[i];
    pos->ndim = outer;
    memcpy(pos->dims, dims, (size_t)outer * sizeof *dims);
    return true;
}

void pe_apply_axes(PyArrayObject *x, PyArrayObject *out, pe_apply *job) {
    int last = PyArray_NDIM(x) - 1;
    job->x = PyArray_BYTES(x), job->out = PyArray_BYTES(out), job->nloops = last;
    job->dim = (size_t)PyArray_DIM(x, last), job->item = (size_t)PyArray_ITEMSIZE(x);
    job->x_step = PyArray_STRIDE(x, last), job->out_step = PyArray_STRIDE(out, last);
    if (job->dim == 1) job->x_step = job->out_step = (ptrdiff_t)job->item;
    for (int i = 0; i < job->nloops; i++)
        job->loops[i] = (pe_loop){(size_t)PyArray_DIM(x, i), PyArray_STRIDE(x, i), PyArray_STRIDE(out, i), 0};
}

/* positions of several axes: the first axis of the array */
int pe_leading_axis(const char *fn, int naxes, pe_pos_arg *pos) {
    if (pos->ndim == 0) return 0;                        /* one number is for all axes */
    if (pos->dims[0] != naxes) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "(%d, ...), the axes of the plan first", naxes);
        return pe_raise_axes(fn, "positions", wanted, pos->ndim, pos->dims);
    }
    pos->ndim--, pos->count /= (size_t)naxes, pos->axis_step = pos->count;
    memmove(pos->dims, pos->dims + 1, (size_t)pos->ndim * sizeof *pos->dims);
    return 0;
}

int pe_apply_loops(const char *fn, PyArrayObject *x, PyArrayObject *out, int seq_axis, PyObject *positions,
                   PyObject *offset, int naxes, pe_pos_arg *pos, pe_apply *job) {
    int outer = PyArray_NDIM(x) - 1;
    PyArrayObject *rows;
    int64_t first;
    pe_pos_init(pos);
    if (offsets_arg(fn, offset, &rows, &first) < 0) return -1;
    pe_apply_axes(x, out, job);
    int status = 0;
    npy_intp batch = outer > 0 ? PyArray_DIM(x, 0) : 0;
    if (rows && (outer < 1 || PyArray_DIM(rows, 0) != batch))
        status = pe_raise_shape(fn, "offset", 1, PyArray_DIMS(rows), outer > 0, &batch);
    else if (rows && seq_axis == 0) status = pe_raise_fact(fn, "offset", "must be one integer where x has no batch");
    else if (rows && positions == Py_None) {
        status = ragged(fn, rows, PyArray_DIM(x, seq_axis), pos);
        if (status == 0) job->loops[0].pos = (size_t)PyArray_DIM(x, seq_axis), job->loops[seq_axis].pos = 1;
    } else if (positions != Py_None) {
        status = pe_positions_array(fn, positions, pos);
        if (status == 0 && naxes > 1) status = pe_leading_axis(fn, naxes, pos);
        size_t axes = pos->axis_step ? (size_t)naxes : 1;
        if (status == 0 && rows) {
            pe_pos_arg whole = *pos;
            if (give_batch(&whole, outer, seq_axis) && (whole.dims[0] == 1 || whole.dims[0] == batch)) {
                *pos = whole;
                status = shifted(fn, pos, PyArray_DATA(rows), (size_t)batch, axes);
                pos->dims[0] = batch;
            } /* else they do not fit, as is found below */
        } else if (status == 0 && first != 0) status = shifted(fn, pos, &first, 1, axes);
        if (status == 0) status = pe_apply_match(fn, "positions", pos->ndim, pos->dims, x, seq_axis, job);
        if (status == 0) status = pe_no_overlap(fn, "positions", pos->array, out, false);
    } else {
        pos->p = (pe_positions){.kind = PE_POS_RANGE, .first = first};
        if (outer > 0) job->loops[seq_axis].pos = 1;
    }
    pe_drop(rows);
    if (status < 0) pe_pos_free(pos);
    return status;
}

static void run_units(const void *ctx, size_t begin, size_t end, void *work) { pe_apply_run(ctx, begin, end, work); }

static size_t bytes_of(const pe_apply *a) {
    size_t n = a->dim * a->item;
    for (int i = 0; i < a->nloops; i++) n *= a->loops[i].n;
    return n;
}

int pe_apply_all(pe_state *s, pe_apply *job, pe_apply *also) {
    size_t units = pe_apply_units(job), more = also ? pe_apply_units(also) : 0, bytes = bytes_of(job);
    size_t joined = units && more ? pe_apply_join(job, also) : 0;
    if (joined) units = joined, bytes += bytes_of(also);
    if (pe_run(s, run_units, job, units, bytes / (units ? units : 1), pe_apply_work(job)) < 0) return -1;
    return more && !joined ? pe_apply_all(s, also, NULL) : 0;
}
