#include "exports.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "fast_memory.h"
#include "threads.h"
#include "values.h"
#include "workspace.h"

/* The names below are TVM's (tvm_ffi/c_api.h, tvm/runtime/c_backend_api.h). */

static void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  error_set("%s: %s", kind, message);
}

static void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  char message[1024] = "";
  size_t at = 0;
  for (int32_t i = 0; i < count && at < sizeof message - 1; i++)
    if (parts[i]) at += (size_t)snprintf(message + at, sizeof message - at, "%s", parts[i]);
  error_set("%s: %s", kind, message);
}

static int TVMFFIFunctionCall(void *function, const Value *args, int32_t num_args, Value *result) {
  (void)function, (void)args, (void)num_args, (void)result;
  return error_set("candidate: calls of other TVM functions are not supported on a board");
}

static int TVMFFIEnvModLookupFromImports(void *module, const char *name, void **function) {
  (void)module, (void)function;
  return error_set("candidate: looks up the TVM function %s, which a board does not have", name);
}

/* What `main` of a small model calls, which is for TVM's virtual machine: a board calls the functions of layers. */
static int needs_machine(void) { return error_set("candidate: needs TVM's virtual machine"); }

static void *TVMBackendAllocWorkspace(int device, int id, uint64_t bytes, int type_code, int type_bits) {
  (void)device, (void)id, (void)type_code, (void)type_bits;
  return workspace_take(bytes);
}

static int TVMBackendFreeWorkspace(int device, int id, void *block) {
  (void)device, (void)id;
  workspace_give(block);
  return 0;
}

/* Candidates ask for fast memory as for a workspace of this device (kernels/emit/fast_memory.py). */
enum { FAST_MEMORY = 1 };

static void *take_of_either(int device, int id, uint64_t bytes, int type_code, int type_bits) {
  (void)device, (void)type_code, (void)type_bits;
  return id == FAST_MEMORY ? fast_memory_take(bytes) : workspace_take(bytes);
}

static int give_to_either(int device, int id, void *block) {
  (void)device;
  if (id == FAST_MEMORY) fast_memory_give(block);
  else workspace_give(block);
  return 0;
}

/* Of compiler-rt: candidates divide, convert 64-bit integers, and on Hexagon do double-precision arithmetic and
 * copy what is aligned, by calling these. */
#if defined(__hexagon__)
#define HELPERS(X)                                                                                      \
  X(__hexagon_divsi3) X(__hexagon_udivsi3) X(__hexagon_modsi3) X(__hexagon_umodsi3) X(__hexagon_divdi3) \
  X(__hexagon_udivdi3) X(__hexagon_moddi3) X(__hexagon_umoddi3) X(__hexagon_divsf3)                     \
  X(__hexagon_divdf3) X(__hexagon_adddf3) X(__hexagon_subdf3) X(__hexagon_muldf3)                       \
  X(__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes)
#elif defined(__arm__)
#define HELPERS(X)                                                                                    \
  X(__aeabi_idiv) X(__aeabi_uidiv) X(__aeabi_idivmod) X(__aeabi_uidivmod) X(__aeabi_ldivmod)          \
  X(__aeabi_uldivmod) X(__aeabi_l2d) X(__aeabi_ul2d) X(__aeabi_l2f) X(__aeabi_ul2f) X(__aeabi_d2lz)   \
  X(__aeabi_d2ulz) X(__aeabi_f2lz) X(__aeabi_f2ulz) X(__divdi3) X(__udivdi3) X(__moddi3) X(__umoddi3)
#else
#define HELPERS(X)
#endif
#define DECLARE(name) extern void name(void);
HELPERS(DECLARE)

#define SYMBOL(name) {#name, (void *)(uintptr_t)name}
#define SYMBOLS(name) SYMBOL(name), SYMBOL(name##f)

typedef struct {
  const char *name;
  void *address;
} Export;

/* What a board with fast memory has instead. On others candidates, and so their times, are as if there was none. */
static const Export with_fast_memory[] = {
    {"TVMBackendAllocWorkspace", (void *)(uintptr_t)take_of_either},
    {"TVMBackendFreeWorkspace", (void *)(uintptr_t)give_to_either},
};

static const Export table[] = {
    SYMBOL(TVMFFIErrorSetRaisedFromCStr),
    SYMBOL(TVMFFIErrorSetRaisedFromCStrParts),
    SYMBOL(TVMFFIFunctionCall),
    SYMBOL(TVMFFIEnvModLookupFromImports),
    {"TVMBackendAnyListSetPackedArg", (void *)(uintptr_t)needs_machine},
    {"TVMBackendAnyListMoveFromPackedReturn", (void *)(uintptr_t)needs_machine},
    {"TVMFFITensorCreateUnsafeView", (void *)(uintptr_t)needs_machine},
    SYMBOL(TVMBackendAllocWorkspace),
    SYMBOL(TVMBackendFreeWorkspace),
    {"TVMBackendParallelLaunch", (void *)(uintptr_t)threads_launch},
    {"TVMBackendParallelBarrier", (void *)(uintptr_t)threads_barrier},
    SYMBOL(memcmp),
    SYMBOL(memcpy),
    SYMBOL(memmove),
    SYMBOL(memset),
    SYMBOLS(acos),
    SYMBOLS(acosh),
    SYMBOLS(asin),
    SYMBOLS(asinh),
    SYMBOLS(atan),
    SYMBOLS(atan2),
    SYMBOLS(atanh),
    SYMBOLS(ceil),
    SYMBOLS(copysign),
    SYMBOLS(cos),
    SYMBOLS(cosh),
    SYMBOLS(erf),
    SYMBOLS(exp),
    SYMBOLS(exp10),
    SYMBOLS(exp2),
    SYMBOLS(fabs),
    SYMBOLS(floor),
    SYMBOLS(fma),
    SYMBOLS(fmax),
    SYMBOLS(fmin),
    SYMBOLS(fmod),
    SYMBOLS(hypot),
    SYMBOLS(ldexp),
    SYMBOLS(log),
    SYMBOLS(log10),
    SYMBOLS(log1p),
    SYMBOLS(log2),
    SYMBOLS(nearbyint),
    SYMBOLS(nextafter),
    SYMBOLS(pow),
    SYMBOLS(rint),
    SYMBOLS(round),
    SYMBOLS(sin),
    SYMBOLS(sinh),
    SYMBOLS(sqrt),
    SYMBOLS(tan),
    SYMBOLS(tanh),
    SYMBOLS(trunc),
#define ENTRY(name) SYMBOL(name),
    HELPERS(ENTRY)
};

void *export_find(const char *name) {
  for (size_t i = 0; fast_memory_is_there() && i < sizeof with_fast_memory / sizeof *with_fast_memory; i++)
    if (!strcmp(with_fast_memory[i].name, name)) return with_fast_memory[i].address;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name)) return table[i].address;
  return NULL;
}
