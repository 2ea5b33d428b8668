"""Which kernels there are, and the search space and recommendation for a workload over all of them."""

from __future__ import annotations

from functools import cache

from kernels.fconv import FilterConv
from kernels.gemm import PackedGemm
from kernels.grouped import Grouped
from kernels.kernel import Kernel
from kernels.sconv import SConv
from kernels.sconv_mma import MatrixSConv
from kernels.space import Config, SearchSpace
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


def search_space(workload: Workload, target: Target) -> SearchSpace:
    """The spaces of all kernels that apply."""
    return SearchSpace(tuple(kernel.space(workload, target) for kernel in applicable(workload, target)))


def recommendations(workload: Workload, target: Target) -> list[Config]:
    """Each applicable kernel's recommended config, the one predicted fastest first.

    The first is what a zero-search build uses, and always trial 0 of a search.
    """
    picks = [(kernel, kernel.recommend(workload, target)) for kernel in applicable(workload, target)]
    picks.sort(key=lambda pick: pick[0].predict(workload, pick[1], target))
    return [config for _, config in picks]
