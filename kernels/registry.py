"""Which kernels there are, and the search space and recommendation for a workload over all of them."""

from __future__ import annotations

from functools import cache

from kernels.depthwise import Depthwise
from kernels.depthwise_rows import DepthwiseRows
from kernels.fconv import FilterConv
from kernels.gemm import PackedGemm
from kernels.grouped import Grouped
from kernels.kernel import Kernel
from kernels.layout import PLAIN, Layouts, layouts_of
from kernels.numerics import Numerics
from kernels.qdepthwise import QuantizedDepthwise
from kernels.qdepthwise_bytes import QuantizedDepthwiseBytes
from kernels.qdepthwise_x86 import QuantizedDepthwiseX86
from kernels.qdirect import QuantizedDirect
from kernels.qgemm import QuantizedGemm
from kernels.qgrouped import QuantizedGroups
from kernels.qgrouped_neon import QuantizedGroupsNeon
from kernels.qwinograd import QuantizedWinograd
from kernels.qwinograd_neon import QuantizedWinogradNeon
from kernels.sconv import SConv
from kernels.sconv_mma import MatrixSConv
from kernels.space import Config, Knobs, SearchSpace, Space
from kernels.target import Target
from kernels.winograd import Winograd
from kernels.workload import Workload


@cache
def all_kernels() -> dict[str, Kernel]:
    """Every kernel by name."""
    kernels: tuple[Kernel, ...] = (
        SConv(),
        MatrixSConv(),
        FilterConv(),
        PackedGemm(),
        Winograd(),
        Depthwise(),
        DepthwiseRows(),
        Grouped(),
        QuantizedGemm(),
        QuantizedDepthwise(),
        QuantizedDirect(),
        QuantizedGroups(),
        QuantizedGroupsNeon(),
        QuantizedDepthwiseX86(),
        QuantizedDepthwiseBytes(),
        QuantizedWinograd(),
        QuantizedWinogradNeon(),
    )
    return {kernel.name: kernel for kernel in kernels}


def kernel(name: str) -> Kernel:
    """The kernel called ``name``; raises ValueError that lists those there are."""
    try:
        return all_kernels()[name]
    except KeyError:
        raise ValueError(f"unknown kernel {name!r}; there are {sorted(all_kernels())}") from None


def applicable(workload: Workload, target: Target) -> list[Kernel]:
    """The kernels that can compute ``workload`` on ``target``."""
    return [kernel for kernel in all_kernels().values() if kernel.why_not(workload, target) is None]


def why_not_tunable(workload: Workload, target: Target) -> str | None:
    """Why no kernel applies, or None when one does."""
    if applicable(workload, target):
        return None
    reasons = [f"{k.name}: {k.why_not(workload, target)}" for k in all_kernels().values()]
    return "; ".join(reasons) or "there are no kernels"


def search_space(
    workload: Workload,
    target: Target,
    numerics: Numerics = Numerics.RELAXED,
    threads: int = 1,
    any_layout: bool = False,
) -> SearchSpace:
    """The spaces of all kernels that apply, as far as ``numerics`` allows, in NCHW or in all layouts."""
    found = _spaces(workload, target, numerics, threads, any_layout)
    return SearchSpace(tuple(space for _, _, space in found))


def recommendations(
    workload: Workload,
    target: Target,
    numerics: Numerics = Numerics.RELAXED,
    threads: int = 1,
    any_layout: bool = False,
) -> list[Config]:
    """Each applicable kernel's recommended config, in each pair of layouts that is asked for.

    Where ``numerics`` excludes that, it is the kernel's config predicted fastest among those allowed. Those
    in NCHW come first, and of these the one predicted fastest: that is what a zero-search build uses, and
    always trial 0 of a search.
    """
    picks: list[tuple[bool, float, Config]] = []
    for kernel, layouts, space in _spaces(workload, target, numerics, threads, any_layout):

        def predict(config: Config, kernel: Kernel = kernel) -> float:
            return kernel.predict(workload, config, target, threads)

        config = kernel.recommend(workload, target, layouts, threads)
        if space.why_not(config) is not None:
            config = min(space, key=predict)
        picks.append((layouts != PLAIN, predict(config), config))
    picks.sort(key=lambda pick: pick[:2])
    return [config for _, _, config in picks]


def space_of(workload: Workload, config: Config, target: Target, threads: int = 1) -> Space | str:
    """The space that ``config`` has to be a point of, or why there is none."""
    try:
        found = kernel(config.kernel)
    except ValueError as error:
        return str(error)
    reason = found.why_not(workload, target)
    if reason is not None:
        return reason
    layouts = layouts_of(config)
    if layouts not in found.layouts(workload, target):
        return f"{config.kernel} does not compute {layouts}"
    return found.space(workload, target, layouts, threads)


def numerics_of(workload: Workload, config: Config) -> Numerics:
    """What ``config`` computes with; relaxed where the kernel or its knobs are unknown."""
    found = all_kernels().get(config.kernel)
    try:
        exact = found is not None and found.why_inexact(workload, config) is None
    except (KeyError, ValueError):
        exact = False
    return Numerics.EXACT if exact else Numerics.RELAXED


def _spaces(
    workload: Workload, target: Target, numerics: Numerics, threads: int, any_layout: bool
) -> list[tuple[Kernel, Layouts, Space]]:
    """The kernels with something to offer, in which layouts, and that."""
    spaces = [
        (kernel, layouts, kernel.space(workload, target, layouts, threads))
        for kernel in applicable(workload, target)
        for layouts in (kernel.layouts(workload, target) if any_layout else (PLAIN,))
    ]
    if numerics is Numerics.RELAXED:
        return spaces
    exact = [(kernel, layouts, _exact(kernel, workload, space)) for kernel, layouts, space in spaces]
    return [found for found in exact if next(iter(found[2]), None) is not None]


def _exact(kernel: Kernel, workload: Workload, space: Space) -> Space:
    """The exact points of ``space``."""

    def invalid(point: Knobs) -> str | None:
        reason = kernel.why_inexact(workload, Config.of(kernel.name, **point))
        return f"not exact: {reason}" if reason else space.invalid(point)

    return Space(kernel.name, space.knobs, invalid)
