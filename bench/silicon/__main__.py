"""What real processors measured, beside the clock of a simulated board.

python -m bench.silicon instructions --board rpi4-sim
python -m bench.silicon mixes --board rpi4-sim
python -m bench.silicon networks --board rpi4-sim --models ncnn/benchmark/models --wheels FOLDER
python -m bench.silicon prices

``instructions``: a loop of independent copies and a chain of each instruction of the table run on the board's
clock. Prints how many agree within 5 %, by section, each that does not, and each that was not compared, with
the reason. What the chains are, and what is taken off for the way back, is as in the table's source
(chains.py).

``mixes``: random loops of these instructions (mixes.py) on the clock, beside a model of the core's pipes
(port_model.py). Prints how many are within 10 %, by kind, and the farthest with their text.

``networks``: ncnn's own wheel on the networks that ncnn published figures of (networks.py).

``prices``: makes ``worker/simclock/aarch64_prices.csv`` and ``riscv64_prices.csv`` anew (prices.py,
rvv/prices.py).

``riscv-k1-sim`` has a table of vector instructions by type and its own model (rvv/).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from bench.silicon import mixes, ncnn_wheels, networks
from bench.silicon.instructions import Figure, Result, compared
from bench.silicon.prices import prices, table
from bench.silicon.reasons import why_none
from bench.silicon.rvv import instructions as vectors
from bench.silicon.rvv import mixes as vector_mixes
from bench.silicon.rvv.prices import prices as vector_prices
from bench.silicon.rvv.prices import table as vector_table
from bench.silicon.rvv.table import BOARDS as VECTOR_BOARDS
from bench.silicon.rvv.table import rows as vector_rows
from bench.silicon.table import CORES, rows
from tuner.runtimes.emulated import EmulationError
from tuner.runtimes.guest import GuestError
from worker.fleet.drivers.sim_prices import PRICES
from worker.fleet.drivers.sim_vectors import VECTOR_PRICES
from worker.fleet.drivers.simulated import why_no_emulator

T = TypeVar("T")


def main(given: Sequence[str] | None = None) -> None:
    """Run a subcommand."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.silicon", description=(__doc__ or "").splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    instructions = commands.add_parser("instructions", help="each instruction's latency and throughput")
    boards = sorted({*CORES, *VECTOR_BOARDS})
    instructions.add_argument("--board", choices=boards, required=True)
    instructions.add_argument(
        "--section",
        default="",
        metavar="TEXT",
        help="only sections, of vectors only instructions, that have TEXT in their names",
    )
    commands.add_parser("prices", help="make the clock's table of prices anew")
    mixed = commands.add_parser("mixes", help="random loops beside a model of the core's pipes")
    mixed.add_argument("--board", choices=boards, required=True)
    mixed.add_argument("--count", type=_count, default=200, help="how many loops (200)")
    mixed.add_argument("--seed", type=int, default=1, help="other loops for another number (1)")
    whole = commands.add_parser("networks", help="ncnn's networks beside what ncnn published")
    whole.add_argument("--board", choices=sorted(networks.BOARDS), required=True)
    whole.add_argument(
        "--models", type=Path, required=True, metavar="DIR", help="benchmark/models of a clone of ncnn"
    )
    whole.add_argument(
        "--wheels",
        type=Path,
        required=True,
        metavar="DIR",
        help="ncnn's wheels, or where they are fetched to",
    )
    whole.add_argument(
        "--ncnn",
        default=f"nearest,{ncnn_wheels.NEWEST}",
        metavar="VERSIONS",
        help="of PyPI; nearest is the one of the days when the figures were published (nearest,newest)",
    )
    whole.add_argument("--threads", type=int, choices=(1, 4), default=1, help="1 (default) or 4")
    whole.add_argument("--only", default="", metavar="NAMES", help="these alone: squeezenet,mobilenet")
    arguments = parser.parse_args(given)
    if arguments.command == "networks":
        _networks(arguments, parser)
        return
    if arguments.command == "prices":
        PRICES.write_text(table(prices()))
        VECTOR_PRICES.write_text(vector_table(vector_prices()))
        return
    if arguments.board in VECTOR_BOARDS:
        _of_vectors(arguments, parser)
        return
    if arguments.command == "mixes":
        made = mixes.generated(CORES[arguments.board], arguments.count, arguments.seed)
        results = _run(arguments.board, lambda folder: mixes.compared(made, arguments.board, folder))
        print(mixes.told(results, arguments.board))
        return
    wanted = [row for row in rows() if arguments.section.lower() in row.section.lower()]
    if not wanted:
        names = "; ".join(dict.fromkeys(row.section for row in rows()))
        parser.error(f"no section has {arguments.section!r} in its name; there are: {names}")
    rows_run = _run(arguments.board, lambda folder: compared(wanted, arguments.board, folder))
    print(told(rows_run, arguments.board))


