"""How each operator of TFLite is read: what it is in ONNX, by ``READERS``."""

from __future__ import annotations

from functools import partial

from tuner.frontend.quantized.operators import TFLITE
from tuner.frontend.tflite import elementwise, images, moves, reductions, warps
from tuner.frontend.tflite.operands import Reader
from tuner.frontend.tflite.products import batched, convolution, fully_connected

READERS: dict[str, Reader] = {
    **{kind: elementwise.elementwise(onnx) for kind, onnx in TFLITE.items()},
    **{kind: partial(elementwise.unary, steps=[(onnx, [], {})]) for kind, onnx in elementwise.UNARY.items()},
    **{kind: partial(elementwise.binary, onnx=onnx) for kind, onnx in elementwise.BINARY.items()},
    **dict.fromkeys((*elementwise.CLAMPS, "QUANTIZE"), elementwise.unary),
    **dict.fromkeys(("SELECT", "SELECT_V2"), elementwise.select),
    "CAST": elementwise.cast,
    "DEQUANTIZE": elementwise.dequantize,
    "FLOOR_DIV": elementwise.floor_of_quotient,
    "GELU": elementwise.gelu,
    "LEAKY_RELU": elementwise.leaky,
    "NOT_EQUAL": elementwise.not_equal,
    "RSQRT": elementwise.reciprocal_root,
    "SQUARE": elementwise.square,
    "SQUARED_DIFFERENCE": elementwise.squared_difference,
    **dict.fromkeys(images.POOLS, images.pool),
    "DEPTH_TO_SPACE": partial(images.blocks, onnx="DepthToSpace"),
    "SPACE_TO_DEPTH": partial(images.blocks, onnx="SpaceToDepth"),
    "RESIZE_BILINEAR": partial(images.resize, mode="linear"),
    "RESIZE_NEAREST_NEIGHBOR": partial(images.resize, mode="nearest"),
    "TRANSPOSE_CONV": images.transposed,
    images.TRANSPOSED_WITH_BIAS: images.transposed_with_bias,
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), convolution),
    "BATCH_MATMUL": batched,
    "FULLY_CONNECTED": fully_connected,
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), moves.reshape),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), moves.pad),
    **dict.fromkeys(("SPLIT", "SPLIT_V", "UNPACK"), moves.split),
    **dict.fromkeys(("GATHER", "EMBEDDING_LOOKUP"), moves.gather),
    "BROADCAST_TO": moves.expand,
    "CONCATENATION": moves.concatenation,
    "DENSIFY": moves.densify,
    "PACK": moves.pack,
    "REVERSE_V2": moves.reverse,
    "SHAPE": moves.shape_of,
    "SLICE": moves.part,
    "STRIDED_SLICE": moves.strided_slice,
    "TILE": moves.tile,
    "TRANSPOSE": moves.transpose,
    "ARG_MAX": partial(reductions.position, onnx="ArgMax"),
    "ARG_MIN": partial(reductions.position, onnx="ArgMin"),
    "CUMSUM": reductions.running_sum,
    "L2_NORMALIZATION": reductions.normalization,
    "MEAN": partial(reductions.reduction, onnx="ReduceMean"),
    "REDUCE_MAX": partial(reductions.reduction, onnx="ReduceMax"),
    "REDUCE_MIN": partial(reductions.reduction, onnx="ReduceMin"),
    "REDUCE_PROD": partial(reductions.reduction, onnx="ReduceProd"),
    "SUM": partial(reductions.reduction, onnx="ReduceSum"),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX"), reductions.softmax),
    warps.CROP_MATRIX: warps.crop_matrix,
    warps.MOVED_POINTS: warps.moved_points,
    warps.MOVED_IMAGE: warps.moved_image,
}
