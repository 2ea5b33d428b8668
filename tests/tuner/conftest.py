"""What tests need that run what they build."""

from pathlib import Path

import pytest


@pytest.fixture
def avx2():
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("needs AVX2 to run what it builds")
