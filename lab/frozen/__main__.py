"""Dump what a change of form must not change, and compare it with another commit.

python -m lab.frozen --check                 beside the commit that brought this command
python -m lab.frozen --check --since COMMIT --groups kernels,surface --sample 50
python -m lab.frozen --write FOLDER

Groups: kernels (TIR of every family on every target), programs (every model of the corpus up to LLVM), nodes
and tflite (models of one operator, refusals too), surface (help, OpenAPI), picks (configs that logs lead to).
Exits with 1 where a text differs. Dumps of other commits are kept in the cache folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.frozen.dump import GROUPS, dump
from lab.frozen.texts import differences

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilefleet" / "frozen"
SHOWN = 40


def main() -> None:
    """Write or compare."""
    parser = argparse.ArgumentParser(prog="python -m lab.frozen", description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare with --since")
    what.add_argument("--write", type=Path, metavar="FOLDER", help="write the texts there")
    parser.add_argument("--since", metavar="COMMIT", help="default: the first commit that has this command")
    parser.add_argument("--groups", default=",".join(GROUPS), help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="only N texts a group")
    arguments = parser.parse_args()
    groups = arguments.groups.split(",")
    if unknown := set(groups) - set(GROUPS):
        parser.error(f"there is no group {min(unknown)}; there are {', '.join(GROUPS)}")
    if arguments.write:
        dump(groups, arguments.write, arguments.sample)
        return
    sys.exit(not check(groups, arguments.sample, arguments.since))


def check(groups: list[str], sample: int, since: str | None) -> bool:
    """Print what differs from the commit ``since``; whether nothing does."""
    commit = _git("rev-parse", f"{since}^{{commit}}") if since else first()
    kept = CACHE / commit[:12] / (f"sample-{sample}" if sample else "whole")
    missing = [group for group in groups if not (kept / group).is_dir()]
    if missing:
        _write_at(commit, missing, sample, kept)
    same = True
    with TemporaryDirectory(prefix="tilefleet-frozen-") as folder:
        dump(groups, Path(folder), sample)
        for group in groups:
            found = differences(kept / group, Path(folder) / group)
            same = same and not found
            print(f"{group}: {f'{len(found)} differ' if found else 'the same'}", flush=True)
            for line in found[:SHOWN]:
                print(f"  {line}")
    return same


def first() -> str:
    """The first commit that has this command."""
    commits = _git("log", "--format=%H", "--diff-filter=A", "--", str(Path(__file__).relative_to(ROOT)))
    if not commits:
        sys.exit("lab.frozen: no commit has this command yet; say --since COMMIT, or fetch the history")
    return commits.splitlines()[-1]


def _write_at(commit: str, groups: list[str], sample: int, folder: Path) -> None:
    """Let the command of another commit write its texts into ``folder``."""
    with TemporaryDirectory(prefix="tilefleet-frozen-") as place:
        tree = Path(place) / "tree"
        _git("worktree", "add", "--detach", str(tree), commit)
        try:
            command = [sys.executable, "-m", "lab.frozen", "--write", str(folder)]
            command += ["--groups", ",".join(groups), "--sample", str(sample)]
            surroundings = {**os.environ, "PYTHONPATH": str(tree)}
            if subprocess.run(command, cwd=tree, env=surroundings, check=False).returncode:
                sys.exit(f"lab.frozen: commit {commit[:12]} could not write its texts (above)")
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"lab.frozen: git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
