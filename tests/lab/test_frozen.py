"""The texts that a change of form must not change."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from lab.frozen.dump import dump
from lab.frozen.texts import differences, written

# The corpus is fetched, and the onnx package's tests take seconds to load.
GROUPS = ("kernels", "tflite", "picks", "surface")


def test_two_processes_write_the_same_texts(tmp_path: Path) -> None:
    dump(GROUPS, tmp_path, sample=3)
    for group in GROUPS:
        files = [*(tmp_path / group).iterdir()]
        assert len(files) == 3
        for file in files:
            key, _, text = file.read_text().partition("\n")
            assert text == import_module(f"lab.frozen.{group}").text(key)
            assert len(text) > 100


def test_every_family_is_among_the_kernels() -> None:
    from kernels import registry
    from lab.frozen.kernels import keys

    # Tests of other files may have registered kernels of their own.
    ours = {
        name for name, each in registry.all_kernels().items() if type(each).__module__.startswith("kernels.")
    }
    assert {key.partition(" ")[0] for key in keys()} >= ours


def test_what_differs_is_told_with_its_first_line(tmp_path: Path) -> None:
    written(tmp_path / "before", [("same", "a\n"), ("gone one", "b\n"), ("other", "c\nd\n")])
    written(tmp_path / "now", [("same", "a\n"), ("other", "c\ne\n"), ("new one", "f\n")])
    assert differences(tmp_path / "before", tmp_path / "now") == [
        "gone one: gone",
        "new one: new",
        "other: 'd' became 'e'",
    ]


def test_an_unknown_group_or_commit_is_refused() -> None:
    for words, said in ((["--groups", "all"], "no group all"), (["--since", "nowhere"], "nowhere")):
        command = [sys.executable, "-m", "lab.frozen", "--check", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode
        assert said in done.stderr
