"""Vector instructions by type on the simulated SpacemiT core, beside the table of them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from bench.silicon.encode import RISCV, assembled_bytes
from bench.silicon.loops import Loop
from bench.silicon.programs import measured
from bench.silicon.rvv import instructions, mixes
from bench.silicon.rvv.forms import STOPS_QEMU
from bench.silicon.rvv.prices import prices, table
from bench.silicon.rvv.table import Type, rows
from worker.fleet.drivers.sim_prices import price_table
from worker.fleet.drivers.sim_vectors import VECTOR_PRICES
from worker.fleet.drivers.simulated import why_no_emulator

BOARD = "riscv-k1-sim"
SCALARS = {
    "A": """
        beq a0, a1, .; j .; jalr a0; ret; c.j .; c.beqz a0, .; c.bnez a0, .; c.jr a0; c.jalr a0
        div a0, a1, a2; remuw a0, a1, a2; vsetivli zero, 8, e32, m1, ta, ma
        vsetvli a0, a1, e32, m1, ta, ma""",
    "I": """
        add a0, a1, a2; addi a0, a1, 4; mul a0, a1, a2; sh2add a0, a1, a2; lui a0, 1; csrr a0, vlenb; ecall
        fence; fcvt.s.w fa0, a0; fcvt.w.s a0, fa0, rtz; fmv.w.x fa0, a0; fmv.x.w a0, fa0; c.addi a0, 1
        c.li a0, 1; c.mv a0, a1; c.add a0, a1; c.slli a0, 2; c.srli a0, 2; c.sub a0, a1
        c.addi4spn a0, sp, 16; c.lui a0, 1""",
    "L": """
        lw a0, 4(a1); lbu a0, (a1); ld a0, (a1); flw fa0, (a1); fld fa0, (a1); lr.w a0, (a1)
        c.lw a0, 4(a1); c.ld a0, 8(a1); c.fld fa0, 8(a1); c.lwsp a0, 4(sp); c.ldsp a0, 8(sp)
        c.fldsp fa0, 8(sp); sw a0, 4(a1); sb a0, (a1); sd a0, (a1); fsw fa0, (a1); sc.w a0, a1, (a2)
        c.sw a0, 4(a1); c.sd a0, 8(a1); c.fsd fa0, 8(a1); c.swsp a0, 4(sp); c.sdsp a0, 8(sp)
        c.fsdsp fa0, 8(sp)""",
    "F": """
        fmadd.s fa0, fa1, fa2, fa3; fnmsub.d fa0, fa1, fa2, fa3; fadd.s fa0, fa1, fa2; fmin.s fa0, fa1, fa2
        feq.s a0, fa0, fa1; fcvt.d.s fa0, fa1; fdiv.s fa0, fa1, fa2; fsqrt.d fa0, fa1""",
    "VL": "vl1re32.v v0, (a0); vl4re8.v v0, (a0); vs1r.v v0, (a0)",
}
"""By pipe."""


@pytest.fixture
def need_emulator() -> None:
    problem = why_no_emulator(BOARD)
    if problem:
        assert os.environ.get("CI") != "true", problem
        pytest.skip(problem)


def test_the_clocks_table_is_what_the_measurements_make() -> None:
    """Else: ``python -m bench.silicon prices``."""
    assert table(prices()) == VECTOR_PRICES.read_text()


def test_scalar_instructions_take_the_pipes_of_llvms_model() -> None:
    lines = price_table("x60").splitlines()
    names = lines[0].split()[1:]
    known = [line.split(":")[0].split() for line in lines if line.startswith("price")]
    for pipe, text in SCALARS.items():
        for line in (each.strip() for each in text.replace("\n", ";").split(";") if each.strip()):
            short = [".option rvc", line] if line.startswith("c.") else [line]
            code = assembled_bytes([*short], RISCV)
            (word,) = struct.unpack("<I", code[:4].ljust(4, b"\0"))
            price = next(each for each in known if word & int(each[1], 16) == int(each[2], 16))
            use = dict(zip(names, map(int, price[8:]), strict=True))
            del use["D"]
            assert max(use, key=lambda name: use[name]) == pipe, line


@pytest.mark.usefixtures("need_emulator")
def test_each_type_of_vectors_takes_the_cycles_that_were_measured(tmp_path: Path) -> None:
    texts = {"vfmacc.vf v8,ft0,v16", "vle32.v v8,(t0)", "vnclip.wi v8,v16,13", "vfnmsac.vv v8,v16,v24"}
    texts |= {"vmv.x.s t0,v8", "vfcvt.rtz.x.f.v v8,v16", "vmseq.vv v8,v16,v24,v0.t"}
    wanted = [row for row in rows() if row.text in texts]
    results = instructions.compared(wanted, BOARD, tmp_path)
    assert len(results) == len(texts)
    for result in results:
        assert not result.outside
        assert bool(result.why_not) == bool(STOPS_QEMU.match(result.row.text))
        assert result.why_not or len(result.figures) == len(result.row.cycles)
    text = instructions.told(results, BOARD, "X60")
    assert "within 5 %: 6/6" in text
    assert "not compared: 1 rows" in text


@pytest.mark.usefixtures("need_emulator")
def test_code_is_charged_for_the_type_that_it_is_entered_with(tmp_path: Path) -> None:
    """A function without a VSETVLI of its own, called with one register in a group and with four; and a chain
    of products, whose results are there after five cycles."""
    body = tuple(f"vadd.vv v{8 + 4 * (number % 6)}, v4, v4" for number in range(16))
    there = ("j 9f", "8:", *body, "jr t6", "9:")

    def calls(group: str) -> Loop:
        return Loop((f"vsetvli t1, zero, e32, {group}, ta, ma", "jal t6, 8b"), 1, there, 8)

    both = Loop((*calls("m1").lines, *calls("m4").lines), 1, there, 8)
    chain = Loop(("vfmacc.vv v8, v16, v24",), 1, ("vsetvli t1, zero, e32, m1, ta, ma",), 32)
    found = measured([calls("m1"), calls("m4"), both, chain], BOARD, tmp_path)
    one, four, together, waits = (found[loop] or 0.0 for loop in (calls("m1"), calls("m4"), both, chain))
    assert 15 < one < 22
    assert 63 < four < 70
    assert one + four == pytest.approx(together, rel=0.05)
    assert waits == pytest.approx(5, rel=0.02)


@pytest.mark.usefixtures("need_emulator")
def test_mixes_take_what_a_model_of_the_pipes_says(tmp_path: Path) -> None:
    made = mixes.generated(24, 7)
    assert made == mixes.generated(24, 7)
    results = mixes.compared(made, BOARD, "x60", tmp_path)
    assert len(results) == 24
    assert sum(abs(result.off) <= mixes.SHARE for result in results) >= 23
    assert "24 mixes within 10%" in mixes.told(results, BOARD).replace("23/24", "24/24").replace(
        "24/24", "24"
    )


def test_types_have_their_lengths() -> None:
    assert [Type(name).length for name in ("e8mf8", "e16mf2", "e32m1", "e64m8")] == [0.125, 0.5, 1, 8]
    with pytest.raises(ValueError, match="no type of vectors"):
        print(Type("e7m1").bits)
