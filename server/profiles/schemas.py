"""What a model takes on a board, as the API shows it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from kernels.numerics import Numerics
from server.jobs.built import Operator
from server.models.schemas import Dimension, ModelCheck

PROFILE_BYTES = 256 << 20
"""Of a request: data of inputs are in it."""
DTypeName = Literal[
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
]
_TENSOR: JsonDict = {"dtype": "float32", "shape": [1, 2], "data": "AACAPwAAAEA="}


class Tensor(BaseModel):
    """An array: its elements in order, the last axis fastest, little-endian."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _TENSOR})

    dtype: DTypeName = Field(description="The type of its elements, as numpy calls it.")
    shape: list[Annotated[int, Field(strict=True)]] = Field(description="Its extents.", max_length=16)
    data: str = Field(description="Its bytes in base64.", pattern="^[A-Za-z0-9+/]*={0,2}$")


class ProfileRequest(BaseModel):
    """Which model to run where. The build takes the best configs that are known of the board's target."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"model": "9f86d081884c7d65", "board": "rpi4-sim"},
                {"model": "9f86d081884c7d65", "target": "host", "inputs": {"x": _TENSOR}, "outputs": True},
            ]
        },
    )

    model: str = Field(description="A model's hash.")
    board: str | None = Field(default=None, description="A board's name; this or `target`.")
    target: str | None = Field(default=None, description="A target's name: any free board of it.")
    threads: int = Field(default=1, strict=True, ge=1, le=4096, description="Threads that kernels run on.")
    numerics: Numerics = Field(default=Numerics.EXACT_INTEGERS, description="What configs may be used.")
    shapes: dict[str, list[Dimension]] | None = Field(
        default=None, description="Input shapes other than those of the upload, by input."
    )
    inputs: dict[str, Tensor] | None = Field(
        default=None, description="Data of all inputs, by name; without, they are random."
    )
    outputs: bool = Field(default=False, description="Whether the outputs come back.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.board is None) == (self.target is None):
            raise ValueError("give either board or target")
        return self


class Memory(BaseModel):
    """What a model needs while it runs, beside its code."""

    weights_bytes: int = Field(description="Constants, packed as its kernels read them.")
    workspace_bytes: int = Field(description="What is allocated for tensors between its functions.")


class Profile(BaseModel):
    """A model that was built, and run whole on a board."""

    board: str = Field(description="Where it ran.")
    target: str = Field(description="The target's name.")
    threads: int = Field(description="Threads that its kernels ran on.")
    clock: str = Field(description="How the times were obtained.")
    measured_ms: float | None = Field(description="Median of its runs; null when it is wrong.")
    spread: float | None = Field(description="Interquartile range of the runs over their median.")
    estimated_ms: float = Field(
        description="What the build expects of its layers, layout changes, pools and concats."
    )
    operators: list[Operator] = Field(
        description="All that the time is spent in, the longest first, as timed call by call."
    )
    from_records: int = Field(description="Layers with a measured config.")
    by_analysis: int = Field(description="Layers with the analysis's config: no record promised more.")
    memory: Memory = Field(description="What it needs.")
    checked: bool = Field(description="Whether it was compared with its definition, and is right.")
    check: ModelCheck = Field(description="What was compared.")
    outputs: dict[str, Tensor] | None = Field(description="Where they were asked for, by name.")
