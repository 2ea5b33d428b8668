#include "confine.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "calls.h"
#include "landlock.h"

static char told[128] = "[]";

static void tell(const char *name, int holds) {
  size_t length = strlen(told) - 1; /* without the bracket at the end */
  if (holds) snprintf(told + length, sizeof told - length, "%s\"%s\"]", length > 1 ? ", " : "", name);
}

static int limited(int resource, uint64_t value) {
  struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
  return !setrlimit(resource, &limit);
}

void confine(uint64_t memory_bytes) {
  tell("cores", limited(RLIMIT_CORE, 0));
  tell("files", limited(RLIMIT_FSIZE, 0));
  tell("memory", memory_bytes && limited(RLIMIT_AS, memory_bytes));
  tell("privileges", !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  tell("landlock", !landlock_close());
}

void confine_calls(void) { tell("calls", !calls_filter()); }

const char *confine_limits(void) { return told; }
