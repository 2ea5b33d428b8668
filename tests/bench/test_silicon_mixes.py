"""Random loops of many instructions: the model of a core's pipes, and a simulated clock beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.silicon.__main__ import main
from bench.silicon.encode import assembled
from bench.silicon.forms.form import Form
from bench.silicon.mixes import KINDS, Instruction, Mix, Result, compared, generated, told
from bench.silicon.port_model import Cost, Work, costs, cycles, work
from worker.fleet.drivers.simulated import why_no_emulator

_FMLA = Form("fmla v{D}.4s, v{n}.4s, v{m}.4s")
_ADD = Form("add x{d}, x{n}, x{m}")
_LOAD = Form("ldr x{d}, [x{n}, #0]")


def _fmlas(accumulators: int, product: bool = False) -> list[Work]:
    """A few; their results go on as accumulators, or else as factors."""
    made = []
    for number in range(12):
        own = 8 + number % accumulators
        numbers = {"D": own + 12, "n": own, "m": 1} if product else {"D": own, "n": 0, "m": 1}
        made.append(work("A72", _FMLA, numbers))
    return made


def test_a_chain_takes_its_latency() -> None:
    """The next accumulator is there after 3 cycles of a Cortex-A72, other uses wait for 7."""
    assert cycles("A72", _fmlas(1)) / 12 == pytest.approx(3, rel=0.01)
    assert cycles("A72", _fmlas(2)) / 12 == pytest.approx(1.5, rel=0.01)
    there = work("A72", _FMLA, {"D": 8, "n": 9, "m": 1})
    back = work("A72", _FMLA, {"D": 9, "n": 8, "m": 1})
    assert cycles("A72", [there, back]) / 2 == pytest.approx(7, rel=0.01)
    add = Form("add v{d}.4s, v{n}.4s, v{m}.4s")
    through = [work("A72", add, {"d": 8, "n": 8, "m": 1}), work("A72", _FMLA, {"D": 8, "n": 0, "m": 1})]
    assert cycles("A72", through) == pytest.approx(3 + 7, rel=0.01)


def test_what_waits_for_nothing_takes_its_pipes() -> None:
    assert cycles("A72", _fmlas(12)) / 12 == pytest.approx(1, rel=0.01)
    adds = [work("A72", _ADD, {"d": number, "n": 24, "m": 25}) for number in range(8)]
    loads = [work("A72", _LOAD, {"d": number, "n": 28}) for number in range(8, 12)]
    assert cycles("A72", adds) == pytest.approx(4, rel=0.01)
    assert cycles("A72", adds + loads) == pytest.approx(4, rel=0.01)
    # Three enter the window in a cycle, though the pipes take four; one that writes 128 bits counts twice.
    assert cycles("A72", adds + loads + _fmlas(12)[:4]) == pytest.approx(20 / 3, rel=0.01)


def _chains(length: int) -> list[Instruction]:
    """One chain of sums; the next turn's does not wait for it."""
    add = Form("add v{d}.4s, v{n}.4s, v{m}.4s")
    made = []
    for number in range(length):
        numbers = {"d": 14, "n": 14 if number else 1, "m": 5}
        made.append(Instruction(add, numbers, add.asm.format(**numbers)))
    return made


def test_queues_limit_what_overlaps() -> None:
    """An A72's sums of other turns wait outside, as eight fill a queue, though window and pipes have room."""
    turn = {core: [work(core, each.form, each.numbers) for each in _chains(24)] for core in ("A72", "N1")}
    assert cycles("N1", turn["N1"]) == pytest.approx(12, rel=0.2)
    assert cycles("A72", turn["A72"]) > 2 * 16


@pytest.mark.timeout(900)
def test_a_simulated_board_has_these_queues(tmp_path: Path) -> None:
    problem = why_no_emulator("rpi4-sim")
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    (result,) = compared([Mix("chains", tuple(_chains(24)))], "rpi4-sim", tmp_path)
    assert result.within, result
    assert result.simulated is not None
    assert result.simulated > 2 * 16


