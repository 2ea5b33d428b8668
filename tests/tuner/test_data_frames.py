"""The table of records in pandas and Parquet as they are: what ``pip install tilefleet[frames]`` brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as parquet
from test_log_formats import BAD, GOOD, OTHER, run

from server.jobs import schemas
from tilefleet.job import Job, Source
from tuner.log.record import write_log
from tuner.log.relayouts import header

RECORDS = [GOOD, BAD, OTHER]


class Logged:
    """A source with a job's log alone."""

    def job_log(self, _: int, select: str) -> list[str]:
        assert select == "all"
        return [header([]), *write_log(RECORDS)]


def same(table: dict[str, list[Any]]) -> None:
    """Whether a table has the records' facts, each in its type; a knob may be a number here, a word there."""
    assert table["workload_key"] == [each.workload.key for each in RECORDS]
    assert table["knob.block"] == ["4x4", "6", "4x4"]
    assert table["threads"] == [1, 1, 1]
    assert table["repeats_s"][0] == [2e-6, 3e-6]
    assert table["error"] == [None, "wrong_result", None]


def test_parquet_has_the_records(tmp_path: Path) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out.parquet"
    log.write_text("".join([header([]), *write_log(RECORDS)]))
    code, text = run("export", "--log", log, "--format", "parquet", "-o", out)
    assert code == 0, text
    table = parquet.read_table(out)
    same(table.to_pydict())
    assert str(table.schema.field("cost_s").type) == "double"


def test_a_data_frame_has_the_records() -> None:
    facts = cast(dict[str, Any], schemas.Job.model_config["json_schema_extra"])["example"]
    frame = Job.model_validate(facts).of(cast(Source, Logged())).to_frame()
    assert len(frame) == 3
    assert frame["cost_s"].dtype == "float64"
    assert frame["cost_s"].isna().tolist() == [False, True, False]
    assert frame["repeats_s"][0] == [2e-6, 3e-6]
    assert frame["error"].notna().tolist() == [False, True, False]
    assert frame.groupby("kernel")["ranking_s"].min()["sconv"] == OTHER.ranking_s
