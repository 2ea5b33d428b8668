"""C of a library of operators: each is a C library of ours, called with the data of onnxruntime's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kernels.target import Target
from tuner.backend.arena import ALIGNMENT
from tuner.backend.program import Port
from tuner.clibrary import extras
from tuner.clibrary.library import Library
from tuner.clibrary.toolchain import glibc_of, link_for_glibc
from tuner.ortmodel.abi import DECLARATIONS, ELEMENT_TYPES

ENTRY = "RegisterCustomOps"
"""What onnxruntime calls of a library."""


def domain_of(name: str) -> str:
    """The domain of the operators of a library called ``name``."""
    return f"tilefleet.{name}"


def write_library(name: str, parts: Sequence[tuple[Library, Path]], target: Target, output: Path) -> None:
    """Link the shared library of ``parts``, each with the folder it was written to, as ``output``.

    Raises ToolError, also where onnxruntime does not run on the target.
    """
    system = glibc_of(target)
    with TemporaryDirectory(prefix="tilefleet-") as scratch:
        (Path(scratch) / "part.h").write_text(_PART)
        sources = [Path(scratch) / f"{name}_operators.c"]
        sources[0].write_text(_operators(name, [library for library, _ in parts]))
        objects: list[Path] = []
        for library, folder in parts:
            # In one unit, so that only the model's own functions are between onnxruntime and the kernels.
            source = folder / f"{library.name}_part.c"
            source.write_text(_part(library))
            (folder / "part.h").write_text(_PART)
            sources.append(source)
            objects += [folder / each for each in extras.objects(library)]
        link_for_glibc([*sources, *objects], output, system, ENTRY)


_PART = """\
#include <stddef.h>
#include <stdint.h>

typedef void (*PartFor)(void *pool, void (*task)(void *data, size_t index), void *data, size_t count);

typedef struct {
  const char *name;
  int axes, type;
  size_t element_bytes;
  const int64_t *extents;
} PartPort;

typedef struct {
  const char *name;
  int inputs, outputs;
  const PartPort *takes, *gives;
  size_t arena_bytes;
  const char *others; /* of shapes that it takes beside those of its ports */
  int (*level)(void); /* below 0 where the processor is too old */
  int (*which)(const size_t *extents); /* a number of all inputs' extents; below 0 where it takes others */
  size_t (*extent)(int which, int output, int axis);
  int (*run)(int level, int which, void *arena, const void *const *inputs, void *const *outputs,
             PartFor parallel_for, void *pool);
  const char *(*error)(int code);
  const int64_t *(*refused)(const void *arena, int code);
  int old_cpu;
} Part;
"""


def _part(library: Library) -> str:
    name, prefix = library.name, library.prefix
    how = ", parallel_for, pool" if library.threads > 1 else ""
    given = {"set": "which, ", "length": "(size_t)which, ", "": ""}[library.which]
    return f"""\
#include <string.h>
#include "part.h"
/* What is not the system's is not to be seen from outside. */
#pragma GCC visibility push(hidden)
#include "{name}.c"

{_ports("takes", library.inputs)}

{_ports("gives", library.outputs)}

static int part_which(const size_t *extents) {{
{_which(library)}
}}

static size_t part_extent(int which, int output, int axis) {{
  (void)which;
  return {name}_output_extent({given}output, axis);
}}

static int part_run(int level, int which, void *arena, const void *const *inputs, void *const *outputs,
                    PartFor parallel_for, void *pool) {{
  (void)which, (void)parallel_for, (void)pool;
  return {name}_run_on(level, {given}arena, inputs, outputs{how});
}}

