"""Small models as one call of TVM's machine: the same results, and the machine's own checks."""

import re
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tiny_models import model, node, save
from tvm import relax

from kernels.target import CATALOGUE
from tuner.backend.apply import build_model, export
from tuner.backend.sequence import MOST_ARENA, SEQUENCE
from tuner.runtimes.engines import onnx_session
from worker.measure.host import host_target

RNG = np.random.default_rng()


def built(path, **options):
    executable, _ = build_model(path, {}, host_target(), **options)
    return relax.VirtualMachine(executable, tvm.cpu())


def calls(machine, *inputs, builtin=False):
    """The functions that a run calls: the model's, or all."""
    names = []

    def count(_function, name, before, _result, *_):
        if before and (builtin or not name.startswith("vm.builtin.")):
            names.append(name)
        return 0

    machine.set_instrument(count)
    machine["main"](*map(tvm.runtime.tensor, inputs))
    machine.set_instrument(None)
    return names


def results(main, *inputs):
    found = main(*map(tvm.runtime.tensor, inputs))
    return [
        each.numpy()
        for each in (found if hasattr(found, "__len__") and not hasattr(found, "numpy") else [found])
    ]


def states(size=9):
    """Outputs that are read again, reshapes of all kinds of tensors, one kernel twice, a scalar."""
    nodes = [
        node("Reshape", ["x", "rows"], "r"),
        node("MatMul", ["r", "w"], "a"),
        node("Tanh", ["a"], "state"),
        node("MatMul", ["state", "v"], "b"),
        node("MatMul", ["b", "v"], "c"),
        node("Reshape", ["c", "flat"], "d"),
        node("Softmax", ["d"], "y", axis=0),
        node("ReduceSum", ["y"], "sum", keepdims=0),
        node("Transpose", ["c"], "turned", perm=[1, 0]),
    ]
    constants = {"w": (size, 5), "v": (5, 5), "rows": np.array([3, size]), "flat": np.array([-1])}
    return model(nodes, {"x": (1, 3, size, 1)}, ["state", "y", "sum", "turned"], constants)


def test_a_small_model_is_one_call_that_computes_the_same(tmp_path):
    path = save(tmp_path, states())
    together, apart = built(path), built(path, apart=True)
    for _ in range(3):
        x = RNG.standard_normal((1, 3, 9, 1)).astype(np.float32)
        one, each = results(together["main"], x), results(apart["main"], x)
        for mine, same, theirs in zip(
            one, each, onnx_session(path.read_bytes(), 1).run(None, {"x": x}), strict=True
        ):
            assert np.array_equal(mine, same)
            assert np.allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    # Nothing for the machine to do, not even memory: each takes as long as a small kernel.
    assert not calls(together, x, builtin=True)
    assert len(calls(apart, x)) > 4


def test_results_of_a_run_outlive_the_next(tmp_path):
    main = built(save(tmp_path, states()))["main"]
    inputs = [tvm.runtime.tensor(RNG.standard_normal((1, 3, 9, 1)).astype(np.float32)) for _ in range(2)]
    kept = main(inputs[0])[0]
    before = kept.numpy()
    assert not np.array_equal(main(inputs[1])[0].numpy(), before)
    assert np.array_equal(kept.numpy(), before)


def test_outputs_are_what_they_are_whoever_keeps_them(tmp_path):
    machine = built(save(tmp_path, states()))
    x = tvm.runtime.tensor(RNG.standard_normal((1, 3, 9, 1)).astype(np.float32))
    found = machine["main"](x)
    assert [tuple(each.shape) for each in found] == [(3, 5), (15,), (), (5, 3)]
    starts = [np.from_dlpack(each).ctypes.data for each in found]
    assert all(start % 64 == 0 for start in starts)
    # One of them keeps the memory of all, and the machine is not needed for that.
    total = float(found[2].numpy())
    kept = found[1]
    del found, machine
    assert np.allclose(kept.numpy().sum(), total)
    # An output is an input like any other.
    again = built(save(tmp_path, states()))["main"]
    turned = tvm.runtime.tensor(again(x)[3].numpy())
    assert np.array_equal(turned.numpy(), again(x)[3].numpy())


