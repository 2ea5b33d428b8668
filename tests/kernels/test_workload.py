"""Workloads: geometry, canonical form, refusal of nonsense."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kernels.workload.base import (
    RELU,
    Conv2d,
    Epilogue,
    Gemm,
    NarrowGemm,
    QConv2d,
    Workload,
    from_json,
    to_json,
)


def test_output_size_follows_every_attribute() -> None:
    layer = Conv2d(2, 3, 10, 11, 8, 3, 2, (2, 1), (1, 0, 2, 1), (2, 3))
    # rows: (10 + 1 + 2 - 2*2 - 1) // 2 + 1; columns: (11 + 0 + 1 - 3*1 - 1) // 1 + 1
    assert layer.out_shape == (2, 8, 5, 9)
    assert layer.flops == 2 * 2 * 8 * 5 * 9 * 3 * 3 * 2


def test_grouped_convolution_counts_its_own_channels_only() -> None:
    layer = Conv2d(1, 8, 4, 4, 16, 1, 1, groups=4)
    assert layer.weight_shape == (16, 2, 1, 1)
    assert layer.flops == 2 * 16 * 4 * 4 * 2


@pytest.mark.parametrize(
    "workload",
    [
        Conv2d(1, 3, 8, 8, 4, 3, 3, pad=(1, 1, 1, 1), epilogue=Epilogue(True, True, (0, 6))),
        Gemm(1, 1000, 512, epilogue=Epilogue(bias=True, clamp=RELU)),
    ],
)
def test_json_round_trip_keeps_the_name(workload: Workload) -> None:
    again = from_json(json.loads(json.dumps(to_json(workload))))
    assert again == workload
    assert again.key == workload.key


def test_names_tell_workloads_apart_but_not_spellings() -> None:
    layer = Conv2d(1, 3, 8, 8, 4, 3, 3)
    assert layer.key != Conv2d(1, 3, 8, 8, 4, 3, 3, epilogue=Epilogue(clamp=RELU)).key
    whole, broken = Epilogue(clamp=(0, 6)), Epilogue(clamp=(0.0, 6.0))
    assert Gemm(1, 2, 3, epilogue=whole).key == Gemm(1, 2, 3, epilogue=broken).key
    assert Epilogue(clamp=(None, None)) == Epilogue()


def test_the_text_tells_quantized_workloads_of_one_shape_apart() -> None:
    plain = QConv2d(1, 8, 8, 16, 32, 3, 3, scale="small")
    assert str(plain) == "qconv 8x8x16 -> 32, 3x3 u8s8u8"
    assert str(replace(plain, data_zero=3, out_zero=131)) == "qconv 8x8x16 -> 32, 3x3 u8z3s8u8z131"
    alike = [
        plain,
        *(replace(plain, **{name: 5}) for name in ("data_zero", "weight_zero", "out_zero")),
        *(replace(plain, weight_range=found) for found in ((-64, 64), (-127, 127), (-3, 64))),
        *(replace(plain, clamp=found) for found in ((0, 99), (3, 255))),
        *(replace(plain, scale=scale) for scale in ("any", "power")),
        replace(plain, per_channel=False),
    ]
    assert len({str(each) for each in alike}) == len(alike)


def test_the_text_says_both_strides_and_dilations_where_they_differ() -> None:
    float_, quantized = Conv2d(1, 3, 8, 8, 4, 3, 3), QConv2d(1, 8, 8, 3, 4, 3, 3)
    for conv, text in ((float_, "conv 3x8x8 -> 4"), (quantized, "qconv 8x8x3 -> 4")):
        for both, shown in (((2, 2), "2"), ((1, 2), "1x2"), ((2, 1), "2x1")):
            stepped, dilated = replace(conv, stride=both), replace(conv, dilation=both)
            assert str(stepped).startswith(f"{text}, 3x3/{shown}")
            assert str(dilated).startswith(f"{text}, 3x3 d{shown}")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"kind": "pool"}, "kind must be one of"),
        ([], "kind must be one of"),
        ({"kind": "gemm", "m": 1, "n": 0, "k": 3}, "gemm n must be a positive integer, got 0"),
        ({"kind": "gemm", "m": "x", "n": 2, "k": 1}, "gemm m: Input should be a valid integer.*got 'x'"),
        ({"kind": "gemm", "m": 1, "n": 2}, "gemm k: Field required"),
        ({"kind": "gemm", "m": 1, "n": 2, "k": 3, "alpha": 1}, "gemm alpha: Unexpected"),
        (to_json(Conv2d(1, 4, 8, 8, 4, 3, 3)) | {"groups": 3}, "groups=3 must divide in_c=4"),
        (to_json(Conv2d(1, 4, 8, 8, 4, 3, 3)) | {"kh": 9}, "output is empty"),
        (to_json(Conv2d(1, 4, 8, 8, 4, 3, 3)) | {"stride": [0, 1]}, "stride must be at least 1"),
        (to_json(Gemm(1, 2, 3)) | {"epilogue": {"clamp": [6, 0]}}, "clamp is empty"),
        *(
            (to_json(workload) | {"dtype": word}, "dtype: Input should be 'float32', got")
            for workload in (Gemm(1, 2, 3), Conv2d(1, 4, 8, 8, 4, 3, 3), NarrowGemm(1, 2, 3, 16))
            for word in ("float16", "", "=1\x9b")
        ),
    ],
)
def test_nonsense_is_named(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(value)
