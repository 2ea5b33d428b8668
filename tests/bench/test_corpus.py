"""The corpus bench: five small files end to end, and what the rest of it is made of."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from bench.corpus.entries import Entry, Input, Package, chosen, found, listed
from bench.corpus.fetch import FetchError, fetch, unpack
from bench.corpus.inputs import feeds_for, shapes_of
from bench.corpus.rows import EMPTY, ended, summary
from bench.made_models import MADE

SMALL = ("oww_timer", "oww_alexa", "oww_hey_rhasspy", "oww_melspectrogram", "micro_alexa")
RIGHT = SMALL[:4]


@pytest.mark.timeout(600)
def test_five_files(tmp_path: Path) -> None:
    """Fetched, built, compared, timed and written down; the one that is refused, too, if it is."""
    missing = [str(each) for each in fetch(chosen(listed(), SMALL)).values() if isinstance(each, FetchError)]
    if missing:
        assert os.environ.get("CI") != "true", missing[0]
        pytest.skip(missing[0])
    report = tmp_path / "corpus.json"
    only = [word for name in SMALL for word in ("--only", name)]
    command = [sys.executable, "-m", "bench.corpus", *only, "--rounds", "1", "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads(report.read_text())["rows"]}
    assert rows.keys() == set(SMALL)
    for name, row in rows.items():
        assert row["accepted"] is not None
        if name in RIGHT:
            assert row["right"], row
            assert row["max_error"] < 1e-4
            assert 0 <= row["own_share"] <= 1
            assert row["ratio_best"] <= row["ratio_onnxruntime"]
            assert {"import_s", "build_s", "build_mb", "bytes", "licence"} <= row.keys()
        else:
            assert row["right"] or row["reason"], row
    command = [sys.executable, "-m", "bench.report", str(report), "--docs", str(tmp_path)]
    subprocess.run(command, check=True, timeout=300)
    page = (tmp_path / "corpus.md").read_text()
    assert all(name in page for name in SMALL)


def test_a_file_that_is_no_model_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model at all")
    save(MADE["lstm"](0), tmp_path / "lstm.onnx")
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench.corpus", "--models", str(tmp_path), "--json", str(report)]
    done = subprocess.run(
        [*command, "--deadline-s", "200"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    broken, lstm = json.loads(report.read_text())["rows"]
    assert not broken["accepted"]
    assert "broken.onnx is not an ONNX or TFLite model" in broken["reason"]
    assert lstm["right"] or lstm["reason"]


def test_the_list_names_what_it_has() -> None:
    entries = listed()
    names = [entry.name for entry in entries]
    assert len(names) == len(set(names)) >= 60
    for entry in entries:
        assert entry.made or (entry.package and entry.package.licence and len(entry.sha256) == 64), entry
    assert [entry.name for entry in chosen(entries, ["mp_palm_*"])] == ["mp_palm_full", "mp_palm_lite"]
    with pytest.raises(ValueError, match="--only nothing: there is none called so"):
        chosen(entries, ["nothing"])
    with pytest.raises(ValueError, match=r"there is no \.onnx or \.tflite file"):
        found(Path(__file__).parent, entries)


def test_only_the_named_file_is_taken_and_only_if_it_is_the_listed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, archive = tmp_path / "a-1-py3-none-any.whl", tmp_path / "b-1.tgz"
    (tmp_path / "m.onnx").write_bytes(b"model")
    with zipfile.ZipFile(wheel, "w") as file:
        file.write(tmp_path / "m.onnx", "a/m.onnx")
    with tarfile.open(archive, "w:gz") as file:
        file.add(tmp_path / "m.onnx", "package/m.onnx")
    sha256 = hashlib.sha256(b"model").hexdigest()
    for downloaded, path in ((wheel, "a/m.onnx"), (archive, "package/m.onnx")):
        monkeypatch.setattr("bench.corpus.fetch._download", lambda *_, archive=downloaded: archive)
        package = Package("pypi", "a", "1", "MIT")
        entry = Entry("m", path, package=package, sha256=sha256)
        place = fetch([entry], tmp_path / downloaded.stem)["m"]
        assert isinstance(place, Path)
        assert place.read_bytes() == b"model"
        with pytest.raises(FetchError, match="has another"):
            unpack(package, [Entry("m", path, package=package, sha256="0" * 64)], tmp_path)
        with pytest.raises(FetchError, match="has no nothing"):
            unpack(package, [Entry("m", "nothing", package=package, sha256=sha256)], tmp_path)


def test_inputs_get_shapes_and_values(tmp_path: Path) -> None:
    """Of a dynamic model: what the list says, and else a batch of one, tokens, images, sound, states."""
    dims = {
        "ids": (TensorProto.INT64, ["batch", "length"]),
        "mask": (TensorProto.INT64, ["batch", "length"]),
        "image": (TensorProto.FLOAT, ["N", 3, None, "width"]),
        "pixels": (TensorProto.UINT8, [-1, "h", "w", 3]),
        "sound": (TensorProto.FLOAT, [None, "samples"]),
        "state": (TensorProto.FLOAT, [2, "batch", 64]),
        "fixed": (TensorProto.FLOAT, [2, 5]),
        "rate": (TensorProto.INT64, []),
    }
    values = [helper.make_tensor_value_info(name, *about) for name, about in dims.items()]
    node = helper.make_node("Identity", ["ids"], ["out"])
    output = helper.make_tensor_value_info("out", TensorProto.INT64, None)
    save(helper.make_model(helper.make_graph([node], "g", values, [output])), tmp_path / "m.onnx")
    entry = Entry(
        "m",
        "m.onnx",
        inputs={
            "ids": Input([1, 40], between=[5, 9]),
            "mask": Input([1, 40], value=1),
            "rate": Input(value=16000),
        },
    )
    shapes = shapes_of(tmp_path / "m.onnx", entry)
    assert shapes == {
        "ids": [1, 40],
        "mask": [1, 40],
        "image": [1, 3, 224, 224],
        "pixels": [1, 224, 224, 3],
        "sound": [1, 16000],
        "state": [2, 1, 64],
    }
    kinds = {
        "ids": ((1, 40), "int64"),
        "mask": ((1, 40), "int64"),
        "rate": ((), "int64"),
        "fixed": ((2, 5), "float32"),
    }
    feeds = feeds_for(kinds, entry, 0)
    assert set(np.unique(feeds["ids"])) == {5, 6, 7, 8}
    assert feeds["mask"].min() == feeds["mask"].max() == 1
    assert feeds["rate"] == 16000
    assert feeds["fixed"].std() > 0.1


def test_a_child_that_dies_leaves_how_far_it_got() -> None:
    row = {**EMPTY, "name": "m"}
    for step, said in (
        ({}, "reading it"),
        ({"accepted": True, "reason": ""}, "building it"),
        ({"builds": True, "reason": ""}, "it does not run"),
        ({"ran": True, "right": True, "reason": ""}, "measuring it"),
    ):
        row |= step
        here = dict(row)
        ended(here, "killed by signal 11")
        assert said in here["reason"] + here["check"]
        assert (here["right"] is False) == (said == "it does not run")


def test_wrong_models_count_for_no_mean() -> None:
    fast = EMPTY | {
        "name": "fast",
        "accepted": True,
        "builds": True,
        "right": True,
        "ours_ms": 1.0,
        "own_share": 1.0,
    }
    fast |= {"peers_ms": {"onnxruntime": 4.0, "litert": 2.0}, "ratio_best": 2.0}
    slow = fast | {
        "name": "slow",
        "ours_ms": 3.0,
        "own_share": 0.0,
        "peers_ms": {"onnxruntime": 3.0},
        "ratio_best": 1.0,
    }
    wrong = fast | {"name": "wrong", "right": False, "own_share": None}
    found = summary([fast, slow, wrong, EMPTY | {"name": "refused", "accepted": False}])
    assert found["wrong"] == ["wrong"]
    assert (found["files"], found["accepted"], found["built"], found["right"]) == (4, 3, 3, 2)
    assert found["means"]["onnxruntime"] == {"mean": pytest.approx(2.0), "models": 2, "faster": 2}
    assert found["means"]["best"]["mean"] == pytest.approx(2**0.5)
    assert (found["own_share"], found["own_share_a_model"]) == (0.25, 0.5)
