/* wide.h - fixed-point numbers of n 64-bit limbs, least significant first; as fractions, limb k weighs
 * 2^(64 (k - n)). Only what freqs.c and exact.c need. Every n is a small constant, so loops unroll. */
#ifndef POSENC_WIDE_H
#define POSENC_WIDE_H
#include <stdint.h>

typedef unsigned __int128 pe_u128;

static inline uint64_t wide_add(uint64_t *r, const uint64_t *a, const uint64_t *b, int n) {
    uint64_t carry = 0;
    for (int k = 0; k < n; k++) {
        pe_u128 t = (pe_u128)a[k] + b[k] + carry;
        r[k] = (uint64_t)t, carry = (uint64_t)(t >> 64);
    }
    return carry;
}

static inline uint64_t wide_sub(uint64_t *r, const uint64_t *a, const uint64_t *b, int n) {
    uint64_t borrow = 0;
    for (int k = 0; k < n; k++) {
        pe_u128 t = (pe_u128)a[k] - b[k] - borrow;
        r[k] = (uint64_t)t, borrow = (uint64_t)(t >> 64) & 1;
    }
    return borrow;
}

/* r[0 .. n + m) = a[0 .. n) * b[0 .. m); r is neither a nor b */
static inline void wide_mul(uint64_t *r, const uint64_t *a, int n, const uint64_t *b, int m) {
    for (int k = 0; k < n + m; k++) r[k] = 0;
    for (int i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < m; j++) {
            pe_u128 t = (pe_u128)a[i] * b[j] + r[i + j] + carry;
            r[i + j] = (uint64_t)t, carry = (uint64_t)(t >> 64);
        }
        r[i + m] = carry;
    }
}

/* r = a * b as fractions, truncated to n limbs; r may be a or b */
static inline void wide_mul_frac(uint64_t *r, const uint64_t *a, const uint64_t *b, int n) {
    uint64_t t[16];
    wide_mul(t, a, n, b, n);
    for (int k = 0; k < n; k++) r[k] = t[n + k];
}

/* r = a / d, truncated */
static inline void wide_div_small(uint64_t *r, const uint64_t *a, uint64_t d, int n) {
    uint64_t rem = 0;
    for (int k = n; k-- > 0;) {
        pe_u128 t = (pe_u128)rem << 64 | a[k];
        r[k] = (uint64_t)(t / d), rem = (uint64_t)(t % d);
    }
}

/* a <<= s for 0 <= s < 64 n; bits above the top are dropped */
static inline void wide_shl(uint64_t *a, uint64_t s, int n) {
    int limbs = (int)(s / 64 & 31), bits = (int)(s % 64);
    for (int k = n; k-- > 0;) {
        uint64_t hi = k >= limbs ? a[k - limbs] : 0, lo = k > limbs ? a[k - limbs - 1] : 0;
        a[k] = bits ? hi << bits | lo >> (64 - bits) : hi;
    }
}

/* a >>= s for any s >= 0, truncated */
static inline void wide_shr(uint64_t *a, uint64_t s, int n) {
    if (s > 64 * (uint64_t)n) s = 64 * (uint64_t)n;
    int limbs = (int)(s / 64), bits = (int)(s % 64);
    for (int k = 0; k < n; k++) {
        uint64_t lo = k + limbs < n ? a[k + limbs] : 0, hi = k + limbs + 1 < n ? a[k + limbs + 1] : 0;
        a[k] = bits ? lo >> bits | hi << (64 - bits) : lo;
    }
}

static inline int wide_is_zero(const uint64_t *a, int n) {
    uint64_t any = 0;
    for (int k = 0; k < n; k++) any |= a[k];
    return any == 0;
}

/* shifts a (not zero) left until its top bit is set; returns by how much */
static inline int64_t wide_normalise(uint64_t *a, int n) {
    uint64_t s = 0;
    int top = n - 1;
    while (a[top] == 0) top--, s += 64;
    s += (uint64_t)__builtin_clzll(a[top]);
    wide_shl(a, s, n);
    return (int64_t)s;
}
#endif
