import dataclasses
import random
import re

import numpy as np
import pytest
from guarded import error_of
from on_targets import AVX2, AVX512, assembly_of

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.float.sconv import csa
from kernels.float.sconv.kernel import SConv
from kernels.float.sconv.micro import VectorProducts
from kernels.space import Config
from kernels.target import CATALOGUE, Target
from kernels.workload.base import RELU, Conv2d, Epilogue, Gemm

KERNEL = SConv()
# Wider and narrower vectors than the host's: LLVM splits or halves them, so the generated loops still run.
WIDE = dataclasses.replace(AVX2, name="wide", vector_bits=512, vector_registers=32)
NARROW = dataclasses.replace(AVX2, name="narrow", vector_bits=128)
NEON = Target("neon", "aarch64-linux-gnu", "cortex-a72", ("+neon",), 128, 32)
VSX = Target("vsx", "powerpc64le-linux-gnu", "pwr10", (), 128, 64)

ODD_SHAPES = [
    Conv2d(1, 1, 1, 1, 1, 1, 1),
    Conv2d(1, 16, 1, 1, 16, 3, 3, pad=(1, 1, 1, 1)),
    Conv2d(1, 3, 5, 5, 7, 3, 3, pad=(1, 1, 1, 1)),  # fewer windows than one tile
    Conv2d(1, 5, 13, 13, 9, 3, 3, pad=(1, 1, 1, 1)),
    Conv2d(1, 16, 27, 27, 5, 1, 1),  # pointwise, windows no vector divides
    Conv2d(1, 16, 8, 16, 6, 3, 3, pad=(1, 1, 1, 1)),  # rows of whole vectors
    Conv2d(1, 16, 10, 18, 6, 3, 3),  # the same without padding: read in place
    Conv2d(1, 4, 15, 14, 6, 3, 3, stride=(2, 2), pad=(1, 1, 1, 1)),
    Conv2d(1, 4, 17, 19, 6, 3, 5, stride=(3, 3), pad=(2, 0, 1, 3)),
    Conv2d(1, 8, 14, 14, 12, 1, 1, stride=(2, 2)),
    Conv2d(1, 3, 20, 20, 8, 7, 7, stride=(2, 2), pad=(3, 3, 3, 3)),
    Conv2d(1, 4, 12, 11, 5, 3, 3, pad=(2, 2, 2, 2), dilation=(2, 2)),
    Conv2d(1, 4, 12, 20, 5, 2, 3, stride=(1, 2), dilation=(3, 3)),
    Conv2d(1, 4, 9, 9, 5, 3, 3, pad=(0, 0, 0, 2)),  # padding on one side only
    Conv2d(1, 4, 9, 9, 5, 3, 3, pad=(2, 0, 0, 0)),
    Conv2d(1, 2, 3, 2, 3, 5, 5, pad=(2, 2, 2, 2)),  # a filter larger than its input
    Conv2d(1, 6, 17, 17, 10, 7, 1, pad=(3, 0, 3, 0)),
    Conv2d(1, 6, 17, 17, 10, 1, 7, pad=(0, 3, 0, 3)),
    Conv2d(1, 6, 40, 3, 10, 3, 3, stride=(2, 1), pad=(1, 1, 1, 1)),
]
EPILOGUES = [
    Epilogue(),
    Epilogue(bias=True),
    Epilogue(residual=True),
    Epilogue(clamp=RELU),
    Epilogue(bias=True, residual=True, clamp=(-0.5, 1.5)),
    Epilogue(clamp=(None, 0.25)),
]


def config(block="4x3", order="is", channels=3, k2=1, k3=1, pack=1, **split) -> Config:
    sizes = {"channels": channels, "k2_halvings": k2, "k3_halvings": k3}
    return Config.of("sconv", block=block, order=order, **sizes, pack=pack, **split)


