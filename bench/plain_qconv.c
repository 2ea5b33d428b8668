/* Quantized convolutions as plain C, left to the compiler's vectorizer, and what the simulated clock counts.
 *
 * plain_qconv PAGE <LAYERS
 *
 * A layer is a line: the files of data (uint8, NHWC), weights (int8: height, width, channel, filter), bias,
 * multipliers and shifts (int32, one a filter), and of the result (uint8); then height, width, channels, filters,
 * groups, kernel's height and width, strides, padding above and left, dilations, height and width of the result,
 * the zero points of data and result. Prints the cycles of the second call of each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../worker/agent/simulation_page.h"

typedef struct {
  int height, width, channels, filters, groups, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, dilation_h,
      dilation_w, out_h, out_w, data_zero, out_zero;
} Layer;

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void add_channels(const Layer *l, const uint8_t *restrict data, const int8_t *restrict weights,
                         int32_t *restrict sums) {
  int zero = l->data_zero, filters = l->filters;
  if (l->groups == l->channels && filters == l->channels) {
    for (int f = 0; f < filters; f++) sums[f] += (data[f] - zero) * weights[f];
    return;
  }
  for (int c = 0; c < l->channels; c++) {
    int value = data[c] - zero;
    const int8_t *restrict row = weights + (long)c * filters;
    for (int f = 0; f < filters; f++) sums[f] += value * row[f];
  }
}

static void scale(const Layer *l, const int32_t *restrict sums, const int32_t *restrict multiplier,
                  const int32_t *restrict shift, uint8_t *restrict out) {
/* LLVM for Hexagon gives up on vectors of 64 bits. */
#pragma clang loop vectorize(disable)
  for (int f = 0; f < l->filters; f++) {
    int by = 31 + shift[f];
    int64_t value = (((int64_t)sums[f] * multiplier[f] + ((int64_t)1 << (by - 1))) >> by) + l->out_zero;
    out[f] = value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
  }
}

static void convolve(const Layer *l, const uint8_t *data, const int8_t *weights, const int32_t *bias,
                     const int32_t *multiplier, const int32_t *shift, int32_t *restrict sums, uint8_t *out) {
  long depth = l->channels / l->groups;
  for (int y = 0; y < l->out_h; y++)
    for (int x = 0; x < l->out_w; x++) {
      for (int f = 0; f < l->filters; f++) sums[f] = bias[f];
      for (int i = 0; i < l->kernel_h; i++)
        for (int j = 0; j < l->kernel_w; j++) {
          int row = y * l->stride_h + i * l->dilation_h - l->pad_top;
          int column = x * l->stride_w + j * l->dilation_w - l->pad_left;
          if (row < 0 || row >= l->height || column < 0 || column >= l->width) continue;
          add_channels(l, data + ((long)row * l->width + column) * l->channels,
                       weights + ((long)i * l->kernel_w + j) * depth * l->filters, sums);
        }
      scale(l, sums, multiplier, shift, out + ((long)y * l->out_w + x) * l->filters);
    }
}

static void *content(const char *path, size_t size) {
  void *values = NULL;
  if (posix_memalign(&values, 128, size + 128)) fail("no memory");
  FILE *file = fopen(path, "rb");
  if (!file || fread(values, 1, size, file) != size) fail(path);
  fclose(file);
  return values;
}

int main(int count, char **arguments) {
  if (count != 2) fail("usage: plain_qconv PAGE <LAYERS");
  int file = open(arguments[1], O_RDONLY);
  const SimulationPage *page = mmap(NULL, SIMULATION_PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) fail(arguments[1]);
  char paths[6][512];
  Layer l;
  int *numbers = (int *)&l;
  for (;;) {
    for (int i = 0; i < 6; i++)
      if (scanf("%511s", paths[i]) != 1) return 0;
    for (size_t i = 0; i < sizeof l / sizeof *numbers; i++)
      if (scanf("%d", numbers + i) != 1) fail("a line is too short");
    size_t pixels = (size_t)l.out_h * l.out_w, filters = l.filters;
    uint8_t *data = content(paths[0], (size_t)l.height * l.width * l.channels);
    int8_t *weights = content(paths[1], (size_t)l.kernel_h * l.kernel_w * (l.channels / l.groups) * filters);
    int32_t *scales[3];
    for (int i = 0; i < 3; i++) scales[i] = content(paths[2 + i], filters * sizeof(int32_t));
    int32_t *sums = calloc(filters, sizeof *sums);
    uint8_t *out = calloc(pixels, filters);
    uint64_t ticks[2];
    syscall(SYS_getpid, (long)SIMULATION_CALL, (long)SIMULATION_RESET, 0L, 0L);
    for (int turn = 0; turn < 2; turn++) {
      syscall(SYS_getpid, (long)SIMULATION_CALL, (long)SIMULATION_PUBLISH, 0L, 0L);
      ticks[0] = ((volatile const SimulationPage *)page)->counters.ticks;
      convolve(&l, data, weights, scales[0], scales[1], scales[2], sums, out);
      syscall(SYS_getpid, (long)SIMULATION_CALL, (long)SIMULATION_PUBLISH, 0L, 0L);
      ticks[1] = ((volatile const SimulationPage *)page)->counters.ticks;
    }
    printf("%llu\n", (unsigned long long)(ticks[1] - ticks[0]) / SIMULATION_TICKS_PER_CYCLE);
    FILE *result = fopen(paths[5], "wb");
    if (!result || fwrite(out, filters, pixels, result) != pixels || fclose(result)) fail(paths[5]);
    free(data), free(weights), free(sums), free(out);
    for (int i = 0; i < 3; i++) free(scales[i]);
  }
}
