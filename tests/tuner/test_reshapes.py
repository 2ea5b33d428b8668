"""Chains of operators that only reshape: one view, no copy."""

import re

import numpy as np
import pytest
import tvm
from tiny_models import model, node, save
from tvm import relax

from compiler.load import load_partition
from tuner.backend.apply import lower_partition, plan_of
from tuner.backend.comparison import run
from tuner.backend.executable import compile_module
from tuner.runtimes.engines import onnx_session
from worker.measure.host import host_target

RESHAPING = re.compile(r"fused|reshape|squeeze|expand_dims|[_\d]")
CHAINS = {
    "squeeze": [node("Reshape", ["a", "to"], "b"), node("Squeeze", ["b", "one"], "c")],
    "three": [
        node("Unsqueeze", ["a", "one"], "b"),
        node("Flatten", ["b"], "b1", axis=2),
        node("Reshape", ["b1", "narrow"], "c"),
    ],
    "read in between": [
        node("Unsqueeze", ["a", "one"], "b"),
        node("Squeeze", ["b", "one"], "c"),
        node("Neg", ["b"], "z"),
    ],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_reshapes_copies_nothing(tmp_path, chain):
    nodes = [node("MatMul", ["x", "w"], "a"), *CHAINS[chain], node("MatMul", ["c", "v"], "y")]
    outputs = ["y", "z"] if chain == "read in between" else ["y"]
    sizes = {"to": np.array([3, 1, 4]), "one": np.array([1]), "narrow": np.array([3, 4])}
    weights = {"w": (5, 4), "v": (4, 2)}
    path = save(tmp_path, model(nodes, {"x": (3, 5)}, outputs, {**sizes, **weights}))
    partition, target = load_partition(path, {}), host_target()
    module = lower_partition(partition, plan_of(partition, {}, target, 1), target, 1)
    main = relax.VirtualMachine(compile_module(module, target), tvm.cpu())["main"]
    x = np.random.default_rng().standard_normal((3, 5)).astype(np.float32)
    for ours, theirs in zip(
        run(main, {"x": x}), onnx_session(path.read_bytes(), 1).run(None, {"x": x}), strict=True
    ):
        assert ours.shape == theirs.shape
        assert np.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    called = [each.name_hint for each in module.functions if isinstance(module[each], tvm.tirx.PrimFunc)]
    # Of one reshape alone TVM's machine makes a view; of several that are fused it is a copy.
    copies = [name for name in called if name.startswith("fused_") and not RESHAPING.sub("", name)]
    assert not copies, called
