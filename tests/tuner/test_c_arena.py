"""The arena of a C library: nothing that lives together shares, and little is wasted."""

import random

import pytest

from tuner.backend.arena import Block, bound, place

U_SHAPED = """
7500:0-2 7504:1-3 60000:2-4 7504:3-4 60000:4-5 60000:5-7 60064:6-7 60000:7-9 60128:8-9 60000:9-11
60256:10-11 60000:11-13 60512:12-13 60000:13-15 61024:14-15 60000:15-17 62048:16-17 60000:17-19
64096:18-19 60000:19-21 68192:20-21 60000:21-23 76384:22-23 60000:23-25 92768:24-25 60000:25-27
125536:26-28 30000:27-28 30000:28-38 30000:29-30 4782:30-31 4782:31-32 957:32-33 957:33-34 192:34-35
192:35-36 96:36-37 96:37-48 30000:38-39 4782:39-40 4782:40-61 4782:41-42 957:42-43 957:43-58 957:44-45
192:45-54 192:46-47 96:47-51 96:48-49 96:49-50 96:51-52 192:52-53 192:53-54 192:54-55 957:55-56
957:56-57 957:57-58 957:58-59 4782:59-60 4782:60-61 4782:61-62 30000:62-63 30000:63-64 30000:64-65
5056:4-4 3944:7-7 3392:9-9 6768:11-11 4560:13-13 4560:15-15 6122:17-17 6122:19-19 3362:21-21 4994:23-23
5100:25-25 2504:28-28
"""
"""Lines of 64 bytes, first and last call of each block of a network whose first tensors wait for its last."""


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


def test_no_byte_is_wasted_on_a_network_that_is_hard_to_plan():
    """By the first orders alone it takes a twentieth more than what is in use at once."""
    blocks = []
    for word in U_SHAPED.split():
        lines, _, life = word.partition(":")
        first, last = map(int, life.split("-"))
        blocks.append(Block(64 * int(lines), first, last))
    ends = [at + block.bytes for at, block in zip(place(blocks), blocks, strict=True)]
    assert max(ends) == bound(blocks)
