"""The product under what is wrong: nothing but a refusal may come of it, no status of 500 and above.

python -m bench.fuzz lines --cases 10000 --seed 1 --json FILE
python -m bench.fuzz models --cases 2000
python -m bench.fuzz requests --cases 50000

``lines`` imports mutated lines of a tuning log that jobs have just made, ``models`` uploads mutated models
and gives them to ``check`` and ``build``, ``requests`` sends what schemathesis makes up from
the API's document.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from bench.fuzz.lines import fuzz_lines
from bench.fuzz.models import fuzz_models
from bench.fuzz.requests import fuzz_requests

WHAT = {"lines": fuzz_lines, "models": fuzz_models, "requests": fuzz_requests}


def main() -> None:
    """Run the bench and print its figures; exit code 1 when something was not refused as it should be."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="go on where a part of a run has ended")
    parser.add_argument("--json", type=Path, help="write all figures here")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nothing of the service shall be left
    report = WHAT[arguments.what](arguments.cases, arguments.seed, arguments.first)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({**report, "problems": len(report["problems"])}))
    if report["problems"]:
        raise SystemExit("\n".join(["fuzz:", *report["problems"][:20]]))


if __name__ == "__main__":
    main()
