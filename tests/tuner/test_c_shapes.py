"""C libraries for several sets of shapes, and of models whose data decide how many results there are."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tvm
from c_models import places
from test_counted import CHAINS, detector
from test_counted import feeds as detections
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from tilefleet.cli import app
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.backend.shape_sets import build_sets
from tuner.clibrary.build import Model, make, write
from tuner.clibrary.elf import facts_of
from tuner.clibrary.loaded import Loaded
from tuner.clibrary.toolchain import link_shared

TARGET, OTHER = CATALOGUE["x86-avx2"], CATALOGUE["x86-avx512"]
SETS = ({"x": (1, 5, 17, 19)}, {"x": (2, 5, 9, 8)}, {"x": (1, 5, 30, 7)})
STRICT = "-g -O1 -Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Werror"
pytestmark = [
    pytest.mark.usefixtures("avx2"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("c_shapes"),
]


def open_model():
    """A residual over images of any size."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], "b"),
        node("Conv", ["b", "v"], "c", pads=[1, 1, 1, 1]),
        node("Add", ["c", "b"], "d"),
        node("GlobalAveragePool", ["d"], "y"),
        node("Identity", ["d"], "z"),
    ]
    sizes = {"w": (13, 5, 3, 3), "v": (13, 13, 3, 3)}
    return model(nodes, {"x": ("n", 5, "h", "w_")}, ["y", "z"], sizes)


