/* embed.c - tokens to rows: gather, scale, add the row of the position, in one pass. A lookup is the same with
 * scale 1 and nothing to add, and copies bits. Ids are checked before; a row is checked again because another thread
 * may have changed them since: such a row is zeros, nothing outside the table is ever read. */
#include "posenc.h"
#include <string.h>

enum { AHEAD = 32, LINE = 64 };

size_t pe_first_outside(const int64_t *ids, size_t n, size_t rows) {
    for (size_t i = 0; i < n; i++)
        if ((uint64_t)ids[i] >= rows) return i;
    return n;
}

/* the first lines of the row that comes next: rows lie anywhere, so the CPU cannot guess it */
static void prefetch(const pe_embed *e, int64_t id) {
    size_t bytes = e->dim * pe_itemsize(e->type);
    if ((uint64_t)id >= e->tokens) return;
    const char *w = e->weight + id * e->weight_row;
    for (size_t i = 0; i < AHEAD && i * LINE < bytes; i++) __builtin_prefetch(w + i * LINE);
}

static void embed_row(const pe_embed *e, int64_t id, const char *table, char *out) {
    size_t item = pe_itemsize(e->type);
    if ((uint64_t)id >= e->tokens || id == e->padding) {
        memset(out, 0, e->dim * item);
        return;
    }
    const char *w = e->weight + id * e->weight_row;
    if (!table && e->scale == 1 && e->weight_step == (ptrdiff_t)item) memcpy(out, w, e->dim * item);
    else e->kernels->embed[e->type](w, e->weight_step, table, e->scale, e->dim, out);
}

void pe_embed_rows(const void *ctx, const pe_rows *r) {
    for (size_t j = 0; j < r->rows; j++) {
        const char *id = r->x + (ptrdiff_t)j * r->x_row;
        if (j + 1 < r->rows) prefetch(ctx, *(const int64_t *)(id + r->x_row));
        embed_row(ctx, *(const int64_t *)id, r->table + (ptrdiff_t)j * r->table_row,
                  r->out + (ptrdiff_t)j * r->out_row);
    }
}

/* the row of a learned table for token i, counted in C order over the axes of the ids */
static const char *learned_row(const pe_embed *e, size_t i) {
    size_t at = 0;
    for (int d = e->naxes; d-- > 0; i /= e->axes[d].n) at += i % e->axes[d].n * e->axes[d].pos;
    pe_pos p = pe_pos_at(&e->positions, at);
    return e->encoding + (ptrdiff_t)(!p.neg && p.mag < e->places ? p.mag : 0) * e->encoding_row;
}

void pe_embed_range(const void *ctx, size_t begin, size_t end, void *work) {
    const pe_embed *e = ctx;
    size_t row = e->dim * pe_itemsize(e->type);
    (void)work;
    for (size_t i = begin; i < end; i++) {
        if (i + 1 < end) prefetch(e, e->ids[i + 1]);
        embed_row(e, e->ids[i], e->encoding ? learned_row(e, i) : NULL, e->out + i * row);
    }
}
