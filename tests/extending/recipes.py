"""The code in docs/extending.md, as files."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/extending.md"
_BLOCK = re.compile(r"^```\w+\n(?:#|//) (\S+?)(?:: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> dict[str, str]:
    """Each block by its file, or by the list that it is an entry of."""
    return {(entry or file): code for file, entry, code in _BLOCK.findall(PAGE.read_text())}


def write(folder: str, to: Path) -> list[Path]:
    """Write the new files under ``folder`` below ``to``."""
    made = []
    for name, code in blocks().items():
        if name.startswith(folder):
            path = to / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)
            made.append(path)
    assert made, folder
    return made


def add(folder: str, package: str, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the files under ``folder`` into a part of ``package`` that lies below ``to``."""
    write(folder, to)
    found = importlib.import_module(package)
    monkeypatch.setattr(found, "__path__", [*found.__path__, str(to / package.replace(".", "/"))])
