"""One model file of what a user has: a file, and values for inputs that shall be constants."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.frontend.model_file import MAX_FILE_BYTES, parse_file
from tuner.frontend.onnx_check import ModelError
from tuner.intake.values import Values, give_values


def assemble(path: Path, to: Path, values: Values) -> None:
    """Write the model at ``path``, the inputs that ``values`` names as constants in it, to ``to``.

    Raises ModelError for what is no usable model, and for values that do not go with it.
    """
    model = parse_file(path)
    give_values(model, values)
    size = model.ByteSize()
    if size > MAX_FILE_BYTES:
        raise ModelError(f"{path.name} would be {size} bytes; a model file holds at most {MAX_FILE_BYTES}")
    to.write_bytes(model.SerializeToString(deterministic=True))


@contextmanager
def assembled(path: Path, values: Values) -> Iterator[Path]:
    """The file that ``assemble`` writes, for a while, or ``path`` itself where there is nothing to add."""
    if not values:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="tilefleet-model-") as folder:
        to = Path(folder) / path.name
        assemble(path, to, values)
        yield to
