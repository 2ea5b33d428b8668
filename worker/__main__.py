"""A worker process of a shared scheduler: ``python -m worker --scheduler tcp://... [--boards NAMES]``.

Dask's protocol has no authentication and runs pickled code: reach the scheduler over loopback or a tunnel.
"""

from __future__ import annotations

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder: whatever lies there is no part of this

import argparse
import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import dask

from worker.descriptors import raise_limit
from worker.engine.cluster import DASK, EngineError, FleetBoards, make_nursery, make_worker, split_cpus
from worker.engine.member import Member
from worker.engine.worker_context import WorkerContext
from worker.fleet.drivers.base import BoardError
from worker.fleet.drivers.host import HostSpec
from worker.fleet.fleet_file import Fleet, FleetError, fleet_of, read_fleet, split_names
from worker.measure.cores import Cores


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m worker", description="A worker of a shared scheduler.")
    parser.add_argument("--scheduler", required=True, help="address, for example tcp://127.0.0.1:8786")
    parser.add_argument("--builds", type=int, default=1, help="how many candidates to build at once")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--board", help="offer this machine as a board of that name")
    which.add_argument("--boards", help="boards, comma-separated: host and simulated ones")
    which.add_argument("--fleet", type=Path, help="a fleet file with the boards")
    parser.add_argument(
        "--threads", type=int, default=1, help="cores of this machine as a board, the last ones"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; see --help about security")
    parser.add_argument("--state-dir", type=Path, default=Path.home() / ".tilefleet")
    parser.add_argument("--preload", nargs="*", default=(), help="more modules for the children to import")
    arguments = parser.parse_args()
    raise_limit()
    # Each time that it is asked for its board it would say so.
    logging.getLogger("distributed").setLevel(logging.WARNING)
    try:
        asyncio.run(_serve(arguments, _fleet(arguments)))
    except (FleetError, EngineError, BoardError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


def _fleet(arguments: argparse.Namespace) -> Fleet:
    if arguments.fleet:
        fleet = read_fleet(arguments.fleet)
        if fleet.repairs:
            raise FleetError(
                f"{arguments.fleet}: board {next(iter(fleet.repairs))}: repair: only a coordinator repairs "
                "boards, those of its own fleet file; leave it out"
            )
        return fleet
    if arguments.boards:
        return fleet_of(split_names(arguments.boards), arguments.threads)
    host = HostSpec(id=arguments.board, threads=arguments.threads) if arguments.board else None
    return Fleet((host,) if host else ())


async def _serve(arguments: argparse.Namespace, fleet: Fleet) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    cores = Cores(*split_cpus(fleet.host.threads if fleet.host else 0))
    async with AsyncExitStack() as stack:
        stack.enter_context(dask.config.set(DASK))
        nursery = stack.enter_context(make_nursery(arguments.preload, cores.builds))
        await asyncio.to_thread(nursery.start)
        boards = FleetBoards(arguments.state_dir, nursery, fleet, cores)
        await stack.enter_async_context(boards)
        builder = WorkerContext(nursery, arguments.state_dir, cores=cores)
        contexts = [(f"build-{index}", builder) for index in range(arguments.builds)]
        contexts += [(spec.id, context) for spec, context in zip(fleet.boards, boards.contexts, strict=True)]
        members = [
            Member(
                name,
                partial(
                    make_worker,
                    arguments.scheduler,
                    name,
                    context,
                    build=context.board is None,
                    host=arguments.host,
                ),
            )
            for name, context in contexts
        ]
        for member in members:
            await stack.enter_async_context(member)
        print(f"{len(contexts)} workers joined {arguments.scheduler}", flush=True)
        await stopped.wait()


if __name__ == "__main__":
    main()
