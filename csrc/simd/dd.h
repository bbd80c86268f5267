/* dd.h - double-double: an unevaluated sum hi + lo, |lo| <= ulp(hi), by error-free transforms only, so every
 * ISA gives the same bits. Errors are relative to the exact result of the operation. */
typedef struct {
    vf64 hi, lo;
} dd;

static inline dd dd_set(double hi, double lo) { return (dd){vf64_set1(hi), vf64_set1(lo)}; }
/* a + b exactly (Knuth) */
static inline dd two_sum(vf64 a, vf64 b) {
    vf64 s = vf64_add(a, b), v = vf64_sub(s, a);
    return (dd){s, vf64_add(vf64_sub(a, vf64_sub(s, v)), vf64_sub(b, v))};
}
/* the same for |a| >= |b| (Dekker) */
static inline dd fast_two_sum(vf64 a, vf64 b) {
    vf64 s = vf64_add(a, b);
    return (dd){s, vf64_sub(b, vf64_sub(s, a))};
}
/* error below 3 * 2^-105 */
static inline dd dd_mul(dd a, dd b) {
    vf64 e, p = vf64_two_prod(a.hi, b.hi, &e);
    e = vf64_add(e, vf64_add(vf64_mul(a.hi, b.lo), vf64_mul(a.lo, b.hi)));
    return fast_two_sum(p, e);
}
/* error below 2^-104 (|a| + |b|): absolute, so cancellation is in the open */
static inline dd dd_add(dd a, dd b) {
    dd s = two_sum(a.hi, b.hi);
    return fast_two_sum(s.hi, vf64_add(s.lo, vf64_add(a.lo, b.lo)));
}
static inline dd dd_neg(dd a) {
    vf64 zero = vf64_set1(0.0);
    return (dd){vf64_sub(zero, a.hi), vf64_sub(zero, a.lo)};
}
