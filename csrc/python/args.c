/* args.c - Python objects to C values. Whatever NumPy can hold is taken exactly or refused by name. */
#include "core.h"

bool pe_is_bfloat16(pe_state *s, PyArray_Descr *descr) {
    if (descr->kind != 'V' || descr->type_num < NPY_USERDEF || PyDataType_ELSIZE(descr) != 2) return false;
    if (!PyArray_ISNBO(descr->byteorder)) return false; /* nobody swaps it for us */
    if (s->bfloat16) return PyArray_EquivTypes(descr, (PyArray_Descr *)s->bfloat16);
    PyObject *name = PyObject_GetAttrString((PyObject *)descr, "name");
    if (!name) PyErr_Clear();
    bool is = name && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0;
    if (is) s->bfloat16 = Py_NewRef((PyObject *)descr);
    Py_XDECREF(name);
    return is;
}

static pe_dtype dtype_of(pe_state *s, PyArray_Descr *descr) {
    switch (descr->type_num) {
    case NPY_HALF: return PE_F16;
    case NPY_FLOAT: return PE_F32;
    case NPY_DOUBLE: return PE_F64;
    default: return pe_is_bfloat16(s, descr) ? PE_BF16 : PE_NDTYPE;
    }
}
pe_dtype pe_dtype_of(pe_state *s, PyArrayObject *a) { return dtype_of(s, PyArray_DESCR(a)); }

PyArray_Descr *pe_dtype_arg(pe_state *s, const char *fn, PyObject *dtype, pe_dtype *type) {
    PyArray_Descr *descr = NULL;
    if (dtype == Py_None) descr = PyArray_DescrFromType(NPY_DOUBLE);
    else if (PyArray_DescrConverter(dtype, &descr) < 0 || !descr) {
        /* numpy knows the name bfloat16 once ml_dtypes is imported: do that for the user */
        PyErr_Clear();
        descr = NULL;
        if (PyUnicode_Check(dtype) && PyUnicode_CompareWithASCIIString(dtype, "bfloat16") == 0) {
            PyObject *ml_dtypes = PyImport_ImportModule("ml_dtypes");
            Py_XDECREF(ml_dtypes);
            if (!ml_dtypes || PyArray_DescrConverter(dtype, &descr) < 0) PyErr_Clear();
        }
    }
    if (descr && (*type = dtype_of(s, descr)) != PE_NDTYPE && PyArray_ISNBO(descr->byteorder)) return descr;
    PyErr_Clear();
    pe_raise_type(fn, "dtype", "float16, bfloat16 (ml_dtypes), float32 or float64 in native byte order",
                  descr ? (PyObject *)descr : dtype);
    pe_drop(descr);
    return NULL;
}

/* obj as an array of whatever dtype, strides, byte order */
static PyArrayObject *as_array(const char *fn, const char *arg, const char *wanted, PyObject *obj) {
    if (PyArray_Check(obj)) return (PyArrayObject *)Py_NewRef(obj);
    PyObject *a = PyArray_CheckFromAny(obj, NULL, 0, 0, 0, NULL);
    if (!a && (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError)))
        pe_raise_type(fn, arg, wanted, obj);
    return (PyArrayObject *)a;
}