extern const Part {name}_part;
const Part {name}_part = {{
  "{name}", {len(library.inputs)}, {len(library.outputs)}, takes, gives, {library.arena_bytes},
  "{_others(library)}", {name}_processor, part_which, part_extent, part_run, {name}_error, {name}_refused,
  {prefix}_OLD_CPU,
}};
"""


def _which(library: Library) -> str:
    """C that returns the number of the set that ``extents`` are of, or the length; below 0 for others."""
    if library.open is not None:
        return f"  size_t length = {library.name}_length_of(extents);\n  return length ? (int)length : -1;"
    if library.sets > 1:
        return f"  return {library.name}_set_of(extents);"
    return f"""\
  for (int i = 0; i < {len(library.inputs)}; i++)
    for (int axis = 0; axis < takes[i].axes; axis++)
      if (*extents++ != (size_t)takes[i].extents[axis]) return -1;
  return 0;"""


def _others(library: Library) -> str:
    """What to say of the shapes that it takes, behind those of its ports."""
    if library.open is not None:
        return f", of which a size is from {library.open.span.first} to {library.open.span.last}"
    return f" and {library.sets - 1} other sets of shapes" if library.sets > 1 else ""


def _ports(variable: str, ports: Sequence[Port]) -> str:
    lines = []
    for index, port in enumerate(ports):
        extents = ", ".join(map(str, port.shape)) or "0"
        lines.append(f"static const int64_t {variable}_{index}[] = {{{extents}}};")
    # Their names are within the library already, as text of C.
    kind = "input" if variable == "takes" else "output"
    rows = [
        f"  {{{kind}_names + {_place(ports, index)}, {len(port.shape)}, {ELEMENT_TYPES[port.dtype]}, "
        f"{port.element_bytes}, {variable}_{index}}}"
        for index, port in enumerate(ports)
    ]
    none = "  {0, 0, 0, 0, 0}"
    return "\n".join([*lines, f"static const PartPort {variable}[] = {{", ",\n".join(rows or [none]), "};"])


def _place(ports: Sequence[Port], index: int) -> int:
    """Where the name of a port begins among those of all, each of which ends with a zero."""
    return sum(len(port.name.encode()) + 1 for port in ports[:index])


def _operators(name: str, libraries: Sequence[Library]) -> str:
    declared = "".join(f"extern const Part {each.name}_part;\n" for each in libraries)
    operators = ",\n".join(f"  OPERATOR(&{each.name}_part)" for each in libraries) or "  OPERATOR(0)"
    ports = max((len(p) for each in libraries for p in (each.inputs, each.outputs)), default=0)
    axes = max((len(p.shape) for each in libraries for p in (*each.inputs, *each.outputs)), default=0)
    arena = max((each.arena_bytes for each in libraries), default=ALIGNMENT)
    facts = {
        "DECLARED": declared,
        "OPERATORS": operators,
        "COUNT": len(libraries),
        "PORTS": max(1, ports),
        "AXES": max(1, axes),
        "ARENA": -(-arena // ALIGNMENT) * ALIGNMENT,
        "ALIGNMENT": ALIGNMENT,
        "DOMAIN": domain_of(name),
        "THREADED": int(any(each.threads > 1 for each in libraries)),
        "ENTRY": ENTRY,
    }
    text = _SOURCE
    for word, value in facts.items():
        text = text.replace(f"@{word}@", str(value))
    return (
        f"{DECLARATIONS}\n#include <pthread.h>\n#include <stdio.h>\n"
        f"#include <stdlib.h>\n#include <string.h>\n\n{text}"
    )


_SOURCE = """\
#include "part.h"

enum { OPERATORS = @COUNT@, PORTS = @PORTS@, AXES = @AXES@, THREADED = @THREADED@ };
#define ARENA_BYTES ((size_t)@ARENA@)

@DECLARED@
typedef struct {
  OrtOperator is;
  const Part *part;
} Operator;

typedef struct {
  const OrtApi *api;
  const Part *part;
  int level;
} Kernel;

typedef struct Arena {
  struct Arena *next;
} Arena;

