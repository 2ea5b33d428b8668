"""Loops of ours beside TVM's own for the same functions, between pages that may not be touched."""

import loops_cases
import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels.emit.compile import KERNEL_ATTRIBUTE, MODEL_PIPELINE
from kernels.loops.program import NoLoops
from kernels.loops.schedule import schedule
from kernels.target import CATALOGUE

# In one worker of pytest-xdist, so that the modules are built once.
pytestmark = pytest.mark.xdist_group("loops")

HOST = CATALOGUE["x86-avx2"]
SMALL, LARGE = loops_cases.functions(), loops_cases.large()
FUNCTIONS = {**SMALL, **{f"by threads: {name}": each for name, each in LARGE.items()}}


@pytest.fixture(scope="module")
def built():
    """A module of ours, and one of TVM's, which only has to be right and is not optimised."""
    ours, tvms = {}, {}
    for at, (name, (function, _)) in enumerate(FUNCTIONS.items()):
        made = schedule(function, HOST, 1 if name in SMALL else 2, f"f{at}")
        assert ("T.parallel" in made.script(show_meta=False)) == (name not in SMALL)
        ours[f"f{at}"], tvms[f"f{at}"] = made.with_attr({KERNEL_ATTRIBUTE: True}), function
    return [
        tvm.tirx.build(loops_cases.module(functions), tvm.target.Target(target), pipeline=MODEL_PIPELINE)
        for functions, target in ((ours, HOST.tvm), (tvms, {**HOST.tvm, "opt-level": 0}))
    ]


def random(parameter, rng):
    shape, dtype = tuple(map(int, parameter.shape)), str(parameter.dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(0, 3, shape).astype(dtype)
    return rng.uniform(0.2, 1.5, shape).astype(dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_our_loops_compute_what_tvms_do(built, name):
    function, taken = FUNCTIONS[name]
    at = list(FUNCTIONS).index(name)
    rng = np.random.default_rng()
    arrays = [random(parameter, rng) for parameter in function.params]
    results = []
    for module in built:
        buffers = [guarded(array) for array in arrays]
        module[f"f{at}"](*map(tvm.runtime.from_dlpack, buffers))
        results.append(buffers[taken:])
    for ours, tvms in zip(*results, strict=True):
        if tvms.dtype.kind != "f":
            np.testing.assert_array_equal(ours, tvms)
        else:
            limit = {2: 1e-2, 4: 1e-5, 8: 1e-12}[tvms.dtype.itemsize]
            np.testing.assert_allclose(ours, tvms, rtol=limit, atol=limit)


def test_what_relax_does_without_a_loop_is_left_to_it():
    x = loops_cases.array(2, 12)
    function = tvm.te.create_prim_func([x, tvm.topi.reshape(x, (4, 6))])
    with pytest.raises(NoLoops, match="reshape"):
        schedule(function, HOST, 1, "main")


def test_products_are_left_to_others():
    x, y = loops_cases.array(2, 3), loops_cases.array(3, 4, name="y")
    with pytest.raises(NoLoops, match="product"):
        schedule(tvm.te.create_prim_func([x, y, tvm.topi.matmul(x, y)]), HOST, 1, "main")


def test_a_failure_on_the_way_leaves_nothing_behind(monkeypatch):
    x = loops_cases.array(3, 11)
    function = tvm.te.create_prim_func([x, tvm.topi.nn.softmax(x)])
    with monkeypatch.context() as patch:
        patch.setattr("kernels.loops.rows.emit_sums", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            schedule(function, HOST, 1, "main")
    assert "T.vectorized" in schedule(function, HOST, 1, "main").script(show_meta=False)
