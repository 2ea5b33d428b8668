"""A built module beside its model's definition: on this machine, or on a board of its target."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import Target
from tilefleet.client import Client
from tilefleet.errors import NotFound, ProblemError, ServerUnreachable, TilefleetError
from tilefleet.one_board import started_board
from tuner.backend.check import Check, Delivery, worst
from tuner.backend.comparison import Build, OtherMachine, check_module
from tuner.backend.manifest import Manifest
from tuner.backend.shape_sets import Variant
from tuner.intake.shapes import given_of, is_open, text_of
from tuner.job.delivery import TIMEOUT_S
from tuner.log.picks import best_by_layouts
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts
from worker.children.nursery import ChildError
from worker.fleet.drivers.sim_models import SIM_MODELS
from worker.fleet.states import Activity, Health

OPEN_IS_CHECKED_HERE = "a module whose inputs have an open size is compared on a machine of its kind alone"


@dataclass(frozen=True)
class BuiltModule:
    """A module at ``path``, with what it was built from; a variant a set of input shapes."""

    path: Path
    model: Path
    variants: Sequence[Variant]
    numerics: Numerics
    records: Iterable[Record]
    relayouts: Iterable[Relayouts]

    @property
    def manifest(self) -> Manifest:
        """That of the first set of shapes: target and threads are those of all."""
        return self.variants[0].manifest

    def check(self) -> list[Check]:
        """Compare it with its definition on this machine, else on an idle board of the server.

        One check a variant, up to the first that is wrong.
        """
        try:
            checks: list[Check] = []
            for each in self.variants:
                checks.append(self._check_variant(each))
                if checks[-1].wrong:
                    break
            return checks
        except OtherMachine as reason:
            if is_open(self.variants[0].shapes):
                return [Check(self.manifest.tolerance, skipped=f"{reason}, and {OPEN_IS_CHECKED_HERE}")]
            try:
                return self._check_by_server()
            except _NotChecked as why:
                skipped = f"{reason}, and {why}{way_out(self.manifest.target.name)}"
                return [Check(each.manifest.tolerance, skipped=skipped) for each in self.variants]

    def check_on(self, name: str, file: Path | None) -> list[Check]:
        """Compare it with its definition on the board called ``name``, which the fleet file has, or which
        this machine can start.

        Raises TilefleetError when the board cannot be had or did not come to an answer.
        """
        if is_open(self.variants[0].shapes):
            raise TilefleetError(f"{OPEN_IS_CHECKED_HERE}: build it without --board")
        # A child builds it once more, and runs it on the board from there.
        target = self.manifest.target
        payload = {**self._request(), "model": str(self.model), "target": targets.to_json(target)}
        found = called_beside(name, file, target, "tuner.job.delivery_child:deliver_in_child", payload)
        delivery = Delivery.from_json(found)
        if delivery.sha256 != self._sha256():
            raise TilefleetError("the model is not built the same twice, and nothing was written")
        return [each.check for each in delivery.each] or [delivery.check]

    def _check_variant(self, each: Variant) -> Check:
        """With a size left open at both ends of its range, and at some lengths between."""
        manifest, found = each.manifest, {}
        for shapes in each.checked_shapes:
            configs = manifest.configs if shapes == each.shapes else ()
            build = Build(
                str(self.model), shapes, manifest.target, manifest.threads, configs, manifest.tolerance
            )
            found["" if configs else text_of(shapes)] = check_module(self.path, build)
            if not all(check.checked for check in found.values()):
                break
        return worst(found)

    def _check_by_server(self) -> list[Check]:
        """Have the server build the same and run it on an idle board; raises _NotChecked."""
        target, threads = self.manifest.target.name, self.manifest.threads
        model = hashlib.sha256(self.model.read_bytes()).hexdigest()
        try:
            with Client(timeout_s=TIMEOUT_S + 60) as client:
                boards = [board for board in client.boards() if board.target == target]
                if not boards:
                    raise _NotChecked(f"the server at {client.url} has no board of that target")
                idle = [
                    board.id
                    for board in boards
                    if board.activity is Activity.IDLE
                    and board.health is Health.GOOD
                    and board.threads >= threads
                ]
                if not idle:
                    raise _NotChecked(f"no board of that target at {client.url} is idle and has the threads")
                found = client.check_module(model, target, self._request())
        except ServerUnreachable:
            raise _NotChecked("no server answers that may have a board of that target") from None
        except NotFound:
            raise _NotChecked(f"the server at {client.url} does not have the model") from None
        except ProblemError as error:
            raise _NotChecked(f"the server at {client.url} could not do it: {error}") from None
        if found.sha256 != self._sha256():
            raise _NotChecked(f"the server at {client.url} builds another module of the same")
        return [Check(**each.model_dump()) for each in found.each or [found.check]]

    def _request(self) -> dict[str, Any]:
        """What of the log the module is built from, and how."""
        manifest = self.manifest
        layers = [layer for each in self.variants for layer in each.manifest.layers]
        keys = {layer.workload.key for layer in layers if layer.workload}
        best = best_by_layouts(self.records, manifest.target, manifest.threads, self.numerics)
        chosen = [record for key in keys & best.keys() for record in best[key].values()]
        return {
            "shapes": given_of([each.shapes for each in self.variants]),
            "threads": manifest.threads,
            "numerics": self.numerics.value,
            "records": [record.to_json() for record in chosen],
            "relayouts": [each.line() for each in self.relayouts],
        }

    def _sha256(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


def called_beside(
    name: str, file: Path | None, target: Target, entry: str, payload: Mapping[str, Any]
) -> Any:
    """What a child's ``entry`` returns that is told of the board called ``name``, which is for ``target``.

    Raises TilefleetError when the board cannot be had or did not come to an answer.
    """
    try:
        with started_board(name, file, target) as board:
            return board.call(entry, payload)
    except ChildError as error:
        raise TilefleetError(
            f"board {name} did not come to an answer, and nothing was written: {error}; "
            "--no-check writes it without"
        ) from None


class _NotChecked(Exception):
    """Why no board of a server was asked, or gave no answer."""


def way_out(target: str) -> str:
    """What to say behind why nothing was checked."""
    simulated = [name for name, model in SIM_MODELS.items() if model.target == target]
    such_as = f", such as {simulated[0]}" if simulated else ""
    return f"; --board names one{such_as}"
