"""What a config makes of a workload: its loops, what they keep in which cache, and its hottest instructions.

``explain_in_child`` compiles, so it belongs into a child of a nursery.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.explain.assembly import hot_loop
from kernels.explain.loop_nest import Loop, Nest
from kernels.explain.loop_reader import read
from kernels.explain.nest_work import Work, count, hot_path, working_set
from kernels.space import Config
from kernels.target import Target
from kernels.target import from_json as target_from_json
from kernels.workload.base import Workload, from_json
from tuner.explain.nest import loop_text, nest_lines


class ConstraintError(ValueError):
    """No kernel can do what is asked for; the message says why."""


def versions_in_child(_: Any) -> dict[str, int]:
    """Child: the version of every kernel by its name; records of other versions were other code."""
    return {name: kernel.version for name, kernel in registry.all_kernels().items()}


def explain_in_child(payload: dict[str, Any]) -> dict[str, Any]:
    """Child: the explanation of ``{"workload", "target", "threads", "config"}`` as plain JSON values.

    Without a config it is the analysis's. ``nest`` holds the lines of the loop nest, ``working_sets`` what
    each loop around the hot code touches in one run, the innermost first, ``residents`` what the kernel's
    analysis meant to keep in each cache, ``hot_loop`` the machine code, None when all of it is straight.
    ``products`` are the multiply-adds done, ``predicted_s`` seconds on ``threads`` cores.
    """
    workload, target = from_json(payload["workload"]), target_from_json(payload["target"])
    threads = payload["threads"]
    config = _config(workload, target, threads, payload["config"])
    kernel = registry.kernel(config.kernel)
    function = kernel.build(workload, config, target, threads, "main")
    nest = read(function)
    work = count(nest)
    hot = hot_path(nest, work)
    path, piece = hot or ([], None)
    lanes = sum(width * times for width, times in piece.multiply_adds.items()) if piece else 1
    loop = hot_loop(compile_module(function, target).inspect_source("asm"), target.triple, lanes)
    return {
        "config": config.to_json(),
        "kernel_version": kernel.version,
        "predicted_s": kernel.predict(workload, config, target, threads),
        "products": sum(work.products(node) for node in nest.body),
        "nest": [asdict(line) for line in nest_lines(nest, work, piece)],
        "scratch": {
            name: {"bytes": nest.buffers[name], "from": nest.filled_from.get(name, [])}
            for name in nest.scratch
        },
        "registers": {
            "accumulators": -(-nest.accumulators // target.lanes()),
            "of": target.vector_registers,
            "bits": target.vector_bits,
        },
        "working_sets": [
            _working_set(nest, work, each, target) for each in reversed(path) if work.turns[each] != {1}
        ],
        "residents": [asdict(each) for each in kernel.residents(workload, config, target)],
        "hot_loop": loop.to_json() if loop else None,
    }


def _config(workload: Workload, target: Target, threads: int, given: dict[str, Any] | None) -> Config:
    """The given config, or else the analysis's; raises ConstraintError when no kernel can do it."""
    reason = registry.why_not_tunable(workload, target)
    if reason is not None:
        raise ConstraintError(f"no kernel computes {workload}: {reason}")
    if given is None:
        return registry.recommendations(workload, target, threads=threads)[0]
    config = Config.from_json(given)
    spaces = registry.search_space(workload, target, threads=threads, any_layout=True)
    reason = spaces.why_not(config)
    if reason is not None:
        raise ConstraintError(reason)
    return config


def _working_set(nest: Nest, work: Work, loop: Loop, target: Target) -> dict[str, Any]:
    touched = working_set(nest, loop, target.line_bytes)
    total = sum(touched.values())
    level, size = next(
        (
            (name, size)
            for name, size in (("L1", target.l1_bytes), ("L2", target.l2_bytes), ("L3", target.l3_bytes))
            if total <= size
        ),
        ("memory", 0),
    )
    return {
        "loop": loop_text(loop, work),
        "bytes": touched,
        "total": total,
        "level": level,
        "share": total / size if size else None,
    }
