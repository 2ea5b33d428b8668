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


class TargetList(Items[Target]):
    """All targets."""
