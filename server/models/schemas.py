"""Models as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from kernels.workload.base import Unit
from server.http.lists import Page


class ModelInput(BaseModel):
    """One input of a model."""

    name: str = Field(description="As in the file.", examples=["data_0"])
    shape: list[int] = Field(description="Every dimension fixed.", examples=[[1, 3, 224, 224]])


class Model(BaseModel):
    """An uploaded model."""

    hash: str = Field(description="SHA-256 of the file: the model's name.", examples=["9f86d081884c7d65..."])
    name: str = Field(description="The name given at the upload.", examples=["squeezenet.onnx"])
    size: int = Field(description="Bytes of the file.", examples=[4956208])
    state: Literal["ready"] = Field(default="ready", description="A stored model is always ready.")
    inputs: list[ModelInput] = Field(description="What it is fed with.")
    operators: int = Field(description="Convolutions and matrix products in it.", examples=[26])
    tunable: int = Field(description="Those of them that can be tuned.", examples=[26])
    flops: int = Field(
        description="Operations of the tunable ones, two a multiply-add.", examples=[700000000]
    )
    created: datetime = Field(description="When it was uploaded, UTC.")


class WorkloadUse(BaseModel):
    """One distinct workload of a model."""

    key: str = Field(description="The workload's hash.", examples=["0f3a9c1d2b4e5f60"])
    text: str = Field(description="The workload for people.", examples=["conv 64x56x56 -> 64, 3x3 +relu"])
    workload: dict[str, Any] = Field(description="The workload in canonical form.")
    count: int = Field(description="How often it occurs.", examples=[3])
    nodes: list[str] = Field(
        description="For every occurrence, the nodes it is made of.", examples=[["conv1 + relu1"]]
    )
    flops: int = Field(description="Operations of one occurrence, two a multiply-add.", examples=[231211008])
    unit: Unit = Field(description="What `flops` counts: `FLOP`, or `OP` of integers.")


class NotTunable(BaseModel):
    """An operator that is left to TVM."""

    node: str = Field(description="The node's name.")
    op: str = Field(description="Its operator.", examples=["MatMul"])
    reason: str = Field(description="Why it cannot be tuned.")


class Workloads(BaseModel):
    """What there is to tune in a model."""

    workloads: list[WorkloadUse] = Field(description="Distinct workloads in the order they first occur.")
    not_tunable: list[NotTunable] = Field(description="Products that no kernel computes.")


class ModelPage(Page[Model]):
    """Models, the newest first."""
