from dataclasses import replace

import numpy as np
import pytest
from tiny_models import model, node, save

from compiler.intake.extract import extract
from compiler.load import load_partition
from kernels import registry
from kernels import target as targets
from kernels.layout import PLAIN
from kernels.numerics import Numerics
from kernels.reference import reference
from kernels.space import Config
from kernels.target import CATALOGUE
from tuner.job import in_place
from tuner.log.record import Record
from worker.outcome import ErrorKind

TARGET = CATALOGUE["x86-avx2"]


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("threads", [1, 2])
def test_near_configs_take_turns_in_the_model_and_compute_the_same(tmp_path, monkeypatch, threads):
    pads = [1, 1, 1, 1]
    nodes = [node("Conv", ["x", "w"], "a", pads=pads), node("Conv", ["a", "v"], "y", pads=pads)]
    weights = {"w": (16, 16, 3, 3), "v": (16, 16, 3, 3)}
    path = save(tmp_path, model(nodes, {"x": (1, 16, 14, 14)}, ["y"], weights))
    (operator,) = extract(path).operators
    configs = registry.recommendations(operator.workload, TARGET, threads=threads)[:3]
    records = [
        Record(
            operator.workload, TARGET, config, registry.kernel(config.kernel).version, threads, cost_s=cost
        )
        for config, cost in zip(configs, (1e-5, 1.1e-5, 1.2e-5), strict=True)
    ]
    # In other layouts nothing runs, or the build might take what is predicted there.
    everywhere = registry.recommendations(operator.workload, TARGET, Numerics.RELAXED, threads, True)
    others = [config for config in everywhere if config.layouts != PLAIN]
    records += [
        replace(records[0], config=config, cost_s=None, error=ErrorKind.WRONG_RESULT) for config in others
    ]
    calls, timed = [], in_place.Contest.call

    def call(self, arguments):
        timed(self, arguments)
        calls.append((arguments[0].numpy(), arguments[-1].numpy()))

    monkeypatch.setattr(in_place.Contest, "call", call)
    monkeypatch.setattr(in_place, "ROUNDS", 3)
    monkeypatch.setenv("TVM_NUM_THREADS", str(threads))
    payload = {
        "model": str(path),
        "shapes": None,
        "target": targets.to_json(TARGET),
        "threads": threads,
        "numerics": "relaxed",
        "records": [record.to_json() for record in records],
        "relayouts": [],
        "lock": str(tmp_path / "lock"),
    }
    stages = []
    found = in_place.time_in_child(payload, lambda message: stages.append(message["stage"]))
    # The third is too slow by itself to be worth a place.
    assert [Config.from_json(each["config"]) for each in found["configs"]] == configs[:2]
    assert {each["key"] for each in found["configs"]} == {operator.workload.key}
    assert all(each["seconds"] > 0 for each in found["configs"])
    assert stages.count("run") == 6
    # To warm up, and three runs with each config; both layers have weights of their own.
    assert len(calls) == 2 * 7
    products = load_partition(path).products
    for layer, product in enumerate(products):
        for data, result in calls[layer::2]:
            exact = reference(operator.workload, [data, product.weights()])
            np.testing.assert_allclose(result, exact, atol=1e-4 * np.abs(exact).max())


def test_what_an_untuned_model_has_takes_part_however_slow_it_was_by_itself(tmp_path):
    path = save(
        tmp_path, model([node("Conv", ["x", "w"], "y")], {"x": (1, 16, 9, 9)}, ["y"], {"w": (16, 16, 3, 3)})
    )
    (operator,) = extract(path).operators
    configs = registry.recommendations(operator.workload, TARGET)[:3]
    costs = zip(configs, (1e-5, 5e-5, 6e-5), strict=True)
    records = [Record(operator.workload, TARGET, config, 1, cost_s=cost) for config, cost in costs]
    products, key = load_partition(path).products, operator.workload.key
    assert in_place.find_contests(products, [configs[0]], records) == []
    (contest,) = in_place.find_contests(products, [configs[0]], records, {(key, configs[2])})
    assert contest.configs == [configs[0], configs[2]]
