"""Arrays as the API carries them, and as numpy's files keep them."""

from __future__ import annotations

import base64
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from server.profiles.schemas import Tensor
from tilefleet.errors import TilefleetError

Array = np.ndarray[Any, Any]


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays in an ``.npz`` file by name; TilefleetError for anything else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: np.asarray(file[name]) for name in file.files}
    except (ValueError, AttributeError, EOFError, zipfile.BadZipFile):
        raise TilefleetError(
            f"{path} is no .npz file of plain arrays, as numpy.savez(file, x=...) writes it"
        ) from None


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def to_array(tensor: Tensor) -> Array:
    """An array as the API gives it."""
    found = np.frombuffer(base64.b64decode(tensor.data), np.dtype(tensor.dtype).newbyteorder("<"))
    return found.reshape(tensor.shape)
