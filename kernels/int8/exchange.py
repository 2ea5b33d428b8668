"""Which products of bytes are added together in 16 bits, so that nearly all sums fit: by exchanges."""

from __future__ import annotations

import numpy as np

from kernels.kernel import Array

ROUNDS = 100
"""How often steps meet others at most."""


def choose(sizes: Array, parts: int, most: int) -> tuple[Array, Array]:
    """Which units each step has (tile, step, part), and which steps fit (tile, step).

    ``sizes`` (tile, unit, lane; int16) must add up to ``most`` at most in every lane of a step. Steps begin
    with neighbours. In each round all of them meet another, and two of which one does not fit exchange the
    units by whose exchange they come nearest.
    """
    tiles, units, lanes = sizes.shape
    steps = units // parts
    chosen = np.tile(np.arange(units).reshape(-1, parts), (tiles, 1, 1))
    beyond = _beyond(sizes.reshape(tiles, steps, parts, lanes).sum(2, dtype=np.int16), most)
    # A filter whose weights are large throughout is not worth the search.
    hopeless = (sizes.sum(1) > most * steps).any(1)
    for turn in range(min(2 * steps, ROUNDS)):
        partner = (turn - np.arange(steps)) % steps
        met = (beyond + beyond[:, partner] > 0) & (np.arange(steps) < partner) & ~hopeless[:, None]
        tile, one = np.nonzero(met)
        if not len(tile):
            continue
        other = partner[one]
        mine, theirs = (sizes[tile[:, None], chosen[tile, step]] for step in (one, other))
        change = theirs[:, None] - mine[:, :, None]
        after = _beyond(mine.sum(1, dtype=np.int16)[:, None, None] + change, most)
        after += _beyond(theirs.sum(1, dtype=np.int16)[:, None, None] - change, most)
        after = after.reshape(len(tile), -1)
        best = after.argmin(1)
        left = np.take_along_axis(after, best[:, None], 1)[:, 0]
        better = left < beyond[tile, one] + beyond[tile, other]
        tile, one, other, best = tile[better], one[better], other[better], best[better]
        here, there = (tile, one, best // parts), (tile, other, best % parts)
        chosen[here], chosen[there] = chosen[there], chosen[here]
        for step in (one, other):
            beyond[tile, step] = _beyond(
                sizes[tile[:, None], chosen[tile, step]].sum(1, dtype=np.int16), most
            )
    return chosen, beyond == 0


def fitting_first(chosen: Array, fits: Array) -> Array:
    """The same steps, those that fit before the others."""
    order = np.argsort(~fits, axis=1, kind="stable")
    return np.take_along_axis(chosen, order[:, :, None], 1)


def _beyond(totals: Array, most: int) -> Array:
    """By how much all lanes (the last axis) are beyond ``most``."""
    found: Array = np.maximum(totals - most, 0).sum(-1, dtype=np.int32)
    return found
