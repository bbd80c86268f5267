/* sinusoidal.inc.h - rows of a table of sines and cosines, correctly rounded, from one anchor and many offsets:
 *   sin(a + o) = S_a C_o + C_a S_o,   cos(a + o) = C_a C_o - S_a S_o.
 * Every value is computed as an interval that holds the truth. Both ends round to the same number: that is the
 * nearest one (Ziv's test). Otherwise the lane is reported and pe_exact settles it, about one value in a million.
 *
 * To 24 bits and fewer: plain doubles. Anchor and offset are within 2^-52 each when they come from `sincos` (then
 * the anchor is exactly (0, 1)) and within 2^-54 + 2^-90 from double-double; with 3 roundings of at most 2^-54 the
 * sum is below 2^-51.2; the half width of the interval, dest->eps, is 2^-50.
 *
 * To 53 bits: the factors are split (see rotor.inc.h: `split`), anchor = H + L, offset = h + l:
 *   sin = (H_S h_C + H_C h_S)  exactly, + (F_S l_C + L_S h_C) + (F_C l_S + L_C h_S),   F = fl(H + L).
 * Inputs contribute 4.9 * 2^-81, the roundings of the second part at most 19 * 2^-81 without fma: below 2^-76.4; half
 * width 2^-76. 9 operations a value with fma and 14 without, where double-double products take 30. The same without
 * fma on AVX2 took 1.5 times as long.
 *
 * With a factor f the anchor is f times as long, and so are errors and interval: to 24 bits f is any number, and its
 * product with the anchor is part of the anchor's error; to 53 bits it is below 1 (see table.c), then a power of two
 * multiplies everything, exactly. Below 2^-126 a double must not pass for a float, so eps is at least 2^-120.
 *
 * What an ISA rounds on the way differs (fma or not), and with it who is a suspect; what is stored in the end does
 * not. rows <= PE_BLOCK. */
#ifndef PE_ROTATE
#define PE_ROTATE
typedef struct {
    vf64 lo, hi;
} interval;
static inline void rotate_f32(const double *a, const double *o, vf64 eps, interval *sine, interval *cosine) {
    vf64 S = vf64_load_f64(a, vf64_N), C = vf64_load_f64(a + PE_TILE, vf64_N);
    vf64 s = vf64_load_f64(o, vf64_N), c = vf64_load_f64(o + PE_TILE, vf64_N);
    vf64 sum = vf64_mad(C, s, vf64_mul(S, c)), dif = vf64_nmad(S, s, vf64_mul(C, c));
    *sine = (interval){vf64_sub(sum, eps), vf64_add(sum, eps)};
    *cosine = (interval){vf64_sub(dif, eps), vf64_add(dif, eps)};
}
static inline void rotate_f64(const double *a, const double *o, vf64 eps, interval *sine, interval *cosine) {
    vf64 HS = vf64_load_f64(a, vf64_N), HC = vf64_load_f64(a + PE_TILE, vf64_N);
    vf64 LS = vf64_load_f64(a + 2 * PE_TILE, vf64_N), LC = vf64_load_f64(a + 3 * PE_TILE, vf64_N);
    vf64 FS = vf64_load_f64(a + 4 * PE_TILE, vf64_N), FC = vf64_load_f64(a + 5 * PE_TILE, vf64_N);
    vf64 hs = vf64_load_f64(o, vf64_N), hc = vf64_load_f64(o + PE_TILE, vf64_N);
    vf64 ls = vf64_load_f64(o + 2 * PE_TILE, vf64_N), lc = vf64_load_f64(o + 3 * PE_TILE, vf64_N);
    vf64 minus_eps = vf64_sub(vf64_set1(0), eps), two_eps = vf64_add(eps, eps);
    vf64 sum = vf64_mad(HC, hs, vf64_mul(HS, hc)), dif = vf64_nmad(HS, hs, vf64_mul(HC, hc)); /* exact */
    vf64 sum_l = vf64_mad(LC, hs, vf64_mad(FC, ls, vf64_mad(LS, hc, vf64_mad(FS, lc, minus_eps))));
    vf64 dif_l = vf64_nmad(LS, hs, vf64_nmad(FS, ls, vf64_mad(LC, hc, vf64_mad(FC, lc, minus_eps))));
    *sine = (interval){vf64_add(sum, sum_l), vf64_add(sum, vf64_add(sum_l, two_eps))};
    *cosine = (interval){vf64_add(dif, dif_l), vf64_add(dif, vf64_add(dif_l, two_eps))};
}
#endif

