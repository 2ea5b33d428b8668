"""What a user gives for inputs: values, or sets of shapes, a shape of every input that leaves one open. A
module may take several sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Extent = int | str
"""A size, or a range that is left open: ``1..512``."""
Shapes = Mapping[str, Sequence[Extent]]
FixedShapes = Mapping[str, Sequence[int]]
MOST_SETS = 64
"""In one module: each is imported, planned and compiled by itself."""
USUAL_LENGTH = 128
"""Of an open size: what is right for it is not far from right for others."""
LEAST_LENGTHS = 4
"""How far a range must reach to be left open: fewer sizes are given one by one."""
LONGEST = 1 << 16
"""What an open size may be at most."""
Values = Mapping[str, Sequence[float]]
"""The elements of inputs that always have the same, by the name of the input."""
GivenShapes = Shapes | Sequence[Shapes] | None
"""What a user gives: nothing where the file says all, one set, or several."""


def sets_of(given: GivenShapes) -> tuple[FixedShapes, ...]:
    """The sets of shapes, at least one, all sizes known: what is left open has its usual length, at which it
    is tuned. ModelError as ``given_sets`` raises it."""
    return tuple(
        at_length(each, OpenRange.of(each).usual) if is_open(each) else dict(each)  # type: ignore[arg-type]
        for each in given_sets(given)
    )


def given_sets(given: GivenShapes) -> tuple[Shapes, ...]:
    """The sets of shapes, at least one, as they are given; ModelError for more than MOST_SETS, for ranges
    that cannot be, and for a set that leaves a size open beside others."""
    sets = _sets(given)
    if any(map(is_open, sets)):
        if len(sets) > 1:
            raise _refused(
                "a module whose inputs have an open size has one set of them: build another for more"
            )
        try:
            OpenRange.of(sets[0])
        except ValueError as error:
            names = ", ".join(repr(name) for name, shape in sets[0].items() if is_open({name: shape}))
            raise _refused(f"input {names}: {error}") from None
    return sets


def _sets(given: GivenShapes) -> tuple[Shapes, ...]:
    if given is None or isinstance(given, Mapping):
        return (given or {},)
    sets: list[Shapes] = []
    for each in given:
        if each not in sets:
            sets.append(each)
    if len(sets) > MOST_SETS:
        raise _refused(f"one module takes at most {MOST_SETS} sets of input shapes, not {len(sets)}")
    return tuple(sets) or ({},)


def _refused(message: str) -> Exception:
    # Here, because it brings onnx along, which those who only read options should not wait for.
    from compiler.ir.checks import ModelError

    return ModelError(message)


def text_of(shapes: Shapes) -> str:
    """One set as --shape takes it: ``ids=1,128 mask=1,128``."""
    return " ".join(f"{name}={','.join(map(str, shape))}" for name, shape in shapes.items())


def given_of(sets: Sequence[Shapes]) -> dict[str, list[Extent]] | list[dict[str, list[Extent]]] | None:
    """Sets as plain JSON values that ``sets_of`` reads: one set stands for itself."""
    plain = [{name: list(shape) for name, shape in each.items()} for each in sets]
    return plain if len(plain) > 1 else (plain[0] if plain else None) or None


@dataclass(frozen=True)
class OpenRange:
    """The lengths from ``first`` to ``last`` that an open size may have."""

    first: int
    last: int

    @classmethod
    def read(cls, text: str) -> OpenRange:
        """The range that ``1..512`` says; ValueError for any other text, and for one of too few lengths."""
        first, _, last = text.partition("..")
        known = first.isdecimal() and last.isdecimal()
        if not (known and 1 <= int(first) <= int(last) - LEAST_LENGTHS and int(last) <= LONGEST):
            raise ValueError(
                f"{text!r} is neither a positive size nor a range that can be left open: such as 1..512, "
                f"from 1 on, to {LONGEST} at most, and of more than {LEAST_LENGTHS} lengths"
            )
        return cls(int(first), int(last))

    @classmethod
    def of(cls, shapes: Shapes) -> OpenRange:
        """That of shapes that leave a size open, which is the same in all of them; ValueError if there is
        another or none."""
        texts = {size for shape in shapes.values() for size in shape if isinstance(size, str)}
        if len(texts) != 1:
            raise ValueError(f"one size can be left open, in all inputs alike, not {len(texts)}")
        return cls.read(texts.pop())

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"

    @property
    def usual(self) -> int:
        """The length that a model is tuned for."""
        return max(self.first, min(self.last, USUAL_LENGTH))

    @property
    def samples(self) -> tuple[int, ...]:
        """Lengths that a model is read off at, the greatest last: more than one, as an axis of one is none
        to many operators, and odd ones with even ones."""
        span = self.last - self.first
        found = {self.usual, self.last, self.first + span * 3 // 8 | 1, self.first + span * 5 // 8}
        return tuple(sorted(each for each in found if each > 1))[-4:]

    @property
    def checked(self) -> tuple[int, ...]:
        """Lengths at which a build is compared with the model's definition: both ends, and odd ones."""
        span = self.last - self.first
        inside = (self.first + span * part // 100 for part in (2, 7, 25, 59))
        return tuple(sorted({self.first, *inside, self.last}))


def is_open(shapes: Shapes) -> bool:
    """Whether a set of shapes leaves a size open."""
    return any(isinstance(size, str) for shape in shapes.values() for size in shape)


def at_length(shapes: Shapes, length: int) -> dict[str, list[int]]:
    """Shapes with what they leave open at ``length``."""
    return {
        name: [length if isinstance(size, str) else size for size in shape] for name, shape in shapes.items()
    }
