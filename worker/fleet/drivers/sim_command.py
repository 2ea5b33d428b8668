"""How QEMU is called with the clock of a simulated board as its plugin."""

from __future__ import annotations

import shutil
from pathlib import Path

from worker.fleet.drivers.agent_build import build_plugin
from worker.fleet.drivers.sim_models import SimModel

_PAGE_BYTES = 4096
"""SIMULATION_PAGE_BYTES of ``worker/agent/simulation_page.h``."""


def emulation(figures: SimModel, state_dir: Path, page: Path, clock: str) -> list[str]:
    """The command to put before a program's.

    ``page`` is the file of the clock's page of counters and is made anew, with the table of prices beside it;
    ``state_dir`` has the plugin, or gets it; ``clock`` its name. Raises AgentBuildError.
    """
    page.write_bytes(bytes(_PAGE_BYTES))
    options: dict[str, object] = {**figures.options(), "page": page, "clock": clock}
    if figures.core:
        options["prices"] = prices = page.with_suffix(".prices")
        prices.write_text(figures.prices)
    # QEMU separates a plugin's options by commas; a comma in a value is written twice.
    words = [str(build_plugin(state_dir)), *(f"{name}={value}" for name, value in options.items())]
    plugin = ",".join(word.replace(",", ",,") for word in words)
    return [
        shutil.which(figures.emulator) or figures.emulator,
        "-cpu",
        figures.emulated_cpu,
        "-plugin",
        plugin,
    ]
