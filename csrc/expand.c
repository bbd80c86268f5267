/* expand.c - a bias from its profile: bias[h, i, j] = profile[h, j - i + q_len - 1], into memory of any strides.
 *
 * Three loops, ordered by their step in the result, so that every layout is written front to back; the innermost is
 * a line. Lines of side by side numbers are copied whole, past the caches when the result is large. */
#include "posenc.h"
#include <string.h>

enum { STREAM_LINE = 256, PART = 1 << 18 };

static size_t distance(ptrdiff_t s) { return s < 0 ? -(size_t)s : (size_t)s; }
/* a loop of one turn has no step */
static size_t step(const pe_expand *e, int i) { return e->loops[i].n > 1 ? distance(e->loops[i].to) : SIZE_MAX; }

size_t pe_expand_units(pe_expand *e) {
    size_t total = e->item;
    for (int i = 0; i < 3; i++)
        for (int j = i; j > 0 && step(e, j - 1) < step(e, j); j--) {
            pe_expand_loop t = e->loops[j];
            e->loops[j] = e->loops[j - 1], e->loops[j - 1] = t;
        }
    for (int i = 0; i < 3; i++) total *= e->loops[i].n;
    const pe_expand_loop *line = &e->loops[2];
    e->parts = (line->n + PART - 1) / PART;
    e->whole = line->to == (ptrdiff_t)e->item && line->from == line->to;
    e->stream = e->whole && total > PE_STREAM_BYTES && line->n * e->item >= STREAM_LINE;
    return e->loops[0].n * e->loops[1].n * e->parts;
}

void pe_copy(char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step, size_t n, size_t item) {
    if (item == 8)
        for (size_t i = 0; i < n; i++, to += to_step, from += from_step) memcpy(to, from, 8);
    else if (item == 4)
        for (size_t i = 0; i < n; i++, to += to_step, from += from_step) memcpy(to, from, 4);
    else
        for (size_t i = 0; i < n; i++, to += to_step, from += from_step) memcpy(to, from, 2);
}

void pe_expand_run(const void *ctx, size_t begin, size_t end, void *work) {
    const pe_expand *e = ctx;
    const pe_expand_loop *outer = &e->loops[0], *inner = &e->loops[1], *line = &e->loops[2];
    (void)work;
    for (size_t unit = begin, rows; unit < end; unit += rows) {
        size_t first = unit % e->parts * PART, n = line->n - first < PART ? line->n - first : PART;
        size_t a = unit / e->parts / inner->n, b = unit / e->parts % inner->n;
        rows = e->parts > 1 ? 1 : inner->n - b < end - unit ? inner->n - b : end - unit;
        const char *from =
            e->from + (ptrdiff_t)a * outer->from + (ptrdiff_t)b * inner->from + (ptrdiff_t)first * line->from;
        char *to = e->to + (ptrdiff_t)a * outer->to + (ptrdiff_t)b * inner->to + (ptrdiff_t)first * line->to;
        if (e->stream && n * e->item >= STREAM_LINE) {
            e->kernels->expand(from, inner->from, to, inner->to, n * e->item, rows);
            continue;
        }
        for (size_t i = 0; i < rows; i++, from += inner->from, to += inner->to) {
            if (e->whole) memcpy(to, from, n * e->item);
            else pe_copy(to, line->to, from, line->from, n, e->item);
        }
    }
}
