"""The bench that compares C libraries of the corpus with their modules, on a model that it makes itself."""

from pathlib import Path

import pytest
from benches import bench


def test_a_made_model(tmp_path: Path) -> None:
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2 to run what it builds")
    (row,) = bench("clibrary_bits", tmp_path, "--only", "conv1d")["rows"]
    assert row["same_bits"]
    assert row["arena_bound"] <= row["arena_bytes"] <= 1.05 * row["arena_bound"]
    assert row["code_bytes"] < 64 * 1024
    assert row["resident_beside"] < 1 << 20
