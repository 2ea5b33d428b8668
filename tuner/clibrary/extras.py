"""What lies beside NAME.c and NAME.h: a program that runs the model, and how to build with the library."""

from __future__ import annotations

from tuner.clibrary.library import Library
from tuner.clibrary.pool import POOL_END, pool


def example(library: Library) -> str:
    """example.c: reads inputs from files that it is given, else makes some, and writes the outputs."""
    name, prefix = library.name, library.prefix
    load, unload = "", ""
    if not library.embed:
        load = f'  const char *weights = argc > 1 ? argv[1] : "{name}.weights";\n'
        load += f"  code = {name}_load(arena, weights);\n"
        load += f'  if (code) return fprintf(stderr, "%s\\n", {name}_error(code)), 1;\n'
        unload = f"  {name}_unload(arena);\n"
    threads, run, begin, end = "", f"{name}_run(arena, inputs, outputs)", "", ""
    if library.threads > 1:
        threads = f"\n{pool(library.threads)}\n{POOL_END}"
        run = f"{name}_run_parallel(arena, inputs, outputs, pool_parallel_for, &threads)"
        begin, end = (
            f"  static Pool threads;\n  pool_begin(&threads, {prefix}_THREADS - 1);\n",
            "  pool_end(&threads);\n",
        )
    which = {"set": "0, ", "length": f"{prefix}_EXAMPLE_LENGTH, ", "": ""}[library.which]
    run = run.replace("(arena", f"({which}arena")
    bytes_of = f"{name}_output_bytes({which}i)"
    if library.counted:
        size, counted = (
            "bytes",
            f"""\
    size_t bytes = {name}_output_bytes({which}i);
    for (int axis = 0; axis < {name}_output_axes(i); axis++)
      bytes = bytes / {name}_output_extent({which}i, axis) * {name}_result_extent(arena, i, axis);
""",
        )
    else:
        size, counted = bytes_of, ""
    first = 1 if library.embed else 2
    of_sets = " Shapes are those of the first set." if library.sets > 1 else ""
    length = ""
    if library.open is not None:
        length = f"\n#define {prefix}_EXAMPLE_LENGTH {library.open.span.usual}\n"
        of_sets = f" Shapes are those of length {library.open.span.usual}."
    usage = "[INPUT.bin ...]" if library.embed else "[WEIGHTS [INPUT.bin ...]]"
    return f"""\
/* Runs the model once to warm up and once for the time, and writes output_0.bin and so on.
 * example {usage}: raw arrays; without them the inputs are small numbers.{of_sets} */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "{name}.h"
{length}{threads}
static void *memory(size_t bytes) {{
  size_t whole = (bytes + {prefix}_ALIGNMENT - 1) / {prefix}_ALIGNMENT * {prefix}_ALIGNMENT;
  void *got = aligned_alloc({prefix}_ALIGNMENT, whole ? whole : {prefix}_ALIGNMENT);
  if (!got) fprintf(stderr, "no memory\\n"), exit(1);
  return got;
}}

static void fill(int index, void *into) {{
  size_t bytes = {name}_input_bytes({which}index);
  if (!strcmp({name}_input_type(index), "float32"))
    for (size_t i = 0; i < bytes / sizeof(float); i++) ((float *)into)[i] = (float)(i % 17) / 17.0f;
  else
    memset(into, 0, bytes);
}}

static int get(int index, void *into, const char *path) {{
  FILE *file = fopen(path, "rb");
  size_t got = file ? fread(into, 1, {name}_input_bytes({which}index), file) : 0;
  if (file) fclose(file);
  if (got == {name}_input_bytes({which}index)) return 0;
  fprintf(stderr, "%s: %zu bytes, and input %d has %zu\\n", path, got, index,
          {name}_input_bytes({which}index));
  return 1;
}}

static double now_ms(void) {{
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}}

int main(int argc, char **argv) {{
  static const void *inputs[{max(1, len(library.inputs))}];
  static void *outputs[{max(1, len(library.outputs))}];
  void *arena = memory({name}_arena_bytes());
  double begun;
  int code;
{load}  for (int i = 0; i < {name}_inputs(); i++) {{
    void *input = memory({name}_input_bytes({which}i));
    if (argc <= i + {first}) fill(i, input);
    else if (get(i, input, argv[i + {first}])) return 1;
    inputs[i] = input;
  }}
  for (int i = 0; i < {name}_outputs(); i++) outputs[i] = memory({bytes_of});
{begin}  code = {run};
  begun = now_ms();
  if (!code) code = {run};
  if (code) return fprintf(stderr, "%s\\n", {name}_error(code)), 1;
  printf("%.3f ms\\n", now_ms() - begun);
  for (int i = 0; i < {name}_outputs(); i++) {{
    char path[32];
    FILE *file;
{counted}    snprintf(path, sizeof path, "output_%d.bin", i);
    file = fopen(path, "wb");
    if (!file || fwrite(outputs[i], 1, {size}, file) != {size} ||
        fclose(file))
      return fprintf(stderr, "%s cannot be written\\n", path), 1;
    printf("%s: %s, %s\\n", path, {name}_output_name(i), {name}_output_type(i));
  }}
{end}{unload}  free(arena);
  return 0;
}}
"""


