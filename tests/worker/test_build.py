import hashlib
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import faulty_kernels
import pytest

from bench.soak.lab import fill
from kernels.float.gemm.kernel import PackedGemm
from kernels.space import Config
from kernels.workload.base import Gemm
from worker.build import artifacts
from worker.build.artifacts import ArtifactStore
from worker.build.build import Builder, Built
from worker.build.space import with_room
from worker.build.toolchain import LinkError, link
from worker.candidate import Candidate
from worker.children.nursery import ChildCrashed
from worker.outcome import ErrorKind


def test_a_built_candidate_is_a_shared_object_named_by_its_content(builder, host):
    built = builder.build(faulty_kernels.candidate("none", host))
    assert isinstance(built, Built)
    data = built.path.read_bytes()
    assert data[:4] == b"\x7fELF"
    assert hashlib.sha256(data).hexdigest() == built.sha256 == built.path.stem
    assert set(built.toolchain) == {"tilefleet", "tvm", "tvm_ffi", "zig", "llvm"}


def test_the_same_candidate_gives_the_same_object_and_others_another(nursery, host, tmp_path):
    one, other = (Candidate(Gemm(m, 32, 16), _config(host, m), host) for m in (4, 5))
    hashes = []
    for folder in ("first", "second"):  # Builders of their own, so that neither remembers.
        builder = Builder(nursery, ArtifactStore(tmp_path / folder))
        hashes.append([builder.build(candidate).sha256 for candidate in (one, other)])
    assert hashes[0] == hashes[1]
    assert hashes[0][0] != hashes[0][1]


def _config(host, m):
    return PackedGemm().recommend(Gemm(m, 32, 16), host)


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ("raises", ErrorKind.BUILD_ERROR, "ValueError: no such block"),
        ("compiler_crash", ErrorKind.BUILD_ERROR, "the compiler died: SIGSEGV"),
        ("compiler_killed", ErrorKind.BUILD_KILLED, "the compiler was killed, 3 times"),
        ("compiler_starves", ErrorKind.BUILD_ERROR, "the compiler needs more than 8 GB: "),
        ("compiler_hang", ErrorKind.BUILD_TIMEOUT, "not built within 1 s"),
        ("unheard of", ErrorKind.CONSTRAINTS, "faulty: fault=unheard of is not one of"),
    ],
)
def test_what_cannot_be_built_says_why(builder, host, fault, kind, message):
    outcome = builder.build(faulty_kernels.candidate(fault, host), timeout_s=1 if "hang" in fault else 60)
    assert outcome.error == kind
    assert outcome.message.startswith(message)
    assert "\n" not in outcome.message
    assert outcome.toolchain["tvm"]


def test_a_compiler_that_is_killed_once_is_started_again(nursery, host, tmp_path):
    calls = []

    class Killed:
        def call(self, function, payload, **more):
            calls.append(function)
            if calls.count("worker.build.build:build_in_child") == 1 and "build_in" in function:
                raise ChildCrashed("killed", signal.SIGKILL, "")
            return nursery.call(function, payload, **more)

    built = Builder(Killed(), ArtifactStore(tmp_path)).build(faulty_kernels.candidate("none", host))
    assert isinstance(built, Built)
    assert calls.count("worker.build.build:build_in_child") == 2


def test_a_compiler_that_needs_more_memory_gets_it_once(builder, host):
    assert isinstance(builder.build(faulty_kernels.candidate("compiler_hungry", host)), Built)


def test_being_killed_is_no_property_of_a_config():
    assert ErrorKind.BUILD_KILLED.transient
    assert not ErrorKind.BUILD_ERROR.transient


def test_a_kernel_that_does_not_exist_or_apply_is_a_constraint(builder, host):
    nobody = Candidate(faulty_kernels.WORKLOAD, Config.of("nobody"), host)
    assert "unknown kernel 'nobody'" in builder.build(nobody).message
    misplaced = Candidate(faulty_kernels.WORKLOAD, Config.of("sconv"), host)
    assert builder.build(misplaced).error == ErrorKind.CONSTRAINTS


def test_a_build_can_be_cancelled(builder, host):
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    outcome = builder.build(faulty_kernels.candidate("compiler_hang", host), cancelled=cancelled)
    assert outcome.error == ErrorKind.CANCELLED


def test_the_linker_says_what_is_wrong():
    with pytest.raises(LinkError, match=r"ld\.lld: .*main\.o"):
        link(b"no object file")


def test_the_store_takes_the_same_content_once_even_at_the_same_time(tmp_path):
    store = ArtifactStore(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        stored = set(pool.map(lambda _: store.put(b"x" * 100_000), range(32)))
    assert len(stored) == 1
    assert [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()] == [100_000]


def test_pruning_keeps_the_newest(tmp_path):
    store = ArtifactStore(tmp_path)
    paths = [store.put(bytes([number]) * 100)[1] for number in range(5)]
    for age, path in enumerate(reversed(paths)):
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    store.prune(250)
    assert [path.exists() for path in paths] == [False, False, False, True, True]


def test_old_artifacts_are_pruned_now_and_then_by_whoever_stores_one(tmp_path, monkeypatch):
    monkeypatch.setattr(artifacts, "MOST_BYTES", 250)
    store = ArtifactStore(tmp_path)
    old, new = (store.put(b"%d" % number * 100)[1] for number in range(2))
    os.utime(old, (1_000_000, 1_000_000))
    last = next(
        data
        for number in range(10_000)
        if hashlib.sha256(data := b"%6d" % number * 20).hexdigest().startswith(artifacts.PRUNES)
    )
    _, path = store.put(last)
    assert (old.exists(), new.exists(), path.exists()) == (False, True, True)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 256 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_on_a_full_disk_old_artifacts_make_room_and_new_ones_stay(small_disk):
    store = ArtifactStore(small_disk)
    old, new = (store.put(os.urandom(100_000))[1] for _ in range(2))
    os.utime(old, (1_000_000, 1_000_000))
    _, stored = store.put(data := os.urandom(100_000))
    assert (old.exists(), new.exists(), stored.read_bytes() == data) == (False, True, True)
    with pytest.raises(OSError, match="No space left"):
        store.put(os.urandom(100_000))
    assert (new.exists(), stored.exists()) == (True, True)


def test_a_candidate_survives_json(host):
    candidate = faulty_kernels.candidate("none", host)
    assert Candidate.from_json(candidate.to_json()) == candidate


def test_an_artifact_waits_for_room_on_a_full_disk_and_leaves_no_half(small_disk):
    store, data, stuffing = ArtifactStore(small_disk), os.urandom(100_000), small_disk / "stuffing"
    fill(stuffing)
    given_up = threading.Event()
    with ThreadPoolExecutor() as pool:
        patient = pool.submit(with_room, lambda: store.put(data), None)
        hasty = pool.submit(with_room, lambda: store.put(data), given_up)
        given_up.set()
        assert hasty.result(30) is None
        assert not patient.done()
        stuffing.unlink()
        _, path = patient.result(30)
    assert path.read_bytes() == data
    assert [each for each in small_disk.rglob("*") if each.is_file()] == [path]
    with pytest.raises(IsADirectoryError):  # nothing else is waited out
        with_room(small_disk.read_bytes, None)
