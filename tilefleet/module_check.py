"""A built module beside its model's definition: on this machine, or on a board of its target."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler.intake.shapes import is_open, text_of
from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import Target
from tilefleet.emulated import EMULATED_S, emulator_of, gave_up
from tilefleet.errors import TilefleetError
from tilefleet.one_board import started_board
from tilefleet.server_check import NOT_SENT, NotChecked, check_by_server, request_of
from tuner.backend.check import Check, Delivery, worst
from tuner.backend.comparison import Build, OtherMachine, check_module
from tuner.backend.given import GivenInputs
from tuner.backend.manifest import Manifest
from tuner.backend.shape_sets import Variant
from tuner.job.delivery import TIMEOUT_S
from tuner.log.record import Record
from tuner.log.relayouts import Relayouts
from worker.children.nursery import ChildError

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
    inputs: Sequence[GivenInputs] = ()

    @property
    def manifest(self) -> Manifest:
        """That of the first set of shapes: target and threads are those of all."""
        return self.variants[0].manifest

    def check(self) -> list[Check]:
        """Compare it with its definition on this machine, else on an idle board of the server, else on an
        emulator of its target.

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
                if self.inputs:
                    raise NotChecked(NOT_SENT)
                return check_by_server(
                    self.model, self.manifest.target.name, self._request(), self._sha256(), "module"
                )
            except NotChecked as why:
                try:
                    return self._check_emulated()
                except NotChecked as also:
                    skipped = f"{reason}, and {why}; {also}"
                return [Check(each.manifest.tolerance, skipped=skipped) for each in self.variants]

    def _check_emulated(self) -> list[Check]:
        """Compare it on an emulator of its target; raises NotChecked."""
        name = emulator_of(self.manifest.target)
        try:
            return self.check_on(name, None, EMULATED_S)
        except BoardSilent as error:
            raise gave_up(name, error) from None

    def check_on(self, name: str, file: Path | None, timeout_s: float = TIMEOUT_S) -> list[Check]:
        """Compare it with its definition on the board called ``name``, which the fleet file has, or which
        this machine can start.

        Raises TilefleetError when the board cannot be had or did not come to an answer.
        """
        if is_open(self.variants[0].shapes):
            raise TilefleetError(f"{OPEN_IS_CHECKED_HERE}: build it without --board")
        # A child builds it once more, and runs it on the board from there.
        target = self.manifest.target
        payload = {**self._request(), "model": str(self.model), "target": targets.to_json(target)}
        payload["inputs"] = [(str(given.file), given.number) for given in self.inputs]
        found = called_beside(
            name, file, target, "tuner.job.delivery_child:deliver_in_child", payload, timeout_s
        )
        delivery = Delivery.from_json(found)
        if delivery.sha256 != self._sha256():
            raise TilefleetError("the model is not built the same twice, and nothing was written")
        return [each.check for each in delivery.each] or [delivery.check]

    def _check_variant(self, each: Variant) -> Check:
        """With a size left open at both ends of its range, and at some lengths between."""
        manifest, found = each.manifest, {}
        number = self.variants.index(each)
        files = [given for given in self.inputs if given.number == number]
        for shapes in [*each.checked_shapes, *(given.shapes for given in files if given.shapes)]:
            configs = manifest.configs if shapes == each.shapes else ()
            build = Build(
                str(self.model),
                shapes,
                manifest.target,
                manifest.threads,
                configs,
                manifest.tolerance,
                [str(given.file) for given in files if given.shapes in (None, shapes)],
            )
            found["" if configs else text_of(shapes)] = check_module(self.path, build)
            if not all(check.checked for check in found.values()):
                break
        return worst(found)

    def _request(self) -> dict[str, Any]:
        manifests, given = [each.manifest for each in self.variants], [each.shapes for each in self.variants]
        return request_of(manifests, given, self.records, self.numerics, self.relayouts)

    def _sha256(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()


class BoardSilent(TilefleetError):
    """A board did not come to an answer."""


def called_beside(
    name: str,
    file: Path | None,
    target: Target,
    entry: str,
    payload: Mapping[str, Any],
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """What a child's ``entry`` returns that is told of the board called ``name``, which is for ``target``.

    Raises TilefleetError when the board cannot be had, BoardSilent when it did not come to an answer.
    """
    try:
        with started_board(name, file, target) as board:
            return board.call(entry, payload, timeout_s)
    except ChildError as error:
        raise BoardSilent(
            f"board {name} did not come to an answer, and nothing was written: {error}; "
            "--no-check writes it without"
        ) from None
