"""Storing models: the file by its content hash, then the row."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import or_, select, tuple_
from sqlalchemy.orm import Session

from compiler.intake.archive import is_archive
from compiler.intake.extraction import Extraction
from compiler.intake.shapes import Values
from server.db.database import Database
from server.db.documents import DamagedError, readable
from server.db.insert import insert
from server.db.stored import read
from server.db.tables import ModelRow, now
from server.http.json_text import parse
from server.http.problems import Problem, invalid
from server.http.uploads import Upload, forget_old, sha256
from server.in_child import Nursery
from server.models.extraction import extract, read_graph
from server.remembered import Remembered
from worker.children.nursery import Flag

Shapes = dict[str, list[int | str]] | list[dict[str, list[int | str]]]
"""One set of input shapes, or several."""
KEPT = 64
"""Extractions with other shapes than the upload's that are remembered."""


class Models:
    """The uploaded models. A model exists when its row does; a file without a row means nothing."""

    def __init__(self, db: Database, folder: Path, nursery: Nursery, largest: int) -> None:
        """No model of more than ``largest`` bytes is stored."""
        self._db, self.folder, self._nursery, self._largest = db, folder, nursery, largest
        self._others = Remembered[Extraction](KEPT)
        self._graphs = Remembered[list[dict[str, Any]]](KEPT)
        self.incoming = folder / "incoming"
        self.incoming.mkdir(parents=True, exist_ok=True)
        forget_old(self.incoming)

    def path(self, model_hash: str) -> Path:
        """Where its file is."""
        return self.folder / model_hash

    def file(self, row: ModelRow) -> Path:
        """The stored file; a 404 problem where somebody has removed or cut it, as after half a restore."""
        if not self._is_whole(row):
            raise Problem(404, f"the file of model {row.name} is not in {self.folder}; upload it again")
        return self.path(row.hash)

    def _is_whole(self, row: ModelRow) -> bool:
        path = self.path(row.hash)
        # Where the sizes differ, file or row may be damaged: the content tells.
        return path.is_file() and (path.stat().st_size == row.size or sha256(path) == row.hash)

    def add(
        self,
        upload: Upload,
        name: str,
        shapes: Shapes | None,
        values: Values | None = None,
        cancelled: Flag | None = None,
    ) -> tuple[ModelRow, bool]:
        """Extract and store; the same bytes are the same model. Returns the row and whether it is new.

        Inputs that ``values`` names are constants in what is stored, and the data that a zip has beside its
        model are in that. Ends early once ``cancelled`` is set.
        """
        if not upload.size:
            raise Problem(422, f"model {name} is empty")
        if values or is_archive(upload.path):
            whole = upload.path.with_name(f"{upload.path.name}.whole")
            try:
                extraction = self._extract(upload.path, name, shapes, cancelled, whole, values)
                return self._store(whole, whole.stat().st_size, sha256(whole), name, shapes, extraction)
            finally:
                whole.unlink(missing_ok=True)
        known = self._known(upload.sha256, shapes)
        if known is not None:
            return self._renamed(known, name), False
        extraction = self._extract(upload.path, name, shapes, cancelled)
        return self._store(upload.path, upload.size, upload.sha256, name, shapes, extraction)

    def _known(self, model_hash: str, shapes: Shapes | None) -> ModelRow | None:
        """The model if it and its file are stored already; a 409 problem if that was with other shapes."""
        with self._db.read() as session:
            known = session.get(ModelRow, model_hash)
        if known is not None and readable(partial(extraction_of, known), None, "an upload") is None:
            return None  # which mends it
        if known is not None and shapes is not None and shapes != known.shapes:
            raise Problem(
                409,
                f"model {known.name} is stored already, with shapes {json.dumps(known.shapes)}; "
                "give other shapes to the job",
            )
        return known if known is not None and self._is_whole(known) else None

    def _store(
        self, path: Path, size: int, model_hash: str, name: str, shapes: Shapes | None, extraction: Extraction
    ) -> tuple[ModelRow, bool]:
        """Move the file at ``path`` to its place and write its row, unless it is stored already."""
        known = self._known(model_hash, shapes)
        if known is not None:
            return self._renamed(known, name), False
        path.replace(self.path(model_hash))
        whole: dict[str, Any] = {
            "hash": model_hash,
            "name": name,
            "size": size,
            "shapes": shapes,
            "extraction": extraction.to_json(),
            "created": now(),
        }
        with self._db.write() as session:
            stored = session.get(ModelRow, model_hash)
            if stored is not None:
                if readable(partial(extraction_of, stored), None, "an upload") is None:
                    stored.shapes, stored.extraction = whole["shapes"], whole["extraction"]
                return stored, False
            session.execute(insert(session, ModelRow).values(whole).on_conflict_do_nothing())
            return session.get_one(ModelRow, model_hash), True

    def _renamed(self, known: ModelRow, name: str) -> ModelRow:
        """The model, which is called what it was called last."""
        if known.name == name:
            return known
        with self._db.write() as session:
            row = session.get_one(ModelRow, known.hash)
            row.name = name
            return row

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

    def extraction(self, row: ModelRow, shapes: Shapes | None, cancelled: Flag | None = None) -> Extraction:
        """What there is to tune in a model, with other input shapes if given.

        To read it with others takes up to a minute: whoever gives shapes has a turn
        (``Services.reading``), which says when it is ``cancelled``.
        """
        if shapes is None or shapes == row.shapes:
            return extraction_of(row)
        key = row.hash, json.dumps(shapes, sort_keys=True)
        return self._others.get(key, lambda: self._extract(self.file(row), row.name, shapes, cancelled))

    def graph(self, row: ModelRow, shapes: Shapes | None, cancelled: Flag) -> list[dict[str, Any]]:
        """The nodes of a model; with other input shapes than the upload's, if given."""
        given = row.shapes if shapes is None else shapes
        asked = row.hash, json.dumps(given, sort_keys=True)
        return self._graphs.get(
            asked, lambda: read_graph(self._nursery, self.file(row), row.name, given, cancelled)
        )

    def _extract(
        self,
        path: Path,
        name: str,
        shapes: Shapes | None,
        cancelled: Flag | None,
        assembled: Path | None = None,
        values: Values | None = None,
    ) -> Extraction:
        return extract(self._nursery, path, name, shapes, cancelled, assembled, values, self._largest)


