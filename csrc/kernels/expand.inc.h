/* expand.inc.h - rows copied past the caches: row j, of `bytes` >= 32 bytes (a single one: 16), goes from from + j from_row to
 * to + j to_row. A result that the caches cannot hold is written once and read by nobody here: ordinary stores would
 * read every line of it first. Stores are whole vectors at multiples of 16 bytes. Where a row ends within one and the
 * next row follows (to_row == bytes), the two share a store; else the odd bytes are stored as they are. The rows read
 * overlap, and stay in the cache. Neither end needs any alignment. */
static void SHARED(expand)(const char *from, ptrdiff_t from_row, char *to, ptrdiff_t to_row, size_t bytes,
                           size_t rows) {
    const size_t width = sizeof(vf64);
    char shared[sizeof(vf64)];
    size_t held = 0; /* bytes of the row before that wait in `shared` */
    vf64 v;
    for (size_t j = 0; j < rows; j++, from += from_row, to += to_row) {
        size_t at = held ? width - held : (size_t)(-(uintptr_t)to % 16);
        if (held) {
            memcpy(shared + held, from, at);
            memcpy(&v, shared, width);
            vb_f64_stream((double *)(void *)(to - held), v);
        } else memcpy(to, from, at);
        for (; bytes - at >= width; at += width) {
            memcpy(&v, from + at, width);
            vb_f64_stream((double *)(void *)(to + at), v);
        }
        held = bytes - at;
        if (to_row != (ptrdiff_t)bytes || j + 1 == rows) {
            memcpy(to + at, from + at, held);
            held = 0;
        } else memcpy(shared, from + at, held);
    }
}
