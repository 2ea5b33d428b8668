"""A model in by the command line, tuned on this machine, a module out that stock TVM runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from shell import Shell, run_module

from kernels.layout import PLAIN
from tilefleet import Client, Conflict, InvalidInput, NotFound
from tuner.log.record import read_log
from tuner.log.relayouts import header

pytestmark = [pytest.mark.xdist_group("service"), pytest.mark.timeout(900)]


def test_a_first_start_tells_each_phase(service: Path) -> None:
    """A line each with the time, as the agent is compiled then, which takes a minute."""
    said = (service / "up.log").read_text()
    for phase in (
        f"starting, with the state in {service}",
        "starting boards: host",
        "building the agent for",
    ):
        assert re.search(rf"^\d\d:\d\d:\d\d {re.escape(phase)}", said, re.M), said


def test_the_main_job(shell: Shell, tiny_model: Path, tmp_path: Path) -> None:
    submitted = json.loads(shell("submit", tiny_model, "--trials", 12, "--strategy", "random", "--json"))
    job = submitted["id"]
    assert "tiny.onnx" in shell("models")
    shell.environment["BROWSER"] = "true"
    assert shell("open").startswith("http://127.0.0.1:")
    events = [json.loads(line) for line in shell("watch", job, "--json").splitlines()]
    names = [event["name"] for event in events]
    assert names[-1] == "end"
    assert {"state", "trial", "best"} <= set(names)
    report = shell("watch", job)
    assert "done" in report
    assert "conv 16x18x18 -> 16, 3x3" in report

    shown = next(entry for entry in json.loads(shell("jobs", "--json")) if entry["id"] == job)
    assert (shown["state"], shown["model_name"], shown["failed"]) == ("done", "tiny.onnx", 0)
    assert shown["trials"] == 12
    verdict = shown["verdict"]
    assert shown["estimated_ms"] > 0
    assert 0 < verdict["low"] <= verdict["gain"] <= verdict["high"]
    assert (verdict["rounds"] >= 25, verdict["peer"]) == (True, "onnxruntime")
    assert verdict["text"] in report.replace("\n", " ")
    [board] = json.loads(shell("boards", "--json"))
    assert (board["id"], board["target"], board["clock"]) == ("host", "host", "wall")
    assert board["trials"] >= 12
    # All of the trials may be known from another test, and those of the last 5 minutes be none.
    assert 0 <= board["utilisation"] <= 1
    assert 0 < board["utilisation_total"] <= 1
    shell("boards", "park", "host", "--reason", "fan broken")
    assert "maintenance: fan broken" in shell("boards")
    shell("boards", "return", "host")
    assert "fan broken" in shell("boards", "history", "host")
    assert "times the best" in shell("boards", "show", "host")

    everything = shell("log", job, "--all").splitlines()
    assert len(everything) >= shown["trials"] - shown["reused"]
    best, log = json.loads(shell("best", "--json")), tmp_path / "best.jsonl"
    # All of them: a log to build from has none where the untuned model won.
    assert "records in" in shell("log", job, "--all", "-o", log)
    ran = (record for record in read_log(log.read_text().splitlines()) if record.error is None)
    records = sorted(ran, key=lambda record: record.rank)
    assert len({record.workload.key for record in records}) == 3
    assert {record.workload.key for record in records} <= {_key(entry["workload"]) for entry in best}
    one = json.loads(shell("best", records[0].workload.key, "--json"))
    nothing = shell.run("best", "--threads", 7)
    assert (nothing.returncode, "threads 7" in nothing.stderr) == (1, True)
    plain = (each for each in records if each.workload == records[0].workload and each.layouts == PLAIN)
    assert one["config"] == next(plain).config.to_json()

    listed = json.loads(shell("check", tiny_model, "--log", log, "--json"))
    assert sum(entry["share"] for entry in listed) == pytest.approx(1)
    checked = [entry for entry in listed if entry["key"]]
    assert {entry["status"] for entry in listed if entry not in checked} <= {"not tuned"}
    assert [(entry["status"], entry["count"]) for entry in checked] == [
        ("found", 1),
        ("found", 2),
        ("found", 1),
    ]
    module = tmp_path / "tiny.so"
    built = json.loads(shell("build", tiny_model, "--log", log, "-o", module, "--json"))
    assert (sum(built["layers"].values()), built["layers"]["default"]) == (4, 0)
    manifest = json.loads(Path(built["manifest"]).read_text())
    # The build chose among the best of each pair of layouts, and what is predicted of the others.
    configs = [(record.workload.key, record.config.to_json()) for record in records]
    recorded = [layer for layer in manifest["layers"] if layer["source"] == "log"]
    assert len(recorded) == built["layers"]["log"] > 0
    assert all((layer["key"], layer["config"]) in configs for layer in recorded)
    assert _agrees_with_onnxruntime(module, tiny_model)

    data, outputs = tmp_path / "data.npz", tmp_path / "outputs.npz"
    session = onnxruntime.InferenceSession(tiny_model, providers=["CPUExecutionProvider"])
    feeds = {
        each.name: np.random.default_rng(3).standard_normal(each.shape).astype(np.float32)
        for each in session.get_inputs()
    }
    np.savez(data, **feeds)
    arguments = ("run", tiny_model, "--board", "host", "--input", data, "-o", outputs)
    ran = json.loads(shell(*arguments, "--json"))
    assert (ran["board"], ran["checked"], ran["from_records"]) == ("host", True, 4)
    assert 0 < ran["measured_ms"] == pytest.approx(sum(each["ms"] for each in ran["operators"]))
    with np.load(outputs) as found:
        for each, right in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            assert np.abs(found[each.name] - right).max() < 1e-4 * np.abs(right).max()
    assert "4 layers by records, 0 by the analysis" in shell("run", tiny_model)
    np.savez(data, other=np.zeros(3))
    assert "the model has no input 'other'" in shell.fails(*arguments)
    data.write_bytes(b"PK no arrays")
    assert "is no .npz file" in shell.fails(*arguments)


def test_a_job_that_leaves_a_layer_out_says_so(shell: Shell, tiny_model: Path) -> None:
    done = shell.run("submit", tiny_model, "--trials", 2, "--watch")
    assert done.returncode == 0, done.stderr
    said = " ".join(f"{done.stdout} {done.stderr}".split())
    told = said.count("1 of 3 tasks had no trial in the budget and have the untuned config")
    assert told == 1, "what is missing is told once, and the result is whole"


def test_an_exact_job_and_build(shell: Shell, tiny_model: Path, tmp_path: Path) -> None:
    arguments = ("submit", tiny_model, "--numerics", "exact", "--trials", 9, "--strategy", "random", "--json")
    job = json.loads(shell(*arguments))
    assert job["numerics"] == "exact"
    shell("watch", job["id"])
    log, module = tmp_path / "exact.jsonl", tmp_path / "tiny.so"
    shell("log", job["id"], "--all", "-o", log)  # of the best it has none where the untuned model won
    exact_best = ("best", "--numerics", "exact", "--layouts", "any", "--json")
    best = {_key(each["workload"]) for each in json.loads(shell(*exact_best))}
    listed = json.loads(shell("check", tiny_model, "--log", log, "--numerics", "exact", "--json"))
    checked = [entry for entry in listed if entry["key"]]
    assert {entry["key"] for entry in checked} <= best
    one = json.loads(shell(*exact_best, checked[0]["key"]))
    assert one["numerics"] == "exact"
    assert {entry["numerics"] for entry in checked} == {"exact"}
    assert {entry["status"] for entry in checked} <= {"found", "analysis"}
    measured = [entry for entry in checked if entry["status"] == "found"]
    assert all(0 < entry["max_error"] < 1e-5 for entry in measured)
    built = json.loads(
        shell("build", tiny_model, "--log", log, "--numerics", "exact", "-o", module, "--json")
    )
    manifest = json.loads(Path(built["manifest"]).read_text())
    with log.open() as lines:
        errors = {(record.workload.key, record.max_error) for record in read_log(lines)}
    assert {(entry["key"], entry["max_error"]) for entry in measured} <= errors
    assert manifest["numerics"] == "exact"
    assert [layer["numerics"] for layer in manifest["layers"]] == ["exact"] * 4
    recorded = [layer for layer in manifest["layers"] if layer["source"] == "log"]
    assert all((layer["key"], layer["max_error"]) in errors for layer in recorded)
    assert _agrees_with_onnxruntime(module, tiny_model)


def test_a_reader_that_has_had_enough_is_no_error(shell: Shell) -> None:
    for command in (("jobs",), ("jobs", "--json"), ("log", "--target", "host", "--all")):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as closed:
            done = subprocess.run(
                [sys.executable, "-m", "tilefleet", *command],
                env=shell.environment,
                stdout=closed,
                stderr=subprocess.PIPE,
                text=True,
                timeout=100,
                check=False,
            )
        assert done.stderr == "", command


def test_a_log_that_lacks_a_workload(shell: Shell, tiny_model: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "3 of 3 workloads are missing" in shell.fails("check", tiny_model, "--log", empty)
    untuned = tmp_path / "untuned.jsonl"
    untuned.write_text(header())
    told = shell.run("check", tiny_model, "--log", untuned)
    assert (told.returncode, "a build by it is the untuned model" in told.stderr) == (0, True)
    module = tmp_path / "tiny.so"
    assert "0 layers from the log, 4 by the analysis" in shell(
        "build", tiny_model, "--log", empty, "-o", module
    )
    assert _agrees_with_onnxruntime(module, tiny_model)


def test_bad_logs_and_models(shell: Shell, tiny_model: Path, tmp_path: Path) -> None:
    job = json.loads(shell("submit", tiny_model, "--trials", 9, "--strategy", "analysis", "--json"))["id"]
    shell("watch", job)
    line = next(line for line in shell("log", job, "--all").splitlines() if "workload" in json.loads(line))
    damaged, one = tmp_path / "damaged.jsonl", tmp_path / "one.jsonl"
    damaged.write_text("\n".join([line] * 16 + [line[:99]]) + "\n")
    one.write_text(line)
    other = "x86-avx2" if "avx512f" in Path("/proc/cpuinfo").read_text() else "x86-avx512"
    assert "line 17 of the log is damaged" in shell.fails("check", tiny_model, "--log", damaged)
    assert "line 17" in shell.fails("load", damaged)
    assert "the log has no record for target" in shell.fails(
        "check", tiny_model, "--log", one, "--target", other
    )
    assert "unknown target 'pi'" in shell.fails("check", tiny_model, "--log", one, "--target", "pi")
    assert "unknown target 'pi'" in shell.fails("submit", tiny_model, "--target", "pi")
    assert "no job 9999" in shell.fails("watch", 9999)
    text = tmp_path / "text.onnx"
    text.write_text("not a model")
    for command in (("submit", text), ("build", text, "--log", one, "-o", tmp_path / "x.so")):
        assert "text.onnx: is not an ONNX or TFLite model" in shell.fails(*command)
    assert not (tmp_path / "x.so").exists()


def test_the_client(client: Client, tiny_model: Path) -> None:
    model = client.upload(tiny_model)
    assert (model.tunable, model.inputs[0].shape) == (4, [1, 8, 18, 18])
    assert client.upload(tiny_model, name="again.onnx").hash == model.hash
    assert model.hash in {each.hash for each in client.models()}
    found = client.workloads(model.hash)
    assert [use.count for use in found.workloads] == [1, 2, 1]
    assert found.not_tunable == []

    job = client.submit(model=model.hash, target="host", seconds=600, trials=100_000, strategy="random")
    progress = next(event for event in client.events(job.id) if event.name == "trial")
    assert progress.data["error"] is None
    client.cancel(job.id)
    assert list(client.events(job.id, progress.id))[-1].name == "end"
    cancelled = client.job(job.id)
    assert (cancelled.state, cancelled.ended) == ("cancelled", True)
    with pytest.raises(Conflict, match="cancel"):
        client.cancel(job.id)
    assert sum(task.trials for task in client.tasks(job.id)) == cancelled.trials > 0

    assert client.resume(job.id).state in ("queued", "running")
    seen = [event for event in client.events(job.id) if event.name == "trial" and _stop(client, job.id)]
    resumed = client.job(job.id)
    assert resumed.trials > cancelled.trials
    assert len(seen) == resumed.trials - cancelled.trials

    records = list(client.records(job=job.id))
    assert len(records) == resumed.trials
    assert len({(_key(record.workload), json.dumps(record.config)) for record in records}) == len(records)
    lines = list(client.job_log(job.id, "all"))
    assert client.import_log(lines).duplicates == len(list(read_log(lines)))
    workload = found.workloads[0].key
    assert client.best(workload, "host").config == next(
        record.config.to_json()
        for record in read_log(client.target_log("host"))
        if record.workload.key == workload and record.layouts == PLAIN
    )
    with pytest.raises(NotFound):
        client.best("0" * 16, "host")
    with pytest.raises(InvalidInput, match="trials"):
        client.submit(model=model.hash, target="host", trials=0)
    assert client.target("host")["name"] in {target["name"] for target in client.targets()}
    assert client.health()["status"] == "ok"
    assert client.version()["toolchain"]["tvm"] == "0.27.0.post1"


def _stop(client: Client, job: int) -> bool:
    """Cancel the job unless that is done already; true, to be used in a condition."""
    if client.job(job).state in ("queued", "running"):
        client.cancel(job)
    return True


def _key(workload: dict[str, object]) -> str:
    from kernels.workload.base import from_json

    return from_json(workload).key


def _agrees_with_onnxruntime(module: Path, model: Path) -> bool:
    """Whether a fresh process with nothing but TVM computes what onnxruntime does."""
    import onnxruntime

    data = np.random.default_rng(1).standard_normal((1, 8, 18, 18)).astype(np.float32)
    (ours,) = run_module(module, data)
    [expected] = onnxruntime.InferenceSession(model).run(None, {"x": data})
    return float(np.abs(ours - expected).max() / np.abs(expected).max()) < 1e-5
