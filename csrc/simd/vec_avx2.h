/* vec_avx2.h - the vocabulary for AVX2 with FMA and F16C: 8 float or 4 double lanes. See vec_scalar.h. */
#include "half.h"
#define PE_ISA avx2
#define vf32_N 8
#define vf64_N 4
typedef __m256 vf32;
typedef __m256d vf64;

static inline vf32 vf32_set1(float a) { return _mm256_set1_ps(a); }
static inline vf32 vf32_add(vf32 a, vf32 b) { return _mm256_add_ps(a, b); }
static inline vf32 vf32_sub(vf32 a, vf32 b) { return _mm256_sub_ps(a, b); }
static inline vf32 vf32_mul(vf32 a, vf32 b) { return _mm256_mul_ps(a, b); }
static inline vf64 vf64_set1(double a) { return _mm256_set1_pd(a); }
static inline vf64 vf64_add(vf64 a, vf64 b) { return _mm256_add_pd(a, b); }
static inline vf64 vf64_sub(vf64 a, vf64 b) { return _mm256_sub_pd(a, b); }
static inline vf64 vf64_mul(vf64 a, vf64 b) { return _mm256_mul_pd(a, b); }
static inline vf64 vf64_mad(vf64 a, vf64 b, vf64 c) { return _mm256_fmadd_pd(a, b, c); }
static inline vf64 vf64_nmad(vf64 a, vf64 b, vf64 c) { return _mm256_fnmadd_pd(a, b, c); }
static inline vf64 vf64_two_prod(vf64 a, vf64 b, vf64 *err) {
    vf64 p = _mm256_mul_pd(a, b);
    *err = _mm256_fmsub_pd(a, b, p);
    return p;
}

typedef __m256i vu64;
static inline vu64 vu64_load(const uint64_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline vu64 vu64_set1(uint64_t a) { return _mm256_set1_epi64x((long long)a); }
static inline vu64 vu64_add(vu64 a, vu64 b) { return _mm256_add_epi64(a, b); }
static inline vu64 vu64_and(vu64 a, vu64 b) { return _mm256_and_si256(a, b); }
static inline vu64 vu64_or(vu64 a, vu64 b) { return _mm256_or_si256(a, b); }
static inline vu64 vu64_xor(vu64 a, vu64 b) { return _mm256_xor_si256(a, b); }
static inline vu64 vu64_shl(vu64 a, int n) { return _mm256_slli_epi64(a, n); }
static inline vu64 vu64_shr(vu64 a, int n) { return _mm256_srli_epi64(a, n); }
static inline vf64 vu64_as_f64(vu64 a) { return _mm256_castsi256_pd(a); }

/* loads and stores of n lanes; a whole vector when n allows */
static inline __m256i mask32(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline __m256i mask64(size_t n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)n), _mm256_setr_epi64x(0, 1, 2, 3));
}
static inline vf32 vf32_load_f32(const pe_f32 *p, size_t n) {
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, mask32(n));
}
static inline void vf32_store_f32(pe_f32 *p, vf32 v, size_t n) {
    if (n >= 8) _mm256_storeu_ps(p, v);
    else _mm256_maskstore_ps(p, mask32(n), v);
}
static inline vf64 vf64_load_f64(const pe_f64 *p, size_t n) {
    return n >= 4 ? _mm256_loadu_pd(p) : _mm256_maskload_pd(p, mask64(n));
}
static inline void vf64_store_f64(pe_f64 *p, vf64 v, size_t n) {
    if (n >= 4) _mm256_storeu_pd(p, v);
    else _mm256_maskstore_pd(p, mask64(n), v);
}
static inline __m128i load16(const uint16_t *p, size_t n) { /* up to 8 halves */
    if (n >= 8) return _mm_loadu_si128((const __m128i *)p);
    uint16_t t[8] = {0};
    memcpy(t, p, 2 * n);
    return _mm_loadu_si128((const __m128i *)t);
}
static inline void store16(uint16_t *p, __m128i v, size_t n) {
    if (n >= 8) {
        _mm_storeu_si128((__m128i *)p, v);
        return;
    }
    uint16_t t[8];
    _mm_storeu_si128((__m128i *)t, v);
    memcpy(p, t, 2 * n);
}
static inline vf32 widen_f16(__m128i h) { return _mm256_cvtph_ps(h); }
static inline __m128i narrow_f16(vf32 v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
static inline vf32 widen_bf16(__m128i h) { /* zeros below each: one shuffle within the 128-bit halves */
    __m256i up = _mm256_setr_epi8(-1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, -1, -1, 8, 9, -1, -1, 10, 11,
                                  -1, -1, 12, 13, -1, -1, 14, 15);
    return _mm256_castsi256_ps(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(h), up));
}
/* Rounded to the upper half of each 32-bit lane. The lower half of a NaN is 0: it is that of a bfloat16, or the one that
 * arithmetic makes up (rotors.c sees to tables of others), so rounding leaves it as it is. */
