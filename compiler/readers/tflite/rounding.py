"""Where LiteRT rounds what a TFLite file says is real, or interpolates."""

from __future__ import annotations

from compiler.readers.tflite.file import read_file

_LAYERS = {
    *("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "BATCH_MATMUL", "SVDF"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM",),
}


def data_as_bytes(data: bytes) -> bool:
    """Whether a layer has floats by weights of bytes: LiteRT rounds its data to bytes then."""
    for graph in read_file(data):
        for op in graph.operators:
            tensors = [graph.tensors[index] for index in op.inputs if index >= 0]
            floats = any(each.dtype == "float32" and each.raw is None for each in tensors)
            if (
                op.kind in _LAYERS
                and floats
                and any(each.quantized and each.raw is not None for each in tensors)
            ):
                return True
    return False


def of_16_bits(data: bytes) -> bool:
    """Whether activations have 16 bits: LiteRT has functions of those in tables."""
    return any(
        tensor.dtype == "int16" and tensor.raw is None
        for graph in read_file(data)
        for tensor in graph.tensors
    )
