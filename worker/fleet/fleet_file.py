"""The fleet file: which boards there are and how they are reached, in TOML (``docs/fleet.example.toml``)."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from kernels.target import CATALOGUE, Target, from_json
from worker.fleet.dial_proof import check_id
from worker.fleet.sim_models import SIM_MODELS

HOST: Literal["host"] = "host"
Kind = Literal["host", "simulated", "agent", "dial", "rpc"]
# kind -> (what an entry must have, what it may have), besides id, kind and tags, which each has.
_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "host": (set(), {"threads"}),
    "simulated": ({"model"}, set()),
    "agent": ({"target", "address", "token_file"}, {"threads"}),
    "dial": ({"target", "token_file"}, {"threads"}),
    "rpc": ({"target"}, {"threads", "address", "tracker", "key"}),
}


class FleetError(ValueError):
    """A fleet cannot be like this; the message names file, entry and the way out."""


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` or ``[IPv6]:port`` in two; raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise ValueError(f"{address!r} is not like host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


class BoardSpec(BaseModel):
    """One board. ``model`` is a name in SIM_MODELS; ``key`` the RPC server's, by default the id."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str
    kind: Kind
    target: str = ""
    tags: tuple[str, ...] = Field(default=(), strict=False)
    threads: int = Field(default=1, ge=1)
    model: str = ""
    address: str = ""
    tracker: str = ""
    key: str = ""
    token_file: Path | None = Field(default=None, strict=False)

    @field_validator("id")
    @classmethod
    def _good_id(cls, value: str) -> str:
        if problem := check_id(value):
            raise ValueError(problem)
        return value

    @field_validator("address", "tracker")
    @classmethod
    def _good_address(cls, value: str) -> str:
        split_address(value)
        return value

    @field_validator("model")
    @classmethod
    def _good_model(cls, value: str) -> str:
        if value not in SIM_MODELS:
            raise ValueError(f"there is no {value!r}; there are {', '.join(sorted(SIM_MODELS))}")
        return value

    @model_validator(mode="after")
    def _fits_kind(self) -> Self:
        given = self.model_fields_set - {"id", "kind", "tags"}
        needed, allowed = _FIELDS[self.kind]
        if missing := sorted(needed - given):
            raise ValueError(f"a board of kind {self.kind} needs {' and '.join(missing)}; add it")
        if surplus := sorted(given - needed - allowed):
            raise ValueError(f"a board of kind {self.kind} has no {' or '.join(surplus)}; leave it out")
        if self.kind == "rpc" and bool(self.address) == bool(self.tracker):
            raise ValueError("a board of kind rpc has either an address or a tracker; give one of them")
        return self


