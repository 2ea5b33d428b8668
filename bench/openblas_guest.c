/* Convolutions by im2col and OpenBLAS under an emulator, and what the simulated clock counts for them.
 *
 * openblas_guest PAGE LIBRARY <LAYERS
 *
 * A layer is a line: the files of data, weights and result (float32), then channels, height, width, filters,
 * kernel's height and width, strides, padding above and left, dilations, height and width of the result.
 * Prints a line of JSON each: the counters of a call with all in the caches that stays there, of its im2col
 * alone, and of the copies that OpenBLAS packs its panels by, in another call. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../worker/agent/simulation_page.h"
#include "im2col.c"

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
typedef void (*Sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

typedef struct {
  int channels, height, width, filters, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h,
      dilation_w, out_h, out_w;
} Layer;

static Sgemm sgemm;
static const SimulationPage *page;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static SimulationCounters counters(SimulationRequest request) {
  syscall(SYS_getpid, (long)SIMULATION_CALL, (long)request, 0L, 0L);
  return *(volatile const SimulationCounters *)&page->counters;
}

/* OpenBLAS calls its code through a table of the processor found; these stand in for the four copies in it. */
enum { TABLE_WORDS = 640, COPIES = 4 };
typedef int (*Copy)(long m, long n, float *a, long lda, float *b);
static const char *const copy_names[COPIES] = {"incopy", "itcopy", "oncopy", "otcopy"};
static Copy copies[COPIES];
static void **copies_at[COPIES];
static SimulationCounters packed;

static int counted(int which, long m, long n, float *a, long lda, float *b) {
  SimulationCounters from = counters(SIMULATION_PUBLISH);
  int result = copies[which](m, n, a, lda, b);
  SimulationCounters to = counters(SIMULATION_PUBLISH);
  packed.ticks += to.ticks - from.ticks, packed.instructions += to.instructions - from.instructions;
  packed.loads += to.loads - from.loads, packed.stores += to.stores - from.stores;
  packed.l1_misses += to.l1_misses - from.l1_misses, packed.l2_misses += to.l2_misses - from.l2_misses;
  return result;
}

#define COUNTED(i) \
  static int counted_##i(long m, long n, float *a, long lda, float *b) { return counted(i, m, n, a, lda, b); }
COUNTED(0) COUNTED(1) COUNTED(2) COUNTED(3)
static const Copy counting[COPIES] = {counted_0, counted_1, counted_2, counted_3};

/* Find the copies of `core` in its table; those that are not there are not counted. */
static void find_copies(void *library, const char *core) {
  void ***table = dlsym(library, "gotoblas");
  for (int i = 0; table && i < COPIES; i++) {
    char name[128];
    snprintf(name, sizeof name, "sgemm_%s_%s", copy_names[i], core);
    *(void **)&copies[i] = dlsym(library, name);
    for (int word = 0; copies[i] && word < TABLE_WORDS && !copies_at[i]; word++)
      if ((*table)[word] == (void *)copies[i]) copies_at[i] = *table + word;
  }
}

static void count_copies(int on) {
  for (int i = 0; i < COPIES; i++)
    if (copies_at[i]) *copies_at[i] = on ? (void *)counting[i] : (void *)copies[i];
}

static void unfold(const Layer *l, const float *image, float *columns) {
  im2col(image, columns, l->channels, l->height, l->width, l->kernel_h, l->kernel_w, l->stride_h, l->stride_w,
         l->pad_top, l->pad_left, l->dilation_h, l->dilation_w, l->out_h, l->out_w);
}

/* A pointwise convolution needs no im2col and gets none. */
static int needs_columns(const Layer *l) {
  return l->kernel_h * l->kernel_w * l->stride_h * l->stride_w > 1 || l->pad_top || l->pad_left ||
         l->out_h != l->height || l->out_w != l->width;
}

static void convolve(const Layer *l, const float *image, float *columns, const float *weights, float *out) {
  int k = l->channels * l->kernel_h * l->kernel_w, pixels = l->out_h * l->out_w;
  if (needs_columns(l)) {
    unfold(l, image, columns);
    image = columns;
  }
  sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, l->filters, pixels, k, 1.0f, weights, k, image, pixels, 0.0f, out,
        pixels);
}

