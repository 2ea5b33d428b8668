"""A C library as a Python package: a wheel that needs NumPy alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.clibrary.library import Library
from tuner.clibrary.pool import pool
from tuner.clibrary.toolchain import Glibc, glibc_of, link_for_glibc

_PACKAGE = Path(__file__).with_name("package.py")  # which only works within a wheel
_HASH_DIGITS = 12
_EPOCH = (1980, 1, 1, 0, 0, 0)
_PROGRAM, _FILE = 0o755, 0o644


def write_wheel(library: Library, objects: Sequence[Path], manifest: Mapping[str, Any], folder: Path) -> Path:
    """Write the wheel of a library that consists of ``objects`` into ``folder``; its path.

    The same content always makes the same file, and another one another version. Raises ToolError where there
    is no Python for the target.
    """
    name = library.name
    shared = folder / f"lib{name}.so"
    system = link_loadable(library, objects, shared)
    files = {
        f"{name}/__init__.py": _PACKAGE.read_bytes(),
        f"{name}/library.json": (json.dumps(manifest, indent=2) + "\n").encode(),
        f"{name}/{shared.name}": shared.read_bytes(),
    }
    content = hashlib.sha256(b"".join(files.values())).hexdigest()[:_HASH_DIGITS]
    version = f"{library.version}+{content}"
    tag = f"py3-none-manylinux_{system.version.replace('.', '_')}_{system.machine}"
    distribution = re.sub("_+", "_", name).lower()
    info = f"{distribution}-{version}.dist-info"
    files |= {
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            f"Summary: {library.model.encode('unicode_escape').decode()} as machine code, made by Tilefleet\n"
            "Requires-Dist: numpy\nRequires-Python: >=3.10\n"
        ).encode(),
        f"{info}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: tilefleet {library.version}\n"
            f"Root-Is-Purelib: false\nTag: {tag}\n"
        ).encode(),
    }
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = folder / f"{distribution}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (_PROGRAM if path.endswith(".so") else _FILE) << 16
            archive.writestr(entry, data)
    return wheel


def link_loadable(library: Library, objects: Sequence[Path], shared: Path) -> Glibc:
    """Link ``objects`` as a library ``shared`` that Python loads, with a pool if it has several threads.

    Returns the system that it is for. Raises ToolError.
    """
    if library.threads > 1:
        source = shared.with_name(f"{library.name}_pool.c")
        source.write_text(_pooled(library))
        objects = [*objects, source]
    system = glibc_of(library.variants[0].target)
    link_for_glibc(objects, shared, system)
    return system


def _pooled(library: Library) -> str:
    """C that runs ``library`` by a pool, which Python keeps the memory of."""
    name, prefix = library.name, library.prefix
    which, given = library.declared, library.handed
    return f"""\
#include "{name}.h"

{pool(library.threads)}
size_t {name}_pool_bytes(void) {{ return sizeof(Pool); }}
void {name}_pool_begin(void *pool) {{ pool_begin(pool, {prefix}_THREADS - 1); }}
int {name}_run_in_pool(int processor, {which}void *arena, const void *const *inputs, void *const *outputs,
                       void *pool) {{
  return {name}_run_on(processor, {given}arena, inputs, outputs, pool ? pool_parallel_for : 0, pool);
}}
"""


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
