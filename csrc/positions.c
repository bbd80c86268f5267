/* positions.c - positions, exactly: integers of 64 bits, and floats as an integer times a power of two. */
#include "posenc.h"
#include <string.h>

static pe_pos from_i64(int64_t v) { return v < 0 ? (pe_pos){-(uint64_t)v, 0, true} : (pe_pos){(uint64_t)v, 0, false}; }

static pe_pos from_f64(double v) { /* finite, |v| < 2^64: check.c has seen to it */
    uint64_t u;
    memcpy(&u, &v, 8);
    uint64_t biased = u >> 52 & 0x7ff, m = u & 0xfffffffffffff;
    int e = (int)(biased ? biased : 1) - 1075;
    if (biased) m |= 1ull << 52;
    if (m == 0) return (pe_pos){0, 0, false};
    if (e >= 0) return (pe_pos){m << e, 0, u >> 63};
    int s = __builtin_ctzll(m);
    if (s > -e) s = -e;
    return (pe_pos){m >> s, (uint32_t)(-e - s), u >> 63};
}

static pe_pos at(const pe_positions *p, size_t i) {
    switch (p->kind) {
    case PE_POS_I64: return from_i64(((const int64_t *)p->data)[i]);
    case PE_POS_U64: return (pe_pos){((const uint64_t *)p->data)[i], 0, false};
    case PE_POS_F64: return from_f64(((const double *)p->data)[i]);
    default: break;
    }
    /* a range may pass 2^63 upwards, where int64 ends and the magnitude does not */
    if (p->first >= 0) return (pe_pos){(uint64_t)p->first + i, 0, false};
    uint64_t below = -(uint64_t)p->first;
    return i < below ? (pe_pos){below - i, 0, true} : (pe_pos){i - below, 0, false};
}

pe_pos pe_pos_at(const pe_positions *p, size_t i) {
    pe_pos r = at(p, i);
    r.neg ^= p->negate && r.mag;
    return r;
}

bool pe_pos_is_run(const pe_positions *p, size_t i, size_t n) {
    if (p->kind == PE_POS_RANGE && !p->negate) return true;
    pe_pos q = pe_pos_at(p, i);
    __int128 first = q.neg ? -(__int128)q.mag : (__int128)q.mag;
    for (size_t j = 0; j < n; j++) {
        q = pe_pos_at(p, i + j);
        if (q.shift || (q.neg ? -(__int128)q.mag : (__int128)q.mag) != first + (__int128)j) return false;
    }
    return true;
}
