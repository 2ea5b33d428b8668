"""What ``tilefleet build`` says of what this machine cannot run: no board, a server's, or an emulator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from tiny_models import model, node, save
from typer.testing import CliRunner

from kernels.target import CATALOGUE, to_json
from server.models.schemas import BuildCheck, ModelCheck
from tilefleet import module_check, one_board, server_check
from tilefleet.cli import app
from tilefleet.emulated import emulator_of
from tilefleet.errors import Conflict, NotFound
from tilefleet.server_check import NotChecked
from tuner.backend.check import Check
from tuner.clibrary import served
from worker.fleet.drivers import simulated
from worker.fleet.drivers.sim_models import SIM_MODELS

FLEET = """
[[board]]
id = "near"
kind = "rpc"
target = "rpi4"
address = "127.0.0.1:1"
"""


@pytest.fixture(autouse=True)
def no_emulator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this machine, but for tests that are named after it."""
    if "emulator" not in request.node.name:
        monkeypatch.setattr(simulated.shutil, "which", lambda _: None)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "log.jsonl").write_text("")
    return save(
        tmp_path, model([node("Conv", ["x", "w"], "y")], {"x": (1, 3, 5, 5)}, ["y"], {"w": (8, 3, 3, 3)})
    )


def build(model: Path, *more: object) -> Result:
    words = ["build", model, "--log", model.with_name("log.jsonl"), "--target", "rpi4", *more]
    return CliRunner().invoke(app, [*map(str, words), "-o", str(model.with_name("m.so"))])


class Server:
    """A server with the boards of these states; its check gives, or raises, ``answer``."""

    url = "http://lab"

    def __init__(self, states: list[tuple[str, str]], answer: object) -> None:
        self.states, self.answer = states, answer

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None: ...

    def boards(self) -> list[object]:
        from server.boards.schemas import _BOARD, Board

        return [
            Board.model_validate({**_BOARD, "activity": activity, "health": health, "lease": None})
            for activity, health in self.states
        ]

    def check_module(self, model_hash: str, target: str, build: dict) -> BuildCheck:
        json.dumps(build)  # as it is sent
        if isinstance(self.answer, Exception):
            raise self.answer
        assert isinstance(self.answer, BuildCheck)
        return self.answer


def checked(wrong: str = "", sha256: str = "other") -> BuildCheck:
    check = ModelCheck(
        tolerance=1e-4,
        errors={"y": 1e-6},
        allowed={"y": 1e-4},
        by="onnx 1",
        wrong=wrong,
        skipped="",
        where="board pi-3",
    )
    return BuildCheck(sha256=sha256, checked=not wrong, check=check)


def said(small: Path) -> str:
    """Why the manifest says that nothing was checked."""
    manifest = json.loads(small.with_name("m.so.json").read_text())
    assert manifest["checked"] is False
    return str(manifest["check"]["skipped"])


