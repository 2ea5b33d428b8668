/* One convolution, ours or Base, for valgrind to count the cache misses of: a warm call, then `counted`.
 *
 * misses_guest ours LIBRARY DATA WEIGHTS RESULT <SHAPES
 * misses_guest base LIBRARY DATA WEIGHTS RESULT <NUMBERS
 *
 * The files are float32. SHAPES are of data, packed weights and result, each a count of dimensions and then
 * these; LIBRARY exports our function as TVM calls it. NUMBERS are channels, height, width, filters, kernel's
 * height and width, strides, padding above and left, dilations, height and width of the result, as im2col.c
 * has them; LIBRARY is the OpenBLAS of NumPy. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../worker/agent/values.h"
#include "im2col.c"

enum { NUMBERS = 14, PAGE = 4096, ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
typedef void (*Sgemm)(int order, int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
                      const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

/* What our functions want of TVM. Scratch memory is the same in every call, so that it is warm, too. */
enum { BLOCKS = 8 };
static void *blocks[BLOCKS];
static uint64_t block_bytes[BLOCKS];
static int taken;

static void *TVMBackendAllocWorkspace(int device, int id, uint64_t bytes, int code, int bits) {
  (void)device, (void)id, (void)code, (void)bits;
  if (taken == BLOCKS) fail("more blocks of scratch memory than there are");
  if (block_bytes[taken] < bytes) {
    if (posix_memalign(&blocks[taken], PAGE, bytes)) fail("no memory");
    block_bytes[taken] = bytes;
  }
  return blocks[taken++];
}

/* They are given back in the opposite order. */
static int TVMBackendFreeWorkspace(int device, int id, void *block) {
  (void)device, (void)id;
  if (!taken || blocks[--taken] != block) fail("scratch memory was not given back in the opposite order");
  return 0;
}

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  fprintf(stderr, "%s: %s\n", kind, message);
}

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  fprintf(stderr, "%s: ", kind);
  for (int i = 0; i < count; i++) fputs(parts[i] ? parts[i] : "", stderr);
  fputs("\n", stderr);
}

static float *floats(size_t count) {
  void *memory = NULL;
  if (posix_memalign(&memory, PAGE, (count + 64) * sizeof(float))) fail("no memory");
  return memset(memory, 0, (count + 64) * sizeof(float));
}

static float *content(const char *path, size_t count) {
  float *values = floats(count);
  FILE *file = fopen(path, "rb");
  if (!file || fread(values, sizeof(float), count, file) != count) fail(path);
  fclose(file);
  return values;
}

static PackedFunction ours;
static Value arguments[3];
static Tensor tensors[3];
static Sgemm sgemm;
static int of[NUMBERS];
static float *data, *weights, *columns, *result;
static size_t result_count;

static void call(void) {
  if (ours) {
    Value nothing = {0};
    if (ours(NULL, arguments, 3, &nothing)) fail("the function failed");
    return;
  }
  int64_t depth = (int64_t)of[0] * of[4] * of[5], windows = (int64_t)of[12] * of[13];
  const float *matrix = data;
  if (columns) {
    im2col(data, columns, of[0], of[1], of[2], of[4], of[5], of[6], of[7], of[8], of[9], of[10], of[11], of[12],
           of[13]);
    matrix = columns;
  }
  sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, of[3], windows, depth, 1.0f, weights, depth, matrix, windows, 0.0f,
        result, windows);
}

/* valgrind finds it by its name. */
__attribute__((noinline)) void counted(void) {
  call();
  __asm__ volatile("" ::: "memory"); /* so that it is no jump to `call` */
}

static size_t shape(Tensor *tensor) {
  size_t count = 1;
  if (scanf("%d", &tensor->ndim) != 1) fail("no shape");
  tensor->shape = calloc((size_t)tensor->ndim, sizeof *tensor->shape);
  for (int i = 0; i < tensor->ndim; i++) {
    long size;
    if (scanf("%ld", &size) != 1) fail("no shape");
    tensor->shape[i] = size;
    count *= (size_t)size;
  }
  return count;
}

/* Some it calls by pointers, which are variables of its own. */
static void bind(void *library, const char *name, void *address) {
  void **pointer = dlsym(library, name);
  if (pointer) *pointer = address;
}

static void prepare_ours(void *library, char **paths) {
  size_t counts[3];
  bind(library, "__TVMBackendAllocWorkspace", (void *)TVMBackendAllocWorkspace);
  bind(library, "__TVMBackendFreeWorkspace", (void *)TVMBackendFreeWorkspace);
  for (int i = 0; i < 3; i++) counts[i] = shape(&tensors[i]);
  data = content(paths[0], counts[0]), weights = content(paths[1], counts[1]);
  result = floats(result_count = counts[2]);
  float *memory[] = {data, weights, result};
  for (int i = 0; i < 3; i++) {
    tensors[i].data = memory[i], tensors[i].device.type = DEVICE_CPU;
    tensors[i].code = 2, tensors[i].bits = 32, tensors[i].lanes = 1;
    arguments[i].type = TYPE_TENSOR, arguments[i].tensor = &tensors[i];
  }
  *(void **)&ours = dlsym(library, "__tvm_ffi_main");
  if (!ours) fail("the library has no function main");
}

static void prepare_base(void *library, char **paths) {
  for (int i = 0; i < NUMBERS; i++)
    if (scanf("%d", &of[i]) != 1) fail("no numbers");
  size_t depth = (size_t)of[0] * of[4] * of[5], windows = (size_t)of[12] * of[13];
  data = content(paths[0], (size_t)of[0] * of[1] * of[2]), weights = content(paths[1], of[3] * depth);
  result = floats(result_count = of[3] * windows);
  /* A pointwise convolution needs no im2col and gets none. */
  int pointwise = of[4] * of[5] * of[6] * of[7] == 1 && !of[8] && !of[9] && of[12] == of[1] && of[13] == of[2];
  if (!pointwise) columns = floats(depth * windows);
  *(void **)&sgemm = dlsym(library, "scipy_cblas_sgemm64_");
  char *(*core)(void) = NULL;
  *(void **)&core = dlsym(library, "scipy_openblas_get_corename64_");
  if (!sgemm || !core) fail("the library has no scipy_cblas_sgemm64_ or no scipy_openblas_get_corename64_");
  puts(core());
}

int main(int count, char **given) {
  if (count != 6) fail("usage: misses_guest ours|base LIBRARY DATA WEIGHTS RESULT");
  void *library = dlopen(given[2], RTLD_NOW);
  if (!library) fail(dlerror());
  (strcmp(given[1], "ours") ? prepare_base : prepare_ours)(library, given + 3);
  call();
  counted();
  FILE *file = fopen(given[5], "wb");
  if (!file || fwrite(result, sizeof(float), result_count, file) != result_count || fclose(file)) fail(given[5]);
  return 0;
}
