/* dispatch.c - one const table of kernels per ISA; the binding keeps a pointer to the one in use. */
#include "posenc.h"
#include <string.h>

const pe_kernels *pe_kernels_for(pe_isa isa) {
    switch (isa) {
    case PE_SCALAR: return &pe_kernels_scalar;
#if defined(__x86_64__)
    case PE_AVX2:
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
            return &pe_kernels_avx2;
        return NULL;
#endif
    default: return NULL;
    }
}

const pe_kernels *pe_kernels_named(const char *name) {
    const pe_kernels *best = NULL;
    for (int i = 0; i < PE_NISA; i++) {
        const pe_kernels *k = pe_kernels_for((pe_isa)i);
        if (k && (!name || strcmp(name, k->isa) == 0)) best = k;
    }
    return best;
}
