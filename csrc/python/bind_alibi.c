/* bind_alibi.c - the profile of ALiBi. The public signatures are in posenc/alibi.py. */
#include "core.h"
#include <math.h>

enum { BLOCK = 1 << 15 };
typedef struct {
    pe_alibi_fn *fn;
    const double *slopes;
    char *out;
    size_t width, blocks, item;
    int64_t first;
    bool symmetric;
} fill;

/* a unit: a block of one head */
static void fill_units(const void *ctx, size_t begin, size_t end, void *work) {
    const fill *f = ctx;
    (void)work;
    for (size_t unit = begin; unit < end; unit++) {
        size_t head = unit / f->blocks, at = unit % f->blocks * BLOCK;
        double slope = f->slopes[head];
        f->fn(slope, f->symmetric ? slope : INFINITY, f->first + (int64_t)at,
              f->width - at < BLOCK ? f->width - at : BLOCK, f->out + (head * f->width + at) * f->item);
    }
}

/* alibi_profile(slopes, k_len, symmetric, profile): slopes float64 (heads,), contiguous; k_len and profile as
 * bias_arrays had them */
PE_FUNCTION(alibi_profile) {
    pe_state *s = pe_state_of(module);
    PyArrayObject *profile = (PyArrayObject *)args[3];
    int64_t k_len;
    fill f = {.slopes = PyArray_DATA((PyArrayObject *)args[0]), .out = PyArray_DATA(profile)};
    (void)nargs;
    if (pe_int64("alibi_bias", "k_len", args[1], &k_len) < 0 ||
        pe_bool("alibi_bias", "symmetric", args[2], &f.symmetric) < 0)
        return NULL;
    f.first = 1 - k_len;
    f.fn = s->kernels->alibi[pe_dtype_of(s, profile)];
    f.width = (size_t)PyArray_DIM(profile, 1), f.item = (size_t)PyArray_ITEMSIZE(profile);
    f.blocks = (f.width + BLOCK - 1) / BLOCK;
    size_t units = f.blocks * (size_t)PyArray_DIM(profile, 0);
    if (pe_run(s, fill_units, &f, units, f.width * f.item / (f.blocks ? f.blocks : 1), 0) < 0) return NULL;
    Py_RETURN_NONE;
}
