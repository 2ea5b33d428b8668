"""What the rest of the system knows about a board."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Board:
    """One device that can run a candidate, and where its RPC server listens.

    ``target`` is the name of the kind of machine it is (``kernels/target.py``); ``clock`` says how its times
    come about (``wall`` or ``simulated:...``); ``threads`` is what a parallel kernel gets.
    """

    id: str
    target: str
    host: str
    port: int
    clock: str = "wall"
    threads: int = 1
