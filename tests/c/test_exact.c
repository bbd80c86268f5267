/* test_exact.c - frequencies to 256 bits and the slow path, against numbers computed elsewhere (golden.h), and
 * positions against the integers they stand for. */
#include "test.h"
#include "golden.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
typedef __int128 int128;
static const pe_factor ONE = {1, false};

static pe_pos position(double p) {
    pe_positions one = {PE_POS_F64, &p, 0, false};
    return pe_pos_at(&one, 0);
}

static void sines(void) {
    pe_num w;
    pe_powers(PE_TURNS, 10000, 32, 1, 1, &w); /* one radian */
    for (size_t g = 0; g < COUNT(golden_sines); g++)
        for (int t = 0; t < PE_NDTYPE; t++)
            for (int cosine = 0; cosine < 2; cosine++) {
                uint64_t right = (cosine ? golden_sines[g].cosine : golden_sines[g].sine)[t];
                uint64_t got = pe_exact(&w, position(golden_sines[g].p), cosine, ONE, (pe_dtype)t);
                CHECK(got == right, "%s of %a as %s: %llx, not %llx", cosine ? "cos" : "sin", golden_sines[g].p,
                      test_dtypes[t], (unsigned long long)got, (unsigned long long)right);
            }
    pe_num none = {.exp = 0}; /* a frequency of zero turns nothing */
    for (int t = 0; t < PE_NDTYPE; t++)
        CHECK(pe_exact(&none, position(1e18), false, ONE, (pe_dtype)t) == 0 &&
                  pe_exact(&none, position(-1e18), true, ONE, (pe_dtype)t) == golden_sines[0].cosine[t],
              "0 turns, %s", test_dtypes[t]);
    /* sin(-x) = -sin x, cos(-x) = cos x, to the bit */
    for (int i = 0; i < 2000; i++) {
        double p = random_unit() * (double)(1ull << random_below(63));
        for (int t = 0; t < PE_NDTYPE; t++) {
            uint64_t sign = 1ull << (8 * pe_itemsize((pe_dtype)t) - 1);
            CHECK(pe_exact(&w, position(p), false, ONE, (pe_dtype)t) ==
                          (pe_exact(&w, position(-p), false, ONE, (pe_dtype)t) ^ sign) &&
                      pe_exact(&w, position(p), true, ONE, (pe_dtype)t) ==
                          pe_exact(&w, position(-p), true, ONE, (pe_dtype)t),
                  "%a", p);
        }
        /* powers of two shift the exponent; f16 becomes 0 and infinite */
        uint64_t one = pe_exact(&w, position(p), true, ONE, PE_F64);
        CHECK(pe_exact(&w, position(p), true, (pe_factor){0x1p-100, false}, PE_F64) == one - (100ull << 52) &&
                  pe_exact(&w, position(p), true, (pe_factor){0x1p100, false}, PE_F64) == one + (100ull << 52),
              "%a", p);
        if ((one >> 52 & 2047) < 1000) continue; /* near a zero of the cosine */
        uint64_t sign = one >> 48 & 0x8000;
        CHECK(pe_exact(&w, position(p), true, (pe_factor){0x1p-60, false}, PE_F16) == sign &&
                  pe_exact(&w, position(p), true, (pe_factor){0x1p60, false}, PE_F16) == (sign | 0x7c00),
              "%a", p);
    }
}

/* |a - b| in units of 2^-256 of the larger power of two; a and b are close */
static uint64_t apart(const pe_num *a, const uint64_t mant[4], int64_t exp) {
    if (a->exp != exp) { /* 0.1000... * 2^(e + 1) beside 0.1111... * 2^e */
        const uint64_t *low = a->exp < exp ? a->mant : mant, *high = a->exp < exp ? mant : a->mant;
        if (a->exp - exp != 1 && exp - a->exp != 1) return UINT64_MAX;
        return high[3] == 1ull << 63 && !high[2] && !high[1] && !~low[3] && !~low[2] && !~low[1]
                   ? high[0] + (0 - low[0])
                   : UINT64_MAX;
    }
    uint64_t d[4], borrow = 0;
    for (int k = 0; k < 4; k++) {
        int128 t = (int128)a->mant[k] - mant[k] - (int128)borrow;
        d[k] = (uint64_t)t, borrow = t < 0;
    }
    if (borrow)
        for (int k = 0, carry = 1; k < 4; k++) d[k] = ~d[k] + (uint64_t)carry, carry = carry && d[k] == 0;
    return d[1] | d[2] | d[3] ? UINT64_MAX : d[0];
}

