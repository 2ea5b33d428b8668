"""Which nodes of a rewritten graph the build computes itself."""

from onnx import ModelProto, helper

PRODUCT = "TilefleetProduct"
"""Operator of the one node that stands for a product; its attribute ``index`` points into the products."""
OPERATOR = "TilefleetOperator"
"""Operator of the one node that stands for an ``Operator``; its attribute ``index`` points to it."""
RECURRENT = "TilefleetRecurrent"
"""Operator of one direction of an LSTM, GRU or RNN after the product of its input with the weights."""
UNITS = "tilefleet.units"
"""Key of the metadata of an LSTM whose weights are whole numbers, and whose data and states become bytes: in
JSON, what one is worth of the weights and of the recurrent ones, for each direction and column."""
ROUNDED = "tilefleet.rounded"
"""Metadata of a MatMul: its data may be rounded to int8, in blocks of so many of a row."""
HALVES = "tilefleet.halves"
"""Key of the metadata of a model as written of which what is of 16 bits is computed in float32."""
NEEDS = "tilefleet.needs"
"""Key of the metadata of a Gather of which places count from the start alone: in JSON, the node of the model
that needs them, and what they are to it."""
CELL_CLIP = "tilefleet.cell_clip"
"""Key of the metadata of an LSTM that keeps its memory within this number of zero: TFLite's."""
INTERLEAVE = "TilefleetInterleave"
"""Operator of a node that makes pixels of channels; its attributes are ``steps``, ``run``, ``crop`` and, as
``down`` and ``right``, ``parts`` of ``kernels/operators/interleave.py``."""
FRAMES = "TilefleetFrames"
"""Operator of a node that puts images beside each other; its attributes are those of
``kernels/operators/frames.py``."""
MATMUL = "TilefleetMatMul"
"""Operator, until it is a ``PRODUCT``, of ``alpha`` times the product of two arrays of float32.

``perms`` are the orders in which it sees the axes of both and of the result, one after another.
"""
ATTENTION = "TilefleetAttention"
"""Operator, until it is a ``PRODUCT``, of ``alpha`` times an attention of queries, keys (transposed), values
and perhaps a mask.

``perms`` as above, without one of the mask; heads of keys and values may be fewer, one a group of queries.
``scale`` is that of the scores. Row i sees keys up to i + ``causal``, or all where it is -1; ``zeros`` says
that a row without any key is zeros, not NaN.
"""
PLACES = "TilefleetPlaces"
"""Operator of a node that says where the greatest element of each window of a MaxPool lies."""
OWN_DOMAIN = "tilefleet.own"
"""Of nodes that are there before shapes are known; no file may have such."""
TREES = "TilefleetTrees"
"""Operator of an ensemble of trees. Its inputs are rows, the shape of the result, and then those of
``kernels/operators/trees.py`` in their order, with empty names for what it does not have; ``operator`` is
what ONNX calls the comparison, ``how`` as there, ``double`` whether its numbers are float64."""
LOOP = "TilefleetLoop"
"""Operator of a Loop that data end. Its inputs are the most turns, whether there is one, ``states`` values
that each turn hands on, and what the body reads around it; its outputs the values after the last turn, what
each turn leaves beside them, with room for all, and how many turns there were. ``body`` is a model that takes
a turn's number, a truth, and the inputs from the third on, and gives whether there is another turn, and the
rest; ``room`` has shape and type of each output, in JSON."""
BOUNDED = "TilefleetBounded"
"""Operator of a node that hands whole numbers on, all from ``low`` to ``high``, or ends the run; ``who`` is
the node that needs them, ``what`` they are, "a length"."""
ROUNDING = "TilefleetRounding"
"""Operator of a node that rounds float32 to the numbers of a type of 16 bits, its attribute ``to``."""
CUT = "TilefleetCut"
"""Operator of a node that leaves of its first input, along ``axes``, as many elements as the second says: a
result of the model, the one kind of tensor of which data decide the shape."""
COMPUTED = {
    "ArgMax": "compiler.lower.operators.extremes:place",
    "ArgMin": "compiler.lower.operators.extremes:place",
    BOUNDED: "compiler.lower.operators.bounds:bounded",
    "Cast": "compiler.lower.operators.special:cast",
    "CumProd": "compiler.lower.operators.running_sum:running_sum",
    "CumSum": "compiler.lower.operators.running_sum:running_sum",
    "Gather": "compiler.lower.operators.gather:gather",
    "GatherElements": "compiler.lower.operators.gather:elements",
    "GridSample": "compiler.lower.operators.sampling:sampling",
    "LRN": "compiler.lower.operators.lrn:lrn",
    "NonMaxSuppression": "compiler.lower.operators.suppression:suppression",
    "NonZero": "compiler.lower.operators.suppression:places",
    "Not": "compiler.lower.operators.special:negation",
    PLACES: "compiler.lower.operators.places:places",
    ROUNDING: "compiler.lower.operators.rounding:rounding",
    "Resize": "compiler.lower.operators.resize:resize",
    "Scatter": "compiler.lower.operators.scatter:elements",
    "ScatterElements": "compiler.lower.operators.scatter:elements",
    "ScatterND": "compiler.lower.operators.scatter:scatter",
    "Sign": "compiler.lower.operators.special:sign",
    "ThresholdedRelu": "compiler.lower.operators.special:above",
    TREES: "compiler.lower.operators.trees:trees",
    "TopK": "compiler.lower.operators.largest:largest",
    "Upsample": "compiler.lower.operators.resize:resize",
}
"""Operators for which TVM has no converter, a wrong or a slow one, and the function in its place.

It takes Relax's block builder, the graph, the node, and its inputs as Relax values (None for one left out),
and returns the result, or a list of all. Modules are named, not imported: who only reads a graph needs no
TVM.
"""


def declare_own(model: ModelProto) -> None:
    """Let ``model`` have nodes of ``OWN_DOMAIN``."""
    if all(entry.domain != OWN_DOMAIN for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid(OWN_DOMAIN, 1))
