"""A model as a C library: the same bits as the module in TVM, and what a C program sees of it."""

import ctypes
import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm
from c_models import MODELS, feeds
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from compiler.ir.checks import ModelError
from compiler.ir.own_nodes import COMPUTED
from kernels.numerics import Numerics
from kernels.target import CATALOGUE, to_json
from tilefleet.cli import app
from tuner.backend.apply import build_model
from tuner.backend.comparison import run
from tuner.clibrary import steps
from tuner.clibrary.build import Model, make, write
from tuner.clibrary.checks import digest_of
from tuner.clibrary.elf import facts_of
from tuner.clibrary.loaded import CallError, Loaded
from tuner.clibrary.refusals import calling
from tuner.clibrary.served import check_in_child
from tuner.clibrary.toolchain import link_shared

TARGET = CATALOGUE["x86-avx2"]
# In one worker of pytest-xdist, so that the libraries are built once.
pytestmark = [
    pytest.mark.usefixtures("avx2"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("c_library"),
]


def library(folder, made, targets=(TARGET,), embed=True, threads=1):
    """The library of a model, written to ``folder``; ``made`` and where it can be loaded from."""
    path = save(folder, made)
    model = Model(path, None, [], [], Numerics.EXACT_INTEGERS, threads)
    found = make(model, targets, "net", "model.onnx", "abc", embed)
    write(found, folder)
    link_shared(sorted(folder.glob("net*.o")), folder / "net.so")
    return found.library


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Name -> folder and library of every model."""
    folders = {name: tmp_path_factory.mktemp(name) for name in MODELS}
    return {name: (folder, library(folder, MODELS[name]())) for name, folder in folders.items()}


@pytest.mark.parametrize("name", MODELS)
def test_it_computes_the_same_bits_as_the_module(built, name):
    folder, made = built[name]
    executable, _ = build_model(folder / "model.onnx", {}, TARGET)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    loaded = Loaded(folder / "net.so", "net")
    for _ in range(2):
        inputs = feeds(made.inputs, np.random.default_rng())
        expected = run(main, {port.name: each for port, each in zip(made.inputs, inputs, strict=True)})
        for found, right in zip(loaded.run(inputs), expected, strict=True):
            assert found.dtype == right.dtype
            assert found.shape == right.shape
            assert found.tobytes() == right.tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_it_needs_nothing_and_writes_nothing_of_its_own(built, name):
    folder, made = built[name]
    linked = folder / "all.o"
    subprocess.run(["ld", "-r", *sorted(folder.glob("net*.o")), "-o", linked], check=True)
    facts = facts_of(linked.read_bytes())
    assert set(facts.imports) <= {"memcpy", "memset", "memmove"}
    assert not facts.writable
    (variant,) = made.variants
    assert variant.arena.bound <= variant.arena.bytes <= 1.05 * variant.arena.bound
    assert variant.arena.bytes < variant.arena.unshared


def test_buffers_may_begin_at_any_element_and_threads_have_an_arena_each(built):
    folder, made = built["convolutions"]

    def once(seed):
        loaded, (data,) = Loaded(folder / "net.so", "net"), feeds(made.inputs, np.random.default_rng(seed))
        shifted = np.empty(data.size + 1, data.dtype)[1:].reshape(data.shape)
        shifted[...] = data
        return [[each.tobytes() for each in loaded.run([value])] for value in (data, shifted)]

    alone = [once(seed) for seed in range(4)]
    assert all(found == shifted for found, shifted in alone)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(once, range(4))) == alone


@pytest.mark.parametrize("compiler", ["gcc", "clang", f"{sys.executable} -m ziglang cc"])
def test_every_compiler_takes_it_without_a_warning(built, compiler):
    if shutil.which(compiler.split()[0]) is None:
        pytest.skip(f"needs {compiler}")
    folder, _ = built["quantized"]
    strict = "-O2 -Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Werror"
    for goal in ("example", "own"):
        subprocess.run(["make", "-B", f"CC={compiler}", f"CFLAGS={strict}", goal], cwd=folder, check=True)
        subprocess.run([f"./{goal}"], cwd=folder, check=True)


@pytest.mark.parametrize("name", MODELS)
def test_sanitizers_find_nothing(built, name):
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder, made = built[name]
    flags = "-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
    subprocess.run(["make", "-B", "CC=gcc", f"CFLAGS={flags}", "own"], cwd=folder, check=True)
    subprocess.run(["./own"], cwd=folder, check=True, capture_output=True)
    assert [(folder / f"output_{i}.bin").stat().st_size for i in range(len(made.outputs))] == [
        port.bytes for port in made.outputs
    ]


def test_valgrind_finds_nothing(built):
    if shutil.which("valgrind") is None:
        pytest.skip("needs valgrind")
    folder, _ = built["convolutions"]
    subprocess.run(["make", "-B", "example"], cwd=folder, check=True)
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", "./example"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_cmake_and_pkg_config_find_it(built, tmp_path):
    if shutil.which("cmake") is None or shutil.which("pkg-config") is None:
        pytest.skip("needs cmake and pkg-config")
    folder, _ = built["recurrent"]
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(user C)\n"
        f"add_subdirectory({folder} net)\nadd_executable(user {folder}/example.c)\n"
        "target_link_libraries(user net)\n"
    )
    subprocess.run(["cmake", "-B", "out"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", "out"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["out/user"], cwd=tmp_path, check=True, capture_output=True)
    told = subprocess.run(
        ["pkg-config", "--cflags", "--libs", folder / "net.pc"], check=True, capture_output=True, text=True
    ).stdout.split()
    assert told == [f"-I{folder}", f"-L{folder}", "-lnet"]


def test_what_is_wrong_is_a_code_with_a_text(built):
    folder, made = built["convolutions"]
    c = ctypes.CDLL(str(folder / "net.so"))
    c.net_error.restype = c.net_input_name.restype = c.net_log.restype = ctypes.c_char_p
    c.net_arena_bytes.restype = c.net_input_bytes.restype = ctypes.c_size_t
    size = c.net_arena_bytes()
    assert size == made.arena_bytes
    memory = (ctypes.c_char * (size + 128))()
    arena = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
    buffers = {port.name: (ctypes.c_char * (port.bytes + 64))() for port in (*made.inputs, *made.outputs)}
    at = {name: ctypes.addressof(buffer) for name, buffer in buffers.items()}
    inputs = (ctypes.c_void_p * 1)(at["x"])
    outputs = (ctypes.c_void_p * 4)(*(at[port.name] for port in made.outputs))
    right = (ctypes.c_size_t * 1)(made.inputs[0].bytes)
    out_bytes = (ctypes.c_size_t * 4)(*(port.bytes for port in made.outputs))

    def text(code):
        return c.net_error(code).decode()

    def checked(space, sizes):
        return c.net_run_checked(
            ctypes.c_void_p(arena), ctypes.c_size_t(space), inputs, sizes, outputs, out_bytes
        )

    assert checked(size, right) == 0
    assert text(0) == "no error"
    assert text(checked(size - 1, right)) == "the arena has fewer bytes than net_arena_bytes() says"
    assert "another size" in text(checked(size, (ctypes.c_size_t * 1)(right[0] - 4)))
    assert "null" in text(c.net_run(None, inputs, outputs))
    assert "null" in text(c.net_run(ctypes.c_void_p(arena), (ctypes.c_void_p * 1)(None), outputs))
    assert "64" in text(c.net_run(ctypes.c_void_p(arena + 32), inputs, outputs))
    odd = (ctypes.c_void_p * 1)(at["x"] + 1)
    assert "aligned as its elements" in text(c.net_run(ctypes.c_void_p(arena), odd, outputs))
    assert c.net_processor() == 0
    for processor in (-1, 1):
        code = c.net_run_on(processor, ctypes.c_void_p(arena), inputs, outputs)
        assert "lacks instructions" in text(code)
    assert text(99) == text(-1) == "no code of this library"
    assert c.net_input_name(0) == b"x"
    assert c.net_input_name(1) is None
    assert c.net_input_bytes(7) == 0
    assert c.net_log() == b"abc"


def test_an_old_processor_gets_a_code_and_a_newer_one_its_level(tmp_path):
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("needs qemu-x86_64")
    library(tmp_path, MODELS["recurrent"](), (CATALOGUE["x86-avx512"], TARGET))
    subprocess.run(["make", "example"], cwd=tmp_path, check=True)
    old = subprocess.run(
        [emulator, "-cpu", "Nehalem", "./example"], cwd=tmp_path, capture_output=True, text=True
    )
    assert old.returncode == 1
    assert old.stderr.strip().endswith("made of: x86-avx512, x86-avx2")
    # What has no AVX-512 computes by the other level, and as this machine does.
    subprocess.run(["./example"], cwd=tmp_path, check=True)
    here = (tmp_path / "output_0.bin").read_bytes()
    newer = subprocess.run([emulator, "-cpu", "max", "./example"], cwd=tmp_path, capture_output=True)
    if newer.returncode == 0:  # QEMU has AVX2 since 7.2
        np.testing.assert_allclose(
            np.frombuffer((tmp_path / "output_0.bin").read_bytes(), np.float32),
            np.frombuffer(here, np.float32),
            rtol=1e-5,
        )


def test_weights_in_a_file_are_mapped_and_checked(built, tmp_path):
    made = library(tmp_path, MODELS["recurrent"](), embed=False)
    content = (tmp_path / "net.weights").read_bytes()
    inputs = feeds(made.inputs, np.random.default_rng())
    found = Loaded(tmp_path / "net.so", "net", content).run(inputs)
    folder, _ = built["recurrent"]
    for one, other in zip(found, Loaded(folder / "net.so", "net").run(inputs), strict=True):
        assert one.tobytes() == other.tobytes()
    spoiled = bytearray(content)
    spoiled[20] ^= 1
    with pytest.raises(CallError, match="not those of this library"):
        Loaded(tmp_path / "net.so", "net", bytes(spoiled))
    subprocess.run(["make", "example"], cwd=tmp_path, check=True)
    subprocess.run(["./example"], cwd=tmp_path, check=True)
    (tmp_path / "net.weights").rename(tmp_path / "moved")
    lost = subprocess.run(["./example"], cwd=tmp_path, capture_output=True, text=True)
    assert lost.returncode == 1
    assert "file of weights cannot be read" in lost.stderr
    subprocess.run(["./example", "moved"], cwd=tmp_path, check=True)
    c = ctypes.CDLL(str(tmp_path / "net.so"))
    fresh = (ctypes.c_char * (made.arena_bytes + 64))()
    arena = ctypes.c_void_p(ctypes.addressof(fresh) + -ctypes.addressof(fresh) % 64)
    ports = [(ctypes.c_void_p * 3)(*[ctypes.addressof(fresh)] * 3) for _ in range(2)]
    c.net_error.restype = ctypes.c_char_p
    assert b"not given any" in c.net_error(c.net_run(arena, *ports))


def test_a_server_makes_the_same_and_runs_it_on_its_machine(built, monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    folder, _ = built["quantized"]
    request = {"model": str(folder / "model.onnx"), "shapes": None, "threads": 1, "id": "pc"}
    request |= {"records": [], "relayouts": [], "numerics": "exact-integers"}
    request |= {"library": {"name": "net", "targets": [to_json(TARGET)], "level": 0}}
    found = check_in_child(request, lambda _: None)
    assert (found["checked"], found["check"]["where"]) == (True, "board pc")
    model = Model(folder / "model.onnx", None, [], [], Numerics.EXACT_INTEGERS)
    assert found["sha256"] == digest_of(make(model, [TARGET], "net", "other", "def", embed=False), folder)


def test_one_without_inputs_is_a_library_as_well(tmp_path):
    numbers = np.float32([1, -2, 3])
    library(tmp_path, model([node("Relu", ["a"], "y")], {}, ["y"], {"a": numbers}))
    np.testing.assert_array_equal(Loaded(tmp_path / "net.so", "net").run([])[0], np.maximum(numbers, 0))


def test_what_only_tvm_can_compute_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.delitem(COMPUTED, "TopK")
    top = model([node("TopK", ["x", "k"], ["y", "i"])], {"x": (3, 40)}, ["y"], {"k": np.array([5])})
    with pytest.raises(ModelError, match=r"cannot be written as C: .*topk"):
        library(tmp_path, top)


def test_the_command_builds_checks_and_describes_it(tmp_path):
    path = save(tmp_path, MODELS["quantized"]())
    log, folder = tmp_path / "log.jsonl", tmp_path / "lib"
    log.write_text("")

    def build(*more):
        words = ["build", path, "--log", log, "--as", "c", "-o", folder, *more]
        return CliRunner().invoke(app, [*map(str, words)])

    done = build("--target", "x86-avx2", "--name", "small", "--threads", "2", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads((folder / "small.json").read_text())
    (variant,) = told["variants"]
    assert variant["checked"]
    assert (told["threads"], variant["threads"]) == (2, 2)
    assert variant["layers"]
    assert told["code_bytes"] < 64 * 1024
    assert {file.name for file in folder.iterdir()} >= {
        *("small.h", "small.c", "libsmall.a", "CMakeLists.txt", "small.pc", "example.c", "Makefile")
    }
    subprocess.run(["make", "example"], cwd=folder, check=True)
    subprocess.run(["./example"], cwd=folder, check=True)
    assert "cannot begin names in C" in build("--name", "1x").output
    assert "x86 targets only" in build("--cpus", "x86-avx2,rpi4").output
    assert "runs the library nowhere" in build("--board", "rpi4-sim", "--no-check").output
    assert "--cpus names several" in build("--board", "host", "--cpus", "x86-avx512,x86-avx2").output


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_in_a_table_compute_the_same(tmp_path, monkeypatch, threads):
    nodes, data = [], "x"
    for at in range(5):
        nodes += [node("MatMul", [data, f"w{at}"], f"a{at}"), node("Relu", [f"a{at}"], f"y{at}")]
        data = f"y{at}"
    deep = model(nodes, {"x": (96, 64)}, ["y4", "y2"], {f"w{at}": (64, 64) for at in range(5)})
    (tmp_path / "apart").mkdir()
    apart = library(tmp_path / "apart", deep, threads=threads)
    monkeypatch.setattr(steps, "LONGEST", 0)
    library(tmp_path, deep, threads=threads)
    assert "steps_0[] = {" in (tmp_path / "net.c").read_text()
    inputs = feeds(apart.inputs, np.random.default_rng())
    found, right = (
        [each.tobytes() for each in Loaded(where / "net.so", "net", threads=threads).run(inputs)]
        for where in (tmp_path, tmp_path / "apart")
    )
    assert found == right
    facts = facts_of((tmp_path / "net.o").read_bytes())
    assert not facts.writable
    strict = "CFLAGS=-O2 -Wall -Wextra -Wpedantic -Wconversion -Wmissing-prototypes -Werror"
    subprocess.run(["make", "-B", strict, "own"], cwd=tmp_path, check=True)
    subprocess.run(["./own"], cwd=tmp_path, check=True)
    many = [(f"f{at % 7}", [f"a + {64 * at}", f"w + {at}", "in[0]", "a"]) for at in range(3000)]
    monkeypatch.undo()
    write = calling({}, lambda code, _: f"return {code};")
    tables, lines = steps.as_table(3, many, write)
    numbers = [int(each) for each in re.findall(r"\d+", tables.split("steps_3[] = ")[1])]
    assert len(numbers) == 3 * len(many)  # the function and two places, as the others are always the same
    assert sum("case" in line for line in lines) == 7
    assert steps.as_table(0, many[: steps.LONGEST], write) is None
    assert steps.as_table(0, [*many, *(("g", [f"w + {at}"]) for at in (0, 1 << 30))], write) is None
