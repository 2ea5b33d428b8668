"""A board that lies about its times, counters and sensors: ``python lying_board.py PORT LIE``."""

import json
import struct
import sys
import time
from functools import partial

LIES = {
    "negative": [-5.527e-06],
    "nan": [float("nan")],
    "infinite": [float("inf")],
    "too_fast": [1e-15],
    "subnormal": [5e-324],
    "one_of_several": [1e-4, -1e-4],
}
STATS = {
    "sensors": {"simulated": False, "temperature_c": "hot<img src=x>", "frequency_mhz": float("nan")},
    "counters": {"simulated": True, "cycles": {"a": 1}},
}


def lie_of(lie):
    """Runs in the server's process, which forks for each session."""
    import tvm_ffi

    times = LIES.get(lie, [1e-4])

    def evaluator(*arguments):
        repeat = next(value for value in arguments[5:] if isinstance(value, int))
        function = arguments[0].get_function(arguments[1])

        def evaluate(*tensors):
            function(*tensors)
            return struct.pack(f"@{repeat}d", *(times * repeat)[:repeat])

        return evaluate

    tvm_ffi.register_global_func("runtime.RPCTimeEvaluator", evaluator, override=True)
    if lie in STATS:
        tvm_ffi.register_global_func("tilefleet.stats", lambda: json.dumps(STATS[lie]))
        tvm_ffi.register_global_func("tilefleet.cold_weights", lambda *_: None)


def serve(port, lie):
    from tvm import rpc

    server = rpc.Server("127.0.0.1", port, port + 1, key="liar", server_init_callback=partial(lie_of, lie))
    print(server.port, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
