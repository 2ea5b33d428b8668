"""NAME.c: the calls of a model in order, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable

from tuner.backend.arena import ALIGNMENT
from tuner.backend.program import Program, Storage
from tuner.clibrary.cpu import check
from tuner.clibrary.header import ERRORS, in_c
from tuner.clibrary.library import Library, Variant
from tuner.clibrary.parallel import Fork
from tuner.clibrary.refusals import calling
from tuner.clibrary.steps import CALL, PLACE_OF, as_table
from tuner.clibrary.told import told
from tuner.clibrary.turning import loops_in_c, parameters
from tuner.clibrary.weights import HASH_BYTES, HEADER_BYTES, MAGIC


def source(library: Library) -> str:
    """The text of NAME.c."""
    name = library.name
    variants = [_variant(library, number) for number in range(len(library.variants))]
    parts = [
        f'#include "{name}.h"',
        "#include <string.h>",
        "/* Not to be seen by who links this into a shared library. */\n"
        '#define HIDDEN __attribute__((visibility("hidden")))',
        *([f"HIDDEN extern const unsigned char {name}_weights[];"] if library.embed else []),
        "/* Kernels call it where a compiler is to keep nothing in registers. */\n"
        f"HIDDEN int {name}_apart(void);\nint {name}_apart(void) {{ return 0; }}",
        *([_team(library)] if library.threads > 1 else []),
        *([_REFUSED % library.header_bytes] if library.refusals else []),
        *([_CUT] if library.counted else []),
        *([PLACE_OF] if any("place_of" in each for each in variants) else []),
        *variants,
        *(
            [check([v.needs for v in library.levels if v.needs]), _needs(library)]
            if library.checks_cpu
            else []
        ),
        _weights(library),
        told(library),
        _run(library),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _variant(library: Library, number: int) -> str:
    variant = library.variants[number]
    program, offsets = variant.program, library.weights.offsets[number]
    declared = dict.fromkeys(
        f"HIDDEN int {variant.symbols[call.function]}("
        f"{parameters(library.threads > 1, library.open is not None, len(call.reads), len(call.writes))});"
        for call in program.calls
        if call.function not in variant.loops
    )
    first = number % library.sets == 0
    base, length = library.header_bytes, "size_t length, " if library.open else ""
    team = ", const Team *team" if library.threads > 1 else ""

    def place(storage: Storage, _: Variant = variant) -> str:
        if storage.kind == "input":
            return f"in[{storage.index}]"
        if storage.kind == "output":
            return f"out[{storage.index}]"
        if storage.kind == "constant":
            return f"w + {offsets[storage.index]}"
        return f"a + {base + variant.arena.temporaries[storage.index]}"

    calls: list[CALL] = []
    for at, call in enumerate(program.calls):
        work = f"a + {base + variant.arena.workspaces[at]}" if at in variant.arena.workspaces else "a"
        arguments = [*map(place, call.reads), *map(place, call.writes), work]
        arguments += ["team"] if library.threads > 1 else []
        if library.open is not None:
            arguments.append(f"(int64_t)({in_c(variant.lengths[at])})")
        calls.append((variant.symbols[call.function], arguments))
    write = calling(_refusing(library, variant), lambda code, number: f"return refused(a, {code}, {number});")
    table = as_table(number, calls, write)
    lines = [f"  {write(*call)}" for call in calls] if table is None else table[1]
    if any("code" in line for line in lines):
        lines = ["  int code;", *lines]
    for storage, index in program.copies:
        port = program.outputs[index]
        size = f"{library.prefix}_OUTPUT_{index}_BYTES(length)" if library.open else f"{port.bytes}"
        lines.append(f"  memcpy(out[{index}], {place(storage)}, {size});")
    if program.cuts:
        lines += _cuts(library, program, place)
    return "\n".join(
        [
            *declared,
            # Of several sets of shapes the first brings what all of them call.
            *(map(_fork, variant.forks) if first else ()),
            *(loops_in_c(variant, library.threads > 1) if first else ()),
            *([table[0]] if table is not None else []),
            "",
            f"/* For {variant.target.name}{f', set {number % library.sets}' if library.sets > 1 else ''}. */",
            f"static int run_{number}({length}unsigned char *a, const unsigned char *w, "
            f"const void *const *in, void *const *out{team}) {{",
            f"  (void)a, (void)w, (void)in, (void)out{', (void)team' if library.threads > 1 else ''}"
            f"{', (void)length' if library.open else ''};",
            *lines,
            "  return 0;",
            "}",
        ]
    )


def _refusing(library: Library, variant: Variant) -> dict[str, tuple[int, int]]:
    """What ``calling`` wants of the functions of ``variant``: codes begin behind the library's others."""
    offsets, shift = library.offsets, len(ERRORS) - 1
    # The number that a function found is in the last thing it writes; that of a loop is in its workspace.
    more = (library.threads > 1) + (library.open is not None)
    return {
        variant.symbols[name]: (shift + offsets[name], (-1 if name in variant.loops else -2) - more)
        for name in dict.fromkeys(call.function for call in variant.program.calls)
        if name in offsets
    }


