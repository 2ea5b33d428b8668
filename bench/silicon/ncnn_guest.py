"""One network of ncnn's benchmark inside an emulated Python: ``python -m bench.silicon.ncnn_guest``.

``PARAM SIDE THREADS PAGE``: a network's description, the side of its square input, threads, and the page of
the simulated clock. Weights are zeros, the input 0.01 and the settings ncnn's own, as its benchmark has them.
Prints the cycles of a call after one that brought all into the caches.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from typing import Any

from tuner.runtimes.guest_clock import simulated


def main(param: str, side: int, threads: int, page: str) -> float:
    """The cycles of a call."""
    ncnn = _library()
    net = ncnn.Net()
    net.opt.num_threads = threads
    if net.load_param(param):
        raise SystemExit(f"ncnn does not read {param}")
    net.load_model(ncnn.DataReaderFromEmpty())
    clock, reset = simulated(page)
    data = ncnn.Mat(side, side, 3)
    data.fill(0.01)
    reset()
    run(net, data)
    began = clock()
    run(net, data)
    return clock() - began


def _library() -> Any:
    """ncnn's own library, without the package around it: that needs other packages in old versions."""
    found = importlib.util.find_spec("ncnn")
    sys.path[:0] = found.submodule_search_locations or [] if found else []
    import ncnn

    return ncnn


def run(net: Any, data: Any) -> None:
    """One call with the same data for all inputs."""
    extractor = net.create_extractor()
    for name in net.input_names():
        extractor.input(name, data)
    for name in net.output_names():
        extractor.extract(name)


if __name__ == "__main__":
    print(json.dumps({"cycles": main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])}))