/* Arenas that no run has; each run takes one and gives it back, so there are as many as runs at once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Arena *spare;
static size_t kernels;
static OrtDomain *domain;
static const OrtApi *with_threads;

static void *take_arena(void) {
  Arena *arena;
  pthread_mutex_lock(&lock);
  arena = spare;
  if (arena) spare = arena->next;
  pthread_mutex_unlock(&lock);
  return arena ? arena : aligned_alloc(@ALIGNMENT@, ARENA_BYTES);
}

static void give_arena(void *given) {
  Arena *arena = given;
  pthread_mutex_lock(&lock);
  arena->next = spare, spare = arena;
  pthread_mutex_unlock(&lock);
}

static const Part *part_of(const OrtOperator *self) { return ((const Operator *)self)->part; }
static const char *name_of(const OrtOperator *self) { return part_of(self)->name; }
static const char *no_provider(const OrtOperator *self) { return (void)self, (const char *)0; }
static size_t inputs_of(const OrtOperator *self) { return (size_t)part_of(self)->inputs; }
static size_t outputs_of(const OrtOperator *self) { return (size_t)part_of(self)->outputs; }
static int takes_type(const OrtOperator *self, size_t index) { return part_of(self)->takes[index].type; }
static int gives_type(const OrtOperator *self, size_t index) { return part_of(self)->gives[index].type; }
static int required(const OrtOperator *self, size_t index) { return (void)self, (void)index, 0; }
static int usual(const OrtOperator *self, size_t index) { return (void)self, (void)index, 0; }
static int one(const OrtOperator *self) { return (void)self, 1; }

static OrtStatus *new_kernel(const OrtOperator *self, const OrtApi *api, const OrtInfo *info, void **made) {
  const Part *part = part_of(self);
  int level = part->level();
  Kernel *kernel;
  (void)info;
  if (level < 0) return api->new_status(NOT_HERE, part->error(part->old_cpu));
  kernel = malloc(sizeof *kernel);
  if (!kernel) return api->new_status(FAILED, "no memory for an operator");
  kernel->api = api, kernel->part = part, kernel->level = level;
  pthread_mutex_lock(&lock);
  kernels++;
  pthread_mutex_unlock(&lock);
  *made = kernel;
  return 0;
}

static void free_kernel(void *kernel) {
  Arena *left = 0, *next;
  pthread_mutex_lock(&lock);
  if (--kernels == 0) left = spare, spare = 0;
  pthread_mutex_unlock(&lock);
  for (; left; left = next) next = left->next, free(left);
  free(kernel);
}

static void list_extents(char *text, size_t bytes, const int64_t *extents, size_t axes) {
  size_t used = 0;
  text[0] = 0;
  for (size_t i = 0; i < axes && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i ? ", " : "", (long long)extents[i]);
}

static OrtStatus *other_shape(const Kernel *kernel, const PartPort *port, const int64_t *extents,
                              size_t axes) {
  char text[800], is[200], wanted[200];
  list_extents(is, sizeof is, extents, axes > AXES ? AXES : axes);
  list_extents(wanted, sizeof wanted, port->extents, (size_t)port->axes);
  snprintf(text, sizeof text, "%s: input '%.100s' has the shape [%s%s], and the library was built for [%s]%s",
           kernel->part->name, port->name, is, axes > AXES ? "..." : "", wanted, kernel->part->others);
  return kernel->api->new_status(BAD_ARGUMENT, text);
}

/* Where the elements of input number `index` are, and its extents, which must be as many as the code's. */
static OrtStatus *take(const Kernel *kernel, const OrtContext *context, size_t index, const void **data,
                       int64_t *extents) {
  const OrtApi *api = kernel->api;
  const PartPort *port = &kernel->part->takes[index];
  const OrtValue *value = 0;
  OrtShape *shape;
  OrtStatus *status = api->input(context, index, &value);
  size_t axes;
  union {
    const OrtValue *read;
    OrtValue *plain;
  } same;
  void *found = 0;
  if (status) return status;
  if (!value) return api->new_status(BAD_ARGUMENT, "an input is missing");
  if ((status = api->shape_of(value, &shape))) return status;
  status = api->axes_of(shape, &axes);
  if (!status && axes <= AXES) status = api->extents_of(shape, extents, axes);
  api->free_shape(shape);
  if (status) return status;
  if (axes != (size_t)port->axes) return other_shape(kernel, port, extents, axes);
  same.read = value;
  status = api->data_of(same.plain, &found);
  *data = found;
  return status;
}

/* That the code is for no such inputs: of the first that is not as its port. */
static OrtStatus *no_such(const Kernel *kernel, int64_t (*extents)[AXES]) {
  const Part *part = kernel->part;
  int i = 0;
  while (i + 1 < part->inputs &&
         !memcmp(extents[i], part->takes[i].extents, (size_t)part->takes[i].axes * sizeof **extents))
    i++;
  return other_shape(kernel, &part->takes[i], extents[i], (size_t)part->takes[i].axes);
}

/* Copy inputs that are not aligned as their elements are; onnxruntime takes such. Free the copies after. */
static OrtStatus *align(const Kernel *kernel, const void **in, int64_t (*extents)[AXES], void **copies) {
  const PartPort *takes = kernel->part->takes;
  size_t bytes[PORTS], whole = 0;
  char *next;
  *copies = 0;
  for (int i = 0; i < kernel->part->inputs; i++) {
    bytes[i] = 0;
    if ((uintptr_t)in[i] % takes[i].element_bytes == 0) continue;
    bytes[i] = takes[i].element_bytes;
    for (int axis = 0; axis < takes[i].axes; axis++) bytes[i] *= (size_t)extents[i][axis];
    whole += (bytes[i] + 15) / 16 * 16;
  }
  if (!whole) return 0;
  next = *copies = malloc(whole);
  if (!next) return kernel->api->new_status(FAILED, "no memory for inputs that are not aligned");
  for (int i = 0; i < kernel->part->inputs; i++) {
    if (!bytes[i]) continue;
    in[i] = memcpy(next, in[i], bytes[i]);
    next += (bytes[i] + 15) / 16 * 16;
  }
  return 0;
}

