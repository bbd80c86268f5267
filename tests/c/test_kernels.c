/* test_kernels.c - every kernel of kernels.def on every ISA of this CPU: the same bits as the scalar one, for every
 * length, on blocks of exactly the promised size at every alignment the dtype allows. A kernel that is new in
 * kernels.def needs a function try_<name> here: until then this file does not compile. */
#include "test.h"

enum { LONGEST = 69, ROTOR = 4 * PE_TILE };
static const pe_kernels *scalar, *other;

/* bytes before a block: 0 .. 7 numbers */
static size_t odd(pe_dtype t) { return pe_itemsize(t) * random_below(8); }

static void same(const char *kernel, pe_dtype t, size_t n, const exact_block *a, const exact_block *b) {
    size_t count = a->bytes / pe_itemsize(t), at = first_difference(a->at, b->at, count, t);
    CHECK(at == count, "%s_%s_%s: length %zu: element %zu of %zu", kernel, test_dtypes[t], other->isa, n, at, count);
}

static void random_rotors(double *r, size_t count) {
    for (size_t j = 0; j < count; j++)
        for (size_t k = 0; k < PE_TILE; k++) {
            double s = random_unit(), c = random_unit();
            double *at = r + j * ROTOR + k;
            at[0] = s, at[PE_TILE] = c, at[2 * PE_TILE] = s * 0x1p-54 * random_unit(),
            at[3 * PE_TILE] = c * 0x1p-54 * random_unit();
        }
}

/* suspects as a map row x lane: 1 the sine, 2 the cosine */
static void mark(unsigned char map[PE_BLOCK][PE_TILE], const uint32_t *suspects, size_t found, size_t n) {
    memset(map, 0, PE_BLOCK * PE_TILE);
    for (size_t i = 0; i < found; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            size_t lane = (suspects[i] >> 8 & 255) + bit % 4;
            if (suspects[i] >> bit & 1 && lane < n) map[suspects[i] >> 16][lane] |= bit < 4 ? 1 : 2;
        }
}

/* How an ISA rounds on the way decides who is a suspect (fma or not), and pe_exact decides their values: where either
 * map has one, both blocks get zeros. Returns how often only one of the two had it. */
static size_t settle(unsigned char maps[2][PE_BLOCK][PE_TILE], const exact_block out[2], pe_dtype t, size_t rows,
                     size_t n, size_t row, bool pairs, bool cos_first) {
    size_t item = pe_itemsize(t), apart = 0;
    for (size_t j = 0; j < rows; j++)
        for (size_t k = 0; k < n; k++)
            for (int f = 0; f < 2; f++) {
                int bit = 1 << f;
                bool one = maps[0][j][k] & bit, two = maps[1][j][k] & bit, second = f != cos_first;
                size_t at = pairs ? 2 * k + second : second * n + k;
                apart += one != two;
                for (int i = 0; i < 2 && (one || two); i++) memset(out[i].at + j * row + at * item, 0, item);
            }
    return apart;
}

static void try_sinusoidal(pe_dtype t, size_t n) {
    if (n > PE_TILE) return;
    size_t rows = 1 + random_below(PE_BLOCK), item = pe_itemsize(t);
    double *anchor = malloc(6 * PE_TILE * sizeof *anchor), *offsets = malloc(rows * ROTOR * sizeof *offsets);
    random_rotors(anchor, 1), random_rotors(offsets, rows);
    memcpy(anchor + ROTOR, anchor, 2 * PE_TILE * sizeof *anchor);
    if (t == PE_F64) scalar->split(anchor, 1, PE_TILE), scalar->split(offsets, rows, PE_TILE);
    for (size_t j = 0; j < rows; j += 3) offsets[j * ROTOR + random_below(n)] = 0; /* for suspects */
    for (int kind = 0; kind < 6; kind++) {
        bool pairs = kind % 2, cos_first = kind / 2 == 1, stream = kind / 2 == 2;
        if (stream && n % 8) continue;
        size_t skip = stream ? 0 : odd(t), row = (stream ? 2 * n : 2 * n + random_below(3)) * item;
        exact_block out[2];
        uint32_t suspects[2][PE_BLOCK * PE_TILE];
        unsigned char maps[2][PE_BLOCK][PE_TILE];
        for (int i = 0; i < 2; i++) {
            out[i] = exact_new((rows - 1) * row + 2 * n * item, skip);
            pe_dest d = {out[i].at, out[i].at + n * item,           (ptrdiff_t)row, (ptrdiff_t)row, pairs, cos_first,
                         stream,    t == PE_F64 ? 0x1p-76 : 0x1p-50};
            size_t found = (i ? other : scalar)->sinusoidal[t](anchor, offsets, n, rows, &d, suspects[i]);
            mark(maps[i], suspects[i], found, n);
        }
        size_t apart = settle(maps, out, t, rows, n, row, pairs, cos_first);
        same("sinusoidal", t, n, out, out + 1);
        CHECK(apart <= 8, "sinusoidal_%s: %zu suspects of one ISA only, length %zu", test_dtypes[t], apart, n);
        exact_free(out), exact_free(out + 1);
    }
    free(anchor), free(offsets);
}

