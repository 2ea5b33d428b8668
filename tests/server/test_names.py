"""Names and figures that come in: one grammar, and nothing that terminals or spreadsheets obey."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_samples import conv_model, record

from server.db.database import Database
from server.db.tables import RecordRow
from server.records import grammar
from server.settings import Settings
from tilefleet.c_library import c_name
from tilefleet.errors import TilefleetError
from tilefleet.up import reached_by_others
from tuner.log.record import write_log
from tuner.log.rows import to_csv
from worker.outcome import ErrorKind


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One database will do."""
    return f"sqlite:///{tmp_path / 'test.sqlite3'}"


ODD = ["a\x1b[31m", "a\x9b31m", "a\u202egnp", "a\u2066b", "a\nb", "a\u2028b", "a\x7f", "a\u200f"]
URL = "/api/v1/records"


@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_names_that_control_a_terminal_are_refused(client: TestClient, odd: str) -> None:
    model = client.post("/api/v1/models", params={"name": odd}, content=conv_model())
    job = {"workload": {"kind": "gemm", "m": 8, "n": 8, "k": 8}, "target": "host", "budget": {"trials": 1}}
    answers = [
        model,
        *(client.post("/api/v1/jobs", json={**job, name: odd}) for name in ("name", "submitter")),
    ]
    answers += [client.post("/api/v1/jobs", json={**job, name: [odd]}) for name in ("labels", "tags")]
    answers.append(client.post("/api/v1/boards/host/drain", json={"reason": odd}))
    assert {each.status_code for each in answers} == {422}
    for field in ("clock", "board"):
        line = json.dumps({**record(1).to_json(), field: odd})
        refused = client.post(URL, content="".join(write_log([record(1)])) + line)
        assert (refused.status_code, "line 2" in refused.text) == (422, True)
    target = {**record(1).to_json()["target"], "name": odd}
    assert client.post(URL, content=json.dumps({**record(1).to_json(), "target": target})).status_code == 422


@pytest.mark.parametrize("name", ["..", ".", "...", " ", "a/b", "a\\b"])
def test_a_file_is_not_called_like_a_place(client: TestClient, name: str) -> None:
    assert client.post("/api/v1/models", params={"name": name}, content=conv_model()).status_code == 422


def test_a_model_is_called_what_it_was_called_last(client: TestClient) -> None:
    for name, status in (("first.onnx", 201), ("second \u00e9.onnx", 200)):
        answer = client.post("/api/v1/models", params={"name": name}, content=conv_model())
        assert (answer.status_code, answer.json()["name"]) == (status, name)
        assert client.get(f"/api/v1/models/{answer.json()['hash']}").json()["name"] == name


