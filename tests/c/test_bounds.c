/* test_bounds.c - the error bounds that correct rounding rests on, measured in 113-bit floats: those of the set-up
 * kernels, of products of rotors as deep as table.c makes them, and of the two intervals of kernels/sinusoidal.inc.h. */
#define pe_kernels_scalar scalar_again /* the scalar instance once more: its inner functions are wanted here */
#include "test.h"
#include "simd/vec_scalar.h"
#include "isa/instantiate.h"

#if __LDBL_MANT_DIG__ == 113
typedef long double quad;
#else
typedef __float128 quad;
#endif
enum { ROTOR = 4 * PE_TILE, DEEPEST = PE_BLOCK, STEPS = 16 };

static quad magnitude(quad x) { return x < 0 ? -x : x; }

/* log2, roughly: for the messages and for comparing with powers of two */
static double bits_of(quad x) {
    if (x == 0) return -999;
    int e = 0;
    for (; x >= 1; e++) x /= 2;
    for (; x < 0.5; e--) x *= 2;
    return e - 1 + (double)(2 * x - 1);
}

/* sine and cosine of 2 pi theta, |theta| <= 1/8, by Taylor's series: good to 2^-110 */
static void sin_cos_turns(quad theta, quad *s, quad *c) {
    const quad two_pi = (quad)0x1.921fb54442d18p+2 + (quad)0x1.1a62633145c07p-52 - (quad)0x1.f1976b7ed8fbcp-108;
    quad x = two_pi * theta, term = 1;
    *s = *c = 0;
    for (int k = 0; k < 34; k += 2) {
        *c += k % 4 ? -term : term, term *= x / (k + 1);
        *s += k % 4 ? -term : term, term *= x / (k + 2);
    }
}

/* An angle as a 128-bit fraction of a turn; as a phase of the kernels in lane k, and its true sine and cosine. */
typedef unsigned __int128 fraction;
typedef struct {
    quad s, c;
} truth;
static fraction random_fraction(void) { return (fraction)random64() << 64 | random64(); }
static truth phase_of(fraction t, uint64_t *phase, size_t k) {
    static const double quarter[5] = {0, 1, 0, -1, 0};
    unsigned q = (unsigned)((t + ((fraction)1 << 125)) >> 126);
    __int128 d = (__int128)(t - ((fraction)q << 126));
    phase[k] = (uint64_t)(t >> 64), phase[PE_TILE + k] = (uint64_t)t;
    quad s, c;
    sin_cos_turns((quad)d * 0x1p-128, &s, &c);
    return (truth){s * quarter[q + 1] + c * quarter[q], c * quarter[q + 1] - s * quarter[q]};
}

static quad worst_of(const double *rotor, size_t k, truth t, quad worst) {
    quad s = magnitude((quad)rotor[k] + rotor[2 * PE_TILE + k] - t.s);
    quad c = magnitude((quad)rotor[PE_TILE + k] + rotor[3 * PE_TILE + k] - t.c);
    worst = s > worst ? s : worst;
    return c > worst ? c : worst;
}

static void bound(const char *name, const char *isa, quad worst, double promised) {
    CHECK(bits_of(worst) <= promised, "%s_%s: 2^%.2f, promised 2^%.1f", name, isa, bits_of(worst), promised);
    if (getenv("VERBOSE")) printf("%-24s %-8s 2^%.2f < 2^%.1f\n", name, isa, bits_of(worst), promised);
}

static fraction special(size_t i) { /* near eighths of a turn, tiny, then anything */
    fraction eighth = (fraction)(i % 8) << 125;
    if (i < 64) return eighth + (random_fraction() >> (i + 20));
    if (i < 128) return eighth - (random_fraction() >> (i - 64 + 20));
    return random_fraction();
}

static void evaluations(const pe_kernels *k) {
    uint64_t phase[2 * PE_TILE];
    double rotor[ROTOR];
    truth t[PE_TILE];
    quad plain = 0, dd = 0;
    for (size_t again = 0; again < 2000; again++) {
        for (size_t i = 0; i < PE_TILE; i++) t[i] = phase_of(special(again * PE_TILE + i), phase, i);
        k->sincos(phase, PE_TILE, rotor);
        for (size_t i = 0; i < PE_TILE; i++) plain = worst_of(rotor, i, t[i], plain);
        k->sincos_dd(phase, PE_TILE, rotor);
        for (size_t i = 0; i < PE_TILE; i++) dd = worst_of(rotor, i, t[i], dd);
    }
    bound("sincos", k->isa, plain, -52);
    bound("sincos_dd", k->isa, dd, -100);
}