/* rows of n numbers, x and out apart or the same, and a table of m numbers of the dtype of arithmetic */
typedef struct {
    exact_block x, table, out[2];
    pe_rows rows[2];
} row_job;
static row_job rows_new(pe_dtype t, size_t n, pe_dtype table_type, size_t m) {
    row_job j;
    size_t item = pe_itemsize(t), count = 1 + random_below(4);
    bool stream = n * item % 32 == 0 && random_below(2);
    size_t gap = random_below(3) * (stream ? 16 : item);
    size_t bytes = (count - 1) * (n * item + gap) + n * item;
    bool shared = random_below(2);
    j.x = exact_new(bytes, odd(t));
    j.table = exact_new((shared ? 1 : count) * m * pe_itemsize(table_type), odd(table_type));
    fill_random(j.x.at, bytes / item, t), fill_random(j.table.at, j.table.bytes / pe_itemsize(table_type), table_type);
    uint32_t *table = (uint32_t *)j.table.at; /* as rotors.c makes them */
    for (size_t i = 0; table_type == PE_F32 && i < j.table.bytes / 4; i++)
        if ((table[i] & 0x7fffffff) > 0x7f800000) table[i] = 0xffc00000;
    size_t skip = stream ? 0 : odd(t);
    for (int i = 0; i < 2; i++) {
        j.out[i] = exact_new(bytes, skip);
        ptrdiff_t row = (ptrdiff_t)(n * item + gap), table_row = shared ? 0 : (ptrdiff_t)(m * pe_itemsize(table_type));
        j.rows[i] = (pe_rows){j.x.at, j.table.at, j.out[i].at, row, row, table_row, count, stream};
        if (i == 1 && !stream && random_below(2)) { /* in place */
            memcpy(j.out[1].at, j.x.at, bytes);
            for (size_t r = 0; r + 1 < count; r++) memset(j.out[1].at + n * item + r * (n * item + gap), GUARD, gap);
            j.rows[1].x = j.out[1].at;
        }
    }
    return j;
}
static void rows_end(row_job *j, const char *name, pe_dtype t, size_t n) {
    same(name, t, n, j->out, j->out + 1);
    exact_free(&j->x), exact_free(&j->table), exact_free(j->out), exact_free(j->out + 1);
}

static void try_add(pe_dtype t, size_t n) {
    row_job j = rows_new(t, n, t, n);
    scalar->add[t](j.rows, n), other->add[t](j.rows + 1, n);
    rows_end(&j, "add", t, n);
}

static void try_rope(pe_dtype t, size_t pairs) {
    for (int kind = 0; kind < 4; kind++) {
        row_job j = rows_new(t, 2 * pairs, t == PE_F64 ? PE_F64 : PE_F32, 2 * pairs);
        for (int i = 0; i < 2; i++)
            (i ? other : scalar)->rope[t](j.rows + i, pairs, kind % 2 ? PE_HALF : PE_INTERLEAVED, kind > 1);
        rows_end(&j, "rope", t, 2 * pairs);
    }
}

static void try_embed(pe_dtype t, size_t n) {
    size_t item = pe_itemsize(t);
    for (int kind = 0; kind < 4; kind++) {
        size_t step = item * (1 + (size_t)(kind & 1) * 2);
        exact_block w = exact_new((n - 1) * step + item, odd(t)), table = exact_new(n * item, odd(t)), out[2];
        fill_random(w.at, w.bytes / item, t), fill_random(table.at, n, t);
        double scale = random_unit() * 30;
        for (int i = 0; i < 2; i++) {
            out[i] = exact_new(n * item, odd(t));
            (i ? other : scalar)->embed[t](w.at, (ptrdiff_t)step, kind & 2 ? table.at : NULL, scale, n, out[i].at);
        }
        same("embed", t, n, out, out + 1);
        exact_free(&w), exact_free(&table), exact_free(out), exact_free(out + 1);
    }
}

static void try_alibi(pe_dtype t, size_t n) {
    for (int kind = 0; kind < 4; kind++) {
        double slope = kind == 3 ? 0x1.8p+3 * random_unit() : random_unit(), later = kind & 1 ? slope : 1.0 / 0.0;
        int64_t first = (int64_t)random_below(3 * n) - 2 * (int64_t)n;
        exact_block out[2];
        for (int i = 0; i < 2; i++) {
            out[i] = exact_new(n * pe_itemsize(t), odd(t));
            (i ? other : scalar)->alibi[t](slope, later, first, n, out[i].at);
        }
        same("alibi", t, n, out, out + 1);
        exact_free(out), exact_free(out + 1);
    }
}

