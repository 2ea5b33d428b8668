"""By what jobs can be sorted, apart from the schemas: a command's options need no more than this."""

from __future__ import annotations

from enum import StrEnum


class Order(StrEnum):
    """What jobs can be sorted by."""

    ID = "id"
    NAME = "name"
    MODEL = "model"
    TARGET = "target"
    STATE = "state"
    ELAPSED = "elapsed"
    FINISHED = "finished"
