"""What a kind of board declares: its fields in the fleet file, what it needs, how it is driven."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from worker.fleet.drivers.base import Driver
from worker.fleet.drivers.dial_proof import check_id
from worker.fleet.drivers.gateway import Gateway
from worker.fleet.tag import Tag


@dataclass(frozen=True)
class Site:
    """What this process gives to its boards.

    ``host_cpus`` are this machine's as a board, ``other_cpus`` what simulated boards may use. Boards that
    dial in do so at ``gateway``.
    """

    state_dir: Path
    host_cpus: Sequence[int]
    other_cpus: Sequence[int]
    gateway: Gateway


def split_address(address: str) -> tuple[str, int]:
    """``host:port`` or ``[IPv6]:port`` in two; raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 <= int(port) < 65536:
        raise ValueError(f"{address!r} is not like host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _good_id(id: str) -> str:
    if problem := check_id(id):
        raise ValueError(problem)
    return id


def _good_address(address: str) -> str:
    split_address(address)
    if not address.isprintable() or " " in address:
        raise ValueError(f"{address!r} is not like host:port")
    return address


def _known_target(name: str, info: ValidationInfo) -> str:
    known = (info.context or {}).get("targets", {name})
    if name not in known:
        names = ", ".join(sorted(known))
        raise ValueError(f"{name!r} is unknown; take one of {names}, or add a [[target]] entry")
    return name


TargetName = Annotated[str, AfterValidator(_known_target)]
"""A target of the catalogue or of the fleet file."""
MOST_THREADS = 4096
"""More than any machine has; the database holds no number of any length."""
Address = Annotated[str, Field(max_length=280), AfterValidator(_good_address)]


class BoardSpec(BaseModel, ABC):
    """An entry of the fleet file. A kind of board is a subclass, which ``registry`` knows by its ``kind``.

    Entries are validated in a context: ``folder``, which paths are relative to, and the known ``targets``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    local: ClassVar[bool] = False
    """Whether its agent runs on this machine: where it cannot start, something is missing here."""

    id: Annotated[str, AfterValidator(_good_id)]
    kind: str
    tags: tuple[Tag, ...] = Field(default=(), max_length=100, strict=False)
    repair: tuple[str, ...] = Field(default=(), strict=False)
    """What the coordinator runs when the board failed: a program and its arguments."""
    repair_timeout_s: float = Field(default=120.0, gt=0)

    @classmethod
    def by_name(cls, threads: int) -> Mapping[str, Self]:
        """The boards that can be had by a name alone; ``threads`` are this machine's if it is one."""
        return {}

    @property
    def where(self) -> str:
        """Where it is, in words and without secrets; empty for this machine."""
        return ""

    @abstractmethod
    def driver(self, site: Site) -> Driver:
        """What drives it, not started; raises BoardError."""

    @abstractmethod
    def absence(self) -> str:
        """What to say of it while it is not there."""

    def tokens(self) -> tuple[str, ...]:
        """The tokens that its agent may have, as they are now; raises BoardError."""
        return ()

    def why_not(self) -> str | None:
        """What this machine lacks to drive it, with the way out; None when it could."""
        return None

    def outlook(self) -> str:
        """What is found of it when this machine lacks nothing, for people."""
        return "nothing is missing"


class LocalSpec(BoardSpec):
    """A board whose agent runs on this machine."""

    local: ClassVar[bool] = True

    def absence(self) -> str:
        """See ``BoardSpec.absence``."""
        return f"its agent does not run; see board-{self.id}.log"


class RemoteSpec(BoardSpec):
    """A board that others run, which need not be there."""

    target: TargetName
    threads: int = Field(default=1, ge=1, le=MOST_THREADS)
