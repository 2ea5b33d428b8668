"""Loads and cache misses of SConv and of im2col + OpenBLAS on x86, by valgrind (seed 003, figure 11).

python -m bench.conv_misses --suite bench/sconv393.csv --sample 24 --seed 1 --json FILE

Both are code for vectors of 256 bits, as valgrind knows no AVX-512, and have the caches of the paper's x86,
by which ours is analysed, too: ours by the analysis's config, the peer by NumPy's OpenBLAS with its core for
Haswell. What is counted is the second call, with what stays in the caches there. valgrind models two levels,
so each side runs twice, with L2 and with L3 as the last; L3 sees what misses L1 then. There is no
prefetcher. FILE is written after every layer, the small ones first; called again with the same settings, the
bench goes on.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench import journal
from bench.simulated import candidates
from bench.suite import Layer, read_suite, sample
from kernels.kernel import Array
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d

SETTINGS = ("suite", "seed")
KB = 1024
L1, L2, L3 = "32768,8,64", f"{KB * KB},16,64", f"{4 * KB * KB},16,64"
"""Bytes, ways, bytes of a line: table 1 of the paper has the sizes."""
TARGET = replace(
    CATALOGUE["x86-avx2"], features=("-fma",), l1_bytes=32 * KB, l2_bytes=KB * KB, l3_bytes=4 * KB * KB
)
"""A product and a sum in place of each multiply-add, which valgrind takes ten times as long to emulate: loads
and misses are the same."""
FAMILY = "sconv"
CORE = "Haswell"
OFF = 1e-4
"""How far a result may be from the reference, relative to the largest value."""
_BUILD_S, _RUN_S = 600, 3600


class CannotCount(RuntimeError):
    """Nothing can be counted here; the message says why in one line."""


def main() -> None:
    """Run the bench and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.conv_misses", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--suite", type=Path, required=True, help="CSV of layers, columns as bench/suite.py")
    parser.add_argument("--sample", default="24", help="how many layers to draw, or all (default 24)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all figures here, and continue what is there")
    arguments = parser.parse_args()
    settings = {name: getattr(arguments, name) for name in SETTINGS} | {"suite": arguments.suite.stem}
    try:
        count = 0 if arguments.sample == "all" else int(arguments.sample)
        layers = sample(read_suite(arguments.suite), count, arguments.seed)
        layers.sort(key=lambda layer: layer.conv.flops)
        report = journal.opened(arguments.json, "conv_misses", settings)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rows = report.setdefault("rows", [])
    done = {row["layer"] for row in rows}
    with tempfile.TemporaryDirectory(prefix="tilefleet-misses-") as name:
        try:
            counter = Counter.built(Path(name))
        except CannotCount as reason:
            raise SystemExit(f"bench.conv_misses: {reason}") from None
        for layer in layers:
            if layer.name not in done:
                rows.append(counter.row(layer))
                journal.save(arguments.json, report)
                print(line(rows[-1]), flush=True)
    print(summary(rows))


