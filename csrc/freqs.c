/* freqs.c - frequencies: start * base^(-i / denom) to 256 bits, from integers alone (the same everywhere).
 *
 * ratio = exp(-+ ln(base) / denom) once, by series in 320-bit fixed point; then a chain of 320-bit products.
 *   ln:  base = m 2^k with m in [3/4, 3/2);  ln m = 2 atanh z,  z = (m - 1) / (m + 1), |z| <= 1/5
 *   exp: y = n ln 2 + g with 0 <= g < ln 2;  e^g by Taylor's series
 * Each truncation costs at most 2^-318 of the value; a series has fewer than 80 terms; n < 1100 multiplies the
 * error of ln 2 by as much: the ratio is good to 2^-300, and the i-th power to (i + 4) 2^-254 after the one
 * rounding to 256 bits, for every i below 2^40.
 * Tried and rejected: each power by its own exponential (70 times slower, no more accurate than needed). */
#include "posenc.h"
#include "wide.h"
#include <string.h>

enum { N = 5 }; /* limbs of working precision */
typedef struct {
    uint64_t m[N];
    int64_t e;
} big; /* 0.m * 2^e, normalised */

static const uint64_t LN2[N] = {0xe7b876206debac98, 0x8a0d175b8baafa2b, 0x40f343267298b62d, 0xc9e3b39803f2f6af,
                                0xb17217f7d1cf79ab};
static const big INV_2PI = {
    {0xb7246e3a424dd2e0, 0xfe5163abdebbc561, 0xdb6295993c439041, 0xfc2757d1f534ddc0, 0xa2f9836e4e441529}, -2};
static const big TWO_PI = {
    {0x514a08798e3404dd, 0x020bbea63b139b22, 0x29024e088a67cc74, 0xc4c6628b80dc1cd1, 0xc90fdaa22168c234}, 3};

static big big_mul(const big *a, const big *b) {
    big r;
    uint64_t t[2 * N];
    wide_mul(t, a->m, N, b->m, N);
    int64_t s = wide_normalise(t, 2 * N);
    memcpy(r.m, t + N, sizeof r.m);
    r.e = a->e + b->e - s;
    return r;
}

/* v = m 2^e with an integer m below 2^53; v > 0 and finite */
static uint64_t split_double(double v, int64_t *e) {
    uint64_t u;
    memcpy(&u, &v, 8);
    uint64_t biased = u >> 52 & 0x7ff, m = u & 0xfffffffffffff;
    *e = (biased ? (int64_t)biased : 1) - 1075;
    return biased ? m | 1ull << 52 : m;
}

static big big_from_double(double v) {
    big r = {{0}, 0};
    r.m[N - 1] = split_double(v, &r.e);
    r.e += 64 - wide_normalise(r.m, N);
    return r;
}

/* L = |ln base| as (N + 1) limbs, the top one the integer part; returns whether ln base < 0 */
static bool log_of(double base, uint64_t L[N + 1]) {
    int64_t e;
    uint64_t m = split_double(base, &e);
    int s = __builtin_clzll(m);
    m <<= s, e -= s;                                     /* base = (m / 2^64) 2^(e + 64), m / 2^64 in [1/2, 1) */
    int64_t k = e + 64;
    bool below = m >= 3ull << 62;                        /* [3/4, 1): ln m < 0 */
    if (!below) k--;                                     /* [1/2, 3/4): use 2m in [1, 3/2) */
    /* num / den = |m - 1| / (m + 1) with both scaled to fit 64 bits */
    uint64_t num = below ? 0 - m : 2 * (m - (1ull << 63));
    pe_u128 den = below ? ((pe_u128)1 << 64) + m : ((pe_u128)1 << 64) + ((pe_u128)m << 1);
    while (den >> 64) den >>= 1, num >>= 1;              /* m has 53 bits at most: nothing is lost */
    uint64_t z[N], zz[N], term[N], sum[N] = {0}, t[N];
    uint64_t rem = num;                                  /* num < den: a proper fraction */
    for (int i = N; i-- > 0;) {
        pe_u128 q = (pe_u128)rem << 64;
        z[i] = (uint64_t)(q / (uint64_t)den), rem = (uint64_t)(q % (uint64_t)den);
    }
    wide_mul_frac(zz, z, z, N);
    memcpy(term, z, sizeof term);
    for (uint64_t i = 1; !wide_is_zero(term, N); i += 2) {
        wide_div_small(t, term, i, N);
        wide_add(sum, sum, t, N);
        wide_mul_frac(term, term, zz, N);
    }
    wide_add(sum, sum, sum, N);                          /* |ln m| <= ln 3/2 */
    uint64_t klog[N + 1], ln_m[N + 1] = {0}, mag = k < 0 ? (uint64_t)-k : (uint64_t)k;
    memcpy(ln_m, sum, sizeof sum);
    wide_mul(klog, LN2, N, &mag, 1);
    bool neg = k < 0;
    if (neg == below) wide_add(L, klog, ln_m, N + 1);
    else if (wide_sub(L, klog, ln_m, N + 1)) wide_sub(L, ln_m, klog, N + 1), neg = !neg;
    return neg;
}

