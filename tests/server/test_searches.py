"""Finding records and workloads by words, sorted by what people ask for, and as files."""

from __future__ import annotations

import csv
import io
import json

import pytest
from fastapi.testclient import TestClient
from server_samples import OTHER, record

from kernels.workload.base import Conv2d, Gemm
from server.remembered import Remembered
from tuner.log.record import Record, read_log, write_log
from worker.outcome import ErrorKind

URL = "/api/v1/records"
CONV = Conv2d(n=1, in_c=16, in_h=28, in_w=28, out_c=32, kh=3, kw=3, pad=(1, 1, 1, 1))
SMALL, LARGE = Gemm(m=8, n=8, k=8), Gemm(m=64, n=64, k=64)


@pytest.fixture
def filled(client: TestClient) -> TestClient:
    records = [
        *(record(n, SMALL) for n in (5, 3, 9)),
        record(4, LARGE),
        record(7, CONV, OTHER),
        record(1, CONV, error=ErrorKind.CRASH),
    ]
    assert client.post(URL, content="".join(write_log(records))).status_code == 200
    return client


def points(client: TestClient, **asked: object) -> list[int]:
    """The configs of all pages of two."""
    found: list[int] = []
    after = None
    while True:
        page = client.get(URL, params={"limit": 2, **asked, **({"after": after} if after else {})})
        assert page.status_code == 200, page.text
        found += [item["config"]["point"] for item in page.json()["items"]]
        after = page.json()["next"]
        if after is None:
            return found


def test_words_find_what_they_stand_in(filled: TestClient) -> None:
    assert points(filled, search="conv") == [7, 1]
    assert points(filled, search="CONV 3x3") == [7, 1]
    assert points(filled, search="gemm 64x64") == [4]
    assert points(filled, search="test gemm") == [5, 3, 9, 4]  # the kernel is called test
    assert points(filled, search="conv gemm") == []
    assert points(filled, search="100%") == points(filled, search="co_v") == []  # no wildcards
    assert points(filled, search="conv", error="none") == [7]
    assert points(filled, kernel="nothing") == []
    many = filled.get(URL, params={"search": " ".join("abcdefghi")})
    assert (many.status_code, "search has 9 words: give at most 8" in many.text) == (422, True)


def test_sorted_by_what_was_measured(filled: TestClient) -> None:
    assert points(filled, sort="fastest") == [3, 4, 5, 7, 9]
    assert points(filled, sort="slowest") == [9, 7, 5, 4, 3]
    # By operations a second: 460,800 x 32 of the convolution, 524,288 and 1,024 of the products.
    assert points(filled, sort="highest_rate") == [7, 4, 3, 5, 9]
    assert points(filled, sort="lowest_rate") == [9, 5, 3, 4, 7]
    gone = filled.get(URL, params={"sort": "fastest", "after": 10**6})
    assert (gone.status_code, "begin anew" in gone.json()["detail"]) == (422, True)
    assert filled.get(URL, params={"sort": "prettiest"}).status_code == 422


def test_a_file_has_what_the_list_has(filled: TestClient) -> None:
    log = filled.get(f"{URL}/log", params={"search": "conv", "sort": "oldest"})
    assert log.status_code == 422  # a file has no order to choose
    log = filled.get(f"{URL}/log", params={"search": "gemm 8x8"})
    assert "records.jsonl" in log.headers["content-disposition"]
    found: list[Record] = list(read_log(log.text.splitlines()))
    assert sorted(dict(each.config.knobs)["point"] for each in found) == [3, 5, 9]
    table = filled.get(f"{URL}/log", params={"search": "gemm 8x8", "format": "csv"})
    assert table.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert sorted(int(row["knob.point"]) for row in rows) == [3, 5, 9]
    assert filled.get(f"{URL}/log", params={"target": "nowhere"}).status_code == 404


def test_a_table_is_bounded(filled: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.routes.records.MOST_ROWS", 3)
    assert filled.get(f"{URL}/log", params={"format": "csv", "search": "conv"}).status_code == 200
    refused = filled.get(f"{URL}/log", params={"format": "csv"})
    assert (refused.status_code, "take the log" in refused.json()["detail"]) == (422, True)
    assert len(filled.get(f"{URL}/log").text.splitlines()) == 1 + 6


def test_workloads_are_found_by_words(filled: TestClient) -> None:
    def found(**asked: object) -> list[str]:
        answer = filled.get("/api/v1/workloads", params=asked)
        assert answer.status_code == 200, answer.text
        return [item["key"] for item in answer.json()["items"]]

    assert found() == [CONV.key, LARGE.key, SMALL.key]  # measured last first
    assert found(search="conv") == found(search=CONV.key) == [CONV.key]
    assert found(target=OTHER.name) == [CONV.key]
    assert found(search="nothing") == []
    first = filled.get("/api/v1/workloads", params={"limit": 2}).json()
    assert (first["total"], first["next"]) == (3, "2")
    assert found(limit=2, after=2) == [SMALL.key]
    (conv,) = filled.get("/api/v1/workloads", params={"search": "conv"}).json()["items"]
    assert (conv["records"], conv["targets"], conv["text"]) == (
        2,
        ["x86-avx2", "x86-avx512"],
        str(CONV),
    )


def test_only_the_last_answers_are_remembered() -> None:
    memory, asked = Remembered[int](2), []

    def answer(question: int) -> int:
        def find() -> int:
            asked.append(question)
            return -question

        return memory.get(question, find)

    assert [answer(each) for each in (1, 2, 1, 3, 1, 2)] == [-1, -2, -1, -3, -1, -2]
    assert asked == [1, 2, 3, 2]  # 1 was used since, so 2 had to go


def test_the_log_of_a_search_says_what_it_is(filled: TestClient) -> None:
    head = json.loads(filled.get(f"{URL}/log").text.splitlines()[0])
    assert head["log"] == "Tilefleet tuning log"