/* the error of a failed allocation, under our name (NumPy has several) */
void pe_name_memory(const char *fn, const char *arg) {
    if (!PyErr_ExceptionMatches(PyExc_MemoryError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return;
    PyErr_Clear();
    pe_raise_memory(fn, arg);
}

static PyArrayObject *cast(const char *fn, const char *arg, PyArrayObject *a, int type, int flags) { /* steals a */
    PyObject *r = PyArray_FromArray(a, PyArray_DescrFromType(type), flags | NPY_ARRAY_FORCECAST);
    if (!r) pe_name_memory(fn, arg);
    pe_drop(a);
    return (PyArrayObject *)r;
}

PyArrayObject *pe_input(pe_state *s, const char *fn, const char *arg, PyObject *obj, pe_dtype *type) {
    static const char wanted[] = "an array of float16, bfloat16, float32 or float64";
    PyArrayObject *a = as_array(fn, arg, wanted, obj);
    if (!a) return NULL;
    if (PyArray_NDIM(a) > PE_MAX_LOOPS) {
        pe_raise_fact(fn, arg, "too many axes");
        goto fail;
    }
    *type = PyArray_ISINTEGER(a) ? PE_F64 : pe_dtype_of(s, a);
    if (*type != PE_NDTYPE) return a;
    pe_raise_type(fn, arg, wanted, obj);
fail:
    pe_drop(a);
    return NULL;
}

bool pe_readable(PyArrayObject *a) { return !PyArray_ISINTEGER(a) && PyArray_ISBEHAVED_RO(a); }

/* the dtype of what is made of an input; new reference */
static PyArray_Descr *result_descr(PyArrayObject *a) {
    if (PyArray_ISINTEGER(a)) return PyArray_DescrFromType(NPY_DOUBLE);
    if (!PyArray_ISNOTSWAPPED(a)) return PyArray_DescrFromType(PyArray_TYPE(a));
    return (PyArray_Descr *)Py_NewRef((PyObject *)PyArray_DESCR(a));
}

PyArrayObject *pe_direct(const char *fn, const char *arg, PyArrayObject *a) {
    if (pe_readable(a)) return a;
    PyObject *r = PyArray_FromArray(a, result_descr(a), NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST);
    if (!r) pe_name_memory(fn, arg);
    pe_drop(a);
    return (PyArrayObject *)r;
}

PyArrayObject *pe_output_like(const char *fn, const char *arg, PyArrayObject *x, PyObject *out) {
    PyArray_Descr *descr = result_descr(x);
    PyArrayObject *a = descr ? pe_output(fn, out, descr, PyArray_NDIM(x), PyArray_DIMS(x)) : NULL;
    pe_drop(descr);
    if (a && out != Py_None && pe_no_overlap(fn, arg, x, a, true) < 0) {
        pe_drop(a);
        return NULL;
    }
    return a;
}

/* n of a's rows along an axis, from lo on; borrows a's memory */
static PyArrayObject *slice(PyArrayObject *a, int axis, npy_intp lo, npy_intp n) {
    npy_intp dims[NPY_MAXDIMS];
    for (int i = 0; i < PyArray_NDIM(a); i++) dims[i] = i == axis ? n : PyArray_DIM(a, i);
    Py_INCREF((PyObject *)PyArray_DESCR(a));
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a), PyArray_NDIM(a), dims,
                                                 PyArray_STRIDES(a), PyArray_BYTES(a) + lo * PyArray_STRIDE(a, axis),
                                                 PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, NULL);
}

int pe_fill_from(PyArrayObject *x, PyArrayObject *out) {
    enum { MOST = 4 << 20 };
    npy_intp bytes = PyArray_NBYTES(out), n = 1;
    int axis = 0;
    for (int i = 0; i < PyArray_NDIM(out); i++)
        if (PyArray_DIM(out, i) > n) axis = i, n = PyArray_DIM(out, i);
    if (bytes <= MOST || n == 1) return PyArray_CopyInto(out, x);
    npy_intp step = bytes / n < MOST ? MOST / (bytes / n) : 1;
    for (npy_intp lo = 0; lo < n; lo += step) {
        npy_intp rows = n - lo < step ? n - lo : step;
        PyArrayObject *from = slice(x, axis, lo, rows), *to = from ? slice(out, axis, lo, rows) : NULL;
        int status = to ? pe_fill_from(from, to) : -1;
        pe_drop(from);
        pe_drop(to);
        if (status < 0 || PyErr_CheckSignals() < 0) return -1;
    }
    return 0;
}

