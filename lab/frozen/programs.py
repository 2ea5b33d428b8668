"""Each model of the corpus as it is built, up to LLVM: products, plan, functions, constants, main."""

from __future__ import annotations

from bench.corpus.entries import listed
from bench.corpus.fetch import FetchError, fetch
from bench.corpus.inputs import shapes_of
from compiler.intake.assemble import assembled
from kernels.target import CATALOGUE
from lab.frozen.built import built

TARGETS = {"x86-avx2": 1, "rpi5": 2}


def keys(_: object = None) -> list[str]:
    """The models, each for two targets."""
    return [f"{entry.name} {target}" for entry in listed() for target in TARGETS]


def text(key: str) -> str:
    """What the build of a model makes before LLVM; the reason where its file cannot be had."""
    name, _, target = key.rpartition(" ")
    entry = next(entry for entry in listed() if entry.name == name)
    place = fetch([entry])[name]
    if isinstance(place, FetchError):
        return f"not fetched: {place}\n"
    shapes = shapes_of(place, entry)
    kept = {name: shape for name, shape in shapes.items() if name not in entry.constants}
    with assembled(place, entry.constants) as file:
        return built(file, kept, CATALOGUE[target], TARGETS[target])
