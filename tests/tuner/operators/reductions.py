"""Operators that make one number of many, or order them."""

import numpy as np
from one_operator import case, const, floats, integers, positive, reals, scalar, truths

# fmt: off


X, LONG = positive(2, 3, 4), integers(2, 3, 4, low=2**33, high=2**34)
IMAGE = floats(2, 3, 5, 6)
SMALL, DOUBLE = integers(2, 3, 4), positive(2, 3, dtype=np.float64)
TIES = integers(3, 6, low=0, high=3).astype(np.float32)
ALL = ("Max", "Min", "Sum", "Mean", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")

TRUTHS = truths(4, 3)

BOXES, RANKED = (np.random.default_rng(8).uniform(0, 1, shape).astype(np.float32) for shape in
    ((2, 50, 4), (2, 3, 50)))
TIED = np.round(RANKED, 1)
EVEN = np.floor(BOXES * 5)
STRANGE = np.where(BOXES[:, :, ::-1] < 0.02, np.nan, BOXES * 3e30).astype(np.float32)
STRANGE[:, 7] = np.inf
SUPPRESSIONS = [
    *(case("NonMaxSuppression", boxes, scores, const(9), reals(0.3), reals(0.5), opset=11,
        center_point_box=centred) for boxes in (BOXES, EVEN) for scores in (RANKED, TIED)
        for centred in (0, 1)),
    case("NonMaxSuppression", BOXES, TIED, const(60), reals(0.5), opset=10),
    case("NonMaxSuppression", BOXES, TIED, const(2**40), None, reals(0.4)),
    case("NonMaxSuppression", BOXES, -RANKED, const(5), reals(1.0), reals(-0.5)),
    case("NonMaxSuppression", BOXES, RANKED, const(3)), case("NonMaxSuppression", BOXES, RANKED, const(0)),
    case("NonMaxSuppression", BOXES, RANKED), case("NonMaxSuppression", BOXES, RANKED, np.array([4])),
    case("NonMaxSuppression", BOXES, RANKED, np.array([4]), np.float32([0.2]), np.float32([0.9])),
    case("NonMaxSuppression", BOXES, RANKED, const(5), reals(0.5), reals(2.0)),
    *(case("NonMaxSuppression", STRANGE, RANKED, const(60), reals(0.1), center_point_box=centred)
        for centred in (0, 1)),
    *(case("NonMaxSuppression", BOXES, RANKED, const(5), reals(each), refused=True)
        for each in (1.5, np.nan)),
]

CASES = [
    *(case(f"Reduce{kind}", X, const(1)) for kind in ALL),
    *(case(f"Reduce{kind}", X, opset=11, axes=[0, -1], keepdims=0) for kind in ALL),
    *(case("ReduceMean", np.full((2, 5), number, np.int32), const(1)) for number in (2**31 - 1, -(2**31))),
    *(case(f"Reduce{kind}", integers(3, 7, low=1, high=999).astype(whole), const(1))
        for kind in ("L2", "LogSum", "LogSumExp") for whole in (np.int32, np.int64)),
    *(case(f"Reduce{kind}", X) for kind in ("Max", "Sum", "Mean", "L2")),
    *(case(f"Reduce{kind}", X, const(), noop_with_empty_axes=1) for kind in ALL),
    *(case(f"Reduce{kind}", X, const()) for kind in ("Max", "Sum")),
    *(case(op, np.full((2, 3), end, np.float32), const(1)) for op in ("ReduceMax", "ReduceMin") for end in
        (-np.inf, np.inf)),
    case("ReduceSum", X, noop_with_empty_axes=1), case("ReduceSum", X, const(2, 0), keepdims=0, opset=13),
    case("ReduceMean", integers(2, 5), opset=13, axes=[1]),
    case("ReduceMean", X, opset=13, axes=[1]), case("ReduceMean", IMAGE, const(-1, 2)),
    case("ReduceMax", IMAGE, opset=13, axes=[2, 3], keepdims=0),
    *(case(f"Reduce{kind}", LONG, const(1)) for kind in ("Min", "Sum", "Mean")),
    case("ReduceMax", SMALL, const(1)),
    *(case(f"Reduce{kind}", SMALL, const(1), keepdims=0) for kind in ("Prod", "L1", "SumSquare")),
    *(case(f"Reduce{kind}", SMALL.astype(np.int32)) for kind in ("Sum", "Mean", "L1")),
    *(case(f"Reduce{kind}", DOUBLE, const(1)) for kind in ("Sum", "Mean", "LogSumExp", "L2")),
    case("ReduceMax", integers(3, 4, low=-100, high=100, dtype=np.int8), const(1)),
    case("ReduceMin", integers(3, 4, low=0, high=200, dtype=np.uint8)),
    case("ReduceMax", np.array([[True, False], [False, False]]), const(1), opset=20),
    case("ReduceLogSumExp", floats(2, 3) * 100, const(1)),
    *(case(op, floats(2, 3, 4), axis=axis, keepdims=keep) for op in ("ArgMax", "ArgMin") for axis, keep in
        ((0, 1), (-1, 0))),
    case("ArgMax", TIES, axis=1), case("ArgMin", TIES, axis=1),
    case("ArgMax", TIES, axis=1, select_last_index=1), case("ArgMin", TIES, axis=1, select_last_index=1),
    case("ArgMax", LONG), case("ArgMax", floats(2, 3), opset=11),
    case("ArgMax", integers(3, 4, dtype=np.int32), axis=1), case("TopK", floats(3, 6), const(2), outputs=2),
    case("TopK", floats(3, 6), const(3), outputs=2, axis=0, largest=0),
    case("TopK", LONG, const(2), outputs=2, axis=1),
    case("TopK", floats(3, 6), const(2), outputs=2, opset=10),
    case("TopK", floats(3, 6), outputs=2, opset=1, k=2), case("TopK", TIES, const(4), outputs=2),
    case("TopK", DOUBLE, const(1), outputs=2),
    case("TopK", floats(3, 6, seed=3), const(2), outputs=2, sorted=0,
        judge=case("TopK", floats(3, 6, seed=3), const(2), outputs=2)),
    case("TopK", integers(3, 40, low=0, high=2**15, dtype=np.uint16), const(7), outputs=2,
        judge=case("TopK", integers(3, 40, low=0, high=2**15, dtype=np.uint16), const(7), outputs=2)),
    case("CumSum", X, scalar(1, np.int64)), case("CumSum", X, scalar(-1, np.int32), exclusive=1),
    case("CumSum", X, scalar(0, np.int64), reverse=1), case("CumSum", X, scalar(3, np.int64), refused=True),
    case("CumSum", LONG, scalar(2, np.int64), exclusive=1, reverse=1),
    case("CumSum", SMALL.astype(np.int32), scalar(0, np.int64)), case("CumSum", DOUBLE, scalar(1, np.int64)),
    case("Det", floats(2, 3, 3), refused=True), case("NonZero", SMALL), case("NonZero", TRUTHS),
    case("NonZero", np.zeros((2, 3), np.float32)), case("Compress", X, TRUTHS[0], axis=1, opset=11),
    case("Compress", SMALL, truths(10), opset=11),
    case("Unique", SMALL, refused=True),
    *SUPPRESSIONS,
]
