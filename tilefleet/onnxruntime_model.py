"""``tilefleet build --as onnxruntime``: a model and its library, checked before they are at their place."""

from __future__ import annotations

import hashlib
import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from onnx import ModelProto

from compiler.intake.shapes import FixedShapes, OpenRange, at_length, sets_of, text_of
from compiler.ir.checks import ModelError, first_line
from compiler.load import load_graph
from compiler.readers.model_file import parse_file, read_as_written
from kernels.target import Target
from tilefleet.c_library import Wanted, checks_of, manifest_of
from tilefleet.errors import TilefleetError
from tilefleet.render import milliseconds
from tuner.backend.check import Check, worst
from tuner.backend.definition import Source, Undefined
from tuner.backend.difference import compared
from tuner.backend.drawn import defined_draws
from tuner.backend.draws import Draw, draws_of, random_feeds
from tuner.backend.given import fits, read_draws
from tuner.clibrary.build import Made, Model, make, planned_as_c, write
from tuner.clibrary.library import Library
from tuner.clibrary.toolchain import ToolError, glibc_of
from tuner.ortmodel import session
from tuner.ortmodel.library import domain_of, write_library
from tuner.ortmodel.model import Region, fixed_model, plain_model, ports_of, rewired, whole
from tuner.ortmodel.regions import Left, Parts, import_refusal
from tuner.ortmodel.session import NotRun, Ports, Turns
from worker.fleet.drivers.agent_build import AgentBuildError
from worker.measure.host import host_target

OLD_CPU = "this processor lacks instructions"


@dataclass(frozen=True)
class Part:
    """An operator of ours: what it computes, its library and what is told of that, and where both lie."""

    region: Region
    library: Library
    facts: dict[str, Any]
    folder: Path
    tolerance: float


_COUNTED = "data decide how many results there are (NonMaxSuppression, NonZero)"


def build_onnxruntime_model(model: Model, wanted: Wanted) -> dict[str, Any]:
    """Write ``model.onnx``, the library and the manifest, which is returned; nothing where it is wrong.

    Raises TilefleetError, ModelError for a model of which nothing is computed here, OtherTargetError.
    """
    try:
        glibc_of(wanted.targets[0])
    except (ToolError, AgentBuildError) as error:
        raise TilefleetError(str(error)) from None
    plain = parse_file(model.path) if _several(model) else plain_model(model.path, model.shapes)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unchecked-", dir=wanted.folder) as scratch:
        try:
            return _Building(model, wanted, Path(scratch)).build(plain)
        except (ToolError, AgentBuildError) as error:
            raise TilefleetError(str(error)) from None


