/* eft.h - error-free transforms of two doubles: what a rounding loses, exactly. For the scalar ISA and the set-up. */
#ifndef POSENC_EFT_H
#define POSENC_EFT_H

/* a * b = the result + *err. Dekker's split; an ISA with fma gets the same *err from one. */
static inline double pe_two_prod(double a, double b, double *err) {
    double p = a * b, ta = 134217729.0 * a, tb = 134217729.0 * b;
    double ah = ta - (ta - a), al = a - ah, bh = tb - (tb - b), bl = b - bh;
    *err = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return p;
}
/* a + b = the result + *err (Knuth) */
static inline double pe_two_sum(double a, double b, double *err) {
    double s = a + b, v = s - a;
    *err = (a - (s - v)) + (b - v);
    return s;
}
#endif
