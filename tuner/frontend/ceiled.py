"""Pools whose last window would begin in the padding at the end, which is no window.

So onnxruntime and PyTorch have it, and onnx itself from operator set 22 on; before, its inference counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx import NodeProto, helper

POOLS = ("AveragePool", "LpPool", "MaxPool")


def drop_windows(
    nodes: list[NodeProto], shapes: Callable[[list[NodeProto]], Mapping[str, Sequence[int]]]
) -> None:
    """Write such a pool without ``ceil_mode`` and with as much padding as is left to its windows, in place.

    ``shapes`` tells those of all tensors as far as some of the nodes say.
    """
    for place, node in enumerate(nodes):
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if (
            node.op_type not in POOLS
            or not said.get("ceil_mode")
            or said.get("auto_pad", b"NOTSET") != b"NOTSET"
        ):
            continue
        kernel = said.get("kernel_shape", ())
        ones, none = [1] * len(kernel), [0] * len(kernel)
        steps, spreads = (said.get(name, ones) for name in ("strides", "dilations"))
        pads = said.get("pads", [*none, *none])
        reach = [spread * (taps - 1) + 1 for taps, spread in zip(kernel, spreads, strict=True)]
        if not any(pads) and all(step <= each for step, each in zip(steps, reach, strict=True)):
            continue
        size = shapes(nodes[:place]).get(node.input[0], ())[2:]
        if len(size) != len(kernel) or min(steps) < 1:
            continue
        ends, dropped = [], False
        for extent, step, long, begin, end in zip(
            size, steps, reach, pads[: len(kernel)], pads[len(kernel) :], strict=True
        ):
            count = -((extent + begin + end - long) // -step) + 1
            dropped |= (count - 1) * step >= extent + begin
            count -= (count - 1) * step >= extent + begin
            ends.append(max(0, (count - 1) * step + long - extent - begin))
        if not dropped:
            continue
        kept = [each for each in node.attribute if each.name not in ("ceil_mode", "pads")]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute("pads", [*pads[: len(kernel)], *ends])])
