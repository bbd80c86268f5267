/* kernels.inc.h - the kernels that have an instance for each storage dtype */
#include "../kernels/sinusoidal.inc.h"
#include "../kernels/add.inc.h"
#include "../kernels/rope.inc.h"
