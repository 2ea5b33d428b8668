"""TFLite files of one operator each, of every type of data, built and run in a child beside LiteRT."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from ai_edge_litert.interpreter import Interpreter
from tvm import relax

from bench.tflite_models import FUSED, SAME, VALID, Maker
from compiler.ir.checks import ModelError
from tuner.backend.apply import build_model
from worker.measure.host import host_target

TYPES = ("float32", "int8", "uint8", "int16")
IMAGE, ROWS = (1, 5, 6, 4), (3, 7)
TARGET = host_target()
FLOATS, QUANTA = 1e-4, {"int16": 3}
"""What floats, relatively to the greatest, may be off, and integers of a type, where that is more than one:
LiteRT has tables of 513 points for functions of 16 bits."""
FLOATS_ALONE = ("div", "floor_div", "floor_mod", "log", "pow", "rsqrt", "sqrt")
"""Where random quanta would have no logarithm, root or quotient."""

OTHERWISE = {
    "reduce_prod": "LiteRT's product of 16 bits overflows where the real one saturates",
    "resize_bilinear": "LiteRT interpolates 16 bits by weights of ten",
}
"""Cases of int16 in which the exact result is taken; and what LiteRT does."""
WEIGHTED = ("convolution", "depthwise", "dense")
"""Cases whose weights have the type of the data, which TFLite has not for int16."""
RESIZES: tuple[dict[str, Any], ...] = (
    {}, {"halfPixelCenters": True}, {"alignCorners": True}, {"halfPixelCenters": True, "alignCorners": True},
)  # fmt: skip
Case = Callable[[Any], Any]
"""Makes a model; the number of its result."""


def _unary(kind: str, make: Any, shape: Any = IMAGE, low: float = -3.0, **options: Any) -> Any:
    data = make.input(shape, limits=(low, 3.0))
    limits = (0.0, 20.0) if kind in ("EXP", "SQUARE") else (-3.0, 3.0)
    if kind == "LOGISTIC":
        return make.operator(kind, [data], shape, result=_unit(make, shape, 0.0), **options)
    if kind == "TANH":
        return make.operator(kind, [data], shape, result=_unit(make, shape, -1.0), **options)
    return make.operator(kind, [data], shape, limits, **options)


def _unit(make: Any, shape: Any, low: float) -> Any:
    """A result in the one scale that TFLite allows for numbers up to 1."""
    scales: dict[str, tuple[float, int]] = {
        "int8": (1 / 256, -128) if low == 0 else (1 / 128, 0),
        "uint8": (1 / 256, 0) if low == 0 else (1 / 128, 128),
        "int16": (1 / 32768, 0),
    }
    if make.dtype not in scales:
        return make.tensor(shape)
    scale, zero = scales[make.dtype]
    return make.tensor(shape, scales=scale, zero=zero)


def _binary(kind: str, make: Any, second: Any = IMAGE, **options: Any) -> Any:
    limits = (0.5, 3.0) if kind in ("DIV", "FLOOR_DIV", "FLOOR_MOD", "POW") else (-3.0, 3.0)
    operands = [make.input(IMAGE, limits=limits), make.input(second, limits=limits, name="z")]
    if kind in ("MAXIMUM", "MINIMUM"):
        return make.like(kind, operands[0], IMAGE, operands[1:])
    return make.operator(kind, operands, IMAGE, (-9.0, 9.0), **options)


def _compared(kind: str, make: Any) -> Any:
    operands = [make.input(IMAGE), make.input((4,), name="z")]
    return make.operator(kind, operands, IMAGE, dtype="bool")


def _pool(kind: str, make: Any, kernel: int, stride: int, padding: int) -> Any:
    return make.pool(kind, make.input(IMAGE), kernel, stride, padding)


def _reduced(kind: str, make: Any, axes: tuple[int, ...], keep: bool) -> Any:
    shape = [1 if axis in axes else extent for axis, extent in enumerate(IMAGE)]
    if not keep:
        shape = [extent for axis, extent in enumerate(IMAGE) if axis not in axes]
    data = make.input(IMAGE)
    if kind in ("REDUCE_MAX", "REDUCE_MIN"):
        return make.like(kind, data, tuple(shape), [make.numbers(*axes)], keepDims=keep)
    limits = (-3.0, 3.0) if kind == "MEAN" else (-30.0, 30.0)
    return make.operator(kind, [data, make.numbers(*axes)], tuple(shape), limits, keepDims=keep)


def _resized(kind: str, make: Any, size: tuple[int, int], **flags: bool) -> Any:
    return make.like(kind, make.input(IMAGE), (1, *size, 4), [make.numbers(*size)], **flags)


def _moved(kind: str, make: Any, shape: Any, more: Any = (), data: Any = IMAGE, **options: Any) -> Any:
    return make.like(kind, make.input(data), shape, [make.numbers(*each) for each in more], **options)


def _joined(make: Any, axis: int) -> Any:
    one, shape = make.input(IMAGE), list(IMAGE)
    shape[axis] *= 2
    return make.like("CONCATENATION", one, tuple(shape), [make.input(IMAGE, name="z")], axis=axis)


def _placed(kind: str, make: Any, axis: int) -> Any:
    shape = tuple(extent for at, extent in enumerate(IMAGE) if at != axis % 4)
    return make.operator(kind, [make.input(IMAGE), make.numbers(axis)], shape, dtype="int32", outputType=2)


def _convolution(make: Any, **options: Any) -> Any:
    filters = 0 if options.get("depth") else 5
    return make.convolution(make.input((1, 9, 8, 4)), filters, **options)


def _dense(make: Any, **options: Any) -> Any:
    return make.dense(make.input((2, 3, 8)), 5, **options)


def _softmax(make: Any, beta: float) -> Any:
    return make.softmax(make.input(ROWS), beta)


CASES: dict[str, Case] = {
    **{
        f"{kind.lower()}_{len(shape)}": partial(_unary, kind, shape=shape)
        for kind in ("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOGISTIC", "NEG")
        for shape in (IMAGE, ROWS)
    },
    **{
        kind.lower(): partial(_unary, kind)
        for kind in ("RELU", "RELU6", "RELU_N1_TO_1", "ROUND", "SIGN", "SIN", "SQUARE", "TANH", "QUANTIZE")
    },
    **{kind.lower(): partial(_unary, kind, low=0.1) for kind in ("LOG", "RSQRT", "SQRT")},
    "leaky_relu": partial(_unary, "LEAKY_RELU", alpha=0.2),
    "gelu_tanh": partial(_unary, "GELU", approximate=True),
    **{
        f"{kind.lower()}_{len(second)}": partial(_binary, kind, second=second)
        for kind in ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB", "POW")
        for second in (IMAGE, (4,), (1, 1, 1, 1))
    },
    **{f"{kind}_relu6": partial(_binary, kind.upper(), fusedActivationFunction=FUSED.RELU6)
       for kind in ("add", "div", "mul", "sub")},
    **{kind.lower(): partial(_binary, kind) for kind in ("FLOOR_DIV", "FLOOR_MOD")},
    **{
        kind.lower(): partial(_compared, kind)
        for kind in ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
    },
    **{
        f"{kind.lower()}_pool_{kernel}_{stride}_{'same' if padding == SAME else 'valid'}": partial(
            _pool, kind, kernel=kernel, stride=stride, padding=padding
        )
        for kind in ("AVERAGE", "MAX")
        for kernel, stride in ((2, 2), (3, 1))
        for padding in (SAME, VALID)
    },
    **{
        f"{kind.lower()}_{''.join(map(str, axes))}{'_kept' * keep}": partial(
            _reduced, kind, axes=axes, keep=keep
        )
        for kind in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
        for axes in ((1, 2), (3,))
        for keep in (False, True)
    },
    **{
        f"{kind.lower()}_{axis}": partial(_placed, kind, axis=axis)
        for kind in ("ARG_MAX", "ARG_MIN")
        for axis in (1, -1)
    },
    **{
        f"{kind.lower()}_{size[0]}{''.join(f'_{flag}' for flag in flags)}": partial(
            _resized, kind, size=size, **flags
        )
        for kind in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
        for size in ((10, 12), (7, 3))
        for flags in RESIZES
    },
    **{f"concatenation_{axis}": partial(_joined, axis=axis) for axis in (1, 3)},
    "depth_to_space": partial(_moved, "DEPTH_TO_SPACE", shape=(1, 10, 12, 1), blockSize=2),
    "space_to_depth": partial(_moved, "SPACE_TO_DEPTH", shape=(1, 2, 3, 16), data=(1, 4, 6, 4), blockSize=2),
    "pad": partial(_moved, "PAD", shape=(1, 8, 7, 4), more=[((0, 0), (1, 2), (0, 1), (0, 0))]),
    "mirror_pad": partial(_moved, "MIRROR_PAD", shape=(1, 8, 7, 4), more=[((0, 0), (1, 2), (0, 1), (0, 0))]),
    "reshape": partial(_moved, "RESHAPE", shape=(4, 30), more=[(4, 30)], newShape=[4, 30]),
    "reverse": partial(_moved, "REVERSE_V2", shape=IMAGE, more=[(1,)]),
    "slice": partial(_moved, "SLICE", shape=(1, 3, 2, 4), more=[(0, 1, 2, 0), (1, 3, 2, 4)]),
    "strided_slice": partial(
        _moved, "STRIDED_SLICE", shape=(1, 2, 3, 4), more=[(0, 0, 1, 0), (1, 4, 6, 4), (1, 2, 2, 1)],
        beginMask=0, endMask=0, shrinkAxisMask=0, ellipsisMask=0, newAxisMask=0,
    ),
    "tile": partial(_moved, "TILE", shape=(1, 10, 6, 8), more=[(1, 2, 1, 2)]),
    "transpose": partial(_moved, "TRANSPOSE", shape=(1, 4, 5, 6), more=[(0, 3, 1, 2)]),
    "space_to_batch": partial(
        _moved, "SPACE_TO_BATCH_ND", shape=(4, 3, 3, 4), more=[(2, 2), ((0, 1), (0, 0))]
    ),
    "batch_to_space": partial(
        _moved, "BATCH_TO_SPACE_ND", shape=(1, 5, 6, 4), data=(4, 3, 3, 4), more=[(2, 2), ((0, 1), (0, 0))]
    ),
    **{f"convolution_{number}": partial(_convolution, **options) for number, options in enumerate((
        {}, {"stride": 2}, {"padding": VALID}, {"dilation": 2}, {"kernel": (1, 1)}, {"fused": FUSED.RELU6},
        {"groups": 2, "kernel": (3, 2)}, {"kernel": (5, 1), "fused": FUSED.RELU},
    ))},
    **{f"depthwise_{number}": partial(_convolution, depth=depth, **options)
       for depth in (1, 2) for number, options in enumerate((
        {}, {"stride": 2}, {"padding": VALID, "fused": FUSED.RELU6}), 3 * depth)},
    **{f"dense_{number}": partial(_dense, **options) for number, options in enumerate((
        {}, {"keep": True}, {"fused": FUSED.RELU}, {"bias": False}))},
    "softmax": partial(_softmax, beta=1.0),
    "softmax_beta": partial(_softmax, beta=0.5),
}  # fmt: skip
"""Every operator with the attributes that matter."""


def run(payload: dict[str, Any]) -> dict[str, str]:
    """Child: the case ``name`` of data of ``form``; as ``bench.conformance_case.run`` answers, and ``absent``
    where LiteRT does not take such a file."""
    if payload["form"] != "float32" and payload["name"].rstrip("_0123456789").startswith(FLOATS_ALONE):
        return {"verdict": "absent", "reason": "of floats alone"}
    if payload["form"] == "int16":
        for start, reason in OTHERWISE.items():
            if payload["name"].startswith(start):
                return {"verdict": "otherwise", "reason": reason}
        if payload["name"].startswith(WEIGHTED):
            return {"verdict": "absent", "reason": "weights of 16 bits"}
    make: Any = Maker(payload["form"])
    data = make.file(CASES[payload["name"]](make))
    try:
        feeds, wanted = _by_litert(data)
    except (RuntimeError, ValueError) as error:
        return {"verdict": "absent", "reason": str(error).partition("\n")[0][:200]}
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        try:
            executable, _ = build_model(path, {}, TARGET)
        except ModelError as error:
            return {"verdict": "refused", "reason": str(error)}
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    reason = _difference(main(*map(tvm.runtime.tensor, feeds)).numpy(), wanted)
    return {"verdict": "wrong" if reason else "right", "reason": reason}


def _by_litert(data: bytes) -> tuple[list[Any], Any]:
    """Random inputs in their order, and the result."""
    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    random, feeds = np.random.default_rng(0), []
    for detail in interpreter.get_input_details():
        kind, shape = np.dtype(detail["dtype"]), detail["shape"]
        if kind.kind == "f":
            value = random.uniform(0.2, 2.5, shape).astype(kind)
            value *= 1 if detail["name"] == "z" else random.choice([-1, 1])
        else:
            limits = np.iinfo(kind)
            # LiteRT's NEG makes the least number of itself.
            value = random.integers(limits.min + 1, limits.max + 1, shape).astype(kind)
        feeds.append(value)
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return feeds, interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def _difference(found: Any, wanted: Any) -> str:
    if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
        return f"it is {found.dtype}{[*found.shape]} for {wanted.dtype}{[*wanted.shape]}"
    if wanted.dtype.kind == "f":
        scale = float(np.nanmax(np.abs(wanted[np.isfinite(wanted)]), initial=1.0))
        if np.allclose(found, wanted, 0, FLOATS * scale, equal_nan=True):
            return ""
        return f"differs by up to {np.nanmax(np.abs(found - wanted)):.2g}"
    off = int(np.abs(found.astype(np.int64) - wanted.astype(np.int64)).max())
    return f"differs by up to {off} quanta" if off > QUANTA.get(wanted.dtype.name, 1) else ""
