"""A target as the API shows it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from server.http.lists import Items


class Target(BaseModel):
    """One kind of machine: what code is generated for, and the facts that kernels need."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(description="`host` is the native board's.", examples=["host"])
    triple: str = Field(description="As LLVM spells it.", examples=["x86_64-linux-gnu"])
    cpu: str = Field(description="As LLVM names it.", examples=["x86-64-v3"])
    features: list[str] = Field(description="Instruction sets, as LLVM names them.", examples=[["+dotprod"]])
    vector_bits: int = Field(description="Width of a vector register.", examples=[256])
    vector_registers: int = Field(description="How many there are.", examples=[16])
    l1_bytes: int = Field(description="Data cache.", examples=[32768])
    l2_bytes: int = Field(description="Data cache.", examples=[524288])
    l3_bytes: int = Field(description="0 where there is none.", examples=[16777216])
    line_bytes: int = Field(description="Bytes of a cache line.", examples=[64])
    l2_cycles: int = Field(description="Cycles for a line from there.", examples=[14])
    l3_cycles: int = Field(description="Cycles for a line from there.", examples=[45])
    dram_cycles: int = Field(description="Cycles for a line from there.", examples=[200])
    integer_vector_bits: int = Field(description="0 where it is `vector_bits`.", examples=[0])
    integer_vector_registers: int = Field(description="0 where it is `vector_registers`.", examples=[0])
    matrix: str = Field(description="The matrix engine's instruction set, or empty.", examples=["mma"])
    fast_bytes: int = Field(description="Memory that code fills itself; 0 where there is none.", examples=[0])
    hz: int = Field(description="The usual clock rate; 0 where it is unknown.", examples=[4_000_000_000])
    fmas_per_cycle: float = Field(description="Vector multiply-adds a cycle.", examples=[2.0])
    loads_per_cycle: float = Field(description="Vector loads a cycle.", examples=[1.6])
    misses_in_flight: float = Field(description="Line loads that overlap.", examples=[32.0])
    streams: int = Field(description="Sequential streams that prefetchers follow.", examples=[32])
    issue_width: float = Field(description="Instructions a cycle; 0 where it is unknown.", examples=[4.0])
    fma_latency: float = Field(description="Cycles until a sum can be added to again.", examples=[4.0])
    stores_per_cycle: float = Field(description="Stores of a vector a cycle.", examples=[1.0])
    l2_stream_cycles: float = Field(description="Cycles a line of a stream; 0: not measured.", examples=[4.0])
    l3_stream_cycles: float = Field(description="Cycles a line of a stream; 0: not measured.", examples=[0.0])
    dram_stream_cycles: float = Field(
        description="Cycles a line of a stream; 0: not measured.", examples=[22.0]
    )


class TargetList(Items[Target]):
    """All targets."""
