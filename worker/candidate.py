"""Candidates: what is built and measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernels import target as targets
from kernels.space import Config
from kernels.target import Target
from kernels.workload import base as workloads
from kernels.workload.base import Workload


@dataclass(frozen=True)
class Candidate:
    """One config of one workload, for one kind of machine and a number of threads."""

    workload: Workload
    config: Config
    target: Target
    threads: int = 1

    def to_json(self) -> dict[str, Any]:
        """The candidate as plain JSON values; ``from_json`` reads it back."""
        return {
            "workload": workloads.to_json(self.workload),
            "config": self.config.to_json(),
            "target": targets.to_json(self.target),
            "threads": self.threads,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Candidate:
        """Read a candidate; raises ValueError that names what is wrong with it."""
        return cls(
            workloads.from_json(value["workload"]),
            Config.from_json(value["config"]),
            targets.from_json(value["target"]),
            int(value["threads"]),
        )

    def __str__(self) -> str:
        return f"{self.workload} by {self.config}"
