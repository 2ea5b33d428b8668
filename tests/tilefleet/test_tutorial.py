"""Every command of docs/tutorial.md that needs no real board, on a detector that is small."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from typed_page import Typist, type_page

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(1800)


def test_every_command_of_the_tutorial(tmp_path: Path) -> None:
    if not shutil.which("qemu-aarch64"):
        if os.environ.get("CI") == "true":
            pytest.fail("qemu-aarch64 is not installed: scripts/system-packages")
        pytest.skip("qemu-aarch64 is not installed: apt-get install qemu-user")
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    environment = {**os.environ, "TILEFLEET_HOME": str(tmp_path / "home"), "TRIALS": "11"}
    environment.pop("TILEFLEET_URL", None)
    typist, folder = Typist(tmp_path, environment), tmp_path / "tutorial"

    def after(command: str) -> None:
        if "bench.detector" in command:  # a small one in its place
            typist.type(f"{command} --size 32 --width 8 --stages 1")

    # Whatever runs already may have the usual port.
    typist.type('tilefleet() { command tilefleet ${1/%up/up --port 0} "${@:2}"; }')
    try:
        type_page(typist, ROOT / "docs/tutorial.md", folder, after)
        said = typist.said
        assert "rpi4-sim" in said["tilefleet boards"]
        assert "job 1 done after" in next(
            text for word, text in said.items() if "--target rpi4 --trials" in word
        )
        (ran,) = (text for word, text in said.items() if word.startswith("tilefleet run"))
        assert "checked on board rpi4-sim: output0 differs by" in ran
        (box,) = (text for word, text in said.items() if word.startswith("qemu-aarch64"))
        assert 0 <= float(box.split()[-1]) <= 15
        assert said["PYTHONPATH=installed python use.py"] == "images (1, 3, 32, 32) -> (1, 84, 64)\n"
        assert said["python use_ort.py"] == "(1, 84, 64)\n"
        assert "stopped process" in said["tilefleet stop"]
    finally:
        if (tmp_path / "home/url").exists():
            typist.type("tilefleet stop")
        typist.close()
