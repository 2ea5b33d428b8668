"""Pairs of convolutions that a build computes as one chain, where records say that this is faster."""

import json

import numpy as np
import pytest
import tvm
from qdq_models import Qdq
from test_apply import assert_same, expected, random_inputs
from tiny_models import model, node, save
from tvm import relax
from typer.testing import CliRunner

from compiler.load import load_partition
from compiler.passes.chains import chain_of, pairs_of
from kernels import registry
from kernels.target import CATALOGUE
from kernels.workload.base import ConvChain, QConv2d
from tilefleet.cli import app
from tuner.backend.apply import build_model, build_partition, plan_of
from tuner.backend.chained import chain_as
from tuner.backend.comparison import run
from tuner.backend.manifest import describe
from tuner.log.record import Record, write_log

TARGET = CATALOGUE["x86-avx2"]


@pytest.fixture
def path(tmp_path):
    """Two pairs that overlap, and one whose first result something else reads, too."""
    nodes = [
        node("Conv", ["x", "wide", "bias"], "a", group=20, pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Relu", ["a"], "b"),
        node("Conv", ["b", "point"], "c"),
        node("Conv", ["c", "next"], "d"),
        node("Add", ["d", "r"], "e"),
        node("Conv", ["e", "next"], "f"),
        node("Add", ["f", "e"], "y"),
    ]
    weights = {"wide": (20, 1, 3, 3), "bias": (20,), "point": (16, 20, 1, 1), "next": (16, 16, 1, 1)}
    return save(tmp_path, model(nodes, {"x": (1, 20, 15, 13), "r": (1, 16, 8, 7)}, ["y"], weights))


def records_of(path, chain_s):
    """Each product takes 2, and each chain so many seconds, in whatever layouts."""
    partition, made = load_partition(path), []
    workloads = [(product.workload, 2.0) for product in partition.products]
    for (first, second), seconds in zip(pairs_of(partition).items(), chain_s, strict=True):
        chained = chain_of(partition.products[first], partition.products[second])
        workloads.append((chained.workload, seconds))
    for workload, seconds in workloads:
        for config in registry.recommendations(workload, TARGET, any_layout=True):
            version = registry.kernel(config.kernel).version
            made.append(Record(workload, TARGET, config, version, cost_s=seconds))
    return made


def test_only_pairs_that_nothing_else_reads(path):
    assert pairs_of(load_partition(path)) == {0: 1, 1: 2}


@pytest.mark.usefixtures("avx2")
def test_the_fastest_of_overlapping_chains_is_built(path, tmp_path):
    feeds = random_inputs(path)
    for chain_s, chained in (((5.0, 4.5), []), ((3.0, 2.5), [("c", "d", "e")]), ((1.5, 2.5), [("a", "c")])):
        records = records_of(path, chain_s)
        executable, manifest = build_model(path, {}, TARGET, records=records)
        found = [layer for layer in manifest.layers if isinstance(layer.workload, ConvChain)]
        assert len(found) == len(chained)
        assert len(manifest.layers) == 4 - len(chained)
        assert manifest.count("log") == len(manifest.layers)
        assert_same(run_of(executable, feeds), expected(path, feeds), tolerance=1e-5)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(write_log(records)))
    words = ["check", str(path), "--log", str(log), "--target", TARGET.name, "--json"]
    said = json.loads(CliRunner().invoke(app, words).stdout)
    (chain,) = [each for each in said if (each.get("config") or {}).get("kernel") == "chain"]
    assert chain["name"] == str(found[0].workload)
    assert chain["expected_s"] == 1.5


def run_of(executable, feeds):
    return run(relax.VirtualMachine(executable, tvm.cpu())["main"], feeds)


def test_a_plan_with_chains_can_be_made_again(path):
    first = load_partition(path)
    plan = plan_of(first, {}, TARGET, records=records_of(path, (1.5, 2.5)))
    configs = {at: option.config for at, option in enumerate(plan.options)}
    second = load_partition(path)
    chain_as(second, configs)
    again = plan_of(second, {}, TARGET, plan=configs)
    assert [option.config for option in again.options] == list(configs.values())
    assert [p.nodes for p in second.products] == [p.nodes for p in first.products]


def test_bytes_become_chains(tmp_path):
    graph = Qdq()
    real = graph.through("x", 0.05, 128)
    for channels, taken in ((8, 4), (12, 8)):
        real = graph.through(graph.add("Conv", [real, graph.weights((channels, taken, 1, 1))]), 0.1, 128)
    path, target = save(tmp_path, graph.model({"x": (1, 4, 6, 6)}, [real])), CATALOGUE["hexagon-v66"]
    partition = load_partition(path)
    one, two = partition.products
    records = []
    for workload in (one.workload, two.workload, chain_of(one, two).workload):
        config = registry.recommendations(workload, target)[0]
        version = registry.kernel(config.kernel).version
        records.append(Record(workload, target, config, version, cost_s=1.0, clock="simulated:x"))
    records = [Record.from_json(record.to_json()) for record in records]
    plan = plan_of(partition, {}, target, records=records)
    (layer,) = describe(partition, plan, target, 1).layers
    assert layer.config.kernel == "qchain"
    assert isinstance(layer.workload.second, QConv2d)
    assert np.size(partition.products[0].constants[0])
    assert build_partition(partition, plan, target, 1)
