"""Imported by a nursery before it forks: what each child would otherwise find slow the first time.

Making the checked readers of workloads and targets and numpy's generators takes 80 ms, more than all else
that a measuring child does before it has its session.
"""

import numpy as np

from kernels import target as targets
from kernels.reference import max_error, random_inputs, reference
from kernels.workload import base as workloads

for _workload in (
    workloads.Gemm(1, 1, 1),
    workloads.Conv2d(1, 1, 1, 1, 1, 1, 1),
    workloads.QConv2d(1, 1, 1, 1, 1, 1, 1),
):
    _read = workloads.from_json(workloads.to_json(_workload))
    _result = reference(_read, random_inputs(_read, np.random.default_rng()))
    max_error(_result, _result)
targets.from_json(targets.to_json(targets.CATALOGUE["x86-avx2"]))
