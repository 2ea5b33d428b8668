"""A C library that a server builds once more, to run it on a board for who has no such machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from compiler.intake.shapes import given_sets, text_of
from kernels import target as targets
from kernels.numerics import Numerics
from tuner.backend.check import Check, Delivery
from tuner.backend.comparison import Build, Send
from tuner.backend.definition import DEADLINE_S
from tuner.clibrary import on_board, run
from tuner.clibrary.build import Made, Model, make, write
from tuner.clibrary.checks import builds_of, digest_of, link_alone, told_of, worst_of
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts


def check_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: the ``Delivery``, which nothing is timed of, of ``model`` (a path) as a C library.

    ``payload`` has what ``deliver_in_child`` is told, and ``library``: its ``name`` and all its ``targets``,
    of which the ``level``-th is run, here or on the ``board`` at that address.
    """
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    wanted = payload["library"]
    model = Model.of(
        Path(payload["model"]),
        given_sets(payload["shapes"]),
        [Record.from_json(each) for each in payload["records"]],
        list(read_relayouts(payload["relayouts"])),
        Numerics(payload["numerics"]),
        payload["threads"],
    )
    of = [targets.from_json(each) for each in wanted["targets"]]
    made = make(model, of, wanted["name"], "", "", embed=True)
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch:
        folder = Path(scratch)
        write(made, folder)
        send({"stage": "built"})
        sets = made.library.sets
        each: dict[str, Delivery] = {}
        for number in range(wanted["level"] * sets, (wanted["level"] + 1) * sets):
            name = text_of(made.manifests[number].inputs) if sets > 1 else ""
            each[name] = Delivery(_check(payload, model, made, number, folder, send))
            if each[name].check.wrong:
                break
        return Delivery.of_all(each, digest_of(made, folder)).to_json()


def _check(payload: dict[str, Any], model: Model, made: Made, number: int, folder: Path, send: Send) -> Check:
    module = folder / f"alone_{number}.so"
    if "board" in payload:
        on_board.packed_module(made, number, folder, module)
        of_board = {name: payload[name] for name in ("board", "id", "lock")}

        def compare(length: int | None, build: Build) -> Check:
            told = told_of(made, number, length, build, module)
            return Check(**on_board.check_in_child({**told, **of_board}, send))

    else:
        link_alone(made, number, folder, module)
        more = {"module": str(module), "name": made.library.name, "weights": "", "deadline_s": DEADLINE_S}

        def compare(length: int | None, build: Build) -> Check:
            found = run.check_in_child({**build.to_json(), **more}, send)
            return Check(**{**found, "where": f"board {payload['id']}"})

    return worst_of(builds_of(model, made, number), compare)
