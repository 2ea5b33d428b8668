"""The dashboard's bench, small."""

from __future__ import annotations

import os
import shutil

import pytest

from bench import dashboard
from server.http.dashboard_page import BUILT


def test_pages_are_opened_and_timed() -> None:
    if shutil.which("chromium") is None or not BUILT.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("chromium or the built dashboard is missing")
        pytest.skip("chromium or the built dashboard is missing: make test installs them")
    found = dashboard.pages(trials=200, loads=1)
    assert list(found) == [
        "first page",
        "jobs",
        "job of 200 trials",
        "job of 500 layers",
        "that job beside the other",
        "graph of 500 layers",
    ]
    assert all(each["median_s"] > 0 for each in found.values())
    assert all(
        found["graph of 500 layers"][moved]["frames"] > 0
        for moved in ("dragged as a whole", "zoomed", "dragged near")
    )
