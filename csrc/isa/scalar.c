/* scalar.c - the kernels in plain C: the fallback, and the witness for the others. */
#include "../posenc.h"
#include "../simd/vec_scalar.h"
#include "instantiate.h"
