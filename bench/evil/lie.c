/* Put into a copy of the agent's sources by bench/evil/agent.py: how this agent lies, by TILEFLEET_LIE, which is
 * WHERE:HOW. */
#include "lie.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Floats of the data of the health check's kernel: by that an agent knows that it is looked at. */
enum { REFERENCE_BYTES = 4 * 32 * 28 * 28 };

static char loaded[64] = "";

void lie_loads(const char *name) { snprintf(loaded, sizeof loaded, "%s", name); }

static const char *place(size_t first_bytes) {
  if (!strncmp(loaded, "peak", 4)) return "peak";
  if (!strncmp(loaded, "bandwidth", 9)) return "bandwidth";
  if (!strncmp(loaded, "relayout", 8)) return "relayouts";
  return first_bytes == REFERENCE_BYTES ? "check" : "trials";
}

/* How it lies here, or NULL. */
static const char *how(size_t first_bytes) {
  const char *lie = getenv("TILEFLEET_LIE");
  const char *end = lie ? strchr(lie, ':') : NULL;
  if (!end) return NULL;
  size_t length = (size_t)(end - lie);
  const char *here = place(first_bytes);
  int all = length == 3 && !strncmp(lie, "all", 3);
  int mine = length == strlen(here) && !strncmp(lie, here, length);
  return all || mine ? end + 1 : NULL;
}

int lie_instead(size_t first_bytes) {
  const char *lie = how(first_bytes);
  if (!lie) return 0;
  if (!strcmp(lie, "crash")) raise(SIGSEGV);
  if (!strcmp(lie, "exit")) _exit(3);
  if (!strcmp(lie, "hang"))  // in no system call: most of them end a candidate
    for (volatile int ever = 1; ever;) continue;
  return !strcmp(lie, "unwritten");
}

void lie_result(size_t first_bytes, void *out, size_t bytes) {
  const char *lie = how(first_bytes);
  if (lie && !strcmp(lie, "wrong"))
    for (size_t at = 0; at + 4 <= bytes; at += 4) ((float *)out)[at / 4] += 1.0f;
}

void lie_times(size_t first_bytes, double *seconds, size_t count, size_t *bytes) {
  const char *lie = how(first_bytes);
  if (!lie) return;
  if (!strcmp(lie, "junk")) *bytes = 3;
  if (!strcmp(lie, "short")) *bytes = 0;
  if (!strncmp(lie, "last=", 5)) seconds[count - 1] = strtod(lie + 5, NULL);
  for (size_t i = 0; i < count; i++) {
    if (*lie == '=') seconds[i] = strtod(lie + 1, NULL);
    if (*lie == '*') seconds[i] *= strtod(lie + 1, NULL);
  }
}
