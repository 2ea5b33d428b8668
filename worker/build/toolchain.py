"""What candidates are made with: the linker, and the versions of everything that shapes the code."""

from __future__ import annotations

import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ziglang

ZIG = Path(ziglang.__file__).parent / "zig"
"""Called itself: ``python -m ziglang`` would start a Python for each link."""
_LINK_TIMEOUT_S = 60


class LinkError(RuntimeError):
    """The linker refused; the message is what it said."""


def versions(_: Any = None) -> dict[str, str]:
    """The fingerprint that every outcome carries. Imports TVM: to be called in a child."""
    from tvm.target.codegen import llvm_version_major

    return {
        "tilefleet": version("tilefleet"),
        "tvm": version("apache-tvm"),
        "tvm_ffi": version("apache-tvm-ffi"),
        "zig": version("ziglang"),
        "llvm": str(llvm_version_major()),
    }


def link(object_file: bytes) -> bytes:
    """A shared object from one object file, by the ELF linker that comes with zig; raises LinkError."""
    with tempfile.TemporaryDirectory(prefix="tilefleet-link-") as folder:
        source, linked = Path(folder) / "main.o", Path(folder) / "main.so"
        source.write_bytes(object_file)
        command = [
            str(ZIG),
            "ld.lld",
            "-shared",
            "-z",
            "now",
            "--hash-style=both",
            str(source),
            "-o",
            str(linked),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LINK_TIMEOUT_S, check=False)
        if done.returncode:
            raise LinkError(f"ld.lld: {done.stderr.strip()[-500:]}")
        return linked.read_bytes()
