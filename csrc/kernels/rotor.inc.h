/* rotor.inc.h - unit vectors (cos, sin) over many frequencies: from a phase, and as products of one another.
 * A plane holds one double per frequency, PE_TILE of them; the first n count (a multiple of 8). A rotor is four
 * planes S C s c: sine and cosine, high parts, then low parts. PE(p + k) = R(k) PE(p) is the product of rotors. */

/* An angle in turns, as a quarter and theta, |theta| <= 1/8: sine and cosine of the quarter are 0, 1 or -1; theta is
 * exact to 2^-110. (An integer below 2^52, or'ed into the bits of 2^52, is that sum; 2^84 takes multiples of 2^32.) */
static inline dd split_phase(const uint64_t *phase, vf64 *sine, vf64 *cosine) {
    vu64 hi = vu64_load(phase), lo = vu64_load(phase + PE_TILE), q = vu64_add(hi, vu64_set1(1ull << 61));
    vu64 odd = vu64_and(vu64_shr(q, 62), vu64_set1(1)), even = vu64_add(odd, vu64_set1(-1ull)); /* 0 or all ones */
    vu64 one = vu64_or(vu64_and(q, vu64_set1(1ull << 63)), vu64_set1(0x3ffull << 52));          /* 1, then -1 */
    *cosine = vu64_as_f64(vu64_and(even, one));
    *sine = vu64_as_f64(vu64_and(vu64_xor(even, vu64_set1(-1ull)), one));
    vu64 d = vu64_xor(vu64_shl(hi, 2), vu64_set1(1ull << 63)); /* theta 2^66 + 2^63 */
    vu64 top = vu64_or(vu64_shr(d, 32), vu64_set1(0x453ull << 52)), low = vu64_set1(0x433ull << 52);
    vu64 mid = vu64_or(vu64_and(d, vu64_set1(0xffffffff)), low), end = vu64_or(vu64_shr(lo, 12), low);
    vf64 a = vf64_sub(vu64_as_f64(top), vf64_set1(0x1p84 + 0x1p63)), b = vf64_sub(vu64_as_f64(mid), vf64_set1(0x1p52));
    vf64 c = vf64_mul(vf64_sub(vu64_as_f64(end), vf64_set1(0x1p52)), vf64_set1(0x1p-50));
    dd theta = fast_two_sum(a, b);
    vf64 unit = vf64_set1(0x1p-66);
    return (dd){vf64_mul(theta.hi, unit), vf64_mul(vf64_add(theta.lo, c), unit)};
}

/* a rotor from phases, the fraction of a turn in two planes, high 64 bits, then low. Low parts are zero here: error below
 * 2^-52, for results of 24 bits and fewer. */
static void SHARED(sincos)(const uint64_t *phase, size_t n, double *rotor) {
    const dd two_pi = dd_set(0x1.921fb54442d18p+2, 0x1.1a62633145c07p-52);
    for (size_t k = 0; k < n; k += vf64_N) {
        vf64 sq, cq;
        dd theta = split_phase(phase + k, &sq, &cq), x = dd_mul(theta, two_pi);
        vf64 z = vf64_mul(x.hi, x.hi), s = sin_f64(x, z), c = cos_f64(x, z), zero = vf64_set1(0.0);
        vf64_store_f64(rotor + k, vf64_add(vf64_mul(s, cq), vf64_mul(c, sq)), vf64_N);
        vf64_store_f64(rotor + PE_TILE + k, vf64_sub(vf64_mul(c, cq), vf64_mul(s, sq)), vf64_N);
        vf64_store_f64(rotor + 2 * PE_TILE + k, zero, vf64_N);
        vf64_store_f64(rotor + 3 * PE_TILE + k, zero, vf64_N);
    }
}

/* the same in double-double: error below 2^-100. Multiplying by 0 and 1 is exact. */
static void SHARED(sincos_dd)(const uint64_t *phase, size_t n, double *rotor) {
    const dd two_pi = dd_set(0x1.921fb54442d18p+2, 0x1.1a62633145c07p-52);
    for (size_t k = 0; k < n; k += vf64_N) {
        vf64 sq, cq;
        dd theta = split_phase(phase + k, &sq, &cq);
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
