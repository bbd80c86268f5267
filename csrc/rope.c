/* rope.c - one plan's rotation of rows: the channels that turn, and those that are copied bit for bit. */
#include "posenc.h"
#include <string.h>

void pe_rope_rows(const void *ctx, const pe_rows *r) {
    const pe_rope *p = ctx;
    size_t item = pe_itemsize(p->type), before = p->start * item, turned = p->rotary_dim * item;
    size_t after = (p->dim - p->start - p->rotary_dim) * item;
    if (r->x != r->out && before + after)
        for (size_t j = 0; j < r->rows; j++) {
            const char *x = r->x + (ptrdiff_t)j * r->x_row;
            char *out = r->out + (ptrdiff_t)j * r->out_row;
            memcpy(out, x, before);
            memcpy(out + before + turned, x + before + turned, after);
        }
    pe_rows window = *r;
    window.x += before, window.out += before;
    window.stream &= before % 16 == 0 && (p->layout == PE_INTERLEAVED || turned / 2 % 16 == 0);
    if (turned) p->kernels->rope[p->type](&window, p->rotary_dim / 2, p->layout, p->inverse);
}
