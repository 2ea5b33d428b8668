"""Measure every point of the search spaces of typical layers, and score search strategies on them.

python -m bench.spaces record --journal FOLDER
python -m bench.spaces pack --journal FOLDER
python -m bench.spaces score --strategy model --strategy random --seeds 20

``record`` adds each batch to a tuning log a space in the journal: called again, it goes on. What was measured
on this machine itself by the wall clock has its best few measured again, in turns. ``pack`` writes the spaces
that are whole to ``--to``, each as a T4 file compressed by xz. ``score`` runs strategies on those that are
shipped, asked eight at a time as by jobs: the score (0 is uniform random search, 1 has the optimum at once),
and by how many per cent the best after 1, 10, 30 and 60 trials is behind the optimum.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.spaces.layers import subjects
from bench.spaces.record import pack, record
from bench.spaces.score import RECORDED, table


def main() -> None:
    """Record, pack or score."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.spaces", description=(__doc__ or "").splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "pack"):
        command = commands.add_parser(name)
        command.add_argument("--journal", type=Path, required=True, help="folder of the logs; goes on there")
        command.add_argument("--only", default="", help="spaces by name, with commas between (default: all)")
    command.add_argument("--to", type=Path, default=RECORDED, help="where packed spaces go (default: here)")
    command = commands.add_parser("score")
    command.add_argument("--strategy", action="append", help="may be given again (default: model, random)")
    command.add_argument("--seeds", type=int, default=20, help="runs of each strategy (default 20)")
    arguments = parser.parse_args()
    if arguments.command == "score":
        for line in table(arguments.strategy or ["model", "random"], arguments.seeds):
            print(line, flush=True)
        return
    there_are = {each.name: each for each in subjects()}
    names = [name for name in arguments.only.split(",") if name] or list(there_are)
    if unknown := [name for name in names if name not in there_are]:
        parser.error(f"there is no space {', '.join(unknown)}; there are {', '.join(there_are)}")
    for folder in (arguments.journal, getattr(arguments, "to", arguments.journal)):
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}; make it, or name another")
    for name in names:
        path = arguments.journal / f"{name}.jsonl"
        if arguments.command == "pack":
            print(pack(there_are[name], path, arguments.to), flush=True)
        else:
            record(there_are[name], path)


if __name__ == "__main__":
    main()
