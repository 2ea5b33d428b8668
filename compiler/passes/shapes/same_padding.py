"""SAME padding of transposed convolutions in numbers, before anything infers their shapes.

onnx's inference adds ``output_padding`` to a result that SAME has made as large as the data times their
strides; its reference and onnxruntime make the padding larger instead, which depends on the window alone.
Of an ``output_shape`` below the data's it infers a result without extents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt
from onnx import NodeProto, helper

SAME = (b"SAME_UPPER", b"SAME_LOWER")
SAID = (*SAME, b"NOTSET", b"VALID")


def pad_transposed(
    nodes: list[NodeProto],
    constants: Mapping[str, npt.NDArray[Any]],
    shapes: Callable[[list[NodeProto]], Mapping[str, Sequence[int]]],
) -> None:
    """Write ``auto_pad`` and ``output_shape`` of each ConvTranspose as ``pads`` and ``output_padding``, in
    place, where the extents that they need are known.

    ``shapes`` tells those of all tensors as far as some of the nodes say.
    """
    for place, node in enumerate(nodes):
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        mode, wanted = said.get("auto_pad", b"NOTSET"), said.get("output_shape")
        if node.op_type != "ConvTranspose" or mode not in SAID or (mode == b"NOTSET" and wanted is None):
            continue
        known = {**shapes(nodes[:place]), **{name: value.shape for name, value in constants.items()}}
        kernel, size = (tuple(known.get(name, ()))[2:] for name in reversed(node.input[:2]))
        if not kernel or (wanted is not None and len(size) != len(kernel)):
            continue
        ones, none = [1] * len(kernel), [0] * len(kernel)
        steps, spreads = (said.get(name, ones) for name in ("strides", "dilations"))
        extra = list(said.get("output_padding", none))
        if wanted is not None:
            whole = [
                (extent - 1) * step + (taps - 1) * spread + 1 + more
                for extent, taps, step, spread, more in zip(size, kernel, steps, spreads, extra, strict=True)
            ]
            totals = [have - want for have, want in zip(whole, wanted[-len(size) :], strict=True)]
            # What is missing is made at the end.
            extra = [more + max(0, -total) for more, total in zip(extra, totals, strict=True)]
            more_first = mode != b"SAME_UPPER"
        else:
            totals = [
                spread * (taps - 1) + 1 - step + more if mode in SAME else 0
                for taps, step, spread, more in zip(kernel, steps, spreads, extra, strict=True)
            ]
            more_first = mode == b"SAME_LOWER"
        written = {
            "pads": split([max(0, total) for total in totals], more_first),
            "output_padding": extra,
        }
        dropped = ("auto_pad", "output_shape", *written)
        kept = [each for each in node.attribute if each.name not in dropped]
        del node.attribute[:]
        node.attribute.extend([*kept, *(helper.make_attribute(*each) for each in written.items())])


def split(totals: Sequence[int], more_first: bool) -> list[int]:
    """``pads`` that are each of ``totals`` together, the larger half first or last."""
    large = [total - total // 2 for total in totals]
    small = [total // 2 for total in totals]
    return [*large, *small] if more_first else [*small, *large]