/* two elements of one array in one place? Axes by stride: each must step over all that the smaller ones reach. */
static bool overlaps_itself(PyArrayObject *a) {
    int order[NPY_MAXDIMS], n = 0;
    npy_intp reach = PyArray_ITEMSIZE(a);
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        if (PyArray_DIM(a, i) == 0) return false;
        if (PyArray_DIM(a, i) == 1) continue;
        int j = n++;
        for (; j > 0 && llabs(PyArray_STRIDE(a, order[j - 1])) > llabs(PyArray_STRIDE(a, i)); j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    for (int j = 0; j < n; j++) {
        npy_intp step = llabs(PyArray_STRIDE(a, order[j]));
        if (step < reach) return true;
        reach += step * (PyArray_DIM(a, order[j]) - 1);
    }
    return false;
}

PyArrayObject *pe_output(const char *fn, PyObject *out, PyArray_Descr *descr, int ndim, const npy_intp *dims) {
    if (out == Py_None) {
        Py_INCREF((PyObject *)descr);
        PyObject *a = PyArray_NewFromDescr(&PyArray_Type, descr, ndim, dims, NULL, NULL, 0, NULL);
        if (!a) pe_name_memory(fn, "out");
        return (PyArrayObject *)a;
    }
    if (!PyArray_Check(out)) {
        pe_raise_type(fn, "out", "an array", out);
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)out;
    if (!PyArray_EquivTypes(PyArray_DESCR(a), descr)) {
        PyObject *name = PyObject_Str((PyObject *)descr);
        const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        char wanted[64];
        snprintf(wanted, sizeof wanted, "an array of %s", text ? text : "another dtype");
        Py_XDECREF(name);
        pe_raise_type(fn, "out", wanted, out);
        return NULL;
    }
    if (PyArray_NDIM(a) != ndim || !PyArray_CompareLists(PyArray_DIMS(a), dims, ndim)) {
        pe_raise_shape(fn, "out", PyArray_NDIM(a), PyArray_DIMS(a), ndim, dims);
        return NULL;
    }
    const char *fault = !PyArray_ISWRITEABLE(a) ? "must be writeable, it is read-only"
                        : !PyArray_ISALIGNED(a) ? "must be aligned, it is not"
                        : overlaps_itself(a)    ? "must not overlap itself, some of its elements share memory"
                                                : NULL;
    if (fault) {
        pe_raise_fact(fn, "out", fault);
        return NULL;
    }
    return (PyArrayObject *)Py_NewRef(out);
}

static void extent(PyArrayObject *a, uintptr_t *lo, uintptr_t *hi) {
    *lo = *hi = (uintptr_t)PyArray_DATA(a);
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        npy_intp reach = (PyArray_DIM(a, i) - 1) * PyArray_STRIDE(a, i);
        if (PyArray_DIM(a, i) == 0) {
            *hi = *lo;
            return;
        }
        if (reach < 0) *lo += (uintptr_t)reach;
        else *hi += (uintptr_t)reach;
    }
    *hi += (uintptr_t)PyArray_ITEMSIZE(a);
}

int pe_no_overlap(const char *fn, const char *arg, PyArrayObject *in, PyArrayObject *out, bool alias) {
    uintptr_t a, b, c, d;
    extent(in, &a, &b);
    extent(out, &c, &d);
    if (a >= d || c >= b) return 0;
    int n = PyArray_NDIM(in);
    if (alias && PyArray_DATA(in) == PyArray_DATA(out) && n == PyArray_NDIM(out) &&
        PyArray_ITEMSIZE(in) == PyArray_ITEMSIZE(out)) {
        bool same = true;
        for (int i = 0; i < n; i++)
            same &= PyArray_DIM(in, i) == PyArray_DIM(out, i) &&
                    (PyArray_DIM(in, i) == 1 || PyArray_STRIDE(in, i) == PyArray_STRIDE(out, i));
        if (same) return 0;
    }
    /* the extents meet; NumPy decides whether elements do (columns of one buffer may interleave) */
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *shared = numpy ? PyObject_CallMethod(numpy, "shares_memory", "OOi", in, out, 10000) : NULL;
    Py_XDECREF(numpy);
    int yes = shared ? PyObject_IsTrue(shared) : 1;      /* too hard to tell: refuse */
    Py_XDECREF(shared);
    if (!shared) PyErr_Clear();
    if (!yes) return 0;
    char fact[128];
    snprintf(fact, sizeof fact, "must not overlap %s%s", arg, alias ? ", unless it is the very same array" : "");
    return pe_raise_fact(fn, "out", fact);
}