AHEAD = (datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=3)).isoformat()
WRONG: list[dict[str, Any]] = [
    *({"clock": each} for each in ("=HYPERLINK(1)", "", "-1", " a", "x" * 101)),
    *({"board": each} for each in ("=1", "@a", "x" * 201)),
    *({"threads": each} for each in (0, 4097, 10**9, True, "1")),
    *({"created": each} for each in ("zzz", "9999-01-01T00:00:00Z", "1970-01-01", AHEAD)),
    *({"spread": each} for each in (-5, 1e300, True)),
    *({"max_error": each} for each in (-1, 1e308, False)),
    *({"temperature_c": 1e300}, {"frequency_mhz": -1}, {"cost_s": True}, {"cost_s": 1e12}),
    *({"remeasured": -1}, {"disturbed": 1}, {"kernel_version": True}, {"message": "x" * (1 << 17)}),
    *({"toolchain": {"tvm": "a\x1bb"}}, {"counters": {"a\nb": 1}}, {"counters": {"a": True}}),
    *({"toolchain": {str(n): "" for n in range(300)}}, {"repeats_s": [1e-6] * 20_000}),
    *(
        {"config": {"kernel": "=a"}},
        {"config": {"kernel": "a", "k\x1b": 1}},
        {"config": {"kernel": "a", "k": 2**70}},
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: ascii(each)[:40])
def test_a_record_out_of_bounds_is_refused_with_its_line(client: TestClient, wrong: dict[str, Any]) -> None:
    line = json.dumps({**record(2).to_json(), **wrong})
    refused = client.post(URL, content="".join(write_log([record(1)])) + line)
    assert (refused.status_code, "line 2 of the log is damaged" in refused.text) == (422, True), refused.text
    assert client.get(URL).json()["items"] == []


@pytest.mark.parametrize("fact", ["vector_bits", "l1_bytes", "streams", "hz", "fmas_per_cycle"])
@pytest.mark.parametrize("number", [10**400, -1, True, 2**60], ids=["huge", "negative", "truth", "large"])
def test_a_target_out_of_bounds_is_refused(client: TestClient, fact: str, number: int) -> None:
    target = {**record(1).to_json()["target"], fact: number}
    refused = client.post(URL, content=json.dumps({**record(1).to_json(), "target": target}))
    assert (refused.status_code, "line 1" in refused.text) == (422, True), refused.text


def test_what_this_lab_writes_meets_the_grammar() -> None:
    ours = record(
        3,
        clock="simulated:rpi4-sim:0123456789ab",
        board="desk-pi.3",
        created=datetime.now(UTC).isoformat(),
        spread=0.1,
        max_error=1e-7,
        counters={"cycles": 5},
        toolchain={"tvm": "0.27.0.post1"},
        temperature_c=48.3,
        frequency_mhz=1500.0,
    )
    assert grammar.fault(ours) is None
    failed = record(4, error=ErrorKind.CRASH, message="line\nline\0" + "x" * 8192)
    assert grammar.fault(failed) is None


def test_a_table_has_no_formulas() -> None:
    kinds = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain"]
    table = to_csv(record(n, board=kind, spread=-0.5) for n, kind in enumerate(kinds, 1))
    read = list(csv.DictReader(io.StringIO(table, newline="")))
    assert [each["board"] for each in read] == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\nx", "plain"]
    assert {each["spread"] for each in read} == {"-0.5"}, "a number stays one"


def test_a_database_with_such_names_stays_readable(
    client: TestClient, settings: Settings, database_url: str
) -> None:
    client.post(URL, content="".join(write_log([record(1)])))
    db = Database(database_url)
    with db.write() as session:
        row = session.get_one(RecordRow, 1)
        row.document = {**row.document, "board": "=cmd\x9b", "created": "zzz"}
    db.close()
    assert client.get(URL).json()["items"][0]["board"] == "=cmd\x9b"
    table = client.get(f"{URL}/log", params={"format": "csv"})
    assert "'=cmd" in table.text


@pytest.mark.parametrize("name", ["int", "main", "printf", "class", "string", "m", "None", "INT", "Math"])
def test_names_of_c_are_none_of_a_library(name: str) -> None:
    for wheel in (True, False):
        with pytest.raises(TilefleetError, match=f"--name {name} is .*choose another"):
            c_name(name, Path("a.onnx"), wheel)


def test_names_of_modules_are_none_of_a_wheel() -> None:
    for name in ("numpy", "os", "json", "NumPy", "threading"):
        with pytest.raises(TilefleetError, match=f"{name} is a module that Python or the wheel"):
            c_name(name, Path("a.onnx"), True)
    assert c_name("json", Path("a.onnx"), False) == "json"
    assert c_name(None, Path("numpy.onnx"), True) == "model_numpy"
    assert c_name(None, Path("main.onnx"), False) == "model_main"
    assert c_name("printer", Path("a.onnx"), True) == "printer"


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("a", False),
    ],
)
def test_who_listens_for_others_is_told_what_that_opens(host: str, alone: bool) -> None:
    said = reached_by_others(host)
    assert (said == "") is alone
    if not alone:
        assert "no users and no passwords" in said
        assert "ssh -L" in said
