"""Models of ai.onnx.ml, built and compared with onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tflite_compare import built

from compiler.intake.extract import extract
from compiler.ir.checks import ModelError
from compiler.load import read_model
from compiler.readers.model_file import parse_bytes

ROWS, COLUMNS = 17, 5


def model(nodes, outputs, opset=15, version=3, dtype=TensorProto.FLOAT, rows=ROWS):
    """A model of ai.onnx.ml's ``nodes`` (operator, inputs, outputs, attributes) on x."""
    made = [
        helper.make_node(op, inputs, results, domain="ai.onnx.ml", **more)
        for op, inputs, results, more in nodes
    ]
    ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()]
    x = helper.make_tensor_value_info("x", dtype, (rows, COLUMNS))
    graph = helper.make_graph(made, "classical", [x], ends)
    sets = [helper.make_opsetid("ai.onnx.ml", version), *([helper.make_opsetid("", opset)] if opset else [])]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


def trees(
    kind, results, ids, positive=True, mode=("BRANCH_LEQ",), missing=False, count=6, depths=(4,), **more
):
    """Random trees of ``depths`` in turn; leaves add to some of ``ids``, ``missing``: NaN goes either way."""
    random = np.random.default_rng(results)
    nodes = {
        key: []
        for key in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    leaves = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree, depth):
        place = len(nodes["nodeids"])
        number = nodes["treeids"].count(tree)
        leaf = depth == 0 or (depth < 3 and random.random() < 0.3)
        row = (
            tree,
            number,
            int(random.integers(COLUMNS)),
            float(np.round(random.normal() * 2) / 2),
            "LEAF" if leaf else mode[len(nodes["modes"]) % len(mode)],
            0,
            0,
        )
        for key, value in zip(nodes, row, strict=True):
            nodes[key].append(value)
        if leaf:
            for to in random.permutation(ids)[: random.integers(1, len(ids) + 1)]:
                weight = abs(random.normal()) / count if positive else random.normal()
                for key, value in zip(leaves, (tree, number, int(to), float(weight)), strict=True):
                    leaves[key].append(value)
            return number
        for side in ("truenodeids", "falsenodeids"):
            nodes[side][place] = grow(tree, depth - 1)
        return number

    for tree in range(count):
        grow(tree, depths[tree % len(depths)])
    said = {f"nodes_{key}": value for key, value in nodes.items()}
    said |= {f"{kind}_{key}": value for key, value in leaves.items()}
    if missing:
        ways = random.integers(0, 2, len(nodes["modes"])).tolist()
        said["nodes_missing_value_tracks_true"] = ways
    return said | more


ASKED = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")


def ensemble(asked, dtype=np.float32, missing=True, **more):
    """TreeEnsemble of full trees of three levels that ask in these ways in turn."""
    random = np.random.default_rng(len(asked))
    count, roots, leaves = 7 * 4, list(range(0, 7 * 4, 7)), 8 * 4
    first, second = [], []
    for at in range(count):
        tree, place = divmod(at, 7)
        below = [2 * place + 1, 2 * place + 2] if place < 3 else [2 * place - 6, 2 * place - 5]
        first.append(below[0] + tree * (7 if place < 3 else 8))
        second.append(below[1] + tree * (7 if place < 3 else 8))
    ends = [int(at % 7 >= 3) for at in range(count)]
    modes = [asked[at % len(asked)] for at in range(count)]
    splits = np.round(random.normal(size=count) * 2) / 2
    members = [value for mode in modes if mode == "MEMBER" for value in (*random.integers(1, 4, 3), np.nan)]
    said = {
        "n_targets": 3, "tree_roots": roots, "nodes_featureids": random.integers(0, COLUMNS, count).tolist(),
        "nodes_modes": tensor(np.array([ASKED.index(mode) for mode in modes], np.uint8)),
        "nodes_splits": tensor(splits.astype(dtype)),
        "nodes_truenodeids": first, "nodes_falsenodeids": second,
        "nodes_trueleafs": ends, "nodes_falseleafs": ends,
        "leaf_targetids": random.integers(0, 3, leaves).tolist(),
        "leaf_weights": tensor(random.normal(size=leaves).astype(dtype)), **more,
    }  # fmt: skip
    if members:
        said["membership_values"] = tensor(np.array(members, dtype))
    if missing:
        said["nodes_missing_value_tracks_true"] = random.integers(0, 2, count).tolist()
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model([("TreeEnsemble", ["x"], ["y"], said)], {"y": kind}, 21, 5, kind)


