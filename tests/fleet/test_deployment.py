"""Everything in processes of its own, started as docs/operations.md and docker-compose.yml write it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from databases import lacking
from fleet_accounts import JOB_S, layer

from bench.soak.fleet_file import free_port
from bench.soak.servers import postgres_bin
from bench.soak.world import START_S, World, wait_for
from kernels.workload.base import to_json
from server.http.dashboard_page import BUILT
from tilefleet import Client

pytestmark = [pytest.mark.xdist_group("deployment"), pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
NATIVE_PORTS = (5432, 6379, 8786, 8470)
TRIALS = 6
ONCE = ("initdb", "createdb")
"""What ends by itself; all others run until they are stopped."""


class Natively:
    """Starts command lines in a folder of a world, each port that they name another one that is free."""

    def __init__(
        self, world: World, folder: Path, ports: tuple[int, ...], hosts: tuple[str, ...] = ()
    ) -> None:
        self.world, self.folder, self._hosts = world, folder, hosts
        self.ports = {str(port): str(free_port()) for port in ports}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
        if server := postgres_bin("initdb"):
            programs.insert(1, str(server.parent))
        self.path = os.pathsep.join(programs)

    def words(self, line: str) -> list[str]:
        """A line's words for this machine."""
        for port, other in self.ports.items():
            line = re.sub(rf"(?<=[ :]){port}\b", other, line)
        line = re.sub(rf"\b({'|'.join((*self._hosts, 'nowhere'))})(?=:\d)", "127.0.0.1", line)
        return shlex.split(line.replace("0.0.0.0", "127.0.0.1"))

    def run(self, name: str, line: str, **settings: str) -> None:
        """Start a line; wait for its end where it ends by itself."""
        words = self.words(line)
        while re.match(r"\w+=", words[0]):
            variable, _, value = words.pop(0).partition("=")
            settings[variable] = value
        program = words[0]
        if shutil.which(program, path=self.path) is None:
            lacking(program)
        if os.getuid() == 0 and program in ("initdb", "postgres"):  # PostgreSQL refuses to run as root
            words = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *words]
        words[0] = shutil.which(words[0], path=self.path) or words[0]
        command = ["env", "-C", self.folder, f"PATH={self.path}", *words]
        process = self.world.start(*command, log=f"{name}.log", home=self.folder / "home", **settings)
        self.processes[name] = process
        if program in ONCE:
            assert process.wait(START_S) == 0, self.said(name)

    def said(self, name: str) -> str:
        return self.world.said(f"{name}.log")

    def answers(self, name: str, url: str) -> None:
        """Wait until a URL is answered well."""

        def healthy() -> bool:
            assert self.processes[name].poll() is None, self.said(name)
            try:
                return httpx.get(url, trust_env=False, timeout=10).status_code == 200
            except httpx.TransportError:
                return False

        wait_for(healthy, START_S, why=lambda: self.said(name))

    def stop(self) -> None:
        """End all, what was started last first."""
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.terminate()
                process.wait(120)


@pytest.fixture
def folder(world: World, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Where PostgreSQL's user may go, too."""
    made = Path("/tmp") / f"deployed-{os.getpid()}-{request.node.name[:12]}"
    made.mkdir()
    if os.getuid() == 0:
        shutil.chown(made, "nobody", "nogroup")
    yield made
    shutil.rmtree(made)


def works(url: str, board: str) -> None:
    """A job is done on a board, all of it built elsewhere."""
    with Client(url) as client:
        wait_for(lambda: [each.health for each in client.boards() if each.id == board] == ["good"], START_S)
        job = client.submit(target="host", workload=to_json(layer(90)), trials=TRIALS, strategy="random")
        wait_for(lambda: client.job(job.id).ended, JOB_S, why=lambda: client.job(job.id))
        ended = client.job(job.id)
        assert (ended.state, ended.trials) == ("done", TRIALS), ended
        # The machine may be so busy that a candidate does not end in time.
        assert set(ended.errors) <= {"run_timeout"}, ended
        assert ended.failed < TRIALS, ended


def native_lines() -> list[str]:
    """The commands of docs/operations.md that start everything by itself."""
    page = (ROOT / "docs/operations.md").read_text()
    block = re.search(r"## Remote workers\n.*?```\n(.*?)```", page, re.DOTALL)
    assert block is not None
    return block.group(1).strip().splitlines()


def test_everything_runs_natively_as_the_page_says(world: World, folder: Path) -> None:
    natively = Natively(world, folder, NATIVE_PORTS)
    settings: dict[str, str] = {}
    names: list[str] = []
    for number, line in enumerate(native_lines()):
        if line.startswith("export "):
            variable, _, value = natively.words(line)[1].partition("=")
            settings[variable] = value
            continue
        name = f"{number}-{natively.words(line)[0].partition('=')[0]}"
        names.append(name)
        natively.run(name, line, **settings)
        if "postgres -D" in line:
            wait_for(lambda name=name: "ready to accept connections" in natively.said(name), START_S)
    url = f"http://127.0.0.1:{natively.ports['8470']}"
    natively.answers(names[-1], f"{url}/health")
    works(url, "bench-1")
    assert {"postgres", "redis-server", "dask", "python"} <= {name.partition("-")[2] for name in names}
    assert list((folder / "builder").rglob("*.so")), "the worker that builds has built nothing"
    natively.stop()


def locked(name: str) -> set[str]:
    """What a lock file has, as name==version."""
    return set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / name).read_text(), re.MULTILINE))


