"""Integer operators as formulas have the bits that define them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from kernels.int8.quantization import Quantization
from kernels.operators.int8.add import QAdd
from kernels.operators.int8.base import QOperator
from kernels.operators.int8.lookup import QLookup
from kernels.operators.int8.mul import QMul
from kernels.workload.qconv2d import LIMITS
from tuner.backend.byte_formulas import formula_of

SHAPE = (37, 64)
A, B = Quantization("int8", 0.03, 7), Quantization("uint8", 0.011, 130)
OUT = Quantization("int8", 0.02, -5)
OPERATORS = {
    "sum": QAdd.of(SHAPE, A, B, OUT),
    "clamped": QAdd.of(SHAPE, B, A, OUT, (-20, 60)),
    "product": QMul.of(SHAPE, A, B, OUT),
    "large": QMul.of(SHAPE, A, B, Quantization("uint8", 1e-6)),
    "table": QLookup.of(SHAPE, A, B, np.tanh),
    "clip": QLookup.of(SHAPE, A, A, lambda values: np.clip(values, -1, 2)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_formula_is_the_operator(name):
    what: QOperator = OPERATORS[name]
    dtypes = [what.dtype] if isinstance(what, QLookup) else what.dtypes[:2]  # type: ignore[attr-defined]
    rng, builder = np.random.default_rng(), relax.BlockBuilder()
    arrays = [rng.integers(*LIMITS[each], SHAPE, endpoint=True).astype(each) for each in dtypes]
    values = [relax.Var(f"v{at}", relax.TensorType(SHAPE, each)) for at, each in enumerate(dtypes)]
    with builder.function("main", values):
        builder.emit_func_output(builder.emit(formula_of(what, values)))
    machine = relax.VirtualMachine(tvm.compile(builder.get(), "llvm"), tvm.cpu())
    found = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    right = what.reference(*arrays)
    assert found.dtype == right.dtype
    assert np.array_equal(found, right)
