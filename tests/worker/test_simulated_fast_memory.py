"""Fast memory of the simulated Hexagon (VTCM): what its clock charges, and how much of it there is."""

import json
import shutil

import numpy as np
import pytest
from candidates import connect, load, on_board
from tvm.script.ir_builder import tirx as T

from kernels.emit import tir
from kernels.emit.compile import compile_object
from kernels.emit.function import Function
from kernels.int8.hvx import instructions as hvx
from kernels.int8.hvx.instructions import BYTES, Memory
from kernels.target import CATALOGUE
from worker.build.toolchain import link
from worker.fleet.drivers import agent_build
from worker.fleet.drivers.sim_models import SIM_MODELS

pytestmark = [pytest.mark.xdist_group("simulated"), pytest.mark.timeout(1200)]

FIGURES = SIM_MODELS["hexagon-sim"]
TARGET = CATALOGUE[FIGURES.target]
ROOM = TARGET.fast_bytes
SIZE = 64 * 1024  # twice the L1
TURNS = 8
UNIT = 8
"""Bytes of a scalar load."""


def read_again(fast, by_vectors):
    """Copy ``SIZE`` bytes to a workspace, read all of that ``TURNS`` times, and return the sums of words."""
    step = BYTES if by_vectors else UNIT
    function = Function("main", {"data": (SIZE,), "out": (BYTES,)}, {"data": "uint8", "out": "uint8"})
    with function as (data, out), tir.with_llvm(hvx.LLVM):
        copy = Memory(SIZE, fast=fast)
        with tir.loop(SIZE // BYTES) as turn:
            copy.save(hvx.load(data, turn * BYTES), turn * BYTES)
            hvx.settle()
        words = hvx.WORDS if by_vectors else 1
        sums = tir.registers(words, "int32")
        every = tir.vector(0, words)
        tir.store(sums, tir.const(0, lanes=words), every)
        with T.serial(0, TURNS), tir.loop(SIZE // step) as turn:
            if by_vectors:
                tir.store(sums, hvx.words("vaddw", sums[every], copy.load(turn * BYTES)), every)
            else:
                low, high = copy.pair(turn * UNIT)
                tir.store(sums, sums[0] + low + high, every)
            hvx.settle()
        hvx.save(out, sums[every] if by_vectors else tir.splat(sums[0], hvx.WORDS), 0)
    return function.result()


def take(sizes):
    """Have workspaces of so many bytes of fast memory at once."""
    function = Function("main", {"data": (BYTES,), "out": (BYTES,)}, {"data": "uint8", "out": "uint8"})
    with function as (data, out), tir.with_llvm(hvx.LLVM):
        taken = [Memory(size - BYTES, fast=True) for size in sizes]
        for number, each in enumerate(taken):
            each.save(hvx.flipped(hvx.load(data, 0)) if number else hvx.load(data, 0), 0)
        hvx.save(out, hvx.words("vxor", taken[0].load(0), taken[-1].load(0)), 0)
    return function.result()


@pytest.fixture
def loaded(simulated_boards, tmp_path):
    """A function on the board, its arguments there, and its session."""

    def loaded(function, data, session=None):
        path = tmp_path / "fast.so"
        path.write_bytes(link(compile_object(function, TARGET)))
        session = session or connect(simulated_boards["hexagon-sim"], timeout=60)
        return load(session, path), on_board(session, data, np.zeros(BYTES, "uint8")), session

    return loaded


@pytest.fixture
def cost(loaded):
    """The cycles and the counters of a call of ``read_again``, whose result is right."""

    def cost(fast, by_vectors):
        data = np.random.default_rng().integers(0, 256, SIZE, dtype="uint8")
        module, arguments, session = loaded(read_again(fast, by_vectors), data)
        module.time_evaluator("main", session.cpu(0), number=1, repeat=1)(*arguments)
        words = data.view("int32").reshape(-1, hvx.WORDS if by_vectors else 1)
        expected = np.broadcast_to(TURNS * words.astype("int64").sum(0), hvx.WORDS).astype("int32")
        assert (arguments[1].numpy().view("int32") == expected).all()
        return json.loads(session.get_function("tilefleet.stats")())

    return cost


def test_vectors_in_fast_memory_cost_their_packets(cost):
    stats = cost(True, by_vectors=True)
    assert stats["instructions"] > TURNS * SIZE // BYTES
    assert stats["cycles"] - stats["instructions"] < SIZE // BYTES  # those of the call, and no vector's


def test_what_is_evicted_from_l2_costs_more_than_what_lies_in_fast_memory(loaded):
    """Between two readings of a copy, more than L2 holds is read: of fast memory that evicts nothing."""
    room, much = 128 * 1024, 2 * FIGURES.l2_bytes
    taken = {}
    for fast in (False, True):
        function = Function("main", {"data": (much,), "out": (BYTES,)}, {"data": "uint8", "out": "uint8"})
        with function as (data, out), tir.with_llvm(hvx.LLVM):
            copy = Memory(room, fast=fast)
            sums = tir.registers(hvx.WORDS, "int32")
            every = tir.vector(0, hvx.WORDS)
            tir.store(sums, tir.const(0, lanes=hvx.WORDS), every)
            with tir.loop(room // BYTES) as turn:
                copy.save(hvx.load(data, turn * BYTES), turn * BYTES)
                hvx.settle()
            with tir.loop(much // BYTES) as turn:
                tir.store(sums, hvx.words("vxor", sums[every], hvx.load(data, turn * BYTES)), every)
                hvx.settle()
            with tir.loop(room // BYTES) as turn:
                tir.store(sums, hvx.words("vxor", sums[every], copy.load(turn * BYTES)), every)
                hvx.settle()
            hvx.save(out, sums[every], 0)
        given = np.random.default_rng().integers(0, 256, much, dtype="uint8")
        module, arguments, session = loaded(function.result(), given)
        module.time_evaluator("main", session.cpu(0), number=1, repeat=1)(*arguments)
        vectors = given.reshape(-1, BYTES)
        expected = np.bitwise_xor.reduce(vectors) ^ np.bitwise_xor.reduce(vectors[: room // BYTES])
        assert (arguments[1].numpy() == expected).all()
        taken[fast] = json.loads(session.get_function("tilefleet.stats")())
    lines = room // FIGURES.line_bytes
    assert taken[False]["l2_misses"] - taken[True]["l2_misses"] >= lines
    assert taken[False]["cycles"] - taken[True]["cycles"] >= lines * FIGURES.memory_stream_cycles


def test_scalar_loads_from_fast_memory_wait_each_time(cost):
    slow, fast = cost(False, by_vectors=False), cost(True, by_vectors=False)
    loads = TURNS * SIZE // UNIT
    assert fast["cycles"] - fast["instructions"] > loads * FIGURES.fast_cycles
    assert fast["cycles"] > slow["cycles"]  # L1 has eight loads of each line


def test_a_scalar_load_waits_in_a_packet_with_a_vector_too(loaded):
    count = SIZE // BYTES
    function = Function("main", {"data": (SIZE,), "out": (BYTES,)}, {"data": "uint8", "out": "uint8"})
    with function as (data, out), tir.with_llvm(hvx.LLVM):
        copy = Memory(SIZE, fast=True)
        with tir.loop(count) as turn:
            copy.save(hvx.load(data, turn * BYTES), turn * BYTES)
            hvx.settle()
        sums = tir.registers(hvx.WORDS, "int32")
        every = tir.vector(0, hvx.WORDS)
        tir.store(sums, tir.const(0, lanes=hvx.WORDS), every)
        with tir.loop(count) as turn:
            low, _ = copy.pair(turn * BYTES + 2 * UNIT)
            tir.store(sums, hvx.products(sums[every], copy.load((count - 1 - turn) * BYTES), low), every)
        hvx.save(out, sums[every], 0)
    given = np.random.default_rng().integers(0, 256, SIZE, dtype="uint8")
    module, arguments, session = loaded(function.result(), given)
    module.time_evaluator("main", session.cpu(0), number=1, repeat=1)(*arguments)
    vectors = given.reshape(count, hvx.WORDS, 4).astype("int64")
    units = vectors[:, 2 * UNIT // 4]
    expected = (vectors[::-1] * units[:, None]).sum((0, 2)).astype("int32")
    assert (arguments[1].numpy().view("int32") == expected).all()
    stats = json.loads(session.get_function("tilefleet.stats")())
    waited = stats["cycles"] - stats["instructions"] - count * FIGURES.fast_cycles
    assert -FIGURES.fast_cycles <= waited < count


def test_more_than_there_is_fails_and_takes_nothing(loaded):
    data = np.arange(BYTES, dtype="uint8")
    expected = (data ^ (data ^ 128)).astype("uint8")
    session = None
    for sizes, fits in (
        ([ROOM], True),
        ([ROOM + 1], False),
        ([ROOM // 2, ROOM // 2], True),
        ([ROOM // 2, ROOM // 2, BYTES], False),
        ([ROOM // 4, ROOM // 4, ROOM // 2], True),
    ):
        module, arguments, session = loaded(take(sizes), data, session)
        if fits:
            module["main"](*arguments)
            assert (arguments[1].numpy() == (expected if len(sizes) > 1 else 0)).all()
        else:
            with pytest.raises(Exception, match=rf"out of fast memory: \d+ bytes .* of {ROOM} are taken"):
                module["main"](*arguments)


def test_boards_without_fast_memory_take_it_from_elsewhere(run_on, simulated_boards):
    function = Function("main", {"data": (BYTES,), "out": (BYTES,)}, {"data": "uint8", "out": "uint8"})
    with function as (data, out):
        buffer = tir.scratch(ROOM, "uint8", "global.vtcm")
        with tir.loop(BYTES) as at:
            tir.store(buffer, data[at], at * 7)
        with tir.loop(BYTES) as at:
            tir.store(out, buffer[at * 7], at)
    data = np.random.default_rng().integers(0, 256, BYTES, dtype="uint8")
    found = run_on(simulated_boards["rpi4-sim"], function.result(), data, np.zeros(BYTES, "uint8"))
    assert (found == data).all()


@pytest.mark.parametrize(
    ("part", "call"),
    [("fast_memory", "fast_memory_access"), ("ahead", "ahead_configure"), ("exclusive", "l3_gives")],
)
def test_a_part_is_in_the_clocks_of_boards_that_have_it(monkeypatch, tmp_path, part, call):
    folder = tmp_path / "simclock"
    shutil.copytree(agent_build.CLOCK_SOURCES, folder)
    monkeypatch.setattr(agent_build, "CLOCK_SOURCES", folder)

    def prints():
        return agent_build.plugin_fingerprint("hexagon"), agent_build.plugin_fingerprint("hexagon", [part])

    without, has = prints()
    (folder / f"{part}.c").write_text("")
    assert prints()[0] == without
    assert prints()[1] != has
    shared = [folder / name for name in ("simclock.c", "caches.c")]
    for path in shared:
        path.write_text(path.read_text().replace(call, "other"))
    assert prints()[0] == without
    for path in shared:
        path.write_text(path.read_text().replace("caches_access", "other"))
    assert prints()[0] != without
