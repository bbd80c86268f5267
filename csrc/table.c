/* table.c - a table of sines and cosines, row by row. Few phases are evaluated; the rest are rotations of them.
 *
 * Columns are done in tiles of 64 frequencies, rows in blocks of 64. Positions p, p+1, ... of a block are one
 * anchor R(p) times a list of offsets R(0), R(1), ...; the list is made once for a tile, from R(1), by doubling.
 * Anchors are themselves steps R(0), R(64), R(128), ... from a rotor that is evaluated every 64 blocks. Positions
 * that do not follow each other are evaluated one by one, and use the same kernel with the anchor R(0) = (0, 1).
 * The kernel's values are proved nearest or reported; pe_exact settles the reported ones. So nothing of this
 * grouping can be seen in the result. */
#include "posenc.h"
#include "wide.h"
#include <string.h>

enum { STEPS = 64, DIRECT = 16, MIN_RUN = 8, ROTOR = 4 * PE_TILE };

/* the part of the work space that one tile uses */
typedef struct {
    const pe_table *t;
    size_t first, n, lanes;                              /* frequencies first .. first + n; n rounded up to 8 */
    size_t block, steps;                                 /* the lengths of the two lists */
    double *offsets, *step, *direct, *phase, *anchor, *base;
    uint64_t (*fixed)[4];
    uint32_t *suspects;
    bool have_offsets, have_base;
    pe_pos base_pos;
} tile;

static size_t round_up(size_t n, size_t m) { return (n + m - 1) / m * m; }
static size_t min(size_t a, size_t b) { return a < b ? a : b; }
static size_t block_rows(size_t rows) { return rows >= 1024 ? 64 : rows >= 256 ? 32 : DIRECT; }

static size_t carve(tile *w, size_t rows, char *work) {
    w->block = block_rows(rows);
    w->steps = min(STEPS, rows / w->block + 1);
    size_t rotor = ROTOR * sizeof(double), at = 0;
    const size_t sizes[] = {w->block * rotor, (w->steps + 1) * rotor, DIRECT * rotor, rotor, rotor + rotor / 2, rotor};
    double **parts[] = {&w->offsets, &w->step, &w->direct, &w->phase, &w->anchor, &w->base};
    for (int i = 0; i < 6; i++) *parts[i] = (double *)(work + at), at += sizes[i];
    w->fixed = (uint64_t(*)[4])(work + at), at += rotor;
    w->suspects = (uint32_t *)(work + at), at += round_up(w->block * PE_TILE * sizeof(uint32_t), 64);
    return at;
}

size_t pe_table_work(size_t rows) {
    tile w;
    return carve(&w, rows, NULL);
}

/* theta hi, theta lo, cos and sin of the quarter for each frequency times p, as sincos.inc.h wants them.
 * The product is exact modulo one turn but for the frequency's own end, 2^-192 of a turn a position. */
static void phases(const tile *w, pe_pos p, double *ph) {
    static const double quarter[5] = {0, 1, 0, -1, 0};
    for (size_t k = 0; k < w->lanes; k++) {
        uint64_t hi, lo;
        const uint64_t *f = w->fixed[k];
        if (p.shift == 0) {
            pe_u128 t = (pe_u128)f[1] * p.mag + (uint64_t)((pe_u128)f[0] * p.mag >> 64);
            lo = (uint64_t)t, hi = f[2] * p.mag + (uint64_t)(t >> 64);
        } else {
            uint64_t t[5];
            wide_mul(t, f, 4, &p.mag, 1);
            wide_shr(t, p.shift, 5);
            lo = t[1], hi = t[2];
        }
        if (p.neg) lo = -lo, hi = ~hi + (lo == 0);
        unsigned q = (unsigned)((hi + (1ull << 61)) >> 62);
        int64_t d = (int64_t)(hi - ((uint64_t)q << 62));
        double a = (double)d, rest = (double)(d - (int64_t)a);
        ph[k] = a * 0x1p-64;
        ph[PE_TILE + k] = (rest + (double)(int64_t)(lo >> 1) * 0x1p-63) * 0x1p-64;
        ph[2 * PE_TILE + k] = quarter[q + 1];
        ph[3 * PE_TILE + k] = quarter[q];
    }
}

static void evaluate(const tile *w, pe_pos p, pe_sincos_fn *sincos, double *rotor) {
    phases(w, p, w->phase);
    sincos(w->phase, w->lanes, rotor);
}

static void identity(double *rotor) {
    memset(rotor, 0, ROTOR * sizeof *rotor);
    for (size_t k = 0; k < PE_TILE; k++) rotor[PE_TILE + k] = 1;
}

/* list[j] = list[1]^j for j < count, by doubling */
static void powers(const tile *w, double *list, size_t count) {
    pe_rotate_fn *rotate = w->t->kernels->rotate;
    const size_t rotor = ROTOR;
    identity(list);
    for (size_t m = 2; m < count; m *= 2) {
        double *at = list + m * rotor;
        rotate(list + m / 2 * rotor, list + m / 2 * rotor, 1, w->lanes, at);
        rotate(at, list + rotor, min(m, count - m) - 1, w->lanes, at + rotor);
    }
}

/* the list of offsets, and the list of steps of a whole block */
static void make_lists(tile *w) {
    const pe_kernels *k = w->t->kernels;
    const size_t rotor = ROTOR;
    evaluate(w, (pe_pos){1, 0, false}, k->sincos_dd, w->offsets + rotor);
    powers(w, w->offsets, w->block);
    const double *half = w->offsets + w->block / 2 * rotor;
    k->rotate(half, half, 1, w->lanes, w->step + rotor);
    powers(w, w->step, w->steps);
    if (w->t->type == PE_F64) k->split(w->offsets, w->block, w->lanes);
    w->have_offsets = true;
}

