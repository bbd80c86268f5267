/* sincos.inc.h - sine and cosine of a reduced phase, in double (error below 2^-52) and in double-double
 * (below 2^-100). Taylor's series: coefficients anyone can check, and in |x| <= pi/4 a minimax polynomial saves
 * one term. SIN[k] x^(2k+1), COS[k] x^(2k); the first terms carry a low part. */
enum { DD_SIN = 8, DD_COS = 9, SIN_TERMS = 14, COS_TERMS = 15 };
static const double SIN[SIN_TERMS][2] = {{0x1.0000000000000p+0, 0x0.0p+0},
                                         {-0x1.5555555555555p-3, -0x1.5555555555555p-57},
                                         {0x1.1111111111111p-7, 0x1.1111111111111p-63},
                                         {-0x1.a01a01a01a01ap-13, -0x1.a01a01a01a01ap-73},
                                         {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
                                         {-0x1.ae64567f544e4p-26, 0x1.c062e06d1f209p-80},
                                         {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
                                         {-0x1.ae7f3e733b81fp-41, -0x1.1d8656b0ee8cbp-97},
                                         {0x1.952c77030ad4ap-49, 0},
                                         {-0x1.2f49b46814157p-57, 0},
                                         {0x1.71b8ef6dcf572p-66, 0},
                                         {-0x1.761b41316381ap-75, 0},
                                         {0x1.3f3ccdd165fa9p-84, 0},
                                         {-0x1.d1ab1c2dccea3p-94, 0}};
static const double COS[COS_TERMS][2] = {{0x1.0000000000000p+0, 0x0.0p+0},
                                         {-0x1.0000000000000p-1, 0x0.0p+0},
                                         {0x1.5555555555555p-5, 0x1.5555555555555p-59},
                                         {-0x1.6c16c16c16c17p-10, 0x1.f49f49f49f49fp-65},
                                         {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
                                         {-0x1.27e4fb7789f5cp-22, -0x1.cbbc05b4fa99ap-76},
                                         {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83},
                                         {-0x1.93974a8c07c9dp-37, -0x1.05d6f8a2efd1fp-92},
                                         {0x1.ae7f3e733b81fp-45, 0x1.1d8656b0ee8cbp-101},
                                         {-0x1.6827863b97d97p-53, 0},
                                         {0x1.e542ba4020225p-62, 0},
                                         {-0x1.0ce396db7f853p-70, 0},
                                         {0x1.f2cf01972f578p-80, 0},
                                         {-0x1.88e85fc6a4e5ap-89, 0},
                                         {0x1.0a18a2635085dp-98, 0}};

/* c[0] + c[1] z + ... in double from the last term down to c[first] */
static inline vf64 tail(const double (*c)[2], int first, int last, vf64 z) {
    vf64 r = vf64_set1(c[last][0]);
    for (int k = last; k-- > first;) r = vf64_add(vf64_mul(r, z), vf64_set1(c[k][0]));
    return r;
}
static inline dd series_dd(const double (*c)[2], int dd_terms, int last, dd z) {
    dd r = {tail(c, dd_terms, last, z.hi), vf64_set1(0.0)};
    for (int k = dd_terms; k-- > 0;) r = dd_add(dd_mul(r, z), dd_set(c[k][0], c[k][1]));
    return r;
}
static inline dd sin_dd(dd x, dd z) { return dd_mul(series_dd(SIN, DD_SIN, SIN_TERMS - 1, z), x); }
static inline dd cos_dd(dd z) { return series_dd(COS, DD_COS, COS_TERMS - 1, z); }

/* z = x.hi^2; the term in x.lo is the derivative's */
static inline vf64 sin_f64(dd x, vf64 z) {
    vf64 r = vf64_mul(vf64_mul(x.hi, z), tail(SIN, 1, 8, z));
    vf64 half = vf64_mul(z, vf64_set1(0.5));
    return vf64_add(x.hi, vf64_add(r, vf64_sub(x.lo, vf64_mul(x.lo, half))));
}
static inline vf64 cos_f64(dd x, vf64 z) {
    vf64 one = vf64_set1(1.0), half = vf64_mul(z, vf64_set1(0.5)), w = vf64_sub(one, half);
    vf64 r = vf64_sub(vf64_mul(vf64_mul(z, z), tail(COS, 2, 9, z)), vf64_mul(x.hi, x.lo));
    return vf64_add(w, vf64_add(vf64_sub(vf64_sub(one, w), half), r));
}
