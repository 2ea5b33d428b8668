"""The clock's prices: made of the measured table, and read as they are meant."""

from __future__ import annotations

import pytest

from bench.silicon.prices import Price, prices, table
from worker.fleet.drivers.sim_prices import CORES, PRICES, TICKS, price_table


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
    for line in lines[3:]:
        words = line.split(":")[0].split()
        use = dict(zip(names, map(int, words[8:]), strict=True))
        assert use["D"] == TICKS // CORES[core].width
        assert max(use.values()) > 0
    mine = CORES[core].use("V0" if core == "n1" else "F0" if core == "a72" else "V02", 1)
    assert sorted(each for each in mine[1:] if each) == [TICKS // 2, TICKS]
