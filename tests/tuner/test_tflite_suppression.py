"""NON_MAX_SUPPRESSION_V4 and _V5 against LiteRT: which boxes are left, in which order, and zeros behind."""

import numpy as np
import pytest
from tflite_compare import built, by_litert

from bench.tflite_models import Maker
from compiler.ir.checks import ModelError
from compiler.readers.tflite.convert import to_onnx

COUNT, MOST = 40, 12


def suppressed(version, sigma=0.0, least=0.35):
    """A file with boxes and scores as inputs."""
    make = Maker()
    boxes, scores = make.input((COUNT, 4)), make.input((COUNT,), name="z")
    numbers = [make.tensor((), "int32", values=np.int32(MOST))]
    numbers += [make.tensor((), values=np.float32(each)) for each in (0.25, least)]
    more = [make.tensor((), "int32")]
    if version == 5:
        numbers.append(make.tensor((), values=np.float32(sigma)))
        more.insert(0, make.tensor((MOST,)))
    kind = f"NON_MAX_SUPPRESSION_V{version}"
    return make.file(make.operator(kind, [boxes, scores, *numbers], (MOST,), dtype="int32", more=more), *more)


@pytest.mark.parametrize("version", [4, 5])
def test_the_best_that_do_not_overlap(version):
    data = suppressed(version)
    run, counts = built(to_onnx(data)), set()
    for seed in range(6):
        random = np.random.default_rng(seed)
        # Squares of a grid, some of which overlap by a quarter to the last bit.
        corners = random.integers(0, 12, (COUNT, 2)) / 4
        boxes = np.concatenate([corners, corners + random.integers(1, 4, (COUNT, 1)) / 2], 1)
        scores = random.permutation(COUNT) / COUNT * (1, 0.9, 0.6, 0.5, 0.4, 0)[seed]
        feed = {"x": boxes.astype(np.float32), "z": scores.astype(np.float32)}
        wanted, found = by_litert(data, feed), run(feed)
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value)
            assert found[name].dtype == value.dtype
        counts.add(int(wanted["y2" if version == 5 else "y1"]))
    assert {0, MOST} < counts


def test_scores_that_become_less_are_refused():
    with pytest.raises(ModelError, match="soft_nms_sigma"):
        to_onnx(suppressed(5, sigma=0.5))
