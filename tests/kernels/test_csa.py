import dataclasses

import pytest
from on_targets import AVX2

from kernels.float.sconv.csa import INPUT_STATIONARY, WEIGHT_STATIONARY, Slicing, analyse, slice_for
from kernels.workload.base import Conv2d

SMALL = dataclasses.replace(AVX2, l1_bytes=8192, l2_bytes=16384, l3_bytes=65536)
POINTWISE = Conv2d(1, 64, 16, 16, 64, 1, 1)
RESNET = Conv2d(1, 64, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1))


def test_sizes_and_counts_of_tiles():
    """Equations 1 and 3: 24 windows and 4 filters of 16 channels of a 3x3 filter."""
    slicing = Slicing(RESNET, AVX2, 4, 24, INPUT_STATIONARY, 16, 1, 1)
    assert (slicing.in_tile, slicing.fs_tile, slicing.out_tile) == (13824, 2304, 384)
    assert (slicing.in_tiles, slicing.fs_tiles) == (131, 16)  # 3136 / 24 = 130.7


def test_channels_are_halved_until_equation_2_holds():
    """864 n_c + 144 n_c + 384 <= 29491.2 holds up to 28 channels: 64, 32, 16."""
    assert slice_for(RESNET, 4, 24, INPUT_STATIONARY, AVX2).n_c == 16
    assert not Slicing(RESNET, AVX2, 4, 24, INPUT_STATIONARY, 29, 1, 1).fits_l1
    assert Slicing(RESNET, AVX2, 4, 24, INPUT_STATIONARY, 28, 1, 1).fits_l1


def test_resnet_layer_worked_by_hand():
    """All filters fit L2 beside one IN tile, and all IN tiles fit L3: no reloads, no L3 loads."""
    slicing = slice_for(RESNET, 4, 24, INPUT_STATIONARY, AVX2)
    assert (slicing.k2, slicing.k3) == (16, 131)
    assert slicing.dram_lines == 4 * (131 * 13824 + 16 * 2304) // 64 == 115488
    assert slicing.l3_lines == 0
    assert slicing.l2_lines == 4 * 130 * 16 * 2304 // 64 == 299520
    assert slicing.cycles == 200 * 115488 + 14 * 299520 == 27290880


def test_the_other_order_worked_by_hand():
    """Roles swapped: 2304 + k2 * 14208 <= 471859 gives 131, 65, 32 IN tiles in L2, so five sets of them."""
    slicing = slice_for(RESNET, 4, 24, WEIGHT_STATIONARY, AVX2)
    assert (slicing.n_c, slicing.k2, slicing.k3) == (16, 32, 16)
    assert slicing.dram_lines == 115488
    assert slicing.l3_lines == 4 * (5 - 1) * 16 * 2304 // 64 == 9216
    assert slicing.l2_lines == 4 * (16 - 1) * 131 * 13824 // 64 == 1697760
    assert analyse(RESNET, 4, 24, AVX2).order == INPUT_STATIONARY


def test_small_caches_worked_by_hand():
    """Tiles of 4096, 2048 and 512 bytes.

    Equation 4: 4096 + k2 * 2560 <= 14745 gives 8, 4. Equation 5: 8192 + k3 * 6144 <= 58982 gives 16, 8. So
    there are two sets of each, the filters come from memory twice and the windows from L3 once more.
    """
    slicing = slice_for(POINTWISE, 8, 16, INPUT_STATIONARY, SMALL)
    assert (slicing.n_c, slicing.k2, slicing.k3) == (64, 4, 8)
    assert slicing.dram_lines == (16 * 4096 + 8 * 2048) // 64 + 8 * 2048 // 64 == 1536
    assert slicing.l3_lines == 16 * 4096 // 64 == 1024
    assert slicing.l2_lines == 15 * 8 * 2048 // 64 == 3840
    assert slicing.cycles == 200 * 1536 + 45 * 1024 + 14 * 3840 == 407040


