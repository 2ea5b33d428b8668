"""Quantized layers on a simulated board: ours, TVM's own lowering, and plain C, by the same clock.

python -m bench.int8 --target hexagon-sim --suite mobilenet_v2 --sample 12 --seed 1 --json FILE

TVM lowers the integer operators of the layer as it does without a schedule. The C (bench/plain_qconv.c) is
compiled by clang with the board's vectors, whose inner loops run over filters. All have the same integers as
result; what is counted is the second call, with what stays in the caches there.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import journal, timing
from bench.simulated import Bench, bench_on, candidates

if TYPE_CHECKING:
    from bench.int8_suite import QLayer
    from kernels.kernel import Array
    from kernels.target import Target
    from kernels.workload.qconv2d import QConv2d

_HVX = ("-mcpu=hexagonv66+hvxv66+hvx_length128b", "-mllvm", "-hexagon-autohvx")
BOARDS = {"hexagon-sim": _HVX, "power10-sim": ("-mcpu=pwr10",)}
"""The boards, and what clang is told of their processors."""
SETTINGS = ("target", "suite", "seed", "candidates")
TIMEOUT_S, LARGEST_MACS = 1800, 150_000_000
"""Layers with more multiply-adds are left out: TVM's code for one takes minutes under the emulator."""


def main(arguments_given: Sequence[str]) -> None:
    """Run the bench and print its table."""
    from bench.int8_suite import SUITES, layers_of

    parser = argparse.ArgumentParser(
        prog="python -m bench.int8 --target BOARD", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--target", choices=sorted(BOARDS), required=True)
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument("--sample", type=int, default=12, help="how many layers to draw (default 12)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--candidates", type=int, default=4, help="configs measured a layer (default 4)")
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args(arguments_given)
    try:
        settings = {name: getattr(arguments, name) for name in SETTINGS}
        report = journal.opened(arguments.json, "int8_plain", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    layers = [each for each in layers_of(arguments.suite, 7) if each.conv.flops // 2 <= LARGEST_MACS]
    layers.sort(key=lambda layer: layer.name)
    random.Random(arguments.seed).shuffle(layers)
    rows = report.setdefault("rows", [])
    done = {row["layer"] for row in rows}
    for row in _rows([x for x in layers[: arguments.sample] if x.name not in done], arguments):
        rows.append(row)
        journal.save(arguments.json, report)
        print(line(row), flush=True)
    for kind in ("tuned", "analysis"):
        for peer in ("tvm", "c"):
            ratios = [row[peer] / row[kind]["cycles"] for row in rows]
            print(f"{peer} / {kind}: {timing.geomean(ratios):.1f}, at least {min(ratios):.1f}")


def _rows(layers: list[QLayer], arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from kernels.target import CATALOGUE
    from worker.fleet.drivers.sim_models import SIM_MODELS

    target = CATALOGUE[SIM_MODELS[arguments.target].target]
    with bench_on(arguments.target) as bench:
        plain = Plain(arguments.target, bench.folder)
        for layer in layers:
            yield measured(layer, target, bench, plain, arguments.candidates)


def measured(layer: QLayer, target: Target, bench: Bench, plain: Plain, count: int) -> dict[str, Any]:
    """One layer's figures, by ``count`` configs of ours; raises SystemExit when a result is not exact."""
    rows = bench.measure(layer.conv, candidates(layer.conv, target, count), target, exact=True)
    return {
        "layer": layer.name,
        "text": str(layer.conv),
        "count": layer.count,
        "macs": layer.conv.flops // 2,
        "tuned": min(rows, key=lambda row: int(row["cycles"])),
        "analysis": rows[0],
        "tvm": tvm_cycles(layer.conv, target, bench),
        "c": plain.cycles(layer.conv),
    }


def line(row: dict[str, Any]) -> str:
    """One layer's figures, to be printed."""
    tuned, family = row["tuned"]["cycles"], row["tuned"]["config"]["kernel"]
    peers = f"TVM {row['tvm'] / tuned:.1f}, C {row['c'] / tuned:.1f}"
    share = tuned / row["analysis"]["cycles"]
    each = row["macs"] / tuned
    return f"{row['text']:48s} {each:6.1f} multiply-adds a cycle by {family} (analysis {share:.2f}), {peers}"


def tvm_cycles(conv: QConv2d, target: Target, bench: Bench) -> int:
    """Cycles of the layer as TVM lowers it; raises SystemExit when the result is not exact."""
    from tvm import te

    from kernels.int8.reference import input_shapes
    from kernels.reference import random_inputs, reference
    from tuner.backend.lowered import quantized_compute

    named = enumerate(input_shapes(conv))
    tensors = [te.placeholder(shape, dtype, f"input{at}") for at, (shape, dtype) in named]
    function = te.create_prim_func([*tensors, quantized_compute(conv)(*tensors)])
    inputs = random_inputs(conv, np.random.default_rng(0))
    named_main = function.with_attr("global_symbol", "main")
    cycles: int = bench.run(named_main, inputs, reference(conv, inputs), target)["cycles"]
    return cycles


@dataclass(frozen=True)
class Plain:
    """bench/plain_qconv.c for ``board``, built into ``folder``."""

    board: str
    folder: Path

    def cycles(self, conv: QConv2d) -> int:
        """What the clock counts for a call; raises SystemExit when its result is not exact."""
        from kernels.reference import random_inputs, reference
        from tuner.runtimes.emulated import emulate

        inputs = random_inputs(conv, np.random.default_rng(0))
        data, weights, bias, multiplier, shift = inputs
        files = {"data": data, "weights": weights, "bias": bias}
        files |= {"multiplier": self._each(conv, multiplier), "shift": self._each(conv, shift)}
        paths = [self.folder / f"plain.{name}" for name in (*files, "result")]
        for path, values in zip(paths, files.values(), strict=False):
            np.ascontiguousarray(values).tofile(path)
        numbers = (
            *(conv.in_h, conv.in_w, conv.in_c, conv.out_c, conv.groups, conv.kh, conv.kw, *conv.stride),
            *(*conv.pad[:2], *conv.dilation, conv.out_h, conv.out_w, conv.data_zero, conv.out_zero),
        )
        page = self.folder / "plain.clock"
        text = " ".join(map(str, (*paths, *numbers))) + "\n"
        said = emulate(
            self.board, self.folder, [str(self._program()), str(page)], page, self.folder, {}, text
        )
        result = np.fromfile(paths[-1], np.uint8).reshape(conv.out_shape)
        if not np.array_equal(result, reference(conv, inputs)):
            raise SystemExit(f"bench.int8: plain C for {conv} is not exact")
        return int(said)

    @staticmethod
    def _each(conv: QConv2d, values: Array) -> Array:
        return np.broadcast_to(values, (conv.out_c,)).astype(np.int32)

    def _program(self) -> Path:
        """The program. Its libc is compiled without vectors, with which LLVM for Hexagon fails."""
        from worker.fleet.drivers.agent_build import STATIC
        from worker.fleet.drivers.sim_models import SIM_MODELS

        program = self.folder / "plain_qconv"
        if not program.exists():
            compiler = [sys.executable, "-m", "ziglang", "cc", "-target", SIM_MODELS[self.board].triple]
            source, compiled = Path(__file__).with_name("plain_qconv.c"), str(program) + ".o"
            options = ["-O3", "-std=c11", *BOARDS[self.board]]
            for command in (
                ["-c", *options, str(source), "-o", compiled],
                [*STATIC, compiled, "-o", str(program)],
            ):
                subprocess.run([*compiler, *command], check=True, timeout=TIMEOUT_S)
        return program
