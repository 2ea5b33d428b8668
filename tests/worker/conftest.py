import pytest

from worker.nursery import Nursery


@pytest.fixture(scope="session")
def nursery():
    """One nursery that has TVM and the kernels; the tests share it, as nobody can damage it for others."""
    with Nursery() as nursery:
        yield nursery
