"""The kinds of board. A new one is a file beside this one with its ``BoardSpec``, and a place in the list.

Or it is an entry point of a package (docs/extending.md).
"""

from __future__ import annotations

from functools import cache

from kernels.plugins import plugged
from worker.fleet.drivers.agent import AgentSpec
from worker.fleet.drivers.dial import DialSpec
from worker.fleet.drivers.host import HostSpec
from worker.fleet.drivers.rpc import RpcSpec
from worker.fleet.drivers.simulated import SimulatedSpec
from worker.fleet.drivers.spec import BoardSpec

KINDS: dict[str, type[BoardSpec]] = {}
"""Each kind of board by what the fleet file calls it."""


def register(spec: type[BoardSpec]) -> None:
    """Make a kind of board known under the default of its field ``kind``."""
    KINDS[spec.model_fields["kind"].default] = spec


for _spec in (HostSpec, SimulatedSpec, DialSpec, AgentSpec, RpcSpec):
    register(_spec)


@cache
def _add_plugged() -> None:
    for spec in plugged("tilefleet.boards", BoardSpec):  # type: ignore[type-abstract]
        KINDS.setdefault(spec.model_fields["kind"].default, spec)


def kinds() -> dict[str, type[BoardSpec]]:
    """``KINDS`` with those that installed packages add; none replaces another."""
    _add_plugged()
    return KINDS
