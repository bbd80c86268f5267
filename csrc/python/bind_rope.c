/* bind_rope.c - rotary embedding by a plan. The public signatures are in posenc/rope.py.
 *
 * A plan comes as the tuple (turns, axis or None, layout, rotary_dim, start, attention_factor, decay or None, center) that
 * RopePlan keeps, or None: then base and layout over the whole width of x. */
#include "core.h"

typedef struct {
    PyObject *turns; /* owned: what `parts` point into */
    pe_layout layout;
    int64_t rotary_dim, start;
    pe_factor factor;
    int naxes;
    const int64_t *axis; /* of each pair, when naxes > 1 */
    const double *decay; /* of each pair, then the low parts; or NULL */
    double center, sign;
    pe_num *sorted;      /* turns by axis, then pairs_of; malloc */
    pe_table parts[PE_MAX_AXES];
    pe_rotors rotors;
} plan;

static void plan_init(plan *p) {
    memset(p, 0, offsetof(plan, parts));
    p->factor.by = p->sign = 1, p->naxes = 1;
}

static int plan_arg(const char *fn, PyObject *obj, plan *p) {
    PyObject *axis, *decay, *layout;
    if (!PyTuple_Check(obj) || PyTuple_Size(obj) != 8) return pe_raise_type(fn, "plan", "a RopePlan", obj);
    p->turns = Py_NewRef(PyTuple_GetItem(obj, 0));
    axis = PyTuple_GetItem(obj, 1), layout = PyTuple_GetItem(obj, 2), decay = PyTuple_GetItem(obj, 6);
    if (pe_layout_arg(fn, layout, &p->layout) < 0 ||
        pe_int64(fn, "plan", PyTuple_GetItem(obj, 3), &p->rotary_dim) < 0 ||
        pe_int64(fn, "plan", PyTuple_GetItem(obj, 4), &p->start) < 0 ||
        pe_double(fn, "plan", PyTuple_GetItem(obj, 5), &p->factor.by) < 0 ||
        pe_double(fn, "plan", PyTuple_GetItem(obj, 7), &p->center) < 0)
        return -1;
    if (decay != Py_None) p->decay = PyArray_DATA((PyArrayObject *)decay);
    if (axis == Py_None) return 0;
    p->axis = PyArray_DATA((PyArrayObject *)axis);
    for (npy_intp i = 0; i < PyArray_SIZE((PyArrayObject *)axis); i++) /* one more than pairs: the last axis */
        if (p->axis[i] >= p->naxes) p->naxes = (int)p->axis[i] + 1;
    return 0;
}

/* the tables of the plan's axes at the positions; type: of the result, stored: of what it multiplies */
static int plan_tables(pe_state *s, const char *fn, plan *p, const pe_pos_arg *pos, pe_dtype type, pe_dtype stored) {
    size_t pairs = (size_t)p->rotary_dim / 2, at = 0;
    const pe_num *turns = pairs ? PyArray_DATA((PyArrayObject *)p->turns) : NULL;
    int64_t *pairs_of = NULL;
    pe_dtype inner = p->decay ? PE_F64 : type;
    if (p->naxes > 1 || p->decay) {
        p->sorted = malloc(pairs * (sizeof *p->sorted + sizeof *pairs_of) + 1);
        if (!p->sorted) return pe_raise_memory(fn, "plan");
        pairs_of = (int64_t *)(p->sorted + pairs);
    }
    for (int a = 0; a < p->naxes; a++) {
        size_t first = at;
        for (size_t i = 0; pairs_of && i < pairs; i++)
            if (p->naxes == 1 || p->axis[i] == a) p->sorted[at] = turns[i], pairs_of[at++] = (int64_t)i;
        if (!pairs_of) at = pairs;
        pe_table *t = &p->parts[a];
        *t = (pe_table){
            .kernels = s->kernels, .type = inner, .layout = PE_HALF, .dim = 2 * (at - first), .pairs = at - first};
        t->turns = pairs_of ? p->sorted + first : turns;
        t->factor = p->factor;
        t->positions = pos->p;
        if (pos->p.data) t->positions.data = (const char *)pos->p.data + (size_t)a * pos->axis_step * 8;
    }
    double limit = stored == PE_F64 ? 690 : stored == PE_F16 ? 10 : 80; /* e^limit is within the range of the dtype */
    p->rotors = (pe_rotors){type, pairs, (size_t)p->naxes, p->parts, pairs_of, p->decay, p->center, limit, p->sign};
    return 0;
}