@dataclass(frozen=True)
class Counter:
    """The program that valgrind runs (bench/misses_guest.c), in ``folder``."""

    folder: Path

    @classmethod
    def built(cls, folder: Path) -> Counter:
        """Compile the program into ``folder``; raises CannotCount where this machine cannot run it."""
        if not shutil.which("valgrind"):
            raise CannotCount("valgrind is not installed")
        if os.uname().machine != "x86_64":
            raise CannotCount(f"this machine is no x86 but {os.uname().machine}")
        source = Path(__file__).with_name("misses_guest.c")
        options = [
            "-target",
            "x86_64-linux-gnu",
            f"-mcpu={TARGET.cpu.replace('-', '_')}",
            "-O3",
            "-std=gnu11",
        ]
        command = [sys.executable, "-m", "ziglang", "cc", *options, "-rdynamic", str(source), "-ldl"]
        subprocess.run([*command, "-o", str(folder / "guest")], check=True, timeout=_BUILD_S)
        return cls(folder)

    def row(self, layer: Layer) -> dict[str, Any]:
        """The counters of both sides; raises SystemExit when a result is off."""
        conv = layer.conv
        configs = candidates(conv, TARGET, 1, [FAMILY])
        if not configs:
            raise SystemExit(f"bench.conv_misses: {FAMILY} does not compute {conv}")
        inputs = random_inputs(conv)
        return {
            "layer": layer.name,
            "text": str(conv),
            "count": layer.count,
            "tuned": {**self._ours(conv, configs[0], inputs), "config": configs[0].to_json()},
            "base": {"core": CORE, "call": self._base(conv, inputs)},
        }

    def _ours(self, conv: Conv2d, config: Config, inputs: Sequence[Array]) -> dict[str, int]:
        from kernels import registry
        from kernels.emit.compile import compile_object
        from worker.build.toolchain import link

        kernel = registry.kernel(config.kernel)
        packed = kernel.pack(conv, config, TARGET, inputs[1])
        library = self.folder / "ours.so"
        library.write_bytes(link(compile_object(kernel.build(conv, config, TARGET, 1, "main"), TARGET)))
        shapes = (conv.data_shape, packed.shape, conv.out_shape)
        text = " ".join(" ".join(map(str, (len(shape), *shape))) for shape in shapes)
        return self._counted("ours", library, conv, (inputs[0], packed), inputs, text)

    def _base(self, conv: Conv2d, inputs: Sequence[Array]) -> dict[str, int]:
        numbers = (
            *(conv.in_c, conv.in_h, conv.in_w, conv.out_c, conv.kh, conv.kw, *conv.stride),
            *(*conv.pad[:2], *conv.dilation, conv.out_h, conv.out_w),
        )
        text = " ".join(map(str, numbers))
        return self._counted("base", openblas(), conv, inputs, inputs, text)

    def _counted(
        self,
        side: str,
        library: Path,
        conv: Conv2d,
        given: Sequence[Array],
        inputs: Sequence[Array],
        text: str,
    ) -> dict[str, int]:
        from kernels.reference import reference

        paths = [self.folder / f"{side}.{name}" for name in ("data", "weights", "result")]
        for path, array in zip(paths, given, strict=False):
            np.ascontiguousarray(array, np.float32).tofile(path)
        expected = reference(conv, list(inputs))
        found: dict[str, int] = {}
        for level, size in (("l2", L2), ("l3", L3)):
            events = self._run(size, [side, str(library), *map(str, paths)], text)
            found |= {"loads": events["Dr"], "stores": events["Dw"], "l1_misses": events["D1mr"]}
            found |= {"instructions": events["Ir"], f"{level}_misses": events["DLmr"]}
            result = np.fromfile(paths[2], np.float32).reshape(conv.out_shape)
            off = float(np.abs(result - expected).max() / np.abs(expected).max())
            if not off <= OFF:
                raise SystemExit(f"bench.conv_misses: {side} is off by {off:.1e} on {conv}")
        return found

    def _run(self, last: str, arguments: Sequence[str], text: str) -> dict[str, int]:
        """Events of ``counted`` by their names, with a last level of cache like ``last``."""
        out = self.folder / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", f"--callgrind-out-file={out}"]
        command += ["--collect-atstart=no", "--toggle-collect=counted", f"--D1={L1}", f"--I1={L1}"]
        command += [f"--LL={last}", str(self.folder / "guest"), *arguments]
        environment = {**os.environ, "OPENBLAS_CORETYPE": CORE, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_RUN_S, env=environment, check=False
        )
        if done.returncode:
            raise SystemExit(f"bench.conv_misses: {' '.join(command)}: {done.stderr[:1500]}")
        if arguments[0] == "base" and done.stdout.strip() != CORE:
            raise SystemExit(f"bench.conv_misses: OpenBLAS chose {done.stdout.strip()}, not {CORE}")
        return events(out.read_text())


def events(text: str) -> dict[str, int]:
    """What callgrind counted, by the names of its events."""
    lines = dict(line.split(": ", 1) for line in text.splitlines() if line.startswith(("events:", "totals:")))
    names, totals = lines["events"].split(), map(int, lines["totals"].split())
    return {**dict.fromkeys(names, 0), **dict(zip(names, totals, strict=False))}


def random_inputs(conv: Conv2d) -> list[Array]:
    """Data and weights, float32 in NCHW."""
    from kernels import reference

    return reference.random_inputs(conv, np.random.default_rng(0))


def openblas() -> Path:
    """The library that NumPy multiplies by."""
    return next((Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas64_*.so"))


def line(row: dict[str, Any]) -> str:
    """One layer's figures, to be printed."""
    sides = []
    for name, found in (("SConv", row["tuned"]), ("Base", row["base"]["call"])):
        rates = " ".join(f"{level} {found[f'{level}_misses']}" for level in ("l1", "l2", "l3"))
        sides.append(f"{name} {found['loads'] / 1e6:.2f} M loads, misses {rates}")
    return f"{row['text']:40s} {' | '.join(sides)}"


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """What all rows say together, weighted by the occurrences."""

    def total(name: str) -> tuple[int, int]:
        sides = ([row["count"] * side[name] for side in (row["tuned"], row["base"]["call"])] for row in rows)
        ours, base = map(sum, zip(*sides, strict=True))
        return ours, base

    lines, loads = [], total("loads")
    for level in ("l1", "l2", "l3"):
        ours, base = total(f"{level}_misses")
        lines.append(
            f"{level}: {100 * ours / loads[0]:.3f} % of SConv's loads miss, {100 * base / loads[1]:.3f} % of "
            f"Base's; Base / SConv {base / max(1, ours):.2f}"
        )
    fewer = sum(row["count"] for row in rows if row["tuned"]["loads"] < row["base"]["call"]["loads"])
    return "\n".join([*lines, f"fewer loads: {fewer} of {sum(row['count'] for row in rows)} occurrences"])


if __name__ == "__main__":
    main()
