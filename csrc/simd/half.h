/* half.h - float16 and bfloat16 on the bits, round to nearest even: for the scalar ISA, for tails, for tests. */
#ifndef POSENC_HALF_H
#define POSENC_HALF_H
#include "../posenc.h"
#include <string.h>

static inline uint32_t pe_bits_f32(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static inline float pe_f32_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline float pe_bf16_to_f32(pe_bf16 h) { return pe_f32_bits((uint32_t)h << 16); }
static inline pe_bf16 pe_f32_to_bf16(float f) {
    uint32_t u = pe_bits_f32(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (pe_bf16)(u >> 16 | 0x40); /* a quiet NaN stays one */
    return (pe_bf16)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float pe_f16_to_f32(pe_f16 h) {
    uint32_t s = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31) return pe_f32_bits(s | 0x7f800000 | m << 13 | (m ? 0x400000 : 0));
    if (e) return pe_f32_bits(s | (e + 112) << 23 | m << 13);
    return pe_f32_bits(s | pe_bits_f32((float)m * 0x1p-24f)); /* subnormal: exact */
}
static inline pe_f16 pe_f32_to_f16(float f) {
    uint32_t u = pe_bits_f32(f), s = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return (pe_f16)(s | 0x7e00 | (a >> 13 & 0x1ff));
    if (a >= 0x477ff000) return (pe_f16)(s | 0x7c00);
    if (a < 0x38800000) return (pe_f16)(s | (pe_bits_f32(pe_f32_bits(a) + 0.5f) - 0x3f000000)); /* the sum rounds */
    return (pe_f16)(s | (a + 0xfff + (a >> 13 & 1) - 0x38000000) >> 13);
}

/* A double cut to 24 bits, the last one set when anything was lost: rounding that to a shorter type is rounding
 * the double once. (Doubles below 2^-126 never get here: the rounding test has sent them to pe_exact.) */
static inline float pe_f64_to_odd_f32(double v) {
    uint64_t u;
    memcpy(&u, &v, 8);
    uint64_t lost = u & 0x1fffffff;
    u = (u & ~0x1fffffffull) | (uint64_t)(lost != 0) << 29;
    memcpy(&v, &u, 8);
    return (float)v;
}
#endif
