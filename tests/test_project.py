"""Facts about the repository as a whole."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 450
FOLDERS = (
    "kernels",
    "worker",
    "compiler",
    "tuner",
    "server",
    "tilefleet",
    "bench",
    "lab",
    "dashboard",
    "tests",
    "docs",
    "scripts",
    "deploy",
)
PACKAGES = ("kernels", "worker", "compiler", "tuner", "server", "tilefleet", "bench", "lab")


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


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)


def test_no_ring_of_imports_at_any_depth() -> None:
    """In each folder its files and its folders, each with all it holds, have an order."""
    paths = [path for folder in PACKAGES for path in tracked(f"{folder}/*.py")]
    named = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }
    rooms: dict[Path, dict[str, set[str]]] = {}
    for path in paths:
        for name in imported(path):
            other = named.get(name) or named.get(name.rpartition(".")[0])
            if other is None or other == path:
                continue
            shared = Path(os.path.commonpath([path, other]))
            one, two = (each.relative_to(shared).parts[0] for each in (path, other))
            rooms.setdefault(shared, {}).setdefault(one, set()).add(two)
    assert len(rooms) > 20
    for room, arrows in rooms.items():
        try:
            TopologicalSorter(arrows).prepare()
        except CycleError as ring:
            pytest.fail(f"{room.relative_to(ROOT)}: {' <- '.join(ring.args[1])}")


def test_imports_point_one_way() -> None:
    """lab -> bench -> tilefleet -> server -> tuner -> compiler -> worker -> kernels."""
    order = ["kernels", "worker", "compiler", "tuner", "server", "tilefleet", "bench", "lab"]
    for at, package in enumerate(order[:-1]):
        above = "|".join(order[at + 1 :])
        pattern = re.compile(rf"^\s*(from|import) ({above})\b", re.MULTILINE)
        wrong = [path for path in tracked(f"{package}/*.py") if pattern.search(path.read_text())]
        assert wrong == [], package


def test_deployment_publishes_nothing_beyond_loopback() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert set(services) == {"coordinator", "scheduler", "builder", "boards", "postgres", "redis"}
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_documents_point_at_files_that_exist() -> None:
    for page in tracked("README.md", "docs/**.md"):
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
            assert (page.parent / link).exists(), f"{page.name} points at {link}"
        for named in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*?(?:\.\w+|/))`", prose):
            assert (ROOT / named).exists(), f"{page.name} names {named}"


def test_the_index_names_every_page_once() -> None:
    pages = [path.relative_to(ROOT / "docs") for path in tracked("docs/*.md")]
    named = re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "index.md").read_text())
    wanted = {str(page) for page in pages if page.parent.name != "measured" and page.name != "index.md"}
    assert wanted <= set(named)
    assert len(named) == len(set(named))


def test_every_promise_has_its_test() -> None:
    pages = [(ROOT / "docs" / page).read_text() for page in ("reliability.md", "security.md")]
    found = [re.findall(r"`(tests/\S+\.py)::(\w+)`", page) for page in pages]
    assert min(map(len, found)) > 10
    named = [each for page in found for each in page]
    assert [name for path, name in named if f"def {name}(" not in (ROOT / path).read_text()] == []
