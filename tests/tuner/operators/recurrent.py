"""LSTM, GRU and RNN: directions, states, functions, sizes that are no whole vectors."""

import numpy as np
from one_operator import Constant, case, floats

# fmt: off

GATES, STATES = {"RNN": 1, "GRU": 3, "LSTM": 4}, {"RNN": 1, "GRU": 1, "LSTM": 2}
LENGTHS = np.array([3, 6, 1, 0], np.int32)


def row(op, steps=3, batch=2, size=4, hidden=5, bias=True, ways=1, initial=False, peepholes=False, more=(),
        **attributes):
    """A case with constant weights; initial states are inputs."""
    first = attributes.get("layout", 0)
    gates = GATES[op] * hidden
    state = (batch, ways, hidden) if first else (ways, batch, hidden)
    operands = [
        floats(*((batch, steps) if first else (steps, batch)), size),
        Constant(floats(ways, gates, size, seed=2) / 2), Constant(floats(ways, gates, hidden, seed=3) / 2),
        Constant(floats(ways, 2 * gates, seed=4)) if bias else None, None,
        *(floats(*state, seed=5 + place) if initial else None for place in range(STATES[op])),
    ]
    if peepholes:
        operands.append(Constant(floats(ways, 3 * hidden, seed=7)))
    for place, operand in more:
        operands[place] = operand
    while operands[-1] is None:
        operands.pop()
    direction = {} if ways == 1 else {"direction": "bidirectional"}
    return case(op, *operands, outputs=1 + STATES[op], hidden_size=hidden, **direction, **attributes)


def computed(op, hidden, ways):
    """Weights and biases that are inputs of the model."""
    gates = GATES[op] * hidden
    return [
        (1, floats(ways, gates, 4, seed=2) / 2), (2, floats(ways, gates, hidden, seed=3) / 2),
        (3, floats(ways, 2 * gates, seed=4)),
    ]


CASES = [
    *(row(op, **form) for op in GATES for form in (
        {}, {"direction": "reverse"}, {"ways": 2, "initial": True}, {"batch": 7, "hidden": 19, "bias": False},
        {"steps": 1, "batch": 1, "size": 1, "hidden": 1}, {"steps": 9, "batch": 1, "hidden": 40, "ways": 2},
        {"clip": 0.3, "initial": True}, {"batch": 5, "hidden": 33, "initial": True},
    )),
    row("GRU", linear_before_reset=1), row("GRU", linear_before_reset=1, ways=2, hidden=17, initial=True),
    row("LSTM", peepholes=True, initial=True), row("LSTM", peepholes=True, ways=2, hidden=17, initial=True),
    *(row("RNN", activations=[name], initial=True) for name in ("Relu", "Sigmoid", "Softsign", "Softplus")),
    row("RNN", activations=["LeakyRelu"], activation_alpha=[0.3]), row("RNN", activations=["Elu"]),
    row("RNN", activations=["HardSigmoid"], activation_alpha=[0.3], activation_beta=[0.4]),
    *(row(op, layout=1, ways=2, initial=True) for op in GATES), row("LSTM", layout=1),
    row("LSTM", activations=["HardSigmoid", "Softsign", "Tanh"]),
    row("RNN", activations=["Tanh", "Relu"], ways=2),
    row("LSTM", more=[(4, Constant(np.array([3, 3], np.int32)))], initial=True),
    *(row(op, more=[(4, LENGTHS)], steps=6, batch=4, **form) for op in GATES for form in (
        {"initial": True}, {"ways": 2, "initial": True, "hidden": 19}, {"direction": "reverse"})),
    row("GRU", more=[(4, Constant(LENGTHS))], steps=7, batch=4, linear_before_reset=1, ways=2, initial=True),
    # Of one row the data are multiplied within, as far as they go.
    *(row(op, more=[(4, np.array([length], np.int32))], batch=1, **form) for op in GATES for length, form in (
        (0, {"steps": 3, "initial": True}), (1, {"steps": 1, "size": 1, "hidden": 1}), (9, {"steps": 21}),
        (17, {"steps": 17, "ways": 2, "hidden": 19, "initial": True}), (8, {"steps": 11, "bias": False}),
        (5, {"steps": 9, "direction": "reverse", "hidden": 33}), (2, {"steps": 40, "hidden": 16}))),
    # Or where L1 has no room for the weights of the states: beside their products.
    *(row("LSTM", batch=1, hidden=60, **form) for form in (
        {"steps": 16, "size": 60}, {"steps": 25, "size": 7, "ways": 2, "bias": False, "initial": True},
        {"steps": 17, "size": 119, "direction": "reverse"},
        {"steps": 19, "more": [(4, np.array([9], np.int32))]},
        {"steps": 29, "direction": "reverse", "more": [(4, np.array([18], np.int32))]})),
    row("GRU", batch=1, hidden=65, steps=24, ways=2),
    row("GRU", batch=1, hidden=65, steps=33, size=96, linear_before_reset=1, initial=True),
    row("GRU", more=[(4, np.array([4], np.int32))], batch=1, steps=9, linear_before_reset=1, ways=2),
    row("LSTM", more=[(4, np.array([4], np.int32))], batch=1, steps=9, peepholes=True, clip=0.4),
    row("LSTM", more=[*computed("LSTM", 5, 1), (4, np.array([4], np.int32))], batch=1, steps=6),
    *(row(op, ways=2, hidden=11, initial=True, more=computed(op, 11, 2)) for op in GATES),
    row("GRU", linear_before_reset=1, more=computed("GRU", 5, 1)),
    row("LSTM", peepholes=True, more=[*computed("LSTM", 5, 1), (7, floats(1, 15, seed=7))]),
    case("RNN", floats(3, 2, 4, dtype=np.float64), Constant(floats(1, 3, 4, dtype=np.float64)),
        Constant(floats(1, 3, 3, dtype=np.float64)), hidden_size=3, refused=True),
]