def mapping(library: Library) -> str:
    """NAME_map.c: the file of weights in memory, where there is POSIX."""
    name, prefix = library.name, library.prefix
    return f"""\
/* Apart from {name}.c, as only this needs a system with files. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "{name}.h"

int {name}_load(void *arena, const char *path) {{
  int file, code;
  struct stat about;
  void *mapped;
  if (!arena || !path) return {prefix}_NULL_POINTER;
  file = open(path, O_RDONLY);
  if (file < 0) return {prefix}_NO_WEIGHTS;
  if (fstat(file, &about) || (uintmax_t)about.st_size != {name}_weights_bytes()) {{
    close(file);
    return {prefix}_WRONG_WEIGHTS;
  }}
  mapped = mmap(0, {name}_weights_bytes(), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) return {prefix}_NO_WEIGHTS;
  code = {name}_use_weights(arena, mapped, {name}_weights_bytes());
  if (code) munmap(mapped, {name}_weights_bytes());
  return code;
}}

void {name}_unload(void *arena) {{
  const void *mapped = {name}_forget_weights(arena);
  if (mapped) munmap((void *)(uintptr_t)mapped, {name}_weights_bytes());
}}
"""


def makefile(library: Library) -> str:
    """Makefile: the example."""
    name = library.name
    mapped = "" if library.embed else f" {name}_map.c"
    threads = " -pthread" if library.threads > 1 else ""
    return f"""\
CC ?= cc
CFLAGS ?= -O2 -Wall -Wextra -Wpedantic -Werror

example: example.c {name}.h lib{name}.a
	$(CC) -std=c11{threads} $(CFLAGS) example.c lib{name}.a -o $@

# The same from source, by your own compiler; only the kernels stay as they are.
own: example.c {name}.c{mapped} {name}.h
	$(CC) -std=c11{threads} $(CFLAGS) example.c {name}.c{mapped} {" ".join(objects(library))} -o $@

clean:
	rm -f example own output_*.bin
.PHONY: clean
"""


def cmake(library: Library) -> str:
    """CMakeLists.txt: the library as a target, by the compiler of who uses it."""
    name = library.name
    sources = [f"{name}.c", *([] if library.embed else [f"{name}_map.c"]), *objects(library)]
    threads = ""
    if library.threads > 1:
        threads = f"find_package(Threads REQUIRED)\ntarget_link_libraries({name}_example Threads::Threads)\n"
    return f"""\
# add_subdirectory(THIS_FOLDER) and target_link_libraries(YOURS {name}).
cmake_minimum_required(VERSION 3.13)
project({name} C)
add_library({name} STATIC {" ".join(sources)})
set_target_properties({name} PROPERTIES C_STANDARD 11 POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
add_executable({name}_example EXCLUDE_FROM_ALL example.c)
target_link_libraries({name}_example {name})
{threads}"""


def pkg_config(library: Library) -> str:
    """NAME.pc: the folder it lies in is where the library is."""
    name = library.name
    version = library.version
    return f"""\
Name: {name}
Description: {library.model} as a C library, made by Tilefleet
Version: {version}
Cflags: -I${{pcfiledir}}
Libs: -L${{pcfiledir}} -l{name}
"""


def objects(library: Library) -> list[str]:
    """The objects that no compiler of the user's makes."""
    every = [kernels(library, number) for number in range(len(library.levels))]
    return [*every, *([weights(library)] if library.embed else [])]


def kernels(library: Library, number: int) -> str:
    """The object with the functions of a variant."""
    return f"{library.name}_kernels_{number}.o"


def weights(library: Library) -> str:
    """The object with the weights, where they are in the archive."""
    return f"{library.name}_weights.o"
