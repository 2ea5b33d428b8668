"""C into objects and an archive, by what comes in ``ziglang``: no compiler is needed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.target import Target
from worker.build.toolchain import ZIG
from worker.fleet.drivers.agent_build import agent_triple, machine_flags

TIMEOUT_S = 300
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g0")
# What would import functions of the compiler's own.
_PLAIN = ("-fno-stack-protector", "-fno-sanitize=all")
_PYTHONS = {
    "x86_64": "x86_64",
    "aarch64": "aarch64",
    "arm": "armv7l",
    "powerpc64le": "ppc64le",
    "riscv64": "riscv64",
}
"""What Python calls zig's machines that it runs on."""


class ToolError(RuntimeError):
    """A tool refused; the message is what it said."""


def compile_c(source: Path, output: Path, target: Target) -> None:
    """Compile ``source`` for ``target``'s machine, whatever its processor; raises ToolError."""
    triple = agent_triple(target.triple)
    flags = (*_FLAGS, *_PLAIN, *machine_flags(triple))
    _zig("cc", "-target", triple, *flags, "-c", str(source), "-o", str(output))


def stripped(path: Path) -> None:
    """Take what is for debuggers out of the object at ``path``; raises ToolError."""
    whole = path.with_suffix(".whole.o")
    path.replace(whole)
    try:
        _zig("ld.lld", "-r", "--strip-debug", str(whole), "-o", str(path))
    finally:
        whole.unlink()


def archive(objects: Sequence[Path], output: Path) -> None:
    """A static library of ``objects``; raises ToolError."""
    output.unlink(missing_ok=True)
    _zig("ar", "rcsD", str(output), *map(str, objects))


def link_shared(objects: Sequence[Path], output: Path) -> None:
    """A shared library of ``objects``, which finds the rest where it is loaded; raises ToolError."""
    _zig("ld.lld", "-shared", "-z", "now", "--hash-style=both", *map(str, objects), "-o", str(output))


@dataclass(frozen=True)
class Glibc:
    """A Linux of ``machine``, as Python calls it, with glibc ``version`` or newer; ``triple`` is zig's."""

    triple: str
    machine: str
    version: str


def glibc_of(target: Target) -> Glibc:
    """The oldest such that zig links for; raises ToolError where Python runs on none."""
    machine, _, system = agent_triple(target.triple).split("-")
    if machine not in _PYTHONS:
        raise ToolError(f"there is no Python for {target.name}, and no onnxruntime")
    version = "2.27" if machine == "riscv64" else "2.17"
    triple = f"{machine}-linux-{system.replace('musl', 'gnu')}.{version}"
    return Glibc(triple, _PYTHONS[machine], version)


def link_for_glibc(sources: Sequence[Path], output: Path, system: Glibc, exports: str | None = None) -> None:
    """A shared library of objects and C sources with what they need of ``system``; raises ToolError.

    Others see no more of it than the function ``exports``, where that is given.
    """
    options = ["-target", system.triple, "-shared", "-s", "-pthread", *_FLAGS]
    if exports is not None:
        seen = output.with_suffix(".exports")
        seen.write_text(f"{{ global: {exports}; local: *; }};\n")
        options.append(f"-Wl,--version-script={seen}")
    try:
        _zig("cc", *options, *map(str, sources), "-o", str(output))
    finally:
        output.with_suffix(".exports").unlink(missing_ok=True)


def _zig(*arguments: str) -> None:
    command = [str(ZIG), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise ToolError(f"{arguments[0]}: {done.stderr.strip()[-1000:]}")
