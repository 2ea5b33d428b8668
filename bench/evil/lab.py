"""A service with an honest board; boards that lie join one after the other, and must leave nothing behind."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.evil.agent import build_evil_agent
from bench.evil.modes import Mode
from bench.soak.fleet_file import free_port, write_fleet
from bench.soak.world import TOKEN, Service, World, wait_for
from kernels.workload.base import Conv2d, to_json
from tuner.log.record import read_log
from tuner.log.relayouts import read_relayouts

TARGET, HONEST = "evil-lab", "honest"
TRIALS, JOB_S = 3, 600.0
REPEAT_S = 30.0
FACTS = {"peaks": "gflops", "bandwidths": "gbs", "relayouts": "document"}


@dataclass(frozen=True)
class Answer:
    """The result of one mode. ``parked`` is the service's reason, empty where only the operator's
    ``withdraw`` took the lies back; ``faults`` lists what is wrong in the end."""

    words: str
    parked: str
    withdrawn: int
    faults: tuple[str, ...]
    seconds: float


class _Quiet(Service):
    BUSY = False


class Lab:
    """Runs in ``world``, which closes it. On a ``busy`` machine no time is a sign of a board's health."""

    def __init__(self, world: World, modes: Sequence[Mode], *, busy: bool) -> None:
        self._world, self.modes = world, modes
        ports = {HONEST: free_port(), **{f"evil-{n}": free_port() for n in range(len(modes))}}
        self._ports = ports
        for board in ports:
            (world.home / f"{board}.token").write_text(TOKEN)
        boards: list[dict[str, object]] = [
            {
                "id": board,
                "kind": "agent",
                "target": TARGET,
                "address": f"127.0.0.1:{port}",
                "token_file": str(world.home / f"{board}.token"),
                "tags": [board],
            }
            for board, port in ports.items()
        ]
        self._program = build_evil_agent(world.home)
        self._honest = world.start_agent(HONEST, ports[HONEST])
        fleet = write_fleet(world.home / "evil.toml", boards)
        self._book = world.home / "evil.sqlite3"
        self._service = (Service if busy else _Quiet)(
            world, "--fleet", fleet, name="evil", TILEFLEET_DATABASE_URL=f"sqlite:///{self._book}"
        )
        self._service.wait_good(HONEST)
        self._model = self._service.client.upload(_model(world.home / "evil.onnx")).hash

    def answer(self, number: int) -> Answer:
        """Let one mode lie to a job of its own, take back what it said, and do the same job honestly."""
        mode, evil, client = self.modes[number], f"evil-{number}", self._service.client
        began = time.monotonic()
        for table in FACTS:
            self._do(f"delete from {table}")
        agent = self._world.start(
            *(
                self._program,
                "--bind",
                "127.0.0.1",
                "--port",
                self._ports[evil],
                "--key",
                evil,
                "--threads",
                1,
            ),
            *("--token-file", self._world.home / f"{evil}.token"),
            log=f"{evil}.log",
            TILEFLEET_LIE=mode.lie,
        )
        wait_for(lambda: self._board(evil).health in ("good", "bad"), 300, why=lambda: self._board(evil))
        layer = to_json(Conv2d(1, 32, 14, 14, 17 + number, 3, 3, pad=(1, 1, 1, 1)))
        work: dict[str, Any] = {"model": self._model} if mode.model else {"workload": layer}
        if self._board(evil).health == "good":
            job = client.submit(**work, target=TARGET, trials=TRIALS, tags=[evil], seed=1)
            wait_for(lambda: self._job_is_over(job.id, evil), JOB_S, why=lambda: client.job(job.id))
            if not client.job(job.id).state.final:
                client.cancel(job.id)
        # A trial may still be repeated on the other board when its job is over.
        until = time.monotonic() + REPEAT_S
        while self._board(evil).health != "bad" and time.monotonic() < until:
            time.sleep(0.2)
        board = self._board(evil)
        if board.health != "bad":
            client.change_board(evil, "park", "it is to be taken back")
        withdrawn = client.withdraw(evil, good_too=True).records
        agent.kill()
        client.change_board(evil, "retire", "it lied")
        honest = client.submit(**work, target=TARGET, trials=TRIALS, seed=2)
        wait_for(lambda: client.job(honest.id).state.final, JOB_S, why=lambda: client.job(honest.id))
        faults = tuple(self._faults(evil, client.job(honest.id)))
        parked = board.reason if board.health == "bad" else ""
        return Answer(mode.words, parked, withdrawn, faults, time.monotonic() - began)

    def _faults(self, evil: str, honest: Any) -> list[str]:
        """Everything that differs from a lab without the board."""
        faults = []
        if honest.state != "done":
            faults.append(f"the honest job is {honest.state}: {honest.message}")
        if self._board(HONEST).health != "good":
            faults.append(f"the honest board is {self._board(HONEST).health}: {self._board(HONEST).reason}")
        told = "select config_key, error from records where json_extract(document, '$.board') = ?"
        for key, error in self._do(f"{told} and coalesce(error, '') != 'withdrawn'", evil):
            faults.append(f"a record of it is there: {key} {error}")
        for table in FACTS:
            boards = {board for (board,) in self._do(f"select board from {table}")}
            if boards - {HONEST}:
                faults.append(f"{table} are of {boards}")
        warnings: list[str] = []
        lines = list(self._service.client.target_log(TARGET))
        if any(record.board != HONEST for record in read_log(lines)):
            faults.append("its records are in the log")
        list(read_relayouts(lines, warnings.append))
        return faults + warnings

    def _job_is_over(self, job: int, evil: str) -> bool:
        return self._service.client.job(job).state.final or self._board(evil).health == "bad"

    def _board(self, board: str) -> Any:
        return next(each for each in self._service.client.boards() if each.id == board)

    def _do(self, statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(self._book, timeout=60)) as book, book:
            return book.execute(statement, values).fetchall()


def _model(path: Path) -> Path:
    """One convolution of a small image."""
    weights = np.random.default_rng(1).standard_normal((32, 32, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 32, 14, 14]) for name in "xy")
    graph = helper.make_graph([node], "evil", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def table(answers: Sequence[Answer]) -> str:
    """The answers as docs/security.md has them."""
    rows = [
        "| the board's lie | what the service did | taken back | wrong in the end |",
        "| --- | --- | --- | --- |",
    ]
    for each in answers:
        did = f"parked it: {each.parked}" if each.parked else "nothing: an operator's `withdraw`"
        rows.append(f"| {each.words} | {did} | {each.withdrawn} | {'; '.join(each.faults) or 'nothing'} |")
    return "\n".join(rows)


def to_file(path: Path, answers: Sequence[Answer]) -> None:
    """The answers as JSON."""
    path.write_text(json.dumps([vars(each) for each in answers], indent=1) + "\n")