static void plan_free(plan *p) {
    Py_XDECREF(p->turns);
    free(p->sorted);
}

/* what rope and apply_rope check alike of x */
static int array_arg(pe_state *s, const char *fn, const char *arg, PyObject *obj, PyObject *seq_axis, PyArrayObject **x,
                     pe_dtype *type, int *axis) {
    *x = pe_input(s, fn, arg, obj, type);
    if (!*x) return -1;
    if (PyArray_NDIM(*x) == 0) return pe_raise_fact(fn, arg, "must have at least one axis, got 0");
    return pe_axis(fn, "seq_axis", seq_axis, PyArray_NDIM(*x), axis);
}

/* one array to turn, with all that this takes; `job` points into the rest, so it stays where it is */
typedef struct {
    PyArrayObject *x, *out;
    bool fill; /* out from x, first */
    plan plan;
    pe_rope turn;
    pe_apply job;
    pe_pos_arg pos;
} rotation;

static void rotation_init(pe_state *s, rotation *r) {
    r->x = r->out = NULL;
    plan_init(&r->plan);
    r->turn = (pe_rope){.kernels = s->kernels};
    pe_apply_init(&r->job, pe_rotors_make, &r->plan.rotors, pe_rope_rows, &r->turn);
    pe_pos_init(&r->pos);
}

static void rotation_free(rotation *r) {
    pe_pos_free(&r->pos);
    plan_free(&r->plan);
    pe_drop(r->out);
    pe_drop(r->x);
}

/* all checks of an array called `arg`; how: positions, offset, seq_axis, base, layout, inverse, adjoint */
static int prepare(pe_state *s, const char *fn, const char *arg, PyObject *x_arg, PyObject *plan_obj,
                   PyObject *const *how, PyObject *out, rotation *r) {
    plan *p = &r->plan;
    pe_rope *turn = &r->turn;
    pe_wave w = {.scale = 1};
    bool inverse, adjoint;
    int axis = 0;
    if (array_arg(s, fn, arg, x_arg, how[2], &r->x, &turn->type, &axis) < 0 ||
        pe_bool(fn, "inverse", how[5], &inverse) < 0 || pe_bool(fn, "adjoint", how[6], &adjoint) < 0)
        return -1;
    if (inverse && adjoint) return pe_raise_fact(fn, "adjoint", "inverse and adjoint exclude each other");
    int64_t width = PyArray_DIM(r->x, PyArray_NDIM(r->x) - 1);
    if (plan_obj != Py_None) {
        if (plan_arg(fn, plan_obj, p) < 0) return -1;
    } else {
        p->rotary_dim = width;
        if (pe_double(fn, "base", how[3], &w.base) < 0 || pe_layout_arg(fn, how[4], &p->layout) < 0) return -1;
    }
    pe_status bad = pe_check_rotary(width, p->rotary_dim, p->start);
    char words[128];
    if (bad.code && plan_obj != Py_None) {
        snprintf(words, sizeof words, "must turn channels below %lld here, got %lld to %lld", (long long)width,
                 (long long)p->start, (long long)(p->start + p->rotary_dim - 1));
        return pe_raise_fact(fn, "plan", words);
    }
    if (bad.code == PE_ERR_ODD) {
        snprintf(words, sizeof words, "%s: last axis", arg);
        bad.arg = words;
    }
    if (pe_raise_status(fn, bad) < 0) return -1;
    if (!p->turns) {
        const pe_num *turns;
        if (pe_raise_status(fn, pe_check_wave(width > 0 ? width : 2, &w)) < 0) return -1;
        if (width > 0 && !(p->turns = pe_turns(s, fn, &w, &turns))) return -1;
    }
    r->out = pe_output_like(fn, arg, r->x, out);
    r->fill = !pe_readable(r->x);
    if (!r->out ||
        pe_apply_loops(fn, r->fill ? r->out : r->x, r->out, axis, how[0], how[1], p->naxes, &r->pos, &r->job) < 0)
        return -1;
    if (inverse) p->factor.divides = true, p->sign = -1;
    if (plan_tables(s, fn, p, &r->pos, turn->type == PE_F64 ? PE_F64 : PE_F32, turn->type) < 0) return -1;
    turn->layout = p->layout, turn->inverse = inverse || adjoint;
    turn->dim = (size_t)width, turn->start = (size_t)p->start, turn->rotary_dim = (size_t)p->rotary_dim;
    r->job.make_work = PE_TABLE_WORK, r->job.make_row = pe_rotors_row(&p->rotors);
    r->job.table_row = turn->rotary_dim * pe_itemsize(p->rotors.type);
    return 0;
}

