"""An AArch64 Python with the wheels of other runtimes, emulated under the clock of a simulated board.

``python -m tuner.runtimes.guest FOLDER`` fetches it: Debian 12's Python 3.11 and its libraries, the wheels of
the runtimes, and their converters for this machine where those are not installed, unpacked into a folder.
Nothing is installed, and a runtime that has no such wheel is left out.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.runtimes import debian
from tuner.runtimes.debian import FetchError
from tuner.runtimes.emulated import EmulationError, emulate
from tuner.runtimes.prepare import PACKAGES
from worker.fleet.drivers.sim_models import SIM_MODELS

BOARD = "rpi4-sim"
"""The board that is meant where none is named."""
_CORES = 4
_PROJECT = Path(__file__).resolve().parents[2]
_PYTHON = "3.11"
_DONE = "fetched"
"""The file that says what was: a later version may want more."""
DEBIAN = (
    *("libc6", "libstdc++6", "libgcc-s1", "zlib1g", "python3.11-minimal", "libpython3.11-minimal"),
    *("libpython3.11-stdlib", "libexpat1", "libffi8", "libssl3", "libbz2-1.0", "liblzma5", "libuuid1"),
    *("libsqlite3-0", "libcrypt1"),
)
_COMMON = ("numpy", "typing_extensions", "tqdm")
_WHEELS = {
    "onnxruntime": ("onnxruntime", "flatbuffers", "protobuf"),
    "litert": ("ai-edge-litert==2.3.0", "flatbuffers", "backports.strenum", "protobuf"),
    "openvino": ("openvino", "openvino_telemetry"),
    "ncnn": ("ncnn",),
    "mnn": ("MNN",),
}
_CONVERTERS = {"ncnn": ("pnnx", "pnnx"), "mnn": ("MNN", "MNN")}
"""The module and the wheel of what makes a runtime's file of a model, on this machine."""
_PLATFORMS = (
    "manylinux2014_aarch64",
    *(f"manylinux_2_{minor}_aarch64" for minor in (27, 28, 31, 34, 35, 36)),
)
_CPU = """\
processor	: {number}
Features	: fp asimd evtstrm crc32 cpuid{features}
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: {variant}
CPU part	: {part}
CPU revision	: {revision}

"""
_DOT = " aes pmull sha1 sha2 atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp"
_NEOVERSE_V1 = {"part": "0xd40", "variant": "0x1", "revision": "1", "features": f"{_DOT} asimdfhm i8mm bf16"}
_CPUS = {
    BOARD: {"part": "0xd08", "variant": "0x0", "revision": "3", "features": ""},
    "rpi5-sim": {"part": "0xd0b", "variant": "0x4", "revision": "1", "features": _DOT},
    "graviton3-sim": _NEOVERSE_V1,
}
"""What /proc/cpuinfo says on a board that such wheels run on: libraries choose their code by it."""
BOARDS = tuple(_CPUS)


class GuestError(RuntimeError):
    """The guest could not be fetched, or failed; the message says how."""


