"""Mutated models, uploaded to a running service and given to the commands ``check`` and ``build``."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]
from onnx import ModelProto

from bench import made_models, quantized_small, tflite_models
from bench.fuzz.spoil import spoil_bytes, spoil_json
from bench.service import service

ONNX: tuple[Callable[[], ModelProto], ...] = (
    quantized_small.plain,
    quantized_small.residual,
    quantized_small.dense,
    made_models.conv1d,
)
TFLITE = ("float32", "int8")
TARGET = "x86-avx2"
TIMES_S = {"upload": 200, "check": 200, "build": 400}
"""Reading takes a minute at the most; what is taken for a model is compiled besides."""
TAKEN = (200, 201, 422)
"""200 is for bytes that came before."""
TOLD_EVERY = 50
MEMORY_BYTES = 12 << 30
"""Of a command: more than the child that reads a model may have."""


def fuzz_models(cases: int, seed: int, first: int = 0) -> dict[str, Any]:
    """Every upload is taken or refused, and every command ends well or says in one line what is wrong.

    Each case follows from ``seed`` and its number alone; ``first`` is that of the first.
    """
    documents = [MessageToDict(make()) for make in ONNX]
    files = [make().SerializeToString() for make in ONNX]
    files += [tflite_models.small(dtype) for dtype in TFLITE]
    statuses: Counter[str] = Counter()
    problems: list[str] = []
    with (
        TemporaryDirectory(prefix="fuzz-") as folder,
        service() as client,
        httpx.Client(base_url=client.url, timeout=TIMES_S["upload"]) as http,
    ):
        for case in range(first, first + cases):
            data = _spoiled(documents, files, random.Random(f"{seed}/{case}"))
            tflite = data[4:8] == b"TFL3"
            model = Path(folder) / f"{case}.{'tflite' if tflite else 'onnx'}"
            model.write_bytes(data)
            found = {"upload": _upload(http, data)}
            for command in ("check", "build"):
                found[command] = _command(command, model)
            statuses.update(f"{what} {how.partition(':')[0]}" for what, how in found.items())
            bad = {what: how for what, how in found.items() if how.startswith("bad")}
            if bad:
                problems.append(f"case {case}: {bad}")
            if case % TOLD_EVERY == TOLD_EVERY - 1:
                told = {"cases": case + 1 - first, "first": first, "seed": seed}
                print(json.dumps({**told, "statuses": statuses, "problems": problems}), flush=True)
            for left in Path(folder).iterdir():
                left.unlink()
        if http.get("/api/v1/models").status_code != 200:
            problems.append("the list of models breaks")
    return {"cases": cases, "first": first, "seed": seed, "statuses": dict(statuses), "problems": problems}


def _spoiled(documents: list[Any], files: list[bytes], dice: random.Random) -> bytes:
    """Half of them files whose bytes are wrong, the others models that can be read and say what is wrong."""
    for _ in range(20):
        if dice.random() < 0.5:
            break
        model = ModelProto()
        try:
            ParseDict(spoil_json(dice.choice(documents), dice), model, ignore_unknown_fields=True)
            data: bytes = model.SerializeToString()
            return data
        except Exception:  # no model can say that
            continue
    return spoil_bytes(dice.choice(files), dice)


def _upload(http: httpx.Client, data: bytes) -> str:
    try:
        answer = http.post("/api/v1/models", content=data)
    except httpx.TransportError as error:
        return f"bad: {type(error).__name__}: {error}"
    if answer.status_code not in TAKEN or "Traceback" in answer.text:
        return f"bad: {answer.status_code} {answer.text[:300]}"
    return str(answer.status_code)


def _command(command: str, model: Path) -> str:
    """How a command ended, in a process of its own."""
    log, said, made = model.with_suffix(".log"), model.with_suffix(".said"), model.with_suffix(".so")
    log.write_text("")
    words = [command, str(model), "--log", str(log), "--target", TARGET]
    words += ["-o", str(made)] if command == "build" else []
    process = _FORKS.Process(target=_run, args=(words, str(said)))
    process.start()
    process.join(TIMES_S[command])
    if process.exitcode is None:
        process.kill()
        process.join()
        return f"bad: it has not ended within {TIMES_S[command]} s"
    text = said.read_text(errors="replace")
    if process.exitcode not in (0, 1, 2, 3) or "Traceback" in text:
        return f"bad: exit code {process.exitcode}: {text[-600:]}"
    if process.exitcode == 1 and made.exists():
        return f"bad: it failed and left {made.name}"
    return f"exit code {process.exitcode}"


def _run(words: list[str], said: str) -> None:
    """Child: the command line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with Path(said).open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.argv = ["tilefleet", *words]
    try:
        from tilefleet.cli import main as command_line

        command_line()
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        sys.exit(70)


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        *(
            "tvm",
            "tvm.relax.frontend.onnx",
            "pydantic.fields",
            "typer._adapters",
            "rich.progress",
            "rich.table",
        ),
        *("kernels.registry", "compiler.intake.extract", "compiler.intake.trial", "tuner.log.t4"),
        *("tuner.backend.apply", "tuner.backend.shape_sets", "tilefleet.cli", "tilefleet.commands.local"),
        *("tilefleet.module_check", "tilefleet.server_check"),
    ]
)
"""What the two commands import: it takes longer than most of what they do."""
