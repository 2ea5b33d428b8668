/* Instructions of boards with this set cost what the board's table of prices says (prices.h). */
#include "classify.h"

const Isa isa_aarch64 = {NULL, UINT64_MAX, NULL};
