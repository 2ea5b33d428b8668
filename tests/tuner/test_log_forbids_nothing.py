"""What a build makes of parts of a log: records compete with predictions, and a log forbids nothing."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import model, node, save

from compiler.load import load_partition
from kernels import registry
from kernels.layout import PLAIN
from kernels.numerics import Numerics
from kernels.target import CATALOGUE
from tuner.backend.apply import plan_of
from tuner.backend.evidence import Evidence
from tuner.layouts.plan import plan as choose
from tuner.layouts.prices import Prices
from tuner.log.record import Record
from worker.outcome import ErrorKind

TARGET = CATALOGUE["rpi4"]
PROPERTY = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Two convolutions with a pool between: all that has a time in a plan but measured conversions."""
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]),
        node("MaxPool", ["a"], "b", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["b", "v"], "y"),
    ]
    made = model(nodes, {"x": (1, 16, 28, 28)}, ["y"], {"w": (32, 16, 3, 3), "v": (16, 32, 1, 1)})
    return save(tmp_path_factory.mktemp("model"), made)


@pytest.fixture(scope="module")
def trials(path):
    """Of each layer the analysis's configs, and others of their families."""
    found = []
    for product in load_partition(path).products:
        workload = product.workload
        configs = dict.fromkeys(registry.recommendations(workload, TARGET, any_layout=True))
        for space in registry.search_space(workload, TARGET, any_layout=True).spaces:
            configs |= dict.fromkeys(space.sample(random.Random(seed)) for seed in range(2))
        found += [record(workload, config, 1.0) for config in configs]
    return found


def record(workload, config, times):
    """A trial that took so many times as long as predicted."""
    kernel = registry.kernel(config.kernel)
    seconds = times * kernel.predict(workload, config, TARGET, 1)
    return Record(workload, TARGET, config, kernel.version, cost_s=seconds)


def slower(trial, times):
    return replace(trial, cost_s=trial.cost_s * times)


def planned(path, records):
    return plan_of(load_partition(path), {}, TARGET, records=records)


def configs_of(plan):
    return [option.config for option in plan.options]


def logs(trials):
    """Parts of a log with times of any machine and any luck."""
    times = st.floats(0.25, 8.0)
    return st.lists(
        st.tuples(st.sampled_from(trials), times), max_size=12, unique_by=lambda each: id(each[0])
    )


def drawn(data, trials):
    return [slower(*each) for each in data.draw(logs(trials))]


@PROPERTY
@given(st.data())
def test_no_part_of_a_log_makes_a_plan_worse_than_the_untuned_one(path, trials, data):
    records = drawn(data, trials)
    evidence = Evidence.of(records, TARGET, 1, Numerics.EXACT_INTEGERS)
    found, partition, only = planned(path, records), load_partition(path), []
    taken = {(each.workload, each.config): each.cost_s for each in records}
    for product, untuned in zip(partition.products, planned(path, []).options, strict=True):
        option = evidence.options(product.workload)[untuned.config.layouts]
        seconds = taken.get((product.workload, untuned.config))
        assert seconds is None or option.seconds <= seconds
        only.append({untuned.config.layouts: option})
    prices = Prices(TARGET, 1, scale=evidence.ratios.overall)
    assert found.seconds <= choose(partition, only, TARGET, 1, prices).seconds * (1 + 1e-9)


@PROPERTY
@given(st.data())
def test_order_and_a_constant_are_of_no_account(path, trials, data):
    records = drawn(data, trials)
    found = planned(path, records)
    shuffled = planned(path, data.draw(st.permutations(records)))
    assert (configs_of(shuffled), shuffled.seconds) == (configs_of(found), found.seconds)
    # A power of two, as other factors round.
    factor = 2.0 ** data.draw(st.integers(-8, 8))
    scaled = planned(path, [slower(each, factor) for each in records])
    assert configs_of(scaled) == configs_of(found)
    if records:
        assert scaled.seconds == pytest.approx(factor * found.seconds)


def test_a_log_of_one_trial_makes_no_model_slower(path, trials):
    """On a machine on which all takes as much longer as in that trial, and so does what is built."""
    best, times = planned(path, []).seconds, 3.0
    for trial in trials[::3]:
        found = planned(path, [slower(trial, times)])
        assert found.seconds <= best * times * (1 + 1e-9), trial.config


def test_what_was_not_measured_gets_the_ratio_of_its_family(path, trials):
    """NHWC is slower than predicted: without records of it the plan would go there."""
    first = trials[0].workload
    plain = [each for each in trials if each.workload == first and each.config.layouts == PLAIN]
    evidence = Evidence.of([slower(each, 3.0) for each in plain], TARGET, 1, Numerics.EXACT_INTEGERS)
    assert evidence.ratios.of(plain[0].config.family) == pytest.approx(3.0)
    options = evidence.options(first)
    others = [option for option in options.values() if option.record is None]
    assert others
    assert options[PLAIN].record is not None
    for option in others:
        kernel = registry.kernel(option.config.kernel)
        assert option.source == "analysis"
        assert option.seconds == pytest.approx(3.0 * kernel.predict(first, option.config, TARGET, 1))


def test_the_record_of_a_search_stands_beside_predictions(path, trials):
    """It is predicted to be slower than the analysis's config of its layouts, and no trial had that."""
    workload = trials[0].workload
    pick = min(
        (each for each in trials if each.workload == workload and each.config.layouts == PLAIN),
        key=lambda each: each.cost_s,
    )
    family = (each for each in trials if each.workload == workload and each.layouts == PLAIN)
    other = min((each for each in family if each.cost_s > 1.01 * pick.cost_s), key=lambda each: each.cost_s)

    def option(*records):
        return Evidence.of(records, TARGET, 1, Numerics.EXACT_INTEGERS).options(workload)[PLAIN]

    assert option(other).config == pick.config
    assert option(replace(other, verified_s=other.cost_s)).config == other.config
    assert option(replace(other, clock="simulated:rpi4-sim:0123")).config == other.config
    assert option(pick, slower(other, 0.5)).config == other.config
    failed = replace(pick, cost_s=None, error=ErrorKind.WRONG_RESULT)
    assert option(failed, other).config != pick.config
