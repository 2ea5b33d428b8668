"""A simulated board with figures of one's own: ``[board.figures]`` of the fleet file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from worker.fleet.drivers.sim_models import PIPES, SIM_MODELS, SimModel
from worker.fleet.drivers.sim_prices import CORES

_PAGE_BYTES = 4096
_L3 = ("l3_bytes", "l3_ways", "l3_cycles", "l3_stream_cycles")
_ALWAYS = (
    *("hz", "width", "line_bytes", "l1_bytes", "l1_ways", "l2_bytes", "l2_ways", "l2_cycles"),
    *("l2_stream_cycles", *_L3, "memory_cycles", "memory_stream_cycles", "memory_line_cycles"),
    *("memory_write_cycles", "memory_row_cycles", "memory_shared_row_cycles", "l2_lines"),
)
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "hz": (1_000_000, 100_000_000_000),
    "line_bytes": (16, _PAGE_BYTES),
    # A cycle's ticks are shared by what runs in it (TICKS).
    **dict.fromkeys(("width", *PIPES, "matrix"), (1, 16)),
    **dict.fromkeys(("l1_bytes", "l2_bytes", "l3_bytes"), (1024, 256 << 20)),
    **dict.fromkeys(("l1_ways", "l2_ways", "l3_ways", "in_flight"), (1, 64)),
    "lines_ahead": (0, 64),
    "l3_exclusive": (0, 1),
}
_CYCLES = (1, 100_000)


def figures_of(model: str) -> tuple[str, ...]:
    """The figures of a board that a fleet file may replace."""
    base = SIM_MODELS[model]
    core: tuple[str, ...] = ()
    if base.core in CORES:
        core = (*PIPES, "in_flight", "lines_ahead", "memory_turn_cycles", "l3_exclusive")
    if not base.core:
        core = (*PIPES, "matrix", "divide_cycles")
    return (*_ALWAYS, *core, *(("fast_cycles",) if base.fast_cycles else ()))


def with_figures(model: str, figures: Mapping[str, Any]) -> SimModel:
    """The board ``model`` of SIM_MODELS with other figures; ``l3_bytes = 0`` takes its third cache away.

    Another ``l3_bytes`` is of a cache that has the lines of L2, too, as calibrating finds it.

    Raises ValueError.
    """
    known = figures_of(model)
    for name, value in figures.items():
        if name not in known:
            raise ValueError(f"{model} has no figure {name!r:.80}; it has {', '.join(known)}")
        least, most = (0, 0) if (name, value) == ("l3_bytes", 0) else _BOUNDS.get(name, _CYCLES)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{name} is a whole number from {least} to {most}, not {value!r:.80}")
    own_l3 = {"l3_exclusive": 0} if "l3_bytes" in figures else {}
    changed = replace(SIM_MODELS[model], **own_l3 | dict(figures))
    if not changed.l3_bytes:
        changed = replace(changed, l3_ways=0, l3_cycles=0, l3_stream_cycles=0, l3_exclusive=0)
    _check_caches(changed, figures)
    return changed


def _check_caches(model: SimModel, figures: Mapping[str, Any]) -> None:
    if model.line_bytes & (model.line_bytes - 1):
        raise ValueError(f"line_bytes is a power of two, not {model.line_bytes}")
    levels = ["l1", "l2"]
    if model.l3_bytes:
        levels.append("l3")
        if missing := [name for name in _L3 if not getattr(model, name)]:
            raise ValueError(f"a third cache has {', '.join(_L3)}; add {', '.join(missing)}")
    elif given := [name for name in (*_L3, "l3_exclusive") if figures.get(name)]:
        raise ValueError(f"there is no third cache for {', '.join(given)}; add l3_bytes")
    inner = 0
    for level in levels:
        size, ways = getattr(model, f"{level}_bytes"), getattr(model, f"{level}_ways")
        sets, rest = divmod(size, ways * model.line_bytes)
        if rest or not sets or sets & (sets - 1):
            raise ValueError(
                f"{level}_bytes is {level}_ways times line_bytes times a power of two, not {size} with "
                f"{ways} ways of {model.line_bytes} bytes"
            )
        if size <= inner:
            raise ValueError(f"{level}_bytes is more than that of the cache before it, not {size}")
        inner = size
