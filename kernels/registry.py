"""Which kernels there are, and the search space and recommendation for a workload over all of them."""

from __future__ import annotations

from functools import cache

from kernels.fconv import FilterConv
from kernels.gemm import PackedGemm
from kernels.grouped import Grouped
from kernels.kernel import Kernel
from kernels.numerics import Numerics
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
        Grouped(),
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


def search_space(workload: Workload, target: Target, numerics: Numerics = Numerics.RELAXED) -> SearchSpace:
    """The spaces of all kernels that apply, as far as ``numerics`` allows."""
    return SearchSpace(tuple(space for _, space in _spaces(workload, target, numerics)))


def recommendations(
    workload: Workload, target: Target, numerics: Numerics = Numerics.RELAXED
) -> list[Config]:
    """Each applicable kernel's recommended config, the one predicted fastest first.

    Where ``numerics`` excludes that, it is the kernel's config predicted fastest among those allowed. The
    first is what a zero-search build uses, and always trial 0 of a search.
    """
    picks: list[tuple[float, Config]] = []
    for kernel, space in _spaces(workload, target, numerics):
        config = kernel.recommend(workload, target)
        if space.why_not(config) is not None:
            config = min(space, key=lambda each: kernel.predict(workload, each, target))
        picks.append((kernel.predict(workload, config, target), config))
    picks.sort(key=lambda pick: pick[0])
    return [config for _, config in picks]


def numerics_of(workload: Workload, config: Config) -> Numerics:
    """What ``config`` computes with; relaxed where the kernel or its knobs are unknown."""
    found = all_kernels().get(config.kernel)
    try:
        exact = found is not None and found.why_inexact(workload, config) is None
    except (KeyError, ValueError):
        exact = False
    return Numerics.EXACT if exact else Numerics.RELAXED


def _spaces(workload: Workload, target: Target, numerics: Numerics) -> list[tuple[Kernel, Space]]:
    """The kernels with something to offer, and that."""
    spaces = [(kernel, kernel.space(workload, target)) for kernel in applicable(workload, target)]
    if numerics is Numerics.RELAXED:
        return spaces
    exact = [(kernel, _exact(kernel, workload, space)) for kernel, space in spaces]
    return [(kernel, space) for kernel, space in exact if next(iter(space), None) is not None]


def _exact(kernel: Kernel, workload: Workload, space: Space) -> Space:
    """The exact points of ``space``."""

    def invalid(point: Knobs) -> str | None:
        reason = kernel.why_inexact(workload, Config.of(kernel.name, **point))
        return f"not exact: {reason}" if reason else space.invalid(point)

    return Space(kernel.name, space.knobs, invalid)
