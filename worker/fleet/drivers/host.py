"""Boards of kind ``host``: this machine itself, the agent pinned to CPUs, timed by the wall clock."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from worker.fleet.drivers.agent_build import build_agent, host_triple
from worker.fleet.drivers.agent_process import AgentBoard
from worker.fleet.drivers.spec import LocalSpec, Site

HOST: Literal["host"] = "host"


class HostSpec(LocalSpec):
    """This machine, of which a fleet has at most one."""

    kind: Literal["host"] = HOST
    threads: int = Field(default=1, ge=1)

    @classmethod
    def by_name(cls, threads: int) -> Mapping[str, Self]:
        """See ``BoardSpec.by_name``."""
        return {HOST: cls(id=HOST, threads=threads)}

    def driver(self, site: Site) -> NativeBoard:
        """See ``BoardSpec.driver``."""
        return NativeBoard(self.id, state_dir=site.state_dir, cpus=site.host_cpus, threads=self.threads)


class NativeBoard(AgentBoard):
    """Runs the agent on this machine itself.

    The agent is pinned to ``cpus`` (default: all this process may use) and its thread pool has ``threads``
    threads (default: one a CPU). See AgentBoard for the rest.
    """

    def __init__(
        self,
        id: str = "host",
        *,
        state_dir: Path,
        cpus: Sequence[int] | None = None,
        threads: int | None = None,
        target: str = "",
        memory_mb: int = 4096,
    ) -> None:
        cpus = sorted(cpus or os.sched_getaffinity(0))
        super().__init__(
            id,
            state_dir=state_dir,
            cpus=cpus,
            threads=threads or len(cpus),
            target=target,
            clock="wall",
            memory_mb=memory_mb,
        )

    def _prepare(self) -> list[str]:
        return [str(build_agent(host_triple(), self._state_dir))]
