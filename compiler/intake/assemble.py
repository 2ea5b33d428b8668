"""One model file of what a user has: a file, data beside it, and values of inputs that shall be constants."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from onnx import ModelProto

from compiler.intake.archive import is_archive
from compiler.intake.external_data import Beside, attach, locations, opened, pack
from compiler.intake.shapes import Values
from compiler.intake.values import give_values
from compiler.ir.checks import ModelError
from compiler.readers.model_file import MAX_FILE_BYTES, parse_file


def assemble(path: Path, to: Path, values: Values, largest: int = MAX_FILE_BYTES) -> None:
    """Write the model at ``path`` to ``to``, with the inputs that ``values`` names as constants.

    ``path`` may be a zip of a model and its data. Raises ModelError for what is no usable model or would
    take more than ``largest`` bytes, and for values that do not go with it. Nothing but the file is read.
    """
    if is_archive(path):
        with opened(path, largest) as archive:
            model = archive.model()
            attach(model, archive, largest)
    else:
        model = parse_file(path)
    give_values(model, values)
    _write(model, to, largest)


@contextmanager
def assembled(path: Path, values: Values, data: Sequence[Path] = ()) -> Iterator[Path]:
    """One file for a while of the model at ``path``, what it keeps in others, and ``values``.

    It is ``path`` itself where there is nothing to add. Others are those beside it, and ``data``. Raises
    ModelError as ``assemble`` does, and when one is missing.
    """
    with tempfile.TemporaryDirectory(prefix="tilefleet-model-") as folder:
        to = Path(folder) / path.name
        if is_archive(path):
            assemble(path, to, values)
        elif not values and not locations(path):
            yield path
            return
        else:
            model = parse_file(path)
            attach(model, Beside(path, data), MAX_FILE_BYTES)
            give_values(model, values)
            _write(model, to, MAX_FILE_BYTES)
        yield to


@contextmanager
def packed(path: Path, data: Sequence[Path] = ()) -> Iterator[Path]:
    """A zip for a while of the model at ``path`` and what it keeps in other files, which REST takes.

    It is ``path`` itself where that is all. Raises ModelError when a file is missing or lies elsewhere.
    """
    names = locations(path)
    with tempfile.TemporaryDirectory(prefix="tilefleet-model-") as folder:
        if not names:
            yield path
            return
        to = Path(folder) / "model.zip"
        pack(path, to, Beside(path, data), names)
        yield to


def _write(model: ModelProto, to: Path, largest: int) -> None:
    size = model.ByteSize()
    if size > min(largest, MAX_FILE_BYTES):
        raise ModelError(f"the model would be {size} bytes; at most {min(largest, MAX_FILE_BYTES)} are taken")
    to.write_bytes(model.SerializeToString(deterministic=True))
