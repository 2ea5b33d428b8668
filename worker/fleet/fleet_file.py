"""The fleet file: which boards there are and how they are reached, in TOML (``docs/fleet.example.toml``)."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from kernels.target import CATALOGUE, Target, from_json
from worker.fleet.drivers.host import HOST, HostSpec
from worker.fleet.drivers.registry import kinds
from worker.fleet.drivers.spec import Address, BoardSpec
from worker.fleet.repair import Repair
from worker.fleet.small_file import read_small


class FleetError(ValueError):
    """A fleet cannot be like this; the message names file, entry and the way out."""


class _GatewaySpec(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    listen: Address = "127.0.0.1:8471"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    board: list[dict[str, Any]] = []
    target: list[dict[str, Any]] = []
    targets: list[str] = []
    gateway: _GatewaySpec = _GatewaySpec()


@dataclass(frozen=True)
class Fleet:
    """Boards, targets beyond the catalogue by name, and where boards dial in (``host:port``)."""

    boards: tuple[BoardSpec, ...]
    targets: Mapping[str, Target] = field(default_factory=dict)
    listen: str = _GatewaySpec().listen

    @property
    def known_targets(self) -> dict[str, Target]:
        """The catalogue and this fleet's own, by name."""
        return {**CATALOGUE, **self.targets}

    @property
    def repairs(self) -> dict[str, Repair]:
        """The operator's commands for boards that failed, by board."""
        return {
            board.id: Repair(board.repair, board.repair_timeout_s) for board in self.boards if board.repair
        }

    @property
    def host(self) -> HostSpec | None:
        """The board that is this machine."""
        return next((board for board in self.boards if isinstance(board, HostSpec)), None)


def read_fleet(path: Path) -> Fleet:
    """Read a fleet file; files that it names are relative to its folder. Raises FleetError."""
    parsed = _parse(path)
    if not parsed.board:
        raise FleetError(f"{path}: there is no board; add a [[board]] entry")
    targets = _targets(path, parsed)
    context = {"folder": path.parent, "targets": {**CATALOGUE, **targets}}
    boards = []
    for number, entry in enumerate(parsed.board, 1):
        name = f" ({entry['id']})" if "id" in entry else ""
        try:
            boards.append(_board(entry, context))
        except ValueError as error:
            raise FleetError(f"{path}: board {number}{name}: {error}") from None
    _no_twins(f"{path}: ", boards)
    return Fleet(tuple(boards), targets, parsed.gateway.listen)


def read_targets(path: Path, named_by: Sequence[Path] = ()) -> dict[str, Target]:
    """The targets in a file's ``[[target]]`` entries, and in the files it names; raises FleetError.

    Only a file with boards may have none, and none may name one of those that it is ``named_by``.
    """
    parsed = _parse(path)
    if path.resolve() in named_by:
        last, name = named_by[-1], path.name
        raise FleetError(f"{last}: it names {name}, which names it; take one of the two out of `targets`")
    targets = _targets(path, parsed, named_by)
    if not targets and not parsed.board:
        raise FleetError(f"{path}: there is no target; add a [[target]] entry")
    return targets


def split_names(names: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in names.split(",") if name.strip()]


def fleet_of(names: Iterable[str], threads: int = 1) -> Fleet:
    """A fleet of ``host`` (with that many threads) and simulated boards by name; raises FleetError.

    The second board of a model is called like ``rpi4-sim-2``.
    """
    known = {name: spec for kind in kinds().values() for name, spec in kind.by_name(threads).items()}
    boards: list[BoardSpec] = []
    count: Counter[str] = Counter()
    for name in names:
        if name not in known:
            raise FleetError(
                f"unknown board {name!r}; there are: {', '.join(known)}; others need a fleet file"
            )
        count[name] += 1
        id = name if count[name] == 1 else f"{name}-{count[name]}"
        boards.append(known[name].model_copy(update={"id": id}))
    if not boards:
        raise FleetError(f"no board named; there are: {', '.join(known)}")
    _no_twins("", boards)
    return Fleet(tuple(boards))


def _no_twins(where: str, boards: Sequence[BoardSpec]) -> None:
    if sum(isinstance(board, HostSpec) for board in boards) > 1:
        raise FleetError(f"{where}this machine is one board; keep one of kind host, with more threads")
    id, times = Counter(board.id for board in boards).most_common(1)[0]
    if times > 1:
        raise FleetError(f"{where}board {id} is there {times} times; give each another id")


def _board(entry: dict[str, Any], context: dict[str, Any]) -> BoardSpec:
    """A board as its kind reads it; raises ValueError."""
    kind = entry.get("kind")
    known = kinds()
    if not isinstance(kind, str) or kind not in known:
        missing = "it is missing" if kind is None else f"there is no {kind!r}"
        raise ValueError(f"kind: {missing}; there are {', '.join(known)}")
    try:
        return known[kind].model_validate(entry, context=context)
    except ValidationError as error:
        raise ValueError(_explain(error, f" of a board of kind {kind}")) from None


def _parse(path: Path) -> _File:
    try:
        entries = tomllib.loads(read_small(path).decode())
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror}; give the path of a fleet file") from None
    except ValueError as error:  # of TOML, of UTF-8, of an integer with thousands of digits
        raise FleetError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise FleetError(f"{path}: it has lists in lists without end; a fleet file has none") from None
    try:
        return _File.model_validate(entries)
    except ValidationError as error:
        raise FleetError(f"{path}: {_explain(error)}") from None


def _explain(error: ValidationError, of: str = "") -> str:
    """The first thing that is wrong, after the field that it is in."""
    first = error.errors(include_url=False)[0]
    # Of an entry of a list, the number, which its reader counts from one.
    words = [f"number {word + 1}" if isinstance(word, int) else word for word in first["loc"]]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = f"there is no such field{of}; leave it out or mend its spelling"
    elif first["type"] == "missing":
        message = "it is missing; add it"
    elif first["type"] != "value_error":
        message += f", not {first['input']!r:.80}"
    return ": ".join([*words, message])


def _targets(path: Path, parsed: _File, named_by: Sequence[Path] = ()) -> dict[str, Target]:
    targets: dict[str, Target] = {}
    for number, entry in enumerate(parsed.target, 1):
        try:
            target = from_json(entry)
        except ValueError as error:
            name = f" ({entry['name']})" if "name" in entry else ""
            raise FleetError(f"{path}: target {number}{name}: {error}") from None
        _add(targets, target, f"{path}: target {number} ({target.name})")
    chain = [*named_by, path.resolve()]
    for file in parsed.targets:
        for target in read_targets(path.parent / file, chain).values():
            _add(targets, target, f"{path}: {file}: target {target.name}")
    return targets


def _add(targets: dict[str, Target], target: Target, where: str) -> None:
    if target.name in {HOST, *CATALOGUE, *targets}:
        raise FleetError(f"{where}: there is a target of that name already; give it another name")
    targets[target.name] = target
