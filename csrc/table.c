/* table.c - a table of sines and cosines, row by row. Few phases are evaluated; the rest are rotations of them.
 *
 * Columns are done in tiles of 64 frequencies, rows in blocks of 32. Positions p, p+1, ... of a block are one
 * anchor R(p) times a list of offsets R(0), R(1), ...; the list is made once for a tile, from R(1), by doubling.
 * Anchors are themselves steps R(0), R(32), R(64), ... from a rotor that is evaluated every 16 blocks. Positions
 * that do not follow each other are evaluated one by one, and use the same kernel with the anchor R(0) = (0, 1).
 * A factor of the whole table goes into the anchors. The kernel's values are proved nearest or reported; pe_exact
 * settles the reported ones. So nothing of this grouping can be seen in the result. */
#include "simd/eft.h"
#include "posenc.h"
#include "wide.h"
#include <string.h>

enum { STEPS = 16, MIN_RUN = 8, ROTOR = 4 * PE_TILE };

/* the work space, used for one tile after the other */
typedef struct {
    const pe_table *owner;           /* what the lists below belong to: a call with the same work space finds them, */
    size_t first;                    /* if its first tile is this one */
    enum { NOTHING, A_RUN, SCATTERED } holds; /* what offsets holds */
    bool have_base;
    pe_pos base_pos;                 /* where base stands */
    char unused[64 - sizeof(pe_table *) - sizeof(size_t) - 2 * sizeof(int) - sizeof(pe_pos)];
    double offsets[PE_BLOCK][ROTOR]; /* R(0), R(1), ...: or rotors of scattered positions */
    double steps[STEPS][ROTOR];      /* R(0), R(block), R(2 block), ... */
    double gain[ROTOR];              /* R(0) times the factor over tile.scale */
    double base[ROTOR], anchor[ROTOR + 2 * PE_TILE];
    uint64_t phase[2 * PE_TILE];
    uint32_t suspects[PE_BLOCK * PE_TILE];
} space;
_Static_assert(sizeof(space) == PE_TABLE_WORK, "posenc.h says how much work space a table needs");

typedef struct {
    const pe_table *t;
    space *s;
    size_t first, n, lanes;          /* frequencies first .. first + n; n rounded up to 8 */
    double eps;                      /* see sinusoidal.inc.h */
    double hi, lo, scale; /* the factor over scale; of 53 bits this is a power of two above it, for `split` */
    const double *anchor; /* wants numbers up to 1 */
} tile;

static size_t min(size_t a, size_t b) { return a < b ? a : b; }

/* Each frequency times p, in turns, modulo one turn: 128 bits of fraction, high halves, then low ones. The product is exact
 * but for the frequency's own end, 2^-192 of a turn a position. */
static void phases(const tile *w, pe_pos p) {
    uint64_t *high = w->s->phase, *low = high + PE_TILE;
    for (size_t k = 0; k < w->lanes; k++) {
        const uint64_t *f = w->t->turns[w->first + min(k, w->n - 1)].fixed;
        if (p.shift == 0) {
            pe_u128 t = (pe_u128)f[1] * p.mag + (uint64_t)((pe_u128)f[0] * p.mag >> 64);
            low[k] = (uint64_t)t, high[k] = f[2] * p.mag + (uint64_t)(t >> 64);
        } else {
            uint64_t t[5];
            wide_mul(t, f, 4, &p.mag, 1);
            wide_shr(t, p.shift, 5);
            low[k] = t[1], high[k] = t[2];
        }
        if (p.neg) low[k] = -low[k], high[k] = ~high[k] + (low[k] == 0);
    }
}

static void evaluate(const tile *w, pe_pos p, pe_sincos_fn *sincos, double *rotor) {
    phases(w, p);
    sincos(w->s->phase, w->lanes, rotor);
}

/* R(0), times hi + lo: the first planes of it */
static void identity(double *rotor, size_t planes, double hi, double lo, size_t lanes) {
    double plane[4] = {0, hi, 0, lo};
    for (size_t i = 0; i < planes; i++)
        for (size_t k = 0; k < lanes; k++) rotor[i * PE_TILE + k] = plane[i];
}

