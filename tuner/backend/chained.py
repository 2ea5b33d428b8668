"""Which pairs of a model's convolutions a build computes as one chain."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.ir.partition import Partition
from compiler.passes.chains import merge, pairs_of, workload_of
from kernels import registry
from kernels.space import Config
from kernels.workload.base import AnyChain, ConvChain, QConvChain
from tuner.backend.evidence import Evidence


def chain_measured(partition: Partition, evidence: Evidence) -> None:
    """Make chains, in place, of the pairs that are faster, as measured, than their two products apart.

    Where pairs overlap, those that gain most are taken.
    """
    records = (record for known in evidence.known.values() for record in known.best.values())
    if not any(isinstance(record.workload, AnyChain) for record in records):
        return
    gains: list[tuple[float, int, int]] = []
    for first, second in pairs_of(partition).items():
        one, two = partition.products[first], partition.products[second]
        chain = workload_of(one, two)
        assert chain is not None
        times = [time for each in (one.workload, two.workload, chain) if (time := evidence.fastest_s(each))]
        if len(times) == 3:
            gains.append((times[0] + times[1] - times[2], first, second))
    taken: set[int] = set()
    firsts = []
    for saved, first, second in sorted(gains, reverse=True):
        if saved > 0 and not {first, second} & taken:
            firsts.append(first)
            taken |= {first, second}
    if firsts:
        merge(partition, firsts)


def chain_as(partition: Partition, configs: Mapping[int, Config]) -> None:
    """Make the chains, in place, that ``configs``, by product of a partition with chains, are for."""
    chains = {at for at, config in configs.items() if _computes_chains(config)}
    pairs = pairs_of(partition) if chains else {}
    firsts, place, seconds = [], 0, set[int]()
    for at, product in enumerate(partition.products):
        if at in seconds:
            continue
        if place in chains and not isinstance(product.workload, AnyChain) and at in pairs:
            firsts.append(at)
            seconds.add(pairs[at])
        place += 1
    if firsts:
        merge(partition, firsts)


def _computes_chains(config: Config) -> bool:
    try:
        return issubclass(registry.kernel(config.kernel).workload_type, (ConvChain, QConvChain))
    except ValueError:  # an unknown kernel is refused where its space is looked for
        return False
