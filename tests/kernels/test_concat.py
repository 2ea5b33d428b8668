import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import compile_module
from kernels.layout import from_layout, layouts_for, to_layout
from kernels.operators.concat import build_concat, out_shape, predict_concat
from kernels.target import CATALOGUE

HOST = CATALOGUE["x86-avx2"]
CASES = [
    ((1, 8, 7, 5), (1, 24, 7, 5), (1, 16, 7, 5)),
    ((2, 3, 4, 4), (2, 19, 4, 4)),
    ((2, 8, 1, 1), (2, 8, 1, 1)),
    ((1, 40, 30, 30), (1, 8, 30, 30)),
    ((3, 88, 2, 3),),
]


@pytest.mark.parametrize("shapes", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_concatenation_in_every_layout(shapes, threads):
    rng = np.random.default_rng(4)
    plain = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    layouts = set.intersection(*(set(layouts_for(shape[1], HOST)) for shape in shapes))
    for layout in layouts:
        function = compile_module(build_concat(shapes, layout, HOST, threads, "main"), HOST)["main"]
        out = guarded(to_layout(np.full(out_shape(shapes), np.nan, np.float32), layout))
        arrays = [*(guarded(to_layout(array, layout)) for array in plain), out]
        function(*map(tvm.runtime.from_dlpack, arrays))
        assert np.array_equal(from_layout(out, layout), np.concatenate(plain, axis=1)), layout
        assert predict_concat(shapes, layout, HOST) > 0
