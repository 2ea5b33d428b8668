"""What pages of other sites may ask for through a visitor's browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient

from server.app import create_app
from server.http.dashboard_page import PATHS
from server.settings import Settings


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_reaches_pages_alone(tmp_path: Path, site: str) -> None:
    app = create_app(Settings(home=tmp_path, allowed_hosts=("testserver",)), FakeEngine().open)
    paths = app.openapi()["paths"]
    assert len(paths) > 30
    with TestClient(app) as client:
        for path in [*paths, "/openapi.json", "/api/", "/api/v1/nothing", "/health/"]:
            for mode in ("no-cors", "navigate", "cors"):
                headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
                for method in ("GET", "POST", "DELETE", "HEAD"):
                    refused = client.request(method, path.replace("{", "").replace("}", ""), headers=headers)
                    assert refused.status_code == 403, (method, path)
                    assert refused.headers["content-type"] == "application/problem+json"
        for path in (*PATHS, "/docs"):
            led = client.get(path, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"})
            assert led.status_code in (200, 503), path  # 503 where the dashboard was not built
            image = client.get(path, headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"})
            assert image.status_code == 403
        for own in ("same-origin", "none"):
            assert client.get("/api/v1/jobs", headers={"Sec-Fetch-Site": own}).status_code == 200
        for origin in (
            "http://evil.example",
            "null",
            "http://testserver:81",
            "http://testserver.evil.example",
        ):
            for path in ("/api/v1/jobs", "/health", "/metrics", "/openapi.json", "/api/v1/records/log"):
                refused = client.get(path, headers={"Origin": origin})
                assert refused.status_code == 403, (origin, path)
            assert client.get("/docs", headers={"Origin": origin}).status_code == 200
        assert client.get("/api/v1/jobs", headers={"Origin": "http://testserver"}).status_code == 200
        odd = client.post("/api/v1/jobs", headers={"Origin": "http://[::1"})
        assert odd.status_code == 403


def test_browsers_take_no_answer_for_something_else(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path, allowed_hosts=("testserver",)), FakeEngine().open)
    with TestClient(app) as client:
        for path in ("/", "/docs", "/api/v1/jobs", "/api/v1/nothing", "/health", "/metrics", "/openapi.json"):
            answer = client.get(path)
            assert answer.headers["x-content-type-options"] == "nosniff", path
            assert answer.headers["cross-origin-resource-policy"] == "same-origin", path
        page = client.get("/docs")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self' 'nonce-" in policy
        nonce = policy.partition("'nonce-")[2].partition("'")[0]
        assert page.text.count("<script") == 2
        assert f'<script nonce="{nonce}">' in page.text
        assert "<script>" not in page.text