/* One row, with the choices that do not change within it as constants. Returns the suspects. */
INLINE size_t KERNEL(sinusoidal_row)(const double *anchor, const double *o, size_t n, STORAGE *first, STORAGE *second,
                                     const bool pairs, const bool cos_first, const bool stream, vf64 eps, uint32_t row,
                                     uint32_t *suspects) {
    size_t found = 0;
    STORAGE
    held[2][PE_TILE]; /* of two streams past the caches: in turn, some pages apart, they took three times as long */
    const bool both = sizeof *first < 4;
    for (size_t k = 0; k < n; k += vf64_N) {
        interval s, c;
        PE_CAT(rotate_, C, )(anchor + k, o + k, eps, &s, &c);
        BITS s0 = B(round)(s.lo), s1 = B(round)(s.hi), c0 = B(round)(c.lo), c1 = B(round)(c.hi);
        if (__builtin_expect(B(any2)(s0, s1, c0, c1), 0))
            suspects[found++] = row << 16 | (uint32_t)k << 8 | B(differ)(s0, s1) | B(differ)(c0, c1) << 4;
        BITS u = cos_first ? c0 : s0, v = cos_first ? s0 : c0;
        if (stream && pairs) B(stream2)(first + 2 * k, u, v);
        else if (stream) {
            if (both) B(store)(held[0] + k, u, vf64_N);
            else B(stream)(first + k, u);
            B(store)(held[1] + k, v, vf64_N);
        } else if (pairs) B(store2)(first + 2 * k, u, v, n - k);
        else B(store)(first + k, u, n - k), B(store)(second + k, v, n - k);
    }
    for (int f = both ? 0 : 1; stream && !pairs && f < 2; f++)
        SHARED(expand)((const char *)held[f], 0, (char *)(f ? second : first), 0, n * sizeof *first, 1);
    return found;
}

/* anchor: planes S C (s c F_S F_C); offsets: rows rotors; the first n frequencies of the tile. Returns how many
 * suspects were written: row << 16 | first lane << 8 | lanes of the cosine << 4 | lanes of the sine (4 at a time).
 * dest->stream: n is a multiple of 8. */
static size_t KERNEL(sinusoidal)(const double *anchor, const double *offsets, size_t n, size_t rows,
                                 const pe_dest *dest, uint32_t *suspects) {
    size_t found = 0;
    vf64 eps = vf64_set1(dest->eps);
    for (size_t j = 0; j < rows; j++) {
        const double *o = offsets + 4 * j * PE_TILE;
        STORAGE *first = (STORAGE *)(dest->first + (ptrdiff_t)j * dest->first_row);
        STORAGE *second = (STORAGE *)(dest->second + (ptrdiff_t)j * dest->second_row);
        uint32_t row = (uint32_t)j, *next = suspects + found;
#define PE_ROW_AS(pairs, cos_first, stream) \
    KERNEL(sinusoidal_row)(anchor, o, n, first, second, pairs, cos_first, stream, eps, row, next)
        if (dest->stream && !dest->cos_first) {
            found += dest->pairs ? PE_ROW_AS(true, false, true) : PE_ROW_AS(false, false, true);
        } else if (dest->cos_first) {
            found += dest->pairs ? PE_ROW_AS(true, true, false) : PE_ROW_AS(false, true, false);
        } else {
            found += dest->pairs ? PE_ROW_AS(true, false, false) : PE_ROW_AS(false, false, false);
        }
#undef PE_ROW_AS
    }
    return found;
}
