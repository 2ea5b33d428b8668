"""Which functions of a library may refuse what data say, and the codes that C returns then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernels.emit.refusal import TEXTS
from tuner.backend.turns import told_turns

Texts = tuple[str, ...]


def refusals_of(functions: Mapping[str, Any]) -> dict[str, Texts]:
    """What each of ``functions`` that may refuse returns a number of, from one on: those of a loop are its
    parts', one after another."""
    found: dict[str, Texts] = {}

    def look(name: str) -> Texts:
        if name not in found:
            told = told_turns(functions[name])
            called = dict.fromkeys(call.function for call in told.turns.program.calls) if told else ()
            own = (functions[name].attrs or {}).get(TEXTS, ())
            found[name] = (*map(str, own), *(text for each in called for text in look(each)))
        return found[name]

    return {name: texts for name in functions if (texts := look(name))}


def offsets_of(texts: Mapping[str, Texts], called: Sequence[str]) -> dict[str, int]:
    """How many refusals come before those of each function, among those of all that are ``called``."""
    offsets, count = {}, 0
    for name in dict.fromkeys(called):
        if name in texts:
            offsets[name] = count
            count += len(texts[name])
    return offsets


def calling(
    after: Mapping[str, tuple[int, int]], refused: Callable[[str, str], str]
) -> Callable[[str, Sequence[str]], str]:
    """A function that writes a call in C.

    ``after`` has for each symbol that may refuse what its numbers begin behind, and which of its arguments is
    where it leaves what it found; ``refused`` writes what follows, of the code and that argument.
    """

    def call(symbol: str, given: Sequence[str]) -> str:
        text = f"{symbol}({', '.join(given)})"
        if symbol not in after:
            return f"{text};"
        offset, place = after[symbol]
        code = f"code + {offset}" if offset else "code"
        return f"if ((code = {text})) {refused(code, given[place])}"

    return call