def extraction_of(row: ModelRow) -> Extraction:
    """What there is to tune in a model; raises DamagedError where that cannot be read."""
    try:
        return read(row.extraction, Extraction.from_json, f"model {row.name}")
    except DamagedError as error:
        raise DamagedError(f"{error}; to mend it, upload its file again") from None


def parse_shapes(text: str | None) -> Shapes | None:
    """Read the ``shapes`` parameter: a JSON object of input name -> list of dimensions, or several."""
    if text is None:
        return None
    value = _parsed(text)
    sets = value if isinstance(value, list) and value else [value]
    if not all(isinstance(each, dict) and all(map(_is_shape, each.values())) for each in sets):
        raise invalid(
            f'shapes must be like {{"input": [1, 3, 224, 224]}}, or a list of such, got {text[:200]}',
            "query",
            "shapes",
        )
    shapes: Shapes = value
    return shapes


def parse_values(text: str | None) -> Values | None:
    """Read the ``values`` parameter: a JSON object of input name -> list of numbers."""
    if text is None:
        return None
    value = _parsed(text)
    if not isinstance(value, dict) or not all(_is_value(numbers) for numbers in value.values()):
        raise invalid(f'values must be like {{"rate": [16000]}}, got {text[:200]}', "query", "values")
    return value


def _parsed(text: str) -> Any:
    """The JSON value; None, which nobody takes, where it is none."""
    try:
        return parse(text)
    except ValueError:
        return None


def _is_value(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(item) in (int, float) for item in value)


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, str) if type(item) is not int else 0 <= item < 2**31 for item in value
    )
