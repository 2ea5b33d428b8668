"""Seed 003: SConv against im2col and OpenBLAS on POWER10 and x86."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from bench import conv_sim, timing
from bench.papers.claim import CACHES, NONE, SIMULATED, WALL, Claim
from bench.papers.int8_gemm import EXPLAIN
from bench.papers.reports import Bench, Missing, Reports

PAPER = "003"
SUITE = Path(__file__).resolve().parents[1] / "sconv393.csv"
FAMILIES = "sconv,sconv_mma"


def _conv(target: str, families: str, more: str) -> str:
    only = f" --families {families}" if families else ""
    return f"bench.conv --target {target} --suite bench/sconv393.csv --seed 1{only} {more}"


SETTINGS = "--candidates 2 --budget-s 20"
POWER10 = Bench("conv-power10-sconv", _conv("power10-sim", FAMILIES, SETTINGS), "all")
POWER10_ALL = Bench("conv-power10-all", _conv("power10-sim", "", "--candidates 5 --budget-s 40"), "all")
SHARES = Bench("conv-power10-shares", _conv("power10-sim", FAMILIES, f"{SETTINGS} --shares"), "12")
X86_SHARES = Bench("conv-host-shares", _conv("host", "sconv", f"{SETTINGS} --shares"), "40")
PACK = Bench(
    "knob-pack-power10",
    "bench.knob --target power10-sim --suite bench/sconv393.csv --families sconv_mma --knob pack --seed 1",
    "24",
)
X86 = Bench("conv-host-sconv", _conv("host", "sconv", SETTINGS), "all")
RESTS = {
    X86: Bench("rest-host", "bench.conv_rest --target host --families sconv", ""),
    POWER10: Bench("rest-power10", f"bench.conv_rest --target power10-sim --families {FAMILIES}", ""),
}
"""What models take beside the convolutions of a report, by the same clock."""
MISSES = Bench("conv-misses", "bench.conv_misses --suite bench/sconv393.csv --seed 1", "32")
MODELS = {
    "googlenet": ((1.18, 1.26), (1.10, 1.10)),
    "inception_v2": ((1.21, 1.28), (1.16, 1.17)),
    "resnet18": ((1.26, 1.46), (1.25, 1.42)),
    "resnet50": ((1.13, 1.28), (1.09, 1.17)),
    "resnet152": ((1.16, 1.28), (1.13, 1.21)),
    "squeezenet": ((1.12, 1.27), (1.16, 1.13)),
    "vgg16": ((1.27, 1.28), (1.16, 1.12)),
}
"""Table 2: speed of the convolutions and of the whole model over Base, on x86 and POWER10."""
ORDERS = {"x86": ((24, 16), "ws", "weight-stationary"), "POWER10": ((8, 16), "is", "input-stationary")}
"""Section 7.2: the micro-kernel's filters and windows, and the schedule that it leads to."""
_L3 = 4 * 1024 * 1024


def rows_of(reports: Reports, bench: Bench) -> list[dict[str, Any]]:
    """The layers that Base was counted for, too."""
    rows = [row for row in reports.of(bench)["rows"] if row["base"]]
    if not rows:
        raise Missing("im2col + OpenBLAS could not be fetched")
    reports.say(f"{len(rows)} of 135 distinct layers{_vectors(rows)}")
    return rows


def _vectors(rows: list[dict[str, Any]]) -> str:
    """Which of this machine's vectors they were measured with."""
    return f", vectors of {rows[0]['vector_bits']} bits" if "vector_bits" in rows[0] else ""


def _all(rows: list[dict[str, Any]]) -> float:
    return timing.geomean([conv_sim.ratio(row) for row in rows], [row["count"] for row in rows]) or 0.0


def _won(rows: list[dict[str, Any]]) -> float:
    """Per cent of the occurrences."""
    won = sum(row["count"] for row in rows if conv_sim.ratio(row) >= 1)
    return float(100.0 * won / sum(row["count"] for row in rows))


