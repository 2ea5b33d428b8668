"""The arena of a C library: nothing that lives together shares, and little is wasted."""

import random

import pytest

from tuner.backend.arena import Block, bound, place


@pytest.mark.parametrize("seed", range(5))
def test_blocks_that_live_together_do_not_overlap(seed):
    draw = random.Random(seed)
    starts = [draw.randrange(60) for _ in range(80)]
    blocks = [Block(64 * draw.randint(1, 200), start, start + draw.randrange(6)) for start in starts]
    offsets = place(blocks)
    for i, (one, at) in enumerate(zip(blocks, offsets, strict=True)):
        for other, there in zip(blocks[:i], offsets, strict=False):
            if one.meets(other):
                assert at + one.bytes <= there or there + other.bytes <= at
    end = max(offset + block.bytes for offset, block in zip(offsets, blocks, strict=True))
    assert bound(blocks) <= end <= 1.05 * bound(blocks)


def test_there_may_be_nothing_to_place():
    assert place([]) == []
    assert bound([]) == 0
