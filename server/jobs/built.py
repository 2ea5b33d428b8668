"""The model that a job has built at its end, and what tuning gained, as the API shows them."""

from __future__ import annotations

from pydantic import BaseModel, Field

from server.models.schemas import ModelCheck


class Operator(BaseModel):
    """What a built model spends a part of its time in: one workload, or functions of one kind."""

    name: str = Field(description="The workload for people, or what the functions are called.")
    workload_key: str | None = Field(description="The workload's hash; null of what is not tuned.")
    calls: int = Field(description="How many in one run.")
    ms: float = Field(description="What all of them take of one run.")
    share: float = Field(description="`ms` over the model's time.")


class BuiltShapes(BaseModel):
    """What a built model takes with one of several sets of input shapes."""

    shapes: dict[str, list[int]] = Field(description="The shape of every input.")
    measured_ms: float | None = Field(description="Median of its runs on the board; null when it is wrong.")
    spread: float | None = Field(description="Interquartile range of the runs over their median.")
    check: ModelCheck = Field(description="What was compared.")


class BuiltModel(BaseModel):
    """The model as the job's log builds it; of several sets of input shapes, one run with each."""

    measured_ms: float | None = Field(description="Median of its runs on the board; null when it is wrong.")
    spread: float | None = Field(description="Interquartile range of the runs over their median.")
    other_ms: float | None = Field(description="The part of it in which no tuned layer is computed.")
    in_place: float = Field(
        description="How many times as long as by themselves the heaviest layers took inside a model, where "
        "they were compared there; else 1."
    )
    operators: list[Operator] = Field(
        description="All that its time is spent in, the longest first, as timed call by call in runs of the "
        "model; empty of models that were built by an older version."
    )
    checked: bool = Field(description="Whether it was compared with its definition, and is right.")
    check: ModelCheck = Field(description="What was compared.")
    each: list[BuiltShapes] = Field(default=[], description="The same for each of several sets of shapes.")


class JobVerdict(BaseModel):
    """The untuned model, which a build without a log makes, beside the delivered one; of a job of one
    workload its untuned and its best config. Both were built and run in turns on one board."""

    untuned_ms: float = Field(description="Median of the turns of what is untuned.")
    delivered_ms: float = Field(description="Median of the turns of what is delivered.")
    gain: float = Field(description="Untuned over delivered.")
    low: float = Field(description="The gain is above this, and below `high`, with a probability of 95 %.")
    high: float = Field(description="On a simulated clock, which has no noise, both are `gain`.")
    difference: bool = Field(description="Whether the interval leaves out 1.")
    rounds: int = Field(description="Turns that each had.")
    same: bool = Field(description="Whether what is delivered is untuned: `gain` is 1 then.")
    peer: str = Field(
        description="The runtime that took turns with them, `onnxruntime` or `litert`; or empty."
    )
    peer_ms: float | None = Field(description="Median of the peer's turns, or null.")
    text: str = Field(description="The verdict in words.")
