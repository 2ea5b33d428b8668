#include "handles.h"

#include <stdlib.h>

#include "error.h"

static Object *objects; /* handle h is objects[h - 1]: 0 is never a handle */
static size_t num_objects, capacity;

uint64_t handle_new(Object object) {
  size_t slot = 0;
  while (slot < num_objects && objects[slot].kind != OBJECT_FREE) slot++;
  if (slot == capacity) {
    size_t more = capacity * 2 + 16;
    Object *grown = realloc(objects, more * sizeof *grown);
    if (!grown) return (void)error_set("out of memory"), 0;
    objects = grown;
    capacity = more;
  }
  if (slot == num_objects) num_objects++;
  object.uses = 1;
  objects[slot] = object;
  if (object.module) objects[object.module - 1].uses++;
  return slot + 1;
}

Object *handle_find(uint64_t handle) {
  if (handle == 0 || handle > num_objects || objects[handle - 1].kind == OBJECT_FREE) {
    error_set("no object has the handle %llu", (unsigned long long)handle);
    return NULL;
  }
  return objects + (handle - 1);
}

Object *handle_find_module(uint64_t handle) {
  Object *object = handle_find(handle);
  if (object && object->kind != OBJECT_MODULE) {
    error_set("the handle %llu is not a module's", (unsigned long long)handle);
    return NULL;
  }
  return object;
}

int handle_release(uint64_t handle) {
  Object *object = handle_find(handle);
  if (!object) return -1;
  if (--object->uses) return 0;
  uint64_t module = object->module;
  if (object->kind == OBJECT_MODULE) image_unload(object->image);
  object->kind = OBJECT_FREE;
  return module ? handle_release(module) : 0;
}
