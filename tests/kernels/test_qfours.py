"""Four products added in 16 bits: how weights are packed, and that no sum leaves 16 bits."""

import numpy as np
import pytest

from kernels import registry
from kernels.int8.arm.blocks.fours import MOST, PARTS, UNIT, Fours
from kernels.int8.reference import random_inputs, reference
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import QConv2d

GEMM, RPI4 = registry.kernel("qgemm"), CATALOGUE["rpi4"]
SIGNED = {"data_dtype": "int8", "weight_range": (-127, 127)}


def panels_of(block, packed, steps):
    """(fitting steps, offsets, weights (step, column, part, ``UNIT``)) of each panel."""
    for each in packed.reshape(-1, block.length(steps)):
        header = np.ascontiguousarray(each[: len(each) - block.columns * block.depth * steps]).view(np.int32)
        body = each[header.nbytes :].reshape(steps, block.columns, PARTS, UNIT)
        yield header[0], header[1 : 1 + PARTS * steps].reshape(steps, PARTS), body.astype(np.int64)


@pytest.mark.parametrize("depth", [24, 72, 512])
def test_packed_panels_have_every_product_once_and_none_leaves_16_bits(depth):
    conv = QConv2d(1, 1, 1, depth, 21, 1, 1, out_dtype="int32", **SIGNED)
    data, weights, bias = random_inputs(conv, np.random.default_rng(depth))
    config = Config.of(
        "qgemm", block="fours", chain=1, columns=7, rows=1, rows_from="data", slab=1, requant="none"
    )
    plan = GEMM.plan(conv, config, RPI4)
    row, sums, fit = data.reshape(-1).astype(np.int64), [], 0
    for fits, offsets, panel in panels_of(plan.block, plan.pack(weights), plan.steps):
        fit += fits
        elements = row[offsets[..., None] + np.arange(UNIT)]
        products = elements[:, None] * panel
        for step, of_step in enumerate(products):
            together = of_step.sum(1) if step < fits else of_step.reshape(7, 2, 2, UNIT).sum(2)
            assert np.abs(together).max() < 1 << 15
            assert np.abs(panel[step]).sum(1).max() <= MOST or step >= fits
        sums.append(products.sum((0, 2, 3)))
    # The reference's data have their zero point off, here the bias has.
    assert np.array_equal(
        np.concatenate(sums) + plan.constants([data, weights, bias])[1][:21],
        reference(conv, [data, weights, bias]).reshape(-1),
    )
    assert fit or depth < 72


def test_weights_as_networks_have_them_fit():
    """Normal weights, one scale a filter: hardly any step is left once units were exchanged."""
    weights = np.random.default_rng(0).normal(0, 127 / 3.5, (16, 32, 64)).clip(-127, 127).astype(np.int32)
    block = Fours(2, 8)
    fitting = sum(fits for fits, _, _ in panels_of(block, block.pack(weights), 16))
    assert fitting / (8 * 16) > 0.95


def test_weights_of_which_just_four_fit_are_told_from_those_that_do_not():
    block = Fours(1, 1)
    for last, fits in ((1, 1), (2, 0)):
        weights = np.zeros((1, 32, 1), np.int32)
        weights[0, ::UNIT, 0] = [127, 127, 0, -last]
        ((found, _, _),) = panels_of(block, block.pack(weights), 1)
        assert found == fits


def test_where_there_are_no_fours():
    def why(conv, target=RPI4, **knobs):
        knobs = {"chain": 1, "columns": 4, "rows": 2, "rows_from": "tiles", "slab": 1} | knobs
        config = Config.of("qgemm", block="fours", requant="none", **knobs)
        return GEMM.plan(conv, config, target).why_not()

    conv = QConv2d(1, 4, 4, 20, 8, 1, 1, out_dtype="int32", **SIGNED)
    assert why(conv) is None
    assert "multiple of 8" in why(conv, rows_from="data")
    assert "not of fours" in why(conv, chain=2)
    assert "registers" in why(conv, CATALOGUE["rpi4-32"])
    unsigned = QConv2d(1, 4, 4, 20, 8, 1, 1, data_dtype="uint8", weight_dtype="uint8", out_dtype="int32")
    assert why(unsigned) == "fours multiply signed bytes"
