/* names.h - token glue. S: the storage dtype (f16 bf16 f32 f64); C: the dtype of arithmetic (f32 f64). */
#define PE_CAT_(a, b, c) a##b##c
#define PE_CAT(a, b, c) PE_CAT_(a, b, c)
#define PE_STR_(a) #a
#define PE_STR(a) PE_STR_(a)
#define PE_INSTANCE(name, s) PE_CAT(PE_CAT(name, _, s), _, PE_ISA) /* rope_f16_avx2 */
#define KERNEL(name) PE_INSTANCE(name, S)
#define SHARED(name) PE_CAT(name, _, PE_ISA) /* a kernel that knows one dtype only */

#define INLINE static inline __attribute__((always_inline)) /* for functions that take constants as arguments */

#define STORAGE PE_CAT(pe_, S, )
#define COMPUTE PE_CAT(pe_, C, )
#define VEC PE_CAT(v, C, )                        /* a vector of C */
#define V(op) PE_CAT(VEC, _, op)                  /* vf32_mul */
#define VN PE_CAT(VEC, _, N)                      /* its lanes */
#define LOAD(p, n) PE_CAT(V(load_), S, )(p, n)    /* S in memory -> C in a vector; n lanes count */
#define STORE(p, v, n) PE_CAT(V(store_), S, )(p, v, n)
/* a to p and b to q; with stream, whole vectors past the caches, to multiples of 16 bytes */
#define STORE_AT(p, q, a, b, n, stream) PE_CAT(V(store_at_), S, )(p, q, a, b, n, stream)
#define STREAM(p, v) PE_CAT(V(stream_), S, )(p, v)
#define LOAD2(p, a, b, n) PE_CAT(V(load2_), S, )(p, a, b, n) /* n pairs, taken apart, in an order of their own: */
#define PAIRED(v) PE_CAT(V(paired_), S, )(v) /* a vector in that order */
#define STORE2(p, a, b, n, stream) PE_CAT(V(store2_), S, )(p, a, b, n, stream) /* n pairs that come in that order */
#define BITS PE_CAT(vb_, S, )                     /* a vf64 rounded once to S, as bits */
#define B(op) PE_CAT(BITS, _, op)
