/* instantiate.h - every kernel, for the one ISA whose vec_*.h came before: once for each storage dtype. */
#include "../simd/names.h"
#include "../simd/dd.h"
#include "../simd/sincos.inc.h"
#include "../kernels/rotor.inc.h"
#include "../kernels/expand.inc.h"

#define C f32
#define S f16
#include "kernels.inc.h"
#undef S
#define S bf16
#include "kernels.inc.h"
#undef S
#define S f32
#include "kernels.inc.h"
#undef S
#undef C
#define C f64
#define S f64
#include "kernels.inc.h"
#undef S
#undef C

#define PE_ROW(name, bound) \
    .name = {PE_INSTANCE(name, f16), PE_INSTANCE(name, bf16), PE_INSTANCE(name, f32), PE_INSTANCE(name, f64)},
#define PE_ONE(name, bound) .name = SHARED(name),
const pe_kernels PE_CAT(pe_kernels_,
                        PE_ISA, ) = {.isa = PE_STR(PE_ISA), .lanes = vf64_N, PE_KERNELS(PE_ROW) PE_SHARED(PE_ONE)};
