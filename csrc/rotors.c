/* rotors.c - the table of a rotary plan: sines and cosines of the pairs, whatever position axis each of them follows,
 * times the attention factor. Without a factor they are correctly rounded; with one the product of the float64 value
 * is rounded once. */
#include "posenc.h"
#include "simd/half.h"
#include <string.h>

/* rows of a part: sines and cosines of its pairs */
static size_t part_row(const pe_table *t) { return t->dim * pe_itemsize(t->type); }

size_t pe_rotors_work(const pe_rotors *r, size_t rows) {
    size_t most = 0;
    for (size_t a = 0; a < r->nparts; a++)
        if (part_row(&r->parts[a]) > most) most = part_row(&r->parts[a]);
    return PE_TABLE_WORK + rows * most;
}

static void put(const pe_rotors *r, pe_dtype from_type, const char *from, char *to) {
    if (from_type == r->type) {
        memcpy(to, from, pe_itemsize(r->type));
        return;
    }
    double v = *(const double *)from * r->factor;
    if (r->type == PE_F32) *(float *)to = (float)v;
    else if (r->type == PE_F16) *(pe_f16 *)to = pe_f32_to_f16(pe_f64_to_odd_f32(v));
    else *(pe_bf16 *)to = pe_f32_to_bf16(pe_f64_to_odd_f32(v));
}

static void scatter(const pe_rotors *r, const pe_table *t, const int64_t *pairs, const char *from, char *to) {
    size_t item = pe_itemsize(t->type), to_item = pe_itemsize(r->type);
    for (size_t k = 0; k < t->dim; k++) {
        size_t at = k < t->pairs ? (size_t)pairs[k] : r->pairs + (size_t)pairs[k - t->pairs];
        put(r, t->type, from + k * item, to + at * to_item);
        if (r->type == PE_F64) ((double *)to)[at] *= r->factor;
    }
}

void pe_rotors_make(const void *maker, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, void *work) {
    const pe_rotors *r = maker;
    if (r->nparts == 1 && r->factor == 1) {
        pe_table_rows(r->parts, begin, end, out, row_bytes, false, work);
        return;
    }
    char *rows = (char *)work + PE_TABLE_WORK;
    const int64_t *pairs = r->pairs_of;
    for (size_t a = 0; a < r->nparts; pairs += r->parts[a++].pairs) {
        const pe_table *t = &r->parts[a];
        size_t row = part_row(t);
        if (t->pairs == 0) continue;
        pe_table_rows(t, begin, end, rows, (ptrdiff_t)row, false, work);
        for (size_t j = 0; j < end - begin; j++) scatter(r, t, pairs, rows + j * row, out + (ptrdiff_t)j * row_bytes);
    }
}

void pe_stored_make(const void *maker, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, void *work) {
    const pe_stored *s = maker;
    (void)work;
    for (size_t i = begin; i < end; i++)
        memcpy(out + (ptrdiff_t)(i - begin) * row_bytes, s->rows + i * s->row_bytes, s->row_bytes);
}
