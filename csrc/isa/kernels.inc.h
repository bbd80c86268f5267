/* kernels.inc.h - the kernels that have an instance for each storage dtype */
#include "../kernels/sinusoidal.inc.h"
#include "../kernels/add.inc.h"
#include "../kernels/embed.inc.h"
#include "../kernels/rope.inc.h"
#include "../kernels/alibi.inc.h"
