"""Building the board agent from its C sources with the C compiler that comes in ``ziglang``."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "agent"
FLAGS = ("-O2", "-static", "-s", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")
BUILD_TIMEOUT_S = 600  # zig builds musl itself, once for each target: about a minute on one core


class AgentBuildError(RuntimeError):
    """The agent could not be built; the message ends with what the compiler said."""


def host_triple() -> str:
    """The triple of this machine."""
    machine = platform.machine()
    return f"{'powerpc64le' if machine == 'ppc64le' else machine}-linux-musl"


def _fingerprint(triple: str) -> str:
    """16 hex digits over everything that the binary depends on."""
    digest = hashlib.sha256(f"{triple} {version('ziglang')} {' '.join(FLAGS)}".encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(f"{source.name}\0".encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def build_agent(triple: str, out_dir: Path) -> Path:
    """Return the agent for ``triple`` (for example ``x86_64-linux-musl``), built into ``out_dir`` if needed.

    The file's name holds a hash of sources, flags and compiler, so an old build is never mistaken for a new
    one. Several processes may build at once: each builds its own and the last rename wins. Raises
    AgentBuildError.
    """
    agent = out_dir / f"tilefleet-agent-{triple}-{_fingerprint(triple)}"
    if agent.exists():
        return agent
    out_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".agent-", dir=out_dir) as folder:
        built = Path(folder) / "agent"
        sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
        command = [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            "-target",
            triple,
            *FLAGS,
            *sources,
            "-o",
            str(built),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise AgentBuildError(f"building the agent for {triple} took over {BUILD_TIMEOUT_S} s") from None
        if done.returncode:
            raise AgentBuildError(f"building the agent for {triple} failed:\n{done.stderr[-2000:]}")
        built.replace(agent)
    return agent
