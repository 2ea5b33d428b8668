"""Benches as their users run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"bench.{name}", *arguments, "--json", str(folder / "report.json")]
    return subprocess.run(command, capture_output=True, text=True, timeout=1700, check=False)


def bench(name: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What it writes, when it ends well; called again it finds that there."""
    done = run(name, folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    value: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return value
