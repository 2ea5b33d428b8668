"""The faults: what is done, for how long, and whose next trial shows that it is over."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil
import psycopg

from bench.soak.lab import Lab, fill
from bench.soak.liar import LIES
from bench.soak.world import Service, stopped, wait_for

HOLD_S = (2.0, 12.0)
"""How long what stands still or is away does so."""
LIE_S = 120
JUMPS_S = (3600, -3600, 86400, -86400)


@dataclass(frozen=True)
class Struck:
    """What a fault struck: trials on these boards, or of these jobs, show that it is over."""

    boards: frozenset[str]
    jobs: frozenset[int] | None = None
    detail: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of fault; ``strike`` returns when it is over, and raises LookupError without a victim.

    ``needs`` is what the machine must not lack (``Lab.without``).
    """

    name: str
    strike: Callable[[Lab, random.Random], Struck]
    weight: int = 1
    needs: str = ""


def _hold(dice: random.Random) -> None:
    time.sleep(dice.uniform(*HOLD_S))


def _every(lab: Lab) -> frozenset[str]:
    return frozenset(lab.boards)


def _pick(dice: random.Random, processes: list[psutil.Process]) -> psutil.Process:
    if not processes:
        raise LookupError
    return dice.choice(sorted(processes, key=lambda each: each.pid))


def _tree(pid: int) -> list[psutil.Process]:
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def _coordinator(lab: Lab, dice: random.Random) -> Service:
    """One of two that both run: one alone has nobody to take its jobs, but itself when it comes back."""
    if len(lab.alive()) < 2:
        raise LookupError
    return dice.choice(lab.alive())


def _jobs_of(lab: Lab, service: Service) -> frozenset[int]:
    owned = lab.rows(f"select id from jobs where owner like '%/{service.process.pid}/%'")
    return frozenset(id_ for (id_,) in owned)


def kill_coordinator(lab: Lab, dice: random.Random) -> Struck:
    """It is killed; the other takes its jobs while it starts again."""
    service = _coordinator(lab, dice)
    jobs = _jobs_of(lab, service)
    service.process.kill()
    service.process.wait()
    return Struck(_every(lab), jobs or None, service.home.name)


def stop_coordinator(lab: Lab, dice: random.Random) -> Struck:
    """It stands still with all that it started, sometimes so long that it counts as dead."""
    service = _coordinator(lab, dice)
    jobs = _jobs_of(lab, service)
    with stopped(*_tree(service.process.pid)):
        time.sleep(dice.choice((dice.uniform(*HOLD_S), 25.0)))
    return Struck(_every(lab), jobs or None, service.home.name)


def _process(name: str) -> Callable[[Lab, random.Random], Struck]:
    def kill(lab: Lab, dice: random.Random) -> Struck:
        lab.processes[name].kill()
        lab.processes[name].wait()
        return Struck(_every(lab))

    return kill


def _processstopped(name: str) -> Callable[[Lab, random.Random], Struck]:
    def stop(lab: Lab, dice: random.Random) -> Struck:
        with stopped(*_tree(lab.processes[name].pid)):
            _hold(dice)
        return Struck(_every(lab))

    return stop


def _of_boards(lab: Lab, dice: random.Random, *, sessions: bool) -> tuple[psutil.Process, str]:
    """An agent, or a session of one, and its board."""
    board = dice.choice([name for name in lab.boards if name != "liar"])
    agents = lab.world.agents(board)
    return _pick(dice, [child for each in agents for child in each.children()] if sessions else agents), board


def kill_agent(lab: Lab, dice: random.Random) -> Struck:
    """A board's agent, of the simulated board its emulator."""
    agent, board = _of_boards(lab, dice, sessions=False)
    agent.kill()
    return Struck(frozenset({board}), detail=board)


def kill_session(lab: Lab, dice: random.Random) -> Struck:
    """The process in which a board runs candidates."""
    session, board = _of_boards(lab, dice, sessions=True)
    session.kill()
    return Struck(frozenset({board}), detail=board)


def stop_agent(lab: Lab, dice: random.Random) -> Struck:
    """A board's agent and its session stand still."""
    agent, board = _of_boards(lab, dice, sessions=False)
    with stopped(agent, *agent.children()):
        _hold(dice)
    return Struck(frozenset({board}), detail=board)


def kill_child(lab: Lab, dice: random.Random) -> Struck:
    """A process that builds or measures, or the one that forks such."""
    name = dice.choice(("boards", "builds"))
    found = [
        each for each in _tree(lab.processes[name].pid)[1:] if "agent" not in " ".join(each.cmdline()[:2])
    ]
    _pick(dice, found).kill()
    return Struck(_every(lab), detail=name)


