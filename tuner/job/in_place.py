"""Timing the best configs of the heaviest layers inside the built model.

The model is built once by its plan. While it runs, each call of a heavy kernel is made with one of the
configs that could stand there (same workload, same layouts), the next one in each run. So all meet the
caches as the layer before leaves them, and weights that the rest of the model has pushed out.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from compiler.ir.partition import Product
from compiler.load import load_partition
from compiler.lower.operators.functions import function_name
from compiler.passes.epilogues.affine import merge_affine
from kernels import registry
from kernels import target as targets
from kernels.emit.compile import compile_object
from kernels.layout import Layouts
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Workload
from tuner.backend.apply import build_model, plan_of
from tuner.backend.chained import chain_as
from tuner.backend.draws import feeds_of
from tuner.backend.manifest import describe
from tuner.log.record import Record
from tuner.log.relayouts import read_relayouts
from worker.build.build import ENTRY
from worker.build.toolchain import link
from worker.measure.session import take

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


def time_in_child(payload: dict[str, Any], send: Send) -> dict[str, Any]:
    """Child: ``configs``, what a call takes by workload and config: ``{"key", "config", "seconds"}``.

    ``payload`` has ``model`` (a path), ``shapes``, ``target``, ``threads``, ``numerics``, ``records``,
    ``relayouts`` (lines of a log), and ``lock``, which is held while the model runs.
    """
    # TVM's threads start at their first use, which in this process is still to come.
    os.environ["TVM_NUM_THREADS"] = str(payload["threads"])
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    records = [Record.from_json(each) for each in payload["records"]]
    numerics, times = Numerics(payload["numerics"]), list(read_relayouts(payload["relayouts"]))
    tuned, manifest = build_model(
        payload["model"],
        {},
        target,
        threads,
        payload["shapes"],
        records,
        numerics,
        apart=True,
        relayouts=times,
    )
    send({"stage": "built"})
    partition = load_partition(payload["model"], payload["shapes"])
    merge_affine(partition.graph)
    plain = describe(partition, plan_of(partition, {}, target, threads, (), numerics), target, threads)
    untuned = {
        (layer.workload.key, layer.config) for layer in plain.layers if layer.workload and layer.config
    }
    chosen = [layer.config for layer in manifest.layers]
    chain_as(partition, {at: config for at, config in enumerate(chosen) if config is not None})
    contests = find_contests(partition.products, chosen, records, untuned)
    with tempfile.TemporaryDirectory(prefix="tilefleet-build-") as folder:
        for contest in contests:
            contest.build(target, threads, Path(folder))
            send({"stage": "kernels"})
        inputs = [*map(tvm.runtime.tensor, feeds_of(partition.graph).values())]
        with Path(payload["lock"]).open("w") as file:
            take(file, send)
            _time_configs(_runner(tuned, inputs, contests), contests, send)
    return {"configs": [found for contest in contests for found in contest.results()]}


class Contest:
    """The configs that could compute ``products``, all of one workload; the plan's first."""

    def __init__(self, workload: Workload, configs: Sequence[Config], products: Sequence[Product]) -> None:
        self.workload, self.configs, self.products = workload, configs, products
        self._functions: list[Any] = []
        self._constants: list[list[list[Any]]] = []
        self._callers: dict[int, int] = {}
        self._seconds: list[dict[int, list[float]]] = [{} for _ in configs]
        self.turn: int | None = None
        """Whose turn it is: a number of a config, counted on beyond the last. None to warm up, untimed."""

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

    def call(self, arguments: Sequence[Any]) -> None:
        """Make a call with the config whose turn it is, and note what it took."""
        number, caller = (self.turn or 0) % len(self.configs), self._caller(arguments[1])
        function, constants = self._functions[number], self._constants[number][caller]
        start = time.perf_counter()
        function(arguments[0], *constants, *arguments[1 + len(constants) :])
        spent = time.perf_counter() - start
        if self.turn is not None:
            self._seconds[number].setdefault(caller, []).append(spent)

    def results(self) -> list[dict[str, Any]]:
        """What a call takes with each config."""
        return [
            {"key": self.workload.key, "config": config.to_json(), "seconds": self._call_s(number)}
            for number, config in enumerate(self.configs)
            if self._seconds[number]
        ]

    def _call_s(self, number: int) -> float:
        """The mean over the products of the median of each."""
        medians = [statistics.median(seconds) for seconds in self._seconds[number].values()]
        return statistics.fmean(medians) if medians else math.inf

    def _caller(self, weights: Any) -> int:
        """Which of the products makes the call, by the weights that the build packed for it, if any."""
        if not self._constants[0][0]:
            return 0
        place = np.from_dlpack(weights).ctypes.data
        if place not in self._callers:
            array = weights.numpy()
            self._callers[place] = next(
                caller
                for caller, (packed, *_) in enumerate(self._constants[0])
                if np.array_equal(packed.numpy(), array)
            )
        return self._callers[place]


def find_contests(
    products: Sequence[Product],
    chosen: Sequence[Config | None],
    records: Sequence[Record],
    untuned: Set[tuple[str, Config]] = frozenset(),
) -> list[Contest]:
    """The heaviest products of which ``records`` have several configs near the one that was chosen.

    What an untuned model has there (by workload key) takes part however it did by itself.
    """
    users: dict[tuple[str, Config], list[Product]] = {}
    # Weights that are computed are those of no contestant.
    computed = {product.workload.key for product in products if product.factors is not None}
    for product, config in zip(products, chosen, strict=False):
        if config is not None and product.workload.key not in computed:
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
        contestants = [config, *others[: CONFIGS - 1]]
        contestants += [
            r.config for r in rivals[0] if (key, r.config) in untuned and r.config not in contestants
        ]
        contest = Contest(using[0].workload, contestants, using)
        found.append((len(using) * (mine.isolated_s or 0.0), contest))
    found.sort(key=lambda each: -each[0])
    left = HEAVY * sum(seconds for seconds, _ in found)
    heavy = []
    for seconds, contest in found:
        if left > 0 and len(contest.configs) > 1:
            heavy.append(contest)
        left -= seconds
    return heavy


def _runner(executable: Any, inputs: Sequence[Any], contests: Sequence[Contest] = ()) -> Callable[[], None]:
    """Runs a model once, warm already; calls of its kernels that are in ``contests`` are left to these."""
    by_name = {contest.name: contest for contest in contests}
    machine = relax.VirtualMachine(executable, tvm.cpu())

    def instrument(_: Any, name: str, before: bool, __: Any, *arguments: Any) -> int:
        contest = by_name.get(name)
        if contest is None or not before:
            return 0
        contest.call(arguments)
        return SKIP_RUN

    if contests:
        machine.set_instrument(instrument)
    machine["main"](*inputs)
    return lambda: machine["main"](*inputs)


def _time_configs(run: Callable[[], None], contests: Sequence[Contest], send: Send) -> None:
    """Run the model, each time with the next config of every contest."""
    for turn in _turns(max((len(each.configs) for each in contests), default=0)):
        for contest in contests:
            contest.turn = turn
        run()
        send({"stage": "run"})


def _turns(contestants: int) -> Iterator[int]:
    """Numbers of turns until all had ROUNDS, or LEAST and the time is up."""
    started = time.perf_counter()
    for turn in range(contestants * ROUNDS):
        if turn >= contestants * LEAST and time.perf_counter() - started > LONGEST_S:
            return
        yield turn
