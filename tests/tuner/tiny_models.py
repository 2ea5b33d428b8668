"""Small ONNX models made for one test each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LIGHT_MODELS = sorted(path.stem for path in LIGHT.glob("light_*.onnx"))

Shape = Sequence[int | str]


def node(op: str, inputs: list[str], outputs: str | list[str], **attributes: Any) -> NodeProto:
    """A node named like its first output."""
    names = [outputs] if isinstance(outputs, str) else outputs
    return helper.make_node(op, inputs, names, name=names[0], **attributes)


def model(
    nodes: list[NodeProto],
    inputs: dict[str, Shape],
    outputs: list[str],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    dtype: int = TensorProto.FLOAT,
    **fields: Any,
) -> ModelProto:
    """A model; constants are arrays, or shapes (tuples) for random float32 values."""
    rng = np.random.default_rng(0)
    tensors = []
    for name, value in (constants or {}).items():
        array = rng.standard_normal(value).astype(np.float32) if isinstance(value, tuple) else value
        tensors.append(numpy_helper.from_array(np.asarray(array), name))
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, None) for name in outputs],
        tensors,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], **{"ir_version": 8, **fields}
    )


def save(path: Path, made: ModelProto) -> Path:
    """Write the model to ``path / "model.onnx"``."""
    file = path / "model.onnx"
    file.write_bytes(made.SerializeToString())
    return file