static __int128 signed_of(pe_pos p) { return p.neg ? -(__int128)p.mag : (__int128)p.mag; }

/* w->anchor = R(p): a step from the base when p is one ahead of it, else a new base */
static void make_anchor(tile *w, pe_pos p) {
    const pe_kernels *k = w->t->kernels;
    __int128 ahead = signed_of(p) - signed_of(w->base_pos), block = (__int128)w->block;
    bool steps = w->have_base && ahead >= 0 && ahead % block == 0 && ahead / block < (__int128)w->steps;
    if (!steps) {
        evaluate(w, p, k->sincos_dd, w->base);
        w->have_base = true, w->base_pos = p, ahead = 0;
    }
    k->rotate(w->base, w->step + ROTOR * (size_t)(ahead / block), 1, w->lanes, w->anchor);
    if (w->t->type == PE_F64) {
        memcpy(w->anchor + ROTOR, w->anchor, 2 * PE_TILE * sizeof(double));
        k->split(w->anchor, 1, w->lanes);
    }
}

static void put(char *at, uint64_t bits, pe_dtype type) {
    if (type == PE_F64) memcpy(at, &bits, 8);
    else if (type == PE_F32) memcpy(at, &(uint32_t){(uint32_t)bits}, 4);
    else memcpy(at, &(uint16_t){(uint16_t)bits}, 2);
}

/* rows r .. r + rows of the tile, from w->anchor and the offsets, then what the kernel was not sure of */
static void write_rows(const tile *w, const double *offsets, size_t r, size_t rows, char *out, ptrdiff_t row_bytes,
                       bool stream) {
    const pe_table *t = w->t;
    size_t item = pe_itemsize(t->type), full = w->n;
    bool pairs = t->layout == PE_INTERLEAVED;
    char nowhere[8];
    if (w->first + w->n == t->pairs && t->dim < 2 * t->pairs) full--; /* the last one has no partner */
    pe_dest dest = {out + w->first * item * (pairs ? 2 : 1), out + (t->pairs + w->first) * item, row_bytes, row_bytes,
                    pairs, t->cos_first, stream};
    for (int part = 0; part < 2; part++) {
        size_t at = part ? full : 0, n = part ? w->n - full : full;
        if (n == 0) continue;
        if (part) {
            dest.first += at * item * (pairs ? 2 : 1);
            dest.second = nowhere, dest.second_row = 0, dest.pairs = dest.stream = false;
        }
        size_t found = t->kernels->sinusoidal[t->type](w->anchor + at, offsets + at, n, rows, &dest, w->suspects);
        for (size_t i = 0; i < found; i++) {
            size_t j = w->suspects[i] >> 16, k = w->suspects[i] >> 8 & 255;
            for (unsigned bit = 0; bit < 8; bit++) {
                size_t lane = k + bit % 4;
                bool cosine = bit >= 4, second = cosine != t->cos_first;
                if (!(w->suspects[i] >> bit & 1) || lane >= n) continue;
                uint64_t bits = pe_exact(t->turns + w->first + at + lane, pe_pos_at(&t->positions, r + j), cosine, t->type);
                char *row = second && !dest.pairs ? dest.second + (ptrdiff_t)j * dest.second_row
                                                  : dest.first + (ptrdiff_t)j * dest.first_row;
                put(row + (dest.pairs ? 2 * lane + second : lane) * item, bits, t->type);
            }
        }
    }
}

static void tile_rows(tile *w, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, bool stream) {
    const pe_table *t = w->t;
    bool wide = t->type == PE_F64, plain = false;        /* plain: the anchor is (0, 1) */
    for (size_t r = begin, rows; r < end; r += rows, out += (ptrdiff_t)rows * row_bytes) {
        rows = min(w->block, end - r);
        if (rows >= MIN_RUN && pe_pos_is_run(&t->positions, r, rows)) {
            if (!w->have_offsets) make_lists(w);
            make_anchor(w, pe_pos_at(&t->positions, r));
            plain = false;
            write_rows(w, w->offsets, r, rows, out, row_bytes, stream);
            continue;
        }
        rows = min(rows, DIRECT);
        for (size_t j = 0; j < rows; j++)
            evaluate(w, pe_pos_at(&t->positions, r + j), wide ? t->kernels->sincos_dd : t->kernels->sincos,
                     w->direct + ROTOR * j);
        if (wide) t->kernels->split(w->direct, rows, w->lanes);
        if (!plain) {
            identity(w->anchor);
            memcpy(w->anchor + ROTOR, w->anchor, 2 * PE_TILE * sizeof(double));
            plain = true;
        }
        write_rows(w, w->direct, r, rows, out, row_bytes, stream);
    }
}

void pe_table_rows(const pe_table *t, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, bool stream, void *work) {
    tile w;
    carve(&w, end - begin, work);
    w.t = t;
    size_t item = pe_itemsize(t->type);
    stream = stream && ((uintptr_t)out | (uintptr_t)row_bytes | t->pairs * item) % 16 == 0 && t->pairs % 8 == 0 && !t->cos_first;
    for (w.first = 0; w.first < t->pairs; w.first += PE_TILE) {
        w.n = min(PE_TILE, t->pairs - w.first);
        w.lanes = round_up(w.n, 8);
        w.have_offsets = w.have_base = false;
        for (size_t k = 0; k < w.lanes; k++) pe_num_fixed(t->turns + w.first + min(k, w.n - 1), w.fixed[k]);
        tile_rows(&w, begin, end, out, row_bytes, stream);
    }
    if (t->dim > 2 * t->pairs)
        for (size_t r = 0; r < end - begin; r++) memset(out + (ptrdiff_t)r * row_bytes + 2 * t->pairs * item, 0, item);
}
