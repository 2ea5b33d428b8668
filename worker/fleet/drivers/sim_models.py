"""The simulated boards: which emulated processor, and what its clock charges for.

Every figure has its source beside it; "assumed" marks those for which we found no public one.
``docs/simulated-boards.md`` says which were checked against silicon, ``docs/simulated-clock.md`` how they are
used.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from worker.fleet.drivers.sim_prices import price_table

_KB = 1024
_WAKE_S = 5e-6
"""From the call that wakes a sleeping thread until it runs; assumed."""
_START_S = 20e-6
"""From the call that makes a thread until it runs; assumed."""
PIPES = ("integer", "branch", "load", "store", "vector")
"""Those that every core has."""


@dataclass(frozen=True)
class SimModel:
    """One simulated board; its field names are the plugin's options (``worker/simclock``).

    ``width`` is instructions (on Hexagon: packets) a cycle; ``integer`` to ``matrix`` are slots a cycle of
    those pipes, ``divide_cycles`` the cycles of one division or square root; ``*_cycles`` after the caches
    are what a line costs that comes from there, alone or as part of a sequential stream. ``fast_cycles`` is
    what a load or store of a scalar register costs in fast memory, whose size is the target's
    ``fast_bytes``; 0 where there is none.
    """

    target: str
    """Its entry in the targets' catalogue."""
    emulator: str
    emulated_cpu: str
    triple: str
    """Of the agent."""
    isa: str
    hz: int
    l1_bytes: int
    l1_ways: int
    l2_bytes: int
    l2_ways: int
    line_bytes: int
    l2_cycles: int
    memory_cycles: int
    l2_stream_cycles: int
    memory_stream_cycles: int
    cores: int = 4
    """How many threads it runs at most, each on a core of its own."""
    l2_shared: bool = False
    """By all cores; the last cache always is."""
    memory_line_cycles: int = 0
    """What a line that is read keeps the memory of all cores busy, or written: 0 where that is the same; and
    what it takes more where its bank has another row open, and where several cores want rows of that bank:
    0 where that is the same."""
    memory_write_cycles: int = 0
    memory_row_cycles: int = 0
    memory_shared_row_cycles: int = 0
    l2_lines: int = 0
    """How many lines an L2 that all cores share moves to and from several in a hundred cycles: 0 for no
    limit."""
    core: str = ""
    """Its entry in the tables of measured instructions (``sim_prices.py``); the next one then says how many
    misses are under way at once, and of the eight after that those that are given replace the table's.
    Without, they say what instructions take."""
    in_flight: int = 0
    width: int = 0
    integer: int = 0
    branch: int = 0
    load: int = 0
    store: int = 0
    vector: int = 0
    matrix: int = 0
    divide_cycles: int = 0
    l3_bytes: int = 0
    """0 where there is no third cache; then so are the next three."""
    l3_ways: int = 0
    l3_cycles: int = 0
    l3_stream_cycles: int = 0
    l3_exclusive: int = 0
    """1 where the third cache has what an L2 pushed out and no line of an L2, while one core alone runs."""
    fast_cycles: int = 0
    lines_ahead: int = 0
    """How many lines of its streams are under way while a core with ``in_flight`` computes: 0 where it waits
    for each. Then ``l2_stream_cycles`` is what it spends on each of them, wherever it comes from."""
    memory_turn_cycles: int = 0
    """What a written line takes more that leaves the caches after another one was read."""

    def options(self) -> Mapping[str, str | int]:
        """What the plugin is told."""
        hidden = {"target", "emulator", "emulated_cpu", "triple", "core"}
        figures = {name: value for name, value in vars(self).items() if name not in hidden and value}
        return {
            **figures,
            "wake_cycles": round(_WAKE_S * self.hz),
            "start_cycles": round(_START_S * self.hz),
        }

    @property
    def parts(self) -> tuple[str, ...]:
        """Which of CLOCK_PARTS it has."""
        given = {
            "fast_memory": self.fast_cycles,
            "ahead": self.lines_ahead or self.memory_turn_cycles,
            "exclusive": self.l3_exclusive,
        }
        return tuple(part for part, figure in given.items() if figure)

    @property
    def prices(self) -> str:
        """The table of what instructions cost; empty for a board without a ``core``."""
        pipes = tuple((name, count) for name in PIPES if (count := getattr(self, name)))
        return price_table(self.core, self.width, pipes) if self.core else ""

    def fingerprint(self, plugin: str) -> str:
        """12 hex digits over the processor, all figures, and ``plugin``, the plugin's hash."""
        figures = {name: value for name, value in vars(self).items() if value or name not in _IN_NAME_IF_SET}
        prices = self.prices
        text = json.dumps([figures, plugin, *([prices] if prices else [])], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


_IN_NAME_IF_SET = (
    "l3_exclusive",
    "fast_cycles",
    "core",
    "in_flight",
    "lines_ahead",
    "memory_turn_cycles",
    "memory_shared_row_cycles",
    "l2_lines",
)
"""Figures younger than the first clocks, whose names still hold."""


# Pipes: LLVM's scheduling model for this core (llvm/lib/Target/AArch64/AArch64SchedA57.td, which its
# cortex-a72 uses): issue width 3, units B 1, I 2, L 1, S 1, V 2; 128-bit arithmetic takes both V (2V),
# a 128-bit store two S (2S), FDIV of four floats 17 cycles of W twice. Caches: Arm Cortex-A72 TRM (L1D
# 32 KB 2-way, L2 16-way, 64-byte lines), Raspberry Pi BCM2711 documentation (1 MB L2, 1.5 GHz).
_RPI4 = SimModel(
    target="rpi4",
    emulator="qemu-aarch64",
    emulated_cpu="cortex-a72",
    triple="aarch64-linux-musl",
    isa="aarch64",
    core="a72",
    in_flight=6,
    hz=1_500_000_000,
    l1_bytes=32 * _KB,
    l1_ways=2,
    l2_bytes=1024 * _KB,
    l2_ways=16,
    line_bytes=64,
    # Measured by sbc-bench on boards, less the four cycles of a load from L1: L2 20 to 24, memory 195 to 220,
    # a line in a stream 22.3.
    l2_cycles=18,
    memory_cycles=203,
    l2_stream_cycles=4,  # assumed: 16 bytes a cycle
    memory_stream_cycles=22,
    l2_shared=True,
    # STREAM on a Pi 4 (www.sci-pi.org.uk/bench/stream.html): its copy moves 5.53 GB/s, with an eighth of the
    # lines where the other array has a row open in the same of eight banks, its add, of three arrays, 4.85.
    memory_line_cycles=15,
    memory_row_cycles=22,
    # MP-MFLOPS on the four cores of a Pi 4 (github.com/EntityFX/anybench), which changes arrays in place:
    # 100 KB for each core take 5.3 cycles a line, 1 and 10 MB 72.6 and 70.6.
    memory_shared_row_cycles=42,
    l2_lines=36,
)

SIM_MODELS: Mapping[str, SimModel] = {
    "rpi4-sim": _RPI4,
    # The same core running a system of 32 bits: the same pipes and caches, so that the two can be compared.
    # QEMU's 32-bit emulator knows no cortex-a72; "max" has all instruction sets of that.
    "rpi4-32-sim": replace(
        _RPI4,
        target="rpi4-32",
        emulator="qemu-arm",
        emulated_cpu="max",
        triple="arm-linux-musleabihf",
        isa="arm",
        core="",
        in_flight=0,
        width=3,
        integer=2,
        branch=1,
        load=1,
        store=1,
        vector=2,
        matrix=1,  # the core has none
        divide_cycles=17,
    ),
    # Pipes: LLVM's model of the Neoverse N1 (llvm/lib/Target/AArch64/AArch64SchedNeoverseN1.td), which is the
    # server's version of this core: I 3, B 1, L 2, V 2 of 128 bits, FDIV of four floats 7 cycles of V0;
    # stores take L as well, hence one of 128 bits a cycle. Issue width: Arm Cortex-A76 Software Optimization
    # Guide (four instructions are decoded a cycle). Caches: Arm Cortex-A76 TRM (L1D 64 KB 4-way, L2 8-way),
    # Raspberry Pi BCM2712 documentation (512 KB of L2 a core, 2 MB of L3 shared, 2.4 GHz).
    "rpi5-sim": SimModel(
        target="rpi5",
        emulator="qemu-aarch64",
        emulated_cpu="cortex-a76",
        triple="aarch64-linux-musl",
        isa="aarch64",
        core="n1",
        in_flight=20,
        lines_ahead=20,  # assumed: as many as misses
        hz=2_400_000_000,
        l1_bytes=64 * _KB,
        l1_ways=4,
        l2_bytes=512 * _KB,
        l2_ways=8,
        line_bytes=64,
        # Measured by sbc-bench on boards, less the four cycles of a load from L1: L2 12.1, L3 41 (1 MB),
        # memory 276 to 280.
        l2_cycles=8,
        memory_cycles=274,
        # BusSpeed and MemSpeed on the A76 of an RK3588 (github.com/EntityFX/anybench): a line of L2 takes 0.2
        # to 1.5 cycles more than one of L1.
        l2_stream_cycles=1,
        memory_stream_cycles=11,
        # A reading STREAM on a Pi 5 (github.com/ggml-org/llama.cpp/issues/26484): 9.26 GB/s on one thread,
        # 13.23 on two, 11.59 on four, where an eighth and a third of the lines find their bank in use.
        # tinymembench on a Pi 5 of September 2023 (sbc-bench, results/4HDw.txt), cycles of a line: read 11.3,
        # filled 13.3, copied 29.1; and 102.8 copied by way of a buffer of 2 KB, where one line is written for
        # two that are read. (36.6 with newer firmware in January 2025, results/8-NK.txt.)
        memory_line_cycles=10,
        memory_write_cycles=13,
        memory_row_cycles=10,
        memory_turn_cycles=67,
        l3_bytes=2 * 1024 * _KB,
        l3_ways=16,  # assumed
        l3_cycles=37,
        l3_exclusive=1,  # technical reference manual of the DynamIQ Shared Unit, "L3 cache allocation policy"
        l3_stream_cycles=5,  # assumed: 12.8 bytes a cycle
    ),
    # Pipes: LLVM's model of the Neoverse V1 (llvm/lib/Target/AArch64/AArch64SchedNeoverseV1.td): issue width
    # 8, I 4, B 2, L 3, D 2, V 4 of 128 bits, FDIV of four floats 7 cycles of one of two pipes. Caches: Arm
    # Neoverse V1 TRM (L1D 64 KB 4-way, L2 1 MB 8-way); AWS (32 MB of shared cache, 2.6 GHz). QEMU 7.2 knows
    # no neoverse-v1; "max" has all its instructions. Without SVE: kernels have none, the clock knows none.
    "graviton3-sim": SimModel(
        target="graviton3",
        emulator="qemu-aarch64",
        emulated_cpu="max,sve=off,sme=off",
        triple="aarch64-linux-musl",
        isa="aarch64",
        core="v1",
        in_flight=32,
        hz=2_600_000_000,
        l1_bytes=64 * _KB,
        l1_ways=4,
        l2_bytes=1024 * _KB,
        l2_ways=8,
        line_bytes=64,
        l2_cycles=13,  # assumed, as is L3's, as in the target
        memory_cycles=260,  # assumed: 100 ns
        l2_stream_cycles=2,  # assumed: 32 bytes a cycle
        memory_stream_cycles=8,  # assumed: 20 GB/s a core
        memory_line_cycles=1,  # eight channels of DDR5-4800 have 307 GB/s; four cores need less than half
        l3_bytes=32 * 1024 * _KB,
        l3_ways=16,  # assumed
        l3_cycles=80,
        l3_stream_cycles=6,  # assumed: 11 bytes a cycle
    ),
    # Pipes: LLVM's scheduling model (llvm/lib/Target/PowerPC/PPCScheduleP10.td): issue width 8, FX 4, BR 2,
    # LD 2, ST 2, BF 4, MM 2; XVDIVSP keeps a BF pipe busy for 8 cycles. Caches: IBM Power E1080 technical
    # overview (L1D 32 KB, 8-way, 128-byte lines; 2 MB L2 for an SMT8 core, whose two halves have one each;
    # 8 MB of L3 nearby).
    "power10-sim": SimModel(
        target="power10",
        emulator="qemu-ppc64le",
        emulated_cpu="power10",
        triple="powerpc64le-linux-musl",
        isa="ppc64",
        hz=4_000_000_000,  # assumed: the E1080's processors run at 3.55 to 4.15 GHz
        width=8,
        integer=4,
        branch=2,
        load=2,
        store=2,
        vector=4,
        matrix=2,
        divide_cycles=8,
        l1_bytes=32 * _KB,
        l1_ways=8,
        l2_bytes=1024 * _KB,
        l2_ways=8,
        line_bytes=128,
        l2_cycles=14,  # assumed
        memory_cycles=320,  # assumed: 80 ns
        l2_stream_cycles=2,  # assumed: 64 bytes a cycle
        memory_stream_cycles=20,  # assumed: 25 GB/s
        memory_line_cycles=2,  # assumed: 256 GB/s
        l3_bytes=8 * 1024 * _KB,
        l3_ways=16,  # assumed
        l3_cycles=28,  # assumed, as in the target
        l3_stream_cycles=4,  # assumed: 32 bytes a cycle
    ),
    # One packet a cycle: Qualcomm Hexagon V67 Programmer's Reference Manual (up to four instructions, of
    # which two access memory); HVX memory accesses go to L2: Hexagon V66 HVX Programmer's Reference Manual.
    # VTCM: V79 HVX Programmer's Reference Manual, "HVX local memory" (nothing is evicted, faster than L2, a
    # read and a write in every packet). Of its latency for scalar registers it tells nothing.
    "hexagon-sim": SimModel(
        target="hexagon-v66",
        emulator="qemu-hexagon",
        emulated_cpu="v67",
        triple="hexagon-linux-musl",
        isa="hexagon",
        hz=1_000_000_000,  # assumed
        width=1,
        integer=4,
        branch=2,
        load=2,
        store=2,
        vector=4,
        matrix=1,  # not modelled
        divide_cycles=1,  # divisions are library calls, charged by what these execute
        cores=1,  # its hardware threads are not modelled
        l1_bytes=32 * _KB,  # assumed, as are all below
        l1_ways=8,
        l2_bytes=1024 * _KB,
        l2_ways=8,
        line_bytes=64,
        l2_cycles=10,
        memory_cycles=150,
        l2_stream_cycles=2,
        memory_stream_cycles=12,
        # Assumed: as a line from L2, each time, as no L1 holds it. Notes of people who measured chips tell of
        # more: 23 cycles where L2 took 16 (V65), and some 40.
        fast_cycles=10,
    ),
    # Instructions: ``sim_vectors.py``. Clock: 32 GFLOPS a core were measured on a K1 said to run at 1.6 GHz
    # (book.j4orz.ai/assets/rooflinejupiter.html), a quarter above this model's peak. Caches: Linux,
    # arch/riscv/boot/dts/spacemit/k1.dtsi (L1D 32 KB in 128 sets, L2 512 KB in 512 sets, 64-byte lines).
    "riscv-k1-sim": SimModel(
        target="riscv-k1",
        emulator="qemu-riscv64",
        emulated_cpu="rv64,v=true,vext_spec=v1.0,vlen=256,zba=true,zbb=true,zbs=true",
        triple="riscv64-linux-musl",
        isa="riscv64",
        core="x60",
        in_flight=1,
        hz=1_600_000_000,
        l1_bytes=32 * _KB,
        l1_ways=4,
        l2_bytes=512 * _KB,
        l2_ways=16,
        line_bytes=64,
        # Measured by sbc-bench on boards, less the three cycles of a load from L1: L2 29 to 41, memory 342 to
        # 427.
        l2_cycles=32,
        memory_cycles=382,
        l2_stream_cycles=4,  # assumed: 16 bytes a cycle
        memory_stream_cycles=32,  # assumed: 3.2 GB/s of the 10.6 that 32 bits of LPDDR4X-2666 have
        l2_shared=True,  # by the four cores of a cluster
        memory_line_cycles=14,  # assumed: 7.3 GB/s
    ),
}