/* exp(y), y = -Y or Y given as (N + 1) limbs with the integer part on top, Y < 2^63 */
static big exp_of(const uint64_t Y[N + 1], bool neg) {
    /* n = floor(Y / ln 2), by quotients that never overshoot */
    uint64_t g[N + 1], n = 0;
    memcpy(g, Y, sizeof g);
    while (g[N] || g[N - 1] >= LN2[N - 1]) {
        uint64_t q = g[N] + (g[N] >> 2), p[N + 1];       /* 1 / ln 2 = 1.44 > 1.25 */
        if (q == 0) q = 1;
        wide_mul(p, LN2, N, &q, 1);
        if (wide_sub(g, g, p, N + 1)) {
            wide_add(g, g, p, N + 1);
            break;
        }
        n += q;
    }
    int64_t e = (int64_t)n;
    if (neg && !wide_is_zero(g, N)) {                    /* -Y = -(n + 1) ln 2 + (ln 2 - g) */
        wide_sub(g, LN2, g, N);
        e++;
    }
    uint64_t term[N] = {0}, sum[N] = {0};
    term[N - 1] = 1ull << 63;                            /* e^g / 2, in [1/2, 1) */
    for (uint64_t i = 1; !wide_is_zero(term, N); i++) {
        wide_add(sum, sum, term, N);
        wide_mul_frac(term, term, g, N);
        wide_div_small(term, term, i, N);
    }
    big r;
    memcpy(r.m, sum, sizeof sum);
    r.e = (neg ? -e : e) + 1;
    r.e -= wide_normalise(r.m, N);
    return r;
}

static void set_fixed(pe_num *x) {
    uint64_t t[9] = {0};                                 /* mant, with room for any shift to the right */
    int64_t s = 64 - x->exp;                             /* the point: 64 bits below the top of fixed */
    unsigned limbs = s > 256 ? 4 : (unsigned)s / 64, bits = s > 256 ? 0 : (unsigned)s % 64;
    if (s >= 0) memcpy(t, x->mant, sizeof x->mant);
    else limbs = bits = 0;
    for (unsigned k = 0; k < 4; k++) x->fixed[k] = t[k + limbs] >> bits | t[k + limbs + 1] << 1 << (63 - bits);
}

static pe_num big_round(const big *a) {
    pe_num r;
    uint64_t t[N], half[N] = {1ull << 63};
    r.exp = a->e;
    if (wide_add(t, a->m, half, N)) wide_shr(t, 1, N), t[N - 1] |= 1ull << 63, r.exp++;
    memcpy(r.mant, t + 1, sizeof r.mant);
    set_fixed(&r);
    return r;
}

void pe_powers(pe_unit unit, double base, double denom, double scale, size_t count, pe_num *out) {
    big x = {{0, 0, 0, 0, 1ull << 63}, 1}, s = big_from_double(scale < 0 ? -scale : scale);
    if (unit == PE_TURNS) x = big_mul(&INV_2PI, &s);
    if (unit == PE_WAVELENGTHS) x = TWO_PI;
    if (count == 0) return;
    out[0] = big_round(&x);
    if (count == 1) return;
    uint64_t L[N + 1];
    bool neg = log_of(base, L);
    int64_t e;
    uint64_t d = split_double(denom, &e);                /* ln base / (d 2^e), d odd */
    int s2 = __builtin_ctzll(d);
    d >>= s2, e += s2;
    wide_div_small(L, L, d, N + 1);
    if (e > 0) wide_shr(L, (uint64_t)e, N + 1);
    else wide_shl(L, (uint64_t)-e, N + 1);
    big r = exp_of(L, unit == PE_WAVELENGTHS ? neg : !neg);
    for (size_t i = 1; i < count; i++) x = big_mul(&x, &r), out[i] = big_round(&x);
}

void pe_turns_from_f64(const double *inv_freq, size_t count, pe_num *out) {
    for (size_t i = 0; i < count; i++) {
        if (inv_freq[i] == 0) {
            memset(out + i, 0, sizeof *out);
            continue;
        }
        big w = big_from_double(inv_freq[i]), t = big_mul(&INV_2PI, &w);
        out[i] = big_round(&t);
    }
}
