"""How quantized operators are found in models, one file each, named like its kernel.

To add one (the recipe of docs/extending.md): write ``kernels/operators/int8/NAME.py``, a frozen dataclass
that derives from ``QOperator`` (base.py there) and says all of the function by integers; write ``NAME.py``
here, whose ``FORMS`` say which nodes it is made of; and name it in ``OPERATORS``. A match
(``Forms.nodes``) looks at a node, asks ``Rewriting`` for the bytes of its inputs (``known``, ``constants``)
and for what follows (``tail``), and writes the kernel by ``Rewriting.operator``. Building, names of
functions, layouts and the reference need no more. Model: add.py.
"""

from __future__ import annotations

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.operators import add, border, concat, lookup, moves, mul, pool, product, softmax

OPERATORS: tuple[Forms, ...] = tuple(
    module.FORMS for module in (add, border, concat, lookup, moves, mul, pool, product, softmax)
)
NODES = {kind: match for forms in OPERATORS for kind, match in forms.nodes.items()}
QLINEAR = {kind: expand for forms in OPERATORS for kind, expand in forms.qlinear.items()}
TFLITE = {kind: op for forms in OPERATORS for kind, op in forms.tflite.items()}
