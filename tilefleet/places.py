"""Where a build is to be written: looked at before an hour of work, not after it."""

from __future__ import annotations

import os
from pathlib import Path

from tilefleet.errors import TilefleetError


def check_file(path: Path) -> None:
    """Raise TilefleetError where no file can be written at ``path``."""
    if path.is_dir():
        raise TilefleetError(f"{path} is a folder: name a file in it, like {path / 'model.so'}")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise TilefleetError(
            f"there is no folder {folder} to write {path.name} to: make it, or choose with -o"
        )
    _check_writable(folder)


def check_folder(path: Path) -> None:
    """Raise TilefleetError where a folder at ``path`` can neither be made nor written to."""
    there = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise TilefleetError(f"{there} is no folder: choose another one with -o")
    _check_writable(there)


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise TilefleetError(f"{folder} cannot be written to: choose another folder with -o")