def test_the_machine_keeps_inputs_and_outputs_of_a_small_model(tmp_path):
    machine = built(save(tmp_path, states()))
    x = tvm.runtime.tensor(RNG.standard_normal((1, 3, 9, 1)).astype(np.float32))
    machine.set_input("main", x)
    machine.invoke_stateful("main")
    assert np.array_equal(machine.get_outputs("main")[0].numpy(), machine["main"](x)[0].numpy())


def test_models_with_functions_of_the_same_name_do_not_call_each_others(tmp_path):
    machines = []
    for number, size in enumerate((9, 7)):
        folder = tmp_path / str(number)
        folder.mkdir()
        executable, _ = build_model(save(folder, states(size)), {}, host_target())
        export(executable, folder / "built.so")
        machines.append(
            (size, relax.VirtualMachine(tvm.runtime.load_module(str(folder / "built.so")), tvm.cpu()))
        )
    for size, machine in machines:
        x = np.zeros((1, 3, size, 1), np.float32)
        assert np.array_equal(results(machine["main"], x)[0], np.zeros((3, 5)))


@pytest.mark.parametrize("x", [np.zeros((1, 3, 8, 1), np.float32), np.zeros((1, 3, 9, 1))])
def test_other_shapes_and_types_are_refused(tmp_path, x):
    with pytest.raises((ValueError, TypeError), match=r"Mismatched x\..*\n.*1, 3, 9, 1"):
        built(save(tmp_path, states()))["main"](tvm.runtime.tensor(x))


def test_only_what_comes_from_outside_is_checked(tmp_path):
    path, checks = save(tmp_path, states()), []
    for apart in (False, True):
        executable, _ = build_model(path, {}, host_target(), apart=apart)
        export(executable, tmp_path / "built.so")
        checks.append((tmp_path / "built.so").read_bytes().count(b"Mismatched "))
    assert 0 < checks[0] < checks[1] / 4


def test_larger_models_and_single_calls_stay_as_they_are(tmp_path):
    side = int(MOST_ARENA**0.5)
    nodes = [node("Softmax", ["x"], "a"), node("MatMul", ["a", "w"], "y")]
    path = save(tmp_path, model(nodes, {"x": (side, side)}, ["y"], {"w": (side, 3)}))
    assert len(calls(built(path), np.zeros((side, side), np.float32))) == 2
    one = save(tmp_path, model([node("Not", ["x"], "y")], {"x": (5,)}, ["y"], dtype=TensorProto.BOOL))
    assert SEQUENCE not in calls(built(one), np.zeros(5, bool))


def test_a_board_can_load_it(tmp_path):
    """What a module of this machine imports, the agent of a board like it offers: its functions run there."""
    executable, _ = build_model(save(tmp_path, states()), {}, host_target())
    export(executable, tmp_path / "model.so")
    content = (tmp_path / "model.so").read_bytes()
    offered = Path("worker/agent/exports.c").read_text()
    imported = {name.decode() for name in re.findall(rb"\bTVM(?:Backend|FFI)\w+", content)}
    assert {"TVMBackendAnyListSetPackedArg", "TVMFFITensorCreateUnsafeView"} < imported
    assert not [name for name in imported if name not in offered]
    # For others ``main`` is left to TVM's machine, as nobody here can run it.
    other = CATALOGUE["rpi4" if "x86" in host_target().triple else "x86-avx2"]
    executable, _ = build_model(save(tmp_path, states()), {}, other)
    export(executable, tmp_path / "other.so")
    assert b"TVMBackendAnyList" not in (tmp_path / "other.so").read_bytes()
