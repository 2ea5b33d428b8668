"""Models of older operator sets, which lack what operators of other domains become."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from onnx import ModelProto, NodeProto, version_converter


def raise_opset(model: ModelProto, least: Callable[[NodeProto], int]) -> None:
    """Bring ``model`` to the set of operators that its nodes need by ``least``, in place, if it can."""
    wanted = max(map(least, model.graph.node), default=0)
    if any(each.domain in ("", "ai.onnx") and each.version >= wanted for each in model.opset_import):
        return
    if not wanted:
        return
    others = [node for node in model.graph.node if node.domain not in ("", "ai.onnx") and node.output]
    # The converter, which makes several copies, need not see tables of trees.
    kept = {node.output[0]: list(node.attribute) for node in others}
    for node in others:
        del node.attribute[:]
    # It raises what it likes; what cannot be read as it is, is refused by its operator.
    with suppress(Exception):
        model.CopyFrom(version_converter.convert_version(model, wanted))
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx") and node.output:
            node.attribute.extend(kept[node.output[0]])
