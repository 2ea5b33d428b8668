"""Two convolutions as one chain, and as two separate kernels, on a simulated board by one clock.

python -m bench.chains --target hexagon-sim --case 1x1 [--candidates 6] [--json FILE]
python -m bench.chains --target rpi4-sim --network [--floats] [--candidates 6] [--json FILE]

The cases are those of seed 004 (64x64x128 -> 128 -> 128, filters 1x1 or 3x3 without padding), and pairs of
MobileNet-v2; ``--network`` takes all of that. Both sides are the best of as many configs,
predicted fastest; all results are checked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.chains_network import best, network
from bench.simulated import Bench, bench_on

if TYPE_CHECKING:
    from kernels.target import Target
    from kernels.workload.chain import AnyChain

CASES = {
    # in_c, side, then (out_c, kernel, stride, pad, depthwise) of both
    "1x1": (128, 64, (128, 1, 1, 0, False), (128, 1, 1, 0, False)),
    "3x3": (128, 64, (128, 3, 1, 0, False), (128, 3, 1, 0, False)),
    "1x1-3x3": (64, 56, (64, 1, 1, 0, False), (64, 3, 1, 1, False)),
    "expand-112": (16, 112, (96, 1, 1, 0, False), (96, 3, 2, 1, True)),
    "project-112": (32, 112, (32, 3, 1, 1, True), (16, 1, 1, 0, False)),
    "project-56": (144, 56, (144, 3, 1, 1, True), (24, 1, 1, 0, False)),
    "project-28": (192, 28, (192, 3, 1, 1, True), (32, 1, 1, 0, False)),
    "project-14": (384, 14, (384, 3, 1, 1, True), (64, 1, 1, 0, False)),
}
Part = tuple[int, int, int, int, bool]


def chain_of(case: str, of_bytes: bool) -> AnyChain:
    """The chain of a case, of floats with bias and ReLU6 or of bytes."""
    from kernels.workload.base import Conv2d, ConvChain, Epilogue, QConv2d, QConvChain

    in_c, side, *parts = CASES[case]
    made: list[Any] = []
    for out_c, kernel, stride, pad, depthwise in parts:
        pads, groups = (pad,) * 4, in_c if depthwise else 1
        strides = (stride, stride)
        if of_bytes:
            conv: Any = QConv2d(
                *(1, side, side, in_c, out_c, kernel, kernel, strides, pads, (1, 1), groups),
                weight_range=(-127, 127),
                scale="small",
            )
        else:
            epilogue = Epilogue(bias=True, clamp=(0.0, 6.0))
            conv = Conv2d(
                *(1, in_c, side, side, out_c, kernel, kernel, strides, pads, (1, 1), groups),
                epilogue=epilogue,
            )
        made.append(conv)
        in_c, side = out_c, conv.out_h
    return QConvChain(*made) if of_bytes else ConvChain(*made)


def measured(bench: Bench, case: str, of_bytes: bool, target: Target, count: int) -> dict[str, Any] | None:
    """One case's figures; none where no kernel of the target computes both in one."""
    from kernels import registry

    chain = chain_of(case, of_bytes)
    if not registry.applicable(chain, target):
        return None
    parts = [best(bench, part, target, count) for part in chain.parts]
    whole = best(bench, chain, target, count)
    apart = sum(int(part["cycles"]) for part in parts)
    return {
        "case": case,
        "text": str(chain),
        "chain": whole,
        "parts": parts,
        "ratio": apart / int(whole["cycles"]),
    }


def main(arguments_given: Sequence[str]) -> None:
    """Run the bench and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.chains", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--target", default="hexagon-sim", help="a simulated board (default hexagon-sim)")
    parser.add_argument("--case", action="append", choices=sorted(CASES), help="all by default")
    parser.add_argument("--floats", action="store_true", help="float32 instead of bytes")
    parser.add_argument("--network", action="store_true", help="all layers of MobileNet-v2")
    parser.add_argument("--candidates", type=int, default=6, help="configs measured of each (default 6)")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args(arguments_given)

    from kernels.target import CATALOGUE
    from worker.fleet.drivers.sim_models import SIM_MODELS

    if arguments.target not in SIM_MODELS:
        parser.error(f"--target {arguments.target}: there are {', '.join(sorted(SIM_MODELS))}")
    target = CATALOGUE[SIM_MODELS[arguments.target].target]
    rows = []
    with bench_on(arguments.target) as bench:
        if arguments.network:
            found = network(bench, target, arguments.candidates, not arguments.floats)
            print(
                f"MobileNet-v2: apart {found['apart']:,} cycles, "
                f"with chains {found['chained']:,}: {found['ratio']:.2f}"
            )
            for gain, text in found["chains"]:
                print(f"  {gain:,} less by {text}")
            if arguments.json:
                arguments.json.write_text(json.dumps({"target": arguments.target, "rows": [found]}, indent=1))
            return
        for case in arguments.case or CASES:
            row = measured(bench, case, not arguments.floats, target, arguments.candidates)
            if row is None:
                print(f"{case:12s} no kernel of {target.name} chains these")
                continue
            rows.append(row)
            apart = " + ".join(f"{part['cycles']:,}" for part in row["parts"])
            print(f"{case:12s} chain {row['chain']['cycles']:,} cycles, apart {apart}: {row['ratio']:.2f}")
            print(f"  {row['chain']['config']}", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps({"target": arguments.target, "rows": rows}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
