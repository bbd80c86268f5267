/* bind_expand.c - the room that every relative bias passes through. A scheme asks for bias_arrays, which checks all
 * that is public and allocates, fills the profile, and hands both to expand_bias. Positions of the queries: the last
 * q_len of k_len keys, so profile[h, t] belongs to relative = key - query = t - (k_len - 1). */
#include "core.h"

static PyArrayObject *attach(PyArrayObject *base, int ndim, const npy_intp *dims, const npy_intp *strides, char *data,
                             int flags) {
    Py_INCREF((PyObject *)PyArray_DESCR(base));
    PyObject *a = PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(base), ndim, dims, strides, data, flags, NULL);
    if (a && PyArray_SetBaseObject((PyArrayObject *)a, Py_NewRef((PyObject *)base)) < 0) Py_CLEAR(a);
    return (PyArrayObject *)a;
}

/* bias_arrays(fn, heads, q_len, k_len, dtype, out, view) -> (bias, profile)
 * bias (heads, q_len, k_len): out, a new array, or a read-only view of the profile, which is new, C-contiguous, of
 * shape (heads, q_len + k_len - 1). For one query both are the same memory, if it is contiguous. */
PE_FUNCTION(bias_arrays) {
    pe_state *s = pe_state_of(module);
    PyArrayObject *bias = NULL, *profile = NULL;
    PyObject *result = NULL;
    int64_t sizes[3];
    size_t bytes;
    pe_dtype type;
    bool view;
    (void)nargs;
    const char *fn = PyUnicode_AsUTF8AndSize(args[0], NULL);
    if (!fn || pe_size(fn, "heads", args[1], 0, &sizes[0]) < 0 || pe_size(fn, "q_len", args[2], 0, &sizes[1]) < 0)
        return NULL;
    sizes[2] = sizes[1];
    if ((args[3] != Py_None && pe_size(fn, "k_len", args[3], sizes[1], &sizes[2]) < 0) ||
        pe_bool(fn, "view", args[6], &view) < 0)
        return NULL;
    if (view && args[5] != Py_None) {
        pe_raise_fact(fn, "out", "must be None with view=True, which writes nothing");
        return NULL;
    }
    PyArray_Descr *descr = pe_dtype_arg(
        s, fn,
        args[4] == Py_None && PyArray_Check(args[5]) ? (PyObject *)PyArray_DESCR((PyArrayObject *)args[5]) : args[4],
        &type);
    if (!descr) return NULL;
    npy_intp item = (npy_intp)pe_itemsize(type), heads = (npy_intp)sizes[0], q_len = (npy_intp)sizes[1],
             k_len = (npy_intp)sizes[2];
    if (pe_raise_status(fn, pe_check_size("k_len", sizes, 3, (size_t)item, &bytes)) < 0) goto done;
    npy_intp dims[3] = {heads, q_len, k_len}, width = q_len > 0 ? q_len - 1 + k_len : 0, flat[2] = {heads, width};
    if (!view && !(bias = pe_output(fn, args[5], descr, 3, dims))) goto done;
    if (bias && q_len == 1 && PyArray_IS_C_CONTIGUOUS(bias)) {
        profile = attach(bias, 2, flat, NULL, PyArray_DATA(bias), NPY_ARRAY_CARRAY);
    } else {
        Py_INCREF((PyObject *)descr);
        profile = (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, descr, 2, flat, NULL, NULL, 0, NULL);
    }
    if (profile && view) {
        npy_intp strides[3] = {width * item, -item, item};
        bias = attach(profile, 3, dims, strides, PyArray_BYTES(profile) + (bytes ? (q_len - 1) * item : 0), 0);
    }
    if (profile && bias) result = Py_BuildValue("(OO)", bias, profile);
done:
    pe_drop(profile);
    pe_drop(bias);
    pe_drop(descr);
    return result;
}

/* expand_bias(profile, bias) -> bias: the two as bias_arrays gave them, the profile filled */
PE_FUNCTION(expand_bias) {
    pe_state *s = pe_state_of(module);
    PyArrayObject *profile = (PyArrayObject *)args[0], *bias = (PyArrayObject *)args[1];
    (void)nargs;
    if (!PyArray_ISWRITEABLE(bias)) PyArray_CLEARFLAGS(profile, NPY_ARRAY_WRITEABLE); /* a view: for good */
    else if (PyArray_SIZE(bias) && PyArray_DATA(bias) != PyArray_DATA(profile)) {
        npy_intp item = PyArray_ITEMSIZE(bias), from[3] = {PyArray_STRIDE(profile, 0), -item, item};
        pe_expand e = {.kernels = s->kernels,
                       .item = (size_t)item,
                       .to = PyArray_BYTES(bias),
                       .from = PyArray_BYTES(profile) + (PyArray_DIM(bias, 1) - 1) * item};
        for (int i = 0; i < 3; i++)
            e.loops[i] = (pe_expand_loop){(size_t)PyArray_DIM(bias, i), from[i], PyArray_STRIDE(bias, i)};
        size_t units = pe_expand_units(&e);
        if (pe_run(s, pe_expand_run, &e, units, (size_t)PyArray_NBYTES(bias) / units, 0) < 0) return NULL;
    }
    return Py_NewRef((PyObject *)bias);
}
