"""What is built for another machine, run by the server on an idle board that is one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from compiler.intake.shapes import Shapes, given_of
from kernels.numerics import Numerics
from tilefleet.client import Client
from tilefleet.errors import NotFound, ProblemError, ServerUnreachable
from tuner.backend.check import Check
from tuner.backend.manifest import Manifest
from tuner.job.delivery import TIMEOUT_S
from tuner.log.picks import best_by_layouts
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts
from worker.fleet.states import Activity, Health

NOT_SENT = "inputs of your own go to no server"


class NotChecked(Exception):
    """Why no board of a server was asked, or gave no answer."""


def request_of(
    manifests: Sequence[Manifest],
    given: Sequence[Shapes],
    records: Iterable[Record],
    numerics: Numerics,
    relayouts: Iterable[Relayouts],
) -> dict[str, Any]:
    """What is built for the target of ``manifests``: how, and of which part of the log."""
    first = manifests[0]
    keys = {layer.workload.key for each in manifests for layer in each.layers if layer.workload}
    best = best_by_layouts(records, first.target, first.threads, numerics)
    chosen = [record for key in keys & best.keys() for record in best[key].values()]
    return {
        "shapes": given_of(given),
        "threads": first.threads,
        "numerics": numerics.value,
        "records": [record.to_json() for record in chosen],
        "relayouts": [each.line() for each in relayouts],
    }


def check_by_server(
    model: Path, target: str, request: dict[str, Any], sha256: str, thing: str
) -> list[Check]:
    """Have the server build the same ``thing`` of ``model`` and run it on an idle board of ``target``.

    A check for each set of shapes. ``sha256`` is what the same build has. Raises NotChecked.
    """
    threads = 1 if "library" in request else request["threads"]  # a library is run on its caller's thread
    try:
        with Client(timeout_s=TIMEOUT_S + 60) as client:
            boards = [board for board in client.boards() if board.target == target]
            if not boards:
                raise NotChecked(f"the server at {client.url} has no board of that target")
            idle = [
                board.id
                for board in boards
                if board.activity is Activity.IDLE
                and board.health is Health.GOOD
                and board.threads >= threads
            ]
            if not idle:
                raise NotChecked(f"no board of that target at {client.url} is idle and has the threads")
            found = client.check_module(hashlib.sha256(model.read_bytes()).hexdigest(), target, request)
    except ServerUnreachable:
        raise NotChecked("no server answers that may have a board of that target") from None
    except NotFound:
        raise NotChecked(f"the server at {client.url} does not have the model") from None
    except ProblemError as error:
        raise NotChecked(f"the server at {client.url} could not do it: {error}") from None
    if found.sha256 != sha256:
        raise NotChecked(f"the server at {client.url} builds another {thing} of the same")
    return [Check(**each.model_dump()) for each in found.each or [found.check]]
