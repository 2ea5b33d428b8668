"""Knob spaces: what can be tuned about one kernel for one workload, and which points are valid."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.layout import PLAIN, Layouts

Value = int | str
_FIELDS = {"kernel", *Layouts._fields}
"""What a config's JSON has beside knobs."""
Knobs = Mapping[str, Value]


@dataclass(frozen=True)
class Config:
    """One point: a kernel, the layouts that it reads and writes, and a value for each of its knobs."""

    kernel: str
    knobs: tuple[tuple[str, Value], ...]
    layouts: Layouts = PLAIN

    @classmethod
    def of(cls, kernel: str, layouts: Layouts = PLAIN, /, **knobs: Value) -> Config:
        """Make a config; knobs are kept sorted, so equal points are equal objects.

        Raises ValueError for a knob whose name the JSON needs for something else.
        """
        if taken := _FIELDS & knobs.keys():
            raise ValueError(f"{kernel}: a knob cannot be called {min(taken)}")
        return cls(kernel, tuple(sorted(knobs.items())), layouts)

    @property
    def family(self) -> str:
        """The kernel's name, and the layouts where they are not NCHW."""
        return family_of(self.kernel, self.layouts)

    def __getitem__(self, knob: str) -> Value:
        return dict(self.knobs)[knob]

    def int(self, knob: str) -> int:
        """A knob's value that is known to be a number."""
        value = self[knob]
        if not isinstance(value, int):
            raise ValueError(f"{self.kernel}: knob {knob} must be a number, got {value!r}")
        return value

    @property
    def key(self) -> str:
        """16 hex digits of the canonical JSON."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Value]:
        """A flat object: ``kernel``, the knobs, and ``data`` and ``out`` where they are not NCHW."""
        ends: dict[str, Value] = {} if self.layouts == PLAIN else dict(self.layouts._asdict())
        return {"kernel": self.kernel, **ends, **dict(self.knobs)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Config:
        """Read a config; raises ValueError that names what is wrong with it."""
        if not isinstance(value, dict) or not isinstance(value.get("kernel"), str):
            raise ValueError(f"config must be an object that names its kernel, got {value!r:.80}")
        knobs = {name: item for name, item in value.items() if name not in _FIELDS}
        for name, item in knobs.items():
            if isinstance(item, bool) or not isinstance(item, (int, str)):
                raise ValueError(f"config knob {name} must be a number or a word, got {item!r}")
        layouts = Layouts(*(str(value.get(end, word)) for end, word in PLAIN._asdict().items()))
        return cls(value["kernel"], tuple(sorted(knobs.items())), layouts)

    def __str__(self) -> str:
        return f"{self.family}(" + ", ".join(f"{name}={value}" for name, value in self.knobs) + ")"


def _always(_: Knobs) -> str | None:
    return None


@dataclass(frozen=True)
class Space:
    """All points of one kernel in one pair of layouts for one workload on one target.

    ``knobs`` lists each knob's values in a meaningful order (neighbours differ little). ``invalid`` gives
    the reason why a combination cannot be built, or None.
    """

    kernel: str
    knobs: Mapping[str, Sequence[Value]]
    invalid: Callable[[Knobs], str | None] = _always
    layouts: Layouts = PLAIN

    @property
    def family(self) -> str:
        """That of its points."""
        return family_of(self.kernel, self.layouts)

    @property
    def size(self) -> int:
        """Combinations of knobs, invalid ones included: an upper bound that costs nothing."""
        return math.prod(len(values) for values in self.knobs.values())

    def config(self, point: Knobs) -> Config:
        """The config of one value for each knob."""
        return Config.of(self.kernel, self.layouts, **point)

    def __iter__(self) -> Iterator[Config]:
        for values in itertools.product(*self.knobs.values()):
            point = dict(zip(self.knobs, values, strict=True))
            if self.invalid(point) is None:
                yield self.config(point)

    def why_not(self, config: Config) -> str | None:
        """Why ``config`` is no point of this space, or None when it is one."""
        if config.family != self.family:
            return f"{config.family} is not {self.family}"
        point = dict(config.knobs)
        if point.keys() != self.knobs.keys():
            return f"{self.kernel} has the knobs {sorted(self.knobs)}, not {sorted(point)}"
        for name, value in point.items():
            if value not in self.knobs[name]:
                return f"{self.kernel}: {name}={value} is not one of {list(self.knobs[name])}"
        return self.invalid(point)

    def sample(self, rng: random.Random, tries: int = 200) -> Config | None:
        """A random valid point, or None when none was hit."""
        for _ in range(tries):
            point = {name: rng.choice(values) for name, values in self.knobs.items()}
            if self.invalid(point) is None:
                return self.config(point)
        return None

    def mutate(self, config: Config, rng: random.Random, tries: int = 50) -> Config | None:
        """A valid point that differs from ``config`` in one or two knobs, often by one step."""
        movable = [name for name, values in self.knobs.items() if len(values) > 1]
        for _ in range(tries if movable else 0):
            point = dict(config.knobs)
            for name in rng.sample(movable, k=min(len(movable), rng.choice((1, 1, 2)))):
                values = list(self.knobs[name])
                at = values.index(point[name]) if point[name] in values else 0
                near = [value for value in values[max(0, at - 1) : at + 2] if value != point[name]]
                point[name] = rng.choice(near if rng.random() < 0.6 else values)
            if point != dict(config.knobs) and self.invalid(point) is None:
                return self.config(point)
        return None

    def cross(self, one: Config, other: Config, rng: random.Random, tries: int = 20) -> Config | None:
        """A valid point that takes each knob from one of two parents."""
        first, second = dict(one.knobs), dict(other.knobs)
        for _ in range(tries):
            point = {name: rng.choice((first, second))[name] for name in self.knobs}
            if self.invalid(point) is None:
                return self.config(point)
        return None


def family_of(kernel: str, layouts: Layouts) -> str:
    """The name of a kernel's configs in one pair of layouts."""
    return kernel if layouts == PLAIN else f"{kernel} {layouts}"


@dataclass(frozen=True)
class SearchSpace:
    """The spaces of every kernel that can compute one workload: the algorithm itself is a choice."""

    spaces: tuple[Space, ...]

    def __iter__(self) -> Iterator[Config]:
        return itertools.chain.from_iterable(self.spaces)

    def of(self, family: str) -> Space | None:
        """The space of one family, or None when that does not apply."""
        return next((space for space in self.spaces if space.family == family), None)

    def why_not(self, config: Config) -> str | None:
        """Why ``config`` is no point of any of the spaces, or None when it is one."""
        space = self.of(config.family)
        if space is None:
            return f"kernel {config.family} does not apply; those that do: {[s.family for s in self.spaces]}"
        return space.why_not(config)
