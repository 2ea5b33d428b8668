"""Timing the best configs of the heaviest layers inside the built model.

The model is built once by its plan. While it runs, each call of a heavy kernel is made with one of the
configs that could stand there (same workload, same layouts), the next one in each run. So all meet the
caches as the layer before leaves them, and weights that the rest of the model has pushed out.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from kernels import registry
from kernels import target as targets
from kernels.compile import compile_object
from kernels.layout import Layouts
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Workload
from tuner.affine import merge_affine
from tuner.apply import build_model, function_name
from tuner.graph import Partition, Product, load_partition
from tuner.record import Record
from tuner.relayouts import read_relayouts
from worker.build import ENTRY
from worker.session import take
from worker.toolchain import link

CONFIGS = 3
"""How many of one workload and layouts are timed."""
NEAR = 1.15
"""By themselves they are at most this much slower than the plan's."""
HEAVY = 0.95
"""Share of the products' time that what is timed makes up."""
ROUNDS, LEAST, LONGEST_S = 21, 5, 30.0
"""Runs that each config gets; when they have taken so long, fewer, but so many at least."""
SKIP_RUN = 1
"""Tells the virtual machine that a call was made already (its ``VMInstrumentReturnKind``)."""
_NO_DATA = np.zeros(0)
"""Constants do not depend on it."""
Send = Callable[[Any], None]


def time_in_child(payload: dict[str, Any], send: Send) -> list[dict[str, Any]]:
    """Child: ``[{"key", "config", "seconds"}]``, what a call takes by workload key and config.

    ``payload`` has ``model`` (a path), ``shapes``, ``target``, ``threads``, ``numerics``, ``records``,
    ``relayouts`` (lines of a log), and ``lock``, which is held while the model runs.
    """
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    records = [Record.from_json(each) for each in payload["records"]]
    executable, manifest = build_model(
        payload["model"],
        {},
        target,
        threads,
        payload["shapes"],
        records,
        Numerics(payload["numerics"]),
        relayouts=list(read_relayouts(payload["relayouts"])),
    )
    send({"stage": "built"})
    partition = load_partition(payload["model"], payload["shapes"])
    merge_affine(partition.graph)
    contests = find_contests(partition.products, [layer.config for layer in manifest.layers], records)
    with tempfile.TemporaryDirectory(prefix="tilefleet-build-") as folder:
        for contest in contests:
            contest.build(target, threads, Path(folder))
            send({"stage": "kernels"})
        with Path(payload["lock"]).open("w") as lock:
            take(lock, send)
            _run(executable, partition, contests, send)
    return [found for contest in contests for found in contest.results()]


class Contest:
    """The configs that could compute ``products``, all of one workload; the plan's first."""

    def __init__(self, workload: Workload, configs: Sequence[Config], products: Sequence[Product]) -> None:
        self.workload, self.configs, self.products = workload, configs, products
        self._functions: list[Any] = []
        self._constants: list[list[list[Any]]] = []
        self._seats: dict[int, int] = {}
        self._seconds: list[dict[int, list[float]]] = [{} for _ in configs]

    @property
    def name(self) -> str:
        """The function that the built model calls."""
        return function_name(self.workload, self.configs[0])

    def build(self, target: Target, threads: int, folder: Path) -> None:
        """Compile every config, and make the constants of every product for it."""
        for config in self.configs:
            kernel = registry.kernel(config.kernel)
            file = folder / f"{function_name(self.workload, config)}.so"
            function = kernel.build(self.workload, config, target, threads, ENTRY)
            file.write_bytes(link(compile_object(function, target)))
            self._functions.append(tvm.runtime.load_module(str(file))[ENTRY])
            inputs = [[_NO_DATA, *(each.constants or [each.weights()])] for each in self.products]
            constants = [kernel.constants(self.workload, config, target, each) for each in inputs]
            self._constants.append([[*map(tvm.runtime.tensor, each)] for each in constants])

    def call(self, turn: int, arguments: Sequence[Any]) -> None:
        """Make a call with the config whose turn it is, and note what it took."""
        number, seat = turn % len(self.configs), self._seat(arguments[1])
        function, constants = self._functions[number], self._constants[number][seat]
        start = time.perf_counter()
        function(arguments[0], *constants, *arguments[1 + len(constants) :])
        spent = time.perf_counter() - start
        if turn >= 0:
            self._seconds[number].setdefault(seat, []).append(spent)

    def results(self) -> list[dict[str, Any]]:
        """What a call takes: the mean over the products of the median of each."""
        return [
            {
                "key": self.workload.key,
                "config": config.to_json(),
                "seconds": statistics.fmean(map(statistics.median, seconds.values())),
            }
            for config, seconds in zip(self.configs, self._seconds, strict=True)
            if seconds
        ]

    def _seat(self, weights: Any) -> int:
        """Which of the products makes the call, by the weights that the build packed for it."""
        place = np.from_dlpack(weights).ctypes.data
        if place not in self._seats:
            array = weights.numpy()
            self._seats[place] = next(
                seat
                for seat, (packed, *_) in enumerate(self._constants[0])
                if np.array_equal(packed.numpy(), array)
            )
        return self._seats[place]


def find_contests(
    products: Sequence[Product], chosen: Sequence[Config | None], records: Sequence[Record]
) -> list[Contest]:
    """The heaviest products of which ``records`` have several configs near the one that was chosen."""
    users: dict[tuple[str, Config], list[Product]] = {}
    for product, config in zip(products, chosen, strict=False):
        if config is not None:
            users.setdefault((product.workload.key, config), []).append(product)
    known: dict[tuple[str, Layouts], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.isolated_s or 0.0):
        known.setdefault((record.workload.key, record.layouts), []).append(record)
    found: list[tuple[float, Contest]] = []
    for (key, config), using in users.items():
        rivals = [rs for (k, _), rs in known.items() if k == key and any(r.config == config for r in rs)]
        if not rivals:
            continue
        mine = next(record for record in rivals[0] if record.config == config)
        near_s = NEAR * (mine.isolated_s or 0.0)
        others = [r.config for r in rivals[0] if r is not mine and (r.isolated_s or 0.0) <= near_s]
        contest = Contest(using[0].workload, [config, *others[: CONFIGS - 1]], using)
        found.append((len(using) * (mine.isolated_s or 0.0), contest))
    found.sort(key=lambda each: -each[0])
    left = HEAVY * sum(seconds for seconds, _ in found)
    heavy = []
    for seconds, contest in found:
        if left > 0 and len(contest.configs) > 1:
            heavy.append(contest)
        left -= seconds
    return heavy


def _run(executable: Any, partition: Partition, contests: Sequence[Contest], send: Send) -> None:
    """Run the model, each time with the next config of every contest."""
    by_name = {contest.name: contest for contest in contests}
    machine = relax.VirtualMachine(executable, tvm.cpu())
    turn = -1

    def instrument(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> int:
        contest = by_name.get(name)
        if contest is None or not before:
            return 0
        contest.call(turn, arguments)
        return SKIP_RUN

    machine.set_instrument(instrument)
    rng = np.random.default_rng(0)
    inputs = [
        tvm.runtime.tensor(rng.standard_normal(info.shape).astype(info.dtype))
        for info in partition.graph.inputs.values()
    ]
    machine["main"](*inputs)  # to warm up
    started, configs = time.perf_counter(), max((len(each.configs) for each in contests), default=0)
    for turn in range(configs * ROUNDS):
        if turn >= configs * LEAST and time.perf_counter() - started > LONGEST_S:
            return
        machine["main"](*inputs)
        send({"stage": "run"})