static int fill_out(const rotation *r) { return r->fill ? pe_fill_from(r->x, r->out) : 0; }

/* rope(fn, x, plan, out, run, positions, offset, seq_axis, base, layout, inverse, adjoint); run False: only the checks */
PE_FUNCTION(rope) {
    pe_state *s = pe_state_of(module);
    PyObject *result = NULL;
    rotation r;
    (void)nargs;
    const char *fn = PyUnicode_AsUTF8AndSize(args[0], NULL);
    rotation_init(s, &r);
    if (fn && prepare(s, fn, "x", args[1], args[2], args + 5, args[3], &r) == 0 &&
        (args[4] != Py_True || (fill_out(&r) == 0 && pe_apply_all(s, &r.job, NULL) == 0)))
        result = Py_NewRef((PyObject *)r.out);
    rotation_free(&r);
    return result;
}

/* rope_qk(q, k, plan, plan of the keys, out of q, out of k, positions, offset, seq_axis, base, layout, False, False) */
PE_FUNCTION(rope_qk) {
    static const char fn[] = "rope_qk", other[] = "the other input or output";
    pe_state *s = pe_state_of(module);
    PyObject *result = NULL;
    rotation q, k;
    (void)nargs;
    rotation_init(s, &q), rotation_init(s, &k);
    if (prepare(s, fn, "q", args[0], args[2], args + 6, args[4], &q) < 0 ||
        prepare(s, fn, "k", args[1], args[3], args + 6, args[5], &k) < 0 ||
        pe_no_overlap(fn, other, k.x, q.out, false) < 0 || pe_no_overlap(fn, other, q.x, k.out, false) < 0 ||
        pe_no_overlap(fn, other, q.out, k.out, false) < 0 || fill_out(&q) < 0 || fill_out(&k) < 0)
        goto done;
    bool same_table = args[2] == args[3] && q.plan.rotors.type == k.plan.rotors.type &&
                      q.plan.rotary_dim == k.plan.rotary_dim; /* which without a plan are the widths */
    if (same_table ? pe_apply_all(s, &q.job, &k.job) == 0
                   : pe_apply_all(s, &q.job, NULL) == 0 && pe_apply_all(s, &k.job, NULL) == 0)
        result = PyTuple_Pack(2, q.out, k.out);
done:
    rotation_free(&q);
    rotation_free(&k);
    return result;
}

typedef struct {
    const pe_rotors *rotors;
    char *out;
    size_t row, chunk; /* bytes of a row, rows at a time */
} fill;

static void fill_rows(const void *ctx, size_t begin, size_t end, void *work) {
    const fill *f = ctx;
    for (size_t at = begin, n; at < end; at += n) {
        n = end - at < f->chunk ? end - at : f->chunk;
        pe_rotors_make(f->rotors, at, at + n, f->out + at * f->row, (ptrdiff_t)f->row, work);
    }
}

