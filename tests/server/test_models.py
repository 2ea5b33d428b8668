"""Uploading models and reading them back."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from fake_engine import FakeEngine
from fastapi.testclient import TestClient
from onnx import helper
from server_samples import conv_model

from server.settings import Settings
from tilefleet.client import Client
from tilefleet.errors import InvalidInput
from tuner.backend.check import Check, Delivery
from worker.children.nursery import Nursery

URL = "/api/v1/models"


def files_of(settings: Settings) -> list[Path]:
    return [path for path in (settings.home_dir / "models").rglob("*") if path.is_file()]


def assert_refused(client: TestClient, settings: Settings, body: bytes, *words: str, **params: str) -> None:
    """Refused with a 422 that has all the words, and nothing is stored."""
    response = client.post(URL, params={"name": "net.onnx", **params}, content=body)
    assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json")
    detail = response.json()["detail"]
    assert "net.onnx" in detail
    assert not [word for word in words if word not in detail], detail
    assert "Traceback" not in response.text
    assert str(settings.home_dir) not in response.text
    assert client.get(URL).json() == {"items": [], "next": None}
    assert files_of(settings) == []


def test_a_build_is_checked_on_a_board(client: TestClient, engine: FakeEngine) -> None:
    model = client.post(URL, content=conv_model()).json()
    url, request = f"{URL}/{model['hash']}/checks", {"target": "host"}
    assert client.post(url, json=request).status_code == 409  # this engine runs no models
    check = Check(1e-4, {"y": 1e-6}, {"y": 1e-4}, "onnxruntime 1.31.1", where="board host")
    engine.delivery = Delivery(check, sha256="ab" * 32)
    found = client.post(url, json=request)
    assert (found.status_code, found.json()) == (200, {"sha256": "ab" * 32, **check.to_json(), "each": []})
    assert client.post(f"{URL}/{'0' * 64}/checks", json=request).status_code == 404
    refused = client.post(url, json={"target": "vax"})
    assert (refused.status_code, "unknown target 'vax'" in refused.json()["detail"]) == (422, True)


def test_a_c_library_is_checked_by_its_own_child(client: TestClient, engine: FakeEngine) -> None:
    url = f"{URL}/{client.post(URL, content=conv_model()).json()['hash']}/checks"
    engine.delivery = Delivery(Check(1e-4, where="board host"), sha256="cd" * 32)
    library = {"name": "net", "targets": ["rpi4", "host"], "level": 1}
    found = client.post(url, json={"target": "host", "threads": 4, "library": library})
    assert (found.status_code, found.json()["sha256"]) == (200, "cd" * 32)
    assert engine.functions[-1] == "tuner.clibrary.served:check_in_child"
    assert [each["name"] for each in engine.payloads[-1]["library"]["targets"]] == ["rpi4", "host"]
    assert engine.demands[-1].threads == 1
    for wrong, said in {
        "level": ({"level": 0}, "not the place of `target`"),
        "target": ({"targets": ["vax", "host"]}, "unknown target 'vax'"),
        "name": ({"name": "1; x"}, "pattern"),
    }.values():
        refused = client.post(url, json={"target": "host", "library": {**library, **wrong}})
        assert (refused.status_code, said in refused.text) == (422, True), refused.text


def test_upload_list_read_and_dedup(client: TestClient, settings: Settings) -> None:
    body = conv_model()
    created = client.post(URL, params={"name": "net.onnx"}, content=body)
    assert created.status_code == 201, created.text
    model = created.json()
    assert model["hash"] == hashlib.sha256(body).hexdigest()
    assert model["inputs"] == [{"name": "x", "shape": [1, 3, 8, 8]}]
    assert (model["operators"], model["tunable"], model["state"]) == (3, 3, "ready")
    assert model["flops"] == 2 * 8 * 8 * 4 * (27 + 4 + 4)

    again = client.post(URL, params={"name": "other.onnx"}, content=body)
    model["name"] = "other.onnx"  # the last that it was given
    assert (again.status_code, again.json()) == (200, model)
    assert len(files_of(settings)) == 1

    second = client.post(URL, content=conv_model(channels=8)).json()
    page = client.get(URL, params={"limit": 1}).json()
    assert [item["hash"] for item in page["items"]] == [second["hash"]]
    page = client.get(URL, params={"limit": 1, "after": page["next"]}).json()
    assert page == {"items": [model], "next": None}
    assert client.get(f"{URL}/{model['hash'][:8]}").json() == model
    assert client.get(f"{URL}/{model['hash']}/file").content == body

    found = client.get(f"{URL}/{model['hash']}/workloads").json()
    assert [each["count"] for each in found["workloads"]] == [1, 2]
    assert [each["nodes"] for each in found["workloads"]] == [["conv0 + relu0"], ["conv1", "conv2"]]
    assert found["not_tunable"] == []


def test_a_model_without_its_file_says_so_and_an_upload_brings_it_back(
    client: TestClient, settings: Settings
) -> None:
    body = conv_model()
    model = client.post(URL, params={"name": "net.onnx"}, content=body).json()
    file = next(path for path in files_of(settings) if path.name == model["hash"])
    for harm in (file.unlink, lambda: file.write_bytes(body[:-1])):
        harm()
        asked = [client.get(f"{URL}/{model['hash']}/file"), client.post(f"{URL}/{model['hash']}/graph")]
        asked.append(client.post(f"{URL}/{model['hash']}/checks", json={"target": "host"}))
        assert {(answer.status_code, "upload it again" in answer.text) for answer in asked} == {(404, True)}
        again = client.post(URL, params={"name": "net.onnx"}, content=body)
        assert (again.status_code, again.json()) == (200, model)
        assert client.get(f"{URL}/{model['hash']}/file").content == body


def test_what_is_in_a_files_place_is_named(client: TestClient, settings: Settings) -> None:
    client._transport.raise_server_exceptions = False
    body = conv_model()
    model = client.post(URL, content=body).json()
    file = next(path for path in files_of(settings) if path.name == model["hash"])
    file.unlink()
    (file / "inside").mkdir(parents=True)
    assert client.get(f"{URL}/{model['hash']}/file").status_code == 404
    incoming = file.parent / "incoming"
    for harm, place in ((lambda: None, file), (incoming.rmdir, incoming), (incoming.touch, incoming)):
        harm()
        refused = client.post(URL, content=body)
        assert (refused.status_code, refused.headers["content-type"]) == (503, "application/problem+json")
        assert f"the server cannot use {place}" in refused.json()["detail"]
    incoming.unlink()
    incoming.mkdir()
    (file / "inside").rmdir()
    file.rmdir()
    assert client.post(URL, content=body).json() == model
    assert client.get(f"{URL}/{model['hash']}/file").content == body


def test_dynamic_shapes(client: TestClient, settings: Settings) -> None:
    body = conv_model(("batch", 3, 8, 8))
    assert_refused(client, settings, body, "x", "shape")
    shapes = '{"x": [2, 3, 8, 8]}'
    model = client.post(URL, params={"shapes": shapes}, content=body).json()
    assert model["inputs"] == [{"name": "x", "shape": [2, 3, 8, 8]}]
    none = client.post(f"{URL}/{model['hash']}/workloads", params={"shapes": '{"x": [0, 3, 8, 8]}'})
    assert none.status_code == 200, none.text
    found = client.post(f"{URL}/{model['hash']}/workloads", params={"shapes": '{"x": [5, 3, 8, 8]}'}).json()
    assert [each["workload"]["n"] for each in found["workloads"]] == [5, 5]
    other = client.post(URL, params={"shapes": '{"x": [5, 3, 8, 8]}'}, content=body)
    assert other.status_code == 409
    assert "[2, 3, 8, 8]" in other.json()["detail"]
    for wrong in ("[1]", "{", '{"x": [-1]}', '{"x": [true]}'):
        response = client.post(URL, params={"shapes": wrong}, content=body)
        assert (response.status_code, response.json()["errors"][0]["loc"]) == (422, ["query", "shapes"])


def test_a_job_may_have_other_shapes_than_the_upload(client: TestClient, tmp_path: Path) -> None:
    api, path = Client("http://testserver"), tmp_path / "net.onnx"
    api._http = client  # what it says goes to the application itself
    path.write_bytes(conv_model(("batch", 3, 8, 8)))
    first = api.upload_for(path, {"x": [2, 3, 8, 8]})
    assert api.upload_for(path, [{"x": [5, 3, 8, 8]}, {"x": [7, 3, 8, 8]}]) == first
    path.write_bytes(conv_model(("batch", 3, 9, 9)))
    with pytest.raises(InvalidInput, match="--shape x=1,3,9,9"):
        api.upload_for(path, None)


def zip_bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.onnx", bytes(64 << 20))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "body",
    [b"", b"not a model", conv_model()[:-100], zip_bomb(), gzip.compress(conv_model())],
    ids=["empty", "text", "truncated", "zip", "gzip"],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_what_is_no_model_is_refused(client: TestClient, settings: Settings, body: bytes) -> None:
    assert_refused(client, settings, body)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_too_large_is_refused_declared_or_not(client: TestClient, settings: Settings) -> None:
    def chunks():
        for _ in range(40):
            yield bytes(64 << 10)

    for content in (bytes((1 << 20) + 1), chunks()):
        response = client.post(URL, content=content)
        assert response.status_code == 413, response.text
        assert "1 MB (TILEFLEET_MAX_MODEL_MB)" in response.json()["detail"]
    assert files_of(settings) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_a_compressed_body_is_refused(client: TestClient) -> None:
    response = client.post(URL, content=gzip.compress(conv_model()), headers={"Content-Encoding": "gzip"})
    assert response.status_code == 415


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("hang", ["more than"]),
        ("segfault", ["died", "signal 11"]),
        ("raise", ["ZeroDivisionError"]),
        ("hoard", ["memory"]),
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_a_parser_that_fails_is_told_and_nothing_stays(
    client: TestClient,
    settings: Settings,
    nursery: Nursery,
    monkeypatch: pytest.MonkeyPatch,
    error: str,
    words: list[str],
) -> None:
    """A child that hangs, dies, fails or hoards memory, in the parser's place."""
    real = nursery.call

    def call(function: str, payload: object, *, timeout_s: float, **more: object) -> object:
        timeout_s = 3.0 if error == "hang" else 240.0
        return real(f"server_hostile:{error}", payload, timeout_s=timeout_s, memory_bytes=1 << 30)

    monkeypatch.setattr(nursery, "call", call)
    assert_refused(client, settings, conv_model(), *words)