/* list[j] = list[1]^j as table.c has it */
static void powers(const pe_kernels *k, double (*list)[ROTOR], size_t count) {
    memset(list[0], 0, sizeof list[0]);
    for (size_t i = 0; i < PE_TILE; i++) list[0][PE_TILE + i] = 1;
    for (size_t m = 2; m < count; m *= 2) {
        k->rotate(list[m / 2], list[m / 2], 1, PE_TILE, list[m]);
        k->rotate(list[m], list[1], (m < count - m ? m : count - m) - 1, PE_TILE, list[m + 1]);
    }
}

/* rotate_f64 up to its last rounding, with fma and without: how far the middle between its two ends is off at most,
 * or an end from where it should be */
static double mad(double a, double b, double c, bool fused) { return fused ? (double)((quad)a * b + c) : c + a * b; }
static quad worst_ends(const double *A, const double *o, truth t, bool fused, quad worst) {
    double HS = A[0], HC = A[PE_TILE], LS = A[2 * PE_TILE], LC = A[3 * PE_TILE], FS = A[4 * PE_TILE],
           FC = A[5 * PE_TILE];
    double hs = o[0], hc = o[PE_TILE], ls = o[2 * PE_TILE], lc = o[3 * PE_TILE], eps = 0x1p-76;
    double s = mad(LC, hs, mad(FC, ls, mad(LS, hc, mad(FS, lc, -eps, fused), fused), fused), fused);
    double c = mad(-LS, hs, mad(-FS, ls, mad(LC, hc, mad(FC, lc, -eps, fused), fused), fused), fused);
    quad sine = (quad)HS * hc + (quad)HC * hs - t.s, cosine = (quad)HC * hc - (quad)HS * hs - t.c;
    quad off[4] = {sine + s + eps, sine + (s + 2 * eps) - eps, cosine + c + eps, cosine + (c + 2 * eps) - eps};
    for (int i = 0; i < 4; i++) worst = magnitude(off[i]) > worst ? magnitude(off[i]) : worst;
    return worst;
}

static double offsets[DEEPEST][ROTOR], steps[STEPS][ROTOR], split_offsets[DEEPEST][ROTOR];

