"""A worker process of a shared scheduler: ``python -m worker --scheduler tcp://... --builds N [--board ID]``.

Dask's protocol has no authentication and runs pickled code: reach the scheduler over loopback or a tunnel.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import dask

from kernels import target as targets
from worker.cluster import DASK, make_worker, split_cpus
from worker.fleet.native import NativeBoard
from worker.nursery import Nursery
from worker.shop import PRELOAD, Shop


def main() -> None:
    """Run until interrupted."""
    parser = argparse.ArgumentParser(prog="python -m worker", description="A worker of a shared scheduler.")
    parser.add_argument("--scheduler", required=True, help="address, for example tcp://127.0.0.1:8786")
    parser.add_argument("--builds", type=int, default=1, help="how many candidates to build at once")
    parser.add_argument("--board", help="offer this machine as a board of that name")
    parser.add_argument("--threads", type=int, default=1, help="cores of the board, the last ones")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; see --help about security")
    parser.add_argument("--state-dir", type=Path, default=Path.home() / ".tilefleet")
    parser.add_argument("--preload", nargs="*", default=(), help="more modules for the children to import")
    asyncio.run(_serve(parser.parse_args()))


async def _serve(arguments: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    build_cpus, board_cpus = split_cpus(arguments.threads if arguments.board else 0)
    preload = (*PRELOAD, *arguments.preload)
    async with AsyncExitStack() as stack:
        stack.enter_context(dask.config.set(DASK))
        nursery = stack.enter_context(Nursery(preload, build_cpus))
        await asyncio.to_thread(nursery.start)
        workers = []
        for index in range(arguments.builds):
            shop = Shop(nursery, arguments.state_dir)
            workers.append(
                make_worker(arguments.scheduler, f"build-{index}", shop, build=True, host=arguments.host)
            )
        if arguments.board:
            board = stack.enter_context(
                NativeBoard(
                    arguments.board, state_dir=arguments.state_dir, cpus=board_cpus, threads=len(board_cpus)
                )
            )
            bench = stack.enter_context(Nursery(preload, board_cpus))
            facts = nursery.call("worker.host:host_target_in_child", None, timeout_s=60)
            shop = Shop(bench, arguments.state_dir, board, targets.from_json(facts), threads=len(board_cpus))
            workers.append(
                make_worker(arguments.scheduler, arguments.board, shop, build=False, host=arguments.host)
            )
        for worker in workers:
            await stack.enter_async_context(worker)
        print(f"{len(workers)} workers joined {arguments.scheduler}", flush=True)
        await stopped.wait()


if __name__ == "__main__":
    main()