def kill_database(lab: Lab, dice: random.Random) -> Struck:
    """PostgreSQL ends as by a crash and is away for a while."""
    lab.postgres.stop(signal.SIGQUIT)
    _hold(dice)
    lab.postgres.start()
    return Struck(_every(lab))


def stop_database(lab: Lab, dice: random.Random) -> Struck:
    """PostgreSQL stands still."""
    with stopped(*_tree(lab.postgres.process.pid)):
        _hold(dice)
    return Struck(_every(lab))


def kill_redis(lab: Lab, dice: random.Random) -> Struck:
    """Redis is killed, forgets all, and is away for a while."""
    lab.redis.stop(signal.SIGKILL)
    _hold(dice)
    lab.redis.start()
    return Struck(_every(lab))


def _full(lab: Lab, dice: random.Random, disk: str) -> None:
    stuffing = lab.disks[disk] / "stuffing"
    fill(stuffing)
    _hold(dice)
    stuffing.unlink()


def fill_worker(lab: Lab, dice: random.Random) -> Struck:
    """The disk of the workers' state folders is full."""
    _full(lab, dice, "worker")
    return Struck(_every(lab))


def fill_database(lab: Lab, dice: random.Random) -> Struck:
    """The disk of the database is full, of which PostgreSQL may die."""
    _full(lab, dice, "postgres")

    def answers() -> bool:
        if lab.postgres.process.poll() is not None:  # it may die of it only now
            lab.postgres.start()
        with suppress(psycopg.Error):
            return bool(lab.rows("select 1"))
        return False

    wait_for(answers)
    return Struck(_every(lab))


def lose_packets(lab: Lab, dice: random.Random) -> Struck:
    """Nothing gets through between a board and the gateway for a while."""
    lab.network.silent = True
    _hold(dice)
    lab.network.silent = False
    return Struck(frozenset({"dialler"}))


def delay_packets(lab: Lab, dice: random.Random) -> Struck:
    """Everything between a board and the gateway takes longer."""
    lab.network.delay_s = dice.uniform(0.1, 1.0)
    _hold(dice)
    lab.network.delay_s = 0.0
    return Struck(frozenset({"dialler"}))


def cut_connections(lab: Lab, dice: random.Random) -> Struck:
    """All connections between a board and the gateway end."""
    lab.network.cut()
    return Struck(frozenset({"dialler"}))


def jump_clock(lab: Lab, dice: random.Random) -> Struck:
    """A coordinator's clock jumps by an hour or a day, and back."""
    service = _coordinator(lab, dice)
    jobs, clock = _jobs_of(lab, service), lab.clocks[service.home.name]
    clock.write_text(f"{dice.choice(JUMPS_S):+d}")
    _hold(dice)
    clock.write_text("+0")
    return Struck(_every(lab), jobs or None, service.home.name)


def lie(lab: Lab, dice: random.Random) -> Struck:
    """A board lies until it is found out, and is honest again when it is returned to service."""
    if not lab.has_jobs("liars"):
        raise LookupError
    lab.set_lie(dice.choice([*LIES, "counters"]))

    def health() -> str:
        with suppress(Exception):
            return str(lab.alive()[0].client.board("liar").health)
        return ""

    told = lab.lie
    try:
        wait_for(lambda: health() == "bad", LIE_S, why=lambda: f"the liar who said {told} was believed")
    finally:  # else its jobs would wait for it for ever
        lab.set_lie("none")

    def returned() -> bool:
        with suppress(Exception):
            lab.alive()[0].client.change_board("liar", "return")
            return True
        return False

    wait_for(returned, LIE_S)
    return Struck(frozenset({"liar"}), detail=told)


KINDS = (
    Kind("coordinator killed", kill_coordinator, 3),
    Kind("coordinator stood still", stop_coordinator, 2),
    Kind("scheduler killed", _process("scheduler")),
    Kind("worker with boards killed", _process("boards"), 2),
    Kind("worker with boards stood still", _processstopped("boards")),
    Kind("build worker killed", _process("builds"), 2),
    Kind("build worker stood still", _processstopped("builds")),
    Kind("building or measuring process killed", kill_child, 6),
    Kind("agent killed", kill_agent, 6),
    Kind("session killed", kill_session, 6),
    Kind("agent stood still", stop_agent, 3),
    Kind("database killed", kill_database, 2),
    Kind("database stood still", stop_database, 2),
    Kind("Redis killed", kill_redis, 2),
    Kind("workers' disk full", fill_worker, 2, "disk"),
    Kind("database's disk full", fill_database, 2, "disk"),
    Kind("packets lost", lose_packets, 3),
    Kind("packets delayed", delay_packets, 3),
    Kind("connections cut", cut_connections, 4),
    Kind("clock jumped", jump_clock, 3, "clock"),
    Kind("board lied", lie, 2),
)
