"""Qualcomm's Hexagon."""

from __future__ import annotations

from kernels.isa.base import Isa

_OPTIONS = ("-slot1-store-slot0-load:bool=0",)
"""LLVM options: no packet both stores and loads.

Hexagon does that right. QEMU 7.2 loads what was there before the store if the packet before has a conditional
instruction in slot 1 that was not done, so that a spilled address came back as another number.
"""
HEXAGON = Isa(
    "hexagon",
    ("hexagon",),
    lambda _: "HVX",
    spec=lambda _: {"cl-opt": list(_OPTIONS)},
    rounds_floats=False,
    chooses_bounds=False,
)
