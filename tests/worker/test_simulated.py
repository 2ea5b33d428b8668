"""Boards under QEMU: right results, and a clock that says the same whenever and wherever it is asked."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
import recipes
import tvm
from candidates import c_candidate, connect, load, on_board
from tvm.script import tirx as T

from kernels import registry
from kernels.emit.compile import compile_object
from kernels.reference import max_error, random_inputs, reference
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Epilogue
from worker.build.toolchain import link
from worker.candidate import Candidate
from worker.fleet.drivers import agent_build, simulated
from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.drivers.simulated import SimulatedBoard
from worker.measure.measure import MeasureOptions, measure

# In one worker: the three agents are built once, at the same time. On a machine that has never built for
# these targets zig makes its C library first, which takes minutes when the other tests use all cores.
pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]

MODELS = sorted(SIM_MODELS)
CONV = Conv2d(
    n=1, in_c=7, in_h=11, in_w=13, out_c=10, kh=3, kw=3, pad=(1, 1, 1, 1), epilogue=Epilogue(bias=True)
)
LINE_FLOATS = 32  # 128 bytes: the longest line of the simulated caches
SMALL, LARGE = 64, 65536  # lines: 8 KiB fit into every L1, 8 MiB into no cache


@T.prim_func
def few(a: T.Buffer((2097152,), "float32"), b: T.Buffer((1,), "float32")):
    b[0] = T.float32(0)
    for i in T.serial(65536):
        b[0] = b[0] + a[i % 64 * 32]


@T.prim_func
def many(a: T.Buffer((2097152,), "float32"), b: T.Buffer((1,), "float32")):
    b[0] = T.float32(0)
    for i in T.serial(65536):
        b[0] = b[0] + a[(i * 4099) % 65536 * 32]


@T.prim_func
def twice(a: T.Buffer((2097152,), "float32"), b: T.Buffer((1,), "float32")):
    b[0] = T.float32(0)
    for i in T.serial(131072):
        b[0] = b[0] + a[i % 64 * 32]


def target_of(model):
    return CATALOGUE[SIM_MODELS[model].target]


@pytest.fixture(scope="module")
def convolution(simulated_dir):
    """model -> (the kernel's shared object, its inputs on the host, the right result)."""
    kernel, inputs = registry.kernel("sconv"), random_inputs(CONV, np.random.default_rng(1))
    made = {}
    for model in MODELS:
        target = target_of(model)
        config = kernel.recommend(CONV, target)
        path = simulated_dir / f"conv-{model}.so"
        path.write_bytes(link(compile_object(kernel.build(CONV, config, target, 1, "main"), target)))
        made[model] = path, [inputs[0], kernel.pack(CONV, config, target, inputs[1]), *inputs[2:]]
    return made, reference(CONV, inputs)


def time_convolution(board, made, clutter=0):
    """(result, warm times, cold times, counters) in a session of its own, after other tensors and modules."""
    path, inputs = made[board.model]
    session = connect(board, timeout=60)
    kept = on_board(session, *(np.zeros(1000 + 77 * i, "float32") for i in range(clutter)))
    for _ in range(clutter):
        kept.append(load(session, path))
    module, device = load(session, path), session.cpu(0)
    arguments = on_board(session, *inputs, np.zeros(CONV.out_shape, "float32"))
    module["main"](*arguments)
    result = arguments[-1].numpy()
    warm = module.time_evaluator("main", device, number=1, repeat=2, min_repeat_ms=100)(*arguments).results
    cold = module.time_evaluator("main", device, number=1, repeat=1, f_preproc="tilefleet.cold_weights")
    return result, warm, cold(*arguments).results, json.loads(session.get_function("tilefleet.stats")())


def test_who_does_not_know_the_token_gets_no_session_of_an_emulated_board(simulated_boards):
    for board in simulated_boards.values():
        for key in (board.id, "", f"{board.id}.{'0' * 64}"):
            with pytest.raises(Exception, match="cannot find server that matches"):
                tvm.rpc.connect(board.host, board.port, key)
        token = board.address["key"].partition(".")[2]
        assert len(token) == 64
        words = psutil.Process(board._process.pid).cmdline()
        assert not any(token in word for word in words), "others could read it there"


@pytest.mark.parametrize("model", MODELS)
def test_convolution_is_right(simulated_boards, convolution, model):
    made, expected = convolution
    result, warm, cold, stats = time_convolution(simulated_boards[model], made)
    assert max_error(result, expected) <= registry.kernel("sconv").tolerance
    assert 0 < min(warm) < min(cold)  # the weights came from memory
    assert stats["simulated"] is True
    assert stats["clock"] == simulated_boards[model].clock
    assert stats["clock"].startswith(f"simulated:{model}:")
    assert stats["cycles"] == pytest.approx(cold[0] * SIM_MODELS[model].hz, abs=1.01)
    assert stats["loads"] + stats["stores"] < 4 * stats["instructions"]
    assert min(stats[name] for name in ("loads", "stores", "l1_misses", "l2_misses")) > 0
    assert stats["l2_misses"] <= stats["l1_misses"]


def test_times_are_bit_same_after_restarts_and_with_all_boards_busy(simulated_boards, convolution):
    made, _ = convolution
    first = {model: time_convolution(board, made)[1:] for model, board in simulated_boards.items()}
    for board in simulated_boards.values():
        board.restart()
    clients = 2 * len(simulated_boards)  # each board has one more waiting than it serves
    with ThreadPoolExecutor(clients) as pool:
        again = [
            (model, pool.submit(time_convolution, board, made, clutter))
            for clutter in (0, 3)
            for model, board in simulated_boards.items()
        ]
        for model, future in again:
            assert future.result()[1:] == first[model], model


def test_cost_and_counters_of_a_trial_are_bit_same_on_every_restart(
    simulated_boards, nursery, builder, tmp_path
):
    def trial(model):
        target = target_of(model)
        config = registry.kernel("sconv").recommend(CONV, target)
        built = builder.build(Candidate(CONV, config, target))
        (outcome,) = measure(
            nursery, simulated_boards[model], [built], MeasureOptions(run_timeout_s=120), lock_dir=tmp_path
        )
        assert outcome.ok, outcome
        return outcome.cost_s, outcome.counters

    with ThreadPoolExecutor(len(simulated_boards)) as pool:
        first = dict(zip(MODELS, pool.map(trial, MODELS), strict=True))
        for board in simulated_boards.values():
            board.restart()
        again = dict(zip(MODELS, pool.map(trial, MODELS), strict=True))
    assert again == first
    for model, (cost_s, counters) in first.items():
        assert set(counters) == {"cycles", "instructions", "loads", "stores", "l1_misses", "l2_misses"}
        assert counters["cycles"] == pytest.approx(cost_s * SIM_MODELS[model].hz, abs=1.01)


@pytest.mark.parametrize("model", MODELS)
def test_more_work_and_more_misses_cost_more(simulated_boards, simulated_dir, model):
    functions = {f.attrs["global_symbol"]: f for f in (few, many, twice)}
    target = tvm.target.Target(target_of(model).tvm)
    tvm.tirx.build(tvm.IRModule(functions), target=target).write_to_file(str(simulated_dir / "loops.o"), "o")
    path = simulated_dir / f"loops-{model}.so"
    path.write_bytes(link((simulated_dir / "loops.o").read_bytes()))
    session = connect(simulated_boards[model], timeout=60)
    module = load(session, path)
    arguments = on_board(session, np.ones(LARGE * LINE_FLOATS, "float32"), np.zeros(1, "float32"))
    cost, stats = {}, {}
    for name in functions:
        (cost[name],) = module.time_evaluator(name, session.cpu(0), number=1, repeat=1)(*arguments).results
        stats[name] = json.loads(session.get_function("tilefleet.stats")())
        assert arguments[1].numpy()[0] == (131072 if name == "twice" else 65536)
    assert cost["twice"] == pytest.approx(2 * cost["few"], rel=0.05)
    assert stats["few"]["l1_misses"] < SMALL
    assert stats["many"]["l2_misses"] >= LARGE
    assert cost["many"] > 2 * cost["few"]  # some cores have streams in flight beside their sums


def test_thumb_code_is_refused_as_the_clock_does_not_know_it(simulated_boards, tmp_path):
    code = "{} int __tvm_ffi_main(void) {{ return 0; }}"
    for mode in ("arm", "thumb"):
        path = c_candidate(tmp_path, code.format(f'__attribute__((target("{mode}")))'), "arm")
        module = load(connect(simulated_boards["rpi4-32-sim"], timeout=60), path)
        if mode == "arm":
            module["main"]()
        else:
            with pytest.raises(Exception, match=r"main is Thumb code, .*: build it as A32"):
                module["main"]()
        del module  # it holds the session, and the board opens the next one only behind that


@pytest.mark.parametrize("model", MODELS)
def test_emulator_dies_with_the_process_that_started_it(simulated_dir, model):
    script = f"""
import pathlib, time
from worker.fleet.drivers.simulated import SimulatedBoard
SimulatedBoard({model!r}, id="short-{model}", state_dir=pathlib.Path({str(simulated_dir)!r})).start()
print(flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline()
        (agent,) = psutil.Process(owner.pid).children()
        owner.kill()
    _, left = psutil.wait_procs([agent], timeout=10)
    assert not [process for process in left if process.status() != psutil.STATUS_ZOMBIE]


def test_what_is_missing_is_said(simulated_dir, monkeypatch, tmp_path):
    with pytest.raises(BoardError, match=r"no simulated board is called 'vax-sim'.*rpi4-sim"):
        SimulatedBoard("vax-sim", state_dir=simulated_dir)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BoardError, match=r"qemu-aarch64, which is not there; .*apt-get install qemu-user"):
        SimulatedBoard("rpi4-sim", state_dir=simulated_dir).start()
    (tmp_path / "qemu-aarch64").write_text("#!/bin/sh\necho usage\n")
    (tmp_path / "qemu-aarch64").chmod(0o755)
    with pytest.raises(BoardError, match="takes no plugins"):
        SimulatedBoard("rpi4-sim", state_dir=simulated_dir).start()


def test_clock_name_follows_the_figures(monkeypatch, simulated_dir):
    before = SimulatedBoard("rpi4-sim", state_dir=simulated_dir).clock
    figures = SIM_MODELS["rpi4-sim"]
    slower = type(figures)(**{**vars(figures), "memory_cycles": 1 + figures.memory_cycles})
    monkeypatch.setattr(simulated, "SIM_MODELS", {"rpi4-sim": slower})
    assert SimulatedBoard("rpi4-sim", state_dir=simulated_dir).clock != before


def test_another_instruction_set_is_one_file_and_changes_no_clock(monkeypatch, tmp_path):
    folder = tmp_path / "simclock"
    shutil.copytree(agent_build.CLOCK_SOURCES, folder)
    monkeypatch.setattr(agent_build, "CLOCK_SOURCES", folder)
    before, arm = agent_build.plugin_fingerprint(), agent_build.plugin_fingerprint("arm")
    (vax,) = recipes.write("worker/simclock", tmp_path / "recipe")
    shutil.copy(vax, folder)
    assert agent_build.plugin_fingerprint("arm") == arm
    assert agent_build.plugin_fingerprint() != before
    assert b"\0vax\0" in agent_build.build_plugin(tmp_path).read_bytes()
    (folder / "classify_arm.c").write_text("")
    assert agent_build.plugin_fingerprint("arm") != arm