class _Building:
    """One build, in ``scratch``."""

    def __init__(self, model: Model, wanted: Wanted, scratch: Path) -> None:
        self._model, self._wanted, self._scratch = model, wanted, scratch
        self._log = hashlib.sha256(wanted.log.read_bytes()).hexdigest()

    def build(self, plain: ModelProto) -> dict[str, Any]:
        wanted, name = self._wanted, self._wanted.name
        plain, made, left = self._made(plain)
        parts = [self._part(region, each) for region, each in made]
        plain_file = self._scratch / "plain.onnx"
        plain_file.write_bytes(plain.SerializeToString())
        final, library = self._scratch / "model.onnx", self._scratch / f"lib{name}.so"
        why_not = self._why_not_timed()
        kept = parts
        slower: list[tuple[Part, Turns | None]] = []
        if not why_not and len(parts) > 1:
            kept, slower = self._split_by_time(parts)
        turns = None
        self._write(plain, kept, final, library)
        check = self._check(final, library, kept)
        if not why_not and kept:
            turns, why_not = self._timed_whole(plain_file, final, library)
            if turns is not None and turns.ratio < 1:
                slower += [(each, turns if len(parts) == 1 else None) for each in kept]
                kept = []
                library.unlink()
                self._write(plain, kept, final, library)
        manifest = {
            "name": name,
            "version": version("tilefleet"),
            "log_sha256": self._log,
            "domain": domain_of(name),
            "threads": self._model.threads,
            "nodes": len(plain.graph.node),
            "operators": [each.facts for each in kept],
            "slower": [_slower(each, found) for each, found in slower],
            "left": [asdict(each) for each in left],
            **check.to_json(),
            "timed": {"skipped": why_not or "nothing is left of it"}
            if turns is None
            else {**asdict(turns), "ratio": turns.ratio},
        }
        described = self._scratch / f"{name}.json"
        described.write_text(json.dumps(manifest, indent=2) + "\n")
        for file in (final, library, described):
            file.replace(wanted.folder / file.name)
        return manifest | {"files": [final.name, library.name, described.name]}

    def _made(self, plain: ModelProto) -> tuple[ModelProto, list[tuple[Region, Made]], list[Left]]:
        """The model, its regions as libraries, and the nodes that are left to onnxruntime."""
        name, model = self._wanted.name, self._model
        region = whole(name, plain, model.path, model.shapes)
        try:
            return plain, [(region, self._make(region))], []
        except ModelError as error:
            refused = error
        if _several(model):
            raise ModelError(
                f"with several shapes all of it must be computed here, and {first_line(refused)}: build it "
                "for one set of them, each with a --name of its own"
            )
        fixed = fixed_model(model.path, model.shapes)
        parts = Parts(name, plain, fixed, self._scratch)
        while True:
            made = []
            for region in parts.regions():
                try:
                    made.append((region, self._make(region)))
                except ModelError as error:
                    parts.refuse(region, self._refusal, first_line(error))
                    break
            else:
                if not made:
                    raise refused
                return parts.model, made, parts.left()

    def _make(self, region: Region) -> Made:
        wanted = self._wanted
        if reason := import_refusal(region.path, region.shapes):
            raise ModelError(reason)
        of = replace(self._model, path=region.path, shapes=region.shapes)
        made = make(of, wanted.targets, region.name, wanted.title, self._log, embed=True)
        if made.library.counted:
            raise ModelError(_COUNTED)
        return made

    def _refusal(self, path: Path) -> str:
        """Why a model cannot be written as C; empty where it can."""
        try:
            program, _ = planned_as_c(replace(self._model, path=path, shapes=None), self._wanted.targets[0])
        except ModelError as error:
            return first_line(error)
        return _COUNTED if program.cuts else ""

    def _part(self, region: Region, made: Made) -> Part:
        """Write and check the library of a region."""
        wanted, folder = self._wanted, self._scratch / region.name
        folder.mkdir()
        write(made, folder)
        of = replace(self._model, path=region.path, shapes=region.shapes)
        if self._why_not_checked() or wanted.board is not None or len(made.codes) > 1:
            checks = checks_of(of, made, folder, replace(wanted, inputs=()))
        else:
            skipped = "it is checked with the whole model"
            checks = [Check(each.tolerance, skipped=skipped) for each in made.manifests]
        for check in checks:
            if check.wrong:
                raise TilefleetError(
                    f"{wanted.title}: operator {region.name} is wrong, and nothing was written: "
                    f"{check.wrong} ({check.where})"
                )
        facts = {"nodes": len(region.nodes)} | manifest_of(made, checks, folder)
        return Part(region, made.library, facts, folder, max(m.tolerance for m in made.manifests))

    def _write(self, plain: ModelProto, parts: Sequence[Part], model: Path, library: Path) -> None:
        regions = [(each.region, each.library) for each in parts]
        model.write_bytes(rewired(plain, self._wanted.name, regions).SerializeToString())
        of = [(each.library, each.folder) for each in parts]
        write_library(self._wanted.name, of, self._target, library)

    @property
    def _target(self) -> Target:
        return self._wanted.targets[0]

    def _why_not_timed(self) -> str:
        """Why both are not timed to keep the faster; empty where they are."""
        if not self._wanted.check:
            return "--no-check was given"
        if all(each.key != host_target().key for each in self._wanted.targets):
            return f"this machine is not of {self._target.name}: all that is computed here is in the library"
        return session.here()

    def _timed(self, plain: Path, ours: Path, library: Path, ports: Ports) -> tuple[Turns | None, str]:
        """What both take, or why they were not timed."""
        try:
            return session.compared(plain, ours, library, self._model.threads, ports), ""
        except NotRun as error:
            return None, str(error)

    def _timed_whole(self, plain: Path, ours: Path, library: Path) -> tuple[Turns | None, str]:
        """The same of the model: of several sets of shapes the sums, of an open size at its usual length."""
        found: list[Turns] = []
        for shapes in sets_of(self._model.given):
            ports = ports_of(fixed_model(self._model.path, shapes))
            turns, why_not = self._timed(plain, ours, library, ports)
            if turns is None:
                return None, why_not
            found.append(turns)
        return Turns(sum(each.plain_s for each in found), sum(each.ours_s for each in found)), ""

    def _split_by_time(self, parts: Sequence[Part]) -> tuple[list[Part], list[tuple[Part, Turns | None]]]:
        """The parts that are faster than onnxruntime by themselves, and the others with what they took."""
        kept: list[Part] = []
        slower: list[tuple[Part, Turns | None]] = []
        for each in parts:
            alone, library = each.folder / "alone.onnx", each.folder / "alone.so"
            plain = plain_model(each.region.path, None)
            everything = replace(each.region, nodes=frozenset(range(len(plain.graph.node))))
            regions = [(everything, each.library)]
            alone.write_bytes(rewired(plain, self._wanted.name, regions).SerializeToString())
            write_library(self._wanted.name, [(each.library, each.folder)], self._target, library)
            turns, _ = self._timed(each.region.path, alone, library, ports_of(plain))
            if turns is not None and turns.ratio < 1:
                slower.append((each, turns))
            else:
                kept.append(each)
        return kept, slower

    def _why_not_checked(self) -> str:
        """Why the whole is not run by onnxruntime; empty where it is."""
        if not self._wanted.check:
            return "--no-check was given"
        if platform.machine() != self._target.triple.partition("-")[0]:
            return f"{self._target.name} is another machine than this"
        return session.here()

    def _check(self, model: Path, library: Path, parts: Sequence[Part]) -> Check:
        """onnxruntime's outputs with our library beside the model's definition; TilefleetError if wrong."""
        tolerance = max((each.tolerance for each in parts), default=0.0)
        if reason := self._why_not_checked():
            return Check(tolerance, skipped=reason)
        found: dict[str, Check] = {}
        for shapes in _compared(self._model):
            name = text_of(shapes or {}) if _several(self._model) else ""
            found[name] = self._check_at(shapes, model, library, tolerance)
            if not found[name].checked:
                break
        check = worst(found)
        if check.wrong:
            raise TilefleetError(
                f"{self._wanted.title}: the model is wrong, and nothing was written: {check.wrong}"
            )
        return check

    def _check_at(self, shapes: FixedShapes | None, model: Path, library: Path, tolerance: float) -> Check:
        written = read_as_written(self._model.path, shapes)
        names = [value.name for value in written.graph.output]
        files = [str(each.file) for each in self._wanted.inputs if each.shapes in (None, shapes)]
        try:
            graph = load_graph(self._model.path, shapes)
            own = [name for name in files if fits(name, graph)]
            draws = defined_draws(Source(written), read_draws(own, graph), [*draws_of(graph)], graph)
        except ModelError:  # of which onnxruntime computes a part
            draws = defined_draws(Source(written), [], [Draw("", random_feeds(ports_of(written)))])
        found: dict[str, Check] = {}
        reasons: list[str] = []
        for draw, defined in draws:
            if isinstance(defined, Undefined):
                reasons.append(str(defined))
                continue
            if draw.optional and not defined.finite:
                continue
            try:
                results = session.computed(model, library, self._model.threads, defined.feeds)
            except NotRun as error:
                if OLD_CPU in str(error):
                    return Check(tolerance, skipped=str(error))
                raise TilefleetError(f"{self._wanted.title}: nothing was written: {error}") from None
            one = compared(dict(zip(names, results, strict=True)), defined, tolerance)
            found[draw.name] = replace(one, where="this machine")
            if one.wrong:
                break
        return worst(found) if found else Check(tolerance, skipped=reasons[0])