/* rope_tables(plan, positions, dtype) -> (positions.shape, 2, pairs): sines, then cosines, times the factor */
PE_FUNCTION(rope_tables) {
    static const char fn[] = "rope_tables";
    pe_state *s = pe_state_of(module);
    PyArrayObject *out = NULL;
    PyObject *result = NULL;
    plan p;
    pe_pos_arg pos;
    pe_dtype type;
    npy_intp dims[PE_MAX_LOOPS + 2];
    int64_t sizes[PE_MAX_LOOPS + 2];
    size_t bytes;
    (void)nargs;
    plan_init(&p);
    pe_pos_init(&pos);
    PyArray_Descr *descr = pe_dtype_arg(s, fn, args[2], &type);
    if (!descr || plan_arg(fn, args[0], &p) < 0 || pe_positions_arg(fn, args[1], &pos) < 0) goto done;
    if (p.naxes > 1 && pos.array && pe_leading_axis(fn, p.naxes, &pos) < 0) goto done;
    if (pos.ndim > NPY_MAXDIMS - 2) {
        pe_raise_fact(fn, "positions", "too many axes");
        goto done;
    }
    for (int i = 0; i < pos.ndim; i++) sizes[i] = dims[i] = pos.dims[i];
    sizes[pos.ndim] = dims[pos.ndim] = 2, sizes[pos.ndim + 1] = dims[pos.ndim + 1] = (npy_intp)p.rotary_dim / 2;
    if (pe_raise_status(fn, pe_check_size("positions", sizes, (size_t)pos.ndim + 2, pe_itemsize(type), &bytes)) < 0 ||
        !(out = pe_output(fn, Py_None, descr, pos.ndim + 2, dims)) || plan_tables(s, fn, &p, &pos, type, type) < 0)
        goto done;
    size_t row = (size_t)p.rotary_dim * pe_itemsize(type);
    size_t extra = pe_rotors_row(&p.rotors), chunk = extra ? 1 + (1 << 18) / extra : SIZE_MAX;
    if (extra && chunk > PE_CHUNK) chunk = PE_CHUNK;
    fill f = {&p.rotors, PyArray_DATA(out), row, chunk};
    if (pe_run(s, fill_rows, &f, row ? pos.count : 0, row, PE_TABLE_WORK + (extra ? chunk * extra : 0)) == 0)
        result = Py_NewRef((PyObject *)out);
done:
    pe_pos_free(&pos);
    plan_free(&p);
    pe_drop(out);
    pe_drop(descr);
    return result;
}

/* apply_rope(fn, x, cos, sin, layout, seq_axis, start, inverse, out): tables of one shape, of the dtype of arithmetic,
 * their axes before the last matched like positions */
PE_FUNCTION(apply_rope) {
    pe_state *s = pe_state_of(module);
    PyArrayObject *x = NULL, *out = NULL, *table[2] = {(PyArrayObject *)args[3], (PyArrayObject *)args[2]};
    PyObject *result = NULL;
    pe_rope turn = {.kernels = s->kernels};
    pe_stored stored = {.ndim = PyArray_NDIM(table[0]) - 1, .dims = PyArray_DIMS(table[0])};
    pe_apply job;
    int64_t start;
    int axis = 0;
    (void)nargs;
    pe_apply_init(&job, pe_stored_make, &stored, pe_rope_rows, &turn);
    const char *fn = PyUnicode_AsUTF8AndSize(args[0], NULL);
    if (!fn || array_arg(s, fn, "x", args[1], args[5], &x, &turn.type, &axis) < 0 ||
        pe_layout_arg(fn, args[4], &turn.layout) < 0 || pe_int64(fn, "start", args[6], &start) < 0 ||
        pe_bool(fn, "inverse", args[7], &turn.inverse) < 0)
        goto done;
    int64_t width = PyArray_DIM(x, PyArray_NDIM(x) - 1), rotary_dim = 2 * (int64_t)PyArray_DIM(table[0], stored.ndim);
    pe_status bad = pe_check_rotary(width, rotary_dim, start);
    if (bad.code == PE_ERR_WIDTH && rotary_dim > width) bad.arg = "cos: twice the last axis";
    if (pe_raise_status(fn, bad) < 0 || !(out = pe_output_like(fn, "x", x, args[8])) ||
        pe_no_overlap(fn, "cos", table[1], out, false) < 0 || pe_no_overlap(fn, "sin", table[0], out, false) < 0)
        goto done;
    bool fill = !pe_readable(x);
    pe_apply_axes(fill ? out : x, out, &job);
    if (pe_apply_match(fn, "cos: axes before the last", stored.ndim, stored.dims, x, axis, &job) < 0) goto done;
    for (int f = 0; f < 2; f++) {
        stored.of[f] = PyArray_DATA(table[f]), stored.strides[f] = PyArray_STRIDES(table[f]);
        stored.step[f] = PyArray_STRIDE(table[f], stored.ndim);
    }
    turn.dim = (size_t)width, turn.start = (size_t)start, turn.rotary_dim = (size_t)rotary_dim;
    stored.pairs = turn.rotary_dim / 2, stored.item = (size_t)PyArray_ITEMSIZE(table[0]);
    job.table_row = turn.rotary_dim * stored.item;
    if ((!fill || pe_fill_from(x, out) == 0) && pe_apply_all(s, &job, NULL) == 0) result = Py_NewRef((PyObject *)out);
done:
    pe_drop(out);
    pe_drop(x);
    return result;
}
