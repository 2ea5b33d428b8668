"""Runs under an emulated Python: models by LiteRT, and what the simulated clock counts for one call of each.

python litert_guest.py PAGE MODEL...

Next to each model lies its input, MODEL.npy; its output is left in MODEL.out.npy. Prints a line of JSON each.
Knows nothing of the project: the emulated Python has only LiteRT and numpy.
"""

import ctypes
import json
import mmap
import struct
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

# worker/agent/simulation_page.h
GETPID, CALL, PUBLISH, RESET = 172, 0x53494D43, 0, 1
COUNTERS_AT, TICKS_PER_CYCLE = 80, 240
NAMES = ("cycles", "instructions", "loads", "stores", "l1_misses", "l2_misses")


def main() -> None:
    """Time the models in turn."""
    with open(sys.argv[1], "rb") as file:  # noqa: PTH123  # as plain as can be
        page = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ)
    system = ctypes.CDLL(None)

    def counters(request: int = PUBLISH) -> tuple[int, ...]:
        system.syscall(*map(ctypes.c_long, (GETPID, CALL, request, 0, 0)))
        return struct.unpack_from(f"<{len(NAMES)}Q", page, COUNTERS_AT)

    for model in sys.argv[2:]:
        interpreter = Interpreter(model, num_threads=1)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.load(f"{model}.npy"))
        interpreter.invoke()
        counters(RESET)
        interpreter.invoke()
        before = counters()
        interpreter.invoke()
        spent = dict(zip(NAMES, (b - a for a, b in zip(before, counters(), strict=True)), strict=True))
        spent["cycles"] //= TICKS_PER_CYCLE
        np.save(f"{model}.out.npy", interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        print(json.dumps(spent), flush=True)


main()