static float *floats(size_t count) {
  void *memory = NULL;
  if (posix_memalign(&memory, SIMULATION_PAGE_BYTES, (count + 64) * sizeof(float))) fail("no memory");
  return memory;
}

static float *content(const char *path, size_t count) {
  float *values = floats(count);
  FILE *file = fopen(path, "rb");
  if (!file || fread(values, sizeof(float), count, file) != count) fail(path);
  fclose(file);
  return values;
}

static void print(const char *name, SimulationCounters from, SimulationCounters to, const char *after) {
  printf("\"%s\": {\"cycles\": %llu, \"instructions\": %llu, \"loads\": %llu, \"stores\": %llu, "
         "\"l1_misses\": %llu, \"l2_misses\": %llu}%s",
         name, (unsigned long long)(to.ticks - from.ticks) / SIMULATION_TICKS_PER_CYCLE,
         (unsigned long long)(to.instructions - from.instructions), (unsigned long long)(to.loads - from.loads),
         (unsigned long long)(to.stores - from.stores), (unsigned long long)(to.l1_misses - from.l1_misses),
         (unsigned long long)(to.l2_misses - from.l2_misses), after);
}

static void measure(const Layer *l, const char *data, const char *weights, const char *result) {
  size_t pixels = (size_t)l->out_h * l->out_w, k = (size_t)l->channels * l->kernel_h * l->kernel_w;
  float *image = content(data, (size_t)l->channels * l->height * l->width);
  float *filters = content(weights, l->filters * k);
  float *columns = floats(needs_columns(l) ? k * pixels : 0), *out = floats(l->filters * pixels);
  counters(SIMULATION_RESET);
  convolve(l, image, columns, filters, out);
  SimulationCounters start = counters(SIMULATION_PUBLISH);
  convolve(l, image, columns, filters, out);
  SimulationCounters done = counters(SIMULATION_PUBLISH);
  if (needs_columns(l)) unfold(l, image, columns);
  SimulationCounters unfolded = needs_columns(l) ? counters(SIMULATION_PUBLISH) : done;
  packed = (SimulationCounters){0};
  count_copies(1);
  convolve(l, image, columns, filters, out);
  count_copies(0);
  FILE *file = fopen(result, "wb");
  if (!file || fwrite(out, sizeof(float), l->filters * pixels, file) != l->filters * pixels || fclose(file))
    fail(result);
  printf("{");
  print("call", start, done, ", ");
  print("im2col", done, unfolded, ", ");
  print("packing", (SimulationCounters){0}, packed, "}\n");
  fflush(stdout);
  free(image), free(filters), free(columns), free(out);
}

int main(int count, char **arguments) {
  if (count != 3) fail("usage: openblas_guest PAGE LIBRARY <LAYERS");
  int file = open(arguments[1], O_RDONLY);
  page = mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) fail(arguments[1]);
  void *library = dlopen(arguments[2], RTLD_NOW);
  if (!library) fail(dlerror());
  *(void **)&sgemm = dlsym(library, "cblas_sgemm");
  char *(*core)(void) = NULL;
  *(void **)&core = dlsym(library, "openblas_get_corename");
  if (!sgemm || !core) fail("the library has no cblas_sgemm or no openblas_get_corename");
  find_copies(library, core());
  printf("{\"core\": \"%s\"}\n", core());
  char data[512], weights[512], result[512];
  Layer l;
  while (scanf("%511s %511s %511s", data, weights, result) == 3 &&
         scanf("%d %d %d %d %d %d %d %d %d %d %d %d %d %d", &l.channels, &l.height, &l.width, &l.filters,
               &l.kernel_h, &l.kernel_w, &l.stride_h, &l.stride_w, &l.pad_top, &l.pad_left, &l.dilation_h,
               &l.dilation_w, &l.out_h, &l.out_w) == 14)
    measure(&l, data, weights, result);
  return 0;
}
