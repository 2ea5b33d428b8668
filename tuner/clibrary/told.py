"""What NAME.c tells of a model: names, types and sizes of inputs and outputs, and texts of codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from tuner.backend.program import Port
from tuner.clibrary.header import ERRORS
from tuner.clibrary.library import Library

_LONGEST_LITERAL = 4000
"""Bytes; compilers need to take no more than 4095."""


def told(library: Library) -> str:
    """C: the functions that tell of the model, and what its codes mean."""
    name = library.name
    targets = ", ".join(variant.target.name for variant in library.variants)
    texts = [*(text.format(name=name, targets=targets) for text in ERRORS.values()), *library.refusals]
    return f"""\
{_texts("errors", texts)}

const char *{name}_error(int code) {{
  if (code < 0 || code >= {len(texts)}) return "no code of this library";
  return errors + errors_at[code];
}}

const int64_t *{name}_refused(const void *arena, int code) {{
  if (!arena || code < {library.prefix}_REFUSED || code >= {len(texts)}) return 0;
  return (const int64_t *)(const void *)((const unsigned char *)arena + {library.header_bytes});
}}

size_t {name}_arena_bytes(void) {{ return {library.arena_bytes}; }}
const char *{name}_version(void) {{ return {library.prefix}_VERSION; }}
const char *{name}_log(void) {{ return {library.prefix}_LOG; }}

{_ports(library, "input", [inputs for inputs, _ in library.ports])}

{_ports(library, "output", [outputs for _, outputs in library.ports])}\
{_set_of(library) if library.sets > 1 else ""}{_length_of(library) if library.open else ""}\
{_results(library) if library.counted else ""}"""


def _set_of(library: Library) -> str:
    axes = sum(len(port.shape) for port in library.inputs)
    return f"""

int {library.name}_sets(void) {{ return {library.sets}; }}
int {library.name}_set_of(const size_t *input_extents) {{
  for (int set = 0; input_extents && set < {library.sets}; set++) {{
    int same = 1;
    for (int axis = 0; axis < {axes}; axis++)
      same &= input_extents[axis] == input_extents_of[set * {axes} + axis];
    if (same) return set;
  }}
  return -1;
}}"""


def _results(library: Library) -> str:
    name = library.name
    return f"""

size_t {name}_result_extent(const void *arena, int index, int axis) {{
  const unsigned char *head = arena;
  if (!arena || axis < 0 || axis >= {name}_output_axes(index)) return 0;
  return ((const size_t *)(const void *)(head + {library.extents_at}))[output_first_axis[index] + axis];
}}"""


def _length_of(library: Library) -> str:
    """The length that one open axis has, if all others agree."""
    assert library.open is not None
    sizes = [size for shape in library.open.inputs for size in shape]
    at = next(at for at, size in enumerate(sizes) if not isinstance(size, int))
    size, name = sizes[at], library.name
    assert not isinstance(size, int)
    return f"""

size_t {name}_length_of(const size_t *input_extents) {{
  size_t length;
  if (!input_extents) return 0;
  length = (input_extents[{at}] - (size_t){_signed(size.more)}) / {size.factor};
  if (length < {library.prefix}_LENGTH_MIN || length > {library.prefix}_LENGTH_MAX) return 0;
  for (int axis = 0; axis < {len(sizes)}; axis++)
    if (input_extents[axis] != input_factors[axis] * length + input_more[axis]) return 0;
  return length;
}}"""


def _ports(library: Library, word: str, sets: Sequence[Sequence[Port]]) -> str:
    """What is told of the inputs or the outputs of each set of shapes; names, types and axes are the same."""
    name, ports, count = library.name, sets[0], len(sets[0])
    axes = [len(port.shape) for port in ports]
    known = f"index >= 0 && index < {name}_{word}s()"
    tables, extent, sized = _extents(library, word, sets, sum(axes))
    sized = f"{sized} && {known}" if sized else known
    return f"""\
{_texts(f"{word}_names", [port.name for port in ports])}
{_texts(f"{word}_types", [port.dtype for port in ports])}
{numbers("unsigned char", f"{word}_element", [port.element_bytes for port in ports])}
{numbers("int", f"{word}_first_axis", [0, *accumulate(axes)])}
{tables}

