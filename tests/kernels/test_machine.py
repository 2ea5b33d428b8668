"""The machine model: each figure of a target that only ranks configs counts where it should."""

from dataclasses import replace

import pytest

from kernels import registry
from kernels.emit import machine
from kernels.layout import NHWC, PLAIN, Layouts
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Gemm

TARGET = CATALOGUE["rpi5"]


def test_a_step_waits_for_its_units_its_loads_the_front_end_or_its_sums() -> None:
    wide = replace(TARGET, fmas_per_cycle=2.0, loads_per_cycle=2.0, fma_latency=3.0)
    assert machine.step_cycles(wide, 6, 4) == 12.0
    assert machine.step_cycles(replace(wide, fmas_per_cycle=1.0), 6, 4) == 24.0
    assert machine.step_cycles(replace(wide, loads_per_cycle=0.5), 6, 4) == 20.0
    # 24 multiply-adds, ten loads and the loop.
    assert machine.step_cycles(replace(wide, issue_width=2.0), 6, 4) == 19.0
    assert machine.step_cycles(replace(wide, loads_per_cycle=0.25), 8, 1, together=4) == 12.0
    assert machine.step_cycles(replace(wide, fma_latency=40.0), 6, 4) == 40.0
    assert machine.step_cycles(replace(wide, fma_latency=40.0), 6, 4, chains=2) == 20.0


def test_a_stream_costs_what_was_measured_of_its_level() -> None:
    target = replace(TARGET, misses_in_flight=10.0, l2_cycles=10, l3_cycles=40, dram_cycles=300)
    footprints = (target.l1_bytes, target.l2_bytes, target.l3_bytes, target.l3_bytes + 1)
    size = 100 * target.line_bytes
    assert [machine.stream_cycles(target, size, each) for each in footprints] == [0, 100, 400, 3000]
    told = replace(target, l2_stream_cycles=2.0, l3_stream_cycles=5.0, dram_stream_cycles=20.0)
    assert [machine.stream_cycles(told, size, each) for each in footprints] == [0, 200, 500, 2000]
    # Where prefetchers lose count, lines wait for their latency as before.
    scattered = [machine.scattered_cycles(told, size, each) for each in footprints]
    assert scattered == [100 * machine.latency(told, level) / 2 for level in (None, "l2", "l3", "dram")]


def test_predicted_seconds_are_those_of_the_clock() -> None:
    workload = Gemm(64, 64, 64)
    config = registry.recommendations(workload, TARGET)[0]
    kernel = registry.kernel(config.kernel)
    seconds = [kernel.predict(workload, config, replace(TARGET, hz=hz)) for hz in (1_000_000_000, 0)]
    assert seconds[0] == pytest.approx(3 * seconds[1])


def test_a_slower_machine_is_predicted_to_be_slower_with_its_own_figures() -> None:
    """Every family for floats reads the figures of its target."""
    same = (1, 1, 1, 1)
    workloads = [
        Gemm(96, 96, 96),
        Conv2d(1, 32, 14, 14, 32, 3, 3, pad=same),
        Conv2d(1, 32, 14, 14, 32, 3, 3, pad=same, groups=32),
        Conv2d(1, 32, 14, 14, 32, 3, 3, pad=same, groups=4),
    ]
    slower = replace(TARGET, fmas_per_cycle=0.25, fma_latency=16.0, issue_width=1.0)
    seen = set()
    for workload in workloads:
        for config in registry.recommendations(workload, TARGET, any_layout=True):
            kernel = registry.kernel(config.kernel)
            before, after = (kernel.predict(workload, config, each) for each in (TARGET, slower))
            assert after > 1.2 * before, config
            seen.add(config.kernel)
    assert len(seen) > 5, seen


def test_slow_stores_make_what_is_stored_dearer() -> None:
    """Copies, and kernels with few products for each result; a fast store changes nothing."""
    workloads = [Conv2d(1, 8, 14, 14, 32, 1, 1), Conv2d(1, 32, 14, 14, 32, 3, 3, groups=32), Gemm(96, 96, 4)]
    slow, fast = replace(TARGET, stores_per_cycle=0.25), replace(TARGET, stores_per_cycle=2.0)
    assert (machine.move_cycles(slow), machine.move_cycles(fast)) == (5.0, machine.move_cycles(TARGET))
    for workload in workloads:
        config = registry.recommendations(workload, TARGET)[0]
        kernel = registry.kernel(config.kernel)
        times = [kernel.predict(workload, config, each) for each in (TARGET, slow, fast)]
        assert times[1] > 1.1 * times[0], config
        assert times[2] == times[0]