_REFUSED = """\
/* Keeps the number that a node must not use, where no run needs it any more. */
static int refused(unsigned char *a, int code, const void *number) {
  memmove(a + %d, number, sizeof(int64_t));
  return code;
}"""


_CUT = """\
/* Brings what counts of an array to its beginning, densely: `count` elements of each axis's `room`. */
static void cut(unsigned char *data, size_t element, int axes, const size_t *room, const size_t *count) {
  size_t at[16] = {0}, run = element * count[axes - 1], all = 1, to = 0;
  int inner = 0;
  for (int axis = 0; axis < axes; axis++) {
    all *= count[axis];
    inner |= axis && room[axis] != count[axis];
  }
  if (!all || !inner) return;
  for (;;) {
    size_t from = 0;
    int axis = axes - 2;
    for (int each = 0; each < axes; each++) from = from * room[each] + at[each];
    memmove(data + to, data + from * element, run);
    to += run;
    while (axis >= 0 && ++at[axis] == count[axis]) at[axis--] = 0;
    if (axis < 0) return;
  }
}"""


def _cuts(library: Library, program: Program, place: Callable[[Storage], str]) -> list[str]:
    """C that writes the extents of all outputs into the arena, and leaves of each what counts."""
    known = {cut.output: cut.counts for cut in program.cuts}
    lines = [f"  size_t *extents = (void *)(a + {library.extents_at});"]
    at = 0
    first = {}
    for index, port in enumerate(program.outputs):
        first[index] = at
        for axis, extent in enumerate(port.shape):
            value = f"{extent}"
            if axis in known.get(index, {}):
                storage, number = known[index][axis]
                value = f"(size_t)((const int64_t *)(const void *)({place(storage)}))[{number}]"
            lines.append(f"  extents[{at}] = {value};")
            at += 1
    for index in known:
        port = program.outputs[index]
        room = ", ".join(map(str, port.shape))
        lines += [
            f"  {{ static const size_t room[] = {{{room}}};",
            f"    cut(out[{index}], {port.element_bytes}, {len(port.shape)}, room, "
            f"extents + {first[index]}); }}",
        ]
    return lines


def _team(library: Library) -> str:
    declared = f"""\
/* Who runs loops in parallel; the caller himself where it has no function. */
typedef struct {{
  {library.name}_parallel_for parallel_for;
  void *pool;
}} Team;"""
    if not any(variant.forks for variant in library.variants):
        return declared
    return (
        declared
        + """

static int share_out(const Team *team, void (*task)(void *, size_t), void *data, size_t count) {
  if (team->parallel_for) team->parallel_for(team->pool, task, data, count);
  else for (size_t i = 0; i < count; i++) task(data, i);
  return 0;
}"""
    )


def _fork(fork: Fork) -> str:
    return f"""\
HIDDEN int {fork.part}(void *, int32_t);
HIDDEN int {fork.symbol}(void *, const Team *);
static void {fork.part}_task(void *data, size_t index) {{ {fork.part}(data, (int32_t)index); }}
int {fork.symbol}(void *data, const Team *team) {{
  return share_out(team, {fork.part}_task, data, {fork.shares});
}}"""


def _needs(library: Library) -> str:
    rows = ",\n".join(f"  {v.needs.c()} /* {v.target.name} */" for v in library.levels if v.needs)
    return f"static const Cpu needs[] = {{\n{rows}\n}};"


def _weights(library: Library) -> str:
    """``weights_of``, which tells where they are, null where the arena does not know."""
    if library.embed:
        return f"""\
static const unsigned char *weights_of(const void *arena) {{
  (void)arena;
  return {library.name}_weights;
}}"""
    name, prefix, data = library.name, library.prefix, library.weights
    digest = ", ".join(f"0x{byte:02x}" for byte in data.sha256)
    return f"""\
/* What the arena begins with: where the file of weights is, and a mark that it is known. */
typedef struct {{
  const unsigned char *weights;
  uint64_t mark;
}} Head;

#define MARK UINT64_C(0x{data.sha256[:8].hex()})

static const unsigned char *weights_of(const void *arena) {{
  const Head *head = arena;
  return head->mark == MARK ? head->weights + {HEADER_BYTES} : 0;
}}

size_t {name}_weights_bytes(void) {{ return {len(data.file)}; }}

int {name}_use_weights(void *arena, const void *weights, size_t bytes) {{
  static const unsigned char digest[{HASH_BYTES}] = {{{digest}}};
  const unsigned char *file = weights;
  Head *head = arena;
  int same = 1;
  if (!arena || !weights) return {prefix}_NULL_POINTER;
  if ((uintptr_t)arena % {ALIGNMENT} || (uintptr_t)weights % {ALIGNMENT}) return {prefix}_ARENA_MISALIGNED;
  if (bytes != {len(data.file)}) return {prefix}_WRONG_WEIGHTS;
  for (int i = 0; i < {HASH_BYTES}; i++) same &= file[{len(MAGIC) + 8} + i] == digest[i];
  if (!same) return {prefix}_WRONG_WEIGHTS;
  head->weights = file;
  head->mark = MARK;
  return {prefix}_OK;
}}

const void *{name}_forget_weights(void *arena) {{
  Head *head = arena;
  const void *weights;
  if (!arena || head->mark != MARK) return 0;
  weights = head->weights;
  head->mark = 0;
  return weights;
}}"""


