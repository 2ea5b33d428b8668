"""Targets: names, keys, and what TVM makes of the catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm

from kernels.target import CATALOGUE, from_json, to_json


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_tvm_accepts_the_target(name: str) -> None:
    target = CATALOGUE[name]
    assert target.name == name
    assert str(tvm.target.Target(target.tvm).attrs["mcpu"]) == target.cpu
    assert from_json(to_json(target)) == target


def test_key_ignores_the_name_only() -> None:
    target = CATALOGUE["x86-avx2"]
    assert replace(target, name="other").key == target.key
    assert replace(target, l2_bytes=target.l2_bytes * 2).key != target.key
    assert target.lanes() == 8
    assert target.lanes("int8") == 32


def test_unknown_fields_are_named() -> None:
    with pytest.raises(ValueError, match="colour"):
        from_json(to_json(CATALOGUE["x86-avx2"]) | {"colour": "red"})
