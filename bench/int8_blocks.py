"""The best blocks of the quantized matrix product on Arm, 32-bit Arm among them, from their assembly alone.

python -m bench.int8_blocks --target rpi4-32|rpi4 --top 8

Prints for each block how many multiply-adds a cycle its loop over the depth allows, by the pipes of the
simulated cortex-a72 (docs/simulated-clock.md): three instructions, 128 bits of loads, 64 of stores and 128 of
vectors a cycle, where an instruction that widens half a vector takes 64. This counts no caches, no
reduction at the end and no results: bench.int8_best_blocks measures.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernels.target import CATALOGUE, Target
from kernels.workload import QConv2d

CONV = QConv2d(1, 12, 12, 64, 48, 3, 3, data_dtype="int8", weight_range=(-127, 127), scale="small")
SIDES = range(1, 9)
KINDS = {"pairwise": 2, "lane": 1}
"""The kinds of block of the base instruction set, and how many products they add in 16 bits."""
LONG = re.compile(r"v?[su]?(mull|mlal|addw|addl|movl|shll)(\.\w+)?$")
PRODUCT = re.compile(r"[su]mull|[su]mlal|vmull|vmlal")


@dataclass(frozen=True)
class Loop:
    """The pipes that a loop's instructions keep busy, in cycles, and how many of them are on the stack."""

    instructions: int
    products: int
    spills: int
    cycles: float

    @classmethod
    def of(cls, lines: list[str]) -> Loop:
        """Read from lines of assembly."""
        loads = stores = vectors = 0.0
        for line in lines:
            name, _, operands = line.partition(" ")
            if re.match(r"v?ldm?|v?stm?", name):
                words = len(re.findall(r"\b[ds]\d+\b", operands)) + 2 * len(re.findall(r"\bq\d+\b", operands))
                # A pair of integer registers is as wide as one vector of 64 bits.
                if name.startswith(("st", "vst")):
                    stores += max(1, words)
                elif name.startswith("vldm"):
                    loads += words
                else:
                    loads += max(1.0, words / 2)
            elif re.search(r"\b[qdv]\d+", operands):
                wide = name.endswith("2") or re.search(r"\bq\d+|\.(16b|8h|4s|2d)", operands)
                vectors += 0.5 if LONG.match(name) or not wide else 1.0
        return cls(
            instructions=len(lines),
            products=sum(bool(PRODUCT.match(line)) for line in lines),
            spills=sum("sp" in line.partition(" ")[2] for line in lines),
            cycles=max(len(lines) / 3, loads, stores, vectors),
        )


def loops(assembly: str) -> Iterator[Loop]:
    """The innermost loops."""
    label: str | None = None
    lines: list[str] = []
    for text in assembly.splitlines():
        line = re.sub(r"\s+", " ", re.split(r"//|@", text)[0]).strip()
        if start := re.match(r"(\.LBB\w+):", line):
            label, lines = start[1], []
        elif re.match(r"[a-z]", line):
            lines.append(line)
            if label and re.search(rf" (\S+, )?{re.escape(label)}$", line):
                yield Loop.of(lines)
                label = None


def ranked(target: Target) -> list[tuple[float, str, Loop]]:
    """(multiply-adds a cycle, block, loop) of every block in the space, the best first."""
    from kernels import registry
    from kernels.compile import compile_module
    from kernels.qblocks import BLOCKS
    from kernels.space import Config

    kernel = registry.kernel("qgemm")
    space, found = kernel.space(CONV, target), []
    for kind, chain in KINDS.items():
        for rows, columns in ((rows, columns) for rows in SIDES for columns in SIDES):
            config = Config.of(
                "qgemm", block=kind, chain=chain, rows=rows, columns=columns, rows_from="tiles", slab=2,
                requant="high",
            )  # fmt: skip
            if space.why_not(config) is None:
                module = compile_module(kernel.build(CONV, config, target, 1, "main"), target)
                every = loops(module.inspect_source("asm"))
                loop = max(every, key=lambda loop: (loop.products, -loop.instructions))
                rate = rows * columns * BLOCKS[kind].depth / loop.cycles
                found.append((rate, f"{kind} {rows}x{columns}", loop))
    return sorted(found, key=lambda entry: -entry[0])


def main() -> None:
    """Print the blocks."""
    parser = argparse.ArgumentParser(prog="python -m bench.int8_blocks", description=__doc__.splitlines()[0])
    parser.add_argument("--target", choices=["rpi4-32", "rpi4"], default="rpi4-32")
    parser.add_argument("--top", type=int, default=8, help="blocks of each kind (default 8)")
    arguments = parser.parse_args()
    blocks = ranked(CATALOGUE[arguments.target])
    for kind in KINDS:
        for rate, name, loop in [entry for entry in blocks if entry[1].startswith(kind)][: arguments.top]:
            print(
                f"{name:14s} {rate:5.2f} multiply-adds a cycle, {loop.instructions} instructions, "
                f"{loop.spills} on the stack"
            )


if __name__ == "__main__":
    main()
