"""Layouts: what is stored where, and that it comes back."""

import numpy as np
import pytest

from kernels.layout import (
    NCHW,
    PLAIN,
    Layouts,
    block_of,
    from_layout,
    layouts_for,
    stored_shape,
    to_layout,
)
from kernels.space import Config, Space
from kernels.target import CATALOGUE


@pytest.mark.parametrize("layout", ["nchw", "nhwc", "nchw4c", "nchw8c"])
def test_an_array_comes_back_as_it_was(layout):
    array = np.random.default_rng(3).standard_normal((2, 16, 5, 7), dtype=np.float32)
    stored = to_layout(array, layout)
    assert stored.shape == stored_shape(layout, array.shape)
    assert stored.flags.c_contiguous
    assert (from_layout(stored, layout) == array).all()


def test_elements_lie_where_the_layout_says():
    array = np.arange(2 * 16 * 3 * 5, dtype=np.float32).reshape(2, 16, 3, 5)
    assert to_layout(array, "nhwc")[1, 2, 3, 10] == array[1, 10, 2, 3]
    assert to_layout(array, "nchw8c")[1, 1, 2, 3, 2] == array[1, 10, 2, 3]


def test_a_block_must_divide_the_channels():
    with pytest.raises(ValueError, match=r"nchw8c needs channels in multiples of 8, got 12"):
        stored_shape("nchw8c", (1, 12, 3, 3))
    assert layouts_for(12, CATALOGUE["x86-avx2"]) == ("nchw", "nhwc")
    assert layouts_for(12, CATALOGUE["rpi4"]) == ("nchw", "nhwc", "nchw4c")


@pytest.mark.parametrize("layout", ["", "NCHW", "nchw0c", "nchwc", "nc"])
def test_what_is_no_layout_is_refused(layout):
    with pytest.raises(ValueError, match="unknown layout"):
        block_of(layout)


def test_a_config_says_its_layouts_and_its_family():
    plain = Config.of("fconv", block="4x3")
    other = Config.of("fconv", Layouts("nchw8c", "nhwc"), block="4x3")
    assert plain.layouts == PLAIN == (NCHW, NCHW)
    assert other.layouts == Layouts("nchw8c", "nhwc")
    for config in (plain, other):
        space = Space("fconv", {"block": ["4x3"]}, layouts=config.layouts)
        assert space.family == config.family == Config.from_json(config.to_json()).family
        assert space.why_not(config) is None
        assert space.why_not(plain if config is other else other) is not None


def test_a_config_in_json_is_flat_and_no_knob_hides_its_layouts():
    config = Config.of("fconv", Layouts("nchw8c", "nhwc"), block="4x3")
    assert config.to_json() == {"kernel": "fconv", "data": "nchw8c", "out": "nhwc", "block": "4x3"}
    assert Config.from_json(config.to_json()) == config
    for name in ("data", "out"):
        with pytest.raises(ValueError, match=f"cannot be called {name}"):
            Config.of("fconv", **{name: "nhwc"})
