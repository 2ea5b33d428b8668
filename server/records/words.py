"""Finding workloads by words that people use: what stands in their text."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernels.workload import base as workloads
from server.db.tables import WorkloadRow
from server.http.problems import Problem

MOST = 8
"""Words of a search: each asks the database for all workloads that have it."""
_TEXTS: dict[str, str] = {}
_SMALL: dict[str, str] = {}
"""Texts, and what words are looked for in, by key: a hash of all that a text says, so both stay true."""


def texts(session: Session) -> dict[str, str]:
    """The text of every workload by its key; damaged ones are left out."""
    keys = set(session.execute(select(WorkloadRow.key)).scalars())
    unknown = list(keys - _TEXTS.keys())
    for at in range(0, len(unknown), 500):
        query = select(WorkloadRow.key, WorkloadRow.document)
        for key, document in session.execute(query.where(WorkloadRow.key.in_(unknown[at : at + 500]))):
            try:
                _TEXTS[key] = text = str(workloads.from_json(document))
                _SMALL[key] = f"{text.lower()} {key}"
            except Exception:  # a row may hold anything
                continue
    return {key: _TEXTS[key] for key in keys if key in _TEXTS}


def split(search: str | None) -> list[str]:
    """The words that are asked for, each once, in small letters; 422 for more than ``MOST``."""
    found = list(dict.fromkeys((search or "").lower().split()))
    if len(found) > MOST:
        raise Problem(422, f"search has {len(found)} words: give at most {MOST}")
    return found


def having(found: dict[str, str], words: list[str]) -> dict[str, str]:
    """Those of the ``texts`` that have all of the words; a key counts as a word of its own."""
    return {key: text for key, text in found.items() if all(word in _SMALL[key] for word in words)}