static void by_onnxruntime(void *context, void (*task)(void *, size_t), void *data, size_t count) {
  OrtStatus *status = with_threads->parallel_for(context, task, count, 0, data);
  if (!status) return;
  with_threads->free_status(status);
  for (size_t i = 0; i < count; i++) task(data, i);
}

static OrtStatus *failed(const Kernel *kernel, const void *arena, int code) {
  const int64_t *number = kernel->part->refused(arena, code);
  char text[800];
  if (!number) return kernel->api->new_status(FAILED, kernel->part->error(code));
  snprintf(text, sizeof text, "%.700s, and is given %lld", kernel->part->error(code), (long long)*number);
  return kernel->api->new_status(BAD_ARGUMENT, text);
}

static OrtStatus *compute(void *given, OrtContext *context) {
  const Kernel *kernel = given;
  const Part *part = kernel->part;
  const OrtApi *api = kernel->api;
  const void *in[PORTS];
  void *out[PORTS], *arena, *copies;
  int64_t extents[PORTS][AXES] = {{0}};
  size_t all[PORTS * AXES], count = 0;
  OrtStatus *status;
  int code, which;
  for (int i = 0; i < part->inputs; i++) {
    if ((status = take(kernel, context, (size_t)i, &in[i], extents[i]))) return status;
    for (int axis = 0; axis < part->takes[i].axes; axis++) all[count++] = (size_t)extents[i][axis];
  }
  which = part->which(all);
  if (which < 0) return no_such(kernel, extents);
  if ((status = align(kernel, in, extents, &copies))) return status;
  for (int i = 0; i < part->outputs; i++) {
    const PartPort *port = &part->gives[i];
    OrtValue *value;
    for (int axis = 0; axis < port->axes; axis++) extents[i][axis] = (int64_t)part->extent(which, i, axis);
    status = api->output(context, (size_t)i, extents[i], (size_t)port->axes, &value);
    if (!status) status = api->data_of(value, &out[i]);
    if (status) return free(copies), status;
  }
  arena = take_arena();
  if (!arena) return free(copies), api->new_status(FAILED, "no memory for the arena");
  code = part->run(kernel->level, which, arena, in, out, with_threads ? by_onnxruntime : 0, context);
  status = code ? failed(kernel, arena, code) : 0;
  give_arena(arena);
  free(copies);
  return status;
}

#define OPERATOR(of) {.is = BASE, .part = (of)}
#define BASE                                                                                            \\
  {.version = OLDEST_VERSION, .name = name_of, .provider = no_provider, .input_type = takes_type,       \\
   .inputs = inputs_of, .output_type = gives_type, .outputs = outputs_of, .free_kernel = free_kernel,   \\
   .input_kind = required, .output_kind = required, .input_memory = usual, .least_inputs = one,         \\
   .inputs_alike = one, .least_outputs = one, .outputs_alike = one, .new_kernel = new_kernel,           \\
   .compute = compute}

static const Operator operators[] = {
@OPERATORS@
};

/* The second number of a version, 31 of "1.31.1"; asking an older onnxruntime for more makes it complain. */
static int minor_of(const char *version) {
  const char *dot = strchr(version, '.');
  return dot ? atoi(dot + 1) : 0;
}

/* The domain is made once and outlives all sessions, which have no more than a pointer to it. */
static OrtStatus *domain_here(const OrtApi *api) {
  OrtStatus *status;
  if (domain) return 0;
  if ((status = api->new_domain("@DOMAIN@", &domain))) return status;
  for (int i = 0; i < OPERATORS && !status; i++) status = api->add_operator(domain, &operators[i].is);
  if (status) api->free_domain(domain), domain = 0;
  return status;
}

__attribute__((visibility("default"))) OrtStatus *@ENTRY@(OrtOptions *options, const OrtApiBase *base);
OrtStatus *@ENTRY@(OrtOptions *options, const OrtApiBase *base) {
  const OrtApi *api = base->api(OLDEST_VERSION);
  OrtStatus *status;
  if (!api)
    return base->api(1)->new_status(NOT_HERE, "this library needs onnxruntime 1.16 or newer");
  pthread_mutex_lock(&lock);
  if (THREADED && !with_threads && minor_of(base->version()) >= WITH_THREADS)
    with_threads = base->api(WITH_THREADS);
  status = domain_here(api);
  pthread_mutex_unlock(&lock);
  return status ? status : api->add_domain(options, domain);
}
"""