def test_unknown_models_are_404(client: TestClient) -> None:
    for path in (f"{URL}/{'0' * 64}", f"{URL}/zzz", f"{URL}/{'0' * 64}/file", f"{URL}/{'0' * 64}/workloads"):
        response = client.get(path)
        assert (response.status_code, response.json()["title"]) == (404, "Not Found")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_unusable_graphs_name_the_thing(client: TestClient, settings: Settings) -> None:
    import onnx

    unknown = onnx.load_from_string(conv_model())
    unknown.graph.node.append(helper.make_node("Frobnicate", ["y"], ["z"], "odd"))
    unknown.graph.output[0].name = "z"
    assert_refused(client, settings, unknown.SerializeToString(), "Frobnicate")
    outside = onnx.load_from_string(conv_model())
    weight = outside.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../etc/passwd")
    assert_refused(client, settings, outside.SerializeToString(), "w0", "zip of both")


def given_a_rate() -> bytes:
    """A model that scales its data by an input."""
    import onnx

    made = onnx.load_from_string(conv_model())
    made.graph.node.append(helper.make_node("Mul", ["y", "rate"], ["z"], "scale"))
    made.graph.output[0].name = "z"
    made.graph.input.append(helper.make_tensor_value_info("rate", onnx.TensorProto.FLOAT, [1]))
    return made.SerializeToString()


