"""A few of the wrong lines and models that bench.fuzz makes, against the running product."""

import random

import pytest
from benches import bench

from bench.fuzz.spoil import spoil_bytes, spoil_json

pytestmark = [pytest.mark.xdist_group("fuzz"), pytest.mark.timeout(900)]
CASES = {"lines": 150, "models": 6}


@pytest.mark.parametrize("what", CASES)
def test_nothing_but_refusals_comes_of_it(tmp_path, what):
    report = bench("fuzz", tmp_path, what, "--cases", str(CASES[what]), "--seed", "3")
    assert report["problems"] == []
    statuses = report["statuses"]
    if what == "lines":
        assert sum(statuses.values()) == CASES[what]
        assert statuses["422"] > CASES[what] / 4, "what is made is wrong"
    else:
        assert sum(statuses.values()) == 3 * CASES[what]
        assert statuses["upload 422"] > 0, "what is made is wrong"
        assert statuses["check exit code 1"] > 0


def test_what_is_made_is_another_each_time():
    dice = random.Random(1)
    document = {"a": [1, {"b": 2.5}], "c": "x"}
    assert len({repr(spoil_json(document, dice)) for _ in range(100)}) > 60
    assert document == {"a": [1, {"b": 2.5}], "c": "x"}
    assert len({spoil_bytes(b"one line of a log", dice) for _ in range(40)}) > 30