@pytest.mark.parametrize("conv", ODD_SHAPES, ids=str)
def test_odd_shapes_are_right_and_stay_inside_their_buffers(conv):
    """Every shape with the analysis's config, and with a random point of its space and an epilogue."""
    rng = random.Random(conv.key)
    assert error_of(KERNEL, conv, KERNEL.recommend(conv, AVX2), AVX2) < KERNEL.tolerance
    finished = dataclasses.replace(conv, epilogue=rng.choice(EPILOGUES[1:]))
    point = KERNEL.space(finished, AVX2).sample(rng)
    assert error_of(KERNEL, finished, point, AVX2) < KERNEL.tolerance, (finished, point)


@pytest.mark.parametrize("order", ["is", "ws"])
@pytest.mark.parametrize("pack", [0, 1])
@pytest.mark.parametrize(("k2", "k3"), [(0, 0), (1, 2), (2, 1)])
def test_every_loop_order_with_several_sets_of_everything(order, pack, k2, k3):
    """Channel sets of 3, 3 and 1; sets of tiles that do not divide; an odd last tile of both kinds."""
    conv = Conv2d(2, 7, 18, 18, 27, 3, 3, epilogue=EPILOGUES[4])
    assert error_of(KERNEL, conv, config(order=order, pack=pack, k2=k2, k3=k3), AVX2) < KERNEL.tolerance


def test_packing_by_shifts_is_right_where_a_row_of_taps_fits_two_vectors():
    """Odd shapes whose windows overlap, with edges; the others are refused."""
    shifted = [
        Conv2d(1, 7, 18, 18, 27, 3, 3, epilogue=EPILOGUES[4]),
        Conv2d(1, 4, 12, 11, 5, 3, 3, pad=(2, 2, 2, 2), dilation=(2, 2)),
        Conv2d(1, 16, 10, 18, 6, 3, 3),
        Conv2d(1, 6, 40, 3, 10, 3, 3, stride=(2, 1), pad=(1, 1, 1, 1)),
        Conv2d(1, 3, 5, 5, 7, 3, 3, pad=(1, 1, 1, 1)),
        Conv2d(2, 6, 9, 17, 10, 1, 9, pad=(0, 3, 0, 3)),
    ]
    for conv in shifted:
        for channels, order in ((conv.in_c, "is"), (2, "ws")):
            point = config(order=order, pack=2, channels=channels, k2=0, k3=0)
            assert KERNEL.space(conv, AVX2).knobs["pack"] == [1, 0, 2]
            assert error_of(KERNEL, conv, point, AVX2) < KERNEL.tolerance, (conv, point)
    for conv in (Conv2d(1, 4, 15, 14, 6, 3, 3, stride=(2, 2)), Conv2d(1, 6, 17, 17, 10, 7, 1), ODD_SHAPES[0]):
        assert KERNEL.space(conv, AVX2).knobs["pack"] == [1, 0]
        assert KERNEL.plan(conv, config(pack=2, channels=1, k2=0, k3=0), AVX2).why_not()


def test_shifts_load_two_vectors_where_there_were_three():
    conv = Conv2d(1, 8, 34, 66, 12, 3, 3)
    loads = [assembly_of(KERNEL, conv, config(pack=pack, channels=8, k2=0, k3=0), VSX) for pack in (1, 2)]
    assert len(re.findall(r"\bxxsldwi\b", loads[1])) > len(re.findall(r"\bxxsldwi\b", loads[0]))


def test_channels_that_are_no_halving_fit_beside_the_tiles():
    conv = Conv2d(1, 256, 28, 28, 64, 3, 3)
    slicing = csa.slice_for(conv, 6, 16, "is", AVX2)
    most = csa.most_channels(slicing)
    assert slicing.n_c <= most < conv.in_c
    assert dataclasses.replace(slicing, n_c=most).fits_l1
    assert not dataclasses.replace(slicing, n_c=most + 4).fits_l1
    assert most & (most - 1)
    assert most in KERNEL.knobs(conv, AVX2, None, 1)["channels"]


