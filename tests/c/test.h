/* test.h - what the C tests share: a check that says where, numbers, and blocks of memory of exactly the size that
 * a contract grants, so that the address sanitizer sees the first byte beyond. */
#ifndef POSENC_TEST_H
#define POSENC_TEST_H
#include "posenc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long test_checks, test_faults;

#define CHECK(condition, ...)                                      \
    do {                                                           \
        test_checks++;                                             \
        if (!(condition) && test_faults++ < 20) {                  \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                   \
            puts("");                                              \
        }                                                          \
    } while (0)

static inline int test_end(const char *name) {
    printf("%-14s %lu checks, %lu faults\n", name, test_checks, test_faults);
    return test_faults != 0 || test_checks == 0;
}

static uint64_t test_seed = 1;
static inline uint64_t random64(void) { /* splitmix64 */
    uint64_t z = (test_seed += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static inline size_t random_below(size_t n) { return (size_t)(random64() % n); }
/* from -1 to 1, all 53 bits */
static inline double random_unit(void) { return (double)(random64() >> 11) * 0x1p-52 - 1; }

/* `bytes` bytes that end where a heap block ends, and begin `skip` bytes after its beginning */
typedef struct {
    char *block, *at;
    size_t skip, bytes;
} exact_block;
enum { GUARD = 0x5a };
static inline exact_block exact_new(size_t bytes, size_t skip) {
    exact_block b = {malloc(skip + bytes + (skip + bytes == 0)), NULL, skip, bytes};
    if (!b.block) abort();
    memset(b.block, GUARD, skip + bytes);
    b.at = b.block + skip;
    return b;
}
static inline void exact_free(exact_block *b) {
    for (size_t i = 0; i < b->skip; i++) CHECK(b->block[i] == GUARD, "written %zu bytes before the block", b->skip - i);
    free(b->block);
}

/* a number of any kind in the bits of `type`: mostly ordinary ones, some special */
static inline uint64_t random_bits(pe_dtype type) {
    static const int mantissa[PE_NDTYPE] = {10, 7, 23, 52}, width[PE_NDTYPE] = {16, 16, 32, 64};
    uint64_t any = random64() >> (64 - width[type]);
    if (random_below(16) == 0) return any; /* NaN, infinity, subnormal, huge */
    uint64_t one = ((1ull << (width[type] - mantissa[type] - 2)) - 1) << mantissa[type];
    uint64_t low = any & ((1ull << mantissa[type]) - 1), sign = (any >> (width[type] - 1)) << (width[type] - 1);
    return sign | (one - ((uint64_t)random_below(4) << mantissa[type]) + low);
}
static inline void fill_random(char *at, size_t n, pe_dtype type) {
    size_t item = pe_itemsize(type);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = random_bits(type);
        memcpy(at + i * item, &bits, item); /* little-endian */
    }
}

/* Bits, except that a NaN is a NaN: which payload survives a sum is not promised. Returns the first difference. */
static inline size_t first_difference(const char *a, const char *b, size_t n, pe_dtype type) {
    static const uint64_t infinity[PE_NDTYPE] = {0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000};
    size_t item = pe_itemsize(type);
    for (size_t i = 0; i < n; i++) {
        uint64_t x = 0, y = 0, magnitude = (1ull << (8 * item - 1)) - 1;
        memcpy(&x, a + i * item, item), memcpy(&y, b + i * item, item);
        if (x != y && !((x & magnitude) > infinity[type] && (y & magnitude) > infinity[type])) return i;
    }
    return n;
}

static const char *const test_dtypes[PE_NDTYPE] = {"f16", "bf16", "f32", "f64"};
#endif
