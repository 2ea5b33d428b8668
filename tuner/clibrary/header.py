"""NAME.h: what a C program sees of a model."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.open_size import Size
from tuner.backend.arena import ALIGNMENT
from tuner.backend.open_products import Shape
from tuner.backend.program import Port
from tuner.clibrary.library import Library

ERRORS = {
    "OK": "no error",
    "NULL_POINTER": "a pointer is null",
    "ARENA_TOO_SMALL": "the arena has fewer bytes than {name}_arena_bytes() says",
    "ARENA_MISALIGNED": f"the arena does not begin at a multiple of {ALIGNMENT} bytes",
    "BUFFER_MISALIGNED": "an input or an output is not aligned as its elements are",
    "WRONG_SIZE": "an input or an output has another size than the model's",
    "OLD_CPU": "this processor lacks instructions that the library is made of: {targets}",
    "NO_WEIGHTS": "the file of weights cannot be read, or the arena was not given any: see {name}_load",
    "WRONG_WEIGHTS": "the weights are not those of this library",
    "WRONG_SET": "there are fewer sets of shapes",
    "WRONG_LENGTH": "the length is none of those that the library takes",
}
"""The text of every code, in the order of the codes."""
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    "float16": "uint16_t",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""How C holds an element; float16 as its bits."""


def header(library: Library) -> str:
    """The text of NAME.h."""
    name, prefix = library.name, library.prefix
    which = library.declared
    codes = ",\n".join(f"  {prefix}_{code} = {number}" for number, code in enumerate([*ERRORS, "REFUSED"]))
    return f"""\
/* {library.model} as a C library, made by Tilefleet {library.version}. C11, or C++. */
#ifndef {prefix}_H
#define {prefix}_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {prefix}_VERSION "{library.version}"
#define {prefix}_LOG "{library.log}"
#define {prefix}_ARENA_BYTES {library.arena_bytes}
#define {prefix}_ALIGNMENT {ALIGNMENT}
{_all_ports(library)}

/* From {prefix}_REFUSED on a code is that a node needs another index, length or divisor than data
 * gave it. */
enum {{
{codes}
}};

/* Compute the model: 0, or one of the codes above. Inputs and outputs are dense arrays, which are read and
 * written where they are; outputs may overlap nothing. The arena has {name}_arena_bytes() bytes, begins at a
 * multiple of {prefix}_ALIGNMENT, and holds nothing between runs{_but(library)}. Several threads may run at
 * once, each with an arena of its own. */
int {name}_run({which}void *arena, const void *const *inputs, void *const *outputs);

{_parallel(library) if library.threads > 1 else ""}{_on(library)}
/* {name}_run after a look at the sizes, all in bytes. */
int {name}_run_checked({which}void *arena, size_t arena_bytes, const void *const *inputs,
                       const size_t *input_bytes, void *const *outputs, const size_t *output_bytes);
{_sets(library) if library.sets > 1 else ""}{_length(library) if library.open else ""}\
{_results(library) if library.counted else ""}\

/* What a code means. */
const char *{name}_error(int code);

/* Where the arena's last run returned a `code` from {prefix}_REFUSED on, the number that it was given; else
 * null. Nothing was computed by it, and the outputs mean nothing. */
const int64_t *{name}_refused(const void *arena, int code);

size_t {name}_arena_bytes(void);
int {name}_inputs(void);
int {name}_outputs(void);

/* Of input or output number `index`: its name, its type as NumPy calls it, its bytes, the number of its axes
 * and the extent of one; null, or 0, where there is none. */
const char *{name}_input_name(int index);
const char *{name}_input_type(int index);
size_t {name}_input_bytes({which}int index);
int {name}_input_axes(int index);
size_t {name}_input_extent({which}int index, int axis);
const char *{name}_output_name(int index);
const char *{name}_output_type(int index);
size_t {name}_output_bytes({which}int index);
int {name}_output_axes(int index);
size_t {name}_output_extent({which}int index, int axis);

/* Tilefleet's version; the SHA-256 of the tuning log. */
const char *{name}_version(void);
const char *{name}_log(void);
{"" if library.embed else _weights(library)}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _parallel(library: Library) -> str:
    name, prefix = library.name, library.prefix
    indent = " " * len(f"int {name}_run_parallel(")
    which = library.declared
    return f"""\
#define {prefix}_THREADS {library.threads}

/* Runs `task(data, index)` once for each index below `count`, which is {prefix}_THREADS at the most, in any
 * order and on any threads, and returns when all have returned. `pool` is what the run was given. */
typedef void (*{name}_parallel_for)(void *pool, void (*task)(void *data, size_t index), void *data,
{" " * len(f"typedef void (*{name}_parallel_for)(")}size_t count);

/* {name}_run with its loops shared out by `parallel_for`; the outputs are the same. */
int {name}_run_parallel({which}void *arena, const void *const *inputs, void *const *outputs,
{indent}{name}_parallel_for parallel_for, void *pool);

"""


def _on(library: Library) -> str:
    name = library.name
    by = f", {name}_parallel_for parallel_for, void *pool" if library.threads > 1 else ""
    indent = " " * len(f"int {name}_run_on(")
    return f"""\
/* The number of what the library has for this processor, -1 for none. It never changes, and a program may ask
 * once: on a virtual machine an answer takes some 20 microseconds, and {name}_run asks each time. */
