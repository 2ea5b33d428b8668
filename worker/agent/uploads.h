/* Uploaded files. They are kept in the session's memory, never on the board's disk: names cannot escape a
 * folder, nothing is left behind, and the loader reads from memory anyway. */
#ifndef TILEFLEET_UPLOADS_H
#define TILEFLEET_UPLOADS_H

#include <stddef.h>
#include <stdint.h>

typedef struct Upload {
  struct Upload *next;
  char *name;
  uint8_t *data;
  size_t bytes;
} Upload;

/* Keep a copy of a file, replacing one of the same name; 0, or -1 and a pending error. */
int upload_put(const char *name, const void *data, size_t bytes);

/* The file of this name, or NULL. */
const Upload *upload_find(const char *name);

/* Forget a file; one that is not there is fine. */
void upload_remove(const char *name);

#endif