static void powers(void) {
    static const pe_unit units[3] = {PE_RADIANS, PE_TURNS, PE_WAVELENGTHS};
    for (size_t g = 0; g < COUNT(golden_powers); g++) {
        size_t count = golden_powers[g].i + 1;
        pe_num *list = malloc(count * sizeof *list);
        pe_powers(units[golden_powers[g].unit], golden_powers[g].base, golden_powers[g].denom, golden_powers[g].scale,
                  count, list);
        uint64_t d = apart(list + count - 1, golden_powers[g].mant, golden_powers[g].exp);
        CHECK(d <= 4 * (golden_powers[g].i + 4), "base %a, denom %a, power %u: %llu units of 2^-256 off",
              golden_powers[g].base, golden_powers[g].denom, golden_powers[g].i, (unsigned long long)d);
        for (size_t i = 0; i < count; i++) CHECK(list[i].mant[3] >> 63, "power %zu is not normalised", i);
        free(list);
    }
}

static void doubles(void) {
    for (int i = 0; i < 100000; i++) {
        uint64_t u = i < 10 ? (uint64_t)i : random64() >> 1;
        double v, back;
        memcpy(&v, &u, 8);
        if (!(v < 1.0 / 0.0)) continue;
        int64_t e = 0;
        pe_num x = {.exp = 0};
        if (v > 0) { /* by the definition, from integers */
            uint64_t m = (u & 0xfffffffffffff) | (u >> 52 ? 1ull << 52 : 0);
            e = (int64_t)(u >> 52 ? u >> 52 : 1) - 1075 + 64;
            while (!(m >> 63)) m <<= 1, e--;
            x = (pe_num){.mant = {0, 0, 0, m}, .exp = e};
        }
        back = pe_num_to_f64(&x);
        CHECK(back == v, "%a comes back as %a", v, back);
        if (v > 0 && v < 0x1p1000) { /* a tail below and above half an ulp */
            double up;
            uint64_t next = u + 1;
            memcpy(&up, &next, 8);
            x.mant[0] = 1;
            CHECK(pe_num_to_f64(&x) == v, "%a and a little", v);
            if (u >> 52) {
                x.mant[3] |= 0x400;
                CHECK(pe_num_to_f64(&x) == up, "%a and more than half", v);
            }
        }
    }
    double given[4] = {1, 0, 0x1p-1074, 0x1.fp59}, w0 = 1;
    pe_num turns[4], one;
    pe_turns_from_f64(given, 4, turns);
    pe_turns_from_f64(&w0, 1, &one);
    pe_num same;
    pe_powers(PE_TURNS, 2, 1, 1, 1, &same);
    CHECK(memcmp(turns, &same, sizeof same) == 0 && memcmp(&one, &same, sizeof same) == 0, "one radian in turns");
    CHECK(!(turns[1].mant[0] | turns[1].mant[1] | turns[1].mant[2] | turns[1].mant[3]), "no turns");
    CHECK(turns[2].exp == same.exp - 1074 && memcmp(turns[2].mant, same.mant, sizeof same.mant) == 0, "a subnormal");
}

