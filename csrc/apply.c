/* apply.c - one small table of positions, many rows that use it: rotary embeddings, sums with a table.
 *
 * x is rows over nested loops. The innermost loop that moves the position is cut into chunks; the table of a chunk
 * is made once, in the cache, and applied to every row of every other loop. Of those, the one with the smallest
 * step in memory runs innermost, whatever the order of the axes: no layout needs a copy. */
#include "posenc.h"
#include <string.h>

enum { UNIT_BYTES = 1 << 20 };

static size_t distance(ptrdiff_t s) { return s < 0 ? -(size_t)s : (size_t)s; }

void pe_apply_init(pe_apply *a, pe_make_fn *make, const void *maker, pe_rows_fn *fn, const void *ctx) {
    memset(a, 0, offsetof(pe_apply, loops));
    a->make = make, a->maker = maker, a->fn = fn, a->ctx = ctx;
}

size_t pe_apply_units(pe_apply *a) {
    if (a->dim == 0) return 0;
    size_t free_rows = 1, positions = 1;
    int kept = 0;
    for (int i = 0; i < a->nloops; i++)
        if (a->loops[i].n != 1) a->loops[kept++] = a->loops[i];
    a->nloops = kept;
    /* outermost: loops that move the position, in the order of the positions; then the rest by step in memory */
    for (int i = 1; i < a->nloops; i++)
        for (int j = i; j > 0; j--) {
            pe_loop *p = &a->loops[j - 1], *q = &a->loops[j], t = *p;
            bool swap = q->pos ? p->pos < q->pos : !p->pos && distance(p->out) < distance(q->out);
            if (!swap) break;
            *p = *q, *q = t;
        }
    uintptr_t unaligned = (uintptr_t)a->out % 16;
    a->chunked = a->split = -1;
    a->chunk = a->chunks = a->parts = 1;
    for (int i = 0; i < a->nloops; i++) {
        if (a->loops[i].n == 0) return 0;
        unaligned |= (uintptr_t)a->loops[i].out % 16;
        if (a->loops[i].pos) {
            positions *= a->loops[i].n;
            a->chunked = i;
        } else {
            free_rows *= a->loops[i].n;
            if (a->split < 0 || a->loops[i].n > a->loops[a->split].n) a->split = i;
        }
    }
    if (a->chunked >= 0) {
        size_t n = a->loops[a->chunked].n;
        size_t most = free_rows < 8 ? PE_CHUNK : 64;     /* few rows to serve: make more of the set-up */
        a->chunk = n < most ? n : most;
        while (a->chunk > 1 && a->chunk * a->table_row > UNIT_BYTES / 4) a->chunk /= 2;
        a->chunks = positions / n * ((n + a->chunk - 1) / a->chunk);
    }
    /* an ordinary store reads what it overwrites, and takes 1.4 times as long in all */
    a->stream = a->x != a->out && !unaligned && positions * free_rows > PE_STREAM_BYTES / (a->dim * a->item);
    size_t bytes = free_rows * a->chunk * (a->dim * a->item + 1);
    if (a->split >= 0 && bytes > 2 * UNIT_BYTES) {
        size_t n = a->loops[a->split].n, want = bytes / UNIT_BYTES;
        a->parts = want < n ? want : n;
    }
    return a->chunks * a->parts;
}

size_t pe_apply_join(pe_apply *a, pe_apply *b) {
    if (a->chunked != b->chunked) return 0;
    for (int i = 0; i <= a->chunked; i++)
        if (a->loops[i].n != b->loops[i].n || a->loops[i].pos != b->loops[i].pos) return 0;
    size_t chunk = a->chunk < b->chunk ? a->chunk : b->chunk, parts = a->parts > b->parts ? a->parts : b->parts;
    if (b->chunk < a->chunk) a->chunks = b->chunks;
    a->chunk = b->chunk = chunk, a->parts = b->parts = parts, b->chunks = a->chunks;
    a->also = b;
    return a->chunks * parts;
}

static size_t round_up(size_t n) { return (n + 63) / 64 * 64; }

static size_t make_space(const pe_apply *a) { return round_up(a->make_work + a->chunk * a->make_row); }

/* for making the table, the table, and one contiguous row */
size_t pe_apply_work(const pe_apply *a) {
    size_t row = a->dim * a->item;
    if (a->also && a->also->dim * a->also->item > row) row = a->also->dim * a->also->item;
    return make_space(a) + round_up(a->chunk * a->table_row) + round_up(row);
}

