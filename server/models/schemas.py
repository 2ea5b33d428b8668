"""Models as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from compiler.intake.shapes import MOST_SETS
from kernels.numerics import Numerics
from kernels.unit import Unit
from server.http.lists import Items, Page

Dimension = Annotated[int, Field(strict=True, ge=0, lt=2**31)]
OpenDimension = Annotated[str, Field(pattern=r"^[0-9]{1,5}[.][.][0-9]{1,5}$", examples=["1..512"])]
ShapeSet = dict[str, list[Dimension | OpenDimension]]
GivenShapes = ShapeSet | Annotated[list[ShapeSet], Field(min_length=1, max_length=MOST_SETS)]
"""One set of input shapes, of which one size may be any of a range, or several."""


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
    more_inputs: list[list[ModelInput]] = Field(
        default=[], description="The same for every other set of shapes that it was uploaded with."
    )
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
    flops: int | None = Field(
        description="Its operations, two a multiply-add; null where its shapes do not tell."
    )


class Workloads(BaseModel):
    """What there is to tune in a model."""

    workloads: list[WorkloadUse] = Field(description="Distinct workloads in the order they first occur.")
    not_tunable: list[NotTunable] = Field(description="Products that no kernel computes.")
    operators: dict[str, int] = Field(
        description="How many nodes of each of ONNX's operators the model is made of as it is built, most "
        "first; empty of a model that was uploaded long ago.",
        examples=[{"Conv": 26, "Relu": 26, "Concat": 8}],
    )
    tunable_share: float | None = Field(
        description="Share of the operations of all products that can be tuned, those left out whose shapes "
        "do not tell; null without any.",
        examples=[0.998],
    )
    inputs: list[ModelInput] = Field(description="What it is fed with, in these shapes.")


class Forecast(BaseModel):
    """What a model's layers may take on a target."""

    target: str = Field(description="The target's name.", examples=["rpi4"])
    clock: str = Field(description="By which time it is: `wall` or `simulated:...`.")
    threads: int = Field(description="Threads that kernels run on.")
    predicted_ms: float = Field(
        description="Sum over the layers of what the machine model says of the analysis's configs.",
        examples=[63.5],
    )
    expected_ms: float = Field(
        description="The same, with the best record of each layer that has one.", examples=[48.2]
    )
    known: int = Field(description="How many of the distinct workloads have a record.", examples=[12])
    workloads: int = Field(description="How many there are.", examples=[18])
    without: int = Field(description="Those of which nothing is known or foretold; not in the sums.")


class GraphNode(BaseModel):
    """One node of a model as a build sees it: a product with all that is computed along with it is one."""

    name: str = Field(description="As in the file.", examples=["conv1"])
    op: str = Field(description="The operator, or the workload for people.", examples=["MaxPool"])
    workload: str = Field(description="The workload's key; empty of what is not tuned.")
    reads: list[int] = Field(description="Places in the list of those whose results it reads.")


class ModelGraph(Items[GraphNode]):
    """The nodes of a model, each behind those that it reads; none of a graph that is too large to be shown.

    Its inputs and outputs are nodes, too; constants are left out.
    """


class ModelPage(Page[Model]):
    """Models, the newest first."""


class ModelCheck(BaseModel):
    """A built model, run once on random inputs, beside its own definition."""

    tolerance: float = Field(description="How far an output may be off, relative to its largest value.")
    errors: dict[str, float] = Field(description="How far each output is off.")
    allowed: dict[str, float] = Field(description="How far each may be: more where the model amplifies.")
    by: str = Field(description="Who computed the definition: `onnxruntime 1.31.1`.")
    wrong: str = Field(description="The first tensor that is wrong, and how; empty when none is.")
    skipped: str = Field(description="Why nothing was compared; empty when it was.")
    where: str = Field(description="What it ran on: `board pi-3`; empty when nothing was compared.")
    blunt: list[str] = Field(default=[], description="Outputs of which the check could hardly have failed.")
    inside: int = Field(
        default=0, description="Tensors inside compared too, each by what the definition has before it."
    )


class LibraryRequest(BaseModel):
    """A C library: what it is called, and which of its processors is meant."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(
        description="What its names in C begin with.", pattern="^[A-Za-z][A-Za-z0-9_]*$", max_length=100
    )
    targets: list[str] = Field(
        description="The targets that it is built for, the best first.", min_length=1, max_length=8
    )
    level: int = Field(
        default=0, strict=True, ge=0, description="Which of them it is to be run for, by its place."
    )


class BuildRequest(BaseModel):
    """A build of a model: for which target, and by which part of a tuning log."""

    model_config = ConfigDict(extra="forbid")

    target: str = Field(description="A target's name.", examples=["rpi4"])
    threads: int = Field(default=1, strict=True, ge=1, le=4096, description="Threads that kernels run on.")
    numerics: Numerics = Field(default=Numerics.EXACT_INTEGERS, description="What configs may be used.")
    shapes: GivenShapes | None = Field(
        default=None, description="Of dynamic inputs; several sets make one module that takes any of them."
    )
    records: list[dict[str, Any]] = Field(default=[], description="The log's records to choose from.")
    relayouts: list[str] = Field(default=[], description="The log's lines of layout changes.")
    library: LibraryRequest | None = Field(
        default=None, description="Build it as this C library; without, as a module."
    )


class BuildCheck(BaseModel):
    """A build that was run on a board, beside the model's definition."""

    sha256: str = Field(description="Of the module, or of a library's code and weights: the same anywhere.")
    checked: bool = Field(description="Whether it was compared with the definition, and is right.")
    check: ModelCheck = Field(description="What was compared.")
    each: list[ModelCheck] = Field(default=[], description="The same for each of several sets of shapes.")
