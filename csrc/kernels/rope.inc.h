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
static inline void KERNEL(rope_part)(const STORAGE *x, const COMPUTE *sn, size_t pairs, size_t k, size_t n,
                                     STORAGE *out, const bool half, const bool inverse) {
    VEC a, b, s = PE_CAT(V(load_), C, )(sn + k, n), c = PE_CAT(V(load_), C, )(sn + pairs + k, n);
    if (half) a = LOAD(x + k, n), b = LOAD(x + pairs + k, n);
    else LOAD2(x + 2 * k, &a, &b, n), s = PAIRED(s), c = PAIRED(c);
    PE_TURN(a, b, c, s, inverse, u, v);
    if (half) STORE_AT(out + k, out + pairs + k, u, v, n);
    else STORE2(out + 2 * k, u, v, n);
}

static inline void KERNEL(rope_row)(const STORAGE *x, const COMPUTE *sn, size_t pairs, STORAGE *out, const bool half,
                                    const bool inverse) {
    size_t k = 0;
    for (; k + VN <= pairs; k += VN) KERNEL(rope_part)(x, sn, pairs, k, VN, out, half, inverse);
    if (k < pairs) KERNEL(rope_part)(x, sn, pairs, k, pairs - k, out, half, inverse);
}
#undef PE_TURN

static void KERNEL(rope)(const pe_rows *r, size_t pairs, pe_layout layout, bool inverse) {
    for (size_t j = 0; j < r->rows; j++) {
        const STORAGE *x = (const STORAGE *)(r->x + (ptrdiff_t)j * r->x_row);
        const COMPUTE *table = (const COMPUTE *)(r->table + (ptrdiff_t)j * r->table_row);
        STORAGE *out = (STORAGE *)(r->out + (ptrdiff_t)j * r->out_row);
        if (layout == PE_HALF && inverse) KERNEL(rope_row)(x, table, pairs, out, true, true);
        else if (layout == PE_HALF) KERNEL(rope_row)(x, table, pairs, out, true, false);
        else if (inverse) KERNEL(rope_row)(x, table, pairs, out, false, true);
        else KERNEL(rope_row)(x, table, pairs, out, false, false);
    }
}
