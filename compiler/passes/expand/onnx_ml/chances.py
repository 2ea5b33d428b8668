"""How likely each class is, from how likely it is beside each other one.

By the second method of T.-F. Wu, C.-J. Lin and R. C. Weng, Probability Estimates for Multi-class
Classification by Pairwise Coupling (2004), as LIBSVM has it: turns until the estimates hardly change.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, TensorProto, helper

from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.expand.onnx_ml.columns import reduced

LEAST_OPSET = 13
TURNS = 100
TOLERANCE = 0.005
"""Of the estimates of one class alone; of k classes a k-th of it."""
LEAST = 1e-7
"""No class is less likely beside another one, nor more likely than what is left."""


def chances(form: Fused, scores: str, pairs: Sequence[tuple[int, int]], slopes: Array, shifts: Array) -> str:
    """The chance of each class, (rows, classes), of a score for each of ``pairs`` of them, (rows, pairs)."""
    if form.opset < LEAST_OPSET:
        form.refuse(
            f"gives probabilities, which takes operator set {LEAST_OPSET} at least; convert the model"
        )
    count = max(max(pair) for pair in pairs) + 1
    scaled = form.add("Mul", [scores, form.constant(-slopes)])
    first = form.add("Sigmoid", [form.add("Sub", [scaled, form.constant(shifts)])])
    first = form.add("Max", [first, form.number(LEAST)])
    first = form.add("Min", [first, form.number(1 - LEAST)])
    # r[i, j] is how likely i is beside j.
    places = np.zeros((len(pairs), count, count), np.float32)
    ones = np.zeros((count, count), np.float32)
    for at, (low, high) in enumerate(pairs):
        places[at, low, high], places[at, high, low], ones[high, low] = 1, -1, 1
    flat = form.add("MatMul", [first, form.constant(places.reshape(len(pairs), -1))])
    flat = form.add("Add", [flat, form.constant(ones.reshape(-1))])
    beside = form.add("Reshape", [flat, form.constant(np.array([-1, count, count]))])
    turned = form.add("Transpose", [beside], perm=[0, 2, 1])
    own = reduced(form, "ReduceSum", form.add("Mul", [beside, beside]), axis=1, keepdims=0)
    diagonal = form.add("Mul", [form.unsqueezed(own, 2), form.constant(np.eye(count, dtype=np.float32))])
    matrix = form.add("Sub", [diagonal, form.add("Mul", [beside, turned])])
    start = form.add("Mul", [own, form.number(0.0)])
    start = form.add("Add", [start, form.number(1 / count)])
    limit, yes = form.constant(np.array(TURNS)), form.constant(np.array(True))
    return form.add("Loop", [limit, yes, start], body=_turn(form, matrix, own, count))


def _turn(form: Fused, matrix: str, own: str, count: int) -> GraphProto:
    """One turn: a step for each class in every row that has not come to rest."""
    around = helper.make_node("Turn", [], [f"{form.node.output[0]}/turn"], name=form.node.name)
    turn = form.inside(around)
    old = f"{around.output[0]}/p"
    product = reduced(
        turn, "ReduceSum", turn.add("Mul", [matrix, turn.unsqueezed(old, 1)]), axis=2, keepdims=0
    )
    square = reduced(turn, "ReduceSum", turn.add("Mul", [old, product]), axis=1, keepdims=1)
    apart = turn.add("Abs", [turn.add("Sub", [product, square])])
    error = reduced(turn, "ReduceMax", apart, axis=1, keepdims=1)
    rests = turn.add("Less", [error, turn.number(TOLERANCE / count)])
    moving = turn.add("Cast", [turn.add("Not", [rests])], to=TensorProto.FLOAT)
    going = turn.add("Cast", [turn.add("ReduceMax", [moving], keepdims=0)], to=TensorProto.BOOL)
    estimates = old
    for at in range(count):
        place = turn.constant(np.array([at]))
        mine, share = (turn.add("Gather", [each, place], axis=1) for each in (product, own))
        step = turn.add("Div", [turn.add("Sub", [square, mine]), share])
        less = turn.add("Add", [step, turn.number(1.0)])
        double = turn.add("Mul", [mine, turn.number(2.0)])
        change = turn.add("Mul", [step, turn.add("Add", [turn.add("Mul", [step, share]), double])])
        square = turn.add("Div", [turn.add("Div", [turn.add("Add", [square, change]), less]), less])
        row = turn.add("Gather", [matrix, turn.constant(np.array(at))], axis=1)
        product = turn.add("Div", [turn.add("Add", [product, turn.add("Mul", [step, row])]), less])
        here = turn.constant(np.eye(count, dtype=np.float32)[at])
        moved = turn.add("Add", [estimates, turn.add("Mul", [step, here])])
        estimates = turn.add("Div", [moved, less])
    after = turn.add("Where", [rests, old, estimates])
    inputs = {"number": TensorProto.INT64, "on": TensorProto.BOOL, "p": TensorProto.FLOAT}
    named = [
        helper.make_tensor_value_info(f"{around.output[0]}/{name}", kind, None if name == "p" else [])
        for name, kind in inputs.items()
    ]
    results = [
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        helper.make_tensor_value_info(after, TensorProto.FLOAT, None),
    ]
    return helper.make_graph(turn.nodes, "turn", named, results)