def pairs(classes):
    """A support vector machine of so many classes, of two vectors more each."""
    random, sizes = np.random.default_rng(classes), [2 + 2 * place for place in range(classes)]
    count, scores = sum(sizes), classes * (classes - 1) // 2
    numbers = {
        "coefficients": (classes - 1) * count, "support_vectors": count * COLUMNS, "rho": scores,
    }  # fmt: skip
    said = {name: random.normal(size=size).tolist() for name, size in numbers.items()}
    said |= {"vectors_per_class": sizes, "classlabels_ints": [7, 3, 5][:classes]}
    return said | {"kernel_type": "RBF", "kernel_params": [0.1, 0.0, 3.0], "post_transform": "NONE"}


def tensor(values):
    return numpy_helper.from_array(values)


LINEAR = {
    "coefficients": [float(value) for value in np.random.default_rng(0).normal(size=3 * COLUMNS)],
    "intercepts": [0.1, -0.2, 0.3],
}
VECTORS = {
    "n_supports": 7, "coefficients": [float(value) for value in np.random.default_rng(1).normal(size=7)],
    "support_vectors": [float(value) for value in np.random.default_rng(2).normal(size=7 * COLUMNS)],
}  # fmt: skip
EIGHT = {"default_int64": 8}
BOTH = {"label": TensorProto.INT64, "scores": TensorProto.FLOAT}
ONE = {"y": TensorProto.FLOAT}


def classifier(op, zipped=False, opset=15, **more):
    return model([(op, ["x"], [*BOTH], more)], BOTH, opset)


def regressor(op, opset=15, **more):
    return model([(op, ["x"], ["y"], more)], ONE, opset)


