/* rotors.c - the table of a rotary plan: sines and cosines of the pairs, whatever position axis each of them follows,
 * correctly rounded, the attention factor included. With xPos the product of the float64 value is rounded once. */
#include "posenc.h"
#include "simd/eft.h"
#include "simd/half.h"
#include <string.h>

/* rows of a part: sines and cosines of its pairs */
static size_t part_row(const pe_table *t) { return t->dim * pe_itemsize(t->type); }

static bool plain(const pe_rotors *r) { return r->nparts == 1 && !r->decay; }

size_t pe_rotors_row(const pe_rotors *r) {
    size_t most = 0;
    for (size_t a = 0; a < r->nparts && !plain(r); a++)
        if (part_row(&r->parts[a]) > most) most = part_row(&r->parts[a]);
    return most;
}

/* exp(t + low) for |t| <= 700, low below an ulp of t: error below 2 ulp. t = n ln 2 + r, |r| <= ln 2 / 2, Taylor's series */
static const double EXP[15] = {1,
                               1,
                               1.0 / 2,
                               1.0 / 6,
                               1.0 / 24,
                               1.0 / 120,
                               1.0 / 720,
                               1.0 / 5040,
                               1.0 / 40320,
                               1.0 / 362880,
                               1.0 / 3628800,
                               1.0 / 39916800,
                               1.0 / 479001600,
                               1.0 / 6227020800,
                               1.0 / 87178291200};
static double exp_f64(double t, double low) {
    double n = (t * 0x1.71547652b82fep+0 + 0x1.8p52) - 0x1.8p52; /* rounded to an integer */
    double r = (t - n * 0x1.62e42fefa0000p-1) - (n * 0x1.cf79abc9e3b3ap-40 - low), sum = 0;
    for (int k = 14; k > 0; k--) sum = (EXP[k] + sum) * r;
    sum += 1;
    uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, 8);
    return sum * scale;
}

static double position(pe_pos p) { /* to the nearest double, or so; fractions below 2^-1000 are 0 */
    double v = (double)p.mag;
    for (uint32_t s = p.shift; s > 0; s--) v *= 0.5;
    return p.neg ? -v : v;
}

/* what multiplies sine and cosine of a pair at a position: the exponent to some 100 bits, a large one must not blow up
 * its rounding */
static double multiplier(const pe_rotors *r, size_t pair, double at) {
    double away_low, low, away = pe_two_sum(at, -r->center, &away_low);
    double hi = r->sign * r->decay[pair], t = hi * away;
    if (t < -r->limit || t > r->limit) return exp_f64(t < 0 ? -r->limit : r->limit, 0);
    t = pe_two_prod(hi, away, &low);
    if (away > 0x1p900 || away < -0x1p900) low = 0;      /* the split would overflow */
    return exp_f64(t, low + (hi * away_low + r->sign * r->decay[r->pairs + pair] * away));
}

static void put(pe_dtype type, double v, char *to) {
    if (type == PE_F64) *(double *)to = v;
    else if (type == PE_F32) *(float *)to = (float)v;
    else if (type == PE_F16) *(pe_f16 *)to = pe_f32_to_f16(pe_f64_to_odd_f32(v));
    else *(pe_bf16 *)to = pe_f32_to_bf16(pe_f64_to_odd_f32(v));
}

/* a row of a part to where its pairs stand in the whole row, as it is */
#define PE_MOVE(T)                                                                \
    for (size_t k = 0; k < t->pairs; k++) {                                       \
        ((T *)to)[pairs[k]] = ((const T *)from)[k];                               \
        ((T *)to)[r->pairs + (size_t)pairs[k]] = ((const T *)from)[t->pairs + k]; \
    }
static void move(const pe_rotors *r, const pe_table *t, const int64_t *pairs, const char *from, char *to) {
    size_t item = pe_itemsize(r->type);
    if (item == 8) PE_MOVE(uint64_t)
    else if (item == 4) PE_MOVE(uint32_t)
    else PE_MOVE(uint16_t)
}
#undef PE_MOVE

/* the same, multiplied; the row is float64 */
static void scatter(const pe_rotors *r, const pe_table *t, const int64_t *pairs, pe_pos p, const double *from,
                    char *to) {
    size_t item = pe_itemsize(r->type);
    double at = position(p);
    for (size_t k = 0; k < t->pairs; k++) {
        double m = multiplier(r, (size_t)pairs[k], at);
        put(r->type, from[k] * m, to + (size_t)pairs[k] * item);
        put(r->type, from[t->pairs + k] * m, to + (r->pairs + (size_t)pairs[k]) * item);
    }
}

void pe_rotors_make(const void *maker, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, void *work) {
    const pe_rotors *r = maker;
    if (plain(r)) {
        pe_table_rows(r->parts, begin, end, out, row_bytes, false, work);
        return;
    }
    char *rows = (char *)work + PE_TABLE_WORK;
    const int64_t *pairs = r->pairs_of;
    for (size_t a = 0; a < r->nparts; pairs += r->parts[a++].pairs) {
        const pe_table *t = &r->parts[a];
        size_t row = part_row(t);
        if (t->pairs == 0) continue;
        pe_table_rows(t, begin, end, rows, (ptrdiff_t)row, false, work);
        for (size_t j = 0; j < end - begin; j++) {
            char *from = rows + j * row, *to = out + (ptrdiff_t)j * row_bytes;
            if (!r->decay) move(r, t, pairs, from, to);
            else scatter(r, t, pairs, pe_pos_at(&t->positions, begin + j), (const double *)from, to);
        }
    }
}

void pe_stored_make(const void *maker, size_t begin, size_t end, char *out, ptrdiff_t row_bytes, void *work) {
    const pe_stored *s = maker;
    ptrdiff_t item = (ptrdiff_t)s->item;
    (void)work;
    for (size_t row = begin; row < end; row++, out += row_bytes) {
        const char *from[2] = {s->of[0], s->of[1]};
        for (size_t i = (size_t)s->ndim, rest = row; i-- > 0; rest /= (size_t)s->dims[i])
            for (int f = 0; f < 2; f++) from[f] += (ptrdiff_t)(rest % (size_t)s->dims[i]) * s->strides[f][i];
        pe_copy(out, item, from[0], s->step[0], s->pairs, s->item);
        pe_copy(out + s->pairs * s->item, item, from[1], s->step[1], s->pairs, s->item);
        uint32_t *bits = (uint32_t *)out;                /* NaNs become the one that arithmetic makes up */
        for (size_t k = 0; s->item == 4 && k < 2 * s->pairs; k++)
            if ((bits[k] & 0x7fffffff) > 0x7f800000) bits[k] = 0xffc00000;
    }
}