static inline __m256i round_bf16(__m256i u) {
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
static inline __m128i narrow_bf16(vf32 v) {
    __m256i r = _mm256_srli_epi32(round_bf16(_mm256_castps_si256(v)), 16);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 0x08));
}
static inline vf32 vf32_load_f16(const pe_f16 *p, size_t n) { return widen_f16(load16(p, n)); }
static inline void vf32_store_f16(pe_f16 *p, vf32 v, size_t n) { store16(p, narrow_f16(v), n); }
static inline vf32 vf32_load_bf16(const pe_bf16 *p, size_t n) { return widen_bf16(load16(p, n)); }
static inline void vf32_store_bf16(pe_bf16 *p, vf32 v, size_t n) { store16(p, narrow_bf16(v), n); }

/* n pairs in memory <-> two vectors, whose middle quarters are exchanged: nothing then crosses the 128-bit halves */
static inline vf64 vf64_paired_f64(vf64 v) { return _mm256_permute4x64_pd(v, 0xd8); }
static inline vf32 vf32_paired_f32(vf32 v) { return _mm256_castpd_ps(vf64_paired_f64(_mm256_castps_pd(v))); }
#define vf32_paired_f16 vf32_paired_f32
/* NumPy aligns to 16 bytes, so streams are 16 bytes wide; the write-combining buffer joins them */
static inline void stream256(void *p, __m256i v) {
    _mm_stream_si128(p, _mm256_castsi256_si128(v));
    _mm_stream_si128((__m128i *)p + 1, _mm256_extracti128_si256(v, 1));
}
static inline void vf32_stream_f16(pe_f16 *p, vf32 v) { _mm_stream_si128((__m128i *)p, narrow_f16(v)); }
static inline void vf32_stream_bf16(pe_bf16 *p, vf32 v) { _mm_stream_si128((__m128i *)p, narrow_bf16(v)); }
static inline void vf32_stream_f32(pe_f32 *p, vf32 v) { stream256(p, _mm256_castps_si256(v)); }
static inline void vf64_stream_f64(pe_f64 *p, vf64 v) { stream256(p, _mm256_castpd_si256(v)); }
#define PE_AVX2_AT(C, S)                                                                                        \
    static inline void v##C##_store_at_##S(pe_##S *p, pe_##S *q, v##C a, v##C b, size_t n, const bool stream) { \
        if (stream) v##C##_stream_##S(p, a), v##C##_stream_##S(q, b);                                           \
        else v##C##_store_##S(p, a, n), v##C##_store_##S(q, b, n);                                              \
    }
PE_AVX2_AT(f32, f16)
PE_AVX2_AT(f32, f32)
PE_AVX2_AT(f64, f64)
#define PE_AVX2_PAIRS(S)                                                                                       \
    static inline void vf32_load2_##S(const pe_##S *p, vf32 *a, vf32 *b, size_t n) {                           \
        vf32 lo = vf32_load_##S(p, 2 * n), hi = n > 4 ? vf32_load_##S(p + 8, 2 * n - 8) : _mm256_setzero_ps(); \
        *a = _mm256_shuffle_ps(lo, hi, 0x88), *b = _mm256_shuffle_ps(lo, hi, 0xdd);                            \
    }                                                                                                          \
    static inline void vf32_store2_##S(pe_##S *p, vf32 a, vf32 b, size_t n, const bool stream) {               \
        vf32 lo = _mm256_unpacklo_ps(a, b), hi = _mm256_unpackhi_ps(a, b);                                     \
        if (stream) {                                                                                          \
            vf32_stream_##S(p, lo), vf32_stream_##S(p + 8, hi);                                                \
            return;                                                                                            \
        }                                                                                                      \
        vf32_store_##S(p, lo, 2 * n);                                                                          \
        if (n > 4) vf32_store_##S(p + 8, hi, 2 * n - 8);                                                       \
    }
