/* exact.c - the slow, certain path: one sine or cosine of a position, correctly rounded, from integers alone.
 *
 * t = turns * p exactly, as a fraction of a turn; the nearest quarter q is taken off, so |theta| <= 1/8;
 * x = 2 pi |theta| keeps 256 bits even when it is tiny; then
 *   sin x = x (1 - x^2/6 + x^4/120 - ...),   cos x = 1 - x^2/2 + x^4/24 - ...
 * Relative error below 2^-240, when t itself is that good: turns has 256 bits, so |p| <= 2^64 leaves at least
 * 2^-186 of a turn, and no position of 64 bits comes nearer than about 2^-80 to a quarter: 2^-106 of the
 * smallest values, 2^-180 of nearly all.
 *
 * A factor multiplies the 256 bits, which truncates once more.
 *
 * It ends: for p != 0 the sine is transcendental, never a midpoint of two floats. The computed value can sit on
 * one only when x is so tiny that sin x = x (1 - x^2/6) is x to 240 bits, or cos x is 1 to as many, and x or the factor
 * is a midpoint; then the truth lies just below it, and rounding towards zero is right. */
#include "simd/half.h"
#include "wide.h"
#include <string.h>

enum { N = 4 };
static const uint64_t TWO_PI_8[N] = {0x020bbea63b139b22, 0x29024e088a67cc74, 0xc4c6628b80dc1cd1, 0xc90fdaa22168c234};

/* value = 0.r * 2^e, normalised -> the bits of the nearest number of the type */
static uint64_t round_bits(const uint64_t r[N], int64_t e, pe_dtype type) {
    static const struct {
        int precision, emin;
    } format[PE_NDTYPE] = {[PE_F16] = {11, -14}, [PE_BF16] = {8, -126}, [PE_F32] = {24, -126}, [PE_F64] = {53, -1022}};
    int precision = format[type].precision, emin = format[type].emin;
    if (e > 2 - emin) return (uint64_t)(3 - 2 * emin) << (precision - 1); /* infinity */
    bool subnormal = e - 1 < emin;
    int64_t keep = subnormal ? precision - (emin - (e - 1)) : precision;
    if (keep < 0) return 0;
    uint64_t kept = keep ? r[N - 1] >> (64 - keep) : 0, rest[N], half[N] = {1ull << 20, 0, 0, 1ull << 63};
    memcpy(rest, r, sizeof rest);
    wide_shl(rest, (uint64_t)keep, N);
    kept += !wide_sub(rest, rest, half, N); /* above the middle by more than any error */
    if (subnormal) return kept;
    return ((uint64_t)(e - 1 - emin) << (precision - 1)) + kept;
}

/* 1 - A = sin(x) / x (first = 2) or cos x (first = 1), from x^2: A = x^2/(first (first+1)) - ... */
static void series(uint64_t A[N], const uint64_t xx[N], uint64_t first) {
    uint64_t term[N];
    memcpy(term, xx, sizeof term);
    wide_div_small(term, term, first * (first + 1), N);
    memset(A, 0, 8 * N);
    for (uint64_t i = first + 2, minus = 0; !wide_is_zero(term, N); i += 2, minus ^= 1) {
        if (minus) wide_sub(A, A, term, N);
        else wide_add(A, A, term, N);
        wide_mul_frac(term, term, xx, N);
        wide_div_small(term, term, i * (i + 1), N);
    }
}

/* the bits of a double, rounded once to the type, ties to even */
static uint64_t bits_of(double v, pe_dtype type) {
    uint64_t bits;
    if (type == PE_F32) return pe_bits_f32((float)v);
    if (type != PE_F64) {
        float odd = pe_f64_to_odd_f32(v);
        return type == PE_F16 ? pe_f32_to_f16(odd) : pe_f32_to_bf16(odd);
    }
    memcpy(&bits, &v, 8);
    return bits;
}

/* the bits of 0.r * 2^e times, or divided by, a factor */
static uint64_t times(const uint64_t r[N], int64_t e, pe_factor factor, pe_dtype type) {
    uint64_t bits, t[N + 1] = {0};
    memcpy(&bits, &factor.by, 8);
    uint64_t mant = (bits & 0xfffffffffffff) | 1ull << 52; /* factor = mant * 2^exp */
    int64_t exp = (int64_t)(bits >> 52) - 1075;
    if (factor.divides) {
        memcpy(t + 1, r, N * sizeof *r);
        wide_div_small(t, t, mant, N + 1);
        e -= exp;
    } else {
        wide_mul(t, r, N, &mant, 1);
        e += exp + 64;
    }
    e -= wide_normalise(t, N + 1);
    return round_bits(t + 1, e, type);
}

uint64_t pe_exact(const pe_num *turns, pe_pos p, bool want_cos, pe_factor factor, pe_dtype type) {
    static const int sign_bit[PE_NDTYPE] = {15, 15, 31, 63};
    /* t = 0.t * 2^e: 320 bits hold the whole product */
    uint64_t t[N + 1];
    wide_mul(t, turns->mant, N, &p.mag, 1);
    int64_t e = turns->exp + 64 - (int64_t)p.shift;
    unsigned q = 0;
    bool below = false;                                  /* theta < 0 */
    if (e > -3) {                                        /* it may reach an eighth of a turn */
        if (e >= 0) wide_shl(t, (uint64_t)e, N + 1);
        else wide_shr(t, (uint64_t)-e, N + 1);
        e = 0;
        q = (unsigned)((t[N] + (1ull << 61)) >> 62);     /* a carry out is a whole turn: q = 0 */
        t[N] -= (uint64_t)q << 62;
        below = t[N] >> 63;
        if (below) {
            uint64_t zero[N + 1] = {0};
            wide_sub(t, zero, t, N + 1);
        }
    }
    bool cosine = want_cos != (q & 1);
    bool minus = want_cos ? q == 1 || q == 2 : (q >= 2) != p.neg;
    if (!cosine) minus ^= below;
    uint64_t x[N], xx[N], A[N], r[N];
    if (wide_is_zero(t, N + 1)) {
        uint64_t one[N] = {0, 0, 0, 1ull << 63};         /* 1 / factor is never half way between two numbers */
        uint64_t bits = factor.divides ? times(one, 1, factor, type) : bits_of(factor.by, type);
        return cosine ? bits | (uint64_t)minus << sign_bit[type] : 0;
    }
    e -= wide_normalise(t, N + 1);
    memcpy(x, t + 1, sizeof x);
    wide_mul_frac(x, x, TWO_PI_8, N);                    /* x = 2 pi theta = (2 pi / 8) theta 2^3 */
    e += 3 - wide_normalise(x, N);
    wide_mul_frac(xx, x, x, N);
    wide_shr(xx, (uint64_t)(-2 * e), N);                             /* e <= 0: x <= pi / 4 */
    series(A, xx, cosine ? 1 : 2);
    if (cosine) {
        uint64_t zero[N] = {0}, one[N] = {0, 0, 0, 1ull << 63};
        bool whole = wide_is_zero(A, N);
        if (whole) memcpy(r, one, sizeof r);
        else wide_sub(r, zero, A, N);
        e = whole;
    } else {
        wide_mul_frac(r, x, A, N);
        wide_sub(r, x, r, N);
    }
    e -= wide_normalise(r, N);
    return times(r, e, factor, type) | (uint64_t)minus << sign_bit[type];
}

double pe_num_to_f64(const pe_num *x) {
    uint64_t bits = wide_is_zero(x->mant, N) ? 0 : round_bits(x->mant, x->exp, PE_F64);
    double v;
    memcpy(&v, &bits, 8);
    return v;
}
