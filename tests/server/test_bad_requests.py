"""Requests that are wrong in themselves, and disks that are full."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from server_samples import conv_model

from server.settings import Settings


@pytest.mark.parametrize("path", ["jobs", "boards/x/drain", "boards/x/park", "boards/x/return"])
def test_a_body_that_is_no_text_is_unprocessable(client: TestClient, path: str) -> None:
    response = client.post(f"/api/v1/{path}", content=b"\xff", headers={"content-type": "application/json"})
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    assert "UTF-8" in response.json()["detail"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        *(("models", "GET, POST"), ("records", "GET, POST"), ("jobs", "GET, POST"), ("records/rate", "GET")),
        *(("records/log", "GET"), ("records/imported", "DELETE"), ("jobs/labels", "GET")),
    ],
)
def test_what_is_allowed_is_all_that_is(client: TestClient, path: str, methods: str) -> None:
    for method in {"PATCH", "DELETE", "OPTIONS"} - {methods}:
        response = client.request(method, f"/api/v1/{path}")
        assert (response.status_code, response.headers["allow"]) == (405, methods), method
        assert client.request(method, f"/api/v1/{path}?nonsense=1").status_code == 405
    assert client.request("DELETE", "/api/v1/jobs/x").status_code == 422  # not a path by a name of its own


@pytest.fixture
def small_disk(client: TestClient, settings: Settings) -> Iterator[Path]:
    """The folder of models on a disk of 64 KB."""
    folder = settings.home_dir / "models" / "incoming"
    if os.geteuid():
        pytest.skip("only root may mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("path", ["models", "records"])
def test_a_full_disk_is_said_by_its_folder(client: TestClient, small_disk: Path, path: str) -> None:
    response = client.post(f"/api/v1/{path}", content=conv_model() + bytes(200 << 10))
    assert response.status_code == 507, response.text
    assert str(small_disk) in response.json()["detail"]
    assert list(small_disk.iterdir()) == []


def test_the_state_folder_is_this_users_alone(client: TestClient, settings: Settings) -> None:
    assert settings.home_dir.stat().st_mode & 0o777 == 0o700
