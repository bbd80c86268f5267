/* test_half.c - conversions to and from float16 and bfloat16: every number widened; narrowed at, just below and just
 * above every midpoint, from float32 and from float64, by simd/half.h and by the kernels of every ISA. */
#include "test.h"
#include "simd/half.h"

typedef struct {
    pe_dtype type;
    int mantissa, bias; /* of the format's definition: (-1)^s 2^(e - bias) (1 + m 2^-mantissa) */
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
} format;
static const format formats[2] = {{PE_F16, 10, 15, pe_f16_to_f32, pe_f32_to_f16},
                                  {PE_BF16, 7, 127, pe_bf16_to_f32, pe_f32_to_bf16}};

/* the value by the definition, in double; the exponent of all ones continues the powers of two */
static double value(const format *f, uint16_t h) {
    int e = (h & 0x7fff) >> f->mantissa, m = h & ((1 << f->mantissa) - 1);
    double v = e ? 1 + (double)m / (1 << f->mantissa) : 2 * (double)m / (1 << f->mantissa);
    for (int k = e - f->bias; k > 0; k--) v *= 2;
    for (int k = e - f->bias; k < 0; k++) v /= 2;
    return h >> 15 ? -v : v;
}
static double step(double v, int by) { /* v's neighbour, away from zero or towards it */
    uint64_t u;
    memcpy(&u, &v, 8);
    u += (uint64_t)by;
    memcpy(&v, &u, 8);
    return v;
}
static uint16_t infinity_of(const format *f) { return (uint16_t)(0x7fff >> f->mantissa << f->mantissa); }

static void widen(const format *f) {
    uint16_t infinity = infinity_of(f);
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t magnitude = h & 0x7fff;
        float v = f->widen((uint16_t)h);
        if (magnitude > infinity) CHECK(v != v && f->narrow(v) == (h | 1u << (f->mantissa - 1)), "NaN %04x", h);
        else if (magnitude == infinity)
            CHECK(v == (h >> 15 ? -1.0f : 1.0f) / 0.0f && f->narrow(v) == h, "infinity %04x", h);
        else
            CHECK((double)v == value(f, (uint16_t)h) && f->narrow(v) == h && !(v == 0 && pe_bits_f32(v) != h << 16),
                  "%04x", h);
    }
}

/* one double, and where it is one the float32, to the expected number: by half.h and by -slope |first| of alibi */
static void expect(const format *f, double v, uint16_t right) {
    if ((double)(float)v == v)
        CHECK(f->narrow((float)v) == right, "%a gives %04x, not %04x", v, f->narrow((float)v), right);
    for (int isa = 0; isa < PE_NISA; isa++) {
        const pe_kernels *k = pe_kernels_for((pe_isa)isa);
        if (!k || v == 0) continue;
        uint16_t got;
        k->alibi[f->type](-v, -v, random_below(2) ? 1 : -1, 1, &got);
        CHECK(got == right, "%s_%s: %a gives %04x, not %04x", test_dtypes[f->type], k->isa, v, got, right);
    }
}

static void narrow(const format *f) {
    uint16_t infinity = infinity_of(f);
    for (uint16_t sign = 0, twice = 0; twice < 2; twice++, sign = 0x8000)
        for (uint16_t h = 0; h < infinity; h++) {
            double low = value(f, h | sign), high = value(f, (uint16_t)(h + 1) | sign), middle = (low + high) / 2;
            uint16_t a = h | sign, b = (uint16_t)(h + 1) | sign;
            expect(f, middle, h & 1 ? b : a);
            /* float64: below 2^-126 such doubles go to pe_exact, never through here */
            bool normal = middle > 0x1p-120 || middle < -0x1p-120;
            if (normal) expect(f, step(middle, -1), a), expect(f, step(middle, 1), b);
            expect(f, (float)low, a);
            uint32_t u = pe_bits_f32((float)middle);
            if ((double)pe_f32_bits(u) == middle && u << 1) {
                CHECK(f->narrow(pe_f32_bits(u - 1)) == a, "float32 below %a", middle);
                CHECK(f->narrow(pe_f32_bits(u + 1)) == b, "float32 above %a", middle);
            }
            double inside = low + (high - low) * (random_unit() + 1) / 4;
            if (normal) expect(f, inside, a);
        }
    CHECK(f->narrow(3.4028234e38f) == infinity && f->narrow(-3.4028234e38f) == (infinity | 0x8000), "overflow");
    CHECK(f->narrow(1e-45f) == 0 && f->narrow(-1e-45f) == 0x8000, "underflow");
}

/* kernels that go by float32: x + table at midpoints and beside them, on every ISA, against half.h */
static void sums(const format *f) {
    uint16_t x[64], table[64], out[64];
    for (int isa = 0; isa < PE_NISA; isa++) {
        const pe_kernels *k = pe_kernels_for((pe_isa)isa);
        for (int again = 0; k && again < 20000; again++) {
            size_t n = 1 + random_below(64);
            for (size_t i = 0; i < n; i++) {
                x[i] = (uint16_t)random64();
                int down = (int)random_below((size_t)f->mantissa + 3);
                table[i] = (uint16_t)((x[i] & 0xffff << f->mantissa) - (down << f->mantissa)) ^
                           (uint16_t)(random64() & 0x8001);
            }
            pe_rows r = {(char *)x, (char *)table, (char *)out, 0, 0, 0, 1, false};
            k->add[f->type](&r, n);
            for (size_t i = 0; i < n; i++) {
                float sum = f->widen(x[i]) + f->widen(table[i]);
                if (sum == sum) CHECK(out[i] == f->narrow(sum), "add_%s: %04x + %04x", k->isa, x[i], table[i]);
                else CHECK((out[i] & 0x7fff) > infinity_of(f), "add_%s: NaN %04x + %04x", k->isa, x[i], table[i]);
            }
        }
    }
}

int main(void) {
    for (int i = 0; i < 2; i++) widen(formats + i), narrow(formats + i), sums(formats + i);
    return test_end("half");
}