MEASURED = replace(
    TARGET,
    l1_bytes=16384,
    l2_bytes=524288,
    l3_bytes=0,
    fmas_per_cycle=1.0,
    loads_per_cycle=1.0,
    issue_width=3.0,
    l2_stream_cycles=4.0,
    dram_stream_cycles=22.0,
)


def predicted(target, **knobs) -> float:
    """Of the SConv of 128 filters and 784 windows of 256 channels, which are more than the second cache."""
    conv = Conv2d(1, 256, 28, 28, 128, 1, 1)
    fixed = {"block": "6x4", "channels": 256, "k2_halvings": 0, "k3_halvings": 1, "pack": 0}
    config = Config.of("sconv", PLAIN, **{**fixed, **knobs})
    return registry.kernel("sconv").predict(conv, config, target)


def test_windows_that_the_second_cache_cannot_keep_come_from_memory_again() -> None:
    """A simulated board of these figures takes twice as long for them."""
    assert predicted(MEASURED, order="ws") > 1.6 * predicted(MEASURED, order="is")
    larger = replace(MEASURED, l2_bytes=4 << 20)
    assert predicted(larger, order="ws") < 1.1 * predicted(larger, order="is")


def test_products_do_not_hide_a_stream_that_was_measured() -> None:
    """Small tiles of windows meet all weights more often."""
    assert (machine.exposed(MEASURED, 0.3), machine.exposed(TARGET, 0.3)) == (1.0, 0.3)
    wide = [predicted(replace(MEASURED, l2_stream_cycles=each), order="is") for each in (0.5, 4.0)]
    narrow = [
        predicted(replace(MEASURED, l2_stream_cycles=each), order="is", block="14x2") for each in (0.5, 4.0)
    ]
    assert narrow[1] - narrow[0] > 1.5 * (wide[1] - wide[0]) > 0


def test_neighbours_are_loaded_in_pairs_where_arm_was_measured() -> None:
    assert [machine.paired(each) for each in (TARGET, MEASURED, CATALOGUE["x86-avx2"])] == [1, 2, 1]
    assert machine.paired(replace(CATALOGUE["x86-avx2"], issue_width=4.0)) == 1


def test_windows_of_planes_wait_for_their_lines_where_streams_were_measured() -> None:
    """A window's elements are a plane apart in NCHW. In NHWC they are one stream, and its cost is known."""
    conv = Conv2d(1, 256, 28, 28, 128, 1, 1)
    kernel = registry.kernel("fconv")
    distant = replace(MEASURED, l2_cycles=2 * MEASURED.l2_cycles, dram_cycles=2 * MEASURED.dram_cycles)
    longer = {}
    for layouts in (PLAIN, Layouts(NHWC, NHWC)):
        config = kernel.recommend(conv, MEASURED, layouts)
        longer[layouts] = kernel.predict(conv, config, distant) / kernel.predict(conv, config, MEASURED)
    assert longer[PLAIN] > 1.05
    assert longer[Layouts(NHWC, NHWC)] == pytest.approx(1.0)


def test_where_streams_were_measured_the_config_predicted_fastest_is_taken() -> None:
    for conv in (Conv2d(1, 256, 28, 28, 128, 1, 1), Conv2d(1, 48, 13, 13, 96, 3, 3, pad=(1, 1, 1, 1))):
        for kernel in registry.applicable(conv, MEASURED):
            fastest = min(kernel.predict(conv, each, MEASURED) for each in kernel.space(conv, MEASURED))
            assert kernel.predict(conv, kernel.recommend(conv, MEASURED), MEASURED) == fastest, kernel.name


def test_sums_and_packed_windows_that_no_cache_keeps_go_to_memory_and_back() -> None:
    """Simulated boards of these figures take 1.16 and 1.3 times as long for them."""
    large = replace(MEASURED, l2_bytes=4 << 20)
    for knobs, longer in (({"channels": 64}, 1.1), ({"pack": 1}, 1.15)):
        small_s, large_s = (
            predicted(target, order="ws", **knobs) / predicted(target, order="is")
            for target in (MEASURED, large)
        )
        assert small_s > longer, knobs
        assert large_s < small_s / 1.05, knobs
