/* test_check.c - sizes and numbers are refused exactly when they should be: against 128-bit arithmetic. */
#include "test.h"

typedef unsigned __int128 uint128;

static void sizes(void) {
    for (int i = 0; i < 200000; i++) {
        int64_t list[6];
        size_t n = random_below(7), item = (size_t)1 << random_below(4), bytes = 12345;
        bool empty = false, over = false;
        uint128 product = item;
        for (size_t k = 0; k < n; k++) {
            list[k] = random_below(12) ? (int64_t)(random64() >> (1 + random_below(63))) : 0;
            empty |= list[k] == 0;
        }
        /* zeros apart, so that a size is refused whether or not another one is zero, as NumPy does */
        for (size_t k = 0; k < n; k++) {
            product *= list[k] ? (uint128)list[k] : 1;
            over |= product > PTRDIFF_MAX;
            if (over) break;
        }
        pe_status s = pe_check_size("x", list, n, item, &bytes);
        CHECK((s.code == PE_ERR_TOO_BIG) == over && (s.code == PE_OK) == !over, "%zu sizes: code %d", n, s.code);
        if (over) CHECK(strcmp(s.arg, "x") == 0 && bytes == 12345, "a refused size writes nothing");
        else CHECK(bytes == (empty ? 0 : (size_t)product), "%zu bytes", bytes);
    }
    static const int64_t big[][2] = {{1ll << 62, 2},         {1ll << 40, 1ll << 40}, {1ll << 61, 8},
                                     {INT64_MAX, 1ll << 62}, {1ll << 31, 1ll << 32}, {(1ll << 32) + 1, 1ll << 32}};
    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++) {
        size_t bytes;
        CHECK(pe_check_size("x", big[i], 2, 4, &bytes).code == PE_ERR_TOO_BIG, "%zu", i);
    }
}

static void waves(void) {
    static const double nan = 0.0 / 0.0, infinity = 1.0 / 0.0;
    static const struct {
        int64_t dim;
        double base, shift, scale;
        pe_code code;
        const char *arg;
    } cases[] = {
        {0, 1e4, 0, 1, PE_ERR_DIM, "dim"},
        {-5, 1e4, 0, 1, PE_ERR_DIM, "dim"},
        {INT64_MIN, 1e4, 0, 1, PE_ERR_DIM, "dim"},
        {INT64_MAX, 1e4, 0, 1, PE_ERR_TOO_BIG, "dim"},
        {4, 0, 0, 1, PE_ERR_BASE, "base"},
        {4, -1, 0, 1, PE_ERR_BASE, "base"},
        {4, nan, 0, 1, PE_ERR_BASE, "base"},
        {4, infinity, 0, 1, PE_ERR_BASE, "base"},
        {4, 1e4, 0, 0, PE_ERR_SCALE, "scale"},
        {4, 1e4, 0, nan, PE_ERR_SCALE, "scale"},
        {4, 1e4, 0, -infinity, PE_ERR_SCALE, "scale"},
        {4, 1e4, 2, 1, PE_ERR_SHIFT, "shift"},
        {4, 1e4, 7, 1, PE_ERR_SHIFT, "shift"},
        {4, 1e4, nan, 1, PE_ERR_SHIFT, "shift"},
        {4, 1e4, -infinity, 1, PE_ERR_SHIFT, "shift"},
        {4, 1e4, infinity, 1, PE_ERR_SHIFT, "shift"},
        {1, 1e4, 0, 1, PE_OK, ""},
        {2, 1e4, 1, 1, PE_OK, ""},
        {4, 5e-324, 0, 5e-324, PE_OK, ""},
        {4, 1.7e308, -3.5, -1.7e308, PE_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pe_wave w = {.base = cases[i].base, .shift = cases[i].shift, .scale = cases[i].scale};
        pe_status s = pe_check_wave(cases[i].dim, &w);
        CHECK(s.code == cases[i].code, "case %zu: code %d", i, s.code);
        if (s.code) CHECK(strcmp(s.arg, cases[i].arg) == 0, "case %zu: %s", i, s.arg);
    }
    for (int64_t dim = 1; dim < 600; dim++)
        for (int shift = 0; shift < 2; shift++) {
            pe_wave w = {.base = 2, .shift = shift, .scale = 1};
            if (shift && dim < 2) continue;
            CHECK(pe_check_wave(dim, &w).code == PE_OK, "dim %lld", (long long)dim);
            CHECK(w.pairs == (size_t)(shift ? dim / 2 : (dim + 1) / 2), "pairs of %lld", (long long)dim);
            double denom = shift ? (double)(dim / 2) - 1 : (double)dim / 2;
            CHECK(w.denom == (denom == 0 ? 1 : denom), "denominator for %lld", (long long)dim);
        }
    pe_num turns[3] = {
        {.mant = {0, 0, 0, 1ull << 63}, .exp = 60}, {.exp = 0}, {.mant = {0, 0, 0, 1ull << 63}, .exp = -700}};
    CHECK(pe_check_turns(turns, 3).code == PE_OK && pe_check_turns(turns, 0).code == PE_OK, "within 2^60 turns");
    turns[0].exp = 61;
    CHECK(pe_check_turns(turns, 3).code == PE_ERR_EXTREME, "beyond 2^60 turns");
}

static void positions(void) {
    double list[5] = {0, -0.0, 5e-324, 0x1.fffffffffffffp63, -0x1.fffffffffffffp63};
    pe_positions p = {PE_POS_F64, list, 0, false};
    CHECK(pe_check_positions(&p, 5).code == PE_OK, "all below 2^64");
    static const double wrong[] = {0x1p64, -0x1p64, 1.7e308, 0.0 / 0.0, 1.0 / 0.0, -1.0 / 0.0};
    for (size_t i = 0; i < 6; i++)
        for (size_t at = 0; at < 5; at++) {
            double kept = list[at];
            list[at] = wrong[i];
            pe_status s = pe_check_positions(&p, 5);
            CHECK(s.code == (i < 3 ? PE_ERR_POSITION : PE_ERR_NOT_FINITE) && s.got == (int64_t)at, "%a at %zu",
                  wrong[i], at);
            CHECK(pe_check_positions(&p, at).code == PE_OK, "beyond the end");
            list[at] = kept;
        }
    p.kind = PE_POS_I64; /* the same bits as integers are fine */
    CHECK(pe_check_positions(&p, 5).code == PE_OK, "integers");
}

static void rotary(void) {
    for (int64_t width = 0; width < 20; width++)
        for (int64_t turning = -3; turning < 25; turning++)
            for (int64_t start = -3; start < 25; start++) {
                pe_code code = pe_check_rotary(width, turning, start).code;
                bool right = turning >= 0 && turning % 2 == 0 && start >= 0 && start + turning <= width;
                CHECK((code == PE_OK) == right, "width %d turning %d start %d", (int)width, (int)turning, (int)start);
            }
    static const int64_t far[] = {INT64_MAX, INT64_MAX - 1, INT64_MIN, 1ll << 62, -1};
    for (size_t i = 0; i < 25; i++) CHECK(pe_check_rotary(8, far[i / 5], far[i % 5]).code != PE_OK, "far %zu", i);
}

int main(void) {
    sizes(), waves(), positions(), rotary();
    return test_end("check");
}
