"""Objects that are kept between builds, and that a build is the same whatever the order of sets."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import tvm
from tiny_models import model, node, save

from kernels.target import CATALOGUE
from tuner.backend import objects
from tuner.backend.apply import build_model, export
from tuner.backend.objects import ObjectCache

TARGET = CATALOGUE["x86-avx2"]
BUILD = """
import hashlib, sys
from pathlib import Path
from kernels.target import CATALOGUE
from tuner.backend.apply import build_model, export
executable, _ = build_model(sys.argv[1], {}, CATALOGUE["x86-avx2"])
export(executable, sys.argv[2])
print(hashlib.sha256(Path(sys.argv[2]).read_bytes()).hexdigest())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEFLEET_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def path(tmp_path):
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]),
        node("Erf", ["a"], "b"),
        node("Conv", ["b", "v"], "c"),
        node("Resize", ["c", "", "twice"], "d"),
        node("Softmax", ["d"], "e", axis=1),
        node("Floor", ["e"], "f"),
        node("Concat", ["f", "d"], "y", axis=1),
    ]
    constants = {"w": (8, 16, 3, 3), "v": (24, 8, 1, 1), "twice": np.array([1, 1, 2, 2], np.float32)}
    return save(tmp_path, model(nodes, {"x": (1, 16, 9, 9)}, ["y"], constants))


def built(path, tmp_path):
    executable, _ = build_model(path, {}, TARGET)
    export(executable, tmp_path / "built.so")
    return hashlib.sha256((tmp_path / "built.so").read_bytes()).hexdigest()


def test_a_second_build_compiles_nothing_and_is_the_same(path, tmp_path, folder, monkeypatch):
    compiled = []
    compile_one = objects._compile
    monkeypatch.setattr(objects, "_compile", lambda *one: compiled.append(one) or compile_one(*one))
    first, count = built(path, tmp_path), len(compiled)
    assert count == len(list(folder.glob("*/*.o"))) > 3
    assert built(path, tmp_path) == first
    assert len(compiled) == count
    damaged, shorter, gone, *_ = sorted(folder.glob("*/*.o"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    shorter.write_bytes(b"")
    gone.unlink()
    assert built(path, tmp_path) == first
    assert len(compiled) == count + 3
    assert damaged.read_bytes()[-1:] != b"!"


def test_builds_at_once_with_any_order_of_sets_are_the_same(path, tmp_path, folder):
    children = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, path, tmp_path / f"{seed}.so"],
            env={**os.environ, "PYTHONHASHSEED": str(seed), "TILEFLEET_CACHE_MB": megabytes},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed, megabytes in ((1, "0"), (2, "9"), (3, "9"))
    ]
    assert len({child.communicate()[0] for child in children} - {""}) == 1
    assert all(child.returncode == 0 for child in children)
    assert not list(folder.glob("*/.partial*"))


def test_what_was_not_used_for_longest_goes(tmp_path):
    cache = ObjectCache(tmp_path, 4000)
    for number in range(5):
        cache.put(f"{number:064}", bytes(900))
        os.utime(next(tmp_path.glob(f"*/{number:064}.o")), (number, number))
    assert cache.get(f"{0:064}") == bytes(900)
    cache.prune()
    assert [number for number in range(5) if cache.get(f"{number:064}")] == [0, 3, 4]


def test_other_targets_and_numbers_have_other_keys():
    def module(number):
        function = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(tvm.tirx.const(number, "float32")))
        return tvm.IRModule({"main": function})

    near = [module(number) for number in (1.0, np.nextafter(np.float32(1), np.float32(2)), 1.0)]
    keys = [objects.key_of(each, TARGET) for each in near]
    assert keys[0] == keys[2] != keys[1]
    assert objects.key_of(near[0], CATALOGUE["x86-avx512"]) not in keys


@pytest.mark.parametrize("text", ["many", "-1"])
def test_a_limit_that_is_no_number(monkeypatch, text):
    monkeypatch.setenv("TILEFLEET_CACHE_MB", text)
    with pytest.raises(ValueError, match="TILEFLEET_CACHE_MB must be megabytes"):
        ObjectCache.of_environment()
