# mypy: ignore-errors
# As bench/tflite_models.py, whose builder it uses.
"""Whole quantized networks as TFLite files, with random weights: MobileNet-v1, MobileNet-v2, Inception-v3."""

from __future__ import annotations

from bench.models import BOTTLENECKS
from bench.tflite_models import FUSED, SAME, VALID, Maker

_SEPARABLE = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)


def mobilenet_v1(seed: int = 0) -> bytes:
    """224 x 224: a convolution, then depthwise and pointwise ones in turn."""
    make = Maker("int8", seed)
    value = make.convolution(make.input((1, 224, 224, 3)), 32, stride=2, fused=FUSED.RELU6)
    for filters, stride in _SEPARABLE:
        value = make.convolution(value, 0, stride=stride, fused=FUSED.RELU6, depth=1)
        value = make.convolution(value, filters, (1, 1), fused=FUSED.RELU6)
    return _classified(make, value)


def mobilenet_v2(seed: int = 0) -> bytes:
    """224 x 224: inverted bottlenecks with residuals."""
    make = Maker("int8", seed)
    value = make.convolution(make.input((1, 224, 224, 3)), 32, stride=2, fused=FUSED.RELU6)
    for expansion, filters, count, first in BOTTLENECKS:
        for number in range(count):
            start, stride = value, 1 if number else first
            if expansion > 1:
                wide = expansion * make.shape(value)[3]
                value = make.convolution(value, wide, (1, 1), fused=FUSED.RELU6)
            value = make.convolution(value, 0, stride=stride, fused=FUSED.RELU6, depth=1)
            value = make.convolution(value, filters, (1, 1))
            if make.shape(start) == make.shape(value):
                value = make.operator("ADD", [start, value], make.shape(value))
    return _classified(make, make.convolution(value, 1280, (1, 1), fused=FUSED.RELU6))


def inception_v3(seed: int = 0) -> bytes:
    """299 x 299: blocks of branches, as bench/inception.py has them for floats."""
    make = Maker("int8", seed)

    def conv(data, filters, kernel, stride=1, padding=SAME):
        size = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        return make.convolution(data, filters, size, stride, padding, FUSED.RELU)

    def chain(data, *convs):
        for filters, kernel in convs:
            data = conv(data, filters, kernel)
        return data

    def side_by_side(*branches):
        shape = make.shape(branches[0])
        channels = sum(make.shape(each)[3] for each in branches)
        return make.operator("CONCATENATION", list(branches), (*shape[:3], channels), (0.0, 3.0), axis=3)

    def pooled(data, filters):
        return conv(make.pool("AVERAGE", data, 3, 1), filters, 1)

    row, column = (1, 7), (7, 1)
    value = conv(make.input((1, 299, 299, 3)), 32, 3, 2, VALID)
    value = conv(conv(value, 32, 3, 1, VALID), 64, 3)
    value = make.pool("MAX", value, 3, 2, VALID)
    value = conv(conv(value, 80, 1), 192, 3, 1, VALID)
    value = make.pool("MAX", value, 3, 2, VALID)
    for filters in (32, 64, 64):
        value = side_by_side(
            conv(value, 64, 1),
            chain(value, (48, 1), (64, 5)),
            chain(value, (64, 1), (96, 3), (96, 3)),
            pooled(value, filters),
        )
    value = side_by_side(
        conv(value, 384, 3, 2, VALID),
        conv(chain(value, (64, 1), (96, 3)), 96, 3, 2, VALID),
        make.pool("MAX", value, 3, 2, VALID),
    )
    for width in (128, 160, 160, 192):
        value = side_by_side(
            conv(value, 192, 1),
            chain(value, (width, 1), (width, row), (192, column)),
            chain(value, (width, 1), (width, column), (width, row), (width, column), (192, row)),
            pooled(value, 192),
        )
    value = side_by_side(
        conv(conv(value, 192, 1), 320, 3, 2, VALID),
        conv(chain(value, (192, 1), (192, row), (192, column)), 192, 3, 2, VALID),
        make.pool("MAX", value, 3, 2, VALID),
    )
    for _ in range(2):
        once, twice = conv(value, 384, 1), chain(value, (448, 1), (384, 3))
        split = [conv(each, 384, size) for each in (once, twice) for size in ((1, 3), (3, 1))]
        value = side_by_side(conv(value, 320, 1), *split, pooled(value, 192))
    return _classified(make, value)


def _classified(make: Maker, value: int) -> bytes:
    """The mean over the plane and 1000 classes."""
    channels = make.shape(value)[3]
    value = make.operator("MEAN", [value, make.numbers(1, 2)], (1, 1, 1, channels), (0.0, 3.0), keepDims=True)
    value = make.like("RESHAPE", value, (1, channels), [make.numbers(1, channels)], newShape=[1, channels])
    return make.file(make.dense(value, 1000, limits=(-4.0, 4.0)))


NETWORKS = {"mobilenet_v1": mobilenet_v1, "mobilenet_v2": mobilenet_v2, "inception_v3": inception_v3}
