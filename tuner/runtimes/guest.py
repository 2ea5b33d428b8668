"""An AArch64 Python with the wheels of other runtimes, emulated under the clock of a simulated board.

``python -m tuner.runtimes.guest FOLDER`` fetches it: Debian 12's Python 3.11 and its libraries, the wheels of
onnxruntime and LiteRT, and a Raspberry Pi 4's /proc/cpuinfo, unpacked into a folder. Nothing is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.fleet.drivers.agent_build import build_plugin
from worker.fleet.drivers.sim_models import SIM_MODELS

BOARD = "rpi4-sim"
"""The board that such wheels run on."""
TIMEOUT_S, FETCH_S = 1800, 900
_PROJECT = Path(__file__).resolve().parents[2]
_PYTHON = "usr/bin/python3.11"
_DONE = "fetched"
_PAGE_BYTES = 4096
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
        page.write_bytes(bytes(_PAGE_BYTES))
        figures, root = SIM_MODELS[BOARD], self.root.resolve()
        options = {**figures.options(), "page": page, "clock": BOARD}
        words = [str(build_plugin(self.state_dir)), *(f"{name}={value}" for name, value in options.items())]
        inside = {
            "LD_LIBRARY_PATH": f"{root}/usr/lib/aarch64-linux-gnu:{root}/lib/aarch64-linux-gnu",
            "PYTHONHOME": f"{root}/usr",
            "PYTHONPATH": f"{root}/site:{_PROJECT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        emulator = shutil.which(figures.emulator) or figures.emulator
        command = [emulator, "-cpu", figures.emulated_cpu, "-L", str(root)]
        # QEMU separates a plugin's options by commas; a comma in a value is written twice.
        command += ["-plugin", ",".join(word.replace(",", ",,") for word in words)]
        for name, value in inside.items():
            command += ["-E", f"{name}={value}"]
        try:
            done = subprocess.run(
                [*command, str(root / _PYTHON), *arguments],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
                env={"PATH": os.environ.get("PATH", "")},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GuestError(f"{emulator} does not run, or takes too long: {error}") from None
        if done.returncode:
            said = done.stderr.strip()[-500:] or f"it ended with code {done.returncode}"
            raise GuestError(f"it failed under {emulator}: {said}")
        return done.stdout

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
    for each in ("apt/lists/partial", "apt/archives/partial", "debs", "wheels", "site", "proc"):
        (root / each).mkdir(parents=True, exist_ok=True)
    status = root / "apt" / "status"
    status.write_text("")
    apt = ["apt-get", "-qq", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]
    apt += ["-o", f"Dir::State={root / 'apt'}", "-o", f"Dir::State::status={status}"]
    apt += ["-o", f"Dir::Cache={root / 'apt'}"]
    _run([*apt, "update"], root)
    _run([*apt, "download", *_DEBIAN], root / "debs")
    for package in sorted((root / "debs").glob("*.deb")):
        _run(["dpkg", "-x", str(package), str(root)], root)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    pip += ["--python-version", "3.11", "-d", str(root / "wheels")]
    for platform in _PLATFORMS:
        pip += ["--platform", platform]
    _run([*pip, *_WHEELS], root)
    for wheel in sorted((root / "wheels").glob("*.whl")):
        _run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(root / "site")], root)
    # Libraries choose their code by the processor that they find here.
    model = "Hardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.1\n"
    text = "".join(_CPU.format(number=number) for number in range(4))
    (root / "proc" / "cpuinfo").write_text(text + model)
    (root / _DONE).write_text("")


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GuestError(f"{command[0]}: {error}") from None
    if done.returncode:
        said = re.sub(r"\s+", " ", done.stderr).strip()[-300:]
        raise GuestError(f"{' '.join(command[:3])} failed: {said}")


if __name__ == "__main__":
    fetch(Path(sys.argv[1]).resolve())