def test_small_caches_weight_stationary_worked_by_hand():
    """2048 + k2 * 4608 <= 14745 gives 16, 8, 4, 2; 8192 + k3 * 3072 <= 58982 lets all 8 filter tiles stay."""
    slicing = slice_for(POINTWISE, 8, 16, WEIGHT_STATIONARY, SMALL)
    assert (slicing.n_c, slicing.k2, slicing.k3) == (64, 2, 8)
    assert (slicing.dram_lines, slicing.l3_lines, slicing.l2_lines) == (1280, 1792, 7168)
    assert slicing.cycles == 436992
    assert analyse(POINTWISE, 8, 16, SMALL).order == INPUT_STATIONARY


def test_the_cheaper_order_is_chosen():
    """One window tile: keeping each filter tile in turn loads nothing twice."""
    conv = Conv2d(1, 64, 4, 4, 512, 1, 1)
    assert analyse(conv, 8, 16, AVX2).order == INPUT_STATIONARY
    many_windows = Conv2d(1, 64, 64, 64, 8, 1, 1)
    assert analyse(many_windows, 8, 16, AVX2).order == WEIGHT_STATIONARY


def test_without_a_third_cache_its_share_is_that_of_the_second():
    no_l3 = dataclasses.replace(SMALL, l3_bytes=0)
    slicing = slice_for(POINTWISE, 8, 16, INPUT_STATIONARY, no_l3)
    assert slicing.k3 == 1  # 8192 + k3 * 6144 <= 14745
    assert slicing.fits_l3
    assert slicing.cycles == 200 * (slicing.dram_lines + slicing.l3_lines) + 14 * slicing.l2_lines


def test_a_filter_too_big_for_any_cache_still_gets_tiles_of_one():
    huge = Conv2d(1, 8, 64, 64, 8, 61, 61)
    slicing = slice_for(huge, 8, 16, INPUT_STATIONARY, SMALL)
    assert (slicing.n_c, slicing.k2, slicing.k3) == (1, 1, 1)
    assert not slicing.fits_l1


@pytest.mark.parametrize("order", [INPUT_STATIONARY, WEIGHT_STATIONARY])
@pytest.mark.parametrize(
    "conv", [RESNET, POINTWISE, Conv2d(1, 3, 224, 224, 64, 7, 7, stride=(2, 2))], ids=str
)
def test_constraints_hold_and_twice_as_much_breaks_one(conv, order):
    slicing = slice_for(conv, 4, 24, order, AVX2)
    assert slicing.fits_l1
    assert slicing.fits_l2
    assert slicing.fits_l3
    if slicing.n_c < conv.in_c:
        assert not dataclasses.replace(slicing, n_c=slicing.n_c * 2).fits_l1


def test_windows_read_in_place_take_up_whole_lines():
    """16 windows of a channel are 64 bytes, and as many again where they begin inside a line of 64."""
    packed, in_place = (
        slice_for(POINTWISE, 4, 16, INPUT_STATIONARY, SMALL, packed=packed) for packed in (True, False)
    )
    assert (packed.n_c, in_place.n_c) == (64, 32)  # 7372.8 bytes of L1: 4096 + 1280 fit, 8192 + 1280 do not
    assert in_place.in_tile == 32 * (64 + 64)
    too_deep = dataclasses.replace(in_place, n_c=64)
    assert (packed.l1_overflow_lines, in_place.l1_overflow_lines) == (0, 0)
    assert too_deep.l1_overflow_lines == 15 * 16 * 8192 // 64  # 16 tiles of each kind


def test_moving_tiles_in_place_are_no_more_than_the_planes():
    """Each of the 16 tiles takes up whole lines, which its neighbour shares."""
    conv = Conv2d(1, 64, 16, 16, 64, 1, 1)
    in_place = Slicing(conv, AVX2, 8, 16, WEIGHT_STATIONARY, 64, 16, 1, packed=False)
    assert in_place.moving_bytes == 64 * 256 * 4 < 16 * in_place.in_tile
    assert dataclasses.replace(in_place, packed=True).moving_bytes == 16 * 4096
    assert dataclasses.replace(in_place, k2=2).moving_bytes == 2 * in_place.in_tile
    assert dataclasses.replace(in_place, order=INPUT_STATIONARY).moving_bytes == 16 * 2048