class _GatewaySpec(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    listen: str = "127.0.0.1:8471"

    @field_validator("listen")
    @classmethod
    def _good_address(cls, value: str) -> str:
        split_address(value)
        return value


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    board: list[BoardSpec] = []
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
    def host(self) -> BoardSpec | None:
        """The board that is this machine."""
        return next((board for board in self.boards if board.kind == HOST), None)


def read_fleet(path: Path) -> Fleet:
    """Read a fleet file; files that it names are relative to its folder. Raises FleetError."""
    parsed = _parse(path)
    if not parsed.board:
        raise FleetError(f"{path}: there is no board; add a [[board]] entry")
    targets = _targets(path, parsed)
    boards = []
    for number, board in enumerate(parsed.board, 1):
        where = f"{path}: board {number} ({board.id})"
        if board.target and board.target not in {**CATALOGUE, **targets}:
            known = ", ".join(sorted({**CATALOGUE, **targets}))
            raise FleetError(
                f"{where}: target {board.target!r} is unknown; take one of {known}, or add a [[target]] entry"
            )
        token_file = board.token_file and path.parent / board.token_file.expanduser()
        boards.append(board.model_copy(update={"token_file": token_file}))
    _no_twins(f"{path}: ", boards)
    return Fleet(tuple(boards), targets, parsed.gateway.listen)


def read_targets(path: Path) -> dict[str, Target]:
    """The targets in a file's ``[[target]]`` entries, and in the files it names; raises FleetError."""
    targets = _targets(path, _parse(path))
    if not targets:
        raise FleetError(f"{path}: there is no target; add a [[target]] entry")
    return targets


def split_names(names: str) -> list[str]:
    """The names in a comma-separated list."""
    return [name.strip() for name in names.split(",") if name.strip()]


def fleet_of(names: Iterable[str], threads: int = 1) -> Fleet:
    """A fleet of ``host`` (with that many threads) and simulated boards by name; raises FleetError.

    The second board of a model is called like ``rpi4-sim-2``.
    """
    boards: list[BoardSpec] = []
    count: Counter[str] = Counter()
    for name in names:
        if name != HOST and name not in SIM_MODELS:
            known = ", ".join([HOST, *sorted(SIM_MODELS)])
            raise FleetError(f"unknown board {name!r}; there are: {known}; others need a fleet file")
        count[name] += 1
        if name == HOST:
            boards.append(BoardSpec(id=HOST, kind=HOST, threads=threads))
        else:
            id = name if count[name] == 1 else f"{name}-{count[name]}"
            boards.append(BoardSpec(id=id, kind="simulated", model=name))
    if not boards:
        raise FleetError(f"no board named; there are: {', '.join([HOST, *sorted(SIM_MODELS)])}")
    _no_twins("", boards)
    return Fleet(tuple(boards))


def _no_twins(where: str, boards: Sequence[BoardSpec]) -> None:
    id, times = Counter(board.id for board in boards).most_common(1)[0]
    if times > 1 and id != HOST:
        raise FleetError(f"{where}board {id} is there {times} times; give each another id")
    if sum(board.kind == HOST for board in boards) > 1:
        raise FleetError(f"{where}this machine is one board; keep one of kind host, with more threads")
    if times > 1:
        raise FleetError(f"{where}board {id} is there {times} times; give each another id")


def _parse(path: Path) -> _File:
    try:
        with path.open("rb") as file:
            entries = tomllib.load(file)
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror}; give the path of a fleet file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FleetError(f"{path}: not TOML: {error}") from None
    try:
        return _File.model_validate(entries)
    except ValidationError as error:
        raise FleetError(f"{path}: {_explain(error, entries)}") from None


def _explain(error: ValidationError, entries: dict[str, Any]) -> str:
    """The first thing that is wrong, after the entry that it is in."""
    first = error.errors(include_url=False)[0]
    words = list(first["loc"])
    if len(words) > 1 and isinstance(words[1], int):  # an entry of a list, which its reader counts from one
        entry = entries[str(words[0])][words[1]]
        name = entry.get("id", entry.get("name")) if isinstance(entry, dict) else None
        words[:2] = [f"{words[0]} {words[1] + 1}" + (f" ({name})" if name else "")]
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "there is no such field; leave it out or mend its spelling"
    elif first["type"] == "missing":
        message = "it is missing; add it"
    elif first["type"] != "value_error":
        message += f", not {first['input']!r:.80}"
    return ": ".join([*(str(word) for word in words), message])


def _targets(path: Path, parsed: _File) -> dict[str, Target]:
    targets: dict[str, Target] = {}
    for number, entry in enumerate(parsed.target, 1):
        try:
            target = from_json(entry)
        except ValueError as error:
            name = f" ({entry['name']})" if "name" in entry else ""
            raise FleetError(f"{path}: target {number}{name}: {error}") from None
        _add(targets, target, f"{path}: target {number} ({target.name})")
    for file in parsed.targets:
        for target in read_targets(path.parent / file).values():
            _add(targets, target, f"{path}: {file}: target {target.name}")
    return targets


def _add(targets: dict[str, Target], target: Target, where: str) -> None:
    if target.name in {HOST, *CATALOGUE, *targets}:
        raise FleetError(f"{where}: there is a target of that name already; give it another name")
    targets[target.name] = target
