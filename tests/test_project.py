"""Facts about the repository as a whole."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in done.stdout.splitlines() if (path := ROOT / name).exists()]


def test_every_source_file_can_be_read_at_one_go() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in tracked("*.py", "*.c", "*.h")}
    assert len(lines) > 20
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}


def test_the_lock_has_hashes_and_no_addresses() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"://|^\s*-", lock.replace("--hash=sha256:", ""), re.MULTILINE)
    for entry in re.split(r"\n(?=[a-z])", lock.strip()):
        assert re.match(r"[a-z0-9-]+==\S+ \\\n    --hash=sha256:", entry), entry


def test_the_lock_pins_what_the_project_pins() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    for pin in ("apache-tvm==0.27.0.post1", "ziglang==0.16.0", "apache-tvm-ffi==0.1.14"):
        assert f"\n{pin}" in lock
    # Wheels of several GB that no machine without such a card needs.
    assert not re.search(r"^(nvidia|torch|triton|cuda)", lock, re.MULTILINE)


def test_the_lock_has_every_requirement_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.match(r"[\w-]+", text)[0].lower() for text in wanted}  # type: ignore[index]  # all match
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    assert names - locked == set()


def test_test_modules_have_different_names() -> None:
    """pytest imports them by their bare names."""
    names = [path.name for path in tracked("tests/*.py") if path.name != "conftest.py"]
    assert sorted(set(names)) == sorted(names)


def test_imports_point_one_way() -> None:
    """server -> tuner -> worker -> kernels; tilefleet is on top and may import all."""
    above = {"kernels": "worker|tuner|server|tilefleet", "worker": "tuner|server|tilefleet"}
    above |= {"tuner": "server|tilefleet", "server": "tilefleet"}
    for package, forbidden in above.items():
        pattern = re.compile(rf"^\s*(from|import) ({forbidden}|bench)\b", re.MULTILINE)
        wrong = [path for path in tracked(f"{package}/*.py") if pattern.search(path.read_text())]
        assert wrong == [], package


def test_deployment_publishes_nothing_beyond_loopback() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert set(services) == {"coordinator", "postgres", "redis"}
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_documents_point_at_files_that_exist() -> None:
    for page in tracked("README.md", "docs/*.md"):
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
            assert (page.parent / link).exists(), f"{page.name} points at {link}"