class Waiting(SConv):
    """SConv as for a matrix unit, whose products do not hide loads, but in vectors: it runs here."""

    class products(VectorProducts):
        hides_loads = False


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("windows", [(9, 23), (1, 3), (8, 16), (13, 13)], ids=str)
def test_pointwise_windows_packed_ahead_of_odd_ends(windows, threads):
    """Sets of one to all tiles in both orders, a narrower last tile, three sets of channels, two images."""
    kernel, conv = Waiting(), Conv2d(2, 7, *windows, 13, 1, 1, epilogue=EPILOGUES[4])
    assert kernel.recommend(conv, AVX2, threads=threads) in kernel.space(conv, AVX2, threads=threads)
    for order in ("is", "ws"):
        for k2, k3 in ((0, 0), (1, 0), (0, 1), (1, 1)):
            split = {"split": "both"} if threads > 1 else {}
            point = config(order=order, k2=k2, k3=k3, **split)
            if kernel.plan(conv, point, AVX2, threads).why_not() is None:
                assert error_of(kernel, conv, point, AVX2, threads) < kernel.tolerance, point


def test_few_windows_at_a_time_where_products_wait_for_results():
    """Where sums get 64 products, results cost most: windows stay in L1 then, and each filter tile is loaded
    once for several of them. Of many products the analysis's order is kept."""
    shallow, deep = Conv2d(1, 64, 56, 56, 256, 1, 1), Conv2d(1, 1024, 14, 14, 256, 1, 1)
    kernel, target = registry.kernel("sconv_mma"), CATALOGUE["power10"]
    plans = [kernel.plan(conv, kernel.recommend(conv, target), target) for conv in (shallow, deep)]
    assert [plan.knobs.order for plan in plans] == ["ws", "is"]
    assert plans[0].slicing.near
    assert 1 < plans[0].k2 < plans[0].window_tiles


@pytest.mark.parametrize(
    ("order", "split"), [("is", "windows"), ("ws", "filters"), ("is", "both"), ("ws", "both")]
)
@pytest.mark.parametrize(("threads", "pack", "k2"), [(2, 1, 1), (3, 0, 0), (3, 1, 2), (4, 0, 1), (4, 1, 0)])
def test_every_split_with_tiles_that_do_not_go_round(order, split, threads, pack, k2):
    """10 + 1 tiles of windows, the last one narrower, and 6 + 1 of filters, with three sets of channels."""
    conv = Conv2d(2, 7, 18, 18, 27, 3, 3, epilogue=EPILOGUES[4])
    point = config(order=order, pack=pack, k2=k2, split=split)
    assert error_of(KERNEL, conv, point, AVX2, threads) < KERNEL.tolerance


@pytest.mark.parametrize("conv", [ODD_SHAPES[0], ODD_SHAPES[1], ODD_SHAPES[2], ODD_SHAPES[4]], ids=str)
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_fewer_tiles_than_threads(conv, threads):
    space = KERNEL.space(conv, AVX2, threads=threads)
    picks = [KERNEL.recommend(conv, AVX2, threads=threads), space.sample(random.Random(conv.key))]
    assert [space.why_not(point) for point in picks] == [None, None]
    point = picks[threads % 2]
    assert error_of(KERNEL, conv, point, AVX2, threads) < KERNEL.tolerance, point


