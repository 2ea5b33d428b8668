"""Which kernels there are, and the search space and recommendation for a workload over all of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from kernels.float.attention.kernel import BlockedAttention
from kernels.float.chain.kernel import Chain
from kernels.float.depthwise.kernel import Depthwise
from kernels.float.depthwise_rows.kernel import DepthwiseRows
from kernels.float.fconv.kernel import FilterConv
from kernels.float.fconv.lanes import LanesConv
from kernels.float.gemm.kernel import PackedGemm
from kernels.float.gemm.matrix import MatrixGemm
from kernels.float.grouped.kernel import Grouped
from kernels.float.matmul.kernel import ActivationsMatMul
from kernels.float.narrow.kernel import Narrow
from kernels.float.sconv.kernel import SConv
from kernels.float.sconv.mma import MatrixSConv
from kernels.float.separable.kernel import Separable
from kernels.float.winograd.kernel import Winograd
from kernels.float.winograd.matrix import MatrixWinograd
from kernels.float.winograd_lines.kernel import WinogradLines
from kernels.int8.arm.depthwise.kernel import QuantizedDepthwise
from kernels.int8.arm.gemm.kernel import QuantizedGemm
from kernels.int8.arm.grouped.kernel import QuantizedGroupsNeon
from kernels.int8.arm.separable.kernel import QSeparable
from kernels.int8.arm.winograd.kernel import QuantizedWinogradNeon
from kernels.int8.chain.kernel import QChain
from kernels.int8.dot.depthwise import QuantizedDotDepthwise
from kernels.int8.dot.kernel import QuantizedDotGroups, QuantizedDots
from kernels.int8.dot.matrix import QuantizedMatrix
from kernels.int8.flat.kernel import QuantizedFlatDepthwise
from kernels.int8.x86.depthwise.kernel import QuantizedDepthwiseBytes
from kernels.int8.x86.direct.grouped import QuantizedGroups
from kernels.int8.x86.direct.kernel import QuantizedDirect
from kernels.int8.x86.winograd.kernel import QuantizedWinograd
from kernels.kernel import Kernel
from kernels.layout import PLAIN, Layouts
from kernels.numerics import Numerics
from kernels.plugins import plugged
from kernels.space import Config, SearchSpace, Space
from kernels.target import Target
from kernels.workload.base import Workload


@cache
def all_kernels() -> dict[str, Kernel[Any]]:
    """Every kernel by name: ours, and those that installed packages add.

    Nobody's replaces one of ours, whose records it would get.
    """
    kernels: tuple[Kernel[Any], ...] = (
        SConv(),
        MatrixSConv(),
        FilterConv(),
        LanesConv(),
        PackedGemm(),
        MatrixGemm(),
        Narrow(),
        Winograd(),
        MatrixWinograd(),
        WinogradLines(),
        Depthwise(),
        DepthwiseRows(),
        Grouped(),
        ActivationsMatMul(),
        BlockedAttention(),
        Chain(),
        Separable(),
        QChain(),
        QSeparable(),
        QuantizedGemm(),
        QuantizedDepthwise(),
        QuantizedDirect(),
        QuantizedGroups(),
        QuantizedGroupsNeon(),
        QuantizedDepthwiseBytes(),
        QuantizedWinograd(),
        QuantizedWinogradNeon(),
        QuantizedDots(),
        QuantizedMatrix(),
        QuantizedFlatDepthwise(),
        QuantizedDotDepthwise(),
        QuantizedDotGroups(),
    )
    added = [family() for family in plugged("tilefleet.kernels", Kernel)]  # type: ignore[type-abstract]
    return {kernel.name: kernel for kernel in (*added, *kernels)}


def register(kernel: Kernel[Any]) -> None:
    """Make one more kernel known to this process."""
    all_kernels()[kernel.name] = kernel


def kernel(name: str) -> Kernel[Any]:
    """The kernel called ``name``; raises ValueError that lists those there are."""
    try:
        return all_kernels()[name]
    except KeyError:
        raise ValueError(f"unknown kernel {name!r}; there are {sorted(all_kernels())}") from None


def applicable(workload: Workload, target: Target) -> list[Kernel[Any]]:
    """The kernels that can compute ``workload`` on ``target``."""
    return [kernel for kernel in all_kernels().values() if kernel.why_not(workload, target) is None]


def why_not_tunable(workload: Workload, target: Target) -> str | None:
    """Why no kernel applies, or None when one does."""
    if applicable(workload, target):
        return None
    kernels = list(all_kernels().values())
    # Those of its kind have something to say of it.
    kernels = [kernel for kernel in kernels if isinstance(workload, kernel.workload_type)] or kernels
    reasons = [f"{kernel.name}: {kernel.why_not(workload, target)}" for kernel in kernels]
    return "; ".join(reasons) or "there are no kernels"


def search_space(
    workload: Workload,
    target: Target,
    numerics: Numerics = Numerics.EXACT_INTEGERS,
    threads: int = 1,
    any_layout: bool = False,
) -> SearchSpace:
    """The spaces of all kernels that apply, as far as ``numerics`` allows, in NCHW or in all layouts."""
    found = _spaces(workload, target, numerics, threads, any_layout)
    return SearchSpace(tuple(space for _, _, space in found))


def recommendations(
    workload: Workload,
    target: Target,
    numerics: Numerics = Numerics.EXACT_INTEGERS,
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

        def predict(config: Config, kernel: Kernel[Any] = kernel) -> float:
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
    layouts = config.layouts
    if layouts not in found.layouts(workload, target):
        return f"{config.kernel} does not compute {layouts}"
    return found.space(workload, target, layouts, threads)


def numerics_of(workload: Workload, config: Config) -> Numerics:
    """What ``config`` computes with; relaxed where the kernel or its knobs are unknown."""
    found = all_kernels().get(config.kernel)
    try:
        exact = (
            found is not None
            and isinstance(workload, found.workload_type)
            and found.why_inexact(workload, config) is None
        )
    except (KeyError, ValueError):
        exact = False
    return Numerics.EXACT if exact else Numerics.RELAXED


def must_be_exact(workload: Workload, numerics: Numerics) -> bool:
    """Whether ``numerics`` allows only exact configs for ``workload``."""
    of_integers = workload.unit == "OP"
    return numerics is Numerics.EXACT or (numerics is Numerics.EXACT_INTEGERS and of_integers)


def why_not_allowed(workload: Workload, config: Config, numerics: Numerics) -> str | None:
    """Why ``numerics`` excludes ``config``, or None when it does not."""
    reason = kernel(config.kernel).why_inexact(workload, config)
    return f"it is not exact: {reason}" if reason and must_be_exact(workload, numerics) else None


def _spaces(
    workload: Workload, target: Target, numerics: Numerics, threads: int, any_layout: bool
) -> list[tuple[Kernel[Any], Layouts, Space]]:
    """The kernels with something to offer, in which layouts, and that."""
    spaces = [
        (kernel, layouts, kernel.space(workload, target, layouts, threads))
        for kernel in applicable(workload, target)
        for layouts in kernel.layouts(workload, target)
        if any_layout or layouts == PLAIN
    ]
    if not must_be_exact(workload, numerics):
        return spaces
    exact = [(kernel, layouts, kernel.exact_part(workload, space)) for kernel, layouts, space in spaces]
    return [found for found in exact if next(iter(found[2]), None) is not None]