void pe_apply_table(pe_apply *a, const pe_table *t) {
    a->make = pe_table_make, a->maker = t, a->make_work = PE_TABLE_WORK;
    a->table_row = t->dim * pe_itemsize(t->type);
}

/* rows whose numbers do not lie side by side pass through one contiguous row */
static void apply_rows(const pe_apply *a, const pe_rows *r, char *scratch) {
    ptrdiff_t item = (ptrdiff_t)a->item;
    if (a->x_step == item && a->out_step == item) {
        a->fn(a->ctx, r);
        return;
    }
    for (size_t j = 0; j < r->rows; j++) {
        const char *table = r->table + (ptrdiff_t)j * r->table_row;
        pe_copy(scratch, item, r->x + (ptrdiff_t)j * r->x_row, a->x_step, a->dim, a->item);
        a->fn(a->ctx, &(pe_rows){scratch, table, scratch, 0, 0, 0, 1, false});
        pe_copy(r->out + (ptrdiff_t)j * r->out_row, a->out_step, scratch, item, a->dim, a->item);
    }
}

/* all rows of n nested loops; the innermost is given away whole */
static void walk(const pe_apply *a, const pe_loop *loops, int n, pe_rows r, char *scratch) {
    ptrdiff_t table_row = loops->pos ? (ptrdiff_t)a->table_row : 0;
    if (n == 1) {
        r.rows = loops->n, r.x_row = loops->x, r.out_row = loops->out, r.table_row = table_row;
        apply_rows(a, &r, scratch);
        return;
    }
    for (size_t i = 0; i < loops->n; i++) {
        walk(a, loops + 1, n - 1, r, scratch);
        r.x += loops->x, r.out += loops->out, r.table += table_row;
    }
}

/* Part `part` of chunk `chunk`: the first position and how many, where its rows start, its loops; how many of these is
 * returned, 0: the part is empty. */
static int place(const pe_apply *a, size_t chunk, size_t part, pe_rows *r, pe_loop *loops, size_t *first,
                 size_t *rows) {
    int n = 0;
    *r = (pe_rows){a->x, NULL, a->out, 0, 0, 0, 1, a->stream};
    *first = 0, *rows = 1;
    for (int i = a->chunked; i >= 0; i--) { /* where the chunk starts */
        const pe_loop *l = &a->loops[i];
        size_t steps = i == a->chunked ? (l->n + a->chunk - 1) / a->chunk : l->n;
        size_t at = chunk % steps * (i == a->chunked ? a->chunk : 1);
        chunk /= steps;
        *first += at * l->pos, r->x += (ptrdiff_t)at * l->x, r->out += (ptrdiff_t)at * l->out;
        if (i == a->chunked) {
            loops[n] = *l;
            *rows = loops[n++].n = l->n - at < a->chunk ? l->n - at : a->chunk;
        }
    }
    if (part > 0 && a->split < 0) return 0;
    for (int i = a->chunked + 1; i < a->nloops; i++) {   /* the others, the smallest step last */
        pe_loop l = a->loops[i];
        if (i == a->split) {
            size_t lo = l.n / a->parts * part + (part < l.n % a->parts ? part : l.n % a->parts);
            r->x += (ptrdiff_t)lo * l.x, r->out += (ptrdiff_t)lo * l.out;
            l.n = l.n / a->parts + (part < l.n % a->parts);
            if (l.n == 0) return 0;
        }
        int j = n++;
        for (; j > 0 && distance(loops[j - 1].out) < distance(l.out); j--) loops[j] = loops[j - 1];
        loops[j] = l;
    }
    if (n == 0) loops[n++] = (pe_loop){1, 0, 0, 0};
    return n;
}

void pe_apply_run(const pe_apply *a, size_t begin, size_t end, void *work) {
    char *table = (char *)work + make_space(a), *scratch = table + round_up(a->chunk * a->table_row);
    size_t made = SIZE_MAX;
    for (size_t unit = begin; unit < end; unit++) {
        size_t chunk = unit / a->parts, part = unit % a->parts, first;
        for (const pe_apply *t = a; t; t = t->also) {
            pe_rows r;
            pe_loop loops[PE_MAX_LOOPS + 1];
            size_t rows;
            int n = place(t, chunk, part, &r, loops, &first, &rows);
            if (made != chunk) a->make(a->maker, first, first + rows, table, (ptrdiff_t)a->table_row, work);
            made = chunk;
            r.table = table;
            if (n > 0) walk(t, loops, n, r, scratch);
        }
    }
}
