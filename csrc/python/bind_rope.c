/* bind_rope.c - rotary embedding by a plan. The public signature is in posenc/rope.py. */
#include "core.h"

/* rope(x, positions, offset, seq_axis, turns, base, layout, rotary_dim, start, inverse, out)
 * turns: uint64 (pairs, 5) of a plan, or None: those of `base` over the whole width */
PE_FUNCTION(rope) {
    static const char fn[] = "rope";
    pe_state *s = pe_state_of(module);
    PyArrayObject *out = NULL;
    PyObject *owner = NULL, *result = NULL;
    pe_table t = {.kernels = s->kernels, .layout = PE_HALF};
    pe_rope plan = {.kernels = s->kernels};
    pe_apply job = {.table = &t, .fn = pe_rope_rows, .ctx = &plan};
    pe_pos_arg pos = {.array = NULL};
    pe_wave w = {.scale = 1};
    int axis = 0;
    (void)nargs;
    PyArrayObject *x = pe_input(s, fn, "x", args[0], &plan.type);
    if (!x) return NULL;
    int ndim = PyArray_NDIM(x);
    if (ndim == 0) {
        pe_raise_fact(fn, "x", "must have at least one axis, got 0");
        goto done;
    }
    int64_t width = PyArray_DIM(x, ndim - 1), rotary_dim = width, start = 0;
    if (pe_axis(fn, "seq_axis", args[3], ndim, &axis) < 0 || pe_double(fn, "base", args[5], &w.base) < 0 ||
        pe_layout_arg(fn, args[6], &plan.layout) < 0 || pe_bool(fn, "inverse", args[9], &plan.inverse) < 0 ||
        (args[7] != Py_None && pe_int64(fn, "rotary_dim", args[7], &rotary_dim) < 0) ||
        pe_int64(fn, "start", args[8], &start) < 0)
        goto done;
    pe_status bad = pe_check_rotary(width, rotary_dim, start);
    if (bad.code == PE_ERR_ODD && args[7] == Py_None) bad.arg = "x: last axis";
    if (pe_raise_status(fn, bad) < 0) goto done;
    out = pe_output(fn, args[10], PyArray_DESCR(x), ndim, PyArray_DIMS(x));
    if (!out || pe_no_overlap(fn, "x", x, out, true) < 0) goto done;
    if (pe_apply_loops(fn, x, out, axis, args[1], args[2], &pos, &job) < 0) goto done;
    if (args[4] != Py_None) {
        PyArrayObject *a = (PyArrayObject *)args[4];
        if (!PyArray_Check(args[4]) || PyArray_TYPE(a) != NPY_UINT64 || !PyArray_IS_C_CONTIGUOUS(a) ||
            !PyArray_ISALIGNED(a) || (size_t)PyArray_NBYTES(a) != (size_t)rotary_dim / 2 * sizeof(pe_num)) {
            pe_raise_type(fn, "plan", "a RopePlan", args[4]);
            goto done;
        }
        owner = Py_NewRef(args[4]), t.turns = PyArray_DATA(a);
    } else if (rotary_dim > 0) {
        if (pe_raise_status(fn, pe_check_wave(rotary_dim, &w)) < 0 || !(owner = pe_turns(s, fn, &w, &t.turns)))
            goto done;
    }
    plan.dim = (size_t)width, plan.start = (size_t)start, plan.rotary_dim = t.dim = (size_t)rotary_dim;
    t.pairs = t.dim / 2, t.type = plan.type == PE_F64 ? PE_F64 : PE_F32, t.positions = pos.p;
    if (pe_apply_all(s, &job, x, out) == 0) result = Py_NewRef((PyObject *)out);
done:
    pe_pos_free(&pos);
    Py_XDECREF(owner);
    pe_drop(out);
    pe_drop(x);
    return result;
}
