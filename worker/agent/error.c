#include "error.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static char text[2048];
static atomic_flag taken = ATOMIC_FLAG_INIT;

void error_clear(void) {
  text[0] = 0;
  atomic_flag_clear(&taken);
}

int error_set(const char *format, ...) {
  if (!atomic_flag_test_and_set(&taken)) {
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
  }
  return -1;
}

const char *error_text(void) { return text[0] ? text : "failed without a message"; }