@pytest.mark.parametrize(("core", "pair"), [("A72", 4 / 3), ("N1", 1.0)])
def test_the_front_end_of_an_a72_takes_vectors_in_two_pieces(core: str, pair: float) -> None:
    """Products and sums of pairs go to two pipes, and yet are not there in one cycle."""
    product, add = Form("smull v{d}.8h, v{n}.8b, v{m}.8b"), Form("sadalp v{D}.4s, v{n}.8h")
    turn = []
    for number in range(8):
        turn += [work(core, product, {"d": 8 + number, "n": 0, "m": 1})]
        turn += [work(core, add, {"D": 16 + number, "n": 2})]
    assert cycles(core, turn) / 8 == pytest.approx(pair, rel=0.01)


def test_the_window_limits_what_overlaps() -> None:
    """With 128 in flight, each turn of 128 waits for the slow one of the turn before to leave."""
    slow, quick = Work(Cost(("L",), 1.0, 300.0)), Work(Cost(("I0", "I1"), 1.0, 1.0))
    assert cycles("A72", [slow] + [quick] * 127) == pytest.approx(300, rel=0.02)
    assert cycles("A72", [slow] + [quick] * 31) == pytest.approx(75, rel=0.02)


def test_mixes_are_code_and_the_same_for_a_seed() -> None:
    made = generated("A72", 40, 5)
    assert made == generated("A72", 40, 5)
    assert made != generated("A72", 40, 6)
    assert {mix.kind for mix in made} == set(KINDS)
    lines = [each.text for mix in made for each in mix.instructions]
    assert len(assembled(lines)) == len(lines)
    assert all(4 <= len(mix.instructions) <= 60 for mix in made)
    known = costs("A72")
    assert all(each.form.asm in known for mix in made for each in mix.instructions)


def test_mixes_depend_on_each_other_as_their_kind_says() -> None:
    """Of the chains, the results of one turn reach the next one; what is independent is far quicker."""
    made = [mix for mix in generated("A72", 60, 5) if len(mix.instructions) > 12]

    def carried(mix: Mix) -> float:
        works = [work("A72", each.form, each.numbers) for each in mix.instructions]
        later = [
            any(register in other.writes for other in works)
            for each in works
            for register in [*each.reads, *each.accumulates]
        ]
        return sum(later) / max(len(later), 1)

    shares = {kind: [carried(mix) for mix in made if mix.kind == kind] for kind in KINDS}
    means = {kind: sum(each) / len(each) for kind, each in shares.items()}
    assert means["independent"] < means["mixture"]
    assert means["independent"] < means["chains"]
    assert means["independent"] < means["chains through several"]


def test_what_is_off_is_told() -> None:
    line = Instruction(_ADD, {"d": 0, "n": 24, "m": 25}, "add x0, x24, x25")
    near, far = Mix("chains", (line,) * 4), Mix("mixture", (line,) * 5)
    results = [Result(near, 2.0, 2.19), Result(far, 2.0, 1.7), Result(near, 1.0, None)]
    text = told(results, "rpi4-sim")
    assert text.startswith("rpi4-sim beside a port model of A72: 1/2 mixes within 10%\n")
    assert "\n  chains: 1/1\n" in text
    assert "\n  mixture: 0/1\n" in text
    assert "\n1 has an instruction that the emulated processor lacks" in text
    assert "\n-15.0% 2.00 -> 1.70 (mixture): add x0, x24, x25; add" in text


def test_bad_numbers_of_loops_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for count in ("0", "many"):
        with pytest.raises(SystemExit, match="2"):
            main(["mixes", "--board", "rpi4-sim", "--count", count])
        assert f"--count: {count} is no number of loops; give 1 or more" in capsys.readouterr().err


@pytest.mark.timeout(900)
def test_mixes_take_what_the_port_model_says(tmp_path: Path) -> None:
    problem = why_no_emulator("rpi4-sim")
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)
    results = compared(generated("A72", 12, 2), "rpi4-sim", tmp_path)
    assert len(results) == 12
    for each in results:
        assert each.simulated, each.mix
        assert each.within, told(results, "rpi4-sim")
