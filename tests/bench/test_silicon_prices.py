"""The clock's prices: made of the measured table, and read as they are meant."""

from __future__ import annotations

import pytest

from bench.silicon.forms.form import Form
from bench.silicon.pieces import pieces
from bench.silicon.prices import Price, prices, table
from worker.fleet.drivers.sim_core import TICKS
from worker.fleet.drivers.sim_prices import CORES, PRICES, price_table


@pytest.fixture(scope="module")
def made() -> list[Price]:
    return prices()


def test_the_clocks_table_is_what_the_measurements_make(made: list[Price]) -> None:
    """Else: ``python -m bench.silicon prices``."""
    assert table(made) == PRICES.read_text()


def test_a_word_costs_what_its_first_price_says(made: list[Price]) -> None:
    """Special encodings come before general ones, and vectors of 64 bits have prices of their own."""

    def costs(word: int, core: str) -> tuple[str, float, float, float]:
        return next(price.cores[core] for price in made if word & price.mask == price.value)

    assert costs(0x4E22CC20, "a72") == ("F", 1, 7, 3)  # fmla v0.4s, v1.4s, v2.4s
    assert costs(0x0E22CC20, "a72") == ("F", 2, 7, 3)  # fmla v0.2s, v1.2s, v2.2s
    assert costs(0x0E62C020, "n1") == ("V0", 1, 4, 0)  # smull v0.4s, v1.4h, v2.4h
    assert costs(0x0E208020, "a72") == ("F0", 1, 4, 1)  # smlal v0.8h, v1.8b, v2.8b
    assert costs(0x4C9F2820, "a72")[1] == 0.08  # st1 {v0.4s - v3.4s}, [x1], #64
    assert costs(0x3CC10420, "n1") == ("L", 2, 5, 0)  # ldr q0, [x1], #16
    assert costs(0x4E206820, "a72")[0] == "F1"  # sadalp v0.8h, v1.16b
    assert costs(0x8B020020, "a72") == ("I", 2, 1, 0)  # add x0, x1, x2
    assert costs(0x0B020020, "a72") == ("I", 2, 1, 0)  # add w0, w1, w2
    assert costs(0x8B021C20, "a72") == ("M", 1, 2, 0)  # add x0, x1, x2, lsl #7
    assert costs(0x3D800020, "n1")[1] == 1  # str q0, [x1]


@pytest.mark.parametrize("core", sorted(CORES))
def test_each_instruction_takes_its_pipes_and_those_that_contain_them(core: str) -> None:
    lines = price_table(core).splitlines()
    names = lines[0].split()[1:]
    assert len(lines) > 1500
    for line in lines:
        if not line.startswith(("price ", "other ")):
            continue
        words = line.split(":")[0].split()
        use = dict(zip(names, map(int, words[8:]), strict=True))
        slots, rest = divmod(use["D"], TICKS // CORES[core].width)
        assert rest == 0
        assert slots in (range(1, 10) if core == "a72" else (1,))
        assert max(use.values()) > 0
    mine = CORES[core].use("V0" if core == "n1" else "F0" if core == "a72" else "V02", 1)
    assert sorted(each for each in mine[1:] if each) == [TICKS // 2, TICKS]


@pytest.mark.parametrize(
    ("asm", "count"),
    [
        ("saddl v{d}.8h, v{n}.8b, v{m}.8b", 2),
        ("fmla v{D}.2s, v{n}.2s, v{m}.2s", 1),
        ("addhn v{d}.8b, v{n}.8h, v{m}.8h", 1),
        ("addhn2 v{D}.16b, v{n}.8h, v{m}.8h", 1),
        ("trn2 v{d}.16b, v{n}.16b, v{m}.16b", 2),
        ("mov v{D}.d[0], v{n}.d[0]", 1),
        ("ld1 {{v{d}.16b, v{d1}.16b}}, [x{N}], #32", 5),
        ("ldp x{d}, x{e}, [x{n}]", 1),
        ("ldr q{d}, [x{n}, x{m}]", 2),
        ("stp q{s}, q{S}, [x{N}, #16]!", 5),
        ("stp w{s}, w{S}, [x{n}]", 1),
        ("st4 {{v{s}.h, v{s1}.h, v{s2}.h, v{s3}.h}}[7], [x{n}]", 1),
        ("fcmp d{n}, d{m}", 1),
    ],
)
def test_an_instruction_writes_pieces_of_64_bits(asm: str, count: int) -> None:
    assert pieces(Form(asm)) == count


def test_an_a72_dispatches_three_pieces_a_cycle(made: list[Price]) -> None:
    def slots(word: int) -> int:
        return next(price.pieces for price in made if word & price.mask == price.value)

    assert slots(0x4E208420) == 2  # add v0.16b, v1.16b, v0.16b
    assert slots(0x0E208420) == 1  # add v0.8b, v1.8b, v0.8b
    assert slots(0x4CDF2820) == 9  # ld1 {v0.4s - v3.4s}, [x1], #64
    assert slots(0x4C9F2820) == 9  # st1 {v0.4s - v3.4s}, [x1], #64
    assert slots(0xFD400020) == 1  # ldr d0, [x1]
    lines = [line for line in price_table("a72").splitlines() if line.startswith("price fffffc00 4e20b800 ")]
    assert [line.split(":")[0].split()[8] for line in lines] == [str(2 * TICKS // 3)]  # abs v.16b


@pytest.mark.parametrize("core", sorted(CORES))
def test_what_nobody_measured_costs_what_its_kind_does(core: str) -> None:
    lines = price_table(core).splitlines()
    names = lines[0].split()[1:]
    others = [line.split(":")[0].split() for line in lines if line.startswith("other ")]

    def kind(word: int) -> tuple[str, str, str]:
        price = next(each for each in others if word & int(each[1], 16) == int(each[2], 16))
        use = dict(zip(names, map(int, price[8:]), strict=True))
        del use["D"]
        return max(use, key=lambda name: use[name]), price[6], price[7]

    vectors = "F" if core == "a72" else "V"
    assert kind(0xF9400020) == kind(0x58000000) == ("L", "1", "0")  # ldr x0, [x1]; ldr x0, .
    assert kind(0xF9000020)[1:] == ("0", "1")  # str x0, [x1]
    assert kind(0x4E208420) == (vectors, "0", "0")  # add v0.16b, v1.16b, v0.16b
    assert kind(0x14000000) == ("B", "0", "0")  # b .
    assert kind(0x8B020020)[0] == "I"  # add x0, x1, x2
    assert kind(0x9AC20C20)[0] == {"a72": "F0", "n1": "V0", "v1": "V02"}[core]  # sdiv x0, x1, x2