MODELS = {
    "columns": lambda: model(
        [
            ("Imputer", ["x"], ["a"], {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0, 5.0]}),
            ("Scaler", ["a"], ["b"], {"offset": [0.5] * COLUMNS, "scale": [1.0, 2.0, 3.0, 4.0, 5.0]}),
            ("Normalizer", ["b"], ["c"], {"norm": "L2"}),
            ("Binarizer", ["b"], ["d"], {"threshold": 0.25}),
            ("FeatureVectorizer", ["c", "d"], ["y"], {"inputdimensions": [COLUMNS, COLUMNS]}),
        ],
        ONE,
    ),
    "lines": lambda: regressor("LinearRegressor", targets=3, **LINEAR),
    "lines alone": lambda: regressor("LinearRegressor", opset=0, targets=3, **LINEAR),
    "classes": lambda: classifier(
        "LinearClassifier", classlabels_ints=[4, 7, 9], post_transform="SOFTMAX", **LINEAR
    ),
    "forest": lambda: regressor("TreeEnsembleRegressor", **trees("target", 2, [0, 1], n_targets=2)),
    "forest with a base": lambda: regressor(
        "TreeEnsembleRegressor", 12,
        **trees("target", 1, [0], mode=("BRANCH_LT",), base_values=[0.7], n_targets=1),
    ),
    "forest of old operators": lambda: regressor(
        "TreeEnsembleRegressor", 9, **trees("target", 2, [0, 1], n_targets=2)
    ),
    "places of numbers": lambda: model(
        [
            ("Binarizer", ["x"], ["b"], {"threshold": 0.0}),
            ("OneHotEncoder", ["b"], ["y"], {"cats_int64s": [1, 7, 0], "zeros": 1}),
        ],
        {"y": TensorProto.FLOAT},
    ),
    "numbers of numbers": lambda: model(
        [
            (
                "LabelEncoder", ["x"], ["a"],
                {"keys_floats": [0.5, -1, 1, 0.5], "values_floats": [7, 2.5, 3, 4]},
            ),
            ("LabelEncoder", ["a"], ["b"], {"keys_floats": [7, 2.5], "values_int64s": [9, 5]}),
            ("LabelEncoder", ["b"], ["y"], {"keys_int64s": [9, -1], "values_int64s": [1, 3], **EIGHT}),
        ],
        {"y": TensorProto.INT64},
    ),
    "boosted classes": lambda: classifier(
        "TreeEnsembleClassifier", post_transform="SOFTMAX",
        **trees("class", 3, [0, 1, 2], positive=False, classlabels_int64s=[5, 1, 3]),
    ),
    **{
        f"vectors, {kind}": lambda kind=kind: regressor(
            "SVMRegressor", kernel_type=kind, kernel_params=[0.3, 0.7, 2.0], rho=[0.25], **VECTORS
        )
        for kind in ("LINEAR", "RBF", "POLY", "SIGMOID")
    },
    "vectors of three classes": lambda: classifier("SVMClassifier", **pairs(3)),
    "vectors of two classes": lambda: classifier("SVMClassifier", **pairs(2)),
    **{
        f"chances of {count} classes": lambda count=count: classifier(
            "SVMClassifier", **pairs(count), prob_a=[-1.5, -0.5, -2.0][: len(pairs(count)["rho"])],
            prob_b=[0.1, -0.2, 0.3][: len(pairs(count)["rho"])],
        )
        for count in (2, 3)
    },
    "one class": lambda: regressor(
        "SVMRegressor", kernel_type="RBF", kernel_params=[0.3, 0.0, 3.0], rho=[0.1], one_class=1, **VECTORS
    ),
    "two classes by shares": lambda: classifier(
        "TreeEnsembleClassifier", **trees("class", 2, [0], classlabels_int64s=[0, 1])
    ),
    "missing values": lambda: regressor(
        "TreeEnsembleRegressor", **trees("target", 2, [0, 1], missing=True, n_targets=2, count=9)
    ),
    "all comparisons": lambda: regressor(
        "TreeEnsembleRegressor",
        **trees("target", 2, [0, 1], mode=[f"BRANCH_{name}" for name in ASKED[:6]], missing=True),
        n_targets=2,
    ),
    "more or less": lambda: regressor(
        "TreeEnsembleRegressor", **trees("target", 1, [0], mode=("BRANCH_GT", "BRANCH_GTE"), n_targets=1)
    ),
    "means": lambda: regressor(
        "TreeEnsembleRegressor", **trees("target", 1, [0], n_targets=1, aggregate_function="AVERAGE")
    ),
    "greatest": lambda: regressor(
        "TreeEnsembleRegressor", **trees("target", 1, [0], n_targets=1, aggregate_function="MAX")
    ),
    "an ensemble": lambda: ensemble(("LEQ",), missing=False),
    "an ensemble of float64": lambda: ensemble(("LEQ", "GT"), np.float64),
    "an ensemble of all": lambda: ensemble(ASKED, aggregate_function=0),
    "two classes, boosted": lambda: classifier(
        "TreeEnsembleClassifier", post_transform="LOGISTIC",
        **trees("class", 2, [0], positive=False, classlabels_int64s=[2, 8]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_as_onnxruntime(name):
    made = MODELS[name]()
    x = np.random.default_rng(3).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    x[2], x[5, 1], x[6:] = 0, 0, np.round(2 * x[6:]) / 2
    if made.graph.node[0].op_type.startswith(("LabelEncoder", "TreeEnsemble")):
        x[9, 2], x[12, [0, 3]] = np.nan, [np.nan, np.inf]
    if made.graph.input[0].type.tensor_type.elem_type == TensorProto.DOUBLE:
        x = x.astype(np.float64) + 1e-9 * (np.arange(ROWS) < 3)[:, None]
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    right = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": x}), strict=True))
    found = built(made)({"x": x})
    for output, value in right.items():
        assert (found[output].dtype, found[output].shape) == (value.dtype, value.shape)
        np.testing.assert_allclose(found[output], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "count", "depths", "results"),
    [(1, 1, (0,), 1), (1, 29, (4,), 3), (12, 1, (12,), 2), (25, 13, (0, 12), 1), (43, 5, (3, 0, 7), 9)],
)
def test_trees_of_any_size(rows, count, depths, results):
    """Sums are those of onnxruntime, to the bit: trees count in their order."""
    said = trees("target", results, range(results), False, missing=True, count=count, depths=depths)
    node = ("TreeEnsembleRegressor", ["x"], ["y"], {**said, "n_targets": results})
    made = model([node], ONE, rows=rows)
    x = np.random.default_rng(rows).normal(size=(rows, COLUMNS)).astype(np.float32)
    x[::3, 1], x[::4] = np.nan, np.round(2 * x[::4]) / 2
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(built(made)({"x": x})["y"], session.run(None, {"x": x})[0])


def test_columns_that_are_not_there():
    said = trees("target", 1, [0], n_targets=1)
    said["nodes_featureids"][0] = COLUMNS
    made = regressor("TreeEnsembleRegressor", **said)
    with pytest.raises(ModelError, match=f"ask for column {COLUMNS} of data of {COLUMNS} columns"):
        built(made)
    said["nodes_featureids"][0] = -1
    with pytest.raises(ModelError, match="negative or too large"):
        built(regressor("TreeEnsembleRegressor", **said))


def test_maps_are_rows_of_a_table():
    made = classifier("LinearClassifier", classlabels_ints=[0, 1, 2], post_transform="LOGISTIC", **LINEAR)
    made.graph.node.append(
        helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])
    )
    pairs = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    made.graph.output[1].CopyFrom(helper.make_value_info("maps", helper.make_sequence_type_proto(pairs)))
    x = np.random.default_rng(3).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = session.run(["maps"], {"x": x})[0]
    found = built(parse_bytes(made.SerializeToString(), "it"))({"x": x})["maps"]
    np.testing.assert_allclose(found, [[row[label] for label in range(3)] for row in rows], atol=1e-5)


