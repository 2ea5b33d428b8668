"""What the trials of a workload say in all, and the roofline they are held against."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fastapi.testclient import TestClient
from server_samples import TARGET, record

from kernels import registry
from kernels.space import Config
from kernels.workload.base import Conv2d, Gemm
from kernels.workload.chain import ConvChain
from kernels.workload.qconv2d import QConv2d
from server.workloads.traffic import least_bytes
from tuner.explain.importance import LEAST, importance
from tuner.log.record import Record, write_log
from worker.outcome import ErrorKind

CONV = Conv2d(n=1, in_c=16, in_h=28, in_w=28, out_c=32, kh=3, kw=3, pad=(1, 1, 1, 1))


def test_the_knob_that_makes_the_time_matters_most() -> None:
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(400):
        block, flat, idle = rng.integers(1, 9), rng.integers(0, 2), rng.integers(0, 5)
        config = Config.of("a", block=f"{block}x2", flat=int(flat), idle=int(idle), fixed=1)
        samples.append((config, 1e-3 * 2.0**block * (1.3 if flat else 1.0) * rng.lognormal(0, 0.01)))
    found = importance(samples)
    effects = {each["knob"]: each["effect"] for each in found["knobs"]}
    assert list(effects)[:2] == ["block", "flat"]
    # A factor of 1.3 half of the time is 0.13 on average either way; two in each of 8 steps far more.
    assert effects["flat"] == pytest.approx(np.log(1.3) / 2, rel=0.2)
    assert effects["block"] == pytest.approx(2 * np.log(2), rel=0.2)
    assert effects.get("idle", 0) < 0.02
    assert "fixed" not in effects
    assert found["explained"] > 0.98


def test_noise_explains_nothing_and_few_trials_say_nothing() -> None:
    rng = np.random.default_rng(1)
    noise = [(Config.of("a", block=int(rng.integers(9)), at=n), rng.lognormal(0, 1)) for n in range(200)]
    assert importance(noise)["explained"] < 0.3
    assert importance(noise[: LEAST - 1]) == {"knobs": [], "explained": None}
    same = [(Config.of("a", block=n % 5), 1.0) for n in range(50)]
    assert importance(same) == {"knobs": [], "explained": 0.0}


def test_bytes_are_those_of_all_that_is_read_and_written() -> None:
    assert least_bytes(Gemm(m=8, n=4, k=2)) == 4 * (8 * 2 + 2 * 4 + 8 * 4)
    assert least_bytes(CONV) == 4 * (16 * 28 * 28 + 32 * 16 * 9 + 32 * 28 * 28)
    of_bytes = QConv2d(n=1, in_c=8, in_h=4, in_w=4, out_c=8, kh=1, kw=1, out_dtype="int32")
    assert least_bytes(of_bytes) == 8 * 16 + 8 * 8 + 4 * 8 * 16
    one, two = Conv2d(1, 4, 8, 8, 6, 1, 1), Conv2d(1, 6, 8, 8, 5, 1, 1)
    assert least_bytes(ConvChain(one, two)) == 4 * (4 * 64 + 6 * 4 + 5 * 6 + 5 * 64)


def test_trials_are_learned_from_and_their_predictions_shown(client: TestClient) -> None:
    rng = np.random.default_rng(0)
    draw = random.Random(0)
    spaces = registry.search_space(CONV, TARGET, threads=1).spaces
    drawn = [space.sample(draw) for space in spaces for _ in range(20)]
    configs = {config.key: config for config in drawn if config is not None}
    records = [
        Record(CONV, TARGET, config, registry.kernel(config.kernel).version, cost_s=rng.lognormal(-8, 0.5))
        for config in configs.values()
    ]
    records += [record(9, CONV), record(2, CONV, error=ErrorKind.CRASH)]
    answer = client.post("/api/v1/records", content="".join(write_log(records)))
    assert answer.status_code == 200, answer.text
    url, where = f"/api/v1/workloads/{CONV.key}", {"target": TARGET.name}
    found = client.get(f"{url}/insight", params=where).json()
    assert found["trials"] == len(configs) + 1
    assert 0 <= found["explained"] <= 1
    assert found["knobs"]
    # The two of a kernel that is none have no prediction.
    ids = [item["record"] for item in client.get(f"{url}/trials", params=where).json()["items"]]
    assert [each["record"] for each in found["predicted"]] == ids[: len(configs)]
    one = records[0]
    expected = registry.kernel(one.config.kernel).predict(CONV, one.config, TARGET, 1)
    assert found["predicted"][0]["predicted_s"] == pytest.approx(expected)
    assert client.get(f"{url}/insight", params=where).json() == found
    # Any of them can be explained, with its machine code.
    one_of = client.get(f"{url}/explanation", params={**where, "record": ids[3]}).json()
    assert one_of["config"] == records[3].config.to_json()
    loop = one_of["hot_loop"]
    assert 0 < loop["multiply_adds"] < loop["instructions"] <= len(loop["lines"])
    assert client.get(f"{url}/explanation", params={**where, "record": 10**6}).status_code == 404
    view = client.get(url).json()
    assert view["bytes"] == least_bytes(CONV)
    assert view["measured"][0]["bandwidth_gbs"] is None
