"""Which targets there are, by name and by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from kernels.target import CATALOGUE, Target
from server.db.tables import TargetRow
from server.engine import Engine
from server.http.problems import Problem, invalid


class Targets:
    """The built-in targets, the fleet file's, and the boards', which win over others of their name."""

    def __init__(self, engine: Engine, own: Mapping[str, Target]) -> None:
        self._engine = engine
        self.take(own)

    def take(self, own: Mapping[str, Target]) -> None:
        """Have these of the fleet file, in the place of those before."""
        self._named = {**CATALOGUE, **own}

    @property
    def known(self) -> dict[str, Target]:
        """All targets by name."""
        return {**self._named, **{board.target.name: board.target for board in self._engine.boards()}}

    def get(self, name: str, *loc: str | int) -> Target:
        """The target called ``name``; else a problem that lists those there are (404, or 422 at ``loc``)."""
        known = self.known
        if name in known:
            return known[name]
        detail = f"unknown target {name!r}; there are: {', '.join(sorted(known))}"
        raise invalid(detail, *loc) if loc else Problem(404, detail)

    def keys(self, session: Session, name: str) -> Sequence[str]:
        """Keys of the targets meant by ``name``: a name, also one that only imported records have, or a key.

        Raises the problem of ``get`` when nothing is meant by it.
        """
        if name in self.known:
            return [self.known[name].key]
        query = select(TargetRow.key).where(or_(TargetRow.key == name, TargetRow.name == name))
        return session.execute(query).scalars().all() or [self.get(name).key]
