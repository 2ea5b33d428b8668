"""Where a module would allocate within a loop, a function of a C library calls what does nothing."""

import pytest
from tvm.script import tirx as T

from kernels.emit.compile import KERNEL_ATTRIBUTE
from kernels.target import CATALOGUE
from tuner.clibrary.elf import facts_of
from tuner.clibrary.plain import compile_plain

TARGET = CATALOGUE["x86-avx2"]


@T.prim_func(private=True)
def within(x: T.Buffer((9, 700), "float32"), y: T.Buffer((9, 700), "float32")):
    for row in range(9):
        line = T.alloc_buffer((700,), "float32")
        for at in range(700):
            line[at] = x[row, 699 - at]
        for at in range(700):
            y[row, at] = line[at] + line[699 - at]


@T.prim_func(private=True)
def around(x: T.Buffer((9, 700), "float32"), y: T.Buffer((9, 700), "float32")):
    line = T.alloc_buffer((700,), "float32")
    for row in range(9):
        for at in range(700):
            line[at] = x[row, 699 - at]
        for at in range(700):
            y[row, at] = line[at] + line[699 - at]


@T.prim_func(private=True)
def on_stack(x: T.Buffer((9, 70), "float32"), y: T.Buffer((9, 70), "float32")):
    for row in range(9):
        line = T.alloc_buffer((70,), "float32")
        for at in range(70):
            line[at] = x[row, 69 - at]
        for at in range(70):
            y[row, at] = line[at] + line[69 - at]


@pytest.mark.parametrize(
    ("function", "workspace", "calls"),
    [(within, 2816, True), (around, 2816, False), (on_stack, 0, False)],
    ids=["within a loop", "around it", "on the stack"],
)
def test_only_a_workspace_within_a_loop_is_set_apart(tmp_path, function, workspace, calls):
    # TVM's own functions have their buffers moved out of their loops before.
    kernel = function.with_attr(KERNEL_ATTRIBUTE, True)
    unit = compile_plain({"f": kernel}, TARGET, 1, {"f": "f"}, {"f"}, "net_apart")
    unit.code.write_to_file(str(tmp_path / "f.o"), "o")
    assert unit.workspace == {"f": workspace}
    assert ("net_apart" in facts_of((tmp_path / "f.o").read_bytes()).imports) == calls
