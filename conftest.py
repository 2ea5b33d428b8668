"""For all tests: the loop of coroutines, pytest-xdist's groups, and the end of a killed run's processes."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from _pytest.nodeid import coerce_node_id

GUARD = Path(__file__).parent / "tests/process_guard.py"
MARK = "TILEFLEET_TEST_RUN"


def pytest_addoption(parser: pytest.Parser) -> None:
    """What takes too long for every run."""
    parser.addoption(
        "--all-operators", action="store_true", help="sanitize the C libraries of all one-operator models"
    )


def pytest_configure() -> None:
    """Watch over a run; workers of pytest-xdist belong to the one that started them."""
    if MARK in os.environ:
        return
    # Of all runs together, as builds share it, but not that of a user.
    os.environ.setdefault("TILEFLEET_CACHE", f"{tempfile.gettempdir()}/tilefleet-test-objects-{os.getuid()}")
    os.environ[MARK] = mark = f"{MARK}={uuid4().hex}"
    # The pipe closes with this process, however that ends.
    subprocess.Popen([sys.executable, str(GUARD), mark], stdin=subprocess.PIPE, start_new_session=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of a group the names by which pytest-xdist 3.8 knows them; pytest 9.2 ignores where it
    writes them itself."""
    for item in items:
        if named := vars(item).get("_nodeid"):
            item._id = coerce_node_id(named)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop; its module says by ``LOOP`` if in one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    with asyncio.Runner(loop_factory=getattr(pyfuncitem.module, "LOOP", None)) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True
