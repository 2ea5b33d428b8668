"""Quantized layers on a simulated Arm board, ours and LiteRT's, by the same simulated clock.

python -m tuner.runtimes.guest FOLDER
python -m bench.int8 --target rpi4-sim --litert FOLDER --suite mobilenet_v2 --sample 12 --seed 1 --json FILE

LiteRT (XNNPACK, one thread) runs whole under QEMU with the clock as plugin. A call of its interpreter is
timed, less a call for a model without operators: what is compared is the layer. Of ours, the configs
predicted best are measured, and the best of these once more with all sums stored before they are scaled
(``unfused``). Both have their weights in the caches if these are large enough. Both results are compared with
the integer reference: ours must be exact, of LiteRT's is told how many are off, and by how much.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import types
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import journal, timing
from bench.simulated import Bench, bench_on, candidates
from kernels.int8.reference import random_inputs, reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.int8_suite import QLayer
    from kernels.kernel import Array
    from kernels.target import Target
    from kernels.workload.base import QConv2d
    from tuner.runtimes.guest import Guest

BOARDS = ("rpi4-sim", "rpi5-sim", "graviton3-sim")
SETTINGS = ("target", "suite", "seed", "candidates")


def main(arguments_given: Sequence[str]) -> None:
    """Run the bench and print its table."""
    from bench.int8_suite import SUITES, layers_of

    parser = argparse.ArgumentParser(
        prog="python -m bench.int8 --target BOARD", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--target", choices=BOARDS, required=True)
    parser.add_argument("--litert", type=Path, required=True, help="made by python -m tuner.runtimes.guest")
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument("--sample", type=int, default=12, help="how many layers to draw (default 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=int, default=12, help="configs measured a layer (default 12)")
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args(arguments_given)
    if not (arguments.litert / "site" / "ai_edge_litert").is_dir():
        parser.error(
            f"{arguments.litert} holds no LiteRT; run python -m tuner.runtimes.guest {arguments.litert}"
        )
    try:
        report = journal.opened(
            arguments.json, "int8_sim", {name: getattr(arguments, name) for name in SETTINGS}
        )
    except (OSError, ValueError) as error:
        parser.error(str(error))
    layers = sorted(layers_of(arguments.suite, 8), key=lambda layer: layer.name)
    random.Random(arguments.seed).shuffle(layers)
    wanted = layers[: arguments.sample]
    _count_litert(wanted, report, arguments)
    fixed = report["no_layer"]["cycles"]
    print(f"LiteRT: cycles of a call less the {fixed:,} that a model without operators takes")
    rows = report.setdefault("rows", [])
    done = {row["layer"] for row in rows}
    for row in _rows([each for each in wanted if each.name not in done], arguments):
        rows.append(row | {"litert": report["litert"][row["layer"]]})
        journal.save(arguments.json, report)
        print(_line(rows[-1], fixed), flush=True)
    for kind in ("tuned", "analysis"):
        ratios = [_layer_cycles(row, fixed) / row[kind]["cycles"] for row in rows]
        least, wins = min(ratios), sum(ratio >= 1 for ratio in ratios)
        print(f"LiteRT / {kind}: {timing.geomean(ratios):.2f}, at least {least:.2f}, {wins} of {len(rows)}")
    gains = [row["unfused"] / row["tuned"]["cycles"] for row in rows if row["unfused"]]
    if gains:
        least, most = min(gains), max(gains)
        print(f"unfused / fused: {timing.geomean(gains):.3f}, {least:.3f} to {most:.3f}, {len(gains)} layers")


def _count_litert(layers: list[QLayer], report: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Let one guest compute what the report lacks of ``layers``: it takes minutes to start."""
    from tuner.runtimes.guest import Guest

    found = report.setdefault("litert", {})
    missing = [layer for layer in layers if layer.name not in found]
    if missing:
        with tempfile.TemporaryDirectory(prefix="tilefleet-int8-sim-") as name:
            guest = Guest(arguments.litert, Path(name), arguments.target)
            report["no_layer"], *counted = litert([layer.conv for layer in missing], guest)
        found |= {layer.name: each for layer, each in zip(missing, counted, strict=True)}
        journal.save(arguments.json, report)


