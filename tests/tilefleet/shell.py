"""The command line beside a running service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class Shell:
    """Runs the real command beside the service."""

    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "TILEFLEET_HOME": str(home)}
        self.environment.pop("TILEFLEET_URL", None)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tilefleet", *map(str, arguments)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=800, check=False
        )
        assert "Traceback" not in done.stderr
        return done

    def __call__(self, *arguments: object) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(self, *arguments: object) -> str:
        done = self.run(*arguments)
        assert done.returncode == 1, done.stdout
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr
