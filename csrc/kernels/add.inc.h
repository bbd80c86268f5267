/* add.inc.h - out = x + table, row by row: one rounding from the sum of what is stored (float16 and bfloat16 are
 * added in float32, which is exact enough for the rounding to be the only one). out may be x. */
static void KERNEL(add)(const pe_rows *r, size_t dim) {
    for (size_t j = 0; j < r->rows; j++) {
        const STORAGE *x = (const STORAGE *)(r->x + (ptrdiff_t)j * r->x_row);
        const STORAGE *table = (const STORAGE *)(r->table + (ptrdiff_t)j * r->table_row);
        STORAGE *out = (STORAGE *)(r->out + (ptrdiff_t)j * r->out_row);
        size_t k = 0;
        for (; r->stream && k + VN <= dim; k += VN) STREAM(out + k, V(add)(LOAD(x + k, VN), LOAD(table + k, VN)));
        for (; k < dim; k += VN) STORE(out + k, V(add)(LOAD(x + k, dim - k), LOAD(table + k, dim - k)), dim - k);
    }
}