static void fixed(void) {
    int64_t seen[2] = {0, 0};
    for (int e = -300; e <= 70; e++) {
        uint64_t bits = (uint64_t)(1022 + e) << 52 | random64() >> 12; /* from 2^(e - 1) to 2^e */
        double given;
        pe_num x;
        memcpy(&given, &bits, 8);
        pe_turns_from_f64(&given, 1, &x);
        seen[0] = x.exp < seen[0] ? x.exp : seen[0], seen[1] = x.exp > seen[1] ? x.exp : seen[1];
        for (int bit = 0; bit < 256; bit++) { /* bit k of fixed weighs 2^(k - 192), bit j of mant 2^(j - 256 + exp) */
            int64_t j = bit - 192 + 256 - x.exp;
            unsigned right = x.exp <= 64 && j >= 0 && j < 256 ? x.mant[j / 64] >> (j % 64) & 1 : 0;
            CHECK((x.fixed[bit / 64] >> (bit % 64) & 1) == right, "exponent %lld, bit %d", (long long)x.exp, bit);
        }
    }
    CHECK(seen[0] < -256 && seen[1] > 64, "exponents from %lld to %lld", (long long)seen[0], (long long)seen[1]);
}

static int128 whole(pe_pos p) { return p.neg ? -(int128)p.mag : (int128)p.mag; }

static void positions(void) {
    static const int64_t ends[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_MIN + 1, 1ll << 53, -(1ll << 62)};
    for (size_t i = 0; i < 10000; i++) {
        int64_t s = i < COUNT(ends) ? ends[i] : (int64_t)random64() >> random_below(64);
        uint64_t u = (uint64_t)s;
        size_t ahead = random_below(1000);
        pe_positions p = {PE_POS_I64, &s, 0, false};
        CHECK(whole(pe_pos_at(&p, 0)) == s && pe_pos_at(&p, 0).shift == 0, "int64 %lld", (long long)s);
        p.negate = true;
        CHECK(whole(pe_pos_at(&p, 0)) == -(int128)s, "int64 %lld negated", (long long)s);
        p = (pe_positions){PE_POS_U64, &u, 0, false};
        CHECK(whole(pe_pos_at(&p, 0)) == (int128)u, "uint64 %llu", (unsigned long long)u);
        p = (pe_positions){PE_POS_RANGE, NULL, s, false};
        CHECK(whole(pe_pos_at(&p, ahead)) == (int128)s + (int128)ahead, "range from %lld", (long long)s);
        CHECK(pe_pos_is_run(&p, ahead, 77), "a range is a run");
        double v = random_unit() * (double)s, back;
        pe_pos q = position(v);
        back = (double)q.mag; /* at most 53 bits, or 53 and zeros */
        for (uint32_t k = 0; k < q.shift; k++) back /= 2;
        CHECK((q.neg ? -back : back) == v && (q.shift == 0 || q.mag & 1), "float64 %a", v);
    }
    for (int i = 0; i < 3000; i++) {
        int64_t list[40];
        double floats[40];
        size_t n = 1 + random_below(40), at = random_below(n), length = 1 + random_below(n - at);
        list[0] = (int64_t)random_below(1ull << 40) - (1ll << 39);
        for (size_t k = 1; k < n; k++) list[k] = list[k - 1] + (random_below(12) ? 1 : (int64_t)random_below(4) - 1);
        bool right = true;
        for (size_t k = 0; k < n; k++) floats[k] = (double)list[k];
        for (size_t k = at + 1; k < at + length; k++) right &= list[k] == list[k - 1] + 1;
        pe_positions p = {PE_POS_I64, list, 0, false}, f = {PE_POS_F64, floats, 0, false};
        CHECK(pe_pos_is_run(&p, at, length) == right && pe_pos_is_run(&f, at, length) == right, "run of %zu", length);
        floats[at + length - 1] += 0.5;
        CHECK(!pe_pos_is_run(&f, at, length), "half a token is no run");
    }
    int64_t wrap[2] = {INT64_MAX, INT64_MIN};
    pe_positions p = {PE_POS_I64, wrap, 0, false};
    CHECK(!pe_pos_is_run(&p, 0, 2), "2^63 - 1 is not followed by -2^63");
    uint64_t end[2] = {UINT64_MAX, 0};
    p = (pe_positions){PE_POS_U64, end, 0, false};
    CHECK(!pe_pos_is_run(&p, 0, 2), "2^64 - 1 is not followed by 0");
}

int main(void) {
    sines(), powers(), doubles(), fixed(), positions();
    return test_end("exact");
}
