"""The host as a board: the agent pinned to CPUs, timed by the wall clock."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from worker.fleet.agent_board import AgentBoard, BoardError
from worker.fleet.agent_build import build_agent, host_triple

__all__ = ["BoardError", "NativeBoard"]


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