static void products(const pe_kernels *k) {
    uint64_t phase[2 * PE_TILE];
    double base[ROTOR], anchor[ROTOR + 2 * PE_TILE], split_anchor[ROTOR + 2 * PE_TILE];
    fraction w[PE_TILE], b[PE_TILE];
    quad rotated = 0, deep = 0, halves = 0, narrow = 0, wide = 0;
    for (size_t again = 0; again < 30; again++) {
        for (size_t i = 0; i < PE_TILE; i++)
            w[i] = again % 2 ? special(i) : random_fraction(), b[i] = random_fraction();
        for (size_t i = 0; i < PE_TILE; i++) phase_of(w[i], phase, i);
        k->sincos_dd(phase, PE_TILE, offsets[1]);
        powers(k, offsets, DEEPEST);
        k->rotate(offsets[DEEPEST / 2], offsets[DEEPEST / 2], 1, PE_TILE, steps[1]);
        powers(k, steps, STEPS);
        for (size_t i = 0; i < PE_TILE; i++) phase_of(b[i], phase, i);
        k->sincos_dd(phase, PE_TILE, base);
        for (size_t j = 0; j < STEPS; j++) {
            k->rotate(base, steps[j], 1, PE_TILE, anchor);
            for (size_t i = 0; i < PE_TILE; i++) {
                truth t = phase_of(b[i] + (fraction)(j * DEEPEST) * w[i], phase, i);
                deep = worst_of(anchor, i, t, deep);
                /* against the product of what was given */
                quad bs = (quad)base[i] + base[2 * PE_TILE + i], bc = (quad)base[PE_TILE + i] + base[3 * PE_TILE + i];
                quad ss = (quad)steps[j][i] + steps[j][2 * PE_TILE + i];
                quad sc = (quad)steps[j][PE_TILE + i] + steps[j][3 * PE_TILE + i];
                rotated = worst_of(anchor, i, (truth){bs * sc + bc * ss, bc * sc - bs * ss}, rotated);
            }
        }
        memcpy(split_offsets, offsets, sizeof offsets);
        k->split(split_offsets[0], DEEPEST, PE_TILE);
        for (size_t j = 0; j < DEEPEST; j++)
            for (size_t i = 0; i < 2 * PE_TILE; i++) {
                double h = split_offsets[j][i], l = split_offsets[j][2 * PE_TILE + i];
                quad lost = magnitude((quad)h + l - ((quad)offsets[j][i] + offsets[j][2 * PE_TILE + i]));
                halves = lost > halves ? lost : halves;
                CHECK(h * 0x1p26 == (double)(int64_t)(h * 0x1p26), "split_%s: high part %a", k->isa, h);
            }
        memcpy(split_anchor, anchor, ROTOR * 8), memcpy(split_anchor + ROTOR, anchor, 2 * PE_TILE * 8);
        k->split(split_anchor, 1, PE_TILE);
        for (size_t j = 0; j < DEEPEST; j++)
            for (size_t i = 0; i < PE_TILE; i++) {
                truth t = phase_of(b[i] + (fraction)((STEPS - 1) * DEEPEST + j) * w[i], phase, i);
                interval s, c;
                rotate_f32(anchor + i, offsets[j] + i, 0x1p-50, &s, &c);
                CHECK(s.lo < t.s && t.s < s.hi && c.lo < t.c && t.c < c.hi, "the interval of 2^-50 misses");
                quad d = magnitude(((quad)s.lo + s.hi) / 2 - t.s), e = magnitude(((quad)c.lo + c.hi) / 2 - t.c);
                narrow = d > narrow ? d : narrow, narrow = e > narrow ? e : narrow;
                rotate_f64(split_anchor + i, split_offsets[j] + i, 0x1p-76, &s, &c);
                CHECK(s.lo <= s.hi && c.lo <= c.hi && (s.lo != s.hi || magnitude(t.s - s.lo) <= 0x1p-54) &&
                          (c.lo != c.hi || magnitude(t.c - c.lo) <= 0x1p-54),
                      "not the nearest float64");
                const double *A = split_anchor + i, *o = split_offsets[j] + i;
                CHECK((quad)(A[0] * o[PE_TILE] + A[PE_TILE] * o[0]) ==
                          (quad)A[0] * o[PE_TILE] + (quad)A[PE_TILE] * o[0],
                      "products of high parts round");
                for (int fused = 0; fused < 2; fused++) wide = worst_ends(A, o, t, fused, wide);
            }
    }
    bound("rotate", k->isa, rotated, -101);
    bound("anchor of a table", k->isa, deep, -90);
    bound("split", k->isa, halves, -81);
    bound("values to 24 bits", k->isa, narrow, -51.2);
    bound("values to 53 bits", k->isa, wide, -76.4);
}

/* positions that do not follow each other: the anchor is (0, 1) and the offset comes from `sincos` */
static void direct(const pe_kernels *k) {
    uint64_t phase[2 * PE_TILE];
    double rotor[ROTOR], one[ROTOR] = {0};
    for (size_t i = 0; i < PE_TILE; i++) one[PE_TILE + i] = 1;
    truth t[PE_TILE];
    quad worst = 0;
    for (size_t again = 0; again < 1000; again++) {
        for (size_t i = 0; i < PE_TILE; i++) t[i] = phase_of(special(again * PE_TILE + i), phase, i);
        k->sincos(phase, PE_TILE, rotor);
        for (size_t i = 0; i < PE_TILE; i++) {
            interval s, c;
            rotate_f32(one + i, rotor + i, 0x1p-50, &s, &c);
            CHECK(s.lo < t[i].s && t[i].s < s.hi && c.lo < t[i].c && t[i].c < c.hi, "the interval of 2^-50 misses");
            quad d = magnitude(((quad)s.lo + s.hi) / 2 - t[i].s), e = magnitude(((quad)c.lo + c.hi) / 2 - t[i].c);
            worst = d > worst ? d : worst, worst = e > worst ? e : worst;
        }
    }
    bound("direct values to 24 bits", k->isa, worst, -51.2);
}

int main(void) {
    for (int isa = 0; isa < PE_NISA; isa++) {
        const pe_kernels *k = pe_kernels_for((pe_isa)isa);
        if (!k) continue;
        evaluations(k), products(k), direct(k);
    }
    return test_end("bounds");
}