def test_values_become_constants_of_another_model(client: TestClient, settings: Settings) -> None:
    import onnx

    body = given_a_rate()
    plain = client.post(URL, content=body).json()
    assert [each["name"] for each in plain["inputs"]] == ["x", "rate"]
    half, again, third = (
        client.post(URL, params={"values": f'{{"rate": [{rate}]}}'}, content=body)
        for rate in ("0.5", "0.5", "3")
    )
    assert (half.status_code, again.status_code, third.status_code) == (201, 200, 201)
    model = half.json()
    assert again.json() == model
    assert [each["name"] for each in model["inputs"]] == ["x"]
    assert len({plain["hash"], model["hash"], third.json()["hash"]}) == 3
    stored = client.get(f"{URL}/{model['hash']}/file").content
    assert hashlib.sha256(stored).hexdigest() == model["hash"]
    assert len(stored) == model["size"]
    rate = next(t for t in onnx.load_from_string(stored).graph.initializer if t.name == "rate")
    assert onnx.numpy_helper.to_array(rate).tolist() == [0.5]
    assert len(files_of(settings)) == 3


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_values_that_do_not_fit_are_refused(client: TestClient, settings: Settings) -> None:
    assert_refused(client, settings, given_a_rate(), "'rate'", "2 values", values='{"rate": [1, 2]}')
    assert_refused(client, settings, given_a_rate(), "no input 'speed'", values='{"speed": [1]}')
    for wrong in ("[1]", "{", '{"rate": []}', '{"rate": ["1"]}', '{"rate": 1}', '{"rate": [true]}'):
        response = client.post(URL, params={"values": wrong}, content=given_a_rate())
        assert (response.status_code, response.json()["errors"][0]["loc"]) == (422, ["query", "values"])


