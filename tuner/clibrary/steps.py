"""Calls of a long model as a table: of a recurrent one that is written turn by turn there are thousands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

LONGEST = 1000
"""As many calls are written one after the other."""
CALL = tuple[str, Sequence[str]]
"""A function and what it is given: ``a + 64`` and the like, of which a table has the number."""
_PLACE = re.compile(r"(a|w|in|out)(?: \+ (\d+)|\[(\d+)\])?")
_KINDS = ("a", "w", "in", "out")
_BITS = 30
"""A place is the number of a byte, or of a buffer, behind two bits of what it is in."""

PLACE_OF = """\
static void *place_of(uint32_t place, unsigned char *a, const unsigned char *w, const void *const *in,
                      void *const *out) {
  size_t at = place >> 2;
  if ((place & 3) == 0) return a + at;
  if ((place & 3) == 1) return (void *)(uintptr_t)(w + at);
  if ((place & 3) == 2) return (void *)(uintptr_t)in[at];
  return out[at];
}"""


def as_table(
    number: int, calls: Sequence[CALL], write: Callable[[str, Sequence[str]], str]
) -> tuple[str, list[str]] | None:
    """C of the tables of variant ``number``, and the lines that make its ``calls``, as ``write`` writes one.

    None where they are few or no two alike, or so many that their numbers do not fit. What a function is
    given in each call is not in the table.
    """
    if len(calls) <= LONGEST:
        return None
    varies: dict[str, list[bool]] = {}
    first: dict[str, Sequence[str]] = {}
    for function, given in calls:
        before = first.setdefault(function, given)
        so_far = varies.setdefault(function, [False] * len(given))
        varies[function] = [v or one != two for v, one, two in zip(so_far, before, given, strict=True)]
    functions = {function: at for at, function in enumerate(first)}
    places: dict[int, int] = {}
    steps: list[int] = []
    for function, given in calls:
        steps.append(functions[function])
        for each in (each for each, other in zip(given, varies[function], strict=True) if other):
            found = _PLACE.fullmatch(each)
            at = int(found[2] or found[3] or 0) if found else 1 << _BITS
            if found is None or at >> _BITS:
                return None
            steps.append(places.setdefault(at << 2 | _KINDS.index(found[1]), len(places)))
    if not places or max(len(places), len(functions)) >> 16:
        return None
    tables = (
        f"static const uint32_t places_{number}[] = {{{_wrapped([*places])}}};\n"
        f"static const uint16_t steps_{number}[] = {{{_wrapped(steps)}}};"
    )
    return tables, [
        f"#define P(i) place_of(places_{number}[s[i]], a, w, in, out)",
        f"  for (const uint16_t *s = steps_{number}; s < steps_{number} + {len(steps)};)",
        "    switch (*s) {",
        *(
            f"    case {at}: {_case(write, name, first[name], varies[name])}"
            for name, at in functions.items()
        ),
        "    default: return 0;",
        "    }",
        "#undef P",
    ]


def _case(
    write: Callable[[str, Sequence[str]], str], function: str, given: Sequence[str], varies: Sequence[bool]
) -> str:
    """The call of ``function``, and the way to the next step."""
    arguments = [
        f"P({sum(varies[: at + 1])})" if other else each
        for at, (each, other) in enumerate(zip(given, varies, strict=True))
    ]
    return f"{write(function, arguments)} s += {1 + sum(varies)}; break;"


def _wrapped(numbers: Sequence[int]) -> str:
    rows = [numbers[at : at + 24] for at in range(0, len(numbers), 24)]
    return "\n  " + ",\n  ".join(", ".join(map(str, row)) for row in rows) + "\n"
