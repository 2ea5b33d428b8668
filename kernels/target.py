"""The targets that are known by name; a host's own is found by ``worker/measure/host.py``.

The simulated boards (``worker/fleet/drivers/sim_models.py``) have the targets of the real ones.
"""

from __future__ import annotations

from kernels.targets import arm, hexagon, power, riscv, x86
from kernels.targets.base import Target, from_json, same_code, to_json

__all__ = ["CATALOGUE", "Target", "from_json", "same_code", "to_json"]

CATALOGUE: dict[str, Target] = {
    target.name: target for group in (x86, arm, power, hexagon, riscv) for target in group.TARGETS
}
