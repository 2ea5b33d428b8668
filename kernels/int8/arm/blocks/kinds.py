"""The kinds of blocks: a block of sums in registers, by one of five ways.

- ``pairwise``, base instruction set (seed 000): products of bytes into 16 bits (``smull``, ``umull``), added
  in pairs to sums of 32 bits (``sadalp``, ``uadalp``), reduced by ``addp`` at the end. ``chain`` products are
  added in 16 bits first (``smlal``, ``umlal``); the caller has proved that these do not overflow.
- ``fours``, AArch64's base instruction set: as ``pairwise``, but four products are added in 16 bits where
  these weights allow it (``fours.py``). For signed bytes of which two products fit.
- ``lane``, base instruction set (seed 001): outer products of 16-bit numbers by ``smlal`` with a lane.
- ``dot``: ``sdot`` and ``udot`` by lane (``+dotprod``).
- ``matrix``: ``smmla`` and ``ummla``, products of 2x8 by 8x2 (``+i8mm``).

All but ``lane`` are of signed or of unsigned bytes. On 32-bit Arm there are ``pairwise`` and ``lane``.
"""

from __future__ import annotations

from kernels.int8.arm.blocks.block import Block
from kernels.int8.arm.blocks.dot import Dot
from kernels.int8.arm.blocks.fours import Fours
from kernels.int8.arm.blocks.lane import Lane
from kernels.int8.arm.blocks.matrix import Matrix
from kernels.int8.arm.blocks.pairwise import Pairwise

BLOCKS: dict[str, type[Block]] = {kind.name: kind for kind in (Pairwise, Fours, Lane, Dot, Matrix)}
