#include "uploads.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

static Upload *uploads;

static void drop(Upload *upload) {
  free(upload->name);
  free(upload->data);
  free(upload);
}

int upload_put(const char *name, const void *data, size_t bytes) {
  upload_remove(name);
  Upload *upload = malloc(sizeof *upload);
  char *own_name = strdup(name);
  uint8_t *own_data = malloc(bytes ? bytes : 1);
  if (!upload || !own_name || !own_data) {
    free(upload);
    free(own_name);
    free(own_data);
    return error_set("out of memory: an upload of %zu bytes", bytes);
  }
  memcpy(own_data, data, bytes);
  *upload = (Upload){.next = uploads, .name = own_name, .data = own_data, .bytes = bytes};
  uploads = upload;
  return 0;
}

const Upload *upload_find(const char *name) {
  const Upload *upload = uploads;
  while (upload && strcmp(upload->name, name)) upload = upload->next;
  return upload;
}

void upload_remove(const char *name) {
  for (Upload **link = &uploads; *link; link = &(*link)->next)
    if (!strcmp((*link)->name, name)) {
      Upload *found = *link;
      *link = found->next;
      drop(found);
      return;
    }
}
