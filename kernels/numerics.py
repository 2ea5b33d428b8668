"""How freely a kernel may compute: the choice between exact and relaxed numerics."""

from __future__ import annotations

from enum import StrEnum


class Numerics(StrEnum):
    """What a job, a query or a build allows.

    ``EXACT`` allows the sum of products that defines a workload, in any order, with or without fused
    multiply-adds; of floats no Winograd, in which other elements of a tile cancel: an infinity there would
    reach results that do not depend on it. Results of two exact configs differ in their last bits; those of
    integers do not differ at all. ``EXACT_INTEGERS``, the default, allows every algorithm for floats and
    exact ones for integers. ``RELAXED`` allows every algorithm, so 8-bit results may be one quantum off.
    """

    EXACT = "exact"
    EXACT_INTEGERS = "exact-integers"
    RELAXED = "relaxed"
