"""A C library on emulated processors: the same bits as the module's functions on the simulated board."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm

sys.path.insert(0, str(Path(__file__).parents[1] / "tuner"))

from c_models import MODELS, feeds, places
from test_loops_by_data import root

from compiler.load import load_partition
from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from tuner.backend.apply import compile_module, lower_partition, plan_of
from tuner.backend.on_board import SESSION_S, Board
from tuner.clibrary.build import Model, make, write
from worker.fleet.drivers.agent_build import STATIC, agent_triple
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.measure.session import connect
from worker.measure.wire import Wire

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(900)]


KINDS = {**MODELS, "places": places, "turns": lambda: root("limit", collected=True)}
TWO = {
    "hexagon-sim": ("quantized", "recurrent", "places", "turns"),
    "power10-sim": ("attention", "convolutions", "turns"),
    "riscv-k1-sim": ("convolutions", "recurrent"),
    "rpi4-32-sim": ("convolutions", "quantized", "places", "turns"),
    "rpi4-sim": ("turns", "attention", "quantized"),
}
"""Of the kinds of models, a board an instruction set: all on all take five minutes, most of it LLVM's."""


def model(path, kinds):
    """Models in one, so that each board builds one."""
    # What a loop reads around it, add_prefix does not rename.
    prefixes = {kind: "" if kind == "turns" else f"{kind}_" for kind in kinds}
    whole, *others = [onnx.compose.add_prefix(KINDS[kind](), prefix) for kind, prefix in prefixes.items()]
    for other in others:
        for field in ("node", "input", "output", "initializer"):
            getattr(whole.graph, field).extend(getattr(other.graph, field))
    onnx.save(whole, path)
    return path


@pytest.mark.parametrize("name", sorted(TWO))
def test_it_computes_the_same_bits_as_the_board(simulated_boards, tmp_path, name):
    simulated = SIM_MODELS[name]
    target = CATALOGUE[simulated.target]
    path = model(tmp_path / "model.onnx", TWO[name])
    made = make(Model(path, None, [], [], Numerics.EXACT_INTEGERS), [target], "net", "model.onnx", "", True)
    write(made, tmp_path)
    inputs = feeds(made.library.inputs, np.random.default_rng())
    for index, value in enumerate(inputs):
        (tmp_path / f"input_{index}.bin").write_bytes(value.tobytes())
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", agent_triple(target.triple)]
    built = subprocess.run(
        [*compiler, *STATIC, "-std=c11", "example.c", "libnet.a", "-o", "example"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    files = [f"input_{index}.bin" for index in range(len(inputs))]
    ran = subprocess.run(
        [simulated.emulator, "-cpu", simulated.emulated_cpu, "./example", *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr

    partition = load_partition(path)
    module = lower_partition(partition, plan_of(partition, {}, target), target, 1)
    wire = Wire(lambda: connect(simulated_boards[name].address, SESSION_S))
    main = Board(wire, tmp_path, (), lambda: None).load(module, compile_module(module, target))
    expected = [each.numpy() for each in main(*map(tvm.runtime.tensor, inputs))]
    assert len(expected) == len(made.library.outputs)
    for index, (port, right) in enumerate(zip(made.library.outputs, expected, strict=True)):
        assert (tmp_path / f"output_{index}.bin").read_bytes() == right.tobytes(), port.name
