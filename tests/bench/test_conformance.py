"""A part of the onnx package's own tests of its operators."""

from __future__ import annotations

from bench.conformance import run, run_tflite, summary

SAMPLE = 80


def test_a_sample_is_right_or_refused_by_name() -> None:
    rows = run(SAMPLE)
    assert len({row["name"] for row in rows}) == SAMPLE
    assert not [row for row in rows if row["verdict"] == "wrong"], summary(rows)
    assert sum(row["verdict"] == "right" for row in rows) > len(rows) / 2


def test_refusals_say_why_in_one_line() -> None:
    rows = run(only="test_unique")
    assert rows
    assert all(row["reason"] and "\n" not in row["reason"] for row in rows if row["verdict"] == "refused")


def test_a_sample_of_tflites_operators_is_right_or_refused() -> None:
    rows = run_tflite(47)
    assert not [row for row in rows if row["verdict"] == "wrong"], summary(rows)
    assert {row["form"] for row in rows if row["verdict"] == "right"} == {"float32", "int8", "uint8", "int16"}
