"""SConv through POWER10's matrix unit. That its results are right is shown on a simulated POWER10."""

import re

import pytest
import tvm
from on_targets import assembly_of

from kernels import registry
from kernels.emit.compile import KERNEL_ATTRIBUTE, MODEL_PIPELINE
from kernels.float.sconv.mma import MatrixSConv
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Epilogue, Gemm

KERNEL, POWER10 = registry.kernel(MatrixSConv.name), CATALOGUE["power10"]
CONV = Conv2d(1, 32, 28, 28, 48, 3, 3, pad=(1, 1, 1, 1), epilogue=Epilogue(bias=True))


def innermost_loops(text):
    """The bodies of the loops that have no other label inside."""
    lines = text.splitlines()
    labels = {line.split(":")[0]: number for number, line in enumerate(lines) if line.startswith(".LBB")}
    jumps = [
        (labels.get(line.split()[-1], number), number) for number, line in enumerate(lines) if "\tb" in line
    ]
    loops = [lines[start + 1 : end] for start, end in jumps if start < end]
    return [body for body in loops if not any(line.startswith(".LBB") for line in body)]


def accumulators(body):
    return {match for line in body for match in re.findall(r"xvf32gerpp (\d)", line)}


@pytest.mark.parametrize(("filters", "vectors"), KERNEL.blocks(POWER10))
def test_sums_stay_in_the_accumulators(filters, vectors):
    """The inner loop of a full block: an outer product an accumulator, and nothing moved or stored."""
    config = next(
        c for c in KERNEL.space(CONV, POWER10) if c["block"] == f"{filters}x{vectors}" and c["pack"]
    )
    text = assembly_of(KERNEL, CONV, config, POWER10)
    assert "tilefleet_mma" not in text  # all inlined
    full = [body for body in innermost_loops(text) if len(accumulators(body)) == filters // 4 * vectors]
    assert full
    for body in full:
        assert not [line for line in body if re.search(r"\bst|xxm[tf]acc", line)]
        # Packed windows lie one behind the other: a load brings two vectors of them.
        assert any("lxvp" in line for line in body)


def test_two_kernels_of_one_module_share_the_linked_functions():
    config = KERNEL.recommend(CONV, POWER10)
    functions = {
        name: KERNEL.build(CONV, config, POWER10, 1, name).with_attr(KERNEL_ATTRIBUTE, True)
        for name in ("first", "second")
    }
    target = tvm.target.Target(POWER10.tvm)
    module = tvm.tirx.build(tvm.IRModule(functions), target=target, pipeline=MODEL_PIPELINE)
    assert module.inspect_source("asm").count("xvf32gerpp") >= 2 * 8


def test_only_where_the_unit_is():
    assert KERNEL.why_not(CONV, POWER10) is None
    assert "no matrix unit" in KERNEL.why_not(CONV, CATALOGUE["rpi4"])
    assert KERNEL.why_not(Gemm(4, 4, 4), POWER10) == "computes conv2d, not gemm"
    assert KERNEL in registry.applicable(CONV, POWER10)
