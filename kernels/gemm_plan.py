"""The sizes that one GEMM config implies for one product."""

from __future__ import annotations

from dataclasses import dataclass

from kernels import machine, shares
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Gemm


@dataclass(frozen=True)
class Plan:
    """A config's block sizes, in elements, fitted to the workload.

    ``parts`` says into how many shares threads divide the panels and the row tiles.
    """

    gemm: Gemm
    rows: int
    vectors: int
    chains: int
    lanes: int
    kc: int
    mc: int
    nc: int
    parts: tuple[int, int] = (1, 1)

    @classmethod
    def of(cls, gemm: Gemm, config: Config, target: Target, threads: int = 1) -> Plan:
        """Read a config of ``PackedGemm``."""
        lanes, vectors = target.lanes(), config.int("vectors")
        rows, width = min(config.int("rows"), gemm.m), vectors * lanes
        parts = {"panels": (threads, 1), "rows": (1, threads), "both": shares.grid(threads)}
        return cls(
            gemm=gemm,
            rows=rows,
            vectors=vectors,
            chains=config.int("chains"),
            lanes=lanes,
            kc=min(config.int("kc"), gemm.k),
            mc=max(1, config.int("mc") // rows) * rows,
            nc=max(1, config.int("nc") // width) * width,
            parts=(1, 1) if threads == 1 else parts[str(config["split"])],
        )

    def why_not(self) -> str | None:
        """Why threads cannot share this out, or None when they can."""
        tiles = -(-self.gemm.m // self.rows)
        if self.parts[1] > 1 and (self.parts[0] > self.panels or self.parts[1] > tiles):
            return "there are too few tiles for every thread to get one"
        return None

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels, with the narrower last one."""
        return -(-self.gemm.n // self.width)

    @property
    def whole_panels(self) -> int:
        """Panels of full width."""
        return self.gemm.n // self.width

    @property
    def edge_columns(self) -> int:
        """Columns of the narrower last panel."""
        return self.gemm.n % self.width

    @property
    def whole_tiles(self) -> int:
        """Row tiles of full height."""
        return self.gemm.m // self.rows

    @property
    def edge_rows(self) -> int:
        """Rows of the lower last tile."""
        return self.gemm.m % self.rows

    def share_cycles(self, target: Target, panels: tuple[int, int], tiles: tuple[int, int]) -> float:
        """Cycles of the micro-kernels of so many (whole, narrower) panels and (whole, lower) row tiles."""
        gemm = self.gemm
        sums = -(-gemm.k // self.kc)
        total = 0.0
        for rows, count in zip((self.rows, self.edge_rows), tiles, strict=True):
            if count:
                step = machine.step_cycles(target, rows, self.vectors, self.chains)
                call = gemm.k * step + sums * (machine.CALL_CYCLES + 2 * rows * self.vectors)
                total += count * sum(panels) * call
        return total
