"""Self-tests of the tool chain, a process each (``python -m tilefleet.selftest NAME``): they may crash."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def zig(folder: Path) -> str:
    """Compile and link a C function, load it, call it."""
    source, library = folder / "answer.c", folder / "answer.so"
    source.write_text("int answer(int x) { return 6 * x; }\n")
    command = [
        sys.executable,
        "-P",
        "-m",
        "ziglang",
        "cc",
        "-O2",
        "-shared",
        "-nostdlib",
        "-o",
        str(library),
        str(source),
    ]
    subprocess.run(command, check=True)
    if ctypes.CDLL(str(library)).answer(7) != 42:
        raise SystemExit("the linked function gives a wrong result")
    release = subprocess.run(
        [sys.executable, "-P", "-m", "ziglang", "version"], check=True, capture_output=True, text=True
    )
    return f"zig {release.stdout.strip()} compiles and links"


def host(folder: Path) -> str:
    """Say what code is generated for here."""
    from worker.measure.host import host_target

    target = host_target()
    return f"{', '.join(target.instruction_sets)}; code for {target.cpu}"


def tvm(folder: Path) -> str:
    """Compile one of our kernels for this machine, run it here, compare with the reference."""
    import tvm

    from kernels import registry
    from kernels.emit.compile import compile_module
    from kernels.reference import random_inputs, reference
    from kernels.workload.base import Gemm
    from worker.measure.host import host_target

    workload, target = Gemm(m=5, n=24, k=16), host_target()
    config = registry.recommendations(workload, target)[0]
    kernel = registry.kernel(config.kernel)
    run = compile_module(kernel.build(workload, config, target, 1, "selftest"), target)["selftest"]
    data, weights = inputs = random_inputs(workload, np.random.default_rng(0))
    out = tvm.runtime.tensor(np.zeros(workload.out_shape, np.float32))
    packed = kernel.pack(workload, config, target, weights)
    run(tvm.runtime.tensor(data), tvm.runtime.tensor(packed), out)
    expected = reference(workload, inputs)
    error = float(np.abs(out.numpy() - expected).max() / np.abs(expected).max())
    if not error < 1e-5:
        raise SystemExit(f"a compiled kernel is wrong: largest relative error {error:.2g}")
    return f"{tvm.__version__} compiles a kernel for {target.cpu}; largest relative error {error:.1g}"


def lightgbm(folder: Path) -> str:
    """Fit the kind of model that the search learns."""
    import lightgbm

    features = np.random.default_rng(0).random((64, 4))
    options = {"objective": "regression", "verbose": -1, "num_threads": 1}
    model = lightgbm.train(options, lightgbm.Dataset(features, features[:, 0]), num_boost_round=5)
    if not np.isfinite(model.predict(features)).all():
        raise SystemExit("the fitted model predicts nonsense")
    return f"{lightgbm.__version__} fits and predicts"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tilefleet-selftest-") as name:
        print({"zig": zig, "host": host, "tvm": tvm, "lightgbm": lightgbm}[sys.argv[1]](Path(name)))
