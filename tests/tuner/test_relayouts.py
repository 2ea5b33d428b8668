import json

import pytest

from kernels.target import CATALOGUE
from tuner.layouts.prices import Prices
from tuner.log.record import read_log
from tuner.log.relayouts import Relayouts, fitting, of_stored, read_relayouts, stored

TARGET = CATALOGUE["x86-avx2"]
TIMES = Relayouts(TARGET, 2, "wall", {"nchw>nhwc": [(1000, 1e-6), (3000, 5e-6)], "nhwc>nchw": [(1000, 2e-6)]})


def test_times_are_linear_between_sizes_and_grow_with_them_beyond():
    shapes = {500: 1e-6, 1000: 1e-6, 2000: 3e-6, 3000: 5e-6, 6000: 10e-6}
    for elements, seconds in shapes.items():
        assert TIMES.seconds((1, 10, elements // 10, 1), "nchw", "nhwc") == pytest.approx(seconds)
    assert TIMES.seconds((1, 10, 300, 1), "nhwc", "nchw") == pytest.approx(6e-6)
    assert TIMES.seconds((1, 16, 3, 3), "nchw", "nchw8c") is None


def test_prices_say_what_was_measured():
    prices = Prices(TARGET, 2, TIMES)
    assert prices.of((1, 10, 100, 1), "nchw", "nhwc") == (1e-6, True)
    seconds, measured = prices.of((1, 16, 10, 10), "nchw", "nchw8c")
    assert (seconds > 0, measured) == (True, False)
    assert prices.of((1, 16, 1, 1), "nchw", "nhwc") == (0.0, False)


def test_a_log_carries_them_beside_its_records():
    lines = ["\n", TIMES.line()]
    assert list(read_log(lines)) == []
    assert list(read_relayouts(lines)) == [TIMES]
    assert fitting([TIMES], TARGET, 2, "wall") == TIMES
    for other in ((CATALOGUE["x86-avx512"], 2, "wall"), (TARGET, 1, "wall"), (TARGET, 2, "simulated:x")):
        assert fitting([TIMES], *other) is None


def test_times_of_another_version_are_not_used():
    line = json.loads(TIMES.line())
    del line["version"]  # as before there was one
    (old,) = read_relayouts([json.dumps(line)])
    assert (old.relayouts, old.version) == (TIMES.relayouts, 1)
    assert fitting([TIMES, old], TARGET, 2, "wall") == TIMES
    assert fitting([old], TARGET, 2, "wall") is None
    kept = stored(TIMES.relayouts)
    assert of_stored(json.loads(json.dumps(kept)), TARGET, 2, "wall") == TIMES
    before = json.loads(json.dumps(TIMES.relayouts))
    assert of_stored(before, TARGET, 2, "wall") == old


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 2},
        {"threads": "two"},
        {"version": "two"},
        {"relayouts": {"nchw>nhwc": 3}},
        {"relayouts": {"nchw>nhwc": [[0, 1e-6]]}},
        {"relayouts": {"nchw>nhwc": [[1000, -1e-6]]}},
        {"relayouts": {"nchw>nhwc": [[1000, float("nan")]]}},
        {"relayouts": {"nchw>nhwc": [[1000, float("inf")]]}},
        {"relayouts": {"nchw>nhwc": [[1000, 1e-15]]}},
        {"relayouts": {"nchw>nhwc": [[1000, 1e9]]}},
        {"relayouts": {"nchw>nhwc": [[1000]]}},
        {"relayouts": {"nchw>nhwc": "[]"}},
        {"target": {}},
        {"x": 1},
    ],
)
def test_damaged_times_are_left_out_with_a_warning_and_the_others_are_read(damage):
    """One board's lie made every log of its target unreadable."""
    said: list[str] = []
    lines = [json.dumps({**json.loads(TIMES.line()), **damage}), TIMES.line()]
    assert list(read_relayouts(lines, said.append)) == [TIMES]
    assert len(said) == 1
    assert said[0].startswith("line 1 of the log: times of layout changes are left out: ")
