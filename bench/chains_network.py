"""The convolutions of MobileNet-v2, all apart and with chains where these are faster, by one clock.

Chains are tried where a model's job tries them, and chosen as a build chooses them: none overlaps another.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.simulated import Bench, candidates

if TYPE_CHECKING:
    from kernels.target import Target
    from kernels.workload.base import Workload


def best(bench: Bench, workload: Workload, target: Target, count: int) -> dict[str, Any]:
    """The fastest of ``count`` configs in any layout, and its cycles."""
    rows = bench.measure(workload, candidates(workload, target, count, any_layout=True), target)
    return min(rows, key=lambda row: int(row["cycles"]))


def network(bench: Bench, target: Target, count: int, of_bytes: bool) -> dict[str, Any]:
    """Cycles of all layers apart, with chains, and the chains that are taken."""
    import onnx

    from bench.models import mobilenet_v2
    from bench.quantized_models import quantized
    from compiler.load import load_partition
    from compiler.passes.chains import pairs_of, workload_of
    from kernels import registry
    from kernels.chains.memory import is_worth_trying

    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        path = Path(folder) / "mobilenet_v2.onnx"
        onnx.save(quantized("mobilenet_v2") if of_bytes else mobilenet_v2(), path)
        partition = load_partition(path)
    known: dict[str, dict[str, Any]] = {}

    def cycles(workload: Workload) -> int:
        if workload.key not in known:
            known[workload.key] = {"workload": str(workload), **best(bench, workload, target, count)}
            print(f"  {known[workload.key]['cycles']:>12,}  {workload}", flush=True)
        return int(known[workload.key]["cycles"])

    layers = partition.products
    apart = {at: cycles(layer.workload) for at, layer in enumerate(layers)}
    gains: list[tuple[int, int, int, Any]] = []
    for first, second in pairs_of(partition).items():
        chain = workload_of(layers[first], layers[second])
        assert chain is not None  # ``pairs_of`` lists no others
        if is_worth_trying(chain, target) and registry.applicable(chain, target):
            gains.append((apart[first] + apart[second] - cycles(chain), first, second, chain))
    taken: dict[int, Any] = {}
    for gain, first, second, chain in sorted(gains, key=lambda each: -each[0]):
        if gain > 0 and not {first, second} & taken.keys():
            taken |= {first: (gain, str(chain)), second: None}
    saved = [each for each in taken.values() if each]
    whole = sum(apart.values())
    chained = whole - sum(gain for gain, _ in saved)
    return {
        "case": "network",
        "ratio": whole / chained,
        "apart": whole,
        "chained": chained,
        "chains": saved,
        "measured": list(known.values()),
    }
