"""MediaPipe's custom operators of TFLite, which LiteRT does not know, against their definitions in numpy."""

import math
import random
import time

import numpy as np
import onnx
import pytest
from flatbuffers import flexbuffers
from tflite_compare import built, by_onnxruntime

from bench.tflite_models import Maker
from compiler.ir.checks import ModelError
from compiler.readers.tflite.convert import to_onnx

LANDMARKS, IMAGE, CROP = (1, 11, 3), (1, 14, 17, 8), (16, 12)
OPTIONS = {
    "left_rotation_idx": 2,
    "right_rotation_idx": 5,
    "subset_idxs": [1, 3, 7, 2, 10],
    "target_rotation_radians": 0.4,
    "output_height": CROP[0],
    "output_width": CROP[1],
    "scale_x": 1.5,
    "scale_y": 1.25,
}
SIZE = {"output_height": CROP[0], "output_width": CROP[1]}


def packed(options):
    """FlexBuffers as converters write them, lists as vectors of one type."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in sorted(options.items()):
            if isinstance(value, list):
                builder.TypedVectorFromElements(name, value)
            else:
                builder.Add(name, value)
    return bytes(builder.Finish())


def crop_matrix(points, options):
    """(4, 4) of landmarks (count, 3)."""
    (lx, ly), (rx, ry) = (points[options[f"{side}_rotation_idx"], :2] for side in ("left", "right"))
    angle = options["target_rotation_radians"] - math.atan2(ry - ly, rx - lx)

    def rotation(radians):
        c, s = math.cos(radians), math.sin(radians)
        return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])

    def diagonal(x, y):
        return np.diag([x, y, 1, 1.0])

    def shift(x, y):
        matrix = np.eye(4)
        matrix[:2, 3] = x, y
        return matrix

    chosen = np.array([[*points[index, :2], 1, 1] for index in options["subset_idxs"]])
    turned = chosen @ rotation(angle).T
    high, low = turned.max(0), turned.min(0)
    centre = rotation(-angle) @ ((high + low) / 2)
    width, height = options["output_width"], options["output_height"]
    size = (high - low)[:2] * (options["scale_x"], options["scale_y"]) / (width, height)
    moved = shift(*centre[:2]) @ rotation(-angle) @ diagonal(*size)
    return moved @ shift(-width / 2, -height / 2)


def moved_points(points, matrix):
    """Points (count, 2 or 3), of which x and y move."""
    result = points.astype(np.float64)
    for row, (x, y) in enumerate(points[:, :2].astype(np.float64)):
        result[row, :2] = matrix[:2, 0] * x + matrix[:2, 1] * y + matrix[:2, 3]
    return result


def moved_image(image, matrix, rows, columns):
    """(rows, columns, channels) of an image of NHWC, pixel by pixel."""
    height, width, channels = image.shape
    result = np.zeros((rows, columns, channels))
    ends = matrix[:2, 3] + (matrix[:2, 0] + matrix[:2, 1]) * 0.5 - 0.5
    for row in range(rows):
        for column in range(columns):
            x, y = matrix[:2, 0] * column + matrix[:2, 1] * row + ends
            if not (0 <= x <= width - 1 and 0 <= y <= height - 1):
                continue
            left, top = math.floor(x), math.floor(y)
            for each_row, row_part in ((top, 1 - (y - top)), (top + 1, y - top)):
                for each_column, part in ((left, 1 - (x - left)), (left + 1, x - left)):
                    if each_row < height and each_column < width:
                        result[row, column] += row_part * part * image[each_row, each_column]
    return result


def every_operator():
    """A model of all three: a crop around landmarks, and points and images by this matrix and a given one."""
    make = Maker()
    landmarks, given = make.input(LANDMARKS, name="landmarks"), make.input((1, 4, 4), name="given")
    image, flat = make.input(IMAGE, name="image"), make.input((1, 9, 2), name="flat")
    matrix = make.custom("Landmarks2TransformMatrix", [landmarks], (1, 4, 4), packed(OPTIONS))
    points = [make.custom("TransformLandmarks", [flat, given], (1, 9, 2))]
    points += [make.custom("TransformLandmarks", [landmarks, matrix], LANDMARKS)]
    shape = (1, *CROP, IMAGE[3])
    images = [
        make.custom("TransformTensorBilinear", [image, each], shape, packed(SIZE)) for each in (matrix, given)
    ]
    return to_onnx(make.file(matrix, *points, *images))


def feeds():
    """By name: matrices that reach out of the image, landmarks of which the two ends are one point."""
    draw = np.random.default_rng(3)
    matrices = [np.eye(4), np.eye(4), np.eye(4), np.eye(4)]
    matrices[1][:2] = [[0.8, -0.7, 0, 1.9], [0.6, 0.9, 0, 0.3]]
    matrices[2][:2] = [[-2.1, 0.1, 5, 6.8], [0.3, 1.3, -7, -1.6]]
    matrices[3][:2] = [[1e9, 0, 0, -3e38], [0, -1e9, 0, 1]]
    for number, matrix in enumerate(matrices):
        landmarks = draw.uniform(0, 16, LANDMARKS)
        if number == 1:
            landmarks[0, 5] = landmarks[0, 2]
        if number == 2:  # squares of these would be nothing
            landmarks *= 1e-25
        values = {"landmarks": landmarks, "given": matrix[None]}
        values |= {"image": draw.normal(size=IMAGE), "flat": draw.normal(size=(1, 9, 2))}
        yield {name: value.astype(np.float32) for name, value in values.items()}


def test_landmarks_and_what_they_move():
    model = every_operator()
    onnx.checker.check_model(model, full_check=True)
    run = built(model)
    for feed in feeds():
        matrix = crop_matrix(feed["landmarks"][0].astype(np.float64), OPTIONS)
        wanted = {
            "y": matrix,
            "y1": moved_points(feed["flat"][0], feed["given"][0]),
            "y2": moved_points(feed["landmarks"][0], matrix),
            "y3": moved_image(feed["image"][0], matrix, *CROP),
            "y4": moved_image(feed["image"][0], feed["given"][0].astype(np.float64), *CROP),
        }
        for found in (by_onnxruntime(model, feed), run(feed)):
            assert found.keys() == wanted.keys()
            for name, value in wanted.items():
                assert found[name].shape == (1, *value.shape)
                np.testing.assert_allclose(found[name][0], value, rtol=1e-4, atol=2e-5, err_msg=name)


def test_a_crop_by_itself():
    """Where the compiler rounds a sum in two ways, a pixel inside must not be taken for one outside."""
    make = Maker()
    image, matrix = make.input((1, 48, 48, 32), name="image"), make.input((1, 4, 4), name="matrix")
    options = packed({"output_height": 16, "output_width": 16})
    pooled = make.pool("MAX", image, 1, 1)  # pools keep the plane in the order of ONNX around the crop
    crop = make.custom("TransformTensorBilinear", [pooled, matrix], (1, 16, 16, 32), options)
    model = to_onnx(make.file(make.pool("MAX", crop, 1, 1)))
    run, draw, given = built(model), np.random.default_rng(5), np.eye(4, dtype=np.float32)
    given[:2] = [[1.1, 0.02, 0, 3.1], [0.03, 0.7, 0, 5.2]]
    feed = {"image": draw.normal(size=(1, 48, 48, 32)).astype(np.float32), "matrix": given[None]}
    wanted = moved_image(feed["image"][0], given.astype(np.float64), 16, 16)
    np.testing.assert_allclose(run(feed)["y"][0], wanted, rtol=1e-4, atol=2e-5)
    for wild in (math.nan, math.inf, -math.inf, 3e38):  # no value is promised, but an answer
        run(feed | {"matrix": np.full((1, 4, 4), wild, np.float32)})


BAD = {
    "no options": (b"", "not there"),
    "a list": (bytes(flexbuffers.Dumps([1, 2])), "damaged"),
    "a name missing": ({"scale_x": None}, "'scale_x', a number, is not there"),
    "no number": ({"scale_x": "wide"}, "'scale_x' is no number"),
    "not finite": ({"scale_y": math.inf}, "'scale_y' is inf"),
    "no integer": ({"output_width": 4.5}, "'output_width' is no integer"),
    "no list": ({"subset_idxs": 3}, "'subset_idxs' is no list of integers"),
    "a list of floats": ({"subset_idxs": [0.5, 1.5, 2.5, 3.5, 4.5]}, "'subset_idxs' is no list of integers"),
    "no such landmark": ({"subset_idxs": [1, 2, 3, 4, 11]}, "none of its 11"),
    "no such end": ({"left_rotation_idx": -1}, "none of its 11"),
    "an empty crop": ({"output_height": 0}, "its crop is [12, 0]"),
    "too large": (bytes(1 << 17), "more than 65536 bytes"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options(name):
    change, word = BAD[name]
    if isinstance(change, dict):
        options = {key: value for key, value in (OPTIONS | change).items() if value is not None}
        change = packed(options)
    make = Maker()
    value = make.custom("Landmarks2TransformMatrix", [make.input(LANDMARKS)], (1, 4, 4), change)
    with pytest.raises(ModelError) as error:
        to_onnx(make.file(value))
    assert word in str(error.value)
    assert "Landmarks2TransformMatrix" in str(error.value)


def test_an_angle_left_out_is_none():
    def matrix(options):
        make = Maker()
        data = make.input(LANDMARKS)
        file = make.file(make.custom("Landmarks2TransformMatrix", [data], (1, 4, 4), packed(options)))
        landmarks = np.random.default_rng(0).normal(size=LANDMARKS).astype(np.float32)
        return by_onnxruntime(to_onnx(file), {"x": landmarks})["y"]

    without = {key: value for key, value in OPTIONS.items() if key != "target_rotation_radians"}
    assert np.array_equal(matrix(without), matrix(without | {"target_rotation_radians": 0.0}))


@pytest.mark.parametrize(
    ("kind", "shapes", "result", "word"),
    [
        ("Landmarks2TransformMatrix", [(2, 11, 3)], (1, 4, 4), "landmarks are [2, 11, 3]"),
        ("TransformLandmarks", [(1, 5, 4), (1, 4, 4)], (1, 5, 4), "landmarks are [1, 5, 4]"),
        ("TransformLandmarks", [(1, 5, 2), (1, 4, 3)], (1, 5, 2), "matrix is [1, 4, 3]"),
        ("TransformTensorBilinear", [IMAGE, (1, 16)], (1, *CROP, 8), "matrix is [1, 16]"),
        ("TransformTensorBilinear", [(2, *IMAGE[1:]), (1, 4, 4)], (2, *CROP, 8), "one image"),
        ("TransformTensorBilinear", [IMAGE, (1, 4, 4)], (1, 9, 9, 3), "the file says [1, 9, 9, 3]"),
    ],
)
def test_bad_shapes(kind, shapes, result, word):
    make = Maker()
    inputs = [make.input(shape, name=f"x{place}") for place, shape in enumerate(shapes)]
    with pytest.raises(ModelError) as error:
        to_onnx(make.file(make.custom(kind, inputs, result, packed(OPTIONS))))
    assert word in str(error.value)


def test_other_versions_are_other_operators():
    make = Maker()
    value = make.custom("TransformLandmarks", [make.input((1, 5, 2)), make.input((1, 4, 4))], (1, 5, 2))
    make.model.operatorCodes[-1].version = 1
    with pytest.raises(ModelError, match="'TransformLandmarks' "):
        to_onnx(make.file(value))


def test_flipped_options():
    """Damaged options are options or refused, and soon."""
    draw, whole, refusals, began = random.Random(0), packed(OPTIONS), 0, time.monotonic()
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 2, 8))):
            data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        make = Maker()
        value = make.custom("Landmarks2TransformMatrix", [make.input(LANDMARKS)], (1, 4, 4), bytes(data))
        try:
            to_onnx(make.file(value))
        except ModelError:
            refusals += 1
    assert 100 < refusals < 300
    assert time.monotonic() - began < 60