def _pointwise(rows: list[dict[str, Any]]) -> float:
    found = [row for row in rows if row["class"].startswith("1x1") and "/" not in row["class"]]
    if not found:
        raise Missing("no pointwise layer in the sample")
    return _won(found)


def _most(rows: list[dict[str, Any]]) -> float:
    return max(conv_sim.ratio(row) for row in rows)


def _peak(rows: list[dict[str, Any]]) -> float:
    return 100.0 * max(conv_sim.share(row) for row in rows)


def _wide_peak(rows: list[dict[str, Any]]) -> float:
    """The median of layers with many channels."""
    shares = [conv_sim.share(row) for row in rows if "channels and more" in row["class"]]
    if not shares:
        raise Missing("no such layer in the sample")
    return 100.0 * median(shares)


def _missed(level: str, whose: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Misses of ``level`` over all loads, in per cent (figure 11)."""

    def figure(rows: list[dict[str, Any]]) -> float:
        misses, loads = (
            sum(row["count"] * whose(row)[of] for row in rows) for of in (f"{level}_misses", "loads")
        )
        return float(100.0 * misses / loads)

    return figure


def _base(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = row["base"]["call"]
    return found


def _ours(row: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = row["tuned"]
    return found


def _fewer(name: str) -> Any:
    """Base's over ours, summed over the occurrences."""

    def figure(rows: list[dict[str, Any]]) -> float:
        base, ours = (sum(row["count"] * whose(row)[name] for row in rows) for whose in (_base, _ours))
        return float(base / max(1, ours))

    return figure


def _less_loads(rows: list[dict[str, Any]]) -> float:
    less = sum(row["count"] for row in rows if _ours(row)["loads"] < _base(row)["loads"])
    return float(100.0 * less / sum(row["count"] for row in rows))


def _shares(whose: str, part: str) -> Any:
    """Packing of Base (im2col and OpenBLAS's own) or of ours, in per cent of the call (figure 10)."""

    def figure(rows: list[dict[str, Any]]) -> float:
        found = [row for row in rows if part in row.get("shares", {}).get(whose, {})]
        if not found:
            raise Missing("these reports have no shares")
        parts = sum(row["count"] * row["shares"][whose][part] for row in found)
        return float(100.0 * parts / sum(row["count"] * row["shares"][whose]["call"] for row in found))

    return figure


@cache
def _names() -> dict[str, Counter[str]]:
    """For each model, how often it has which layers, by their first name in the suite."""
    from bench.suite import PADS, SIZES

    first: dict[tuple[str, ...], str] = {}
    found: dict[str, Counter[str]] = {}
    shape = (*SIZES[1:], "stride_h", "stride_w", *PADS, "dil_h", "dil_w", "groups")
    with SUITE.open(newline="") as file:
        for row in csv.DictReader(file):
            name = first.setdefault(tuple(row[each] for each in shape), f"{row['model']}/{row['layer']}")
            found.setdefault(row["model"], Counter())[name] += 1
    return found


def _model(name: str, bench: Bench) -> Callable[[Reports], float]:
    """Table 2: Base's time of a model's convolutions over ours, of the layers there are figures for."""

    def figure(reports: Reports) -> float:
        wanted = _names()[name]
        rows = [row for row in rows_of(reports, bench) if row["layer"] in wanted]
        if not rows:
            raise Missing("none of its layers was measured")
        reports.say(f"{len(rows)} of {len(wanted)} distinct layers{_vectors(rows)}")
        base, ours = _sums(wanted, rows)
        return base / ours

    return figure


def _sums(wanted: Counter[str], rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Base's cycles of a model's convolutions, and ours."""
    base, ours = (sum(wanted[r["layer"]] * whose(r)["cycles"] for r in rows) for whose in (_base, _ours))
    return float(base), float(ours)


def _whole_model(name: str, bench: Bench) -> Callable[[Reports], float]:
    """Table 2: the same with all that is no convolution on both sides, as a build of ours runs it."""

    def figure(reports: Reports) -> float:
        wanted = _names()[name]
        rows = [row for row in rows_of(reports, bench) if row["layer"] in wanted]
        if len(rows) < len(wanted):
            raise Missing(f"{len(rows)} of its {len(wanted)} distinct layers are measured")
        found = [row for row in reports.of(RESTS[bench])["rows"] if row["model"] == name]
        if not found:
            raise Missing("what is beside the convolutions was not measured")
        (base, ours), rest = _sums(wanted, rows), float(found[0]["cycles"])
        share = f"{100 * rest / (rest + base):.1f} % of Base"
        told = "calls of convolutions, and of all else in our build but bias, ReLU and sums"
        reports.say(f"{told}, which is {share}{_vectors(rows)}")
        return (rest + base) / (rest + ours)

    return figure


def _order(machine: str) -> Callable[[Reports], str]:
    """On how many of the 393 the analysis picks the paper's schedule, with its caches and micro-kernel."""

    def figure(_: Reports) -> str:
        from dataclasses import replace

        from bench.suite import read_suite
        from kernels.float.sconv import csa
        from kernels.target import CATALOGUE

        (filters, windows), order, _name = ORDERS[machine]
        target = replace(CATALOGUE["power10"], l1_bytes=32 * 1024, l2_bytes=1024 * 1024, l3_bytes=_L3)
        layers = read_suite(SUITE)
        counts = {layer: csa.analyse(layer.conv, filters, windows, target).order == order for layer in layers}
        return (
            f"{sum(layer.count for layer, same in counts.items() if same)} of {sum(x.count for x in layers)}"
        )

    return figure


def _avx512_block(_: Reports) -> str:
    """The paper's block, where the space of a target with vectors of 512 bits has it."""
    from dataclasses import replace

    from kernels import registry
    from kernels.target import CATALOGUE
    from kernels.workload.base import Conv2d

    target = replace(next(t for t in CATALOGUE.values() if t.triple.startswith("x86")), vector_bits=512)
    blocks = registry.kernel("sconv").space(Conv2d(1, 64, 28, 28, 64, 3, 3), target).knobs["block"]
    if "24x1" not in blocks:
        raise Missing("it is in no space")
    return "24x16"


def _shifts(reports: Reports) -> float:
    """Cycles of tiles packed tap by tap over those packed by shifts, all else the same."""
    rows = [row["values"] for row in reports.of(PACK)["rows"] if {"1", "2"} <= row["values"].keys()]
    if not rows:
        raise Missing("no layer of the sample has both")
    reports.say(f"{len(rows)} layers")
    return timing.geomean(row["1"]["cycles"] / row["2"]["cycles"] for row in rows) or 0.0


def _claim(claim: str, paper: str, unit: str, figure: Any, bench: Bench = POWER10) -> Claim:
    """A figure of all layers of a bench's report."""
    here = bench in (X86, X86_SHARES)
    target, clock = ("x86 (this machine)", WALL) if here else ("power10-sim", SIMULATED)
    return Claim(PAPER, claim, paper, unit, target, clock, bench.command, lambda r: figure(rows_of(r, bench)))


def _whole(name: str, at: int, bench: Bench) -> list[Claim]:
    """Table 2's row of a model on one machine."""
    conv, model = (figures[at] for figures in MODELS[name])
    target, clock = ("x86 (this machine)", WALL) if bench is X86 else ("power10-sim", SIMULATED)
    made = [
        ("convolutions", f"{conv:.2f}", bench, _model(name, bench)),
        ("whole model", f"{model:.2f}", RESTS[bench], _whole_model(name, bench)),
    ]
    return [
        Claim(PAPER, f"{name}, {what}: Base / ours", paper, "ratio", target, clock, by.command, figure)
        for what, paper, by, figure in made
    ]


def _counted(claim: str, paper: str, unit: str, figure: Any) -> Claim:
    """A figure of figure 11 by valgrind's model of an x86's caches."""
    return Claim(
        PAPER,
        claim,
        paper,
        unit,
        "x86-avx2",
        CACHES,
        MISSES.command,
        lambda reports: figure(rows_of(reports, MISSES)),
    )


CLAIMS = [
    *(
        Claim(
            PAPER,
            f"{machine}: layers for which the analysis picks {name}",
            "393 of 393",
            "layers",
            f"the paper's {machine}",
            NONE,
            f"python -m bench.papers --paper {PAPER}",
            _order(machine),
        )
        for machine, (_, _, name) in ORDERS.items()
    ),
    _claim("SConv alone: Base / ours, geometric mean of the occurrences", "1.30", "ratio", _all),
    _claim("all families of ours: Base / ours", "not in the paper", "ratio", _all, POWER10_ALL),
    _claim("layers that SConv wins (figure 8)", "90", "%", _won),
    _claim("pointwise layers that SConv wins (figure 9)", "83", "%", _pointwise),
    _claim("the largest gain on a layer (figure 8)", "1.9", "ratio", _most),
    _claim("the largest share of the peak", "77", "%", _peak),
    _claim("share of the peak, layers of 64 channels and more, median", "not given", "%", _wide_peak),
    *(claim for name in MODELS for claim in _whole(name, 1, POWER10)),
    _claim("packing's share of Base (figure 10)", "39", "%", _shares("base", "packing"), SHARES),
    _claim("packing's share of SConv (figure 10)", "10", "%", _shares("ours", "packing"), SHARES),
    _claim("the micro-kernel's share of SConv (figure 10)", "drawn", "%", _shares("ours", "kernel"), SHARES),
    Claim(
        PAPER,
        "packing by shifts (section 6.2): cycles packed tap by tap / by shifts, whole layers",
        "part of the gain",
        "ratio",
        "power10-sim",
        SIMULATED,
        PACK.command,
        _shifts,
    ),
    _claim("misses of L1 over loads, Base (figure 11, x86)", "17", "%", _missed("l1", _base)),
    _claim("misses of L1 over loads, SConv (figure 11, x86)", "10", "%", _missed("l1", _ours)),
    _claim("misses of L2, Base / SConv (figure 11, x86)", "5.9", "ratio", _fewer("l2_misses")),
    _claim("layers with fewer loads than Base (section 7.6, x86)", "65", "%", _less_loads),
    _claim("SConv alone: Base / ours, geometric mean of the occurrences", "1.19", "ratio", _all, X86),
    _claim("layers that SConv wins (figure 8)", "91", "%", _won, X86),
    _claim("pointwise layers that SConv wins (figure 9)", "87", "%", _pointwise, X86),
    _claim("the largest gain on a layer (figure 8)", "2.11", "ratio", _most, X86),
    _claim("the largest share of the peak", "90", "%", _peak, X86_SHARES),
    *(claim for name in MODELS for claim in _whole(name, 0, X86)),
    Claim(
        PAPER,
        "the micro-kernel for AVX-512 (section 5.2)",
        "24x16",
        "filters x windows",
        "x86",
        NONE,
        f"{EXPLAIN} host",
        _avx512_block,
    ),
    _claim("packing's share of SConv (figure 10)", "10", "%", _shares("ours", "packing"), X86_SHARES),
    _claim(
        "the micro-kernel's share of SConv (figure 10)", "drawn", "%", _shares("ours", "kernel"), X86_SHARES
    ),
    _claim(
        "im2col's share of Base (figure 10, where BLAS's packing is in it)",
        "26",
        "%",
        _shares("base", "im2col"),
        X86_SHARES,
    ),
    _counted("misses of L1 over loads, Base (figure 11)", "17", "%", _missed("l1", _base)),
    _counted("misses of L1 over loads, SConv (figure 11)", "10", "%", _missed("l1", _ours)),
    _counted("misses of L2, Base / SConv (figure 11)", "5.9", "ratio", _fewer("l2_misses")),
    _counted("misses of L3, Base / SConv (figure 11)", "9.9", "ratio", _fewer("l3_misses")),
    _counted("layers with fewer loads than Base (section 7.6)", "65", "%", _less_loads),
]
