"""HVX code on an emulated Hexagon, with arrays and workspaces between pages that may not be touched."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tvm.script.ir_builder import tirx as T

from kernels import registry
from kernels.emit import tir
from kernels.emit.compile import compile_object
from kernels.emit.function import Function
from kernels.reference import random_inputs, reference
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d
from worker.build.build import ENTRY
from worker.build.toolchain import ZIG
from worker.fleet.drivers.agent_build import STATIC, agent_triple, machine_flags
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import why_no_emulator

pytestmark = pytest.mark.timeout(600)

BOARD = SIM_MODELS["hexagon-sim"]
TARGET = CATALOGUE[BOARD.target]
SOURCE = Path(__file__).with_name("guarded_guest.c")
VECTOR, HALF, ROW = 128, 64, 448
KINDS = {"i": 0, "u": 1}
"""TVM's codes."""


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    """(function, arrays, wanted): assert that it leaves what is wanted, and touches nothing outside."""
    problem = why_no_emulator("hexagon-sim")
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    triple = agent_triple(TARGET.triple)
    compiler = [ZIG, "cc", "-target", triple, *machine_flags(triple)]
    folder = tmp_path_factory.mktemp("guarded")
    options = ["-O1", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *options, "-c", SOURCE, "-o", folder / "guest.o"], check=True)

    def run(function, arrays, wanted):
        (folder / "kernel.o").write_bytes(compile_object(function, TARGET))
        objects = [folder / "guest.o", folder / "kernel.o"]
        subprocess.run([*compiler, *STATIC, *objects, "-o", folder / "guest"], check=True)
        for side in ("begin", "end"):
            files = []
            for at, array in enumerate([*arrays, np.zeros_like(wanted)]):
                files.append(folder / f"array{at}")
                head = [array.ndim, KINDS[array.dtype.kind], 8 * array.itemsize]
                axes = np.array(array.shape, np.int64)
                files[-1].write_bytes(np.array(head, np.int32).tobytes() + axes.tobytes() + array.tobytes())
            command = [BOARD.emulator, "-cpu", BOARD.emulated_cpu, folder / "guest", side, *files]
            ran = subprocess.run(command, capture_output=True, text=True)
            assert ran.returncode == 0, (side, ran.returncode, ran.stderr)
            left = np.frombuffer(files[-1].read_bytes(), wanted.dtype).reshape(wanted.shape)
            np.testing.assert_array_equal(left, wanted, side)

    return run


def bytes_of(size):
    return np.random.default_rng().integers(0, 256, size, np.uint8)


@pytest.mark.parametrize(("lanes", "step"), [(VECTOR, HALF), (VECTOR, 40), (HALF, HALF), (HALF, 24)])
def test_vectors_that_overlap(guest, lanes, step):
    """LLVM would read the lines around all of them, and one behind, or beside the half of one."""
    count = 4
    size = (count - 1) * step + lanes
    size += -size % HALF  # so that the array ends where its pages end
    first = size - (count - 1) * step - lanes
    function = Function(ENTRY, {"data": (size,), "out": (lanes,)}, dict.fromkeys(("data", "out"), "uint8"))
    with function as (data, out):
        total = data[tir.vector(first, lanes)]
        for at in range(1, count):
            total = total + data[tir.vector(first + at * step, lanes)]
        tir.store(out, total, tir.vector(0, lanes))
    given = bytes_of(size)
    parts = [given[first + at * step :][:lanes] for at in range(count)]
    guest(function.result(), [given], np.sum(parts, 0, np.uint8))


@pytest.mark.parametrize(("dtype", "lanes"), [("uint8", 64), ("int8", 96), ("int16", 32), ("int32", 24)])
def test_halves_at_any_place(guest, dtype, lanes):
    """Of each row a piece, one element further than in the row before; the rest stays as it is."""
    rows, row = VECTOR, ROW // np.dtype(dtype).itemsize
    whole = (rows + 1) * row
    shapes = {"data": (rows * lanes,), "out": (whole,)}
    function = Function(ENTRY, shapes, dict.fromkeys(shapes, dtype))
    with function as (data, out), T.serial(0, rows) as number:
        piece = data[tir.vector(number * lanes, lanes)]
        last = data[tir.vector((rows - 1 - number) * lanes, lanes)]
        tir.store(out, piece, tir.vector(number * (row + 1), lanes))
        tir.store(out, last, tir.vector(whole - lanes, lanes))
    given = bytes_of(rows * lanes * np.dtype(dtype).itemsize).view(dtype)
    wanted = np.zeros(whole, dtype)
    for number in range(rows):
        wanted[number * (row + 1) :][:lanes] = given[number * lanes :][:lanes]
    wanted[-lanes:] = given[:lanes]
    guest(function.result(), [given], wanted)


@pytest.mark.parametrize(
    "conv",
    [
        QConv2d(1, 7, 9, 32, 32, 3, 3, pad=(1, 1, 1, 1), groups=32, weight_range=(-127, 127), data_zero=9),
        QConv2d(1, 4, 4, 32, 64, 3, 3, pad=(1, 1, 1, 1), weight_range=(-127, 127)),
    ],
    ids=str,
)
def test_kernels(guest, conv):
    inputs = random_inputs(conv, np.random.default_rng())
    for config in registry.recommendations(conv, TARGET)[:2]:
        kernel = registry.kernel(config.kernel)
        arrays = [inputs[0], *kernel.constants(conv, config, TARGET, inputs)]
        guest(kernel.build(conv, config, TARGET, 1, ENTRY), arrays, reference(conv, inputs))
