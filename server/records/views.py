"""Stored records as the API shows them."""

from __future__ import annotations

from server.records.schemas import Record
from tuner.log.record import Record as TuningRecord


def show(id_: int, record: TuningRecord) -> Record:
    """The stored record as the API shows it."""
    derived = {
        "workload_key": record.workload.key,
        "text": str(record.workload),
        "gflops": record.gflops,
        "unit": record.workload.unit,
        "numerics": record.numerics,
        "layouts": str(record.layouts),
    }
    return Record.model_validate({**record.to_json(), "id": id_, **derived})
