"""TFLite_Detection_PostProcess against LiteRT: which boxes are left, in which order, and how many."""

import numpy as np
import pytest
from flatbuffers import flexbuffers
from tflite_compare import assert_same

from bench.tflite_models import Maker
from compiler.ir.checks import ModelError
from compiler.readers.tflite.convert import to_onnx

COUNT, CLASSES, MOST = 70, 3, 6


def detector(dtype="float32", background=1, shape=(), **changes):
    """A file with the boxes and scores of COUNT anchors as inputs."""
    options = {
        "max_detections": MOST, "max_classes_per_detection": 1, "use_regular_nms": False,
        "nms_score_threshold": 1e-8, "nms_iou_threshold": 0.3, "num_classes": CLASSES,
        "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0, **changes,
    }  # fmt: skip
    make = Maker(dtype)
    boxes = make.input((1, COUNT, 4))
    scores = make.input((1, COUNT, CLASSES + background), name="z", limits=(0.0, 1.0))
    anchors = make.constant(np.random.default_rng(1).uniform(0.2, 0.6, (COUNT, 4)), (0.0, 1.0))
    name = "TFLite_Detection_PostProcess"
    more = [make.tensor(shape, "float32") for _ in range(3)]
    data = bytes(flexbuffers.Dumps(options))
    result = make.custom(name, [boxes, scores, anchors], shape, data, version=1, dtype="float32", more=more)
    return make.file(result, *more)


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_the_best_that_do_not_overlap(dtype):
    assert_same(detector(dtype, background=int(dtype == "uint8")))


def test_what_cannot_be():
    for changes, word in (
        ({"use_regular_nms": True}, "class by class"),
        ({"max_detections": COUNT + 1}, "boxes of"),
        ({"num_classes": 9}, "boxes of"),
        ({"x_scale": 0.0}, "scales"),
    ):
        with pytest.raises(ModelError, match=word):
            to_onnx(detector(**changes))