/* list[j] = list[1]^j for j < count, by doubling */
static void powers(const tile *w, double (*list)[ROTOR], size_t count) {
    pe_rotate_fn *rotate = w->t->kernels->rotate;
    identity(list[0], 4, 1, 0, w->lanes);
    for (size_t m = 2; m < count; m *= 2) {
        rotate(list[m / 2], list[m / 2], 1, w->lanes, list[m]);
        rotate(list[m], list[1], min(m, count - m) - 1, w->lanes, list[m + 1]);
    }
}

/* the list of offsets, and the list of steps of a whole block */
static void make_lists(const tile *w) {
    const pe_kernels *k = w->t->kernels;
    space *s = w->s;
    identity(s->gain, 4, w->hi, w->lo, w->lanes);
    evaluate(w, (pe_pos){1, 0, false}, k->sincos_dd, s->offsets[1]);
    powers(w, s->offsets, PE_BLOCK);
    k->rotate(s->offsets[PE_BLOCK / 2], s->offsets[PE_BLOCK / 2], 1, w->lanes, s->steps[1]);
    powers(w, s->steps, STEPS);
    if (w->t->type == PE_F64) k->split(s->offsets[0], PE_BLOCK, w->lanes);
}

static __int128 signed_of(pe_pos p) { return p.neg ? -(__int128)p.mag : (__int128)p.mag; }

/* the factor to 2^-104 of it, and what else follows from it */
static void gain(tile *w) {
    pe_factor f = w->t->factor;
    bool wide = w->t->type == PE_F64;
    uint64_t bits;
    w->scale = 1, w->hi = f.by, w->lo = 0;
    if (f.divides) {
        double err, p = pe_two_prod(w->hi = 1 / f.by, f.by, &err);
        w->lo = ((1 - p) - err) / f.by;
    }
    if (wide && f.by != 1) {
        memcpy(&bits, &w->hi, 8);
        bits = (bits & 0x7ffull << 52) + (1ull << 52); /* the power of two above it */
        memcpy(&w->scale, &bits, 8);
        w->hi /= w->scale, w->lo /= w->scale;
    }
    w->eps = wide ? 0x1p-76 * w->scale : w->hi < 0x1p-70 ? 0x1p-120 : 0x1p-50 * w->hi;
}

/* from a rotor to what the kernel for 53 bits wants */
static void split_anchor(tile *w, const double *rotor) {
    double *a = w->s->anchor;
    memmove(a, rotor, ROTOR * sizeof *a);
    memcpy(a + ROTOR, a, 2 * PE_TILE * sizeof *a);
    w->t->kernels->split(a, 1, w->lanes);
    for (size_t k = 0; w->scale != 1 && k < ROTOR + 2 * PE_TILE; k++) a[k] *= w->scale;
}

/* the anchor R(p): a step from the base when p is a few blocks ahead of it, else a new base */
static void make_anchor(tile *w, pe_pos p) {
    const pe_kernels *k = w->t->kernels;
    space *s = w->s;
    __int128 ahead = signed_of(p) - signed_of(s->base_pos);
    if (!s->have_base || ahead < 0 || ahead % PE_BLOCK || ahead / PE_BLOCK >= STEPS) {
        evaluate(w, p, k->sincos_dd, s->base);
        if (w->t->factor.by != 1) k->rotate(s->gain, s->base, 1, w->lanes, s->base);
        s->have_base = true, s->base_pos = p, ahead = 0;
    }
    k->rotate(s->base, s->steps[ahead / PE_BLOCK], 1, w->lanes, s->anchor);
    if (w->t->type == PE_F64) split_anchor(w, s->anchor);
    w->anchor = s->anchor;
}

static void put(char *at, uint64_t bits, pe_dtype type) {
    if (type == PE_F64) memcpy(at, &bits, 8);
    else if (type == PE_F32) memcpy(at, &(uint32_t){(uint32_t)bits}, 4);
    else memcpy(at, &(uint16_t){(uint16_t)bits}, 2);
}

