"""Addresses that are none: what a browser gets, and what a script gets."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/nope", "/jobs/1/2", "/apis"])
def test_a_browser_gets_a_page_that_says_so(client: TestClient, path: str) -> None:
    answer = client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "Content-Security-Policy" in answer.headers
    assert 'id="root"' in answer.text


@pytest.mark.parametrize(
    ("method", "path", "accept"),
    [
        ("GET", "/nope", "*/*"),
        ("GET", "/nope", "application/json"),
        ("POST", "/nope", BROWSER["accept"]),
        ("GET", "/api", BROWSER["accept"]),
        ("GET", "/api/v1/nope", BROWSER["accept"]),
        ("GET", "/api/v1/jobs/999999", BROWSER["accept"]),
        ("GET", "/assets/nope.js", BROWSER["accept"]),
    ],
)
def test_whoever_reads_no_pages_gets_a_problem(
    client: TestClient, method: str, path: str, accept: str
) -> None:
    answer = client.request(method, path, headers={"accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["instance"] == path
