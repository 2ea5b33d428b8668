"""Boards of kind ``simulated``: of another architecture, emulated by QEMU, timed by a deterministic clock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from kernels.target import CATALOGUE, same_code
from worker.fleet.drivers.agent_build import build_agent, plugin_fingerprint
from worker.fleet.drivers.agent_process import AgentBoard
from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.sim_command import emulation
from worker.fleet.drivers.sim_figures import with_figures
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.spec import LocalSpec, Site, TargetName

_KB = 1024
_PROBE_TIMEOUT_S = 20
_EMULATOR_MB = 1024
"""What QEMU itself may take of the address space: a quarter of it at the start."""
_WHOLE_32_BITS_MB = 4096
"""What it reserves for a guest of 32 bits."""
_32_BITS = ("hexagon", "arm-")
_INSTALL = "install the dynamic QEMU of Debian or Ubuntu: apt-get install qemu-user"


def why_no_emulator(model: str) -> str | None:
    """Why the simulated board ``model`` cannot run on this machine, with the way out; None when it can."""
    emulator = SIM_MODELS[model].emulator
    path = shutil.which(emulator)
    if path is None:
        return f"{model} needs {emulator}, which is not there; {_INSTALL}"
    try:
        said = subprocess.run(
            [path, "-help"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{model}: {path} does not run: {error}"
    if not re.search(r"^-plugin\b", said, re.MULTILINE):
        return f"{model}: {path} takes no plugins (a static or stripped build); {_INSTALL}"
    return None


def _known_model(name: str) -> str:
    if name not in SIM_MODELS:
        raise ValueError(f"there is no {name!r}; there are {', '.join(sorted(SIM_MODELS))}")
    return name


class SimulatedSpec(LocalSpec):
    """A processor of SIM_MODELS."""

    kind: Literal["simulated"] = "simulated"
    model: Annotated[str, AfterValidator(_known_model)]
    figures: dict[str, Any] = Field(default_factory=dict)
    """Those that replace the model's."""
    target: TargetName | None = None
    """One with the model's instructions and other figures; the model's where it is None."""

    @field_validator("target")
    @classmethod
    def _fitting_target(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name and "model" in info.data:
            own = SIM_MODELS[info.data["model"]].target
            other = (info.context or {}).get("targets", CATALOGUE).get(name)
            if other is None or not same_code(other, CATALOGUE[own]):
                raise ValueError(
                    f"{name!r} has other instructions or registers than {own}, the model's target"
                )
        return name

    @field_validator("figures")
    @classmethod
    def _good_figures(cls, figures: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if "model" in info.data:
            with_figures(info.data["model"], figures)
        return figures

    @classmethod
    def by_name(cls, threads: int) -> Mapping[str, Self]:
        """See ``BoardSpec.by_name``."""
        return {model: cls(id=model, model=model) for model in sorted(SIM_MODELS)}

    def why_not(self) -> str | None:
        """See ``BoardSpec.why_not``."""
        return why_no_emulator(self.model)

    def outlook(self) -> str:
        """See ``BoardSpec.outlook``."""
        return f"{SIM_MODELS[self.model].emulator} is there and takes plugins"

    def driver(self, site: Site) -> SimulatedBoard:
        """See ``BoardSpec.driver``."""
        return SimulatedBoard(
            self.model,
            figures=self.figures,
            id=self.id,
            state_dir=site.state_dir,
            target=self.target,
            cpus=site.other_cpus,
        )


class SimulatedBoard(AgentBoard):
    """Runs the agent under QEMU, with the plugin in ``worker/simclock`` as its clock.

    ``model`` is one of SIM_MODELS. Times are simulated seconds: the same trial gets the bit-same time on
    every start and however busy the machine is, so any ``cpus`` will do. ``threads`` are the model's cores,
    ``target`` is what kernels are chosen for, unless given the catalogue's entry of the processor that is
    simulated; ``figures`` replace some of its figures (``sim_figures.py``). See AgentBoard for the rest.
    Raises BoardError for an unknown model.
    """

    def __init__(
        self,
        model: str,
        *,
        state_dir: Path,
        figures: Mapping[str, Any] | None = None,
        target: str | None = None,
        id: str | None = None,
        cpus: Sequence[int] | None = None,
        memory_mb: int = 4096,
    ) -> None:
        if model not in SIM_MODELS:
            raise BoardError(f"no simulated board is called {model!r}; there are {sorted(SIM_MODELS)}")
        self.model = model
        self._figures = own = with_figures(model, figures) if figures else SIM_MODELS[model]
        plugin = plugin_fingerprint(own.isa, own.parts)
        super().__init__(
            id or model,
            state_dir=state_dir,
            cpus=sorted(cpus or os.sched_getaffinity(0)),
            threads=own.cores,
            target=target or own.target,
            clock=f"simulated:{model}:{own.fingerprint(plugin)}",
            memory_mb=memory_mb,
        )
        # The emulator does not pass on the limit that a session sets itself: it gets one from outside.
        own_mb = _WHOLE_32_BITS_MB if own.triple.startswith(_32_BITS) else 0
        self._address_space_bytes = (memory_mb + own_mb + _EMULATOR_MB) << 20

    def _prepare(self) -> list[str]:
        problem = why_no_emulator(self.model)
        if problem:
            raise BoardError(f"board {self.id}: {problem}")
        agent = build_agent(self._figures.triple, self._state_dir)
        page = self._state_dir / f"board-{self.id}.clock"
        command = emulation(self._figures, self._state_dir, page, self.clock)
        words = ["--clock-page", str(page)]
        if self._figures.fast_cycles:
            words += ["--fast-memory-kb", str(CATALOGUE[self._figures.target].fast_bytes // _KB)]
        return [*command, str(agent), *words]
