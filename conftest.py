"""For all tests: what keeps groups of pytest-xdist together."""

from __future__ import annotations

import pytest
from _pytest.nodeid import coerce_node_id


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of a group the names by which pytest-xdist 3.8 knows them; pytest 9.2 ignores where it
    writes them itself."""
    for item in items:
        if named := vars(item).get("_nodeid"):
            item._id = coerce_node_id(named)
