"""From the table of instructions to the prices of the clock: ``python -m bench.silicon prices``.

What is not in the table and is common in code (jumps, moves between the banks) comes from Arm's software
optimization guides of the cores.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from string import Formatter

from bench.silicon.encode import encodings
from bench.silicon.forms.aliases import aliases
from bench.silicon.forms.form import Form, words
from bench.silicon.forms.sections import form
from bench.silicon.pieces import pieces
from bench.silicon.pipes import EARLY, family, pipes
from bench.silicon.table import CORES, Row, rows

_BITS = {"d": 0, "D": 0, "s": 0, "n": 5, "N": 5, "a": 10, "e": 10, "S": 10, "m": 16, "M": 16}
_USES = {"d": "w", "e": "w", "D": "a", "M": "a", "N": "b"}
_STORES_OF_16_BYTES = words("str stur stp st1")
_Q = 1 << 30
_SF = 1 << 31
_AMOUNT = 0x3F << 10
_STRUCTURES = 0xBE800000
"""The bits that tell LD1 to LD4 and ST1 to ST4, whole vectors and lanes, at an address that stays."""
_STORES_OF_SEVERAL = {
    2: (0xA, {"a72": 0.25, "v1": 0.3}),
    3: (0x6, {"a72": 0.12, "v1": 0.22}),
    4: (0x2, {"a72": 0.08, "v1": 0.16}),
}
"""ST1 of several vectors: the bits that tell it, and how many run a cycle, from the rows that load what was
stored. Of the N1 these are of stores to one place (``_store_rate``)."""
_PRODUCTS = words("mul mneg madd msub smulh umulh")
"""Of 64 bits: those of 32 cost less (``forms/aliases.py``)."""
_IN_TWO_PIECES = 1.5
"""What an A72 runs a cycle of what writes 128 bits: its front end, not its two pipes, allows no more."""


Figures = tuple[str, float, float, float]
"""Pipes, how many run a cycle, the cycles of the result and those of its accumulator (0: no earlier)."""


@dataclass(frozen=True)
class Price:
    """What an instruction costs, by core."""

    name: str
    mask: int
    value: int
    operands: str
    family: int = 0
    loads: int = 0
    stores: int = 0
    pieces: int = 1
    cores: dict[str, Figures] = field(default_factory=dict)


_EVERYWHERE = ("a72", "n1", "v1")
_OTHERS = (
    # Jumps: not taken, or taken with a turn that takes longer anyway (``Core.taken``).
    Price("b", 0x7C000000, 0x14000000, "", cores=dict.fromkeys(_EVERYWHERE, ("B", 1, 1, 0))),
    Price("b.cond", 0xFF000010, 0x54000000, "fr", cores=dict.fromkeys(_EVERYWHERE, ("B", 1, 1, 0))),
    Price("cbz", 0x7E000000, 0x34000000, "xr0", cores=dict.fromkeys(_EVERYWHERE, ("B", 1, 1, 0))),
    Price("tbz", 0x7E000000, 0x36000000, "xr0", cores=dict.fromkeys(_EVERYWHERE, ("B", 1, 1, 0))),
    Price("br", 0xFE000000, 0xD6000000, "xr5", cores=dict.fromkeys(_EVERYWHERE, ("B", 1, 1, 0))),
    Price("prfm", 0xFFC00000, 0xF9800000, "xr5", cores=dict.fromkeys(_EVERYWHERE, ("L", 1, 1, 0))),
)
_FROM_VECTORS = {"a72": ("F", 2, 4.1), "n1": ("V1", 1, 2), "v1": ("V13", 2, 2)}
"""Of a lane to an integer register. The table has the sums of both ways; how they divide is as far as known
from what its loads of vectors take by the guides."""
_INTO_A_LANE = {"a72": ("L", 1, 11.1), "n1": ("M", 1, 5), "v1": ("M0", 1, 5)}
_INTO_A_REGISTER = {"a72": ("L", 1, 4.1), "n1": ("M", 1, 3), "v1": ("M0", 1, 3)}
_ADDITION = {"a72": 3, "n1": 2, "v1": 2}
"""Of vectors."""


def prices() -> list[Price]:
    """All prices, those that tell the most of an instruction first."""
    formed = [(row, made) for row in rows() if (made := form(row.section, row.name)) and _is_plain(made)]
    found: dict[tuple[int, int], Price] = {}
    for (mask, value), (row, each) in zip(encodings([each for _, each in formed]), formed, strict=True):
        if row.section == "Branch":
            continue
        price = _merged(found.get((mask, value)), _of_row(row, each, mask, value))
        found[mask, value] = price
    for at, price in found.items():
        found[at] = _early(price, {each.name: each for each in found.values()})
    others = [*_OTHERS, *_between_banks(), *_alike({price.name: price for price in found.values()})]
    for price in others:
        found.setdefault((price.mask, price.value), price)
    for price in [*found.values()]:
        for more in _variants(price):
            found.setdefault((more.mask, more.value), more)
    kept = (price for price in found.values() if price.cores)
    return sorted(kept, key=lambda price: (-price.mask.bit_count(), price.name))


def _is_plain(found: Form) -> bool:
    """Whether the form tells its encoding: not one of two instructions, or of one register twice."""
    names = [role for _, role, _, _ in Formatter().parse(found.asm) if role]
    return not found.back and len(names) == len(set(names))


def _of_row(row: Row, found: Form, mask: int, value: int) -> Price:
    cores: dict[str, Figures] = {}
    for core in CORES.values():
        rate, latency = row.per_cycle[core] or 0.0, row.latency[core] or 0.0
        if not rate and not latency:
            continue
        if rate and core == "N1" and found.mnemonic in _STORES_OF_16_BYTES and "single" not in row.name:
            rate = _store_rate(found, rate)
        where = ""
        if rate and "chain" not in row.name:
            where = pipes(core.lower(), row.section, found.mnemonic, rate)
        if core == "A72" and where == "F" and rate == _IN_TWO_PIECES:
            rate = 2.0
        if latency:
            latency += _unseen(core.lower(), row, found)
        takes = (0.0, latency) if found.forward else (latency, 0.0)
        cores[core.lower()] = (where, rate if where else 0.0, *takes)
    group = family(found.mnemonic)
    loads, stores = "load" in row.section or "Atomic" in row.section, "store" in row.section
    operands = _operands(found, bool(group))
    return Price(row.name, mask, value, operands, group, int(loads), int(stores), pieces(found), cores)


def _unseen(core: str, row: Row, found: Form) -> float:
    """What the table's latency of a way between the banks lacks, or has too much: its source takes half of
    both ways for one of them (``chains.py``)."""
    out, lane, register = (each[core][2] for each in (_FROM_VECTORS, _INTO_A_LANE, _INTO_A_REGISTER))
    goes_to_vectors = found.bank(_leaves(found)) not in "xw" if _leaves(found) else False
    from_integers = "n" in found.roles and found.bank("n") in "xw"
    back = _ADDITION[core] + out + 1
    taken_off = math.floor(register + back - (register + out + 1) / 2 + 0.5)
    if found.mnemonic == "dup" and from_integers:
        return (lane + out) / 2 - out
    if goes_to_vectors and ("load" in row.section or from_integers):
        return taken_off - back
    if "scl -> reg" in row.name:
        return register + back - taken_off - lane
    return 0.0


def _leaves(found: Form) -> str:
    return next((role for role in (found.leaves, found.leaves.upper()) if role in found.roles), "")


def _store_rate(found: Form, measured: float) -> float:
    """How many stores of whole vectors a Cortex-A76 does a cycle: one of 16 bytes, says its guide; the table
    has a third of that, of stores that all go to one place."""
    registers = len(found.roles) - 1
    if found.bank("s") == "x":
        return 1.0 if found.mnemonic == "stp" else measured
    return max(measured, 1 / registers)


def _merged(one: Price | None, other: Price) -> Price:
    """Of two rows of one encoding: what the first one has, and what only the other has."""
    if one is None:
        return other
    cores = dict(other.cores)
    for core, (where, rate, latency, forward) in one.cores.items():
        more = cores.get(core, ("", 0.0, 0.0, 0.0))
        cores[core] = (where or more[0], rate or more[1], latency or more[2], forward or more[3])
    return replace(one, cores=cores)


def _early(price: Price, by_name: Mapping[str, Price]) -> Price:
    """With what the table lacks of early accumulators: a product by a lane hands on its sum as that of whole
    vectors does, and by the guides sums of pairs, of differences and of shifts and dot products do so after a
    cycle."""
    word = price.name.split()[0]
    if not price.family or "va0" not in price.operands:
        return price
    whole = by_name.get(f"{word} (vec)", price)
    cores = {}
    for core, (where, rate, latency, forward) in price.cores.items():
        early = whole.cores.get(core, ("", 0.0, 0.0, 0.0))[3]
        if not early and price.family in EARLY:
            early = 1.0
        cores[core] = (where, rate, latency, forward or early)
    return replace(price, cores=cores)


def _operands(found: Form, accumulates: bool) -> str:
    """See ``worker/simclock/prices.h``."""
    runs: dict[str, int] = {}
    for role in found.roles:
        runs[role[0]] = runs.get(role[0], 0) + 1
    texts = []
    for role, count in runs.items():
        bank = "x" if found.bank(role) in "xw" else "v"
        use = _USES.get(role, "r")
        if role == "a" and accumulates:
            use = "c"
        elif role == "m" and "v{m}.h[" in found.asm:
            use = "l"
        texts.append(f"{bank}{use}{_BITS[role]}" + (f"+{count}" if count > 1 else ""))
    return " ".join(texts + ["fr"] * found.reads_flags + ["fw"] * found.writes_flags)


def _between_banks() -> Iterator[Price]:
    kinds = (
        ("umov w{d}, v{n}.b[0]", 0x1F << 16 | _Q, _FROM_VECTORS),
        ("smov w{d}, v{n}.b[0]", 0x1F << 16 | _Q, _FROM_VECTORS),
        ("fmov x{d}, d{n}", 0, _FROM_VECTORS),
        ("fmov w{d}, s{n}", 0, _FROM_VECTORS),
        ("mov v{D}.s[0], w{n}", 0x1F << 16, _INTO_A_LANE),
        ("fmov d{d}, x{n}", 0, _INTO_A_REGISTER),
        ("fmov s{d}, w{n}", 0, _INTO_A_REGISTER),
    )
    forms = [Form(asm, free) for asm, free, _ in kinds]
    for (mask, value), found, (_, _, cores) in zip(encodings(forms), forms, kinds, strict=True):
        priced: dict[str, Figures] = {core: (*figures, 0.0) for core, figures in cores.items()}
        yield Price(found.asm.format_map(_Plain()), mask, value, _operands(found, False), cores=priced)


def _alike(by_name: Mapping[str, Price]) -> Iterator[Price]:
    made = list(aliases())
    for (mask, value), (each, row) in zip(encodings([each for each, _ in made]), made, strict=True):
        price = by_name[row]
        name = each.asm.format_map(_Plain())
        yield replace(
            price, name=name, mask=mask, value=value, operands=_operands(each, False), pieces=pieces(each)
        )


class _Plain(dict[str, str]):
    def __missing__(self, role: str) -> str:
        return role


def _variants(price: Price) -> Iterator[Price]:
    """The same with what the table does not list: vectors of 64 bits, integers of 32, structures of vectors
    at an address that moves on, other amounts of a shifted operand."""
    group = price.value >> 25 & 7
    if price.mask & price.value & _Q and group == 7 and not price.value >> 28 & 1:
        cores = {core: _of_half(core, *figures) for core, figures in price.cores.items()}
        name, value, halves = f"{price.name}, 64 bits", price.value & ~_Q, max(1, price.pieces // 2)
        yield replace(price, name=name, value=value, pieces=halves, cores=cores)
    integers = price.value >> 26 & 7 == 4 or price.value >> 25 & 7 == 5
    if integers and price.mask & price.value & _SF and price.name not in _PRODUCTS:
        yield replace(price, name=f"{price.name}, 32 bits", value=price.value & ~_SF)
    if price.value & _STRUCTURES == 0x0C000000:
        yield replace(
            price,
            name=f"{price.name}, moving on",
            mask=price.mask & ~(31 << 16),
            value=price.value | 1 << 23,
            operands=price.operands.replace("xr5", "xb5"),
            pieces=price.pieces + 1,
        )
    if price.name.startswith("st1.") and price.name.endswith("(multi)"):
        for registers, (code, rates) in _STORES_OF_SEVERAL.items():
            more = replace(
                price,
                name=f"{price.name[:-1]}; {registers} reg)",
                value=price.value & ~(0xF << 12) | code << 12,
                operands=price.operands.replace("vr0", f"vr0+{registers}"),
                pieces=price.pieces * registers,
                cores={
                    core: (where, rates.get(core, rate / registers), latency, forward)
                    for core, (where, rate, latency, forward) in price.cores.items()
                },
            )
            yield from (more, *_variants(more))
    if "(reg<<2" in price.name:
        for amount in (1, 3, 4):
            yield replace(
                price, value=price.value & ~_AMOUNT | amount << 10, name=f"{price.name[:-2]}{amount})"
            )
    if "17" in price.name and price.mask & _AMOUNT == _AMOUNT and "reg" in price.name:
        yield replace(
            price,
            mask=price.mask & ~_AMOUNT,
            value=price.value & ~_AMOUNT,
            name=f"{price.name}, other amounts",
        )


def _of_half(core: str, where: str, rate: float, latency: float, forward: float) -> Figures:
    """An A72 takes a vector of 128 bits in two pieces, as all cores do divisions and conversions."""
    size = 2 if where in {"V02", "V13", "F", "V01"} else 1
    if where == "F" and core == "a72":
        rate = min(2.0, 2 * rate)
    elif where not in {"F", "V"} and rate <= 0.51 * size:
        rate *= 2
    return where, rate, latency, forward


def table(made: Iterable[Price]) -> str:
    """The clock's table (``worker/fleet/drivers/sim_prices.py``)."""
    names = ("pipes", "per_cycle", "latency", "forward")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["name", "mask", "value", "operands", "family", "loads", "stores", "pieces"]
        + [f"{core}_{name}" for core in _EVERYWHERE for name in names]
    )
    for price in made:
        row = [price.name, f"{price.mask:08x}", f"{price.value:08x}", price.operands]
        row += map(str, (price.family, price.loads, price.stores, price.pieces))
        for core in _EVERYWHERE:
            where, *numbers = price.cores.get(core, ("", 0.0, 0.0, 0.0))
            row += [where, *(f"{number:g}" if number and where else "" for number in numbers)]
        writer.writerow(row)
    return text.getvalue()