def test_threads_share_out_what_goes_round_evenly():
    """Many windows, many filters, and 3 tiles of windows by 128 of filters; nobody waits for edge tiles."""

    def split(conv):
        return KERNEL.recommend(conv, AVX2, threads=4)["split"]

    assert split(Conv2d(1, 64, 56, 56, 64, 3, 3, pad=(1, 1, 1, 1))) == "windows"
    assert split(Conv2d(1, 512, 7, 7, 512, 3, 3, pad=(1, 1, 1, 1))) == "filters"
    one, four = (
        KERNEL.predict(conv, KERNEL.recommend(conv, AVX2, threads=threads), AVX2, threads)
        for conv in [Conv2d(1, 256, 13, 13, 256, 3, 3, pad=(1, 1, 1, 1))]
        for threads in (1, 4)
    )
    assert one / four > 3


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
@pytest.mark.parametrize("channels", [4, 2])
def test_epilogues_with_one_and_with_two_channel_sets(epilogue, channels):
    conv = Conv2d(2, 4, 11, 11, 6, 3, 3, pad=(1, 1, 1, 1), epilogue=epilogue)
    assert error_of(KERNEL, conv, config(channels=channels), AVX2) < KERNEL.tolerance


@pytest.mark.parametrize("target", [WIDE, NARROW], ids=lambda target: target.name)
@pytest.mark.parametrize(
    "conv", [ODD_SHAPES[3], ODD_SHAPES[4], ODD_SHAPES[7], ODD_SHAPES[5], ODD_SHAPES[1]], ids=str
)
def test_other_vector_widths_compute_the_same(target, conv):
    point = KERNEL.space(conv, target).sample(random.Random(f"{conv.key}{target.name}"))
    assert error_of(KERNEL, conv, point, target) < KERNEL.tolerance, point


def assembly(target, block, pack=1):
    conv = Conv2d(1, 32, 28, 28, 64, 3, 3, pad=(1, 1, 1, 1), epilogue=Epilogue(bias=True, clamp=RELU))
    return assembly_of(KERNEL, conv, config(block=block, channels=32, pack=pack), target)


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        (AVX2, r"vfmadd\w+ps.*%ymm"),
        (AVX512, r"vfmadd\w+ps.*%zmm"),
        (NEON, r"fmla\s+v\d+\.4s"),
        (VSX, r"xvmadd\w+sp"),
    ],
    ids=lambda part: getattr(part, "name", ""),
)
def test_one_source_makes_each_targets_vector_multiply_adds(target, instruction):
    filters, vectors = KERNEL.blocks(target)[0]
    text = assembly(target, f"{filters}x{vectors}")
    assert len([line for line in text.splitlines() if re.search(instruction, line)]) >= filters * vectors


@pytest.mark.parametrize("conv", ODD_SHAPES, ids=str)
def test_the_papers_block_for_avx512_on_odd_shapes(conv):
    """24 filters x 16 windows, which no other target has: packed in one order, and if not in the other."""
    assert [block for block in map(KERNEL.blocks, CATALOGUE.values()) if (24, 1) in block] == [
        KERNEL.blocks(AVX512)
    ]
    points = [point for point in KERNEL.space(conv, WIDE) if point["block"] == "24x1"]
    for pack in {point.int("pack") for point in points}:
        order = ("is", "ws")[(ODD_SHAPES.index(conv) + pack) % 2]
        mine = [point for point in points if (point["order"], point["pack"]) == (order, pack)]
        point = random.Random(conv.key).choice(mine)
        assert error_of(KERNEL, conv, point, WIDE) < KERNEL.tolerance, point


@pytest.mark.parametrize(("target", "block", "sums"), [(AVX2, "4x3", 12), (AVX512, "24x1", 24)])
def test_accumulators_stay_in_registers(target, block, sums):
    """The inner loop of a full block: a multiply-add each, and no vector store (a spill)."""
    lines = assembly(target, block).splitlines()
    labels = {line[:-1]: number for number, line in enumerate(lines) if line.startswith(".LBB")}
    jumps = [
        (labels.get(line.split()[-1], number), number) for number, line in enumerate(lines) if "\tj" in line
    ]
    loops = [lines[start:end] for start, end in jumps if start < end]
    inner = [body for body in loops if not any(line.startswith(".LBB") for line in body[1:])]
    full = [body for body in inner if sum("vfmadd" in line for line in body) == sums]
    assert full
    assert not [line for body in full for line in body if re.search(r"vmov\w+\s+%[yz]mm\d+, .*\(", line)]


