"""Building a whole model: every product by its configured kernel, the rest by TVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from kernels import registry
from kernels.compile import KERNEL_ATTRIBUTE, MODEL_PIPELINE
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Conv2d
from tuner.affine import merge_affine
from tuner.graph import Product, load_partition
from tuner.importer import import_partition, import_whole
from tuner.manifest import Layer, Manifest, Source
from tuner.onnx_check import Shapes, read_model
from tuner.record import Record
from tuner.rest import optimise

LINK_TIMEOUT_S = 120
OPAQUE = 8
"""TVM's operator pattern for functions that nothing may be fused into."""


def build_model(
    path: str | Path,
    picks: Mapping[str, Config],
    target: Target,
    threads: int = 1,
    shapes: Shapes | None = None,
    measured: Mapping[str, Record] | None = None,
    numerics: Numerics = Numerics.RELAXED,
) -> tuple[Any, Manifest]:
    """Build the ONNX model at ``path`` for ``target`` with the config ``picks`` has for each workload key.

    A workload without one gets the analysis's; what no kernel computes is left to TVM. ``measured`` has
    the records of picks by workload key, for the manifest. Returns a Relax executable whose ``main`` takes
    the model's inputs, and the manifest. Raises ModelError for a model that cannot be used, ValueError for
    a config that is no point of the workload's space, or that ``numerics`` excludes.
    """
    partition = load_partition(path, shapes)
    merge_affine(partition.graph)
    emitter = _Emitter(picks, target, threads, measured or {}, numerics)
    module = import_partition(partition, emitter)
    for entry in partition.not_tunable:
        emitter.layers.append(Layer((entry.node,), "default", reason=f"{entry.op}: {entry.reason}"))
    module = optimise(module, target, threads)
    executable = relax.build(module, tvm.target.Target(target.tvm), tir_pipeline=MODEL_PIPELINE)
    return executable, Manifest(target, threads, tuple(emitter.layers))


def build_default(path: str | Path, target: Target, shapes: Shapes | None = None) -> Any:
    """The model as stock TVM builds it, for comparison: imported, default pipeline, no tuning.

    Raises ModelError as ``build_model`` does.
    """
    return relax.build(import_whole(read_model(path, shapes)), target=tvm.target.Target(target.tvm))


def export(executable: Any, path: str | Path) -> None:
    """Write ``executable`` as a shared library that ``tvm.runtime.load_module`` of stock TVM loads."""
    executable.export_library(str(path), fcompile=_link)


def _link(output: str, objects: list[str], options: Any = None, **_: Any) -> None:
    """Link by the ELF linker that comes with zig: no compiler is needed on the machine."""
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-z", "now", "--hash-style=both"]
    command += [*objects, "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LINK_TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"linking {output} failed: {done.stderr.strip()[-500:]}")


class _Emitter:
    """Emits each product as a call of its kernel and keeps what the manifest needs."""

    def __init__(
        self,
        picks: Mapping[str, Config],
        target: Target,
        threads: int,
        measured: Mapping[str, Record],
        numerics: Numerics,
    ) -> None:
        self._picks, self._target, self._threads = picks, target, threads
        self._measured, self._numerics = measured, numerics
        self._functions: dict[tuple[str, Config], Any] = {}
        self.layers: list[Layer] = []

    def __call__(self, builder: Any, product: Product, data: Any, residual: Any) -> Any:
        workload = product.workload
        reason = registry.why_not_tunable(workload, self._target)
        if reason is not None:
            self.layers.append(Layer(product.nodes, "default", workload, reason=reason))
            return _default_product(product, data, residual)
        config = self._picks.get(workload.key)
        source: Source = "analysis" if config is None else "log"
        if config is None:
            config = registry.recommendations(workload, self._target, self._numerics)[0]
        else:
            space = registry.search_space(workload, self._target, self._numerics)
            why_not = space.why_not(config)
            if why_not is not None:
                raise ValueError(f"the config for {workload} cannot be used: {why_not}")
        record = self._measured.get(workload.key) if source == "log" else None
        figures = (record.ranking_s, record.max_error) if record else (None, None)
        computes = registry.numerics_of(workload, config)
        self.layers.append(Layer(product.nodes, source, workload, config, computes, *figures))
        kernel = registry.kernel(config.kernel)
        packed = kernel.pack(workload, config, self._target, product.weights())
        arguments = [data, relax.const(np.ascontiguousarray(packed, np.float32))]
        if product.bias is not None:
            arguments.append(relax.const(product.bias))
        if residual is not None:
            arguments.append(residual)
        function = self._function(builder, product, config)
        return relax.call_tir(function, arguments, relax.TensorType(workload.out_shape, "float32"))

    def _function(self, builder: Any, product: Product, config: Config) -> Any:
        """The kernel's function, one for all products that share workload and config."""
        workload = product.workload
        if (workload.key, config) not in self._functions:
            name = f"tilefleet_{config.kernel}_{workload.key}"
            kernel = registry.kernel(config.kernel)
            function = kernel.build(workload, config, self._target, self._threads, name)
            function = function.with_attr({"op_pattern": OPAQUE, KERNEL_ATTRIBUTE: True})
            self._functions[workload.key, config] = builder.add_func(function, name)
        return self._functions[workload.key, config]


def _default_product(product: Product, data: Any, residual: Any) -> Any:
    """The product in Relax operators, for TVM to lower."""
    workload = product.workload
    weights = relax.const(product.weights())
    if isinstance(workload, Conv2d):
        value = relax.op.nn.conv2d(
            data, weights, list(workload.stride), list(workload.pad), list(workload.dilation), workload.groups
        )
    else:
        value = relax.op.matmul(data, weights)
    if product.bias is not None:
        shape = (1, -1, 1, 1) if isinstance(workload, Conv2d) else (1, -1)
        value = relax.op.add(value, relax.const(product.bias.reshape(shape)))
    if residual is not None:
        value = relax.op.add(value, residual)
    low, high = workload.epilogue.clamp or (None, None)
    if low is not None:
        value = relax.op.maximum(value, relax.const(np.float32(low)))
    if high is not None:
        value = relax.op.minimum(value, relax.const(np.float32(high)))
    return value
