"""The JSON file of a long bench: written after every step, so that a run that was stopped can go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def opened(path: Path | None, bench: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What ``path`` holds of earlier runs, or a new report ``{bench, settings}`` where there is no such file.

    Raises ValueError where the file is another bench's, was made with other settings or has no folder.
    """
    fresh = {"bench": bench, "settings": settings}
    if path is None or not path.exists():
        if path and not path.parent.is_dir():
            raise ValueError(f"there is no folder {path.parent} for --json {path}; make it, or name another")
        return fresh
    try:
        report = json.loads(path.read_text())
        before = {name: report[name] for name in fresh}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is no report of bench.{bench} ({error}); give another --json") from None
    if before["bench"] != bench:
        raise ValueError(f"{path} is a report of bench.{before['bench']}; give another --json")
    changed = [name for name in settings if before["settings"].get(name) != settings[name]]
    if changed:
        was = ", ".join(f"{name} {before['settings'].get(name)}" for name in changed)
        raise ValueError(f"{path} was made with {was}: say the same to go on, or give another --json")
    assert isinstance(report, dict)
    return report


def save(path: Path | None, report: dict[str, Any]) -> None:
    """Write the report whole: a reader, or the next run, never sees half of it."""
    if path is None:
        return
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    part.replace(path)