def tools() -> list[str]:
    """Modules of development packages, which the image lacks."""
    extra = {
        each.partition("==")[0] for each in locked("requirements.lock") - locked("requirements-run.lock")
    }
    return sorted(
        module
        for module, owners in packages_distributions().items()
        if {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} <= extra
    )


LACKING = """
import sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(f"the image has no {{name}}", name=name)

sys.meta_path.insert(0, Lacking())
"""


def in_order(services: dict[str, Any]) -> list[str]:
    """Each after those that it depends on."""
    done: list[str] = []
    while len(done) < len(services):
        done += [
            name
            for name, service in services.items()
            if name not in done and set(service.get("depends_on", ())) <= set(done)
        ]
    return done


def test_each_service_of_the_compose_file_starts_as_written(world: World, folder: Path) -> None:
    text = re.sub(r"\$\{(POSTGRES|REDIS)_PASSWORD[^}]*\}", "x", (ROOT / "docker-compose.yml").read_text())
    services = yaml.safe_load(text)["services"]
    (folder / "sitecustomize.py").write_text(LACKING.format(modules=set(tools())))
    natively = Natively(world, folder, NATIVE_PORTS, tuple(services))
    for number, line in enumerate(native_lines()[:4]):  # their images' own commands are not ours
        natively.run(f"compose-{number}", f"{line} --requirepass x" if line.startswith("redis") else line)
        if line.startswith("postgres"):
            wait_for(lambda: "ready to accept connections" in natively.said("compose-1"), START_S)
    usual = re.search(r"^CMD (\[.*\])$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert usual is not None
    for name in in_order({key: each for key, each in services.items() if "build" in each or "image" in each}):
        service = services[name]
        if "build" not in service:
            continue
        command = service.get("command") or shlex.join(yaml.safe_load(usual.group(1)))
        command = command.replace("/data", str(folder / "data")).replace(
            "/etc/tilefleet", str(ROOT / "deploy")
        )
        if name == "coordinator":
            command += " --port 8470"
        settings = {
            key: shlex.join(natively.words(value)) for key, value in service.get("environment", {}).items()
        }
        natively.run(name, command, PYTHONPATH=os.pathsep.join((str(folder), str(ROOT))), **settings)
        if check := service.get("healthcheck"):
            words = [sys.executable, *natively.words(shlex.join(check["test"]))[2:]]
            wait_for(
                lambda words=words: subprocess.run(words, capture_output=True).returncode == 0,
                START_S,
                why=lambda name=name: natively.said(name),
            )
    works(f"http://127.0.0.1:{natively.ports['8470']}", "host")
    assert list((folder / "data/builder").rglob("*.so"))
    natively.stop()


def test_the_image_has_no_development_tools() -> None:
    assert locked("requirements-run.lock") < locked("requirements.lock"), "make lock writes both"
    assert {"pytest", "mypy", "playwright", "onnxruntime"} <= set(tools())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.match(r"[\w-]+", each)[0].lower() for each in project["dependencies"]}  # type: ignore[index]
    assert wanted <= {each.partition("==")[0] for each in locked("requirements-run.lock")}
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    copied = re.findall(r"^COPY (.+)$", last, re.MULTILINE)
    assert copied == ["requirements-run.lock /", "--from=build /wheel /wheel"]


def test_who_wants_a_simulated_board_in_a_container_learns_what_the_image_lacks() -> None:
    """Where boards are named and where the containers are described."""
    last = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    (line,) = re.findall(r"^RUN apt-get .*$", last, re.MULTILINE)
    page = (ROOT / "docs/operations.md").read_text()
    section = page.partition("\n## docker-compose.yml\n")[2].partition("\n## ")[0]
    assert "qemu-user" not in line, "then the texts below are wrong"
    for text in ((ROOT / "deploy/fleet.toml").read_text(), section):
        assert "qemu-user" in text
        (beside,) = re.findall(r"beside\W+(\w+)", text)[:1]
        assert f" {beside} " in line


def test_the_wheel_in_the_image_has_every_file_that_runs(tmp_path: Path) -> None:
    """What git has in the packages is what the wheel has, and the built pages."""
    if not BUILT.exists():
        lacking("the built dashboard (make setup)")
    packages = ("kernels", "tuner", "worker", "server", "tilefleet", "migrations", "bench")
    done = subprocess.run(
        ["git", "ls-files", *packages, "dashboard", "pyproject.toml", "PACKAGE.md", "LICENSE", "MANIFEST.in"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    files = [name for name in done.stdout.splitlines() if (ROOT / name).exists()]
    for name in files:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "source" / name)
    shutil.copytree(BUILT, tmp_path / "source/server/dashboard", copy_function=shutil.copyfile)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index"]
    made = subprocess.run(
        [*command, "-w", tmp_path, tmp_path / "source"], capture_output=True, text=True, timeout=240
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    needed = {name for name in files if name.partition("/")[0] in packages}
    needed |= {f"server/dashboard/{path.relative_to(BUILT)}" for path in BUILT.rglob("*") if path.is_file()}
    assert needed - inside == set(), "declare them as package-data in pyproject.toml"
    foreign = {name for name in inside - needed if ".dist-info/" not in name}
    assert foreign == set()