bool pe_is_count(PyObject *obj) { return (PyLong_Check(obj) && !PyBool_Check(obj)) || PyArray_IsScalar(obj, Integer); }

int pe_int64(const char *fn, const char *arg, PyObject *obj, int64_t *value) {
    bool array =
        PyArray_Check(obj) && !(PyArray_NDIM((PyArrayObject *)obj) == 0 && PyArray_ISINTEGER((PyArrayObject *)obj));
    PyObject *i = array || PyBool_Check(obj) || PyArray_IsScalar(obj, Bool) ? NULL : PyNumber_Index(obj);
    if (!i) return pe_raise_type(fn, arg, "an integer", obj);
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(i, &overflow);
    Py_DECREF(i);
    if (overflow) return pe_raise_value(fn, arg, "an integer of 64 bits", obj);
    return *value == -1 && PyErr_Occurred() ? -1 : 0;
}

int pe_size(const char *fn, const char *arg, PyObject *obj, int64_t least, int64_t *value) {
    if (pe_int64(fn, arg, obj, value) < 0) {
        /* a size beyond 64 bits is a size all the same */
        if (!PyErr_ExceptionMatches(PyExc_ValueError) || PyObject_RichCompareBool(obj, Py_False, Py_LT) != 0) return -1;
        PyErr_Clear();
        return pe_raise_memory(fn, arg);
    }
    if (*value >= least) return 0;
    return pe_raise_status(fn, (pe_status){PE_ERR_DIM, arg, *value, least, 0});
}

int pe_double(const char *fn, const char *arg, PyObject *obj, double *value) {
    if (PyFloat_Check(obj)) {
        *value = PyFloat_AsDouble(obj);
        return 0;
    }
    bool array =
        PyArray_Check(obj) && !(PyArray_NDIM((PyArrayObject *)obj) == 0 &&
                                (PyArray_ISINTEGER((PyArrayObject *)obj) || PyArray_ISFLOAT((PyArrayObject *)obj)));
    bool wrong = array || PyBool_Check(obj) || PyUnicode_Check(obj) || PyBytes_Check(obj) || PyByteArray_Check(obj) ||
                 PyArray_IsScalar(obj, Bool) || PyArray_IsScalar(obj, ComplexFloating);
    PyObject *f = wrong ? NULL : PyNumber_Float(obj);
    if (!f) {
        bool big = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError);
        if (big) PyErr_Clear();
        return big ? pe_raise_fact(fn, arg, "must be a float64, got a larger number")
                   : pe_raise_type(fn, arg, "a number", obj);
    }
    *value = PyFloat_AsDouble(f);
    Py_DECREF(f);
    return 0;
}

int pe_bool(const char *fn, const char *arg, PyObject *obj, bool *value) {
    if (!PyBool_Check(obj) && !PyArray_IsScalar(obj, Bool)) return pe_raise_type(fn, arg, "True or False", obj);
    *value = PyObject_IsTrue(obj);
    return 0;
}

int pe_layout_arg(const char *fn, PyObject *obj, pe_layout *layout) {
    if (!PyUnicode_Check(obj)) return pe_raise_type(fn, "layout", "\"interleaved\" or \"half\"", obj);
    if (PyUnicode_CompareWithASCIIString(obj, "interleaved") == 0) *layout = PE_INTERLEAVED;
    else if (PyUnicode_CompareWithASCIIString(obj, "half") == 0) *layout = PE_HALF;
    else return pe_raise_value(fn, "layout", "\"interleaved\" or \"half\"", obj);
    return 0;
}

