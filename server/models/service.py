"""Storing models: the file by its content hash, then the row."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import or_, select, tuple_
from sqlalchemy.orm import Session

from server.db.database import Database
from server.db.insert import insert
from server.db.tables import ModelRow, now
from server.http.problems import Problem, invalid
from server.http.uploads import Upload
from server.models.extraction import Nursery, extract
from tuner.frontend.extract import Extraction

Shapes = dict[str, list[int]]
PARSERS = 2
"""Models parsed at once: each may take gigabytes."""


class Models:
    """The uploaded models. A model exists when its row does; a file without a row means nothing."""

    def __init__(self, db: Database, folder: Path, nursery: Nursery) -> None:
        self._db, self._folder, self._nursery = db, folder, nursery
        self._parsers = threading.BoundedSemaphore(PARSERS)
        self.incoming = folder / "incoming"
        self.incoming.mkdir(parents=True, exist_ok=True)

    def path(self, model_hash: str) -> Path:
        """The stored file."""
        return self._folder / model_hash

    def add(self, upload: Upload, name: str, shapes: Shapes | None) -> tuple[ModelRow, bool]:
        """Extract and store; the same bytes are the same model. Returns the row and whether it is new."""
        if not upload.size:
            raise Problem(422, f"model {name} is empty")
        with self._db.read() as session:
            known = session.get(ModelRow, upload.sha256)
        if known is not None:
            if shapes is not None and shapes != known.shapes:
                raise Problem(
                    409,
                    f"model {known.name} is stored already, with shapes {json.dumps(known.shapes)}; "
                    "give other shapes to the job",
                )
            return known, False
        extraction = self._extract(upload.path, name, shapes)
        upload.path.replace(self.path(upload.sha256))
        row = {
            "hash": upload.sha256,
            "name": name,
            "size": upload.size,
            "shapes": shapes,
            "extraction": extraction.to_json(),
            "created": now(),
        }
        with self._db.write() as session:
            session.execute(insert(session, ModelRow).values(row).on_conflict_do_nothing())
            return session.get_one(ModelRow, upload.sha256), True

    def page(self, after: str | None, limit: int) -> Sequence[ModelRow]:
        """Models, the newest first, from behind the one whose hash is ``after``."""
        query = select(ModelRow).order_by(ModelRow.created.desc(), ModelRow.hash.desc()).limit(limit)
        with self._db.read() as session:
            if after is not None:
                last = self.get(session, after)
                query = query.where(tuple_(ModelRow.created, ModelRow.hash) < (last.created, last.hash))
            return session.execute(query).scalars().all()

    def get(self, session: Session, model_hash: str, *loc: str | int) -> ModelRow:
        """The model with this hash, or with the only hash that begins so; else 404, or 422 at ``loc``."""
        rows: Sequence[ModelRow] = []
        if re.fullmatch(r"[0-9a-f]{8,64}", model_hash):
            query = select(ModelRow).where(
                or_(ModelRow.hash == model_hash, ModelRow.hash.startswith(model_hash))
            )
            rows = session.execute(query.limit(2)).scalars().all()
        if len(rows) == 1:
            return rows[0]
        detail = f"there is no model {model_hash}" if not rows else f"several models begin with {model_hash}"
        raise invalid(detail, *loc) if loc else Problem(404, detail)

    def extraction(self, row: ModelRow, shapes: Shapes | None) -> Extraction:
        """What there is to tune in a model, with other input shapes if given."""
        if shapes is None or shapes == row.shapes:
            return Extraction.from_json(row.extraction)
        return self._extract(self.path(row.hash), row.name, shapes)

    def _extract(self, path: Path, name: str, shapes: Shapes | None) -> Extraction:
        with self._parsers:
            return extract(self._nursery, path, name, shapes)


def parse_shapes(text: str | None) -> Shapes | None:
    """Read the ``shapes`` parameter: a JSON object of input name -> list of dimensions."""
    if text is None:
        return None
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not all(_is_shape(shape) for shape in value.values()):
        raise invalid(
            f'shapes must be like {{"input": [1, 3, 224, 224]}}, got {text[:200]}', "query", "shapes"
        )
    return value


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 < item < 2**31 for item in value)
