/* The im2col half of the classic im2col + GEMM convolution, as plain as it is usually written:
 * one row of the patch matrix for each (channel, filter row, filter column). */
#include <string.h>

void im2col(const float *image, float *columns, int channels, int height, int width, int kernel_h,
            int kernel_w, int stride_h, int stride_w, int pad_top, int pad_left, int dilation_h,
            int dilation_w, int out_h, int out_w) {
  for (int row = 0; row < channels * kernel_h * kernel_w; row++) {
    int kx = row % kernel_w, ky = row / kernel_w % kernel_h, channel = row / kernel_w / kernel_h;
    const float *plane = image + (long)channel * height * width;
    float *out = columns + (long)row * out_h * out_w;
    for (int y = 0; y < out_h; y++, out += out_w) {
      int in_y = y * stride_h - pad_top + ky * dilation_h;
      if (in_y < 0 || in_y >= height) {
        memset(out, 0, sizeof(float) * out_w);
        continue;
      }
      const float *line = plane + (long)in_y * width;
      int first = -pad_left + kx * dilation_w;
      if (stride_w == 1) {
        int start = first < 0 ? -first : 0;
        int stop = width - first < out_w ? width - first : out_w;
        if (start > out_w) start = out_w;
        if (stop < start) stop = start;
        memset(out, 0, sizeof(float) * start);
        memcpy(out + start, line + first + start, sizeof(float) * (stop - start));
        memset(out + stop, 0, sizeof(float) * (out_w - stop));
      } else {
        for (int x = 0; x < out_w; x++) {
          int in_x = first + x * stride_w;
          out[x] = in_x >= 0 && in_x < width ? line[in_x] : 0.0f;
        }
      }
    }
  }
}