@pytest.mark.parametrize("order", ["is", "ws"])
def test_what_hardware_does_not_is_prefetched_where_it_is_not_near(order):
    def prefetches(conv, pack=0):
        point = config(order=order, channels=32, k2=0, k3=0, pack=pack)
        assert error_of(KERNEL, conv, point, AVX2) < KERNEL.tolerance
        text = assembly_of(KERNEL, conv, point, AVX2)
        return "prefetcht0" in text

    assert prefetches(Conv2d(1, 32, 20, 20, 9, 1, 1))  # 51 KB
    assert not prefetches(Conv2d(1, 32, 8, 8, 9, 1, 1))
    assert not prefetches(Conv2d(1, 32, 18, 26, 9, 3, 3))
    assert prefetches(Conv2d(1, 32, 33, 33, 140, 3, 3), pack=1)  # results of 538 KB


@pytest.mark.parametrize("target", [AVX2, AVX512, NEON, VSX], ids=lambda target: target.name)
@pytest.mark.parametrize("conv", ODD_SHAPES, ids=str)
def test_the_recommendation_is_the_analysiss_slicing_and_in_the_space(conv, target):
    space, pick = KERNEL.space(conv, target), KERNEL.recommend(conv, target)
    assert space.why_not(pick) is None
    filters, vectors = (int(part) for part in str(pick["block"]).split("x"))
    slicing = csa.analyse(conv, filters, vectors * target.lanes(), target, pick["pack"] == 1)
    assert (pick["order"], pick["channels"]) == (slicing.order, slicing.n_c)
    assert filters * vectors + vectors + 1 <= target.vector_registers


def test_filters_are_packed_in_the_order_they_are_read():
    """Two channel sets, two filter tiles of two, the second half empty; weight = 100 k + 10 c + tap."""
    conv = Conv2d(1, 3, 4, 4, 3, 1, 2)
    k, c, s = np.meshgrid(range(3), range(3), range(2), indexing="ij")
    weights = (100 * k + 10 * c + s).astype(np.float32).reshape(conv.weight_shape)
    packed = KERNEL.pack(conv, config(block="2x1", channels=2), AVX2, weights)
    first_set = [0, 100, 1, 101, 10, 110, 11, 111, 200, 0, 201, 0, 210, 0, 211, 0]
    second_set = [20, 120, 21, 121, 220, 0, 221, 0]
    assert packed.tolist() == first_set + second_set


def test_space_is_small_and_says_why_a_point_is_not_in_it():
    conv = Conv2d(1, 64, 13, 13, 64, 3, 3, pad=(1, 1, 1, 1))
    space = KERNEL.space(conv, AVX2)
    assert 8 <= len(list(space)) <= 100
    in_place = Config.of("sconv", **{**dict(KERNEL.recommend(conv, AVX2).knobs), "pack": 0})
    assert "cross rows" in space.why_not(in_place)


def test_what_it_cannot_compute():
    assert KERNEL.why_not(Gemm(4, 4, 4), AVX2) == "computes conv2d, not gemm"
    assert KERNEL.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3, groups=4), AVX2) == "grouped"
    assert KERNEL.why_not(Conv2d(1, 4, 8, 8, 4, 3, 3), AVX2) is None


def test_accumulators_never_come_from_the_workspace():
    """Only the padded copy and the packed windows do: a workspace call a micro-kernel costs a fifth."""
    conv = Conv2d(1, 32, 28, 28, 64, 3, 3, pad=(1, 1, 1, 1))
    module = compile_module(KERNEL.build(conv, config(channels=32), AVX2, 1, "candidate"), AVX2)
    assert module.inspect_source("ll").count("load ptr, ptr @__TVMBackendAllocWorkspace") == 2