def zipped(**more: bytes) -> tuple[bytes, bytes]:
    """A zip of a model and the file that has its weights, and the model with them inside."""
    import onnx

    whole = conv_model()
    made, data = onnx.load_from_string(whole), b""
    for tensor in made.graph.initializer:
        tensor.external_data.add(key="location", value="w.bin")
        tensor.external_data.add(key="offset", value=str(len(data)))
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ({"m.onnx": made.SerializeToString(), "w.bin": data} | more).items():
            archive.writestr(name, content)
    return buffer.getvalue(), whole


def test_a_zip_of_a_model_and_its_data_is_stored_as_one_model(client: TestClient, settings: Settings) -> None:
    import onnx

    body, whole = zipped()
    created, again = (client.post(URL, params={"name": "net.onnx"}, content=body) for _ in range(2))
    assert (created.status_code, again.status_code) == (201, 200), created.text
    model = created.json()
    assert (model["name"], model["tunable"], again.json()) == ("net.onnx", 3, model)
    stored = client.get(f"{URL}/{model['hash']}/file").content
    assert onnx.load_from_string(stored) == onnx.load_from_string(whole)
    assert len(files_of(settings)) == 1


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # nothing here reaches the database
def test_zips_that_are_too_large_or_lack_something(client: TestClient, settings: Settings) -> None:
    assert_refused(client, settings, zipped(**{"more.bin": bytes(2 << 20)})[0], "1048576 bytes")
    assert_refused(client, settings, zipped(**{"w.bin": b""})[0], "'w0'", "has fewer")
    assert_refused(client, settings, zipped(**{"../x": b""})[0], "'../x'")
    assert_refused(client, settings, zipped()[0][:-30], "zip")


def test_a_model_has_a_graph(client: TestClient) -> None:
    model = client.post("/api/v1/models", content=conv_model()).json()
    workloads = client.get(f"/api/v1/models/{model['hash']}/workloads").json()["workloads"]
    nodes = client.post(f"/api/v1/models/{model['hash']}/graph").json()["items"]
    assert [node["op"] for node in nodes[:: len(nodes) - 1]] == ["Input", "Output"]
    products = [node["workload"] for node in nodes if node["workload"]]
    assert sorted(products) == sorted(use["key"] for use in workloads for _ in range(use["count"]))
    assert all(place < at for at, node in enumerate(nodes) for place in node["reads"])
    refused = client.post(f"/api/v1/models/{model['hash']}/graph", params={"shapes": '{"y": [1]}'})
    assert (refused.status_code, refused.headers["content-type"]) == (422, "application/problem+json")
    assert client.post(f"/api/v1/models/{'0' * 64}/graph").status_code == 404