def test_texts_are_numbers_outside():
    """Texts that are looked up first are looked up by the caller, classes that are texts have numbers."""
    words = ["no", "yes", "perhaps"]
    made = model(
        [
            ("LabelEncoder", ["word"], ["n"], {"keys_strings": words, "values_floats": [3.0, 1.0, 2.0]}),
            ("LinearClassifier", ["x"], ["label", "scores"], {"classlabels_strings": words, **LINEAR}),
            ("ArrayFeatureExtractor", ["words", "place"], ["again"], {}),
            ("LabelEncoder", ["place"], ["told"], {"keys_int64s": [0, 1, 2], "values_strings": words}),
        ],
        dict.fromkeys(("label", "told", "last"), TensorProto.STRING)
        | {"scores": TensorProto.FLOAT, "n": TensorProto.FLOAT},
    )
    made.graph.initializer.append(helper.make_tensor("words", TensorProto.STRING, [3], words))
    made.graph.node.insert(2, helper.make_node("ArgMax", ["scores"], ["place"], axis=1, keepdims=0))
    made.graph.initializer.append(helper.make_tensor("flat", TensorProto.INT64, [1], [-1]))
    made.graph.node.append(helper.make_node("Reshape", ["again", "flat"], ["last"]))
    made.graph.input.append(helper.make_tensor_value_info("word", TensorProto.STRING, (4, 1)))
    x = np.random.default_rng(3).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    asked = np.array([["yes"], ["no"], ["maybe"], ["perhaps"]], object)
    right = dict(
        zip([o.name for o in session.get_outputs()], session.run(None, {"x": x, "word": asked}), strict=True)
    )
    numbers = np.array([[1.0], [3.0], [-0.0], [2.0]], np.float32)
    found = built(parse_bytes(made.SerializeToString(), "it"))({"x": x, "word": numbers})
    np.testing.assert_allclose(found["scores"], right["scores"], atol=1e-5)
    np.testing.assert_array_equal(found["n"], right["n"])
    for name in ("label", "told", "last"):
        assert [words[number] for number in found[name].reshape(-1)] == right[name].reshape(-1).tolist()


def test_texts_of_categories_are_their_places():
    """As scikit-learn's converter writes columns of texts; what is no category is in no column."""
    words = [["no", "yes", "perhaps"], ["here", "there"]]
    made = model(
        [
            ("OneHotEncoder", ["c0"], ["o0"], {"cats_strings": words[0], "zeros": 1}),
            ("OneHotEncoder", ["c1"], ["o1"], {"cats_strings": words[1], "zeros": 1}),
        ],
        {"o0": TensorProto.FLOAT, "o1": TensorProto.FLOAT},
    )
    made.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.STRING, (4, 2)))
    for at in range(2):
        made.graph.initializer.append(helper.make_tensor(f"at{at}", TensorProto.INT64, [1], [at]))
        made.graph.node.insert(at, helper.make_node("Gather", ["x", f"at{at}"], [f"c{at}"], axis=1))
    asked = [["yes", "there"], ["no", "nowhere"], ["maybe", "here"], ["perhaps", "there"]]
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    right = session.run(["o0", "o1"], {"x": np.array(asked, object)})
    places = [
        [each.index(text) if text in each else -1 for text, each in zip(row, words, strict=True)]
        for row in asked
    ]
    found = built(parse_bytes(made.SerializeToString(), "it"))({"x": np.array(places, np.int64)})
    for name, value in zip(("o0", "o1"), right, strict=True):
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    ("op", "more", "words"),
    [
        ("LabelEncoder", {"keys_floats": [0.5], "values_floats": [0.5, 1.5]}, "do not fit"),
        ("TreeEnsembleClassifier", {"classlabels_int64s": [0, 1, 2]}, "do not fit"),
        ("TreeEnsembleClassifier", trees("class", 2, [0, 1], classlabels_int64s=[0]), "adds to nothing"),
        ("OneHotEncoder", {"cats_strings": ["a", "b"]}, "texts"),
        ("SVMRegressor", {**VECTORS, "n_supports": 3}, "do not fit"),
        ("SVMClassifier", {**pairs(3), "prob_a": [0.5], "prob_b": [0.5]}, "do not fit its classes"),
        ("SVMClassifier", {"classlabels_ints": [0, 1], "vectors_per_class": [1, 2]}, "do not fit"),
        ("DictVectorizer", {}, r"ai.onnx.ml.DictVectorizer .*; do what those .* before or behind"),
    ],
)
def test_what_is_refused(op, more, words, tmp_path):
    file = tmp_path / "it.onnx"
    file.write_bytes(classifier(op, **more).SerializeToString())
    with pytest.raises(ModelError, match=words):
        read_model(file)


