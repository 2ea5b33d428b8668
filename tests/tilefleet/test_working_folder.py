"""Whatever lies in the folder where somebody starts the service is no part of it."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[2]
PLANTED = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"


@pytest.fixture
def folder(tmp_path):
    """One with modules by names that the service or a request imports."""
    for name in ("uvloop", "ziglang", "planted", "sitecustomize_of_mine"):
        (tmp_path / f"{name}.py").write_text(PLANTED)
    return tmp_path


def test_a_service_imports_nothing_from_there(folder):
    environment = {**os.environ, "TILEFLEET_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tilefleet"]
    options = {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": 300}
    up = subprocess.run(
        [*command, "up", "--detach", "--port", "0", "--boards", "host"], check=False, **options
    )
    try:
        assert up.returncode == 0, up.stderr
        url = next(word for word in up.stdout.split() if word.startswith("http"))
        request = {"workload": {"kind": "gemm", "m": 8, "n": 8, "k": 8}, "target": "host"}
        for strategy in ("planted:X", "planted.py:X", "antigravity:X"):
            answer = httpx.post(f"{url}/api/v1/jobs", json={**request, "strategy": strategy}, timeout=60)
            assert answer.status_code == 422
            assert "unknown strategy" in answer.text
    finally:
        subprocess.run([*command, "stop"], check=False, **options)
    assert not [*folder.glob("*.ran")]


@pytest.mark.parametrize("module", ["tilefleet", "worker"])
def test_neither_do_its_commands(folder, module):
    (folder / "dask.py").write_text(PLANTED)
    (folder / "typer.py").write_text(PLANTED)
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert not [*folder.glob("*.ran")]


def test_all_processes_of_the_service_start_so():
    starts = [
        (path, line)
        for package in ("server", "worker", "tuner", "kernels", "tilefleet")
        for path in (ROOT / package).rglob("*.py")
        for line in path.read_text().splitlines()
        if "sys.executable, " in line and "bench." not in line
    ]
    assert starts
    assert not [(path, line) for path, line in starts if 'sys.executable, "-P", ' not in line]
