/* rotor.inc.h - unit vectors (cos, sin) over many frequencies: from a phase, and as products of one another.
 * A plane holds one double per frequency, PE_TILE of them; the first n count (a multiple of 8). A rotor is four
 * planes S C s c: sine and cosine, high parts, then low parts. PE(p + k) = R(k) PE(p) is the product of rotors. */

/* rotor[4] from phase[4] = theta hi, theta lo (turns, |theta| <= 1/8), cos and sin of the quarter (0, 1 or -1).
 * Low parts are zero here: error below 2^-52, for results of 24 bits and fewer. */
static void SHARED(sincos)(const double *phase, size_t n, double *rotor) {
    const dd two_pi = dd_set(0x1.921fb54442d18p+2, 0x1.1a62633145c07p-52);
    for (size_t k = 0; k < n; k += vf64_N) {
        dd theta = {vf64_load_f64(phase + k, vf64_N), vf64_load_f64(phase + PE_TILE + k, vf64_N)};
        vf64 cq = vf64_load_f64(phase + 2 * PE_TILE + k, vf64_N), sq = vf64_load_f64(phase + 3 * PE_TILE + k, vf64_N);
        dd x = dd_mul(theta, two_pi);
        vf64 z = vf64_mul(x.hi, x.hi), s = sin_f64(x, z), c = cos_f64(x, z), zero = vf64_set1(0.0);
        vf64_store_f64(rotor + k, vf64_add(vf64_mul(s, cq), vf64_mul(c, sq)), vf64_N);
        vf64_store_f64(rotor + PE_TILE + k, vf64_sub(vf64_mul(c, cq), vf64_mul(s, sq)), vf64_N);
        vf64_store_f64(rotor + 2 * PE_TILE + k, zero, vf64_N);
        vf64_store_f64(rotor + 3 * PE_TILE + k, zero, vf64_N);
    }
}

/* the same in double-double: error below 2^-100. Multiplying by 0 and 1 is exact. */
static void SHARED(sincos_dd)(const double *phase, size_t n, double *rotor) {
    const dd two_pi = dd_set(0x1.921fb54442d18p+2, 0x1.1a62633145c07p-52);
    for (size_t k = 0; k < n; k += vf64_N) {
        dd theta = {vf64_load_f64(phase + k, vf64_N), vf64_load_f64(phase + PE_TILE + k, vf64_N)};
        vf64 cq = vf64_load_f64(phase + 2 * PE_TILE + k, vf64_N), sq = vf64_load_f64(phase + 3 * PE_TILE + k, vf64_N);
        dd x = dd_mul(theta, two_pi), z = dd_mul(x, x), s = sin_dd(x, z), c = cos_dd(z);
        vf64_store_f64(rotor + k, vf64_add(vf64_mul(s.hi, cq), vf64_mul(c.hi, sq)), vf64_N);
        vf64_store_f64(rotor + PE_TILE + k, vf64_sub(vf64_mul(c.hi, cq), vf64_mul(s.hi, sq)), vf64_N);
        vf64_store_f64(rotor + 2 * PE_TILE + k, vf64_add(vf64_mul(s.lo, cq), vf64_mul(c.lo, sq)), vf64_N);
        vf64_store_f64(rotor + 3 * PE_TILE + k, vf64_sub(vf64_mul(c.lo, cq), vf64_mul(s.lo, sq)), vf64_N);
    }
}

/* out[j] = a b[j] for j < count: each product adds at most 2^-101 to the errors of its factors.
 * out may be b, or follow b in one list. */
static void SHARED(rotate)(const double *a, const double *b, size_t count, size_t n, double *out) {
    for (size_t k = 0; k < n; k += vf64_N) {
        dd as = {vf64_load_f64(a + k, vf64_N), vf64_load_f64(a + 2 * PE_TILE + k, vf64_N)};
        dd ac = {vf64_load_f64(a + PE_TILE + k, vf64_N), vf64_load_f64(a + 3 * PE_TILE + k, vf64_N)};
        for (size_t j = 0; j < count; j++) {
            const double *bj = b + 4 * j * PE_TILE + k;
            double *o = out + 4 * j * PE_TILE + k;
            dd bs = {vf64_load_f64(bj, vf64_N), vf64_load_f64(bj + 2 * PE_TILE, vf64_N)};
            dd bc = {vf64_load_f64(bj + PE_TILE, vf64_N), vf64_load_f64(bj + 3 * PE_TILE, vf64_N)};
            dd s = dd_add(dd_mul(as, bc), dd_mul(ac, bs)), c = dd_add(dd_mul(ac, bc), dd_neg(dd_mul(as, bs)));
            vf64_store_f64(o, s.hi, vf64_N);
            vf64_store_f64(o + PE_TILE, c.hi, vf64_N);
            vf64_store_f64(o + 2 * PE_TILE, s.lo, vf64_N);
            vf64_store_f64(o + 3 * PE_TILE, c.lo, vf64_N);
        }
    }
}

/* count rotors in place: the high parts rounded to multiples of 2^-26, the rest moved into the low parts, whose
 * error is then 2^-81: products of two high parts, and the sum of two such products, are exact in double. */
static void SHARED(split)(double *rotor, size_t count, size_t n) {
    const vf64 snap = vf64_set1(0x1.8p+26); /* ulp 2^-26 */
    for (size_t j = 0; j < 2 * count; j++) {
        double *hi = rotor + (4 * (j / 2) + j % 2) * PE_TILE, *lo = hi + 2 * PE_TILE;
        for (size_t k = 0; k < n; k += vf64_N) {
            vf64 h = vf64_load_f64(hi + k, vf64_N), l = vf64_load_f64(lo + k, vf64_N);
            vf64 short_h = vf64_sub(vf64_add(h, snap), snap);
            vf64_store_f64(hi + k, short_h, vf64_N);
            vf64_store_f64(lo + k, vf64_add(vf64_sub(h, short_h), l), vf64_N);
        }
    }
}
