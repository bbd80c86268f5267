/* check.c - sizes and numbers, before anything is allocated or written. Each check returns the first fault: its
 * kind, the argument, what came and what was wanted. */
#include "posenc.h"
#include <math.h>

static const pe_status FINE = {PE_OK, NULL, 0, 0, 0};
enum { MAX_DIM = 1 << 30 };

pe_status pe_check_size(const char *arg, const int64_t *sizes, size_t n, size_t item, size_t *out) {
    size_t bytes = item;
    bool empty = false;
    for (size_t i = 0; i < n; i++) empty |= sizes[i] == 0;
    for (size_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(bytes, (size_t)sizes[i] | (empty && sizes[i] == 0), &bytes) || bytes > PTRDIFF_MAX)
            return (pe_status){PE_ERR_TOO_BIG, arg, 0, 0, 0};
    *out = empty ? 0 : bytes;
    return FINE;
}

pe_status pe_check_wave(int64_t dim, pe_wave *w) {
    if (dim < 1) return (pe_status){PE_ERR_DIM, "dim", dim, 1, 0};
    if (dim > MAX_DIM) return (pe_status){PE_ERR_TOO_BIG, "dim", dim, 0, 0};
    if (!isfinite(w->base) || w->base <= 0) return (pe_status){PE_ERR_BASE, "base", 0, 0, w->base};
    if (!isfinite(w->scale) || w->scale == 0) return (pe_status){PE_ERR_SCALE, "scale", 0, 0, w->scale};
    /* shift = 0: the textbook's exponent 2i / dim, and an odd width ends with a lone sine; else tensor2tensor's
     * i / (dim / 2 - shift) over whole pairs, and an odd width ends with a zero */
    w->pairs = w->shift == 0 ? (size_t)(dim + 1) / 2 : (size_t)dim / 2;
    w->denom = w->shift == 0 ? (double)dim / 2 : (double)(dim / 2) - w->shift;
    if (w->pairs <= 1 && w->denom == 0) w->denom = 1;    /* one frequency, base^0 */
    if (!(w->denom >= 0x1p-10) || !isfinite(w->denom)) return (pe_status){PE_ERR_SHIFT, "shift", 0, 0, w->shift};
    return FINE;
}

pe_status pe_check_turns(const pe_num *turns, size_t n) {
    if (n && (turns[0].exp > 60 || turns[n - 1].exp > 60)) return (pe_status){PE_ERR_EXTREME, "base", 0, 0, 0};
    return FINE;
}

pe_status pe_check_positions(const pe_positions *p, size_t n) {
    if (p->kind != PE_POS_F64) return FINE;
    for (size_t i = 0; i < n; i++) {
        double v = ((const double *)p->data)[i];
        if (!isfinite(v)) return (pe_status){PE_ERR_NOT_FINITE, "positions", (int64_t)i, 0, v};
        if (!(v < 0x1p64 && v > -0x1p64)) return (pe_status){PE_ERR_POSITION, "positions", (int64_t)i, 0, v};
    }
    return FINE;
}

pe_status pe_check_rotary(int64_t width, int64_t rotary_dim, int64_t start) {
    if (rotary_dim < 0) return (pe_status){PE_ERR_DIM, "rotary_dim", rotary_dim, 0, 0};
    if (rotary_dim % 2) return (pe_status){PE_ERR_ODD, "rotary_dim", rotary_dim, 0, 0};
    if (start < 0) return (pe_status){PE_ERR_DIM, "start", start, 0, 0};
    if (rotary_dim > width) return (pe_status){PE_ERR_WIDTH, "rotary_dim", rotary_dim, width, 0};
    if (start > width - rotary_dim) return (pe_status){PE_ERR_WIDTH, "start", start, width - rotary_dim, 0};
    return FINE;
}
