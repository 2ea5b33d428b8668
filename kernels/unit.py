"""What ``flops`` of a workload counts. By itself, as the API's schemas need nothing else of workloads."""

from typing import Literal

Unit = Literal["FLOP", "OP"]
"""Operations of floats, or of integers."""
