/* embed.inc.h - one token's row: out = weight * scale + table, in this order, no fma; table NULL: no sum.
 * float32 and float64: two roundings, those of the product and of the sum. float16 and bfloat16: that float32 result,
 * rounded once. weight's numbers stand `step` bytes apart; table's and out's side by side; out is neither of them.
 * Tried and rejected: stores past the caches (no faster, and the next layer wants the rows there). */
static void KERNEL(embed)(const char *weight, ptrdiff_t step, const void *table, double scale, size_t dim, void *out) {
    const STORAGE *w = (const STORAGE *)weight, *t = table;
    STORAGE *o = out;
    VEC s = V(set1)((COMPUTE)scale);
    if (step != sizeof(STORAGE)) {
        for (size_t k = 0; k < dim; k++, weight += step) o[k] = *(const STORAGE *)weight;
        w = o;
    }
    for (size_t k = 0; k < dim; k += VN) {
        VEC x = V(mul)(LOAD(w + k, dim - k), s);
        if (t) x = V(add)(x, LOAD(t + k, dim - k));
        STORE(o + k, x, dim - k);
    }
}
