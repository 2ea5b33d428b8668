"""ncnn's networks on simulated boards beside what ncnn published: all but ncnn itself, which is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.silicon import ncnn_wheels
from bench.silicon.__main__ import main
from bench.silicon.networks import Network, Result, line, measured, published, summary
from tuner.runtimes.debian import FetchError
from tuner.runtimes.guest import Guest, GuestError


def test_published_figures_are_those_of_one_thread_on_that_board() -> None:
    pi = {each.name: each for each in published("rpi4-sim")}
    assert len(pi) == 20
    assert pi["mobilenet"] == Network("mobilenet", 145.36)
    assert (pi["mobilenet"].side, pi["squeezenet_int8"].side, pi["mobilenet_ssd_int8"].side) == (
        224,
        227,
        300,
    )
    assert len(published("rpi5-sim")) == 22
    assert published("rpi4-sim", threads=4)[0].published_ms < pi["squeezenet"].published_ms


def test_a_summary_tells_how_near_all_are() -> None:
    results = [
        Result(Network(name, real), ms) for name, real, ms in (("a", 10, 10), ("b", 20, 40), ("c", 30, 15))
    ]
    said = summary([*results, Result(Network("d", 1), None, "gone")])
    assert said == "3 networks: geometric mean 1.000, 1 within 15 %, 0.50 to 2.00, rank correlation 0.500"
    assert summary([]) == "nothing ran"
    assert line(results[1]).split() == ["b", "20.00", "40.00", "2.00"]
    assert line(Result(Network("d", 1), None, "gone")).endswith("gone")


def test_what_does_not_run_is_a_line_and_the_rest_is_made(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "b.param").write_text("")
    (tmp_path / "c.param").write_text("")
    answers = iter(
        ['a warning of ncnn\n{"cycles": 3000000.0}\n', GuestError("it failed under qemu: no such layer")]
    )

    def python(*_: object) -> str:
        answer = next(answers)
        if isinstance(answer, GuestError):
            raise answer
        return answer

    monkeypatch.setattr(Guest, "python", python)
    networks = [Network(name, 4.0) for name in "abc"]
    none, two, failed = measured("rpi4-sim", networks, tmp_path, Guest(tmp_path, tmp_path))
    assert (none.ms, "a.param is not there" in none.why) == (None, True)
    assert (two.ms, two.ratio) == (2.0, 0.5)
    assert (failed.ms, failed.why) == (None, "it failed under qemu: no such layer")


def test_bad_input_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    words = ["networks", "--board", "rpi4-sim", "--models", str(tmp_path), "--wheels", str(tmp_path)]
    with pytest.raises(SystemExit):
        main([*words, "--only", "lenet"])
    assert "no figure of ['lenet']; there are: squeezenet" in capsys.readouterr().err

    def gone(_: Path, _folder: str, wheels: tuple[str, ...], of: list[str]) -> None:
        raise FetchError(f"no {wheels[0]} for {of[1]}")

    monkeypatch.setattr(ncnn_wheels, "unpack_wheels", gone)
    monkeypatch.setattr("bench.silicon.__main__.why_no_emulator", lambda _: None)
    main([*words, "--ncnn", "1.2,nearest"])
    assert capsys.readouterr().out.splitlines() == [
        f"rpi4-sim: no wheel of ncnn {version} for a Python that can be fetched: no ncnn=={version} for 3.11"
        for version in ("1.2", "1.0.20220216")
    ]


def test_an_old_wheel_comes_with_the_python_that_it_is_for(tmp_path: Path, monkeypatch) -> None:
    asked = []

    def wheels(_: Path, _folder: str, _wheels: tuple[str, ...], of: list[str]) -> None:
        if of[1] != "3.9":
            raise FetchError("no such wheel")

    def unpack(_: Path, architecture: str, packages: tuple[str, ...], release: str) -> None:
        asked.append((architecture, "python3.9-minimal" in packages, release))

    monkeypatch.setattr(ncnn_wheels, "unpack_wheels", wheels)
    monkeypatch.setattr(ncnn_wheels.debian, "unpack", unpack)
    first = ncnn_wheels.guest(tmp_path, "1.0.20220216", "rpi4-sim")
    assert asked == [("arm64", True, "bullseye")]
    assert ncnn_wheels.guest(tmp_path, "1.0.20220216", "rpi4-sim") == first
    assert len(asked) == 1
    with pytest.raises(GuestError, match="has no Python; fetch it again"):
        first.python(["-V"], tmp_path / "page")
