/* vec_scalar.h - the vocabulary, one lane: the meaning of every other vec_*.h, and the fallback.
 * load/store take the count n of lanes that exist (n >= 1; more than the lanes of the vector: all of them). */
#include "eft.h"
#include "half.h"
#define PE_ISA scalar
#define vf32_N 1
#define vf64_N 1
typedef float vf32;
typedef double vf64;

static inline vf32 vf32_set1(float a) { return a; }
static inline vf32 vf32_add(vf32 a, vf32 b) { return a + b; }
static inline vf32 vf32_sub(vf32 a, vf32 b) { return a - b; }
static inline vf32 vf32_mul(vf32 a, vf32 b) { return a * b; }
static inline vf64 vf64_set1(double a) { return a; }
static inline vf64 vf64_add(vf64 a, vf64 b) { return a + b; }
static inline vf64 vf64_sub(vf64 a, vf64 b) { return a - b; }
static inline vf64 vf64_mul(vf64 a, vf64 b) { return a * b; }
/* c + a * b and c - a * b, rounded once or twice as the ISA has it: only where an error bound covers both, and what
 * comes out is decided by a rounding test, so that it cannot be seen which */
static inline vf64 vf64_mad(vf64 a, vf64 b, vf64 c) { return c + a * b; }
static inline vf64 vf64_nmad(vf64 a, vf64 b, vf64 c) { return c - a * b; }
static inline vf64 vf64_two_prod(vf64 a, vf64 b, vf64 *err) { return pe_two_prod(a, b, err); }

/* as many integers of 64 bits as there are doubles */
typedef uint64_t vu64;
static inline vu64 vu64_load(const uint64_t *p) { return *p; }
static inline vu64 vu64_set1(uint64_t a) { return a; }
static inline vu64 vu64_add(vu64 a, vu64 b) { return a + b; }
static inline vu64 vu64_and(vu64 a, vu64 b) { return a & b; }
static inline vu64 vu64_or(vu64 a, vu64 b) { return a | b; }
static inline vu64 vu64_xor(vu64 a, vu64 b) { return a ^ b; }
static inline vu64 vu64_shl(vu64 a, int n) { return a << n; }
static inline vu64 vu64_shr(vu64 a, int n) { return a >> n; }
static inline vf64 vu64_as_f64(vu64 a) { /* the same bits */
    double v;
    memcpy(&v, &a, 8);
    return v;
}

#define PE_SCALAR_IO(C, S, FROM, TO)                                                                      \
    static inline v##C v##C##_load_##S(const pe_##S *p, size_t n) {                                       \
        (void)n;                                                                                          \
        return FROM(*p);                                                                                  \
    }                                                                                                     \
    static inline void v##C##_store_##S(pe_##S *p, v##C v, size_t n) {                                    \
        (void)n;                                                                                          \
        *p = TO(v);                                                                                       \
    }                                                                                                     \
    static inline void v##C##_stream_##S(pe_##S *p, v##C v) { *p = TO(v); }                               \
    static inline void v##C##_store_at_##S(pe_##S *p, pe_##S *q, v##C a, v##C b, size_t n, bool stream) { \
        (void)n, (void)stream;                                                                            \
        *p = TO(a), *q = TO(b);                                                                           \
    }                                                                                                     \
    static inline v##C v##C##_paired_##S(v##C v) { return v; }                                            \
    static inline void v##C##_load2_##S(const pe_##S *p, v##C *a, v##C *b, size_t n) {                    \
        (void)n;                                                                                          \
        *a = FROM(p[0]), *b = FROM(p[1]);                                                                 \
    }                                                                                                     \
    static inline void v##C##_store2_##S(pe_##S *p, v##C a, v##C b, size_t n, bool stream) {              \
        (void)n, (void)stream;                                                                            \
        p[0] = TO(a), p[1] = TO(b);                                                                       \
    }
PE_SCALAR_IO(f32, f16, pe_f16_to_f32, pe_f32_to_f16)
PE_SCALAR_IO(f32, bf16, pe_bf16_to_f32, pe_f32_to_bf16)
PE_SCALAR_IO(f32, f32, , )
PE_SCALAR_IO(f64, f64, , )

/* doubles rounded once to S: compared as bits, then stored */
#define PE_SCALAR_BITS(S, ROUND)                                                                         \
    typedef pe_##S vb_##S;                                                                               \
    static inline vb_##S vb_##S##_round(vf64 v) { return ROUND(v); }                                     \
    static inline unsigned vb_##S##_differ(vb_##S a, vb_##S b) { return memcmp(&a, &b, sizeof a) != 0; } \
    static inline unsigned vb_##S##_any2(vb_##S a, vb_##S b, vb_##S c, vb_##S d) {                       \
        return vb_##S##_differ(a, b) | vb_##S##_differ(c, d);                                            \
    }                                                                                                    \
    static inline void vb_##S##_store(pe_##S *p, vb_##S v, size_t n) {                                   \
        (void)n;                                                                                         \
        *p = v;                                                                                          \
    }                                                                                                    \
    static inline void vb_##S##_store2(pe_##S *p, vb_##S a, vb_##S b, size_t n) {                        \
        (void)n;                                                                                         \
        p[0] = a, p[1] = b;                                                                              \
    }                                                                                                    \
    static inline void vb_##S##_stream(pe_##S *p, vb_##S v) { *p = v; }                                  \
    static inline void vb_##S##_stream2(pe_##S *p, vb_##S a, vb_##S b) { p[0] = a, p[1] = b; }
static inline pe_f16 pe_round_f16(double v) { return pe_f32_to_f16(pe_f64_to_odd_f32(v)); }
static inline pe_bf16 pe_round_bf16(double v) { return pe_f32_to_bf16(pe_f64_to_odd_f32(v)); }
PE_SCALAR_BITS(f16, pe_round_f16)
PE_SCALAR_BITS(bf16, pe_round_bf16)
PE_SCALAR_BITS(f32, (float))
PE_SCALAR_BITS(f64, )
