"""A C library for several threads: loops shared out by the caller, and the same bits as the module."""

import ctypes
import random
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
from c_models import MODELS, feeds
from test_c_library import TARGET, library
from tiny_models import model, node
from tvm import relax
from tvm.script import tirx as T

from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.clibrary.elf import facts_of
from tuner.clibrary.loaded import Loaded
from tuner.clibrary.plain import NotPlain, compile_plain

THREADS = 3
TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
PARALLEL_FOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
KINDS = ("convolutions", "recurrent")
pytestmark = [pytest.mark.usefixtures("avx2"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Name -> folder and library of models for three threads."""
    folders = {name: tmp_path_factory.mktemp(name) for name in KINDS}
    return {
        name: (folder, library(folder, MODELS[name](), threads=THREADS)) for name, folder in folders.items()
    }


@pytest.mark.parametrize("name", KINDS)
def test_it_computes_the_same_bits_as_the_module_for_as_many_threads(built, name, monkeypatch):
    folder, made = built[name]
    assert made.threads == THREADS
    assert made.variants[0].forks
    executable, _ = build_model(folder / "model.onnx", {}, TARGET, THREADS)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    inputs = feeds(made.inputs, np.random.default_rng())
    expected = run(main, {port.name: each for port, each in zip(made.inputs, inputs, strict=True)})
    for threads in (1, THREADS):
        found = Loaded(folder / "net.so", "net", threads=threads).run(inputs)
        assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]


def test_shares_may_run_in_any_order_and_each_loop_is_whole_when_it_returns(built):
    folder, made = built["convolutions"]
    c, (data,) = ctypes.CDLL(str(folder / "net.so")), feeds(made.inputs, np.random.default_rng())
    expected = Loaded(folder / "net.so", "net").run([data])
    c.net_arena_bytes.restype = ctypes.c_size_t
    memory = np.zeros(c.net_arena_bytes() + 64, np.uint8)
    arena = ctypes.c_void_p(memory.ctypes.data + -memory.ctypes.data % 64)
    outputs = [np.zeros_like(each) for each in expected]
    into = (ctypes.c_void_p * len(outputs))(*(each.ctypes.data for each in outputs))
    counts = Counter()

    def shuffled(pool, task, data, count):
        assert pool == 77
        counts[count] += 1
        numbers = random.sample(range(count), count)
        for number in numbers:
            TASK(task)(data, number)

    code = c.net_run_parallel(
        arena, (ctypes.c_void_p * 1)(data.ctypes.data), into, PARALLEL_FOR(shuffled), ctypes.c_void_p(77)
    )
    assert code == 0
    assert [each.tobytes() for each in outputs] == [each.tobytes() for each in expected]
    assert counts
    assert max(counts) == THREADS


def test_it_has_no_threads_of_its_own_and_writes_nothing(built):
    folder, _ = built["convolutions"]
    subprocess.run(["ld", "-r", *sorted(folder.glob("net*.o")), "-o", folder / "all.o"], check=True)
    facts = facts_of((folder / "all.o").read_bytes())
    assert set(facts.imports) <= {"memcpy", "memset", "memmove"}
    assert not facts.writable


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_the_example_runs_it_by_a_pool_and_sanitizers_find_nothing(built, tmp_path, sanitizers):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder, made = built["convolutions"]
    (data,) = feeds(made.inputs, np.random.default_rng())
    (tmp_path / "x.bin").write_bytes(data.tobytes())
    strict = f"-g -O1 -Wall -Wextra -Wpedantic -Wconversion -Werror -fsanitize={sanitizers}"
    flags = f"CFLAGS={strict} -fno-sanitize-recover=all"
    subprocess.run(["make", "-B", "CC=gcc", flags, "own"], cwd=folder, check=True)
    subprocess.run([folder / "own", "x.bin"], cwd=tmp_path, check=True, capture_output=True)
    for index, right in enumerate(Loaded(folder / "net.so", "net").run([data])):
        assert (tmp_path / f"output_{index}.bin").read_bytes() == right.tobytes()


@T.prim_func(private=True)
def scaled(x: T.Buffer((11, 700), "float32"), y: T.Buffer((11, 700), "float32")):
    """Rows of x by what x begins with, through memory that is larger than a stack takes."""
    T.func_attr({"tirx.noalias": True})
    factor: T.let[T.float32] = x[0, 0]
    for row in T.parallel(11):
        line = T.alloc_buffer((700,), "float32")
        for at in range(700):
            line[at] = x[row, 699 - at] * factor
        for at in range(700):
            y[row, at] = line[at] + line[699 - at]


def test_each_share_works_in_memory_of_its_own(tmp_path):
    unit = compile_plain({"scaled": scaled}, TARGET, 4, {"scaled": "scaled"}, {"scaled"}, "apart")
    (fork,) = unit.forks
    assert fork.shares == 4
    assert unit.workspace == {"scaled": 4 * -(-700 * 4 // 64) * 64}
    unit.code.write_to_file(str(tmp_path / "scaled.o"), "o")
    x, y = (
        np.random.default_rng().standard_normal((11, 700)).astype(np.float32),
        np.zeros((11, 700), np.float32),
    )
    work = np.zeros(unit.workspace["scaled"], np.uint8)
    (tmp_path / "fork.c").write_text(
        f"int {fork.part}(void *, int); extern int (*shared)(void *);\n"
        f"int (*shared)(void *);\n"
        f"int {fork.symbol}(void *data, void *team) {{ (void)team; return shared(data); }}\n"
        "int apart(void) { return 0; }\n"
    )
    subprocess.run(
        ["cc", "-shared", "-fPIC", "fork.c", "scaled.o", "-o", "scaled.so"], cwd=tmp_path, check=True
    )
    c = ctypes.CDLL(str(tmp_path / "scaled.so"))

    def shared(data):
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(lambda n: c[fork.part](ctypes.c_void_p(data), n), range(fork.shares)))

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    callback = kind(shared)
    ctypes.c_void_p.in_dll(c, "shared").value = ctypes.cast(callback, ctypes.c_void_p).value
    assert c.scaled(*(ctypes.c_void_p(each.ctypes.data) for each in (x, y, work)), None) == 0
    turned = x[:, ::-1] * x[0, 0]
    np.testing.assert_array_equal(y, turned + turned[:, ::-1])


@T.prim_func(private=True)
def nested(x: T.Buffer((8, 8), "float32"), y: T.Buffer((8, 8), "float32")):
    for row in T.parallel(8):
        for at in T.parallel(8):
            y[row, at] = x[row, at]


def test_a_loop_in_parallel_within_another_is_refused():
    with pytest.raises(NotPlain, match="within another"):
        compile_plain({"nested": nested}, TARGET, 2, {"nested": "nested"}, (), "apart")


def test_a_model_without_a_loop_worth_sharing_is_built_for_threads_too(tmp_path):
    made = library(tmp_path, model([node("Relu", ["x"], "y")], {"x": (3, 5)}, ["y"]), threads=THREADS)
    assert not made.variants[0].forks
    data = np.random.default_rng().standard_normal((3, 5)).astype("f")
    (found,) = Loaded(tmp_path / "net.so", "net", threads=THREADS).run([data])
    assert found.tobytes() == np.maximum(data, 0).tobytes()
