"""Qualcomm's Hexagon."""

from __future__ import annotations

from kernels.isa.base import Isa

HEXAGON = Isa("hexagon", ("hexagon",), lambda _: "HVX", rounds_floats=False, chooses_bounds=False)