def _run(library: Library) -> str:
    name, prefix = library.name, library.prefix
    inputs, outputs = library.inputs, library.outputs
    last, sets = len(library.levels) - 1, library.sets
    which, given = library.declared, library.handed
    parallel = library.threads > 1
    ports = f"{which}void *arena, const void *const *inputs, void *const *outputs"
    arguments = "arena, w, inputs, outputs" + (", &team" if parallel else "")
    arguments = ("length, " if library.open else "") + arguments
    chosen = "processor" if sets == 1 else f"processor * {sets} + set"
    few = len(library.variants) - 1
    branches = [f"  if ({chosen} == {number}) return run_{number}({arguments});" for number in range(few)]
    branches.append(f"  return run_{few}({arguments});")
    by, how = (f", {name}_parallel_for parallel_for, void *pool", ", parallel_for, pool")
    if not parallel:
        by, how = "", ""
    declared, alone = f"int {name}_run({ports})", ""
    if parallel:
        alone = f"\n\n{declared} {{\n  return {name}_run_parallel({given}arena, inputs, outputs, 0, 0);\n}}"
        indent = " " * len(f"int {name}_run_parallel(")
        declared = f"int {name}_run_parallel({ports},\n{indent}{by[2:]})"
    nl = "\n"

    def some(which: int) -> str:
        """C that says whether a tensor has elements, if there is one without: its pointer may be null."""
        if all(port.bytes for ports in library.ports for port in ports[which]):
            return ""
        return f" && {name}_{('input', 'output')[which]}_bytes({given}i)"

    no_set = f"  if (set < 0 || set >= {sets}) return {prefix}_WRONG_SET;\n" if sets > 1 else ""
    if library.open is not None:
        no_set = f"  if (length < {prefix}_LENGTH_MIN || length > {prefix}_LENGTH_MAX) "
        no_set += f"return {prefix}_WRONG_LENGTH;\n"
    return f"""\
{_processor(library, last)}

int {name}_run_on(int processor, {ports}{by}) {{
  const unsigned char *w;
{"  Team team = {parallel_for, pool};" + nl if parallel else ""}\
  if (!arena || !inputs || !outputs) return {prefix}_NULL_POINTER;
  if ((uintptr_t)arena % {ALIGNMENT}) return {prefix}_ARENA_MISALIGNED;
  for (int i = 0; i < {len(inputs)}; i++) {{
    if (!inputs[i]{some(0)}) return {prefix}_NULL_POINTER;
    if ((uintptr_t)inputs[i] % input_element[i]) return {prefix}_BUFFER_MISALIGNED;
  }}
  for (int i = 0; i < {len(outputs)}; i++) {{
    if (!outputs[i]{some(1)}) return {prefix}_NULL_POINTER;
    if ((uintptr_t)outputs[i] % output_element[i]) return {prefix}_BUFFER_MISALIGNED;
  }}
{no_set}  w = weights_of(arena);
  if (!w) return {prefix}_NO_WEIGHTS;
  if (processor < 0 || processor > {last}) return {prefix}_OLD_CPU;
{nl.join(branches)}
}}

{declared} {{
  return {name}_run_on({name}_processor(), {given}arena, inputs, outputs{how});
}}{alone}

int {name}_run_checked({which}void *arena, size_t arena_bytes, const void *const *inputs,
                       const size_t *input_bytes, void *const *outputs, const size_t *output_bytes) {{
{no_set}  if (!input_bytes || !output_bytes) return {prefix}_NULL_POINTER;
  if (arena_bytes < {library.arena_bytes}) return {prefix}_ARENA_TOO_SMALL;
  for (int i = 0; i < {len(inputs)}; i++)
    if (input_bytes[i] != {name}_input_bytes({given}i)) return {prefix}_WRONG_SIZE;
  for (int i = 0; i < {len(outputs)}; i++)
    if (output_bytes[i] != {name}_output_bytes({given}i)) return {prefix}_WRONG_SIZE;
  return {name}_run({given}arena, inputs, outputs);
}}"""


def _processor(library: Library, last: int) -> str:
    """Which variant this processor runs, the best it can; -1 where it can do none."""
    declared = f"int {library.name}_processor(void)"
    if not library.checks_cpu:
        return f"{declared} {{ return 0; }}"
    return f"""\
{declared} {{
  Cpu cpu = this_cpu();
  int level = 0;
  while (level <= {last} && !has(&cpu, &needs[level])) level++;
  return level > {last} ? -1 : level;
}}"""
