"""Borders of zeros that a convolution takes in."""

from __future__ import annotations

from compiler.readers.tflite.file import Array

Border = tuple[tuple[int, int], tuple[int, int]]
"""(before, after) in rows and in columns."""


class Padded:
    """Tensors that are others with a border of zeros: a convolution brings its border itself."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[int, Border]] = {}

    def note(self, index: int, source: int, widths: Array) -> None:
        """The tensor ``index`` is ``source`` with a border of ``widths`` (4, 2), axes as in the file."""
        if widths.shape == (4, 2) and not widths[[0, 3]].any():
            (top, bottom), (left, right) = widths[1:3].tolist()
            self._of[index] = (source, ((top, bottom), (left, right)))

    def source(self, index: int) -> tuple[int, Border]:
        """What to read instead of ``index``, and the border around it."""
        return self._of.get(index, (index, ((0, 0), (0, 0))))
