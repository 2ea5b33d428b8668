"""Memory and processor time to read a model of many trees, beside onnxruntime, each in its own process.

    python -m bench.trees [--trees 3000] [--nodes 1600]

The trees look like those of LightGBM's converter: uneven depths, and NaN that takes either branch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import AttributeProto, ModelProto, TensorProto, helper

FEATURES = 100
READERS = {
    "tilefleet": "from compiler.load import load_graph; load_graph({path!r})",
    "onnxruntime": "onnxruntime.InferenceSession({path!r}, providers=['CPUExecutionProvider'])",
}
IMPORTS = {"tilefleet": "import compiler.load", "onnxruntime": "import onnxruntime"}
CHILD = """
import re, resource
{imports}
def most(): return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
def seconds(): u = resource.getrusage(resource.RUSAGE_SELF); return u.ru_utime + u.ru_stime
before, start = most(), seconds()
{read}
print(before, most(), seconds() - start)
"""


def tree(inner: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The children of ``inner`` decision nodes of a random tree; nodes from ``inner`` on are leaves."""
    ways = np.full((inner, 2), -1)
    for node in range(1, inner):
        at = int(rng.integers(0, node))
        side = int(rng.integers(0, 2))
        while ways[at, side] >= 0:
            at, side = int(ways[at, side]), int(rng.integers(0, 2))
        ways[at, side] = node
    leaves = np.flatnonzero(ways.reshape(-1) < 0)
    ways.reshape(-1)[leaves] = inner + np.arange(len(leaves))
    return ways[:, 0], ways[:, 1]


def ensemble(trees: int, nodes: int, seed: int = 0) -> ModelProto:
    """A TreeEnsembleRegressor with ``trees`` of ``nodes`` each; half of the nodes are leaves."""
    rng, inner = np.random.default_rng(seed), max(nodes // 2, 1)
    count = 2 * inner + 1
    shapes = [tree(inner, rng) for _ in range(8)]
    here = np.arange(trees)
    none = np.zeros(inner + 1, np.int64)
    yes, no = (
        np.concatenate([np.concatenate([shapes[at % len(shapes)][way], none]) for at in here])
        for way in (0, 1)
    )
    asks = np.tile(np.arange(count) < inner, trees)
    whole: dict[str, Any] = {
        "nodes_treeids": np.repeat(here, count),
        "nodes_nodeids": np.tile(np.arange(count), trees),
        "nodes_featureids": np.where(asks, rng.integers(0, FEATURES, trees * count), 0),
        "nodes_truenodeids": yes,
        "nodes_falsenodeids": no,
        "nodes_missing_value_tracks_true": rng.integers(0, 2, trees * count) * asks,
        "target_treeids": np.repeat(here, inner + 1),
        "target_nodeids": np.tile(np.arange(inner, count), trees),
        "target_ids": np.zeros(trees * (inner + 1), np.int64),
    }
    floats = {
        "nodes_values": np.where(asks, rng.standard_normal(trees * count), 0).astype(np.float32),
        "nodes_hitrates": np.ones(trees * count, np.float32),
        "target_weights": (rng.standard_normal(trees * (inner + 1)) / trees).astype(np.float32),
    }
    made = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, post_transform="NONE"
    )
    # Not by the helpers of onnx, which look at each number.
    for name, value in whole.items():
        made.attribute.add(name=name, type=AttributeProto.INTS).ints.extend(value.tolist())
    for name, value in floats.items():
        made.attribute.add(name=name, type=AttributeProto.FLOATS).floats.extend(value.tolist())
    modes = np.where(asks, b"BRANCH_LEQ", b"LEAF").tolist()
    made.attribute.add(name="nodes_modes", type=AttributeProto.STRINGS).strings.extend(modes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, FEATURES])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])]
    graph = helper.make_graph([made], "trees", inputs, outputs)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def cost(reader: str, path: Path) -> tuple[int, int, float]:
    """(bytes before, bytes at the most, seconds of processor) that one of ``READERS`` takes for a file."""
    program = CHILD.format(imports=IMPORTS[reader], read=READERS[reader].format(path=str(path)))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, most, seconds = done.stdout.split()
    return int(before), int(most), float(seconds)


def main() -> None:
    """Print what both take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=3000)
    parser.add_argument("--nodes", type=int, default=1600)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trees.onnx"
        # In its own process: making the model counts for neither reader.
        pid = os.fork()
        if not pid:
            path.write_bytes(ensemble(given.trees, given.nodes).SerializeToString())
            os._exit(0)
        os.waitpid(pid, 0)
        size = path.stat().st_size
        print(f"{given.trees} trees of {given.nodes} nodes: {size / 1e6:.0f} MB")
        for reader in READERS:
            before, most, seconds = cost(reader, path)
            print(f"{reader:12} {(most - before) / size:5.2f} times the file's size, {seconds:6.2f} s")


if __name__ == "__main__":
    main()
