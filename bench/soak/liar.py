"""A board that lies about its times, counters and sensors: ``python -m bench.soak.liar PORT LIE``.

TVM's own RPC server. ``LIE`` is one of LIES, PLAUSIBLE or STATS; any other word, and it is honest.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

LIES = {
    "negative": [-5.527e-06],
    "nan": [float("nan")],
    "infinite": [float("inf")],
    "too_fast": [1e-15],
    "subnormal": [5e-324],
    "one_of_several": [1e-4, -1e-4],
    "longer_than_it_took": [1e4],
}
"""What it says that repeats of a call took, in seconds."""
PLAUSIBLE = {"fiftieth": [2e-6]}
"""What small workloads may take, but the reference kernel on no machine: 0.02 of what a core needs."""
STATS: dict[str, dict[str, Any]] = {
    "sensors": {"simulated": False, "temperature_c": "hot<img src=x>", "frequency_mhz": float("nan")},
    "counters": {"simulated": True, "cycles": {"a": 1}},
}


def lie_of(lie: str) -> None:
    """Register the lie. Runs in the server's process, which forks for each session."""
    import tvm_ffi

    times_of = {**LIES, **PLAUSIBLE}
    if lie not in times_of and lie not in STATS:
        return
    times = times_of.get(lie, [1e-4])

    def evaluator(*arguments: Any) -> Callable[..., bytes]:
        repeat = next(value for value in arguments[5:] if isinstance(value, int))
        function = arguments[0].get_function(arguments[1])

        def evaluate(*tensors: Any) -> bytes:
            function(*tensors)
            return struct.pack(f"@{repeat}d", *(times * repeat)[:repeat])

        return evaluate

    tvm_ffi.register_global_func("runtime.RPCTimeEvaluator", evaluator, override=True)
    if lie in STATS:
        tvm_ffi.register_global_func("tilefleet.stats", lambda: json.dumps(STATS[lie]))
        tvm_ffi.register_global_func("tilefleet.cold_weights", lambda *_: None)


def serve(port: int, lie: str) -> None:
    """Serve until killed."""
    from tvm import rpc

    server = rpc.Server("127.0.0.1", port, port + 1, key="liar", server_init_callback=partial(lie_of, lie))
    print(server.port, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