PE_AVX2_PAIRS(f16)
PE_AVX2_PAIRS(f32)
/* of bfloat16 a pair is one 32-bit number, and its members are the halves of that: the order is the natural one */
static inline vf32 vf32_paired_bf16(vf32 v) { return v; }
static inline void vf32_load2_bf16(const pe_bf16 *p, vf32 *a, vf32 *b, size_t n) {
    __m256i u = n >= 8 ? _mm256_loadu_si256((const __m256i *)p) : _mm256_maskload_epi32((const int *)p, mask32(n));
    *a = _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
    *b = _mm256_castsi256_ps(_mm256_and_si256(u, _mm256_set1_epi32((int)0xffff0000)));
}
static inline __m256i round_pairs(vf32 a, vf32 b) { /* both at once, in 16-bit lanes */
    __m256i x = _mm256_castps_si256(a), y = _mm256_castps_si256(b);
    __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(x, 16), y, 0xaa);
    __m256i low = _mm256_blend_epi16(x, _mm256_slli_epi32(y, 16), 0xaa), one = _mm256_set1_epi16(1);
    __m256i over = _mm256_adds_epu16(low, _mm256_and_si256(high, one)); /* beyond half: up; at half: up if odd */
    __m256i up = _mm256_min_epu16(_mm256_subs_epu16(over, _mm256_set1_epi16((short)0x8000)), one);
    return _mm256_add_epi16(high, up);
}
static inline void vf32_store2_bf16(pe_bf16 *p, vf32 a, vf32 b, size_t n, const bool stream) {
    if (stream) stream256(p, round_pairs(a, b));
    else if (n >= 8) _mm256_storeu_si256((__m256i *)p, round_pairs(a, b));
    else _mm256_maskstore_epi32((int *)p, mask32(n), round_pairs(a, b));
}
static inline void vf32_store_at_bf16(pe_bf16 *p, pe_bf16 *q, vf32 a, vf32 b, size_t n, const bool stream) {
    __m256i apart = _mm256_set_epi8(15, 14, 11, 10, 7, 6, 3, 2, 13, 12, 9, 8, 5, 4, 1, 0, 15, 14, 11, 10, 7, 6, 3, 2,
                                    13, 12, 9, 8, 5, 4, 1, 0);
    __m256i u = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(round_pairs(a, b), apart), 0xd8);
    __m128i first = _mm256_castsi256_si128(u), second = _mm256_extracti128_si256(u, 1);
    if (stream) _mm_stream_si128((__m128i *)p, first), _mm_stream_si128((__m128i *)q, second);
    else store16(p, first, n), store16(q, second, n);
}
static inline void vf64_load2_f64(const pe_f64 *p, vf64 *a, vf64 *b, size_t n) {
    vf64 lo = vf64_load_f64(p, 2 * n), hi = n > 2 ? vf64_load_f64(p + 4, 2 * n - 4) : _mm256_setzero_pd();
    *a = _mm256_unpacklo_pd(lo, hi), *b = _mm256_unpackhi_pd(lo, hi);
}
static inline void vf64_store2_f64(pe_f64 *p, vf64 a, vf64 b, size_t n, const bool stream) {
    vf64 lo = _mm256_unpacklo_pd(a, b), hi = _mm256_unpackhi_pd(a, b);
    if (stream) {
        vf64_stream_f64(p, lo), vf64_stream_f64(p + 4, hi);
        return;
    }
    vf64_store_f64(p, lo, 2 * n);
    if (n > 2) vf64_store_f64(p + 4, hi, 2 * n - 4);
}

