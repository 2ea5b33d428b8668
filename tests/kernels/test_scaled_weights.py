import numpy as np
import pytest
import tvm
from guarded import guarded

from kernels import registry
from kernels.emit.compile import compile_module
from kernels.operators.scaled_weights import build_scaled_weights, places_of
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d

HOST = CATALOGUE["x86-avx2"]
CONVS = [
    Conv2d(1, 24, 9, 11, 16, 1, 1),
    Conv2d(1, 7, 13, 5, 13, 1, 1),
    Conv2d(1, 40, 6, 6, 33, 1, 1, stride=(2, 2)),
]


@pytest.mark.parametrize("target", ["x86-avx2", "x86-avx512", "rpi4", "power10"])
@pytest.mark.parametrize("conv", CONVS, ids=str)
def test_packed_weights_are_scaled_as_weights_are_before_they_are_packed(conv, target):
    target, rng = CATALOGUE[target], np.random.default_rng()
    weights = rng.standard_normal(conv.weight_shape).astype(np.float32)
    factors = rng.standard_normal(conv.in_c).astype(np.float32)
    configs = registry.recommendations(conv, target, threads=1, any_layout=True)
    assert configs
    for config in configs:

        def pack(array, config=config):
            return registry.kernel(config.kernel).pack(conv, config, target, array)

        each, places = places_of(conv.weight_shape, pack, target.lanes())
        packed, wanted = (np.ravel(pack(array)) for array in (weights, weights * factors[:, None, None]))
        assert each.length == packed.size
        np.testing.assert_array_equal(packed * factors[np.repeat(places, each.run)], wanted)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("run", [1, 3, 8])
def test_the_function_multiplies_each_run_by_its_factor(run, threads):
    rng = np.random.default_rng()
    filters = 40_000 // 20 // run * run

    def pack(array):
        turned = array.reshape(-1, run, 20).transpose(0, 2, 1)
        return np.concatenate([np.zeros(run, np.float32), turned.reshape(-1)])

    each, places = places_of((filters, 20, 1, 1), pack, 8)
    assert each.run == run
    weights, factors = (rng.standard_normal(n).astype(np.float32) for n in (each.length, 20))
    out = guarded(np.full(each.length, np.nan, np.float32))
    function = compile_module(build_scaled_weights(each, threads, "main"), HOST)["main"]
    function(*map(tvm.runtime.from_dlpack, (*map(guarded, (weights, places, factors)), out)))
    np.testing.assert_array_equal(out, weights * factors[np.repeat(places, run)])