def _rows(layers: list[QLayer], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from kernels.target import CATALOGUE
    from worker.fleet.drivers.sim_models import SIM_MODELS

    target = CATALOGUE[SIM_MODELS[arguments.target].target]
    with bench_on(arguments.target) as bench:
        for layer in layers:
            conv = signed(layer.conv)
            about = {"layer": layer.name, "text": str(conv), "count": layer.count}
            yield about | _ours(conv, target, bench, arguments.candidates)


def signed(layer: QConv2d) -> QConv2d:
    """The same layer with data and results of int8, 128 less, which is what LiteRT gets as well."""
    data_zero, out_zero = layer.data_zero - 128, layer.out_zero - 128
    return replace(layer, data_dtype="int8", out_dtype="int8", data_zero=data_zero, out_zero=out_zero)


def _ours(conv: QConv2d, target: Target, bench: Bench, count: int) -> dict[str, Any]:
    """The recommended config and the best of ``count``; raises SystemExit when one is not exact."""
    from bench.unfused_sim import unfused_cycles

    configs = candidates(conv, target, count)
    rows = bench.measure(conv, configs, target, exact=True)
    best = min(range(len(rows)), key=lambda number: int(rows[number]["cycles"]))
    return {
        "tuned": rows[best],
        "analysis": rows[0],
        "unfused": unfused_cycles(conv, configs[best], target, bench.board, bench.folder),
    }


def litert(layers: Sequence[QConv2d], guest: Guest) -> list[dict[str, Any]]:
    """What the clock counts for a call of a model without operators, and for each layer; ``off`` tells how
    its result differs from the reference."""
    from bench import litert_peer

    _find_schema(guest.root / "site")
    models = [(litert_peer.no_layer(), np.zeros(1, np.int8)), *map(_model, layers)]
    counted = _emulate(guest, models)
    for conv, (figures, result) in zip(layers, counted[1:], strict=True):
        expected = reference(conv, _inputs(conv)).astype(np.int64) - 128
        off = np.abs(result.astype(np.int64) - expected)
        figures["off"] = {"share": float(np.mean(off > 0)), "largest": int(off.max())}
    return [figures for figures, _ in counted]


def _inputs(layer: QConv2d) -> list[Array]:
    return random_inputs(layer, np.random.default_rng(0))


def _model(layer: QConv2d) -> tuple[bytes, Array]:
    """LiteRT's model of the layer, and its input."""
    from bench.litert_peer import one_layer, same_padding

    data, weights, bias, multiplier, shift = _inputs(layer)
    shifted = (data.astype(np.int16) - 128).astype(np.int8)
    same = layer.pad == same_padding(layer)
    if not same:
        top, left, bottom, right = layer.pad
        pads = ((0, 0), (top, bottom), (left, right), (0, 0))
        shifted = np.pad(shifted, pads, constant_values=layer.data_zero - 128)
    scales = np.broadcast_to(multiplier.astype(np.float64) * 2.0 ** (-31.0 - shift), (layer.out_c,))
    return one_layer(layer, shifted.shape, weights, bias, scales.astype(np.float32), same), shifted


def _find_schema(site: Path) -> None:
    """Let ``ai_edge_litert`` be found for its schema, without the libraries that it loads when imported."""
    if "ai_edge_litert" not in sys.modules:
        package = types.ModuleType("ai_edge_litert")
        package.__path__ = [str(site / "ai_edge_litert")]
        sys.modules["ai_edge_litert"] = package


def _emulate(guest: Guest, models: Sequence[tuple[bytes, Array]]) -> list[tuple[dict[str, Any], Array]]:
    """What the clock counts for each model in one guest, and its result.

    Raises SystemExit with what the guest said when it fails.
    """
    from tuner.runtimes.guest import GuestError

    paths = [guest.state_dir / f"model-{number}.tflite" for number in range(len(models))]
    for path, (content, data) in zip(paths, models, strict=True):
        path.write_bytes(content)
        np.save(f"{path}.npy", data)
    page, script = guest.state_dir / "litert.clock", Path(__file__).with_name("litert_guest.py")
    try:
        said = guest.python([str(script), str(page), *map(str, paths)], page)
    except GuestError as error:
        raise SystemExit(f"bench.int8: LiteRT: {error}") from None
    figures = [json.loads(line) for line in said.splitlines()[-len(paths) :]]
    return [(each, np.load(f"{path}.out.npy")) for each, path in zip(figures, paths, strict=True)]


def _layer_cycles(row: dict[str, Any], fixed: int) -> int:
    """LiteRT's cycles for the layer alone."""
    cycles: int = row["litert"]["cycles"] - fixed
    return cycles


def _line(row: dict[str, Any], fixed: int) -> str:
    mega = {kind: row[kind]["cycles"] / 1e6 for kind in ("tuned", "analysis")}
    mega["litert"] = _layer_cycles(row, fixed) / 1e6
    text = " ".join(f"{kind} {cycles:7.3f}" for kind, cycles in mega.items())
    off = row["litert"]["off"]
    return (
        f"{row['text']:48s} M cycles: {text} ({mega['litert'] / mega['tuned']:.2f}, {off['share']:.1%} off)"
    )