/* four doubles rounded once to S, as bits in 32-bit lanes (f64: as they are) */
typedef __m128i vb_f32, vb_f16, vb_bf16;
typedef __m256d vb_f64;
static inline __m128 odd_f32(vf64 v) { /* pe_f64_to_odd_f32 */
    __m256i u = _mm256_castpd_si256(v), low = _mm256_set1_epi64x(0x1fffffff), zero = _mm256_setzero_si256();
    __m256i exact = _mm256_cmpeq_epi64(_mm256_and_si256(u, low), zero);
    __m256i sticky = _mm256_andnot_si256(exact, _mm256_set1_epi64x(0x20000000));
    return _mm256_cvtpd_ps(_mm256_castsi256_pd(_mm256_or_si256(_mm256_andnot_si256(low, u), sticky)));
}
static inline vb_f32 vb_f32_round(vf64 v) { return _mm_castps_si128(_mm256_cvtpd_ps(v)); }
static inline vb_f16 vb_f16_round(vf64 v) {
    return _mm_cvtepu16_epi32(_mm_cvtps_ph(odd_f32(v), _MM_FROUND_TO_NEAREST_INT));
}
static inline vb_bf16 vb_bf16_round(vf64 v) {
    return _mm_srli_epi32(_mm256_castsi256_si128(round_bf16(_mm256_castsi128_si256(_mm_castps_si128(odd_f32(v))))), 16);
}
static inline vb_f64 vb_f64_round(vf64 v) { return v; }
static inline unsigned vb_f32_differ(__m128i a, __m128i b) {
    return 15u ^ (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(a, b)));
}
static inline unsigned vb_f32_any2(__m128i a, __m128i b, __m128i c, __m128i d) {
    __m128i x = _mm_or_si128(_mm_xor_si128(a, b), _mm_xor_si128(c, d));
    return !_mm_testz_si128(x, x);
}
static inline unsigned vb_f64_differ(vf64 a, vf64 b) {
    __m256i eq = _mm256_cmpeq_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b));
    return 15u ^ (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(eq));
}
static inline unsigned vb_f64_any2(vf64 a, vf64 b, vf64 c, vf64 d) {
    __m256i x = _mm256_castpd_si256(_mm256_or_pd(_mm256_xor_pd(a, b), _mm256_xor_pd(c, d)));
    return !_mm256_testz_si256(x, x);
}
static inline void vb_f32_store(pe_f32 *p, vb_f32 v, size_t n) {
    if (n >= 4) {
        _mm_storeu_si128((__m128i *)p, v);
        return;
    }
    _mm_maskstore_ps(p, _mm256_castsi256_si128(mask32(n)), _mm_castsi128_ps(v));
}
static inline void vb_f32_store2(pe_f32 *p, vb_f32 a, vb_f32 b, size_t n) {
    __m128i lo = _mm_unpacklo_epi32(a, b), hi = _mm_unpackhi_epi32(a, b);
    vf32_store_f32(p, _mm256_castsi256_ps(_mm256_set_m128i(hi, lo)), 2 * n);
}
static inline void vb_f32_stream(pe_f32 *p, vb_f32 v) { _mm_stream_si128((__m128i *)p, v); }
static inline void vb_f32_stream2(pe_f32 *p, vb_f32 a, vb_f32 b) {
    __m128i lo = _mm_unpacklo_epi32(a, b), hi = _mm_unpackhi_epi32(a, b);
    _mm_stream_si128((__m128i *)p, lo), _mm_stream_si128((__m128i *)p + 1, hi);
}
static inline void vb_f16_store(uint16_t *p, __m128i v, size_t n) { store16(p, _mm_packus_epi32(v, v), n < 4 ? n : 4); }
static inline void vb_f16_store2(uint16_t *p, __m128i a, __m128i b, size_t n) {
    store16(p, _mm_or_si128(a, _mm_slli_epi32(b, 16)), 2 * n);
}
static inline void vb_f16_stream(uint16_t *p, __m128i v) { _mm_storel_epi64((__m128i *)p, _mm_packus_epi32(v, v)); }
static inline void vb_f16_stream2(uint16_t *p, __m128i a, __m128i b) {
    _mm_stream_si128((__m128i *)p, _mm_or_si128(a, _mm_slli_epi32(b, 16)));
}
#define vb_f16_differ vb_f32_differ
#define vb_f16_any2 vb_f32_any2
#define vb_bf16_differ vb_f32_differ
#define vb_bf16_any2 vb_f32_any2
#define vb_bf16_store vb_f16_store
#define vb_bf16_store2 vb_f16_store2
#define vb_bf16_stream vb_f16_stream
#define vb_bf16_stream2 vb_f16_stream2
#define vb_f64_store vf64_store_f64
static inline void vb_f64_store2(pe_f64 *p, vf64 a, vf64 b, size_t n) {
    vf64_store2_f64(p, vf64_paired_f64(a), vf64_paired_f64(b), n, false);
}
static inline void vb_f64_stream2(pe_f64 *p, vf64 a, vf64 b) {
    vf64_store2_f64(p, vf64_paired_f64(a), vf64_paired_f64(b), 4, true);
}
#define vb_f64_stream vf64_stream_f64
