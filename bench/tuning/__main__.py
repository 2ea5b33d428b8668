"""What tuning pays: each model tuned by a job of its own, and what a second stopwatch says of the gain.

python -m bench.tuning --models squeezenet,vit --seconds 15,60 --boards host,rpi4-sim --json FILE
python -m bench.tuning --show FILE FILE

Each job has a service of its own, which knows nothing beforehand. On this machine what it delivers is built
again from its log and timed beside the untuned model in processes of their own (``stopwatch.py``). By a
simulated clock a model takes the same whoever asks, so the job's word needs no witness. FILE is written
after each job; called again, the bench does what is missing. ``--show`` adds up FILEs, of several machines
too.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench import journal
from bench.arguments import names_of
from bench.tuning.job import Case, tune
from bench.tuning.models import NAMES, save
from bench.tuning.table import print_table

USUAL = (
    "squeezenet,resnet18,resnet50,mobilenet_v1,mobilenet_v2,mobilenet_v3,efficientnet,unet,detector,vit,bert,"
    "mobilenet_v2_int8"
)


def main() -> None:
    """Run what is missing, and print a table of all."""
    parser = argparse.ArgumentParser(prog="python -m bench.tuning", description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=names_of(NAMES), default=USUAL, help=f"default: {USUAL}")
    parser.add_argument("--seconds", default="15,60,180", help="budgets of jobs (default 15,60,180)")
    parser.add_argument("--boards", default="host", help="host or names of simulated boards (default host)")
    parser.add_argument("--threads", default="1", help="of kernels (default 1)")
    parser.add_argument("--pairs", type=int, default=5, help="of processes of the stopwatch (default 5)")
    parser.add_argument("--json", type=Path, help="write all figures here, and go on from what is there")
    parser.add_argument("--show", nargs="+", type=Path, help="no jobs: print what --json has written")
    arguments = parser.parse_args()
    if arguments.show:
        print_table([row for path in arguments.show for row in json.loads(path.read_text())["rows"]])
        return
    try:
        report = journal.opened(arguments.json, "tuning", {"pairs": arguments.pairs})
        budgets = [float(each) for each in arguments.seconds.split(",")]
        threads = [int(each) for each in arguments.threads.split(",")]
    except ValueError as error:
        parser.error(str(error))
    wanted = itertools.product(arguments.models, arguments.boards.split(","), threads, budgets)
    run([Case(*each) for each in wanted], arguments, report)
    print_table(report["rows"])


def run(cases: list[Case], arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """Every case that the report does not have yet."""
    rows = report.setdefault("rows", [])
    done = {Case(row["model"], row["board"], row["threads"], row["budget_s"]) for row in rows}
    with TemporaryDirectory(prefix="tilefleet-bench-") as folder:
        for case in cases:
            if case in done:
                continue
            rows.append(tune(case, save(case.model, Path(folder)), arguments.pairs))
            journal.save(arguments.json, report)


if __name__ == "__main__":
    main()
