"""Suites of convolution layers from CSV files."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

from kernels.workload.base import Conv2d

SIZES = ("n", "in_c", "in_h", "in_w", "out_c", "kh", "kw")
PADS = ("pad_top", "pad_left", "pad_bottom", "pad_right")
COLUMNS = ("model", "layer", *SIZES, "stride_h", "stride_w", *PADS, "dil_h", "dil_w", "groups")


@dataclass(frozen=True)
class Layer:
    """A distinct convolution, named ``model/layer`` after its first occurrence of ``count`` in the suite."""

    name: str
    conv: Conv2d
    count: int


def read_suite(path: Path) -> list[Layer]:
    """The distinct convolutions of a suite in the order in which they first occur.

    Raises ValueError that names the missing column or the damaged line.
    """
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"{path}: no column {', '.join(missing)}; a suite has {', '.join(COLUMNS)}")
        names: dict[Conv2d, list[str]] = {}
        for line, row in enumerate(rows, start=2):
            try:
                number = {name: int(row[name]) for name in COLUMNS[2:]}
                conv = Conv2d(
                    n=number["n"],
                    in_c=number["in_c"],
                    in_h=number["in_h"],
                    in_w=number["in_w"],
                    out_c=number["out_c"],
                    kh=number["kh"],
                    kw=number["kw"],
                    stride=(number["stride_h"], number["stride_w"]),
                    pad=(number["pad_top"], number["pad_left"], number["pad_bottom"], number["pad_right"]),
                    dilation=(number["dil_h"], number["dil_w"]),
                    groups=number["groups"],
                )
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {line}: {error}") from None
            names.setdefault(conv, []).append(f"{row['model']}/{row['layer']}")
    return [Layer(found[0], conv, len(found)) for conv, found in names.items()]


def sample(suite: list[Layer], count: int, seed: int) -> list[Layer]:
    """``count`` layers drawn by ``seed``; all of them when there are no more than that, or for 0."""
    layers = sorted(suite, key=lambda layer: layer.name)
    return layers if not 0 < count < len(layers) else random.Random(seed).sample(layers, count)
