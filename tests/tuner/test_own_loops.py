"""What must be computed by loops of ours, as few functions: nothing falls back to TVM's loops silently."""

import re

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from bench.corpus.shares import own_functions, reasons_of
from compiler.load import load_partition
from kernels.loops.schedule import LOOPS_ATTRIBUTE
from kernels.target import CATALOGUE
from tuner.backend.apply import compile_module, lower_partition, plan_of
from tuner.backend.comparison import run
from tuner.backend.fusion import MOST_FUSED
from tuner.runtimes.engines import onnx_session

TARGET = CATALOGUE["x86-avx2"]
HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'
MEAN = (
    "axis = Constant<value_ints=[-1]>() two = Constant<value_float=2.0>() eps = Constant<value_float=0.1>()"
)

CONSTANTS = """last = Constant<value_ints=[-1]>() one = Constant<value_ints=[1]>()
    two = Constant<value_ints=[2]>()
    five = Constant<value_ints=[5]>() pads = Constant<value_ints=[0,0,1,2,0,0,2,1]>()
    repeats = Constant<value_ints=[1,2,1,3]>() shape = Constant<value_ints=[2,3,10]>()
    places = Constant<value_ints=[1]>() zero = Constant<value_float=0.0>() half = Constant<value_float=0.5>()
    scales = Constant<value_floats=[1.0,1.0,1.5,2.0]>() whole = Constant<value_int=1>()
    rows = Constant<value=int64[2,1]{3,1}>() five_more = Constant<value_floats=[0.5,0.25]>()
    few = Constant<value_ints=[3]>()"""

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


ALONE = """
Softmax(x) Softmax<axis=1>(x) LogSoftmax(x) ArgMax(x) LayerNormalization(x, ten)
InstanceNormalization(x, eight, eight) GlobalLpPool(x) MeanVarianceNormalization(x) LRN<size=3>(x)
ReduceMean(x, last) ReduceMax(x) ReduceProd(x, last) ReduceL1(x, last) ReduceLogSumExp(x, last)
ReduceMin(x, one) ArgMin<axis=-1, keepdims=0>(x) ArgMax<axis=2, select_last_index=1>(i)
ReduceSum(i, last) ReduceMax(i, one) Transpose<perm=[0,2,3,1]>(x) Transpose<perm=[3,2,1,0]>(x)
Transpose<perm=[0,3,1,2]>(i) Slice(x, one, five, last, two) Concat<axis=3>(x, x) Concat<axis=2>(x, x)
Pad(x, pads) Pad<mode="reflect">(x, pads) Pad<mode="edge">(x, pads) Tile(x, repeats)
Expand(ten, shape) Gather<axis=1>(x, places) GatherND(x, places) GatherElements<axis=3>(x, i)
Where(c, x, ten) Trilu(x) DepthToSpace<blocksize=2>(x) SpaceToDepth<blocksize=2>(x) Cast<to=6>(x)
Cast<to=1>(i) Clip(x, zero, half) Pow(x, half) Mod(i, places) Not(c) Xor(c, c) Less(x, ten) Div(i, i)
Erf(x) Tanh(x) Softplus(x) Mish(x) Round(x) Atan(x) Sinh(x) IsNaN(x) Sign(x) Max(x, ten)
Einsum<equation="bchw->bwhc">(x) Resize<mode="cubic">(x, , scales) Resize<mode="linear">(x, , scales)
GridSample(x, grid) QuantizeLinear(x, half) MaxPool<kernel_shape=[3,3], dilations=[2,2]>(x)
AveragePool<kernel_shape=[2,3], ceil_mode=1>(x) LpPool<kernel_shape=[2,2]>(x)
CumSum(x, whole) CumSum<reverse=1>(i, whole) ScatterND(ten, rows, five_more) ScatterElements(x, i, x)
"""
"""Each is no function of TVM's when it stands alone."""


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


def test_no_operator_falls_back_to_loops_of_tvm(tmp_path):
    calls = re.findall(r"\w+(?:<[^>]*(?:->[^>]*)?>)?\([^)]*\)", ALONE)
    body = " ".join(f"y{at} = {call}" for at, call in enumerate(calls))
    body += " best, which = TopK<axis=1>(x, few)"
    names = ", ".join([*(f"y{at}" for at in range(len(calls))), "best", "which"])
    text = f"""g (float[2,8,6,10] x, int64[2,8,6,10] i, bool[2,8,6,10] c, float[10] ten, float[8] eight,
        float[2,3,5,2] grid) => ({names}) {{ {CONSTANTS} {body} }}"""
    model = onnx.parser.parse_model(HEAD + text)
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    partition = load_partition(path, None)
    module = lower_partition(partition, plan_of(partition, {}, TARGET), TARGET, 1)
    left = reasons_of(module)
    assert {name: reason for name, reason in left.items() if "reshape" not in reason} == {}
    # Sorts and the like of TVM's are no functions of the module.
    assert "tvm.contrib" not in str(module["main"])
    own = own_functions(module)
    assert len(own) > len(calls) // 2
    assert not own & left.keys()


@pytest.mark.usefixtures("avx2")
def test_a_bound_leaves_nan_as_it_is(tmp_path):
    text = """g (float[3,21] x) => (float[3,21] a, float[3,21] b, float[3,21] c) {
        low = Constant<value_float=-0.5>() high = Constant<value_float=0.5>()
        a = Relu(x) b = Clip(x, low, high) d = Sin(x) c = HardSigmoid(d) }"""
    feeds, _, module = lowered(text, tmp_path)
    feeds["x"][:, ::5] = np.nan
    model = onnx.parser.parse_model(HEAD + text)
    expected = onnx_session(model.SerializeToString(), 1, optimised=False).run(None, feeds)
    for ours, right in zip(computed(module, feeds), expected, strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("avx2")
def test_no_function_computes_hundreds_of_operators(tmp_path):
    count = 3 * MOST_FUSED - 8
    nodes = " ".join(f"y{at + 1} = Tanh(y{at})" for at in range(count))
    feeds, expected, module = lowered(f"g (float[3,41] y0) => (float[3,41] y{count}) {{ {nodes} }}", tmp_path)
    assert str(module["main"]).count("call_tir(") == 3
    np.testing.assert_allclose(computed(module, feeds), expected, rtol=1e-4, atol=1e-6)
