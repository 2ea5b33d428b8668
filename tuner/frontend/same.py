"""Padding of transposed convolutions that auto_pad alone says.

onnx's inference adds ``output_padding`` to a result that SAME has made as large as the data times their
strides; its reference and onnxruntime make the padding larger instead, which depends on the window alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt
from onnx import NodeProto, helper

SAME = (b"SAME_UPPER", b"SAME_LOWER")


def pad_transposed(
    nodes: list[NodeProto],
    constants: Mapping[str, npt.NDArray[Any]],
    shapes: Callable[[list[NodeProto]], Mapping[str, Sequence[int]]],
) -> None:
    """Write SAME of each ConvTranspose as ``pads``, in place, where the extents of its window are known.

    ``shapes`` tells those of all tensors as far as some of the nodes say.
    """
    for place, node in enumerate(nodes):
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type != "ConvTranspose" or said.get("auto_pad") not in SAME or "output_shape" in said:
            continue
        weights = node.input[1]
        known = constants[weights].shape if weights in constants else shapes(nodes[:place]).get(weights, ())
        kernel = known[2:]
        if not kernel:
            continue
        ones, none = [1] * len(kernel), [0] * len(kernel)
        steps, spreads = (said.get(name, ones) for name in ("strides", "dilations"))
        extra = said.get("output_padding", none)
        totals = [
            max(0, spread * (taps - 1) + 1 - step + more)
            for taps, step, spread, more in zip(kernel, steps, spreads, extra, strict=True)
        ]
        kept = [each for each in node.attribute if each.name not in ("auto_pad", "pads")]
        del node.attribute[:]
        node.attribute.extend(kept)
        pads = split(totals, more_first=said["auto_pad"] == b"SAME_LOWER")
        node.attribute.append(helper.make_attribute("pads", pads))


def split(totals: Sequence[int], more_first: bool) -> list[int]:
    """``pads`` that are each of ``totals`` together, the larger half first or last."""
    large = [total - total // 2 for total in totals]
    small = [total // 2 for total in totals]
    return [*large, *small] if more_first else [*small, *large]
