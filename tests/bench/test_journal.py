"""The file of a long bench."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import journal


def test_a_report_goes_on_only_with_the_settings_it_was_begun_with(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report = journal.opened(path, "conv", {"threads": 1, "seed": 0})
    report["rows"] = [1.5]
    journal.save(path, report)
    assert journal.opened(path, "conv", {"threads": 1, "seed": 0}) == report
    with pytest.raises(ValueError, match=r"made with threads 1: say the same to go on"):
        journal.opened(path, "conv", {"threads": 2, "seed": 0})
    with pytest.raises(ValueError, match=r"a report of bench\.conv"):
        journal.opened(path, "model", {})
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_report_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    for text in ("[]", "{}", "half {"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"is no report of bench\.conv"):
            journal.opened(path, "conv", {})


def test_a_folder_that_is_not_there_is_told_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere for --json"):
        journal.opened(tmp_path / "nowhere" / "report.json", "conv", {})
