"""In which order a list goes through memory, so that no prefetcher and no page table matters much."""

from __future__ import annotations

from typing import Any

from worker.calibrate.kernel import WORD

SPACING_BYTES = 256
"""From one element to the next: of another line, and not of the one that is fetched beside it."""
_PAGE_BYTES = 4096
_BLOCK_BYTES = 32 * _PAGE_BYTES
"""Pages whose addresses any core keeps; a list goes through these before it goes elsewhere."""
_CELL_BYTES = 512


def scattered(size: int) -> Any:
    """The numbers of the elements of a list through ``size`` bytes, from the lowest one back to that."""
    import numpy as np

    random = np.random.default_rng(0)
    places = np.arange(0, size, SPACING_BYTES, dtype=np.int32) // WORD
    each = _BLOCK_BYTES // SPACING_BYTES
    blocks = [random.permutation(places[start : start + each]) for start in range(0, len(places), each)]
    return _closed(np.concatenate([blocks[number] for number in random.permutation(len(blocks))]))


def by_page(size: int) -> Any:
    """The same, where the first element of each page comes first, the lowest page before the others.

    A clock that numbers pages as they are touched then gives neighbours to neighbours.
    """
    import numpy as np

    places = np.arange(0, size, SPACING_BYTES, dtype=np.int32)
    first = places % _PAGE_BYTES == 0
    rest = np.random.default_rng(0).permutation(places[~first])
    return _closed(np.concatenate([places[first], rest]) // WORD)


def _closed(order: Any) -> Any:
    """From its lowest element back to that."""
    import numpy as np

    order = np.roll(order, -int(order.argmin()))
    return np.append(order, order[0])


def paired(size: int, line_bytes: int) -> Any:
    """The same through pairs of elements. Both lie in one line where lines have ``line_bytes`` or more."""
    import numpy as np

    cells = np.random.default_rng(0).permutation(np.arange(0, size, _CELL_BYTES, dtype=np.int32))
    second, first = cells + SPACING_BYTES - line_bytes, cells + SPACING_BYTES - WORD
    return _closed(np.stack([first, second], axis=1).reshape(-1) // WORD)
