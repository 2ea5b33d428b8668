"""A few of the wrong lines that bench.fuzz makes, against the running product."""

import random

import pytest
from benches import bench

from bench.fuzz.spoil import spoil_bytes, spoil_json

pytestmark = [pytest.mark.xdist_group("fuzz"), pytest.mark.timeout(900)]
CASES = 150


def test_nothing_but_refusals_comes_of_it(tmp_path):
    report = bench("fuzz", tmp_path, "--cases", str(CASES), "--seed", "3")
    assert report["problems"] == []
    assert sum(report["statuses"].values()) == CASES
    assert report["statuses"]["422"] > CASES / 4, "what is made is wrong"


def test_what_is_made_is_another_each_time():
    dice = random.Random(1)
    document = {"a": [1, {"b": 2.5}], "c": "x"}
    assert len({repr(spoil_json(document, dice)) for _ in range(100)}) > 60
    assert document == {"a": [1, {"b": 2.5}], "c": "x"}
    assert len({spoil_bytes(b"one line of a log", dice) for _ in range(40)}) > 30
