"""Every distinct layer of a quantized model, run on a board on its own and compared to the last bit.

python -m bench.int8_layers --suite mobilenet_v2 --board rpi4-sim --json FILE

A layer is a product or another integer operator. It runs by the analysis's config, with the model's
constants, on the bytes that reach it there. The bench ends with an error when any layer is not exact; FILE is
written after every layer, and called again it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import journal

if TYPE_CHECKING:
    from compiler.ir.partition import Partition
    from kernels.kernel import Array
    from kernels.target import Target

SETTINGS = ("suite", "activations", "board", "seed")
SESSION_S = 3600


def main() -> None:
    """Run the layers and print a line for each."""
    from bench.quantized_models import NAMES, SMALL, Style, quantized
    from worker.fleet.drivers.sim_models import SIM_MODELS

    parser = argparse.ArgumentParser(prog="python -m bench.int8_layers", description=__doc__.splitlines()[0])
    parser.add_argument("--suite", choices=(*NAMES, *SMALL), required=True, help="the network")
    parser.add_argument("--activations", choices=["uint8", "int8"], default="uint8")
    parser.add_argument("--board", choices=sorted(SIM_MODELS), default="rpi4-sim")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()
    try:
        settings = {name: getattr(arguments, name) for name in SETTINGS}
        report = journal.opened(arguments.json, "int8_layers", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    import onnx

    from bench.quantized_models import random_feeds
    from compiler.load import load_partition

    model = quantized(arguments.suite, Style(arguments.activations), arguments.seed)
    feeds = random_feeds(model, np.random.default_rng(arguments.seed + 1))
    rows = report.setdefault("rows", [])
    with tempfile.TemporaryDirectory(prefix="tilefleet-bench-") as name:
        folder = Path(name)
        onnx.save(model, folder / "model.onnx")
        layers = list(layers_of(load_partition(folder / "model.onnx"), feeds))
        done = {row["layer"] for row in rows}
        for row in on_board([layer for layer in layers if layer.name not in done], arguments.board, folder):
            rows.append(row)
            journal.save(arguments.json, report)
            print(
                f"{row['layer']:40s} {row['text']:48s} {row['wrong']} of {row['elements']} wrong", flush=True
            )
    wrong = [row["layer"] for row in rows if row["wrong"]]
    if wrong:
        raise SystemExit(f"bench.int8_layers: not exact: {', '.join(wrong)}")
    print(f"{arguments.suite}: all {len(rows)} distinct layers are exact on {arguments.board}")


@dataclass(frozen=True)
class Layer:
    """A distinct layer, named after its first node; inputs and result as they are stored."""

    name: str
    what: Any
    inputs: list[Array]
    constants: list[Array]
    expected: Array

    @property
    def text(self) -> str:
        """What it computes, in short."""
        from kernels.workload.base import QConv2d

        if isinstance(self.what, QConv2d):
            return str(self.what)
        return f"{type(self.what).__name__} to {'x'.join(map(str, self.expected.shape))}"


def layers_of(partition: Partition, feeds: Mapping[str, Array]) -> Iterator[Layer]:
    """The quantized products of ``partition`` with distinct workloads, then its distinct operators."""
    from bench.partition_reference import evaluate
    from kernels.operators.int8.base import to_stored
    from kernels.workload.base import QConv2d

    values = evaluate(partition, feeds)
    products = {each.workload: each for each in reversed(partition.products)}
    for workload, product in reversed(products.items()):
        if isinstance(workload, QConv2d):
            data, expected = (to_stored(values[name]) for name in (product.data, product.output))
            yield Layer(
                product.nodes[0],
                workload,
                [data.reshape(workload.data_shape)],
                list(product.constants),
                expected.reshape(workload.out_shape),
            )
    operators = {each.what: each for each in reversed(partition.operators)}
    for what, operator in reversed(operators.items()):
        inputs = [to_stored(values[name]) for name in operator.inputs]
        yield Layer(operator.name, what, inputs, what.constants(), to_stored(values[operator.output]))


def on_board(layers: list[Layer], model: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Run each layer on a simulated board of kind ``model``."""
    from tvm import rpc
    from tvm.runtime import tensor

    from kernels.emit.compile import compile_object
    from kernels.target import CATALOGUE
    from worker.build.build import ENTRY
    from worker.build.toolchain import link
    from worker.fleet.drivers.simulated import SimulatedBoard

    with SimulatedBoard(model, state_dir=folder) as board:
        target = CATALOGUE[board.target]
        where = board.address
        session = rpc.connect(where["host"], where["port"], where["key"], session_timeout=SESSION_S)
        for number, layer in enumerate(layers):
            function, constants = _function(layer, target)
            path = folder / f"layer-{number}.so"
            path.write_bytes(link(compile_object(function, target)))
            session.upload(str(path), target=path.name)
            # What it must write differs everywhere from what is there.
            arrays = [*layer.inputs, *constants, ~layer.expected]
            arguments = [tensor(np.ascontiguousarray(array), session.cpu(0)) for array in arrays]
            session.load_module(path.name)[ENTRY](*arguments)
            wrong = arguments[-1].numpy() != layer.expected
            yield {
                "layer": layer.name,
                "text": layer.text,
                "elements": wrong.size,
                "wrong": int(wrong.sum()),
            }


def _function(layer: Layer, target: Target) -> tuple[Any, list[Array]]:
    """The layer's function, and the constants that it takes after its inputs."""
    from kernels import registry
    from kernels.numerics import Numerics
    from kernels.workload.base import QConv2d
    from worker.build.build import ENTRY

    if not isinstance(layer.what, QConv2d):
        return layer.what.build(target, 1, ENTRY), layer.constants
    config = registry.recommendations(layer.what, target, Numerics.EXACT)[0]
    kernel = registry.kernel(config.kernel)
    constants = kernel.constants(layer.what, config, target, [*layer.inputs, *layer.constants])
    return kernel.build(layer.what, config, target, 1, ENTRY), constants


if __name__ == "__main__":
    main()
