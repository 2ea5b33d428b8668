"""What a model takes beside its convolutions, in cycles of a simulated board or nanoseconds of this machine.

python -m bench.conv_rest --target power10-sim --families sconv,sconv_mma --models resnet18,vgg16 --json FILE

With bench.conv's figures of the convolutions that makes whole models with ours and with im2col + OpenBLAS
(seed 003, table 2). Models are built for convolutions in NCHW by ``--families``, by the analysis's configs.
All other functions of such a build are called with inputs of its shapes, and counted like the convolutions:
the second call, with what stays in the caches there. Bias, ReLU and sums that a convolution computes along
are none of them. FILE is written after every model; called again with the same settings, the bench goes on.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import journal, timing
from bench.arguments import names_of

if TYPE_CHECKING:
    from kernels.kernel import Array
    from kernels.target import Target

SETTINGS = ("target", "families")
HOST = "host"
MODELS = {
    "googlenet": "inception_v1",
    "inception_v2": "inception_v2",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "resnet152": "resnet152",
    "squeezenet": "squeezenet",
    "vgg16": "vgg16",
}
"""The models of bench/sconv393.csv, by their names in bench/models.py."""
ROUNDS = 7


@dataclass(frozen=True)
class Part:
    """A function that a built model calls ``count`` times; ``tensors`` are its inputs, then outputs."""

    name: str
    count: int
    tensors: tuple[tuple[tuple[int, ...], str], ...]
    library: bytes

    def arrays(self) -> list[Array]:
        """Something for each tensor: small numbers, of which no pooling or sum makes others than such."""
        import numpy as np

        rng = np.random.default_rng(0)
        return [rng.uniform(0.5, 1, shape).astype(dtype) for shape, dtype in self.tensors]


def main() -> None:
    """Run the bench and print a line a model."""
    from worker.fleet.drivers.sim_models import SIM_MODELS

    parser = argparse.ArgumentParser(
        prog="python -m bench.conv_rest", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--target", choices=[*sorted(SIM_MODELS), HOST], required=True)
    parser.add_argument("--families", default="sconv", help="kernels of the convolutions (default sconv)")
    parser.add_argument("--models", type=names_of(MODELS), default=[*MODELS], help=f"of {', '.join(MODELS)}")
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()
    try:
        settings = {name: getattr(arguments, name) for name in SETTINGS}
        report = journal.opened(arguments.json, "conv_rest", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = report.setdefault("rows", [])
    done = {row["model"] for row in rows}
    timing.limit_threads(1)
    with timer_of(arguments.target) as (target, time_of):
        for name in arguments.models:
            if name not in done:
                rows.append({"model": name, **rest(name, target, arguments.families.split(","), time_of)})
                journal.save(arguments.json, report)
                print(line(rows[-1]), flush=True)


def rest(
    name: str, target: Target, families: Sequence[str], time_of: Callable[[Part], float]
) -> dict[str, Any]:
    """``cycles`` of all functions of a model that are no convolutions, and of each, the longest first."""
    found = [(part, time_of(part)) for part in parts(name, target, families)]
    functions = [
        {"name": part.name, "calls": part.count, "cycles": part.count * cycles} for part, cycles in found
    ]
    functions.sort(key=lambda each: -float(str(each["cycles"])))
    return {"cycles": sum(part.count * cycles for part, cycles in found), "functions": functions}


def parts(name: str, target: Target, families: Sequence[str]) -> list[Part]:
    """The functions of a model built for ``target`` that are no convolutions and move or compute something.

    Raises SystemExit where none of ``families`` computes one of its convolutions.
    """
    import onnx
    from tvm import tirx

    from bench.models import MAKERS
    from bench.simulated import candidates
    from compiler.load import load_partition
    from compiler.lower.operators.functions import function_name
    from compiler.passes.epilogues.affine import merge_affine
    from kernels.workload.base import AnyChain, Conv2d
    from tuner.backend.apply import lower_partition, plan_of
    from tuner.backend.manifest import describe
    from tuner.backend.objects import ObjectCache, compiled
    from worker.build.toolchain import link

    with tempfile.TemporaryDirectory(prefix="tilefleet-rest-") as folder:
        onnx.save(MAKERS[MODELS[name]](0), f"{folder}/model.onnx")
        partition = load_partition(Path(folder) / "model.onnx")
    merge_affine(partition.graph)
    picks = {}
    for product in partition.products:
        if isinstance(product.workload, Conv2d):
            configs = candidates(product.workload, target, 1, families)
            if not configs:
                raise SystemExit(f"bench.conv_rest: none of {families} computes {product.workload}")
            picks[product.workload.key] = configs[0]
    plan = plan_of(partition, picks, target)
    convolutions = {
        function_name(layer.workload, layer.config)
        for layer in describe(partition, plan, target, 1).layers
        if layer.config and isinstance(layer.workload, Conv2d | AnyChain)
    }
    module = lower_partition(partition, plan, target, 1)
    calls: Counter[Any] = Counter()
    tensors = {}
    for call in _calls(module["main"].body):
        variable, operands = call.args[:2]
        if variable.name_hint in convolutions or _moves_nothing(module[variable]):
            continue
        calls[variable] += 1
        kinds = [*(each.ty for each in operands), *(getattr(call.ty, "fields", None) or [call.ty])]
        tensors[variable] = tuple((tuple(map(int, kind.shape)), str(kind.dtype)) for kind in kinds)
    functions = {variable.name_hint: module[variable] for variable in calls}
    assert all(isinstance(function, tirx.PrimFunc) for function in functions.values())
    objects = dict(
        zip(sorted(functions), compiled(functions, target, ObjectCache.of_environment()), strict=True)
    )
    return [
        Part(variable.name_hint, count, tensors[variable], link(objects[variable.name_hint]))
        for variable, count in calls.items()
    ]


def _calls(body: Any) -> list[Any]:
    """All calls of generated functions in the body of ``main``, in order."""
    from tvm import relax

    found = []
    for block in body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir":
                found.append(value)
    return found


def _moves_nothing(function: Any) -> bool:
    """Whether it gives a tensor another shape and no more, which a built model does not call."""
    from tvm import relax
    from tvm.s_tir.stmt import SBlockRealize

    scheduled = not isinstance(function.body, SBlockRealize)
    return not scheduled and bool(relax.analysis.has_reshape_pattern(function))


@contextmanager
def timer_of(board: str) -> Iterator[tuple[Target, Callable[[Part], float]]]:
    """A target, and what times a function for it: cycles of a simulated board, or nanoseconds of this
    machine."""
    if board == HOST:
        from worker.measure.host import host_target

        timing.pin(1)
        with tempfile.TemporaryDirectory(prefix="tilefleet-rest-") as name:
            yield host_target(), lambda part: _here(part, Path(name))
        return
    from bench.simulated import bench_on
    from kernels.target import CATALOGUE
    from worker.fleet.drivers.sim_models import SIM_MODELS

    with bench_on(board) as bench:

        def cycles(part: Part) -> float:
            return float(bench.call(part.library, part.name, part.arrays())[0]["cycles"])

        yield CATALOGUE[SIM_MODELS[board].target], cycles


def _here(part: Part, folder: Path) -> float:
    import tvm

    from tuner.runtimes.turns import take_turns

    path = Path(tempfile.mkdtemp(dir=folder)) / "function.so"  # the loader knows files by their names
    path.write_bytes(part.library)
    function = tvm.runtime.load_module(str(path))[part.name]
    tensors = [tvm.runtime.tensor(each) for each in part.arrays()]
    turns = take_turns({part.name: lambda: function(*tensors)}, ROUNDS)
    return 1e9 * statistics.median(turns[part.name].fair(1))


def line(row: dict[str, Any]) -> str:
    """One model's figures, to be printed."""
    longest = ", ".join(f"{each['name']} {each['cycles'] / 1e6:.3f}" for each in row["functions"][:4])
    return f"{row['model']:14s} M cycles (or ms) beside convolutions: {row['cycles'] / 1e6:8.3f} ({longest})"


if __name__ == "__main__":
    main()
