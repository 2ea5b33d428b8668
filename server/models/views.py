"""Stored models as the API shows them."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.intake.extraction import Extraction
from compiler.intake.extraction import ModelInput as Input
from kernels.workload import base as workloads
from server.db.tables import ModelRow
from server.models.schemas import Model, ModelInput, NotTunable, Workloads, WorkloadUse
from server.models.service import extraction_of


def show(row: ModelRow) -> Model:
    """The stored model as the API shows it."""
    extraction = extraction_of(row)
    tunable = sum(operator.count for operator in extraction.operators)
    return Model(
        hash=row.hash,
        name=row.name,
        size=row.size,
        inputs=_inputs(extraction.inputs),
        more_inputs=[_inputs(inputs) for inputs in extraction.more],
        operators=tunable + len(extraction.not_tunable),
        tunable=tunable,
        flops=extraction.flops,
        created=row.created,
    )


def _inputs(inputs: Iterable[Input]) -> list[ModelInput]:
    return [ModelInput(name=each.name, shape=list(each.shape)) for each in inputs]


def show_workloads(extraction: Extraction) -> Workloads:
    """An extraction as the API shows it."""
    return Workloads(
        workloads=[
            WorkloadUse(
                key=each.workload.key,
                text=str(each.workload),
                workload=workloads.to_json(each.workload),
                count=each.count,
                nodes=[" + ".join(names) for names in each.nodes],
                flops=each.workload.flops,
                unit=each.workload.unit,
            )
            for each in extraction.operators
        ],
        not_tunable=[
            NotTunable(node=each.node, op=each.op, reason=each.reason, flops=each.flops)
            for each in extraction.not_tunable
        ],
        operators=extraction.census,
        tunable_share=_share(extraction),
        inputs=_inputs(extraction.inputs),
    )


def _share(extraction: Extraction) -> float | None:
    tuned = sum(each.workload.flops * each.count for each in extraction.operators)
    whole = tuned + sum(each.flops or 0 for each in extraction.not_tunable)
    return tuned / whole if whole else None
