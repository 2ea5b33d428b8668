"""Spectra of TFLite in ONNX: a Fourier transform of each line as two products, of its even and its odd part.

A spectrum is two tensors in the file's order, of the real and of the imaginary parts.
"""

from __future__ import annotations

import numpy as np

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.formula import Formula
from compiler.readers.tflite.operands import numbers
from compiler.readers.tflite.products import operand
from compiler.readers.tflite.writer import FILE, Writer

MOST_SAMPLES = 8192
"""Of one line: the matrices have half as many rows and columns."""


def spectrum(writer: Writer, op: Operator) -> None:
    """RFFT2D of lines, which are (1, samples) each."""
    data, length = operand(writer, op, 0), numbers(writer, op, 1).reshape(-1)
    shape, formula = writer.tensor(data).shape, Formula(writer, op)
    if len(shape) < 2 or length.size != 2 or length[0] != 1 or shape[-2] != 1:
        raise ModelError(f"it transforms planes, {length.tolist()[:4]} of {list(shape)}, not only lines")
    samples = int(length[1])
    if not 2 <= samples <= MOST_SAMPLES or samples % 2 or samples > shape[-1]:
        raise ModelError(f"it transforms {samples} samples of {shape[-1]}; an even number of them is read")
    if len(op.outputs) != 1:
        raise ModelError(f"it has {len(op.outputs)} results instead of one")
    writer.agree(op.outputs[0], (*shape[:-1], samples // 2 + 1))
    half, axis = samples // 2, len(shape) - 1
    line = writer.real(data, FILE)
    writer.nodes.spend(8 * half * half)  # of the matrices, before they are made
    first, middle = formula.part(line, 0, 1, axis), formula.part(line, half, half + 1, axis)
    places, waves = np.arange(half + 1)[:, None], np.arange(half + 1)[None]
    # Of whole turns, sines of large angles would be off by more than float32's step.
    angles = 2 * np.pi * (places * waves % samples) / samples
    if half == 1:
        even = formula("Concat", first, middle, axis=axis)
        imaginary = formula("Mul", even, formula.numbers(0.0))
    else:
        rise = formula.part(line, 1, half, axis)
        limits = ([samples - 1], [half], [axis], [-1])
        fall = formula("Slice", line, *map(formula.integers, limits))
        even = formula("Concat", first, formula("Add", rise, fall), middle, axis=axis)
        odd = formula("Sub", rise, fall)
        imaginary = formula("MatMul", odd, formula.numbers(-np.sin(angles[1:-1])))
    writer.spectra[op.outputs[0]] = formula("MatMul", even, formula.numbers(np.cos(angles))), imaginary


def part_of_spectrum(writer: Writer, op: Operator) -> None:
    """REAL, IMAG and COMPLEX_ABS of a spectrum."""
    data = operand(writer, op, 0)
    if data not in writer.spectra:
        raise ModelError("its data is no spectrum that is computed before")
    (real, imaginary), formula = writer.spectra[data], Formula(writer, op)
    if op.kind == "COMPLEX_ABS":
        square = formula("Add", formula("Mul", real, real), formula("Mul", imaginary, imaginary))
        made = formula("Sqrt", square)
    else:
        made = real if op.kind == "REAL" else imaginary
    index = writer.result(op, writer.tensor(data).shape)
    writer.write(index, FILE, made, writer.finished(index, [], "NONE"))
