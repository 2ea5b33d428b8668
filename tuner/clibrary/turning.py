"""Loops that data end, in C: the functions of their bodies, called until one says that it is over."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kernels.arithmetic import ceil_div
from tuner.backend.arena import ALIGNMENT, arena_of
from tuner.backend.program import Program, Storage
from tuner.backend.turns import ToldTurns, told_turns
from tuner.clibrary.library import Loop, Variant
from tuner.clibrary.refusals import calling, offsets_of


def with_parts(program: Program, module: Any) -> Program:
    """``program`` with the functions, too, that its loops call; they are in ``module`` by their names."""
    functions = dict(program.functions)
    waiting = list(functions)
    while waiting:
        told = told_turns(functions[waiting.pop()])
        for call in told.turns.program.calls if told else ():
            if call.function not in functions:
                functions[call.function] = module[call.function]
                waiting.append(call.function)
    return replace(program, functions=functions)


def turns_of(functions: Mapping[str, Any]) -> dict[str, ToldTurns]:
    """Those of ``functions`` that are loops."""
    told = {name: told_turns(function) for name, function in functions.items()}
    return {name: each for name, each in told.items() if each is not None}


def parts_of(names: Collection[str], turns: Mapping[str, ToldTurns]) -> set[str]:
    """``names`` and all that these call, which may be given what they are given."""
    found, waiting = set(), list(names)
    while waiting:
        found.add(name := waiting.pop())
        if name in turns:
            waiting += [call.function for call in turns[name].turns.program.calls]
    return found


def planned_loops(turns: Mapping[str, ToldTurns], workspace: Mapping[str, int]) -> dict[str, Loop]:
    """Where everything lies in the workspace of each loop, inner ones first. ``workspace`` is what the other
    functions want."""
    planned: dict[str, Loop] = {}

    def plan(name: str) -> None:
        told = turns[name]
        for call in told.turns.program.calls:
            if call.function in turns and call.function not in planned:
                plan(call.function)
        wanted = {**workspace, **{each: loop.bytes for each, loop in planned.items()}}
        arena = arena_of(told.turns.program, wanted)
        aside, end = {}, arena.bytes
        for at in told.turns.aside:
            aside[at] = end
            end += ceil_div(told.turns.sizes[at], ALIGNMENT) * ALIGNMENT
        planned[name] = Loop(told, arena, aside, end, end + ALIGNMENT, end + 2 * ALIGNMENT)

    for name in turns:
        if name not in planned:
            plan(name)
    return planned


def parameters(team: bool, length: bool, reads: int, writes: int) -> str:
    """Those of a function in C: what it reads, what it writes, its workspace, who shares loops out, the open
    size."""
    more = ["const Team *"] if team else []
    more += ["int64_t"] if length else []
    return ", ".join(["const void *"] * reads + ["void *"] * (writes + 1) + more)


def loops_in_c(variant: Variant, team: bool) -> Iterator[str]:
    """The loops of ``variant``, each after those that it calls, and what they call before them."""
    declared: dict[str, None] = {}
    for loop in variant.loops.values():
        for call in loop.told.turns.program.calls:
            if call.function not in variant.loops:
                given = parameters(team, False, len(call.reads), len(call.writes))
                declared[f"HIDDEN int {variant.symbols[call.function]}({given});"] = None
    yield from declared
    for name, loop in variant.loops.items():
        yield _loop(variant.symbols[name], loop, variant, team)


def _loop(symbol: str, loop: Loop, variant: Variant, team: bool) -> str:
    """``symbol``: its arguments are the limit, whether there is a turn, the first values, what is read around
    the loop, its constants; the last values, what is collected, the number of turns; the workspace."""
    told, turns = loop.told, loop.told.turns
    symbols, texts, loops = variant.symbols, variant.texts, variant.loops
    states, sizes = turns.states, turns.sizes
    givens = [f"given{at}" for at in range(len(told.inputs) - 2)]
    constants = [f"constant{at}" for at in range(told.constants)]
    lasts = [f"last{at}" for at in range(states)]
    rooms = [f"room{at}" for at in range(len(turns.rooms))]
    inputs = ["turn", "on", *lasts, *givens[states:]]

    def place(storage: Storage) -> str:
        if storage.kind == "input":
            return inputs[storage.index]
        if storage.kind == "constant":
            return constants[storage.index]
        return f"a + {loop.arena.temporaries[storage.index]}"

    called = [call.function for call in turns.program.calls]
    offsets, more = offsets_of(texts, called), int(team)
    # What a part found is handed on in the workspace; another loop has it there already.
    after = {
        symbols[each]: (offset, (-1 if each in loops else -2) - more) for each, offset in offsets.items()
    }
    write = calling(after, lambda code, number: f"return memmove(work, {number}, 8), {code};")
    lines = []
    for at, call in enumerate(turns.program.calls):
        work = f"a + {loop.arena.workspaces[at]}" if at in loop.arena.workspaces else "a"
        given = [*map(place, call.reads), *map(place, call.writes), work, *(["team"] if team else [])]
        lines.append(write(symbols[call.function], given))
    for at, start in loop.aside.items():
        lines.append(f"memcpy(a + {start}, {place(turns.sources[at])}, {sizes[at]});")
    for at, (source, size) in enumerate(zip(turns.sources, sizes, strict=True)):
        to = ["on", *lasts][at] if at <= states else f"{rooms[at - states - 1]} + (size_t)*turn * {size}"
        held = f"a + {loop.aside[at]}" if at in loop.aside else place(source)
        lines.append(f"memcpy({to}, {held}, {size});")
    values = zip(lasts, givens, sizes[1:], strict=False)
    first = [f"memcpy({last}, {given}, {size});" for last, given, size in values]
    first += [
        f"memset({room}, 0, {size * count});"
        for room, size, count in zip(rooms, sizes[1 + states :], turns.rooms, strict=True)
    ]
    read = ", ".join(f"const void *{each}" for each in ("limit", "going", *givens, *constants))
    results = (*lasts, *(f"{each}_" for each in rooms), "turns", "work")
    written = ", ".join(f"void *{each}" for each in results)
    unused = "".join(f", (void){each}" for each in (*givens, *constants, *(["team"] if team else [])))
    nl = "\n"
    return f"""\
/* A loop that data end. */
static int {symbol}({read}, {written}{", const Team *team" if team else ""}) {{
  unsigned char *a = work, *on = a + {loop.on};
  int64_t *turn = (void *)(a + {loop.number}), most;
{"  int code;" + nl if after else ""}\
{"".join(f"  unsigned char *{each} = {each}_;{nl}" for each in rooms)}\
  memcpy(&most, limit, sizeof most);
  memcpy(on, going, 1);
  *turn = 0{unused};
{"".join(f"  {each}{nl}" for each in first)}\
  while (*turn < most && *on) {{
{"".join(f"    {each}{nl}" for each in lines)}\
    ++*turn;
  }}
  memcpy(turns, turn, sizeof *turn);
  return 0;
}}"""
