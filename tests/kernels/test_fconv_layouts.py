"""The filter-vectorised convolution in every layout, and its split over threads."""

import dataclasses
import random

import pytest
from guarded import error_of
from on_targets import AVX512, assembly_of
from test_sconv import AVX2, EPILOGUES, NARROW, ODD_SHAPES, WIDE

from kernels.float.fconv.kernel import FilterConv
from kernels.float.fconv.lanes import LanesConv
from kernels.layout import PLAIN, Layouts
from kernels.space import Config
from kernels.workload.base import Conv2d

KERNEL = FilterConv()
ALL = EPILOGUES[4]
EVERY_PAIR = [Layouts(data, out) for data in ("nchw", "nhwc", "nchw8c") for out in ("nchw", "nhwc", "nchw8c")]
# Channels in multiples of 8, so that blocks are possible; nothing else divides.
BLOCKABLE = [
    Conv2d(1, 8, 1, 1, 8, 1, 1),
    Conv2d(1, 40, 7, 7, 24, 1, 1, epilogue=ALL),
    Conv2d(2, 24, 13, 11, 40, 1, 1, stride=(2, 2), epilogue=ALL),
    Conv2d(2, 16, 9, 10, 24, 3, 3, stride=(1, 2), pad=(1, 0, 1, 1), epilogue=ALL),
    Conv2d(1, 24, 12, 11, 8, 3, 2, pad=(2, 0, 0, 3), dilation=(2, 3)),
    Conv2d(1, 8, 3, 2, 16, 5, 5, pad=(2, 2, 2, 2), epilogue=ALL),
    Conv2d(1, 16, 10, 9, 16, 1, 1, stride=(2, 3), pad=(1, 0, 2, 3)),
]


def point(layouts, **knobs):
    chosen = {"block": "6x2", "order": "is", "channels": 16, "windows": 24} | knobs
    return Config.of("fconv", layouts, **chosen)


def test_pixels_whose_lines_share_a_place_in_the_first_cache_are_few():
    """1024 channels lie whole pages apart, and 32 KB hold eight such lines; of 960 they hold many."""
    target = dataclasses.replace(AVX512, l1_bytes=32 << 10)
    for channels, many in ((960, True), (1024, False)):
        recommended = KERNEL.recommend(Conv2d(1, channels, 7, 7, 512, 1, 1), target, Layouts("nhwc", "nhwc"))
        assert (int(str(recommended["block"]).partition("x")[0]) > 9) == many, recommended


@pytest.mark.parametrize("layouts", EVERY_PAIR[1:], ids=str)
@pytest.mark.parametrize("conv", BLOCKABLE, ids=str)
def test_every_pair_of_layouts_is_right(conv, layouts):
    """The recommended config and a drawn one take turns."""
    assert layouts in KERNEL.layouts(conv, AVX2)
    if (BLOCKABLE.index(conv) + EVERY_PAIR.index(layouts)) % 2:
        config = KERNEL.recommend(conv, AVX2, layouts)
    else:
        config = KERNEL.space(conv, AVX2, layouts).sample(random.Random(f"{conv.key}{layouts}"))
    assert error_of(KERNEL, conv, config, AVX2) < KERNEL.tolerance, config


@pytest.mark.parametrize("conv", ODD_SHAPES, ids=str)
def test_odd_channels_in_nhwc(conv):
    """Vectors of filters that are partly empty, one channel, windows of the odd shapes."""
    rng = random.Random(conv.key)
    finished = dataclasses.replace(conv, epilogue=rng.choice(EPILOGUES[1:]))
    layouts = rng.choice([pair for pair in KERNEL.layouts(conv, AVX2) if "nhwc" in pair])
    config = KERNEL.space(finished, AVX2, layouts).sample(rng)
    assert error_of(KERNEL, finished, config, AVX2) < KERNEL.tolerance, config


@pytest.mark.parametrize("conv", BLOCKABLE, ids=str)
def test_elements_as_lanes(conv):
    """What 64-bit Arm is offered computes on any vectors; here on those of this machine."""
    kernel, rng = LanesConv(), random.Random(conv.key)
    assert kernel.why_not(conv, AVX2) == "only 64-bit Arm multiplies by a lane"
    for layouts in kernel.layouts(conv, AVX2):
        knobs = {"block": rng.choice(["5x2", "6x1"]), "channels": rng.choice([8, conv.in_c])}
        config = dataclasses.replace(point(layouts, **knobs), kernel=kernel.name)
        target = rng.choice([AVX2, dataclasses.replace(AVX2, l2_bytes=4096)])  # the latter prefetches
        assert error_of(kernel, conv, config, target) < kernel.tolerance, config


