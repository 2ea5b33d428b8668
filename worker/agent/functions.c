#include "functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "error.h"
#include "fast_memory.h"
#include "reply.h"
#include "stats.h"
#include "tensors.h"
#include "timer.h"
#include "uploads.h"

/* Check arguments against one letter each: s string, b bytes, m module, i integer. More are allowed. */
static int check(const char *name, const char *kinds, const Value *args, int32_t num_args) {
  if (num_args < (int32_t)strlen(kinds))
    return error_set("%s: %d arguments, needs %zu", name, num_args, strlen(kinds));
  for (int i = 0; kinds[i]; i++) {
    int32_t type = args[i].type;
    int wanted = kinds[i] == 's'   ? TYPE_STRING
                 : kinds[i] == 'b' ? TYPE_BYTES
                 : kinds[i] == 'm' ? TYPE_MODULE
                                   : TYPE_INT;
    if (type != wanted && !(wanted == TYPE_INT && type == TYPE_BOOL))
      return error_set("%s: argument %d is of type %d, not %d", name, i, type, wanted);
  }
  return 0;
}

static int upload(const Value *args, int32_t num_args) {
  if (check("upload", "sb", args, num_args)) return -1;
  if (upload_put(args[0].string, args[1].bytes->data, args[1].bytes->size)) return -1;
  reply_none();
  return 0;
}

static int remove_upload(const Value *args, int32_t num_args) {
  if (check("remove", "s", args, num_args)) return -1;
  upload_remove(args[0].string);
  reply_none();
  return 0;
}

static int load_module(const Value *args, int32_t num_args) {
  if (check("load_module", "s", args, num_args)) return -1;
  const Upload *file = upload_find(args[0].string);
  if (!file) return error_set("load_module: %s was not uploaded in this session", args[0].string);
  Image *image = image_load(file->data, file->bytes);
  if (!image) return -1;
  uint64_t handle = handle_new((Object){.kind = OBJECT_MODULE, .image = image});
  if (!handle) return -1;
  reply_handle(TYPE_MODULE, handle);
  return 0;
}

/* The compiled function of this name in the module; TVM prefixes the symbol. */
static PackedFunction find_kernel(const Value *module, const char *name) {
  Object *object = handle_find_module((uint64_t)module->i);
  if (!object) return NULL;
  char symbol[256];
  if (snprintf(symbol, sizeof symbol, "__tvm_ffi_%s", name) >= (int)sizeof symbol)
    return error_set("the function name %.40s... is too long", name), NULL;
  void *address = image_symbol(object->image, symbol);
  if (!address) error_set("the module has no function %s", name);
  if (simulation_active() && !ARCH_IS_KNOWN_TO_CLOCK((uintptr_t)address))
    return error_set("%s is Thumb code, which the simulated clock does not know: build it as A32", name), NULL;
  return (PackedFunction)(uintptr_t)address;
}

static int get_function(const Value *args, int32_t num_args) {
  if (check("get_function", "ms", args, num_args)) return -1;
  PackedFunction function = find_kernel(&args[0], args[1].string);
  if (!function) return -1;
  uint64_t module = (uint64_t)args[0].i;
  uint64_t handle = handle_new((Object){.kind = OBJECT_KERNEL, .module = module, .function = function});
  if (!handle) return -1;
  reply_handle(TYPE_FUNCTION, handle);
  return 0;
}

/* (module, name, device type, device id, number, repeat, min_repeat_ms, limit_zero_time_iterations,
 * cooldown_interval_ms, repeats_to_cooldown, cache_flush_bytes, f_preproc) -> evaluator. */
static int time_evaluator(const Value *args, int32_t num_args) {
  if (check("time_evaluator", "msiiiiiiiiis", args, num_args)) return -1;
  PackedFunction function = find_kernel(&args[0], args[1].string);
  if (!function) return -1;
  Timing timing = {.number = args[4].i,
                   .repeat = args[5].i,
                   .min_repeat_ms = args[6].i,
                   .limit_zero_time_iterations = args[7].i,
                   .cooldown_interval_ms = args[8].i,
                   .repeats_to_cooldown = args[9].i,
                   .cache_flush_bytes = args[10].i};
  if (preparation_parse(args[11].string, &timing.preparation) || timing_check(&timing)) return -1;
  uint64_t handle = handle_new((Object){
      .kind = OBJECT_EVALUATOR, .module = (uint64_t)args[0].i, .function = function, .timing = timing});
  if (!handle) return -1;
  reply_handle(TYPE_FUNCTION, handle);
  return 0;
}

static int stats(const Value *args, int32_t num_args) {
  (void)args, (void)num_args;
  char text[768];
  stats_format(text, sizeof text);
  reply_string(text);
  return 0;
}

static int disturbances(const Value *args, int32_t num_args) {
  (void)args, (void)num_args;
  const char *told = timed_disturbances();
  reply_bytes(told, strlen(told));
  return 0;
}

static const struct {
  const char *name;
  BoardFunction function;
} table[] = {
    {"tvm.rpc.server.upload", upload},
    {"tvm.rpc.server.remove", remove_upload},
    {"tvm.rpc.server.load_module", load_module},
    {"tvm.rpc.server.ModuleGetFunction", get_function},
    {"runtime.RPCTimeEvaluator", time_evaluator},
    {"tilefleet.stats", stats},
    {"tilefleet.disturbances", disturbances},
};

BoardFunction function_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].name, name)) return table[i].function;
  return NULL;
}

/* A kernel trusts its tensors' sizes: check them here, where a wrong one is still an error. */
static int check_tensors(const Value *args, int32_t num_args) {
  for (int32_t i = 0; i < num_args; i++)
    if (args[i].type == TYPE_TENSOR && !tensors_at(args[i].tensor, tensor_bytes(args[i].tensor))) return -1;
  return 0;
}

static int call_kernel(PackedFunction function, const Value *args, int32_t num_args) {
  Value result = {.type = TYPE_NONE};
  if (check_tensors(args, num_args) || function(NULL, args, num_args, &result)) return -1;
  reply_value(&result);
  return 0;
}

static int call_evaluator(const Object *object, const Value *args, int32_t num_args) {
  size_t bytes = (size_t)object->timing.repeat * sizeof(double);
  double *seconds;
  if (posix_memalign((void **)&seconds, SIMULATION_ALIGNMENT, bytes)) return error_set("out of memory");
  int status = check_tensors(args, num_args);
  if (!status) status = timing_run(&object->timing, object->function, args, num_args, seconds);
  if (!status) reply_bytes(seconds, bytes);
  free(seconds);
  return status;
}

int function_call(uint64_t handle, const Value *args, int32_t num_args) {
  const Object *object = handle_find(handle);
  if (!object) return -1;
  fast_memory_clear(); /* a kernel that failed gave nothing back */
  switch (object->kind) {
    case OBJECT_BOARD_FUNCTION: return object->board_function(args, num_args);
    case OBJECT_KERNEL: return call_kernel(object->function, args, num_args);
    case OBJECT_EVALUATOR: return call_evaluator(object, args, num_args);
    default: return error_set("a module cannot be called");
  }
}
