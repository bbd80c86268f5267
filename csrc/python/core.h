/* core.h - what the binding's files share. Only files in this folder know Python. */
#ifndef POSENC_CORE_H
#define POSENC_CORE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL posenc_array_api
#ifndef POSENC_MODULE_C
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#include "../posenc.h"

/* one per module object: there is no other state */
typedef struct {
    const pe_kernels *kernels;
    PyObject *turns;      /* dict: (base, denom, scale, pairs) -> the frequencies, a read-only array */
    PyObject *bfloat16;   /* ml_dtypes' dtype once seen, or NULL */
    int threads;
} pe_state;
static inline pe_state *pe_state_of(PyObject *module) { return (pe_state *)PyModule_GetState(module); }

/* drops a reference to any kind of object, or none: the limited API wants a PyObject */
static inline void pe_drop(void *object) { Py_XDECREF((PyObject *)object); }

/* --- raise.c: the only place where an exception is set; all return -1 ---------------------------------------- */
int pe_raise_status(const char *fn, pe_status status);
int pe_raise_type(const char *fn, const char *arg, const char *wanted, PyObject *got); /* TypeError; names got's kind */
int pe_raise_shape(const char *fn, const char *arg, int ndim, const npy_intp *got, int want_ndim,
                   const npy_intp *wanted);
int pe_raise_axes(const char *fn, const char *arg, const char *wanted, int ndim, const npy_intp *got); /* in words */
int pe_raise_value(const char *fn, const char *arg, const char *wanted, PyObject *got); /* ValueError; shows got */
int pe_raise_fact(const char *fn, const char *arg, const char *fact); /* ValueError; nothing to show */
int pe_raise_index(const char *fn, const char *arg, PyObject *index, npy_intp size, PyArrayObject *where, npy_intp at);
int pe_raise_memory(const char *fn, const char *arg);
int pe_raise_import(const char *fact); /* ImportError */

/* --- args.c: Python objects -> C values; NULL or -1 with an exception set ------------------------------------- */
bool pe_is_bfloat16(pe_state *s, PyArray_Descr *descr);
pe_dtype pe_dtype_of(pe_state *s, PyArrayObject *a); /* PE_NDTYPE: another */
/* a new reference; `dtype` None: float64 */
PyArray_Descr *pe_dtype_arg(pe_state *s, const char *fn, PyObject *dtype, pe_dtype *type);
/* an array of one of our dtypes, or of integers, which count as float64; any strides, alignment and byte order. New
 * reference. */
PyArrayObject *pe_input(pe_state *s, const char *fn, const char *arg, PyObject *obj, pe_dtype *type);
bool pe_readable(PyArrayObject *a); /* of our dtypes, aligned, native: as kernels want it */
PyArrayObject *pe_direct(const char *fn, const char *arg, PyArrayObject *a); /* a, or such a copy; steals a */
/* where the result of a transform of x goes: `out`, which may be x but not overlap it, or a new array. A transform of an x
 * that is not readable fills it from x first, then works in place: no other memory is needed. New reference. */
PyArrayObject *pe_output_like(const char *fn, const char *arg, PyArrayObject *x, PyObject *out);
int pe_fill_from(PyArrayObject *x, PyArrayObject *out); /* looks at the signals now and then */
/* out as it must be, or a new C-contiguous array; takes no reference to descr. New reference. */
PyArrayObject *pe_output(const char *fn, PyObject *out, PyArray_Descr *descr, int ndim, const npy_intp *dims);
void pe_name_memory(const char *fn, const char *arg); /* the error of a failed allocation, under our name */
/* 0: the same elements or none in common (with `alias`, only these), else ValueError */
int pe_no_overlap(const char *fn, const char *arg, PyArrayObject *in, PyArrayObject *out, bool alias);
int pe_int64(const char *fn, const char *arg, PyObject *obj, int64_t *value);
int pe_size(const char *fn, const char *arg, PyObject *obj, int64_t least, int64_t *value);
int pe_double(const char *fn, const char *arg, PyObject *obj, double *value);
int pe_bool(const char *fn, const char *arg, PyObject *obj, bool *value);
int pe_layout_arg(const char *fn, PyObject *obj, pe_layout *layout);
int pe_axis(const char *fn, const char *arg, PyObject *obj, int ndim, int *axis); /* refuses the last axis */
bool pe_is_count(PyObject *obj); /* a Python int or a NumPy integer scalar: n, not a position */

/* Positions: p.data points into array (owned; NULL for a range). count is their number. */
typedef struct {
    pe_positions p;
    PyArrayObject *array;
    size_t count;
    size_t axis_step; /* positions from one position axis to the next; 0: all axes have the same */
    int ndim;
    npy_intp dims[PE_MAX_LOOPS];
} pe_pos_arg;
void pe_pos_init(pe_pos_arg *p); /* zeros, but for dims */
int pe_positions_array(const char *fn, PyObject *obj, pe_pos_arg *out); /* an array of any shape */
int pe_positions_arg(const char *fn, PyObject *obj, pe_pos_arg *out); /* the same, or an int n: 0 .. n-1 */
void pe_pos_free(pe_pos_arg *p);

/* --- freqs of a table, kept per module (bind_sinusoidal.c). New reference to an array that owns *turns. ------- */
PyObject *pe_turns(pe_state *s, const char *fn, const pe_wave *w, const pe_num **turns);

/* --- run.c: the long part, without the GIL, in chunks of milliseconds, threads joined, Ctrl-C heard ------------ */
int pe_run(pe_state *s, pe_range_fn *fn, const void *ctx, size_t units, size_t unit_bytes, size_t work_bytes);

/* fills job->loops for x and out (the same shape, the last axis the row), positions as the public functions take
 * them: None (0, 1, .. along seq_axis, plus offset), (seq,), (batch, seq), or x's shape without the last axis; for a
 * plan of naxes > 1 with one more axis, the first */
int pe_apply_loops(const char *fn, PyArrayObject *x, PyArrayObject *out, int seq_axis, PyObject *positions,
                   PyObject *offset, int naxes, pe_pos_arg *pos, pe_apply *job);
void pe_apply_axes(PyArrayObject *x, PyArrayObject *out, pe_apply *job); /* the same without positions, */
int pe_apply_match(const char *fn, const char *arg, int ndim, const npy_intp *dims, PyArrayObject *x, int seq_axis,
                   pe_apply *job); /* which this adds */
int pe_leading_axis(const char *fn, int naxes, pe_pos_arg *pos); /* takes the axis of plan axes off */
int pe_apply_all(pe_state *s, pe_apply *job, pe_apply *also); /* runs one, or two with the same table */

#define PE_METHOD(name) {#name, (PyCFunction)(void (*)(void))core_##name, METH_FASTCALL, NULL}
#define PE_FUNCTION(name) PyObject *core_##name(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
PE_FUNCTION(turns);
PE_FUNCTION(turns_from);
PE_FUNCTION(inv_freq);
PE_FUNCTION(sinusoidal);
PE_FUNCTION(add_sinusoidal);
PE_FUNCTION(rope);
PE_FUNCTION(rope_qk);
PE_FUNCTION(rope_tables);
PE_FUNCTION(apply_rope);
PE_FUNCTION(lookup);
PE_FUNCTION(embed);
PE_FUNCTION(bias_arrays);
PE_FUNCTION(expand_bias);
PE_FUNCTION(alibi_profile);
#endif
