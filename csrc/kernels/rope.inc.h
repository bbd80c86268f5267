/* rope.inc.h - rotary embedding: pair i of a row is turned by the angle of table row j,
 *   (a, b) -> (a cos - b sin, b cos + a sin),   inverse: (a cos + b sin, b cos - a sin).
 * interleaved: the pair is (x[2i], x[2i+1]); half: (x[i], x[i + pairs]) (Su et al. 2021, arXiv:2104.09864).
 * table rows hold sin[pairs] then cos[pairs], correctly rounded to the dtype of arithmetic.
 * Two products, one sum, in this order, no fma. With u half an ulp of 1, the error of a component is below
 * (1/sqrt 2 + 2) u |(a, b)|: table, products, sum. float16 and bfloat16: that float32 result, rounded once.
 * out may be x: a vector of pairs is read before it is written. */
#define PE_TURN(a, b, c, s, inverse, first, second)                                 \
    VEC ac = V(mul)(a, c), bs = V(mul)(b, s), bc = V(mul)(b, c), as = V(mul)(a, s); \
    VEC first = inverse ? V(add)(ac, bs) : V(sub)(ac, bs), second = inverse ? V(sub)(bc, as) : V(add)(bc, as)

/* n pairs from the k-th on */
INLINE void KERNEL(rope_part)(const STORAGE *x, const COMPUTE *sn, size_t pairs, size_t k, size_t n, STORAGE *out,
                              const bool half, const bool inverse, const bool stream) {
    VEC a, b, s = PE_CAT(V(load_), C, )(sn + k, n), c = PE_CAT(V(load_), C, )(sn + pairs + k, n);
    if (half) a = LOAD(x + k, n), b = LOAD(x + pairs + k, n);
    else LOAD2(x + 2 * k, &a, &b, n), s = PAIRED(s), c = PAIRED(c);
    PE_TURN(a, b, c, s, inverse, u, v);
    if (half) STORE_AT(out + k, out + pairs + k, u, v, n, stream);
    else STORE2(out + 2 * k, u, v, n, stream);
}

INLINE void KERNEL(rope_rows)(const pe_rows *r, size_t pairs, const bool half, const bool inverse, const bool stream) {
    const char *x_row = r->x, *table_row = r->table;
    char *out_row = r->out;
    for (size_t j = 0; j < r->rows; j++, x_row += r->x_row, table_row += r->table_row, out_row += r->out_row) {
        const STORAGE *x = (const STORAGE *)x_row;
        const COMPUTE *table = (const COMPUTE *)table_row;
        STORAGE *out = (STORAGE *)out_row;
        size_t k = 0;
        for (; k + VN <= pairs; k += VN) KERNEL(rope_part)(x, table, pairs, k, VN, out, half, inverse, stream);
        if (k < pairs) KERNEL(rope_part)(x, table, pairs, k, pairs - k, out, half, inverse, false);
    }
}
#undef PE_TURN

INLINE void KERNEL(rope_of_layout)(const pe_rows *r, size_t pairs, const bool half, bool inverse) {
    if (inverse && r->stream) KERNEL(rope_rows)(r, pairs, half, true, true);
    else if (inverse) KERNEL(rope_rows)(r, pairs, half, true, false);
    else if (r->stream) KERNEL(rope_rows)(r, pairs, half, false, true);
    else KERNEL(rope_rows)(r, pairs, half, false, false);
}
static void KERNEL(rope)(const pe_rows *r, size_t pairs, pe_layout layout, bool inverse) {
    if (layout == PE_HALF) KERNEL(rope_of_layout)(r, pairs, true, inverse);
    else KERNEL(rope_of_layout)(r, pairs, false, inverse);
}
