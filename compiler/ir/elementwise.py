"""Operators of single elements."""

UNARY = {
    *("Abs", "Clip", "Elu", "Erf", "Exp", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Neg"),
    *("Relu", "Sigmoid", "Softplus", "Sqrt", "Tanh"),
}
"""Of one activation; further inputs are numbers."""
BINARY = {"Add", "Div", "Mul", "Sub"}
