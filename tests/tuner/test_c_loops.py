"""Loops that data end, in C libraries: the bits of the module for any number of turns."""

import shutil
import subprocess

import numpy as np
import pytest
import tvm
from test_c_shapes import STRICT, written
from test_loops_by_data import XS, nested, root
from test_loops_unrolled import body
from tiny_models import model, node, save
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.comparison import run
from tuner.backend.shape_sets import build_sets
from tuner.clibrary.loaded import Loaded

TARGET = CATALOGUE["x86-avx2"]
SETS = ({"x": (1, 3)}, {"x": (2, 3)})
pytestmark = [pytest.mark.usefixtures("avx2"), pytest.mark.timeout(300)]


def swapped():
    """Values that change places, one that stays, and one that is read around the loop."""
    nodes = [
        node("Add", ["s", "beside"], "s2"),
        node("ReduceSum", ["s2"], "all", keepdims=0),
        node("Less", ["all", "enough"], "on"),
        node("Cast", ["turn"], "number", to=1),
    ]
    inner = body(nodes, ["turn", "going", "s", "p", "q", "r"], ["on", "s2", "q", "p", "r", "number", "p"])
    outputs = ["y", "first", "second", "third", "numbers", "firsts"]
    loop = node("Loop", ["limit", "", "x", "x", "beside", "beside"], outputs, body=inner)
    constants = {"enough": np.float32(300), "limit": np.array(7), "two": np.float32(2)}
    return model([node("Mul", ["x", "two"], "beside"), loop], {"x": (2, 3)}, outputs, constants)


MODELS = {"collected": lambda: root("limit", "some", collected=True), "swapped": swapped, "nested": nested}


@pytest.mark.parametrize(
    ("name", "threads", "embed"),
    [("collected", 1, True), ("collected", 2, False), ("swapped", 1, False), ("nested", 1, True)],
)
def test_turns_have_the_bits_of_the_module(tmp_path, name, threads, embed):
    path = save(tmp_path, MODELS[name]())
    sets = SETS if name == "nested" else ({"x": (2, 3)},)
    library = written(tmp_path, path, threads=threads, embed=embed, sets=sets)
    weights = None if embed else library.weights.file
    loaded = Loaded(tmp_path / "net.so", "net", threads=threads, weights=weights)
    executable, _ = build_sets(path, TARGET, threads, list(sets))
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    shapes = set()
    for feed in XS:
        for rows in sets:
            data = np.ascontiguousarray(feed["x"][: rows["x"][0]])
            found, wanted = loaded.run([data]), run(main, {"x": data})
            for ours, right in zip(found, wanted, strict=True):
                assert ours.shape == right.shape
                assert ours.tobytes() == right.tobytes()
            shapes.add(str([each.shape for each in wanted]))
    assert len(shapes) >= {"collected": 4, "swapped": 2, "nested": 2}[name]


@pytest.mark.parametrize("name", MODELS)
def test_compilers_and_sanitizers_take_it(tmp_path, name):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    sets = SETS if name == "nested" else ()
    made = written(tmp_path, save(tmp_path, MODELS[name]()), sets=sets)
    flags = f"CFLAGS={STRICT} -fsanitize=address,undefined -fno-sanitize-recover=all"
    subprocess.run(["make", "-B", "CC=gcc", flags, "own"], cwd=tmp_path, check=True)
    (tmp_path / "x.bin").write_bytes(np.full(made.inputs[0].shape, 0.5, "f").tobytes())
    done = subprocess.run(["./own", "x.bin"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