def _of_vectors(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """``instructions`` and ``mixes`` of a board with a table of vector instructions."""
    board, core = arguments.board, VECTOR_BOARDS[arguments.board]
    if arguments.command == "mixes":
        made = vector_mixes.generated(arguments.count, arguments.seed)
        mixed = _run(board, lambda folder: vector_mixes.compared(made, board, core.lower(), folder))
        print(vector_mixes.told(mixed, board))
        return
    wanted = [row for row in vector_rows() if arguments.section.lower() in row.text]
    if not wanted:
        parser.error(f"no vector instruction has {arguments.section!r} in its text")
    print(vectors.told(_run(board, lambda folder: vectors.compared(wanted, board, folder)), board, core))


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number of loops; give 1 or more")
    return int(text)


def _run(board: str, run: Callable[[Path], list[T]]) -> list[T]:
    """What ``run`` finds, with a folder for the program; exits with a line where ``board`` cannot run."""
    problem = why_no_emulator(board)
    if problem:
        raise SystemExit(f"bench.silicon: {problem}")
    with tempfile.TemporaryDirectory(prefix="tilefleet-silicon-") as name:
        try:
            return run(Path(name))
        except EmulationError as error:
            raise SystemExit(f"bench.silicon: {error}") from None


def _networks(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    names = [name for name in arguments.only.split(",") if name]
    every = networks.published(arguments.board, arguments.threads)
    if unknown := set(names) - {each.name for each in every}:
        parser.error(f"no figure of {sorted(unknown)}; there are: {', '.join(each.name for each in every)}")
    if problem := why_no_emulator(arguments.board):
        raise SystemExit(f"bench.silicon: {problem}")
    wanted = [each for each in every if not names or each.name in names]
    for version in arguments.ncnn.split(","):
        if version == "nearest":
            version = ncnn_wheels.NEAREST[arguments.board]
        try:
            guest = ncnn_wheels.guest(arguments.wheels, version, arguments.board)
        except GuestError as error:
            print(f"{arguments.board}: {error}")
            continue
        threads = f"threads: {arguments.threads}"
        print(f"{arguments.board}: ncnn {guest.versions().get('ncnn', '?')}, {threads}, milliseconds")
        print(f"{'network':20} {'published':>10} {'simulated':>10} {'ratio':>6}")
        results = []
        for result in networks.measured(arguments.board, wanted, arguments.models, guest, arguments.threads):
            print(networks.line(result), flush=True)
            results.append(result)
        print(networks.summary(results))


def told(results: Sequence[Result], board: str) -> str:
    """The table for people: by section, then what is outside, then what was not compared."""
    lines = [
        f"{board} beside {CORES[board]}: rows, those with a form, and figures within 5 % of those compared",
        f"{'rows':>5} {'form':>5} {'per cycle':>10} {'latency':>10}  section",
    ]
    for section in dict.fromkeys(result.row.section for result in results):
        lines.append(_counts([each for each in results if each.row.section == section], section))
    lines.append(_counts(results, "all"))
    outside = [result for result in results if result.outside]
    if outside:
        lines += ["", f"outside ({len(outside)}): measured -> simulated"]
    lines += [f"{result.row.section}: {result.row.name}: {_figures(result)}" for result in outside]
    left = [result for result in results if result.why_not]
    if left:
        lines += ["", f"not compared ({len(left)})"]
    lines += [f"{result.row.section}: {result.row.name}: {result.why_not}" for result in left]
    return "\n".join(lines)


def _counts(results: Sequence[Result], title: str) -> str:
    with_form = sum(not why_none(result.row.section, result.row.name) for result in results)
    return (
        f"{len(results):5} {with_form:5} {_share(result.per_cycle for result in results):>10} "
        f"{_share(result.latency for result in results):>10}  {title}"
    )


def _share(figures: Iterable[Figure | None]) -> str:
    found = [figure for figure in figures if figure]
    return f"{sum(figure.within for figure in found)}/{len(found)}"


def _figures(result: Result) -> str:
    return ", ".join(
        f"{what} {figure.real:.2f} -> {figure.simulated:.2f}"
        for what, figure in (("per cycle", result.per_cycle), ("latency", result.latency))
        if figure and not figure.within
    )


if __name__ == "__main__":
    main()
