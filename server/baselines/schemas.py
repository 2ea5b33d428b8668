"""Baselines as the API shows them."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from server.http.lists import Items


class Timing(BaseModel):
    """One measurement of a library."""

    version: str = Field(pattern=r"^[!-~]{1,64}$", description="The library's version.", examples=["1.31.0"])
    seconds: float = Field(
        strict=True, gt=0, allow_inf_nan=False, description="Seconds a call.", examples=[0.0011]
    )


class Baseline(Timing):
    """What a library takes for a workload, by the last measurement."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "library": "onnxruntime",
                "version": "1.31.0",
                "seconds": 0.0011,
                "measured": "2026-11-21T14:03:52.410736Z",
            }
        }
    )

    library: str = Field(description="The library's name.", examples=["onnxruntime"])
    measured: datetime = Field(description="When it was stored.")


class BaselineList(Items[Baseline]):
    """The libraries that were timed, the fastest first."""