int {name}_processor(void);

/* {name}_run{"_parallel" if by else ""} without asking: `processor` is what {name}_processor() said. */
int {name}_run_on(int processor, {library.declared}void *arena, const void *const *inputs,
{indent}void *const *outputs{by});
"""


def _sets(library: Library) -> str:
    name, prefix = library.name, library.prefix
    return f"""
#define {prefix}_SETS {library.sets}

/* The number of the set in which inputs have these extents, all of one input after the other's, and -1 where
 * there is none. */
int {name}_set_of(const size_t *input_extents);
int {name}_sets(void);
"""


def _length(library: Library) -> str:
    name, prefix = library.name, library.prefix
    assert library.open is not None
    return f"""
/* The size that is left open is one of these. */
#define {prefix}_LENGTH_MIN {library.open.span.first}
#define {prefix}_LENGTH_MAX {library.open.span.last}

/* The length of which inputs have these extents, all of one input after the other's, and 0 where there is
 * none. */
size_t {name}_length_of(const size_t *input_extents);
"""


def _results(library: Library) -> str:
    name = library.name
    return f"""
/* Data decide the extents of outputs: their buffers have room for {name}_output_bytes, of which the arena's
 * last run filled the beginning, densely, with an array of these extents. */
size_t {name}_result_extent(const void *arena, int index, int axis);
"""


def _all_ports(library: Library) -> str:
    if library.open is not None:
        return f"""\
{_open_ports("INPUT", library.prefix, library.inputs, library.open.inputs)}
{_open_ports("OUTPUT", library.prefix, library.outputs, library.open.outputs)}"""
    if library.sets == 1:
        return f"""\
{_ports("INPUT", library.prefix, library.inputs)}
{_ports("OUTPUT", library.prefix, library.outputs)}"""
    lines = []
    for number, (inputs, outputs) in enumerate(library.ports):
        lines += [
            f"/* Set {number} */",
            _ports("INPUT", f"{library.prefix}_{number}", inputs),
            _ports("OUTPUT", f"{library.prefix}_{number}", outputs),
        ]
    counts = f"#define {library.prefix}_INPUTS {len(library.inputs)}"
    counts += f"\n#define {library.prefix}_OUTPUTS {len(library.outputs)}"
    return "\n".join([counts, *lines])


def _but(library: Library) -> str:
    kept = [] if library.embed else ["where the weights are"]
    kept += ["the extents of outputs"] if library.counted else []
    return f" but {' and '.join(kept)}" if kept else ""


def _weights(library: Library) -> str:
    name = library.name
    return f"""
/* Map the file of weights, and note in the arena where it is: before the first run of each arena. */
int {name}_load(void *arena, const char *path);

/* Unmap what {name}_load mapped. */
void {name}_unload(void *arena);

/* Instead of {name}_load, where there are no files: the content of the file, `bytes` long, at a multiple of
 * {library.prefix}_ALIGNMENT. */
int {name}_use_weights(void *arena, const void *weights, size_t bytes);
size_t {name}_weights_bytes(void);

/* The arena has no weights any more; what it had. */
const void *{name}_forget_weights(void *arena);
"""


def _ports(word: str, prefix: str, ports: Sequence[Port]) -> str:
    lines = [f"#define {prefix}_{word}S {len(ports)}"]
    for index, port in enumerate(ports):
        shape = "".join(f"[{extent}]" for extent in port.shape)
        lines += [
            f"/* {word.lower()} {index}: {_comment(port.name)}, {port.dtype}{shape} */",
            f"#define {prefix}_{word}_{index}_TYPE {C_TYPES[port.dtype]}",
            f"#define {prefix}_{word}_{index}_ELEMENTS {port.bytes // port.element_bytes}",
            f"#define {prefix}_{word}_{index}_BYTES {port.bytes}",
        ]
    return "\n".join(lines)


def _open_ports(word: str, prefix: str, ports: Sequence[Port], shapes: Sequence[Shape]) -> str:
    """As ``_ports``, with macros of the length."""
    lines = [f"#define {prefix}_{word}S {len(ports)}"]
    for index, (port, shape) in enumerate(zip(ports, shapes, strict=True)):
        extents = [in_c(size, "(length)") for size in shape]
        told = "".join(f"[{in_c(size)}]" for size in shape)
        elements = " * ".join(["(size_t)1", *(each if each.isdecimal() else f"({each})" for each in extents)])
        lines += [
            f"/* {word.lower()} {index}: {_comment(port.name)}, {port.dtype}{told} */",
            f"#define {prefix}_{word}_{index}_TYPE {C_TYPES[port.dtype]}",
            f"#define {prefix}_{word}_{index}_ELEMENTS(length) ({elements})",
            f"#define {prefix}_{word}_{index}_BYTES(length) "
            f"({port.element_bytes} * {prefix}_{word}_{index}_ELEMENTS(length))",
        ]
    return "\n".join(lines)


def in_c(size: Size, length: str = "length") -> str:
    """An extent as C computes it."""
    if isinstance(size, int):
        return str(size)
    product = length if size.factor == 1 else f"{size.factor} * {length}"
    return f"{product} {'-' if size.more < 0 else '+'} {abs(size.more)}" if size.more else product


def _comment(text: str) -> str:
    """A name of the model's, which may have anything in it, within a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")