@pytest.mark.parametrize("layouts", EVERY_PAIR, ids=str)
def test_sums_wait_for_more_channels_in_the_output(layouts):
    """Channel sets of 16, 16 and 8, an odd last block of windows, a narrower last tile of filters."""
    order = ["is", "ws"][EVERY_PAIR.index(layouts) % 2]
    conv = Conv2d(2, 40, 9, 7, 24, 3, 3, stride=(1, 2), pad=(1, 0, 1, 1), epilogue=ALL)
    config = point(layouts, order=order)
    assert error_of(KERNEL, conv, config, AVX2) < KERNEL.tolerance


@pytest.mark.parametrize("layouts", EVERY_PAIR, ids=str)
def test_what_is_prefetched_may_lie_beyond_the_buffers(layouts):
    """With an L2 that holds nothing: windows, output and residual are all prefetched, past their ends too."""
    conv = BLOCKABLE[1 + EVERY_PAIR.index(layouts) % 2]
    tiny = dataclasses.replace(AVX2, l2_bytes=4096)
    config = KERNEL.recommend(conv, tiny, layouts)
    text = assembly_of(KERNEL, conv, config, tiny)
    assert "prefetch" in text
    assert error_of(KERNEL, conv, config, tiny) < KERNEL.tolerance


@pytest.mark.parametrize("out_c", [3, 19, 53])
def test_partly_empty_vectors_wait_too(out_c):
    conv = Conv2d(1, 37, 9, 7, out_c, 1, 1, epilogue=ALL)
    assert error_of(KERNEL, conv, point(Layouts("nhwc", "nhwc")), AVX2) < KERNEL.tolerance


SHARED = [PLAIN, EVERY_PAIR[4], EVERY_PAIR[8], EVERY_PAIR[2]]


@pytest.mark.parametrize("split", ["filters", "windows"])
@pytest.mark.parametrize("layouts", SHARED, ids=str)
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_share_out_what_does_not_divide(split, layouts, threads):
    """Fewer blocks or tiles than threads, and more; narrower last tiles; odd last blocks."""
    few = (SHARED.index(layouts) + threads // 2 + (split == "windows")) % 2
    out_c, side = (24, 3) if few else (56, 9)
    conv = Conv2d(2, 24, side, side, out_c, 3, 3, pad=(1, 1, 1, 1), epilogue=ALL)
    config = point(layouts, split=split)
    if layouts == PLAIN:
        config = Config.of("fconv", block="6x2", order="ws", channels=16, windows=24, split=split)
    assert error_of(KERNEL, conv, config, AVX2, threads) < KERNEL.tolerance


@pytest.mark.parametrize("threads", [2, 4])
def test_the_split_is_a_knob_only_where_there_are_threads(threads):
    conv = BLOCKABLE[1]
    assert "split" not in KERNEL.space(conv, AVX2).knobs
    for layouts in KERNEL.layouts(conv, AVX2):
        space = KERNEL.space(conv, AVX2, layouts, threads)
        assert space.knobs["split"] == ["filters", "windows"]
        assert space.why_not(KERNEL.recommend(conv, AVX2, layouts, threads)) is None


@pytest.mark.parametrize(("target", "first"), [(WIDE, 0), (NARROW, 1)], ids=["wide", "narrow"])
@pytest.mark.parametrize("conv", [BLOCKABLE[2], BLOCKABLE[3]], ids=str)
def test_other_vector_widths_compute_the_same(target, first, conv):
    """Every pair of layouts at either width, with one of the two convolutions."""
    wide = dataclasses.replace(conv, in_c=32, out_c=48)
    first ^= conv is BLOCKABLE[3]
    for layouts in sorted(KERNEL.layouts(wide, target), key=str)[first::2]:
        config = KERNEL.recommend(wide, target, layouts)
        assert error_of(KERNEL, wide, config, target) < KERNEL.tolerance, config


def test_channels_that_no_block_divides_have_no_blocked_layout():
    conv = Conv2d(1, 12, 5, 5, 16, 1, 1)
    assert {str(pair) for pair in KERNEL.layouts(conv, AVX2)} == {
        "nchw", "nchw>nhwc", "nchw>nchw8c", "nhwc>nchw", "nhwc", "nhwc>nchw8c",
    }  # fmt: skip
    with pytest.raises(ValueError, match="nchw8c needs channels in multiples of 8, got 12"):
        KERNEL.build(conv, point(Layouts("nchw8c", "nhwc")), AVX2, 1, "main")
