"""An AArch64 Python with the wheels of other runtimes, emulated under the clock of a simulated board.

``python -m tuner.runtimes.guest FOLDER`` fetches it: Debian 12's Python 3.11 and its libraries, the wheels of
onnxruntime and LiteRT, and a Raspberry Pi 4's /proc/cpuinfo, unpacked into a folder. Nothing is installed.
"""

from __future__ import annotations

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
from worker.fleet.drivers.sim_models import SIM_MODELS

BOARD = "rpi4-sim"
"""The board that such wheels run on."""
_PROJECT = Path(__file__).resolve().parents[2]
_PYTHON = "usr/bin/python3.11"
_DONE = "fetched"
_DEBIAN = (
    *("libc6", "libstdc++6", "libgcc-s1", "zlib1g", "python3.11-minimal", "libpython3.11-minimal"),
    *("libpython3.11-stdlib", "libexpat1", "libffi8", "libssl3", "libbz2-1.0", "liblzma5", "libuuid1"),
    *("libsqlite3-0", "libcrypt1"),
)
_WHEELS = (
    *("onnxruntime", "ai-edge-litert==2.3.0", "numpy", "flatbuffers", "typing_extensions"),
    *("backports.strenum", "tqdm", "protobuf"),
)
_PLATFORMS = ("manylinux_2_27_aarch64", "manylinux_2_28_aarch64", "manylinux2014_aarch64")
_RUNTIMES = {"onnxruntime": "onnxruntime", "litert": "ai_edge_litert"}
_CPU = """\
processor	: {number}
Features	: fp asimd evtstrm crc32 cpuid
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x0
CPU part	: 0xd08
CPU revision	: 3

"""


class GuestError(RuntimeError):
    """The guest could not be fetched, or failed; the message says how."""


@dataclass(frozen=True)
class Guest:
    """What ``fetch`` left in ``root``; ``state_dir`` has the clock, or gets it."""

    root: Path
    state_dir: Path

    @property
    def there(self) -> bool:
        """Whether it was fetched altogether."""
        return (self.root / _DONE).exists()

    def versions(self) -> dict[str, str]:
        """The version of each runtime in it, by its name."""
        found = {}
        for name, package in _RUNTIMES.items():
            for info in (self.root / "site").glob(f"{package}-*.dist-info"):
                found[name] = info.name.removeprefix(f"{package}-").removesuffix(".dist-info")
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
        command = [str(self.root.resolve() / _PYTHON), *arguments]
        try:
            return emulate(BOARD, self.root, command, page, self.state_dir, inside)
        except EmulationError as error:
            raise GuestError(str(error)) from None

    def alone(self, request: Mapping[str, Any]) -> dict[str, float]:
        """What ``alone.py`` says of ``request``, in seconds of the simulated clock. Raises GuestError."""
        with tempfile.TemporaryDirectory(prefix="tilefleet-guest-") as name:
            file, page = Path(name) / "request.json", Path(name) / "clock"
            file.write_text(json.dumps({**request, "page": str(page)}))
            said = self.python(["-m", "tuner.runtimes.alone", str(file)], page)
        found = json.loads(said.splitlines()[-1])
        return {each: found[each] / SIM_MODELS[BOARD].hz for each in ("start", "call")}


def fetch(root: Path) -> None:
    """Fetch the guest into ``root`` by apt-get and pip; raises GuestError."""
    for each in ("wheels", "site", "proc"):
        (root / each).mkdir(parents=True, exist_ok=True)
    try:
        debian.unpack(root, "arm64", _DEBIAN)
        _wheels(root)
    except FetchError as error:
        raise GuestError(str(error)) from None
    # Libraries choose their code by the processor that they find here.
    model = "Hardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.1\n"
    text = "".join(_CPU.format(number=number) for number in range(4))
    (root / "proc" / "cpuinfo").write_text(text + model)
    (root / _DONE).write_text("")


def _wheels(root: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    pip += ["--python-version", "3.11", "-d", str(root / "wheels")]
    for platform in _PLATFORMS:
        pip += ["--platform", platform]
    debian.run([*pip, *_WHEELS], root)
    for wheel in sorted((root / "wheels").glob("*.whl")):
        debian.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(root / "site")], root)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]).resolve())
