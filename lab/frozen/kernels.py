"""TIR of every family on every target: three workloads of real models, three configs of each one's space."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from kernels import registry
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Workload, from_json

LIST = Path(__file__).parent / "workloads.json"
"""Workloads of the corpus, by key."""
OF_FAMILY, CONFIGS = 3, 3


def keys(_: object = None) -> list[str]:
    """Family, workload, target, threads and number of a config."""
    found = []
    for target in CATALOGUE.values():
        counts = dict.fromkeys(registry.all_kernels(), 0)
        for key, workload in _workloads().items():
            for kernel in registry.applicable(workload, target):
                threads = 1 + counts[kernel.name] % 2
                if counts[kernel.name] < OF_FAMILY and any(
                    True for _ in _points(kernel.name, workload, target.name, threads)
                ):
                    counts[kernel.name] += 1
                    found += [f"{kernel.name} {key} {target.name} {threads} {at}" for at in range(CONFIGS)]
    return found


def text(key: str) -> str:
    """What is predicted and emitted."""
    family, workload_key, target_name, threads, at = key.split()
    workload, target = _workloads()[workload_key], CATALOGUE[target_name]
    kernel = registry.kernel(family)
    configs = [*_points(family, workload, target_name, int(threads))]
    config = configs[int(at) * len(configs) // CONFIGS]
    predicted = kernel.predict(workload, config, target, int(threads))
    function = kernel.build(workload, config, target, int(threads), "main")
    head = f"{workload}\n{config.to_json()}\nversion {kernel.version}, {predicted!r} s\n"
    return f"{head}{len(configs)} configs\n{function.script()}\n"


def _workloads() -> dict[str, Workload]:
    return {key: from_json(each) for key, each in json.loads(LIST.read_text()).items()}


def _points(family: str, workload: Workload, target: str, threads: int) -> Iterator[Config]:
    """All points of the family's spaces in every layout."""
    kernel, where = registry.kernel(family), CATALOGUE[target]
    for layouts in kernel.layouts(workload, where):
        yield from kernel.space(workload, where, layouts, threads)
