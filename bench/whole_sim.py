"""Whole quantized networks on a simulated Arm board: LiteRT's and ours as built, by the same clock.

python -m tuner.runtimes.guest FOLDER
python -m bench.whole_sim --target rpi4-sim --litert FOLDER --models mobilenet_v1,mobilenet_v2 --json FILE

Both run in the same emulated Python, LiteRT by its interpreter on one thread, ours as a C library that is
built without tuning: a run after the caches were emptied and filled by another. Weights are random.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from bench import journal, timing
from bench.arguments import names_of
from tuner.runtimes.guest import BOARDS, Guest

SETTINGS = ("target",)
LITERT = "litert"


def main() -> None:
    """Run the bench and print a line a network."""
    from bench.tflite_networks import NETWORKS

    about = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m bench.whole_sim", description=about)
    parser.add_argument("--target", choices=BOARDS, required=True)
    parser.add_argument("--litert", type=Path, required=True, help="made by python -m tuner.runtimes.guest")
    parser.add_argument(
        "--models", type=names_of(NETWORKS), default=[*NETWORKS], help=f"of {', '.join(NETWORKS)}"
    )
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()
    try:
        settings = {name: getattr(arguments, name) for name in SETTINGS}
        report = journal.opened(arguments.json, "whole_sim", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = report.setdefault("rows", [])
    done = {row["model"] for row in rows}
    for name in arguments.models:
        if name not in done:
            with tempfile.TemporaryDirectory(prefix="tilefleet-whole-") as folder:
                guest = Guest(arguments.litert, Path(folder), arguments.target)
                rows.append({"model": name, **compared(NETWORKS[name](0), guest, Path(folder))})
            journal.save(arguments.json, report)
    for row in rows:
        print(
            f"{row['model']}: LiteRT {1e3 * row['litert_s']:.2f} ms, ours {1e3 * row['ours_s']:.2f} ms, "
            f"LiteRT / ours {row['litert_s'] / row['ours_s']:.2f}"
        )
    print(f"geometric mean {timing.geomean(row['litert_s'] / row['ours_s'] for row in rows):.2f}")


def compared(content: bytes, guest: Guest, folder: Path) -> dict[str, Any]:
    """Simulated seconds of both, and how far apart their outputs are; raises SystemExit where one fails."""
    from kernels.numerics import Numerics
    from kernels.target import CATALOGUE
    from tilefleet.comparing import OURS, Wanted
    from tilefleet.comparing_simulated import compare_simulated
    from worker.fleet.drivers.sim_models import SIM_MODELS

    model = folder / "model.tflite"
    model.write_bytes(content)
    target = CATALOGUE[SIM_MODELS[guest.board].target]
    wanted = Wanted(model, target, 1, Numerics.EXACT_INTEGERS, None, [], [], 1)
    mine = f"{OURS}, untuned"
    found = compare_simulated(wanted, guest, lambda _: None, {LITERT, mine})
    rows = {row.name: row for row in found.rows}
    for row in rows.values():
        if not row.right:
            raise SystemExit(f"bench.whole_sim: {row.name}: {row.why}")
    return {
        "litert_s": rows[LITERT].seconds,
        "ours_s": rows[mine].seconds,
        "errors": {name: row.error for name, row in rows.items()},
    }


if __name__ == "__main__":
    main()
