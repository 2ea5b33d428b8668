"""Weights that a model keeps in other files, written into it; where those are, a stranger may have said."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Protocol

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from onnx import ModelProto, TensorProto

from compiler.ir.checks import ModelError, graphs_of, size_of, tensors_of
from compiler.readers.model_file import parse_bytes

MAX_ENTRIES = 1000
"""Files in an archive."""
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError)
"""What reading a damaged archive raises, or one that is encrypted or packed in another way."""


class Parts(Protocol):
    """The files that a model's weights may be in."""

    def read(self, location: str, offset: int, length: int) -> bytes:
        """``length`` bytes, or fewer where the file ends before; ModelError when there is no such file."""


def locations(path: Path) -> list[str]:
    """The files that the model at ``path`` keeps weights in, each once, as it says them; none for no ONNX."""
    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
        found = [_entries(tensor).get("location", "") for _, tensor in _outside(model)]
    except (DecodeError, ModelError):
        return []  # who reads it says what is wrong with it
    return list(dict.fromkeys(found))


def attach(model: ModelProto, parts: Parts, largest: int) -> None:
    """Write what lies in ``parts`` into ``model``, which may grow to ``largest`` bytes.

    Raises ModelError that names the weight for places outside of ``parts``, and for what does not fit.
    """
    left = largest - model.ByteSize()
    for where, tensor in _outside(model):
        entries = _entries(tensor)
        location, needed = entries.get("location", ""), size_of(tensor, where)
        offset, length = (_number(entries, key, where) for key in ("offset", "length"))
        if length not in (None, needed):
            raise ModelError(f"{where} needs {needed} bytes and says that {location!r} has {length} of it")
        left -= needed
        if left < 0:
            raise ModelError(f"the model with its data would have more than {largest} bytes")
        check_location(location, where)
        data = parts.read(location, offset or 0, needed)
        if len(data) != needed:
            raise ModelError(
                f"{where} needs {needed} bytes at {offset or 0} of {location!r}, which has fewer"
            )
        del tensor.external_data[:]
        tensor.ClearField("data_location")
        tensor.raw_data = data


def check_location(location: str, where: str) -> None:
    """Refuse whatever is no plain path below the model's folder; raises ModelError."""
    path = PurePosixPath(location)
    plain = location and location.isprintable() and not path.is_absolute() and "\\" not in location
    if not plain or ".." in path.parts or ":" in location:
        raise ModelError(
            f"{where} keeps its data in {location[:200]!r}, which is no path below the model's folder"
        )


def _outside(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    for graph in graphs_of(model.graph):
        for where, tensor in tensors_of(graph):
            if tensor.data_location == TensorProto.EXTERNAL:
                yield where, tensor


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _number(entries: dict[str, str], key: str, where: str) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ModelError(f"{where} has the {key} {text[:50]!r} in its file")
    return int(text)


class Beside:
    """Files in the model's folder, and others that a user names: those are taken by their names."""

    def __init__(self, model: Path, files: Sequence[Path]) -> None:
        self._folder, self._given = model.parent, {path.name: path for path in files}

    def path(self, location: str) -> Path:
        """The file at a checked ``location``; ModelError when there is none, or only a link."""
        given = self._given.get(PurePosixPath(location).name)
        path = given or self._folder / location
        if given is None and path.exists() and path.resolve() != self._folder.resolve() / location:
            raise ModelError(f"{location!r} beside the model is a link: give the file by --data FILE")
        if not path.is_file():
            raise ModelError(
                f"the model keeps weights in {location!r}, which is not beside it: give it by --data FILE"
            )
        return path

    def read(self, location: str, offset: int, length: int) -> bytes:
        """See ``Parts``."""
        with self.path(location).open("rb") as file:
            file.seek(offset)
            return file.read(length)


class Archive:
    """Files of a zip that has one model and what belongs to it; none is ever written anywhere."""

    def __init__(self, archive: zipfile.ZipFile, largest: int) -> None:
        """Raises ModelError for anything but a few plain files of ``largest`` bytes in all."""
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if len(entries) > MAX_ENTRIES or sum(entry.file_size for entry in entries) > largest:
            raise ModelError(f"the archive holds more than {MAX_ENTRIES} files or {largest} bytes")
        for entry in entries:
            check_location(entry.filename, "the archive")
            if stat.S_ISLNK(entry.external_attr >> 16):
                raise ModelError(f"the archive has the link {entry.filename!r}; only files are read")
        models = [entry for entry in entries if entry.filename.lower().endswith(".onnx")]
        if len(models) != 1:
            raise ModelError(f"the archive has {len(models)} files that end with .onnx, and should have one")
        self._archive, self._model = archive, models[0].filename
        self._sizes = {entry.filename: entry.file_size for entry in entries}
        self._open = ("", b"")

    def model(self) -> ModelProto:
        """The model."""
        return parse_bytes(self._whole(self._model), self._model)

    def read(self, location: str, offset: int, length: int) -> bytes:
        """See ``Parts``."""
        name = str(PurePosixPath(self._model).parent / location)
        if name not in self._sizes:
            raise ModelError(f"the model keeps weights in {location!r}, which the archive does not have")
        if self._open[0] != name:
            self._open = ("", b"")  # two at once may be too much
            self._open = (name, self._whole(name))
        return self._open[1][offset : offset + length]

    def _whole(self, name: str) -> bytes:
        with self._archive.open(name) as file:
            return file.read(self._sizes[name])


@contextmanager
def opened(path: Path, largest: int) -> Iterator[Archive]:
    """The zip at ``path``; raises ModelError for one that is damaged or hostile."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield Archive(archive, largest)
    except ModelError:
        raise
    except DAMAGE as error:
        raise ModelError(f"{path.name} is a zip that cannot be read ({error})") from None


def pack(model: Path, to: Path, parts: Beside, names: Sequence[str]) -> None:
    """Write a zip of ``model`` and the files ``names`` of ``parts`` to ``to``; ModelError for one missing."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as archive:
        archive.write(model, "model.onnx")
        for name in names:
            check_location(name, "the model")
            archive.write(parts.path(name), os.path.normpath(name))
