"""A model built in every form that a user gets, and what each computes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from onnx import ModelProto
from tiny_models import save
from tvm import relax
from typer.testing import CliRunner

from tilefleet.cli import app
from tuner.backend.comparison import run
from tuner.clibrary.loaded import Loaded
from tuner.clibrary.toolchain import link_shared
from tuner.ortmodel.session import session
from tuner.runtimes.engines import onnx_session

FORMS = ("module", "c", "wheel", "onnxruntime")


def built(folder: Path, path: Path, form: str, *more: str) -> Path:
    """What ``tilefleet build`` writes, checked; fails with what it says."""
    log, out = folder / "log.jsonl", folder / ("module.so" if form == "module" else form)
    log.write_text("")
    name = ["--name", "Net"] if form != "module" else []
    words = ["build", path, "--log", log, "--as", form, "-o", out, *name, "--target", "x86-avx2", *more]
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    # Of results without elements there is nothing to see.
    assert "not checked" not in done.output or "could not have failed" in done.output
    return out


def computed(folder: Path, path: Path, form: str, feeds: dict[str, Any], *more: str) -> list[Any]:
    """The outputs of the model in one of the ``FORMS``."""
    out = built(folder, path, form, *more)
    if form == "module":
        main = relax.VirtualMachine(tvm.runtime.load_module(str(out)), tvm.cpu())["main"]
        return run(main, feeds)
    if form == "onnxruntime":
        found = session(out / "model.onnx", out / "libNet.so", 1)
        return list(found.run(None, {each.name: feeds[each.name] for each in found.get_inputs()}))
    if form == "wheel":
        (wheel,) = out.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "unpacked")
        return _of_wheel(folder / "unpacked", feeds)
    link_shared(sorted(out.glob("Net*.o")), out / "net.so")
    return Loaded(out / "net.so", "Net").run(list(feeds.values()))


def _of_wheel(folder: Path, feeds: dict[str, Any]) -> list[Any]:
    """In a process of its own: a name is imported once."""
    np.savez(folder / "feeds.npz", *feeds.values())
    code = (
        "import numpy as np, Net; given = np.load('feeds.npz'); found = Net.run(*given.values());"
        "np.savez('found.npz', *(found if isinstance(found, tuple) else [found]))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    with np.load(folder / "found.npz") as found:
        return list(found.values())


def check(folder: Path, made: ModelProto, feeds: dict[str, Any], *more: str) -> None:
    """Fails where a form computes something else than onnxruntime without its rewrites."""
    path = save(folder, made)
    expected = onnx_session(made.SerializeToString(), 1, optimised=False).run(None, feeds)
    for form in FORMS:
        found = computed(folder, path, form, feeds, *more)
        assert len(found) == len(expected), form
        for value, right in zip(found, expected, strict=True):
            assert (value.dtype, value.shape) == (right.dtype, right.shape), form
            np.testing.assert_allclose(value, right, rtol=1e-5, atol=1e-5, err_msg=form)
