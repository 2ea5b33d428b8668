"""The OpenAPI document, and what every route has in common."""

from __future__ import annotations

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from pydantic import BaseModel

from server.app import create_app
from server.boards.schemas import Board, BoardEvent
from server.jobs.schemas import Job, Task
from server.records.schemas import Record
from server.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return create_app(Settings()).openapi()


def operations(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_is_described_and_every_error_a_problem(schema: dict[str, Any]) -> None:
    ids = []
    for method, path, operation in operations(schema):
        ids.append(operation["operationId"])
        assert operation["summary"], path
        assert operation["description"], path
        assert len(operation["tags"]) == 1, path
        for parameter in operation.get("parameters", []):
            assert parameter.get("description"), (path, parameter["name"])
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert list(answer["content"]) == ["application/problem+json"], (method, path, status)
                body = answer["content"]["application/problem+json"]
                assert body["example"]["status"] == int(status)
                assert body["schema"] == {"$ref": "#/components/schemas/ProblemBody"}
    assert len(ids) == len(set(ids))
    assert "HTTPValidationError" not in json.dumps(schema)
    tags = {tag["name"] for tag in schema["tags"]}
    assert tags == {operation["tags"][0] for _, _, operation in operations(schema)}


def test_links_lead_from_what_is_made_or_listed_to_all_that_takes_it(schema: dict[str, Any]) -> None:
    taking = {op["operationId"]: re.findall(r"{(\w+)}", path) for _, path, op in operations(schema)}
    linked: set[str] = set()
    for _, _, operation in operations(schema):
        for answer in operation["responses"].values():
            for link in answer.get("links", {}).values():
                (parameter,) = link["parameters"]
                assert parameter.removeprefix("path.") in taking[link["operationId"]]
                linked.add(link["operationId"])
    assert {id_ for id_, parameters in taking.items() if parameters} == linked


def test_every_resource_and_field_is_described(schema: dict[str, Any]) -> None:
    for name, model in schema["components"]["schemas"].items():
        assert name.isalnum(), name
        assert model.get("description") or "enum" in model, name
        for field, facts in model.get("properties", {}).items():
            assert facts.get("description") or "const" in facts, (name, field)


@pytest.mark.parametrize("resource", [Job, Task, Record, Board, BoardEvent])
def test_an_example_shows_the_whole_resource(schema: dict[str, Any], resource: type[BaseModel]) -> None:
    assert schema["components"]["schemas"][resource.__name__]["example"]
    extra: Any = resource.model_config["json_schema_extra"]  # the document lacks its nulls
    resource.model_validate(extra["example"])
    assert set(extra["example"]) == set(resource.model_fields)


def test_the_document_of_the_api_names_every_operation(schema: dict[str, Any]) -> None:
    document = (ROOT / "docs" / "api.md").read_text()
    for method, path, _ in operations(schema):
        short = (
            path.removeprefix("/api/v1")
            .replace("{job_id}", "{id}")
            .replace("{model_hash}", "{hash}")
            .replace("{board_id}", "{id}")
        )
        assert f"`{method} {short}" in document, f"{method} {short}"


@pytest.fixture
def quick(tmp_path: Path) -> TestClient:
    return TestClient(
        create_app(Settings(home=tmp_path, allowed_hosts=("testserver",)), FakeEngine().open),
        raise_server_exceptions=False,
    )


def test_service_routes(quick: TestClient) -> None:
    with quick as client:
        assert client.get("/health").json() == {"status": "ok"}
        version = client.get("/version").json()
        assert (version["api"], "tvm" in version["toolchain"]) == ("v1", True)
        assert client.get("/metrics").headers["content-type"].startswith("text/plain")
        assert "Tilefleet" in client.get("/docs").text


def test_unknown_paths_and_methods_are_problems(quick: TestClient) -> None:
    with quick as client:
        for method, path, status in (("GET", "/api/v1/nothing", 404), ("DELETE", "/api/v1/jobs", 405)):
            response = client.request(method, path)
            assert (response.status_code, response.json()["status"]) == (status, status)
            assert response.headers["content-type"] == "application/problem+json"


def test_other_hosts_are_refused(quick: TestClient) -> None:
    """A page of another site that got its name resolved to this machine."""
    with quick as client:
        refused = client.get("/health", headers={"Host": "evil.example:8470"})
        assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
        assert "'evil.example'" in refused.json()["detail"]
        assert "TILEFLEET_ALLOWED_HOSTS" in refused.json()["detail"]
        assert client.get("/health", headers={"Host": "TestServer:8470"}).status_code == 200


def test_pages_of_other_sites_read_and_change_nothing(quick: TestClient) -> None:
    with quick as client:
        url = "/api/v1/records"
        foreign = client.post(url, content=b"", headers={"Origin": "http://evil.example"})
        assert (foreign.status_code, foreign.json()["status"]) == (403, 403)
        assert client.post(url, content=b"", headers={"Origin": "http://testserver"}).status_code == 200
        assert client.post(url, content=b"").status_code == 200
        assert client.get(url, headers={"Origin": "http://evil.example"}).status_code == 403


def test_a_failure_shows_no_trace(quick: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with quick as client:

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("secret detail")

        monkeypatch.setattr("server.records.search.page", fail)
        response = client.get("/api/v1/records")
        assert (response.status_code, response.headers["content-type"]) == (500, "application/problem+json")
        assert "secret" not in response.text
        assert "Traceback" not in response.text


def test_a_lost_database_is_unhealthy(quick: TestClient, tmp_path: Path) -> None:
    with quick as client:
        database = client.app.state.services.db
        database.engine.dispose()
        for file in tmp_path.glob("tilefleet.sqlite3*"):
            file.unlink()
        (tmp_path / "tilefleet.sqlite3").mkdir()
        database.engine.dispose()  # what the service's own tasks have opened meanwhile
        response = client.get("/health")
        assert (response.status_code, "database" in response.json()["detail"]) == (503, True)
        jobs = client.get("/api/v1/jobs")
        assert (jobs.status_code, "database" in jobs.json()["detail"]) == (503, True)


def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    client = TestClient(create_app(Settings(home=str(tmp_path))), base_url="http://127.0.0.1")
    page = client.get("/docs")
    assert page.status_code == 200
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(addresses) == 3
    for address in addresses:
        assert address.startswith("/")
        assert client.get(address).status_code == 200


def test_the_dashboard_knows_the_api_as_it_is(schema: dict[str, Any]) -> None:
    """A wheel is built from the document that is kept."""
    spec = spec_from_file_location("dashboard_build", ROOT / "dashboard/build.py")
    assert spec is not None
    assert spec.loader is not None
    build = module_from_spec(spec)
    spec.loader.exec_module(build)
    kept = json.loads(build.DOCUMENT.read_text())
    assert kept == build.wordless(schema), "python dashboard/build.py writes dashboard/openapi.json anew"