def test_a_list_is_a_table_of_one_row():
    made = model([("ArrayFeatureExtractor", ["list", "place"], ["y"], {})], ONE)
    made.graph.initializer.append(helper.make_tensor("list", TensorProto.FLOAT, [3], [5.0, 7.0, 9.0]))
    made.graph.node.insert(0, helper.make_node("ArgMax", ["x"], ["a"], axis=1, keepdims=0))
    made.graph.node.insert(1, helper.make_node("Min", ["a", "two"], ["place"]))
    made.graph.initializer.append(helper.make_tensor("two", TensorProto.INT64, [], [2]))
    x = np.random.default_rng(3).normal(size=(ROWS, COLUMNS)).astype(np.float32)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (right,) = session.run(["y"], {"x": x})
    assert right.shape == (1, ROWS)
    np.testing.assert_array_equal(built(made)({"x": x})["y"], right)


FOREST = {
    "nodes_treeids": [0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 0, 1, 2],
    "nodes_featureids": [0, 0, 0, 1, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"] * 2,
    "nodes_values": [0.5, 0.0, 0.0, 0.2, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0, 2, 0, 0],
    "class_treeids": [0, 0, 1, 1],
    "class_nodeids": [1, 2, 1, 2],
    "class_ids": [0, 1, 2, 0],
    "class_weights": [0.1, 0.2, 0.3, 0.4],
    "classlabels_int64s": [0, 1, 2],
}
DAMAGED = [
    ("nodes_truenodeids", [9, 0, 0, 1, 0, 0], "leads to none"),
    ("nodes_truenodeids", [-1, 0, 0, 1, 0, 0], "negative or too large"),
    ("nodes_truenodeids", [0, 0, 0, 1, 0, 0], "lead round"),
    ("nodes_truenodeids", [2, 0, 0, 1, 0, 0], "to which none leads"),
    ("nodes_modes", ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"] * 2, "adds to nothing"),
    ("nodes_nodeids", [0, 1, 1, 0, 1, 2], "leads to none"),
    ("nodes_nodeids", [0, 1, 5, 0, 1, 2], "leads to none"),
    ("nodes_treeids", [0, 0, 0, 2**40, 1, 1], "negative or too large"),
    ("nodes_values", [0.5, 0.0], "do not fit"),
    ("nodes_featureids", [5, 0, 0, 1, 0, 0], "column 5 of data of 5"),
    ("nodes_featureids", [-1, 0, 0, 1, 0, 0], "column that is negative"),
    ("class_ids", [0, 1, 3, 0], "adds to nothing"),
    ("class_ids", [0, -1, 2, 0], "adds to nothing"),
    ("class_nodeids", [0, 2, 1, 2], "adds to nothing"),
    ("class_treeids", [0, 0, 5, 1], "leads to none"),
    ("class_weights", [0.1], "do not fit"),
    ("classlabels_int64s", [0, 1], "adds to nothing"),
]


@pytest.mark.parametrize(("name", "value", "words"), [("base_values", [0.0] * 3, ""), *DAMAGED])
def test_tables_of_damaged_trees_are_refused(name, value, words, tmp_path):
    """Before anything goes down them; as they are they are fine."""
    file = tmp_path / "it.onnx"
    file.write_bytes(classifier("TreeEnsembleClassifier", **FOREST | {name: value}).SerializeToString())
    if not words:
        extract(file)
        return
    with pytest.raises(ModelError, match=words):
        extract(file)
