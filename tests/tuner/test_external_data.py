"""Models whose weights lie in other files: one model is made of them, and nothing else is ever read."""

import stat
import zipfile

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tiny_models import model, node, save

from compiler.intake.assemble import assemble, assembled, packed
from compiler.intake.extract import extract
from compiler.ir.checks import ModelError

LARGEST = 1 << 20


def written(folder, location="model.onnx.data"):
    """A model with two weights in one other file, a bias inside; the same with all inside."""
    nodes = [node("Conv", ["x", "w"], "a"), node("Conv", ["a", "v", "b"], "y")]
    made = model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {"w": (4, 4, 3, 3), "v": (8, 4, 1, 1), "b": (8,)})
    whole = made.SerializeToString(deterministic=True)
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    with (folder / location).open("wb") as file:
        file.write(b"padding!")
        for tensor in made.graph.initializer[:2]:
            offset = file.tell()
            file.write(tensor.raw_data)
            outside(tensor, location, offset=offset, length=len(tensor.raw_data))
    return save(folder, made), whole


def outside(tensor, location, **numbers):
    tensor.ClearField("raw_data")
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **numbers}.items():
        tensor.external_data.add(key=key, value=str(value))


def same(path, whole):
    assert onnx.load_from_string(path.read_bytes()) == onnx.load_from_string(whole)


@pytest.mark.parametrize("location", ["model.onnx.data", "weights/part 1.bin"])
def test_the_file_beside_it_and_a_zip_of_both_make_one_model(tmp_path, location):
    path, whole = written(tmp_path, location)
    with assembled(path, {}) as one:
        same(one, whole)
        assert len(extract(one).operators) == 2
    with packed(path) as archive:
        assemble(archive, tmp_path / "whole.onnx", {}, LARGEST)
    same(tmp_path / "whole.onnx", whole)
    with packed(tmp_path / "whole.onnx") as plain, assembled(tmp_path / "whole.onnx", {}) as unchanged:
        assert plain == unchanged == tmp_path / "whole.onnx"


def test_a_file_elsewhere_is_given_and_a_link_is_not_followed(tmp_path):
    path, whole = written(tmp_path)
    data, elsewhere = tmp_path / "model.onnx.data", tmp_path / "elsewhere"
    elsewhere.mkdir()
    data.rename(elsewhere / data.name)
    for way in (packed(path), assembled(path, {})):
        with pytest.raises(ModelError, match=r"'model\.onnx\.data'.*--data FILE"), way:
            pass
    data.symlink_to(elsewhere / data.name)
    with pytest.raises(ModelError, match=r"link.*--data FILE"), packed(path):
        pass
    with assembled(path, {}, [elsewhere / data.name]) as one:
        same(one, whole)
    with packed(path, [elsewhere / data.name]) as archive:
        assemble(archive, tmp_path / "whole.onnx", {}, LARGEST)
    same(tmp_path / "whole.onnx", whole)


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "../secret",
        "a/../../secret",
        "",
        "..",
        "C:\\secret",
        "a\\b",
        "bad\nname",
        "file:///etc/passwd",
    ],
)
def test_places_outside_of_the_folder(tmp_path, location):
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret").write_bytes(bytes(5000))
    path, _ = written(tmp_path / "inner")
    made = onnx.load_from_string(path.read_bytes())
    outside(made.graph.initializer[0], location)
    path.write_bytes(made.SerializeToString())
    for way in (packed(path), assembled(path, {})):
        with pytest.raises(ModelError, match="no path below the model's folder"), way:
            pass


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"offset": 10**6}, "has fewer"),
        ({"offset": -8}, "offset '-8'"),
        ({"offset": "0x10"}, "offset"),
        ({"length": 100}, "needs 576 bytes"),
        ({"offset": 600}, "has fewer"),
    ],
)
def test_numbers_that_do_not_fit(tmp_path, numbers, words):
    path, _ = written(tmp_path)
    made = onnx.load_from_string(path.read_bytes())
    outside(made.graph.initializer[0], "model.onnx.data", **numbers)
    path.write_bytes(made.SerializeToString())
    with pytest.raises(ModelError, match=rf"initializer 'w' .*{words}"), assembled(path, {}):
        pass


def archive_of(folder, *entries, method=zipfile.ZIP_DEFLATED):
    path = folder / "some.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def refused(path, words):
    with pytest.raises(ModelError, match=words):
        assemble(path, path.with_name("whole.onnx"), {}, LARGEST)
    assert not path.with_name("whole.onnx").exists()


def test_hostile_archives(tmp_path):
    path, _ = written(tmp_path)
    made, data = path.read_bytes(), (tmp_path / "model.onnx.data").read_bytes()
    link = zipfile.ZipInfo("model.onnx.data")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(archive_of(tmp_path, ("model.onnx", made), (link, "/etc/passwd")), "link 'model.onnx.data'")
    refused(archive_of(tmp_path, ("model.onnx", made), ("../model.onnx.data", data)), "no path below")
    refused(archive_of(tmp_path, ("model.onnx", made), ("/etc/x", data)), "no path below")
    refused(archive_of(tmp_path, ("model.onnx", made)), "'model.onnx.data', which the archive does not have")
    refused(archive_of(tmp_path, ("model.onnx.data", data)), "0 files that end with .onnx")
    refused(archive_of(tmp_path, ("a.onnx", made), ("b.onnx", made)), "2 files that end with .onnx")
    refused(archive_of(tmp_path, ("model.onnx", bytes(2 * LARGEST))), "more than 1000 files or 1048576 bytes")
    refused(archive_of(tmp_path, *((f"{i}.onnx", b"") for i in range(1001))), "more than 1000 files")
    refused(archive_of(tmp_path, ("model.onnx", b"no model"), ("model.onnx.data", data)), "not an ONNX")


def test_one_byte_range_under_many_names_counts_every_time(tmp_path):
    made = onnx.load_from_string(written(tmp_path)[0].read_bytes())
    for count in range(50):
        tensor = numpy_helper.from_array(np.zeros((100, 100), np.float32), f"t{count}")
        outside(tensor, "model.onnx.data")
        made.graph.initializer.append(tensor)
    entries = ("model.onnx", made.SerializeToString()), ("model.onnx.data", bytes(50_000))
    refused(archive_of(tmp_path, *entries), "with its data would have more than 1048576 bytes")


def test_damaged_archives(tmp_path):
    path, _ = written(tmp_path)
    with packed(path) as archive:
        data = archive.read_bytes()
    rng = np.random.default_rng()
    for cut in (30, len(data) // 2, len(data) - 5):
        (tmp_path / "some.zip").write_bytes(data[:cut])
        refused(tmp_path / "some.zip", "zip that cannot be read")
    for _ in range(40):
        flipped = bytearray(data)
        flipped[rng.integers(4, len(data))] ^= int(rng.integers(1, 256))
        (tmp_path / "some.zip").write_bytes(flipped)
        try:
            assemble(tmp_path / "some.zip", tmp_path / "whole.onnx", {}, LARGEST)
        except ModelError:
            continue
