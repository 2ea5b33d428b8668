"""What the demo found out, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from server.jobs.schemas import Task
from tilefleet import render
from tuner.backend.check import Check


@dataclass(frozen=True)
class Layer:
    """One distinct layer: times in ms a call, one thread; ``share_of_peak`` of the core's measured peak."""

    workload: str
    key: str
    times: int
    default_ms: float
    untuned_ms: float | None
    tuned_ms: float | None
    gflops: float | None
    unit: str
    share_of_peak: float | None
    trials: int
    config: dict[str, Any] | None


def layer_of(task: Task, default_s: float) -> Layer:
    """The layer that ``task`` tuned; ``default_s`` is what TVM's default lowering takes."""
    return Layer(
        workload=task.text,
        key=task.workload_key,
        times=round(task.weight),
        default_ms=default_s * 1e3,
        untuned_ms=None if task.recommended_s is None else task.recommended_s * 1e3,
        tuned_ms=None if task.best_s is None else task.best_s * 1e3,
        gflops=task.gflops,
        unit=task.unit,
        share_of_peak=task.share_of_peak,
        trials=task.trials,
        config=task.best_config,
    )


def print_results(console: Console, layers: Sequence[Layer], report: dict[str, Any]) -> None:
    """The table a layer, and the whole model."""
    unit = render.rate_unit(layer.unit for layer in layers)
    table = render.table(
        "layer", "times", "TVM default ms", "untuned ms", "tuned ms", unit, "of peak", "trials"
    )
    for layer in layers:
        table.add_row(
            layer.workload,
            f"{layer.times}",
            _ms(layer.default_ms),
            _ms(layer.untuned_ms),
            _ms(layer.tuned_ms),
            render.number(layer.gflops),
            render.percent(layer.share_of_peak),
            f"{layer.trials}",
        )
    console.print()
    console.print(table)
    console.print(
        "Untuned and tuned: the board's medians, weights cold. TVM default: median in a process pinned to "
        f"one core. The core's measured peak: {render.number(report['peak_gflops'])} GFLOP/s; Winograd "
        "kernels compute with fewer operations than are counted, hence more than 100%.",
        style="dim",
        soft_wrap=True,
    )
    console.print()
    whole = render.table(f"{report['model']}, one thread", "ms", "times slower than tuned")
    for name, key in (
        ("TVM default", "default_ms"),
        ("tuned", "tuned_ms"),
        ("onnxruntime", "onnxruntime_ms"),
    ):
        whole.add_row(name, _ms(report[key]), f"{report[key] / report['tuned_ms']:.2f}")
    console.print(whole)
    console.print(f"{Check(**report['check'])}")


def _ms(value: float | None) -> str:
    return render.milliseconds(None if value is None else value / 1e3)
