"""Building the board agent and the simulated clock from C, by the compiler that comes in ``ziglang``."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path

from worker.fleet.drivers.compile_share import telling_share
from worker.phases import phases

SOURCES = Path(__file__).resolve().parents[2] / "agent"
CLOCK_SOURCES = SOURCES.parent / "simclock"
_SMALL = ("-O2", "-s")
STATIC = (*_SMALL, "-static")
"""What other static programs are built with, too: where these differ zig builds one more libc, a minute."""
_FLAGS = (*_SMALL, "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")
_AGENT_FLAGS = (*_FLAGS, "-static")
_PLUGIN_FLAGS = (*_FLAGS, "-shared", "-fPIC", "-fvisibility=hidden")
_OF_MACHINE = {"hexagon": ("-mllvm", "-slot1-store-slot0-load=0")}
"""As ``kernels/isa/hexagon.py`` says of the code of kernels."""
_CLASSIFY = "classify_"
CLOCK_PARTS = ("fast_memory", "ahead", "exclusive")
"""What the clock has for some boards alone: what bears its name, a file or a part of one."""
_OLDEST_GLIBC = "2.28"  # the plugin runs in any emulator that is linked with this one or a newer one
_CLOCK_TRIPLE = f"x86_64-linux-gnu.{_OLDEST_GLIBC}"
"""What stands in clocks' names, whatever the machine: they count the same on all."""
MACHINES = tuple(sorted(path.stem.removeprefix("arch_") for path in SOURCES.glob("arch_*.h")))
"""What the agent can be built for, as zig calls it; each is a file of the agent's."""
_ARM32 = re.compile(r"armv[78]\w*")
"""32-bit Arm as LLVM and Linux call it. The agent's code is for Armv7 with NEON."""
BUILD_TIMEOUT_S = 600  # zig builds musl itself, once for each target: about a minute on one core


class AgentBuildError(RuntimeError):
    """The agent or the clock could not be built; the message ends with what the compiler said."""


def host_triple() -> str:
    """The triple of this machine."""
    return agent_triple(platform.machine())


def agent_triple(triple: str) -> str:
    """The agent's triple for a machine that kernels are built for as ``triple``. Raises AgentBuildError."""
    word = triple.partition("-")[0]
    machine = {"ppc64le": "powerpc64le", "arm64": "aarch64"}.get(word, word)
    if _ARM32.fullmatch(machine):
        machine = "arm"
    if machine not in MACHINES:
        raise AgentBuildError(f"no agent can be built for {triple!r}, only for {', '.join(MACHINES)}")
    return f"{machine}-linux-musl" + ("eabihf" if machine == "arm" else "")


def machine_flags(triple: str) -> tuple[str, ...]:
    """What C for the agent's ``triple`` is compiled with beside all else."""
    return _OF_MACHINE.get(triple.partition("-")[0], ())


def build_agent(triple: str, out_dir: Path, folder: Path = SOURCES) -> Path:
    """Return the agent for ``triple`` (for example ``x86_64-linux-musl``), built into ``out_dir`` if needed.

    The file's name holds a hash of sources, flags and compiler, so an old build is never mistaken for a new
    one; it is removed when there is a new one. Several processes may build at once: each builds its own and
    the last rename wins. ``folder`` has the sources. Raises AgentBuildError.
    """
    prefix = f"tilefleet-agent-{triple}-"
    flags = (*_AGENT_FLAGS, *machine_flags(triple))
    agent = out_dir / f"{prefix}{_fingerprint(triple, flags, folder.glob('*.[ch]'))}"
    sources = [str(source) for source in sorted(folder.glob("*.c"))]
    header = f'-DARCH_HEADER="arch_{triple.partition("-")[0]}.h"'
    options = ["-target", triple, *flags, header, *sources]
    return _build(agent, f"the agent for {triple}", options, prefix, telling_share)


def build_plugin(out_dir: Path) -> Path:
    """Return the clock of simulated boards, a plugin for this machine's QEMU, as ``build_agent`` does."""
    prefix = "tilefleet-clock-"
    plugin = out_dir / f"{prefix}{plugin_fingerprint()}.so"
    sources = [str(source) for source in sorted(CLOCK_SOURCES.glob("*.c"))]
    names = sorted(path.stem.removeprefix(_CLASSIFY) for path in CLOCK_SOURCES.glob(f"{_CLASSIFY}*.c"))
    isas = f"-DISAS={' '.join(f'X({name})' for name in names)}"
    options = ["-target", _plugin_triple(), *_PLUGIN_FLAGS, isas, "-I", str(SOURCES), *sources]
    return _build(plugin, "the clock of simulated boards", options, prefix)


def plugin_fingerprint(isa: str = "", parts: Collection[str] = ()) -> str:
    """16 hex digits over all that the clock is built from, or over what concerns one instruction set and
    those of CLOCK_PARTS that a board has."""
    sources = {*CLOCK_SOURCES.glob("*.[ch]"), SOURCES / "simulation_page.h"}
    if not isa:
        return _fingerprint(_plugin_triple(), _PLUGIN_FLAGS, sources)
    # Neither one instruction set more nor another machine that emulates is another clock.
    sources -= {*CLOCK_SOURCES.glob(f"{_CLASSIFY}*.c")} - {CLOCK_SOURCES / f"{_CLASSIFY}{isa}.c"}
    # Nor is a part that the board does not have.
    others = [part for part in CLOCK_PARTS if part not in parts]
    sources -= {path for part in others for path in CLOCK_SOURCES.glob(f"{part}.[ch]")}
    return _fingerprint(_CLOCK_TRIPLE, _PLUGIN_FLAGS, sources, without=[*map(_marked, others)])


def _marked(part: str) -> re.Pattern[bytes]:
    """What the clock's sources have for a part of CLOCK_PARTS, beside its own files."""
    name = part.replace("_", " ").encode()
    return re.compile(rb"[^\n]*/\* %b \{ \*/.*?/\* \} %b \*/\n" % (name, name), re.DOTALL)


def _plugin_triple() -> str:
    return f"{host_triple().replace('-musl', '-gnu')}.{_OLDEST_GLIBC}"


def _fingerprint(
    triple: str, flags: tuple[str, ...], sources: Iterable[Path], without: Iterable[re.Pattern[bytes]] = ()
) -> str:
    """16 hex digits over everything that a binary depends on; ``without`` the text that these find."""
    digest = hashlib.sha256(f"{triple} {version('ziglang')} {' '.join(flags)}".encode())
    for source in sorted(sources):
        text = source.read_bytes()
        for pattern in without:
            text = pattern.sub(b"", text)
        digest.update(f"{source.name}\0".encode() + text)
    return digest.hexdigest()[:16]


def _build(
    output: Path,
    what: str,
    options: list[str],
    prefix: str,
    telling: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Path:
    if output.exists():
        return output
    output.parent.mkdir(parents=True, exist_ok=True)
    phases.info("building %s, once: it takes about a minute", what)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=output.parent) as folder:
        built = Path(folder) / "built"
        command = [sys.executable, "-P", "-m", "ziglang", "cc", *options, "-o", str(built)]
        try:
            with telling():
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
                )
        except subprocess.TimeoutExpired:
            raise AgentBuildError(f"building {what} took over {BUILD_TIMEOUT_S} s") from None
        if done.returncode:
            raise AgentBuildError(f"building {what} failed:\n{done.stderr[-2000:]}")
        built.replace(output)
    for old in output.parent.glob(f"{prefix}*"):
        if old != output:
            old.unlink(missing_ok=True)
    return output
