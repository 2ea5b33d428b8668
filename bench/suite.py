"""Suites of convolution layers from CSV files."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from kernels.workload import Conv2d

SIZES = ("n", "in_c", "in_h", "in_w", "out_c", "kh", "kw")
PADS = ("pad_top", "pad_left", "pad_bottom", "pad_right")
COLUMNS = ("model", "layer", *SIZES, "stride_h", "stride_w", *PADS, "dil_h", "dil_w", "groups")


def read_suite(path: Path) -> dict[str, Conv2d]:
    """The distinct convolutions of a suite by the name ``model/layer`` of their first occurrence.

    Raises ValueError that names the missing column or the damaged line.
    """
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            raise ValueError(f"{path}: no column {', '.join(missing)}; a suite has {', '.join(COLUMNS)}")
        layers: dict[Conv2d, str] = {}
        for line, row in enumerate(rows, start=2):
            try:
                number = {name: int(row[name]) for name in COLUMNS[2:]}
                layer = Conv2d(
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
            layers.setdefault(layer, f"{row['model']}/{row['layer']}")
    return {name: layer for layer, name in layers.items()}


def sample(suite: dict[str, Conv2d], count: int, seed: int) -> dict[str, Conv2d]:
    """``count`` layers drawn by ``seed``; all of them when there are no more than that."""
    names = sorted(suite)
    chosen = names if count >= len(names) else random.Random(seed).sample(names, count)
    return {name: suite[name] for name in chosen}