@dataclass(frozen=True)
class Guest:
    """What ``fetch`` left in ``root``, run on a ``board``; ``state_dir`` has the clock, or gets it."""

    root: Path
    state_dir: Path
    board: str = BOARD

    @property
    def there(self) -> bool:
        """Whether it was fetched altogether."""
        done = self.root / _DONE
        return done.exists() and done.read_text() == _wanted()

    @property
    def tools(self) -> Path:
        """Where Python finds the converters that are not installed here."""
        return self.root / "tools"

    def versions(self) -> dict[str, str]:
        """The version of each runtime in it, by its name."""
        found = {}
        for name, package in PACKAGES.items():
            for info in (self.root / "site").glob(f"{package.lower()}-*.dist-info"):
                found[name] = info.name.removeprefix(f"{package.lower()}-").removesuffix(".dist-info")
        return found

    def python(self, arguments: Sequence[str], page: Path) -> str:
        """What the emulated Python prints for ``arguments``; ``page`` is its clock's, made anew.

        Raises GuestError with what it said when it fails.
        """
        inside = {
            "PYTHONHOME": f"{self.root.resolve()}/usr",
            "PYTHONPATH": f"{self.root.resolve()}/site:{_PROJECT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        interpreter = next((self.root.resolve() / "usr" / "bin").glob("python3.*"), None)
        if not interpreter:
            raise GuestError(f"{self.root} has no Python; fetch it again")
        command = [str(interpreter), *arguments]
        try:
            return emulate(self.board, self._system(), command, page, self.state_dir, inside)
        except EmulationError as error:
            raise GuestError(str(error)) from None

    def alone(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """What ``alone.py`` says of ``request``, in seconds of the simulated clock. Raises GuestError."""
        with tempfile.TemporaryDirectory(prefix="tilefleet-guest-") as name:
            file, page = Path(name) / "request.json", Path(name) / "clock"
            file.write_text(json.dumps({**request, "page": str(page)}))
            said = self.python(["-m", "tuner.runtimes.alone", str(file)], page)
        # A library may have its word at the end of a process, too.
        answer = next((line for line in reversed(said.splitlines()) if line.startswith("{")), None)
        if answer is None:
            raise GuestError("it said nothing")
        found: dict[str, Any] = json.loads(answer)
        return found | {each: found[each] / SIM_MODELS[self.board].hz for each in ("start", "call")}

    def _system(self) -> Path:
        """What the emulated program takes for the root of its system: all that was fetched, and its cpus."""
        system = self.root / "systems" / self.board
        proc = system / "proc"
        proc.mkdir(parents=True, exist_ok=True)
        for name in ("usr", "lib", "etc"):
            with contextlib.suppress(FileExistsError):
                (system / name).symlink_to((self.root / name).resolve())
        (proc / "cpuinfo").write_text(
            "".join(_CPU.format(number=number, **_CPUS[self.board]) for number in range(_CORES))
        )
        return system


def fetch(root: Path) -> None:
    """Fetch the guest into ``root`` by apt-get and pip; raises GuestError."""
    for each in ("site", "tools"):
        (root / each).mkdir(parents=True, exist_ok=True)
    try:
        debian.unpack(root, "arm64", DEBIAN)
        _wheels(root)
    except FetchError as error:
        raise GuestError(str(error)) from None
    (root / _DONE).write_text(_wanted())


def _wanted() -> str:
    return json.dumps([DEBIAN, _COMMON, _WHEELS, _CONVERTERS])


def _wheels(root: Path) -> None:
    """Those of the runtimes for the board, and of converters for this machine; raises FetchError."""
    foreign = for_python(_PYTHON)
    unpack_wheels(root, "site", _COMMON, foreign)
    for name, wheels in _WHEELS.items():
        # A runtime without a wheel is one runtime less.
        with contextlib.suppress(FetchError):
            unpack_wheels(root, "site", wheels, foreign)
        if name in _CONVERTERS:
            module, wheel = _CONVERTERS[name]
            if importlib.util.find_spec(module) is None:
                with contextlib.suppress(FetchError):
                    unpack_wheels(root, "tools", (wheel,), ())


def for_python(version: str) -> list[str]:
    """What pip is told to fetch AArch64's wheels for Python ``version``."""
    return ["--python-version", version, *(word for each in _PLATFORMS for word in ("--platform", each))]


def unpack_wheels(root: Path, folder: str, wheels: Sequence[str], of: Sequence[str]) -> None:
    """All ``wheels`` in ``folder`` of ``root``, or none; ``of`` is ``for_python``'s, or empty for those of
    this machine. Raises FetchError."""
    pip = [sys.executable, "-P", "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    with tempfile.TemporaryDirectory(dir=root) as name:
        debian.run([*pip, "-d", name, *of, *wheels], root)
        for wheel in sorted(Path(name).glob("*.whl")):
            debian.run([sys.executable, "-P", "-m", "zipfile", "-e", str(wheel), str(root / folder)], root)
            # Which forgets that pnnx is a program.
            for program in (root / folder).glob("pnnx/pnnx"):
                program.chmod(0o755)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]).resolve())
