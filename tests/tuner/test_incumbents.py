"""The untuned model's configs: every layer's first trials, which only a sure winner replaces."""

from collections import Counter
from dataclasses import replace

import pytest
from formula_engine import AVX2, CONV, OTHER, TASKS, FakeEngine, Log, cost, job, ran, run
from memory_store import MemoryStore
from tiny_models import model, node, save

from compiler.load import load_partition
from kernels import registry
from kernels import target as targets
from kernels.layout import PLAIN
from kernels.space import Config
from server.jobs.incumbents import with_incumbents
from tuner.backend.apply import plan_of
from tuner.backend.shares import parts_of
from tuner.job.untuned import untuned_in_child
from tuner.job.verifying import gain_bound
from tuner.spec import Budget
from tuner.states import JobState
from worker.children.nursery import ChildTimeout
from worker.outcome import Outcome

PICKS = registry.recommendations(CONV, AVX2, any_layout=True)


def test_the_first_trials_of_every_layer_are_the_incumbents_of_all_its_layouts():
    incumbents = tuple(each for each in PICKS if each.layouts != PLAIN)[:2]
    strange = Config.of("sconv", block="99x99")
    tasks = (replace(TASKS[0], incumbents=(strange, *incumbents)), TASKS[1])
    for budget in (Budget(trials=40), Budget(trials=3)):
        engine, log = FakeEngine(), Log()
        state = run(job(tasks=tasks, any_layout=True, budget=budget), engine, MemoryStore(), log)
        assert state is JobState.DONE
        mine = [each.config for each in engine.evaluated if each.workload == CONV]
        assert tuple(mine[:2]) == incumbents
        first = next(each for each in log.of("trial") if each["number"] == 0 and each["task"] == 1)
        assert first["config"] == incumbents[0].to_json()
        # The other task has none that is known: the analysis's config.
        others = [each.config for each in engine.evaluated if each.workload == OTHER]
        assert others[0] == registry.recommendations(OTHER, AVX2)[0]


def test_the_heaviest_layer_goes_first():
    for weights in ((3, 1), (1, 300)):
        tasks = tuple(replace(task, weight=weight) for task, weight in zip(TASKS, weights, strict=True))
        engine = FakeEngine()
        run(job(tasks=tasks, budget=Budget(trials=2)), engine, MemoryStore())
        assert engine.evaluated[0].workload == (CONV if weights[0] > weights[1] else OTHER)


@pytest.mark.parametrize(("noise", "wins"), [(0.1, False), (0.001, True)])
def test_only_a_sure_winner_replaces_the_incumbent(noise, wins):
    """Everything else is 2 % faster, which one can be sure of where times differ little."""
    incumbent = PICKS[0]

    def answer(candidate):
        seconds = 1e-3 if candidate.config == incumbent else 0.98e-3 + 1e-8 * cost(candidate.config)
        spread = tuple(seconds * (1 + noise * (turn - 3) / 3) for turn in range(7))
        return replace(ran(candidate), cost_s=seconds, repeats_s=spread)

    class Engine(FakeEngine):
        def _again(self, candidate):
            return answer(candidate)

    engine, store = Engine(answer), MemoryStore()
    run(job(tasks=(replace(TASKS[0], incumbents=(incumbent,)),), budget=Budget(trials=20)), engine, store)
    best = min(store.known(CONV, AVX2, "wall", 1), key=lambda record: record.rank)
    assert (best.config != incumbent) == wins
    assert all(Counter(turn)[incumbent] for turn in engine.verified)


def test_the_bound_says_how_sure_a_gain_is():
    def outcome(seconds, noise):
        return Outcome(
            cost_s=seconds, repeats_s=tuple(seconds * (1 + noise * (at - 2) / 2) for at in range(5))
        )

    assert gain_bound(outcome(1.0, 0.01), outcome(0.5, 0.01)) > 0.6
    assert gain_bound(outcome(1.0, 0.01), outcome(0.999, 0.01)) < 0
    assert (
        gain_bound(outcome(1.0, 0.01), outcome(0.95, 0.01))
        > 0
        > gain_bound(outcome(1.0, 0.2), outcome(0.95, 0.2))
    )
    assert gain_bound(Outcome(cost_s=1.0), Outcome(cost_s=0.9)) > 0
    assert gain_bound(outcome(1.0, 0.1), Outcome()) < 0 < gain_bound(Outcome(), outcome(1.0, 0.1))


@pytest.fixture(scope="module")
def payload(tmp_path_factory):
    """Two layers of one workload, one of which is cheaper in other layouts, and a product of activations."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]),
        node("Conv", ["a", "w"], "b", pads=[1, 1, 1, 1]),
        node("Conv", ["b", "v"], "y"),
    ]
    made = model(nodes, {"x": (1, 16, 28, 28)}, ["y"], {"w": (16, 16, 3, 3), "v": (8, 16, 1, 1)})
    path = save(tmp_path_factory.mktemp("untuned"), made)
    target = targets.to_json(AVX2)
    return {"model": path, "shapes": None, "target": target, "threads": 1, "numerics": "exact-integers"}


def test_the_incumbents_are_what_a_build_without_a_log_has(payload):
    partition = load_partition(payload["model"])
    plan = plan_of(partition, {}, AVX2)
    wanted = Counter(
        (product.workload.key, option.config.key)
        for product, option in zip(partition.products, plan.options, strict=True)
    )
    found = [
        (each["key"], Config.from_json(each["config"]).key) for each in untuned_in_child(payload)["configs"]
    ]
    assert sorted(found) == sorted(wanted)
    assert [wanted[each] for each in found] == sorted(wanted.values(), reverse=True)


def test_a_service_gives_a_models_job_its_incumbents(payload):
    class Here:
        def call(self, function, payload, **limits):
            assert function == "tuner.job.untuned:untuned_in_child"
            return untuned_in_child(payload)

    class Late:
        def call(self, function, payload, **limits):
            raise ChildTimeout("it took more than 120 s")

    class Flag:
        def is_set(self):
            return False

    partition = load_partition(payload["model"])
    tasks = (replace(TASKS[0], workload=partition.products[0].workload), TASKS[1])
    spec = job(tasks=tasks, model=payload["model"])
    found = with_incumbents(spec, Here(), Flag())
    first, second = found.tasks
    plan = plan_of(partition, {}, AVX2)
    parts = parts_of(partition, plan, AVX2, 1)
    assert first.incumbents
    assert first.predicted_s == plan.options[0].seconds
    assert second.incumbents == ()
    assert second.predicted_s is None
    layers_s = sum(option.seconds for option in plan.options)
    assert found.others_s == pytest.approx(sum(part.seconds for part in parts) - layers_s)
    assert replace(found, tasks=tasks, others_s=0.0) == spec
    assert with_incumbents(spec, Late(), Flag()) == spec
    assert with_incumbents(replace(spec, model=None), Late(), Flag()) == replace(spec, model=None)
