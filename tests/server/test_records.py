"""Records: import, lists, logs, best configs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from server_samples import OTHER, TARGET, record

from kernels import registry
from kernels.layout import Layouts
from kernels.space import Config
from kernels.target import CATALOGUE
from kernels.workload.base import Conv2d, Gemm
from kernels.workload.qconv2d import QConv2d
from tuner.log.record import Record, read_log, write_log
from worker.outcome import ErrorKind

URL = "/api/v1/records"
BEST = "/api/v1/configs/best"


def import_(client: TestClient, *records: Record, **params: str):
    return client.post(URL, params=params, content="".join(write_log(records)))


def best(client: TestClient, **params: object):
    query = {"workload": Gemm(m=8, n=8, k=8).key, "target": "x86-avx2", **params}
    return client.get(BEST, params=query)


def test_import_is_deduplicated_and_round_trips(client: TestClient) -> None:
    records = [record(1), record(2, error=ErrorKind.CRASH, message="boom"), record(3, board="b")]
    assert import_(client, *records, records[0]).json() == {"imported": 3, "duplicates": 1}
    assert import_(client, *records).json() == {"imported": 0, "duplicates": 3}
    log = client.get("/api/v1/targets/x86-avx2/log", params={"select": "all"})
    assert log.headers["content-type"].startswith("application/x-ndjson")
    assert list(read_log(log.text.splitlines())) == [replace(each, imported=True) for each in records]


def test_only_a_passing_failure_gives_way(client: TestClient) -> None:
    lost, wrong = record(1, error=ErrorKind.BOARD_LOST), record(2, error=ErrorKind.WRONG_RESULT)
    import_(client, lost, wrong)
    assert import_(client, record(1), record(2)).json() == {"imported": 1, "duplicates": 1}
    found = client.get(URL).json()["items"]
    assert [(item["error"], item["cost_s"]) for item in found] == [(None, 1e-6), ("wrong_result", None)]


def test_a_damaged_line_imports_nothing(client: TestClient) -> None:
    lines = list(write_log(record(number) for number in range(1, 21)))
    lines[16] = lines[16][:-30] + "\n"
    response = client.post(URL, content="".join(lines))
    assert response.status_code == 422
    assert "line 17" in response.json()["detail"]
    assert client.get(URL).json()["items"] == []


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\n",
        json.dumps({**record(1).to_json(), "threads": 2**40}).encode(),
        json.dumps({**record(1).to_json(), "clock": "x" * 1000}).encode(),
        json.dumps({**record(1).to_json(), "clock": "a\0b"}).encode(),
        json.dumps({**record(1).to_json(), "message": "a\0b", "cost_s": -1}).encode(),
        b"[" * 100_000,
        json.dumps({**record(1).to_json(), "message": "\ud800"}).encode(),
        json.dumps({**record(1).to_json(), "spread": float("nan")}).encode(),
        json.dumps({**record(1).to_json(), "workload": {"kind": []}}).encode(),
    ],
    ids=[
        "not utf-8",
        "huge threads",
        "long clock",
        "nul",
        "negative cost",
        "deep",
        "surrogate",
        "nan",
        "list",
    ],
)
def test_hostile_lines_are_damaged_lines(client: TestClient, line: bytes) -> None:
    response = client.post(URL, content="".join(write_log([record(1)])).encode() + line)
    assert response.status_code == 422, response.text
    assert "line 2" in response.json()["detail"]
    assert client.get(URL).json()["items"] == []


def test_nul_in_a_message_is_kept(client: TestClient) -> None:
    assert import_(client, record(1, error=ErrorKind.CRASH, message="a\0b")).status_code == 200
    assert client.get(URL).json()["items"][0]["message"] == "a\0b"


def test_a_log_of_another_target_is_refused(client: TestClient) -> None:
    response = import_(client, record(1), record(2, target=OTHER), target="x86-avx2")
    assert response.status_code == 422
    detail = response.json()["detail"]
    assert "x86-avx512" in detail
    assert "x86-avx2" in detail
    assert client.get(URL).json()["items"] == []
    assert import_(client, record(1), target="nowhere").status_code == 404


def test_pages_and_filters(client: TestClient) -> None:
    big = Gemm(m=9, n=9, k=9)
    records = [record(n) for n in range(1, 6)] + [record(6, big), record(7, target=OTHER)]
    import_(client, *records, record(8, error=ErrorKind.CRASH))
    seen, after = [], None
    while True:
        page = client.get(URL, params={"limit": 3, **({"after": after} if after else {})}).json()
        seen += page["items"]
        after = page["next"]
        if after is None:
            break
    assert [item["config"]["point"] for item in seen] == [1, 2, 3, 4, 5, 6, 7, 8]
    for params, points in (
        ({"workload": big.key}, [6]),
        ({"target": "x86-avx512"}, [7]),
        ({"target": OTHER.key}, [7]),
        ({"error": "crash"}, [8]),
        ({"error": "any"}, [8]),
        ({"error": "none", "target": "x86-avx2"}, [1, 2, 3, 4, 5, 6]),
    ):
        items = client.get(URL, params=params).json()["items"]
        assert [item["config"]["point"] for item in items] == points, params
    for wrong in ({"limit": 0}, {"after": "x"}, {"after": 2**63}, {"error": "odd"}):
        assert client.get(URL, params=wrong).status_code == 422
    assert client.get(URL, params={"target": "nowhere"}).status_code == 404


def test_best_is_the_fastest_of_its_clock_threads_and_target(client: TestClient) -> None:
    assert best(client).status_code == 404
    import_(
        client,
        record(5),
        record(3),
        record(4, verified_s=2e-6),
        record(1, clock="simulated:a"),
        record(1, threads=2),
        record(1, target=OTHER),
        record(9, error=ErrorKind.CRASH),
    )
    found = best(client).json()
    assert (found["config"]["point"], found["verified_s"]) == (4, 2e-6)
    assert found["gflops"] == pytest.approx(1024 / 2e-6 / 1e9)
    assert best(client, clock="simulated:a").json()["clock"] == "simulated:a"
    assert best(client, threads=2).json()["threads"] == 2
    assert best(client, threads=3).status_code == 404
    assert best(client, target="nowhere").status_code == 404


def test_outdated_kernels_are_never_best(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel:
        name, version, workload_type = "test", 2, object
        why_inexact = staticmethod(lambda *_: None)

    import_(client, record(1), replace(record(2), kernel_version=2))
    monkeypatch.setattr("kernels.registry.all_kernels", lambda: {"test": Kernel})
    assert best(client).json()["config"]["point"] == 2
    log = client.get("/api/v1/targets/x86-avx2/log").text.splitlines()
    assert [each.kernel_version for each in read_log(log)] == [2]


def test_integers_that_may_be_off_are_best_only_where_they_are_asked_for(client: TestClient) -> None:
    """Beside them a float record that is relaxed as well, which the default allows."""
    target = CATALOGUE["rpi4"]
    conv, plain = QConv2d(1, 8, 8, 16, 16, 1, 1), Conv2d(1, 8, 8, 8, 8, 3, 3)
    made = [*((conv, "qgemm", {"requant": way}) for way in ("exact", "arm")), (plain, "winograd", {"m": 4})]
    versions = {name: kernel.version for name, kernel in registry.all_kernels().items()}
    records = [
        Record(workload, target, Config.of(kernel, **knobs), versions[kernel], cost_s=1e-6 / number)
        for number, (workload, kernel, knobs) in enumerate(made, 1)
    ]
    import_(client, *records)

    def found(**params: object) -> list[dict[str, object]]:
        of = {"workload": conv.key, "target": "rpi4"}
        config = client.get("/api/v1/configs/best", params=params | of).json()["config"]
        log = client.get("/api/v1/targets/rpi4/log", params=params).text.splitlines()
        configs = [each.config.to_json() for each in read_log(log)]
        assert config in configs
        return [config, *(each for each in configs if each["kernel"] == "winograd")]

    exact, arm, winograd = (record.config.to_json() for record in records)
    assert found() == found(numerics="exact-integers") == [exact, winograd]
    assert found(numerics="exact") == [exact]
    assert found(numerics="relaxed") == [arm, winograd]


def test_logs_best_and_top(client: TestClient) -> None:
    big = Gemm(m=9, n=9, k=9)
    import_(client, *(record(n) for n in (4, 2, 3)), record(7, big), record(8, big, error=ErrorKind.CRASH))

    def points(**params: object) -> dict[int, list[object]]:
        text = client.get("/api/v1/targets/x86-avx2/log", params=params).text
        found: dict[int, list[object]] = {8: [], 9: []}
        for each in read_log(text.splitlines()):
            found[each.workload.m].append(each.config["point"])
        return found

    assert points() == {8: [2], 9: [7]}
    assert points(select="top", k=2) == {8: [2, 3], 9: [7]}
    assert points(select="all") == {8: [4, 2, 3], 9: [7, 8]}
    assert client.get("/api/v1/targets/x86-avx2/log", params={"select": "worst"}).status_code == 422


def test_best_and_logs_know_layouts(client: TestClient) -> None:
    def laid(number: int, layouts: str) -> Record:
        return replace(record(number), config=Config.of("test", Layouts.read(layouts), point=number))

    back = laid(4, "nchw8c>nchw")
    import_(client, record(7), record(6), laid(2, "nchw8c"), laid(3, "nchw8c"), back)
    found = best(client).json()
    assert (found["config"]["point"], found["layouts"]) == (6, "nchw")
    for layouts, point in (("nchw", 6), ("any", 2), ("nchw8c", 2), ("nchw8c>nchw", 4)):
        assert best(client, layouts=layouts).json()["config"]["point"] == point, layouts
    assert "nhwc" in best(client, layouts="nhwc").json()["detail"]
    assert best(client, layouts="nhwc").status_code == 404
    refused = best(client, layouts="nchwc8")
    assert (refused.status_code, "nchwc8" in refused.json()["detail"]) == (422, True)

    def points(**params: object) -> list[object]:
        text = client.get("/api/v1/targets/x86-avx2/log", params=params).text
        return [each.config["point"] for each in read_log(text.splitlines())]

    assert points() == [6, 2, 4]
    assert points(select="top", k=2) == [6, 7, 2, 3, 4]
    hostile = replace(record(1), config=Config.of("test", Layouts("x" * 100, "y")))
    assert "layouts" in import_(client, hostile).json()["detail"]


def test_what_was_measured_in_place_ranks_by_its_place(client: TestClient) -> None:
    placed = (
        replace(record(5), in_place_s=4e-6, placed_s=2e-6),
        replace(record(2), in_place_s=6e-6, placed_s=5e-6),
    )
    import_(client, *placed, record(3))
    found = best(client).json()
    assert (found["config"]["point"], found["placed_s"], found["in_place_s"]) == (5, 2e-6, 4e-6)
    assert found["gflops"] == pytest.approx(1024 / 5e-6 / 1e9)


def test_targets(client: TestClient) -> None:
    listed = client.get("/api/v1/targets").json()["items"]
    assert {"x86-avx2", "x86-avx512"} <= {item["name"] for item in listed}
    from kernels.target import from_json

    assert from_json(client.get("/api/v1/targets/x86-avx2").json()) == TARGET
    missing = client.get("/api/v1/targets/z80")
    assert missing.status_code == 404
    assert "x86-avx2" in missing.json()["detail"]


def test_the_newest_come_first_where_that_is_asked_for(client: TestClient) -> None:
    import_(client, *(record(number) for number in range(1, 6)))
    oldest = [each["id"] for each in client.get("/api/v1/records").json()["items"]]
    assert oldest == sorted(oldest)
    pages, after = [], ""
    while after is not None:
        page = client.get(f"/api/v1/records?sort=newest&limit=2{after}").json()
        pages.append([each["id"] for each in page["items"]])
        after = page["next"] and f"&after={page['next']}"
    assert [len(each) for each in pages] == [2, 2, 1]
    assert [each for page in pages for each in page] == oldest[::-1]


@pytest.mark.parametrize("path", ["records?sorted=newest", "jobs?state=done&stat=done", "boards?tag=x&q=1"])
def test_a_parameter_that_is_none_is_refused(client: TestClient, path: str) -> None:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 422, answer.text
    assert "no query parameter '" in answer.json()["detail"]
    assert answer.json()["errors"][0]["loc"][0] == "query"


def test_best_configs_are_listed_by_workload(client: TestClient) -> None:
    sizes = {Gemm(m=8, n=8, k=k).key: Gemm(m=8, n=8, k=k) for k in (3, 4, 5)}
    fast, slow = record(1), record(2)
    clocks = (fast.clock, "simulated:test")
    records = [
        replace(each, workload=workload, clock=clock)
        for workload in sizes.values()
        for clock in clocks
        for each in (slow, fast)
    ]
    import_(client, *records, replace(fast, threads=2, workload=Gemm(m=8, n=8, k=6)))

    def listed(**params: object):
        return client.get("/api/v1/configs", params={"target": "x86-avx2", **params})

    whole = listed().json()
    assert whole["next"] is None
    assert [item["workload_key"] for item in whole["items"]] == [key for key in sorted(sizes) for _ in clocks]
    assert {item["cost_s"] for item in whole["items"]} == {fast.cost_s}
    assert {item["text"] for item in whole["items"]} == {str(each) for each in sizes.values()}
    # A page ends after a workload, with all of its clocks.
    first = listed(limit=2).json()
    assert first["items"] == whole["items"][:4]
    assert first["next"] == sorted(sizes)[1]
    assert listed(limit=2, after=first["next"]).json() == {"items": whole["items"][4:], "next": None}
    assert [item["text"] for item in listed(threads=2).json()["items"]] == [str(Gemm(m=8, n=8, k=6))]
    assert listed(layouts="nhwc").json()["items"] == []
    assert listed(layouts="any").json() == whole
    assert listed(layouts="chwn").status_code == 422
    assert listed(target="nosuch").status_code == 404
    assert listed(after="\0").status_code == 422