def written(folder, path, targets=(TARGET,), threads=1, sets=(), embed=True):
    """A library in ``folder``, and as something to load."""
    of = Model(path, None, [], [], Numerics.EXACT_INTEGERS, threads, sets)
    made = make(of, targets, "net", path.name, "", embed)
    write(made, folder)
    link_shared(sorted(folder.glob("net*.o")), folder / "net.so")
    return made.library


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A folder with a library for all sets and the model."""
    folder = tmp_path_factory.mktemp("several")
    return folder, written(folder, save(folder, open_model()), sets=SETS)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_set_has_the_bits_of_the_module_and_shares_weights(several, tmp_path, threads):
    folder, made = several
    if threads > 1:
        made = written(tmp_path, folder / "model.onnx", sets=SETS, threads=threads)
    loaded = Loaded((folder if threads == 1 else tmp_path) / "net.so", "net", threads=threads)
    executable, _ = build_sets(folder / "model.onnx", TARGET, threads, list(SETS))
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for each in (*SETS, SETS[0]):
        data = np.random.default_rng().standard_normal(each["x"]).astype("f")
        for found, right in zip(loaded.run([data]), run(main, {"x": data}), strict=True):
            assert found.shape == right.shape
            assert found.tobytes() == right.tobytes()
    with pytest.raises(ValueError, match="takes no inputs"):
        loaded.run([np.zeros((1, 5, 17, 18), "f")])
    assert set.intersection(*map(set, made.weights.offsets))


def test_a_set_is_found_by_its_extents_and_one_too_many_is_a_code(several):
    folder, made = several
    c = ctypes.CDLL(str(folder / "net.so"))
    c.net_error.restype = ctypes.c_char_p
    c.net_output_bytes.restype = c.net_input_extent.restype = ctypes.c_size_t
    for at, each in enumerate(SETS):
        assert c.net_set_of((ctypes.c_size_t * 4)(*each["x"])) == at
        assert [c.net_input_extent(at, 0, axis) for axis in range(4)] == [*each["x"]]
        assert c.net_output_bytes(at, 0) == each["x"][0] * 13 * 4
    assert c.net_set_of((ctypes.c_size_t * 4)(1, 5, 17, 18)) == -1
    assert c.net_sets() == len(SETS)
    assert c.net_output_bytes(3, 0) == c.net_output_bytes(-1, 0) == c.net_input_extent(3, 0, 0) == 0
    memory = (ctypes.c_char * (made.arena_bytes + 64))()
    arena = ctypes.c_void_p(ctypes.addressof(memory) + -ctypes.addressof(memory) % 64)
    ports = (ctypes.c_void_p * 2)(*[ctypes.addressof(memory)] * 2)
    for wrong in (-1, 3):
        assert b"fewer sets" in c.net_error(c.net_run(wrong, arena, ports, ports))


@pytest.mark.parametrize("threads", [1, 2])
def test_compilers_and_sanitizers_take_it(tmp_path, threads):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    path = save(tmp_path, open_model())
    made = written(tmp_path, path, (OTHER, TARGET), threads=threads, sets=SETS, embed=threads > 1)
    flags = f"CFLAGS={STRICT} -fsanitize=address,undefined -fno-sanitize-recover=all"
    subprocess.run(["make", "-B", "CC=gcc", flags, "own"], cwd=tmp_path, check=True)
    done = subprocess.run(["./own"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output_1.bin").stat().st_size == made.outputs[1].bytes


def counted(name):
    """A detector, or what is not zero, along the second axis."""
    if name in CHAINS:
        return detector(name)
    return places()


@pytest.mark.parametrize("name", ["columns", "a flat gather", "the best few", "nonzero"])
def test_counted_results_are_those_of_the_module(tmp_path, name):
    path = save(tmp_path, counted(name))
    made = written(tmp_path, path)
    assert made.counted
    linked = tmp_path / "all.o"
    subprocess.run(["ld", "-r", *sorted(tmp_path.glob("net*.o")), "-o", linked], check=True)
    facts = facts_of(linked.read_bytes())
    assert set(facts.imports) <= {"memcpy", "memset", "memmove"}
    assert not facts.writable
    executable, _ = build_model(path, {}, TARGET)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    loaded, sizes = Loaded(tmp_path / "net.so", "net"), set()
    images = np.random.default_rng().standard_normal((2, 3, 5, 4)).astype("f")
    given = (
        list(detections()) if name in CHAINS else [{"x": np.maximum(e, 0)} for e in (*images, images[0] * 0)]
    )
    for feeds in given:
        expected = run(main, feeds)
        found = loaded.run([feeds[port.name] for port in made.inputs])
        for one, right in zip(found, expected, strict=True):
            assert (one.shape, one.dtype) == (right.shape, right.dtype)
            assert one.tobytes() == right.tobytes()
        sizes.add(found[0].shape)
    assert len(sizes) > 1
    if shutil.which("gcc"):
        flags = f"CFLAGS={STRICT} -fsanitize=address,undefined -fno-sanitize-recover=all"
        subprocess.run(["make", "-B", "CC=gcc", flags, "own"], cwd=tmp_path, check=True)
        for port in made.inputs:
            (tmp_path / f"{port.name}.bin").write_bytes(np.ascontiguousarray(given[0][port.name]).tobytes())
        files = [f"{port.name}.bin" for port in made.inputs]
        subprocess.run(["./own", *files], cwd=tmp_path, check=True, capture_output=True)
        right = loaded.run([given[0][port.name] for port in made.inputs])
        for at, each in enumerate(right):
            assert (tmp_path / f"output_{at}.bin").read_bytes() == each.tobytes()


def test_the_command_builds_wheels_and_libraries_of_both(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("")

    def build(path, form, *more):
        words = ["build", path, "--log", log, "--as", form, "-o", tmp_path / form, *more]
        done = CliRunner().invoke(app, [*map(str, words), "--target", "x86-avx2"])
        assert done.exit_code == 0, done.output
        return done.output

    path = save(tmp_path, open_model())
    shapes = [word for each in SETS for word in ("--shape", f"x={','.join(map(str, each['x']))}")]
    said = build(path, "c", "--name", "many", *shapes)
    assert said.count("checked on this machine") == len(SETS)
    build(path, "wheel", "--name", "many", "--threads", "2", *shapes)
    build(save(tmp_path, counted("nonzero")), "wheel", "--name", "few")
    program = """
import numpy as np, many, few
for inputs, outputs in many.SETS:
    found = many.run(np.ones(inputs[0].shape, "f"))
    assert [each.shape for each in found] == [port.shape for port in outputs]
try:
    many.run(np.ones((1, 5, 17, 18), "f"))
except ValueError as error:
    print(error)
x = np.zeros((3, 5, 4), "f")
x[1, 2, 3] = x[2, 0, 0] = 1
print(few.run(x)[0].tolist())
"""
    wheels = [*(tmp_path / "wheel").glob("*.whl")]
    for wheel in wheels:
        shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "site", capture_output=True, text=True, check=True
    )
    told = done.stdout.splitlines()
    assert told[0].endswith("the model takes (1, 5, 17, 19), and 2 other sets of shapes")
    assert told[1] == "[[1, 2], [2, 0], [3, 0]]"
