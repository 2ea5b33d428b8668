"""What is known of a built model: whether it is as defined, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.backend.verdict import Verdict

TOLERANCE = 1e-4
"""How far an output may be from its definition, relative to its largest value."""


@dataclass(frozen=True)
class Check:
    """How a built model, run on ``where``, compares with its definition, as ``by`` computes it.

    ``errors`` are those of its outputs, and ``allowed`` is how large each may be: ``tolerance``, or more
    where the model itself makes more of a little difference in its inputs. ``wrong`` says which tensor is the
    first that is wrong and how; where it is empty and ``skipped`` as well, the model is right. ``skipped``
    says why nothing was compared. ``blunt`` are the outputs of which the check could hardly have failed, and
    ``inside`` is how many tensors inside were compared, each made of what the definition has before it.
    """

    tolerance: float
    errors: dict[str, float] = field(default_factory=dict)
    allowed: dict[str, float] = field(default_factory=dict)
    by: str = ""
    wrong: str = ""
    skipped: str = ""
    where: str = ""
    blunt: list[str] = field(default_factory=list)
    inside: int = 0

    @property
    def checked(self) -> bool:
        """Whether the model was compared, and is right."""
        return not self.wrong and not self.skipped

    def __str__(self) -> str:
        """What came out, for people."""
        if self.wrong or self.skipped:
            return f"wrong: {self.wrong}" if self.wrong else f"not checked: {self.skipped}"
        sharp = [name for name in self.errors if name not in self.blunt] or [*self.errors]
        worst = max(sharp, key=lambda name: self.errors[name] / self.allowed[name])
        error, allowed = self.errors[worst], self.allowed[worst]
        where = f" on {self.where}" if self.where else ""
        told = (
            f"checked{where}: {worst} differs by {error:.1g} from what {self.by} computes, "
            f"{allowed:.1g} is allowed"
        )
        if self.inside:
            told += (
                f"; in pieces, each by the definition's own inputs, {self.inside} tensors inside are right"
            )
        if self.blunt:
            told += f"; of {', '.join(self.blunt[:5])} alone it could hardly have failed"
        return told

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {"checked": self.checked, "check": {**vars(self)}}

    @property
    def _badness(self) -> tuple[bool, bool, float]:
        excess = max((error / self.allowed[name] for name, error in self.errors.items()), default=0.0)
        return bool(self.wrong), bool(self.skipped), excess


def worst(checks: Mapping[str, Check]) -> Check:
    """What to say of several sets of shapes, each checked under its name: a wrong one, else one that was not
    compared, else that with the largest error for what is allowed. A single set has no name."""
    name = max(checks, key=lambda name: checks[name]._badness)
    found = checks[name]
    if not name:
        return found
    return replace(
        found,
        wrong=found.wrong and f"with {name}: {found.wrong}",
        skipped=found.skipped and f"with {name}: {found.skipped}",
    )


@dataclass(frozen=True)
class Delivery:
    """A built model: whether it is right, and what it takes.

    ``seconds`` is the median of its runs and ``spread`` their interquartile range over that; ``other_s`` is
    the part of it in which no tuned layer is computed. They are None of a model that is wrong. ``in_place``
    is how many times as long as by themselves the heaviest layers took inside a model, where they were
    compared there: what the others leave in the caches is not what a layer leaves to itself. ``sha256``
    is that of the module's file, where one was sent to a board. ``shapes`` are the inputs', where there are
    several sets of them: ``each`` has then what is known of each set, and the figures are those of one run
    with each. ``operators`` are what the seconds are spent in, the longest first: ``name``, the workload's
    ``key`` or an empty one, ``calls``, ``seconds`` of all. ``verdict`` is on the untuned model beside it.
    ``untuned`` says that a job delivers the untuned model whatever it has measured: its log then has no
    record to build by.
    """

    check: Check
    seconds: float | None = None
    spread: float | None = None
    other_s: float | None = None
    in_place: float = 1.0
    sha256: str = ""
    operators: list[dict[str, Any]] = field(default_factory=list)
    shapes: Mapping[str, Sequence[int]] | None = None
    each: tuple[Delivery, ...] = ()
    verdict: Verdict | None = None
    untuned: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        verdict = self.verdict and self.verdict.to_json()
        each = [one.to_json() for one in self.each]
        return {**vars(self), "verdict": verdict, "each": each, **self.check.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Delivery:
        """What ``to_json`` wrote."""
        names = ("seconds", "spread", "other_s", "in_place", "sha256", "operators", "shapes", "untuned")
        figures = {name: value[name] for name in names if name in value}
        each = tuple(map(cls.from_json, value.get("each", [])))
        verdict = Verdict.from_json(value["verdict"]) if value.get("verdict") else None
        return cls(Check(**value["check"]), **figures, each=each, verdict=verdict)

    @classmethod
    def of_all(cls, each: Mapping[str, Delivery], sha256: str = "") -> Delivery:
        """That of a module by the names of its sets of shapes; a single set has none."""
        if "" in each:
            return replace(each[""], sha256=sha256, shapes=None)
        check = worst({name: one.check for name, one in each.items()})
        timed = [(one.seconds, one.spread or 0.0, one.other_s or 0.0) for one in each.values() if one.seconds]
        if len(timed) < len(each):
            return cls(check, sha256=sha256, each=tuple(each.values()))
        seconds = sum(one for one, _, _ in timed)
        spread = sum(one * spread for one, spread, _ in timed) / seconds
        other_s = sum(other_s for _, _, other_s in timed)
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for part in (part for one in each.values() for part in one.operators):
            known = found.setdefault((part["name"], part["key"]), {**part, "calls": 0, "seconds": 0.0})
            known |= {what: known[what] + part[what] for what in ("calls", "seconds")}
        operators = sorted(found.values(), key=lambda part: -part["seconds"])
        every = tuple(each.values())
        verdict = Verdict.of_all([one.verdict for one in every if one.verdict])
        return cls(
            check, seconds, spread, other_s, sha256=sha256, operators=operators, each=every, verdict=verdict
        )
