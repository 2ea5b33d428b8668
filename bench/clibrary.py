"""A model as a C library beside its module in TVM: time in turns, resident memory, sizes.

``python -m bench.clibrary MODEL.onnx [--threads 1] [--rounds 15] [--json FILE]`` builds both for this
machine without a log. One thread is timed by the processor time, several by the wall's clock: then the
library has the pool that is in its example and in its wheel.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.timing import limit_threads, pin
from tuner.runtimes.turns import take_turns
from worker.fleet.drivers.agent_build import STATIC

RESIDENT = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"
static void *memory(size_t bytes) { return memset(aligned_alloc(64, (bytes + 63) / 64 * 64), 0, bytes); }
int main(void) {
  static const void *in[NET_INPUTS];
  static void *out[NET_OUTPUTS];
  char line[200];
  FILE *status;
  for (int i = 0; i < NET_INPUTS; i++) in[i] = memory(net_input_bytes(i));
  for (int i = 0; i < NET_OUTPUTS; i++) out[i] = memory(net_output_bytes(i));
  if (net_run(aligned_alloc(64, net_arena_bytes()), in, out)) return 1;
  status = fopen("/proc/self/status", "r");
  while (status && fgets(line, sizeof line, status))
    if (!strncmp(line, "VmHWM:", 6)) fputs(line + 6, stdout);
  return 0;
}
"""
"""Runs the model once and prints its resident memory at the most, in kB."""


def main() -> None:
    """Print the figures, and write them as JSON where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    limit_threads(options.threads)
    pin(options.threads)
    found = compare(options.model, options.rounds, options.threads)
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps(found))


def compare(model: Path, rounds: int, threads: int = 1) -> dict[str, Any]:
    """The figures of ``model``; times are medians of seconds a run."""
    # Here, so that TVM sees how many threads it may have.
    import tvm
    from tvm import relax

    from kernels.numerics import Numerics
    from tuner.backend.apply import build_model
    from tuner.backend.draws import random_feeds
    from tuner.clibrary.build import Model, make, write
    from tuner.clibrary.elf import code_bytes
    from tuner.clibrary.loaded import Loaded
    from tuner.clibrary.wheel import link_loadable
    from worker.measure.host import host_target

    target = host_target()
    made = make(
        Model(model, None, [], [], Numerics.EXACT_INTEGERS, threads),
        [target],
        "net",
        model.name,
        "",
        embed=True,
    )
    library, (variant,) = made.library, made.library.variants
    with tempfile.TemporaryDirectory(prefix="tilefleet-") as scratch:
        folder = Path(scratch)
        write(made, folder)
        link_loadable(library, sorted(folder.glob("net*.o")), folder / "net.so")
        loaded = Loaded(folder / "net.so", "net", threads=threads)
        resident = resident_bytes(folder)
        code = {part: code_bytes((folder / f"{part}.o").read_bytes()) for part in ("net", "net_kernels_0")}
    inputs = list(random_feeds({port.name: (port.shape, port.dtype) for port in library.inputs}).values())
    executable, _ = build_model(model, {}, target, threads)
    module = relax.VirtualMachine(executable, tvm.cpu())["main"]
    tensors = [tvm.runtime.tensor(each) for each in inputs]
    turns = take_turns({"library": loaded.caller(inputs), "module": lambda: module(*tensors)}, rounds)
    ours, theirs = (turns[each].fair(threads) for each in ("library", "module"))
    ports = sum(port.bytes for port in (*library.inputs, *library.outputs))
    weights, arena = len(library.weights.data), variant.arena
    return {
        "model": model.name,
        "threads": threads,
        "library_s": statistics.median(ours),
        "module_s": statistics.median(theirs),
        "ratio": statistics.median(one / other for one, other in zip(ours, theirs, strict=True)),
        "arena_bytes": arena.bytes,
        "arena_bound": arena.bound,
        "unshared_bytes": arena.unshared,
        "weights_bytes": weights,
        "kernel_bytes": code["net_kernels_0"],
        "code_bytes": code["net"],
        "resident_bytes": resident,
        "resident_beside": resident - weights - library.arena_bytes - ports,
    }


def resident_bytes(folder: Path) -> int:
    """Bytes that a static program takes that runs the library once."""
    (folder / "resident.c").write_text(RESIDENT)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-musl", *STATIC, "-std=c11"]
    subprocess.run(
        [*command, "resident.c", "libnet.a", "-o", "resident"],
        cwd=folder,
        check=True,
        timeout=600,
    )
    told = subprocess.run(
        [folder / "resident"], capture_output=True, text=True, check=True, timeout=600
    ).stdout.split()
    return int(told[0]) * 1024


if __name__ == "__main__":
    main()
