"""What must be computed by loops of ours, as few functions: nothing falls back to TVM's loops silently."""

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from bench.peers import onnx_session
from kernels.loops.schedule import LOOPS_ATTRIBUTE
from kernels.target import CATALOGUE
from tuner.backend.apply import compile_module, lower_partition, plan_of
from tuner.backend.comparison import run
from tuner.frontend.graph import load_partition

TARGET = CATALOGUE["x86-avx2"]
HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
MEAN = (
    "axis = Constant<value_ints=[-1]>() two = Constant<value_float=2.0>() eps = Constant<value_float=0.1>()"
)

FUNCTIONS = {
    "layer norm in nodes": f"""g (float[3,7,37] x, float[37] g, float[37] b) => (float[3,7,37] y) {{ {MEAN}
        m = ReduceMean(x, axis) d = Sub(x, m) p = Pow(d, two) v = ReduceMean(p, axis) a = Add(v, eps)
        s = Sqrt(a) q = Div(d, s) w = Mul(q, g) y = Add(w, b) }}""",
    "layer norm by squares": f"""g (float[3,7,37] x, float[37] g) => (float[3,7,37] y) {{ {MEAN}
        m = ReduceMean(x, axis) d = Sub(x, m) p = Mul(d, d) v = ReduceMean(p, axis) a = Add(v, eps)
        s = Sqrt(a) r = Reciprocal(s) q = Mul(d, r) w = Mul(q, g) y = Relu(w) }}""",
    "rms norm": f"""g (float[5,67] x, float[67] g) => (float[5,67] y) {{ {MEAN}
        p = Pow(x, two) v = ReduceMean(p, axis) a = Add(v, eps) s = Sqrt(a) r = Reciprocal(s)
        q = Mul(x, r) y = Mul(g, q) }}""",
    "norm over channels": """g (float[2,13,3,5] x, float[13,1,1] g) => (float[2,13,3,5] y) {
        axis = Constant<value_ints=[1]>() eps = Constant<value_float=0.01>()
        m = ReduceMean(x, axis) d = Sub(x, m) p = Mul(d, d) v = ReduceMean(p, axis) a = Add(v, eps)
        s = Sqrt(a) q = Div(d, s) y = Mul(q, g) }""",
    "softmax in five nodes": """g (float[3,41] x) => (float[3,41] y) { axis = Constant<value_ints=[-1]>()
        m = ReduceMax(x, axis) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, axis) y = Div(e, s) }""",
    "group norm by instances": """g (float[2,6,5,3] x, float[6,1,1] g, float[6,1,1] b) => (float[2,6,5,3] y) {
        groups = Constant<value_ints=[0,3,-1]>() back = Constant<value_ints=[2,6,5,3]>()
        one = Constant<value=float[3]{1,1,1}>() zero = Constant<value=float[3]{0,0,0}>()
        r = Reshape(x, groups) n = InstanceNormalization(r, one, zero) i = Reshape(n, back)
        w = Mul(i, g) y = Add(w, b) }""",
    "mean of what a mask leaves": """g (float[2,11,19] x, int64[2,11] m) => (float[2,19] y) {
        one = Constant<value_ints=[1]>() last = Constant<value_ints=[-1]>() least=Constant<value_float=1.0>()
        u = Unsqueeze(m, last) f = Cast<to=1>(u) k = Mul(x, f) s = ReduceSum<keepdims=0>(k, one)
        c = ReduceSum<keepdims=0>(f, one) l = Max(c, least) y = Div(s, l) }""",
    "length of one": """g (float[2,33] x) => (float[2,33] y) { axis = Constant<value_ints=[-1]>()
        n = ReduceL2(x, axis) y = Div(x, n) }""",
    "mean and deviation of all": """g (float[3,4,5] x) => (float[3,4,5] y) { two = Constant<value_float=2.0>()
        m = ReduceMean<keepdims=0>(x) d = Sub(x, m) p = Pow(d, two) v = ReduceMean<keepdims=0>(p) s = Sqrt(v)
        y = Div(d, s) }""",
}
"""Each is one function of ours."""


def lowered(text, folder):
    """The model's feeds, onnxruntime's results, and the module of ours."""
    model = onnx.parser.parse_model(HEAD + text)
    rng = np.random.default_rng()
    feeds = {}
    for each in model.graph.input:
        shape = [dim.dim_value for dim in each.type.tensor_type.shape.dim]
        whole = each.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feeds[each.name] = rng.integers(0, 2, shape) if whole else rng.normal(size=shape).astype(np.float32)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    expected = onnx_session(model.SerializeToString(), 1, optimised=False).run(None, feeds)
    partition = load_partition(path, None)
    return feeds, expected, lower_partition(partition, plan_of(partition, {}, TARGET), TARGET, 1)


def computed(module, feeds):
    return run(relax.VirtualMachine(compile_module(module, TARGET), tvm.cpu())["main"], feeds)


@pytest.mark.usefixtures("avx2")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_chain_around_reductions_is_one_function(tmp_path, name):
    feeds, expected, module = lowered(FUNCTIONS[name], tmp_path)
    functions = [each for each in module.functions.values() if isinstance(each, tvm.tirx.PrimFunc)]
    assert [LOOPS_ATTRIBUTE in each.attrs for each in functions] == [True]
    for ours, right in zip(computed(module, feeds), expected, strict=True):
        np.testing.assert_allclose(ours, right, rtol=2e-5, atol=2e-5)
