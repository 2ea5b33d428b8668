"""C libraries of models with a size that is left open: at each length the bits of the module."""

import ctypes
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tvm
from test_c_shapes import STRICT
from test_open_sizes import perceptron, quantized, transformer
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from tilefleet.cli import app
from tuner.backend.comparison import run
from tuner.backend.shape_sets import build_sets
from tuner.clibrary.build import Model, make, write
from tuner.clibrary.elf import facts_of
from tuner.clibrary.loaded import Loaded
from tuner.clibrary.toolchain import link_shared

TARGET, OTHER = CATALOGUE["x86-avx2"], CATALOGUE["x86-avx512"]
TOKENS = {"ids": (1, "1..40"), "mask": (1, "1..40")}
LENGTHS = (1, 2, 3, 8, 17, 31, 40)
pytestmark = [
    pytest.mark.usefixtures("avx2"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("c_open"),
]


def written(folder, path, shapes, targets=(TARGET,), threads=1, embed=True):
    """A library in ``folder``, and as something to load."""
    of = Model(path, None, [], [], Numerics.EXACT_INTEGERS, threads, open=shapes)
    made = make(of, targets, "net", path.name, "", embed)
    write(made, folder)
    link_shared(sorted(folder.glob("net*.o")), folder / "net.so")
    return made.library


def tokens(length):
    rng = np.random.default_rng()
    return {"ids": rng.integers(0, 50, (1, length)), "mask": np.ones((1, length), np.int64)}


@pytest.mark.parametrize(("threads", "bytes_"), [(1, False), (2, False), (1, True)])
def test_every_length_has_the_bits_of_the_module(tmp_path, threads, bytes_):
    whole = transformer()
    path = save(tmp_path, quantized(whole, tmp_path) if bytes_ else whole)
    made = written(tmp_path, path, TOKENS, threads=threads)
    loaded = Loaded(tmp_path / "net.so", "net", threads=threads)
    executable, _ = build_sets(path, TARGET, threads, TOKENS)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    for length in (*LENGTHS, 2):
        feeds = tokens(length)
        found, expected = loaded.run([feeds[port.name] for port in made.inputs]), run(main, feeds)
        for one, right in zip(found, expected, strict=True):
            assert one.shape == right.shape
            assert one.tobytes() == right.tobytes(), length
    for wrong in (0, 41):
        with pytest.raises(ValueError, match="takes no inputs"):
            loaded.run([np.zeros((1, wrong), np.int64)] * 2)
    with pytest.raises(ValueError, match="takes no inputs"):
        loaded.run([np.zeros((1, 3), np.int64), np.zeros((1, 4), np.int64)])
    if threads == 1 and not bytes_:
        linked = tmp_path / "all.o"
        subprocess.run(["ld", "-r", *sorted(tmp_path.glob("net*.o")), "-o", linked], check=True)
        facts = facts_of(linked.read_bytes())
        assert set(facts.imports) <= {"memcpy", "memset", "memmove"}
        assert not facts.writable


def test_sizes_are_told_by_the_length_and_wrong_ones_are_codes(tmp_path):
    nodes = [node("Concat", ["x", "x", "more"], "two", axis=1), node("Relu", ["two"], "y")]
    grown = model(nodes, {"x": (3, "n")}, ["y"], {"more": (3, 5)})
    made = written(tmp_path, save(tmp_path, grown), {"x": (3, "2..9")}, (OTHER, TARGET))
    c = ctypes.CDLL(str(tmp_path / "net.so"))
    size = ctypes.c_size_t
    c.net_error.restype = ctypes.c_char_p
    for function in (c.net_output_bytes, c.net_output_extent, c.net_input_bytes, c.net_length_of):
        function.restype = size
    for length in (2, 9):
        assert c.net_length_of((size * 2)(3, length)) == length
        assert c.net_input_bytes(size(length), 0) == 12 * length
        assert c.net_output_extent(size(length), 0, 1) == 2 * length + 5
        assert c.net_output_bytes(size(length), 0) == 12 * (2 * length + 5)
    for wrong in (0, 1, 10, (1 << 64) - 1):
        assert c.net_length_of((size * 2)(3, wrong)) == c.net_output_bytes(size(wrong), 0) == 0
    assert c.net_length_of((size * 2)(4, 5)) == 0
    memory = (ctypes.c_char * (made.arena_bytes + 64))()
    arena = ctypes.c_void_p(ctypes.addressof(memory) + -ctypes.addressof(memory) % 64)
    ports = (ctypes.c_void_p * 2)(*[ctypes.addressof(memory)] * 2)
    assert b"length" in c.net_error(c.net_run(size(10), arena, ports, ports))
    data = np.random.default_rng().standard_normal((3, 4)).astype("f")
    (found,) = Loaded(tmp_path / "net.so", "net").run([data])
    assert found.shape == (3, 13)
    assert np.array_equal(found[:, 4:8], np.maximum(data, 0))


@pytest.mark.parametrize("threads", [1, 2])
def test_compilers_and_sanitizers_take_it(tmp_path, threads):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    shapes = {"x": ("3..40", 16)}
    path = save(tmp_path, perceptron())
    written(tmp_path, path, shapes, (OTHER, TARGET), threads=threads, embed=threads > 1)
    flags = f"CFLAGS={STRICT} -fsanitize=address,undefined -fno-sanitize-recover=all"
    subprocess.run(["make", "-B", "CC=gcc", flags, "own"], cwd=tmp_path, check=True)
    done = subprocess.run(["./own"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output_0.bin").stat().st_size == 40 * 7 * 4


def test_the_command_builds_a_wheel_of_it(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("")

    words = ["build", save(tmp_path, perceptron()), "--log", log, "--as", "wheel", "-o", tmp_path / "wheel"]
    words += ["--shape", "x=1..40,16", "--target", "x86-avx2", "--name", "rows", "--threads", "2"]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    assert "checked on this machine" in done.output
    told = json.loads((tmp_path / "wheel" / "rows.json").read_text())
    assert told["open"] == {
        "first": 1,
        "last": 40,
        "inputs": [[[1, 0], [0, 16]]],
        "outputs": [[[1, 0], [0, 7]]],
    }
    program = """
import numpy as np, rows
for length in (1, 7, 40):
    print(rows.run(np.ones((length, 16), "f")).shape)
for wrong in ((41, 16), (3, 15), (16,)):
    try:
        rows.run(np.ones(wrong, "f"))
    except ValueError as error:
        print(error)
"""
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path / "site", capture_output=True, text=True, check=True
    )
    *shapes, long, narrow, flat = ran.stdout.splitlines()
    assert shapes == ["(1, 7)", "(7, 7)", "(40, 7)"]
    assert long == (
        "inputs have the shapes [(41, 16)], and the model takes 'x' (length, 16) with a length of 1 to 40"
    )
    assert "(3, 15)" in narrow
    assert "(16,)" in flat
