"""Two minutes of the soak: the whole product as real processes, and faults of every kind under it."""

import shutil
import sys
from pathlib import Path

import pytest
from benches import bench

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from databases import lacking

from bench.soak.servers import postgres_bin

pytestmark = [pytest.mark.xdist_group("soak"), pytest.mark.timeout(1800)]
SEED = 11519
"""Among the first of its faults are killed: scheduler, agent, worker with boards, session, coordinator."""


def test_nothing_is_lost_and_every_job_is_done(tmp_path):
    for program in ("initdb", "redis-server"):
        if not postgres_bin(program) and not shutil.which(program):
            lacking(program)
    report = bench("soak", tmp_path, "--minutes", "2", "--seed", str(SEED))
    assert [report[what] for what in ("stuck", "lost", "duplicated", "wrong", "not_done")] == [[]] * 5
    assert len(report["faults"]) >= 2, "it was too slow to break anything"
    assert report["trials"] >= 12 * len({"host", "away", "liars"}), report["trials"]
