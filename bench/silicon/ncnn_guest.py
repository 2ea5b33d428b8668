"""One network of ncnn's benchmark inside an emulated Python: ``python -m bench.silicon.ncnn_guest``.

``PARAM SIDE THREADS PAGE``: a network's description, the side of its square input, threads, and the page of
the simulated clock. Weights are zeros, the input 0.01 and the settings ncnn's own, as its benchmark has them.
Prints the cycles of a call after one that brought all into the caches.
"""

from __future__ import annotations

import json
import sys

import ncnn

from tuner.runtimes.alone import simulated


def main(param: str, side: int, threads: int, page: str) -> float:
    """The cycles of a call."""
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


def run(net: ncnn.Net, data: ncnn.Mat) -> None:
    """One call with the same data for all inputs."""
    with net.create_extractor() as extractor:
        for name in net.input_names():
            extractor.input(name, data)
        for name in net.output_names():
            extractor.extract(name)


if __name__ == "__main__":
    print(json.dumps({"cycles": main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])}))
