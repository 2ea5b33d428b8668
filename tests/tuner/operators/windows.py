"""Operators over windows of an image: convolutions, pools, sampling."""

import numpy as np
from one_operator import Constant, case, const, floats, integers

# fmt: off


X, LINE, CUBE = floats(1, 4, 7, 6), floats(2, 4, 9), floats(1, 2, 5, 6, 4)
W, W1 = Constant(floats(6, 4, 3, 3, seed=5)), Constant(floats(6, 4, 3, seed=5))
W3 = Constant(floats(3, 2, 2, 3, 2, seed=5))
DOUBLE, SAME = X.astype(np.float64), ("SAME_UPPER", "SAME_LOWER")
T = Constant(floats(4, 5, 3, 2, seed=6))

R, ROIS = floats(1, 2, 5, 6), Constant(np.array([[0.5, 0.5, 4, 5], [1, 0, 3, 3]], np.float32))
GRID = Constant(floats(1, 3, 4, 2, seed=7))

CONVOLUTIONS = [
    case("Conv", X, W), case("Conv", X, W, pads=[1, 0, 2, 1], strides=[2, 1]),
    case("Conv", X, W, dilations=[2, 2], pads=[2, 2, 2, 2]),
    case("Conv", X, Constant(floats(8, 1, 3, 3)), group=4),
    case("Conv", X, Constant(floats(4, 2, 3, 3)), Constant(floats(4)), group=2),
    *(case("Conv", X, W, auto_pad=way, strides=[2, 2]) for way in (*SAME, "VALID")),
    case("Conv", X, floats(6, 4, 3, 3), floats(6)),
    case("Conv", X, floats(4, 4, 2, 2), auto_pad="SAME_LOWER"),
    case("Conv", DOUBLE, Constant(floats(6, 4, 3, 3, dtype=np.float64))),
    case("Conv", DOUBLE, Constant(floats(6, 4, 2, 2, dtype=np.float64)), auto_pad="SAME_LOWER"),
    case("Conv", LINE, W1, pads=[1, 1], strides=[2]),
    case("Conv", LINE, W1, Constant(floats(6)), dilations=[2]),
    *(case("Conv", LINE, Constant(floats(6, 4, 2)), auto_pad=way) for way in SAME),
    case("Conv", CUBE, W3, Constant(floats(3))),
    case("Conv", CUBE, W3, pads=[1, 0, 1, 0, 1, 1], strides=[2, 1, 2]),
    case("Conv", CUBE, W3, auto_pad="SAME_UPPER"),
    case("Conv", CUBE, W3, auto_pad="SAME_LOWER", strides=[2, 2, 2]), case("ConvTranspose", X, T),
    case("ConvTranspose", X, T, strides=[2, 2], pads=[1, 0, 1, 1], output_padding=[1, 0]),
    case("ConvTranspose", X, T, Constant(floats(5)), strides=[3, 2]),
    case("ConvTranspose", X, Constant(floats(4, 3, 3, 2)), group=2),
    case("ConvTranspose", X, T, dilations=[2, 2]),
    case("ConvTranspose", X, T, strides=[2, 2], output_shape=[15, 13]),
    *(case("ConvTranspose", X, T, strides=[2, 2], auto_pad=way) for way in (*SAME, "VALID")),
    case("ConvTranspose", X, T, strides=[3, 3], output_shape=[20, 17], auto_pad="SAME_LOWER"),
    case("ConvTranspose", LINE, Constant(floats(4, 3, 3)), strides=[2], pads=[1, 1], output_padding=[1]),
    case("ConvTranspose", LINE, Constant(floats(4, 3, 4)), strides=[2], auto_pad="SAME_UPPER"),
    case("ConvTranspose", CUBE, Constant(floats(2, 3, 2, 2, 2)), strides=[2, 1, 2]),
    case("ConvTranspose", CUBE, Constant(floats(2, 3, 3, 2, 2)), strides=[2, 1, 2], pads=[1, 0, 0, 1, 1,
        0], output_padding=[1, 0, 1]),
    case("ConvTranspose", CUBE, Constant(floats(2, 3, 3, 2, 2)), strides=[2, 1, 2], group=2),
    case("ConvTranspose", CUBE, Constant(floats(2, 3, 3, 2, 2)), strides=[3, 1, 1], dilations=[2, 1, 2]),
    case("ConvTranspose", X, T, strides=[2, 2], output_shape=[14, 12], output_padding=[1, 1]),
    case("ConvTranspose", X, T, strides=[3, 3], pads=[1, 2, 2, 0], dilations=[2, 3]),
    case("ConvTranspose", X, Constant(floats(4, 1, 2, 2)), strides=[2, 2], group=4),
    case("ConvTranspose", X, T, strides=[2, 2], pads=[3, 0, 0, 2]),
    case("ConvTranspose", X, floats(4, 5, 2, 2)), case("ConvTranspose", X, T, pads=[3, 0, 4, 3]),
    case("ConvTranspose", CUBE, Constant(floats(2, 3, 2, 2, 2)), strides=[2, 2, 1], pads=[3, 2, 2, 2, 5, 0]),
    case("ConvTranspose", X, T, strides=[3, 1], pads=[0, 0, 18, 0], output_padding=[2, 0]),
    case("ConvTranspose", LINE, Constant(floats(4, 2, 5)), strides=[4], group=2, pads=[2, 1]),
    case("ConvTranspose", X, T, strides=[2, 2], auto_pad="SAME_UPPER", output_padding=[1, 1]),
    case("ConvTranspose", X, floats(4, 5, 1, 2), strides=[3, 2], auto_pad="SAME_LOWER",
        output_padding=[1, 0]),
    case("ConvTranspose", CUBE, Constant(floats(2, 3, 3, 2, 2)), strides=[2, 3, 2], auto_pad="SAME_LOWER",
        output_padding=[1, 2, 0], group=2),
    # A result smaller than the data, and windows without a place.
    *(case("ConvTranspose", X, T, output_shape=extents) for extents in ([5, 6], [3, 7], [6, 4])),
    case("ConvTranspose", floats(1, 4, 3, 5), Constant(floats(4, 2, 3, 2)), dilations=[3, 3], group=2,
        output_shape=[2, 5]),
    *(case("Conv", X[:, :, :3], Constant(floats(2, 4, taps, 2)), strides=[step, 1], refused=True, **more)
        for taps in (4, 5, 6) for step in (1, 2) for more in ({}, {"auto_pad": "VALID"})),
    case("Conv", CUBE, Constant(floats(3, 2, 5, 6, 7)), pads=[0, 0, 1, 0, 0, 1], refused=True),
    case("Conv", LINE, Constant(floats(3, 4, 5)), dilations=[3], pads=[1, 0], refused=True),
    case("ConvTranspose", X, T, pads=[5, 0, 4, 0], refused=True),
    case("ConvTranspose", X, T, pads=[6, 0, 4, 0], refused=True),
    case("ConvInteger", integers(1, 2, 5, 5, low=0, high=200, dtype=np.uint8), integers(3, 2, 3, 3,
        low=-90, high=90, dtype=np.int8), refused=True),
    case("DeformConv", floats(1, 2, 4, 4), floats(2, 2, 2, 2), floats(1, 8, 3, 3), opset=19),
    case("DeformConv", floats(2, 4, 7, 6), Constant(floats(6, 2, 3, 2)), 2 * floats(2, 24, 4, 7),
        Constant(floats(6)), floats(2, 12, 4, 7), opset=22, offset_group=2, group=2, strides=[2, 1],
        pads=[1, 1, 2, 1]),
    case("DeformConv", floats(1, 3, 9, 8), Constant(floats(5, 3, 3, 3)), floats(1, 18, 7, 3), None,
        floats(1, 9, 7, 3), opset=19, dilations=[2, 1], pads=[1, 0, 1, 0], strides=[1, 2]),
    case("DeformConv", floats(1, 2, 1, 5), Constant(floats(3, 2, 1, 3)), floats(1, 6, 1, 5), opset=19,
        pads=[0, 1, 0, 1]),
    case("DeformConv", floats(1, 2, 4, 4, dtype=np.float64), floats(2, 2, 2, 2, dtype=np.float64),
        floats(1, 8, 3, 3, dtype=np.float64), opset=19, refused=True),
    case("Col2Im", floats(1, 4, 9), const(4, 4), const(2, 2)),
    case("Col2Im", floats(2, 18, 9), const(7, 8), const(3, 2), strides=[2, 3], pads=[1, 1, 0, 2],
        dilations=[1, 2]),
    case("Col2Im", floats(2, 6, 5), const(11), const(3), strides=[2]),
]
POOLS = [
    *(case(op, X, kernel_shape=[9, 8], refused=True) for op in ("MaxPool", "AveragePool", "LpPool")),
    *(case(op, X, kernel_shape=[8, 2], strides=[2, 1]) for op in ("MaxPool", "AveragePool", "LpPool")),
    *(case(op, CUBE, kernel_shape=[6, 7, 5], strides=[2, 3, 1], pads=[0, 1, 1, 0, 0, 0])
        for op in ("MaxPool", "LpPool")),
    *(case(op, LINE, kernel_shape=[4], dilations=[3], strides=[3], opset=22)
        for op in ("MaxPool", "AveragePool", "LpPool")),
    *(case(op, X, kernel_shape=[8, 2]) for op in ("MaxPool", "AveragePool", "LpPool")),
    case("LpPool", X, kernel_shape=[10, 2], strides=[2, 1], refused=True),
    *(case("AveragePool", X, kernel_shape=[9, 8], strides=[2, 2], pads=[1, 0, 0, 1], count_include_pad=1,
        opset=opset) for opset in (11, 18, 19, 22)),
    *(case(op, X, kernel_shape=[3, 2], **more) for op in ("MaxPool", "AveragePool") for more in (
        {}, {"strides": [2, 2]}, {"pads": [1, 0, 1, 1], "strides": [2, 1]},
        {"strides": [2, 2], "ceil_mode": 1}, {"strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        *({"auto_pad": way} for way in SAME),
        *({"auto_pad": way, "strides": [2, 2]} for way in (*SAME, "VALID")),
    )),
    case("MaxPool", X, kernel_shape=[2, 2], dilations=[2, 3]),
    *(case("MaxPool", X, kernel_shape=[3, 2], outputs=2, **more) for more in ({}, {"pads": [1, 1, 1, 0],
        "strides": [2, 2]}, {"dilations": [2, 2]}, {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"ceil_mode": 1, "strides": [2, 2]})),
    case("MaxPool", np.round(X), kernel_shape=[3, 3], strides=[2, 1], outputs=2),
    case("MaxPool", LINE, kernel_shape=[2], strides=[2], outputs=2),
    case("MaxPool", CUBE, kernel_shape=[2, 2, 2], strides=[1, 2, 2], outputs=2),
    case("MaxPool", X, kernel_shape=[3, 3], storage_order=1, outputs=2, refused=True),
    case("MaxPool", X, kernel_shape=[2, 2], opset=7),
    case("MaxPool", DOUBLE, kernel_shape=[2, 2], pads=[1, 1, 0, 0]),
    case("MaxPool", integers(1, 2, 5, 5, low=-9, high=9, dtype=np.int8), kernel_shape=[2, 2], pads=[1, 1,
        0, 0]),
    case("MaxPool", integers(1, 2, 5, 5, low=0, high=9, dtype=np.uint8), kernel_shape=[3, 3],
        auto_pad="SAME_LOWER", strides=[2, 2]),
    case("MaxPool", X, kernel_shape=[2, 2], strides=[2, 2], dilations=[2, 2], ceil_mode=1),
    case("MaxPool", X, kernel_shape=[2, 2], storage_order=1),
    *(case("AveragePool", X, kernel_shape=[3, 3], count_include_pad=1, **more) for more in ({"pads": [1,
        1, 1, 1]}, {"pads": [1, 0, 0, 2], "strides": [2, 2]}, {"auto_pad": "SAME_LOWER"}, {"auto_pad":
        "SAME_UPPER", "strides": [2, 2]}, {"pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1})),
    case("AveragePool", X, kernel_shape=[2, 2], dilations=[2, 2], opset=19),
    case("AveragePool", X, kernel_shape=[2, 2], pads=[1, 1, 1, 1], dilations=[2, 2], opset=19, strides=[2,
        2]),
    case("AveragePool", X, kernel_shape=[3, 3], pads=[1, 1, 1, 1], opset=7),
    case("AveragePool", DOUBLE, kernel_shape=[2, 2]),
    case("AveragePool", X, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, opset=10),
    *(case(op, LINE, kernel_shape=[3], **more) for op in ("MaxPool", "AveragePool") for more in
        ({"strides": [2]}, {"pads": [1, 1]}, {"auto_pad": "SAME_LOWER", "strides": [2]}, {"auto_pad":
        "SAME_UPPER"}, {"ceil_mode": 1, "strides": [2]})),
    *(case(op, CUBE, kernel_shape=[2, 3, 2], **more) for op in ("MaxPool", "AveragePool") for more in
        ({"strides": [2, 2, 1]}, {"pads": [1, 1, 0, 0, 1, 1]}, {"auto_pad": "SAME_LOWER"})),
    *(case("LpPool", X, kernel_shape=[3, 2], **more) for more in ({}, {"p": 1}, {"p": 3, "strides": [2,
        2]}, {"pads": [1, 0, 1, 1]}, {"auto_pad": "SAME_LOWER"}, {"ceil_mode": 1, "strides": [2, 2]},
        {"dilations": [2, 2]})),
    *(case(op, x) for op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool") for x in (X, LINE, CUBE)),
    case("GlobalLpPool", X, p=1), case("GlobalAveragePool", DOUBLE),
    case("MaxUnpool", floats(1, 1, 2, 2), Constant(np.array([[[[0, 3], [8, 15]]]])), kernel_shape=[2, 2],
        strides=[2, 2]),
    case("MaxUnpool", floats(1, 2, 2, 2), Constant(np.array([[[[0, 3], [8, 15]], [[17, 19], [25, 31]]]])),
        kernel_shape=[2, 2], strides=[2, 2]),
    case("MaxRoiPool", X, Constant(np.array([[0, 0, 0, 4, 4]], np.float32)), pooled_shape=[2, 2]),
    *(case("RoiAlign", X, ROIS.value, np.array([0, 0]), opset=opset, output_height=2, output_width=2,
        sampling_ratio=ratio, spatial_scale=0.5) for opset in (10, 16) for ratio in (0, 2)),
    case("MaxRoiPool", X, np.array([[0, 0, 0, 4, 4]], np.float32), pooled_shape=[2, 2]),
    case("MaxUnpool", floats(1, 1, 2, 2), np.array([[[[0, 3], [8, 15]]]]), kernel_shape=[2, 2],
        strides=[2, 2]),
    *(case("RoiAlign", X, ROIS, const(0, 0), opset=16, output_height=3, output_width=2, sampling_ratio=2,
        **more) for more in ({}, {"mode": "max", "refused": True}, {"coordinate_transformation_mode":
        "output_half_pixel"}, {"spatial_scale": 0.5})),
]
SAMPLES = [
    # Cubic with reflection takes as long to compile as a hundred of the others.
    *(case("GridSample", R, GRID, opset=20, mode=mode, padding_mode=pad, align_corners=align)
        for mode in ("linear", "nearest", "cubic") for pad in ("zeros", "border", "reflection")
        for align in (0, 1) if (mode, pad) != ("cubic", "reflection")),
    case("GridSample", R, GRID, opset=16, mode="bilinear"),
    case("GridSample", R, GRID, opset=16, mode="bicubic"),
    case("GridSample", CUBE, Constant(floats(1, 2, 3, 4, 3, seed=7)), opset=20),
    case("AffineGrid", floats(2, 2, 3), const(2, 3, 4, 5), opset=20),
    case("AffineGrid", floats(2, 2, 3), const(2, 3, 4, 5), opset=20, align_corners=1),
    case("AffineGrid", floats(2, 3, 4), const(2, 3, 2, 4, 5), opset=20),
]
CASES = CONVOLUTIONS + POOLS + SAMPLES