/* rows r .. r + rows of the tile, from the anchor and the offsets, then what the kernel was not sure of */
static void write_rows(const tile *w, size_t r, size_t rows, char *out, ptrdiff_t row_bytes, bool stream) {
    const pe_table *t = w->t;
    size_t item = pe_itemsize(t->type), full = w->n;
    bool pairs = t->layout == PE_INTERLEAVED;
    char nowhere[8];
    if (w->first + w->n == t->pairs && t->dim < 2 * t->pairs) full--; /* the last one has no partner */
    pe_dest dest = {out + w->first * item * (pairs ? 2 : 1),
                    out + (t->pairs + w->first) * item,
                    row_bytes,
                    row_bytes,
                    pairs,
                    t->cos_first,
                    stream,
                    w->eps};
    for (int part = 0; part < 2; part++) {
        size_t at = part ? full : 0, n = part ? w->n - full : full;
        if (n == 0) continue;
        if (part) {
            dest.first += at * item * (pairs ? 2 : 1);
            dest.second = nowhere, dest.second_row = 0, dest.pairs = dest.stream = false;
        }
        uint32_t *suspects = w->s->suspects;
        size_t found = t->kernels->sinusoidal[t->type](w->anchor + at, w->s->offsets[0] + at, n, rows, &dest, suspects);
        for (size_t i = 0; i < found; i++) {
            size_t j = suspects[i] >> 16, k = suspects[i] >> 8 & 255;
            for (unsigned bit = 0; bit < 8; bit++) {
                size_t lane = k + bit % 4;
                bool cosine = bit >= 4, second = cosine != t->cos_first;
                if (!(suspects[i] >> bit & 1) || lane >= n) continue;
                uint64_t bits = pe_exact(t->turns + w->first + at + lane, pe_pos_at(&t->positions, r + j), cosine,
                                         t->factor, t->type);
                char *row = second && !dest.pairs ? dest.second + (ptrdiff_t)j * dest.second_row
                                                  : dest.first + (ptrdiff_t)j * dest.first_row;
                put(row + (dest.pairs ? 2 * lane + second : lane) * item, bits, t->type);
            }
        }
    }
}

static void tile_rows(tile *w, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, bool stream) {
    const pe_table *t = w->t;
    space *s = w->s;
    bool wide = t->type == PE_F64;
    for (size_t r = begin, rows; r < end; r += rows, out += (ptrdiff_t)rows * row_bytes) {
        rows = min(PE_BLOCK, end - r);
        if (rows >= MIN_RUN && pe_pos_is_run(&t->positions, r, rows)) {
            if (s->holds != A_RUN) make_lists(w);
            s->holds = A_RUN;
            make_anchor(w, pe_pos_at(&t->positions, r));
        } else {
            if (s->holds == NOTHING) identity(s->gain, wide ? 4 : 2, w->hi, w->lo, w->lanes);
            s->holds = SCATTERED;
            if (wide) split_anchor(w, s->gain);
            w->anchor = wide ? s->anchor : s->gain;
            for (size_t j = 0; j < rows; j++)
                evaluate(w, pe_pos_at(&t->positions, r + j), wide ? t->kernels->sincos_dd : t->kernels->sincos,
                         s->offsets[j]);
            if (wide) t->kernels->split(s->offsets[0], rows, w->lanes);
        }
        write_rows(w, r, rows, out, row_bytes, stream);
    }
}

void pe_table_rows(const pe_table *t, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, bool stream,
                   void *work) {
    tile w = {.t = t, .s = work};
    size_t item = pe_itemsize(t->type);
    stream = stream && ((uintptr_t)out | (uintptr_t)row_bytes | t->pairs * item) % 16 == 0 && t->pairs % 8 == 0 &&
             !t->cos_first;
    for (w.first = 0; w.first < t->pairs; w.first += PE_TILE) {
        w.n = min(PE_TILE, t->pairs - w.first);
        w.lanes = (w.n + 7) / 8 * 8;
        gain(&w);
        if (w.s->owner != t || w.s->first != w.first) {
            w.s->owner = t, w.s->first = w.first;
            w.s->holds = NOTHING, w.s->have_base = false;
        }
        tile_rows(&w, begin, end, out, row_bytes, stream);
    }
    if (t->dim > 2 * t->pairs)
        for (size_t r = 0; r < end - begin; r++) memset(out + (ptrdiff_t)r * row_bytes + 2 * t->pairs * item, 0, item);
}

void pe_table_make(const void *maker, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, void *work) {
    pe_table_rows(maker, begin, end, out, row_bytes, false, work);
}
