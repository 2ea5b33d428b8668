"""What a turn of a loop that data end does: the calls of its body, and what is copied where after them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

from tuner.backend.program import Call, Program, Storage

ATTRIBUTE = "tilefleet.turns"
"""Of the function of a loop: its turns as JSON, for those who call the parts by other means."""


@dataclass(frozen=True)
class Turns:
    """``program`` has the calls, whose inputs are the turn's number, whether to go on, the values and what is
    read around the loop.

    A turn makes as many bytes as ``sizes`` says of each result, which lie in ``sources`` when all calls are
    done: whether to go on, ``states`` values for the next turn, and what is collected, of which there is room
    for ``rooms`` turns each.
    """

    program: Program
    sizes: tuple[int, ...]
    sources: tuple[Storage, ...]
    states: int
    rooms: tuple[int, ...]

    @classmethod
    def of(cls, body: Program, states: int, rooms: Sequence[int]) -> Self:
        """The turns of a body. What they make lies in temporaries until it is copied."""
        made = [Storage("temporary", len(body.temporaries) + at) for at in range(len(body.outputs))]
        moved = {Storage("output", at): each for at, each in enumerate(made)}

        def places(storages: Sequence[Storage]) -> tuple[Storage, ...]:
            return tuple(moved.get(each, each) for each in storages)

        calls = tuple(Call(each.function, places(each.reads), places(each.writes)) for each in body.calls)
        sources = dict(enumerate(made)) | {at: places([source])[0] for source, at in body.copies}
        lasting = tuple((each, at) for at, each in sources.items() if each.kind == "temporary")
        sizes = tuple(each.bytes for each in body.outputs)
        program = replace(
            body, calls=calls, outputs=(), copies=lasting, temporaries=(*body.temporaries, *sizes)
        )
        return cls(program, sizes, tuple(sources[at] for at in range(len(made))), states, tuple(rooms))

    @cached_property
    def aside(self) -> tuple[int, ...]:
        """The results that come from other values, and are put aside before those are written."""
        return tuple(at for at, source in enumerate(self.sources) if source.kind == "input")

    def to_json(self) -> str:
        """All that is no function and no constant."""
        program = self.program
        values = {
            "calls": [asdict(each) for each in program.calls],
            "temporaries": program.temporaries,
            "copies": [[asdict(source), at] for source, at in program.copies],
            "inputs": [each.bytes for each in program.inputs],
            "constants": len(program.constants),
            "sizes": self.sizes,
            "sources": [asdict(each) for each in self.sources],
            "states": self.states,
            "rooms": self.rooms,
        }
        return json.dumps(values)


@dataclass(frozen=True)
class ToldTurns:
    """Turns as ``to_json`` tells of them: of their inputs the bytes, of their constants the number."""

    turns: Turns
    inputs: tuple[int, ...]
    constants: int


def told_turns(function: Any) -> ToldTurns | None:
    """What the function of a loop says of its turns; None for any other."""
    text = (function.attrs or {}).get(ATTRIBUTE)
    if text is None:
        return None
    values = json.loads(str(text))
    calls = tuple(
        Call(each["function"], _storages(each["reads"]), _storages(each["writes"]))
        for each in values["calls"]
    )
    copies = tuple((Storage(**source), at) for source, at in values["copies"])
    program = Program((), (), (), tuple(values["temporaries"]), calls, copies, {})
    sources = _storages(values["sources"])
    turns = Turns(program, tuple(values["sizes"]), sources, values["states"], tuple(values["rooms"]))
    return ToldTurns(turns, tuple(values["inputs"]), values["constants"])


def _storages(values: Sequence[Mapping[str, Any]]) -> tuple[Storage, ...]:
    return tuple(Storage(**each) for each in values)
