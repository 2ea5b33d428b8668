"""Quantized kernels of POWER10 and Hexagon: what code they become. Results: test_simulated_quantized.py."""

import re
from dataclasses import replace

import pytest

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d

BYTES = {"weight_range": (-127, 127), "scale": "small"}
POINTWISE = QConv2d(1, 7, 7, 64, 64, 1, 1, **BYTES)
DEPTHWISE = QConv2d(1, 7, 7, 160, 160, 3, 3, pad=(1, 1, 1, 1), groups=160, **BYTES)
WIDE = QConv2d(1, 4, 4, 8, 32, 1, 1, weight_dtype="uint8", weight_zero=99)


def assembly(workload, target):
    config = registry.recommendations(workload, target)[0]
    function = registry.kernel(config.kernel).build(workload, config, target, 1, "main")
    return config, compile_module(function, target).inspect_source("asm")


@pytest.mark.parametrize(
    ("name", "workload", "family", "instruction"),
    [
        ("power10", POINTWISE, "qmma", "xvi8ger4pp"),
        ("power10", WIDE, "qmma", "xvi16ger2pp"),
        ("power10", DEPTHWISE, "qdot_depthwise", "vmsummbm"),
        ("hexagon-v66", POINTWISE, "qdot", "vrmpy"),
        ("hexagon-v68", WIDE, "qdot", "vdmpy"),
        ("hexagon-v66", DEPTHWISE, "qdepthwise_hvx", "vrmpy"),
        ("hexagon-v68", DEPTHWISE, "qdepthwise_hvx", "vrmpy"),
    ],
)
def test_products_are_dot_products(name, workload, family, instruction):
    config, text = assembly(workload, CATALOGUE[name])
    assert config.kernel == family
    assert len(re.findall(rf"\b{instruction}\b", text)) >= 2


@pytest.mark.parametrize("workload", [POINTWISE, DEPTHWISE], ids=["pointwise", "depthwise"])
def test_power_scales_by_the_upper_half_of_a_product(workload):
    _, text = assembly(workload, CATALOGUE["power10"])
    assert "vmulhsw" in text
    assert "vmulld" not in text


def test_older_power_has_no_such_instruction():
    power9 = replace(CATALOGUE["power10"], name="power9", cpu="pwr9", matrix="")
    config, text = assembly(POINTWISE, power9)
    assert config.kernel == "qdot"
    assert "vmsummbm" in text
    assert "vmulhsw" not in text


def test_shorter_hexagon_vectors_are_refused():
    short = replace(CATALOGUE["hexagon-v66"], integer_vector_bits=512)
    assert registry.kernel("qdot").why_not(POINTWISE, short) == "hexagon-v66 has no HVX of 1024 bits"


def test_others_have_no_dot_products():
    for name in ("x86-avx2", "rpi4", "riscv-k1"):
        for family in ("qdot", "qmma", "qdot_grouped", "qdot_depthwise", "qdepthwise_hvx"):
            assert registry.kernel(family).why_not(DEPTHWISE, CATALOGUE[name])


def test_rows_shorter_than_a_vector_are_left_to_the_other_depthwise_family():
    narrow = replace(DEPTHWISE, in_w=6, in_c=20, out_c=20, groups=20)
    target = CATALOGUE["hexagon-v66"]
    assert registry.kernel("qdepthwise_hvx").why_not(narrow, target) == "rows of less than 128 bytes"
    assert "qdot_depthwise" in [kernel.name for kernel in registry.applicable(narrow, target)]


def test_weights_of_more_than_a_byte_are_no_depthwise_dot_products():
    wide = QConv2d(1, 6, 5, 3, 3, 3, 3, pad=(1, 1, 1, 1), groups=3, weight_dtype="uint8", weight_zero=99)
    reason = registry.kernel("qdot_depthwise").why_not(wide, CATALOGUE["power10"])
    assert reason == "its weights less their zero point do not fit int8"
    families = [kernel.name for kernel in registry.applicable(wide, CATALOGUE["power10"])]
    assert families == ["qdot_grouped"]
