"""The programs that compare a simulated board with what real processors measured."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dataflow import PLACES, Dataflow

from bench.silicon.__main__ import main, told
from bench.silicon.chains import chain
from bench.silicon.encode import AssemblyError, assembled, encodings, registers
from bench.silicon.forms.form import Form
from bench.silicon.forms.sections import form
from bench.silicon.instructions import Figure, Result, compared
from bench.silicon.loops import Loop
from bench.silicon.programs import measured
from bench.silicon.reasons import why_none
from bench.silicon.table import Row, rows
from worker.fleet.drivers.simulated import why_no_emulator

KNOWN = {
    ("Scalar integer add, sub, and neg", "add (reg)"): 0x8B020020,
    ("Scalar condtional arithmetic", "csinc (eq)"): 0x9A820420,
    ("Scalar nop and move", "nop"): 0xD503201F,
    ("Scalar load", "ldp (x; ofs = 0; 2nd elem)"): 0xA9400440,
    ("Scalar store (throughput)", "str (imm; ofs = 16)"): 0xF9000020,
    (
        "Vector load (might be incorrect due to a wrong d -> x latency estimation)",
        "ld4.b (multi)",
    ): 0x4C400000,
    ("Vector store (throughput)", "str.q (imm; ofs = 0)"): 0x3D800020,
    ("Vector integer add, sub, abs, and neg", "add.b"): 0x4E228420,
    ("Vector integer multiply", "smull.h (vec)"): 0x0E62C020,
    ("Vector integer multiply-accumulate", "sdot.b (vec)"): 0x4E829420,
    ("Vector integer absolute difference accumulate", "sadalp.b"): 0x4E206820,
    ("Vector element move", "sqxtn2.s (vec)"): 0x4E614820,
    ("Vector shift", "sshr.s (imm; >>2)"): 0x4F3E0420,
    ("Vector permute", "tbl (len == 1)"): 0x4E020020,
    ("Floating point multiply-accumulate and fused-multiply add", "fmla.s (vec; acc. fwd.)"): 0x4E22CC20,
    ("Floating point convert", "fcvtas.s (scl -> reg)"): 0x9E240020,
    ("Hash and crypto", "aese"): 0x4E284820,
    ("Atomic memory operation", "casal"): 0xC8E0FC41,
}
"""Words of the instruction set, with some registers."""


def _forms() -> list[Form]:
    return list(dict.fromkeys(found for row in rows() if (found := form(row.section, row.name))))


def _need_emulator() -> None:
    problem = why_no_emulator("rpi4-sim")
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)


def test_forms_are_the_instructions_that_they_say() -> None:
    forms = [form(*key) for key in KNOWN]
    encoded = encodings([each for each in forms if each])
    assert len(encoded) == len(KNOWN)
    for (key, word), (mask, value) in zip(KNOWN.items(), encoded, strict=True):
        assert word & mask == value, f"{key}: {word:08x} is not {value:08x} under {mask:08x}"


def test_most_rows_have_a_form_and_the_others_a_reason() -> None:
    reasons = [why_none(row.section, row.name) for row in rows()]
    assert len(reasons) == 1726
    assert reasons.count("") == 1661
    assert "no form" not in reasons


def test_registers_are_where_their_roles_say() -> None:
    forms = [each for each in _forms() if "M1" not in each.asm]
    numbers = {"d": 2, "n": 9, "m": 6, "a": 19, "e": 25}
    chosen = [registers(each, numbers) for each in forms]
    words = assembled(each.asm.format(**places) for each, places in zip(forms, chosen, strict=True))
    for each, places, word in zip(forms, chosen, words, strict=True):
        for role, number in places.items():
            if not role[1:]:
                width = 15 if "v{m}.h[" in each.asm and role == "m" else 31
                assert word >> PLACES[role] & width == number, each.asm


def test_encodings_tell_the_forms_apart() -> None:
    """Where two overlap, one of the table is more special than both, so that the most special one counts."""
    names: dict[tuple[int, int], set[str]] = {}
    forms = _forms()
    for each, key in zip(forms, encodings(forms), strict=True):
        names.setdefault(key, set()).add(each.mnemonic)
    together = {frozenset(each) for each in names.values() if len(each) > 1}
    # Aliases of one instruction, whose immediates make the difference.
    aliases = ["lsl lsr ubfm ubfx ubfiz", "sbfm sbfx sbfiz asr", "bfi bfm bfxil", "not mvn", "ror extr"]
    assert together <= {frozenset(line.split()) for line in aliases}
    keys = list(names)
    for number, (mask, value) in enumerate(keys):
        for other, its in keys[number + 1 :]:
            if (value ^ its) & mask & other == 0:
                both = mask | other
                assert any(
                    each & both == both and not (what ^ value) & mask and not (what ^ its) & other
                    for each, what in keys
                ), (names[mask, value], names[other, its])


@pytest.mark.parametrize(("core", "there", "back"), [("A72", 8, 7), ("N1", 3, 2), ("V1", 3, 2)])
def test_a_chain_takes_the_row_s_latency(core: str, there: float, back: float) -> None:
    """On a core where each instruction takes what the table says."""
    wanted = [
        (row, latency, chain(found))
        for row in rows()
        if (latency := row.latency[core]) is not None
        and (found := form(row.section, row.name))
        and "pc+4" not in row.name
    ]
    loops = list(dict.fromkeys(loop for _, _, way in wanted for loop in (way.loop, *way.others)))
    cycles = Dataflow(core, there, back).cycles(loops)
    found = {row.name: Figure(latency, cycles[way.loop] - way.less(cycles)) for row, latency, way in wanted}
    assert {name: figure for name, figure in found.items() if not figure.within} == {}


def test_a_line_that_is_no_instruction_is_named() -> None:
    with pytest.raises(AssemblyError, match="fmlx v0"):
        assembled(["nop", "fmlx v0.4s, v1.4s, v2.4s"])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("board", "pair"), [("rpi4-sim", 4 / 3), ("rpi5-sim", 1.0)])
def test_an_a72_takes_vectors_of_128_bits_in_two_pieces(board: str, pair: float, tmp_path: Path) -> None:
    """Three pieces begin in a cycle: a product and a sum of pairs take more than one, each in its pipe."""
    _need_emulator()
    lines = [
        line
        for number in range(8)
        for line in (f"smull v{8 + number}.8h, v1.8b, v2.8b", f"sadalp v{16 + number}.4s, v3.8h")
    ]
    loop = Loop(tuple(lines), len(lines) // 2)
    assert measured([loop], board, tmp_path)[loop] == pytest.approx(pair, rel=0.05)


@pytest.mark.timeout(900)
def test_rows_run_on_a_simulated_board(tmp_path: Path) -> None:
    _need_emulator()
    wanted = {"fmla.s (vec)", "sxtb", "str (imm; ofs = 0)", "ldr.q (imm; ofs = 0)", "casal"}
    results = {
        each.row.name: each
        for each in compared([row for row in rows() if row.name in wanted], "rpi4-sim", tmp_path)
    }
    assert set(results) == wanted
    assert results["casal"].why_not == "was not measured on A72"
    for name in ("fmla.s (vec)", "sxtb", "str (imm; ofs = 0)"):
        figure = results[name].per_cycle
        assert figure is not None
        assert figure.within, results[name]
    assert results["ldr.q (imm; ofs = 0)"].latency
    swap, add = Loop(("casal x0, x1, [x27]",), 1), Loop(("add x0, x24, x25",), 1)
    cycles = measured([swap, add], "rpi4-sim", tmp_path)
    assert cycles[swap] is None
    assert cycles[add] == pytest.approx(0.5, rel=0.02)


def test_what_is_outside_and_what_is_left_is_told() -> None:
    section = "Scalar integer divide"
    first, second, third = (Row(section, name, {}, {}) for name in ("sdiv", "udiv", "mod"))
    results = [
        Result(first, Figure(1.0, 1.04), Figure(2.0, 2.0)),
        Result(second, Figure(3.0, 5.0), Figure(0.08, 0.087)),
        Result(third, why_not="no form"),
    ]
    text = told(results, "rpi4-sim")
    assert f"    3     2        2/2        1/2  {section}" in text
    assert f"outside (1): measured -> simulated\n{section}: udiv: latency 3.00 -> 5.00" in text
    assert text.endswith(f"not compared (1)\n{section}: mod: no form")


def test_bad_input_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["instructions", "--board", "rpi9-sim"])
    assert "graviton3-sim" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["instructions", "--board", "rpi4-sim", "--section", "quantum"])
    assert "there are: Scalar load; " in capsys.readouterr().err
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match="apt-get install qemu-user"):
        main(["instructions", "--board", "rpi4-sim"])
