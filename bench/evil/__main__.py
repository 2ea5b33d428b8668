"""``python -m bench.evil [MODE ...] [--busy] [--json FILE]``: boards that lie, in a real lab.

A mode is a number or a part of its words; all by default. With ``--busy`` the service does not judge boards
by their times, so modes that only times betray are left to the operator.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench.evil.lab import Lab, table, to_file
from bench.evil.modes import MODES
from bench.soak.world import World


def main() -> None:
    """Try the modes one after the other, and say how each was answered."""
    parser = argparse.ArgumentParser(prog="python -m bench.evil")
    parser.add_argument("modes", nargs="*", help="numbers, or parts of words")
    parser.add_argument("--busy", action="store_true", help="this machine has other work")
    parser.add_argument("--json", type=Path, help="write the answers there")
    given = parser.parse_args()
    chosen = [
        mode
        for number, mode in enumerate(MODES)
        if not given.modes
        or any(each == str(number) or (each in mode.words and not each.isdigit()) for each in given.modes)
    ]
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        try:
            lab, answers = Lab(world, chosen, busy=given.busy), []
            for number in range(len(chosen)):
                answers.append(lab.answer(number))
                print(f"{number + 1} of {len(chosen)}: {answers[-1]}", file=sys.stderr, flush=True)
        finally:
            world.close()
    print(table(answers))
    if given.json:
        to_file(given.json, answers)
    sys.exit(any(answer.faults for answer in answers))


if __name__ == "__main__":
    main()