/* the set-up kernels take whole vectors of 8 within planes of PE_TILE */
static void compare_rotors(const char *name, size_t n, const double *a, const double *b, size_t planes) {
    for (size_t p = 0; p < planes; p++) {
        size_t at = first_difference((const char *)(a + p * PE_TILE), (const char *)(b + p * PE_TILE), n, PE_F64);
        CHECK(at == n, "%s_%s: %zu lanes: plane %zu lane %zu", name, other->isa, n, p, at);
    }
}
static void random_phase(uint64_t *phase) { /* anywhere, near eighths of a turn, nearly 0 */
    for (size_t k = 0; k < PE_TILE; k++) {
        uint64_t near = random64() >> (5 + random_below(59));
        phase[k] = random_below(2) ? random64() : (random64() & 7ull << 61) + (random_below(2) ? near : -near);
        phase[PE_TILE + k] = random_below(4) ? random64() : 0;
        if (random_below(8) == 0) phase[k] = phase[PE_TILE + k] & 1 ? 0 : -1ull;
    }
}
static void try_phase(const char *name, pe_sincos_fn *a, pe_sincos_fn *b, size_t n) {
    uint64_t phase[2 * PE_TILE];
    double *r[2] = {calloc(ROTOR, 8), calloc(ROTOR, 8)};
    random_phase(phase);
    a(phase, n, r[0]), b(phase, n, r[1]);
    compare_rotors(name, n, r[0], r[1], 4);
    free(r[0]), free(r[1]);
}
static void try_sincos(size_t n) { try_phase("sincos", scalar->sincos, other->sincos, n); }
static void try_sincos_dd(size_t n) { try_phase("sincos_dd", scalar->sincos_dd, other->sincos_dd, n); }
static void try_rotate(size_t n) {
    size_t count = 1 + random_below(5);
    double a[ROTOR], *b = calloc(count * ROTOR, 8), *r[2] = {calloc(count * ROTOR, 8), calloc(count * ROTOR, 8)};
    random_rotors(a, 1), random_rotors(b, count);
    scalar->rotate(a, b, count, n, r[0]), other->rotate(a, b, count, n, r[1]);
    compare_rotors("rotate", n, r[0], r[1], 4 * count);
    other->rotate(a, b, count, n, b); /* out may be b */
    compare_rotors("rotate in place", n, r[0], b, 4 * count);
    free(b), free(r[0]), free(r[1]);
}
static void try_split(size_t n) {
    size_t count = 1 + random_below(5);
    double *r[2] = {calloc(count * ROTOR, 8), calloc(count * ROTOR, 8)};
    random_rotors(r[0], count);
    memcpy(r[1], r[0], count * ROTOR * 8);
    scalar->split(r[0], count, n), other->split(r[1], count, n);
    compare_rotors("split", n, r[0], r[1], 4 * count);
    free(r[0]), free(r[1]);
}
static void try_expand(size_t n) {
    for (int kind = 0; kind < 3; kind++) {
        size_t bytes = 64 + n * 3 + random_below(40), rows = 1 + random_below(6), gap = kind ? random_below(40) : 0;
        ptrdiff_t from_row = kind == 2 ? -2 : (ptrdiff_t)random_below(9);
        size_t reach = (rows - 1) * (size_t)(from_row < 0 ? -from_row : from_row);
        exact_block from = exact_new(bytes + reach, random_below(33)), out[2];
        for (size_t i = 0; i < from.bytes; i++) from.at[i] = (char)random64();
        const char *start = from.at + (from_row < 0 ? reach : 0);
        for (int i = 0; i < 2; i++) {
            out[i] = exact_new((rows - 1) * (bytes + gap) + bytes, random_below(33));
            (i ? other : scalar)->expand(start, from_row, out[i].at, (ptrdiff_t)(bytes + gap), bytes, rows);
            for (size_t j = 0; j < rows; j++)
                CHECK(memcmp(out[i].at + j * (bytes + gap), start + (ptrdiff_t)j * from_row, bytes) == 0,
                      "expand_%s: %zu bytes, row %zu", (i ? other : scalar)->isa, bytes, j);
        }
        CHECK(memcmp(out[0].at, out[1].at, out[0].bytes) == 0, "expand_%s: between the rows", other->isa);
        exact_free(&from), exact_free(out), exact_free(out + 1);
    }
}

int main(void) {
    scalar = pe_kernels_for(PE_SCALAR);
    for (int isa = 0; isa < PE_NISA; isa++) {
        other = pe_kernels_for((pe_isa)isa);
        if (!other) continue;
        CHECK(pe_kernels_named(other->isa) == other, "%s is not found by its name", other->isa);
#define IS_THERE(name, bound) \
    for (int t = 0; t < PE_NDTYPE; t++) CHECK(other->name[t], #name "_%s_%s is missing", test_dtypes[t], other->isa);
        PE_KERNELS(IS_THERE)
        for (size_t n = 1; n <= LONGEST; n++)
            for (int again = 0; again < 12; again++) {
#define EVERY_DTYPE(name, bound) \
    for (int t = 0; t < PE_NDTYPE; t++) try_##name((pe_dtype)t, n);
                PE_KERNELS(EVERY_DTYPE)
            }
        for (size_t n = 8; n <= PE_TILE; n += 8)
            for (int again = 0; again < 200; again++) {
#define ONCE(name, bound) try_##name(n);
                PE_SHARED(ONCE)
            }
    }
    CHECK(pe_kernels_named(NULL) && !pe_kernels_named("none"), "choice by name");
    return test_end("kernels");
}
