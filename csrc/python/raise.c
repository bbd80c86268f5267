/* raise.c - the one place where exceptions are made: `function: argument: what was wanted, got what came`. */
#include "core.h"

/* what an object is, in few words: an array's dtype and shape, a dtype's name, else its type. New reference or NULL. */
static PyObject *kind_of(PyObject *o) {
    if (PyArray_Check(o)) {
        PyObject *shape = PyObject_GetAttrString(o, "shape");
        PyObject *s = shape ? PyUnicode_FromFormat("an array of %S with shape %S",
                                                   (PyObject *)PyArray_DESCR((PyArrayObject *)o), shape)
                            : NULL;
        Py_XDECREF(shape);
        return s;
    }
    if (PyArray_DescrCheck(o)) return PyObject_Str(o);
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    PyObject *s = name ? PyUnicode_FromFormat("%U", name) : NULL;
    Py_XDECREF(name);
    return s;
}

static PyObject *tuple_of(int n, const npy_intp *dims) {
    PyObject *t = PyTuple_New(n);
    for (int i = 0; t && i < n; i++) {
        PyObject *v = PyLong_FromSsize_t(dims[i]);
        if (!v || PyTuple_SetItem(t, i, v) < 0) Py_CLEAR(t);
    }
    return t;
}

int pe_raise_type(const char *fn, const char *arg, const char *wanted, PyObject *got) {
    PyErr_Clear();
    PyObject *kind = kind_of(got);
    if (kind) PyErr_Format(PyExc_TypeError, "%s: %s: must be %s, got %U", fn, arg, wanted, kind);
    Py_XDECREF(kind);
    return -1;
}

int pe_raise_shape(const char *fn, const char *arg, int ndim, const npy_intp *got, int want_ndim,
                   const npy_intp *wanted) {
    PyObject *want = tuple_of(want_ndim, wanted), *have = tuple_of(ndim, got);
    if (want && have) PyErr_Format(PyExc_ValueError, "%s: %s: must have shape %S, got %S", fn, arg, want, have);
    Py_XDECREF(want);
    Py_XDECREF(have);
    return -1;
}

int pe_raise_axes(const char *fn, const char *arg, const char *wanted, int ndim, const npy_intp *got) {
    PyObject *have = tuple_of(ndim, got);
    if (have) PyErr_Format(PyExc_ValueError, "%s: %s: must have shape %s, got %S", fn, arg, wanted, have);
    Py_XDECREF(have);
    return -1;
}

int pe_raise_value(const char *fn, const char *arg, const char *wanted, PyObject *got) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s: %s: must be %s, got %R", fn, arg, wanted, got);
    return -1;
}

int pe_raise_fact(const char *fn, const char *arg, const char *fact) {
    PyErr_Format(PyExc_ValueError, "%s: %s: %s", fn, arg, fact);
    return -1;
}

int pe_raise_index(const char *fn, const char *arg, PyObject *index, npy_intp size, PyArrayObject *where, npy_intp at) {
    PyObject *place = NULL;
    if (index && PyArray_NDIM(where) > 0) {
        npy_intp dims[NPY_MAXDIMS];
        for (int i = PyArray_NDIM(where); i-- > 0;) dims[i] = at % PyArray_DIM(where, i), at /= PyArray_DIM(where, i);
        place = tuple_of(PyArray_NDIM(where), dims);
    }
    if (index && place)
        PyErr_Format(PyExc_IndexError, "%s: %s: must be from 0 to %zd (the table has %zd rows), got %S at %S", fn, arg,
                     size - 1, size, index, place);
    else if (index)
        PyErr_Format(PyExc_IndexError, "%s: %s: must be from 0 to %zd (the table has %zd rows), got %S", fn, arg,
                     size - 1, size, index);
    Py_XDECREF(place);
    return -1;
}

int pe_raise_import(const char *fact) {
    PyErr_SetString(PyExc_ImportError, fact);
    return -1;
}

int pe_raise_memory(const char *fn, const char *arg) {
    PyErr_Format(PyExc_MemoryError, "%s: %s: the result would not fit into memory", fn, arg);
    return -1;
}

int pe_raise_status(const char *fn, pe_status s) {
    long long got = s.got, want = s.want;
    PyObject *type = PyExc_ValueError, *real = NULL;
    const char *colon = s.arg && strchr(s.arg, ':') ? "" : ":"; /* "x: last axis" brings its own */
    if (s.code == PE_OK) return 0;
    if (s.code == PE_ERR_TOO_BIG) return pe_raise_memory(fn, s.arg);
    if (s.code == PE_ERR_DIM)
        PyErr_Format(type, "%s: %s%s must be at least %lld, got %lld", fn, s.arg, colon, want, got);
    if (s.code == PE_ERR_ODD) PyErr_Format(type, "%s: %s%s must be even, got %lld", fn, s.arg, colon, got);
    if (s.code == PE_ERR_WIDTH)
        PyErr_Format(type, "%s: %s%s must be at most %lld here, got %lld", fn, s.arg, colon, want, got);
    if (PyErr_Occurred() || !(real = PyFloat_FromDouble(s.real))) return -1;
    if (s.code == PE_ERR_EXTREME)
        PyErr_Format(type, "%s: %s: must give frequencies below 2^60 turns a token, got %R", fn, s.arg, real);
    if (s.code == PE_ERR_BASE) PyErr_Format(type, "%s: %s: must be finite and above 0, got %R", fn, s.arg, real);
    if (s.code == PE_ERR_SHIFT) PyErr_Format(type, "%s: %s: must be finite and below dim / 2, got %R", fn, s.arg, real);
    if (s.code == PE_ERR_SCALE) PyErr_Format(type, "%s: %s: must be finite and not 0, got %R", fn, s.arg, real);
    if (s.code == PE_ERR_NOT_FINITE)
        PyErr_Format(type, "%s: %s: must be finite, got %R at element %lld", fn, s.arg, real, got);
    if (s.code == PE_ERR_POSITION)
        PyErr_Format(type, "%s: %s: must be below 2^64 in magnitude, got %R at element %lld", fn, s.arg, real, got);
    Py_DECREF(real);
    return -1;
}
