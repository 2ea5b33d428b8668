"""Compiled functions, kept by content between builds: what was compiled once is not compiled again."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tvm

import kernels.emit
from kernels.emit.compile import MODEL_PIPELINE
from kernels.target import Target

DIGEST_BYTES = 32
DEFAULT_MB = 1024
TRUSTED = "tilefleet.trusted"
"""Attribute of a function that nobody calls but code of ours: it need not look at its arguments."""
PRUNED_TO = 0.75
"""What is left of the limit when it was reached, so that not every build has to look."""


class ObjectCache:
    """A folder of object files that any number of processes use at once, or none where ``most_bytes`` is 0.

    An entry is named by what it was made of and begins with the digest of what follows: a damaged one counts
    as none. Above ``most_bytes`` those that were not used for longest go.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    @classmethod
    def of_environment(cls) -> ObjectCache:
        """That of ``TILEFLEET_CACHE`` (by default ``objects`` in ``TILEFLEET_HOME``), limited by
        ``TILEFLEET_CACHE_MB``; ValueError when that is no number."""
        home = Path(os.environ.get("TILEFLEET_HOME") or "~/.tilefleet").expanduser()
        text = os.environ.get("TILEFLEET_CACHE_MB", str(DEFAULT_MB))
        if not text.isdecimal():
            raise ValueError(f"TILEFLEET_CACHE_MB must be megabytes, or 0 for no cache, got {text!r}")
        return cls(Path(os.environ.get("TILEFLEET_CACHE") or home / "objects"), int(text) << 20)

    def get(self, key: str) -> bytes | None:
        """The object file of ``key``, or None when there is none, or a damaged one."""
        path = self._path(key)
        try:
            data = path.read_bytes() if self._most_bytes else b""
            digest, content = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
            if hashlib.sha256(content).digest() != digest:
                return None
            os.utime(path)
        except OSError:
            return None
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep an object file; where there is no room or no right to, nothing happens."""
        if not self._most_bytes:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Readers never see half a file.
            descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            Path(partial).replace(path)
        except OSError:
            return

    def prune(self) -> None:
        """Remove what was not used for longest, where there is more than the limit."""
        files = []
        for path in self._folder.glob("*/*"):
            try:
                status = path.stat()
            except OSError:  # another process was faster
                continue
            files.append((status.st_mtime, status.st_size, path))
        left = sum(size for _, size, _ in files)
        if left <= self._most_bytes:
            return
        for _, size, path in sorted(files, key=lambda file: file[0]):
            if left <= PRUNED_TO * self._most_bytes:
                return
            path.unlink(missing_ok=True)
            left -= size

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.o"


def compiled(functions: dict[str, Any], target: Target, objects: ObjectCache) -> list[bytes]:
    """An object file of each PrimFunc, in the order of their names: kept ones, else compiled now."""
    found = []
    missed = False
    for name in sorted(functions):
        module = tvm.IRModule({name: functions[name]})
        key = key_of(module, target)
        content = objects.get(key)
        if content is None:
            missed = True
            content = _compile(module, target)
            objects.put(key, content)
        found.append(content)
    if missed:
        objects.prune()
    return found


def key_of(module: Any, target: Target) -> str:
    """What names the object of ``module``: its text, the target, and all that makes code of it."""
    facts = [
        _makers(),
        repr(target.tvm),
        tvm.ir.save_json(module),
    ]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()


@cache
def _makers() -> str:
    """The versions and our own passes, on which the code of a function depends."""
    from tvm.target.codegen import llvm_version_major

    sources = sorted(Path(kernels.emit.__file__).parent.rglob("*.py"))
    passes = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    versions = [version(package) for package in ("apache-tvm", "apache-tvm-ffi")]
    return " ".join([passes, *versions, str(llvm_version_major())])


def _compile(module: Any, target: Target) -> bytes:
    trusted = any(TRUSTED in (each.attrs or {}) for each in module.functions.values())
    with tvm.transform.PassContext(config={"tirx.disable_assert": trusted}):
        built = tvm.tirx.build(module, target=tvm.target.Target(target.tvm), pipeline=MODEL_PIPELINE)
    # TVM writes objects to files only.
    with tempfile.TemporaryDirectory(prefix="tilefleet-object-") as folder:
        path = Path(folder) / "function.o"
        built.write_to_file(str(path), "o")
        return path.read_bytes()
