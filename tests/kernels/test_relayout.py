import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.layout import from_layout, layouts_for, to_layout
from kernels.operators.relayout import build_relayout, is_free, predict_relayout
from kernels.target import CATALOGUE

HOST = CATALOGUE["x86-avx2"]
SHAPES = [
    (1, 16, 7, 9),
    (2, 24, 5, 5),
    (1, 19, 4, 6),
    (1, 3, 8, 8),
    (1, 64, 3, 2),
    (3, 40, 1, 33),
    (1, 8, 6, 6),
]


def pairs(channels, target):
    layouts = layouts_for(channels, target)
    return [(source, to) for source in layouts for to in layouts if source != to]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_conversion_moves_every_element_to_its_place(shape, threads):
    rng = np.random.default_rng(3)
    plain = rng.standard_normal(shape).astype(np.float32)
    for source, to in pairs(shape[1], HOST):
        function = build_relayout(shape, source, to, HOST, threads, "main")
        data, out = guarded(to_layout(plain, source)), guarded(np.zeros_like(to_layout(plain, to)))
        compile_module(function, HOST)["main"](*map(tvm.runtime.from_dlpack, (data, out)))
        assert np.array_equal(from_layout(out, to), plain), (source, to)


def test_a_conversion_is_free_exactly_where_memory_does_not_change():
    for shape in [*SHAPES, (1, 16, 1, 1), (1, 1, 4, 4), (2, 8, 3, 3), (2, 1, 1, 1)]:
        plain = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for source, to in pairs(shape[1], HOST):
            same = np.array_equal(to_layout(plain, source).ravel(), to_layout(plain, to).ravel())
            assert is_free(shape, source, to) == same, (shape, source, to)
            assert (predict_relayout(shape, source, to, HOST) == 0) == same
