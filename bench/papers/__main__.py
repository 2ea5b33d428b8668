"""Every claim of the papers beside ours: the paper's figure, ours, unit, target, clock and command.

python -m bench.papers --json FILE
python -m bench.papers --paper 003
python -m bench.papers --quick

Figures come from the benches that the table names. Those that have no report in ``--reports`` are run, which
takes hours; called again they go on. ``--quick`` takes what needs no bench and a layer of the quickest. A
whole run writes docs/papers.md. A row without a figure says why, and the others are made all the same.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from bench.papers import chains, fixed_point, int8_gemm, micro_kernels, page, sconv
from bench.papers.reports import Reports

PAPERS = {
    "000": int8_gemm.CLAIMS,
    "001": micro_kernels.CLAIMS,
    "002": fixed_point.CLAIMS,
    "003": sconv.CLAIMS,
    "004": chains.CLAIMS,
}
DOCS = Path(__file__).resolve().parents[2] / "docs" / "papers.md"
REPORTS = Path("~/.cache/tilefleet/papers").expanduser()


def main() -> None:
    """Print the table, and write the page of a whole run."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.papers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--paper", choices=sorted(PAPERS), help="this one alone (default: all)")
    parser.add_argument("--quick", action="store_true", help="a sample, as a smoke test")
    parser.add_argument(
        "--as-is", action="store_true", help="run no bench: take the reports that are there, whole or not"
    )
    parser.add_argument("--reports", type=Path, default=REPORTS, help=f"of the benches ({REPORTS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilefleet-papers-") as name:
        # A sample's reports are no beginning of whole ones.
        folder = Path(name) if arguments.quick else arguments.reports
        folder.mkdir(parents=True, exist_ok=True)
        reports = Reports(folder, arguments.quick, not arguments.as_is)
        rows: list[dict[str, Any]] = []
        for paper in [arguments.paper] if arguments.paper else PAPERS:
            for claim in PAPERS[paper]:
                rows.append(claim.row(reports))
                print(page.line(rows[-1]), flush=True)
    print(page.summary(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps({"bench": "papers", "rows": rows}, indent=1) + "\n")
    if not arguments.quick and not arguments.paper:
        DOCS.write_text(page.markdown(rows))
        print(f"wrote {DOCS}")


if __name__ == "__main__":
    main()
