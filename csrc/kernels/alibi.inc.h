/* alibi.inc.h - the profile of a linear bias: out[i] = -slope |first + i|, and -later (first + i) above 0 (Press,
 * Smith and Lewis 2021, arXiv:2108.12409). later is slope (symmetric) or infinity (causal: keys after the query).
 * The product in float64, rounded once to the dtype: what leaves its range becomes infinite. 0 - x makes the zero on
 * the diagonal +0.0, whatever the sign of the slope. first and n: below 2^53 in magnitude, so distances are exact. */
static inline void KERNEL(alibi_ramp)(double slope, double distance, double step, size_t n, STORAGE *out) {
    double start[vf64_N];
    for (size_t k = 0; k < vf64_N; k++) start[k] = distance + step * (double)k;
    vf64 m = vf64_set1(slope), d = vf64_load_f64(start, vf64_N), next = vf64_set1(step * vf64_N), zero = vf64_set1(0.0);
    for (size_t k = 0; k < n; k += vf64_N) {
        B(store)(out + k, B(round)(vf64_sub(zero, vf64_mul(m, d))), n - k);
        d = vf64_add(d, next);
    }
}

static void KERNEL(alibi)(double slope, double later, int64_t first, size_t n, void *out) {
    size_t up_to_query = first > 0 ? 0 : (size_t)-first < n ? (size_t)-first + 1 : n;
    KERNEL(alibi_ramp)(slope, -(double)first, -1, up_to_query, out);
    KERNEL(alibi_ramp)(later, (double)first + (double)up_to_query, 1, n - up_to_query, (STORAGE *)out + up_to_query);
}