def test_without_a_server_the_way_is_named(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFLEET_URL", "http://127.0.0.1:1")
    done = build(small)
    assert done.exit_code == 0, done.output
    assert "not checked: rpi4 is another machine than this, and no server answers" in done.stdout
    assert "rpi4-sim needs qemu-aarch64, which is not there; install" in said(small)
    assert said(small).endswith("apt-get install qemu-user; --board names a board")


@pytest.mark.parametrize(
    ("states", "answer", "why"),
    [
        ([], None, "has no board of that target"),
        ([("measuring", "good"), ("offline", "unknown")], None, "is idle and has the threads"),
        ([("idle", "good")], NotFound(404, {}), "the server at http://lab does not have the model"),
        (
            [("idle", "good")],
            Conflict(409, {"detail": "it took too long"}),
            "could not do it: it took too long",
        ),
        ([("idle", "good")], checked(), "the server at http://lab builds another module of the same"),
    ],
)
def test_what_a_server_lacks_is_said(
    small: Path, monkeypatch: pytest.MonkeyPatch, states: list, answer: object, why: str
) -> None:
    monkeypatch.setattr(server_check, "Client", lambda **_: Server(states, answer))
    assert build(small).exit_code == 0
    assert why in said(small)


def test_what_is_wrong_on_the_servers_board_is_not_written(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = checked("y differs by 0.3", "same")
    monkeypatch.setattr(server_check, "Client", lambda **_: Server([("idle", "good")], answer))
    monkeypatch.setattr(module_check.BuiltModule, "_sha256", lambda _: "same")
    done = build(small)
    assert done.exit_code == 1
    assert "was not written: y differs by 0.3 (board pi-3)" in done.stderr
    assert {path.name for path in small.parent.iterdir()} == {"model.onnx", "log.jsonl"}


needs_qemu = pytest.mark.skipif(
    simulated.why_no_emulator("rpi4-sim") is not None, reason=str(simulated.why_no_emulator("rpi4-sim"))
)


@needs_qemu
def test_without_a_board_an_emulator_checks(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEFLEET_URL", "http://127.0.0.1:1")
    done = build(small)
    assert done.exit_code == 0, done.output
    assert "checked on board rpi4-sim: y differs by" in done.stdout
    manifest = json.loads(small.with_name("m.so.json").read_text())
    assert (manifest["checked"], manifest["check"]["where"]) == (True, "board rpi4-sim")


@needs_qemu
def test_a_byte_for_nan_is_the_least_on_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor's own conversion of NaN to an integer may be another."""
    monkeypatch.setenv("TILEFLEET_URL", "http://127.0.0.1:1")
    constants = {"s": np.float32([0.02, 0.1, 1]), "z": np.int8([-3, 0, 5])}
    kinds = ("QuantizeLinear", "x", "b"), ("DequantizeLinear", "b", "y")
    nodes = [node(kind, [data, "s", "z"], result, axis=1) for kind, data, result in kinds]
    made = save(tmp_path, model(nodes, {"x": (5, 3)}, ["y"], constants))
    (tmp_path / "log.jsonl").write_text("")
    special = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-45, 3e38, -3e38, 1e9, 0.5, -2.5, 7, 100, -1e-38, 1]
    np.savez(tmp_path / "special.npz", x=np.float32(special).reshape(5, 3))
    done = build(made, "--check-input", tmp_path / "special.npz")
    assert done.exit_code == 0, done.output
    assert "checked on board rpi4-sim: y differs by 0 from" in done.stdout


@needs_qemu
@pytest.mark.parametrize("form", ["module", "c", "wheel"])
def test_what_is_wrong_on_an_emulator_is_not_written(
    small: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("TILEFLEET_URL", "http://127.0.0.1:1")
    monkeypatch.syspath_prepend(spoiling(small))
    output = small.with_name("m.so") if form == "module" else small.with_name("lib")
    more = [] if form == "module" else ["--as", form, "--name", "net"]
    words = ["build", small, "--log", small.with_name("log.jsonl"), "--target", "rpi4", *more, "-o", output]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 1, done.output
    assert "is wrong and was not written: y differs by" in done.stderr
    assert not output.exists() or list(output.iterdir()) == []


def test_a_target_without_emulator_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(CATALOGUE) - {model.target for model in SIM_MODELS.values()}
    for name in names:
        with pytest.raises(NotChecked, match="there is no emulator of that target"):
            emulator_of(CATALOGUE[name])
    assert names


def spoiling(small: Path) -> Path:
    """A folder that makes the process that computes definitions say something else."""
    folder = small.with_name("spoiling")
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'tuner.backend.evaluation' in sys.orig_argv:\n"
        "    import numpy as np\n"
        "    saved = np.savez\n"
        "    def spoilt(path, *values):\n"
        "        if 'values' in str(path) or 'nudged' in str(path):\n"
        "            values = [value * np.float32(1.5) for value in values]\n"
        "        saved(path, *values)\n"
        "    np.savez = spoilt\n"
    )
    return folder


def test_a_named_board_must_be_there(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_board, "PRESENT_S", 0.0)
    fleet = small.with_name("fleet.toml")
    fleet.write_text(FLEET)
    for more, why in {
        ("--board", "vax-sim"): "unknown board 'vax-sim'; there are: host, ",
        ("--board", "near", "--targets", fleet): "board near: nothing answers at 127.0.0.1:1",
        ("--board", "near", "--no-check"): "leave it out, or --board",
    }.items():
        refused = build(small, *more)
        assert refused.exit_code == 1
        assert why in refused.stderr
        assert not small.with_name("m.so").exists()


def test_a_library_is_run_by_the_server_too(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the server's child makes of the request is the same code, whatever log and model are called."""
    asked: list[dict] = []
    folder = small.with_name("lib")

    def build_library(answer: Callable[[dict], BuildCheck]) -> Result:
        class Lab(Server):
            def check_module(self, model_hash: str, target: str, build: dict) -> BuildCheck:
                asked.append(json.loads(json.dumps(build)))
                return answer(asked[-1])

        monkeypatch.setattr(server_check, "Client", lambda **_: Lab([("idle", "good")], None))
        words = ["build", small, "--log", small.with_name("log.jsonl"), "--as", "c", "--name", "net"]
        words += ["--target", "rpi4", "--weights", "file", "-o", folder]
        return CliRunner().invoke(app, [*map(str, words)])

    assert build_library(lambda _: checked(sha256="other")).exit_code == 0
    why = json.loads((folder / "net.json").read_text())["variants"][0]["check"]["skipped"]
    assert "builds another library of the same; rpi4-sim needs qemu-aarch64" in why

    monkeypatch.setattr(
        served, "_check", lambda *_: Check(1e-4, wrong="y differs by 0.3", where="board pi-3")
    )

    def by_the_child(build: dict) -> BuildCheck:
        assert build["library"] == {"name": "net", "targets": ["rpi4"], "level": 0}
        build["library"]["targets"] = [to_json(CATALOGUE["rpi4"])]
        payload = {**build, "model": str(small), "target": to_json(CATALOGUE["rpi4"]), "id": "pi-3"}
        found = served.check_in_child(payload, lambda _: None)
        return checked(found["check"]["wrong"], found["sha256"])

    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    done = build_library(by_the_child)
    assert done.exit_code == 1
    assert "the library is wrong and was not written: y differs by 0.3 (board pi-3)" in done.stderr