def _several(model: Model) -> bool:
    """Whether it takes inputs of more than one shape."""
    return bool(model.sets) or model.open is not None


def _compared(model: Model) -> Sequence[FixedShapes | None]:
    """The shapes with which it is compared: those of all sets, some of a range."""
    if model.open is not None:
        return [at_length(model.open, length) for length in OpenRange.of(model.open).checked]
    return model.sets or [model.shapes]


def told(manifest: Mapping[str, Any], folder: Path) -> list[str]:
    """What was built into ``folder``, for people."""
    operators, left, timed = manifest["operators"], manifest["left"], manifest["timed"]
    ours = sum(each["nodes"] for each in operators)
    lines = [
        f"{folder / 'model.onnx'}: {ours} of {manifest['nodes']} nodes are "
        f"{_count(operators, 'operator')} of lib{manifest['name']}.so; "
        f"{folder / manifest['name']}.json has each layer"
    ]
    if left:
        kinds = ", ".join(sorted({each["op"] for each in left}))
        lines.append(f"left to onnxruntime: {_count(left, 'node')} ({kinds}); the manifest says why")
    if manifest["slower"]:
        lines.append(f"left to onnxruntime because it is faster: {_count(manifest['slower'], 'operator')}")
    if not operators:
        lines.append("model.onnx is the model as it was, and the library is empty")
    elif "ratio" in timed:
        lines.append(
            f"a run takes {milliseconds(timed['ours_s'])} ms, by onnxruntime alone "
            f"{milliseconds(timed['plain_s'])} ms: {timed['ratio']:.2f} times as fast"
        )
    else:
        lines.append(f"not timed: {timed['skipped']}")
    lines.append(str(Check(**manifest["check"])))
    if manifest["check"]["skipped"]:
        # Then each was run by itself, where it could be.
        of = [(each["name"], Check(**one["check"])) for each in operators for one in each["variants"]]
        lines += [f"operator {name}: {check}" for name, check in of if check.checked]
    return lines


def _count(things: Sequence[Any], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def _slower(part: Part, turns: Turns | None) -> dict[str, Any]:
    """What is told of a part that is left to onnxruntime as that is faster: by itself, else all together."""
    told = {"name": part.region.name, "nodes": len(part.region.nodes), "inputs": part.region.inputs}
    return {**told, "ratio": None if turns is None else turns.ratio}