int pe_axis(const char *fn, const char *arg, PyObject *obj, int ndim, int *axis) {
    int64_t v = 0;
    if (pe_int64(fn, arg, obj, &v) < 0) return -1;
    if (ndim == 1 && (v == -2 || v == -1 || v == 0)) {
        *axis = 0;
        return 0;
    } /* one row has no other axis */
    if (v < -ndim || v >= ndim) return pe_raise_value(fn, arg, "an axis of x", obj);
    *axis = (int)(v < 0 ? v + ndim : v);
    if (*axis == ndim - 1) return pe_raise_value(fn, arg, "another axis than the last, which holds the features", obj);
    return 0;
}

int pe_positions_array(const char *fn, PyObject *obj, pe_pos_arg *out) {
    static const char wanted[] = "integers or floats of at most 64 bits";
    pe_pos_init(out);
    PyArrayObject *a = as_array(fn, "positions", wanted, obj);
    if (!a) return -1;
    int type = PyArray_TYPE(a), flags = NPY_ARRAY_CARRAY_RO;
    bool integers = PyArray_ISINTEGER(a);
    bool floats = type == NPY_HALF || type == NPY_FLOAT || type == NPY_DOUBLE ||
                  (type >= NPY_USERDEF && PyArray_DESCR(a)->kind == 'V' && PyArray_ITEMSIZE(a) == 2 &&
                   PyArray_CanCastTypeTo(PyArray_DESCR(a), PyArray_DescrFromType(NPY_FLOAT), NPY_SAFE_CASTING));
    if ((!integers && !floats) || PyArray_NDIM(a) > PE_MAX_LOOPS) {
        pe_drop(a);
        return pe_raise_type(fn, "positions", wanted, obj);
    }
    for (Py_ssize_t i = 0; floats && PyList_Check(obj) && i < PyList_Size(obj); i++) {
        PyObject *item = PyList_GetItem(obj, i);         /* NumPy makes floats of large integers beside small ones */
        int overflow = 0;
        if (PyLong_Check(item)) PyLong_AsLongLongAndOverflow(item, &overflow);
        if (overflow == 0) continue;
        pe_drop(a);
        return pe_raise_value(fn, "positions", "an array of uint64 where they are beyond 63 bits", item);
    }
    bool is_unsigned = PyArray_ISUNSIGNED(a) && PyArray_ITEMSIZE(a) == 8; /* narrower ones fit into int64 */
    out->p.kind = floats ? PE_POS_F64 : is_unsigned ? PE_POS_U64 : PE_POS_I64;
    a = cast(fn, "positions", a, floats ? NPY_DOUBLE : is_unsigned ? NPY_UINT64 : NPY_INT64, flags);
    if (!a) return -1;
    out->array = a, out->p.data = PyArray_DATA(a);
    out->ndim = PyArray_NDIM(a), out->count = (size_t)PyArray_SIZE(a);
    for (int i = 0; i < out->ndim; i++) out->dims[i] = PyArray_DIM(a, i);
    if (pe_raise_status(fn, pe_check_positions(&out->p, out->count)) < 0) {
        pe_pos_free(out);
        return -1;
    }
    return 0;
}

int pe_positions_arg(const char *fn, PyObject *obj, pe_pos_arg *out) {
    if (!pe_is_count(obj)) return pe_positions_array(fn, obj, out);
    pe_pos_init(out);
    int64_t n;
    if (pe_size(fn, "positions", obj, 0, &n) < 0) return -1;
    out->ndim = 1, out->dims[0] = (npy_intp)n, out->count = (size_t)n;
    return 0;
}

void pe_pos_init(pe_pos_arg *p) { memset(p, 0, offsetof(pe_pos_arg, dims)); }
void pe_pos_free(pe_pos_arg *p) { Py_CLEAR(p->array); }