int {name}_{word}s(void) {{ return {count}; }}
const char *{name}_{word}_name(int index) {{ return {known} ? {word}_names + {word}_names_at[index] : 0; }}
const char *{name}_{word}_type(int index) {{ return {known} ? {word}_types + {word}_types_at[index] : 0; }}
int {name}_{word}_axes(int index) {{
  return {known} ? {word}_first_axis[index + 1] - {word}_first_axis[index] : 0;
}}
size_t {name}_{word}_extent({library.declared}int index, int axis) {{
  if (axis < 0 || axis >= {name}_{word}_axes(index) || !({sized})) return 0;
  axis += {word}_first_axis[index];
  return {extent};
}}
size_t {name}_{word}_bytes({library.declared}int index) {{
  size_t bytes;
  if (!({sized})) return 0;
  bytes = {word}_element[index];
  for (int axis = 0; axis < {name}_{word}_axes(index); axis++)
    bytes *= {name}_{word}_extent({library.handed}index, axis);
  return bytes;
}}"""


def _extents(library: Library, word: str, sets: Sequence[Sequence[Port]], axes: int) -> tuple[str, str, str]:
    """The tables of all extents, one by its axis in C, and when there is one."""
    if library.open is not None:
        shapes = library.open.inputs if word == "input" else library.open.outputs
        sizes = [size for shape in shapes for size in shape]
        factors = numbers("size_t", f"{word}_factors", [0 if isinstance(s, int) else s.factor for s in sizes])
        more = ", ".join(_signed(s if isinstance(s, int) else s.more) for s in sizes) or "0"
        return (
            f"{factors}\nstatic const size_t {word}_more[] = {{{more}}};",
            f"{word}_factors[axis] * length + {word}_more[axis]",
            f"length >= {library.prefix}_LENGTH_MIN && length <= {library.prefix}_LENGTH_MAX",
        )
    extents = [extent for ports in sets for port in ports for extent in port.shape]
    table = numbers("size_t", f"{word}_extents_of", [*extents, 0])
    if len(sets) == 1:
        return table, f"{word}_extents_of[axis]", ""
    return table, f"{word}_extents_of[set * {axes} + axis]", f"set >= 0 && set < {len(sets)}"


def _signed(number: int) -> str:
    """A number of which C's size_t is to have what is below zero."""
    return str(number) if number >= 0 else f"(size_t)({number})"


def _texts(variable: str, texts: Sequence[str]) -> str:
    """Texts one behind the other, and where each begins: a table of pointers would be data to relocate."""
    encoded = [text.encode() for text in texts]
    at = numbers("unsigned", f"{variable}_at", accumulate((len(e) + 1 for e in encoded[:-1]), initial=0))
    if sum(map(len, encoded)) + len(encoded) > _LONGEST_LITERAL:
        return f"{numbers('char', variable, b''.join(each + bytes(1) for each in encoded))}\n{at}"
    rows = "\n".join(f'  "{_escaped(each)}\\0"' for each in encoded) or '  ""'
    return f"static const char {variable}[] =\n{rows};\n{at}"


def _escaped(text: bytes) -> str:
    """Inside a literal of C, every byte as it is; octal, as hexadecimal escapes have no end."""
    plain = {byte for byte in range(0x20, 0x7F) if byte not in b'"\\?'}
    return "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text)


def numbers(kind: str, variable: str, values: Iterable[int]) -> str:
    """C: a table."""
    # C has no empty arrays.
    return f"static const {kind} {variable}[] = {{{', '.join(map(str, values)) or '0'}}};"
